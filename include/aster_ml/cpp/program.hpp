/* aster_ml::Program: captured steps; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_PROGRAM_HPP
#define ASTER_ML_CPP_PROGRAM_HPP

#include "aster_ml/cpp/array.hpp"
#include "aster_ml/cpp/symbolic.hpp"
#include "aster_ml/cpp/tensor.hpp"

namespace aster_ml {

/* The lists of a program, and one array of a list. data is where captured memory is. */
enum class ProgramList : int32_t {
  inputs = ASTER_ML_PROGRAM_INPUTS,
  outputs = ASTER_ML_PROGRAM_OUTPUTS,
  captured = ASTER_ML_PROGRAM_CAPTURED
};
struct ProgramArray {
  std::string name;
  Dtype dtype;
  int32_t device;
  std::vector<int64_t> shape;
  bool assigned;
  void* data;
};

/* A variable of a program; fixed: the program is for this value alone. */
struct ProgramVariable {
  std::string name;
  int64_t min, max, value;
  bool fixed;
  bool limited; /* see Program::is_for */
};

/* How a program is written (aster_ml/portable.h). */
enum class ProgramForm : uint32_t {
  binary = 0,
  text = ASTER_ML_PROGRAM_TEXT,
  side_file = ASTER_ML_PROGRAM_SIDE_FILE,
  state_inputs = ASTER_ML_PROGRAM_STATE_INPUTS,
  text_of_state_inputs = ASTER_ML_PROGRAM_TEXT | ASTER_ML_PROGRAM_STATE_INPUTS
};

/* A tensor that a portable program begins or ends at, by name. */
struct Named {
  std::string name;
  Tensor tensor;
};

/* What computes tensors of others as a portable program (aster_ml_program_to_bytes): nothing is
 * computed. Empty where that fails. */
inline std::string to_program(const std::vector<Named>& inputs, const std::vector<Named>& outputs,
                              ProgramForm form = ProgramForm::binary) {
  std::vector<Tensor> all[2];
  std::vector<const char*> names[2];
  for (int which = 0; which < 2; ++which) {
    for (const Named& each : which == 0 ? inputs : outputs) {
      all[which].push_back(each.tensor);
      names[which].push_back(each.name.c_str());
    }
  }
  const Tensors given(all[0]), made(all[1]);
  aster_ml_boundary boundary{};
  boundary.struct_size = sizeof(boundary);
  boundary.inputs = given.mutable_data();
  boundary.input_count = given.size();
  boundary.input_names = names[0].data();
  boundary.outputs = made.mutable_data();
  boundary.output_count = made.size();
  boundary.output_names = names[1].data();
  const detail::Root root = Context::current().root();
  const uint32_t flags = static_cast<uint32_t>(form);
  std::string out;
  size_t length = 0;
  if (!detail::good(aster_ml_program_to_bytes(nullptr, &length, 0, root.get(), &boundary, flags)))
    return out;
  out.resize(length);
  if (!detail::good(
          aster_ml_program_to_bytes(&out[0], &length, out.size(), root.get(), &boundary, flags)))
    out.clear();
  return out;
}

/* A captured step: recorded once, run again on other inputs without building a graph.
 *
 *   Program step({x, y}, [&] { ...; return loss; });
 *   step({x2, y2});   // the outputs are new
 *
 * The body runs as it is recorded. Tensors that it reads and that are no inputs stay the memory
 * that they are; what it assigns is assigned by every run. Where it throws, the capture is given
 * up.
 */
