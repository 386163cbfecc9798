// aster run: a model of ONNX, or a portable program, from files to files.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include <sys/stat.h>

#include "cli.h"
#include "npy.h"

namespace cli {
namespace {

constexpr int32_t kTexts = 8;  // TensorProto.STRING

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure{1, "opening '" + path + "': " + std::strerror(errno)};
  std::string out((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) throw Failure{1, "reading '" + path + "': " + std::strerror(errno)};
  return out;
}

// Whole, or what was there stays. What is no regular file, as a pipe, is written to.
void write_file(const std::string& path, const std::string& bytes) {
  struct stat about {};
  const bool other = stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
  const std::string to = other ? path : path + ".part";
  std::ofstream file(to, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file && (other || std::rename(to.c_str(), path.c_str()) == 0)) return;
  const int error = errno;
  if (!other) std::remove(to.c_str());
  throw Failure{1, "writing '" + path + "': " + std::strerror(error)};
}

bool exists(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0;
}

// Makes a folder and those around it.
void make_folder(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (!part.empty() && !exists(part) && mkdir(part.c_str(), 0777) != 0 && errno != EEXIST)
      throw Failure{1, "making folder '" + part + "': " + std::strerror(errno)};
    if (end == std::string::npos) return;
  }
}

bool is_archive(const std::string& path) {
  return path.size() > 4 && path.compare(path.size() - 4, 4, ".npz") == 0;
}

// A call on a model: what it cannot do is status 2.
void check_model(int32_t status) {
  try {
    check(status);
  } catch (Failure& failure) {
    if (status == ASTER_ML_UNSUPPORTED) failure.status = 2;
    throw;
  }
}

std::string name_of(const char* name) { return name == nullptr ? std::string() : name; }

void read_value(OnnxValue& out, const Context& context, const std::string& bytes, int32_t kind) {
  check_model(
      aster_ml_onnx_value_from_proto(out.get(), context.get(), bytes.data(), bytes.size(), kind));
}

// The I-th input: input_I.pb, input_I.npy or NAME.npy in a folder, or NAME in an archive.
void read_input(OnnxValue& out, const Context& context, const std::string& inputs,
                const std::string& name, size_t index, int32_t kind) {
  const std::string stem = inputs + "/input_" + std::to_string(index);
  std::string path = inputs + "/" + name + ".npy";
  if (is_archive(inputs)) path = inputs;
  for (const char* end : {".npy", ".pb"}) {
    if (!is_archive(inputs) && exists(stem + end)) path = stem + end;
  }
  const std::string bytes =
      is_archive(inputs) ? member_of(context, inputs, name + ".npy") : contents(path);
  try {
    if (path == stem + ".pb") return read_value(out, context, bytes, kind);
    const Lazy array = from_npy(context, bytes);
    check_model(aster_ml_onnx_value_from_lazy(out.get(), array.get()));
  } catch (Failure& failure) {
    failure.message = "'" + path + "': " + failure.message;
    throw;
  }
}

// What the model says of an input; where it says nothing, anything goes. Runs take other dtypes
// and sizes as far as its operators do, with other results than the model's author had.
void check_input(const Onnx& model, size_t index, const aster_ml_onnx_type& type,
                 const OnnxValue& value) {
  if (type.kind != ASTER_ML_ONNX_TENSOR) return;
  const std::string input = "input '" + name_of(aster_ml_onnx_input_name(model.get(), index)) + "'";
  if (type.dtype != 0 && aster_ml_onnx_value_element(value.get()) != kTexts) {
    Lazy tensor;
    check_model(aster_ml_onnx_value_get(tensor.get(), value.get()));
    const int32_t dtype = aster_ml_lazy_dtype(tensor.get());
    if (dtype != type.dtype) {
      throw Failure{1, input + " is of " + aster_ml_dtype_name(dtype) + ", the model takes " +
                           aster_ml_dtype_name(type.dtype)};
    }
  }
  const size_t axes = aster_ml_onnx_value_ndim(value.get());
  if (type.ndim >= 0 && axes != static_cast<size_t>(type.ndim)) {
    throw Failure{1, input + " has " + std::to_string(axes) + " axes, the model takes " +
                         std::to_string(type.ndim)};
  }
  for (size_t axis = 0; type.ndim >= 0 && axis < axes; ++axis) {
    const int64_t wanted = aster_ml_onnx_input_dim(model.get(), index, axis);
    const int64_t size = aster_ml_onnx_value_dim(value.get(), axis);
    if (wanted < 0 || size == wanted) continue;
    throw Failure{1, input + " has " + std::to_string(size) + " in axis " + std::to_string(axis) +
                         ", the model takes " + std::to_string(wanted)};
  }
}

std::string message_of(const OnnxValue& value, int32_t kind) {
  size_t size = 0;
  check_model(aster_ml_onnx_value_to_proto(nullptr, &size, 0, value.get(), kind));
  std::string out(size + 1, '\0');
  check_model(aster_ml_onnx_value_to_proto(out.data(), &size, out.size(), value.get(), kind));
  out.resize(size);
  return out;
}

struct Case {
  std::string model, inputs, outputs, format;
};

// The kinds that the graph says, or those that values have where it says none.
int32_t kind_of(int32_t said, const OnnxValue& value) {
  return said != ASTER_ML_ONNX_NONE ? said : aster_ml_onnx_value_kind(value.get());
}

void realize(const OnnxValue& results) {
  std::vector<Lazy> tensors;
  std::vector<aster_ml_lazy*> all;
  for (size_t i = 0; i < aster_ml_onnx_value_count(results.get()); ++i) {
    OnnxValue value;
    check_model(aster_ml_onnx_value_at(value.get(), results.get(), i));
    const bool numbers = aster_ml_onnx_value_kind(value.get()) == ASTER_ML_ONNX_TENSOR &&
                         aster_ml_onnx_value_element(value.get()) != kTexts;
    if (!numbers) continue;
    tensors.emplace_back();
    check_model(aster_ml_onnx_value_get(tensors.back().get(), value.get()));
  }
  for (Lazy& tensor : tensors) all.push_back(tensor.get());
  check_model(aster_ml_lazy_realize(all.data(), all.size()));
}

// What a case gives, written to where it says; an archive at the end.
class Results {
 public:
  explicit Results(const Case& one) : case_(one), archive_(is_archive(one.outputs)) {
    if (!archive_) make_folder(one.outputs);
  }
  void add(size_t index, const std::string& name, const OnnxValue& value, int32_t kind) {
    const std::string stem = case_.outputs + "/output_" + std::to_string(index);
    if (!archive_ && case_.format != "npy")
      return write_file(stem + ".pb", message_of(value, kind_of(kind, value)));
    Lazy tensor;
    check_model(aster_ml_onnx_value_get(tensor.get(), value.get()));
    const std::string bytes = to_npy(tensor);
    if (archive_) members_.emplace_back(name + ".npy", bytes);
    if (!archive_) write_file(stem + ".npy", bytes);
  }
  void finish() {
    if (archive_) write_file(case_.outputs, to_zip(members_));
  }

