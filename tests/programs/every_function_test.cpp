// Bad input derived from the manifest: every public function, every pointer and handle of it, null,
// empty, of another context, given as output, or while another thread is inside.
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <thread>
#include <type_traits>
#include <utility>

#include "aster.h"
#include "public_functions.h"

namespace programs {
namespace {

constexpr int32_t kFloat = ASTER_ML_DTYPE_FLOAT32;

// An allocator that, on demand, keeps a thread waiting: inside a public function, that is. Not
// those of the library, which compile meanwhile.
class Gate {
 public:
  Gate() {
    table.struct_size = sizeof(table);
    table.self = this;
    table.allocate = [](void* self, size_t bytes, size_t alignment) {
      static_cast<Gate*>(self)->pass();
      const size_t unit = std::max<size_t>(alignment, 16);
      return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
    };
    table.release = [](void*, void* pointer, size_t, size_t) { std::free(pointer); };
  }
  void close_for_this_thread() {
    const std::lock_guard lock(mutex_);
    held_ = std::this_thread::get_id();
    closed_ = true;
    waits_ = false;
  }
  void wait_for_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waits_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    waits_ = false;
    changed_.notify_all();
  }
  aster_ml_allocator table{};

 private:
  void pass() {
    std::unique_lock lock(mutex_);
    if (!closed_ || waits_ || std::this_thread::get_id() != held_) return;
    waits_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !closed_; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread::id held_;
  bool closed_ = false, waits_ = false;
};

// One valid object of every kind, in one context.
class World {
 public:
  World() {
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.threads = 1;
    options.allocator = &gate.table;
    EXPECT_OK(aster_ml_context_init(&context, &options));
    const float values[] = {1, 2, 3, 4, 5, 6};
    const int64_t shape[] = {2, 3};
    const size_t sizes[] = {2, 3};
    EXPECT_OK(aster_ml_lazy_from(&x, &context, values, kFloat, 2, shape));
    EXPECT_OK(aster_ml_lazy_sum(&total, &x, 0, nullptr, 0));
    EXPECT_OK(aster_ml_tensor_from_data(&tensor, &context, values, kFloat, 2, sizes));
    EXPECT_OK(aster_ml_buffer_init(&buffer, &context, 64, kFloat, 0));
    EXPECT_OK(aster_ml_linear_init(&layer, &context, 3, 2, 1));
    EXPECT_OK(aster_ml_state_init(&state, &context));
    EXPECT_OK(aster_ml_state_set_layer(&state, "l.", &layer));
    EXPECT_OK(aster_ml_sgd_init(&optimizer, &state, nullptr));
    aster_ml_uop_options node{};
    node.struct_size = sizeof(node);
    node.op = "Range";
    const int64_t arguments[] = {0, 8};
    node.arguments = arguments;
    node.argument_count = 2;
    EXPECT_OK(aster_ml_uop_init(&uop, &context, &node));
    aster_ml_lazy* inputs[] = {&x};
    EXPECT_OK(aster_ml_engine_capture_begin(&context, inputs, 1));
    EXPECT_OK(aster_ml_lazy_exp(&result, &x));
    aster_ml_lazy* outputs[] = {&result};
    EXPECT_OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
    EXPECT_OK(aster_ml_workspace_init(&workspace, &program));
    EXPECT_OK(aster_ml_scalar_from_double(&scalar, kFloat, 2));
    EXPECT_OK(aster_ml_sparse_from_dense(&sparse, &context, &tensor, ASTER_ML_SPARSE_CSR));
  }
  ~World() {
    for (aster_ml_lazy* handle : {&x, &total, &result}) EXPECT_OK(aster_ml_lazy_free(handle));
    EXPECT_OK(aster_ml_uop_release(&context, uop));
    EXPECT_OK(aster_ml_sparse_free(&sparse));
    EXPECT_OK(aster_ml_workspace_free(&workspace));
    EXPECT_OK(aster_ml_program_free(&program));
    EXPECT_OK(aster_ml_optimizer_free(&optimizer));
    EXPECT_OK(aster_ml_state_free(&state));
    EXPECT_OK(aster_ml_layer_free(&layer));
    EXPECT_OK(aster_ml_tensor_free(&tensor));
    EXPECT_OK(aster_ml_buffer_free(&buffer));
    EXPECT_OK(aster_ml_context_free(&context));
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Gate gate;
  aster_ml_context context{};
  aster_ml_lazy x{}, total{}, result{};
  aster_ml_tensor tensor{};
  aster_ml_buffer buffer{};
  aster_ml_layer layer{};
  aster_ml_state state{};
  aster_ml_optimizer optimizer{};
  aster_ml_program program{};
  aster_ml_workspace workspace{};
  aster_ml_scalar scalar{};
  aster_ml_sparse sparse{};
  const aster_ml_uop* uop = nullptr;
};

// What a call is given: memory for its outputs, arrays for its inputs.
struct Scratch {
  explicit Scratch(World& given) : world(given), list{&given.x}, mutable_list{&given.x} {
    std::memset(out, 0xA5, sizeof(out));
    counters.struct_size = sizeof(counters);
    runtime.struct_size = sizeof(runtime);
    info.struct_size = sizeof(info);
    node.struct_size = sizeof(node);
    node.op = "Range";
    node.arguments = numbers;
    node.argument_count = 2;
    backend.struct_size = sizeof(backend);
  }
  World& world;
  alignas(64) unsigned char out[8][1024];
  size_t outs = 0;
  const aster_ml_lazy* list[1];
  aster_ml_lazy* mutable_list[1];
  int64_t numbers[4] = {1, 1, 1, 1};
  size_t sizes[4] = {1, 1, 1, 1};
  ptrdiff_t strides[4] = {1, 1, 1, 1};
  char text[256] = "weight";
  aster_ml_engine_counters counters{};
  aster_ml_runtime_info runtime{};
  aster_ml_sparse_info info{};
  aster_ml_uop_options node{};
  aster_ml_target target{sizeof(aster_ml_target), ASTER_ML_CODE_C, 16, 0, 0, 0, 0};
  aster_ml_tuned tuned{sizeof(aster_ml_tuned), 0, {}, 0, 0, 0};
  aster_ml_backend backend{};
  aster_ml_context_options context_options{};
};

// A valid argument; outputs get memory full of rubbish.
Slot sample(Scratch& s, const Type& type, char direction) {
  World& w = s.world;
  if (type.pointer && type.is != Is::kFunction && direction == 'o' && !type.constant) {
    return slot_of(static_cast<void*>(s.out[s.outs++]));
  }
  // clang-format off
  switch (type.is) {
    case Is::kContext: return slot_of(&w.context);
    case Is::kLazy: return slot_of(&w.x);
    case Is::kTensor: return slot_of(&w.tensor);
    case Is::kBuffer: return slot_of(&w.buffer);
    case Is::kLayer: return slot_of(&w.layer);
    case Is::kState: return slot_of(&w.state);
    case Is::kOptimizer: return slot_of(&w.optimizer);
    case Is::kProgram: return slot_of(&w.program);
    case Is::kWorkspace: return slot_of(&w.workspace);
    case Is::kScalar: return slot_of(&w.scalar);
    case Is::kNode: return slot_of(w.uop);
    case Is::kLazies: return slot_of(&s.list[0]);
    case Is::kWritableLazies: return slot_of(&s.mutable_list[0]);
    case Is::kNumbers: return slot_of(&s.numbers[0]);
    case Is::kSizes: return slot_of(&s.sizes[0]);
    case Is::kStrides: return slot_of(&s.strides[0]);
    case Is::kText:
    case Is::kBytes: return slot_of(&s.text[0]);
    case Is::kCounters: return slot_of(&s.counters);
    case Is::kRuntime: return slot_of(&s.runtime);
    case Is::kSparse: return slot_of(&w.sparse);
    case Is::kSparseInfo: return slot_of(&s.info);
    case Is::kNodeOptions: return slot_of(&s.node);
    case Is::kTarget: return slot_of(&s.target);
    case Is::kTuned: return slot_of(&s.tuned);
    case Is::kBackend: return slot_of(&s.backend);
    case Is::kInt32: return slot_of(kFloat);
    case Is::kInteger: return 1;
    case Is::kReal: return slot_of(1.0);
    default: return 0;  // options: the default
  }
  // clang-format on
}

bool is_handle(const Type& type) {
  constexpr Is kHandles[] = {Is::kContext,   Is::kLazy,    Is::kLayer, Is::kState,
                             Is::kOptimizer, Is::kProgram, Is::kSparse};
  return std::find(std::begin(kHandles), std::end(kHandles), type.is) != std::end(kHandles);
}

bool ends(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}
bool among(std::string_view what, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), what) != list.end();
}
// Frees and ends take null and empty handles for nothing to do.
bool gives_up(std::string_view name) { return ends(name, "_free") || ends(name, "_end"); }
bool frees(std::string_view name) {
  return gives_up(name) && name != "aster_ml_engine_capture_end";
}
// Accessors whose int32_t is a value.
bool plain(std::string_view name) {
  return among(name, {"aster_ml_lazy_dtype", "aster_ml_lazy_is_realized", "aster_ml_lazy_is_stored",
                      "aster_ml_event_is_done", "aster_ml_lazy_is_same", "aster_ml_uop_dtype",
                      "aster_ml_lazy_is_symbolic", "aster_ml_program_is_for",
                      "aster_ml_lazy_requires_grad", "aster_ml_buffer_is_read_only",
                      "aster_ml_buffer_memory_kind", "aster_ml_tensor_is_contiguous",
                      "aster_ml_device_type", "aster_ml_device_index",
                      "aster_ml_device_is_available", "aster_ml_onnx_has_operator",
                      "aster_ml_onnx_value_kind", "aster_ml_onnx_value_element"}) ||
         name.starts_with("aster_ml_dtype_is_") || name.starts_with("aster_ml_view_is_");
}
// Pointers that may be null: "function:argument", or ":argument" for all.
bool nullable(const std::string& function, const std::string& argument) {
  const auto is = [&](std::string_view f) { return function == f; };
  if (among(argument, {"options", "release", "self", "strides", "fill", "start", "stop", "step",
                       "workspace", "prefix", "bias", "text", "now", "most", "pos_weight",
                       "ignore_index", "attn_mask", "plan", "fired"})) {
    return true;
  }
  if (argument == "context") return function.starts_with("aster_ml_flt_");
  if (argument == "axes") return !is("aster_ml_lazy_permute") && !is("aster_ml_lazy_flip");
  if (argument == "weight") {
    return among(function,
                 {"aster_ml_lazy_layer_norm", "aster_ml_lazy_batch_norm", "aster_ml_lazy_rms_norm",
                  "aster_ml_lazy_batchnorm", "aster_ml_lazy_nll_loss"});
  }
  if (argument == "low" || argument == "high") {
    return is("aster_ml_lazy_clamp") || is("aster_ml_lazy_clip");
  }
  if (argument == "name") return is("aster_ml_lazy_keccak");
  if (argument == "operation") return is("aster_ml_registry_describe");
  if (argument == "config") return is("aster_ml_trace_configure");
  if (argument == "out") {  // the size
    return function.starts_with("aster_ml_codegen_") ||
           among(function,
                 {"aster_ml_uop_walk", "aster_ml_uop_print", "aster_ml_engine_graph",
                  "aster_ml_flt_to_text", "aster_ml_engine_graph_uop", "aster_ml_program_to_bytes",
                  "aster_ml_program_captured_to_bytes", "aster_ml_onnx_value_to_proto",
                  "aster_ml_registry_describe", "aster_ml_schedule_source"});
  }
  return false;
}

// What a null pointer is refused with: where the size beside it is wrong too, that comes first.
int32_t of_null(std::string_view function, std::string_view argument) {
  if (function == "aster_ml_lazy_shape" && argument == "out") return ASTER_ML_SHAPE;
  const bool sized = (function == "aster_ml_buffer_from_memory" && argument == "data") ||
                     (function == "aster_ml_lazy_copy_out" && argument == "data") ||
                     (function == "aster_ml_optimizer_step_by" && argument == "gradients") ||
                     (function.starts_with("aster_ml_tensor_copy_") && argument == "host");
  return sized ? ASTER_ML_RANGE : ASTER_ML_ARGUMENT;
}

// A call of one function with valid arguments, some of which are replaced.
class Call {
 public:
  Call(World& world, const Function& function) : function_(function), scratch_(world) {
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      slots_.push_back(sample(scratch_, function.arguments[i], function.directions[i]));
    }
  }
  Call& with(size_t index, const void* pointer) {
    slots_[index] = slot_of(pointer);
    return *this;
  }
  // The status; those of kernel.h's getters come negated.
  int32_t run() {
    const int32_t status = value_of<int32_t>(function_.call(slots_));
    return function_.name.starts_with("aster_ml_kernel_get_") ? -status : status;
  }

