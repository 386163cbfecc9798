// aster convert: a model of ONNX as a portable program.
#include <algorithm>
#include <charconv>
#include <cstdio>

#include "cli.h"
#include "json.h"

namespace cli {
namespace {

// An axis that the file gives no number has one of these sizes; equal ends: a number.
struct Sizes {
  int64_t least = 1, most = 128;
};

bool read_number(const std::string& text, int64_t& out) {
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && last == end && out >= 1;
}

// "batch=1..32,tokens=128"
std::map<std::string, Sizes> read_sizes(const std::string& list) {
  std::map<std::string, Sizes> out;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string one = list.substr(at, end - at);
    const size_t equals = std::min(one.find('='), one.size());
    const std::string said = one.substr(std::min(equals + 1, one.size()));
    const size_t dots = said.find("..");
    Sizes sizes;
    const bool least = read_number(said.substr(0, dots), sizes.least);
    if (dots == std::string::npos) sizes.most = sizes.least;
    const bool most = dots == std::string::npos || read_number(said.substr(dots + 2), sizes.most);
    if (equals == 0 || !least || !most || sizes.least > sizes.most)
      throw Failure{2, "--size " + one + ": NAME=N or NAME=LEAST..MOST is needed"};
    out[one.substr(0, equals)] = sizes;
    at = end + 1;
  }
  return out;
}

// Expressions that are given up at the end.
struct Expressions {
  explicit Expressions(const Context& of) : context(of) {}
  Expressions(const Expressions&) = delete;
  Expressions& operator=(const Expressions&) = delete;
  ~Expressions() {
    for (const aster_ml_uop* node : nodes) aster_ml_uop_release(context.get(), node);
  }
  const Context& context;
  std::vector<const aster_ml_uop*> nodes;
};

// What the command line says of sizes, and which of it axes had.
struct Said {
  std::map<std::string, Sizes> sizes;
  std::vector<std::string> used;
  std::string open, example;  // names of axes that are variables, and how one gives them numbers
};

// Memory of the greatest sizes, and the first part of it, whose open axes are variables.
void make_input(Lazy& out, const Context& context, const Onnx& model, size_t index, Said& said) {
  const std::string name = aster_ml_onnx_input_name(model.get(), index);
  aster_ml_onnx_type type{};
  type.struct_size = sizeof(type);
  check(aster_ml_onnx_input_type(&type, model.get(), index));
  if (type.kind != ASTER_ML_ONNX_TENSOR || type.dtype == 0 || type.ndim < 0)
    throw Failure{1, "input '" + name + "' is no tensor of numbers of a known rank"};
  Expressions made(context);
  std::vector<int64_t> greatest;
  std::vector<aster_ml_dim> begin(static_cast<size_t>(type.ndim)), end(begin);
  for (size_t axis = 0; axis < end.size(); ++axis) {
    end[axis].value = aster_ml_onnx_input_dim(model.get(), index, axis);
    if (end[axis].value >= 0) {
      greatest.push_back(end[axis].value);
      continue;
    }
    const char* const title = aster_ml_onnx_input_axis_name(model.get(), index, axis);
    const std::string place = name + "." + std::to_string(axis);
    const std::string own = title == nullptr || *title == '\0' ? place : title;
    const std::string& key = said.sizes.count(place) != 0 ? place : own;
    const auto known = said.sizes.find(key);
    const Sizes sizes = known == said.sizes.end() ? Sizes{} : known->second;
    if (known != said.sizes.end()) said.used.push_back(key);
    greatest.push_back(sizes.most);
    end[axis].value = sizes.most;
    if (sizes.least == sizes.most) continue;
    const std::string number = key + "=" + std::to_string(sizes.least);
    if ((", " + said.open + ",").find(", " + key + ",") == std::string::npos) {
      said.example += (said.example.empty() ? "" : ",") + number;
      said.open += (said.open.empty() ? "" : ", ") + key;
    }
    const aster_ml_uop *variable = nullptr, *bound = nullptr;
    check(aster_ml_symbolic_init(&variable, context.get(), key.c_str(), sizes.least, sizes.most));
    made.nodes.push_back(variable);
    check(aster_ml_symbolic_bind(&bound, context.get(), variable, key.c_str(), sizes.most));
    made.nodes.push_back(bound);
    end[axis].expression = bound;
  }
  Lazy whole;
  check(aster_ml_lazy_empty(whole.get(), context.get(), type.dtype, greatest.size(),
                            greatest.data()));
  aster_ml_lazy* const handle = whole.get();
  check(aster_ml_lazy_realize(&handle, 1));
  if (made.nodes.empty()) {
    out = std::move(whole);
  } else {
    check(aster_ml_lazy_shrink_dims(out.get(), whole.get(), end.size(), begin.data(), end.data()));
  }
}

// Builds a model. What it cannot do for open axes it may for numbers.
void build(OnnxValue& results, const Onnx& model, const OnnxValue& given, const Said& said) {
  const int32_t status = aster_ml_onnx_run(results.get(), model.get(), given.get());
  try {
    check(status);
  } catch (Failure& failure) {
    if (said.open.empty()) throw;
    failure.message += " (open: " + said.open + "; with numbers: --size " + said.example + ")";
    throw;
  }
}

// Nothing runs: what realize would is recorded.
void record(Program& out, const Context& context, const Onnx& model, Said& said) {
  const size_t inputs = aster_ml_onnx_input_count(model.get());
  const size_t outputs = aster_ml_onnx_output_count(model.get());
  std::vector<Lazy> tensors(inputs + outputs);
  std::vector<aster_ml_lazy*> handles;
  for (Lazy& tensor : tensors) handles.push_back(tensor.get());
  OnnxValue given, results;
  check(aster_ml_onnx_value_init(given.get(), context.get(), ASTER_ML_ONNX_SEQUENCE));
  for (size_t i = 0; i < inputs; ++i) {
    make_input(tensors[i], context, model, i, said);
    OnnxValue value;
    check(aster_ml_onnx_value_from_lazy(value.get(), tensors[i].get()));
    check(aster_ml_onnx_value_push(given.get(), value.get()));
  }
  for (const auto& [name, sizes] : said.sizes) {
    if (std::find(said.used.begin(), said.used.end(), name) == said.used.end())
      throw Failure{2, "--size " + name + ": no open axis of the model has this name"};
  }
  check(aster_ml_engine_capture_begin(context.get(), handles.data(), inputs));
  check(aster_ml_engine_capture_dry(context.get()));
  build(results, model, given, said);
  for (size_t i = 0; i < outputs; ++i) {
    OnnxValue value;
    check(aster_ml_onnx_value_at(value.get(), results.get(), i));
    check(aster_ml_onnx_value_get(tensors[inputs + i].get(), value.get()));
  }
  check(aster_ml_lazy_realize(handles.data() + inputs, outputs));
  check(aster_ml_engine_capture_end(out.get(), context.get(), handles.data() + inputs, outputs));
}

}  // namespace

