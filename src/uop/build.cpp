// The checking builders: dtype and shape of every tensor-level node.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "dtype/sticky.h"
#include "uop/uop.h"

namespace aster::uop {
namespace {

constexpr size_t kMaxInline = 64;

// Words on the stack for ranks up to kMaxInline, in the graph's memory beyond.
class Scratch {
 public:
  Scratch(Memory& memory, size_t size) : memory_(memory), size_(size) {
    data_ = size <= kMaxInline ? inline_ : memory.array<Word>(size);
  }
  ~Scratch() {
    if (data_ != inline_) memory_.release(data_, size_ * sizeof(Word), alignof(Word));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool ok() const { return data_ != nullptr || (void(out_of_memory(size_ * sizeof(Word))), false); }
  Word& operator[](size_t i) { return data_[i]; }
  Words words(size_t count) const { return {data_, count}; }
  Words words() const { return {data_, size_}; }

 private:
  Memory& memory_;
  size_t size_;
  Word* data_;
  Word inline_[kMaxInline];
};

Node nil(Status) { return nullptr; }

// Whether a constant of dtype, which is a double where dtype is wide, can be this number.
bool holds_word(DType dtype, Word word, DType from) {
  if (!dtype::is_wide(dtype) || dtype::is_float(from)) return true;
  if (dtype::is_sticky(from) && word == dtype::sticky_error(from))
    return false;  // a NaN of its own
  constexpr Word kMost = Word{1} << 53;
  return word >= -kMost && word <= kMost && (from != DType::kUInt64 || word >= 0);
}

// Whether a number of a formula is meant as it is: it has few bits, unlike 1 / 3, log(2) and 0.1.
bool is_short(double value) {
  int exponent;
  const double scaled = std::ldexp(std::frexp(value, &exponent), 40);
  return !std::isfinite(value) || scaled == std::trunc(scaled);
}

// Operations whose result of doubles is exact.
bool keeps_words(Op op) {
  return op == Op::kNeg || op == Op::kAbs || op == Op::kWhere ||
         info(op).rule == DTypeRule::kCompare;
}

bool identity(Words words, Words start) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != start[i]) return false;
  }
  return true;
}

Node check_axis(Node x, int64_t axis, const char* what) {
  if (x == nullptr) return nullptr;
  if (axis < 0 || axis >= x->ndim) {
    return nil(ASTER_FAIL(kRANGE, "%s: axis %lld of %s", what, static_cast<long long>(axis),
                          brief(x).text));
  }
  return x;
}

}  // namespace

Node Graph::constant_word(DType dtype, Word word, Words shape) {
  return make(Op::kConst, dtype, {}, std::array{word}, shape);
}

Node Graph::constant(DType dtype, double value, Words shape) {
  if (dtype::is_wide(dtype) && !is_short(value)) {
    return nil(ASTER_FAIL(kUNSUPPORTED, "a computation of %s with %.17g, which is not exact",
                          dtype::name(dtype), value));
  }
  const Word word = std::bit_cast<Word>(value);
  return constant_word(dtype, convert_word(word, DType::kFloat64, dtype), shape);
}

Node Graph::constant_int(DType dtype, int64_t value, Words shape) {
  if (!holds_word(dtype, value, DType::kInt64))
    return cast(constant_int(DType::kInt64, value, shape), dtype);
  return constant_word(dtype, convert_word(value, DType::kInt64, dtype), shape);
}

Node Graph::param(Word slot, DType dtype, Words shape) {
  return make(Op::kParam, dtype, {}, std::array{slot}, shape);
}

Node Graph::iota(DType dtype, int64_t count) {
  int64_t total;
  if (!count_elements(std::array{count}, &total)) {
    return nil(ASTER_FAIL(kRANGE, "iota of %lld elements", static_cast<long long>(count)));
  }
  return make(Op::kIota, dtype, {}, {}, std::array{count});
}

Node Graph::range(Word id, int64_t size) {
  return make(Op::kRange, DType::kWeakInt, {}, std::array{id, size});
}

