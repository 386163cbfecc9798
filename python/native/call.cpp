// Calls: arguments from Python, the context's turn, the GIL.
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {
namespace {

// What the exception of a wrong argument begins with: "lazy_add: b ".
PyObject* raise(PyObject* type, const char* name, const char* argument, const char* format,
                PyObject* value) {
  PyObject* text = PyUnicode_FromFormat(format, value);
  if (text != nullptr) PyErr_Format(type, "%s: %s %U", name, argument, text);
  Py_XDECREF(text);
  return nullptr;
}

}  // namespace

Call::Call(const char* name, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t least,
           Py_ssize_t most)
    : name_(name), arguments_(arguments), count_(count) {
  if (count >= least && count <= most) return;
  failed_ = true;
  if (least == most) {
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, %zd given", name, most, count);
  } else {
    PyErr_Format(PyExc_TypeError, "%s takes %zd to %zd arguments, %zd given", name, least, most,
                 count);
  }
}

Call::~Call() {
  for (int i = 0; i < numbers_; ++i) aster_ml_lazy_free(&number_[i]);
  for (int i = 0; i < buffers_; ++i) PyBuffer_Release(&buffer_[i]);
  for (int i = 0; i < kept_; ++i) Py_DECREF(keep_[i]);
  while (blocks_ != nullptr) {
    Block* next = blocks_->next;
    std::free(blocks_);
    blocks_ = next;
  }
  Py_XDECREF(reinterpret_cast<PyObject*>(owner_));
}

bool Call::fail() {
  failed_ = true;
  return false;
}

bool Call::wrong_type(PyObject* object, const char* argument, const char* wanted) {
  if (failed_) return false;
  PyObject* type = PyType_GetName(Py_TYPE(object));
  if (type != nullptr)
    PyErr_Format(PyExc_TypeError, "%s: %s must be %s, not %U", name_, argument, wanted, type);
  Py_XDECREF(type);
  return fail();
}

void Call::own(ContextObject* context) {
  owner_ = context;
  Py_INCREF(reinterpret_cast<PyObject*>(context));
}

bool Call::keep(PyObject* object) {
  if (object == nullptr) return fail();
  if (kept_ == kKept) {
    Py_DECREF(object);
    PyErr_Format(PyExc_ValueError, "%s: too many arguments to convert", name_);
    return fail();
  }
  keep_[kept_++] = object;
  return true;
}

void* Call::room(size_t bytes) {
  bytes = (bytes + 15) & ~size_t{15};
  if (bytes <= kRoom - used_) {
    void* at = room_ + used_;
    used_ += bytes;
    return at;
  }
  constexpr size_t kHead = (sizeof(Block) + 15) & ~size_t{15};
  auto* block =
      bytes > SIZE_MAX - kHead ? nullptr : static_cast<Block*>(std::malloc(kHead + bytes));
  if (block == nullptr) {
    PyErr_NoMemory();
    fail();
    return nullptr;
  }
  block->next = blocks_;
  blocks_ = block;
  return reinterpret_cast<char*>(block) + kHead;
}

// ---- A context's turn ----

bool Call::wait() {
  while (owner_->busy) {
    PyThreadState* thread = PyEval_SaveThread();
    const PyLockStatus got = PyThread_acquire_lock_timed(owner_->lock, -1, 1);
    if (got == PY_LOCK_ACQUIRED) PyThread_release_lock(owner_->lock);
    PyEval_RestoreThread(thread);
    if (got == PY_LOCK_INTR && PyErr_CheckSignals() < 0) return fail();
  }
  return true;
}

bool Call::begin_slow() {
  if (owner_ == nullptr) return true;
  while (!PyThread_acquire_lock(owner_->lock, NOWAIT_LOCK)) {
    if (!wait()) return false;
    // The lock may be held for a moment by a thread that only waited.
    if (!owner_->busy) {
      PyThreadState* thread = PyEval_SaveThread();
      PyEval_RestoreThread(thread);
    }
  }
  owner_->busy = true;
  return true;
}

bool Call::end_slow(int32_t status) {
  if (owner_ != nullptr) {
    owner_->busy = false;
    PyThread_release_lock(owner_->lock);
    while (Deferred* deferred = owner_->deferred) {
      owner_->deferred = deferred->next;
      deferred->free(deferred->handle);
      std::free(deferred);
    }
  }
  if (status != 0) return raise_status(status);
  drop_pins();
  return PyErr_CheckSignals() == 0 || fail();
}

void free_in(ContextObject* context, void (*free)(void*), void* handle, void* second) {
  void* both[2] = {handle, second};
  if (context != nullptr && context->busy) {
    if (auto* deferred = static_cast<Deferred*>(std::malloc(sizeof(Deferred)))) {
      *deferred = {free, {handle, second}, context->deferred};
      context->deferred = deferred;
      return;
    }
  }
  free(both);
}

// ---- Handles ----

const aster_ml_context* Call::context(Py_ssize_t at) {
  if (failed_) return nullptr;
  ContextObject* found;
  if (!given(at)) {
    found = current_context();
    if (found == nullptr) {
      fail();
      return nullptr;
    }
  } else if (PyObject_TypeCheck(arguments_[at], g.context_type)) {
    found = reinterpret_cast<ContextObject*>(arguments_[at]);
  } else {
    wrong_type(arguments_[at], "context", "a Context");
    return nullptr;
  }
  belong(found);
  return &found->handle;
}

aster_ml_lazy* Call::lazy(Py_ssize_t at, const char* argument, bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  PyObject* object = arguments_[at];
  if (!is_lazy(object)) {
    wrong_type(arguments_[at], argument, "a tensor");
    return nullptr;
  }
  LazyObject* lazy = as_lazy(object);
  if (lazy->value.impl == nullptr) {
    PyErr_Format(PyExc_ValueError, "%s: %s is an empty tensor", name_, argument);
    fail();
    return nullptr;
  }
  belong(lazy->context);
  return &lazy->value;
}

const aster_ml_lazy* Call::operand(Py_ssize_t at, const char* argument, bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  PyObject* object = arguments_[at];
  if (is_lazy(object)) return lazy(at, argument);
  if (numbers_ == kKept) {
    wrong_type(arguments_[at], argument, "a tensor");
    return nullptr;
  }
  // A number needs the context of a tensor among the other operands.
  for (Py_ssize_t i = 0; owner_ == nullptr && i < count_; ++i)
    if (is_lazy(arguments_[i])) belong(as_lazy(arguments_[i])->context);
  if (owner_ == nullptr) context(count_);
  if (failed_ || !begin() || !number(&number_[numbers_], object, argument)) return nullptr;
  return &number_[numbers_++];
}

bool Call::number(aster_ml_lazy* out, PyObject* object, const char* argument) {
  const aster_ml_context* context = &owner_->handle;
  int32_t status;
  if (PyFloat_Check(object)) {
    status = aster_ml_lazy_number(out, context, PyFloat_AsDouble(object));
  } else if (PyBool_Check(object) || PyTuple_Check(object)) {
    const aster_ml_scalar* value = scalar_from(object, argument);
    if (value == nullptr) return false;
    status = aster_ml_lazy_scalar(out, context, value);
  } else if (PyIndex_Check(object)) {
    const int64_t value = integer_from(object, argument, INT64_MIN, INT64_MAX);
    if (failed_) return false;
    status = aster_ml_lazy_integer(out, context, value);
  } else {
    return wrong_type(object, argument, "a tensor or a number");
  }
  if (status == 0) return true;
  raise_status(status);
  return fail();
}

aster_ml_lazy** Call::lazies_of(PyObject* object, const char* argument, size_t* count) {
  *count = 0;
  if (!PyList_Check(object) && !PyTuple_Check(object)) {
    if (!PySequence_Check(object) || is_lazy(object)) {
      wrong_type(object, argument, "a list of tensors");
      return nullptr;
    }
  }
  PyObject* tuple = PySequence_Tuple(object);
  if (!keep(tuple)) return nullptr;
  const Py_ssize_t length = PyTuple_Size(tuple);
  auto** all = static_cast<aster_ml_lazy**>(
      room((static_cast<size_t>(length) + 1) * sizeof(aster_ml_lazy*)));
  for (Py_ssize_t i = 0; all != nullptr && i < length; ++i) {
    PyObject* item = PyTuple_GetItem(tuple, i);
    if (!is_lazy(item) || as_lazy(item)->value.impl == nullptr) {
      wrong_type(object, argument, "a list of tensors");
      return nullptr;
    }
    belong(as_lazy(item)->context);
    all[i] = &as_lazy(item)->value;
  }
  *count = static_cast<size_t>(length);
  return all;
}

aster_ml_lazy** Call::lazies(Py_ssize_t at, const char* argument, size_t* count) {
  *count = 0;
  return failed_ ? nullptr : lazies_of(arguments_[at], argument, count);
}

void* Call::handle(Py_ssize_t at, const char* argument, const HandleType& type, bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  if (!PyObject_TypeCheck(arguments_[at], type.type)) {
    char wanted[64];
    PyOS_snprintf(wanted, sizeof(wanted), "a %s", type.name);
    wrong_type(arguments_[at], argument, wanted);
    return nullptr;
  }
  auto* object = reinterpret_cast<Object<void*>*>(arguments_[at]);
  belong(object->context);
  return &object->value;
}

const aster_ml_uop* Call::uop(Py_ssize_t at, const char* argument) {
  if (failed_) return nullptr;
  if (!PyObject_TypeCheck(arguments_[at], g.uop_type)) {
    wrong_type(arguments_[at], argument, "a Uop");
    return nullptr;
  }
  auto* object = reinterpret_cast<UopObject*>(arguments_[at]);
  belong(object->context);
  return object->value;
}

aster_ml_tensor* Call::tensor(Py_ssize_t at, const char* argument) {
  if (failed_) return nullptr;
  if (!PyObject_TypeCheck(arguments_[at], g.tensor_type)) {
    wrong_type(arguments_[at], argument, "a ConcreteTensor");
    return nullptr;
  }
  auto* object = reinterpret_cast<TensorObject*>(arguments_[at]);
  belong(object->context);
  return &object->value;
}

// ---- Numbers, arrays, texts ----

int64_t Call::integer(Py_ssize_t at, const char* argument, int64_t least, int64_t most) {
  return failed_ ? 0 : integer_from(arguments_[at], argument, least, most);
}

int64_t Call::integer_from(PyObject* object, const char* argument, int64_t least, int64_t most) {
  if (!PyIndex_Check(object)) {
    wrong_type(object, argument, "an integer");
    return 0;
  }
  PyObject* index = PyNumber_Index(object);
  if (index == nullptr) {
    fail();
    return 0;
  }
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(index, &overflow);
  if (overflow != 0 || value < least || value > most) {
    raise(PyExc_OverflowError, name_, argument, "is out of range: %R", index);
    fail();
  }
  Py_DECREF(index);
  return failed_ ? 0 : value;
}

uint64_t Call::natural(Py_ssize_t at, const char* argument) {
  if (failed_) return 0;
  PyObject* object = arguments_[at];
  if (!PyIndex_Check(object)) {
    wrong_type(arguments_[at], argument, "an integer");
    return 0;
  }
  PyObject* index = PyNumber_Index(object);
  const uint64_t value = index == nullptr ? 0 : PyLong_AsUnsignedLongLong(index);
  if (index != nullptr && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    raise(PyExc_OverflowError, name_, argument, "is out of range: %R", index);
  }
  Py_XDECREF(index);
  if (PyErr_Occurred() != nullptr) fail();
  return failed_ ? 0 : value;
}

double Call::real(Py_ssize_t at, const char* argument) {
  if (failed_) return 0;
  PyObject* object = arguments_[at];
  if (is_lazy(object)) {
    wrong_type(arguments_[at], argument, "a number");
    return 0;
  }
  const double value = PyFloat_AsDouble(object);
  if (PyErr_Occurred() == nullptr) return value;
  if (PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    PyErr_Clear();
    wrong_type(arguments_[at], argument, "a number");
  }
  fail();
  return 0;
}

const int64_t* Call::words_of(PyObject* object, const char* argument, size_t* count) {
  *count = 0;
  const bool one = PyIndex_Check(object);
  PyObject* tuple = nullptr;
  if (!one && !PyTuple_Check(object)) {
    tuple = PyUnicode_Check(object) || PyBytes_Check(object) || is_lazy(object) ||
                    !PySequence_Check(object)
                ? nullptr
                : PySequence_Tuple(object);
    if (tuple == nullptr && PyErr_Occurred() == nullptr) wrong_type(object, argument, "integers");
    if (!failed_ && !keep(tuple)) return nullptr;
    if (failed_) return nullptr;
    object = tuple;
  }
  const Py_ssize_t length = one ? 1 : PyTuple_Size(object);
  auto* words = static_cast<int64_t*>(room((static_cast<size_t>(length) + 1) * sizeof(int64_t)));
  for (Py_ssize_t i = 0; words != nullptr && i < length; ++i) {
    PyObject* item = one ? object : PyTuple_GetItem(object, i);
    if (!PyIndex_Check(item)) {
      wrong_type(item, argument, "integers");
      return nullptr;
    }
    words[i] = integer_from(item, argument, INT64_MIN, INT64_MAX);
    if (failed_) return nullptr;
  }
  *count = static_cast<size_t>(length);
  return words;
}

const int64_t* Call::words(Py_ssize_t at, const char* argument, size_t* count, bool* counted,
                           bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  size_t found;
  const int64_t* words = words_of(arguments_[at], argument, &found);
  if (words == nullptr) return nullptr;
  if (*counted && found != *count) {
    PyErr_Format(PyExc_ValueError, "%s: %s has %zu items, those before it %zu", name_, argument,
                 found, *count);
    fail();
    return nullptr;
  }
  *count = found;
  *counted = true;
  return words;
}

const char* Call::text(Py_ssize_t at, const char* argument, bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  PyObject* object = arguments_[at];
  if (!PyUnicode_Check(object) && !PyBytes_Check(object)) {
    object = PyOS_FSPath(object);
    if (object == nullptr) {
      PyErr_Clear();
      wrong_type(arguments_[at], argument, "a text or a path");
      return nullptr;
    }
    if (!keep(object)) return nullptr;
  }
  const char* text = nullptr;
  Py_ssize_t length = 0;
  if (PyUnicode_Check(object)) {
    text = PyUnicode_AsUTF8AndSize(object, &length);
  } else {
    char* bytes = nullptr;
    if (PyBytes_AsStringAndSize(object, &bytes, &length) == 0) text = bytes;
  }
  if (text != nullptr && std::strlen(text) != static_cast<size_t>(length)) {
    PyErr_Format(PyExc_ValueError, "%s: %s contains a null character", name_, argument);
    text = nullptr;
  }
  if (text == nullptr) fail();
  return text;
}

aster_ml_scalar* Call::scalar(Py_ssize_t at, const char* argument, bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  return scalar_from(arguments_[at], argument);
}

aster_ml_scalar* Call::scalar_from(PyObject* object, const char* argument) {
  int32_t dtype = 0;
  if (PyTuple_Check(object) && PyTuple_Size(object) == 2) {
    const long code = PyLong_AsLong(PyTuple_GetItem(object, 1));
    if (code < 0 || code > INT32_MAX || PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      wrong_type(object, argument, "a number or (number, dtype code)");
      return nullptr;
    }
    dtype = static_cast<int32_t>(code);
    object = PyTuple_GetItem(object, 0);
  }
  auto* out = static_cast<aster_ml_scalar*>(room(sizeof(aster_ml_scalar)));
  if (out == nullptr) return nullptr;
  int32_t status;
  if (PyBool_Check(object)) {
    status = aster_ml_scalar_from_int64(out, dtype != 0 ? dtype : ASTER_ML_DTYPE_BOOL,
                                        object == Py_True);
  } else if (PyFloat_Check(object)) {
    status = aster_ml_scalar_from_double(out, dtype != 0 ? dtype : ASTER_ML_DTYPE_WEAKFLOAT,
                                         PyFloat_AsDouble(object));
  } else if (PyLong_Check(object)) {
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
    const int32_t code = dtype != 0 ? dtype : ASTER_ML_DTYPE_WEAKINT;
    if (overflow == 0) {
      status = aster_ml_scalar_from_int64(out, code, value);
    } else {
      const uint64_t large = overflow > 0 ? PyLong_AsUnsignedLongLong(object) : 0;
      if (overflow < 0 || dtype == 0 || PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        raise(PyExc_OverflowError, name_, argument, "is out of range: %R", object);
        fail();
        return nullptr;
      }
      status = aster_ml_scalar_from_uint64(out, code, large);
    }
  } else {
    wrong_type(object, argument, "a number or (number, dtype code)");
    return nullptr;
  }
  if (status == 0) return out;
  raise_status(status);
  fail();
  return nullptr;
}

Py_buffer* Call::bytes(Py_ssize_t at, const char* argument, bool writable) {
  if (failed_) return nullptr;
  Py_buffer* buffer = &buffer_[buffers_];
  if (!PyObject_CheckBuffer(arguments_[at])) {
    wrong_type(arguments_[at], argument, "bytes or an array");
    return nullptr;
  }
  if (buffers_ == 2 ||
      PyObject_GetBuffer(arguments_[at], buffer,
                         PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)) != 0) {
    fail();
    return nullptr;
  }
  ++buffers_;
  return buffer;
}

