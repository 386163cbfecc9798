// Kernels of others for devices that take program text: OpenCL C or C with a function of the
// device's prototype behind it, and kernel programs.
#include <algorithm>
#include <cstdio>

#include "codegen/codegen.h"
#include "device/device.h"
#include "engine/foreign.h"
#include "tensor/kernel.h"

namespace aster::tensor {
namespace {

namespace program = codegen::program;
using codegen::Language;
using program::LoopKind;
using uop::Foreign;
using uop::ForeignCode;

// Of a device's type, whatever its index; a program is for all.
const KernelText* text_for(const KernelObject& kernel, int32_t device) {
  for (const KernelText& one : kernel.texts) {
    if (one.device == 0 || device::same_type(one.device, device)) return &one;
  }
  return nullptr;
}

Status device_for(const runtime::Device** out, const KernelObject& kernel, int32_t code) {
  ASTER_TRY(runtime::device_of(out, kernel.context, code));
  if (*out != nullptr && (*out)->computes()) return kOk;
  return ASTER_FAIL(kUNSUPPORTED, "a kernel for %s, which takes none: the host computes for it",
                    device::name(code).text);
}

Status add_places(ForeignCode* out, const KernelObject& kernel, int64_t count) {
  const Signature& s = kernel.signature;
  const auto size = static_cast<int64_t>(dtype::size(s.result(0).dtype));
  for (size_t i = 0; i < s.results(); ++i) ASTER_TRY(out->places.push(s.place(i, count) * size));
  return kOk;
}

// ---- How many work-items ----

// What is wrong with sizes, whatever the device.
Status check_sizes(const KernelObject& kernel, const aster_ml_kernel_options& o) {
  const char* const name = kernel.name;
  int64_t group = 1;
  for (int d = 0; d < 3; ++d) {
    const int64_t global = o.global_size[d], local = o.local_size[d];
    if (global < 0 || local < 0 || global > INT32_MAX || local > INT32_MAX || o.local_bytes < 0) {
      return ASTER_FAIL(kARGUMENT,
                        "kernel \"%s\": global_size, local_size or local_bytes out of range", name);
    }
    const bool gap = d != 0 && ((global != 0 && o.global_size[d - 1] == 0) ||
                                (local != 0 && o.local_size[d - 1] == 0));
    if (gap || (local != 0 && (d != 0 || o.global_size[0] != 0) && global == 0)) {
      return ASTER_FAIL(kARGUMENT, "kernel \"%s\": sizes of dimension %d without those before it",
                        name, d);
    }
    if (local != 0 && global % local != 0) {
      return ASTER_FAIL(kARGUMENT,
                        "kernel \"%s\": %lld work-items are no whole groups of %lld (dimension %d)",
                        name, static_cast<long long>(global), static_cast<long long>(local), d);
    }
    if (!checked_mul(group, std::max<int64_t>(local, 1), &group) || group > INT32_MAX)
      return ASTER_FAIL(kARGUMENT, "kernel \"%s\": a group of too many work-items", name);
  }
  return kOk;
}

Status check_limits(const KernelObject& kernel, const aster_ml_kernel_options& o,
                    const runtime::Device& device) {
  const aster_ml_device_info& info = device.info;
  int64_t group = 1;
  for (const int64_t local : o.local_size) group *= std::max<int64_t>(local, 1);
  if (info.group_limit != 0 && group > int64_t{info.group_limit}) {
    return ASTER_FAIL(kUNSUPPORTED, "kernel \"%s\": groups of %lld work-items, %s has %u at most",
                      kernel.name, static_cast<long long>(group), device::name(device.code).text,
                      info.group_limit);
  }
  if (info.local_bytes != 0 && static_cast<uint64_t>(o.local_bytes) > info.local_bytes) {
    return ASTER_FAIL(kUNSUPPORTED, "kernel \"%s\": %lld bytes of local memory, %s has %llu",
                      kernel.name, static_cast<long long>(o.local_bytes),
                      device::name(device.code).text,
                      static_cast<unsigned long long>(info.local_bytes));
  }
  return kOk;
}

// Elements of [...], or tasks, or work-items.
int64_t items_of(const KernelObject& kernel, const aster_ml_kernel_options& o, int64_t count) {
  if (o.tasks != 0) return o.tasks;
  if (kernel.signature.any()) return count;
  int64_t items = 1;
  for (const int64_t global : o.global_size) items *= std::max<int64_t>(global, 1);
  return items;
}

Status set_sizes(ForeignCode* out, const KernelObject& kernel, const aster_ml_kernel_options& o,
                 int64_t items) {
  out->tasks = items;
  if (o.global_size[0] == 0 && o.local_size[0] == 0) return kOk;
  const int64_t one[3] = {o.local_size[0] == 0 ? items
                                               : (items + o.local_size[0] - 1) / o.local_size[0]};
  for (int d = 0; d < 3; ++d) {
    const int64_t local = std::max<int64_t>(o.local_size[d], 1);
    const int64_t groups = o.global_size[0] == 0
                               ? one[d]
                               : (std::max<int64_t>(o.global_size[d], 1) + local - 1) / local;
    if (groups > UINT32_MAX)
      return ASTER_FAIL(kUNSUPPORTED, "kernel \"%s\": too many groups", kernel.name);
    out->groups[d] = static_cast<uint32_t>(d == 0 ? groups : std::max<int64_t>(groups, 1));
    if (o.local_size[0] != 0) out->locals[d] = static_cast<uint32_t>(local);
  }
  return kOk;
}

// ---- OpenCL C ----

// What OpenCL C calls what is stored of a dtype.
const char* opencl_name(DType dtype) {
  if (dtype == DType::kInt64) return "long";
  if (dtype == DType::kUInt64) return "ulong";
  return dtype == DType::kFloat16 ? "half" : dtype::c_name(dtype);
}

void write_type(Text& out, const Signature& s, size_t i) {
  const bool result = i < s.results();
  out << (result ? "__global " : "__global const ")
      << opencl_name(result ? s.result(i).dtype : s.values[i - s.results()].dtype) << " *";
}

// The source, the prototype that it has to have, and behind it a kernel of the prototype that all
// have, whose offsets are of bytes. Its function is none of its own: what a kernel that another one
// calls declares as __local is the implementation's affair.
Status write_opencl(Text& out, const KernelObject& kernel, const KernelText& text,
                    const char* entry) {
  const Signature& s = kernel.signature;
  const bool local = text.options.local_bytes != 0;
  out << "#define __kernel\n#define kernel\n#line 1 \"" << kernel.name << "\"\n"
      << text.text.view() << "\n#undef __kernel\n#undef kernel\n#line 1 \"signature\"\nvoid "
      << kernel.name << "(";
  for (size_t i = 0; i < s.values.size(); ++i) write_type(out, s, i), out << ", ";
  out << "long" << (local ? ", __local void *" : "") << ");\n__kernel void " << entry << "(";
  for (size_t i = 0; i < s.values.size(); ++i)
    out << "__global uchar *p" << i << ", ulong o" << i << ", ";
  out << "long count) {\n";
  if (local) {
    out << "__local long local_memory[" << (text.options.local_bytes + 7) / 8
        << "] __attribute__((aligned(64)));\n";
  }
  out << kernel.name << "(";
  for (size_t i = 0; i < s.values.size(); ++i) {
    out << "(";
    write_type(out, s, i);
    out << ")(p" << i << " + o" << i << "), ";
  }
  out << "count" << (local ? ", local_memory" : "") << ");\n}\n";
  return out.status();
}

// Equal names, equal texts.
template <typename Write>
Status write_named(ForeignCode* out, const Write& write) {
  Text unnamed(out->text.memory());
  ASTER_TRY(write(unnamed, "entry"));
  program::Mixer mix;
  for (const char c : unnamed.view()) mix.word(static_cast<uint8_t>(c));
  const program::Digest digest = mix.get();
  std::snprintf(out->name, sizeof(out->name), "u_%016llx%016llx",
                static_cast<unsigned long long>(digest.high),
                static_cast<unsigned long long>(digest.low));
  return write(out->text, out->name);
}

// ---- Programs ----

bool has_groups(const program::Program& p) {
  return std::ranges::any_of(p.code(), [](const program::Instruction& in) {
    const auto kind = static_cast<LoopKind>(in.kind);
    return in.op == program::Op::kLoop && kind != LoopKind::kSerial && kind != LoopKind::kTask;
  });
}

Status code_of_program(const Foreign& self, ForeignCode* out, int32_t code_of_device,
                       int64_t count) {
  const KernelObject& kernel = object_of_foreign(self);
  const runtime::Device* device = nullptr;
  ASTER_TRY(device_for(&device, kernel, code_of_device));
  Memory& memory = out->text.memory();
  program::Module module(memory);
  ASTER_TRY(program::read(&module, kernel.texts[0].text.view()));
  program::Program& last = module.programs.back();
  if (has_groups(last) && device->target.language != Language::kOpencl) {
    return ASTER_FAIL(kUNSUPPORTED, "kernel \"%s\" has groups, which %s does not take", kernel.name,
                      device::name(code_of_device).text);
  }
  program::RenderedC code(memory);
  ASTER_TRY(write_named(out, [&](Text& text, const char* name) -> Status {
    std::snprintf(last.name, sizeof(last.name), "%s", name);
    code = program::RenderedC(memory);
    return codegen::render_text(text, module, device->target, &code);
  }));
  ASTER_TRY(count_tasks(&out->tasks, last));
  for (int d = 0; d < 3 && has_groups(last); ++d) {
    out->groups[d] = static_cast<uint32_t>(std::max<int64_t>(code.groups[d], 1));
    out->locals[d] = static_cast<uint32_t>(std::max<int64_t>(code.locals[d], 1));
  }
  out->scratch_bytes = static_cast<size_t>(code.scratch_bytes);
  return add_places(out, kernel, count);
}

// Compiles what there is for a device, so that mistakes are told at once.
Status build_for(const KernelObject& kernel, int32_t code_of_device) {
  const runtime::Device* device = nullptr;
  ASTER_TRY(device_for(&device, kernel, code_of_device));
  Heap& heap = kernel.context.heap();
  ForeignCode code(heap);
  ASTER_TRY(kernel.device_code(kernel, &code, code_of_device, kernel.signature.any() ? 1 : 0));
  runtime::Loaded held(heap);
  runtime::LoadCounts counts;
  void* function = nullptr;
  return engine::load_foreign(&function, &held, &counts, kernel.context, *device, kernel, code,
                              kernel.signature.operands);
}

}  // namespace

bool is_of_opencl(const aster_ml_kernel_options& o) {
  return o.local_bytes != 0 ||
         std::ranges::any_of(o.global_size, [](int64_t n) { return n != 0; }) ||
         std::ranges::any_of(o.local_size, [](int64_t n) { return n != 0; });
}

Status code_of_source(const Foreign& self, ForeignCode* out, int32_t code_of_device,
                      int64_t count) {
  const KernelObject& kernel = object_of_foreign(self);
  const KernelText* const text = text_for(kernel, code_of_device);
  if (text == nullptr) {
    return ASTER_FAIL(kUNSUPPORTED, "kernel \"%s\" has no source for %s", kernel.name,
                      device::name(code_of_device).text);
  }
  const runtime::Device* device = nullptr;
  ASTER_TRY(device_for(&device, kernel, code_of_device));
  const aster_ml_kernel_options& options = text->options;
  const int64_t items = items_of(kernel, options, count);
  switch (device->target.language) {
    case Language::kOpencl:
      ASTER_TRY(check_limits(kernel, options, *device));
      ASTER_TRY(write_named(
          out, [&](Text& to, const char* name) { return write_opencl(to, kernel, *text, name); }));
      ASTER_TRY(set_sizes(out, kernel, options, items));
      ASTER_TRY(out->sizes.push(items));
      out->local_bytes = static_cast<size_t>(options.local_bytes);
      break;
    case Language::kC:
      if (is_of_opencl(options)) {
        return ASTER_FAIL(
            kARGUMENT,
            "kernel \"%s\": global_size, local_size and local_bytes are of OpenCL C, %s takes "
            "C",
            kernel.name, device::name(code_of_device).text);
      }
      ASTER_TRY(write_named(out, [&](Text& to, const char* name) {
        return write_source(to, kernel, text->text.view(), name);
      }));
      out->tasks = items;
      break;
    case Language::kProgram:
      return ASTER_FAIL(kUNSUPPORTED, "kernel \"%s\": %s takes kernel programs, not source",
                        kernel.name, device::name(code_of_device).text);
  }
  return add_places(out, kernel, count);
}

Status add_text(KernelObject* object, const char* text, const aster_ml_kernel_options& options,
                bool program) {
  if (const KernelText* const there = text_for(*object, options.device); there != nullptr) {
    return ASTER_FAIL(kSTATE, "kernel \"%s\" has a source for %s", object->name,
                      device::name(there->device).text);
  }
  KernelText one(object->context.heap());
  one.device = program ? 0 : options.device;
  one.options = options;
  one.text << text;
  ASTER_TRY(one.text.status());
  ASTER_TRY(check_sizes(*object, options));
  ASTER_TRY(object->texts.push(std::move(one)));
  if (program) object->device_code = code_of_program;
  if (options.device == device::kCpu) return kOk;
  const Status built = build_for(*object, options.device);
  if (!built.ok()) object->texts.pop();
  return built;
}

}  // namespace aster::tensor
