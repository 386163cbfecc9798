#include "call.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace api_fuzz {
namespace {

using programs::Function;
using programs::Is;
using programs::slot_of;
using programs::value_of;

constexpr unsigned char kUntouched = 0xA5;

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }
bool begins(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

// Functions that compute, or take memory, as they are called.
bool works_at_once(const Function& function) {
  for (const char* part : {"_init",
                           "_from",
                           "realize",
                           "_view",
                           "copy_out",
                           "to_double",
                           "aster_ml_tensor_",
                           "state_",
                           "optimizer",
                           "layer_run",
                           "lstm",
                           "masked_select",
                           "nonzero",
                           "_index",
                           "buffer_",
                           "program",
                           "workspace",
                           "capture",
                           "engine_",
                           "multinomial",
                           "onnx_",
                           "uop_"}) {
    if (has(function.name, part)) return true;
  }
  return false;
}

const char* const kTexts[] = {"weight",
                              "l.weight",
                              "",
                              "__metadata__",
                              "\xC3\xBC",
                              "\xFF",
                              "ij,jk->ik",
                              "...a,b->a...",
                              "ij,jk->",
                              "b c -> c b",
                              "(b c) ... -> b ... c",
                              "constant",
                              "reflect",
                              "circular",
                              "replicate",
                              "bilinear",
                              "nearest",
                              "sha3_256",
                              "shake_128",
                              "float32",
                              "CPU",
                              "CPU:1",
                              "->",
                              "1 () ->",
                              "%s%n"};

}  // namespace

bool is_called(const Function& function) {
  // What changes the whole process, calls what it is given, or gives up what a descriptor says.
  for (const char* name :
       {"aster_ml_context_free", "aster_ml_device_register", "aster_ml_cache_clear",
        "aster_ml_buffer_free", "aster_ml_tensor_free", "aster_ml_uop_release",
        "aster_ml_engine_set_device", "aster_ml_engine_trace", "aster_ml_kernel_from_blaze",
        "aster_ml_kernel_set_gradient_function", "aster_ml_kernel_get_program",
        "aster_ml_registry_add", "aster_ml_trace_configure"}) {
    if (function.name == name) return false;
  }
  // Elements behind addresses and strides, which only their caller can know.
  if (begins(function.name, "aster_ml_flt_")) return false;
  // What waits for other threads, or works beside the caller.
  return !begins(function.name, "aster_ml_queue_") && !begins(function.name, "aster_ml_event_");
}

Call::Call(World& world, const Function& function, Chooser& choose)
    : world_(world), function_(function), choose_(choose), careful_(works_at_once(function)) {
  for (size_t i = 0; i < function.arguments.size(); ++i) slots_.push_back(argument(i));
}

template <typename T>
T* Call::array(size_t count) {
  memory_.push_back(std::make_unique<char[]>(count * sizeof(T) + sizeof(T)));
  return reinterpret_cast<T*>(memory_.back().get());
}

// A whole number: mostly small, sometimes what overflows.
int64_t Call::integer() {
  if (!choose_.one_in(8)) return static_cast<int64_t>(choose_.below(6)) - 1;
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  if (choose_.one_in(2)) return choose_.pick<int64_t>({-7, -2, 7, 31, 32, 33, 63, 64, 100});
  if (careful_) return choose_.pick<int64_t>({kLow, kLow + 1, -kHigh / 3, -1});
  costly_ = true;
  return choose_.pick<int64_t>({kLow, kHigh, kHigh - 1, INT64_C(1) << 62, INT64_C(1) << 40,
                                INT64_C(1) << 32, INT64_C(1) << 31, (INT64_C(1) << 31) - 1,
                                -(INT64_C(1) << 31), -(INT64_C(1) << 40), 65536, kLow + 1});
}

const aster_ml_lazy* Call::tensor() {
  if (choose_.one_in(40)) {
    static const aster_ml_lazy kEmpty{};
    static int word = 0;
    auto* rubbish = array<aster_ml_lazy>(1);
    rubbish->impl = &word;
    return choose_.pick<const aster_ml_lazy*>(
        {nullptr, &kEmpty, &world_.stale, &world_.foreign, rubbish});
  }
  const Held* held = &world_.tensors[choose_.below(world_.tensors.size())];
  // What works at once is given what can be computed.
  if (careful_ && held->costly) held = &world_.tensors[0];
  if (held->costly && careful_) return nullptr;
  costly_ |= held->costly;
  return &held->handle;
}

