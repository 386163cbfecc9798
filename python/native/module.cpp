// The module: its state, exceptions, the current context, and the handle types.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {

State g;

namespace {

// ---- Exceptions ----

struct Default {
  int32_t status;
  PyObject** type;
};

// "aster_ml_lazy_add" -> "add": what a user called.
const char* operation_of(const char* function) {
  constexpr const char* kPrefixes[] = {"aster_ml_lazy_", "aster_ml_"};
  for (const char* prefix : kPrefixes) {
    const size_t length = std::strlen(prefix);
    if (std::strncmp(function, prefix, length) == 0) return function + length;
  }
  return function;
}

}  // namespace

PyObject* exception_of(int32_t status) {
  if (g.errors != nullptr) {
    PyObject* key = PyLong_FromLong(status);
    PyObject* found = key == nullptr ? nullptr : PyDict_GetItemWithError(g.errors, key);
    Py_XDECREF(key);
    if (found != nullptr) return found;
    PyErr_Clear();
  }
  const Default defaults[] = {{ASTER_ML_ARGUMENT, &PyExc_ValueError},
                              {ASTER_ML_SHAPE, &PyExc_ValueError},
                              {ASTER_ML_DTYPE, &PyExc_TypeError},
                              {ASTER_ML_RANGE, &PyExc_IndexError},
                              {ASTER_ML_MEMORY, &PyExc_MemoryError},
                              {ASTER_ML_NOT_FOUND, &PyExc_KeyError},
                              {ASTER_ML_UNSUPPORTED, &PyExc_NotImplementedError},
                              {ASTER_ML_IO, &PyExc_OSError},
                              {ASTER_ML_FORMAT, &PyExc_ValueError}};
  for (const Default& row : defaults)
    if (row.status == status) return *row.type;
  return PyExc_RuntimeError;
}

bool raise_status(int32_t status) {
  if (PyErr_Occurred() != nullptr) return false;
  aster_ml_error record;
  std::memset(&record, 0, sizeof(record));
  aster_ml_error_last(&record);
  PyObject* text;
  if (record.code == status && record.message[0] != 0) {
    text = PyUnicode_FromFormat("%s: %s", operation_of(record.function), record.message);
  } else {
    text = PyUnicode_FromString(aster_ml_status_text(status));
  }
  if (text != nullptr) PyErr_SetObject(exception_of(status), text);
  Py_XDECREF(text);
  return false;
}

// ---- Contexts ----

namespace {

void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

void context_dealloc(PyObject* self) {
  auto* context = reinterpret_cast<ContextObject*>(self);
  if (context->weak != nullptr) PyObject_ClearWeakRefs(self);
  aster_ml_context_free(&context->handle);
  if (context->lock != nullptr) PyThread_free_lock(context->lock);
  drop_pins();
  free_object(self);
}

PyMemberDef g_context_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ContextObject, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot g_context_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(context_dealloc)},
    {Py_tp_members, g_context_members},
    {Py_tp_doc, const_cast<char*>("Owns graphs, caches and device state; made by context_init.")},
    {0, nullptr},
};
PyType_Spec g_context_spec = {"aster_ml._native.Context", sizeof(ContextObject), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, g_context_slots};

}  // namespace

bool add_context_type(PyObject* module) {
  PyObject* type = PyType_FromModuleAndSpec(module, &g_context_spec, nullptr);
  g.context_type = reinterpret_cast<PyTypeObject*>(type);
  return type != nullptr && PyModule_AddType(module, g.context_type) == 0;
}

PyObject* make_context(aster_ml_context handle) {
  PyObject* self = PyType_GenericAlloc(g.context_type, 0);
  auto* context = reinterpret_cast<ContextObject*>(self);
  PyThread_type_lock lock = self == nullptr ? nullptr : PyThread_allocate_lock();
  if (lock == nullptr) {
    aster_ml_context_free(&handle);
    Py_XDECREF(self);
    return self == nullptr ? nullptr : PyErr_NoMemory();
  }
  context->handle = handle;
  context->lock = lock;
  return self;
}

