// Kernels, plans and programs as text (aster_ml/codegen.h).
#include "native.h"

namespace aster::python {
namespace {

// A target is six numbers from argument `at` on.
constexpr Py_ssize_t kTarget = 6;
aster_ml_target target_of(Call& call, Py_ssize_t at) {
  return {sizeof(aster_ml_target),
          call.integer32(at, "form"),
          call.integer32(at + 1, "vector_bytes"),
          static_cast<uint32_t>(call.integer(at + 2, "flags", 0, UINT32_MAX)),
          static_cast<uint32_t>(call.integer(at + 3, "group", 0, UINT32_MAX)),
          static_cast<uint32_t>(call.integer(at + 4, "group_limit", 0, UINT32_MAX)),
          static_cast<uint64_t>(call.integer(at + 5, "local_bytes", 0, INT64_MAX))};
}

PyObject* codegen_target(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("codegen_target", arguments, count, 1, 2);
  const aster_ml_context* context = call.context(1);
  const int32_t device = call.integer32(0, "device");
  aster_ml_target out = {};
  out.struct_size = sizeof(out);
  if (!call.quick([&] { return aster_ml_codegen_target(&out, context, device); })) return nullptr;
  return Py_BuildValue("(iikkkK)", out.form, out.vector_bytes,
                       static_cast<unsigned long>(out.flags), static_cast<unsigned long>(out.group),
                       static_cast<unsigned long>(out.group_limit),
                       static_cast<unsigned long long>(out.local_bytes));
}

PyObject* codegen_model(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("codegen_model", arguments, count, 1, 2);
  const aster_ml_context* context = call.context(1);
  const int32_t device = call.integer32(0, "device");
  return text_by(call, [&](char* out, size_t* length, size_t capacity) {
    return aster_ml_codegen_model(out, length, capacity, context, device);
  });
}

PyObject* codegen_kernels(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("codegen_kernels", arguments, count, 1, 2);
  const aster_ml_context* context = call.context(1);
  size_t tensors = 0, kernels = 0;
  bool counted = false;
  aster_ml_lazy** handles = call.lazies(0, "tensors", &tensors, &counted);
  if (!call.slow([&] {
        return aster_ml_codegen_kernels(nullptr, &kernels, 0, context, handles, tensors);
      }))
    return nullptr;
  auto** all = call.room_of<const aster_ml_uop*>(kernels);
  if (!call.slow([&] {
        return aster_ml_codegen_kernels(all, &kernels, kernels, context, handles, tensors);
      }))
    return nullptr;
  PyObject* list = PyList_New(0);
  for (size_t i = 0; i < kernels; ++i) {
    PyObject* node = make_uop(call.owner(), all[i]);  // which takes it over
    if (list != nullptr && (node == nullptr || PyList_Append(list, node) != 0)) Py_CLEAR(list);
    Py_XDECREF(node);
  }
  return list;
}

PyObject* codegen_plan(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("codegen_plan", arguments, count, 1 + kTarget, 1 + kTarget);
  const aster_ml_uop* kernel = call.uop(0, "kernel");
  const aster_ml_target target = target_of(call, 1);
  return text_by(call, [&](char* out, size_t* length, size_t capacity) {
    return aster_ml_codegen_plan(out, length, capacity, &call.owner()->handle, kernel, &target);
  });
}

PyObject* codegen_lower(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("codegen_lower", arguments, count, 1 + kTarget, 2 + kTarget);
  const aster_ml_uop* kernel = call.uop(0, "kernel");
  const aster_ml_target target = target_of(call, 1);
  const char* plan = call.text(1 + kTarget, "plan", true);
  return text_by(call, [&](char* out, size_t* length, size_t capacity) {
    return aster_ml_codegen_lower(out, length, capacity, &call.owner()->handle, kernel, &target,
                                  plan);
  });
}

PyObject* codegen_render(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("codegen_render", arguments, count, 1 + kTarget, 2 + kTarget);
  const aster_ml_context* context = call.context(1 + kTarget);
  const char* program = call.text(0, "program", false);
  const aster_ml_target target = target_of(call, 1);
  return text_by(call, [&](char* out, size_t* length, size_t capacity) {
    return aster_ml_codegen_render(out, length, capacity, context, program, &target);
  });
}

}  // namespace

PyMethodDef kCodegenMethods[] = {
    {"codegen_target", as_method(codegen_target), METH_FASTCALL,
     "codegen_target(device, context)\n\nThe numbers of what a device's kernels are made for: "
     "form, vector_bytes, flags, group, group_limit, local_bytes."},
    {"codegen_model", as_method(codegen_model), METH_FASTCALL,
     "codegen_model(device, context)\n\nThe numbers by which plans for a device are chosen."},
    {"codegen_kernels", as_method(codegen_kernels), METH_FASTCALL,
     "codegen_kernels(tensors, context)\n\nThe kernels that realising tensors would launch."},
    {"codegen_plan", as_method(codegen_plan), METH_FASTCALL,
     "codegen_plan(kernel, *target)\n\nThe planner's plan of a kernel."},
    {"codegen_lower", as_method(codegen_lower), METH_FASTCALL,
     "codegen_lower(kernel, *target, plan=None)\n\nThe program of a kernel."},
    {"codegen_render", as_method(codegen_render), METH_FASTCALL,
     "codegen_render(program, *target, context)\n\nA program as a target's "
     "text."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace aster::python
