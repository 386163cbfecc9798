// DLPack, versioned (1.x) and legacy, in both directions. Layouts as dmlc/dlpack's dlpack.h has
// them.
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {
namespace {

struct DlDevice {
  int32_t type, id;
};
struct DlType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};
struct Legacy {
  DlTensor tensor;
  void* manager;
  void (*deleter)(Legacy*);
};
struct Versioned {
  uint32_t major, minor;
  void* manager;
  void (*deleter)(Versioned*);
  uint64_t flags;
  DlTensor tensor;
};

constexpr int32_t kCpu = 1;
constexpr int32_t kHostVisible[] = {kCpu, 3, 11};  // CPU, pinned for CUDA or ROCm
constexpr uint64_t kReadOnly = 1, kCopied = 2;
constexpr uint32_t kMajor = 1, kMinor = 1;
constexpr const char* kLegacyName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

struct Row {
  int32_t dtype;
  uint8_t code, bits;
};
constexpr Row kTypes[] = {
    {ASTER_ML_DTYPE_BOOL, 6, 8},         {ASTER_ML_DTYPE_INT8, 0, 8},
    {ASTER_ML_DTYPE_INT16, 0, 16},       {ASTER_ML_DTYPE_INT32, 0, 32},
    {ASTER_ML_DTYPE_INT64, 0, 64},       {ASTER_ML_DTYPE_UINT8, 1, 8},
    {ASTER_ML_DTYPE_UINT16, 1, 16},      {ASTER_ML_DTYPE_UINT32, 1, 32},
    {ASTER_ML_DTYPE_UINT64, 1, 64},      {ASTER_ML_DTYPE_FLOAT16, 2, 16},
    {ASTER_ML_DTYPE_FLOAT32, 2, 32},     {ASTER_ML_DTYPE_FLOAT64, 2, 64},
    {ASTER_ML_DTYPE_BFLOAT16, 4, 16},    {ASTER_ML_DTYPE_FP8E4M3, 10, 8},
    {ASTER_ML_DTYPE_FP8E4M3FNUZ, 11, 8}, {ASTER_ML_DTYPE_FP8E5M2, 12, 8},
    {ASTER_ML_DTYPE_FP8E5M2FNUZ, 13, 8},
};

// ---- Out: what a capsule's user frees; it holds no Python object, so its deleter needs no GIL
// ----

template <class Managed>
struct Export {
  Managed managed;
  aster_ml_tensor tensor;
};

template <class Managed>
void free_export(Managed* managed) {
  if (managed == nullptr) return;
  auto* made = static_cast<Export<Managed>*>(managed->manager);
  aster_ml_tensor_free(&made->tensor);
  std::free(made);
}

template <class Managed>
const char* name_of() {
  return sizeof(Managed) == sizeof(Legacy) ? kLegacyName : kVersionedName;
}

// A capsule that nobody took still owns its tensor.
template <class Managed>
void drop_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, name_of<Managed>()) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name_of<Managed>()));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

void fill(DlTensor* out, aster_ml_tensor& tensor, const Row& row) {
  static_assert(sizeof(size_t) == sizeof(int64_t) && sizeof(ptrdiff_t) == sizeof(int64_t));
  out->data = tensor.storage.data;
  out->device = {kCpu, 0};
  out->ndim = static_cast<int32_t>(tensor.ndim);
  out->dtype = {row.code, row.bits, 1};
  out->shape = reinterpret_cast<int64_t*>(tensor.shape);
  out->strides = reinterpret_cast<int64_t*>(tensor.strides);
  out->byte_offset = tensor.byte_offset;
}

