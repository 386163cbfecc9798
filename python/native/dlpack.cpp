// DLPack capsules, versioned (1.x) and legacy, in both directions, on the library's export and
// import.
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {
namespace {

using Legacy = aster_ml_dlpack_legacy;
using Versioned = aster_ml_dlpack_managed;

constexpr int32_t kCpu = ASTER_ML_DLPACK_CPU;
constexpr const char* kLegacyName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

// ---- Out ----

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

template <class Managed>
PyObject* capsule_of(Managed* managed) {
  PyObject* capsule = PyCapsule_New(managed, name_of<Managed>(), drop_capsule<Managed>);
  if (capsule == nullptr) managed->deleter(managed);
  return capsule;
}

// The library's message as a BufferError, which users of DLPack look for; always false.
bool refuse(const char* function, int32_t status) {
  if (status == ASTER_ML_MEMORY || status == ASTER_ML_STATE) return raise_status(status);
  aster_ml_error record = {};
  aster_ml_error_last(&record);
  PyErr_Format(PyExc_BufferError, "%s: %s", function, record.message);
  return false;
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
  int type = kCpu, id = 0;  // the host addresses it, whatever its kind
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

PyObject* lazy_dlpack_device(PyObject* self, PyObject*) {
  PyObject* const one[1] = {self};
  Call call("__dlpack_device__", one, 1, 1, 1);
  aster_ml_lazy* x = call.lazy(0, "tensor");
  if (x == nullptr) return nullptr;
  int32_t type = kCpu;
  // What is not computed yet will be in memory of the library's own.
  aster_ml_tensor tensor;
  if (aster_ml_lazy_is_realized(x) != 0) {
    if (!pinned_view(call, &tensor, x, true)) return nullptr;
    const int32_t kind = aster_ml_buffer_memory_kind(&tensor.storage);
    aster_ml_tensor_free(&tensor);
    if (kind == ASTER_ML_MEMORY_PINNED) type = ASTER_ML_DLPACK_CUDA_HOST;
    if (kind == ASTER_ML_MEMORY_UNIFIED) type = ASTER_ML_DLPACK_CUDA_MANAGED;
  }
  return Py_BuildValue("(ii)", type, 0);
}

PyObject* lazy_dlpack(PyObject* self, PyObject* arguments, PyObject* keywords) {
  Wish wish;
  if (!read_wish(&wish, arguments, keywords)) return nullptr;
  PyObject* const one[1] = {self};
  Call call("__dlpack__", one, 1, 1, 1);
  aster_ml_lazy* x = call.lazy(0, "tensor");
  aster_ml_tensor tensor;
  if (!host_view(call, &tensor, x, true)) return nullptr;
  if (wish.copy) {
    aster_ml_tensor copied = {};
    const bool ok = call.quick(
        [&] { return aster_ml_tensor_contiguous(&copied, &call.owner()->handle, &tensor); });
    aster_ml_tensor_free(&tensor);
    if (!ok) return nullptr;
    tensor = copied;
  }
  const aster_ml_context* context = &call.owner()->handle;
  Versioned* versioned = nullptr;
  Legacy* legacy = nullptr;
  int32_t status = 0;
  call.quick([&] {
    status = wish.versioned ? aster_ml_dlpack_export(&versioned, context, &tensor,
                                                     wish.copy ? ASTER_ML_DLPACK_COPIED : 0)
                            : aster_ml_dlpack_export_legacy(&legacy, context, &tensor);
    return 0;
  });
  aster_ml_tensor_free(&tensor);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (status == ASTER_ML_STATE && !wish.versioned) {
    PyErr_SetString(PyExc_BufferError,
                    "__dlpack__: read-only memory needs max_version=(1, 0) or copy=True");
    return nullptr;
  }
  if (status != 0) return refuse("__dlpack__", status), nullptr;
  return wish.versioned ? capsule_of(versioned) : capsule_of(legacy);
}

// ---- In ----

namespace {

struct DlpackPin : StandIn {
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
  PyObject* keywords =
      Py_BuildValue("{s(ii)}", "max_version", ASTER_ML_DLPACK_MAJOR, ASTER_ML_DLPACK_MINOR);
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
    if (managed->version_major > ASTER_ML_DLPACK_MAJOR) {
      PyErr_Format(PyExc_BufferError, "from_dlpack: version %u of DLPack is newer than %d",
                   managed->version_major, ASTER_ML_DLPACK_MAJOR);
    } else if (PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0) {
      pin->versioned = managed;
      pin->managed.flags = managed->flags;
      pin->managed.tensor = managed->tensor;
      return pin;
    }
  } else if (PyCapsule_IsValid(capsule, kLegacyName) != 0) {
    auto* managed = static_cast<Legacy*>(PyCapsule_GetPointer(capsule, kLegacyName));
    if (PyCapsule_SetName(capsule, "used_dltensor") == 0) {
      pin->legacy = managed;
      pin->managed.tensor = managed->tensor;
      return pin;
    }
  } else {
    PyErr_SetString(PyExc_TypeError, "from_dlpack: not a DLPack capsule, or one used already");
  }
  std::free(pin);
  return nullptr;
}

// A tensor of the library in the memory that a pin stands for; takes the pin over.
bool import(Call& call, aster_ml_tensor* out, StandIn* pin) {
  pin->managed.version_major = ASTER_ML_DLPACK_MAJOR;
  pin->managed.manager = static_cast<Pin*>(pin);
  pin->managed.deleter = [](Versioned* self) { release_pin(self->manager, nullptr, 0); };
  int32_t status = 0;
  const bool ok = call.quick([&] {
    status = aster_ml_dlpack_import(out, &call.owner()->handle, &pin->managed);
    return 0;
  });
  if (ok && status == 0) return true;
  if (ok) refuse(call.function(), status);
  give_back(pin);
  return call.fail();
}

// from_dlpack(obj, copy=None, context=None)
PyObject* from_dlpack(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("from_dlpack", arguments, count, 1, 3);
  const int may_copy = wants_copy(call);
  if (call.failed()) return nullptr;
  PyObject* object = call.argument(0);
  PyObject* capsule = PyCapsule_CheckExact(object) ? Py_NewRef(object) : capsule_from(object);
  DlpackPin* pin = capsule == nullptr ? nullptr : take(capsule);
  Py_XDECREF(capsule);
  if (pin == nullptr) return nullptr;
  return lazy_in(call, pin, may_copy);
}

}  // namespace

PyObject* lazy_of(Call& call, aster_ml_tensor* tensor, int may_copy, PyObject* error) {
  const aster_ml_context* context = &call.owner()->handle;
  aster_ml_lazy out = {};
  aster_ml_tensor dense = {};
  aster_ml_engine_counters before = {}, after = {};
  before.struct_size = after.struct_size = sizeof(before);
  bool ok = call.quick([&] {
    const bool copy = may_copy == 1;
    int32_t status = aster_ml_engine_count(&before, context);
    if (status == 0 && copy) status = aster_ml_tensor_contiguous(&dense, context, tensor);
    if (status == 0) status = aster_ml_lazy_from_tensor(&out, context, copy ? &dense : tensor);
    return status != 0 ? status : aster_ml_engine_count(&after, context);
  });
  const bool own = ok && after.copies == before.copies && aster_ml_lazy_is_stored(&out) != 0;
  if (ok && may_copy == 0 && !own) {
    aster_ml_lazy_free(&out);
    PyErr_Format(error, "%s: memory of these strides cannot be a tensor's own without a copy",
                 call.function());
    ok = call.fail();
  }
  aster_ml_tensor_free(&dense);
  aster_ml_tensor_free(tensor);
  return ok ? make_lazy(call.owner(), out) : nullptr;
}

int wants_copy(Call& call) {
  call.context(2);
  const int copy = !call.failed() && call.given(1) ? PyObject_IsTrue(call.argument(1)) : -1;
  return !call.failed() && copy < 0 && PyErr_Occurred() != nullptr ? call.fail(), -1 : copy;
}

PyObject* lazy_in(Call& call, StandIn* pin, int may_copy) {
  aster_ml_tensor tensor = {};
  return import(call, &tensor, pin) ? lazy_of(call, &tensor, may_copy, PyExc_BufferError) : nullptr;
}

PyMethodDef kDlpackMethods[] = {
    {"from_dlpack", as_method(from_dlpack), METH_FASTCALL,
     "from_dlpack(obj, copy=None, context=None)\n\n"
     "A tensor of the memory of an object with __dlpack__, or of a capsule: in place where its\n"
     "strides nest, unless copy is True; copy False: in place, for writing too, or BufferError."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace aster::python
