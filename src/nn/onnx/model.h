// A model as its file says it: messages taken apart into an arena, texts and weights left where
// they lie.
#pragma once

#include "base/list.h"
#include "nn/onnx/wire.h"
#include "nn/source.h"

namespace aster::nn::onnx {

// What an element is; kText has no dtype of the engine.
enum Element : int32_t {
#define ELEMENT(code, Name, name, dtype, bits, field) k##Name = code,
#include "nn/onnx/types.def"
  kText = 8,
  kComplex64 = 14,
  kComplex128 = 15,
};
struct ElementInfo {
  const char* name;
  DType dtype;
  int32_t bits, field;
};
// Null where there is none that tensors of the engine have.
const ElementInfo* element_info(int32_t code);
const char* element_name(int32_t code);
int32_t element_of(DType dtype);

enum class Kind : int32_t { kNone = 0, kTensor = 1, kSequence = 2, kOptional = 3, kMap = 4 };
// The type of a value, outermost kind first.
struct Type {
  Kind kind = Kind::kNone;
  Kind inner = Kind::kNone;  // of a sequence or optional
  int32_t element = 0;
  bool shaped = false;
  Words shape;                              // -1: any
  std::span<const std::string_view> names;  // of axes of any size, else empty
};
struct GraphProto;
struct Attribute {
  std::string_view name, refers;  // to an attribute of the function
  int32_t type = 0;
  double f = 0;
  int64_t i = 0;
  std::string_view s;
  Bytes tensor, sparse;
  const GraphProto* graph = nullptr;
  std::span<const double> floats;
  Words ints;
  std::span<const std::string_view> strings;
  std::span<const Bytes> tensors;
  Type of;
  bool present = false;
};
struct NodeProto {
  std::string_view op, domain, name, overload;
  std::span<const std::string_view> inputs, outputs;
  std::span<const Attribute> attributes;
};
struct ValueInfo {
  std::string_view name;
  Type type;
};
struct Weight {
  std::string_view name;
  Bytes message;
  bool sparse;
};
struct GraphProto {
  std::string_view name;
  std::span<const NodeProto> nodes;
  std::span<const Weight> weights;
  std::span<const ValueInfo> inputs, outputs;
};
struct Opset {
  std::string_view domain;
  int64_t version;
};
struct FunctionProto {
  std::string_view name, domain, overload;
  std::span<const std::string_view> inputs, outputs;
  std::span<const Attribute> defaults;
  std::span<const NodeProto> nodes;
  std::span<const Opset> opsets;
};
struct ModelProto {
  GraphProto graph;
  std::span<const Opset> opsets;
  std::span<const FunctionProto> functions;
};

// Graphs in graphs deeper than this are refused: FORMAT.
constexpr int kMostDepth = 64;
// Errors: FORMAT, MEMORY.
Status read_model(ModelProto* out, Arena& arena, Bytes bytes);
// ai.onnx is the empty domain.
std::string_view plain_domain(std::string_view domain);

}  // namespace aster::nn::onnx
