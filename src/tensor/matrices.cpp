#include "tensor/matrices.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/faults.h"
#include "tensor/state.h"
#include "uop/foreign.h"

namespace aster::tensor {
namespace {

namespace linalg = runtime::cpu::linalg;
using linalg::Result;
using linalg::Results;
using uop::brief;
using uop::Dims;

// A problem as a kernel of graphs: equal ones of a context are one object, so that equal calls are
// one node and find their schedules.
struct MatrixKernel : uop::Foreign {
  MatrixKernel(Context& owner, const Problem& which) : context(owner), problem(which) {}
  Context& context;
  const Problem problem;
};
const MatrixKernel& matrix_kernel(const uop::Foreign& kernel) {
  return static_cast<const MatrixKernel&>(kernel);
}

// The kernels of a context; beyond so many all are forgotten, and live where nodes name them.
constexpr size_t kMostKernels = 512;
struct Kernels {
  explicit Kernels(Memory& memory) : all(memory) {}
  void drop() {
    for (MatrixKernel* kernel : all) kernel->release();
    all.clear();
  }
  Vec<MatrixKernel*> all;
};

void destroy_kernel(uop::Foreign* foreign) {
  auto* kernel = static_cast<MatrixKernel*>(foreign);
  kernel->context.heap().destroy(kernel);
}

void destroy_kernels(Context& context, void* state) {
  auto* kernels = static_cast<Kernels*>(state);
  kernels->drop();
  context.heap().destroy(kernels);
}

// Matrices [begin, end) of count.
void run(const uop::Foreign& self, char* result, const char* const* operands, void* scratch,
         int64_t count, int64_t begin, int64_t end) {
  const Problem& p = matrix_kernel(self).problem;
  const Results results = results_of(p);
  const auto size = static_cast<int64_t>(dtype::size(p.dtype));
  const bool solves = p.what == What::kSolve || p.what == What::kTriangular;
  for (int64_t task = begin; task < end; ++task) {
    const void* sources[] = {operands[0] + task * p.m * p.n * size,
                             solves ? operands[1] + task * p.n * p.columns * size : nullptr};
    void* targets[kMostResults] = {};
    char* at = result;
    for (size_t i = 0; i < results.count; ++i) {
      const int64_t bytes = results.of[i].count() * size;
      targets[i] = at + task * bytes;
      at += count * bytes;
    }
    const linalg::Trouble trouble = linalg::compute(p, sources, targets, scratch);
    if (trouble.text == nullptr) continue;
    char why[128], which[48] = "";
    std::snprintf(why, sizeof(why), trouble.text, static_cast<long long>(trouble.at));
    if (count > 1)
      std::snprintf(which, sizeof(which), " number %lld", static_cast<long long>(task));
    Faults::say_failure(trouble.code, task, "%s of matrix%s: %s", linalg::name_of(p.what), which,
                        why);
  }
}

Status flow(const uop::Foreign& self, Graph& g, Node y, Node dy, std::span<const bool> needed,
            std::span<Node> dx) {
  const MatrixKernel& kernel = matrix_kernel(self);
  return decomposed_gradient(kernel.context, kernel.problem, g, y, dy, needed, dx);
}

Status kernel_for(MatrixKernel** out, Context& context, const Problem& problem) {
  auto* kernels = static_cast<Kernels*>(part_of(context, Part::kMatrices));
  if (kernels == nullptr) {
    kernels = context.heap().create<Kernels>(context.heap());
    if (kernels == nullptr) return out_of_memory(sizeof(Kernels));
    const Status set = set_part(context, Part::kMatrices, kernels, destroy_kernels);
    if (!set.ok()) {
      context.heap().destroy(kernels);
      return set;
    }
  }
  for (MatrixKernel* kernel : kernels->all) {
    if (kernel->problem == problem) {
      *out = kernel;
      return kOk;
    }
  }
  ASTER_TRY(linalg::check(problem));
  if (kernels->all.size() >= kMostKernels) kernels->drop();
  ASTER_TRY(kernels->all.reserve(kernels->all.size() + 1));
  auto* kernel = context.heap().create<MatrixKernel>(context, problem);
  if (kernel == nullptr) return out_of_memory(sizeof(MatrixKernel));
  std::snprintf(kernel->name, sizeof(kernel->name), "%s", linalg::name_of(problem.what));
  kernel->form = uop::ForeignForm::kArrays;
  kernel->tasks = 0;
  kernel->scratch_bytes = linalg::scratch_bytes(problem);
  kernel->nanoseconds = linalg::cost_of(problem);
  kernel->arrays = run;
  if (has_gradient(problem)) kernel->gradient = flow;
  kernel->destroy = destroy_kernel;
  *out = kernel;
  return kernels->all.push(kernel);
}

// Of matrices without elements, or of none: what they define is 1.
Node result_of_nothing(Graph& g, DType dtype, Words shape, const Problem& p, size_t which) {
  const size_t n = shape.size();
  if (p.what == What::kDeterminant) return g.constant(dtype, which < 2 ? 1 : 0, shape);
  const Node zeros = g.constant(dtype, 0, shape);
  if (n < 2 || zeros == nullptr || zeros->count() == 0 || shape[n - 1] != shape[n - 2])
    return zeros;
  const Expr row = iota(g, DType::kInt64, shape, n - 2),
             column = iota(g, DType::kInt64, shape, n - 1);
  return (row == column).expand(shape).cast(dtype).n;
}

Dims shape_of(Words batch, const Result& result) {
  Dims shape(batch);
  for (size_t i = 0; i < result.ndim; ++i) shape.push(result.dims[i]);
  return shape;
}

// Checks a and b, fills in their sizes, and gives both the same batch axes.
Status operands_of(Problem* p, Dims* batch, Graph& g, Node* a, Node* b) {
  const char* const name = linalg::name_of(p->what);
  const bool square = p->what != What::kLu && p->what != What::kLuFactor && p->what != What::kQr &&
                      p->what != What::kSvd && p->what != What::kSvdValues;
  const Node x = *a;
  if (x->ndim < 2) return ASTER_FAIL(kSHAPE, "%s of %s: two axes are needed", name, brief(x).text);
  const bool exact = (p->what == What::kLu || p->what == What::kLuFactor) &&
                     (x->dtype == DType::kInt32 || x->dtype == DType::kInt64);
  const bool real = x->dtype == DType::kFloat32 || x->dtype == DType::kFloat64;
  if (!real && !dtype::is_wide(x->dtype) && !exact) {
    return ASTER_FAIL(kDTYPE, "%s of %s: float32, float64 or a wide float is needed", name,
                      brief(x).text);
  }
  p->dtype = x->dtype;
  p->m = x->dim(x->ndim - 2u);
  p->n = x->dim(x->ndim - 1u);
  if (square && p->m != p->n)
    return ASTER_FAIL(kSHAPE, "%s of %s: a square matrix is needed", name, brief(x).text);
  *batch = Dims(x->shape().first(x->ndim - 2u));
  if (*b == nullptr) return kOk;
  const Node y = *b;
  if (y->ndim < 2 || y->dim(y->ndim - 2u) != p->n || y->dtype != x->dtype) {
    return ASTER_FAIL(kSHAPE, "%s of %s and %s: as many rows, and one dtype, are needed", name,
                      brief(x).text, brief(y).text);
  }
  p->columns = y->dim(y->ndim - 1u);
  const Dims own(*batch);
  if (!uop::broadcast_shape(batch, own, y->shape().first(y->ndim - 2u))) {
    return ASTER_FAIL(kSHAPE, "%s of %s and %s: their batch axes do not broadcast", name,
                      brief(x).text, brief(y).text);
  }
  *a = uop::broadcast_to(g, x, shape_of(*batch, {2, {p->m, p->n}}));
  *b = uop::broadcast_to(g, y, shape_of(*batch, {2, {p->n, p->columns}}));
  return *a == nullptr || *b == nullptr ? last_failure() : kOk;
}

// Whether x is nothing but another tensor with its last two axes swapped.
bool is_turned(Node x) {
  if (x->op != uop::Op::kPermute) return false;
  const Word last = x->ndim - 1;
  for (Word i = 0; i + 1 < last; ++i) {
    if (x->arg(static_cast<size_t>(i)) != i) return false;
  }
  return x->arg(static_cast<size_t>(last)) == last - 1;
}

// A transpose is computed with as it lies, where what is asked of it is asked of the matrix itself
// as well; others are copied row-major first.
void take_as_it_lies(Problem* p, Node* a) {
  if (!is_turned(*a)) return;
  switch (p->what) {
    case What::kSolve:
      p->turned = !p->turned;
      break;
    case What::kTriangular:
      p->turned = !p->turned;
      p->upper = !p->upper;
      break;
    case What::kEigh:
    case What::kEighValues:
      p->upper = !p->upper;
      break;
    case What::kLu:
    case What::kLuFactor:
    case What::kQr:
    case What::kEig:
    case What::kEigValues:
      p->turned = !p->turned;
      break;
    case What::kSvdValues:
      std::swap(p->m, p->n);
      break;
    case What::kDeterminant:
      break;
    default:
      return;
  }
  *a = (*a)->src(0);
}

Status make(Decomposed* out, Context& context, Graph& g, Problem p, Node a, Node b) {
  Dims batch;
  ASTER_TRY(operands_of(&p, &batch, g, &a, &b));
  take_as_it_lies(&p, &a);
  p.library = context.options().no_library == 0;
  p.rounding = dtype::is_wide(p.dtype) ? context.options().flt_rounding : 0;
  const Results results = results_of(p);
  int64_t count = 1, all = 0;
  bool fits = true;
  for (size_t i = 0; i < batch.size(); ++i) count *= batch[i];
  for (size_t i = 0; i < results.count; ++i) {
    const Result& result = results.of[i];
    int64_t size = count;
    for (size_t k = 0; k < result.ndim; ++k)
      fits = fits && checked_mul(size, result.dims[k], &size);
    fits = fits && checked_add(all, size, &all);
  }
  if (!fits)
    return ASTER_FAIL(kRANGE, "%s of %s overflows", linalg::name_of(p.what), brief(a).text);
  if (a->count() == 0 || (b != nullptr && b->count() == 0)) {
    for (size_t i = 0; i < results.count; ++i)
      out->of[i] = result_of_nothing(g, p.dtype, shape_of(batch, results.of[i]), p, i);
    return kOk;
  }
  MatrixKernel* kernel = nullptr;
  ASTER_TRY(kernel_for(&kernel, context, p));
  const Dims shape = results.count == 1 ? shape_of(batch, results.of[0]) : Dims(1, all);
  const Node operands[] = {a, b};
  const Node whole = g.foreign(*kernel, p.dtype, shape, count, {operands, b == nullptr ? 1u : 2u});
  if (whole == nullptr) return last_failure();
  *out = parts_of(g, p, batch, whole);
  return kOk;
}

}  // namespace

Decomposed parts_of(Graph& g, const Problem& problem, Words batch, Node whole) {
  const Results results = results_of(problem);
  Decomposed out;
  if (results.count == 1) {
    out.of[0] = whole;
    return out;
  }
  int64_t count = 1, at = 0;
  for (Word dim : batch) count *= dim;
  for (size_t i = 0; i < results.count; ++i) {
    const int64_t size = count * results.of[i].count();
    const Node part = g.slice(whole, std::array{at}, std::array<Word, 1>{1}, std::array{size});
    out.of[i] = g.reshape(part, shape_of(batch, results.of[i]));
    at += size;
  }
  return out;
}

Decomposed decompose(Context& context, Graph& g, Problem how, Node a, Node b) {
  Decomposed out;
  const bool solves = how.what == What::kSolve || how.what == What::kTriangular;
  if (a == nullptr || (solves && b == nullptr)) return out;
  if (!make(&out, context, g, how, a, b).ok()) return {};
  return out;
}

}  // namespace aster::tensor
