// Implementations that are functions of Python (aster_ml/registry.h).
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {
namespace {

// What an implementation holds; given up with the GIL, whoever ends it.
struct Held : Pin {
  ContextObject* context;  // borrowed: it owns the registry
  PyObject *build, *refuses, *cost, *gradient;
  char reason[96];
};

void drop_held(Pin* pin) {
  auto* held = static_cast<Held*>(pin);
  Py_XDECREF(held->build);
  Py_XDECREF(held->refuses);
  Py_XDECREF(held->cost);
  Py_XDECREF(held->gradient);
  std::free(held);
}
void release_held(void* self) {
  release_pin(static_cast<Pin*>(static_cast<Held*>(self)), nullptr, 0);
}

// The GIL in a call of the library, where calls on the context may build.
class Inside {
 public:
  explicit Inside(ContextObject* context)
      : context_(context), before_(context->called_back), state_(PyGILState_Ensure()) {
    context->called_back = true;
  }
  ~Inside() {
    context_->called_back = before_;
    PyGILState_Release(state_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  ContextObject* context_;
  bool before_;
  PyGILState_STATE state_;
};

PyObject* described(const aster_ml_op_operand& x) {
  return Py_BuildValue("(iN)", x.dtype, tuple_of(x.shape, x.ndim));
}

// (operation, operands, attributes, device, result)
PyObject* tuple_of_call(const aster_ml_op_call& call) {
  PyObject* operands = PyTuple_New(static_cast<Py_ssize_t>(call.operand_count));
  for (size_t i = 0; operands != nullptr && i < call.operand_count; ++i) {
    PyObject* one = described(call.operands[i]);
    if (one == nullptr || PyTuple_SetItem(operands, static_cast<Py_ssize_t>(i), one) != 0)
      Py_CLEAR(operands);
  }
  if (operands == nullptr) return nullptr;
  return Py_BuildValue("(sNNiN)", call.operation, operands,
                       tuple_of(call.attributes, call.attribute_count), call.device,
                       described(call.result));
}

// Tensors of handles that stay the library's.
PyObject* tensors_of(ContextObject* context, const aster_ml_lazy* handles, size_t count) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; tuple != nullptr && i < count; ++i) {
    aster_ml_lazy copy = {};
    const int32_t status = aster_ml_lazy_copy(&copy, &handles[i]);
    PyObject* one = status != 0 ? nullptr : make_lazy(context, copy);
    if (status != 0) raise_status(status);
    if (one == nullptr || PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), one) != 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

// Another handle of what a tensor names; empty for None.
bool take_tensor(aster_ml_lazy* out, PyObject* object, const char* what) {
  if (object == Py_None) return true;
  if (!is_lazy(object)) {
    PyErr_Format(PyExc_TypeError, "%s of a registered implementation gave no tensor", what);
    return false;
  }
  const int32_t status = aster_ml_lazy_copy(out, &as_lazy(object)->value);
  return status == 0 || raise_status(status);
}

// Failures are left as Python's exception, which goes before the status.
int32_t build_by(void* self, aster_ml_lazy* out, const aster_ml_op_call* call,
                 const aster_ml_lazy* operands) {
  auto* held = static_cast<Held*>(self);
  const Inside inside(held->context);
  PyObject* made = PyObject_CallFunction(held->build, "NN", tuple_of_call(*call),
                                         tensors_of(held->context, operands, call->operand_count));
  const bool taken = made != nullptr && take_tensor(out, made, "build");
  Py_XDECREF(made);
  return taken ? 0 : 1;
}

const char* refusal_by(void* self, const aster_ml_op_call* call) {
  auto* held = static_cast<Held*>(self);
  const Inside inside(held->context);
  PyObject* said = PyObject_CallFunction(held->refuses, "(N)", tuple_of_call(*call));
  PyObject* bytes = said == nullptr || said == Py_None ? nullptr : PyUnicode_AsUTF8String(said);
  const char* text = bytes == nullptr ? nullptr : PyBytes_AsString(bytes);
  if (text != nullptr) std::snprintf(held->reason, sizeof(held->reason), "%s", text);
  const bool takes = said == Py_None;
  if (!takes && text == nullptr) {
    std::snprintf(held->reason, sizeof(held->reason), "refuses gave neither a text nor None");
    PyErr_WriteUnraisable(held->refuses);
  }
  Py_XDECREF(bytes);
  Py_XDECREF(said);
  return takes ? nullptr : held->reason;
}

double cost_by(void* self, const aster_ml_op_call* call) {
  auto* held = static_cast<Held*>(self);
  const Inside inside(held->context);
  PyObject* said = PyObject_CallFunction(held->cost, "(N)", tuple_of_call(*call));
  const double cost = said == nullptr ? -1 : PyFloat_AsDouble(said);
  if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(held->cost);
  Py_XDECREF(said);
  return cost;
}

int32_t gradient_by(void* self, aster_ml_lazy* out, const aster_ml_op_call* call,
                    const aster_ml_lazy* operands, const aster_ml_lazy* result,
                    const aster_ml_lazy* gradient) {
  auto* held = static_cast<Held*>(self);
  const Inside inside(held->context);
  PyObject* made = PyObject_CallFunction(held->gradient, "NNNN", tuple_of_call(*call),
                                         tensors_of(held->context, operands, call->operand_count),
                                         tensors_of(held->context, result, 1),
                                         tensors_of(held->context, gradient, 1));
  bool taken = made != nullptr && PyTuple_Check(made) &&
               PyTuple_Size(made) == static_cast<Py_ssize_t>(call->operand_count);
  if (made != nullptr && !taken)
    PyErr_SetString(PyExc_TypeError,
                    "gradient of a registered implementation gave no tuple of a "
                    "tensor or None for each operand");
  for (size_t i = 0; taken && i < call->operand_count; ++i)
    taken = take_tensor(&out[i], PyTuple_GetItem(made, static_cast<Py_ssize_t>(i)), "gradient");
  Py_XDECREF(made);
  return taken ? 0 : 1;
}

PyObject* callable_or_null(Call& call, Py_ssize_t at, const char* name) {
  if (call.failed() || !call.given(at)) return nullptr;
  if (PyCallable_Check(call.argument(at)) == 0) {
    call.wrong_type(call.argument(at), name, "a function");
    return nullptr;
  }
  return Py_NewRef(call.argument(at));
}

PyObject* registry_add(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("registry_add", arguments, count, 8, 9);
  const aster_ml_context* context = call.context(8);
  aster_ml_implementation made = {};
  made.struct_size = sizeof(made);
  made.operation = call.text(0, "operation");
  made.name = call.text(1, "name");
  made.device = call.integer32(2, "device");
  made.kernel =
      static_cast<aster_ml_kernel*>(call.handle(4, "kernel", *handle_type("Kernel"), true));
  auto* held = static_cast<Held*>(std::calloc(1, sizeof(Held)));
  if (held == nullptr) return PyErr_NoMemory();
  held->drop = drop_held;
  held->context = call.owner();
  held->build = callable_or_null(call, 3, "build");
  held->refuses = callable_or_null(call, 5, "refuses");
  held->cost = callable_or_null(call, 6, "cost");
  held->gradient = callable_or_null(call, 7, "gradient");
  if (held->build != nullptr) made.build = build_by;
  if (held->refuses != nullptr) made.refuses = refusal_by;
  if (held->cost != nullptr) made.cost = cost_by;
  if (held->gradient != nullptr) made.gradient = gradient_by;
  made.self = held;
  made.release = release_held;
  if (!call.quick([&] { return aster_ml_registry_add(context, &made); })) {
    give_back(held);
    return nullptr;
  }
  return none();
}

PyObject* registry_describe(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("registry_describe", arguments, count, 0, 2);
  const aster_ml_context* context = call.context(1);
  const char* operation = count > 0 ? call.text(0, "operation", true) : nullptr;
  return text_by(call, [&](char* out, size_t* length, size_t capacity) {
    return aster_ml_registry_describe(out, length, capacity, context, operation);
  });
}

}  // namespace

PyMethodDef kRegistryMethods[] = {
    {"registry_add", as_method(registry_add), METH_FASTCALL,
     "registry_add(operation, name, device, build, kernel, refuses, cost, gradient, context)\n\n"
     "Registers an implementation."},
    {"registry_describe", as_method(registry_describe), METH_FASTCALL,
     "registry_describe(operation, context)\n\nWhat implementations there are, as JSON."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace aster::python
