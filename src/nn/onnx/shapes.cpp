// Operators of shapes, and those that move elements.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/checked.h"
#include "engine/engine.h"
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {

Node along_axis(Op& op, Node x, size_t axis, size_t ndim) {
  if (x == nullptr) return nullptr;
  Dims shape(axis, 1);
  for (const Word dim : x->shape()) shape.push(dim);
  while (shape.size() < ndim) shape.push(1);
  return op.g.reshape(x, shape);
}

Dims shape_from(Op& op, Words given) {
  if (op.ok() && given.size() > Dims::kMost)
    op.fail(ASTER_FAIL(kRANGE, "a shape of %zu axes", given.size()));
  return op.ok() ? Dims(given) : Dims();
}

Node flat_from(Op& op, Node x, size_t axis) {
  if (x == nullptr) return nullptr;
  Word rows = 1, columns = 1;
  for (size_t i = 0; i < x->ndim; ++i) (i < axis ? rows : columns) *= x->dim(i);
  return op.g.reshape(x, std::array{rows, columns});
}

Node permute_last(Op& op, Node x) {
  if (x == nullptr) return nullptr;
  Dims order;
  for (size_t i = 0; i < x->ndim; ++i) order.push(static_cast<Word>(i));
  if (order.size() >= 2) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return op.g.permute(x, order);
}

namespace build {

void identity(Op& op) { op.set(op.value(0)); }

void constant(Op& op) {
  const Attribute* a;
  if ((a = op.attribute("value")) != nullptr) {
    op.set(op.tensor("value"));
  } else if ((a = op.attribute("sparse_value")) != nullptr) {
    Ref made;
    op.fail(read_sparse(&made, op.run.files, op.run.files_source(), a->sparse));
    op.set(made);
  } else if ((a = op.attribute("value_int")) != nullptr) {
    op.set(op.stored(Words(&a->i, 1), Words(), DType::kInt64));
  } else if ((a = op.attribute("value_ints")) != nullptr) {
    op.set(op.stored(a->ints, std::array{static_cast<Word>(a->ints.size())}, DType::kInt64));
  } else if ((a = op.attribute("value_float")) != nullptr) {
    op.set(op.stored(std::span<const double>(&a->f, 1), Words(), DType::kFloat32));
  } else if ((a = op.attribute("value_floats")) != nullptr) {
    op.set(op.stored(a->floats, std::array{static_cast<Word>(a->floats.size())}, DType::kFloat32));
  } else if ((a = op.attribute("value_strings")) != nullptr ||
             (a = op.attribute("value_string")) != nullptr) {
    const bool one = a->name == "value_string";
    const Word count = one ? 1 : static_cast<Word>(a->strings.size());
    Ref made;
    op.fail(make_texts(&made, op.heap(), one ? Words() : Words(&count, 1)));
    for (Word i = 0; op.ok() && i < count; ++i) {
      Text text(op.heap());
      text << (one ? a->s : a->strings[static_cast<size_t>(i)]);
      op.fail(made->texts.push(std::move(text)));
    }
    if (op.ok()) made->known = true;
    op.set(made);
  } else {
    op.fail(ASTER_FAIL(kFORMAT, "a constant without a value"));
  }
}

void constant_of_shape(Op& op) {
  const Dims shape = shape_from(op, op.ints(0));
  const Ref value = op.tensor("value");
  if (!op.ok()) return;
  for (const Word dim : words_of(shape)) {
    if (dim < 0)
      op.fail(ASTER_FAIL(kSHAPE, "a constant of shape %s", uop::brief_shape(shape).text));
  }
  if (!op.ok()) return;
  if (!value) {
    op.set(op.g.constant(DType::kFloat32, 0, shape));
    return;
  }
  const Node one = value->node();
  if (one == nullptr || one->count() != 1) {
    op.fail(ASTER_FAIL(kSHAPE, "a constant of more than one value"));
    return;
  }
  op.set(uop::broadcast_to(op.g, op.g.reshape(one, Words()), shape), value->element);
}

namespace {
Words shape_of(const Value& value) {
  return value.is_texts() ? Words(value.shape.data(), value.shape.size()) : value.node()->shape();
}
}  // namespace

void shape(Op& op) {
  const Ref given = op.value(0);
  if (!op.ok()) return;
  if (given->kind != Kind::kTensor) return op.fail(ASTER_FAIL(kDTYPE, "operand 0 is no tensor"));
  const Words all = shape_of(*given);
  const auto n = static_cast<int64_t>(all.size());
  const auto bound = [&](int64_t at) { return std::clamp(at < 0 ? at + n : at, int64_t{0}, n); };
  const int64_t from = bound(op.integer("start", 0)), to = bound(op.integer("end", n));
  const Words part =
      all.subspan(static_cast<size_t>(from), static_cast<size_t>(std::max(to - from, int64_t{0})));
  Ref made;
  op.fail(make_integers(&made, op.engine(), part, std::array{static_cast<Word>(part.size())},
                        DType::kInt64));
  op.set(made);
}

void size(Op& op) {
  const Ref given = op.value(0);
  if (!op.ok()) return;
  if (given->kind != Kind::kTensor) return op.fail(ASTER_FAIL(kDTYPE, "operand 0 is no tensor"));
  Word count = 1;
  for (const Word dim : shape_of(*given)) count *= dim;
  Ref made;
  op.fail(make_integers(&made, op.engine(), Words(&count, 1), Words(), DType::kInt64));
  op.set(made);
}

void reshape(Op& op) {
  const Node x = op.in(0);
  const Words asked = op.version >= 5 ? op.ints(1) : op.integers("shape");
  Dims shape = shape_from(op, asked);
  if (!op.ok()) return;
  const bool zero = op.integer("allowzero", 0) != 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] == 0 && !zero && i >= x->ndim) {
      return op.fail(
          ASTER_FAIL(kSHAPE, "%s as %s", uop::brief(x).text, uop::brief_shape(asked).text));
    }
    if (asked[i] == 0 && !zero) shape[i] = x->dim(i);
  }
  // Of no elements the size that is left open is told by the others.
  op.set(tensor::reshape(op.g, x, shape), op.element(0));
}

