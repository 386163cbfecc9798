// Products and convolutions by BLAS: single-threaded calls on parts that depend on shapes alone, so
// that the bits do not depend on who computes which. A gradient to the weights of a convolution
// unfolds the image piece by piece.
#include <algorithm>

#include "runtime/cpu/machine.h"
#include "runtime/cpu/native_types.h"
#include "uop/composite.h"

namespace aster::runtime::cpu::native {
namespace {

using uop::Composite;

constexpr int64_t kNarrowest = 4;  // products with a thinner side are sums of rows
// The part of a product that one library call computes: as many rows and columns, each a multiple
// of every register tile. Every call packs its operands anew, which small parts pay for
// (bench_matmul).
constexpr int64_t kPartRows = 256, kPartRowsOfTall = 512, kTallProduct = 2048;
constexpr int64_t kPartColumns = 1024, kFewestPartColumns = 128;
constexpr int64_t kPartUnit = 64;
constexpr int64_t kPartsWanted = 4;
constexpr double kFewestPartFlops = 16e6;
constexpr int64_t kLongestColumn = 64 << 10;  // bytes of the second operand of a product
// Generated loops win below these.
constexpr int64_t kFewestWeights = 16 * 1024;

// Numbers of a plan, by position.
namespace gemm {
enum {
  kM,
  kN,
  kK,
  kTransA,
  kLdA,
  kTransB,
  kLdB,
  kOffA,
  kOffB,
  kRows,     // of a part
  kColumns,  // of a part
  kDown,     // parts of a column of parts
  kAcross,   // parts of a row of parts
  kBatchStrides
};
}
struct ConvShape {
  int64_t images, channels, height, width, filters, kernel_y, kernel_x, out_y, out_x, stride_y,
      stride_x, pad_top, pad_left, dilation_y, dilation_x;
  int64_t patch() const { return channels * kernel_y * kernel_x; }
  int64_t positions() const { return out_y * out_x; }
};

bool real(DType d) { return d == DType::kFloat32 || d == DType::kFloat64; }

// Whether BLAS computes a call, whatever it is worth.
bool possible(Node call) {
  if (!real(call->dtype) || call->count() == 0) return false;
  for (Node argument : call->src().subspan(1)) {
    if (argument->dtype != call->dtype || argument->count() == 0 || argument->count() > INT32_MAX)
      return false;
  }
  return true;
}

bool has_blas() { return blas().available && !blas().outdated; }

// A plan of a call; its estimate is of what it was given.
void finish(Plan* out, Node call, double flops) {
  out->blas = &blas();
  out->dtype = call->dtype;
  out->flops = flops;
  out->nanoseconds = flops * static_cast<double>(out->tasks) / machine::kBlasFlopsPerNanosecond;
}

// A unit stride in one of the last two axes, the other one no smaller than the row it steps over
// and one of BLAS's 32-bit numbers.
bool fits_gemm(std::span<const int64_t> strides, uop::Words shape) {
  const size_t n = shape.size();
  const int64_t rows = shape[n - 2], columns = shape[n - 1], row = strides[n - 2],
                column = strides[n - 1];
  const bool plain = (column == 1 || columns == 1) && (row >= columns || rows == 1);
  const bool transposed = (row == 1 || rows == 1) && (column >= rows || columns == 1);
  return (plain || transposed) && row <= INT32_MAX && column <= INT32_MAX;
}

ConvShape conv_shape(Node x, uop::Words w, uop::Words out, Node call) {
  return {x->dim(0),    x->dim(1),    x->dim(2),    x->dim(3),    w[0],
          w[2],         w[3],         out[2],       out[3],       call->arg(2),
          call->arg(3), call->arg(4), call->arg(6), call->arg(8), call->arg(9)};
}

// Unfolds channels [c0, c1) of one image: patch[c, ky, kx][y, x], zeros outside.
template <typename T>
void unfold(T* patch, const T* image, const ConvShape& s, int64_t c0, int64_t c1) {
  for (int64_t c = c0; c < c1; ++c) {
    const T* plane = image + c * s.height * s.width;
    for (int64_t ky = 0; ky < s.kernel_y; ++ky) {
      for (int64_t kx = 0; kx < s.kernel_x; ++kx) {
        for (int64_t oy = 0; oy < s.out_y; ++oy, patch += s.out_x) {
          const int64_t y = oy * s.stride_y - s.pad_top + ky * s.dilation_y;
          const int64_t x0 = kx * s.dilation_x - s.pad_left;
          if (y < 0 || y >= s.height) {
            std::fill(patch, patch + s.out_x, T(0));
            continue;
          }
          const T* row = plane + y * s.width;
          if (s.stride_x == 1) {
            const int64_t from = std::clamp<int64_t>(-x0, 0, s.out_x),
                          to = std::clamp(s.width - x0, from, s.out_x);
            std::fill(patch, patch + from, T(0));
            std::copy(row + x0 + from, row + x0 + to, patch + from);
            std::fill(patch + to, patch + s.out_x, T(0));
            continue;
          }
          for (int64_t ox = 0; ox < s.out_x; ++ox) {
            const int64_t x = x0 + ox * s.stride_x;
            patch[ox] = x >= 0 && x < s.width ? row[x] : T(0);
          }
        }
      }
    }
  }
}

// c = op(a) op(b), or c += ..
template <typename T>
void multiply(const Plan& plan, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T* a,
              int64_t lda, const T* b, int64_t ldb, bool accumulate, T* c, int64_t ldc) {
  const auto gemm = [&] {
    if constexpr (std::is_same_v<T, float>)
      return plan.blas->sgemm;
    else
      return plan.blas->dgemm;
  }();
  gemm(kRowMajor, ta ? kTranspose : kNoTranspose, tb ? kTranspose : kNoTranspose,
       static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), T(1), a,
       static_cast<int>(lda), b, static_cast<int>(ldb), accumulate ? T(1) : T(0), c,
       static_cast<int>(ldc));
}

// One task a part; parts depend on shapes alone, so the bits do not depend on who computes which.
template <typename T>
void run_gemm_of(const Plan& plan, void* const* operands, void*, int64_t begin, int64_t end) {
  const int64_t* p = plan.words.data();
  const int64_t m = p[gemm::kM], n = p[gemm::kN], lda = p[gemm::kLdA], ldb = p[gemm::kLdB];
  const int64_t parts = p[gemm::kDown] * p[gemm::kAcross];
  const bool ta = p[gemm::kTransA] != 0, tb = p[gemm::kTransB] != 0;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / parts, part = task % parts;
    const int64_t i = part / p[gemm::kAcross] * p[gemm::kRows],
                  j = part % p[gemm::kAcross] * p[gemm::kColumns];
    const int64_t* offsets = p + gemm::kBatchStrides + 2 * batch;
    const T* a = static_cast<const T*>(operands[0]) + p[gemm::kOffA] + offsets[0];
    const T* b = static_cast<const T*>(operands[1]) + p[gemm::kOffB] + offsets[1];
    T* c = static_cast<T*>(operands[2]) + batch * m * n;
    multiply(plan, ta, tb, std::min(p[gemm::kRows], m - i), std::min(p[gemm::kColumns], n - j),
             p[gemm::kK], a + i * (ta ? 1 : lda), lda, b + j * (tb ? ldb : 1), ldb, false,
             c + i * n + j, n);
  }
}