  // Expects a failure with a message that names the function, and zeroed outputs.
  void refuse(int32_t expected, const std::string& why) {
    aster_ml_error_clear();
    const int32_t status = run();
    EXPECT_EQ(status, expected) << function_.name << ", " << why << ": " << last_error();
    if (status == 0) return;
    aster_ml_error error{};
    aster_ml_error_last(&error);
    EXPECT_EQ(error.code, status) << function_.name << ", " << why;
    EXPECT_EQ(error.function, function_.name) << why;
    EXPECT_STRNE(error.message, "") << function_.name << ", " << why;
    for (size_t i = 0; i < slots_.size(); ++i) zeroed(function_.arguments[i], slots_[i], why);
  }

 private:
  void zeroed(const Type& type, Slot slot, const std::string& why) {
    if (!type.pointer || type.constant || type.is == Is::kText) return;
    const auto* bytes = value_of<const unsigned char*>(slot);
    const unsigned char* first = scratch_.out[0];
    if (bytes < first || bytes >= first + sizeof(scratch_.out)) return;
    const bool zero = std::all_of(bytes, bytes + type.size, [](unsigned char b) { return b == 0; });
    // uop_walk's count says what its array holds; program_run's tensors come in as well, and so
    // does the instance that becomes a kernel.
    EXPECT_TRUE(zero ||
                among(function_.name, {"aster_ml_uop_walk", "aster_ml_codegen_kernels",
                                       "aster_ml_program_run", "aster_ml_program_run_bound",
                                       "aster_ml_program_run_sized", "aster_ml_kernel_from_blaze"}))
        << function_.name << ", " << why << ": an output is not zeroed";
  }

