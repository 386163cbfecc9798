// Kernels that are not ours as operations: their objects, their calls, their gradients.
#include "tensor/kernel.h"

#include <algorithm>

#include "base/flags.h"
#include "device/device.h"
#include "engine/engine.h"

namespace aster::tensor {
namespace {

using uop::brief;

void destroy_object(uop::Foreign* foreign) {
  auto* object = static_cast<KernelObject*>(foreign);
  if (object->instance.kernel != nullptr) {
    object->instance.kernel->destructor(object->instance.kernel);
    object->instance.free_func(object->instance.kernel);
  }
  if (object->code != nullptr) object->code->release();
  object->drop_gradient();
  object->context.heap().destroy(object);
}

void destroy_handle(HandleObject* handle) {
  auto* kernel = static_cast<KernelHandle*>(handle);
  Heap& heap = kernel->context->heap();
  kernel->object->release();
  heap.destroy(kernel);
}

// Operands as the signature has them; common: what [...] is.
Status check_operands(Vec<Node>* out, uop::Dims* common, Graph& g, const KernelObject& kernel,
                      Nodes operands) {
  const Signature& s = kernel.signature;
  if (operands.size() != s.operands) {
    return ASTER_FAIL(kARGUMENT, "kernel \"%s\" takes %zu tensors, not %zu", kernel.name,
                      s.operands, operands.size());
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const KernelValue& value = s.values[i];
    Node x = operands[i];
    if (dtype::is_weak(x->dtype)) x = cast(g, x, value.dtype);
    if (x == nullptr) return last_failure();
    if (x->dtype != value.dtype) {
      return ASTER_FAIL(kDTYPE, "kernel \"%s\": tensor %zu is %s, not %s", kernel.name, i,
                        brief(x).text, dtype::name(value.dtype));
    }
    const uop::Dims before(*common);
    if (value.any ? !uop::broadcast_shape(common, before, x->shape())
                  : !std::ranges::equal(x->shape(), s.shape(value))) {
      return ASTER_FAIL(kSHAPE, "kernel \"%s\": tensor %zu is %s, not of shape %s", kernel.name, i,
                        brief(x).text,
                        uop::brief_shape(value.any ? Words(before) : s.shape(value)).text);
    }
    ASTER_TRY(out->push(x));
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (s.values[i].any) (*out)[i] = uop::broadcast_to(g, (*out)[i], *common);
    if ((*out)[i] == nullptr) return last_failure();
  }
  return kOk;
}

// The results of a kernel in what it computes; also their gradients in the gradient of that.
Status split(Vec<Node>* out, Graph& g, const KernelObject& kernel, Node whole, Words common,
             int64_t count) {
  const Signature& s = kernel.signature;
  for (size_t i = 0; i < s.results(); ++i) {
    Node one = whole;
    if (s.results() > 1) {
      const KernelValue& value = s.result(i);
      one = g.slice(whole, std::array{s.place(i, count)}, std::array<Word, 1>{1},
                    std::array{s.count(value, count)});
      one = g.reshape(one, value.any ? common : s.shape(value));
    }
    if (one == nullptr) return last_failure();
    ASTER_TRY(out->push(one));
  }
  return kOk;
}

// What [...] is in a node of the kernel: the shape of any operand that is so.
Words common_of(const KernelObject& kernel, Node y) {
  for (size_t i = 0; i < kernel.signature.operands; ++i) {
    if (kernel.signature.values[i].any) return y->src(i)->shape();
  }
  return {};
}

// Operands, results and gradients of results of a node.
Status gradient_inputs(Vec<Node>* out, Graph& g, const KernelObject& kernel, Node y, Node dy) {
  const Words common = common_of(kernel, y);
  ASTER_TRY(out->append(y->src().data(), y->nsrc));
  ASTER_TRY(split(out, g, kernel, y, common, y->arg(2)));
  return split(out, g, kernel, dy, common, y->arg(2));
}

Status flow_kernel(const KernelObject& kernel, Graph& g, Node y, Nodes inputs, std::span<Node> dx) {
  Vec<Node> results(kernel.context.heap());
  ASTER_TRY(kernel_results(&results, g, *kernel.gradient_kernel, inputs));
  size_t next = 0;
  for (size_t i = 0; i < y->nsrc; ++i) {
    if (dtype::is_float(y->src(i)->dtype)) dx[i] = results[next++];
  }
  return kOk;
}

Status flow_function(const KernelObject& kernel, Graph& g, Node y, Nodes inputs,
                     std::span<Node> dx) {
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine::engine_of(&engine, kernel.context));
  Vec<aster_ml_lazy> handles(kernel.context.heap());
  ASTER_TRY(handles.resize(inputs.size() + y->nsrc, aster_ml_lazy{}));
  Status status;
  for (size_t i = 0; i < inputs.size() && status.ok(); ++i) {
    engine::Lazy* lazy = nullptr;
    status = engine::lazy_create(&lazy, *engine, inputs[i]);
    if (status.ok()) handles[i].impl = lazy->handle;
  }
  aster_ml_lazy* const out = handles.data() + inputs.size();
  if (status.ok()) {
    const Graph::Hold hold(g);
    const size_t results = kernel.signature.results();
    const int32_t code =
        kernel.gradient_function(kernel.gradient_self, out, handles.data(),
                                 handles.data() + y->nsrc, handles.data() + y->nsrc + results);
    if (code != 0)
      status =
          ASTER_FAIL(kERROR, "the gradient of kernel \"%s\" failed with %d", kernel.name, code);
  }
  for (size_t i = 0; i < y->nsrc && status.ok(); ++i) {
    if (out[i].impl == nullptr) continue;
    if (cell(&out[i]) == nullptr || cell(&out[i])->context != &kernel.context) {
      status = ASTER_FAIL(kARGUMENT,
                          "the gradient of kernel \"%s\" left a handle of no tensor of "
                          "its context",
                          kernel.name);
    } else {
      dx[i] = cell(&out[i])->node;
    }
  }
  for (aster_ml_lazy& handle : handles) give_up(&handle.impl);
  return status;
}

Status flow(const uop::Foreign& self, Graph& g, Node y, Node dy, std::span<const bool> needed,
            std::span<Node> dx) {
  const KernelObject& kernel = object_of_foreign(self);
  Vec<Node> inputs(kernel.context.heap());
  ASTER_TRY(gradient_inputs(&inputs, g, kernel, y, dy));
  const Nodes given(inputs.data(), inputs.size());
  ASTER_TRY(kernel.gradient_kernel != nullptr ? flow_kernel(kernel, g, y, given, dx)
                                              : flow_function(kernel, g, y, given, dx));
  for (size_t i = 0; i < y->nsrc; ++i) {
    if (!needed[i]) dx[i] = nullptr;
    if (dx[i] == nullptr) continue;
    const Node x = y->src(i);
    if (dx[i]->dtype != x->dtype && dtype::is_weak(dx[i]->dtype)) dx[i] = cast(g, dx[i], x->dtype);
    if (dx[i] == nullptr) return last_failure();
    if (dx[i]->dtype != x->dtype || !std::ranges::equal(dx[i]->shape(), x->shape())) {
      return ASTER_FAIL(kSHAPE, "kernel \"%s\": the gradient of operand %zu is %s, the operand %s",
                        kernel.name, i, brief(dx[i]).text, brief(x).text);
    }
  }
  return kOk;
}

}  // namespace