int64_t channels_a_task(const ConvShape& s) {
  return std::max<int64_t>(1, (64 + s.kernel_y * s.kernel_x - 1) / (s.kernel_y * s.kernel_x));
}

// One task a few channels of the image: no two write the same gradient, images are added in order.
template <typename T>
void run_weight_grad_of(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                        int64_t end) {
  const ConvShape s = get_head<ConvShape>(plan);
  T* patch = static_cast<T*>(scratch);
  const int64_t group = channels_a_task(s), taps = s.kernel_y * s.kernel_x;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t c0 = task * group, c1 = std::min(s.channels, c0 + group);
    T* out = static_cast<T*>(operands[2]) + c0 * taps;
    for (int64_t n = 0; n < s.images; ++n) {
      const T* image = static_cast<const T*>(operands[0]) + n * s.channels * s.height * s.width;
      const T* g = static_cast<const T*>(operands[1]) + n * s.filters * s.positions();
      unfold(patch, image, s, c0, c1);
      multiply(plan, false, true, s.filters, (c1 - c0) * taps, s.positions(), g, s.positions(),
               patch, s.positions(), n != 0, out, s.patch());
    }
  }
}

// A length in so many even parts: that of one, in whole units.
int64_t even_part(int64_t length, int64_t parts) {
  const int64_t each = (length + parts - 1) / parts;
  return (each + kPartUnit - 1) / kPartUnit * kPartUnit;
}

struct Parts {
  int64_t rows, columns, down, across;
};

// How a product is cut, by its shape alone: rows first; columns where they are many, or the parts
// few.
Parts parts_of(int64_t batch, int64_t m, int64_t n, int64_t k) {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto most = static_cast<int64_t>(std::max(1.0, std::min(flops / kFewestPartFlops, 1e6)));
  const int64_t tall = m >= kTallProduct ? kPartRowsOfTall : kPartRows;
  Parts out;
  out.rows = even_part(m, std::min(most, (m + tall - 1) / tall));
  out.down = (m + out.rows - 1) / out.rows;
  const int64_t missing = (kPartsWanted + batch * out.down - 1) / (batch * out.down);
  const int64_t wide = (n + kPartColumns - 1) / kPartColumns,
                narrow = std::max<int64_t>(1, n / kFewestPartColumns);
  const int64_t across =
      std::min({std::max(wide, missing), narrow, (most + out.down - 1) / out.down});
  out.columns = even_part(n, std::max<int64_t>(1, across));
  out.across = (n + out.columns - 1) / out.columns;
  return out;
}

