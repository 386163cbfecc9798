// What a run of a program is given: descriptors as captured, and memory that may overlap.
#include <algorithm>
#include <functional>

#include "device/device.h"
#include "engine/program.h"

namespace aster::engine {

using buffer::Region;

// Address space by address space.
static bool before(const Region& a, const Region& b) {
  if (a.space != b.space) return std::less<const void*>()(a.space, b.space);
  return a.begin < b.begin;
}

bool Regions::merge() {
  std::ranges::sort(all_, before);
  bool overlapped = false;
  size_t count = 0;
  for (const Region& region : all_) {
    if (region.begin == region.end) continue;
    if (count != 0 && all_[count - 1].overlaps(region)) {
      all_[count - 1].end = std::max(all_[count - 1].end, region.end);
      overlapped = true;
    } else {
      all_[count++] = region;
    }
  }
  all_.truncate(count);
  return overlapped;
}

bool Regions::touches(const Region& region) const {
  const Region* after = std::ranges::upper_bound(all_, region, before);
  return (after != all_.begin() && after[-1].overlaps(region)) ||
         (after != all_.end() && after->overlaps(region));
}

size_t array_bytes(const Program& program, const Array& array) {
  size_t bytes = dtype::size(array.dtype);
  for (int64_t dim : program.shape(array)) bytes *= static_cast<size_t>(dim);
  return bytes;
}

Region region_of(const Program& program, const Array& array) {
  return buffer::region_of(*array.storage, static_cast<size_t>(array.offset),
                           array_bytes(program, array));
}

namespace {

Status check_tensor(const Program& program, const Array& expected, const aster_ml_tensor& given,
                    const char* what, size_t i) {
  const uop::Words shape = program.shape(expected);
  if (given.dtype != static_cast<int32_t>(expected.dtype)) {
    return ASTER_FAIL(kDTYPE, "%s %zu has dtype %s, captured with %s", what, i,
                      dtype_text(given.dtype), dtype::name(expected.dtype));
  }
  if (given.ndim != 0 && (given.shape == nullptr || given.strides == nullptr)) {
    return ASTER_FAIL(kARGUMENT, "%s %zu has %zu axes without shape or strides", what, i,
                      given.ndim);
  }
  // In one pass, since every run pays for it.
  bool fits = given.ndim == shape.size(), row_major = true;
  size_t count = 1;
  for (size_t axis = shape.size(); fits && axis-- > 0;) {
    const size_t dim = given.shape[axis];
    fits = dim == static_cast<size_t>(shape[axis]);
    row_major &= dim == 1 || given.strides[axis] == static_cast<ptrdiff_t>(count);
    count *= dim;
  }
  if (!fits || (!row_major && count != 0)) {
    return ASTER_FAIL(kSHAPE, "%s %zu is not a row-major tensor of the captured shape %s", what, i,
                      uop::brief_shape(shape).text);
  }
  if (expected.away && given.storage.device != expected.storage->device) {
    return ASTER_FAIL(kDEVICE, "%s %zu lies on %s, captured on %s", what, i,
                      device::name(given.storage.device).text,
                      device::name(expected.storage->device).text);
  }
  if (!expected.away && !device::is_host(given.storage.device)) {
    return ASTER_FAIL(kDEVICE, "%s %zu lies on %s, device code %d, not in memory of the host", what,
                      i, device::name(given.storage.device).text, given.storage.device);
  }
  const size_t bytes = count * dtype::size(expected.dtype);
  if (bytes == 0) return kOk;
  if (given.storage.data == nullptr) return ASTER_FAIL(kARGUMENT, "%s %zu has no memory", what, i);
  size_t end = 0;
  if (!checked_add(given.byte_offset, bytes, &end) || end > given.storage.bytes) {
    return ASTER_FAIL(kRANGE, "%s %zu: %zu bytes from byte %zu on reach outside its %zu bytes",
                      what, i, bytes, given.byte_offset, given.storage.bytes);
  }
  const uintptr_t first =
      expected.away ? given.byte_offset : reinterpret_cast<uintptr_t>(data_of(given));
  if ((first & (dtype::size(expected.dtype) - 1)) != 0) {
    return ASTER_FAIL(kARGUMENT, "%s %zu at %p is not aligned to its elements of %zu bytes", what,
                      i, data_of(given), dtype::size(expected.dtype));
  }
  return kOk;
}

// Sorts out what overlaps what; made anew where something else is given than to the run before.
class Planner {
 public:
  Planner(const Program& program, Workspace& workspace, std::span<const aster_ml_tensor> inputs,
          std::span<const aster_ml_tensor> outputs)
      : p_(program),
        w_(workspace),
        inputs_(inputs),
        outputs_(outputs),
        written_(program.context->heap()) {}

  Status run() {
    for (size_t i = 0; i < outputs_.size(); ++i) ASTER_TRY(place_output(i));
    if (written_.merge()) return ASTER_FAIL(kARGUMENT, "outputs overlap in memory");
    ASTER_TRY(check_assigned());
    int64_t bytes = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) ASTER_TRY(place_input(i, &bytes));
    return make_room(static_cast<size_t>(bytes));
  }