ContextObject* current_context() {
  if (g.current != nullptr) return g.current;
  aster_ml_context handle = {nullptr};
  aster_ml_context_options options;
  const int32_t status = aster_ml_context_init(&handle, for_python(&options, nullptr));
  if (status != 0) {
    raise_status(status);
    return nullptr;
  }
  g.current = reinterpret_cast<ContextObject*>(make_context(handle));
  return g.current;
}

// ---- Handles ----

namespace {

HandleType* type_row(PyTypeObject* type) {
  for (; type != nullptr; type = static_cast<PyTypeObject*>(PyType_GetSlot(type, Py_tp_base))) {
    for (size_t i = 0; i < kHandleTypeCount; ++i)
      if (kHandleTypes[i].type == type) return &kHandleTypes[i];
  }
  return nullptr;
}

template <class T>
void leave_context(Object<T>* object) {
  auto* context = reinterpret_cast<PyObject*>(object->context);
  object->context = nullptr;
  Py_XDECREF(context);
}

void handle_dealloc(PyObject* self) {
  auto* object = reinterpret_cast<Object<void*>*>(self);
  if (object->weak != nullptr) PyObject_ClearWeakRefs(self);
  if (object->value != nullptr) {
    const HandleType* row = type_row(Py_TYPE(self));
    free_in(
        object->context,
        [](void* both) {
          void** parts = static_cast<void**>(both);
          static_cast<const HandleType*>(parts[1])->free(&parts[0]);
        },
        object->value, const_cast<HandleType*>(row));
  }
  leave_context(object);
  drop_pins();
  free_object(self);
}

PyMemberDef g_handle_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Object<void*>, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot g_handle_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(handle_dealloc)},
    {Py_tp_members, g_handle_members},
    {0, nullptr},
};

// Nodes of the graph: equal nodes of a context are one address.
void uop_dealloc(PyObject* self) {
  auto* object = reinterpret_cast<UopObject*>(self);
  if (object->weak != nullptr) PyObject_ClearWeakRefs(self);
  if (object->value != nullptr) {
    free_in(
        object->context,
        [](void* both) {
          void** parts = static_cast<void**>(both);
          aster_ml_uop_release(&static_cast<ContextObject*>(parts[1])->handle,
                               static_cast<aster_ml_uop*>(parts[0]));
        },
        const_cast<aster_ml_uop*>(object->value), object->context);
  }
  leave_context(object);
  free_object(self);
}

Py_hash_t uop_hash(PyObject* self) {
  return static_cast<Py_hash_t>(
      reinterpret_cast<uintptr_t>(reinterpret_cast<UopObject*>(self)->value) >> 4);
}

PyObject* uop_compare(PyObject* a, PyObject* b, int operation) {
  if ((operation != Py_EQ && operation != Py_NE) || !PyObject_TypeCheck(b, g.uop_type))
    return Py_NewRef(Py_NotImplemented);
  const bool same =
      reinterpret_cast<UopObject*>(a)->value == reinterpret_cast<UopObject*>(b)->value;
  return PyBool_FromLong(same == (operation == Py_EQ));
}

PyType_Slot g_uop_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(uop_dealloc)},
    {Py_tp_members, g_handle_members},
    {Py_tp_hash, reinterpret_cast<void*>(uop_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(uop_compare)},
    {Py_tp_doc, const_cast<char*>("A node of the graph, kept while this object lives.")},
    {0, nullptr},
};

void tensor_dealloc(PyObject* self) {
  auto* object = reinterpret_cast<TensorObject*>(self);
  if (object->weak != nullptr) PyObject_ClearWeakRefs(self);
  aster_ml_tensor_free(&object->value);
  leave_context(object);
  drop_pins();
  free_object(self);
}

PyType_Slot g_tensor_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
    {Py_tp_members, g_handle_members},
    {Py_tp_doc, const_cast<char*>("A concrete tensor: a dense strided descriptor of memory.")},
    {0, nullptr},
};

void view_dealloc(PyObject* self) {
  auto* object = reinterpret_cast<ViewObject*>(self);
  if (object->weak != nullptr) PyObject_ClearWeakRefs(self);
  aster_ml_view_free(&object->value);
  leave_context(object);
  drop_pins();
  free_object(self);
}

