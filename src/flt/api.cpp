// The public functions on flt256 and flt512.
#include "base/text.h"
#include "flt/apply.h"
#include "flt/convert.h"
#include "flt/mpfr.h"
#include "flt/product.h"
#include "flt/sum.h"
#include "flt/text.h"

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
  const Loop loop = op->loop_of(limbs);
  const auto mode = static_cast<Rounding>(rounding);
  in_parts(caller, count, op->ns,
           [&](size_t begin, size_t end) { loop(written, in, begin, end, mode); });
  return kOk;
}

size_t alignment_of(DType d) { return dtype::is_wide(d) ? kAlignment : 1; }

Status copy(void* dst, const aster_ml_context* context, int32_t dst_dtype, const void* src,
            int32_t src_dtype, int32_t rounding, const int64_t* strides, size_t count) {
  const Caller caller(context);
  ASTER_TRY(caller.status());
  DType to, from;
  ASTER_TRY(check_rounding(rounding));
  ASTER_TRY(dtype::from_any_storage_code(&to, dst_dtype));
  ASTER_TRY(dtype::from_any_storage_code(&from, src_dtype));
  if (!dtype::is_wide(to) && !dtype::is_wide(from)) {
    return ASTER_FAIL(kDTYPE, "%s to %s: neither is flt256 or flt512", dtype::name(from),
                      dtype::name(to));
  }
  Elements written, in;
  ASTER_TRY(elements_of(&written, "dst", dst, stride_of(strides, 0), dtype::size(to),
                        alignment_of(to), count));
  ASTER_TRY(elements_of(&in, "src", src, stride_of(strides, 1), dtype::size(from),
                        alignment_of(from), count));
  ASTER_TRY(check_written(written, count));
  ASTER_TRY(check_apart(written, in, count));
  constexpr int64_t kNs = 12;
  const auto mode = static_cast<Rounding>(rounding);
  in_parts(caller, count, kNs, [&](size_t begin, size_t end) {
    for (auto i = static_cast<int64_t>(begin); i < static_cast<int64_t>(end); ++i) {
      convert_element(written.at(i), to, in.at(i), from, mode);
    }
  });
  return kOk;
}

// One number at an address.
Status check_number(const char* name, const void* at) {
  if (at == nullptr) return ASTER_FAIL(kARGUMENT, "%s is null", name);
  if (reinterpret_cast<uintptr_t>(at) % kAlignment != 0) {
    return ASTER_FAIL(kARGUMENT, "%s is not aligned to %zu bytes", name, kAlignment);
  }
  return kOk;
}

Status read_text(void* out, int32_t dtype, int32_t rounding, const char* text) {
  const FloatModes modes;
  int32_t limbs;
  ASTER_TRY(check_number("out", out));
  if (text == nullptr) return ASTER_FAIL(kARGUMENT, "text is null");
  ASTER_TRY(check_rounding(rounding));
  ASTER_TRY(check_dtype(&limbs, dtype));
  Limb w[8];
  const auto mode = static_cast<Rounding>(rounding);
  ASTER_TRY(with_limbs(limbs, [&](auto n) { return from_text<n>(w, text, mode); }));
  std::memcpy(out, w, static_cast<size_t>(limbs) * sizeof(Limb));
  return kOk;
}

Status write_text(char* out, size_t* length, size_t capacity, int32_t dtype, const void* value,
                  int32_t digits) {
  const FloatModes modes;
  int32_t limbs;
  if (length == nullptr) return ASTER_FAIL(kARGUMENT, "length is null");
  ASTER_TRY(check_number("value", value));
  ASTER_TRY(check_dtype(&limbs, dtype));
  if (digits != 0 && (digits < 2 || digits > static_cast<int32_t>(kMostDigits))) {
    return ASTER_FAIL(kRANGE, "%d digits; 2 to %zu, or 0", digits, kMostDigits);
  }
  ASTER_TRY(mpfr_ready());
  char text[kTextBytes];
  Limb w[8];
  std::memcpy(w, value, static_cast<size_t>(limbs) * sizeof(Limb));
  const auto told = static_cast<size_t>(digits);
  const size_t bytes = with_limbs(limbs, [&](auto n) { return to_text<n>(text, w, told); });
  return give_text(out, length, capacity, {text, bytes});
}

