#include "buffer/staging.h"

#include <cstring>
#include <utility>

#include "base/mutex.h"
#include "device/device.h"

namespace aster::buffer {
namespace {

// What a copy works with: two parts of pinned memory, and a queue of the device.
struct Lane {
  int32_t device = 0;
  void* queue = nullptr;
  void* part[2] = {};
};

// Lanes that are not in use, and devices that have none.
constexpr int kKept = 8;
struct Lanes {
  Mutex mutex;
  Lane kept[kKept];
  int32_t without[kKept] = {};
};
constinit Lanes g_lanes;

void close(const aster_ml_backend& backend, const Lane& lane) {
  const int32_t index = device::index(lane.device);
  for (void* part : lane.part) {
    if (part != nullptr) backend.release(backend.self, index, part, kStagedPart);
  }
  if (lane.queue != nullptr) backend.close(backend.self, index, lane.queue);
}

bool open(Lane* lane, const aster_ml_backend& backend, int32_t device) {
  const int32_t index = device::index(device);
  lane->device = device;
  bool ok = backend.open(backend.self, &lane->queue, index, 0) == ASTER_ML_OK;
  for (void*& part : lane->part) {
    ok = ok && backend.allocate_kind(backend.self, &part, index, kStagedPart,
                                     ASTER_ML_MEMORY_PINNED) == ASTER_ML_OK;
  }
  if (!ok) close(backend, *lane);
  return ok;
}

bool take(Lane* lane, const aster_ml_backend& backend, int32_t device) {
  {
    const MutexLock lock(g_lanes.mutex);
    for (const int32_t none : g_lanes.without) {
      if (none == device) return false;
    }
    for (Lane& kept : g_lanes.kept) {
      if (kept.device == device) return *lane = std::exchange(kept, Lane{}), true;
    }
  }
  if (open(lane, backend, device)) return true;
  const MutexLock lock(g_lanes.mutex);
  for (int32_t& none : g_lanes.without) {
    if (none == 0) return none = device, false;
  }
  return false;
}

void put(const aster_ml_backend& backend, const Lane& lane) {
  {
    const MutexLock lock(g_lanes.mutex);
    for (Lane& kept : g_lanes.kept) {
      if (kept.device != 0) continue;
      kept = lane;
      return;
    }
  }
  close(backend, lane);
}

// One copy on its way.
class Transfer {
 public:
  Transfer(const aster_ml_backend& backend, const Lane& lane, const Place& place, void* host,
           size_t bytes)
      : backend_(backend),
        lane_(lane),
        place_(place),
        host_(static_cast<char*>(host)),
        bytes_(bytes) {}

  Status run(bool in) {
    const size_t parts = (bytes_ + kStagedPart - 1) / kStagedPart;
    Status status;
    for (size_t i = 0; i < parts && status.ok(); ++i) {
      if (in) {
        status = wait(i & 1);
        if (status.ok()) std::memcpy(lane_.part[i & 1], host_ + i * kStagedPart, size(i));
        if (status.ok()) status = begin(i, ASTER_ML_COMMAND_COPY_IN);
      } else {
        if (i == 0) status = begin(0, ASTER_ML_COMMAND_COPY_OUT);
        if (status.ok() && i + 1 < parts) status = begin(i + 1, ASTER_ML_COMMAND_COPY_OUT);
        if (status.ok()) status = wait(i & 1);
        if (status.ok()) std::memcpy(host_ + i * kStagedPart, lane_.part[i & 1], size(i));
      }
    }
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const Status last = wait(side);
      if (status.ok()) status = last;
    }
    return status;
  }

 private:
  size_t size(size_t i) const {
    const size_t left = bytes_ - i * kStagedPart;
    return left < kStagedPart ? left : kStagedPart;
  }
  Status begin(size_t i, int32_t kind) {
    void* part = lane_.part[i & 1];
    const size_t at = place_.offset + i * kStagedPart;
    aster_ml_command command{};
    command.struct_size = sizeof(command);
    command.kind = kind;
    command.bytes = size(i);
    const bool in = kind == ASTER_ML_COMMAND_COPY_IN;
    command.to = in ? place_.data : part;
    command.from = in ? part : place_.data;
    (in ? command.to_offset : command.from_offset) = at;
    const Heard heard;
    const int32_t code = backend_.submit(backend_.self, &ticket_[i & 1],
                                         device::index(lane_.device), lane_.queue, &command, 1);
    under_way_[i & 1] = code == ASTER_ML_OK;
    return code == ASTER_ML_OK ? kOk : failed(code, heard);
  }
  Status wait(size_t side) {
    if (!under_way_[side]) return kOk;
    under_way_[side] = false;
    const Heard heard;
    const int32_t code =
        backend_.wait(backend_.self, device::index(lane_.device), lane_.queue, ticket_[side]);
    return code == ASTER_ML_OK ? kOk : failed(code, heard);
  }
  Status failed(int32_t code, const Heard& heard) {
    return backend_failed("copy", lane_.device, bytes_, code, heard);
  }

  const aster_ml_backend& backend_;
  const Lane& lane_;
  const Place& place_;
  char* host_;
  size_t bytes_;
  uint64_t ticket_[2] = {};
  bool under_way_[2] = {};
};

bool is_pinned(const void* host, size_t bytes) {
  Storage* storage = storage_around(host, bytes);
  const bool pinned = storage != nullptr && storage->kind != ASTER_ML_MEMORY_NORMAL;
  storage_release(storage);
  return pinned;
}

}  // namespace

Status backend_failed(const char* what, int32_t device, size_t bytes, int32_t code,
                      const Heard& heard) {
  if (device::same_type(device, device::kNull) && code == ASTER_ML_DEVICE) {
    return ASTER_FAIL(kDEVICE, "%s computes nothing: there are no values to read",
                      device::name(device).text);
  }
  if (const char* said = code == ASTER_ML_OK ? nullptr : heard.text()) {
    const Status status = ASTER_FAIL(kDEVICE, "%s: %s of %zu bytes: %s", device::name(device).text,
                                     what, bytes, said);
    return code == ASTER_ML_MEMORY ? ASTER_FAIL(kMEMORY, "%s", SavedError::message()) : status;
  }
  if (code == ASTER_ML_MEMORY) {
    return ASTER_FAIL(kMEMORY, "%s has no %zu bytes left", device::name(device).text, bytes);
  }
  if (code <= ASTER_ML_ERROR || code > ASTER_ML_INTERNAL) {
    return ASTER_FAIL(kERROR, "%s: %s of %zu bytes failed without saying how (it returned %d%s)",
                      device::name(device).text, what, bytes, code,
                      code == ASTER_ML_OK ? " and no memory" : "");
  }
  return ASTER_FAIL(kDEVICE, "%s: %s of %zu bytes failed with status %d (%s)",
                    device::name(device).text, what, bytes, code, aster_ml_status_name(code));
}

Status copy_staged(bool* done, const Place& place, void* host, size_t bytes, bool in) {
  *done = false;
  const aster_ml_backend* backend;
  ASTER_TRY(device::backend(&backend, place.device));
  if (bytes < kStagedFrom || backend->allocate_kind == nullptr || backend->submit == nullptr ||
      is_pinned(host, bytes)) {
    return kOk;
  }
  Lane lane;
  if (!take(&lane, *backend, place.device)) return kOk;
  *done = true;
  const Status status = Transfer(*backend, lane, place, host, bytes).run(in);
  if (status.ok()) {
    put(*backend, lane);
  } else {
    close(*backend, lane);
  }
  return status;
}

}  // namespace aster::buffer