Node Graph::alu(Op op, Nodes src) {
  const OpInfo& row = info(op);
  for (Node s : src) {
    if (s == nullptr) return nullptr;
  }
  if (row.rule == DTypeRule::kNone || static_cast<size_t>(row.sources) != src.size()) {
    return nil(ASTER_FAIL(kINTERNAL, "%s is no operation on %zu operands", row.name, src.size()));
  }
  Node last = src.back();
  const Node first = row.rule == DTypeRule::kWhere ? src[1] : src[0];
  DType result = last->dtype;
  bool fits = first->dtype == last->dtype && (src.size() < 3 || src[1]->dtype == last->dtype) &&
              result != DType::kNone;
  switch (row.rule) {
    case DTypeRule::kFloating:
      fits &= dtype::is_float(result);
      break;
    case DTypeRule::kIntegral:
      fits &= !dtype::is_float(result);
      break;
    case DTypeRule::kCompare:
      result = DType::kBool;
      break;
    case DTypeRule::kBits64:
      fits &= result == DType::kUInt64;
      break;
    case DTypeRule::kInt32:
      fits &= result == DType::kInt32;
      break;
    case DTypeRule::kWhere:
      fits &= src[0]->dtype == DType::kBool;
      break;
    case DTypeRule::kNone:
    case DTypeRule::kSame:
    case DTypeRule::kCommon:
      break;
  }
  fits &= !dtype::is_sticky(last->dtype) || (row.traits & STICKY) != 0;
  bool same_shape = true;
  bool constants = true;
  for (Node s : src) {
    same_shape &= s->ndim == last->ndim && identity(s->shape(), last->shape());
    constants &= is_const(s);
  }
  if (!fits) {
    return nil(
        ASTER_FAIL(kDTYPE, "%s of %s and %s", row.name, brief(src[0]).text, brief(last).text));
  }
  if (!same_shape) {
    return nil(
        ASTER_FAIL(kSHAPE, "%s of %s and %s", row.name, brief(src[0]).text, brief(last).text));
  }
  if (constants && (!dtype::is_wide(last->dtype) || keeps_words(op))) {
    Word words[3] = {};
    for (size_t i = 0; i < src.size(); ++i) words[i] = src[i]->arg(0);
    return constant_word(result, evaluate(op, last->dtype, result, words), last->shape());
  }
  return make(op, result, src, {}, last->shape());
}

Node Graph::cast(Node x, DType dtype) {
  if (x == nullptr || x->dtype == dtype) return x;
  if (x->dtype == DType::kNone || dtype == DType::kNone) {
    return nil(ASTER_FAIL(kDTYPE, "cast of %s to %s", brief(x).text, dtype::name(dtype)));
  }
  if (is_const(x) && holds_word(dtype, x->arg(0), x->dtype))
    return constant_word(dtype, convert_word(x->arg(0), x->dtype, dtype), x->shape());
  // An integer that a double is not, as itself: of the weak dtype it would become int32.
  if (is_const(x) && dtype::is_weak(x->dtype))
    x = constant_word(DType::kInt64, x->arg(0), x->shape());
  return make(Op::kCast, dtype, std::array{x}, {}, x->shape());
}

Node Graph::bitcast(Node x, DType dtype) {
  if (x == nullptr || x->dtype == dtype) return x;
  if (dtype::bits(x->dtype) != dtype::bits(dtype)) {
    return nil(
        ASTER_FAIL(kDTYPE, "bitcast of %s to %s: sizes differ", brief(x).text, dtype::name(dtype)));
  }
  return make(Op::kBitcast, dtype, std::array{x}, {}, x->shape());
}

Node Graph::reshape(Node x, Words shape) {
  if (x == nullptr) return nullptr;
  int64_t count;
  if (!count_elements(shape, &count)) {
    return nil(ASTER_FAIL(kRANGE, "reshape of %s to %s", brief(x).text, brief_shape(shape).text));
  }
  if (count != x->count()) {
    return nil(ASTER_FAIL(kSHAPE, "reshape of %s to %s: %lld elements, not %lld", brief(x).text,
                          brief_shape(shape).text, static_cast<long long>(x->count()),
                          static_cast<long long>(count)));
  }
  if (shape.size() == x->ndim && identity(shape, x->shape())) return x;
  if (is_const(x)) return constant_word(x->dtype, x->arg(0), shape);
  if (x->op == Op::kReshape && joins_movement()) return reshape(x->src(0), shape);
  return make(Op::kReshape, x->dtype, std::array{x}, {}, shape);
}

