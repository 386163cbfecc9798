#include "tensor/registry_blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "device/device.h"
#include "engine/engine.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/features.h"
#include "tensor/linalg.h"
#include "tensor/state.h"

namespace aster::tensor::registry {
namespace {

using runtime::cpu::Blas;

// Fortran's, with 32-bit integers; matrices by columns.
template <typename T>
using Gemm = void (*)(const char* turn_a, const char* turn_b, const int* m, const int* n,
                      const int* k, const T* alpha, const T* a, const int* lda, const T* b,
                      const int* ldb, const T* beta, T* c, const int* ldc);

// [batch, m, k] times [batch, k, n].
struct Sizes3 {
  DType dtype;
  Word batch, m, k, n;
  bool operator==(const Sizes3&) const = default;
};
// Threads share the rows of a product in so many tasks, each of which packs the other matrix anew;
// the same number whatever threads there are, as bits may depend on it.
constexpr Word kTasks = 4, kLeastRows = 64;

struct Product : uop::Foreign {
  Product(Context& owner, const Sizes3& of) : context(owner), sizes(of) {}
  Context& context;
  Sizes3 sizes;
  void* gemm = nullptr;
};
struct Products {
  explicit Products(Memory& memory) : all(memory) {}
  Vec<Product*> all;
};

Word rows_of(const Sizes3& s) { return std::max(kLeastRows, (s.m + kTasks - 1) / kTasks); }
Word blocks_of(const Sizes3& s) { return (s.m + rows_of(s) - 1) / rows_of(s); }

template <typename T>
void multiply(const Product& product, char* result, const char* const* operands, int64_t begin,
              int64_t end) {
  const Sizes3& s = product.sizes;
  Gemm<T> gemm;
  std::memcpy(&gemm, &product.gemm, sizeof(gemm));
  const T one = 1, zero = 0;
  for (int64_t task = begin; task < end; ++task) {
    const Word batch = task / blocks_of(s), first = task % blocks_of(s) * rows_of(s);
    const int rows = static_cast<int>(std::min(rows_of(s), s.m - first));
    const int n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    const auto* a = reinterpret_cast<const T*>(operands[0]) + (batch * s.m + first) * s.k;
    const auto* b = reinterpret_cast<const T*>(operands[1]) + batch * s.k * s.n;
    auto* c = reinterpret_cast<T*>(result) + (batch * s.m + first) * s.n;
    // By rows, c = a b is by columns c^T = b^T a^T.
    const runtime::cpu::BlasCall turn;
    gemm("N", "N", &n, &rows, &k, &one, b, &n, a, &k, &zero, c, &n);
  }
}

void run(const uop::Foreign& self, char* result, const char* const* operands, void*, int64_t,
         int64_t begin, int64_t end) {
  const auto& product = static_cast<const Product&>(self);
  if (product.sizes.dtype == DType::kFloat64) {
    multiply<double>(product, result, operands, begin, end);
  } else {
    multiply<float>(product, result, operands, begin, end);
  }
}

Status flow(const uop::Foreign&, Graph& g, Node y, Node dy, std::span<const bool> needed,
            std::span<Node> dx) {
  const Node a = y->src(0), b = y->src(1);
  if (needed[0]) dx[0] = uop::build_matmul(g, dy, turned(g, b));
  if (needed[1]) dx[1] = uop::build_matmul(g, turned(g, a), dy);
  for (size_t i = 0; i < 2; ++i) {
    if (needed[i] && dx[i] == nullptr) return last_failure();
  }
  return kOk;
}

void* gemm_of(DType dtype) {
  const Blas& blas = runtime::cpu::blas();
  return blas.available ? dlsym(blas.library, dtype == DType::kFloat64 ? "dgemm_" : "sgemm_")
                        : nullptr;
}

Status make(Product** out, Context& context, const Sizes3& sizes) {
  Heap& heap = context.heap();
  auto* product = heap.create<Product>(context, sizes);
  if (product == nullptr) return out_of_memory(sizeof(Product));
  std::snprintf(product->name, sizeof(product->name), "openblas");
  product->form = uop::ForeignForm::kArrays;
  product->gemm = gemm_of(sizes.dtype);
  product->tasks = sizes.batch * blocks_of(sizes);
  // As a core that does 32 operations a nanosecond.
  product->nanoseconds = 1.0 / 16 * static_cast<double>(std::min(sizes.m, rows_of(sizes))) *
                         static_cast<double>(sizes.n) * static_cast<double>(sizes.k);
  product->arrays = run;
  product->gradient = flow;
  product->destroy = [](uop::Foreign* self) {
    auto* gone = static_cast<Product*>(self);
    gone->context.heap().destroy(gone);
  };
  *out = product;
  return kOk;
}

// Equal products of a context are one kernel.
Status product_for(Product** out, Context& context, const Sizes3& sizes) {
  auto* products = static_cast<Products*>(part_of(context, Part::kProducts));
  if (products == nullptr) {
    products = context.heap().create<Products>(context.heap());
    if (products == nullptr) return out_of_memory(sizeof(Products));
    const Status set =
        set_part(context, Part::kProducts, products, [](Context& owner, void* state) {
          auto* gone = static_cast<Products*>(state);
          for (Product* each : gone->all) each->release();
          owner.heap().destroy(gone);
        });
    if (!set.ok()) {
      context.heap().destroy(products);
      return set;
    }
  }
  for (Product* each : products->all) {
    if (each->sizes == sizes) return *out = each, kOk;
  }
  ASTER_TRY(products->all.reserve(products->all.size() + 1));
  ASTER_TRY(make(out, context, sizes));
  return products->all.push(*out);
}

}  // namespace

void refuse_blas(Refusal* why, Context& context, const Call& call) {
  const auto say = [&](const char* text) {
    std::snprintf(why->text, sizeof(why->text), "%s", text);
  };
  const Node a = call.operands[0], b = call.operands[1];
  const auto fits = [](Node x) {
    return std::ranges::all_of(x->shape(), [](Word size) { return size > 0 && size < INT32_MAX; });
  };
  if (a->dtype != DType::kFloat32 && a->dtype != DType::kFloat64)
    return say("float32 or float64 is needed");
  if (!fits(a) || !fits(b)) return say("sizes from 1 to 2^31 - 1 are needed");
  if (context.options().no_library != 0) return say("the context calls no library");
  if (!device::same_type(call.device, device::kCpu)) return say("the operands are on a device");
  if (gemm_of(a->dtype) == nullptr) return say("no OpenBLAS is found");
}

// Measured: bench/products.py --table.
struct Faster {
  DType dtype;
  int32_t vector_bytes;
  Word rows, terms, columns;
};
constexpr Faster kFaster[] = {
#define PRODUCT(dtype, vector_bytes, rows, terms, columns, ratio) \
  {DType::k##dtype, vector_bytes, rows, terms, columns},
#include "tensor/products.def"
};

bool blas_is_fast(Nodes operands, Node) {
  const Node a = operands[0], b = operands[1];
  const int32_t bytes = runtime::cpu::detect_features().vector_bytes;
  return std::ranges::any_of(kFaster, [&](const Faster& row) {
    return a->dtype == row.dtype && bytes == row.vector_bytes && a->dim(a->ndim - 2u) >= row.rows &&
           a->dim(a->ndim - 1u) >= row.terms && b->dim(b->ndim - 1u) >= row.columns;
  });
}

Node blas_product(engine::Engine& engine, const Call&, Nodes operands) {
  const Node a = operands[0], b = operands[1];
  Sizes3 sizes{a->dtype, 1, a->dim(a->ndim - 2u), a->dim(a->ndim - 1u), b->dim(b->ndim - 1u)};
  for (size_t i = 0; i + 2 < a->ndim; ++i) sizes.batch *= a->dim(i);
  Product* product = nullptr;
  if (!product_for(&product, engine.context, sizes).ok()) return nullptr;
  uop::Dims shape(a->shape());
  shape[a->ndim - 1u] = sizes.n;
  return engine.graph.foreign(*product, a->dtype, shape, 0, std::array{a, b});
}

}  // namespace aster::tensor::registry