// Generated tiles are level or ahead where a panel of columns stays in the second-level cache
// (bench/products.py).
bool worth_matmul(Node call) {
  const Node a = call->src(1), b = call->src(2);
  const int64_t m = a->dim(a->ndim - 2u), k = a->dim(a->ndim - 1u), n = b->dim(b->ndim - 1u);
  if (m < kNarrowest || n < kNarrowest) return false;
  return k * static_cast<int64_t>(dtype::size(call->dtype)) > kLongestColumn;
}

bool worth_weight_grad(Node call) { return call->arg(1) == 1 && call->count() >= kFewestWeights; }

}  // namespace

Status prepare_matmul(Plan* out, Node call, std::span<const int64_t> words) {
  const Node a = call->src(1), b = call->src(2);
  const size_t rank = a->ndim, batch_axes = rank - 2;
  const std::span<const int64_t> sa = words.subspan(1, rank), sb = words.subspan(rank + 2, rank);
  const int64_t m = a->dim(rank - 2), k = a->dim(rank - 1), n = b->dim(rank - 1);
  const auto transposed = [](std::span<const int64_t> s, uop::Words shape) {
    const size_t last = shape.size() - 1;
    return !((s[last] == 1 || shape[last] == 1) &&
             (s[last - 1] >= shape[last] || shape[last - 1] == 1));
  };
  const auto leading = [](std::span<const int64_t> s, uop::Words shape, bool t) {
    const size_t last = shape.size() - 1;
    return std::max<int64_t>({t ? s[last] : s[last - 1], t ? shape[last - 1] : shape[last], 1});
  };
  const bool ta = transposed(sa, a->shape()), tb = transposed(sb, b->shape());
  int64_t batch = 1;
  for (size_t i = 0; i < batch_axes; ++i) batch *= a->dim(i);
  const Parts parts = parts_of(batch, m, n, k);
  const int64_t numbers[] = {m,
                             n,
                             k,
                             ta,
                             leading(sa, a->shape(), ta),
                             tb,
                             leading(sb, b->shape(), tb),
                             words[0],
                             words[rank + 1],
                             parts.rows,
                             parts.columns,
                             parts.down,
                             parts.across};
  ASTER_TRY(out->words.append(numbers, std::size(numbers)));
  for (int64_t i = 0; i < batch; ++i) {
    int64_t rest = i, offset_a = 0, offset_b = 0;
    for (size_t axis = batch_axes; axis-- > 0;) {
      const int64_t at = rest % a->dim(axis);
      rest /= a->dim(axis);
      offset_a += at * sa[axis];
      offset_b += at * sb[axis];
    }
    ASTER_TRY(out->words.push(offset_a));
    ASTER_TRY(out->words.push(offset_b));
  }
  out->tasks = batch * parts.down * parts.across;
  finish(out, call,
         2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) /
             static_cast<double>(parts.down * parts.across));
  return kOk;
}

Status prepare_conv2d_weight_grad(Plan* out, Node call, std::span<const int64_t>) {
  const ConvShape s = conv_shape(call->src(1), call->shape(), call->src(2)->shape(), call);
  ASTER_TRY(put_head(out, s));
  const int64_t group = std::min(channels_a_task(s), s.channels);
  const double products = static_cast<double>(s.patch()) * static_cast<double>(s.positions()) *
                          static_cast<double>(s.filters) * static_cast<double>(s.images);
  out->tasks = (s.channels + channels_a_task(s) - 1) / channels_a_task(s);
  out->scratch_bytes = group * s.kernel_y * s.kernel_x * s.positions() *
                       static_cast<int64_t>(dtype::size(call->dtype));
  finish(out, call, 2 * products / static_cast<double>(std::max<int64_t>(out->tasks, 1)));
  return kOk;
}

bool reads_product(Node call, size_t argument, std::span<const int64_t> view) {
  return fits_gemm(view.subspan(1), call->src(argument)->shape());
}

bool takes_matmul(Node call) { return possible(call) && worth_matmul(call) && has_blas(); }
bool takes_conv2d_weight_grad(Node call) {
  return possible(call) && worth_weight_grad(call) && has_blas();
}

void run_matmul(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                int64_t end) {
  const auto run = plan.dtype == DType::kFloat32 ? run_gemm_of<float> : run_gemm_of<double>;
  run(plan, operands, scratch, begin, end);
}
void run_conv2d_weight_grad(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                            int64_t end) {
  const auto run =
      plan.dtype == DType::kFloat32 ? run_weight_grad_of<float> : run_weight_grad_of<double>;
  run(plan, operands, scratch, begin, end);
}

}  // namespace aster::runtime::cpu::native