// The sum of a, or of a * b if there are two operands.
Status add_up(void* out, const aster_ml_context* context, int32_t dtype, int32_t rounding,
              const void* const* operands, size_t operand_count, const int64_t* strides,
              size_t count) {
  const Caller caller(context);
  ASTER_TRY(caller.status());
  int32_t limbs;
  ASTER_TRY(check_rounding(rounding));
  ASTER_TRY(check_dtype(&limbs, dtype));
  const size_t size = static_cast<size_t>(limbs) * sizeof(Limb);
  Elements written, in[2];
  ASTER_TRY(elements_of(&written, "out", out, 1, size, kAlignment, 1));
  static const char* const kNames[] = {"a", "b"};
  for (size_t i = 0; i < operand_count; ++i) {
    ASTER_TRY(elements_of(&in[i], kNames[i], operands[i], stride_of(strides, static_cast<int>(i)),
                          size, kAlignment, count));
  }
  const Elements* const b = operand_count == 2 ? &in[1] : nullptr;
  const auto mode = static_cast<Rounding>(rounding);
  Limb w[8];
  ASTER_TRY(
      with_limbs(limbs, [&](auto n) { return exact_sum<n>(w, caller, in[0], b, count, mode); }));
  std::memcpy(out, w, size);
  return kOk;
}

// A matrix that lies in memory as its strides say. Errors: ARGUMENT, RANGE.
Status matrix_of(Matrix* out, const char* name, const void* data, const int64_t* strides,
                 size_t rows, size_t columns, size_t size) {
  *out = {static_cast<const char*>(data), 0, 0, rows, columns};
  if (rows == 0 || columns == 0) return kOk;
  const auto row_major = static_cast<int64_t>(columns);
  Elements line, column;
  if (columns > static_cast<size_t>(INT64_MAX) / size) {
    return ASTER_FAIL(kRANGE, "%s has %zu columns", name, columns);
  }
  ASTER_TRY(elements_of(&line, name, data, strides == nullptr ? 1 : strides[1], size, kAlignment,
                        columns));
  // Rows begin where columns end: both ends are in the address space.
  ASTER_TRY(elements_of(&column, name, line.at(static_cast<int64_t>(columns) - 1),
                        strides == nullptr ? row_major : strides[0], size, kAlignment, rows));
  ASTER_TRY(elements_of(&column, name, data, strides == nullptr ? row_major : strides[0], size,
                        kAlignment, rows));
  out->column = columns > 1 ? line.step : 0;
  out->row = rows > 1 ? column.step : 0;
  return kOk;
}

// First byte of a matrix, and one behind its last.
struct Bytes {
  uintptr_t begin, end;
};
Bytes bytes_of(const Matrix& m, size_t size) {
  Bytes out = {UINTPTR_MAX, 0};
  for (const size_t i : {size_t{0}, m.rows - 1}) {
    for (const size_t j : {size_t{0}, m.columns - 1}) {
      const auto at = reinterpret_cast<uintptr_t>(m.at(i, j));
      if (at < out.begin) out.begin = at;
      if (at + size > out.end) out.end = at + size;
    }
  }
  return out;
}

// ARGUMENT unless out's elements are apart from each other and from those of an operand.
Status check_product(const Matrix& out, const Matrix& operand, size_t size) {
  const auto length = [](int64_t step) {
    return step < 0 ? 0 - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
  };
  // The shorter step stays within one of the longer.
  const bool by_rows = length(out.row) >= length(out.column);
  const uint64_t inner = by_rows ? length(out.column) : length(out.row);
  const uint64_t outer = by_rows ? length(out.row) : length(out.column);
  const size_t inner_count = by_rows ? out.columns : out.rows;
  const size_t outer_count = by_rows ? out.rows : out.columns;
  if ((inner_count > 1 && inner < size) ||
      (outer_count > 1 && outer < inner * (inner_count - 1) + size)) {
    return ASTER_FAIL(kARGUMENT, "elements of out overlap each other");
  }
  if (operand.rows == 0 || operand.columns == 0) return kOk;
  const Bytes written = bytes_of(out, size), read = bytes_of(operand, size);
  if (written.end <= read.begin || read.end <= written.begin) return kOk;
  return ASTER_FAIL(kARGUMENT, "out overlaps an operand");
}

