// Functions whose parameters the generator cannot derive: sizes that follow from other arguments,
// arrays out, texts out.
#include <cstdlib>
#include <cstring>

#include "native.h"

namespace aster::python {

using Lend = int32_t(aster_ml_tensor* out, aster_ml_lazy* x);

static bool pinned_by(Call& call, aster_ml_tensor* out, aster_ml_lazy* x, Lend* lend) {
  *out = aster_ml_tensor{};
  const auto view = [&] {
    aster_ml_tensor lent = {};
    const int32_t status = lend(&lent, x);
    if (status != 0) return status;
    return aster_ml_tensor_from_buffer(out, &call.owner()->handle, &lent.storage, lent.byte_offset,
                                       lent.ndim, lent.shape, lent.strides);
  };
  const bool ready = !call.failed() && aster_ml_lazy_is_realized(x) != 0;
  const bool ok = ready ? call.quick(view) : call.slow(view);
  if (!ok) aster_ml_tensor_free(out);
  return ok;
}

bool pinned_view(Call& call, aster_ml_tensor* out, aster_ml_lazy* x, bool strided) {
  return pinned_by(call, out, x, strided ? aster_ml_lazy_view_strided : aster_ml_lazy_view);
}

bool host_view(Call& call, aster_ml_tensor* out, aster_ml_lazy* x, bool strided) {
  if (!pinned_view(call, out, x, strided)) return false;
  const int32_t kinds[] = {ASTER_ML_DEVICE_CPU, ASTER_ML_DEVICE_REFERENCE, ASTER_ML_DEVICE_DISK};
  for (const int32_t kind : kinds)
    if (aster_ml_device_type(out->storage.device) == aster_ml_device_type(kind)) return true;
  PyErr_SetString(PyExc_BufferError, "the tensor is on a device whose memory is not the host's");
  aster_ml_tensor_free(out);
  return call.fail();
}

namespace {

constexpr Py_ssize_t kMostSizes = 4096;  // that are known at once

// What g.size makes of an expression; it is asked once for each.
PyObject* size_of(Call& call, const aster_ml_uop* expression) {
  PyObject* key = PyLong_FromVoidPtr(const_cast<aster_ml_uop*>(expression));
  if (g.sizes == nullptr) g.sizes = PyDict_New();
  if (key == nullptr || g.sizes == nullptr) return Py_XDECREF(key), nullptr;
  PyObject* known = PyDict_GetItemWithError(g.sizes, key);
  PyObject* size = known == nullptr ? nullptr : Py_NewRef(PyTuple_GetItem(known, 0));
  const auto retain = [&] { return aster_ml_uop_retain(&call.owner()->handle, expression); };
  if (known == nullptr && PyErr_Occurred() == nullptr && call.quick(retain)) {
    PyObject* uop = make_uop(call.owner(), expression);
    size = uop == nullptr ? nullptr : PyObject_CallFunctionObjArgs(g.size, uop, nullptr);
    PyObject* both = size == nullptr ? nullptr : PyTuple_Pack(2, size, uop);
    if (PyDict_Size(g.sizes) >= kMostSizes) PyDict_Clear(g.sizes);
    if (both == nullptr || PyDict_SetItem(g.sizes, key, both) != 0) Py_CLEAR(size);
    Py_XDECREF(both);
    Py_XDECREF(uop);
  }
  Py_DECREF(key);
  return size;
}

}  // namespace

PyObject* sizes_of(Call& call, const aster_ml_dim* dims, size_t count) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; tuple != nullptr && i < count; ++i) {
    PyObject* size = dims[i].expression == nullptr || g.size == nullptr
                         ? PyLong_FromLongLong(dims[i].value)
                         : size_of(call, dims[i].expression);
    if (size == nullptr || PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), size) != 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

