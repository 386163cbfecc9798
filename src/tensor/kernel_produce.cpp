// Captured programs as kernels.
#include "tensor/kernel_produce.h"

#include <bit>
#include <cstring>

#include "base/futex.h"

namespace aster::tensor {

using engine::Where;

Status Runner::create(Runner** out, aster_ml_program* program, int32_t calls) {
  *out = nullptr;
  auto* p = object_of<engine::Program>(program->impl);
  if (p == nullptr) return ASTER_FAIL(kARGUMENT, "an empty program, or one that was freed");
  Context& context = *p->context;
  auto* runner = context.heap().create<Runner>(context.heap());
  if (runner == nullptr) return out_of_memory(sizeof(Runner));
  context.retain();
  runner->program_ = p;
  runner->handle_ = *program;
  const Status status = runner->prepare(calls);
  if (!status.ok()) {
    runner->handle_ = {};
    runner->release();
    return status;
  }
  *program = {};
  *out = runner;
  return kOk;
}

void Runner::release() {
  Context& owner = context();
  for (aster_ml_workspace& workspace : workspaces_) aster_ml_workspace_free(&workspace);
  aster_ml_program_free(&handle_);
  owner.heap().destroy(this);
  owner.release();
}

Status Runner::describe(const engine::Array& array) {
  const Words shape = program_->shape(array);
  ptrdiff_t stride = 1;
  const size_t first = dims_.size();
  for (Word dim : shape) ASTER_TRY(dims_.push(static_cast<size_t>(dim)));
  ASTER_TRY(strides_.resize(dims_.size()));
  for (size_t i = shape.size(); i-- > 0; stride *= static_cast<ptrdiff_t>(shape[i]))
    strides_[first + i] = stride;
  aster_ml_tensor tensor{};
  tensor.dtype = static_cast<int32_t>(array.dtype);
  tensor.ndim = shape.size();
  tensor.byte_offset = first;  // until all dims are known
  tensor.storage.bytes = engine::array_bytes(*program_, array);
  tensor.storage.device = ASTER_ML_DEVICE_CPU;
  return given_.push(tensor);
}

Status Runner::prepare(int32_t calls) {
  if (calls < 1 || calls > kMostCalls)
    return ASTER_FAIL(kARGUMENT, "%d calls at one time: 1 to %d", calls, kMostCalls);
  if (program_->writes_state || !program_->assigned.empty())
    return ASTER_FAIL(kUNSUPPORTED, "a program that assigns is no kernel: calls of it differ");
  if (program_->interprets) calls = 1;
  for (const engine::Array& input : program_->inputs) ASTER_TRY(describe(input));
  for (const engine::Result& result : program_->results) ASTER_TRY(describe(result.array));
  for (aster_ml_tensor& tensor : given_) {
    tensor.shape = dims_.data() + tensor.byte_offset;
    tensor.strides = strides_.data() + tensor.byte_offset;
    tensor.byte_offset = 0;
  }
  find_direct();
  if (direct_ != nullptr) return kOk;
  for (int32_t i = 0; i < calls; ++i) {
    aster_ml_workspace workspace{};
    if (aster_ml_workspace_init(&workspace, &handle_) != 0) return last_failure();
    ASTER_TRY(workspaces_.push(workspace));
  }
  free_ = calls == 64 ? ~uint64_t{0} : (uint64_t{1} << calls) - 1;
  return kOk;
}

// One generated kernel from inputs to results: a call of it and nothing else.
void Runner::find_direct() {
  if (program_->entries.size() != 1 || program_->interprets || !program_->drawn.empty() ||
      !program_->renewed.empty() || program_->results.size() != 1)
    return;
  const engine::Executable& exe = *program_->entries[0].exe;
  if (exe.launches.size() != 1 || exe.launches[0].plan != nullptr) return;
  const engine::Launch& launch = exe.launches[0];
  if (launch.operand_count > kMostDirect || launch.function == nullptr) return;
  for (size_t i = 0; i < launch.operand_count; ++i) {
    const engine::Source& source =
        program_->sources[program_->first_pointer[0] + launch.first_operand + i];
    const bool input = source.where == Where::kInput, result = source.where == Where::kResult;
    if (!input && !result) return;
    const int64_t begin = result ? program_->results[source.index].offset : 0;
    if (source.offset != begin) return;
    operands_[i] = static_cast<uint8_t>(source.index + (input ? 0 : program_->inputs.size()));
  }
  direct_ = &launch;
}

void Runner::run(void* const* results, const void* const* inputs) {
  const size_t count = program_->inputs.size();
  if (direct_ != nullptr) {
    void* params[kMostDirect];
    for (size_t i = 0; i < direct_->operand_count; ++i) {
      const size_t which = operands_[i];
      params[i] = which < count ? const_cast<void*>(inputs[which]) : results[which - count];
    }
    return direct_->function(params, direct_->sizes, nullptr, 0, direct_->tasks);
  }
  uint64_t free = 0;
  do {
    const uint32_t seen = given_back_.load();
    free = free_.load();
    if (free == 0) futex_wait(&given_back_, seen);
  } while (free == 0 || !free_.compare_exchange_weak(free, free & (free - 1)));
  const int index = std::countr_zero(free);
  Vec<aster_ml_tensor> tensors(context().heap());
  Status status = tensors.append(given_.data(), given_.size());
  if (status.ok()) {
    for (size_t i = 0; i < tensors.size(); ++i)
      tensors[i].storage.data = i < count ? const_cast<void*>(inputs[i]) : results[i - count];
    status.code =
        aster_ml_program_run(&handle_, &workspaces_[static_cast<size_t>(index)], tensors.data(),
                             count, tensors.data() + count, tensors.size() - count);
  }
  if (!status.ok())
    context().log(ASTER_ML_LOG_ERROR, "a kernel did not run: %s", SavedError::message());
  free_.fetch_or(uint64_t{1} << index);
  given_back_.fetch_add(1);
  futex_wake(&given_back_, 1);
}

void release_all(const Produced& kernel) {
  for (Runner* runner : kernel.runners) {
    if (runner != nullptr) runner->release();
  }
}

namespace {

struct Front {
  Context* context;
};

void destroy(Prefix* kernel) { release_all(*reinterpret_cast<Produced*>(kernel)); }

void free_of_context(void* kernel) {
  if (kernel == nullptr) return;
  Front* front = static_cast<Front*>(kernel) - 1;
  Context* context = front->context;
  context->heap().release(front, sizeof(Front) + sizeof(Produced), alignof(Front));
  context->release();
}

void call_program(char* const* dst, const char* const* src, Prefix* extra) {
  reinterpret_cast<Produced*>(extra)->runners[0]->run(reinterpret_cast<void* const*>(dst),
                                                      reinterpret_cast<const void* const*>(src));
}

Status get_program(aster_ml_dynamic_kernel_instance* out, aster_ml_program* program,
                   int32_t calls) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  auto* p = program == nullptr ? nullptr : object_of<engine::Program>(program->impl);
  if (p == nullptr) return ASTER_FAIL(kARGUMENT, "an empty program, or one that was freed");
  Context& context = *p->context;
  const ContextLock lock(&context);
  ASTER_TRY(lock.status());
  Runner* runner = nullptr;
  ASTER_TRY(Runner::create(&runner, program, calls));
  return produce(out, context, {{code_of<aster_ml_arrays>(call_program), nullptr}, {runner}, {}});
}

}  // namespace

