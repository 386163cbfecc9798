// A model behind its handle.
#pragma once

#include "aster_ml/onnx.h"
#include "nn/onnx/compiled.h"
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
        inputs(of.heap()),
        kept_index(of.heap()),
        kept_values(of.heap()),
        compiled(of.heap()),
        refused(of.heap()) {}

  ~Model() {
    for (Compiled* each : compiled) context->heap().destroy(each);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Arena arena;
  Source source;
  ModelProto proto;
  Text directory;
  Vec<Text> names;       // zero-terminated: of inputs, then of outputs
  Vec<Text> axis_names;  // of inputs' axes, one input after another
  Map<const void*, uint32_t> weight_index;
  Vec<Ref> weights;                                      // those that were used
  Map<std::string_view, bool, TextHash> top;             // names of the outermost graph's weights
  Vec<const ValueInfo*> inputs;                          // that are no weights
  Map<std::string_view, uint32_t, TextHash> kept_index;  // what weights alone make, by name
  Vec<Ref> kept_values;
  Vec<Compiled*> compiled;  // one for each kind of inputs
  Text refused;             // why there is none for all sizes; empty: there may be

  // A weight's value, read once.
  Status weight(Ref* out, Run& run, const Weight& of);
  // What a name of the outermost graph stands for that weights alone make; empty: not known yet.
  Ref kept(std::string_view name) const {
    const uint32_t* found = kept_index.find(name);
    return found == nullptr ? Ref() : kept_values[*found];
  }
  Status keep(std::string_view name, const Ref& value) {
    ASTER_TRY(kept_index.set(name, static_cast<uint32_t>(kept_values.size())));
    return kept_values.push(value);
  }
  bool is_weight(const GraphProto& graph, std::string_view name) const {
    return &graph == &proto.graph && top.contains(name);
  }
};

// A value behind its handle.
struct Held : HandleObject {
  Ref value;
};

}  // namespace aster::nn::onnx
