// Arguments from Python for C: numbers, arrays, texts, index expressions, options.
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
    raise(exception_of(ASTER_ML_RANGE), name_, argument, "is out of range: %R", index);
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
    raise(exception_of(ASTER_ML_RANGE), name_, argument, "is out of range: %R", index);
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
  const bool one = PyIndex_Check(object) && PySequence_Check(object) == 0;
  if (!one && !PyTuple_Check(object)) object = tuple_of(object, argument, "integers");
  if (object == nullptr) return nullptr;
  const Py_ssize_t length = one ? 1 : PyTuple_Size(object);
  auto* words = room_of<int64_t>(static_cast<size_t>(length));
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

bool Call::count_as(const char* argument, size_t found, size_t* count, bool* counted) {
  if (*counted && found != *count) {
    PyErr_Format(PyExc_ValueError, "%s: %s has %zu items, those before it %zu", name_, argument,
                 found, *count);
    return fail();
  }
  *count = found;
  *counted = true;
  return true;
}

const int64_t* Call::words(Py_ssize_t at, const char* argument, size_t* count, bool* counted,
                           bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  size_t found;
  const int64_t* words = words_of(arguments_[at], argument, &found);
  return words != nullptr && count_as(argument, found, count, counted) ? words : nullptr;
}

bool Call::dim_of(PyObject* object, const char* argument, aster_ml_dim* out) {
  *out = {0, nullptr};
  if (PyObject_TypeCheck(object, g.uop_type)) {
    belong(reinterpret_cast<UopObject*>(object)->context);
    out->expression = reinterpret_cast<UopObject*>(object)->value;
  } else {
    out->value = integer_from(object, argument, INT64_MIN, INT64_MAX);
  }
  return !failed_;
}

const aster_ml_dim* Call::dim(Py_ssize_t at, const char* argument) {
  auto* out = failed_ ? nullptr : room_of<aster_ml_dim>(1);
  return out != nullptr && dim_of(arguments_[at], argument, out) ? out : nullptr;
}

const aster_ml_dim* Call::dims(Py_ssize_t at, const char* argument, size_t* count, bool* counted,
                               bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  PyObject* tuple = tuple_of(arguments_[at], argument, "sizes");
  const Py_ssize_t length = tuple == nullptr ? 0 : PyTuple_Size(tuple);
  if (failed_ || !count_as(argument, static_cast<size_t>(length), count, counted)) return nullptr;
  auto* dims = room_of<aster_ml_dim>(static_cast<size_t>(length));
  for (Py_ssize_t i = 0; dims != nullptr && i < length; ++i)
    if (!dim_of(PyTuple_GetItem(tuple, i), argument, &dims[i])) return nullptr;
  return dims;
}

const double* Call::reals(Py_ssize_t at, const char* argument, size_t* count, bool* counted,
                          bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  PyObject* tuple = tuple_of(arguments_[at], argument, "numbers");
  const Py_ssize_t length = tuple == nullptr ? 0 : PyTuple_Size(tuple);
  if (failed_ || !count_as(argument, static_cast<size_t>(length), count, counted)) return nullptr;
  auto* reals = room_of<double>(static_cast<size_t>(length));
  for (Py_ssize_t i = 0; reals != nullptr && i < length; ++i) {
    PyObject* item = PyTuple_GetItem(tuple, i);
    reals[i] = is_lazy(item) ? 0 : PyFloat_AsDouble(item);
    if (is_lazy(item) || PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      wrong_type(item, argument, "numbers");
      return nullptr;
    }
  }
  return reals;
}

