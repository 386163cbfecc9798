// Bytes that states and tensors are read from: mapped files, or tensors of bytes.
#pragma once

#include <span>

#include "aster_ml/state.h"
#include "buffer/storage.h"
#include "nn/state.h"

namespace aster::nn {

// A piece of a storage in host memory, one reference of it held.
class Source {
 public:
  Source() = default;
  // Takes over the caller's reference.
  Source(buffer::Storage* storage, size_t offset, size_t size)
      : storage_(storage), offset_(offset), size_(size) {}
  Source(Source&& other) noexcept
      : storage_(std::exchange(other.storage_, nullptr)),
        offset_(other.offset_),
        size_(other.size_) {}
  Source& operator=(Source&& other) noexcept {
    std::swap(storage_, other.storage_);
    offset_ = other.offset_;
    size_ = other.size_;
    return *this;
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() { buffer::storage_release(storage_); }

  buffer::Storage* storage() const { return storage_; }
  size_t offset() const { return offset_; }
  size_t size() const { return size_; }
  const uint8_t* data() const { return static_cast<const uint8_t*>(storage_->data) + offset_; }
  std::span<const uint8_t> bytes() const { return {size_ == 0 ? nullptr : data(), size_}; }
  // The piece of size bytes from begin on; inside this one.
  Source slice(size_t begin, size_t size) const {
    buffer::storage_retain(storage_);
    return {storage_, offset_ + begin, size};
  }

 private:
  buffer::Storage* storage_ = nullptr;
  size_t offset_ = 0, size_ = 0;
};

// The name of a file in messages, its end if it is long.
const char* brief_path(const char* path);
// The status of a failed system call on a file: NOT_FOUND or IO.
Status file_failed(const char* what, const char* path, int error);
// What is wrong with the content of a file (FORMAT), with its name.
Status in_file(Status status, const char* path);

enum class Mapped : uint8_t {
  kPrivate,  // read-only
  kShared,   // writes go to the file, which is there
  kCreated,  // the same; made, or grown to what is asked for
};
// The bytes of a file from offset on; size of them, or all the rest where size is kRest. Errors:
// NOT_FOUND, IO, RANGE (the file is shorter).
constexpr size_t kRest = SIZE_MAX;
Status map_file(Source* out, Context& context, const char* path, Mapped how, size_t offset,
                size_t size);

// The elements of a tensor of bytes, realised. Errors: DTYPE, UNSUPPORTED (not in host memory), as
// realize.
Status tensor_bytes(Source* out, const aster_ml_lazy* bytes);

// New memory. Errors: MEMORY.
Status create_source(Source* out, Context& context, size_t size);

// A row-major tensor at byte offset of source, where it lies or, not aligned, copied. The bytes are
// there.
Status place(Shared* out, engine::Engine& engine, const Source& source, size_t offset, DType dtype,
             Words shape);

// A new state that fill makes out of a file or a tensor of bytes: what the functions have in
// common.
using Fill = Status (*)(State& state, const Source& source);
Status read_state(aster_ml_state* out, const aster_ml_context* context, const char* path,
                  Fill fill);
Status read_state(aster_ml_state* out, const aster_ml_lazy* bytes, Fill fill);

// A format's reader.
Status fill_safetensors(State& state, const Source& source);
Status fill_zip(State& state, const Source& source);
Status fill_tar(State& state, const Source& source);
Status fill_torch(State& state, const Source& source);

}  // namespace aster::nn
