// Kernels that are not ours, behind their handles (aster_ml/kernel.h).
#pragma once

#include "aster_ml/kernel.h"
#include "codegen/program.h"
#include "runtime/cpu/module.h"
#include "tensor/api.h"
#include "uop/foreign.h"

namespace aster::tensor {

// One value of a signature.
struct KernelValue {
  DType dtype;
  bool any;  // [...]
  uint32_t first_dim, ndim;
};

// "float32[...], float32[16, 4] -> float32[...]"
struct Signature {
  explicit Signature(Memory& memory) : values(memory), dims(memory) {}
  // Errors: FORMAT; UNSUPPORTED (results of several dtypes, too many operands).
  Status read(const char* text);
  Words shape(const KernelValue& value) const {
    return {dims.data() + value.first_dim, value.ndim};
  }
  // Elements, where [...] has so many.
  int64_t count(const KernelValue& value, int64_t any) const;
  size_t bytes(size_t value, int64_t any) const {
    return static_cast<size_t>(count(values[value], any)) * dtype::size(values[value].dtype);
  }
  size_t results() const { return values.size() - operands; }
  const KernelValue& result(size_t i) const { return values[operands + i]; }
  bool any() const;  // whether there is a [...]
  bool all_any() const;
  // Several results lie in one array, each from a multiple of 64 bytes on: elements before result
  // i, where there are so many.
  int64_t place(size_t i, int64_t any) const;

  Vec<KernelValue> values;  // operands, then results
  Vec<int64_t> dims;
  size_t operands = 0;
};

// What devices compute a kernel by: a source for those of a type, or a program for all.
struct KernelText {
  explicit KernelText(Memory& memory) : text(memory) {}
  int32_t device = 0;  // of any index; of a program 0
  Text text;
  aster_ml_kernel_options options = {};
};

// The counted object. It dies on a thread that is inside the context.
struct KernelObject : uop::Foreign {
  explicit KernelObject(Context& owner)
      : context(owner), signature(owner.heap()), texts(owner.heap()), gradient_kernel(nullptr) {}
  Context& context;
  Signature signature;
  Vec<KernelText> texts;  // for other devices than the CPU
  bool from_source = false;
  // Compiled, or foreign: of the prototype that form and operands say.
  void* function = nullptr;
  runtime::cpu::KernelSet* code = nullptr;
  aster_ml_dynamic_kernel_instance instance{};
  // Runs a kernel of arrays.
  void (*run)(const KernelObject& self, char* const* results, const char* const* operands,
              void* scratch, int64_t begin, int64_t end) = nullptr;
  bool checked = false;             // results lie between guards while it runs
  Elements run_elements = nullptr;  // then: what is checked
  KernelObject* gradient_kernel;
  aster_ml_kernel_gradient gradient_function = nullptr;
  void* gradient_self = nullptr;
  void (*gradient_release)(void* self) = nullptr;

  void drop_gradient();
};
inline const KernelObject& object_of_foreign(const uop::Foreign& kernel) {
  return static_cast<const KernelObject&>(kernel);
}

struct KernelHandle : HandleObject {
  KernelObject* object;
};

// Options as they were given, the device by its canonical code. Errors: ARGUMENT, UNSUPPORTED.
Status read_options(aster_ml_kernel_options* out, const aster_ml_kernel_options* given);
// A new object with signature, name and options read; released by whoever does not use it.
Status kernel_create(KernelObject** out, Context& context, const char* name, const char* signature,
                     const aster_ml_kernel_options& options);
// Its handle; takes the object over, whether or not it fails.
Status kernel_finish(aster_ml_kernel* out, KernelObject* object);
// Results of a kernel on operands that are checked and broadcast here. DTYPE, SHAPE.
Status kernel_results(Vec<Node>* out, Graph& g, const KernelObject& kernel, Nodes operands);

// Kernels of arrays: `run` on the places of the results.
void run_arrays(const uop::Foreign& self, char* result, const char* const* operands, void* scratch,
                int64_t count, int64_t begin, int64_t end);
// Whether options are given that only OpenCL C has.
bool is_of_opencl(const aster_ml_kernel_options& options);
// Adds a source for the device of the options, which compiles it. Errors: STATE (it has one, or is
// not from source), ARGUMENT, UNSUPPORTED, COMPILE.
Status add_source(KernelObject* object, const char* source, const aster_ml_kernel_options& options);
// The same for a device that is not the CPU; program: a kernel program, which is for all devices
// and built for that of the options alone, if that is not the CPU.
Status add_text(KernelObject* object, const char* text, const aster_ml_kernel_options& options,
                bool program);
// What devices are given of kernels from source.
Status code_of_source(const uop::Foreign& self, uop::ForeignCode* out, int32_t device,
                      int64_t count);
// C with the function of a kernel's name, and behind it `entry`, of the prototype that all kernels
// in C have.
Status write_source(Text& out, const KernelObject& object, std::string_view source,
                    const char* entry);
// Tasks of a program: those of each innermost task loop together.
Status count_tasks(int64_t* out, const codegen::program::Program& program);
// Puts guards around what a finished object does, if that is asked for.
void check_kernel(KernelObject* object);

}  // namespace aster::tensor