Status matmul(void* out, Algorithm* how, const aster_ml_context* context, int32_t dtype,
              int32_t rounding, const void* a, const void* b, size_t rows, size_t inner,
              size_t columns, const int64_t* strides) {
  const Caller caller(context);
  ASTER_TRY(caller.status());
  int32_t limbs;
  ASTER_TRY(check_rounding(rounding));
  ASTER_TRY(check_dtype(&limbs, dtype));
  const size_t size = static_cast<size_t>(limbs) * sizeof(Limb);
  const auto of = [&](int i) { return strides == nullptr ? nullptr : strides + 2 * i; };
  Matrix written, x, y;
  ASTER_TRY(matrix_of(&written, "out", out, of(0), rows, columns, size));
  ASTER_TRY(matrix_of(&x, "a", a, of(1), rows, inner, size));
  ASTER_TRY(matrix_of(&y, "b", b, of(2), inner, columns, size));
  if (rows == 0 || columns == 0) return kOk;
  ASTER_TRY(check_product(written, x, size));
  ASTER_TRY(check_product(written, y, size));
  const auto mode = static_cast<Rounding>(rounding);
  return with_limbs(
      limbs, [&](auto n) { return product_of<n>(caller, written, x, y, mode, nullptr, how); });
}

Status matmul_by(void* out, int32_t* out_ran, const aster_ml_context* context, int32_t algorithm,
                 int32_t dtype, int32_t rounding, const void* a, const void* b, size_t rows,
                 size_t inner, size_t columns, const int64_t* strides) {
  if (out_ran != nullptr) *out_ran = 0;
  ASTER_TRY(Caller(context).status());
  if (algorithm < ASTER_ML_FLT_AUTO || algorithm > ASTER_ML_FLT_STRASSEN)
    return ASTER_FAIL(kARGUMENT, "algorithm %d: 0 to %d", algorithm, ASTER_ML_FLT_STRASSEN);
  auto how = static_cast<Algorithm>(algorithm);
  ASTER_TRY(matmul(out, &how, context, dtype, rounding, a, b, rows, inner, columns, strides));
  if (out_ran != nullptr)
    *out_ran = static_cast<int32_t>(how == Algorithm::kAuto ? Algorithm::kNaive : how);
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

int32_t aster_ml_flt_sum(void* out, const aster_ml_context* context, int32_t dtype,
                         int32_t rounding, const void* a, const int64_t* strides, size_t count) {
  ASTER_API();
  return aster::flt::add_up(out, context, dtype, rounding, &a, 1, strides, count);
}

int32_t aster_ml_flt_dot(void* out, const aster_ml_context* context, int32_t dtype,
                         int32_t rounding, const void* a, const void* b, const int64_t* strides,
                         size_t count) {
  ASTER_API();
  const void* const operands[] = {a, b};
  return aster::flt::add_up(out, context, dtype, rounding, operands, 2, strides, count);
}

int32_t aster_ml_flt_from_text(void* out, int32_t dtype, int32_t rounding, const char* text) {
  ASTER_API();
  return aster::flt::read_text(out, dtype, rounding, text);
}

int32_t aster_ml_flt_to_text(char* out, size_t* length, size_t capacity, int32_t dtype,
                             const void* value, int32_t digits) {
  ASTER_API();
  aster::clear_text(out, length, capacity);
  return aster::flt::write_text(out, length, capacity, dtype, value, digits);
}

int32_t aster_ml_flt_matmul(void* out, const aster_ml_context* context, int32_t dtype,
                            int32_t rounding, const void* a, const void* b, size_t rows,
                            size_t inner, size_t columns, const int64_t* strides) {
  ASTER_API();
  auto how = aster::flt::Algorithm::kAuto;
  return aster::flt::matmul(out, &how, context, dtype, rounding, a, b, rows, inner, columns,
                            strides);
}

int32_t aster_ml_flt_matmul_by(void* out, int32_t* out_ran, const aster_ml_context* context,
                               int32_t algorithm, int32_t dtype, int32_t rounding, const void* a,
                               const void* b, size_t rows, size_t inner, size_t columns,
                               const int64_t* strides) {
  ASTER_API();
  return aster::flt::matmul_by(out, out_ran, context, algorithm, dtype, rounding, a, b, rows, inner,
                               columns, strides);
}

}  // extern "C"