void flatten(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  int64_t axis = op.integer("axis", 1);
  if (axis < 0) axis += x->ndim;
  if (axis < 0 || axis > x->ndim)
    return op.fail(
        ASTER_FAIL(kRANGE, "axis %lld of %s", static_cast<long long>(axis), uop::brief(x).text));
  op.set(flat_from(op, x, static_cast<size_t>(axis)), op.element(0));
}

void squeeze(Op& op) {
  const Node x = op.in(0);
  const Words given = op.axes(1, 13);
  if (!op.ok()) return;
  Dims axes;
  if (given.empty()) {
    for (size_t i = 0; i < x->ndim; ++i) {
      if (x->dim(i) == 1) axes.push(static_cast<Word>(i));
    }
  } else {
    axes = op.resolved(given, x->ndim);
  }
  for (const Word axis : words_of(axes)) {
    if (x->dim(static_cast<size_t>(axis)) != 1) {
      return op.fail(ASTER_FAIL(kSHAPE, "axis %lld of %s is not of size 1",
                                static_cast<long long>(axis), uop::brief(x).text));
    }
  }
  op.set(uop::drop_axes(op.g, x, axes), op.element(0));
}

void unsqueeze(Op& op) {
  const Node x = op.in(0);
  const Words given = op.axes(1, 13);
  if (!op.ok()) return;
  if (x->ndim + given.size() > Dims::kMost)
    return op.fail(ASTER_FAIL(kRANGE, "%s and %zu axes", uop::brief(x).text, given.size()));
  const Dims axes = op.resolved(given, x->ndim + given.size());
  if (!op.ok()) return;
  Dims shape;
  size_t next = 0, from = 0;
  for (size_t i = 0; i < x->ndim + axes.size(); ++i) {
    if (next < axes.size() && axes[next] == static_cast<Word>(i)) {
      shape.push(1);
      ++next;
    } else {
      shape.push(x->dim(from++));
    }
  }
  op.set(op.g.reshape(x, shape), op.element(0));
}