const char** Call::texts(Py_ssize_t at, const char* argument, size_t* count, bool* counted,
                         bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  PyObject* tuple = tuple_of(arguments_[at], argument, "texts");
  const Py_ssize_t length = tuple == nullptr ? 0 : PyTuple_Size(tuple);
  if (failed_ || !count_as(argument, static_cast<size_t>(length), count, counted)) return nullptr;
  auto** texts = room_of<const char*>(static_cast<size_t>(length));
  for (Py_ssize_t i = 0; texts != nullptr && i < length; ++i) {
    PyObject* item = PyTuple_GetItem(tuple, i);
    if (!PyUnicode_Check(item)) {
      wrong_type(item, argument, "texts");
      return nullptr;
    }
    texts[i] = PyUnicode_AsUTF8AndSize(item, nullptr);
    if (texts[i] == nullptr) {
      fail();
      return nullptr;
    }
  }
  return texts;
}

bool Call::slice_of(PyObject* slice, const char* argument, aster_ml_dim_index* out) {
  constexpr const char* kParts[] = {"start", "stop", "step"};
  aster_ml_dim* const dims[] = {&out->start, &out->stop, nullptr};
  int64_t* const places[] = {&out->start.value, &out->stop.value, &out->step};
  bool given[3] = {};
  for (int i = 0; i < 3; ++i) {
    PyObject* part = PyObject_GetAttrString(slice, kParts[i]);
    if (!keep(part)) return false;
    given[i] = part != Py_None;
    // Bounds beyond the axis are clamped, however far they are.
    if (given[i] && PyLong_Check(part)) {
      int overflow = 0;
      *places[i] = PyLong_AsLongLongAndOverflow(part, &overflow);
      if (overflow != 0) *places[i] = overflow < 0 ? INT64_MIN : INT64_MAX;
    } else if (given[i] && dims[i] != nullptr) {
      dim_of(part, argument, dims[i]);
    } else if (given[i]) {
      *places[i] = integer_from(part, argument, INT64_MIN, INT64_MAX);
    }
    if (failed_) return false;
    Py_DECREF(part);
    --kept_;
  }
  if (given[2] && out->step == 0) {
    PyErr_Format(PyExc_ValueError, "%s: slice step cannot be zero", name_);
    return fail();
  }
  const bool backward = given[2] && out->step < 0;
  if (!given[0]) out->start.value = backward ? INT64_MAX : INT64_MIN;
  if (!given[1]) out->stop.value = backward ? INT64_MIN : INT64_MAX;
  if (!given[2]) out->step = 1;
  return true;
}

bool Call::index_of(PyObject* item, const char* argument, aster_ml_dim_index* out) {
  *out = {};
  if (item == Py_None) {
    out->kind = ASTER_ML_INDEX_NEW_AXIS;
  } else if (item == Py_Ellipsis) {
    out->kind = ASTER_ML_INDEX_ELLIPSIS;
  } else if (is_lazy(item) && as_lazy(item)->value.impl != nullptr) {
    out->kind = ASTER_ML_INDEX_TENSOR;
    out->tensor = &as_lazy(item)->value;
  } else if (Py_TYPE(item) == &PySlice_Type) {
    out->kind = ASTER_ML_INDEX_SLICE;
    return slice_of(item, argument, out);
  } else if ((PyIndex_Check(item) && !PyBool_Check(item)) || PyObject_TypeCheck(item, g.uop_type)) {
    out->kind = ASTER_ML_INDEX_INTEGER;
    dim_of(item, argument, &out->start);
  } else {
    wrong_type(item, argument, "integers, slices, None, ... or tensors");
  }
  return !failed_;
}

const aster_ml_dim_index* Call::dim_indices(Py_ssize_t at, const char* argument, size_t* count,
                                            bool* counted, bool) {
  if (failed_) return nullptr;
  PyObject* key = arguments_[at];
  const bool several = PyTuple_Check(key);
  const Py_ssize_t length = several ? PyTuple_Size(key) : 1;
  if (!count_as(argument, static_cast<size_t>(length), count, counted)) return nullptr;
  auto* items = room_of<aster_ml_dim_index>(static_cast<size_t>(length));
  for (Py_ssize_t i = 0; items != nullptr && i < length; ++i)
    if (!index_of(several ? PyTuple_GetItem(key, i) : key, argument, &items[i])) return nullptr;
  return items;
}