namespace {

constexpr int kRanks = 64;  // shapes up to here need no memory

PyObject* lazy_shape(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("lazy_shape", arguments, count, 1, 1);
  const aster_ml_lazy* x = call.lazy(0, "x");
  int64_t few[kRanks];
  int64_t* shape = few;
  size_t ndim = 0;
  bool symbolic = false;
  if (!call.plain([&] {
        ndim = aster_ml_lazy_ndim(x);
        symbolic = aster_ml_lazy_is_symbolic(x) != 0;
      }))
    return nullptr;
  if (symbolic) {
    auto* dims = call.room_of<aster_ml_dim>(ndim);
    if (!call.quick([&] { return aster_ml_lazy_dims(dims, ndim, x); })) return nullptr;
    return sizes_of(call, dims, ndim);
  }
  if (ndim > kRanks) shape = call.room_of<int64_t>(ndim);
  if (!call.quick([&] { return aster_ml_lazy_shape(shape, ndim, x); })) return nullptr;
  return tuple_of(shape, ndim);
}

// The bytes of a shape of dtype; false with an exception where buffer has another number.
bool fits(Call& call, const char* name, const Py_buffer* data, int32_t dtype, const int64_t* shape,
          size_t ndim) {
  if (call.failed()) return false;
  size_t bytes = aster_ml_dtype_size(dtype);
  bool over = false;
  for (size_t i = 0; i < ndim; ++i)
    over = over || shape[i] < 0 ||
           __builtin_mul_overflow(bytes, static_cast<size_t>(shape[i]), &bytes);
  if (bytes == 0 && data->len == 0) return true;
  if (!over && bytes == static_cast<size_t>(data->len)) return true;
  PyErr_Format(PyExc_ValueError, "%s: data has %zd bytes, the shape takes %zu", name, data->len,
               over ? 0 : bytes);
  return call.fail();
}

// The elements that a call brings: (data, dtype, shape, context=None).
struct Elements {
  Elements(const char* name, PyObject* const* arguments, Py_ssize_t count)
      : call(name, arguments, count, 3, 4),
        context(call.context(3)),
        data(call.bytes(0, "data", false)),
        dtype(call.integer32(1, "dtype")) {
    bool known = false;
    shape = call.words(2, "shape", &ndim, &known, false);
    fits(call, name, data, dtype, shape, ndim);
  }