int convert(const Arguments& arguments) {
  if (arguments.words.size() != 1) throw Failure{2, "one MODEL.onnx is needed"};
  if (!arguments.has("output")) throw Failure{2, "--output is needed"};
  const std::string constants = arguments.get("constants", "inside");
  if (constants != "inside" && constants != "file")
    throw Failure{2, "--constants " + constants + ": inside or file"};
  const std::string form = arguments.get("form", "binary");
  if (form != "binary" && form != "text") throw Failure{2, "--form " + form + ": binary or text"};
  if (form == "text" && constants == "file") throw Failure{2, "--form text: constants are inside"};
  Said said;
  said.sizes = read_sizes(arguments.get("size", ""));
  Context context;
  check(aster_ml_context_init(context.get(), nullptr));
  Onnx model;
  check(aster_ml_onnx_read(model.get(), context.get(), arguments.words[0].c_str()));
  Program program;
  record(program, context, model, said);
  std::string open;
  for (size_t i = 0; i < aster_ml_program_count_variables(program.get()); ++i) {
    aster_ml_program_variable variable{};
    variable.struct_size = sizeof(variable);
    check(aster_ml_program_get_variable(&variable, program.get(), i));
    const std::string name = variable.name;
    if (variable.fixed != 0)
      throw Failure{1,
                    "the model computes for one size '" + name + "' alone: --size " + name + "=N"};
    open += (open.empty() ? "" : ", ") + name + " " + std::to_string(variable.min) + ".." +
            std::to_string(variable.max);
  }
  for (size_t i = 0; i < aster_ml_onnx_input_count(model.get()); ++i) {
    check(aster_ml_program_set_name(program.get(), 0, i, aster_ml_onnx_input_name(model.get(), i)));
  }
  for (size_t i = 0; i < aster_ml_onnx_output_count(model.get()); ++i) {
    check(
        aster_ml_program_set_name(program.get(), 1, i, aster_ml_onnx_output_name(model.get(), i)));
  }
  const uint32_t flags = form == "text"        ? ASTER_ML_PROGRAM_TEXT
                         : constants == "file" ? ASTER_ML_PROGRAM_SIDE_FILE
                                               : 0;
  const std::string path = arguments.get("output", "");
  check(aster_ml_program_save_captured(path.c_str(), program.get(), flags));
  if (arguments.json) {
    std::printf("%s\n", Json().set("program", path).set("sizes", open).text().c_str());
  } else if (!open.empty()) {
    std::printf("sizes: %s\n", open.c_str());
  }
  return 0;
}

}  // namespace cli
