// aster freeze: a model or program as code that needs nothing of the library.
#include <charconv>

#include "cli.h"

namespace cli {
namespace {

constexpr size_t kMostInput = size_t{1} << 36;

bool ends_with(const std::string& text, const std::string& ending) {
  return text.size() >= ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// "batch=1,tokens=128"
std::map<std::string, int64_t> read_sizes(const Arguments& arguments) {
  std::map<std::string, int64_t> out;
  if (!arguments.has("size")) return out;
  for (const std::string& one : split(arguments.get("size", ""))) {
    const size_t equals = one.find('=');
    int64_t value = 0;
    const char* const end = one.data() + one.size();
    const char* const from = equals == std::string::npos ? end : one.data() + equals + 1;
    const auto [last, error] = std::from_chars(from, end, value);
    if (equals == 0 || error != std::errc() || last != end || value < 1)
      throw Failure{2, "--size " + one + ": NAME=VALUE is needed"};
    out[one.substr(0, equals)] = value;
  }
  return out;
}

// An input of a model, of numbers: those that it says, those that sizes name.
void make_input(Lazy& out, const Context& context, const Onnx& model, size_t index,
                const std::map<std::string, int64_t>& sizes) {
  const std::string name = aster_ml_onnx_input_name(model.get(), index);
  aster_ml_onnx_type type{};
  type.struct_size = sizeof(type);
  check(aster_ml_onnx_input_type(&type, model.get(), index));
  if (type.kind != ASTER_ML_ONNX_TENSOR || type.dtype == 0 || type.ndim < 0)
    throw Failure{1, "input '" + name + "' is no tensor of numbers of a known rank"};
  std::vector<int64_t> shape;
  for (size_t axis = 0; axis < static_cast<size_t>(type.ndim); ++axis) {
    int64_t dim = aster_ml_onnx_input_dim(model.get(), index, axis);
    const char* const said = aster_ml_onnx_input_axis_name(model.get(), index, axis);
    const std::string by_place = name + "." + std::to_string(axis);
    for (const std::string& key : {by_place, std::string(said == nullptr ? "" : said)}) {
      if (dim < 0 && sizes.count(key) != 0) dim = sizes.at(key);
    }
    if (dim < 0) {
      throw Failure{1, "axis " + std::to_string(axis) + " of input '" + name +
                           "' has any size: --size " + (said == nullptr ? by_place : said) +
                           "=VALUE is needed"};
    }
    shape.push_back(dim);
  }
  // Memory of its own, which no constant is.
  size_t bytes = aster_ml_dtype_size(type.dtype);
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(dim), &bytes) || bytes > kMostInput)
      throw Failure{1, "input '" + name + "' is too large"};
  }
  const std::vector<char> zeros(bytes);
  check(aster_ml_lazy_from(out.get(), context.get(), zeros.data(), type.dtype, shape.size(),
                           shape.data()));
}

void freeze_model(const std::string& path, const Context& context, const std::string& file,
                  const aster_ml_freeze_options& options,
                  const std::map<std::string, int64_t>& sizes) {
  Onnx model;
  check(aster_ml_onnx_read(model.get(), context.get(), file.c_str()));
  const size_t inputs = aster_ml_onnx_input_count(model.get());
  const size_t outputs = aster_ml_onnx_output_count(model.get());
  std::vector<Lazy> tensors(inputs + outputs);
  std::vector<aster_ml_lazy*> handles;
  std::vector<const char*> names;
  OnnxValue given, results;
  check(aster_ml_onnx_value_init(given.get(), context.get(), ASTER_ML_ONNX_SEQUENCE));
  for (size_t i = 0; i < inputs; ++i) {
    make_input(tensors[i], context, model, i, sizes);
    OnnxValue value;
    check(aster_ml_onnx_value_from_lazy(value.get(), tensors[i].get()));
    check(aster_ml_onnx_value_push(given.get(), value.get()));
    names.push_back(aster_ml_onnx_input_name(model.get(), i));
  }
  // In a capture, so that nothing is decided by the zeros that inputs are here.
  for (Lazy& tensor : tensors) handles.push_back(tensor.get());
  check(aster_ml_engine_capture_begin(context.get(), handles.data(), inputs));
  check(aster_ml_onnx_run(results.get(), model.get(), given.get()));
  check(aster_ml_engine_capture_cancel(context.get()));
  for (size_t i = 0; i < outputs; ++i) {
    OnnxValue value;
    check(aster_ml_onnx_value_at(value.get(), results.get(), i));
    check(aster_ml_onnx_value_get(tensors[inputs + i].get(), value.get()));
    names.push_back(aster_ml_onnx_output_name(model.get(), i));
  }
  aster_ml_boundary boundary{};
  boundary.struct_size = sizeof(boundary);
  boundary.inputs = handles.data();
  boundary.input_count = inputs;
  boundary.input_names = names.data();
  boundary.outputs = handles.data() + inputs;
  boundary.output_count = outputs;
  boundary.output_names = names.data() + inputs;
  check(aster_ml_freeze_step(path.c_str(), context.get(), &boundary, &options));
}

}  // namespace

int freeze(const Arguments& arguments) {
  if (arguments.words.size() != 1) throw Failure{2, "one MODEL.onnx or PROGRAM.aster is needed"};
  if (!arguments.has("output")) throw Failure{2, "--output is needed"};
  const std::string path = arguments.get("output", ""), name = arguments.get("name", "");
  const std::string compiler = arguments.get("compiler", "");
  const std::string constants = arguments.get("constants", "inside");
  if (constants != "inside" && constants != "file")
    throw Failure{2, "--constants " + constants + ": inside or file"};
  const std::string kernel = arguments.get("kernel", "no");
  if (kernel != "yes" && kernel != "no") throw Failure{2, "--kernel " + kernel + ": yes or no"};
  const std::vector<std::string> targets = split(arguments.get("target", "native"));
  std::vector<const char*> target_names;
  for (const std::string& target : targets) target_names.push_back(target.c_str());
  aster_ml_freeze_options options{};
  options.struct_size = sizeof(options);
  if (!name.empty()) options.name = name.c_str();
  if (!compiler.empty()) options.compiler = compiler.c_str();
  options.targets = target_names.data();
  options.target_count = target_names.size();
  options.threads = static_cast<int32_t>(arguments.number("threads", 1, 1, 1024));
  options.flags = constants == "file" ? ASTER_ML_FREEZE_SIDE_FILE : 0;
  if (kernel == "yes") options.flags |= ASTER_ML_FREEZE_KERNEL;
  const std::map<std::string, int64_t> sizes = read_sizes(arguments);
  Context context;
  check(aster_ml_context_init(context.get(), nullptr));
  if (ends_with(arguments.words[0], ".onnx")) {
    freeze_model(path, context, arguments.words[0], options, sizes);
  } else if (!sizes.empty()) {
    throw Failure{2, "--size is of models of ONNX: the sizes of a program are numbers"};
  } else {
    check(aster_ml_freeze(path.c_str(), context.get(), arguments.words[0].c_str(), &options));
  }
  return 0;
}

}  // namespace cli
