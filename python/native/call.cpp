// Calls: arguments from Python, the context's turn, the GIL.
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {
Call::Call(const char* name, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t least,
           Py_ssize_t most)
    : name_(std::strncmp(name, "lazy_", 5) == 0 ? name + 5 : name),
      arguments_(arguments),
      count_(count) {
  if (count >= least && count <= most) return;
  failed_ = true;
  if (least == most) {
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, %zd given", name_, most, count);
  } else {
    PyErr_Format(PyExc_TypeError, "%s takes %zd to %zd arguments, %zd given", name_, least, most,
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
  drop_pins();
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
  if (bytes < SIZE_MAX - 15) bytes = (bytes + 15) & ~size_t{15};
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
    if (owner_->holder == PyThread_get_thread_ident()) {  // that call waits for us
      if (owner_->called_back) return true;
      PyErr_Format(PyExc_RuntimeError, "%s: a signal handler cannot use a context that computes",
                   name_);
      return fail();
    }
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
  if (owner_->called_back && owner_->busy && owner_->holder == PyThread_get_thread_ident()) {
    PyErr_Format(PyExc_RuntimeError, "%s: what a call of the library asks for builds, no more",
                 name_);
    return fail();
  }
  while (!PyThread_acquire_lock(owner_->lock, NOWAIT_LOCK)) {
    if (!wait()) return false;
    // The lock may be held for a moment by a thread that only waited.
    if (!owner_->busy) {
      PyThreadState* thread = PyEval_SaveThread();
      PyEval_RestoreThread(thread);
    }
  }
  owner_->busy = true;
  owner_->holder = PyThread_get_thread_ident();
  return true;
}

void Call::end_turn() {
  if (owner_ == nullptr) return;
  owner_->busy = false;
  PyThread_release_lock(owner_->lock);
  while (Deferred* deferred = owner_->deferred) {
    owner_->deferred = deferred->next;
    deferred->free(deferred->handle);
    std::free(deferred);
  }
}

bool Call::end_slow(int32_t status) {
  end_turn();
  return status == 0 ? check_signals() : raise_status(status);
}

// A signal that came during the call may have set its exception already.
bool Call::check_signals() {
  return (PyErr_Occurred() == nullptr && PyErr_CheckSignals() == 0 && tell_lines()) || fail();
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

// What needs no look at by Python.
static bool is_number(PyObject* object) { return PyFloat_Check(object) || PyLong_Check(object); }

const aster_ml_lazy* Call::operand(Py_ssize_t at, const char* argument, bool optional) {
  if (failed_ || (optional && !given(at))) return nullptr;
  PyObject* object = arguments_[at];
  if (is_lazy(object)) return lazy(at, argument);
  if (!is_number(object)) {
    object = converted(object);
    if (failed_) return nullptr;
    if (is_lazy(object)) {
      belong(as_lazy(object)->context);
      return &as_lazy(object)->value;
    }
  }
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

PyObject* Call::converted(PyObject* object) {
  if (g.operand == nullptr) return object;
  PyObject* like = Py_None;
  for (Py_ssize_t i = count_; i-- > 0 && like == Py_None;)
    if (is_lazy(arguments_[i])) like = arguments_[i];
  PyObject* made = PyObject_CallFunctionObjArgs(g.operand, object, like, nullptr);
  if (!keep(made)) return nullptr;
  return made == Py_None ? object : made;
}

bool Call::number(aster_ml_lazy* out, PyObject* object, const char* argument) {
  const aster_ml_context* context = &owner_->handle;
  int32_t status;
  int wide = 0;
  if (PyLong_Check(object)) PyLong_AsLongLongAndOverflow(object, &wide);
  if (PyFloat_Check(object)) {
    status = aster_ml_lazy_number(out, context, PyFloat_AsDouble(object));
  } else if (PyBool_Check(object) || wide != 0) {
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

PyObject* Call::tuple_of(PyObject* object, const char* argument, const char* wanted) {
  if (failed_) return nullptr;
  if (!PySequence_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object) ||
      is_lazy(object)) {
    wrong_type(object, argument, wanted);
    return nullptr;
  }
  PyObject* tuple = PySequence_Tuple(object);
  return keep(tuple) ? tuple : nullptr;
}

aster_ml_lazy** Call::lazies(Py_ssize_t at, const char* argument, size_t* count, bool* counted) {
  PyObject* tuple = failed_ ? nullptr : tuple_of(arguments_[at], argument, "a list of tensors");
  if (tuple == nullptr) return nullptr;
  const Py_ssize_t length = PyTuple_Size(tuple);
  auto** all = room_of<aster_ml_lazy*>(static_cast<size_t>(length));
  for (Py_ssize_t i = 0; all != nullptr && i < length; ++i) {
    PyObject* item = PyTuple_GetItem(tuple, i);
    if (!is_lazy(item) || as_lazy(item)->value.impl == nullptr) {
      wrong_type(item, argument, "a list of tensors");
      return nullptr;
    }
    belong(as_lazy(item)->context);
    all[i] = &as_lazy(item)->value;
  }
  return count_as(argument, static_cast<size_t>(length), count, counted) ? all : nullptr;
}

void** Call::handles(Py_ssize_t at, const char* argument, const HandleType& type, size_t* count,
                     bool* counted) {
  PyObject* tuple = failed_ ? nullptr : tuple_of(arguments_[at], argument, "a list of handles");
  if (tuple == nullptr) return nullptr;
  const Py_ssize_t length = PyTuple_Size(tuple);
  auto** all = room_of<void*>(static_cast<size_t>(length));
  for (Py_ssize_t i = 0; all != nullptr && i < length; ++i) {
    PyObject* item = PyTuple_GetItem(tuple, i);
    if (!PyObject_TypeCheck(item, type.type)) {
      wrong_type(item, argument, "a list of handles of one type");
      return nullptr;
    }
    auto* object = reinterpret_cast<Object<void*>*>(item);
    belong(object->context);
    all[i] = &object->value;
  }
  return count_as(argument, static_cast<size_t>(length), count, counted) ? all : nullptr;
}

aster_ml_lazy* Call::results(size_t count) {
  return failed_ ? nullptr : room_of<aster_ml_lazy>(count);
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

aster_ml_tensor* Call::tensors(Py_ssize_t at, const char* argument, size_t* count) {
  PyObject* tuple = failed_ ? nullptr : tuple_of(arguments_[at], argument, "a list of tensors");
  if (tuple == nullptr) return nullptr;
  const auto length = static_cast<size_t>(PyTuple_Size(tuple));
  auto* all = room_of<aster_ml_tensor>(length);
  for (size_t i = 0; all != nullptr && i < length; ++i) {
    PyObject* item = PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i));
    if (!PyObject_TypeCheck(item, g.tensor_type)) {
      wrong_type(item, argument, "a list of ConcreteTensor");
      return nullptr;
    }
    all[i] = reinterpret_cast<TensorObject*>(item)->value;
  }
  *count = length;
  return all;
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

const aster_ml_buffer_view* Call::view(Py_ssize_t at, const char* argument) {
  if (failed_) return nullptr;
  if (!PyObject_TypeCheck(arguments_[at], g.view_type)) {
    wrong_type(arguments_[at], argument, "a View");
    return nullptr;
  }
  auto* object = reinterpret_cast<ViewObject*>(arguments_[at]);
  belong(object->context);
  return &object->value;
}

}  // namespace aster::python