// ---- Options ----

namespace {

template <class T>
void put(void* place, T value) {
  std::memcpy(place, &value, sizeof(value));
}

bool store_integer(void* place, Field kind, int64_t value) {
  switch (kind) {
    case Field::kI32:
      if (value < INT32_MIN || value > INT32_MAX) return false;
      put(place, static_cast<int32_t>(value));
      return true;
    case Field::kU32:
      if (value < 0 || value > UINT32_MAX) return false;
      put(place, static_cast<uint32_t>(value));
      return true;
    default:
      put(place, value);
      return kind == Field::kI64 || value >= 0;
  }
}

size_t size_of(Field kind) {
  return kind == Field::kI32 || kind == Field::kU32 ? sizeof(int32_t) : sizeof(int64_t);
}

}  // namespace

// Fills one field from a value; null with an exception.
void* Call::field(const FieldInfo& field, PyObject* value, const StructInfo& info, void* into) {
  char* place = static_cast<char*>(into) + field.offset;
  size_t count = 0;
  // The readers below take arguments by position: a call of this one argument.
  PyObject* const one[1] = {value};
  Call inner(info.name, one, 1, 1, 1);
  switch (field.kind) {
    case Field::kI32:
    case Field::kU32:
    case Field::kI64: {
      const int64_t* words = words_of(value, field.name, &count);
      if (words == nullptr) return nullptr;
      if (count != field.count) {
        PyErr_Format(PyExc_ValueError, "%s: %s takes %d numbers, %zu given", info.name, field.name,
                     field.count, count);
        return fail(), nullptr;
      }
      for (size_t i = 0; i < count; ++i) {
        if (!store_integer(place + i * size_of(field.kind), field.kind, words[i])) {
          raise(PyExc_OverflowError, info.name, field.name, "is out of range: %R", value);
          return fail(), nullptr;
        }
      }
      return place;
    }
    case Field::kU64:
      put(place, inner.natural(0, field.name));
      break;
    case Field::kF64:
      put(place, inner.real(0, field.name));
      break;
    case Field::kText: {
      put(place, inner.text(0, field.name));
      for (int i = 0; i < inner.kept_; ++i) keep(Py_NewRef(inner.keep_[i]));
      break;
    }
    case Field::kLazy: {
      const aster_ml_lazy* lazy = inner.lazy(0, field.name);
      put(place, lazy);
      if (lazy != nullptr) belong(as_lazy(value)->context);
      break;
    }
    case Field::kWords: {
      const int64_t* words = words_of(value, field.name, &count);
      if (words == nullptr) return nullptr;
      put(place, words);
      put(static_cast<char*>(into) + field.length, count);
      return place;
    }
    case Field::kUops: {
      PyObject* tuple = PySequence_Tuple(value);
      if (!keep(tuple)) return nullptr;
      count = static_cast<size_t>(PyTuple_Size(tuple));
      auto** uops = static_cast<const aster_ml_uop**>(room((count + 1) * sizeof(void*)));
      for (size_t i = 0; uops != nullptr && i < count; ++i) {
        PyObject* const item[1] = {PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i))};
        Call reader(info.name, item, 1, 1, 1);
        uops[i] = reader.uop(0, field.name);
        if (reader.failed()) return fail(), nullptr;
      }
      put(place, uops);
      put(static_cast<char*>(into) + field.length, count);
      return uops;
    }
    case Field::kChars:
      break;
  }
  if (inner.failed_) return fail(), nullptr;
  return place;
}

void* Call::options(Py_ssize_t at, const char* argument, const StructInfo& info, void* into) {
  if (failed_ || !given(at)) return nullptr;
  PyObject* dict = arguments_[at];
  if (!PyDict_Check(dict)) {
    wrong_type(arguments_[at], argument, "a dict");
    return nullptr;
  }
  std::memset(into, 0, info.bytes);
  if (info.sized) put(into, static_cast<uint32_t>(info.bytes));
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value) != 0) {
    const FieldInfo* found = nullptr;
    for (size_t i = 0; i < info.count && found == nullptr; ++i) {
      if (PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, info.fields[i].name) == 0)
        found = &info.fields[i];
    }
    if (found == nullptr || found->kind == Field::kChars) {
      PyErr_Format(PyExc_TypeError, "%s: %s has no field %R", name_, info.name, key);
      fail();
      return nullptr;
    }
    if (value != Py_None && field(*found, value, info, into) == nullptr) return nullptr;
  }
  return into;
}

}  // namespace aster::python