template <class Managed>
Export<Managed>* make_export(const aster_ml_tensor& tensor, const Row& row) {
  auto* made = static_cast<Export<Managed>*>(std::calloc(1, sizeof(Export<Managed>)));
  if (made == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  made->tensor = tensor;
  fill(&made->managed.tensor, made->tensor, row);
  made->managed.manager = made;
  made->managed.deleter = free_export<Managed>;
  return made;
}

template <class Managed>
PyObject* capsule_of(Export<Managed>* made) {
  PyObject* capsule = PyCapsule_New(&made->managed, name_of<Managed>(), drop_capsule<Managed>);
  if (capsule == nullptr) free_export(&made->managed);
  return capsule;
}

// What a caller of __dlpack__ asks for.
struct Wish {
  bool versioned = false;
  bool copy = false;
};

bool read_wish(Wish* wish, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__",
                                  const_cast<char**>(names), &stream, &version, &device,
                                  &copy) == 0)
    return false;
  if (stream != Py_None) {
    PyErr_SetString(PyExc_BufferError, "__dlpack__: host memory has no streams");
    return false;
  }
  int major = 0, minor = 0;
  if (version != Py_None &&
      (!PyTuple_Check(version) || PyArg_ParseTuple(version, "ii", &major, &minor) == 0))
    return PyErr_Format(PyExc_TypeError, "__dlpack__: max_version must be (major, minor)"), false;
  wish->versioned = major >= 1;
  int type = kCpu, id = 0;
  if (device != Py_None &&
      (!PyTuple_Check(device) || PyArg_ParseTuple(device, "ii", &type, &id) == 0))
    return PyErr_Format(PyExc_TypeError, "__dlpack__: dl_device must be (type, id)"), false;
  if (type != kCpu || id != 0) {
    PyErr_Format(PyExc_BufferError,
                 "__dlpack__: the tensor is in host memory, not on device (%d, %d)", type, id);
    return false;
  }
  const int copied = copy == Py_None ? 0 : PyObject_IsTrue(copy);
  wish->copy = copied == 1;
  return copied >= 0;
}

}  // namespace

PyObject* lazy_dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", kCpu, 0); }

PyObject* lazy_dlpack(PyObject* self, PyObject* arguments, PyObject* keywords) {
  Wish wish;
  if (!read_wish(&wish, arguments, keywords)) return nullptr;
  PyObject* const one[1] = {self};
  Call call("__dlpack__", one, 1, 1, 1);
  aster_ml_lazy* x = call.lazy(0, "tensor");
  aster_ml_tensor tensor;
  if (!host_view(call, &tensor, x)) return nullptr;
  if (wish.copy) {
    aster_ml_tensor copied = {};
    const bool ok = call.quick(
        [&] { return aster_ml_tensor_contiguous(&copied, &call.owner()->handle, &tensor); });
    aster_ml_tensor_free(&tensor);
    if (!ok) return nullptr;
    tensor = copied;
  }
  const bool read_only = aster_ml_buffer_is_read_only(&tensor.storage) != 0;
  for (const Row& row : kTypes) {
    if (row.dtype != tensor.dtype) continue;
    if (wish.versioned) {
      auto* made = make_export<Versioned>(tensor, row);
      if (made == nullptr) break;
      made->managed.major = kMajor;
      made->managed.minor = kMinor;
      made->managed.flags = (read_only ? kReadOnly : 0) | (wish.copy ? kCopied : 0);
      return capsule_of(made);
    }
    if (read_only) {
      PyErr_SetString(PyExc_BufferError,
                      "__dlpack__: read-only memory needs max_version=(1, 0) or copy=True");
      break;
    }
    auto* made = make_export<Legacy>(tensor, row);
    if (made == nullptr) break;
    return capsule_of(made);
  }
  if (PyErr_Occurred() == nullptr)
    PyErr_Format(PyExc_BufferError, "__dlpack__: no code for %s",
                 aster_ml_dtype_name(tensor.dtype));
  aster_ml_tensor_free(&tensor);
  return nullptr;
}

// ---- In ----

