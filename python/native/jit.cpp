// Jit: an object whose call replays a captured program where its arguments are as captured, and is
// its Python method _slow_call otherwise.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {
namespace {

// A tensor that a call brings: the positional argument, or the one of a name.
struct Input {
  PyObject* name;  // null for a positional one
  Py_ssize_t position;
  int32_t dtype;
  int32_t symbolic;  // 1: its sizes are variables, and shape is that of the whole tensor
  size_t ndim;
  int64_t* shape;
};

// A captured program and all that a replay needs.
struct Captured {
  PyObject* program;
  PyObject* result;  // what a call returns
  ContextObject* context;
  size_t input_count, output_count, value_count;
  bool bound;  // replays are given values of variables, and tensors whose sizes these are
  Input* inputs;
  aster_ml_tensor* outputs;  // each keeps its memory alive
  size_t users;              // the Jit, and its running calls
};

struct JitObject {
  PyObject_HEAD PyObject* weak;
  Captured* captured;  // null before
};

JitObject* as_jit(PyObject* object) { return reinterpret_cast<JitObject*>(object); }

template <class T>
T* rows(size_t count) {
  return static_cast<T*>(std::calloc(count + 1, sizeof(T)));
}

// Gives up one use.
void leave(Captured* captured) {
  if (captured == nullptr || --captured->users != 0) return;
  for (size_t i = 0; captured->inputs != nullptr && i < captured->input_count; ++i) {
    Py_XDECREF(captured->inputs[i].name);
    std::free(captured->inputs[i].shape);
  }
  for (size_t i = 0; captured->outputs != nullptr && i < captured->output_count; ++i)
    aster_ml_tensor_free(&captured->outputs[i]);
  std::free(captured->inputs);
  std::free(captured->outputs);
  Py_XDECREF(captured->program);
  Py_XDECREF(captured->result);
  Py_XDECREF(reinterpret_cast<PyObject*>(captured->context));
  std::free(captured);
}

// The memory of what may stand for an input: of the captured dtype and shape, in memory; of one
// whose sizes are variables it is that of the whole tensor.
bool take_input(aster_ml_tensor* out, const Captured& captured, const Input& input,
                PyObject* object) {
  if (object == nullptr || !is_lazy(object)) return false;
  LazyObject* lazy = as_lazy(object);
  aster_ml_lazy* x = &lazy->value;
  if (lazy->context != captured.context || aster_ml_lazy_is_realized(x) == 0 ||
      aster_ml_lazy_dtype(x) != input.dtype || aster_ml_lazy_ndim(x) != input.ndim)
    return false;
  if (aster_ml_lazy_is_symbolic(x) != input.symbolic) return false;
  if (input.symbolic != 0) {
    if (aster_ml_lazy_view_whole(out, x) != 0) return false;
    for (size_t i = 0; i < input.ndim; ++i)
      if (out->shape[i] != static_cast<size_t>(input.shape[i])) return false;
    return true;
  }
  for (size_t i = 0; i < input.ndim; ++i)
    if (aster_ml_lazy_dim(x, static_cast<int64_t>(i)) != input.shape[i]) return false;
  return aster_ml_lazy_view(out, x) == 0;
}

// Arguments that no capture depends on.
bool plain(PyObject* object) {
  return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) ||
         PyFloat_CheckExact(object) || PyUnicode_CheckExact(object);
}

const char* data_of(const aster_ml_tensor& tensor) {
  return static_cast<const char*>(tensor.storage.data) + tensor.byte_offset;
}

