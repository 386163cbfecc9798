// Every public function as data: its name, what its arguments are, how it is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "aster_ml/aster_ml.h"

namespace programs {

// ---- What the functions are: found at compile time, held as data ----

// What an argument is, or points to.
// clang-format off
enum class Is : uint8_t {
  kContext, kLazy, kTensor, kBuffer, kLayer, kState, kOptimizer, kProgram, kWorkspace, kScalar,
  kNode, kLazies, kWritableLazies, kNumbers, kSizes, kStrides, kText, kBytes, kCounters, kRuntime,
  kSparse, kSparseInfo, kNodeOptions, kTarget, kTuned, kBackend, kOptions, kFunction, kInt32,
  kInteger, kReal, kOnnx, kOnnxValue, kNothing
};
// clang-format on

struct Type {
  Is is = Is::kNothing;
  bool pointer = false, constant = false, is_unsigned = false;
  size_t size = 0;  // of what it points to
};

template <typename T>
constexpr Is kind_of() {
  using P = std::remove_cv_t<std::remove_pointer_t<T>>;
  const auto is = []<typename U>(U*) { return std::is_same_v<P, U>; };
  if (!std::is_pointer_v<T>) {
    if (std::is_same_v<T, int32_t>) return Is::kInt32;
    if (std::is_integral_v<T>) return Is::kInteger;
    return std::is_floating_point_v<T> ? Is::kReal : Is::kNothing;
  }
  if (std::is_function_v<P>) return Is::kFunction;
  if (std::is_same_v<P, const aster_ml_lazy*>) return Is::kLazies;
  if (std::is_same_v<P, aster_ml_lazy*>) return Is::kWritableLazies;
  if (std::is_same_v<T, const aster_ml_uop*>) return Is::kNode;
  if (std::is_void_v<P>) return Is::kBytes;
#define KIND(Type, name) \
  if (is(static_cast<Type*>(nullptr))) return Is::name
  KIND(aster_ml_context, kContext);
  KIND(aster_ml_lazy, kLazy);
  KIND(aster_ml_tensor, kTensor);
  KIND(aster_ml_buffer, kBuffer);
  KIND(aster_ml_layer, kLayer);
  KIND(aster_ml_state, kState);
  KIND(aster_ml_optimizer, kOptimizer);
  KIND(aster_ml_program, kProgram);
  KIND(aster_ml_workspace, kWorkspace);
  KIND(aster_ml_scalar, kScalar);
  KIND(int64_t, kNumbers);
  KIND(size_t, kSizes);
  KIND(ptrdiff_t, kStrides);
  KIND(char, kText);
  KIND(aster_ml_engine_counters, kCounters);
  KIND(aster_ml_runtime_info, kRuntime);
  KIND(aster_ml_sparse, kSparse);
  KIND(aster_ml_sparse_info, kSparseInfo);
  KIND(aster_ml_uop_options, kNodeOptions);
  KIND(aster_ml_target, kTarget);
  KIND(aster_ml_tuned, kTuned);
  KIND(aster_ml_backend, kBackend);
  KIND(aster_ml_onnx, kOnnx);
  KIND(aster_ml_onnx_value, kOnnxValue);
#undef KIND
  return Is::kOptions;
}

template <typename T>
constexpr Type type_of() {
  using P = std::remove_pointer_t<T>;
  Type out{kind_of<T>(), std::is_pointer_v<T>, std::is_const_v<P>, std::is_unsigned_v<T>, 0};
  if constexpr (std::is_pointer_v<T> && !std::is_void_v<P> && !std::is_function_v<P> &&
                !std::is_same_v<P, const aster_ml_uop>) {
    out.size = sizeof(P);
  }
  return out;
}

// An argument or a result, whatever its type.
using Slot = uint64_t;
template <typename T>
T value_of(Slot slot) {
  static_assert(sizeof(T) <= sizeof(Slot));
  T out;
  std::memcpy(&out, &slot, sizeof(T));
  return out;
}
template <typename T>
Slot slot_of(T value) {
  static_assert(sizeof(T) <= sizeof(Slot));
  Slot out = 0;
  std::memcpy(&out, &value, sizeof(T));
  return out;
}

struct Function {
  std::string name, directions;
  std::vector<std::string> names, types;
  std::vector<Type> arguments;
  Type result;
  void (*address)();
  Slot (*call_as)(void (*address)(), const Slot* arguments);

  bool status() const { return result.is == Is::kInt32; }
  bool is(size_t i, Is what, bool constant) const {
    return i < arguments.size() && arguments[i].is == what && arguments[i].constant == constant;
  }
  Slot call(const std::vector<Slot>& slots) const { return call_as(address, slots.data()); }
};

template <typename R, typename... A>
Function describe(const char* name, const char* directions, const char* names, const char* types,
                  R (*function)(A...)) {
  Function out{name,
               directions,
               {},
               {},
               {type_of<A>()...},
               type_of<R>(),
               reinterpret_cast<void (*)()>(function),
               nullptr};
  std::istringstream list(names), kinds(types);
  for (std::string one; std::getline(list, one, ',');) out.names.push_back(one);
  for (std::string one; std::getline(kinds, one, ';');) out.types.push_back(one);
  out.call_as = [](void (*address)(), [[maybe_unused]] const Slot* slots) {
    const auto call = reinterpret_cast<R (*)(A...)>(address);
    return [&]<size_t... I>(std::index_sequence<I...>) {
      if constexpr (std::is_void_v<R>) {
        call(value_of<A>(slots[I])...);
        return Slot{0};
      } else {
        return slot_of(call(value_of<A>(slots[I])...));
      }
    }
    (std::index_sequence_for<A...>());
  };
  return out;
}

inline const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
#define FUNCTION(name, directions, arguments, types) \
  describe(#name, directions, arguments, types, &name),
#define FIELD(type, name, kind)
#include "public_functions.def"
#undef FIELD
#undef FUNCTION
  };
  return all;
}

// A field of the structs of options.
struct Field {
  std::string owner, name, type;
  size_t offset, size, owner_size;
};
inline const std::vector<Field>& fields() {
  static const std::vector<Field> all = {
#define FUNCTION(name, directions, arguments, types)
#define FIELD(owner, name, type) \
  Field{#owner, #name, type, offsetof(owner, name), sizeof(owner::name), sizeof(owner)},
#include "public_functions.def"
#undef FIELD
#undef FUNCTION
  };
  return all;
}

}  // namespace programs
