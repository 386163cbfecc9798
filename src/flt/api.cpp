// The public functions on flt256 and flt512.
#include "flt/apply.h"
#include "flt/convert.h"
#include "flt/mpfr.h"

namespace aster::flt {
namespace {

constexpr size_t kAlignment = alignof(Limb);

int64_t stride_of(const int64_t* strides, int i) { return strides == nullptr ? 1 : strides[i]; }

Status apply(void* out, const aster_ml_context* context, int32_t operation, int32_t dtype,
             int32_t rounding, const void* const* operands, const int64_t* strides, size_t count) {
  const Caller caller(context);
  ASTER_TRY(caller.status());
  const Operation* const op = operation_of(operation);
  if (op == nullptr) return ASTER_FAIL(kARGUMENT, "%d is no operation", operation);
  int32_t limbs;
  ASTER_TRY(check_rounding(rounding));
  ASTER_TRY(check_dtype(&limbs, dtype));
  if (op->mpfr) ASTER_TRY(mpfr_ready());
  if (count == 0) return kOk;
  if (operands == nullptr) return ASTER_FAIL(kARGUMENT, "operands is null");
  const size_t size = static_cast<size_t>(limbs) * sizeof(Limb);
  Elements written, in[3] = {};
  ASTER_TRY(elements_of(&written, "out", out, stride_of(strides, 0), op->test ? 1 : size,
                        op->test ? 1 : kAlignment, count));
  ASTER_TRY(check_written(written, count));
  static const char* const kNames[] = {"operand 0", "operand 1", "operand 2"};
  for (int i = 0; i < op->arity; ++i) {
    ASTER_TRY(elements_of(&in[i], kNames[i], operands[i], stride_of(strides, i + 1), size,
                          kAlignment, count));
    ASTER_TRY(check_apart(written, in[i], count));
  }
  const Loop loop = op->loops[limbs == 4 ? 0 : 1];
  const auto mode = static_cast<Rounding>(rounding);
  in_parts(caller, count, op->ns,
           [&](size_t begin, size_t end) { loop(written, in, begin, end, mode); });
  return kOk;
}

// A dtype of a conversion: limbs, or one of the others.
struct Side {
  int limbs;
  DType dtype = DType::kNone;
  size_t size() const {
    return limbs != 0 ? static_cast<size_t>(limbs) * sizeof(Limb) : dtype::size(dtype);
  }
  size_t alignment() const { return limbs != 0 ? kAlignment : 1; }
};
Status side_of(Side* out, int32_t dtype) {
  out->limbs = limbs_of(dtype);
  return out->limbs != 0 ? kOk : dtype::from_storage_code(&out->dtype, dtype);
}

template <int N>
void copy_into(void* to, const Side& from, const void* at, Rounding mode) {
  Limb w[8];
  Limbs<N> y;
  if (from.limbs == 0) {
    from_element<N>(y, from.dtype, at);
  } else if (from.limbs == 4) {
    load<4>(w, at);
    resize<N, 4>(y, w, mode);
  } else {
    load<8>(w, at);
    resize<N, 8>(y, w, mode);
  }
  store<N>(to, y);
}

void copy_element(void* to, const Side& dst, const void* at, const Side& src, Rounding mode) {
  if (dst.limbs == 4) return copy_into<4>(to, src, at, mode);
  if (dst.limbs == 8) return copy_into<8>(to, src, at, mode);
  Limb w[8];
  if (src.limbs == 4) {
    load<4>(w, at);
    to_element<4>(to, dst.dtype, w, mode);
  } else {
    load<8>(w, at);
    to_element<8>(to, dst.dtype, w, mode);
  }
}

Status copy(void* dst, const aster_ml_context* context, int32_t dst_dtype, const void* src,
            int32_t src_dtype, int32_t rounding, const int64_t* strides, size_t count) {
  const Caller caller(context);
  ASTER_TRY(caller.status());
  Side to, from;
  ASTER_TRY(check_rounding(rounding));
  ASTER_TRY(side_of(&to, dst_dtype));
  ASTER_TRY(side_of(&from, src_dtype));
  if (to.limbs == 0 && from.limbs == 0) {
    return ASTER_FAIL(kDTYPE, "%s to %s: neither is flt256 or flt512", dtype::name(from.dtype),
                      dtype::name(to.dtype));
  }
  Elements written, in;
  ASTER_TRY(
      elements_of(&written, "dst", dst, stride_of(strides, 0), to.size(), to.alignment(), count));
  ASTER_TRY(
      elements_of(&in, "src", src, stride_of(strides, 1), from.size(), from.alignment(), count));
  ASTER_TRY(check_written(written, count));
  ASTER_TRY(check_apart(written, in, count));
  constexpr int64_t kNs = 12;
  const auto mode = static_cast<Rounding>(rounding);
  in_parts(caller, count, kNs, [&](size_t begin, size_t end) {
    for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); ++i) {
      copy_element(written.at(i), to, in.at(i), from, mode);
    }
  });
  return kOk;
}

}  // namespace
}  // namespace aster::flt

extern "C" {

int32_t aster_ml_flt_count_operands(int32_t operation) {
  const aster::flt::Operation* const op = aster::flt::operation_of(operation);
  return op == nullptr ? 0 : op->arity;
}

int32_t aster_ml_flt_apply(void* out, const aster_ml_context* context, int32_t operation,
                           int32_t dtype, int32_t rounding, const void* const* operands,
                           const int64_t* strides, size_t count) {
  ASTER_API();
  return aster::flt::apply(out, context, operation, dtype, rounding, operands, strides, count);
}

int32_t aster_ml_flt_copy(void* dst, const aster_ml_context* context, int32_t dst_dtype,
                          const void* src, int32_t src_dtype, int32_t rounding,
                          const int64_t* strides, size_t count) {
  ASTER_API();
  return aster::flt::copy(dst, context, dst_dtype, src, src_dtype, rounding, strides, count);
}

}  // extern "C"
