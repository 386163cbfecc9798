// The public functions on dtypes and scalars.
#include <cstring>
#include <limits>

#include "dtype/convert.h"

namespace aster::dtype {
namespace {

bool known(int32_t code) {
  return code >= 0 && code < kDTypeLimit && kInfos.row[code].kind != Kind::kUnknown;
}

// The code as a dtype; none for codes that are not known.
DType lenient(int32_t code) { return known(code) ? static_cast<DType>(code) : DType::kNone; }

// dtype and zeroed value, ready for its bytes.
Status begin_scalar(aster_ml_scalar* out, DType* d, int32_t code) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = aster_ml_scalar{};
  ASTER_TRY(from_code(d, code));
  out->dtype = code;
  return kOk;
}

template <typename T>
Status check_read(T* out, DType* d, const aster_ml_scalar* scalar) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = 0;
  if (scalar == nullptr) return ASTER_FAIL(kARGUMENT, "scalar is null");
  return from_code(d, scalar->dtype);
}

Status from_codes(int32_t* out, DType* d, int32_t code) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = 0;
  return from_any_code(d, code);
}

Status extreme(aster_ml_scalar* out, int32_t code, bool greatest) {
  DType d;
  ASTER_TRY(begin_scalar(out, &d, code));
  if (is_float(d)) {
    const double infinity = std::numeric_limits<double>::infinity();
    // A format without infinity has NaN in its place; its largest number is the bound then.
    const double value =
        is_fp8(d) && d != DType::kFp8E5M2 ? std::numeric_limits<double>::max() : infinity;
    store_double(d, out->value, greatest ? value : -value);
  } else if (greatest) {
    store_uint(d, out->value, max_int(d));
  } else {
    store_int(d, out->value, min_int(d));
  }
  return kOk;
}

int32_t code_of(DType d) { return static_cast<int32_t>(d); }

}  // namespace
}  // namespace aster::dtype

using aster::dtype::DType;
namespace dt = aster::dtype;

extern "C" {

size_t aster_ml_dtype_size(int32_t dtype) { return (aster_ml_dtype_bits(dtype) + 7) / 8; }

size_t aster_ml_dtype_bits(int32_t dtype) { return dt::bits(dt::lenient(dtype)); }

const char* aster_ml_dtype_name(int32_t dtype) {
  return dt::known(dtype) ? dt::name(dt::lenient(dtype)) : nullptr;
}

int32_t aster_ml_dtype_from_name(int32_t* out, const char* name) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = 0;
  if (name == nullptr) return ASTER_FAIL(kARGUMENT, "name is null");
  DType d;
  ASTER_TRY(dt::from_name(&d, name));
  *out = dt::code_of(d);
  return ASTER_ML_OK;
}

int32_t aster_ml_dtype_is_float(int32_t dtype) { return dt::is_float(dt::lenient(dtype)); }
int32_t aster_ml_dtype_is_int(int32_t dtype) { return dt::is_int(dt::lenient(dtype)); }
int32_t aster_ml_dtype_is_unsigned(int32_t dtype) { return dt::is_unsigned(dt::lenient(dtype)); }
int32_t aster_ml_dtype_is_weak(int32_t dtype) { return dt::is_weak(dt::lenient(dtype)); }
int32_t aster_ml_dtype_is_fp8(int32_t dtype) { return dt::is_fp8(dt::lenient(dtype)); }

int32_t aster_ml_dtype_is_lossless_cast(int32_t from, int32_t to) {
  const DType a = dt::lenient(from), b = dt::lenient(to);
  return a != DType::kNone && b != DType::kNone && dt::can_lossless_cast(a, b);
}

int32_t aster_ml_dtype_promote(int32_t* out, int32_t a, int32_t b) {
  ASTER_API();
  DType first, second;
  ASTER_TRY(dt::from_codes(out, &first, a));
  ASTER_TRY(dt::from_any_code(&second, b));
  const DType common = dt::least_upper(first, second);
  if (common == DType::kNone && first != common) {
    return ASTER_FAIL(kDTYPE, "%s and %s have no common dtype", dt::name(first), dt::name(second));
  }
  *out = dt::code_of(common);
  return ASTER_ML_OK;
}

