// Runs of programs of symbolic sizes on tensors that have the present sizes: they say the values of
// the variables.
#include <algorithm>
#include <array>
#include <cstring>

#include "buffer/strided.h"
#include "device/device.h"
#include "engine/program.h"
#include "uop/expr.h"

namespace aster::engine {
namespace {

using buffer::Storage;
using uop::Op;
using uop::Word;

constexpr size_t kMostAxes = 255;

// The variable that a size is, and a number beside it; false for what else is computed of some.
bool is_plain(uint32_t* variable, int64_t* beside, const Conditions& all, uint32_t at) {
  const Conditions::Step& step = all.step(at);
  const auto range = [&](const Conditions::Step& of, int64_t more) {
    *variable = of.of[0];
    *beside = more - of.number;  // a Range is its variable less the least value
    return true;
  };
  if (step.op == Op::kRange) return range(step, 0);
  if (step.op != Op::kAdd) return false;
  const Conditions::Step &a = all.step(step.of[0]), &b = all.step(step.of[1]);
  if (a.op == Op::kRange && b.op == Op::kConst) return range(a, b.number);
  return b.op == Op::kRange && a.op == Op::kConst && range(b, a.number);
}

class SizedRun {
 public:
  SizedRun(Program& program, Workspace& workspace)
      : p_(program),
        w_(workspace),
        values_(program.context->heap()),
        words_(values_.memory()),
        made_(values_.memory()) {}
  ~SizedRun() {
    for (aster_ml_tensor& each : made_) aster_ml_tensor_free(&each);
  }
  SizedRun(const SizedRun&) = delete;
  SizedRun& operator=(const SizedRun&) = delete;

