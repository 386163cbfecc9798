// What flows along the edges of a model: tensors of the engine, and what only the importer knows,
// texts, sequences, and nothing.
#pragma once

#include "nn/onnx/model.h"
#include "tensor/api.h"

namespace aster::nn::onnx {

using uop::Dims;

class Value;

// A counted reference. On the context's thread.
class Ref {
 public:
  Ref() = default;
  explicit Ref(Value* taken) : value_(taken) {}  // takes the reference over
  Ref(const Ref& other);
  Ref(Ref&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Ref();
  explicit operator bool() const { return value_ != nullptr; }
  Value* operator->() const { return value_; }
  Value& operator*() const { return *value_; }

 private:
  Value* value_ = nullptr;
};

class Value {
 public:
  explicit Value(Heap& memory)
      : heap(memory), shape(memory), texts(memory), items(memory), sizes(memory) {}
  Heap& heap;
  uint32_t references = 1;
  Kind kind = Kind::kNone;  // kNone: an optional without a value
  int32_t element = 0;      // of a tensor, or of the tensors of a sequence
  bool known = false;       // whether it is the same in every run for inputs of these sizes
  bool constant = false;    // whether it is made of weights alone
  Shared cell;              // of a tensor whose elements are no texts
  Vec<Word> shape;          // of texts
  Vec<Text> texts;
  Vec<Ref> items;  // of a sequence
  Vec<Node>
      sizes;  // of integers that are made of sizes: their elements as expressions of variables

  bool is_texts() const { return kind == Kind::kTensor && element == kText; }
  Node node() const { return cell.node(); }
};

Status make_value(Ref* out, Heap& heap, Kind kind, int32_t element = 0);
// A tensor; element 0: that of its dtype. Nil: last_failure().
Status make_tensor(Ref* out, engine::Engine& engine, Node node, int32_t element, bool known);
// A tensor of host memory, filled by the caller through *data.
Status make_stored(Ref* out, void** data, engine::Engine& engine, DType dtype, Words shape,
                   int32_t element = 0);
Status make_integers(Ref* out, engine::Engine& engine, Words values, Words shape, DType dtype);
Status make_texts(Ref* out, Heap& heap, Words shape);

// The elements of a tensor in host memory, row-major, computed if they are not there. The value is
// a Buffer from then on. Errors: as realize; STATE (inside a capture, of what runs differ in).
Status fetch(const void** out, engine::Engine& engine, Value& value);

// Whether a tensor is memory, a view of it, or a constant: nothing is to be computed.
bool is_stored(const Value& value);

// Where a model's files are. directory: of external data; empty: there is none.
struct Files {
  Context& context;
  engine::Engine& engine;
  std::string_view directory;
};
// A TensorProto, whose message lies in source: weights stay there where they can. Errors: FORMAT,
// UNSUPPORTED (complex), IO, NOT_FOUND, RANGE.
Status read_tensor(Ref* out, const Files& files, const Source& source, Bytes message);
Status read_sparse(Ref* out, const Files& files, const Source& source, Bytes message);
// A SequenceProto or OptionalProto.
Status read_sequence(Ref* out, const Files& files, const Source& source, Bytes message, int depth);
Status read_optional(Ref* out, const Files& files, const Source& source, Bytes message, int depth);

// The message of a value: TensorProto, SequenceProto, or OptionalProto.
Status write_value(Text& out, engine::Engine& engine, Value& value, Kind as);

}  // namespace aster::nn::onnx
