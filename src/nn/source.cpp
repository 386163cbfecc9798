#include "nn/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "device/device.h"
#include "engine/engine.h"
#include "nn/layer.h"
#include "runtime/cpu/file.h"

namespace aster::nn {

using runtime::cpu::Descriptor;

const char* brief_path(const char* path) {
  const size_t size = std::strlen(path);
  return size > 200 ? path + (size - 200) : path;
}

Status file_failed(const char* what, const char* path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return ASTER_FAIL(kNOT_FOUND, "%s '%s': %s", what, brief_path(path),
                      "no such file or directory");
  }
  if (error == ENOMEM)
    return ASTER_FAIL(kMEMORY, "%s '%s': the system has no memory", what, brief_path(path));
  return ASTER_FAIL(kIO, "%s '%s': error %d (%s)", what, brief_path(path), error,
                    strerrordesc_np(error) == nullptr ? "unknown" : strerrordesc_np(error));
}

Status in_file(Status status, const char* path) {
  if (status.code != ASTER_ML_FORMAT) return status;
  char why[300];
  std::snprintf(why, sizeof(why), "%s", SavedError::message());
  return ASTER_FAIL(kFORMAT, "'%s': %s", brief_path(path), why);
}

namespace {

// A private mapping is copied where foreign code writes to it, without memory being set aside for
// that; where the system insists, it cannot be written.
void* map(int fd, bool shared, size_t begin, size_t bytes) {
  const off_t from = static_cast<off_t>(begin);
  if (shared) return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, from);
  constexpr int kFlags = MAP_PRIVATE | MAP_NORESERVE;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, fd, from);
  return data != MAP_FAILED ? data : mmap(nullptr, bytes, PROT_READ, kFlags, fd, from);
}

void unmap(void*, void* data, size_t bytes) { munmap(data, bytes); }

// The size of a regular file, grown where it is created. RANGE if offset and size are not inside.
Status file_size(size_t* out, int fd, const char* path, Mapped how, size_t offset, size_t size) {
  struct stat about;
  if (fstat(fd, &about) != 0) return file_failed("reading", path, errno);
  if (!S_ISREG(about.st_mode)) {
    return ASTER_FAIL(kIO, "reading '%s': it is no regular file", brief_path(path));
  }
  *out = static_cast<size_t>(about.st_size);
  size_t end;
  if (!checked_add(offset, size == kRest ? size_t{0} : size, &end) ||
      end > static_cast<size_t>(PTRDIFF_MAX)) {
    return ASTER_FAIL(kRANGE, "%zu bytes from byte %zu of '%s'", size, offset, brief_path(path));
  }
  if (end <= *out) return kOk;
  if (how != Mapped::kCreated) {
    return ASTER_FAIL(kRANGE, "'%s' of %zu bytes is asked for %zu", brief_path(path), *out, end);
  }
  // Space that cannot be had is an error here; written through a mapping, it would end the process.
  const int error = posix_fallocate(fd, 0, static_cast<off_t>(end));
  if (error != 0) {
    (void)!ftruncate(fd, about.st_size);
    return file_failed("growing", path, error);
  }
  *out = end;
  return kOk;
}

}  // namespace

Status map_file(Source* out, Context& context, const char* path, Mapped how, size_t offset,
                size_t size) {
  const bool shared = how != Mapped::kPrivate;
  // Not to wait for the writer of a pipe.
  const int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (shared ? O_RDWR : O_RDONLY) |
                    (how == Mapped::kCreated ? O_CREAT : 0);
  const Descriptor file(open(path, flags, 0666));
  if (!file.valid()) return file_failed("opening", path, errno);
  size_t whole;
  ASTER_TRY(file_size(&whole, file.get(), path, how, offset, size));
  if (size == kRest) size = whole - offset;
  if (size == 0) return create_source(out, context, 0);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = offset / page * page, bytes = offset - begin + size;
  void* data = map(file.get(), shared, begin, bytes);
  if (data == MAP_FAILED) return file_failed("mapping", path, errno);
  buffer::Storage* storage;
  const Status status =
      buffer::storage_wrap(&storage, context, data, bytes, device::kCpu, !shared, unmap, nullptr);
  if (!status.ok()) {
    munmap(data, bytes);
    return status;
  }
  storage->mapped = !shared;
  *out = Source(storage, offset - begin, size);
  return kOk;
}