void transpose(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  Dims order(op.integers("perm"));
  if (!op.has("perm")) {
    for (size_t i = x->ndim; i-- > 0;) order.push(static_cast<Word>(i));
  }
  op.set(tensor::permute(op.g, x, order), op.element(0));
}

void expand(Op& op) {
  const Node x = op.in(0);
  const Words asked = op.ints(1);
  if (!op.ok()) return;
  Dims shape;
  if (!uop::broadcast_shape(&shape, x->shape(), asked)) {
    return op.fail(ASTER_FAIL(kSHAPE, "%s does not broadcast with %s", uop::brief(x).text,
                              uop::brief_shape(asked).text));
  }
  op.set(uop::broadcast_to(op.g, x, shape), op.element(0));
}

void tile(Op& op) {
  const Node x = op.in(0);
  if (op.version < 6) {  // how often, along which axis
    const Word count = op.scalar(1, 1), axis = op.scalar(2, 0);
    if (!op.ok()) return;
    Dims times(x->ndim, 1);
    times[op.axis(axis, x->ndim)] = count;
    if (op.ok()) op.set(tensor::repeat(op.g, x, times), op.element(0));
    return;
  }
  const Words times = op.ints(1);
  if (op.ok()) op.set(tensor::repeat(op.g, x, times), op.element(0));
}

void concat(Op& op) {
  constexpr size_t kMost = 1 << 16;
  if (op.count() == 0 || op.count() > kMost)
    return op.fail(ASTER_FAIL(kRANGE, "%zu operands", op.count()));
  Vec<Node> all(op.heap());
  for (size_t i = 0; i < op.count() && op.ok(); ++i) {
    op.fail(all.push(op.in(i)));
    if (op.ok() && all[i]->dtype != all[0]->dtype) {
      op.fail(ASTER_FAIL(kDTYPE, "operands %s and %s", uop::brief(all[0]).text,
                         uop::brief(all[i]).text));
    }
  }
  if (op.ok())
    op.set(tensor::cat(op.g, {all.data(), all.size()}, op.integer("axis", 1)), op.element(0));
}

void split(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", 0), x->ndim);
  Words sizes = op.has(1) ? op.ints(1) : op.integers("split");
  if (!op.ok()) return;
  const Word whole = x->dim(axis);
  Dims parts;
  if (sizes.empty()) {
    const auto count = static_cast<Word>(op.results());
    const Word each = count == 0 ? 0 : (whole + count - 1) / count;
    for (Word i = 0; i < count; ++i) parts.push(std::clamp(whole - i * each, Word{0}, each));
  } else {
    for (const Word size : sizes) parts.push(size);
  }
  Word at = 0;
  for (size_t i = 0; i < parts.size() && i < op.results(); ++i) {
    if (parts[i] < 0 || parts[i] > whole - at)
      return op.fail(
          ASTER_FAIL(kSHAPE, "%s split into %s", uop::brief(x).text, uop::brief_shape(parts).text));
    op.set(i, tensor::cut_axis(op.g, x, axis, at, at + parts[i]), op.element(0));
    at += parts[i];
  }
  if (at != whole)
    op.fail(
        ASTER_FAIL(kSHAPE, "%s split into %s", uop::brief(x).text, uop::brief_shape(parts).text));
}

void slice(Op& op) {
  const Node x = op.in(0);
  const bool old = op.version < 10;
  const Words starts = old ? op.integers("starts") : op.ints(1);
  const Words ends = old ? op.integers("ends") : op.ints(2);
  const Words given = old ? op.integers("axes") : op.has(3) ? op.ints(3) : Words();
  const Words steps = !old && op.has(4) ? op.ints(4) : Words();
  if (!op.ok()) return;
  const bool fits = starts.size() == ends.size() &&
                    (given.empty() ? starts.size() <= x->ndim : given.size() == starts.size()) &&
                    (steps.empty() || steps.size() == starts.size());
  if (!fits)
    return op.fail(ASTER_FAIL(kSHAPE, "%zu starts, %zu ends, %zu axes, %zu steps", starts.size(),
                              ends.size(), given.size(), steps.size()));
  Dims from(x->ndim, INT64_MIN), to(x->ndim, INT64_MAX), step(x->ndim, 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis = given.empty() ? i : op.axis(given[i], x->ndim);
    from[axis] = starts[i];
    to[axis] = ends[i];
    step[axis] = steps.empty() ? 1 : steps[i];
  }
  if (op.ok()) op.set(tensor::slice(op.g, x, x->ndim, from.at, to.at, step.at), op.element(0));
}