// The inputs of a call; false where it is not as captured.
bool take_inputs(const Captured& captured, aster_ml_tensor* all, PyObject* arguments,
                 PyObject* keywords) {
  const Py_ssize_t positional = PyTuple_Size(arguments);
  const Py_ssize_t named = keywords == nullptr ? 0 : PyDict_Size(keywords);
  size_t taken = 0;
  for (size_t i = 0; i < captured.input_count; ++i) {
    const Input& input = captured.inputs[i];
    PyObject* object = nullptr;
    if (input.name == nullptr) {
      if (input.position < positional) object = PyTuple_GetItem(arguments, input.position);
    } else if (named != 0) {
      object = PyDict_GetItemWithError(keywords, input.name);
    }
    aster_ml_tensor& given = all[i];
    if (!take_input(&given, captured, input, object)) return false;
    for (size_t j = 0; j < i; ++j)
      if (given.storage.data != nullptr && data_of(all[j]) == data_of(given)) return false;
    ++taken;
  }
  if (taken == static_cast<size_t>(positional + named)) return true;
  for (Py_ssize_t i = 0; i < positional; ++i) {
    PyObject* object = PyTuple_GetItem(arguments, i);
    bool known = plain(object);
    for (size_t j = 0; !known && j < captured.input_count; ++j)
      known = captured.inputs[j].name == nullptr && captured.inputs[j].position == i;
    if (!known) return false;
  }
  PyObject *key, *value;
  for (Py_ssize_t at = 0; named != 0 && PyDict_Next(keywords, &at, &key, &value) != 0;) {
    bool known = plain(value);
    for (size_t j = 0; !known && j < captured.input_count; ++j)
      known = captured.inputs[j].name != nullptr &&
              PyUnicode_Compare(captured.inputs[j].name, key) == 0;
    if (!known) return false;
  }
  return true;
}

// Runs the program.
int32_t replay(const Captured& captured, const aster_ml_tensor* given, const int64_t* values,
               aster_ml_tensor* results) {
  std::copy_n(captured.outputs, captured.output_count, results);
  auto* program = &reinterpret_cast<Object<aster_ml_program>*>(captured.program)->value;
  return captured.bound
             ? aster_ml_program_run_bound(program, nullptr, values, captured.value_count, given,
                                          captured.input_count, results, captured.output_count)
             : aster_ml_program_run(program, nullptr, given, captured.input_count, results,
                                    captured.output_count);
}

PyObject* slow_call(PyObject* self, PyObject* arguments, PyObject* keywords) {
  PyObject* method = PyObject_GetAttrString(self, "_slow_call");
  if (method == nullptr) return nullptr;
  PyObject* result = PyObject_Call(method, arguments, keywords);
  Py_DECREF(method);
  return result;
}

// The values of a call; false where there are others.
bool take_values(const Captured& captured, int64_t* values, PyObject* numbers) {
  if (static_cast<size_t>(PyTuple_Size(numbers)) != captured.value_count) return false;
  for (size_t i = 0; i < captured.value_count; ++i) {
    values[i] = PyLong_AsLongLong(PyTuple_GetItem(numbers, static_cast<Py_ssize_t>(i)));
    if (values[i] == -1 && PyErr_Occurred() != nullptr) return false;
  }
  return true;
}

// A call's result, or null; *fits: its arguments are as captured.
PyObject* call_captured(Captured* captured, PyObject* arguments, PyObject* keywords,
                        PyObject* numbers, bool* fits) {
  ++captured->users;
  PyObject* result = nullptr;
  {
    Call call("TinyJit", nullptr, 0, 0, 0);
    call.belong(captured->context);
    auto* given = call.room_of<aster_ml_tensor>(captured->input_count);
    auto* values = call.room_of<int64_t>(captured->value_count);
    auto* results = call.room_of<aster_ml_tensor>(captured->output_count);
    const bool ok = call.slow_if(
        fits,
        [&] {
          return (numbers == nullptr || take_values(*captured, values, numbers)) &&
                 take_inputs(*captured, given, arguments, keywords);
        },
        [&] { return replay(*captured, given, values, results); });
    if (ok) result = Py_NewRef(captured->result);
  }
  leave(captured);
  return result;
}

