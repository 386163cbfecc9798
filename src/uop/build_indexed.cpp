// Builders of the operations whose places depend on data.
#include <algorithm>

#include "uop/uop.h"

namespace aster::uop {
namespace {

Node nil(Status) { return nullptr; }

bool same_shape(Words a, Words b) { return std::ranges::equal(a, b); }

// What orders or combines elements at places that depend on data is not made of wide floats yet.
bool refuses_wide(const char* what, Node x) {
  if (!dtype::is_wide(x->dtype)) return false;
  (void)ASTER_FAIL(kUNSUPPORTED, "%s of %s", what, brief(x).text);
  return true;
}

// Null sources are failures that are already recorded.
bool all_there(Node x, Nodes indices) {
  return x != nullptr && std::ranges::none_of(indices, [](Node n) { return n == nullptr; });
}

Status check_indices(const char* what, Node x, Nodes indices, Words coordinates, Words at) {
  for (Node index : indices) {
    if (!dtype::is_int(index->dtype)) {
      return ASTER_FAIL(kDTYPE, "%s of %s by %s: indices are integers", what, brief(x).text,
                        brief(index).text);
    }
    if (!same_shape(index->shape(), at)) {
      return ASTER_FAIL(kSHAPE, "%s of %s by %s at %s", what, brief(x).text, brief(index).text,
                        brief_shape(at).text);
    }
  }
  if (!coordinates_fit(x->shape(), at, indices.size(), coordinates)) {
    return ASTER_FAIL(kARGUMENT, "%s of %s at %s: coordinates %s", what, brief(x).text,
                      brief_shape(at).text, brief_shape(coordinates).text);
  }
  return kOk;
}

bool axis_fits(Node x, int64_t axis) { return axis >= 0 && axis < x->ndim; }

Status check_axis(const char* what, Node x, int64_t axis) {
  if (axis_fits(x, axis)) return kOk;
  return ASTER_FAIL(kRANGE, "%s of %s on axis %lld", what, brief(x).text,
                    static_cast<long long>(axis));
}

// Whether op has such traits and combines elements of x, which has the axis.
Status check_scan(Op op, uint8_t traits, Node x, int64_t axis) {
  if ((uop::traits(op, x->dtype) & traits) != traits ||
      (info(op).rule == DTypeRule::kIntegral && dtype::is_float(x->dtype))) {
    return ASTER_FAIL(kDTYPE, "%s scan of %s", info(op).name, brief(x).text);
  }
  return check_axis("scan", x, axis);
}

bool nothing_to_scan(Node x, int64_t axis) {
  return x->dim(static_cast<size_t>(axis)) <= 1 || x->count() == 0;
}

}  // namespace

bool coordinates_fit(Words into, Words at, size_t indices, Words coordinates) {
  if (coordinates.size() != into.size()) return false;
  size_t used = 0;
  for (size_t i = 0; i < coordinates.size(); ++i) {
    const Word c = coordinates[i];
    if (c >= 0) {
      if (static_cast<size_t>(c) >= at.size() || at[static_cast<size_t>(c)] > into[i]) return false;
      continue;
    }
    if (c < -static_cast<Word>(indices)) return false;
    for (size_t j = 0; j < i; ++j) {
      if (coordinates[j] == c) return false;
    }
    ++used;
  }
  return used == indices;
}

Node Graph::gather(Node x, Nodes indices, Words coordinates, Words shape) {
  if (!all_there(x, indices)) return nullptr;
  int64_t count = 0;
  if (!count_elements(shape, &count)) {
    return nil(ASTER_FAIL(kRANGE, "gather of %s to %s", brief(x).text, brief_shape(shape).text));
  }
  if (!check_indices("gather", x, indices, coordinates, shape).ok()) return nullptr;
  if (x->count() == 0) return constant_word(x->dtype, 0, shape);
  Vec<Node> src(*memory_);
  if (!src.push(x).ok() || !src.append(indices.data(), indices.size()).ok()) return nullptr;
  return make(Op::kGather, x->dtype, {src.data(), src.size()}, coordinates, shape);
}

Node Graph::scatter(Op op, Node target, Node value, Nodes indices, Words coordinates) {
  if (value == nullptr || !all_there(target, indices)) return nullptr;
  if (op != Op::kSink && refuses_wide("scatter that combines", value)) return nullptr;
  if (op != Op::kSink &&
      ((traits(op, value->dtype) & REDUCE) == 0 ||
       (info(op).rule == DTypeRule::kIntegral && dtype::is_float(value->dtype)))) {
    return nil(ASTER_FAIL(kDTYPE, "%s scatter of %s", info(op).name, brief(value).text));
  }
  if (target->dtype != value->dtype) {
    return nil(ASTER_FAIL(kDTYPE, "scatter of %s to %s", brief(value).text, brief(target).text));
  }
  if (!check_indices("scatter", target, indices, coordinates, value->shape()).ok()) return nullptr;
  if (value->count() == 0 || target->count() == 0) return target;
  Vec<Node> src(*memory_);
  Vec<Word> arg(*memory_);
  if (!src.push(target).ok() || !src.push(value).ok() ||
      !src.append(indices.data(), indices.size()).ok() ||
      !arg.push(op == Op::kSink ? -1 : static_cast<Word>(op)).ok() ||
      !arg.append(coordinates.data(), coordinates.size()).ok()) {
    return nullptr;
  }
  return make(Op::kScatter, target->dtype, {src.data(), src.size()}, {arg.data(), arg.size()},
              target->shape());
}

Node Graph::scan(Op op, Node x, int64_t axis, bool reverse) {
  if (x == nullptr) return nullptr;
  if (op != Op::kAdd && refuses_wide("scan", x)) return nullptr;
  if (!check_scan(op, REDUCE, x, axis).ok()) return nullptr;
  if (nothing_to_scan(x, axis)) return x;
  return make(Op::kScan, x->dtype, std::array{x},
              std::array<Word, 3>{static_cast<Word>(op), axis, reverse}, x->shape());
}

Node Graph::scan_place(Op op, Node x, int64_t axis) {
  if (x == nullptr) return nullptr;
  if (refuses_wide("scan", x)) return nullptr;
  if (!check_scan(op, REDUCE | IDEM, x, axis).ok()) return nullptr;
  if (nothing_to_scan(x, axis)) return constant_int(DType::kInt32, 0, x->shape());
  if (x->dim(static_cast<size_t>(axis)) > INT32_MAX) {
    return nil(ASTER_FAIL(kRANGE, "positions in %s beyond int32", brief(x).text));
  }
  return make(Op::kScanPlace, DType::kInt32, std::array{x},
              std::array<Word, 2>{static_cast<Word>(op), axis}, x->shape());
}

Node Graph::log_scan(Node x, int64_t axis, bool reverse) {
  if (x == nullptr) return nullptr;
  if (refuses_wide("LogScan", x)) return nullptr;
  if (!dtype::is_float(x->dtype)) return nil(ASTER_FAIL(kDTYPE, "LogScan of %s", brief(x).text));
  if (!check_axis("LogScan", x, axis).ok()) return nullptr;
  if (nothing_to_scan(x, axis)) return x;
  return make(Op::kLogScan, x->dtype, std::array{x}, std::array<Word, 2>{axis, reverse},
              x->shape());
}

Node Graph::argsort(Node x, int64_t axis, bool descending, int64_t count) {
  if (x == nullptr || refuses_wide("argsort", x)) return nullptr;
  const bool fits = axis_fits(x, axis) && count >= 0 &&
                    count <= x->dim(static_cast<size_t>(axis)) &&
                    x->dim(static_cast<size_t>(axis)) <= INT32_MAX;
  if (!fits) {
    return nil(ASTER_FAIL(kRANGE, "argsort of %s: the first %lld on axis %lld", brief(x).text,
                          static_cast<long long>(count), static_cast<long long>(axis)));
  }
  Vec<Word> shape(*memory_);
  if (!shape.append(x->shape().data(), x->ndim).ok()) return nullptr;
  shape[static_cast<size_t>(axis)] = count;
  const Words words(shape.data(), shape.size());
  if (x->dim(static_cast<size_t>(axis)) <= 1 || x->count() == 0 || count == 0) {
    return constant_int(DType::kInt32, 0, words);
  }
  return make(Op::kArgsort, DType::kInt32, std::array{x}, std::array<Word, 2>{axis, descending},
              words);
}

Node Graph::sort(Node x, int64_t axis, bool descending) {
  if (x == nullptr || refuses_wide("sort", x)) return nullptr;
  if (dtype::is_fp8(x->dtype)) return nil(ASTER_FAIL(kDTYPE, "sort of %s", brief(x).text));
  if (!check_axis("sort", x, axis).ok()) return nullptr;
  if (x->dim(static_cast<size_t>(axis)) <= 1 || x->count() == 0) return x;
  return make(Op::kSort, x->dtype, std::array{x}, std::array<Word, 2>{axis, descending},
              x->shape());
}

}  // namespace aster::uop