Node Graph::expand(Node x, Words shape) {
  if (x == nullptr) return nullptr;
  int64_t count;
  if (!count_elements(shape, &count)) {
    return nil(ASTER_FAIL(kRANGE, "expand of %s to %s", brief(x).text, brief_shape(shape).text));
  }
  bool fits = shape.size() == x->ndim;
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = x->dim(i) == shape[i] || x->dim(i) == 1;
  if (!fits)
    return nil(ASTER_FAIL(kSHAPE, "expand of %s to %s", brief(x).text, brief_shape(shape).text));
  if (identity(shape, x->shape())) return x;
  if (is_const(x)) return constant_word(x->dtype, x->arg(0), shape);
  if (x->op == Op::kExpand && joins_movement()) return expand(x->src(0), shape);
  return make(Op::kExpand, x->dtype, std::array{x}, {}, shape);
}

Node Graph::permute(Node x, Words axes) {
  if (x == nullptr) return nullptr;
  Scratch shape(*memory_, x->ndim), seen(*memory_, x->ndim);
  if (!shape.ok() || !seen.ok()) return nullptr;
  bool fits = axes.size() == x->ndim, same = true;
  for (size_t i = 0; fits && i < axes.size(); ++i) seen[i] = 0;
  for (size_t i = 0; fits && i < axes.size(); ++i) {
    fits = axes[i] >= 0 && axes[i] < x->ndim && seen[static_cast<size_t>(axes[i])]++ == 0;
    if (!fits) break;
    shape[i] = x->dim(static_cast<size_t>(axes[i]));
    same &= axes[i] == static_cast<Word>(i);
  }
  if (!fits)
    return nil(ASTER_FAIL(kSHAPE, "permute of %s by %s", brief(x).text, brief_shape(axes).text));
  if (same) return x;
  if (is_const(x)) return constant_word(x->dtype, x->arg(0), shape.words());
  if (x->op == Op::kPermute && joins_movement()) {
    Scratch both(*memory_, axes.size());
    if (!both.ok()) return nullptr;
    for (size_t i = 0; i < axes.size(); ++i) both[i] = x->arg(static_cast<size_t>(axes[i]));
    return permute(x->src(0), both.words());
  }
  return make(Op::kPermute, x->dtype, std::array{x}, axes, shape.words());
}

Node Graph::flip(Node x, Words axes_mask) {
  if (x == nullptr) return nullptr;
  if (axes_mask.size() != x->ndim) {
    return nil(ASTER_FAIL(kSHAPE, "flip of %s by %zu axes", brief(x).text, axes_mask.size()));
  }
  Scratch mask(*memory_, x->ndim);
  if (!mask.ok()) return nullptr;
  bool any = false;
  for (size_t i = 0; i < axes_mask.size(); ++i) {
    mask[i] = axes_mask[i] != 0 && x->dim(i) > 1;
    any |= mask[i] != 0;
  }
  if (!any || is_const(x)) return x;
  return make(Op::kFlip, x->dtype, std::array{x}, mask.words(), x->shape());
}

Node Graph::slice(Node x, Words start, Words step, Words size) {
  if (x == nullptr) return nullptr;
  const size_t n = x->ndim;
  bool fits = start.size() == n && step.size() == n && size.size() == n, same = true;
  Scratch arg(*memory_, 2 * n);
  if (!arg.ok()) return nullptr;
  for (size_t i = 0; fits && i < n; ++i) {
    int64_t last = 0;
    fits = start[i] >= 0 && step[i] >= 1 && size[i] >= 0 && start[i] <= x->dim(i);
    if (fits && size[i] > 0) {
      fits = checked_mul(size[i] - 1, step[i], &last) && checked_add(last, start[i], &last) &&
             last < x->dim(i);
    }
    arg[2 * i] = start[i];
    arg[2 * i + 1] = size[i] > 1 ? step[i] : 1;
    same &= size[i] == x->dim(i);
  }
  if (!fits) {
    return nil(ASTER_FAIL(kRANGE, "slice of %s from %s by %s, size %s", brief(x).text,
                          brief_shape(start).text, brief_shape(step).text, brief_shape(size).text));
  }
  if (same) return x;
  if (is_const(x)) return constant_word(x->dtype, x->arg(0), size);
  return make(Op::kSlice, x->dtype, std::array{x}, arg.words(), size);
}

