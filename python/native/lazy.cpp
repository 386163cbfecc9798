// The type of lazy tensors: a handle, its context, and the memory behind it as a buffer.
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {
namespace {

LazyObject* g_ring = nullptr;  // any one of the live tensors, under the GIL

void link(LazyObject* lazy) {
  if (g_ring == nullptr) {
    lazy->previous = lazy->next = g_ring = lazy;
    return;
  }
  lazy->previous = g_ring->previous;
  lazy->next = g_ring;
  lazy->previous->next = lazy->next->previous = lazy;
}

void unlink(LazyObject* lazy) {
  if (lazy->next == nullptr) return;
  if (g_ring == lazy) g_ring = lazy->next == lazy ? nullptr : lazy->next;
  lazy->previous->next = lazy->next;
  lazy->next->previous = lazy->previous;
  lazy->previous = lazy->next = nullptr;
}

// on_device(device, function, arguments)
PyObject* on_device(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("on_device", arguments, count, 3, 3);
  const aster_ml_context* context = call.context(count);
  const int32_t device = call.integer32(0, "device");
  int32_t before = 0;
  if (!PyTuple_Check(arguments[2])) {
    call.wrong_type(arguments[2], "arguments", "a tuple");
    return nullptr;
  }
  if (!call.quick([&] {
        const int32_t status = aster_ml_engine_device(&before, context);
        return status != 0 ? status : aster_ml_engine_set_device(context, device);
      }))
    return nullptr;
  PyObject* result = PyObject_CallObject(arguments[1], arguments[2]);
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  const bool back = call.quick([&] { return aster_ml_engine_set_device(context, before); });
  if (back || type != nullptr) PyErr_Restore(type, value, trace);
  if (!back) Py_CLEAR(result);
  return result;
}

// shares(x, y)
PyObject* shares(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("shares", arguments, count, 2, 2);
  aster_ml_lazy* x = call.lazy(0, "x");
  aster_ml_lazy* y = call.lazy(1, "y");
  int32_t shared = 0;
  if (!call.quick([&] { return aster_ml_lazy_shares_storage(&shared, x, y); })) return nullptr;
  return PyBool_FromLong(shared);
}

// live() -> the tensors that exist, oldest first.
PyObject* live(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  LazyObject* lazy = g_ring;
  if (list == nullptr || lazy == nullptr) return list;
  do {
    const bool dying = Py_REFCNT(reinterpret_cast<PyObject*>(lazy)) == 0;
    if (!dying && PyList_Append(list, reinterpret_cast<PyObject*>(lazy)) != 0) {
      Py_DECREF(list);
      return nullptr;
    }
    lazy = lazy->next;
  } while (lazy != g_ring);
  return list;
}

// Memory that the tensor alone held goes back at once: a collection costs what it reclaims.
void free_lazy(ContextObject* context, aster_ml_lazy handle) {
  if (handle.impl == nullptr) return;
  free_in(
      context,
      [](void* both) {
        void** parts = static_cast<void**>(both);
        aster_ml_lazy_free(static_cast<aster_ml_lazy*>(both));
        aster_ml_uop_collect(&static_cast<ContextObject*>(parts[1])->handle);
      },
      handle.impl, context);
}

void lazy_dealloc(PyObject* self) {
  LazyObject* lazy = as_lazy(self);
  unlink(lazy);
  if (lazy->weak != nullptr) PyObject_ClearWeakRefs(self);
  free_shown(lazy);
  free_lazy(lazy->context, lazy->value);
  auto* context = reinterpret_cast<PyObject*>(lazy->context);
  lazy->context = nullptr;
  Py_XDECREF(context);
  drop_pins();
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyMemberDef g_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(LazyObject, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

// replace(x, y): the object x becomes what y is now.
PyObject* replace(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("replace", arguments, count, 2, 2);
  if (!call.failed() && !is_lazy(arguments[0])) call.wrong_type(arguments[0], "x", "a tensor");
  const aster_ml_lazy* y = call.lazy(1, "y");
  aster_ml_lazy made = {nullptr};
  if (!call.quick([&] { return aster_ml_lazy_copy(&made, y); })) return nullptr;
  LazyObject* lazy = as_lazy(arguments[0]);
  const aster_ml_lazy before = lazy->value;
  if (lazy->next == nullptr) link(lazy);
  auto* context = reinterpret_cast<PyObject*>(lazy->context);
  lazy->value = made;
  lazy->context = call.owner();
  Py_INCREF(reinterpret_cast<PyObject*>(lazy->context));
  free_lazy(reinterpret_cast<ContextObject*>(context), before);
  Py_XDECREF(context);
  return none();
}

PyMethodDef g_methods[] = {
    {"__dlpack__", as_method(lazy_dlpack), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n\n"
     "The storage as a DLPack capsule, realised; it lives as long as its user."},
    {"__dlpack_device__", lazy_dlpack_device, METH_NOARGS,
     "__dlpack_device__()\n\n(1, 0): host memory; (3, 0) where it is pinned, (13, 0) unified."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef g_getset[] = {
    {"__array_interface__", lazy_array_interface, nullptr,
     "The storage, realised, as NumPy's array interface: address, shape, type. The memory lives "
     "as\n"
     "long as the tensor.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot g_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(lazy_dealloc)},
    {Py_tp_getset, g_getset},
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_members, g_members},
    {Py_tp_methods, g_methods},
    {Py_bf_getbuffer, reinterpret_cast<void*>(lazy_get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
    {Py_tp_doc,
     const_cast<char*>("A lazy tensor: a handle of the library. Empty when constructed.")},
    {0, nullptr},
};
PyType_Spec g_spec = {"aster_ml._native.Lazy", sizeof(LazyObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, g_slots};

}  // namespace

PyMethodDef kLazyMethods[] = {
    {"replace", as_method(replace), METH_FASTCALL,
     "replace(x, y)\n\nThe object x becomes a tensor of what y is now."},
    {"shares", as_method(shares), METH_FASTCALL,
     "shares(x, y)\n\nWhether two realised tensors are parts of one storage."},
    {"live", live, METH_NOARGS, "live()\n\nThe tensors that exist, oldest first."},
    {"on_device", as_method(on_device), METH_FASTCALL,
     "on_device(device, function, arguments)\n\n"
     "function(*arguments) while device is the default one. A function of this module: no other\n"
     "thread sees the device change."},
    {nullptr, nullptr, 0, nullptr},
};

bool add_lazy_type(PyObject* module) {
  PyObject* type = PyType_FromModuleAndSpec(module, &g_spec, nullptr);
  if (type == nullptr) return false;
  g.lazy_base = reinterpret_cast<PyTypeObject*>(type);
  g.lazy_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
  g.lazy_alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(g.lazy_type, Py_tp_alloc));
  return PyModule_AddType(module, g.lazy_base) == 0;
}

PyObject* make_lazy(ContextObject* context, aster_ml_lazy handle) {
  PyObject* self = g.lazy_alloc(g.lazy_type, 0);
  if (self == nullptr) {
    aster_ml_lazy_free(&handle);
    return nullptr;
  }
  LazyObject* lazy = as_lazy(self);
  lazy->value = handle;
  lazy->context = context;
  link(lazy);
  Py_INCREF(reinterpret_cast<PyObject*>(context));
  return self;
}

PyObject* make_moved(PyObject* x, ContextObject* context, aster_ml_lazy handle) {
  if (!is_lazy(x) || aster_ml_lazy_is_same(&as_lazy(x)->value, &handle) == 0)
    return make_lazy(context, handle);
  aster_ml_lazy_free(&handle);
  return Py_NewRef(x);
}

PyObject* make_lazies(ContextObject* context, aster_ml_lazy* handles, size_t count) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; i < count; ++i) {
    if (tuple == nullptr) {
      aster_ml_lazy_free(&handles[i]);
      continue;
    }
    PyObject* made = handles[i].impl == nullptr ? none() : make_lazy(context, handles[i]);
    if (made == nullptr || PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), made) != 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

}  // namespace aster::python