 private:
  Region region(const Array& array, const aster_ml_tensor& given) const {
    const size_t bytes = array_bytes(p_, array);
    const Given memory = given_of(array, given);
    if (!device::is_host(array.storage->device))
      return {memory.data, memory.offset, memory.offset + bytes};
    return buffer::host_region(memory.address(), bytes);
  }
  Region input(size_t i) const { return region(p_.inputs[i], inputs_[i]); }
  bool in_workspace(const Region& region) const {
    bool any = buffer::region_of(*w_.memory).overlaps(region);
    for (const buffer::Storage* area : w_.areas) any |= buffer::region_of(*area).overlaps(region);
    return any;
  }
  // Whether memory that is given for a result is where it is without being copied.
  bool is_home(size_t i) const {
    const Result& result = p_.results[i];
    Given home = home_of(w_, result);
    if (result.where == Where::kFixed) home = given_of(result.array);
    if (result.where == Where::kInput) {
      home = given_of(p_.inputs[result.input], inputs_[result.input]);
      home.offset += static_cast<size_t>(result.array.offset - p_.inputs[result.input].offset);
    }
    const Given given = given_of(result.array, outputs_[i]);
    return result.array.away ? given == home : given.address() == home.address();
  }

  Status place_output(size_t i) {
    w_.late[i] = 0;
    if (outputs_[i].storage.data == nullptr || is_home(i)) return kOk;
    const Region at = region(p_.results[i].array, outputs_[i]);
    if (in_workspace(at))
      return ASTER_FAIL(kARGUMENT, "output %zu lies in the workspace's own memory", i);
    if (p_.writes.touches(at)) {
      return ASTER_FAIL(kARGUMENT, "output %zu lies in memory that the step assigns", i);
    }
    w_.late[i] = p_.reads.touches(at);
    return written_.add(at);
  }

  // What is assigned to an input would be seen, or lost, in what lies in the same memory.
  Status check_assigned() {
    if (p_.assigned.empty()) return kOk;
    struct Place {
      Region region;
      uint32_t input;
      bool assigned;
    };
    Vec<Place> places(p_.context->heap());
    for (uint32_t i = 0; i < inputs_.size(); ++i)
      ASTER_TRY(places.push(Place{input(i), i, std::ranges::count(p_.assigned, i) != 0}));
    std::ranges::sort(places, before, &Place::region);
    uintptr_t end = 0, assigned_end = 0;
    const void* space = nullptr;
    for (const Place& place : places) {
      const Region& region = place.region;
      if (region.begin == region.end) continue;
      if (region.space != space) space = region.space, end = assigned_end = 0;
      if (region.begin < (place.assigned ? end : assigned_end)) {
        return ASTER_FAIL(kARGUMENT, "input %u overlaps another input, and the step assigns one",
                          place.input);
      }
      end = std::max(end, region.end);
      if (place.assigned) assigned_end = std::max(assigned_end, region.end);
    }
    return kOk;
  }

  Status place_input(size_t i, int64_t* bytes) {
    const Region at = input(i);
    w_.staged[i] = -1;
    if (p_.writes.touches(at))
      return ASTER_FAIL(kARGUMENT, "input %zu lies in other memory that the step assigns", i);
    if (!in_workspace(at) && !written_.touches(at)) return kOk;
    if (p_.inputs[i].away) {
      w_.staged[i] = 0;
      if (w_.apart[i] != nullptr) return kOk;
      return buffer::storage_create(&w_.apart[i], *p_.context, at.end - at.begin,
                                    p_.inputs[i].storage->device);
    }
    w_.staged[i] = *bytes;
    *bytes += static_cast<int64_t>(align_up(at.end - at.begin, size_t{64}));
    return kOk;
  }

  Status make_room(size_t bytes) {
    if (bytes == 0 || (w_.staging != nullptr && w_.staging->bytes >= bytes)) return kOk;
    buffer::storage_release(w_.staging);
    w_.staging = nullptr;
    return buffer::storage_create(&w_.staging, *p_.context, bytes, 0);
  }

  const Program& p_;
  Workspace& w_;
  std::span<const aster_ml_tensor> inputs_, outputs_;
  Regions written_;  // outputs
};

}  // namespace

Status plan_run(const Program& program, Workspace& workspace,
                std::span<const aster_ml_tensor> inputs, std::span<const aster_ml_tensor> outputs) {
  const auto note = [&](size_t at, const Given& memory) {
    workspace.planned &= workspace.given[at] == memory;
    workspace.given[at] = memory;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASTER_TRY(check_tensor(program, program.inputs[i], inputs[i], "input", i));
    note(i, given_of(program.inputs[i], inputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool wanted = outputs[i].storage.data != nullptr;
    if (wanted) {
      ASTER_TRY(check_tensor(program, program.results[i].array, outputs[i], "output", i));
    }
    note(inputs.size() + i,
         wanted ? given_of(program.results[i].array, outputs[i]) : Given{nullptr, 0});
  }
  for (uint32_t i : program.assigned) {
    if (aster_ml_buffer_is_read_only(&inputs[i].storage) != 0) {
      return ASTER_FAIL(kARGUMENT, "the step assigns its input %u, which is read-only", i);
    }
  }
  if (workspace.planned) return kOk;
  ASTER_TRY(Planner(program, workspace, inputs, outputs).run());
  workspace.planned = true;
  return kOk;
}

}  // namespace aster::engine