Node Graph::pad(Node x, Words before, Words after, Words interior, Word fill_bits) {
  if (x == nullptr) return nullptr;
  const size_t n = x->ndim;
  Scratch arg(*memory_, 3 * n + 1), shape(*memory_, n);
  if (!arg.ok() || !shape.ok()) return nullptr;
  bool fits = before.size() == n && after.size() == n && interior.size() == n, same = true;
  for (size_t i = 0; fits && i < n; ++i) {
    int64_t gaps = 0, total = 0;
    fits = before[i] >= 0 && after[i] >= 0 && interior[i] >= 0 &&
           checked_mul(interior[i], x->dim(i) > 0 ? x->dim(i) - 1 : 0, &gaps) &&
           checked_add(x->dim(i), gaps, &total) && checked_add(total, before[i], &total) &&
           checked_add(total, after[i], &total);
    arg[3 * i] = before[i];
    arg[3 * i + 1] = after[i];
    arg[3 * i + 2] = x->dim(i) > 1 ? interior[i] : 0;
    shape[i] = total;
    same &= total == x->dim(i);
  }
  int64_t count;
  if (!fits || !count_elements(shape.words(), &count)) {
    return nil(ASTER_FAIL(kRANGE, "pad of %s by %s before, %s after", brief(x).text,
                          brief_shape(before).text, brief_shape(after).text));
  }
  arg[3 * n] = fill_bits;
  if (same) return x;
  if (x->count() == 0 || (is_const(x) && x->arg(0) == fill_bits)) {
    return constant_word(x->dtype, fill_bits, shape.words());
  }
  return make(Op::kPad, x->dtype, std::array{x}, arg.words(), shape.words());
}

Node Graph::window(Node x, int64_t axis, int64_t kernel, int64_t stride, int64_t dilation) {
  if (check_axis(x, axis, "window") == nullptr) return nullptr;
  const size_t at = static_cast<size_t>(axis);
  int64_t span = 0;
  const bool fits = kernel >= 1 && stride >= 1 && dilation >= 1 &&
                    checked_mul(kernel - 1, dilation, &span) &&
                    checked_add(span, int64_t{1}, &span) && span <= x->dim(at);
  if (!fits) {
    return nil(ASTER_FAIL(kSHAPE, "window of %lld (stride %lld, dilation %lld) on axis %lld of %s",
                          static_cast<long long>(kernel), static_cast<long long>(stride),
                          static_cast<long long>(dilation), static_cast<long long>(axis),
                          brief(x).text));
  }
  Scratch shape(*memory_, x->ndim + 1u);
  if (!shape.ok()) return nullptr;
  for (size_t i = 0; i < x->ndim; ++i) shape[i < at ? i : i + 1] = x->dim(i);
  shape[at] = (x->dim(at) - span) / stride + 1;
  shape[at + 1] = kernel;
  int64_t count;
  if (!count_elements(shape.words(), &count)) {
    return nil(ASTER_FAIL(kRANGE, "window of %lld on axis %lld of %s: too many elements",
                          static_cast<long long>(kernel), static_cast<long long>(axis),
                          brief(x).text));
  }
  if (is_const(x)) return constant_word(x->dtype, x->arg(0), shape.words());
  return make(Op::kWindow, x->dtype, std::array{x}, std::array<Word, 3>{axis, stride, dilation},
              shape.words());
}

Node Graph::unwindow(Node x, int64_t axis, int64_t size, int64_t stride, int64_t dilation) {
  if (check_axis(x, axis, "unwindow") == nullptr || check_axis(x, axis + 1, "unwindow") == nullptr)
    return nullptr;
  const size_t at = static_cast<size_t>(axis);
  int64_t steps = 0, taps = 0, span = 0;  // x may hold no windows at all
  const bool fits = stride >= 1 && dilation >= 1 && size >= 0 &&
                    checked_mul(std::max<int64_t>(x->dim(at) - 1, 0), stride, &steps) &&
                    checked_mul(std::max<int64_t>(x->dim(at + 1) - 1, 0), dilation, &taps) &&
                    checked_add(steps, taps, &span) && (x->count() == 0 || span < size);
  if (!fits) {
    return nil(
        ASTER_FAIL(kSHAPE, "unwindow of %s to %lld", brief(x).text, static_cast<long long>(size)));
  }
  Scratch shape(*memory_, x->ndim);
  if (!shape.ok()) return nullptr;
  for (size_t i = 0; i < x->ndim; ++i) shape[i] = x->dim(i);
  shape[at] = size;
  int64_t count;
  if (!count_elements(shape.words(), &count)) {
    return nil(ASTER_FAIL(kRANGE, "unwindow of %s to %lld: too many elements", brief(x).text,
                          static_cast<long long>(size)));
  }
  if (is_const(x) && x->arg(0) == 0) return constant_word(x->dtype, 0, shape.words());
  return make(Op::kUnwindow, x->dtype, std::array{x}, std::array<Word, 3>{axis, stride, dilation},
              shape.words());
}

