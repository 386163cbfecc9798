#include "nn/onnx/model.h"

#include <bit>

namespace aster::nn::onnx {

const ElementInfo* element_info(int32_t code) {
  switch (code) {
#define ELEMENT(number, Name, name, dtype, bits, field)                  \
  case number: {                                                         \
    static constexpr ElementInfo kInfo{name, DType::dtype, bits, field}; \
    return &kInfo;                                                       \
  }
#include "nn/onnx/types.def"
    default:
      return nullptr;
  }
}

const char* element_name(int32_t code) {
  const ElementInfo* info = element_info(code);
  if (info != nullptr) return info->name;
  return code == kText         ? "string"
         : code == kComplex64  ? "complex64"
         : code == kComplex128 ? "complex128"
                               : "an unknown type";
}

int32_t element_of(DType dtype) {
  // Narrow types come behind those whose dtype they share.
#define ELEMENT(code, Name, name, type, bits, field) \
  if (dtype == DType::type) return code;
#include "nn/onnx/types.def"
  return 0;
}

std::string_view plain_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

namespace {

// Messages nested in messages: depth counts graphs, which is all that nests without end.
class Reader {
 public:
  explicit Reader(Arena& arena) : arena_(arena) {}

  Status model(ModelProto* out, Bytes bytes);

 private:
  // Calls each(field) for the fields of a message.
  template <typename Each>
  Status fields(Bytes message, Each each) {
    Wire wire(message);
    while (!wire.done()) {
      Field field;
      ASTER_TRY(wire.next(&field));
      ASTER_TRY(each(field));
    }
    return arena_.status();
  }
  // A list whose elements stay in the arena.
  template <typename T>
  static std::span<const T> kept(const List<T>& list, Arena& arena) {
    T* at = arena.array<T>(list.size());
    if (at == nullptr) {
      arena.fail();
      return {};
    }
    for (size_t i = 0; i < list.size(); ++i) ::new (at + i) T(list[i]);
    return {at, list.size()};
  }
  template <typename T>
  std::span<const T> kept(const List<T>& list) {
    return kept(list, arena_);
  }

