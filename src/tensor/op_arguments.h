// Arguments of public functions from described operands and named attributes.
#pragma once

#include <tuple>

#include "aster_ml/functions.h"
#include "aster_ml/linalg.h"
#include "aster_ml/movement.h"
#include "aster_ml/plan.h"
#include "aster_ml/spatial.h"
#include "tensor/api.h"

namespace aster::tensor {

struct ArgumentReader {
  static constexpr size_t kMostLists = 8, kMostAttributes = 32, kMostResults = 4;
  const char* operation;
  std::string_view names;  // of the parameters that are left
  const aster_ml_context* context;
  std::span<const aster_ml_lazy> operands;
  std::span<const bool> absent;
  std::span<const aster_ml_op_attribute> attributes;
  Status status{};
  size_t next_operand = 0, lists_used = 0, results = 0;
  bool used[kMostAttributes] = {};
  uop::Dims lists[kMostLists];
  aster_ml_lazy out[kMostResults] = {};
  const aster_ml_lazy* all[256];
  aster_ml_scalar scalar{};
  aster_ml_conv2d_options conv2d{};
  aster_ml_pool2d_options pool2d{};
  aster_ml_cross_entropy_options cross_entropy{};
  aster_ml_conv_options conv{};
  aster_ml_pool_options pool{};

  std::string_view name();  // of the next parameter
  void keep(Status failed) {
    if (status.ok()) status = failed;
  }
  const aster_ml_op_attribute* find(std::string_view name);
  int64_t integer(std::string_view name, int64_t least = INT64_MIN, int64_t most = INT64_MAX);
  double real(std::string_view name);
  // Null where it is left out; behind its end zeros, so that functions find as many as they read.
  const int64_t* list(std::string_view name, size_t* count);
  void pair(std::string_view name, int32_t* to, size_t count);
  size_t count_of_lists(std::string_view rest);
  const aster_ml_lazy* operand();
  Status finish();  // what is left over

