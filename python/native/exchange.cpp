// The buffer protocol in both directions: storages lent to Python, memory of Python objects used.
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "native.h"

namespace aster::python {
namespace {

// Element formats of the buffer protocol, native and without padding.
struct Format {
  int32_t dtype;
  const char* format;
};
constexpr Format kFormats[] = {
    {ASTER_ML_DTYPE_BOOL, "?"},
    {ASTER_ML_DTYPE_INT8, "b"},
    {ASTER_ML_DTYPE_UINT8, "B"},
    {ASTER_ML_DTYPE_INT16, "h"},
    {ASTER_ML_DTYPE_UINT16, "H"},
    {ASTER_ML_DTYPE_INT32, "i"},
    {ASTER_ML_DTYPE_UINT32, "I"},
    {ASTER_ML_DTYPE_INT64, "l"},
    {ASTER_ML_DTYPE_UINT64, "L"},
    {ASTER_ML_DTYPE_INT64, "q"},
    {ASTER_ML_DTYPE_UINT64, "Q"},
    {ASTER_ML_DTYPE_FLOAT16, "e"},
    {ASTER_ML_DTYPE_FLOAT32, "f"},
    {ASTER_ML_DTYPE_FLOAT64, "d"},
    {ASTER_ML_DTYPE_UINT8, "c"},
    // Structures of their words, the least significant first.
    {ASTER_ML_DTYPE_FLT256, "T{(4)Q:words:}"},
    {ASTER_ML_DTYPE_FLT512, "T{(8)Q:words:}"},
};

// What an exported buffer holds on to.
struct Lent {
  aster_ml_tensor tensor;
  Py_ssize_t* axes;  // shape, then strides in bytes
};

char g_nothing[64];  // where a buffer of no elements begins

const char* format_of(int32_t dtype) {
  for (const Format& row : kFormats)
    if (row.dtype == dtype) return row.format;
  return nullptr;
}

void free_lent(Lent* lent) {
  aster_ml_tensor_free(&lent->tensor);
  std::free(lent->axes);
  std::free(lent);
}

bool fill_axes(Lent* lent, size_t item) {
  const size_t ndim = lent->tensor.ndim;
  lent->axes = static_cast<Py_ssize_t*>(std::malloc((2 * ndim + 1) * sizeof(Py_ssize_t)));
  for (size_t i = 0; lent->axes != nullptr && i < ndim; ++i) {
    lent->axes[i] = static_cast<Py_ssize_t>(lent->tensor.shape[i]);
    lent->axes[ndim + i] = lent->tensor.strides[i] * static_cast<Py_ssize_t>(item);
  }
  return lent->axes != nullptr;
}

}  // namespace

namespace {

// Lends what a descriptor describes, which is freed when it is given back.
int lend(PyObject* self, Py_buffer* view, int flags, Lent* lent, bool ok) {
  const aster_ml_tensor& tensor = lent->tensor;
  const size_t item = aster_ml_dtype_size(tensor.dtype);
  const char* format = format_of(tensor.dtype);
  const bool read_only = aster_ml_buffer_is_read_only(&tensor.storage) != 0;
  const bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  const char* wrong = nullptr;
  if (read_only && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE)
    wrong = "the memory of this tensor is read-only";
  if (!strided && aster_ml_tensor_is_contiguous(&tensor) == 0)
    wrong = "the elements are not row-major, and strides are not asked for";
  if (ok && format == nullptr) {
    ok = false;
    PyErr_Format(PyExc_BufferError,
                 "buffers have no format for %s: bitcast it to an unsigned integer, or cast it",
                 aster_ml_dtype_name(tensor.dtype));
  }
  if (ok && wrong != nullptr) {
    ok = false;
    PyErr_SetString(PyExc_BufferError, wrong);
  }
  if (ok && !fill_axes(lent, item)) {
    ok = false;
    PyErr_NoMemory();
  }
  if (!ok) {
    free_lent(lent);
    return -1;
  }
  const size_t count = aster_ml_tensor_count(&tensor);
  view->buf = count == 0 ? g_nothing : static_cast<char*>(tensor.storage.data) + tensor.byte_offset;
  view->len = static_cast<Py_ssize_t>(count * item);
  view->readonly = read_only ? 1 : 0;
  view->itemsize = static_cast<Py_ssize_t>(item);
  view->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  view->ndim = static_cast<int>(tensor.ndim);
  view->shape = (flags & PyBUF_ND) == PyBUF_ND ? lent->axes : nullptr;
  view->strides = strided ? lent->axes + tensor.ndim : nullptr;
  view->suboffsets = nullptr;
  view->internal = lent;
  view->obj = Py_NewRef(self);
  return 0;
}

}  // namespace

int lazy_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  PyObject* const one[1] = {self};
  Call call("memoryview", one, 1, 1, 1);
  aster_ml_lazy* x = call.lazy(0, "tensor");
  auto* lent = static_cast<Lent*>(std::calloc(1, sizeof(Lent)));
  if (lent == nullptr) return PyErr_NoMemory(), -1;
  constexpr int kContiguous = PyBUF_C_CONTIGUOUS | PyBUF_F_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS;
  const bool strided =
      (flags & PyBUF_STRIDES) == PyBUF_STRIDES && (flags & kContiguous & ~PyBUF_STRIDES) == 0;
  return lend(self, view, flags, lent, host_view(call, &lent->tensor, x, strided));
}