  Status run(std::span<const aster_ml_tensor> inputs, std::span<aster_ml_tensor> outputs) {
    ASTER_TRY(find_values(inputs));
    Vec<aster_ml_tensor> in(values_.memory()), out(values_.memory());
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASTER_TRY(in.push(inputs[i]));
      if (is_sized(i)) ASTER_TRY(take_input(&in[i], i));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool sized = is_sized(p_.inputs.size() + i);
      if (sized) ASTER_TRY(check_output(i, outputs[i]));
      ASTER_TRY(out.push(sized ? aster_ml_tensor{} : outputs[i]));
    }
    Status status =
        run_held(p_, w_, {in.data(), in.size()}, {out.data(), out.size()}, values_.data());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!is_sized(p_.inputs.size() + i)) {
        outputs[i] = out[i];
      } else if (status.ok()) {
        status = give_output(&outputs[i], &out[i], i);
      }
    }
    return status;
  }

 private:
  bool is_sized(size_t value) const { return p_.values[value].first_size != Value::kNone; }
  std::span<const uint32_t> sizes(size_t value) const {
    return {p_.sizes.data() + p_.values[value].first_size, p_.values[value].array.ndim};
  }

  Status find_values(std::span<const aster_ml_tensor> inputs) {
    Vec<uint8_t> known(values_.memory());
    for (const ProgramVariable& variable : p_.variables) ASTER_TRY(values_.push(variable.value));
    ASTER_TRY(known.resize(values_.size(), 0));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_sized(i)) continue;
      const aster_ml_tensor& x = inputs[i];
      const std::span<const uint32_t> steps = sizes(i);
      if (x.ndim != steps.size() || (x.ndim != 0 && (x.shape == nullptr || x.strides == nullptr)))
        return ASTER_FAIL(kSHAPE, "input %zu has %zu axes, not %zu", i, x.ndim, steps.size());
      for (size_t axis = 0; axis < steps.size(); ++axis) {
        uint32_t variable = 0;
        int64_t beside = 0;
        if (!is_plain(&variable, &beside, p_.conditions, steps[axis]) || known[variable] != 0)
          continue;
        values_[variable] = static_cast<int64_t>(x.shape[axis]) - beside;
        known[variable] = 1;
      }
    }
    ASTER_TRY(check_values(p_, {values_.data(), values_.size()}));
    ASTER_TRY(words_.resize(p_.conditions.count(), 0));
    ASTER_TRY(p_.conditions.evaluate(&words_, {values_.data(), values_.size()}));
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (size_t axis = 0; is_sized(i) && axis < inputs[i].ndim; ++axis) {
        const Word wanted = words_[sizes(i)[axis]];
        if (static_cast<Word>(inputs[i].shape[axis]) == wanted) continue;
        return ASTER_FAIL(kSHAPE,
                          "input %zu has %zu elements along axis %zu, where others make %lld", i,
                          inputs[i].shape[axis], axis, static_cast<long long>(wanted));
      }
    }
    return kOk;
  }

  // A descriptor of memory for the greatest sizes: its first part, of the present ones.
  struct Part {
    std::array<size_t, kMostAxes> shape;
    std::array<ptrdiff_t, kMostAxes> strides;
    aster_ml_tensor tensor = {};
  };
  bool describe(Part* out, void* memory, size_t value) const {
    const Array& array = p_.values[value].array;
    const uop::Words whole = p_.shape(array);
    bool all = true;
    ptrdiff_t step = 1;
    for (size_t axis = whole.size(); axis-- > 0;) {
      out->shape[axis] = static_cast<size_t>(words_[sizes(value)[axis]]);
      out->strides[axis] = step;
      step *= static_cast<ptrdiff_t>(whole[axis]);
      all &= static_cast<int64_t>(out->shape[axis]) == whole[axis];
    }
    const auto dtype = static_cast<int32_t>(array.dtype);
    out->tensor.storage = {memory, array_bytes(p_, array), dtype, device::kCpu};
    out->tensor.ndim = whole.size();
    out->tensor.shape = out->shape.data();
    out->tensor.strides = out->strides.data();
    out->tensor.dtype = dtype;
    out->tensor.device = device::kCpu;
    return all;
  }

  Status take_input(aster_ml_tensor* x, size_t i) {
    const Array& array = p_.inputs[i];
    Part part;
    const bool all = describe(&part, nullptr, i);
    const bool rows = buffer::is_row_major(x->ndim, x->shape, x->strides);
    if (all && rows) return kOk;
    if (std::ranges::find(p_.assigned, static_cast<uint32_t>(i)) != p_.assigned.end())
      return ASTER_FAIL(kUNSUPPORTED, "the step assigns input %zu: it takes the greatest sizes", i);
    if (x->dtype != static_cast<int32_t>(array.dtype)) {
      return ASTER_FAIL(kDTYPE, "input %zu has dtype %s, captured with %s", i, dtype_text(x->dtype),
                        dtype::name(array.dtype));
    }
    if (array.away || !device::is_host(x->storage.device))
      return ASTER_FAIL(kDEVICE, "input %zu is not in memory of the host", i);
    ASTER_TRY(buffer::check_tensor(x));
    if (w_.wholes.empty()) ASTER_TRY(w_.wholes.resize(p_.inputs.size(), nullptr));
    const size_t bytes = array_bytes(p_, array);
    if (w_.wholes[i] == nullptr) {
      ASTER_TRY(buffer::storage_create(&w_.wholes[i], *p_.context, bytes, device::kCpu));
      std::memset(w_.wholes[i]->data, 0, bytes);
    }
    describe(&part, w_.wholes[i]->data, i);
    Vec<uint8_t> packed(values_.memory());
    const void* from = data_of(*x);
    if (!rows) {
      ASTER_TRY(packed.resize(aster_ml_tensor_count(x) * dtype::size(array.dtype), 0));
      ASTER_TRY(buffer::gather(packed.data(), buffer::kHost, *x));
      from = packed.data();
    }
    if (aster_ml_tensor_count(x) != 0) ASTER_TRY(buffer::scatter(part.tensor, from));
    // As the run wants it: the greatest sizes, row by row, in memory that lives as the workspace.
    return whole_input(x, i);
  }
  Status whole_input(aster_ml_tensor* x, size_t i) {
    const Array& array = p_.inputs[i];
    aster_ml_tensor whole{};
    ASTER_TRY(made_.reserve(made_.size() + 1));
    ASTER_TRY(buffer::describe(&whole, *p_.context, w_.wholes[i]->data, array.dtype, device::kCpu,
                               p_.shape(array)));
    ASTER_TRY(made_.push(whole));
    *x = whole;
    return kOk;
  }

  // Memory of the caller is for the present sizes, row by row.
  Status check_output(size_t i, const aster_ml_tensor& y) const {
    if (y.storage.data == nullptr) return kOk;
    const size_t value = p_.inputs.size() + i;
    const Array& array = p_.results[i].array;
    uop::Dims shape;
    for (const uint32_t step : sizes(value)) shape.push(words_[step]);
    if (y.dtype != static_cast<int32_t>(array.dtype)) {
      return ASTER_FAIL(kDTYPE, "output %zu has dtype %s, captured with %s", i, dtype_text(y.dtype),
                        dtype::name(array.dtype));
    }
    if (y.ndim != shape.size() || (y.ndim != 0 && (y.shape == nullptr || y.strides == nullptr)) ||
        !is_row_major(shape, y)) {
      return ASTER_FAIL(kSHAPE, "output %zu is not a row-major tensor of the present sizes %s", i,
                        uop::brief_shape(shape).text);
    }
    if (aster_ml_buffer_is_read_only(&y.storage) != 0)
      return ASTER_FAIL(kARGUMENT, "output %zu is read-only", i);
    if (array.away || !device::is_host(y.storage.device))
      return ASTER_FAIL(kDEVICE, "output %zu is not in memory of the host", i);
    return buffer::check_tensor(&y);
  }
  // made: of the greatest sizes, in the workspace.
  Status give_output(aster_ml_tensor* y, aster_ml_tensor* made, size_t i) {
    const std::span<const uint32_t> steps = sizes(p_.inputs.size() + i);
    for (size_t axis = 0; axis < steps.size(); ++axis)
      made->shape[axis] = static_cast<size_t>(words_[steps[axis]]);
    if (y->storage.data == nullptr) return *y = *made, kOk;
    const Status status = buffer::gather(data_of(*y), buffer::kHost, *made);
    aster_ml_tensor_free(made);
    return status;
  }

  Program& p_;
  Workspace& w_;
  Vec<int64_t> values_;
  Vec<Word> words_;            // of the steps
  Vec<aster_ml_tensor> made_;  // descriptors of whole inputs
};