  const Function& function_;
  Scratch scratch_;
  std::vector<Slot> slots_;
};

// ---- Null pointers and empty handles ----

void null_argument(World& world, const Function& function, size_t i) {
  const Type& type = function.arguments[i];
  const std::string& name = function.name;
  const std::string& argument = function.names[i];
  if (!type.pointer || type.is == Is::kFunction || nullable(name, argument)) return;
  Call call(world, function);
  call.with(i, nullptr);
  if (frees(name) || plain(name)) {
    EXPECT_EQ(call.run(), 0) << name << " of null";
  } else {
    call.refuse(of_null(name, argument), argument + " is null");
  }
  if (!is_handle(type) || function.directions[i] == 'o') return;
  const unsigned char empty[64] = {};
  Call again(world, function);
  again.with(i, empty);
  if (frees(name) || plain(name)) {
    EXPECT_EQ(again.run(), 0) << name << " of an empty handle";
  } else {
    again.refuse(ASTER_ML_ARGUMENT, argument + " is an empty handle");
  }
}

// Accessors that return something else: nothing for null.
void all_null(const Function& function) {
  const auto pointer = [](const Type& type) { return type.pointer; };
  if (std::none_of(function.arguments.begin(), function.arguments.end(), pointer)) return;
  const Slot got = function.call(std::vector<Slot>(function.arguments.size(), 0));
  if (function.result.is == Is::kText) {
    const char* text = value_of<const char*>(got);
    EXPECT_TRUE(text == nullptr || *text == '\0') << function.name;
  } else {
    EXPECT_EQ(got, ends(function.name, "_dim") ? ~Slot{0} : 0) << function.name;
  }
}