PyType_Slot g_view_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(view_dealloc)},
    {Py_tp_members, g_handle_members},
    {Py_bf_getbuffer, reinterpret_cast<void*>(view_get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
    {Py_tp_doc, const_cast<char*>("A view of memory: byte strides, kind, owner and flags.")},
    {0, nullptr},
};

PyTypeObject* add_type(PyObject* module, const char* name, size_t bytes, PyType_Slot* slots) {
  char full[80];
  PyOS_snprintf(full, sizeof(full), "aster_ml._native.%s", name);
  // The name of a heap type is copied.
  PyType_Spec spec = {full, static_cast<int>(bytes), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  PyObject* type = PyType_FromModuleAndSpec(module, &spec, nullptr);
  if (type != nullptr && PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type)) != 0)
    Py_CLEAR(type);
  return reinterpret_cast<PyTypeObject*>(type);
}

template <class T>
PyObject* make_object(PyTypeObject* type, ContextObject* context, const T& value) {
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* object = reinterpret_cast<Object<T>*>(self);
  object->value = value;
  object->context = context;
  Py_XINCREF(reinterpret_cast<PyObject*>(context));
  return self;
}

}  // namespace

bool add_handle_types(PyObject* module) {
  for (size_t i = 0; i < kHandleTypeCount; ++i) {
    HandleType& row = kHandleTypes[i];
    row.type = add_type(module, row.name, sizeof(Object<void*>), g_handle_slots);
    if (row.type == nullptr) return false;
  }
  g.uop_type = add_type(module, "Uop", sizeof(UopObject), g_uop_slots);
  g.tensor_type = add_type(module, "ConcreteTensor", sizeof(TensorObject), g_tensor_slots);
  g.view_type = add_type(module, "View", sizeof(ViewObject), g_view_slots);
  return g.uop_type != nullptr && g.tensor_type != nullptr && g.view_type != nullptr;
}

const HandleType* handle_type(const char* name) {
  size_t at = 0;
  while (at + 1 < kHandleTypeCount && std::strcmp(kHandleTypes[at].name, name) != 0) ++at;
  return &kHandleTypes[at];
}

PyObject* make_handle(const HandleType& type, ContextObject* context, void* impl) {
  PyObject* self = make_object(type.type, context, impl);
  if (self == nullptr) type.free(&impl);
  return self;
}

PyObject* make_uop(ContextObject* context, const aster_ml_uop* retained) {
  if (retained == nullptr) return none();
  PyObject* self = make_object(g.uop_type, context, retained);
  if (self == nullptr) aster_ml_uop_release(&context->handle, retained);
  return self;
}

PyObject* make_tensor(ContextObject* context, const aster_ml_tensor& tensor) {
  PyObject* self = make_object(g.tensor_type, context, tensor);
  if (self == nullptr) {
    aster_ml_tensor copy = tensor;
    aster_ml_tensor_free(&copy);
  }
  return self;
}

PyObject* make_view(ContextObject* context, const aster_ml_buffer_view& view) {
  PyObject* self = make_object(g.view_type, context, view);
  if (self == nullptr) {
    aster_ml_buffer_view copy = view;
    aster_ml_view_free(&copy);
  }
  return self;
}

// ---- Pins ----

namespace {

std::atomic<Pin*> g_released{nullptr};

int drop_pending(void*) {
  drop_pins();
  return 0;
}

}  // namespace

void release_pin(void* self, void*, size_t) {
  Pin* pin = static_cast<Pin*>(self);
  pin->next = g_released.load();
  while (!g_released.compare_exchange_weak(pin->next, pin)) {
  }
  // Where the queue is full, the next call into the library does it.
  if (Py_IsInitialized() != 0) Py_AddPendingCall(drop_pending, nullptr);
}

void give_back(Pin* pin) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  pin->drop(pin);
  PyErr_Restore(type, value, trace);
}