PyObject* jit_call(PyObject* self, PyObject* arguments, PyObject* keywords) {
  Captured* captured = as_jit(self)->captured;
  bool fits = false;
  if (captured == nullptr || captured->bound || g.capturing)
    return slow_call(self, arguments, keywords);
  PyObject* result = call_captured(captured, arguments, keywords, nullptr, &fits);
  if (fits || PyErr_Occurred() != nullptr) return result;
  return slow_call(self, arguments, keywords);
}

// _replay(tensors, numbers)
PyObject* jit_replay(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  Captured* captured = as_jit(self)->captured;
  Call call("_replay", arguments, count, 2, 2);
  if (call.failed()) return nullptr;
  for (Py_ssize_t i = 0; i < 2; ++i) {
    if (!PyTuple_Check(arguments[i])) {
      call.wrong_type(arguments[i], i == 0 ? "tensors" : "numbers", "a tuple");
      return nullptr;
    }
  }
  bool fits = false;
  PyObject* result = captured == nullptr || g.capturing
                         ? nullptr
                         : call_captured(captured, arguments[0], nullptr, arguments[1], &fits);
  return fits || PyErr_Occurred() != nullptr ? result : Py_NewRef(Py_NotImplemented);
}

// ---- Setting it up ----

bool read_input(Call& call, PyObject* item, Input* out) {
  const Py_ssize_t count = PyTuple_Check(item) ? PyTuple_Size(item) : 0;
  if (count != 3 && count != 4)
    return call.wrong_type(item, "inputs", "(position or name, shape, dtype code, symbolic=False)");
  PyObject* parts[4];
  for (Py_ssize_t i = 0; i < count; ++i) parts[i] = PyTuple_GetItem(item, i);
  Call reader("_set_captured", parts, count, 3, 4);
  if (PyUnicode_Check(parts[0])) {
    out->name = Py_NewRef(parts[0]);
  } else {
    out->position = static_cast<Py_ssize_t>(reader.size(0, "position"));
  }
  bool known = false;
  const int64_t* shape = reader.words(1, "shape", &out->ndim, &known, false);
  out->dtype = reader.integer32(2, "dtype");
  out->symbolic = reader.given(3) ? reader.flag(3, "symbolic") : 0;
  if (reader.failed()) return call.fail();
  out->shape = rows<int64_t>(out->ndim);
  if (out->shape == nullptr) return PyErr_NoMemory(), call.fail();
  if (out->ndim != 0) std::memcpy(out->shape, shape, out->ndim * sizeof(int64_t));
  return true;
}

bool read_outputs(Call& call, Captured* captured, PyObject* tuple) {
  for (size_t i = 0; i < captured->output_count; ++i) {
    PyObject* const item[1] = {PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i))};
    Call reader("_set_captured", item, 1, 1, 1);
    aster_ml_lazy* x = reader.lazy(0, "outputs");
    if (!pinned_view(reader, &captured->outputs[i], x, false)) return call.fail();
  }
  return true;
}

// _set_captured(program, inputs, outputs, result, variables=None)
PyObject* set_captured(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  Call call("_set_captured", arguments, count, 4, 5);
  const bool bound = call.given(4);
  const size_t value_count = bound ? call.size(4, "variables") : 0;
  if (call.failed() || call.handle(0, "program", *handle_type("Program")) == nullptr)
    return nullptr;
  PyObject* inputs = PySequence_Tuple(arguments[1]);
  PyObject* outputs = inputs == nullptr ? nullptr : PySequence_Tuple(arguments[2]);
  auto* captured = outputs == nullptr ? nullptr : rows<Captured>(1);
  bool ok = captured != nullptr;
  if (ok) {
    captured->users = 1;
    captured->input_count = static_cast<size_t>(PyTuple_Size(inputs));
    captured->output_count = static_cast<size_t>(PyTuple_Size(outputs));
    captured->inputs = rows<Input>(captured->input_count);
    captured->outputs = rows<aster_ml_tensor>(captured->output_count);
    captured->bound = bound;
    captured->value_count = value_count;
    captured->program = Py_NewRef(arguments[0]);
    captured->result = Py_NewRef(arguments[3]);
    captured->context = call.owner();
    Py_XINCREF(reinterpret_cast<PyObject*>(captured->context));
    ok = captured->inputs != nullptr && captured->outputs != nullptr;
  }
  if (!ok && PyErr_Occurred() == nullptr) PyErr_NoMemory();
  for (size_t i = 0; ok && i < captured->input_count; ++i)
    ok =
        read_input(call, PyTuple_GetItem(inputs, static_cast<Py_ssize_t>(i)), &captured->inputs[i]);
  ok = ok && read_outputs(call, captured, outputs);
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  Captured* before = ok ? as_jit(self)->captured : captured;
  if (ok) as_jit(self)->captured = captured;
  leave(before);
  return ok ? none() : nullptr;
}