 private:
  const Case& case_;
  bool archive_;
  Members members_;
};

// As its bytes say, which begin a program's file or its text.
bool is_program(const std::string& path) {
  char first[6] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(first, sizeof(first));
  return file && (std::memcmp(first, "ASTER", 5) == 0 || std::memcmp(first, "aster ", 6) == 0);
}

std::string name_in(const Program& program, int32_t list, size_t index) {
  aster_ml_program_array array{};
  array.struct_size = sizeof(array);
  check(aster_ml_program_get_array(&array, program.get(), list, index));
  return array.name;
}

void run_program(const Context& context, const Case& one) {
  Program program;
  check(aster_ml_program_load(program.get(), context.get(), one.model.c_str()));
  const size_t inputs = aster_ml_program_count_arrays(program.get(), ASTER_ML_PROGRAM_INPUTS);
  const size_t outputs = aster_ml_program_count_arrays(program.get(), ASTER_ML_PROGRAM_OUTPUTS);
  std::vector<Lazy> arrays(inputs);
  std::vector<aster_ml_tensor> given(inputs), made(outputs);
  for (size_t i = 0; i < inputs; ++i) {
    OnnxValue value;
    read_input(value, context, one.inputs, name_in(program, ASTER_ML_PROGRAM_INPUTS, i), i,
               ASTER_ML_ONNX_TENSOR);
    check(aster_ml_onnx_value_get(arrays[i].get(), value.get()));
    check(aster_ml_lazy_view(&given[i], arrays[i].get()));
  }
  check(aster_ml_program_run_sized(program.get(), nullptr, given.data(), inputs, made.data(),
                                   outputs));
  Results results(one);
  for (size_t i = 0; i < outputs; ++i) {
    Tensor borrowed;
    *borrowed.get() = made[i];
    Lazy tensor;
    OnnxValue value;
    check(aster_ml_lazy_from_tensor(tensor.get(), context.get(), borrowed.get()));
    check(aster_ml_onnx_value_from_lazy(value.get(), tensor.get()));
    results.add(i, name_in(program, ASTER_ML_PROGRAM_OUTPUTS, i), value, ASTER_ML_ONNX_TENSOR);
  }
  results.finish();
}

void run_case(const Context& context, const Case& one) {
  if (is_program(one.model)) return run_program(context, one);
  Onnx model;
  check_model(aster_ml_onnx_read(model.get(), context.get(), one.model.c_str()));
  OnnxValue inputs, results;
  check(aster_ml_onnx_value_init(inputs.get(), context.get(), ASTER_ML_ONNX_SEQUENCE));
  for (size_t i = 0; i < aster_ml_onnx_input_count(model.get()); ++i) {
    aster_ml_onnx_type type{};
    type.struct_size = sizeof(type);
    check(aster_ml_onnx_input_type(&type, model.get(), i));
    OnnxValue value;
    read_input(value, context, one.inputs, name_of(aster_ml_onnx_input_name(model.get(), i)), i,
               type.kind == ASTER_ML_ONNX_NONE ? ASTER_ML_ONNX_TENSOR : type.kind);
    check_input(model, i, type, value);
    check(aster_ml_onnx_value_push(inputs.get(), value.get()));
  }
  check_model(aster_ml_onnx_compute(results.get(), model.get(), inputs.get()));
  realize(results);
  Results written(one);
  for (size_t i = 0; i < aster_ml_onnx_value_count(results.get()); ++i) {
    aster_ml_onnx_type type{};
    type.struct_size = sizeof(type);
    check(aster_ml_onnx_output_type(&type, model.get(), i));
    OnnxValue value;
    check_model(aster_ml_onnx_value_at(value.get(), results.get(), i));
    written.add(i, name_of(aster_ml_onnx_output_name(model.get(), i)), value, type.kind);
  }
  written.finish();
}

std::vector<Case> read_list(const std::string& path, const std::string& format) {
  std::vector<Case> out;
  std::ifstream file(path);
  if (!file) throw Failure{1, "opening '" + path + "': " + std::strerror(errno)};
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const size_t first = line.find('\t');
    const size_t second = first == std::string::npos ? first : line.find('\t', first + 1);
    if (second == std::string::npos || line.find('\t', second + 1) != std::string::npos) {
      throw Failure{2, "line " + std::to_string(out.size() + 1) + " of '" + path +
                           "': MODEL, INPUTS and OUTPUTS with tabs between are needed"};
    }
    out.push_back({line.substr(0, first), line.substr(first + 1, second - first - 1),
                   line.substr(second + 1), format});
  }
  return out;
}