void drop_pins() {
  if (g_released.load(std::memory_order_relaxed) == nullptr) return;
  Pin* pin = g_released.exchange(nullptr);
  while (pin != nullptr) {
    Pin* next = pin->next;
    give_back(pin);
    pin = next;
  }
}

// ---- Results ----

PyObject* text_of(const char* text) {
  return text == nullptr
             ? none()
             : PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace");
}

PyObject* scalar_of(const aster_ml_scalar& scalar) {
  double real = 0;
  int64_t whole = 0;
  uint64_t natural = 0;
  PyObject* number = nullptr;
  if (aster_ml_dtype_is_float(scalar.dtype) != 0) {
    if (aster_ml_scalar_to_double(&real, &scalar) == 0) number = PyFloat_FromDouble(real);
  } else if (scalar.dtype == ASTER_ML_DTYPE_BOOL) {
    if (aster_ml_scalar_to_int64(&whole, &scalar) == 0) number = PyBool_FromLong(whole != 0);
  } else if (aster_ml_dtype_is_unsigned(scalar.dtype) != 0) {
    if (aster_ml_scalar_to_uint64(&natural, &scalar) == 0)
      number = PyLong_FromUnsignedLongLong(natural);
  } else if (aster_ml_scalar_to_int64(&whole, &scalar) == 0) {
    number = PyLong_FromLongLong(whole);
  }
  if (number == nullptr && PyErr_Occurred() == nullptr) raise_status(ASTER_ML_UNSUPPORTED);
  return number == nullptr ? nullptr : Py_BuildValue("(Ni)", number, scalar.dtype);
}

PyObject* tuple_of(const int64_t* words, size_t count) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; tuple != nullptr && i < count; ++i) {
    PyObject* item = PyLong_FromLongLong(words[i]);
    if (item == nullptr || PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), item) != 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject* dict_of(const StructInfo& info, const void* fields) {
  PyObject* dict = PyDict_New();
  for (size_t i = 0; dict != nullptr && i < info.count; ++i) {
    const FieldInfo& field = info.fields[i];
    const char* place = static_cast<const char*>(fields) + field.offset;
    PyObject* value;
    int32_t i32;
    uint64_t u64;
    double f64;
    const char* text;
    const int64_t* words;
    std::memcpy(&i32, place, sizeof(i32));
    switch (field.kind) {
      case Field::kI32:
        value = PyLong_FromLong(i32);
        break;
      case Field::kU32:
        value = PyLong_FromUnsignedLong(static_cast<uint32_t>(i32));
        break;
      case Field::kI64:
      case Field::kU64:
        std::memcpy(&u64, place, sizeof(u64));
        value = field.kind == Field::kU64 ? PyLong_FromUnsignedLongLong(u64)
                                          : PyLong_FromLongLong(static_cast<int64_t>(u64));
        break;
      case Field::kF64:
        std::memcpy(&f64, place, sizeof(f64));
        value = PyFloat_FromDouble(f64);
        break;
      case Field::kWords:
        std::memcpy(&words, place, sizeof(words));
        std::memcpy(&u64, static_cast<const char*>(fields) + field.length, sizeof(u64));
        value = tuple_of(words, u64);
        break;
      case Field::kText:
        std::memcpy(&text, place, sizeof(text));
        value = text_of(text);
        break;
      case Field::kChars:
        value = text_of(place);
        break;
      default:
        value = none();
    }
    if (value == nullptr || PyDict_SetItemString(dict, field.name, value) != 0) Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  return dict;
}

// ---- Functions of the module itself ----

namespace {

PyObject* set_errors(PyObject*, PyObject* mapping) {
  if (!PyDict_Check(mapping)) {
    PyErr_SetString(PyExc_TypeError, "set_errors: a dict of status codes to exception classes");
    return nullptr;
  }
  PyObject* copy = PyDict_Copy(mapping);
  if (copy == nullptr) return nullptr;
  Py_XDECREF(g.errors);
  g.errors = copy;
  return none();
}

PyObject* current(PyObject*, PyObject*) {
  return Py_XNewRef(reinterpret_cast<PyObject*>(current_context()));
}

PyObject* set_current(PyObject*, PyObject* context) {
  if (context != Py_None && !PyObject_TypeCheck(context, g.context_type)) {
    PyErr_SetString(PyExc_TypeError, "set_current: a Context or None");
    return nullptr;
  }
  PyObject* before = reinterpret_cast<PyObject*>(g.current);
  g.current = context == Py_None ? nullptr : reinterpret_cast<ContextObject*>(Py_NewRef(context));
  Py_XDECREF(before);
  return none();
}

PyObject* set_lazy_type(PyObject*, PyObject* type) {
  auto* made = reinterpret_cast<PyTypeObject*>(type);
  if (!PyType_Check(type) || PyType_IsSubtype(made, g.lazy_base) == 0) {
    PyErr_SetString(PyExc_TypeError, "set_lazy_type: a subclass of Lazy");
    return nullptr;
  }
  g.lazy_alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(made, Py_tp_alloc));
  PyTypeObject* before = g.lazy_type;
  g.lazy_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
  Py_XDECREF(reinterpret_cast<PyObject*>(before));
  return none();
}

PyObject* set_function(PyObject** place, PyObject* function, const char* name) {
  if (PyCallable_Check(function) == 0) return PyErr_Format(PyExc_TypeError, "%s: a function", name);
  PyObject* before = *place;
  *place = Py_NewRef(function);
  Py_XDECREF(before);
  return none();
}

PyObject* set_operand(PyObject*, PyObject* convert) {
  return set_function(&g.operand, convert, "set_operand");
}

PyObject* set_size(PyObject*, PyObject* convert) {
  return set_function(&g.size, convert, "set_size");
}

PyObject* set_warn(PyObject*, PyObject* warn) { return set_function(&g.warn, warn, "set_warn"); }

}  // namespace