  Call call;
  const aster_ml_context* context;
  const Py_buffer* data;
  int32_t dtype;
  size_t ndim = 0;
  const int64_t* shape = nullptr;
};

PyObject* lazy_from(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Elements x("lazy_from", arguments, count);
  aster_ml_lazy out = {};
  const bool ok = x.call.quick(
      [&] { return aster_ml_lazy_from(&out, x.context, x.data->buf, x.dtype, x.ndim, x.shape); });
  return ok ? make_lazy(x.call.owner(), out) : nullptr;
}

PyObject* tensor_from_data(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Elements x("tensor_from_data", arguments, count);
  aster_ml_tensor out = {};
  const bool ok = x.call.quick([&] {
    return aster_ml_tensor_from_data(&out, x.context, x.data->buf, x.dtype, x.ndim,
                                     reinterpret_cast<const size_t*>(x.shape));
  });
  return ok ? make_tensor(x.call.owner(), out) : nullptr;
}

PyObject* lazy_view(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("lazy_view", arguments, count, 1, 1);
  aster_ml_lazy* x = call.lazy(0, "x");
  aster_ml_tensor out;
  return pinned_view(call, &out, x, false) ? make_tensor(call.owner(), out) : nullptr;
}

PyObject* lazy_view_strided(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("lazy_view_strided", arguments, count, 1, 1);
  aster_ml_lazy* x = call.lazy(0, "x");
  aster_ml_tensor out;
  return pinned_view(call, &out, x, true) ? make_tensor(call.owner(), out) : nullptr;
}

PyObject* lazy_view_whole(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("lazy_view_whole", arguments, count, 1, 1);
  aster_ml_lazy* x = call.lazy(0, "x");
  aster_ml_tensor out;
  return pinned_by(call, &out, x, aster_ml_lazy_view_whole) ? make_tensor(call.owner(), out)
                                                            : nullptr;
}

// lazy_copy_out(x, data=None): into data, or new bytes.
PyObject* lazy_copy_out(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("lazy_copy_out", arguments, count, 1, 2);
  aster_ml_lazy* x = call.lazy(0, "x");
  if (call.given(1)) {
    const Py_buffer* data = call.bytes(1, "data", true);
    if (!call.slow(
            [&] { return aster_ml_lazy_copy_out(data->buf, static_cast<size_t>(data->len), x); }))
      return nullptr;
    return none();
  }
  size_t bytes = 0;
  if (!call.plain([&] {
        int32_t dtype = 0;
        if (aster_ml_dtype_strong(&dtype, aster_ml_lazy_dtype(x)) == 0)
          bytes = static_cast<size_t>(aster_ml_lazy_count(x)) * aster_ml_dtype_size(dtype);
      }))
    return nullptr;
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  char* data = nullptr;
  Py_ssize_t length = 0;
  if (made == nullptr || PyBytes_AsStringAndSize(made, &data, &length) != 0) return nullptr;
  if (!call.slow([&] { return aster_ml_lazy_copy_out(data, bytes, x); })) Py_CLEAR(made);
  return made;
}

PyObject* device_to_name(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("device_to_name", arguments, count, 1, 1);
  const int32_t device = call.integer32(0, "device");
  char name[48];
  if (!call.quick([&] { return aster_ml_device_to_name(name, sizeof(name), device); }))
    return nullptr;
  return text_of(name);
}

PyObject* engine_print_schedule(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("engine_print_schedule", arguments, count, 0, 1);
  const aster_ml_context* context = call.context(0);
  constexpr size_t kBytes = 1 << 18;
  char* text = static_cast<char*>(call.room(kBytes));
  if (!call.quick([&] { return aster_ml_engine_print_schedule(text, kBytes, context); }))
    return nullptr;
  return text_of(text);
}

PyObject* tracer = nullptr;  // told of the launches of every context that is traced

void tell_tracer(void*, const aster_ml_launch* launch) {
  const PyGILState_STATE state = PyGILState_Ensure();
  if (PyObject* told = tracer) {
    Py_INCREF(told);
    PyObject* none = PyObject_CallFunction(
        told, "sKKKKiiissi", launch->name, static_cast<unsigned long long>(launch->nanoseconds),
        static_cast<unsigned long long>(launch->operations),
        static_cast<unsigned long long>(launch->bytes),
        static_cast<unsigned long long>(launch->held_bytes), launch->device, launch->operands,
        launch->replayed, launch->cut, launch->algorithm, launch->is_exact);
    if (none == nullptr) PyErr_WriteUnraisable(told);
    Py_XDECREF(none);
    Py_DECREF(told);
  }
  PyGILState_Release(state);
}

PyObject* engine_trace(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("engine_trace", arguments, count, 1, 2);
  const aster_ml_context* context = call.context(1);
  const bool on = call.given(0);
  if (!call.failed() && on && PyCallable_Check(call.argument(0)) == 0) {
    PyErr_SetString(PyExc_TypeError, "engine_trace: function is not callable");
    return nullptr;
  }
  if (!call.quick(
          [&] { return aster_ml_engine_trace(context, on ? tell_tracer : nullptr, nullptr); }))
    return nullptr;
  if (on) {
    PyObject* before = tracer;
    tracer = Py_NewRef(call.argument(0));
    Py_XDECREF(before);
  }
  return none();
}

// trace_configure(dump, profile, debug)
PyObject* trace_configure(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("trace_configure", arguments, count, 3, 4);
  const aster_ml_context* context = call.context(3);
  aster_ml_trace_config config = {};
  config.struct_size = sizeof(config);
  config.dump_programs = call.text(0, "dump", true);
  config.profile = call.text(1, "profile", true);
  config.debug = call.integer32(2, "debug");
  const bool any =
      config.dump_programs != nullptr || config.profile != nullptr || config.debug != 0;
  if (!call.slow([&] { return aster_ml_trace_configure(context, any ? &config : nullptr); }))
    return nullptr;
  return none();
}

PyObject* engine_graph(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("engine_graph", arguments, count, 3, 4);
  const aster_ml_context* context = call.context(3);
  size_t tensors = 0;
  bool counted = false;
  aster_ml_lazy** handles = call.lazies(0, "tensors", &tensors, &counted);
  const int32_t level = call.integer32(1, "level"), format = call.integer32(2, "format");
  return text_by(call, [&](char* out, size_t* length, size_t capacity) {
    return aster_ml_engine_graph(out, length, capacity, context, handles, tensors, level, format);
  });
}

PyObject* engine_graph_uop(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("engine_graph_uop", arguments, count, 3, 3);
  const aster_ml_uop* root = call.uop(0, "root");
  const int32_t level = call.integer32(1, "level"), format = call.integer32(2, "format");
  return text_by(call, [&](char* out, size_t* length, size_t capacity) {
    return aster_ml_engine_graph_uop(out, length, capacity, &call.owner()->handle, root, level,
                                     format);
  });
}

PyObject* uop_print(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("uop_print", arguments, count, 1, 1);
  const aster_ml_uop* root = call.uop(0, "root");
  size_t length = 0;
  if (!call.quick(
          [&] { return aster_ml_uop_print(nullptr, &length, 0, &call.owner()->handle, root); }))
    return nullptr;
  char* text = static_cast<char*>(call.room(length + 1));
  if (!call.quick([&] {
        return aster_ml_uop_print(text, &length, length + 1, &call.owner()->handle, root);
      }))
    return nullptr;
  return text_of(text);
}

PyObject* uop_walk(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("uop_walk", arguments, count, 1, 1);
  const aster_ml_uop* root = call.uop(0, "root");
  size_t nodes = 0;
  if (!call.quick(
          [&] { return aster_ml_uop_walk(nullptr, &nodes, 0, &call.owner()->handle, root); }))
    return nullptr;
  auto** all = call.room_of<const aster_ml_uop*>(nodes);
  if (!call.quick(
          [&] { return aster_ml_uop_walk(all, &nodes, nodes, &call.owner()->handle, root); }))
    return nullptr;
  PyObject* list = PyList_New(0);
  for (size_t i = 0; list != nullptr && i < nodes; ++i) {
    PyObject* node = nullptr;
    if (call.quick([&] { return aster_ml_uop_retain(&call.owner()->handle, all[i]); }))
      node = make_uop(call.owner(), all[i]);
    if (node == nullptr || PyList_Append(list, node) != 0) Py_CLEAR(list);
    Py_XDECREF(node);
  }
  return list;
}

PyObject* scalar_from_data(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("scalar_from_data", arguments, count, 2, 2);
  const int32_t dtype = call.integer32(0, "dtype");
  const Py_buffer* data = call.bytes(1, "data", false);
  if (!fits(call, "scalar_from_data", data, dtype, nullptr, 0)) return nullptr;
  aster_ml_scalar out;
  if (!call.quick([&] { return aster_ml_scalar_from_data(&out, dtype, data->buf); }))
    return nullptr;
  return scalar_of(out);
}

// Elements of dtype in a buffer; false with an exception where they are no whole number.
bool elements(Call& call, const char* name, const Py_buffer* data, int32_t dtype, size_t* out) {
  if (call.failed()) return false;
  const size_t size = aster_ml_dtype_size(dtype);
  const size_t bytes = static_cast<size_t>(data->len);
  *out = size == 0 ? 0 : bytes / size;
  if (size == 0 || bytes % size == 0) return true;
  PyErr_Format(PyExc_ValueError, "%s: %zu bytes are no whole number of elements", name, bytes);
  return call.fail();
}

PyObject* dtype_copy(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("dtype_copy", arguments, count, 4, 4);
  const Py_buffer* dst = call.bytes(0, "dst", true);
  const int32_t dst_dtype = call.integer32(1, "dst_dtype");
  const Py_buffer* src = call.bytes(2, "src", false);
  const int32_t src_dtype = call.integer32(3, "src_dtype");
  size_t to = 0, from = 0;
  if (!elements(call, "dtype_copy", dst, dst_dtype, &to) ||
      !elements(call, "dtype_copy", src, src_dtype, &from))
    return nullptr;
  if (to != from) {
    PyErr_Format(PyExc_ValueError, "dtype_copy: %zu elements into %zu", from, to);
    return nullptr;
  }
  if (!call.quick(
          [&] { return aster_ml_dtype_copy(dst->buf, dst_dtype, src->buf, src_dtype, to); }))
    return nullptr;
  return none();
}

// Row-major elements of out = a b; the algorithm that ran.
PyObject* flt_matmul_by(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("flt_matmul_by", arguments, count, 9, 10);
  const Py_buffer* out = call.bytes(0, "out", true);
  const int32_t algorithm = call.integer32(1, "algorithm"), dtype = call.integer32(2, "dtype"),
                rounding = call.integer32(3, "rounding");
  const Py_buffer *a = call.bytes(4, "a", false), *b = call.bytes(5, "b", false);
  const size_t rows = call.size(6, "rows"), inner = call.size(7, "inner"),
               columns = call.size(8, "columns");
  const aster_ml_context* context = call.context(9);
  size_t counts[3] = {}, products[3] = {};
  if (!elements(call, "flt_matmul_by", out, dtype, &counts[0]) ||
      !elements(call, "flt_matmul_by", a, dtype, &counts[1]) ||
      !elements(call, "flt_matmul_by", b, dtype, &counts[2]))
    return nullptr;
  if (__builtin_mul_overflow(rows, columns, &products[0]) ||
      __builtin_mul_overflow(rows, inner, &products[1]) ||
      __builtin_mul_overflow(inner, columns, &products[2]) ||
      std::memcmp(counts, products, sizeof(counts)) != 0) {
    PyErr_SetString(PyExc_ValueError, "flt_matmul_by: the bytes are not those of the shapes");
    return nullptr;
  }
  int32_t ran = 0;
  if (!call.parallel([&] {
        return aster_ml_flt_matmul_by(out->buf, &ran, context, algorithm, dtype, rounding, a->buf,
                                      b->buf, rows, inner, columns, nullptr);
      }))
    return nullptr;
  return PyLong_FromLong(ran);
}

PyObject* tensor_copy_in(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("tensor_copy_in", arguments, count, 2, 2);
  aster_ml_tensor* tensor = call.tensor(0, "tensor");
  const Py_buffer* host = call.bytes(1, "host", false);
  size_t items = 0;
  if (!elements(call, "tensor_copy_in", host, tensor == nullptr ? 0 : tensor->dtype, &items) ||
      !call.slow([&] { return aster_ml_tensor_copy_in(tensor, host->buf, items); }))
    return nullptr;
  return none();
}

PyObject* tensor_copy_out(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("tensor_copy_out", arguments, count, 2, 2);
  const aster_ml_tensor* tensor = call.tensor(0, "tensor");
  const Py_buffer* host = call.bytes(1, "host", true);
  size_t items = 0;
  if (!elements(call, "tensor_copy_out", host, tensor == nullptr ? 0 : tensor->dtype, &items) ||
      !call.slow([&] { return aster_ml_tensor_copy_out(host->buf, tensor, items); }))
    return nullptr;
  return none();
}

// tensor_info(tensor) -> (dtype code, device code, shape, strides in elements).
PyObject* tensor_info(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("tensor_info", arguments, count, 1, 1);
  const aster_ml_tensor* tensor = call.tensor(0, "tensor");
  if (call.failed()) return nullptr;
  static_assert(sizeof(size_t) == sizeof(int64_t) && sizeof(ptrdiff_t) == sizeof(int64_t));
  return Py_BuildValue("(iiNN)", tensor->dtype, tensor->device,
                       tuple_of(reinterpret_cast<const int64_t*>(tensor->shape), tensor->ndim),
                       tuple_of(reinterpret_cast<const int64_t*>(tensor->strides), tensor->ndim));
}

// program_run(program, inputs, outputs, workspace=None, values=None): on concrete tensors,
// row-major; the results are written to the outputs. values: of its variables.
PyObject* program_run(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("program_run", arguments, count, 3, 5);
  auto* program =
      static_cast<aster_ml_program*>(call.handle(0, "program", *handle_type("Program")));
  auto* workspace = static_cast<aster_ml_workspace*>(
      call.handle(3, "workspace", *handle_type("Workspace"), true));
  size_t input_count = 0, output_count = 0;
  aster_ml_tensor* inputs = call.tensors(1, "inputs", &input_count);
  aster_ml_tensor* outputs = call.tensors(2, "outputs", &output_count);
  size_t value_count = 0;
  bool known = false;
  const int64_t* values = call.words(4, "values", &value_count, &known, true);
  const auto run = [&] {
    return values == nullptr
               ? aster_ml_program_run(program, workspace, inputs, input_count, outputs,
                                      output_count)
               : aster_ml_program_run_bound(program, workspace, values, value_count, inputs,
                                            input_count, outputs, output_count);
  };
  // With a workspace of its own a call needs nothing that others use.
  if (!(workspace != nullptr ? call.parallel(run) : call.slow(run))) return nullptr;
  return none();
}

// program_run_sized(program, inputs): concrete tensors of the present sizes; the results are new.
PyObject* program_run_sized(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("program_run_sized", arguments, count, 2, 2);
  auto* program =
      static_cast<aster_ml_program*>(call.handle(0, "program", *handle_type("Program")));
  size_t input_count = 0;
  aster_ml_tensor* inputs = call.tensors(1, "inputs", &input_count);
  const size_t output_count = aster_ml_program_count_arrays(program, ASTER_ML_PROGRAM_OUTPUTS);
  auto* lent = call.room_of<aster_ml_tensor>(output_count);
  auto* made = call.room_of<aster_ml_tensor>(output_count);
  for (size_t i = 0; lent != nullptr && made != nullptr && i < output_count; ++i)
    lent[i] = made[i] = {};
  // The results are the workspace's until the next run: copied before anybody else gets a turn.
  const bool ok = call.slow([&] {
    int32_t status =
        aster_ml_program_run_sized(program, nullptr, inputs, input_count, lent, output_count);
    for (size_t i = 0; i < output_count; ++i) {
      if (status == 0)
        status = aster_ml_tensor_contiguous(&made[i], &call.owner()->handle, &lent[i]);
      aster_ml_tensor_free(&lent[i]);
    }
    for (size_t i = 0; status != 0 && i < output_count; ++i) aster_ml_tensor_free(&made[i]);
    return status;
  });
  if (!ok) return nullptr;
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(output_count));
  for (size_t i = 0; i < output_count; ++i) {
    PyObject* each = make_tensor(call.owner(), made[i]);
    if (list != nullptr && each != nullptr) {
      PyList_SetItem(list, static_cast<Py_ssize_t>(i), each);
    } else {
      Py_XDECREF(each);
      Py_CLEAR(list);
    }
  }
  return list;
}

