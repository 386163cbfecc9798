// A model behind its handle.
#pragma once

#include "aster_ml/onnx.h"
#include "nn/onnx/run.h"

namespace aster::nn::onnx {

struct Model : HandleObject {
  explicit Model(Context& of)
      : arena(of.blocks()),
        directory(of.heap()),
        names(of.heap()),
        axis_names(of.heap()),
        weight_index(of.heap()),
        weights(of.heap()),
        top(of.heap()),
        inputs(of.heap()) {}

  Arena arena;
  Source source;
  ModelProto proto;
  Text directory;
  Vec<Text> names;       // zero-terminated: of inputs, then of outputs
  Vec<Text> axis_names;  // of inputs' axes, one input after another
  Map<const void*, uint32_t> weight_index;
  Vec<Ref> weights;                           // those that were used
  Map<std::string_view, bool, TextHash> top;  // names of the outermost graph's weights
  Vec<const ValueInfo*> inputs;               // that are no weights

  // A weight's value, read once.
  Status weight(Ref* out, Run& run, const Weight& of);
  bool is_weight(const GraphProto& graph, std::string_view name) const {
    return &graph == &proto.graph && top.contains(name);
  }
};

// A value behind its handle.
struct Held : HandleObject {
  Ref value;
};

}  // namespace aster::nn::onnx