void pad(Op& op) {
  const Node x = op.in(0);
  const bool old = op.version < 11;
  const Words pads = !old ? op.ints(1) : op.integers(op.has("pads") ? "pads" : "paddings");
  const Words given = !old && op.has(3) ? op.ints(3) : Words();
  if (!op.ok()) return;
  const size_t count = given.empty() ? x->ndim : given.size();
  if (pads.size() != 2 * count)
    return op.fail(ASTER_FAIL(kSHAPE, "%zu pads for %zu axes", pads.size(), count));
  Dims before(x->ndim, 0), after(x->ndim, 0);
  for (size_t i = 0; i < count; ++i) {
    const size_t axis = given.empty() ? i : op.axis(given[i], x->ndim);
    before[axis] = pads[i];
    after[axis] = pads[count + i];
  }
  if (!op.ok()) return;
  const std::string_view mode = op.text("mode", "constant");
  if (mode != "constant") {
    const auto how = mode == "reflect" ? tensor::Padding::kReflect
                     : mode == "edge"  ? tensor::Padding::kReplicate
                                       : tensor::Padding::kCircular;
    return op.set(tensor::pad_mode(op.g, x, before, after, how), op.element(0));
  }
  if (dtype::is_float(x->dtype)) {
    const double fill = old ? op.number("value", 0) : op.real(2, 0);
    return op.set(tensor::pad(op.g, x, before, after, std::bit_cast<Word>(fill), DType::kFloat64),
                  op.element(0));
  }
  const Word fill = old ? dtype::float_to_int(op.number("value", 0)) : op.scalar(2, 0);
  if (op.ok())
    op.set(tensor::pad(op.g, x, before, after, fill,
                       x->dtype == DType::kBool ? DType::kBool : DType::kInt64),
           op.element(0));
}

void range(Op& op) {
  const Node start = op.in(0);
  if (!op.ok()) return;
  const bool floats = dtype::is_float(start->dtype);
  double count;
  constexpr double kMost = 1e12;
  if (floats) {
    count = std::ceil((op.real(1, 0) - op.real(0, 0)) / op.real(2, 1));
  } else {
    const int64_t from = op.scalar(0, 0), to = op.scalar(1, 0), step = op.scalar(2, 1);
    if (step == 0) return op.fail(ASTER_FAIL(kRANGE, "a range with step 0"));
    count = std::ceil((static_cast<double>(to) - static_cast<double>(from)) /
                      static_cast<double>(step));
  }
  if (!op.ok()) return;
  if (!(count < kMost)) return op.fail(ASTER_FAIL(kRANGE, "a range of %g elements", count));
  const auto n = static_cast<int64_t>(std::max(count, 0.0));
  const DType dtype = start->dtype;
  const Expr i{&op.g, op.g.cast(op.g.iota(DType::kInt64, n), dtype)};
  const Expr from{&op.g, op.g.reshape(start, Words())},
      step{&op.g, op.g.reshape(op.in(2), Words())};
  if (op.ok()) op.set(i * step + from);
}

void trilu(Op& op) {
  const Node x = op.in(0);
  const int64_t k = op.scalar(1, 0);
  if (!op.ok()) return;
  const Node wide = x->dtype == DType::kBool ? op.g.cast(x, DType::kInt8) : x;
  const Node y =
      op.integer("upper", 1) != 0 ? tensor::triu(op.g, wide, k) : tensor::tril(op.g, wide, k);
  op.set(y == nullptr ? y : op.g.cast(y, x->dtype), op.element(0));
}

void eye_like(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const auto element = static_cast<int32_t>(op.integer("dtype", op.element(0)));
  const DType dtype = dtype_of(op, element);
  if (op.ok() && x->ndim != 2) op.fail(ASTER_FAIL(kSHAPE, "%s is no matrix", uop::brief(x).text));
  if (!op.ok()) return;
  const Expr row = uop::iota(op.g, DType::kInt64, x->shape(), 0),
             column = uop::iota(op.g, DType::kInt64, x->shape(), 1);
  const Expr on = row + static_cast<double>(op.integer("k", 0)) == column;
  op.set(on.cast(dtype), element);
}