namespace {

constexpr size_t kLeastLate = 64 << 10, kHugePage = size_t{2} << 20;

// Memory for bytes of a file that do not lie aligned there, which are brought when somebody looks
// at them (engine/kept_copies.h). Null: there is none.
Status create_late(buffer::Storage** out, Context& context, const Source& source, size_t offset,
                   size_t bytes) {
  *out = nullptr;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t size = align_up(bytes, page), more = size >= kHugePage ? kHugePage : 0;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const reserved = mmap(nullptr, size + more, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (reserved == MAP_FAILED) return kOk;
  char* data = static_cast<char*>(reserved);
  if (more != 0) {
    const size_t before =
        align_up(reinterpret_cast<uintptr_t>(data), kHugePage) - reinterpret_cast<uintptr_t>(data);
    if (before != 0) munmap(data, before);
    data += before;
    munmap(data + size, kHugePage - before);
    madvise(data, size, MADV_HUGEPAGE);
  }
  const Status status =
      buffer::storage_wrap(out, context, data, bytes, device::kCpu, true, unmap, nullptr);
  if (!status.ok()) {
    munmap(data, size);
    return status;
  }
  buffer::storage_retain(source.storage());
  (*out)->held = source.storage();
  (*out)->mapped = true;
  (*out)->late.store(source.data() + offset, std::memory_order_release);
  return kOk;
}

}  // namespace

Status create_source(Source* out, Context& context, size_t size) {
  buffer::Storage* storage;
  ASTER_TRY(buffer::storage_create(&storage, context, size, device::kCpu));
  *out = Source(storage, 0, size);
  return kOk;
}

Status tensor_bytes(Source* out, const aster_ml_lazy* bytes) {
  if (tensor::node(bytes)->dtype != DType::kUInt8) {
    return ASTER_FAIL(kDTYPE, "a file of %s: uint8 is needed",
                      uop::brief(tensor::node(bytes)).text);
  }
  ASTER_TRY(tensor::realize_stored(std::array{tensor::cell(bytes)}));
  const Node node = tensor::node(bytes);
  buffer::Storage* storage = engine::storage_of(node);
  if (!device::same_type(storage->device, device::kCpu)) {
    return ASTER_FAIL(kUNSUPPORTED, "a file in the memory of another device");
  }
  buffer::storage_retain(storage);
  *out = Source(storage, static_cast<size_t>(node->arg(2)), static_cast<size_t>(node->count()));
  return kOk;
}

Status place(Shared* out, engine::Engine& engine, const Source& source, size_t offset, DType dtype,
             Words shape) {
  size_t bytes = dtype::size(dtype);
  for (const Word dim : shape) bytes *= static_cast<size_t>(dim);
  const size_t at = source.offset() + offset;
  const bool aligned =
      (reinterpret_cast<uintptr_t>(source.storage()->data) + at) % dtype::size(dtype) == 0;
  if (bytes != 0 && aligned) {
    const Node node =
        engine::buffer_node(engine, source.storage(), static_cast<int64_t>(at), dtype, shape);
    return Shared::make(out, engine, node, false);
  }
  if (source.storage()->mapped && bytes >= kLeastLate) {
    buffer::Storage* late = nullptr;
    ASTER_TRY(create_late(&late, engine.context, source, offset, bytes));
    if (late != nullptr) {
      const Source held(late, 0, bytes);
      const Node node = engine::buffer_node(engine, late, 0, dtype, shape);
      return Shared::make(out, engine, node, false);
    }
  }
  Source copy;
  ASTER_TRY(create_source(&copy, engine.context, bytes));
  if (bytes != 0) std::memcpy(copy.storage()->data, source.data() + offset, bytes);
  const Node node = engine::buffer_node(engine, copy.storage(), 0, dtype, shape);
  return Shared::make(out, engine, node, false);
}

namespace {

Status hand_out(aster_ml_state* out, Context& context, const Source& source, Fill fill) {
  State* state;
  ASTER_TRY(create_state(&state, context));
  const Status status = fill(*state, source);
  if (status.ok()) {
    out->impl = state->handle;
    return kOk;
  }
  free_handle(state);
  engine::Engine* engine;
  if (engine::engine_of(&engine, context).ok()) engine->graph.collect();  // they hold the mapping
  return status;
}

}  // namespace

Status read_state(aster_ml_state* out, const aster_ml_context* context, const char* path,
                  Fill fill) {
  if (out != nullptr) out->impl = nullptr;
  Context* impl = tensor::context_of(context);
  const ContextLock lock(impl);
  ASTER_TRY(lock.status());
  if (out == nullptr || path == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer is given");
  Source source;
  ASTER_TRY(map_file(&source, *impl, path, Mapped::kPrivate, 0, kRest));
  return in_file(hand_out(out, *impl, source, fill), path);
}

Status read_state(aster_ml_state* out, const aster_ml_lazy* bytes, Fill fill) {
  if (out != nullptr) out->impl = nullptr;
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  ASTER_TRY(tensor::check_handle(bytes));
  Context& context = *tensor::cell(bytes)->context;
  const ContextLock lock(&context);
  ASTER_TRY(lock.status());
  Source source;
  ASTER_TRY(tensor_bytes(&source, bytes));
  return hand_out(out, context, source, fill);
}

}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

namespace {

struct Request {
  aster::dtype::DType dtype;
  aster::uop::Dims shape;
  size_t offset, bytes;  // kRest: as many as there are
};

Status file_request(Request* out, int32_t dtype, size_t ndim, const int64_t* shape, int64_t offset,
                    int32_t mode) {
  ASTER_TRY(aster::tensor::dtype_argument(&out->dtype, dtype, aster::dtype::DType::kUInt8));
  if (aster::dtype::is_weak(out->dtype)) {
    return ASTER_FAIL(kDTYPE, "a file of %s", aster::dtype::name(out->dtype));
  }
  Words given;
  ASTER_TRY(aster::tensor::shape_argument(&given, ndim, shape));
  if (mode < ASTER_ML_FILE_READ || mode > ASTER_ML_FILE_CREATE) {
    return ASTER_FAIL(kARGUMENT, "mode %d of a file", mode);
  }
  const size_t size = aster::dtype::size(out->dtype);
  if (offset < 0 || (mode != ASTER_ML_FILE_READ && static_cast<size_t>(offset) % size != 0)) {
    return ASTER_FAIL(kRANGE, "%s from byte %lld of a file", aster::dtype::name(out->dtype),
                      static_cast<long long>(offset));
  }
  if (ndim > aster::uop::Dims::kMost) return ASTER_FAIL(kRANGE, "a file of %zu axes", ndim);
  out->offset = static_cast<size_t>(offset);
  out->bytes = size;
  bool open = false;
  for (const Word dim : given) {
    out->shape.push(dim);
    if (dim == -1 && !open && mode != ASTER_ML_FILE_CREATE) {
      open = true;
      continue;
    }
    if (dim < 0 || !aster::checked_mul(out->bytes, static_cast<size_t>(dim), &out->bytes) ||
        out->bytes > static_cast<size_t>(PTRDIFF_MAX)) {
      return ASTER_FAIL(kRANGE, "a file as %s", aster::uop::brief_shape(given).text);
    }
  }
  if (open && out->bytes == 0) {
    return ASTER_FAIL(kSHAPE, "a file as %s", aster::uop::brief_shape(given).text);
  }
  if (open) out->bytes = kRest;
  return kOk;
}

// The size of the one open axis.
Status close_shape(Request& request, size_t bytes) {
  size_t others = aster::dtype::size(request.dtype);
  Word* open = nullptr;
  for (size_t i = 0; i < request.shape.size(); ++i) {
    if (request.shape[i] < 0) {
      open = &request.shape[i];
    } else {
      others *= static_cast<size_t>(request.shape[i]);
    }
  }
  if (open == nullptr) return kOk;
  if (bytes % others != 0) {
    return ASTER_FAIL(kSHAPE, "%zu bytes of a file as %s %s", bytes,
                      aster::dtype::name(request.dtype),
                      aster::uop::brief_shape(request.shape).text);
  }
  *open = static_cast<Word>(bytes / others);
  return kOk;
}

}  // namespace

int32_t aster_ml_lazy_from_file(aster_ml_lazy* out, const aster_ml_context* context,
                                const char* path, int32_t dtype, size_t ndim, const int64_t* shape,
                                int64_t offset, int32_t mode) {
  ASTER_API();
  aster::tensor::Build build(out, context);
  ASTER_TRY(build.status());
  if (path == nullptr) return ASTER_FAIL(kARGUMENT, "path is a null pointer");
  Request request;
  ASTER_TRY(file_request(&request, dtype, ndim, shape, offset, mode));
  Source source;
  ASTER_TRY(map_file(&source, build.context(), path, static_cast<Mapped>(mode), request.offset,
                     request.bytes));
  ASTER_TRY(close_shape(request, source.size()));
  Shared placed;
  ASTER_TRY(place(&placed, build.engine(), source, 0, request.dtype, request.shape));
  return build.finish(placed.node());
}