TEST(BadInput, EveryPointerOfEveryFunctionNull) {
  World world;
  for (const Function& function : functions()) {
    if (!function.status()) {
      all_null(function);
      continue;
    }
    for (size_t i = 0; i < function.arguments.size(); ++i) null_argument(world, function, i);
  }
  EXPECT_GT(functions().size(), 300u);
}

// ---- An input's handle given as output; a handle of another context; an error passed on ----

void aliased(World& world, World& other, const Function& function, size_t i) {
  const std::string& argument = function.names[i];
  if (function.directions[0] == 'o') {
    void* const before = world.x.impl;
    Call(world, function)
        .with(0, &world.x)
        .with(i, &world.x)
        .refuse(ASTER_ML_ARGUMENT, "out is " + argument);
    EXPECT_EQ(world.x.impl, before) << function.name << " changed its input";
    world.x.impl = before;

    // What failed before is passed on, record and all.
    aster_ml_lazy empty{}, failed{};
    const int64_t axis = 99;
    EXPECT_EQ(aster_ml_lazy_flip(&failed, &world.x, 1, &axis), ASTER_ML_RANGE);
    EXPECT_EQ(Call(world, function).with(i, &empty).run(), ASTER_ML_RANGE) << function.name;
    aster_ml_error error{};
    aster_ml_error_last(&error);
    EXPECT_STREQ(error.function, "aster_ml_lazy_flip") << function.name;
  }
  size_t inputs = 0;
  for (size_t k = 0; k < function.arguments.size(); ++k) inputs += function.is(k, Is::kLazy, true);
  if (inputs > 1 || function.is(1, Is::kLayer, true)) {
    Call(world, function)
        .with(i, &other.x)
        .refuse(ASTER_ML_ARGUMENT, argument + " of another context");
  }
}