  template <typename P>
  P take(bool before_lists, bool behind_tensors);
};

template <typename P>
constexpr bool kIsList = std::is_same_v<P, const int64_t*>;
template <typename P>
constexpr bool kIsTensors = std::is_same_v<P, const aster_ml_lazy* const*>;

template <typename P>
P ArgumentReader::take(bool before_lists, bool behind_tensors) {
  const std::string_view own = name();
  if constexpr (std::is_same_v<P, aster_ml_lazy*>) {
    return &out[results++];
  } else if constexpr (std::is_same_v<P, const aster_ml_lazy*>) {
    return operand();
  } else if constexpr (kIsTensors<P>) {
    size_t count = 0;
    while (next_operand < operands.size() && count < std::size(all)) all[count++] = operand();
    return all;
  } else if constexpr (std::is_same_v<P, const aster_ml_context*>) {
    return context;
  } else if constexpr (std::is_same_v<P, size_t>) {
    if (behind_tensors) return operands.size();
    if (before_lists) return count_of_lists(names);
    return static_cast<size_t>(integer(own, 0));
  } else if constexpr (kIsList<P>) {
    size_t count = 0;
    return list(own, &count);
  } else if constexpr (std::is_same_v<P, const char*>) {
    const aster_ml_op_attribute* given = find(own);
    if (given != nullptr && given->kind == ASTER_ML_ATTRIBUTE_TEXT) return given->text;
    if (given != nullptr) keep(ASTER_FAIL(kARGUMENT, "%s: %s is a text", operation, given->name));
    return nullptr;
  } else if constexpr (std::is_same_v<P, double>) {
    return real(own);
  } else if constexpr (std::is_same_v<P, const aster_ml_scalar*>) {
    if (find(own) == nullptr) return nullptr;
    const aster_ml_op_attribute& given = *find(own);
    keep(given.kind == ASTER_ML_ATTRIBUTE_INTEGER
             ? Status{aster_ml_scalar_from_int64(&scalar, ASTER_ML_DTYPE_WEAKINT, given.integer)}
             : Status{aster_ml_scalar_from_double(&scalar, ASTER_ML_DTYPE_WEAKFLOAT, real(own))});
    return &scalar;
  } else if constexpr (std::is_same_v<P, const aster_ml_conv2d_options*>) {
    conv2d.struct_size = sizeof(conv2d);
    conv2d.groups = static_cast<int32_t>(integer("groups", INT32_MIN, INT32_MAX));
    pair("stride", conv2d.stride, 2);
    pair("dilation", conv2d.dilation, 2);
    pair("padding", conv2d.padding, 4);
    return &conv2d;
  } else if constexpr (std::is_same_v<P, const aster_ml_pool2d_options*>) {
    pool2d.struct_size = sizeof(pool2d);
    pair("kernel", pool2d.kernel, 2);
    pair("stride", pool2d.stride, 2);
    pair("dilation", pool2d.dilation, 2);
    pair("padding", pool2d.padding, 4);
    pool2d.exclude_pad = static_cast<int32_t>(integer("exclude_pad", 0, 1));
    return &pool2d;
  } else if constexpr (std::is_same_v<P, const aster_ml_cross_entropy_options*>) {
    cross_entropy.struct_size = sizeof(cross_entropy);
    cross_entropy.reduction = static_cast<int32_t>(integer("reduction", INT32_MIN, INT32_MAX));
    cross_entropy.label_smoothing = real("label_smoothing");
    cross_entropy.ignore = static_cast<int32_t>(integer("ignore", 0, 1));
    cross_entropy.ignore_index =
        static_cast<int32_t>(integer("ignore_index", INT32_MIN, INT32_MAX));
    return &cross_entropy;
  } else if constexpr (std::is_same_v<P, const aster_ml_conv_options*>) {
    size_t count = 0;
    conv.struct_size = sizeof(conv);
    conv.groups = static_cast<int32_t>(integer("groups", INT32_MIN, INT32_MAX));
    conv.dtype = static_cast<int32_t>(integer("dtype", INT32_MIN, INT32_MAX));
    conv.stride = list("stride", &count);
    conv.dilation = list("dilation", &count);
    conv.before = list("before", &count);
    conv.after = list("after", &count);
    conv.output_padding = list("output_padding", &count);
    return &conv;
  } else if constexpr (std::is_same_v<P, const aster_ml_pool_options*>) {
    size_t count = 0;
    pool.struct_size = sizeof(pool);
    pool.ceil_mode = static_cast<int32_t>(integer("ceil_mode", 0, 1));
    pool.exclude_pad = static_cast<int32_t>(integer("exclude_pad", 0, 1));
    pool.stride = list("stride", &count);
    pool.dilation = list("dilation", &count);
    pool.before = list("before", &count);
    pool.after = list("after", &count);
    pool.size = list("size", &count);
    return &pool;
  } else {
    static_assert(std::is_integral_v<P>, "a parameter that tools/op_table.py leaves out");
    if constexpr (sizeof(P) == sizeof(int64_t)) {
      return static_cast<P>(integer(own));
    } else {
      return static_cast<P>(integer(own, INT32_MIN, INT32_MAX));
    }
  }
}

// Calls a function of the library with what the reader finds for each of its parameters.
template <typename... P, size_t... I>
Status call_with(int32_t (*function)(P...), ArgumentReader& reader, std::index_sequence<I...>) {
  constexpr size_t n = sizeof...(P);
  constexpr bool is_list[n + 1] = {kIsList<P>..., false};
  constexpr bool is_tensors[n] = {kIsTensors<P>...};
  const std::tuple<P...> arguments{
      reader.template take<P>(is_list[I + 1], I > 0 && is_tensors[I == 0 ? 0 : I - 1])...};
  ASTER_TRY(reader.finish());
  return Status{std::apply(function, arguments)};
}
template <typename... P>
Status call_with(int32_t (*function)(P...), ArgumentReader& reader) {
  return call_with(function, reader, std::index_sequence_for<P...>());
}

}  // namespace aster::tensor