const char* Call::text(const std::string& name) {
  if (choose_.one_in(30)) return nullptr;
  if (name != "path") {
    if (choose_.one_in(30)) {
      char* large = array<char>(5000);
      std::fill(large, large + 5000, 'x');
      return large;
    }
    return kTexts[choose_.below(std::size(kTexts))];
  }
  static const char* const kNames[] = {"/a.safetensors", "/b", "/b/c", "", "/\xC3\xBC"};
  const std::string path =
      choose_.one_in(8) ? "/dev/null" : world_.folder + kNames[choose_.below(std::size(kNames))];
  char* copy = array<char>(path.size() + 1);
  std::copy(path.begin(), path.end(), copy);
  return copy;
}

// Arrays of numbers: sizes, axes, strides.
Call::Slot Call::numbers(const Type& type) {
  if (choose_.one_in(10)) return 0;
  auto* out = array<int64_t>(kMost);
  const bool data = std::any_of(function_.arguments.begin(), function_.arguments.end(),
                                [](const Type& t) { return t.is == Is::kBytes; });
  const bool large = !data && !choose_.one_in(3);
  for (size_t i = 0; i < kMost; ++i) {
    out[i] = large ? integer() : static_cast<int64_t>(choose_.below(4));
    if (type.is == Is::kSizes) out[i] = std::max<int64_t>(out[i], 0);
  }
  return slot_of(out);
}

Call::Slot Call::output(const Type& type, const std::string& name) {
  if (choose_.one_in(60)) return 0;
  const size_t size = std::max<size_t>(type.size, 16);
  auto* out = array<char>(kMost * size);
  std::fill(out, out + kMost * size, static_cast<char>(kUntouched));
  const bool sized = type.is == Is::kCounters || type.is == Is::kRuntime ||
                     type.is == Is::kSparseInfo || has(function_.name, "_describe") ||
                     has(function_.name, "_get_array") || has(function_.name, "put_type");
  if (sized) {
    const auto bytes = static_cast<uint32_t>(choose_.one_in(3) ? choose_.below(16) : type.size);
    std::memcpy(out, &bytes, sizeof(bytes));
  }
  if (name == "length" || name == "count") std::memset(out, 0, sizeof(size_t));
  return slot_of(out);
}

// A handle, or a copy of it for who gives it up.
Call::Slot Call::object(const Type& type, bool given_up) {
  const void* from = nullptr;
  // clang-format off
  switch (type.is) {
    case Is::kContext: from = &world_.context; break;
    case Is::kLayer: from = &world_.layer; break;
    case Is::kState: from = &world_.state; break;
    case Is::kOptimizer: from = &world_.optimizer; break;
    case Is::kProgram: from = &world_.program; break;
    case Is::kWorkspace: from = &world_.workspace; break;
    case Is::kSparse: from = &world_.sparse; break;
    case Is::kTensor: from = &world_.tensor; break;
    case Is::kBuffer: from = &world_.buffer; break;
    case Is::kOnnxValue: from = &world_.value; break;
    case Is::kLazy: from = tensor(); break;
    default: return 0;
  }
  // clang-format on
  if (choose_.one_in(50)) return 0;
  if (!given_up || from == nullptr) return slot_of(from);
  auto* copy = array<char>(type.size);
  std::memcpy(copy, from, type.size);
  return slot_of(copy);
}