// Waits for nobody: it is for the call that runs.
PyObject* engine_cancel(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("engine_cancel", arguments, count, 0, 1);
  const aster_ml_context* context = call.context(0);
  if (call.failed()) return nullptr;
  if (const int32_t status = aster_ml_engine_cancel(context); status != 0)
    return raise_status(status), nullptr;
  return none();
}

// lazy_realize_ready(x)
PyObject* lazy_realize_ready(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("lazy_realize_ready", arguments, count, 1, 1);
  aster_ml_lazy* x = call.lazy(0, "x");
  int32_t done = 0;
  if (!call.quick([&] { return aster_ml_lazy_realize_ready(&done, x); })) return nullptr;
  return PyBool_FromLong(done);
}

}  // namespace

PyMethodDef kSpecialMethods[] = {
    {"lazy_realize_ready", as_method(lazy_realize_ready), METH_FASTCALL,
     "lazy_realize_ready(x)\n\nRealises x where that takes no longer than a call; whether it is."},
    {"engine_cancel", as_method(engine_cancel), METH_FASTCALL,
     "engine_cancel(context)\n\nStops what other threads compute in a context: CANCELLED there."},
    {"lazy_shape", as_method(lazy_shape), METH_FASTCALL,
     "lazy_shape(x)\n\nThe dimensions of x, a tuple."},
    {"lazy_from", as_method(lazy_from), METH_FASTCALL,
     "lazy_from(data, dtype, shape, context)\n\nA copy of bytes: the elements of shape, "
     "row-major."},
    {"tensor_from_data", as_method(tensor_from_data), METH_FASTCALL,
     "tensor_from_data(data, dtype, shape, context)\n\nAs lazy_from, concrete."},
    {"lazy_view", as_method(lazy_view), METH_FASTCALL,
     "lazy_view(x)\n\nThe storage of x, realised; it lives as long as the result."},
    {"lazy_view_strided", as_method(lazy_view_strided), METH_FASTCALL,
     "lazy_view_strided(x)\n\nThe same as x lies, with strides of any sign."},
    {"lazy_view_whole", as_method(lazy_view_whole), METH_FASTCALL,
     "lazy_view_whole(x)\n\nAs lazy_view, of the tensor of the greatest sizes."},
    {"lazy_copy_out", as_method(lazy_copy_out), METH_FASTCALL,
     "lazy_copy_out(x, data=None)\n\nThe elements of x, row-major, into data or as new bytes."},
    {"device_to_name", as_method(device_to_name), METH_FASTCALL,
     "device_to_name(device)\n\nThe canonical name of a device code."},
    {"engine_graph", as_method(engine_graph), METH_FASTCALL,
     "engine_graph(tensors, level, format, context)\n\nWhat realising tensors would compute."},
    {"engine_graph_uop", as_method(engine_graph_uop), METH_FASTCALL,
     "engine_graph_uop(root, level, format)\n\nThe same of a node."},
    {"engine_print_schedule", as_method(engine_print_schedule), METH_FASTCALL,
     "engine_print_schedule(context)\n\nHow the last schedule looks, one line an item."},
    {"engine_trace", as_method(engine_trace), METH_FASTCALL,
     "engine_trace(function, context)\n\nCalls function(name, nanoseconds, operations, bytes, "
     "held_bytes, device, operands, replayed, stored, algorithm, exact)\nbehind every launch; "
     "None: "
     "no longer. It must not call the library. One function a process."},
    {"trace_configure", as_method(trace_configure), METH_FASTCALL,
     "trace_configure(dump, profile, debug, context)\n\nBegins a trace, or ends it."},
    {"uop_print", as_method(uop_print), METH_FASTCALL, "uop_print(root)\n\nA graph as text."},
    {"uop_walk", as_method(uop_walk), METH_FASTCALL,
     "uop_walk(root)\n\nThe nodes that root is made of, sources before users, root last."},
    {"scalar_from_data", as_method(scalar_from_data), METH_FASTCALL,
     "scalar_from_data(dtype, data)\n\nThe element in data."},
    {"dtype_copy", as_method(dtype_copy), METH_FASTCALL,
     "dtype_copy(dst, dst_dtype, src, src_dtype)\n\nThe elements of src, converted, into dst."},
    {"flt_matmul_by", as_method(flt_matmul_by), METH_FASTCALL,
     "flt_matmul_by(out, algorithm, dtype, rounding, a, b, rows, inner, columns, context=None)\n\n"
     "The product of two matrices, row-major elements; the algorithm that ran."},
    {"tensor_copy_in", as_method(tensor_copy_in), METH_FASTCALL,
     "tensor_copy_in(tensor, host)\n\nRow-major elements into a tensor."},
    {"tensor_copy_out", as_method(tensor_copy_out), METH_FASTCALL,
     "tensor_copy_out(tensor, host)\n\nThe elements of a tensor, row-major."},
    {"program_run", as_method(program_run), METH_FASTCALL,
     "program_run(program, inputs, outputs, workspace=None, values=None)\n\n"
     "Runs a captured program on concrete tensors; the results are written to the outputs. values: "
     "of its\nvariables, in their order."},
    {"program_run_sized", as_method(program_run_sized), METH_FASTCALL,
     "program_run_sized(program, inputs)\n\nRuns a program on concrete tensors of the present "
     "sizes, "
     "which say what its\nvariables are; the results, new."},
    {"tensor_info", as_method(tensor_info), METH_FASTCALL,
     "tensor_info(tensor)\n\n(dtype, device, shape, strides in elements)."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace aster::python