int view_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  PyObject* const one[1] = {self};
  Call call("memoryview", one, 1, 1, 1);
  const aster_ml_buffer_view* described = call.view(0, "view");
  if (aster_ml_view_is_device(described) != 0) {
    PyErr_SetString(PyExc_BufferError, "the host does not address the memory of this view");
    return -1;
  }
  auto* lent = static_cast<Lent*>(std::calloc(1, sizeof(Lent)));
  if (lent == nullptr) return PyErr_NoMemory(), -1;
  const bool ok = call.quick(
      [&] { return aster_ml_view_to_tensor(&lent->tensor, &call.owner()->handle, described); });
  return lend(self, view, flags, lent, ok);
}

void release_buffer(PyObject*, Py_buffer* view) {
  free_lent(static_cast<Lent*>(view->internal));
  view->internal = nullptr;
}

namespace {

struct BufferPin : Pin {
  Py_buffer buffer;
};

void drop_buffer(Pin* pin) {
  auto* held = static_cast<BufferPin*>(pin);
  PyBuffer_Release(&held->buffer);
  std::free(held);
}

// The dtype of a buffer's elements; 0 with an exception.
int32_t dtype_of(const Call& call, const Py_buffer& buffer) {
  const char* format = buffer.format == nullptr ? "B" : buffer.format;
  const char* letter = format;
  if (*letter == '<' || *letter == '=' || *letter == '@' || *letter == '|') ++letter;
  if ((*letter == '>' || *letter == '!') && buffer.itemsize > 1) {
    PyErr_Format(PyExc_ValueError, "%s: elements of format '%s' are big-endian: convert them first",
                 call.function(), format);
    return 0;
  }
  if (*letter == '>' || *letter == '!') ++letter;
  for (const Format& row : kFormats) {
    // NumPy names uint64 L, and may say that the structure is packed.
    const size_t length = std::strlen("T{(4)");
    if (row.format[0] != 'T' || std::strncmp(row.format, letter, length) != 0) continue;
    const char* rest = letter + length;
    while (*rest == '<' || *rest == '=' || *rest == '@') ++rest;
    if ((*rest == 'L' || *rest == 'Q') && std::strcmp(rest + 1, ":words:}") == 0 &&
        aster_ml_dtype_size(row.dtype) == static_cast<size_t>(buffer.itemsize))
      return row.dtype;
  }
  if (letter[0] != 0 && letter[1] == 0) {
    for (const Format& row : kFormats) {
      if (row.format[0] != *letter) continue;
      // 'l' has 4 bytes after '<'.
      if (aster_ml_dtype_size(row.dtype) == static_cast<size_t>(buffer.itemsize)) return row.dtype;
      if (*letter == 'l') return ASTER_ML_DTYPE_INT32;
      if (*letter == 'L') return ASTER_ML_DTYPE_UINT32;
    }
  }
  PyErr_Format(PyExc_TypeError, "%s: no dtype for elements of format '%s'%s", call.function(),
               format, *letter == 'O' ? " (an object array)" : "");
  return 0;
}

// Whether elements of some bytes are where they may be.
bool aligned(const Py_buffer& buffer, size_t size) {
  bool fits = reinterpret_cast<uintptr_t>(buffer.buf) % size == 0;
  for (int i = 0; i < buffer.ndim && buffer.strides != nullptr; ++i)
    fits = fits && (buffer.shape[i] <= 1 || buffer.strides[i] % static_cast<Py_ssize_t>(size) == 0);
  return fits;
}

bool row_major(const Py_buffer& buffer) { return PyBuffer_IsContiguous(&buffer, 'C') != 0; }

// How the memory of a buffer is described.
struct Layout {
  int32_t dtype;
  size_t ndim;
  const size_t* shape;
  const Py_ssize_t* strides;  // null: row-major
};

// A view of the buffer's own memory; takes the pin over in any case.
bool look(Call& call, aster_ml_buffer_view* out, BufferPin* pin, const Layout& layout) {
  const Py_buffer& buffer = pin->buffer;
  aster_ml_view_options options = {};
  options.struct_size = sizeof(options);
  options.dtype = layout.dtype;
  options.flags = buffer.readonly != 0 ? ASTER_ML_VIEW_READ_ONLY : 0;
  options.data = buffer.buf;
  options.ndim = layout.ndim;
  options.shape = layout.shape;
  options.strides = layout.strides;
  options.release = release_pin;
  options.self = pin;
  const bool ok =
      call.quick([&] { return aster_ml_view_from_memory(out, &call.owner()->handle, &options); });
  if (!ok) give_back(pin);
  return ok;
}

// The same as a tensor.
bool describe(Call& call, aster_ml_tensor* out, BufferPin* pin, const Layout& layout) {
  aster_ml_buffer_view view = {};
  if (!look(call, &view, pin, layout)) return false;
  const bool ok =
      call.quick([&] { return aster_ml_view_to_tensor(out, &call.owner()->handle, &view); });
  aster_ml_view_free(&view);
  return ok;
}

// The memory of an object with the buffer protocol; null with an exception.
BufferPin* pin_of(Call& call, PyObject* object) {
  if (!PyObject_CheckBuffer(object)) {
    call.wrong_type(object, "obj", "bytes or an array");
    return nullptr;
  }
  auto* pin = static_cast<BufferPin*>(std::calloc(1, sizeof(BufferPin)));
  if (pin == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  pin->drop = drop_buffer;
  if (PyObject_GetBuffer(object, &pin->buffer, PyBUF_FULL_RO) == 0) return pin;
  std::free(pin);
  return nullptr;
}

// The elements byte by byte, wherever they are: what is not aligned, or read as another dtype
// across strides.
bool describe_bytes(Call& call, aster_ml_tensor* out, BufferPin* pin) {
  const Py_buffer& buffer = pin->buffer;
  const auto ndim = static_cast<size_t>(buffer.ndim);
  size_t* shape = call.room_of<size_t>(ndim + 1);
  Py_ssize_t* strides = call.room_of<Py_ssize_t>(ndim + 1);
  if (shape == nullptr || strides == nullptr) return give_back(pin), false;
  Py_ssize_t step = buffer.itemsize;
  for (size_t i = ndim; i-- > 0; step *= buffer.shape[i]) {
    shape[i] = static_cast<size_t>(buffer.shape[i]);
    strides[i] = buffer.strides != nullptr ? buffer.strides[i] : step;
  }
  shape[ndim] = static_cast<size_t>(buffer.itemsize);
  strides[ndim] = 1;
  return describe(call, out, pin, {ASTER_ML_DTYPE_UINT8, ndim + 1, shape, strides});
}

// Bytes, in their order, as elements of a dtype and shape: an expression.
PyObject* read_as(Call& call, aster_ml_tensor* bytes, int32_t dtype, size_t ndim,
                  const int64_t* shape) {
  const aster_ml_context* context = &call.owner()->handle;
  aster_ml_lazy lazy = {}, flat = {}, elements = {}, out = {};
  const int64_t whole[] = {-1};
  const bool ok = call.quick([&] {
    int32_t status = aster_ml_lazy_from_tensor(&lazy, context, bytes);
    if (status == 0) status = aster_ml_lazy_reshape(&flat, &lazy, 1, whole);
    if (status == 0) status = aster_ml_lazy_bitcast(&elements, &flat, dtype);
    return status != 0 ? status : aster_ml_lazy_reshape(&out, &elements, ndim, shape);
  });
  for (aster_ml_lazy* each : {&lazy, &flat, &elements}) aster_ml_lazy_free(each);
  aster_ml_tensor_free(bytes);
  return ok ? make_lazy(call.owner(), out) : nullptr;
}

// A copy of the buffer's elements, row-major.
PyObject* copy(Call& call, Py_buffer* buffer, int32_t dtype, size_t ndim, const int64_t* shape) {
  void* bytes = buffer->buf;
  void* room = nullptr;
  aster_ml_lazy out = {};
  if (!row_major(*buffer) || !aligned(*buffer, aster_ml_dtype_size(dtype))) {
    bytes = room = std::malloc(static_cast<size_t>(buffer->len) + 1);
    if (room == nullptr) return PyErr_NoMemory();
    if (PyBuffer_ToContiguous(room, buffer, buffer->len, 'C') != 0) {
      std::free(room);
      return nullptr;
    }
  }
  const bool ok = call.quick(
      [&] { return aster_ml_lazy_from(&out, &call.owner()->handle, bytes, dtype, ndim, shape); });
  std::free(room);
  return ok ? make_lazy(call.owner(), out) : nullptr;
}

// In place; takes the pin over.
PyObject* wrap(Call& call, BufferPin* pin, int32_t own, int32_t dtype, size_t ndim,
               const int64_t* shape, int may_copy) {
  const Py_buffer& buffer = pin->buffer;
  const size_t size = aster_ml_dtype_size(dtype);
  const auto* dims = reinterpret_cast<const size_t*>(shape);
  const bool same = own == dtype && ndim == static_cast<size_t>(buffer.ndim) &&
                    (ndim == 0 || std::memcmp(shape, buffer.shape, ndim * sizeof(*shape)) == 0);
  aster_ml_tensor tensor = {};
  if (aligned(buffer, size) && (same || row_major(buffer))) {
    const Layout layout{dtype, ndim, dims, row_major(buffer) ? nullptr : buffer.strides};
    if (!describe(call, &tensor, pin, layout)) return nullptr;
    return lazy_of(call, &tensor, may_copy, PyExc_ValueError);
  }
  if (may_copy == 0) {
    PyErr_SetString(PyExc_ValueError,
                    "from_buffer: only aligned memory can be used without a copy, and only "
                    "row-major memory as another dtype or shape");
    return give_back(pin), nullptr;
  }
  return describe_bytes(call, &tensor, pin) ? read_as(call, &tensor, dtype, ndim, shape) : nullptr;
}

bool check_count(Call& call, const Py_buffer& buffer, int32_t dtype, size_t ndim,
                 const int64_t* shape) {
  size_t bytes = aster_ml_dtype_size(dtype);
  bool over = bytes == 0;
  for (size_t i = 0; i < ndim; ++i)
    over = over || shape[i] < 0 ||
           __builtin_mul_overflow(bytes, static_cast<size_t>(shape[i]), &bytes);
  if (!over && bytes == static_cast<size_t>(buffer.len)) return true;
  PyErr_Format(PyExc_ValueError,
               "from_buffer: the buffer's %zd bytes are not the elements of that shape and dtype",
               buffer.len);
  return call.fail();
}

// from_buffer(obj, dtype=0, shape=None, copy=None, context=None)
PyObject* from_buffer(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("from_buffer", arguments, count, 1, 5);
  call.context(4);
  int32_t dtype = call.given(1) ? call.integer32(1, "dtype") : 0;
  size_t ndim = 0;
  bool known = false;
  const int64_t* shape = call.words(2, "shape", &ndim, &known, true);
  const int may_copy = call.given(3) ? PyObject_IsTrue(call.argument(3)) : -1;
  if (call.failed() || (may_copy < 0 && PyErr_Occurred() != nullptr)) return nullptr;
  BufferPin* pin = pin_of(call, call.argument(0));
  if (pin == nullptr) return nullptr;
  Py_buffer& buffer = pin->buffer;
  const int32_t own = dtype_of(call, buffer);
  bool ok = own != 0;
  if (dtype == 0) dtype = own;
  if (ok && shape == nullptr) {
    ndim = static_cast<size_t>(buffer.ndim);
    shape = call.room_of<int64_t>(ndim);
    if (shape != nullptr && ndim != 0)
      std::memcpy(const_cast<int64_t*>(shape), buffer.shape, ndim * sizeof(int64_t));
    // Bytes read as wider elements: along the last axis.
    const auto size = static_cast<int64_t>(aster_ml_dtype_size(dtype));
    if (shape != nullptr && ndim != 0 && size != 0 && size != buffer.itemsize)
      const_cast<int64_t*>(shape)[ndim - 1] = shape[ndim - 1] * buffer.itemsize / size;
  }
  ok = ok && shape != nullptr && check_count(call, buffer, dtype, ndim, shape);
  if (ok && may_copy != 1 && buffer.len != 0)
    return wrap(call, pin, own, dtype, ndim, shape, may_copy);
  PyObject* out = nullptr;
  if (ok && may_copy == 0) {
    PyErr_SetString(PyExc_ValueError, "from_buffer: no elements, so no memory to use");
  } else if (ok) {
    out = copy(call, &buffer, dtype, ndim, shape);
  }
  give_back(pin);
  return out;
}

// view_of_object(obj, dtype=0, context=None)
PyObject* view_of_object(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("view_of_object", arguments, count, 1, 3);
  call.context(2);
  int32_t dtype = call.given(1) ? call.integer32(1, "dtype") : 0;
  BufferPin* pin = call.failed() ? nullptr : pin_of(call, call.argument(0));
  if (pin == nullptr) return nullptr;
  const Py_buffer& buffer = pin->buffer;
  const int32_t own = dtype_of(call, buffer);
  const auto ndim = static_cast<size_t>(buffer.ndim);
  auto* shape = own != 0 ? call.room_of<size_t>(ndim) : nullptr;
  const auto size = static_cast<Py_ssize_t>(aster_ml_dtype_size(dtype != 0 ? dtype : own));
  if (shape == nullptr) return give_back(pin), nullptr;
  for (size_t i = 0; i < ndim; ++i) shape[i] = static_cast<size_t>(buffer.shape[i]);
  if (size != buffer.itemsize && size != 0) {
    const bool fits = ndim == 1 && row_major(buffer) && buffer.len % size == 0;
    if (!fits) {
      PyErr_Format(PyExc_ValueError, "view_of_object: %zd bytes as elements of %zd", buffer.len,
                   size);
      return give_back(pin), nullptr;
    }
    shape[0] = static_cast<size_t>(buffer.len / size);
  }
  aster_ml_buffer_view view = {};
  const Layout layout{dtype != 0 ? dtype : own, ndim, shape,
                      row_major(buffer) ? nullptr : buffer.strides};
  return look(call, &view, pin, layout) ? make_view(call.owner(), view) : nullptr;
}

// The numbers of an axis array as a tuple.
template <class Number>
PyObject* axes_of(const Number* axes, size_t count) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; tuple != nullptr && i < count; ++i) {
    PyObject* item = PyLong_FromLongLong(static_cast<long long>(axes[i]));
    if (item == nullptr) {
      Py_CLEAR(tuple);
    } else {
      PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), item);
    }
  }
  return tuple;
}