// A struct of options with its fields chosen by their types.
Call::Slot Call::options(const std::string& type) {
  if (has(type, "aster_ml_dim_index")) {
    auto* items = array<aster_ml_dim_index>(kMost);
    for (size_t i = 0; i < kMost; ++i) {
      items[i].kind = static_cast<int32_t>(choose_.below(6));
      for (aster_ml_dim* place : {&items[i].start, &items[i].stop}) {
        place->value = integer();
        if (choose_.one_in(3)) place->expression = choose_.one_in(8) ? world_.uop : world_.bound;
      }
      items[i].step = integer();
      if (items[i].kind == ASTER_ML_INDEX_TENSOR) items[i].tensor = tensor();
    }
    return slot_of(items);
  }
  if (has(type, "aster_ml_dim")) {
    auto* dims = array<aster_ml_dim>(kMost);
    for (size_t k = 0; k < kMost; ++k) {
      dims[k].value = static_cast<int64_t>(choose_.below(4));
      if (choose_.one_in(3)) dims[k].expression = choose_.one_in(8) ? world_.uop : world_.bound;
    }
    return choose_.one_in(20) ? 0 : slot_of(dims);
  }
  if (has(type, "aster_ml_index")) {
    auto* items = array<aster_ml_index>(kMost);
    for (size_t i = 0; i < kMost; ++i) {
      items[i].kind = static_cast<int32_t>(choose_.below(6));
      items[i].start = integer();
      items[i].stop = integer();
      items[i].step = integer();
      if (items[i].kind == ASTER_ML_INDEX_TENSOR) items[i].tensor = tensor();
    }
    return slot_of(items);
  }
  if (choose_.one_in(3)) return 0;
  char* out = nullptr;
  for (const programs::Field& field : programs::fields()) {
    if (!has(type, field.owner.c_str())) continue;
    if (out == nullptr) out = array<char>(field.owner_size);
    char* at = out + field.offset;
    const auto put = [&](auto value) { std::memcpy(at, &value, sizeof(value)); };
    if (field.name == "struct_size") {
      put(static_cast<uint32_t>(choose_.one_in(20) ? choose_.below(12) : field.owner_size));
    } else if (choose_.one_in(2)) {
      continue;
    } else if (field.type == "int32_t") {
      for (size_t i = 0; i < field.size / 4; ++i, at += 4) put(static_cast<int32_t>(integer()));
    } else if (field.type == "double") {
      for (size_t i = 0; i < field.size / 8; ++i, at += 8)
        put(choose_.pick<double>({0.1, 0.9, NAN, -1.0}));
    } else if (field.type == "const int64_t *") {
      put(value_of<int64_t*>(numbers({Is::kNumbers, true, true})));
    } else if (field.type == "const aster_ml_lazy *") {
      put(tensor());
    }
  }
  return slot_of(out);
}

Call::Slot Call::argument(size_t i) {
  const Type& type = function_.arguments[i];
  const std::string& name = function_.names[i];
  const char direction = function_.directions[i];
  if (type.pointer && direction == 'o' && !type.constant) return output(type, name);
  switch (type.is) {
    case Is::kScalar: {
      auto* scalar = array<aster_ml_scalar>(1);
      aster_ml_scalar_from_double(
          scalar, choose_.pick<int32_t>({ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DTYPE_WEAKFLOAT}),
          choose_.pick<double>({0.0, 1.0, -2.5, NAN, INFINITY}));
      if (choose_.one_in(8)) scalar->dtype = static_cast<int32_t>(choose_.below(200)) - 5;
      return choose_.one_in(10) ? 0 : slot_of(scalar);
    }
    case Is::kNode:
      return slot_of(world_.uop);
    case Is::kLazies:
    case Is::kWritableLazies: {
      auto* list = array<const aster_ml_lazy*>(kMost);
      for (size_t k = 0; k < kMost; ++k) list[k] = tensor();
      return choose_.one_in(20) ? 0 : slot_of(list);
    }
    case Is::kNumbers:
    case Is::kSizes:
    case Is::kStrides:
      return numbers(type);
    case Is::kText:
      return slot_of(text(name));
    case Is::kBytes:
      return choose_.one_in(20) ? 0 : slot_of(array<char>(1 << 16));
    case Is::kTarget: {
      auto* target = array<aster_ml_target>(1);
      *target = {choose_.one_in(20) ? 4u : static_cast<uint32_t>(sizeof(*target)),
                 1 << choose_.below(4),
                 choose_.one_in(4) ? 64 : 16 << choose_.below(3),
                 choose_.one_in(4) ? static_cast<uint32_t>(choose_.below(64)) : 0u,
                 choose_.one_in(3) ? 1u << choose_.below(8) : 0u,
                 choose_.one_in(3) ? 256u : 0u,
                 choose_.one_in(3) ? 4096u : 0u};
      return choose_.one_in(20) ? 0 : slot_of(target);
    }
    case Is::kNodeOptions:
    case Is::kOptions:
      return options(function_.types[i]);
    case Is::kInt32:
      if (has(name, "dtype") && !choose_.one_in(4)) return 1 + choose_.below(17);
      return slot_of(static_cast<int32_t>(integer()));
    case Is::kInteger:
      if (type.is_unsigned) return choose_.one_in(12) ? choose_.below(kMost) : choose_.below(5);
      return slot_of(integer());
    case Is::kReal:
      return slot_of(
          choose_.pick<double>({0.0, 1.0, -1.0, 0.5, 2.0, NAN, INFINITY, 1e300, 1e-300}));
    default:
      return object(type, has(function_.name, "_free") || has(function_.name, "_end"));
  }
}