int run_batch(const Context& context, const std::vector<Case>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    Failure failure{0, ""};
    try {
      run_case(context, cases[i]);
    } catch (const Failure& thrown) {
      failure = thrown;
    }
    for (char& c : failure.message) c = c == '\n' || c == '\t' ? ' ' : c;
    std::printf("CASE\t%zu\t%d\t%s\n", i, failure.status, failure.message.c_str());
    if (std::fflush(stdout) != 0) throw Failure{1, "standard output cannot be written"};
  }
  return 0;
}

}  // namespace

int run_model(const Arguments& arguments) {
  const std::string format = arguments.get("format", "pb");
  if (format != "pb" && format != "npy") throw Failure{2, "--format " + format + ": pb or npy"};
  Context context;
  check(aster_ml_context_init(context.get(), nullptr));
  if (arguments.has("batch")) {
    if (!arguments.words.empty()) throw Failure{2, "--batch names the models"};
    return run_batch(context, read_list(arguments.get("batch", ""), format));
  }
  if (arguments.words.size() != 1) throw Failure{2, "one MODEL.onnx or PROGRAM.aster is needed"};
  for (const char* needed : {"inputs", "outputs"}) {
    if (!arguments.has(needed)) throw Failure{2, std::string("--") + needed + " is needed"};
  }
  run_case(context,
           {arguments.words[0], arguments.get("inputs", ""), arguments.get("outputs", ""), format});
  return 0;
}

}  // namespace cli