void KernelObject::drop_gradient() {
  gradient = nullptr;
  if (gradient_kernel != nullptr) gradient_kernel->release();
  gradient_kernel = nullptr;
  if (gradient_release != nullptr) gradient_release(gradient_self);
  gradient_function = nullptr;
  gradient_release = nullptr;
}

Status read_options(aster_ml_kernel_options* out, const aster_ml_kernel_options* given) {
  ASTER_TRY(options_argument(out, given));
  int32_t device = device::kCpu;
  if (out->device != 0) ASTER_TRY(device::canonical(&device, out->device));
  out->device = device::same_type(device, device::kCpu) ? device::kCpu : device;
  if (out->tasks < 0 || !(out->nanoseconds >= 0))
    return ASTER_FAIL(kARGUMENT, "a negative number of tasks or nanoseconds");
  return kOk;
}

Status kernel_create(KernelObject** out, Context& context, const char* name, const char* signature,
                     const aster_ml_kernel_options& options) {
  *out = nullptr;
  auto* object = context.heap().create<KernelObject>(context);
  if (object == nullptr) return out_of_memory(sizeof(KernelObject));
  object->destroy = destroy_object;
  std::snprintf(object->name, sizeof(object->name), "%s", name == nullptr ? "kernel" : name);
  Status status = object->signature.read(signature);
  object->tasks = options.tasks != 0 ? options.tasks : object->signature.any() ? 0 : 1;
  if (options.nanoseconds > 0) object->nanoseconds = options.nanoseconds;
  const char* checks = flag_text(Flag::kCheckKernels);
  object->checked = checks != nullptr && std::strcmp(checks, "0") != 0;
  if (!status.ok()) {
    object->release();
    return status;
  }
  *out = object;
  return kOk;
}