// view_fields(view)
PyObject* view_fields(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("view_fields", arguments, count, 1, 1);
  const aster_ml_buffer_view* view = call.view(0, "view");
  if (view == nullptr) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(view->memory.data) + view->byte_offset;
  return Py_BuildValue("(KNNiiiiiK)", static_cast<unsigned long long>(first),
                       axes_of(view->shape, view->ndim), axes_of(view->strides, view->ndim),
                       view->memory.dtype, view->memory.device, view->kind,
                       static_cast<int>(view->flags), view->layout,
                       static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(view->owner)));
}

}  // namespace

PyMethodDef kExchangeMethods[] = {
    {"view_of_object", as_method(view_of_object), METH_FASTCALL,
     "view_of_object(obj, dtype=0, context=None)\n\n"
     "A view of an object's memory, in place, with its strides; the object lives as long as a\n"
     "view or tensor of it."},
    {"view_fields", as_method(view_fields), METH_FASTCALL,
     "view_fields(view)\n\n"
     "(address, shape, strides in bytes, dtype, device, kind, flags, layout, owner)."},
    {"from_buffer", as_method(from_buffer), METH_FASTCALL,
     "from_buffer(obj, dtype=0, shape=None, copy=None, context=None)\n\n"
     "A tensor of an object's memory. copy False: in place, writes by either side are seen by the\n"
     "other and the object lives as long as the memory is used, else ValueError; True: a copy;\n"
     "None: in place, strides and unaligned elements included; only strides that do not nest are\n"
     "copied, as the context's policy says. dtype 0: that of the buffer; another one reads the\n"
     "same bytes."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace aster::python