PyMethodDef kModuleMethods[] = {
    {"set_errors", set_errors, METH_O,
     "set_errors(mapping)\n\nException classes by status code; other codes keep the built-in one."},
    {"set_lazy_type", set_lazy_type, METH_O,
     "set_lazy_type(cls)\n\nThe subclass of Lazy that results are, made without calling __init__."},
    {"set_operand", set_operand, METH_O,
     "set_operand(convert)\n\nconvert(x, like) gives the tensor or number that an operand x of "
     "another\nkind stands for, or None; like is a tensor beside it, or None."},
    {"set_size", set_size, METH_O,
     "set_size(convert)\n\nconvert(expression) gives what a size that is an expression of bound "
     "variables, a\nUop, is in shapes."},
    {"set_warn", set_warn, METH_O,
     "set_warn(warn)\n\nwarn(line) is called after a call that made the library log a line."},
    {"current", current, METH_NOARGS,
     "current()\n\nThe current context; the first call makes one."},
    {"set_current", set_current, METH_O,
     "set_current(context)\n\nThe context that functions use where none is given; None: a new "
     "one."},
    {nullptr, nullptr, 0, nullptr},
};

namespace {

PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "aster_ml._native",
                        "The C functions of libaster_ml: aster_ml_X is X here.",
                        -1,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

}  // namespace
}  // namespace aster::python

PyMODINIT_FUNC PyInit__native() {
  using namespace aster::python;  // NOLINT: the one public function
  PyObject* module = PyModule_Create(&g_module);
  if (module == nullptr) return nullptr;
  bool ok = add_context_type(module) && add_handle_types(module) && add_lazy_type(module) &&
            add_jit_type(module);
  for (PyMethodDef* methods : {kModuleMethods, kGeneratedMethods, kSpecialMethods, kExchangeMethods,
                               kDlpackMethods, kInterfaceMethods, kCodegenMethods, kPortableMethods,
                               kRegistryMethods, kLazyMethods, kJitMethods})
    ok = ok && PyModule_AddFunctions(module, methods) == 0;
  for (const Constant* constant = kConstants; ok && constant->name != nullptr; ++constant) {
    PyObject* value = PyLong_FromLongLong(constant->value);
    ok = value != nullptr && PyModule_AddObjectRef(module, constant->name, value) == 0;
    Py_XDECREF(value);
  }
  if (ok) return module;
  Py_DECREF(module);
  return nullptr;
}
