// Kernels of elementwise operations: programs of the code generator on blocks of elements and on
// single ones, and what brings elements that lie strides apart into blocks.
#include <algorithm>
#include <cstring>

#include "buffer/strided.h"
#include "engine/engine.h"
#include "tensor/kernel_produce.h"
#include "uop/expr.h"

namespace aster::tensor {
namespace {

constexpr size_t kBlock = kKernelBlock;
constexpr size_t kLong = 8192;  // elements of a block whose operands all are where they are
constexpr size_t kPiece = 64;   // elements of a small block
constexpr size_t kFew = 8;      // computed one by one
constexpr size_t kLine = 64;    // bytes

enum Part : uint8_t { kWhole, kOne, kSmall, kLarge };

struct Row {
  const char* name;
  const UnaryOp* unary;
  const BinaryOp* binary;
};
constexpr Row kRows[] = {
#define UNARY(name, domain, expression) {#name, &ops::name, nullptr},
#define BINARY(name, domain, expression) {#name, nullptr, &ops::name},
#include "tensor/elementwise.def"
};

void one(Runner& single, char* dst, const char* const* src, size_t operands) {
  alignas(64) char room[3][64];
  const void* sources[2];
  for (size_t k = 0; k < operands; ++k) {
    std::memcpy(room[k], src[k], single.input_bytes(k));
    sources[k] = room[k];
  }
  void* const result = room[2];
  single.run(&result, sources);
  std::memcpy(dst, result, single.result_bytes(0));
}

// Elements up to where results that lie next to each other begin a line of the cache: accesses of
// whole vectors from there on cross none.
size_t before_line(const char* dst, size_t size) {
  return (kLine - reinterpret_cast<uintptr_t>(dst) % kLine) % kLine / size;
}

// As many whole blocks as there are of operands that need no room; how many elements those are.
size_t many_in_place(const Produced& kernel, char* dst, const char* const* src, size_t operands,
                     size_t count) {
  const size_t bytes = kernel.runners[kLarge]->result_bytes(0);
  size_t done = 0;
  for (; count - done >= kLong; done += kLong) {
    const void* sources[2];
    for (size_t k = 0; k < operands; ++k)
      sources[k] = src[k] + done * kernel.runners[kLarge]->input_bytes(k);
    void* const result = dst + done * bytes;
    kernel.runners[kLarge]->run(&result, sources);
  }
  return done;
}

void many(Prefix* extra, char* dst, ptrdiff_t dst_stride, const char** src,
          const ptrdiff_t* strides, size_t operands, size_t count) {
  auto* kernel = reinterpret_cast<Produced*>(extra);
  alignas(kLine) char room[3][kBlock * kMostElementBytes];
  const size_t bytes = kernel->runners[kWhole]->result_bytes(0);
  bool in_place = lies_well(dst, dst_stride, bytes);
  for (size_t k = 0; k < operands; ++k)
    in_place &= lies_well(src[k], strides[k], kernel->runners[kWhole]->input_bytes(k));
  size_t part = kBlock;
  if (lies_well(dst, dst_stride, bytes) && count >= 2 * kBlock)
    part = kBlock - before_line(dst, bytes);
  while (count > kFew) {
    if (in_place && part == kBlock && count >= kLong) {
      const size_t done = many_in_place(*kernel, dst, src, operands, count);
      for (size_t k = 0; k < operands; ++k) src[k] += static_cast<ptrdiff_t>(done) * strides[k];
      dst += static_cast<ptrdiff_t>(done) * dst_stride;
      count -= done;
      continue;
    }
    if (part > count) part = count >= kPiece ? kPiece : count;
    const size_t width = part > kPiece ? kBlock : kPiece;
    const void* sources[2];
    for (size_t k = 0; k < operands; ++k) {
      const size_t size = kernel->runners[kWhole]->input_bytes(k);
      if (part == width && lies_well(src[k], strides[k], size)) {
        sources[k] = src[k];
      } else {
        buffer::copy_row(room[k], static_cast<ptrdiff_t>(size), src[k], strides[k], part, size);
        std::memset(room[k] + part * size, 0, (width - part) * size);
        sources[k] = room[k];
      }
      src[k] += static_cast<ptrdiff_t>(part) * strides[k];
    }
    const bool direct = part == width && lies_well(dst, dst_stride, bytes);
    void* const result = direct ? dst : room[2];
    kernel->runners[width == kBlock ? kWhole : kSmall]->run(&result, sources);
    if (!direct)
      buffer::copy_row(dst, dst_stride, room[2], static_cast<ptrdiff_t>(bytes), part, bytes);
    dst += static_cast<ptrdiff_t>(part) * dst_stride;
    count -= part;
    part = kBlock;
  }
  for (; count > 0; --count, dst += dst_stride) {
    one(*kernel->runners[kOne], dst, src, operands);
    for (size_t k = 0; k < operands; ++k) src[k] += strides[k];
  }
}

Runner& single_of(Prefix* extra) { return *reinterpret_cast<Produced*>(extra)->runners[kOne]; }

void unary_one(char* dst, const char* src, Prefix* extra) { one(single_of(extra), dst, &src, 1); }
void binary_one(char* dst, const char* src0, const char* src1, Prefix* extra) {
  const char* const src[] = {src0, src1};
  one(single_of(extra), dst, src, 2);
}
int unary_test(const char* src, Prefix* extra) {
  char truth = 0;
  unary_one(&truth, src, extra);
  return truth;
}
int binary_test(const char* src0, const char* src1, Prefix* extra) {
  char truth = 0;
  binary_one(&truth, src0, src1, extra);
  return truth;
}
void unary_many(char* dst, ptrdiff_t dst_stride, const char* src, ptrdiff_t src_stride,
                size_t count, Prefix* extra) {
  many(extra, dst, dst_stride, &src, &src_stride, 1, count);
}
void binary_many(char* dst, ptrdiff_t dst_stride, const char* src0, ptrdiff_t src0_stride,
                 const char* src1, ptrdiff_t src1_stride, size_t count, Prefix* extra) {
  const char* src[] = {src0, src1};
  const ptrdiff_t strides[] = {src0_stride, src1_stride};
  many(extra, dst, dst_stride, src, strides, 2, count);
}

void* function_of(int32_t form, bool binary) {
  switch (form) {
    case ASTER_ML_KERNEL_SINGLE:
      return binary ? code_of<aster_ml_binary_single>(binary_one)
                    : code_of<aster_ml_unary_single>(unary_one);
    case ASTER_ML_KERNEL_STRIDED:
      return binary ? code_of<aster_ml_binary_strided>(binary_many)
                    : code_of<aster_ml_unary_strided>(unary_many);
    case ASTER_ML_KERNEL_PREDICATE:
      return binary ? code_of<aster_ml_binary_predicate>(binary_test)
                    : code_of<aster_ml_unary_predicate>(unary_test);
    default:
      return nullptr;
  }
}

// A program of the operation on count elements.
Status capture(Runner** out, Context& context, const Row& row, DType dtype, size_t count) {
  const KernelInput inputs[] = {{dtype, count}, {dtype, count}};
  const auto build = [](const void* self, Graph& g, const Node* x) {
    const Row& r = *static_cast<const Row*>(self);
    return r.binary != nullptr ? binary(g, x[0], x[1], *r.binary) : unary(g, x[0], *r.unary);
  };
  return capture_kernel(out, context, {inputs, row.binary != nullptr ? size_t{2} : 1}, build, &row);
}

Status get_elementwise(aster_ml_dynamic_kernel_instance* out, const aster_ml_context* context,
                       int32_t form, const char* operation, int32_t dtype) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer");
  const ContextLock lock(context_of(context));
  ASTER_TRY(lock.status());
  Context& owner = *context_of(context);
  DType d;
  const Row* found;
  ASTER_TRY(find_operation<Row>(&found, &d, kRows, "elementwise operation", operation, dtype));
  void* const function = function_of(form, found->binary != nullptr);
  if (function == nullptr) return ASTER_FAIL(kARGUMENT, "%d is no form of a kernel", form);
  Produced kernel{};
  kernel.base.function = function;
  const auto capture_all = [&]() -> Status {
    ASTER_TRY(capture(&kernel.runners[kOne], owner, *found, d, 1));
    if (form == ASTER_ML_KERNEL_PREDICATE && kernel.runners[kOne]->result_dtype() != DType::kBool)
      return ASTER_FAIL(kDTYPE, "\"%s\" is no predicate", operation);
    if (form != ASTER_ML_KERNEL_STRIDED) return kOk;
    ASTER_TRY(capture(&kernel.runners[kWhole], owner, *found, d, kBlock));
    ASTER_TRY(capture(&kernel.runners[kLarge], owner, *found, d, kLong));
    return capture(&kernel.runners[kSmall], owner, *found, d, kPiece);
  };
  const Status status = capture_all();
  if (status.ok()) return produce(out, owner, kernel);
  release_all(kernel);
  return status;
}

}  // namespace
}  // namespace aster::tensor

int32_t aster_ml_kernel_get_elementwise(aster_ml_dynamic_kernel_instance* out,
                                        const aster_ml_context* context, int32_t form,
                                        const char* operation, int32_t dtype) {
  ASTER_API();
  if (out != nullptr) *out = {};
  return -aster::tensor::get_elementwise(out, context, form, operation, dtype).code;
}
