#include "runtime/reference/wide.h"

#include <algorithm>
#include <array>

#include "aster_ml/flt.h"
#include "base/faults.h"
#include "flt/accumulator.h"
#include "flt/apply.h"
#include "flt/convert.h"
#include "flt/product.h"
#include "flt/sum.h"
#include "uop/wide.h"

namespace aster::runtime::reference {
namespace {

using flt::Elements;
using flt::Rounding;
using uop::DType;
using uop::Node;
using uop::WideKind;
using uop::Word;
using uop::Words;

// About what a task is to take, and what a term of a sum, an element of a cast and a product of two
// elements of a matrix product take.
constexpr double kTaskNs = 50'000;
constexpr double kTermNs = 25, kCastNs = 12, kMatmulNs = 1.5;
// Of a task, which reads all columns again: the threads share one of a single task.
constexpr int64_t kMatmulRows = 1024;
constexpr size_t kMostOperands = 3;

// The words of a plan: this; sizes of the axes along which operands are read; for each operand the
// byte where it begins, and its strides in bytes.
struct Head {
  int64_t kind, first, second, rounding;  // as the node's arguments
  int64_t operands, axes;
  int64_t rows;      // how often the last axis is walked, or matrices
  int64_t per_task;  // elements, or rows; of matrix products rows of one matrix
};

// The dtype that is wide: of what is computed, or cast.
DType wide_of(const Head& head) {
  const auto kind = static_cast<WideKind>(head.kind);
  if (kind == WideKind::kApply) return static_cast<DType>(head.second);
  const auto first = static_cast<DType>(head.first);
  if (kind != WideKind::kCast || dtype::is_wide(first)) return first;
  return static_cast<DType>(head.second);
}

bool has_words(Node node, size_t) {
  return uop::wide_kind(node) != WideKind::kCast ||
         dtype::is_wide(static_cast<DType>(node->arg(1)));
}

Words axes_of(Node node, size_t operand) {
  const Words shape = node->src(operand)->shape();
  return has_words(node, operand) ? shape.first(shape.size() - 1) : shape;
}

const flt::Operation& operation_of(const Head& head) {
  const auto kind = static_cast<WideKind>(head.kind);
  return *flt::operation_of(
      static_cast<int32_t>(kind == WideKind::kApply ? head.first : head.second));
}

Rounding rounding_of(const Head& head) { return static_cast<Rounding>(head.rounding); }

// What tasks are of.
void divide(WidePlan* out, Head* head, Node node) {
  const auto kind = static_cast<WideKind>(head->kind);
  const Words axes = axes_of(node, 0);
  int64_t count = 1;
  for (Word size : axes) count *= size;
  const int64_t last = axes.empty() ? 1 : axes.back();
  head->rows = count / std::max<int64_t>(last, 1);
  if (kind == WideKind::kMatmul) {
    const Word rows = axes[axes.size() - 2], columns = node->dim(node->ndim - 2u);
    head->rows = count / (rows * last);
    head->per_task = std::min(rows, kMatmulRows);
    out->tasks = head->rows * ((rows + head->per_task - 1) / head->per_task);
    out->nanoseconds = static_cast<double>(count) * static_cast<double>(columns) * kMatmulNs;
    return;
  }
  const bool elementwise = kind == WideKind::kApply || kind == WideKind::kCast;
  const double ns = kind == WideKind::kApply || kind == WideKind::kFold
                        ? static_cast<double>(operation_of(*head).ns)
                    : kind == WideKind::kCast ? kCastNs
                                              : kTermNs;
  const int64_t units = elementwise ? count : head->rows;
  const double unit_ns = elementwise ? ns : ns * static_cast<double>(last);
  head->per_task = std::max<int64_t>(1, static_cast<int64_t>(kTaskNs / std::max(unit_ns, 1.0)));
  out->tasks = (units + head->per_task - 1) / head->per_task;
  out->nanoseconds = ns * static_cast<double>(count);
}

constexpr size_t kHeadWords = sizeof(Head) / sizeof(int64_t);

Head head_of(const WidePlan& plan) {
  Head head;
  std::memcpy(static_cast<void*>(&head), plan.words, sizeof(Head));
  return head;
}

// Where operands lie.
class Layout {
 public:
  explicit Layout(const WidePlan& plan)
      : head(head_of(plan)), axes(static_cast<size_t>(head.axes)), sizes(plan.words + kHeadWords) {}
  int64_t stride(size_t operand, size_t axis) const {
    return sizes[axes + operand * (axes + 1) + 1 + axis];
  }
  // Element or row `index` of an operand, counted along its first axes.
  const char* at(size_t operand, void* const* memory, int64_t index, size_t along) const {
    const char* data =
        static_cast<const char*>(memory[operand]) + sizes[axes + operand * (axes + 1)];
    for (size_t a = along; a-- > 0; index /= sizes[a])
      data += index % sizes[a] * stride(operand, a);
    return data;
  }
  const Head head;
  const size_t axes;
  const int64_t* const sizes;
};

// ---- Elementwise ----

void run_elements(const Layout& lay, void* const* operands, int64_t begin, int64_t end) {
  const Head& head = lay.head;
  const auto count = static_cast<size_t>(head.operands);
  const bool casts = static_cast<WideKind>(head.kind) == WideKind::kCast;
  const DType wide = wide_of(head), to = static_cast<DType>(head.second);
  const size_t out_size = casts ? dtype::size(to) : operation_of(head).test ? 1 : dtype::size(wide);
  const int64_t inner = lay.axes == 0 ? 1 : lay.sizes[lay.axes - 1];
  const size_t outer = lay.axes == 0 ? 0 : lay.axes - 1;
  char* const result = static_cast<char*>(operands[count]);
  for (int64_t i = begin; i < end;) {
    const int64_t row = i / inner, column = i % inner;
    const int64_t length = std::min(inner - column, end - i);
    Elements in[kMostOperands] = {};
    for (size_t k = 0; k < count; ++k) {
      const int64_t step = lay.axes == 0 ? 0 : lay.stride(k, outer);
      in[k] = {lay.at(k, operands, row, outer) + column * step, step, 0};
    }
    const Elements out = {result + i * static_cast<int64_t>(out_size),
                          static_cast<int64_t>(out_size), out_size};
    if (casts) {
      for (int64_t j = 0; j < length; ++j)
        flt::convert_element(out.at(j), to, in[0].at(j), static_cast<DType>(head.first),
                             rounding_of(head));
    } else {
      operation_of(head).loop_of(flt::limbs_of(wide))(out, in, 0, static_cast<size_t>(length),
                                                      rounding_of(head));
    }
    i += length;
  }
}

// ---- Rows ----

void failed(const Status& status, int64_t place) {
  if (!status.ok())
    Faults::say_failure(Code::kMEMORY, place, "memory for an exact sum of wide floats");
}

// In order, each step rounded.
void fold(char* out, const Elements& x, int64_t count, const Head& head) {
  const DType d = wide_of(head);
  const flt::Loop loop = operation_of(head).loop_of(flt::limbs_of(d));
  const size_t size = dtype::size(d);
  std::memcpy(out, x.at(0), size);
  for (int64_t i = 1; i < count; ++i) {
    const Elements in[] = {{out, 0, size}, {x.at(i), 0, size}};
    loop(in[0], in, 0, 1, rounding_of(head));
  }
}

// A step of a prefix sum is the exact sum up to it.
template <int N>
void scan(char* out, const Elements& x, int64_t count, const Head& head, int64_t place) {
  const bool reverse = head.second != 0;
  const flt::Caller caller(nullptr, process_heap());
  constexpr auto size = static_cast<int64_t>(sizeof(flt::Limbs<N>));
  for (int64_t i = 0; i < count; ++i) {
    flt::Limbs<N> w;
    const int64_t at = reverse ? count - 1 - i : i;
    const Elements part = reverse ? Elements{x.at(at), x.step, x.size} : x;
    failed(
        flt::exact_sum<N>(w, caller, part, nullptr, static_cast<size_t>(i + 1), rounding_of(head)),
        place);
    std::memcpy(out + at * size, w, static_cast<size_t>(size));
  }
}

template <int N>
void run_rows(const Layout& lay, void* const* operands, int64_t begin, int64_t end) {
  const Head& head = lay.head;
  const auto kind = static_cast<WideKind>(head.kind);
  const auto count = static_cast<size_t>(head.operands);
  const size_t outer = lay.axes - 1;
  const int64_t length = lay.sizes[outer];
  const flt::Caller caller(nullptr, process_heap());
  constexpr auto kSize = static_cast<int64_t>(sizeof(flt::Limbs<N>));
  for (int64_t r = begin; r < end; ++r) {
    Elements in[kMostOperands] = {};
    for (size_t k = 0; k < count; ++k)
      in[k] = {lay.at(k, operands, r, outer), lay.stride(k, outer), static_cast<size_t>(kSize)};
    char* const result = static_cast<char*>(operands[count]);
    char* const out = result + r * kSize;
    if (kind == WideKind::kFold) {
      fold(out, in[0], length, head);
    } else if (kind == WideKind::kScan) {
      scan<N>(result + r * length * kSize, in[0], length, head, r);
    } else {
      flt::Limbs<N> w;
      const Elements* const factors = kind == WideKind::kProduct ? &in[1] : nullptr;
      failed(flt::exact_sum<N>(w, caller, in[0], factors, static_cast<size_t>(length),
                               rounding_of(head)),
             r);
      std::memcpy(out, w, static_cast<size_t>(kSize));
    }
  }
}

// ---- Matrix products ----

template <int N>
void run_matmul_of(const Layout& lay, void* const* operands, int64_t begin, int64_t end,
                   std::atomic<uint32_t>* ran) {
  const Head& head = lay.head;
  const size_t batch = lay.axes - 3;  // sizes: of the batch, then rows, columns, inner
  const int64_t rows = lay.sizes[batch], columns = lay.sizes[batch + 1];
  const int64_t inner = lay.sizes[batch + 2];
  const int64_t parts = (rows + head.per_task - 1) / head.per_task;
  constexpr auto kSize = static_cast<int64_t>(sizeof(flt::Limbs<N>));
  const auto matrix = [](const char* data, int64_t row, int64_t column, int64_t height,
                         int64_t width) {
    return flt::Matrix{data, row, column, static_cast<size_t>(height), static_cast<size_t>(width)};
  };
  for (int64_t task = begin; task < end; ++task) {
    const int64_t which = task / parts, first = task % parts * head.per_task;
    const int64_t height = std::min(head.per_task, rows - first);
    const char* const a = lay.at(0, operands, which, batch) + first * lay.stride(0, batch);
    const char* const b = lay.at(1, operands, which, batch);
    char* const out = static_cast<char*>(operands[2]) + (which * rows + first) * columns * kSize;
    const flt::Caller caller(nullptr, process_heap());
    flt::Algorithm how = flt::Algorithm::kAuto;
    failed(flt::product_of<N>(
               caller, matrix(out, columns * kSize, kSize, height, columns),
               matrix(a, lay.stride(0, batch), lay.stride(0, batch + 2), height, inner),
               matrix(b, lay.stride(1, batch + 2), lay.stride(1, batch + 1), inner, columns),
               rounding_of(head), nullptr, &how),
           task);
    if (ran != nullptr) ran->fetch_or(uint32_t{1} << static_cast<int>(how));
  }
}

// Rows, columns and the inner axis, which each operand lacks one of, stand behind the batch.
Status put_matrices(Vec<int64_t>* out, Node node, Words axes, const Vec<int64_t>& strides) {
  const size_t batch = axes.size() - 2;
  const Word inner = axes[batch + 1];
  for (size_t a = 0; a < batch; ++a) ASTER_TRY(out->push(axes[a]));
  for (Word size : {axes[batch], node->dim(node->ndim - 2u), inner}) ASTER_TRY(out->push(size));
  for (size_t k = 0; k < 2; ++k) {
    const int64_t* const own = strides.data() + k * (axes.size() + 1);
    ASTER_TRY(out->append(own, batch + 1));
    const int64_t row = own[1 + batch], column = own[2 + batch];
    for (int64_t step :
         k == 0 ? std::array{row, int64_t{0}, column} : std::array{int64_t{0}, column, row})
      ASTER_TRY(out->push(step));
  }
  return kOk;
}

// The byte where each operand begins, and its strides in bytes.
Status lay_out(Vec<int64_t>* out, Node node, std::span<const int64_t> views) {
  for (size_t k = 0; k < node->nsrc; ++k) {
    const Words shape = node->src(k)->shape(), axes = axes_of(node, k);
    const auto bytes = static_cast<int64_t>(dtype::size(node->src(k)->dtype));
    const auto view = views.empty() ? views : views.subspan(0, shape.size() + 2);
    ASTER_TRY(out->push(views.empty() ? 0 : view[0] * bytes));
    const size_t first = out->size();
    ASTER_TRY(out->resize(first + axes.size(), 0));
    int64_t stride = axes.size() < shape.size() ? shape.back() : 1;
    for (size_t a = axes.size(); a-- > 0; stride *= axes[a])
      (*out)[first + a] = (views.empty() ? stride : view[1 + a]) * bytes;
    if (!views.empty()) views = views.subspan(shape.size() + 2);
  }
  return kOk;
}

}  // namespace

bool reads_wide(Node node, size_t argument, std::span<const int64_t> view) {
  return !has_words(node, argument) || view.back() == 1;
}

Status plan_wide(WidePlan* out, Vec<int64_t>* words, Node node, std::span<const int64_t> views) {
  const auto argument = [&](size_t i) { return i < node->narg ? node->arg(i) : 0; };
  Head head{argument(0), argument(1), argument(2), argument(uop::kWideRounding), 0, 0, 0, 0};
  const Words axes = axes_of(node, 0);
  const bool matrices = uop::wide_kind(node) == WideKind::kMatmul;
  head.operands = node->nsrc;
  head.axes = static_cast<int64_t>(axes.size()) + (matrices ? 1 : 0);
  divide(out, &head, node);
  Vec<int64_t> strides(words->memory());
  ASTER_TRY(lay_out(&strides, node, views));
  ASTER_TRY(words->resize(kHeadWords));
  std::memcpy(static_cast<void*>(words->data()), &head, sizeof(Head));
  if (matrices) {
    ASTER_TRY(put_matrices(words, node, axes, strides));
  } else {
    ASTER_TRY(words->append(axes.data(), axes.size()));
    ASTER_TRY(words->append(strides.data(), strides.size()));
  }
  out->words = words->data();
  return kOk;
}

void run_wide(const WidePlan& plan, void* const* operands, int64_t begin, int64_t end) {
  const Layout lay(plan);
  const auto kind = static_cast<WideKind>(lay.head.kind);
  const DType wide = wide_of(lay.head);
  if (kind == WideKind::kMatmul) {
    return flt::with_limbs(wide,
                           [&](auto n) { run_matmul_of<n>(lay, operands, begin, end, plan.ran); });
  }
  const bool elementwise = kind == WideKind::kApply || kind == WideKind::kCast;
  int64_t all = lay.head.rows;
  if (elementwise && lay.axes > 0) all *= lay.sizes[lay.axes - 1];
  begin *= lay.head.per_task;
  end = std::min(end * lay.head.per_task, all);
  if (elementwise) return run_elements(lay, operands, begin, end);
  flt::with_limbs(wide, [&](auto n) { run_rows<n>(lay, operands, begin, end); });
}

}  // namespace aster::runtime::reference
