#include "device/device.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/mutex.h"
#include "base/options.h"

namespace aster::device {
namespace {

constexpr int32_t kFirstRegistered = 64;
constexpr int32_t kOpencl = ASTER_ML_DEVICE_OPENCL / kIndices;
constexpr int32_t kRegisteredMost = 32;
constexpr size_t kNameMost = 31;

struct Type {
  int32_t code;
  bool host;  // its memory is the host's
  char name[kNameMost + 1];
};
constexpr Type kBuiltIn[] = {
    {1, true, "CPU"},   {2, false, "OPENCL"}, {3, true, "REFERENCE"}, {4, true, "DISK"},
    {5, false, "CUDA"}, {6, false, "NULL"},   {7, false, "ROCM"},     {8, false, "METAL"},
};
constexpr int32_t kBuiltInCount = sizeof(kBuiltIn) / sizeof(kBuiltIn[0]);

// A type that may get a backend: one slot for each built-in, then those registered. Written once
// under g_mutex, then published by ready.
struct Slot {
  std::atomic<bool> ready{false};
  char name[kNameMost + 1] = {};
  aster_ml_backend backend = {};
};
constinit Slot g_slots[kBuiltInCount + kRegisteredMost];
constinit Mutex g_mutex;

Slot* slot_of(int32_t type) {
  if (type >= 1 && type <= kBuiltInCount) return &g_slots[type - 1];
  const int32_t registered = type - kFirstRegistered;
  if (registered < 0 || registered >= kRegisteredMost) return nullptr;
  return &g_slots[kBuiltInCount + registered];
}

const char* type_name(int32_t type) {
  if (type >= 1 && type <= kBuiltInCount) return kBuiltIn[type - 1].name;
  const Slot* slot = slot_of(type);
  return slot != nullptr && slot->ready.load(std::memory_order_acquire) ? slot->name : nullptr;
}

bool built_in_host(int32_t type) {
  return type >= 1 && type <= kBuiltInCount && kBuiltIn[type - 1].host;
}

// NULL: addresses that no memory is ever at, and no copies.
constexpr uint64_t kNowhere = uint64_t{1} << 60;
constinit std::atomic<uint64_t> g_nowhere{kNowhere};

int32_t allocate_nothing(void*, void** out, int32_t, size_t bytes) {
  constexpr uint64_t kMost = kNowhere * 7;
  const uint64_t at = g_nowhere.load() > kMost ? kMost : g_nowhere.fetch_add((bytes + 63) & ~63ULL);
  *out = reinterpret_cast<void*>(static_cast<uintptr_t>(at));
  return at < kMost && bytes < kNowhere ? ASTER_ML_OK : ASTER_ML_MEMORY;
}
void release_nothing(void*, int32_t, void*, size_t) {}
int32_t copy_in_nothing(void*, int32_t, void*, size_t, const void*, size_t) { return ASTER_ML_OK; }
int32_t copy_out_nothing(void*, int32_t, void*, const void*, size_t, size_t) {
  return ASTER_ML_DEVICE;
}
int32_t copy_nothing(void*, int32_t, void*, size_t, const void*, size_t, size_t) {
  return ASTER_ML_OK;
}
constexpr aster_ml_backend nothing() {
  aster_ml_backend backend = {};
  backend.struct_size = sizeof(backend);
  backend.count = kIndices;
  backend.allocate = allocate_nothing;
  backend.release = release_nothing;
  backend.copy_in = copy_in_nothing;
  backend.copy_out = copy_out_nothing;
  backend.copy = copy_nothing;
  return backend;
}
constexpr aster_ml_backend kNothing = nothing();

bool is_letter(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// The type's name in upper case; text after it is left in *rest.
Status parse_type(char (&out)[kNameMost + 1], std::string_view* rest, const char* text) {
  size_t length = 0;
  for (; text[length] != '\0' && text[length] != ':'; ++length) {
    const char c = upper(text[length]);
    const bool fits = is_letter(c) || (length > 0 && (is_digit(c) || c == '_'));
    if (!fits || length == kNameMost) return ASTER_FAIL(kFORMAT, "'%.64s' is no device name", text);
    out[length] = c;
  }
  if (length == 0) return ASTER_FAIL(kFORMAT, "'%.64s' is no device name", text);
  out[length] = '\0';
  *rest = text + length;
  return kOk;
}

// "" or ":7".
Status parse_index(int32_t* out, std::string_view text, const char* whole) {
  *out = 0;
  if (text.empty()) return kOk;
  text.remove_prefix(1);
  if (text.empty()) return ASTER_FAIL(kFORMAT, "'%.64s' has no index after ':'", whole);
  int32_t value = 0;
  for (const char c : text) {
    if (!is_digit(c)) return ASTER_FAIL(kFORMAT, "'%.64s' has an index that is no number", whole);
    value = value * 10 + (c - '0');
    if (value >= kIndices) return ASTER_FAIL(kRANGE, "'%.64s': the index is above 65535", whole);
  }
  *out = value;
  return kOk;
}

int32_t find_type(const char* name) {
  for (int32_t type = 1; type <= kBuiltInCount; ++type) {
    if (std::strcmp(kBuiltIn[type - 1].name, name) == 0) return type;
  }
  for (int32_t type = kFirstRegistered; type < kFirstRegistered + kRegisteredMost; ++type) {
    const char* known = type_name(type);
    if (known != nullptr && std::strcmp(known, name) == 0) return type;
  }
  return 0;
}

Status parse(int32_t* out, const char* text) {
  char type_text[kNameMost + 1];
  std::string_view rest;
  int32_t index;
  ASTER_TRY(parse_type(type_text, &rest, text));
  ASTER_TRY(parse_index(&index, rest, text));
  const int32_t type = find_type(type_text);
  if (type == 0) return ASTER_FAIL(kNOT_FOUND, "no device is named '%.64s'", text);
  *out = type * kIndices + index;
  return kOk;
}

Status read_backend(aster_ml_backend* out, const aster_ml_backend* given) {
  if (given == nullptr) return ASTER_FAIL(kARGUMENT, "backend is null");
  ASTER_TRY(read_struct(out, given, "the backend"));
  out->struct_size = sizeof(*out);
  if (out->allocate == nullptr || out->release == nullptr || out->copy_in == nullptr ||
      out->copy_out == nullptr) {
    return ASTER_FAIL(kARGUMENT, "allocate, release, copy_in or copy_out is missing");
  }
  const bool computes[] = {out->build != nullptr, out->unbuild != nullptr, out->open != nullptr,
                           out->close != nullptr, out->submit != nullptr,  out->wait != nullptr};
  const auto there = std::ranges::count(computes, true);
  if (there != 0 && (there != std::ssize(computes) || out->describe == nullptr)) {
    return ASTER_FAIL(kARGUMENT,
                      "a backend that computes has describe, build, unbuild, open, close, submit "
                      "and wait: some are missing");
  }
  const bool programs[] = {out->take_program != nullptr, out->execute_program != nullptr,
                           out->drop_program != nullptr};
  const auto taken = std::ranges::count(programs, true);
  if (taken != 0 && taken != std::ssize(programs)) {
    return ASTER_FAIL(kARGUMENT,
                      "a backend that executes programs has take_program, execute_program and "
                      "drop_program: some are missing");
  }
  if (out->count == 0) out->count = 1;
  if (out->count < 0 || out->count > kIndices) {
    return ASTER_FAIL(kRANGE, "%d devices: 1 to 65536 are possible", out->count);
  }
  return kOk;
}

Status add(int32_t* out, const char* text, const aster_ml_backend* given) {
  char name_text[kNameMost + 1];
  std::string_view rest;
  ASTER_TRY(parse_type(name_text, &rest, text));
  if (!rest.empty()) return ASTER_FAIL(kFORMAT, "'%.64s': a type has no index", text);
  aster_ml_backend backend;
  ASTER_TRY(read_backend(&backend, given));
  const MutexLock lock(g_mutex);
  int32_t type = find_type(name_text);
  const bool served = built_in_host(type) || type == device::type(kNull);
  if (type != 0 && (served || slot_of(type)->ready.load())) {
    return ASTER_FAIL(kSTATE, "%s has a backend already", name_text);
  }
  for (int32_t free = kFirstRegistered; type == 0 && slot_of(free) != nullptr; ++free) {
    if (!slot_of(free)->ready.load()) type = free;
  }
  if (type == 0) return ASTER_FAIL(kRANGE, "%d types are registered: no more fit", kRegisteredMost);
  Slot* slot = slot_of(type);
  std::memcpy(slot->name, name_text, sizeof(name_text));
  slot->backend = backend;
  slot->ready.store(true, std::memory_order_release);
  *out = type * kIndices;
  return kOk;
}

// OPENCL's own table where nobody has registered another. Errors: UNSUPPORTED (no device).
Status find_built_in(Slot* slot) {
  if (slot->ready.load(std::memory_order_acquire) || find_opencl == nullptr) return kOk;
  const aster_ml_backend* const table = find_opencl();
  if (table == nullptr) return last_failure();
  const MutexLock lock(g_mutex);
  if (slot->ready.load()) return kOk;
  slot->backend = *table;
  slot->ready.store(true, std::memory_order_release);
  return kOk;
}

}  // namespace

Name name(int32_t device) {
  Name out;
  const char* text = device > 0 ? type_name(type(device)) : nullptr;
  if (text == nullptr) {
    std::snprintf(out.text, sizeof(out.text), "?");
  } else if (index(device) == 0) {
    std::snprintf(out.text, sizeof(out.text), "%s", text);
  } else {
    std::snprintf(out.text, sizeof(out.text), "%s:%d", text, index(device));
  }
  return out;
}

Status canonical(int32_t* out, int32_t device) {
  *out = 0;
  if (device == 0) device = kCpu;
  if (device < 0 || type_name(type(device)) == nullptr) {
    return ASTER_FAIL(kARGUMENT, "%d is no device", device);
  }
  *out = device;
  return kOk;
}

bool backend_is_host(int32_t device) {
  if (device < 0) return false;
  if (device == 0 || built_in_host(type(device))) return true;
  const Slot* slot = slot_of(type(device));
  return slot != nullptr && slot->ready.load(std::memory_order_acquire) &&
         slot->backend.host_visible != 0;
}

Status backend(const aster_ml_backend** out, int32_t device) {
  *out = nullptr;
  ASTER_TRY(canonical(&device, device));
  if (built_in_host(type(device))) return kOk;
  if (same_type(device, kNull)) {
    *out = &kNothing;
    return kOk;
  }
  Slot* slot = slot_of(type(device));
  if (device::type(device) == kOpencl) ASTER_TRY(find_built_in(slot));
  if (!slot->ready.load(std::memory_order_acquire)) {
    return ASTER_FAIL(kUNSUPPORTED, "no backend named %s is registered", type_name(type(device)));
  }
  if (index(device) >= slot->backend.count) {
    return ASTER_FAIL(kARGUMENT, "%s: there are %d such devices", name(device).text,
                      slot->backend.count);
  }
  *out = &slot->backend;
  return kOk;
}

Status allocatable(int32_t device) {
  const aster_ml_backend* found = nullptr;
  ASTER_TRY(backend(&found, device));
  if (!same_type(device, kDisk)) return kOk;
  return ASTER_FAIL(kUNSUPPORTED, "nothing is allocated on %s: files are mapped",
                    name(device).text);
}

}  // namespace aster::device

namespace dev = aster::device;

extern "C" {

int32_t aster_ml_device_type(int32_t device) {
  if (device == 0) device = dev::kCpu;
  return device > 0 && dev::type_name(dev::type(device)) != nullptr ? dev::type(device) : 0;
}

int32_t aster_ml_device_index(int32_t device) {
  return aster_ml_device_type(device) != 0 ? dev::index(device) : 0;
}

int32_t aster_ml_device_from_name(int32_t* out, const char* name) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = 0;
  if (name == nullptr) return ASTER_FAIL(kARGUMENT, "name is null");
  return dev::parse(out, name);
}

int32_t aster_ml_device_to_name(char* out, size_t capacity, int32_t device) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  if (capacity != 0) out[0] = '\0';
  int32_t canonical;
  ASTER_TRY(dev::canonical(&canonical, device));
  const dev::Name name = dev::name(canonical);
  const size_t bytes = std::strlen(name.text) + 1;
  if (bytes > capacity) {
    return ASTER_FAIL(kRANGE, "%s needs %zu bytes, %zu are given", name.text, bytes, capacity);
  }
  std::memcpy(out, name.text, bytes);
  return ASTER_ML_OK;
}

