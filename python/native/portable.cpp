// Portable programs (aster_ml/portable.h) and rewriting by rules (aster_ml/graph.h).
#include "native.h"

namespace aster::python {
namespace {

// Arguments at, at + 1, ..: inputs, their names or None, outputs, their names or None.
aster_ml_boundary boundary_of(Call& call, Py_ssize_t at) {
  aster_ml_boundary out = {};
  bool counted = false;
  size_t names = 0;
  out.struct_size = sizeof(out);
  out.inputs = call.lazies(at, "inputs", &out.input_count, &counted);
  counted = true;
  names = out.input_count;
  if (call.given(at + 1))
    out.input_names = call.texts(at + 1, "input_names", &names, &counted, true);
  counted = false;
  out.outputs = call.lazies(at + 2, "outputs", &out.output_count, &counted);
  counted = true;
  names = out.output_count;
  if (call.given(at + 3))
    out.output_names = call.texts(at + 3, "output_names", &names, &counted, true);
  return out;
}

PyObject* program_to_bytes(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("program_to_bytes", arguments, count, 5, 6);
  const aster_ml_context* context = call.context(5);
  const aster_ml_boundary boundary = boundary_of(call, 0);
  const auto flags = static_cast<uint32_t>(call.integer(4, "flags", 0, UINT32_MAX));
  size_t length = 0;
  if (!call.slow([&] {
        return aster_ml_program_to_bytes(nullptr, &length, 0, context, &boundary, flags);
      }))
    return nullptr;
  auto* bytes = static_cast<char*>(call.room(length));
  if (!call.slow([&] {
        return aster_ml_program_to_bytes(bytes, &length, length, context, &boundary, flags);
      }))
    return nullptr;
  return PyBytes_FromStringAndSize(bytes, static_cast<Py_ssize_t>(length));
}

PyObject* program_save(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("program_save", arguments, count, 6, 7);
  const aster_ml_context* context = call.context(6);
  const char* path = call.text(0, "path", false);
  const aster_ml_boundary boundary = boundary_of(call, 1);
  const auto flags = static_cast<uint32_t>(call.integer(5, "flags", 0, UINT32_MAX));
  if (!call.slow([&] { return aster_ml_program_save(path, context, &boundary, flags); }))
    return nullptr;
  return none();
}

PyObject* program_captured_to_bytes(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("program_captured_to_bytes", arguments, count, 2, 2);
  auto* program =
      static_cast<aster_ml_program*>(call.handle(0, "program", *handle_type("Program")));
  const auto flags = static_cast<uint32_t>(call.integer(1, "flags", 0, UINT32_MAX));
  size_t length = 0;
  if (!call.slow(
          [&] { return aster_ml_program_captured_to_bytes(nullptr, &length, 0, program, flags); }))
    return nullptr;
  auto* bytes = static_cast<char*>(call.room(length));
  if (!call.slow([&] {
        return aster_ml_program_captured_to_bytes(bytes, &length, length, program, flags);
      }))
    return nullptr;
  return PyBytes_FromStringAndSize(bytes, static_cast<Py_ssize_t>(length));
}

PyObject* program_from_bytes(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("program_from_bytes", arguments, count, 1, 2);
  const aster_ml_context* context = call.context(1);
  const Py_buffer* data = call.bytes(0, "data", false);
  aster_ml_program out = {};
  if (!call.slow([&] {
        return aster_ml_program_from_bytes(&out, context, data->buf,
                                           static_cast<size_t>(data->len));
      }))
    return nullptr;
  return make_handle(*handle_type("Program"), call.owner(), out.impl);
}

PyObject* program_from_bytes_on(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("program_from_bytes_on", arguments, count, 2, 3);
  const aster_ml_context* context = call.context(2);
  const Py_buffer* data = call.bytes(0, "data", false);
  const auto device = static_cast<int32_t>(call.integer(1, "device", INT32_MIN, INT32_MAX));
  aster_ml_program out = {};
  if (!call.slow([&] {
        return aster_ml_program_from_bytes_on(&out, context, data->buf,
                                              static_cast<size_t>(data->len), device);
      }))
    return nullptr;
  return make_handle(*handle_type("Program"), call.owner(), out.impl);
}

PyObject* freeze(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("freeze", arguments, count, 7, 8);
  const aster_ml_context* context = call.context(7);
  const char* path = call.text(0, "path", false);
  const char* program = call.text(1, "program", false);
  aster_ml_freeze_options options = {};
  bool counted = false;
  options.struct_size = sizeof(options);
  options.name = call.text(2, "name", true);
  if (call.given(3))
    options.targets = call.texts(3, "targets", &options.target_count, &counted, true);
  options.compiler = call.text(4, "compiler", true);
  options.threads = static_cast<int32_t>(call.integer(5, "threads", 0, INT32_MAX));
  options.flags = static_cast<uint32_t>(call.integer(6, "flags", 0, UINT32_MAX));
  if (!call.slow([&] { return aster_ml_freeze(path, context, program, &options); })) return nullptr;
  return none();
}

PyObject* uop_rewrite(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Call call("uop_rewrite", arguments, count, 4, 4);
  const aster_ml_uop* root = call.uop(0, "root");
  size_t rules = 0;
  bool counted = false;
  const char** names = call.texts(1, "names", &rules, &counted, true);
  const char** from = call.texts(2, "from", &rules, &counted, true);
  const char** to = call.texts(3, "to", &rules, &counted, true);
  auto* given = call.room_of<aster_ml_uop_rule>(rules);
  for (size_t i = 0; names != nullptr && from != nullptr && to != nullptr && i < rules; ++i) {
    given[i] = {};
    given[i].struct_size = sizeof(given[i]);
    given[i].name = names[i];
    given[i].from = from[i];
    given[i].to = to[i];
  }
  const aster_ml_uop* out = nullptr;
  if (!call.quick([&] {
        return aster_ml_uop_rewrite(&out, &call.owner()->handle, root, given, rules, nullptr);
      }))
    return nullptr;
  return make_uop(call.owner(), out);
}

}  // namespace

PyMethodDef kPortableMethods[] = {
    {"program_to_bytes", as_method(program_to_bytes), METH_FASTCALL,
     "program_to_bytes(inputs, input_names, outputs, output_names, flags, context)\n\nWhat "
     "computes "
     "the outputs of the inputs, as a portable program."},
    {"program_save", as_method(program_save), METH_FASTCALL,
     "program_save(path, inputs, input_names, outputs, output_names, flags, context)\n\nThe same "
     "to a file."},
    {"program_captured_to_bytes", as_method(program_captured_to_bytes), METH_FASTCALL,
     "program_captured_to_bytes(program, flags)\n\nA captured program as a portable one."},
    {"program_from_bytes", as_method(program_from_bytes), METH_FASTCALL,
     "program_from_bytes(data, context)\n\nThe program of bytes."},
    {"program_from_bytes_on", as_method(program_from_bytes_on), METH_FASTCALL,
     "program_from_bytes_on(data, device, context)\n\nThe same on a device."},
    {"freeze", as_method(freeze), METH_FASTCALL,
     "freeze(path, program, name, targets, compiler, threads, flags, context)\n\nThe program of a "
     "file as code of its own."},
    {"uop_rewrite", as_method(uop_rewrite), METH_FASTCALL,
     "uop_rewrite(root, names, from, to)\n\nroot rewritten by rules that are texts."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace aster::python