TEST(BadInput, OutIsAnInputAndHandlesOfAnotherContext) {
  World world, other;
  for (const Function& function : functions()) {
    if (!function.status() || !function.is(0, Is::kLazy, false)) continue;
    for (size_t i = 1; i < function.arguments.size(); ++i) {
      if (function.is(i, Is::kLazy, true)) aliased(world, other, function, i);
    }
  }
  // Where contexts meet otherwise.
  aster_ml_lazy* both[] = {&world.x, &other.x};
  EXPECT_EQ(aster_ml_lazy_realize(both, 2), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_assign(&world.x, &other.x), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_engine_capture_begin(&world.context, both, 2), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_retain(&world.context, other.uop), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_release(&world.context, other.uop), ASTER_ML_ARGUMENT);
  const aster_ml_uop* simple = nullptr;
  EXPECT_EQ(aster_ml_uop_simplify(&simple, &world.context, other.uop), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_set(&world.state, "w", &other.x, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_set_layer(&world.state, "o.", &other.layer), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_load(&world.state, &other.state), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_optimizer_step(&world.optimizer, &other.total), ASTER_ML_ARGUMENT);
}

// ---- A second thread inside ----

bool locks(const Function& function) {
  const std::string& name = function.name;
  // Concrete memory is any thread's; values are read without a lock.
  if (!function.status() || frees(name) || plain(name) || name.starts_with("aster_ml_buffer_") ||
      among(name, {"aster_ml_engine_cancel",  // which stops the thread inside
                   "aster_ml_arena_add",      // whose context is the arena's: there is none here
                   "aster_ml_context_count_bytes", "aster_ml_lazy_shape", "aster_ml_tensor_init",
                   "aster_ml_tensor_from_data", "aster_ml_tensor_from_buffer",
                   "aster_ml_tensor_contiguous", "aster_ml_scope_end"})) {
    return false;
  }
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    for (const Is is : {Is::kContext, Is::kLazy, Is::kLayer, Is::kState, Is::kOptimizer}) {
      if (function.is(i, is, true)) return true;
    }
  }
  return false;
}

TEST(BadInput, ASecondThreadInAContext) {
  World world;
  aster_ml_lazy made{};
  std::thread inside([&] {
    world.gate.close_for_this_thread();
    EXPECT_OK(aster_ml_lazy_number(&made, &world.context, 3));
  });
  world.gate.wait_for_visitor();
  for (const Function& function : functions()) {
    if (locks(function)) Call(world, function).refuse(ASTER_ML_STATE, "another thread is inside");
  }
  world.gate.open();
  inside.join();
  EXPECT_OK(aster_ml_lazy_free(&made));
}

}  // namespace
}  // namespace programs