  Status graph(GraphProto* out, Bytes message, int depth);
  Status node(NodeProto* out, Bytes message, int depth);
  Status attribute(Attribute* out, Bytes message, int depth);
  Status function(FunctionProto* out, Bytes message);
  Status info(ValueInfo* out, Bytes message);
  Status type(Type* out, Bytes message, int depth);
  Status tensor_type(Type* out, Bytes message);
  Status shape(Type* out, Bytes message);
  Status opset(Opset* out, Bytes message);
  Status weight(Weight* out, Bytes message, bool sparse);
  Arena& arena_;
};

Status Reader::shape(Type* out, Bytes message) {
  List<Word> dims(arena_);
  List<std::string_view> names(arena_);
  const Status walked = fields(message, [&](const Field& f) {
    if (f.number != 1) return kOk;
    Word dim = -1;
    std::string_view name;
    const Status seen = fields(f.bytes, [&](const Field& d) {
      if (d.number == 1 && d.kind == 0) dim = d.integer();
      if (d.number == 2) name = d.text();
      return kOk;
    });
    ASTER_TRY(seen);
    dims.push(dim < 0 ? -1 : dim);
    names.push(name);
    return kOk;
  });
  ASTER_TRY(walked);
  out->shape = kept(dims);
  out->names = kept(names);
  return kOk;
}

Status Reader::tensor_type(Type* out, Bytes message) {
  return fields(message, [&](const Field& f) {
    if (f.number == 1) out->element = static_cast<int32_t>(f.value);
    if (f.number != 2) return kOk;
    out->shaped = true;
    return shape(out, f.bytes);
  });
}

Status Reader::type(Type* out, Bytes message, int depth) {
  if (depth > kMostDepth) return ASTER_FAIL(kFORMAT, "types nested more than %d deep", kMostDepth);
  return fields(message, [&](const Field& f) {
    if (f.number == 1 || f.number == 8) {
      out->kind = Kind::kTensor;
      return tensor_type(out, f.bytes);
    }
    if (f.number == 5) out->kind = Kind::kMap;
    if (f.number != 4 && f.number != 9) return kOk;
    out->kind = f.number == 4 ? Kind::kSequence : Kind::kOptional;
    return fields(f.bytes, [&](const Field& e) {
      if (e.number != 1) return kOk;
      Type inner;
      ASTER_TRY(type(&inner, e.bytes, depth + 1));
      out->inner = inner.kind;
      out->element = inner.element;
      out->shape = inner.shape;
      out->names = inner.names;
      return kOk;
    });
  });
}

Status Reader::info(ValueInfo* out, Bytes message) {
  return fields(message, [&](const Field& f) {
    if (f.number == 1) out->name = f.text();
    return f.number == 2 ? type(&out->type, f.bytes, 0) : kOk;
  });
}

Status Reader::opset(Opset* out, Bytes message) {
  *out = {{}, 1};
  return fields(message, [&](const Field& f) {
    if (f.number == 1) out->domain = plain_domain(f.text());
    if (f.number == 2) out->version = f.integer();
    return kOk;
  });
}

Status Reader::weight(Weight* out, Bytes message, bool sparse) {
  *out = {{}, message, sparse};
  return fields(message, [&](const Field& f) {
    if (!sparse && f.number == 8) out->name = f.text();
    if (!sparse || f.number != 1) return kOk;
    return fields(f.bytes, [&](const Field& v) {
      if (v.number == 8) out->name = v.text();
      return kOk;
    });
  });
}

Status Reader::attribute(Attribute* out, Bytes message, int depth) {
  List<double> floats(arena_);
  List<Word> ints(arena_);
  List<std::string_view> strings(arena_);
  List<Bytes> tensors(arena_);
  out->present = true;
  const Status walked = fields(message, [&](const Field& f) {
    switch (f.number) {
      case 1:
        out->name = f.text();
        return kOk;
      case 2:
        out->f = static_cast<double>(f.real());
        return kOk;
      case 3:
        out->i = f.integer();
        return kOk;
      case 4:
        out->s = f.text();
        return kOk;
      case 5:
        out->tensor = f.bytes;
        return kOk;
      case 6: {
        GraphProto* inner = arena_.create<GraphProto>();
        if (inner == nullptr) return out_of_memory(sizeof(GraphProto));
        out->graph = inner;
        return graph(inner, f.bytes, depth + 1);
      }
      case 7:
        return each_fixed(f, 4, [&](uint64_t bits) {
          floats.push(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
          return kOk;
        });
      case 8:
        return each_integer(f, [&](uint64_t value) {
          ints.push(static_cast<Word>(value));
          return kOk;
        });
      case 9:
        strings.push(f.text());
        return kOk;
      case 10:
        tensors.push(f.bytes);
        return kOk;
      case 14:
        return type(&out->of, f.bytes, 0);
      case 20:
        out->type = static_cast<int32_t>(f.value);
        return kOk;
      case 22:
        out->sparse = f.bytes;
        return kOk;
      case 21:
        out->refers = f.text();
        return kOk;
      default:
        return kOk;
    }
  });
  ASTER_TRY(walked);
  out->floats = kept(floats);
  out->ints = kept(ints);
  out->strings = kept(strings);
  out->tensors = kept(tensors);
  return kOk;
}

Status Reader::node(NodeProto* out, Bytes message, int depth) {
  List<std::string_view> inputs(arena_), outputs(arena_);
  List<Attribute> attributes(arena_);
  const Status walked = fields(message, [&](const Field& f) {
    if (f.number == 1) inputs.push(f.text());
    if (f.number == 2) outputs.push(f.text());
    if (f.number == 3) out->name = f.text();
    if (f.number == 4) out->op = f.text();
    if (f.number == 7) out->domain = plain_domain(f.text());
    if (f.number == 8) out->overload = f.text();
    if (f.number != 5) return kOk;
    Attribute one;
    ASTER_TRY(attribute(&one, f.bytes, depth));
    attributes.push(one);
    return kOk;
  });
  ASTER_TRY(walked);
  out->inputs = kept(inputs);
  out->outputs = kept(outputs);
  out->attributes = kept(attributes);
  return kOk;
}

Status Reader::graph(GraphProto* out, Bytes message, int depth) {
  if (depth > kMostDepth) return ASTER_FAIL(kFORMAT, "graphs nested more than %d deep", kMostDepth);
  List<NodeProto> nodes(arena_);
  List<Weight> weights(arena_);
  List<ValueInfo> inputs(arena_), outputs(arena_);
  const Status walked = fields(message, [&](const Field& f) {
    if (f.number == 2) out->name = f.text();
    if (f.number == 1) {
      NodeProto one;
      ASTER_TRY(node(&one, f.bytes, depth));
      nodes.push(one);
    } else if (f.number == 5 || f.number == 15) {
      Weight one;
      ASTER_TRY(weight(&one, f.bytes, f.number == 15));
      weights.push(one);
    } else if (f.number == 11 || f.number == 12) {
      ValueInfo one;
      ASTER_TRY(info(&one, f.bytes));
      (f.number == 11 ? inputs : outputs).push(one);
    }
    return kOk;
  });
  ASTER_TRY(walked);
  out->nodes = kept(nodes);
  out->weights = kept(weights);
  out->inputs = kept(inputs);
  out->outputs = kept(outputs);
  return kOk;
}

Status Reader::function(FunctionProto* out, Bytes message) {
  List<std::string_view> inputs(arena_), outputs(arena_);
  List<Attribute> defaults(arena_);
  List<NodeProto> nodes(arena_);
  List<Opset> opsets(arena_);
  const Status walked = fields(message, [&](const Field& f) {
    if (f.number == 1) out->name = f.text();
    if (f.number == 4) inputs.push(f.text());
    if (f.number == 5) outputs.push(f.text());
    if (f.number == 10) out->domain = plain_domain(f.text());
    if (f.number == 13) out->overload = f.text();
    if (f.number == 7) {
      NodeProto one;
      ASTER_TRY(node(&one, f.bytes, 1));
      nodes.push(one);
    } else if (f.number == 9) {
      Opset one;
      ASTER_TRY(opset(&one, f.bytes));
      opsets.push(one);
    } else if (f.number == 11) {
      Attribute one;
      ASTER_TRY(attribute(&one, f.bytes, 1));
      defaults.push(one);
    }
    return kOk;
  });
  ASTER_TRY(walked);
  out->inputs = kept(inputs);
  out->outputs = kept(outputs);
  out->defaults = kept(defaults);
  out->nodes = kept(nodes);
  out->opsets = kept(opsets);
  return kOk;
}

Status Reader::model(ModelProto* out, Bytes bytes) {
  List<Opset> opsets(arena_);
  List<FunctionProto> functions(arena_);
  bool found = false;
  const Status walked = fields(bytes, [&](const Field& f) {
    if (f.number == 7 && f.kind == 2) {
      found = true;
      return graph(&out->graph, f.bytes, 0);
    }
    if (f.number == 8) {
      Opset one;
      ASTER_TRY(opset(&one, f.bytes));
      opsets.push(one);
    } else if (f.number == 25) {
      FunctionProto one;
      ASTER_TRY(function(&one, f.bytes));
      functions.push(one);
    }
    return kOk;
  });
  ASTER_TRY(walked);
  out->opsets = kept(opsets);
  out->functions = kept(functions);
  if (!found) return ASTER_FAIL(kFORMAT, "the model has no graph");
  return arena_.status();
}

}  // namespace

Status read_model(ModelProto* out, Arena& arena, Bytes bytes) {
  return Reader(arena).model(out, bytes);
}

}  // namespace aster::nn::onnx
