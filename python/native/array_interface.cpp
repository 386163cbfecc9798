// NumPy's __array_interface__ in both directions.
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {

// A descriptor that keeps memory alive.
struct Shown {
  aster_ml_tensor tensor;
  Shown* next;
};

namespace {

// Kinds of elements: a letter, and for DLPack a code.
struct Kind {
  int32_t dtype;
  char letter;
  uint8_t code;
};
constexpr Kind kKinds[] = {
    {ASTER_ML_DTYPE_BOOL, 'b', 6},    {ASTER_ML_DTYPE_INT8, 'i', 0},
    {ASTER_ML_DTYPE_INT16, 'i', 0},   {ASTER_ML_DTYPE_INT32, 'i', 0},
    {ASTER_ML_DTYPE_INT64, 'i', 0},   {ASTER_ML_DTYPE_UINT8, 'u', 1},
    {ASTER_ML_DTYPE_UINT16, 'u', 1},  {ASTER_ML_DTYPE_UINT32, 'u', 1},
    {ASTER_ML_DTYPE_UINT64, 'u', 1},  {ASTER_ML_DTYPE_FLOAT16, 'f', 2},
    {ASTER_ML_DTYPE_FLOAT32, 'f', 2}, {ASTER_ML_DTYPE_FLOAT64, 'f', 2},
};

// ---- Out ----

// Takes the descriptor over: its memory lives as long as the object.
bool show(LazyObject* lazy, aster_ml_tensor* tensor) {
  if (lazy->shown != nullptr && lazy->shown->tensor.storage.data == tensor->storage.data) {
    aster_ml_tensor_free(tensor);
    return true;
  }
  auto* shown = static_cast<Shown*>(std::malloc(sizeof(Shown)));
  if (shown == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  *shown = {*tensor, lazy->shown};
  lazy->shown = shown;
  return true;
}

PyObject* interface_of(const aster_ml_tensor& tensor, char letter) {
  const size_t item = aster_ml_dtype_size(tensor.dtype);
  PyObject* shape = PyTuple_New(static_cast<Py_ssize_t>(tensor.ndim));
  for (size_t i = 0; shape != nullptr && i < tensor.ndim; ++i) {
    PyObject* dim = PyLong_FromSize_t(tensor.shape[i]);
    if (dim == nullptr || PyTuple_SetItem(shape, static_cast<Py_ssize_t>(i), dim) != 0)
      Py_CLEAR(shape);
  }
  if (shape == nullptr) return nullptr;
  char type[16];
  const char order = item == 1 ? '|' : __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
  PyOS_snprintf(type, sizeof(type), "%c%c%zu", order, letter, item);
  // What has no elements has no address, which NumPy wants nevertheless.
  static char nothing[16];
  char* data = static_cast<char*>(tensor.storage.data);
  data = data == nullptr ? nothing : data + tensor.byte_offset;
  PyObject* read_only = aster_ml_buffer_is_read_only(&tensor.storage) != 0 ? Py_True : Py_False;
  return Py_BuildValue("{s(NO)sNsss[(ss)]sOsi}", "data", PyLong_FromVoidPtr(data), read_only,
                       "shape", shape, "typestr", type, "descr", "", type, "strides", Py_None,
                       "version", 3);
}

// ---- In ----

struct ObjectPin : StandIn {
  PyObject* object;     // whose memory it is
  PyObject* interface;  // what it said
  int64_t* axes;        // shape, then strides
  Py_buffer buffer;     // where the memory is that of another object
};

void drop_object(Pin* pin) {
  auto* held = static_cast<ObjectPin*>(pin);
  if (held->buffer.obj != nullptr) PyBuffer_Release(&held->buffer);
  Py_XDECREF(held->interface);
  Py_XDECREF(held->object);
  std::free(held->axes);
  std::free(held);
}

// A key of the interface, borrowed; null where it is missing or None.
PyObject* part(PyObject* interface, const char* key) {
  PyObject* found = PyDict_GetItemString(interface, key);
  return found == Py_None ? nullptr : found;
}

bool wrong(const char* what) {
  PyErr_Format(PyExc_ValueError, "from_array_interface: %s", what);
  return false;
}

bool read_axes(int64_t* out, PyObject* tuple, size_t ndim, const char* what) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != static_cast<Py_ssize_t>(ndim))
    return wrong(what);
  for (size_t i = 0; i < ndim; ++i) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i)));
    if (out[i] == -1 && PyErr_Occurred() != nullptr) return false;
  }
  return true;
}

bool read_type(aster_ml_dlpack_dtype* out, PyObject* type) {
  const char* text =
      type == nullptr || !PyUnicode_Check(type) ? nullptr : PyUnicode_AsUTF8AndSize(type, nullptr);
  if (text == nullptr || std::strlen(text) < 3) return wrong("typestr is missing or no type");
  const long item = std::strtol(text + 2, nullptr, 10);
  const char foreign = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '>' : '<';
  if (text[0] == foreign && item > 1) {
    PyErr_Format(PyExc_ValueError,
                 "from_array_interface: elements of type '%s' are of the other byte order: convert "
                 "them first",
                 text);
    return false;
  }
  for (const Kind& kind : kKinds) {
    if (kind.letter != text[1] || aster_ml_dtype_size(kind.dtype) != static_cast<size_t>(item))
      continue;
    *out = {kind.code, static_cast<uint8_t>(8 * item), 1};
    return true;
  }
  PyErr_Format(PyExc_TypeError, "from_array_interface: no dtype for elements of type '%s'", text);
  return false;
}