Node Graph::cat(Nodes xs, int64_t axis) {
  if (xs.empty()) return nil(ASTER_FAIL(kARGUMENT, "cat of no tensors"));
  for (Node x : xs) {
    if (check_axis(x, axis, "cat") == nullptr) return nullptr;
  }
  if (xs.size() == 1) return xs[0];
  const size_t at = static_cast<size_t>(axis);
  Scratch shape(*memory_, xs[0]->ndim);
  if (!shape.ok()) return nullptr;
  for (size_t i = 0; i < xs[0]->ndim; ++i) shape[i] = xs[0]->dim(i);
  for (Node x : xs.subspan(1)) {
    bool fits = x->ndim == xs[0]->ndim && checked_add(shape[at], x->dim(at), &shape[at]);
    for (size_t i = 0; fits && i < x->ndim; ++i) fits = i == at || x->dim(i) == shape[i];
    if (!fits) {
      return nil(ASTER_FAIL(kSHAPE, "cat of %s and %s on axis %lld", brief(xs[0]).text,
                            brief(x).text, static_cast<long long>(axis)));
    }
    if (x->dtype != xs[0]->dtype) {
      return nil(ASTER_FAIL(kDTYPE, "cat of %s and %s", brief(xs[0]).text, brief(x).text));
    }
  }
  int64_t count;
  if (!count_elements(shape.words(), &count)) {
    return nil(ASTER_FAIL(kRANGE, "cat to %s: too many elements", brief_shape(shape.words()).text));
  }
  return make(Op::kCat, xs[0]->dtype, xs, std::array{axis}, shape.words());
}

Node Graph::reduce(Op op, Node x, Words axes) {
  if (x == nullptr) return nullptr;
  if ((info(op).traits & REDUCE) == 0)
    return nil(ASTER_FAIL(kINTERNAL, "%s is no reduction", info(op).name));
  if (x->dtype == DType::kNone || (traits(op, x->dtype) & REDUCE) == 0 ||
      (info(op).rule == DTypeRule::kIntegral && dtype::is_float(x->dtype))) {
    return nil(ASTER_FAIL(kDTYPE, "%s reduction of %s", info(op).name, brief(x).text));
  }
  if (axes.empty()) return x;
  Scratch arg(*memory_, axes.size() + 1), shape(*memory_, x->ndim);
  if (!arg.ok() || !shape.ok()) return nullptr;
  for (size_t i = 0; i < x->ndim; ++i) shape[i] = x->dim(i);
  arg[0] = static_cast<Word>(op);
  Word previous = -1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] <= previous || axes[i] >= x->ndim) {
      return nil(
          ASTER_FAIL(kRANGE, "reduce of %s over axes %s", brief(x).text, brief_shape(axes).text));
    }
    previous = axes[i];
    shape[static_cast<size_t>(axes[i])] = 1;
    arg[i + 1] = axes[i];
  }
  return make(Op::kReduce, x->dtype, std::array{x}, arg.words(), shape.words());
}

Node Graph::dot(Node a, Node b, Words axes, DType dtype) {
  if (a == nullptr || b == nullptr) return nullptr;
  const bool wide = dtype::is_wide(a->dtype) && dtype == a->dtype;
  if (a->dtype != b->dtype || !(wide || (dtype::is_sticky(a->dtype) && dtype::is_sticky(dtype)))) {
    return nil(ASTER_FAIL(kDTYPE, "dot of %s and %s to %s", brief(a).text, brief(b).text,
                          dtype::name(dtype)));
  }
  if (a->ndim != b->ndim || !identity(a->shape(), b->shape()))
    return nil(ASTER_FAIL(kSHAPE, "dot of %s and %s", brief(a).text, brief(b).text));
  Scratch shape(*memory_, a->ndim);
  if (!shape.ok()) return nullptr;
  for (size_t i = 0; i < a->ndim; ++i) shape[i] = a->dim(i);
  Word previous = -1;
  for (Word axis : axes) {
    if (axis <= previous || axis >= a->ndim) {
      return nil(
          ASTER_FAIL(kRANGE, "dot of %s over axes %s", brief(a).text, brief_shape(axes).text));
    }
    previous = axis;
    shape[static_cast<size_t>(axis)] = 1;
  }
  return make(Op::kDot, dtype, std::array{a, b}, axes, shape.words());
}