const aster_ml_index* Call::indices(Py_ssize_t at, const char* argument, size_t* count,
                                    bool* counted, bool optional) {
  const aster_ml_dim_index* given = dim_indices(at, argument, count, counted, optional);
  auto* items = given == nullptr ? nullptr : room_of<aster_ml_index>(*count);
  for (size_t i = 0; items != nullptr && i < *count; ++i) {
    const aster_ml_dim_index& from = given[i];
    if (from.start.expression != nullptr || from.stop.expression != nullptr) {
      wrong_type(arguments_[at], argument, "integers, slices, None, ... or tensors");
      return nullptr;
    }
    items[i] = {from.kind, from.start.value, from.stop.value, from.step, from.tensor};
  }
  return items;
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

// An integer beyond int64: of a float dtype, or of uint64 where it fits. Else RANGE, and perhaps an
// exception.
static int32_t wide_scalar(aster_ml_scalar* out, PyObject* object, int32_t dtype) {
  if (aster_ml_dtype_is_float(dtype) != 0) {
    const double value = PyLong_AsDouble(object);
    if (PyErr_Occurred() != nullptr) return ASTER_ML_RANGE;
    return aster_ml_scalar_from_double(out, dtype, value);
  }
  const uint64_t value = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred() != nullptr || dtype == 0) return ASTER_ML_RANGE;
  return aster_ml_scalar_from_uint64(out, dtype, value);
}

// What a wide integer is taken for beside the other arguments: a float where one of them is one,
// uint64 where a tensor is of it, else nothing.
int32_t Call::dtype_beside() const {
  int32_t found = 0;
  for (Py_ssize_t i = 0; i < count_; ++i) {
    const int32_t dtype =
        is_lazy(arguments_[i]) ? aster_ml_lazy_dtype(&as_lazy(arguments_[i])->value) : 0;
    if (PyFloat_Check(arguments_[i]) || aster_ml_dtype_is_float(dtype) != 0)
      return ASTER_ML_DTYPE_WEAKFLOAT;
    if (dtype == ASTER_ML_DTYPE_UINT64) found = dtype;
  }
  return found;
}

aster_ml_scalar* Call::scalar_from(PyObject* object, const char* argument) {
  int32_t dtype = 0;
  if (PyTuple_Check(object) && PyTuple_Size(object) == 2) {
    const long code = PyLong_AsLong(PyTuple_GetItem(object, 1));
    if (code < 0 || code > INT32_MAX || PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      wrong_type(object, argument, "a number or (number or bytes, dtype code)");
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
    status = overflow == 0 ? aster_ml_scalar_from_int64(out, code, value)
                           : wide_scalar(out, object, dtype != 0 ? dtype : dtype_beside());
    if (overflow != 0 && status != 0) {
      PyErr_Clear();
      raise(exception_of(ASTER_ML_RANGE), name_, argument, "is out of range: %R", object);
      fail();
      return nullptr;
    }
  } else if (PyBytes_Check(object) && dtype != 0) {
    const size_t size = aster_ml_dtype_size(dtype);
    if (static_cast<size_t>(PyBytes_Size(object)) != size || size == 0) {
      wrong_type(object, argument, "the bytes of an element");
      return nullptr;
    }
    status = aster_ml_scalar_from_data(out, dtype, PyBytes_AsString(object));
  } else {
    wrong_type(object, argument, "a number or (number or bytes, dtype code)");
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
  if (buffers_ == kMostBuffers ||
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
          raise(exception_of(ASTER_ML_RANGE), info.name, field.name, "is out of range: %R", value);
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
      if (field.length != 0) put(static_cast<char*>(into) + field.length, count);
      return place;
    }
    case Field::kUops: {
      PyObject* tuple = PySequence_Tuple(value);
      if (!keep(tuple)) return nullptr;
      count = static_cast<size_t>(PyTuple_Size(tuple));
      auto** uops = room_of<const aster_ml_uop*>(count);
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