// (address, read-only), or an object with a buffer.
bool read_data(ObjectPin* pin, PyObject* data) {
  aster_ml_dlpack_tensor& tensor = pin->managed.tensor;
  int read_only;
  if (PyTuple_Check(data) && PyTuple_Size(data) == 2) {
    tensor.data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
    if (PyErr_Occurred() != nullptr) return false;
    read_only = PyObject_IsTrue(PyTuple_GetItem(data, 1));
  } else {
    if (PyObject_GetBuffer(data, &pin->buffer, PyBUF_SIMPLE) != 0) return false;
    PyObject* offset = part(pin->interface, "offset");
    const long long at = offset == nullptr ? 0 : PyLong_AsLongLong(offset);
    if (PyErr_Occurred() != nullptr) return false;
    if (at < 0) return wrong("a negative offset");
    if (tensor.strides != nullptr) return wrong("strides beside data that is a buffer");
    tensor.data = pin->buffer.buf;
    tensor.byte_offset = static_cast<uint64_t>(at);
    int64_t bytes = tensor.dtype.bits / 8;
    bool over = false;
    for (int32_t i = 0; i < tensor.ndim; ++i)
      over = over || __builtin_mul_overflow(bytes, tensor.shape[i], &bytes);
    if (over || __builtin_add_overflow(bytes, at, &bytes) || bytes > pin->buffer.len)
      return wrong("the data has fewer bytes than the shape says");
    read_only = pin->buffer.readonly;
  }
  pin->managed.flags = read_only == 1 ? ASTER_ML_DLPACK_READ_ONLY : 0;
  return read_only >= 0;
}

bool read_interface(ObjectPin* pin) {
  PyObject* interface = pin->interface;
  PyObject* shape = part(interface, "shape");
  PyObject* strides = part(interface, "strides");
  PyObject* data = part(interface, "data");
  aster_ml_dlpack_tensor& tensor = pin->managed.tensor;
  if (part(interface, "mask") != nullptr) return wrong("a mask has no place in a tensor");
  if (data == nullptr || shape == nullptr || !PyTuple_Check(shape))
    return wrong("data or shape is missing");
  const auto ndim = static_cast<size_t>(PyTuple_Size(shape));
  pin->axes = static_cast<int64_t*>(std::calloc(2 * ndim + 1, sizeof(int64_t)));
  if (pin->axes == nullptr) return PyErr_NoMemory(), false;
  tensor.device = {ASTER_ML_DLPACK_CPU, 0};
  tensor.ndim = static_cast<int32_t>(ndim);
  tensor.shape = pin->axes;
  if (!read_type(&tensor.dtype, part(interface, "typestr")) ||
      !read_axes(pin->axes, shape, ndim, "shape is no tuple"))
    return false;
  if (strides != nullptr) tensor.strides = pin->axes + ndim;
  if (!read_data(pin, data)) return false;
  if (strides == nullptr) return true;
  if (!read_axes(tensor.strides, strides, ndim, "strides are not as many as dimensions"))
    return false;
  const int64_t item = tensor.dtype.bits / 8;
  for (size_t i = 0; i < ndim; ++i) {
    if (tensor.strides[i] % item != 0) return wrong("strides that are no multiples of an element");
    tensor.strides[i] /= item;
  }
  return true;
}

// from_array_interface(obj, copy=None, context=None)
PyObject* from_array_interface(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("from_array_interface", arguments, count, 1, 3);
  const int may_copy = wants_copy(call);
  if (call.failed()) return nullptr;
  auto* pin = static_cast<ObjectPin*>(std::calloc(1, sizeof(ObjectPin)));
  if (pin == nullptr) return PyErr_NoMemory();
  pin->drop = drop_object;
  pin->object = Py_NewRef(call.argument(0));
  pin->interface = PyObject_GetAttrString(pin->object, "__array_interface__");
  bool ok = pin->interface != nullptr;
  if (ok && !PyDict_Check(pin->interface)) ok = wrong("__array_interface__ is no dict");
  if (ok && read_interface(pin)) return lazy_in(call, pin, may_copy);
  give_back(pin);
  return nullptr;
}

}  // namespace

PyObject* lazy_array_interface(PyObject* self, void*) {
  PyObject* const one[1] = {self};
  Call call("__array_interface__", one, 1, 1, 1);
  aster_ml_lazy* x = call.lazy(0, "tensor");
  aster_ml_tensor tensor;
  // What NumPy has no type for has no such attribute.
  const auto unknown = [](int32_t dtype) {
    PyErr_Format(PyExc_AttributeError, "__array_interface__: NumPy has no type for %s",
                 aster_ml_dtype_name(dtype));
    return nullptr;
  };
  if (!host_view(call, &tensor, x, true)) return nullptr;
  const Kind* kind = nullptr;
  for (const Kind& row : kKinds) {
    if (row.dtype == tensor.dtype) kind = &row;
  }
  PyObject* made = kind == nullptr ? unknown(tensor.dtype) : interface_of(tensor, kind->letter);
  if (made == nullptr || !show(as_lazy(self), &tensor)) {
    aster_ml_tensor_free(&tensor);
    Py_CLEAR(made);
  }
  return made;
}

void free_shown(LazyObject* lazy) {
  while (lazy->shown != nullptr) {
    Shown* shown = lazy->shown;
    lazy->shown = shown->next;
    aster_ml_tensor_free(&shown->tensor);
    std::free(shown);
  }
}

PyMethodDef kInterfaceMethods[] = {
    {"from_array_interface", as_method(from_array_interface), METH_FASTCALL,
     "from_array_interface(obj, copy=None, context=None)\n\n"
     "A tensor of the memory of an object with __array_interface__: in place where its strides\n"
     "nest, unless copy is True; copy False: in place, for writing too, or BufferError."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace aster::python