// Every handle in the outputs goes to the world; on a failure there is none.
void Call::tensors_made(Outcome* outcome) {
  aster_ml_lazy untouched;
  std::memset(&untouched, kUntouched, sizeof(untouched));
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (function_.directions[i] != 'o' || function_.arguments[i].is != Is::kLazy) continue;
    auto* made = value_of<aster_ml_lazy*>(slots_[i]);
    for (size_t k = 0; made != nullptr && k < kMost; ++k) {
      if (made[k].impl == nullptr || made[k].impl == untouched.impl) continue;
      std::string what = std::to_string(aster_ml_lazy_dtype(&made[k]));
      for (size_t axis = 0; axis < aster_ml_lazy_ndim(&made[k]); ++axis) {
        what += " " + std::to_string(aster_ml_lazy_dim(&made[k], static_cast<int64_t>(axis)));
      }
      outcome->made.push_back(outcome->status == 0 ? what : "a tensor of a failed call: " + what);
      const bool costly = costly_ || aster_ml_lazy_count(&made[k]) > 4096;
      world_.put(18 + choose_.below(6), made[k], costly);
    }
  }
}

void Call::clean_up(const Type& type, Slot slot) {
  if (slot == 0) return;
  void* made = value_of<void*>(slot);
  // clang-format off
  switch (type.is) {
    case Is::kLayer: aster_ml_layer_free(static_cast<aster_ml_layer*>(made)); break;
    case Is::kState: aster_ml_state_free(static_cast<aster_ml_state*>(made)); break;
    case Is::kOptimizer: aster_ml_optimizer_free(static_cast<aster_ml_optimizer*>(made)); break;
    case Is::kProgram: aster_ml_program_free(static_cast<aster_ml_program*>(made)); break;
    case Is::kWorkspace: aster_ml_workspace_free(static_cast<aster_ml_workspace*>(made)); break;
    case Is::kSparse: aster_ml_sparse_free(static_cast<aster_ml_sparse*>(made)); break;
    case Is::kOnnx: aster_ml_onnx_free(static_cast<aster_ml_onnx*>(made)); break;
    case Is::kOnnxValue: aster_ml_onnx_value_free(static_cast<aster_ml_onnx_value*>(made)); break;
    case Is::kContext: aster_ml_context_free(static_cast<aster_ml_context*>(made)); break;
    case Is::kBuffer: aster_ml_buffer_free(static_cast<aster_ml_buffer*>(made)); break;
    case Is::kTensor:
      if ((has(function_.name, "_view") && !has(function_.name, "sparse")) ||
          has(function_.name, "program_run")) break;
      aster_ml_tensor_free(static_cast<aster_ml_tensor*>(made));
      break;
    case Is::kOptions:
      if (begins(function_.name, "aster_ml_scope_begin")) {
        aster_ml_scope_end(static_cast<aster_ml_scope*>(made));
      } else if (function_.name == "aster_ml_arena_init") {
        aster_ml_arena_free(static_cast<aster_ml_arena*>(made));
      } else if (begins(function_.name, "aster_ml_view_")) {
        aster_ml_view_free(static_cast<aster_ml_buffer_view*>(made));
      } else if (begins(function_.name, "aster_ml_kernel_from_") ||
                 function_.name == "aster_ml_kernel_free") {
        aster_ml_kernel_free(static_cast<aster_ml_kernel*>(made));
      } else if (begins(function_.name, "aster_ml_kernel_get_")) {
        const auto* kernel = static_cast<const aster_ml_dynamic_kernel_instance*>(made);
        kernel->kernel->destructor(kernel->kernel);
        kernel->free_func(kernel->kernel);
      } else if (function_.name == "aster_ml_dlpack_export") {
        auto* managed = *static_cast<aster_ml_dlpack_managed**>(made);
        managed->deleter(managed);
      } else if (function_.name == "aster_ml_dlpack_export_legacy") {
        auto* managed = *static_cast<aster_ml_dlpack_legacy**>(made);
        managed->deleter(managed);
      }
      break;
    default: break;
  }
  // clang-format on
}

Outcome Call::run() {
  Outcome outcome;
  aster_ml_error_clear();
  const Slot result = function_.call(slots_);
  if (!function_.status()) return outcome;
  outcome.status = value_of<int32_t>(result);
  if (begins(function_.name, "aster_ml_kernel_get_")) outcome.status = -outcome.status;
  aster_ml_error error{};
  aster_ml_error_last(&error);
  outcome.message = std::string(error.function) + ": " + error.message;
  tensors_made(&outcome);
  for (size_t i = 0; outcome.status == 0 && i < slots_.size(); ++i) {
    if (function_.directions[i] == 'o') clean_up(function_.arguments[i], slots_[i]);
  }
  return outcome;
}

}  // namespace api_fuzz