Status kernel_finish(aster_ml_kernel* out, KernelObject* object) {
  Heap& heap = object->context.heap();
  auto* handle = heap.create<KernelHandle>();
  Status status = handle == nullptr ? out_of_memory(sizeof(KernelHandle))
                                    : handle_init(handle, object->context, destroy_handle);
  if (!status.ok()) {
    heap.destroy(handle);
    object->release();
    return status;
  }
  handle->object = object;
  out->impl = handle->handle;
  return kOk;
}

Status kernel_results(Vec<Node>* out, Graph& g, const KernelObject& kernel, Nodes operands) {
  const Signature& s = kernel.signature;
  uop::Dims common;
  Vec<Node> sources(kernel.context.heap());
  ASTER_TRY(check_operands(&sources, &common, g, kernel, operands));
  int64_t count = s.any() ? 1 : 0;
  for (size_t i = 0; s.any() && i < common.size(); ++i) count *= common[i];
  const KernelValue& first = s.result(0);
  const int64_t all[] = {s.place(s.results(), count)};
  const Words shape = s.results() > 1 ? Words(all) : first.any ? Words(common) : s.shape(first);
  const Node whole = g.foreign(kernel, first.dtype, shape, count, {sources.data(), sources.size()});
  if (whole == nullptr) return last_failure();
  return split(out, g, kernel, whole, common, count);
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;

static KernelObject* kernel_of(const aster_ml_kernel* kernel) {
  auto* handle = kernel == nullptr ? nullptr : aster::object_of<KernelHandle>(kernel->impl);
  return handle == nullptr ? nullptr : handle->object;
}
static aster::Status no_kernel() {
  return ASTER_FAIL(kARGUMENT, "an empty kernel, or one that was freed");
}

int32_t aster_ml_kernel_add_source(const aster_ml_kernel* kernel, const char* source,
                                   const aster_ml_kernel_options* options) {
  KernelObject* object = kernel_of(kernel);
  ASTER_ENTER(object == nullptr ? nullptr : &object->context);
  if (source == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer");
  if (!object->from_source)
    return ASTER_FAIL(kSTATE, "kernel \"%s\" is not from source", object->name);
  aster_ml_kernel_options read;
  ASTER_TRY(read_options(&read, options));
  return add_source(object, source, read);
}

int32_t aster_ml_kernel_free(aster_ml_kernel* kernel) {
  ASTER_API();
  if (kernel != nullptr) aster::give_up(&kernel->impl);
  return kOk;
}

size_t aster_ml_kernel_count_operands(const aster_ml_kernel* kernel) {
  const KernelObject* object = kernel_of(kernel);
  return object == nullptr ? 0 : object->signature.operands;
}

size_t aster_ml_kernel_count_results(const aster_ml_kernel* kernel) {
  const KernelObject* object = kernel_of(kernel);
  return object == nullptr ? 0 : object->signature.results();
}

int32_t aster_ml_kernel_apply(aster_ml_lazy* out, const aster_ml_kernel* kernel,
                              const aster_ml_lazy* const* tensors, size_t count, int64_t result) {
  ASTER_API();
  const bool missing = count != 0 && tensors == nullptr;
  KernelObject* object = kernel_of(kernel);
  if (out != nullptr && (missing || object == nullptr)) *out = {};
  if (missing) return ASTER_FAIL(kARGUMENT, "a null pointer for %zu tensors", count);
  if (object == nullptr) return no_kernel();
  const aster_ml_context owner = object->context.inner_handle();
  std::optional<Build> build;
  if (count != 0) {
    build.emplace(out, tensors, count);
  } else {
    build.emplace(out, &owner);
  }
  ASTER_TRY(build->status());
  if (&build->context() != &object->context)
    return ASTER_FAIL(kARGUMENT, "a kernel on tensors of another context");
  if (result < 0 || static_cast<size_t>(result) >= object->signature.results()) {
    return ASTER_FAIL(kRANGE, "kernel \"%s\" has no result %lld", object->name,
                      static_cast<long long>(result));
  }
  aster::Vec<Node> operands(build->context().heap()), results(build->context().heap());
  for (size_t i = 0; i < count; ++i) ASTER_TRY(operands.push(node(tensors[i])));
  ASTER_TRY(kernel_results(&results, build->graph(), *object, {operands.data(), count}));
  return build->finish(results[static_cast<size_t>(result)]);
}

int32_t aster_ml_kernel_set_gradient(const aster_ml_kernel* kernel,
                                     const aster_ml_kernel* gradient) {
  KernelObject* object = kernel_of(kernel);
  ASTER_ENTER(object == nullptr ? nullptr : &object->context);
  KernelObject* other = kernel_of(gradient);
  if (gradient == nullptr) return object->drop_gradient(), kOk;
  if (other == nullptr) return no_kernel();
  const Signature &s = object->signature, &g = other->signature;
  if (&other->context != &object->context)
    return ASTER_FAIL(kARGUMENT, "a gradient of another context");
  size_t floats = 0;
  for (size_t i = 0; i < s.operands; ++i) floats += aster::dtype::is_float(s.values[i].dtype);
  if (g.operands != s.values.size() + s.results() || g.results() != floats) {
    return ASTER_FAIL(kARGUMENT,
                      "the gradient of kernel \"%s\" takes %zu tensors and gives %zu, not %zu and "
                      "%zu: operands, results and gradients of results; those of operands",
                      object->name, s.values.size() + s.results(), floats, g.operands, g.results());
  }
  for (size_t i = 0; i < g.operands; ++i) {
    const size_t like = i < s.values.size() ? i : i - s.results();
    if (g.values[i].dtype == s.values[like].dtype) continue;
    return ASTER_FAIL(kDTYPE, "operand %zu of the gradient of kernel \"%s\" is %s, not %s", i,
                      object->name, aster::dtype::name(g.values[i].dtype),
                      aster::dtype::name(s.values[like].dtype));
  }
  other->retain();
  object->drop_gradient();
  object->gradient_kernel = other;
  object->gradient = flow;
  return kOk;
}

int32_t aster_ml_kernel_set_gradient_function(const aster_ml_kernel* kernel,
                                              aster_ml_kernel_gradient function, void* self,
                                              void (*release)(void* self)) {
  KernelObject* object = kernel_of(kernel);
  ASTER_ENTER(object == nullptr ? nullptr : &object->context);
  if (function == nullptr) return ASTER_FAIL(kARGUMENT, "the gradient is a null function");
  object->drop_gradient();
  object->gradient_function = function;
  object->gradient_self = self;
  object->gradient_release = release;
  object->gradient = flow;
  return kOk;
}