Status produce(aster_ml_dynamic_kernel_instance* out, Context& context, const Produced& kernel) {
  void* memory = context.heap().allocate(sizeof(Front) + sizeof(Produced), alignof(Front));
  if (memory == nullptr) {
    release_all(kernel);
    return out_of_memory(sizeof(Front) + sizeof(Produced));
  }
  context.retain();
  auto* front = ::new (memory) Front{&context};
  auto* produced = ::new (static_cast<void*>(front + 1)) Produced(kernel);
  produced->base.destructor = destroy;
  *out = {&produced->base, sizeof(Produced), free_of_context};
  return kOk;
}

Status capture_kernel(Runner** out, Context& context, std::span<const KernelInput> inputs,
                      KernelBuild build, const void* self) {
  const aster_ml_context own = context.inner_handle();
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine::engine_of(&engine, context));
  aster_ml_lazy x[kMostInputs] = {}, y = {};
  aster_ml_program program{};
  const auto run = [&]() -> Status {
    aster_ml_lazy* given[kMostInputs];
    aster_ml_lazy* const results[] = {&y};
    for (size_t k = 0; k < inputs.size(); ++k) {
      const auto shape = static_cast<int64_t>(inputs[k].count);
      given[k] = &x[k];
      if (aster_ml_lazy_zeros(&x[k], &own, static_cast<int32_t>(inputs[k].dtype), 1, &shape) != 0)
        return last_failure();
    }
    if (aster_ml_engine_capture_begin(&own, given, inputs.size()) != 0) return last_failure();
    Node operands[kMostInputs];
    for (size_t k = 0; k < inputs.size(); ++k) operands[k] = cell(&x[k])->node;
    const Node node = build(self, engine::graph_of(*engine), operands);
    engine::Lazy* lazy = nullptr;
    const Status made =
        node == nullptr ? last_failure() : engine::lazy_create(&lazy, *engine, node);
    if (!made.ok()) {
      aster_ml_engine_capture_cancel(&own);
      return made;
    }
    y.impl = lazy->handle;
    if (aster_ml_engine_capture_end(&program, &own, results, 1) != 0) return last_failure();
    return Runner::create(out, &program, 1);
  };
  const Status status = run();
  aster_ml_program_free(&program);
  give_up(&y.impl);
  for (aster_ml_lazy& handle : x) give_up(&handle.impl);
  return status;
}

}  // namespace aster::tensor

int32_t aster_ml_kernel_get_program(aster_ml_dynamic_kernel_instance* out,
                                    aster_ml_program* program, int32_t calls) {
  ASTER_API();
  if (out != nullptr) *out = {};
  return -aster::tensor::get_program(out, program, calls).code;
}
