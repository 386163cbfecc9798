#include "engine/library.h"

#include <algorithm>

#include "engine/indexing.h"
#include "runtime/cpu/blas.h"
#include "uop/composite.h"
#include "uop/symbolic.h"

namespace aster::engine::library {
namespace {

using uop::Composite;
using uop::DType;
using uop::Graph;
using uop::Node;
using uop::Op;
namespace sym = uop::sym;

// What one core is taken to do, for the choice of threads and nothing else.
constexpr double kFlopsPerNanosecond = 64;

constexpr int64_t kNarrowest = 4;  // products with a thinner side are sums of rows
// The part of a product that one library call computes: as many rows and columns, each a multiple
// of every register tile. Every call packs its operands anew, which small parts pay for
// (bench_matmul).
constexpr int64_t kPartRows = 256, kPartRowsOfTall = 512, kTallProduct = 2048;
constexpr int64_t kPartColumns = 1024, kFewestPartColumns = 128;
constexpr int64_t kPartUnit = 64;
constexpr int64_t kPartsWanted = 4;
constexpr double kFewestPartFlops = 16e6;
// Elements of unfolded image that stay in the second-level cache.
constexpr int64_t kPatchElements = 256 * 1024;
// Generated tiles win below these: the second operand of a product in the second-level cache, few
// weights.
constexpr int64_t kFewestColumnElements = 192 * 1024;
// Where it is transposed, generated code adds up across lanes: dear where sums are short.
constexpr int64_t kFewestTurnedElements = 16 * 1024;
constexpr int64_t kShortestTurned = 16, kLongestTurned = 128;
constexpr int64_t kFewestTurnedProducts = 32 * 1024;  // in one product
constexpr int64_t kFewestTurnedInAll = 256 * 1024;
constexpr int64_t kFewestWeights = 16 * 1024;
constexpr int64_t kFewestWeightsOfWideImages = 64 * 1024;
constexpr int64_t kWideImage = 32;

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
constexpr size_t kConvWords = sizeof(ConvShape) / sizeof(int64_t);

ConvShape shape_of(const Plan& plan) {
  ConvShape s;
  std::memcpy(&s, plan.numbers.data(), sizeof(s));
  return s;
}

bool real(DType d) { return d == DType::kFloat32 || d == DType::kFloat64; }

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

bool row_major(std::span<const int64_t> strides, uop::Words shape) {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// A constant and a factor for each range, if x is linear in them.
bool linear_in(Vec<int64_t>* words, Node x, std::span<const Node> ranges) {
  sym::Linear linear;
  if (x == nullptr || !linear.add(x, 1)) return false;
  if (!words->push(linear.constant).ok()) return false;
  size_t matched = 0;
  for (Node range : ranges) {
    int64_t factor = 0;
    for (const sym::Term& term : linear.terms()) {
      if (term.node == range) factor = term.coefficient, ++matched;
    }
    if (!words->push(factor).ok()) return false;
  }
  return matched == linear.size();
}

ConvShape conv_shape(Node x, uop::Words w, uop::Words out, Node call) {
  return {x->dim(0),    x->dim(1),    x->dim(2),    x->dim(3),    w[0],
          w[2],         w[3],         out[2],       out[3],       call->arg(2),
          call->arg(3), call->arg(4), call->arg(6), call->arg(8), call->arg(9)};
}

// Unfolds output rows [first, last) of channels [c0, c1) of one image: patch[c, ky, kx][y, x],
// zeros outside.
template <typename T>
void unfold(T* patch, const T* image, const ConvShape& s, int64_t c0, int64_t c1, int64_t first,
            int64_t last) {
  for (int64_t c = c0; c < c1; ++c) {
    const T* plane = image + c * s.height * s.width;
    for (int64_t ky = 0; ky < s.kernel_y; ++ky) {
      for (int64_t kx = 0; kx < s.kernel_x; ++kx) {
        for (int64_t oy = first; oy < last; ++oy, patch += s.out_x) {
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
  gemm(runtime::cpu::kRowMajor, ta ? runtime::cpu::kTranspose : runtime::cpu::kNoTranspose,
       tb ? runtime::cpu::kTranspose : runtime::cpu::kNoTranspose, static_cast<int>(m),
       static_cast<int>(n), static_cast<int>(k), T(1), a, static_cast<int>(lda), b,
       static_cast<int>(ldb), accumulate ? T(1) : T(0), c, static_cast<int>(ldc));
}

// One task a part; parts depend on shapes alone, so the bits do not depend on who computes which.
template <typename T>
void run_gemm(const Plan& plan, void* const* operands, void*, int64_t begin, int64_t end) {
  const int64_t* p = plan.numbers.data();
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

bool reads_image_itself(const ConvShape& s) {
  return s.kernel_y == 1 && s.kernel_x == 1 && s.stride_y == 1 && s.stride_x == 1 &&
         s.pad_top == 0 && s.pad_left == 0 && s.out_y == s.height && s.out_x == s.width;
}

// Rows of output whose image is unfolded together.
int64_t rows_a_task(const ConvShape& s) {
  if (reads_image_itself(s)) return s.out_y;
  return std::clamp<int64_t>(kPatchElements / (s.patch() * s.out_x), 1, s.out_y);
}

// One task some rows of an image.
template <typename T>
void run_conv(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end) {
  const ConvShape s = shape_of(plan);
  T* patch = static_cast<T*>(scratch);
  const T* w = static_cast<const T*>(operands[1]);
  const bool direct = reads_image_itself(s);
  const int64_t rows = rows_a_task(s), tasks = (s.out_y + rows - 1) / rows;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t n = task / tasks, y = task % tasks * rows, last = std::min(s.out_y, y + rows),
                  width = (last - y) * s.out_x;
    const T* image = static_cast<const T*>(operands[0]) + n * s.channels * s.height * s.width;
    T* out = static_cast<T*>(operands[2]) + n * s.filters * s.positions();
    if (!direct) unfold(patch, image, s, 0, s.channels, y, last);
    multiply(plan, false, false, s.filters, width, s.patch(), w, s.patch(), direct ? image : patch,
             width, false, out + y * s.out_x, s.positions());
  }
}

int64_t channels_a_task(const ConvShape& s) {
  return std::max<int64_t>(1, (64 + s.kernel_y * s.kernel_x - 1) / (s.kernel_y * s.kernel_x));
}

// One task a few channels of the image: no two write the same gradient, images are added in order.
template <typename T>
void run_weight_grad(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                     int64_t end) {
  const ConvShape s = shape_of(plan);
  T* patch = static_cast<T*>(scratch);
  const int64_t group = channels_a_task(s), taps = s.kernel_y * s.kernel_x;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t c0 = task * group, c1 = std::min(s.channels, c0 + group);
    T* out = static_cast<T*>(operands[2]) + c0 * taps;
    for (int64_t n = 0; n < s.images; ++n) {
      const T* image = static_cast<const T*>(operands[0]) + n * s.channels * s.height * s.width;
      const T* g = static_cast<const T*>(operands[1]) + n * s.filters * s.positions();
      unfold(patch, image, s, c0, c1, 0, s.out_y);
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

Status prepare_gemm(Plan* out, Node call, std::span<const int64_t> words) {
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
  ASTER_TRY(out->numbers.append(numbers, std::size(numbers)));
  for (int64_t i = 0; i < batch; ++i) {
    int64_t rest = i, offset_a = 0, offset_b = 0;
    for (size_t axis = batch_axes; axis-- > 0;) {
      const int64_t at = rest % a->dim(axis);
      rest /= a->dim(axis);
      offset_a += at * sa[axis];
      offset_b += at * sb[axis];
    }
    ASTER_TRY(out->numbers.push(offset_a));
    ASTER_TRY(out->numbers.push(offset_b));
  }
  out->tasks = batch * parts.down * parts.across;
  out->flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) /
               static_cast<double>(parts.down * parts.across);
  return kOk;
}

Status prepare_conv(Plan* out, Node call, std::span<const int64_t>) {
  const bool weights = uop::composite_of(call) == Composite::kConv2dWeightGrad;
  const Node x = call->src(1);
  const ConvShape s = weights ? conv_shape(x, call->shape(), call->src(2)->shape(), call)
                              : conv_shape(x, call->src(2)->shape(), call->shape(), call);
  int64_t words[kConvWords];
  std::memcpy(words, &s, sizeof(s));
  ASTER_TRY(out->numbers.append(words, kConvWords));
  const int64_t element = static_cast<int64_t>(dtype::size(out->dtype));
  const double products = static_cast<double>(s.patch()) * static_cast<double>(s.positions()) *
                          static_cast<double>(s.filters) * static_cast<double>(s.images);
  if (weights) {
    const int64_t group = std::min(channels_a_task(s), s.channels);
    out->tasks = (s.channels + channels_a_task(s) - 1) / channels_a_task(s);
    out->scratch_bytes = group * s.kernel_y * s.kernel_x * s.positions() * element;
  } else {
    const int64_t rows = rows_a_task(s);
    out->tasks = s.images * ((s.out_y + rows - 1) / rows);
    out->scratch_bytes = reads_image_itself(s) ? 0 : s.patch() * rows * s.out_x * element;
  }
  out->flops = 2 * products / static_cast<double>(std::max<int64_t>(out->tasks, 1));
  return kOk;
}

bool is_turned(Node x) {
  while (x->op == Op::kReshape || x->op == Op::kExpand || x->op == Op::kDetach) x = x->src(0);
  return x->op == Op::kPermute;
}

bool worth_matmul(Node call) {
  const Node a = call->src(1), b = call->src(2);
  const int64_t m = a->dim(a->ndim - 2u), k = a->dim(a->ndim - 1u), n = b->dim(b->ndim - 1u);
  if (m < kNarrowest || n < kNarrowest || k < kNarrowest) return false;
  if (!is_turned(b)) return n * k >= kFewestColumnElements;
  return n * k >= kFewestTurnedElements ||
         (k >= kShortestTurned && k <= kLongestTurned && m * n * k >= kFewestTurnedProducts &&
          call->count() * k >= kFewestTurnedInAll);
}

bool worth_conv2d(Node call) {
  if (call->dim(2) * call->dim(3) > INT32_MAX) return false;
  const bool wide = call->dim(3) >= kWideImage;
  return call->arg(1) == 1 &&
         call->src(2)->count() >= (wide ? kFewestWeightsOfWideImages : kFewestWeights);
}

bool worth_weight_grad(Node call) { return call->arg(1) == 1 && call->count() >= kFewestWeights; }

// The registry: composites that have an implementation besides their body. A row tells when it is
// worth a call, which views of an argument it reads, how a call is prepared and run.
struct Implementation {
  Composite composite;
  const char* name;
  bool (*worth)(Node call);
  bool (*reads)(std::span<const int64_t> strides, uop::Words shape);
  Status (*prepare)(Plan* out, Node call, std::span<const int64_t> words);
  void (*run_f32)(const Plan&, void* const* operands, void* scratch, int64_t begin, int64_t end);
  void (*run_f64)(const Plan&, void* const* operands, void* scratch, int64_t begin, int64_t end);
};
constexpr Implementation kImplementations[] = {
    {Composite::kMatmul, "Matmul:library", worth_matmul, fits_gemm, prepare_gemm, run_gemm<float>,
     run_gemm<double>},
    {Composite::kConv2d, "Conv2d:library", worth_conv2d, row_major, prepare_conv, run_conv<float>,
     run_conv<double>},
    {Composite::kConv2dWeightGrad, "Conv2dWeightGrad:library", worth_weight_grad, row_major,
     prepare_conv, run_weight_grad<float>, run_weight_grad<double>},
};

const Implementation* implementation_of(Node call) {
  for (const Implementation& row : kImplementations) {
    if (row.composite == uop::composite_of(call)) return &row;
  }
  return nullptr;
}

// Elements in the order of memory, some of them repeated.
bool in_order(std::span<const int64_t> strides, uop::Words shape) {
  int64_t before = INT64_MAX;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1 || strides[i] == 0) continue;
    if (strides[i] > before) return false;
    before = strides[i];
  }
  return true;
}

bool is_index(Node call, size_t i) { return call->op == Op::kScatter && i > 1; }

// Whether a view (offset, strides) of argument i can be read as it is.
bool readable(Node call, size_t i, std::span<const int64_t> view, uop::Words shape) {
  const std::span<const int64_t> strides = view.subspan(1);
  if (call->op == Op::kCall) return implementation_of(call)->reads(strides, shape);
  if (call->op == Op::kScatter && i > 0) return in_order(strides, shape);
  return view[0] == 0 && row_major(strides, shape);
}

bool moves_elements(Op op) {
  return op == Op::kReshape || op == Op::kPermute || op == Op::kSlice || op == Op::kExpand ||
         op == Op::kDetach;
}

// An element of a source of node, in the place of node's.
Status step_down(Vec<Node>* index, Graph& g, Node node) {
  Place place(g.memory());
  Node own = nullptr;
  ASTER_TRY(source_place(&place, &own, g, node, 0, {index->data(), index->size()}, nullptr));
  index->clear();
  return index->append(place.index.data(), place.index.size());
}

// The length of the axis that index i of a Scatter names.
int64_t length_indexed(Node call, size_t i) {
  size_t axis = 0;
  while (call->arg(1 + axis) != 1 - static_cast<uop::Word>(i)) ++axis;
  return call->dim(axis);
}

// Whether elements of a node are those of its last source, counted from the end where negative.
bool counts_from_end(Node node, int64_t length) {
  if (node->op != Op::kWhere) return false;
  const Node negative = node->src(0), moved = node->src(1), x = node->src(2);
  return !dtype::is_unsigned(x->dtype) && negative->op == Op::kCmpLt && negative->src(0) == x &&
         uop::is_const_value(negative->src(1), 0) && moved->op == Op::kAdd && moved->src(0) == x &&
         uop::is_const(moved->src(1)) && uop::const_int(moved->src(1)) == length;
}

// The value of a tensor at a place, if it is Iotas and constants added and multiplied; else null.
Status known_value(Node* out, Graph& g, Node node, std::span<const Node> ranges) {
  Vec<Node> index(g.memory());
  ASTER_TRY(index.append(ranges.data(), ranges.size()));
  *out = nullptr;
  int64_t factor = 1, sum = 0;
  for (;; node = node->src(0)) {
    const bool adds = node->op == Op::kAdd, times = node->op == Op::kMul;
    if (node->op == Op::kIota || is_const(node)) {
      const Node x = is_const(node) ? g.index(uop::const_int(node)) : index[0];
      *out = sym::add(g, sym::mul(g, x, g.index(factor)), g.index(sum));
      return need(*out);
    }
    if ((adds || times) && is_const(node->src(1))) {
      const int64_t c = uop::const_int(node->src(1));
      int64_t product = 0;
      if (__builtin_mul_overflow(factor, c, &product)) return kOk;
      if (adds && __builtin_add_overflow(sum, product, &sum)) return kOk;
      if (times) factor = product;
    } else if (moves_elements(node->op)) {
      ASTER_TRY(step_down(&index, g, node));
    } else {
      return kOk;
    }
  }
}

// An index that is linear in its places and inside everywhere, or constant.
Status linear_index_view(bool* out, Vec<int64_t>* view, Graph& g, Node call, size_t i,
                         std::span<const Node> ranges) {
  const Node argument = call->src(i);
  Node value = nullptr;
  ASTER_TRY(known_value(&value, g, argument, ranges));
  *out = value != nullptr && linear_in(view, value, ranges) &&
         (is_const(argument) || (value->vmin >= 0 && value->vmax < length_indexed(call, i) &&
                                 dtype::truncate_int(argument->dtype, value->vmax) == value->vmax));
  return kOk;
}

}  // namespace

bool takes(Node call) {
  const Implementation* row = implementation_of(call);
  if (row == nullptr || !real(call->dtype) || call->count() == 0) return false;
  for (Node argument : call->src().subspan(1)) {
    if (argument->dtype != call->dtype || argument->count() == 0 || argument->count() > INT32_MAX) {
      return false;
    }
  }
  if (!row->worth(call)) return false;
  const runtime::cpu::Blas& blas = runtime::cpu::blas();
  return blas.available && !blas.outdated;
}

bool computes(Node node) {
  return node->op == Op::kCall || runtime::cpu::native::find(node->op) != nullptr;
}

Status view_base(Node* base, Vec<int64_t>* words, Graph& g, Node call, size_t i) {
  const Node argument = call->src(i);
  Memory& memory = g.memory();
  Vec<Node> ranges(memory), index(memory);
  for (size_t axis = 0; axis < argument->ndim; ++axis) {
    const int64_t dim = argument->dim(axis);
    Node range = dim == 1 ? g.index(0) : g.range(static_cast<int64_t>(axis), dim);
    if (range == nullptr) return last_failure();
    ASTER_TRY(ranges.push(range));
    ASTER_TRY(index.push(range));
  }
  const std::span<const Node> places{ranges.data(), ranges.size()};
  Vec<int64_t> best(memory), strides(memory);
  using namespace runtime::cpu::native;  // how indices are read
  int64_t how = kPlain, below = kPlain;
  bool linear = false;
  if (is_index(call, i)) ASTER_TRY(linear_index_view(&linear, &best, g, call, i, places));
  if (linear || (call->op == Op::kScatter && is_const(argument))) {
    *base = nullptr;
    how = kLinear;
    ASTER_TRY(best.resize(1 + argument->ndim, 0));
  } else {
    // As far down the views as the library can follow.
    best.clear();
    *base = argument;
    for (Node node = argument;;) {
      strides.clear();
      const Node position = linear_index(g, node->shape(), {index.data(), index.size()});
      if (linear_in(&strides, position, places) &&
          readable(call, i, {strides.data(), strides.size()}, argument->shape())) {
        *base = node;
        how = below;
        best.clear();
        ASTER_TRY(best.append(strides.data(), strides.size()));
      }
      if (is_index(call, i) && below == kPlain && counts_from_end(node, length_indexed(call, i))) {
        below = kFromEnd;
        node = node->src(2);
        continue;
      }
      if (!moves_elements(node->op)) break;
      ASTER_TRY(step_down(&index, g, node));
      node = node->src(0);
    }
  }
  if (words == nullptr) return kOk;
  ASTER_TRY(words->append(best.data(), best.size()));
  return call->op == Op::kCall ? kOk : words->push(how);
}

const char* name(const Plan& plan) {
  return plan.native != nullptr ? plan.native->name : kImplementations[plan.implementation].name;
}

Status prepare(Plan* out, Node call, std::span<const int64_t> words) {
  if (call->op != Op::kCall) {
    out->native = runtime::cpu::native::find(call->op);
    ASTER_TRY(out->native->prepare(&out->native_plan, call, words));
    out->tasks = out->native_plan.tasks;
    out->nanoseconds = out->native_plan.nanoseconds;
    out->scratch_bytes = out->native_plan.scratch_bytes;
    return kOk;
  }
  const Implementation* row = implementation_of(call);
  out->blas = &runtime::cpu::blas();
  out->implementation = static_cast<int32_t>(row - kImplementations);
  out->dtype = call->dtype;
  ASTER_TRY(row->prepare(out, call, words));
  out->nanoseconds = out->flops * static_cast<double>(out->tasks) / kFlopsPerNanosecond;
  return kOk;
}

void run(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end) {
  if (plan.native != nullptr) {
    return plan.native->run(plan.native_plan, operands, scratch, begin, end);
  }
  const Implementation& row = kImplementations[plan.implementation];
  (plan.dtype == DType::kFloat32 ? row.run_f32 : row.run_f64)(plan, operands, scratch, begin, end);
}

}  // namespace aster::engine::library