Status find_sizes(int64_t* out, size_t ndim, const Program& program, const Value& value,
                  std::span<const int64_t> given) {
  if (ndim != value.array.ndim)
    return ASTER_FAIL(kSHAPE, "%s has %u axes, not %zu",
                      uop::brief_shape(program.shape(value.array)).text, value.array.ndim, ndim);
  const uop::Words whole = program.shape(value.array);
  std::ranges::copy(whole, out);
  Vec<int64_t> values(program.context->heap());
  Vec<Word> words(values.memory());
  for (size_t i = 0; i < program.variables.size(); ++i)
    ASTER_TRY(values.push(given.empty() ? program.variables[i].value : given[i]));
  ASTER_TRY(check_values(program, {values.data(), values.size()}));
  if (value.first_size == Value::kNone) return kOk;
  ASTER_TRY(words.resize(program.conditions.count(), 0));
  ASTER_TRY(program.conditions.evaluate(&words, {values.data(), values.size()}));
  for (size_t axis = 0; axis < ndim; ++axis)
    out[axis] = words[program.sizes[value.first_size + axis]];
  return kOk;
}

}  // namespace
}  // namespace aster::engine

int32_t aster_ml_program_run_sized(const aster_ml_program* program, aster_ml_workspace* workspace,
                                   const aster_ml_tensor* inputs, size_t input_count,
                                   aster_ml_tensor* outputs, size_t output_count) {
  ASTER_API();
  const aster::FloatModes modes;
  aster::engine::RunOf of{
      program == nullptr ? nullptr : aster::object_of<aster::engine::Program>(program->impl)};
  ASTER_TRY(aster::engine::check_run(&of, workspace, inputs, input_count, outputs, output_count));
  const aster::engine::Busy memory(of.workspace->busy, true);
  if (!memory.held()) return ASTER_FAIL(kSTATE, "the workspace is in use by another run");
  return aster::engine::SizedRun(*of.program, *of.workspace)
      .run({inputs, input_count}, {outputs, output_count});
}

int32_t aster_ml_program_get_sizes(int64_t* sizes, size_t ndim, const aster_ml_program* program,
                                   int32_t list, size_t index, const int64_t* values,
                                   size_t value_count) {
  if (sizes != nullptr) std::fill_n(sizes, ndim, int64_t{0});
  auto* p = program == nullptr ? nullptr : aster::object_of<aster::engine::Program>(program->impl);
  ASTER_ENTER(p == nullptr ? nullptr : p->context);
  if (sizes == nullptr && ndim != 0) return ASTER_FAIL(kARGUMENT, "sizes is a null pointer");
  if (values != nullptr && value_count != p->variables.size()) {
    return ASTER_FAIL(kARGUMENT, "%zu values given for %zu variables", value_count,
                      p->variables.size());
  }
  const aster::engine::Value* value = nullptr;
  ASTER_TRY(aster::engine::find_value(&value, *p, list, index));
  const std::span<const int64_t> given(values, values == nullptr ? 0 : value_count);
  return aster::engine::find_sizes(sizes, ndim, *p, *value, given);
}