void depth_to_space(Op& op) {
  const Node x = op.in(0);
  const int64_t b = op.integer("blocksize", 0);
  if (!op.ok()) return;
  if (x->ndim != 4 || b < 1 || b > 1 << 20 || x->dim(1) % (b * b) != 0)
    return op.fail(
        ASTER_FAIL(kSHAPE, "%s in blocks of %lld", uop::brief(x).text, static_cast<long long>(b)));
  const Word n = x->dim(0), c = x->dim(1) / (b * b), h = x->dim(2), w = x->dim(3);
  Word high, wide;
  if (!checked_mul(h, b, &high) || !checked_mul(w, b, &wide))
    return op.fail(
        ASTER_FAIL(kRANGE, "%s in blocks of %lld", uop::brief(x).text, static_cast<long long>(b)));
  const bool dcr = op.text("mode", "DCR") == "DCR";
  const Node apart = dcr ? op.g.reshape(x, std::array{n, b, b, c, h, w})
                         : op.g.reshape(x, std::array{n, c, b, b, h, w});
  const Node turned = dcr ? op.g.permute(apart, std::array<Word, 6>{0, 3, 4, 1, 5, 2})
                          : op.g.permute(apart, std::array<Word, 6>{0, 1, 4, 2, 5, 3});
  op.set(op.g.reshape(turned, std::array{n, c, high, wide}), op.element(0));
}

void space_to_depth(Op& op) {
  const Node x = op.in(0);
  const int64_t b = op.integer("blocksize", 0);
  if (!op.ok()) return;
  if (x->ndim != 4 || b < 1 || b > 1 << 20 || x->dim(2) % b != 0 || x->dim(3) % b != 0)
    return op.fail(
        ASTER_FAIL(kSHAPE, "%s in blocks of %lld", uop::brief(x).text, static_cast<long long>(b)));
  const Word n = x->dim(0), c = x->dim(1), h = x->dim(2) / b, w = x->dim(3) / b;
  const Node apart = op.g.reshape(x, std::array{n, c, h, b, w, b});
  const bool crd = op.text("mode", "DCR") == "CRD";
  const Node turned = crd ? op.g.permute(apart, std::array<Word, 6>{0, 1, 3, 5, 2, 4})
                          : op.g.permute(apart, std::array<Word, 6>{0, 3, 5, 1, 2, 4});
  Word deep;
  if (!checked_mul(c, b * b, &deep))
    return op.fail(
        ASTER_FAIL(kRANGE, "%s in blocks of %lld", uop::brief(x).text, static_cast<long long>(b)));
  op.set(op.g.reshape(turned, std::array{n, deep, h, w}), op.element(0));
}

void center_crop_pad(Op& op) {
  Node x = op.in(0);
  const Words sizes = op.ints(1), given = op.integers("axes");
  if (!op.ok()) return;
  if (!given.empty() ? sizes.size() != given.size() : sizes.size() > x->ndim)
    return op.fail(ASTER_FAIL(kSHAPE, "%zu sizes", sizes.size()));
  Dims before(x->ndim, 0), after(x->ndim, 0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t axis = given.empty() ? i : op.axis(given[i], x->ndim);
    if (!op.ok()) return;
    if (sizes[i] < 0)
      return op.fail(
          ASTER_FAIL(kRANGE, "%s with sizes %s", uop::brief(x).text, uop::brief_shape(sizes).text));
    const Word more = sizes[i] - x->dim(axis);
    // Of an odd number the end has one more.
    const Word first = more >= 0 ? more / 2 : -((-more) / 2);
    before[axis] = first;
    after[axis] = more - first;
  }
  if (op.ok())
    op.set(tensor::pad(op.g, x, before, after, 0,
                       x->dtype == DType::kBool ? DType::kBool : DType::kInt64),
           op.element(0));
}

}  // namespace build
}  // namespace aster::nn::onnx