namespace {

struct DlpackPin : Pin {
  Legacy* legacy;  // one of them
  Versioned* versioned;
};

void drop_dlpack(Pin* pin) {
  auto* held = static_cast<DlpackPin*>(pin);
  if (held->legacy != nullptr && held->legacy->deleter != nullptr)
    held->legacy->deleter(held->legacy);
  if (held->versioned != nullptr && held->versioned->deleter != nullptr)
    held->versioned->deleter(held->versioned);
  std::free(held);
}

// obj.__dlpack__(max_version=(1, 1)), or without arguments for an older obj.
PyObject* capsule_from(PyObject* object) {
  PyObject* method = PyObject_GetAttrString(object, "__dlpack__");
  if (method == nullptr) return nullptr;
  PyObject* none = PyTuple_New(0);
  PyObject* keywords = Py_BuildValue("{s(ii)}", "max_version", kMajor, kMinor);
  PyObject* capsule = nullptr;
  if (none != nullptr && keywords != nullptr) {
    capsule = PyObject_Call(method, none, keywords);
    if (capsule == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
      PyErr_Clear();
      capsule = PyObject_Call(method, none, nullptr);
    }
  }
  Py_XDECREF(keywords);
  Py_XDECREF(none);
  Py_DECREF(method);
  return capsule;
}

// Takes the tensor out of a capsule; null with an exception.
DlpackPin* take(PyObject* capsule) {
  auto* pin = static_cast<DlpackPin*>(std::calloc(1, sizeof(DlpackPin)));
  if (pin == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  pin->drop = drop_dlpack;
  if (PyCapsule_IsValid(capsule, kVersionedName) != 0) {
    auto* managed = static_cast<Versioned*>(PyCapsule_GetPointer(capsule, kVersionedName));
    if (managed->major > kMajor) {
      PyErr_Format(PyExc_BufferError, "from_dlpack: version %u of DLPack is newer than %u",
                   managed->major, kMajor);
    } else if (PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0) {
      pin->versioned = managed;
      return pin;
    }
  } else if (PyCapsule_IsValid(capsule, kLegacyName) != 0) {
    auto* managed = static_cast<Legacy*>(PyCapsule_GetPointer(capsule, kLegacyName));
    if (PyCapsule_SetName(capsule, "used_dltensor") == 0) {
      pin->legacy = managed;
      return pin;
    }
  } else {
    PyErr_SetString(PyExc_TypeError, "from_dlpack: not a DLPack capsule, or one used already");
  }
  std::free(pin);
  return nullptr;
}

// What is read of a foreign tensor: the bytes that its elements lie in, and where the first one is.
struct Extent {
  char* begin;
  size_t bytes;
  size_t first;
  bool row_major;
};

bool measure(Extent* out, const DlTensor& tensor, size_t item, ptrdiff_t* strides) {
  int64_t low = 0, high = 0, dense = 1;
  bool empty = false;
  out->row_major = true;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    const int64_t dim = tensor.shape[i];
    if (dim < 0)
      return PyErr_SetString(PyExc_ValueError, "from_dlpack: a negative dimension"), false;
    strides[i] = tensor.strides == nullptr ? dense : tensor.strides[i];
    out->row_major = out->row_major && (dim == 1 || strides[i] == dense);
    empty = empty || dim == 0;
    int64_t reach = 0;
    if (__builtin_mul_overflow(strides[i], dim - 1, &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high) ||
        __builtin_mul_overflow(dense, dim == 0 ? 1 : dim, &dense))
      return PyErr_SetString(PyExc_OverflowError, "from_dlpack: too many elements"), false;
  }
  char* first = static_cast<char*>(tensor.data) + tensor.byte_offset;
  out->begin = first + low * static_cast<int64_t>(item);
  out->first = static_cast<size_t>(-low) * item;
  out->bytes = empty ? 0 : static_cast<size_t>(high - low + 1) * item;
  return true;
}

bool wrap(Call& call, aster_ml_lazy* out, DlpackPin* pin, const DlTensor& tensor, int32_t dtype,
          bool read_only, int may_copy, bool* handed_over) {
  const size_t item = aster_ml_dtype_size(dtype);
  const auto ndim = static_cast<size_t>(tensor.ndim);
  auto* strides = call.room_of<ptrdiff_t>(ndim);
  Extent extent = {};
  if (strides == nullptr || !measure(&extent, tensor, item, strides)) return call.fail();
  const aster_ml_context* context = &call.owner()->handle;
  const auto* shape = reinterpret_cast<const size_t*>(tensor.shape);
  if (extent.bytes == 0) {  // nothing to hold
    return call.quick(
        [&] { return aster_ml_lazy_from(out, context, nullptr, dtype, ndim, tensor.shape); });
  }
  const bool aligned = reinterpret_cast<uintptr_t>(extent.begin) % item == 0;
  if (may_copy == 0 && (!extent.row_major || !aligned)) {
    PyErr_SetString(PyExc_BufferError,
                    "from_dlpack: only row-major, aligned memory can be used without a copy");
    return call.fail();
  }
  if (!aligned) {
    PyErr_SetString(PyExc_BufferError, "from_dlpack: elements are not aligned");
    return call.fail();
  }
  aster_ml_buffer storage = {};
  aster_ml_tensor view = {}, dense = {};
  bool ok = call.quick([&] {
    return aster_ml_buffer_from_memory(&storage, context, extent.begin, extent.bytes, dtype, 0,
                                       read_only ? 1 : 0, release_pin, pin);
  });
  if (!ok) return false;
  *handed_over = true;
  ok = call.quick([&] {
    int32_t status =
        aster_ml_tensor_from_buffer(&view, context, &storage, extent.first, ndim, shape, strides);
    if (status == 0 && (may_copy == 1 || !extent.row_major))
      status = aster_ml_tensor_contiguous(&dense, context, &view);
    const bool made = dense.storage.data != nullptr;
    return status != 0 ? status : aster_ml_lazy_from_tensor(out, context, made ? &dense : &view);
  });
  aster_ml_tensor_free(&dense);
  aster_ml_tensor_free(&view);
  aster_ml_buffer_free(&storage);
  return ok;
}

int32_t dtype_of(const DlTensor& tensor) {
  for (const Row& row : kTypes) {
    if (row.code == tensor.dtype.code && row.bits == tensor.dtype.bits && tensor.dtype.lanes == 1)
      return row.dtype;
  }
  PyErr_Format(PyExc_BufferError, "from_dlpack: no dtype for code %d of %d bits and %d lanes",
               tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
  return 0;
}

bool on_host(const DlTensor& tensor) {
  for (int32_t type : kHostVisible)
    if (tensor.device.type == type) return true;
  PyErr_Format(PyExc_BufferError, "from_dlpack: the tensor is on device (%d, %d), not on the host",
               tensor.device.type, tensor.device.id);
  return false;
}

// from_dlpack(obj, copy=None, context=None)
PyObject* from_dlpack(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("from_dlpack", arguments, count, 1, 3);
  call.context(2);
  const int may_copy = !call.failed() && call.given(1) ? PyObject_IsTrue(call.argument(1)) : -1;
  if (call.failed() || (may_copy < 0 && PyErr_Occurred() != nullptr)) return nullptr;
  PyObject* object = call.argument(0);
  PyObject* capsule = PyCapsule_CheckExact(object) ? Py_NewRef(object) : capsule_from(object);
  DlpackPin* pin = capsule == nullptr ? nullptr : take(capsule);
  Py_XDECREF(capsule);
  if (pin == nullptr) return nullptr;
  const DlTensor& tensor = pin->legacy != nullptr ? pin->legacy->tensor : pin->versioned->tensor;
  const bool read_only = pin->versioned != nullptr && (pin->versioned->flags & kReadOnly) != 0;
  const int32_t dtype = on_host(tensor) ? dtype_of(tensor) : 0;
  aster_ml_lazy out = {};
  bool handed_over = false;
  const bool ok =
      dtype != 0 && wrap(call, &out, pin, tensor, dtype, read_only, may_copy, &handed_over);
  if (!handed_over) give_back(pin);
  return ok ? make_lazy(call.owner(), out) : nullptr;
}

}  // namespace

PyMethodDef kDlpackMethods[] = {
    {"from_dlpack", as_method(from_dlpack), METH_FASTCALL,
     "from_dlpack(obj, copy=None, context=None)\n\n"
     "A tensor of the memory of an object with __dlpack__, or of a capsule: in place where its\n"
     "layout is row-major, unless copy is True; copy False: in place or BufferError."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace aster::python