int32_t aster_ml_dtype_promote_float(int32_t* out, int32_t dtype) {
  ASTER_API();
  DType d;
  ASTER_TRY(dt::from_codes(out, &d, dtype));
  const DType real = dt::least_upper_float(d, {});
  if (real == DType::kNone) return ASTER_FAIL(kDTYPE, "%s becomes no float unasked", dt::name(d));
  *out = dt::code_of(real);
  return ASTER_ML_OK;
}

int32_t aster_ml_dtype_sum_accumulator(int32_t* out, int32_t dtype) {
  ASTER_API();
  DType d;
  ASTER_TRY(dt::from_codes(out, &d, dtype));
  *out = dt::code_of(dt::sum_acc(d));
  return ASTER_ML_OK;
}

int32_t aster_ml_dtype_strong(int32_t* out, int32_t dtype) {
  ASTER_API();
  DType d;
  ASTER_TRY(dt::from_codes(out, &d, dtype));
  *out = dt::code_of(dt::strong(d, {}));
  return ASTER_ML_OK;
}

int32_t aster_ml_dtype_copy(void* dst, int32_t dst_dtype, const void* src, int32_t src_dtype,
                            size_t count) {
  ASTER_API();
  DType to, from;
  ASTER_TRY(dt::from_storage_code(&to, dst_dtype));
  ASTER_TRY(dt::from_storage_code(&from, src_dtype));
  if (count == 0) return ASTER_ML_OK;
  if (dst == nullptr || src == nullptr) return ASTER_FAIL(kARGUMENT, "dst or src is null");
  if (dst == src && dt::size(to) != dt::size(from)) {
    return ASTER_FAIL(kARGUMENT, "%s converted to %s in place", dt::name(from), dt::name(to));
  }
  dt::convert(dst, to, src, from, count);
  return ASTER_ML_OK;
}

int32_t aster_ml_scalar_from_double(aster_ml_scalar* out, int32_t dtype, double value) {
  ASTER_API();
  DType d;
  ASTER_TRY(dt::begin_scalar(out, &d, dtype));
  dt::store_double(d, out->value, value);
  return ASTER_ML_OK;
}

int32_t aster_ml_scalar_from_int64(aster_ml_scalar* out, int32_t dtype, int64_t value) {
  ASTER_API();
  DType d;
  ASTER_TRY(dt::begin_scalar(out, &d, dtype));
  dt::store_int(d, out->value, value);
  return ASTER_ML_OK;
}

int32_t aster_ml_scalar_from_uint64(aster_ml_scalar* out, int32_t dtype, uint64_t value) {
  ASTER_API();
  DType d;
  ASTER_TRY(dt::begin_scalar(out, &d, dtype));
  dt::store_uint(d, out->value, value);
  return ASTER_ML_OK;
}

int32_t aster_ml_scalar_from_data(aster_ml_scalar* out, int32_t dtype, const void* data) {
  ASTER_API();
  DType d;
  if (data == nullptr) {
    if (out != nullptr) *out = aster_ml_scalar{};
    return ASTER_FAIL(kARGUMENT, "data is null");
  }
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = aster_ml_scalar{};
  ASTER_TRY(dt::from_any_code(&d, dtype));
  out->dtype = dtype;
  dt::convert(out->value, d, data, d, 1);
  return ASTER_ML_OK;
}

int32_t aster_ml_scalar_to_double(double* out, const aster_ml_scalar* scalar) {
  ASTER_API();
  DType d;
  ASTER_TRY(dt::check_read(out, &d, scalar));
  *out = dt::load_double(d, scalar->value);
  return ASTER_ML_OK;
}

int32_t aster_ml_scalar_to_int64(int64_t* out, const aster_ml_scalar* scalar) {
  ASTER_API();
  DType d;
  ASTER_TRY(dt::check_read(out, &d, scalar));
  *out = dt::load_int(d, scalar->value);
  return ASTER_ML_OK;
}

int32_t aster_ml_scalar_to_uint64(uint64_t* out, const aster_ml_scalar* scalar) {
  ASTER_API();
  DType d;
  ASTER_TRY(dt::check_read(out, &d, scalar));
  *out = static_cast<uint64_t>(dt::load_int(d, scalar->value));
  return ASTER_ML_OK;
}

int32_t aster_ml_scalar_min(aster_ml_scalar* out, int32_t dtype) {
  ASTER_API();
  return aster::dtype::extreme(out, dtype, false);
}

int32_t aster_ml_scalar_max(aster_ml_scalar* out, int32_t dtype) {
  ASTER_API();
  return aster::dtype::extreme(out, dtype, true);
}

}  // extern "C"
