#include "uop/raw.h"

#include <limits>

#include "uop/expr.h"
#include "uop/print.h"
#include "uop/verify.h"
#include "uop/wide.h"

namespace aster::uop {
namespace {

struct Request {
  Graph& g;
  const RawNode& raw;
  FullName name;
  Node x() const { return raw.sources[0]; }
  Word arg(size_t i) const { return raw.arguments[i]; }
  Words args() const { return raw.arguments; }
};

Node nil(Status) { return nullptr; }

// Made as it is and then held against the verifier's table, for operations without a builder.
Node made(const Request& r, DType dtype, Words arguments, Words shape) {
  Node node = r.g.make(r.name.op, dtype, r.raw.sources, arguments, shape);
  if (node == nullptr) return nullptr;
  const Level level = info(r.name.op).tensor ? Level::kTensor : Level::kKernel;
  if (const char* fault = find_fault(node, level)) {
    return nil(
        ASTER_FAIL(kARGUMENT, "%s %s has not %s", info(r.name.op).name, brief(node).text, fault));
  }
  return node;
}

Node build_const(const Request& r) {
  const Word word = convert_word(r.arg(0), r.raw.dtype, r.raw.dtype);
  return r.g.constant_word(r.raw.dtype, word, r.raw.shape);
}
Node build_iota(const Request& r) {
  if (r.raw.shape.size() != 1)
    return nil(ASTER_FAIL(kSHAPE, "Iota of %zu axes", r.raw.shape.size()));
  return r.g.iota(r.raw.dtype, r.raw.shape[0]);
}
Node build_slice(const Request& r) {
  Dims start, step;
  if (r.raw.arguments.size() != 2u * r.x()->ndim) {
    return nil(ASTER_FAIL(kARGUMENT, "Slice of %s by %zu arguments", brief(r.x()).text,
                          r.raw.arguments.size()));
  }
  for (size_t i = 0; i < r.x()->ndim; ++i) {
    start.push(r.arg(2 * i));
    step.push(r.arg(2 * i + 1));
  }
  return r.g.slice(r.x(), start, step, r.raw.shape);
}
Node build_pad(const Request& r) {
  Dims before, after, interior;
  if (r.raw.arguments.size() != 3u * r.x()->ndim + 1) {
    return nil(ASTER_FAIL(kARGUMENT, "Pad of %s by %zu arguments", brief(r.x()).text,
                          r.raw.arguments.size()));
  }
  for (size_t i = 0; i < r.x()->ndim; ++i) {
    before.push(r.arg(3 * i));
    after.push(r.arg(3 * i + 1));
    interior.push(r.arg(3 * i + 2));
  }
  const DType d = r.x()->dtype;
  return r.g.pad(r.x(), before, after, interior, convert_word(r.raw.arguments.back(), d, d));
}
Node build_range(const Request& r) {
  if (r.arg(1) < 0)
    return nil(ASTER_FAIL(kRANGE, "Range of size %lld", static_cast<long long>(r.arg(1))));
  return r.g.range(r.arg(0), r.arg(1));
}
Node build_param(const Request& r) {
  if (r.arg(0) < 0)
    return nil(ASTER_FAIL(kRANGE, "Param of slot %lld", static_cast<long long>(r.arg(0))));
  return r.g.param(r.arg(0), r.raw.dtype, r.raw.shape);
}

Node build_reduce(const Request& r) {
  return r.g.reduce(static_cast<Op>(r.name.word), r.x(), r.args());
}
Node build_dot(const Request& r) { return r.g.dot(r.x(), r.raw.sources[1], r.args(), r.raw.dtype); }
// As tensors have it: a function.
Node build_wide(const Request& r) {
  if (r.arg(0) != static_cast<Word>(WideKind::kApply) || r.arg(1) < 0 || r.arg(1) > INT32_MAX)
    return nil(ASTER_FAIL(kARGUMENT, "Wide is built of 0 and a function of aster_ml/flt.h"));
  return r.g.wide_function(static_cast<int32_t>(r.arg(1)), r.raw.sources);
}
Node build_gather(const Request& r) {
  return r.g.gather(r.x(), r.raw.sources.subspan(1), r.args(), r.raw.shape);
}
Node build_scatter(const Request& r) {
  const bool writes = !r.name.has_word;
  if (r.raw.sources.size() < 2 || (writes && (r.raw.arguments.empty() || r.arg(0) != -1))) {
    return nil(ASTER_FAIL(kARGUMENT, "Scatter of %zu sources", r.raw.sources.size()));
  }
  return r.g.scatter(writes ? Op::kSink : static_cast<Op>(r.name.word), r.x(), r.raw.sources[1],
                     r.raw.sources.subspan(2), writes ? r.args().subspan(1) : r.args());
}
Node build_scan(const Request& r) {
  return r.g.scan(static_cast<Op>(r.name.word), r.x(), r.arg(0), r.arg(1) != 0);
}
Node build_scan_place(const Request& r) {
  return r.g.scan_place(static_cast<Op>(r.name.word), r.x(), r.arg(0));
}
Node build_log_scan(const Request& r) { return r.g.log_scan(r.x(), r.arg(0), r.arg(1) != 0); }
Node build_argsort(const Request& r) {
  const bool fits = r.arg(0) >= 0 && static_cast<size_t>(r.arg(0)) < r.raw.shape.size();
  return r.g.argsort(r.x(), r.arg(0), r.arg(1) != 0,
                     fits ? r.raw.shape[static_cast<size_t>(r.arg(0))] : -1);
}
Node build_sort(const Request& r) { return r.g.sort(r.x(), r.arg(0), r.arg(1) != 0); }
// Windows and their adjoint: axis, stride, dilation, and a size if it is not to be that of an axis
// of the shape, as printed.
Node build_windows(const Request& r) {
  const bool adjoint = r.name.op == Op::kUnwindow;
  const size_t count = r.args().size();
  if (count != 3 && count != 4) {
    return nil(
        ASTER_FAIL(kARGUMENT, "%s takes 3 or 4 arguments, not %zu", info(r.name.op).name, count));
  }
  const Word at = r.arg(0) == INT64_MAX ? -1 : r.arg(0) + (adjoint ? 0 : 1);
  const bool shaped = at >= 0 && static_cast<size_t>(at) < r.raw.shape.size();
  if (count == 3 && !shaped) {
    return nil(ASTER_FAIL(kSHAPE, "%s of shape %s along axis %lld", info(r.name.op).name,
                          brief_shape(r.raw.shape).text, static_cast<long long>(r.arg(0))));
  }
  const Word size = count == 4 ? r.arg(3) : r.raw.shape[static_cast<size_t>(at)];
  return adjoint ? r.g.unwindow(r.x(), r.arg(0), size, r.arg(1), r.arg(2))
                 : r.g.window(r.x(), r.arg(0), size, r.arg(1), r.arg(2));
}
Node build_contiguous(const Request& r) {
  if (r.args().empty()) return r.g.contiguous(r.x());
  constexpr Word kMost = std::numeric_limits<int32_t>::max();
  if (r.args().size() != 2 || r.arg(0) < 1 || r.arg(0) > kMost || r.arg(1) < 0 ||
      r.arg(1) > kMost) {
    return nil(ASTER_FAIL(kARGUMENT, "Contiguous takes no arguments, or two devices"));
  }
  return r.g.transfer(r.x(), r.arg(0), r.arg(1));
}
Node build_after(const Request& r) { return r.g.after(r.x(), r.raw.sources.subspan(1)); }
Node build_fold(const Request& r) { return made(r, r.x()->dtype, std::array{r.name.word}, {}); }
Node build_carry(const Request& r) {
  return made(r, r.x()->dtype, std::array{r.name.word, r.arg(0)}, {});
}

constexpr int kAny = -1;

struct Row {
  Op op;
  int arguments;  // kAny: the builder says
  bool dtype;     // whether a dtype is asked for
  Node (*build)(const Request& r);
};
using R = Request;
// clang-format off
constexpr Row kRows[] = {
    {Op::kConst,      1,    true,  build_const},
    {Op::kParam,      1,    true,  build_param},
    {Op::kIota,       0,    true,  build_iota},
    {Op::kRange,      2,    false, build_range},
    {Op::kReshape,    0,    false, [](const R& r) { return r.g.reshape(r.x(), r.raw.shape); }},
    {Op::kExpand,     0,    false, [](const R& r) { return r.g.expand(r.x(), r.raw.shape); }},
    {Op::kPermute,    kAny, false, [](const R& r) { return r.g.permute(r.x(), r.args()); }},
    {Op::kFlip,       kAny, false, [](const R& r) { return r.g.flip(r.x(), r.args()); }},
    {Op::kSlice,      kAny, false, build_slice},
    {Op::kPad,        kAny, false, build_pad},
    {Op::kWindow,     kAny, false, build_windows},
    {Op::kUnwindow,   kAny, false, build_windows},
    {Op::kCat,        1,    false, [](const R& r) { return r.g.cat(r.raw.sources, r.arg(0)); }},
    {Op::kCast,       0,    true,  [](const R& r) { return r.g.cast(r.x(), r.raw.dtype); }},
    {Op::kBitcast,    0,    true,  [](const R& r) { return r.g.bitcast(r.x(), r.raw.dtype); }},
    {Op::kReduce,     kAny, false, build_reduce},
    {Op::kDot,        kAny, true,  build_dot},
    {Op::kWide,       2,    false, build_wide},
    {Op::kGather,     kAny, false, build_gather},
    {Op::kScatter,    kAny, false, build_scatter},
    {Op::kScan,       2,    false, build_scan},
    {Op::kScanPlace,  1,    false, build_scan_place},
    {Op::kLogScan,    2,    false, build_log_scan},
    {Op::kArgsort,    2,    false, build_argsort},
    {Op::kSort,       2,    false, build_sort},
    {Op::kContiguous, kAny, false, build_contiguous},
    {Op::kDetach,     0,    false, [](const R& r) { return r.g.detach(r.x()); }},
    {Op::kAssign,     0,    false, [](const R& r) { return r.g.assign(r.x(), r.raw.sources[1]); }},
    {Op::kAfter,      0,    false, build_after},
    {Op::kLoad,       0,    false, [](const R& r) { return made(r, r.x()->dtype, {}, {}); }},
    {Op::kStore,      0,    false, [](const R& r) { return made(r, DType::kNone, {}, {}); }},
    {Op::kFold,       0,    false, build_fold},
    {Op::kCarry,      1,    false, build_carry},
    {Op::kSink,       0,    false, [](const R& r) { return r.g.sink(r.raw.sources); }},
};
// clang-format on
constexpr uint32_t kFewestSources[] = {0, 1};  // of operations that take any number

}  // namespace

Status build_raw(Node* out, Graph& g, const RawNode& raw) {
  Request r{g, raw, {}};
  const int name_size = static_cast<int>(raw.name.size());
  if (raw.parsed != nullptr) {
    r.name = *raw.parsed;
  } else if (!parse_full_name(&r.name, raw.name)) {
    return ASTER_FAIL(kNOT_FOUND, "no operation is named \"%.*s\"", name_size, raw.name.data());
  }
  const Op op = r.name.op;
  if (op == Op::kCall) {
    return build_raw_call(out, g, static_cast<Composite>(r.name.word), raw.sources, raw.arguments);
  }
  const int wanted = info(op).sources;
  const size_t count = raw.sources.size();
  if (wanted < 0 ? count < kFewestSources[op != Op::kSink] : count != static_cast<size_t>(wanted)) {
    return ASTER_FAIL(kARGUMENT, "%.*s of %zu sources", name_size, raw.name.data(), count);
  }
  if (is_alu(op)) {
    if (!raw.arguments.empty())
      return ASTER_FAIL(kARGUMENT, "%s takes no arguments", info(op).name);
    *out = g.alu(op, raw.sources);
    return *out != nullptr ? kOk : last_failure();
  }
  int64_t elements = 0;
  if (!count_elements(raw.shape, &elements)) {
    return ASTER_FAIL(kRANGE, "%s of shape %s", info(op).name, brief_shape(raw.shape).text);
  }
  for (const Row& row : kRows) {
    if (row.op != op) continue;
    if (row.arguments != kAny && raw.arguments.size() != static_cast<size_t>(row.arguments)) {
      return ASTER_FAIL(kARGUMENT, "%s takes %d arguments, not %zu", info(op).name, row.arguments,
                        raw.arguments.size());
    }
    if (row.dtype && raw.dtype == DType::kNone) {
      return ASTER_FAIL(kARGUMENT, "%s needs a dtype", info(op).name);
    }
    *out = row.build(r);
    return *out != nullptr ? kOk : last_failure();
  }
  return ASTER_FAIL(kUNSUPPORTED, "%s is not built by name", info(op).name);
}

}  // namespace aster::uop