int32_t aster_ml_device_is_available(int32_t device) {
  if (device == 0) device = dev::kCpu;
  if (aster_ml_device_type(device) == 0 || dev::same_type(device, dev::kDisk)) return 0;
  if (dev::built_in_host(dev::type(device)) || dev::same_type(device, dev::kNull)) return 1;
  dev::Slot* slot = dev::slot_of(dev::type(device));
  if (dev::type(device) == dev::kOpencl && !dev::find_built_in(slot).ok()) return 0;
  return slot->ready.load(std::memory_order_acquire) && dev::index(device) < slot->backend.count;
}

int32_t aster_ml_device_describe(aster_ml_device_info* out, int32_t device) {
  ASTER_API();
  if (out == nullptr || out->struct_size < sizeof(out->struct_size)) {
    return ASTER_FAIL(kARGUMENT, "out is null, or its struct_size is not set");
  }
  const aster_ml_backend* backend = nullptr;
  ASTER_TRY(dev::backend(&backend, device));
  ASTER_TRY(dev::canonical(&device, device));
  const dev::Name name = dev::name(device);
  aster_ml_device_info info = {};
  info.struct_size = sizeof(info);
  info.kind = dev::is_host(device) ? ASTER_ML_DEVICE_KIND_CPU : ASTER_ML_DEVICE_KIND_OTHER;
  std::snprintf(info.name, sizeof(info.name), "%s", name.text);
  if (backend != nullptr && backend->describe != nullptr) {
    const int32_t status = backend->describe(backend->self, dev::index(device), &info);
    if (status != ASTER_ML_OK) {
      return ASTER_FAIL(kDEVICE, "%s: describe failed with status %d", name.text, status);
    }
  }
  aster::write_struct(out, info);
  return ASTER_ML_OK;
}

int32_t aster_ml_device_register(int32_t* out, const char* name, const aster_ml_backend* backend) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = 0;
  if (name == nullptr) return ASTER_FAIL(kARGUMENT, "name is null");
  return dev::add(out, name, backend);
}

}  // extern "C"