PyObject* clear_captured(PyObject* self, PyObject*) {
  Captured* captured = as_jit(self)->captured;
  as_jit(self)->captured = nullptr;
  leave(captured);
  return none();
}

int jit_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<PyObject*>(Py_TYPE(self)));
  if (const Captured* captured = as_jit(self)->captured) {
    Py_VISIT(captured->program);
    Py_VISIT(captured->result);
  }
  return 0;
}

int jit_clear(PyObject* self) {
  Captured* captured = as_jit(self)->captured;
  as_jit(self)->captured = nullptr;
  leave(captured);
  return 0;
}

void jit_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (as_jit(self)->weak != nullptr) PyObject_ClearWeakRefs(self);
  jit_clear(self);
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyObject* set_capturing(PyObject*, PyObject* on) {
  const int flag = PyObject_IsTrue(on);
  if (flag < 0) return nullptr;
  g.capturing = flag == 1;
  return none();
}

PyMemberDef g_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(JitObject, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef g_methods[] = {
    {"_set_captured", as_method(set_captured), METH_FASTCALL,
     "_set_captured(program, inputs, outputs, result, variables=None)\n\n"
     "From now on a call whose arguments are the inputs, [(position or name, shape, dtype code,\n"
     "symbolic=False)], the shape being that of the whole tensor where sizes are variables, and\n"
     "beside them only numbers, texts and None, replays the program, writes the storages of the\n"
     "tensors outputs, and returns result. Other calls go to _slow_call; all do where a number of\n"
     "variables is given, whose values come with _replay."},
    {"_replay", as_method(jit_replay), METH_FASTCALL,
     "_replay(tensors, numbers)\n\n"
     "Replays the program on these inputs, whole tensors where sizes are variables, and values of\n"
     "its variables, and returns its result; NotImplemented where they are not as captured."},
    {"_clear_captured", clear_captured, METH_NOARGS,
     "_clear_captured()\n\nEvery call goes to _slow_call again."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot g_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(jit_dealloc)},
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_traverse, reinterpret_cast<void*>(jit_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(jit_clear)},
    {Py_tp_call, reinterpret_cast<void*>(jit_call)},
    {Py_tp_members, g_members},
    {Py_tp_methods, g_methods},
    {Py_tp_doc, const_cast<char*>("Base of TinyJit: replays a captured program when called.")},
    {0, nullptr},
};
PyType_Spec g_spec = {"aster_ml._native.Jit", sizeof(JitObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, g_slots};

}  // namespace

PyMethodDef kJitMethods[] = {
    {"set_capturing", set_capturing, METH_O,
     "set_capturing(on)\n\nWhile on, every call of a Jit goes to _slow_call."},
    {nullptr, nullptr, 0, nullptr},
};

bool add_jit_type(PyObject* module) {
  PyObject* type = PyType_FromModuleAndSpec(module, &g_spec, nullptr);
  g.jit_type = reinterpret_cast<PyTypeObject*>(type);
  return type != nullptr && PyModule_AddType(module, g.jit_type) == 0;
}

}  // namespace aster::python