Node Graph::contiguous(Node x) {
  if (x == nullptr || x->op == Op::kBuffer) return x;
  if (x->op == Op::kContiguous && x->arg().empty()) return x;
  return make(Op::kContiguous, x->dtype, std::array{x}, {}, x->shape());
}

Node Graph::transfer(Node x, Word to, Word from) {
  if (x == nullptr || to == from) return x;
  return make(Op::kContiguous, x->dtype, std::array{x}, std::array{to, from}, x->shape());
}

Node Graph::detach(Node x) {
  if (x == nullptr || is_const(x) || x->op == Op::kDetach) return x;
  return make(Op::kDetach, x->dtype, std::array{x}, {}, x->shape());
}

Node Graph::assign(Node target, Node value) {
  if (target == nullptr || value == nullptr) return nullptr;
  if (target->dtype != value->dtype) {
    return nil(ASTER_FAIL(kDTYPE, "assign of %s to %s", brief(value).text, brief(target).text));
  }
  if (target->ndim != value->ndim || !identity(target->shape(), value->shape())) {
    return nil(ASTER_FAIL(kSHAPE, "assign of %s to %s", brief(value).text, brief(target).text));
  }
  return make(Op::kAssign, target->dtype, std::array{target, value}, {}, target->shape());
}

Node Graph::after(Node x, Nodes effects) {
  if (x == nullptr) return x;
  Vec<Node> src(*memory_);
  if (!src.push(x).ok()) return nullptr;
  for (Node effect : effects) {
    if (effect == nullptr) return nullptr;
    // A write that is done has become the storage that it wrote: nothing to wait for.
    const bool waits = effect->op == Op::kAssign || effect->op == Op::kAfter;
    if (waits && !src.push(effect).ok()) return nullptr;
  }
  if (src.size() == 1) return x;
  return make(Op::kAfter, x->dtype, {src.data(), src.size()}, {}, x->shape());
}

Node Graph::call(Word composite, Words attributes, Node body, Nodes arguments) {
  if (body == nullptr) return nullptr;
  Vec<Node> src(*memory_);  // nil arguments are found by make
  Vec<Word> arg(*memory_);
  if (!src.push(body).ok() || !src.append(arguments.data(), arguments.size()).ok()) return nullptr;
  if (!arg.push(composite).ok() || !arg.append(attributes.data(), attributes.size()).ok())
    return nullptr;
  return make(Op::kCall, body->dtype, {src.data(), src.size()}, {arg.data(), arg.size()},
              body->shape());
}

Node Graph::sink(Nodes roots) { return make(Op::kSink, DType::kNone, roots); }

Node Graph::with_sources(Node node, Nodes src) {
  // Builders that simplify or fold are asked again; the others only carry their arguments.
  const Words arg = node->arg();
  if (is_movement(node->op) && src.size() == 1 && src[0] != nullptr && is_const(src[0])) {
    const Word word = src[0]->arg(0);
    const bool same = node->op == Op::kPad        ? word == arg.back()
                      : node->op == Op::kUnwindow ? word == 0
                                                  : true;
    if (same) return constant_word(node->dtype, word, node->shape());
  }
  switch (node->op) {
    case Op::kCast:
      return cast(src[0], node->dtype);
    case Op::kBitcast:
      return bitcast(src[0], node->dtype);
    case Op::kReshape:
      return reshape(src[0], node->shape());
    case Op::kExpand:
      return expand(src[0], node->shape());
    case Op::kPermute:
      return permute(src[0], arg);
    case Op::kFlip:
      return flip(src[0], arg);
    case Op::kDetach:
      return detach(src[0]);
    case Op::kAfter:
      return after(src[0], src.subspan(1));
    case Op::kContiguous:
      if (!arg.empty()) break;
      return contiguous(src[0]);
    default:
      break;
  }
  if (is_alu(node->op)) return alu(node->op, src);
  return make(node->op, node->dtype, src, arg, node->shape());
}

}  // namespace aster::uop