class Program {
 public:
  Program() = default;
  /* body gives a tensor, a vector of them, or nothing. */
  template <class Body>
  Program(const std::vector<Tensor>& inputs, Body body) {
    const detail::Root root = Context::current().root();
    const Tensors given(inputs);
    if (!detail::good(
            aster_ml_engine_capture_begin(root.get(), given.mutable_data(), given.size()))) {
      return;
    }
    Open open{root};
    std::vector<Tensor> results;
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
    } else if constexpr (std::is_convertible_v<decltype(body()), Tensor>) {
      results.push_back(body());
    } else {
      results = body();
    }
    const Tensors made(results);
    aster_ml_program program{};
    open.is_open = false;
    if (!detail::good(
            aster_ml_engine_capture_end(&program, root.get(), made.mutable_data(), made.size()))) {
      return;
    }
    program_ = {std::move(program), root};
    for (const Tensor& result : results) make_room(whole(result));
  }
  /* Has the open capture leave out what its inputs do not reach, from inside a body. */
  static bool prune() {
    return detail::good(aster_ml_engine_capture_prune(Context::current().get()));
  }
  /* Promises that what the open capture reads beside its inputs does not change, from inside a
   * body: kernels may read copies of it. */
  static bool constant() {
    return detail::good(aster_ml_engine_capture_constant(Context::current().get()));
  }
  /* Has the open capture compute nothing, from inside a body: the program alone will. */
  static bool dry() { return detail::good(aster_ml_engine_capture_dry(Context::current().get())); }
  /* Gives an open capture of the current context up, from inside a body: the program is empty. */
  static bool cancel() {
    return detail::good(aster_ml_engine_capture_cancel(Context::current().get()));
  }

  /* The program of a portable file on a device, 0: the CPU; empty where that fails. */
  static Program load(const std::string& path, int32_t device = 0) {
    aster_ml_program program{};
    const detail::Root root = Context::current().root();
    const int32_t status =
        device == 0 ? aster_ml_program_load(&program, root.get(), path.c_str())
                    : aster_ml_program_load_on(&program, root.get(), path.c_str(), device);
    return made(detail::good(status), program, root);
  }
  /* The same of bytes, which are copied. */
  static Program from_bytes(const void* data, size_t bytes, int32_t device = 0) {
    aster_ml_program program{};
    const detail::Root root = Context::current().root();
    const int32_t status =
        device == 0 ? aster_ml_program_from_bytes(&program, root.get(), data, bytes)
                    : aster_ml_program_from_bytes_on(&program, root.get(), data, bytes, device);
    return made(detail::good(status), program, root);
  }
  static Program from_bytes(const std::string& bytes, int32_t device = 0) {
    return from_bytes(bytes.data(), bytes.size(), device);
  }
  /* Checks bytes as loading does, without making anything of them. */
  static bool verify(const std::string& bytes) {
    const detail::Root root = Context::current().root();
    return detail::good(aster_ml_program_verify(root.get(), bytes.data(), bytes.size()));
  }
  /* Writes it to a portable file, whole or not at all. */
  bool save(const std::string& path, ProgramForm form = ProgramForm::binary) const {
    return detail::good(
        aster_ml_program_save_captured(path.c_str(), get(), static_cast<uint32_t>(form)));
  }
  /* The same into memory; empty where that fails. */
  std::string to_bytes(ProgramForm form = ProgramForm::binary) const {
    const uint32_t flags = static_cast<uint32_t>(form);
    size_t length = 0;
    std::string out;
    if (!detail::good(aster_ml_program_captured_to_bytes(nullptr, &length, 0, get(), flags)))
      return out;
    out.resize(length);
    if (!detail::good(
            aster_ml_program_captured_to_bytes(&out[0], &length, out.size(), get(), flags)))
      out.clear();
    return out;
  }

  bool ok() const { return !program_.empty(); }
  aster_ml_program* get() const { return program_.get(); }
  size_t kernels() const { return aster_ml_program_count_kernels(get()); }
  size_t bytes() const { return aster_ml_program_count_bytes(get()); }
  /* What it reads and writes. */
  std::vector<ProgramArray> arrays(ProgramList list) const {
    const int32_t which = static_cast<int32_t>(list);
    std::vector<ProgramArray> all;
    for (size_t i = 0; i < aster_ml_program_count_arrays(get(), which); ++i) {
      aster_ml_program_array array{};
      array.struct_size = sizeof(array);
      if (!detail::good(aster_ml_program_get_array(&array, get(), which, i))) return {};
      all.push_back({array.name,
                     Dtype{array.dtype},
                     array.device,
                     {array.shape, array.shape + array.ndim},
                     array.assigned != 0,
                     array.data});
    }
    return all;
  }
  bool set_name(ProgramList list, size_t index, const std::string& name) {
    return detail::good(
        aster_ml_program_set_name(get(), static_cast<int32_t>(list), index, name.c_str()));
  }

  /* Its variables, whose values runs may be given. */
  std::vector<ProgramVariable> variables() const {
    std::vector<ProgramVariable> all;
    for (size_t i = 0; i < aster_ml_program_count_variables(get()); ++i) {
      aster_ml_program_variable one{};
      one.struct_size = sizeof(one);
      if (!detail::good(aster_ml_program_get_variable(&one, get(), i))) return {};
      all.push_back({one.name, one.min, one.max, one.value, one.fixed != 0, one.limited != 0});
    }
    return all;
  }
  /* The value of a variable in later runs. */
  bool set_variable(const std::string& name, int64_t value) {
    return detail::good(aster_ml_program_set_variable(get(), name.c_str(), value));
  }

  /* Whether it can be run with these values of the variables, in their order. */
  bool is_for(const std::vector<int64_t>& values) const {
    return aster_ml_program_is_for(get(), values.data(), values.size()) != 0;
  }

  /* Runs it; the outputs hold the results until the next run. */
  bool run(const std::vector<Tensor>& inputs) const {
    if (!detail::there(*this, "run")) return false;
    std::vector<aster_ml_tensor> in, out;
    for (const Tensor& input : inputs) {
      if (!detail::there(input, "run")) return false;
      in.push_back(input.view());
    }
    for (const Tensor& output : outputs_) out.push_back(output.view());
    return run(in.data(), in.size(), out.data(), out.size());
  }
  /* The same on descriptors, without any allocation; as aster_ml_program_run. */
  bool run(const aster_ml_tensor* inputs, size_t input_count, aster_ml_tensor* outputs,
           size_t output_count, aster_ml_workspace* workspace = nullptr) const {
    return detail::good(
        aster_ml_program_run(get(), workspace, inputs, input_count, outputs, output_count));
  }
  /* The same with a value for every variable, in their order. */
  bool run_bound(const std::vector<int64_t>& values, const aster_ml_tensor* inputs,
                 size_t input_count, aster_ml_tensor* outputs, size_t output_count,
                 aster_ml_workspace* workspace = nullptr) const {
    return detail::good(aster_ml_program_run_bound(get(), workspace, values.data(), values.size(),
                                                   inputs, input_count, outputs, output_count));
  }
  /* The same on tensors of present sizes, which say what the variables are; as
   * aster_ml_program_run_sized. */
  bool run_sized(const aster_ml_tensor* inputs, size_t input_count, aster_ml_tensor* outputs,
                 size_t output_count, aster_ml_workspace* workspace = nullptr) const {
    return detail::good(
        aster_ml_program_run_sized(get(), workspace, inputs, input_count, outputs, output_count));
  }
  /* New results of inputs of present sizes, copied; none where that fails. */
  std::vector<Array> run_sized(const std::vector<Tensor>& inputs) const {
    std::vector<aster_ml_tensor> in;
    std::vector<Array> out;
    if (!detail::there(*this, "run_sized")) return out;
    for (const Tensor& input : inputs) {
      if (!detail::there(input, "run_sized")) return out;
      in.push_back(input.view());
    }
    std::vector<aster_ml_tensor> made(
        aster_ml_program_count_arrays(get(), ASTER_ML_PROGRAM_OUTPUTS));
    bool good = run_sized(in.data(), in.size(), made.data(), made.size());
    const detail::Root root = program_.needed();
    for (aster_ml_tensor& each : made) {
      aster_ml_tensor copy{};
      good = good && detail::good(aster_ml_tensor_contiguous(&copy, root.get(), &each));
      if (good) out.push_back(Array(std::move(copy), root));
      aster_ml_tensor_free(&each);
    }
    if (!good) out.clear();
    return out;
  }
  /* The sizes of an array for these values of the variables; {}: those of the program. */
  std::vector<int64_t> sizes(ProgramList list, size_t index,
                             const std::vector<int64_t>& values = {}) const {
    aster_ml_program_array array{};
    array.struct_size = sizeof(array);
    const int32_t which = static_cast<int32_t>(list);
    if (!detail::good(aster_ml_program_get_array(&array, get(), which, index))) return {};
    std::vector<int64_t> out(array.ndim);
    if (!detail::good(aster_ml_program_get_sizes(out.data(), out.size(), get(), which, index,
                                                 values.empty() ? nullptr : values.data(),
                                                 values.size())))
      out.clear();
    return out;
  }
  /* Of the greatest sizes where these are symbolic. */
  const std::vector<Tensor>& outputs() const { return outputs_; }
  /* Runs it and gives the first output; an empty tensor where that fails. */
  Tensor operator()(const std::vector<Tensor>& inputs) const {
    return run(inputs) && !outputs_.empty() ? outputs_[0] : Tensor();
  }

 private:
  /* A capture, given up where its body is left by an exception. */
  struct Open {
    const detail::Root& root;
    bool is_open = true;
    ~Open() {
      if (is_open) aster_ml_engine_capture_cancel(root.get());
    }
  };
  /* A program that was loaded, with memory for its outputs. */
  static Program made(bool good, aster_ml_program& program, const detail::Root& root) {
    Program out;
    if (!good) return out;
    out.program_ = {std::move(program), root};
    for (const ProgramArray& each : out.arrays(ProgramList::outputs)) {
      const Array room(each.dtype, std::vector<size_t>(each.shape.begin(), each.shape.end()));
      const Tensor output = room.lazy();
      if (!output.ok()) return {};
      out.outputs_.push_back(output);
    }
    return out;
  }
  /* Memory for an output, with what the recorded run put there. */
  void make_room(const Tensor& result) {
    const aster_ml_tensor first = result.view();
    aster_ml_tensor made{};
    Tensor output;
    if (first.dtype != 0 &&
        detail::good(aster_ml_tensor_contiguous(&made, result.root().get(), &first))) {
      output = Array(std::move(made), result.root()).lazy();
    }
    if (output.ok())
      outputs_.push_back(output);
    else
      program_ = {};
  }
  detail::Shared<aster_ml_program, detail::Root> program_;
  std::vector<Tensor> outputs_;
};

/* Memory for a run of a program beside others, one at a time: moved, not copied. */
class Workspace {
 public:
  Workspace(Workspace&&) = default;
  Workspace& operator=(Workspace&&) = default;
  explicit Workspace(const Program& program) {
    aster_ml_workspace made{};
    if (detail::good(aster_ml_workspace_init(&made, program.get()))) {
      workspace_ = {std::move(made), 0};
    }
  }
  bool ok() const { return !workspace_.empty(); }
  aster_ml_workspace* get() const { return workspace_.get(); }

 private:
  detail::Shared<aster_ml_workspace> workspace_;  // which moves alone
};

}  // namespace aster_ml

#endif
