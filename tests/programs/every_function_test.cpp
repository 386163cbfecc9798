// Bad input derived from the manifest: every public function, every pointer and handle of it, null,
// empty, of another context, given as output, or while another thread is inside.
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#include "aster.h"

namespace programs {
namespace {

constexpr int32_t kFloat = ASTER_ML_DTYPE_FLOAT32;

// An allocator that, on demand, keeps whoever asks waiting: inside a public function, that is.
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
  void close() {
    const std::lock_guard lock(mutex_);
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
    if (!closed_ || waits_) return;
    waits_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !closed_; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
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
  }
  ~World() {
    for (aster_ml_lazy* handle : {&x, &total, &result}) EXPECT_OK(aster_ml_lazy_free(handle));
    EXPECT_OK(aster_ml_uop_release(&context, uop));
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
  const aster_ml_uop* uop = nullptr;
};

// What a call is given: memory for its outputs, arrays for its inputs.
struct Scratch {
  explicit Scratch(World& given) : world(given), list{&given.x}, mutable_list{&given.x} {
    std::memset(out, 0xA5, sizeof(out));
    counters.struct_size = sizeof(counters);
    runtime.struct_size = sizeof(runtime);
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
  aster_ml_uop_options node{};
  aster_ml_backend backend{};
  aster_ml_context_options context_options{};
};

template <typename T>
using Pointee = std::remove_cv_t<std::remove_pointer_t<T>>;

// A valid argument of a type; outputs get memory full of rubbish.
template <typename T>
T sample(Scratch& s, char direction) {
  World& w = s.world;
  if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
    if (direction == 'o' && !std::is_const_v<std::remove_pointer_t<T>>) {
      return reinterpret_cast<T>(s.out[s.outs++]);
    }
    using P = Pointee<T>;
    const auto pick = [](auto* pointer) -> T {
      if constexpr (std::is_convertible_v<decltype(pointer), T>) return pointer;
      return nullptr;
    };
    if constexpr (std::is_same_v<P, aster_ml_context>) return pick(&w.context);
    if constexpr (std::is_same_v<P, aster_ml_lazy>) return pick(&w.x);
    if constexpr (std::is_same_v<P, aster_ml_tensor>) return pick(&w.tensor);
    if constexpr (std::is_same_v<P, aster_ml_buffer>) return pick(&w.buffer);
    if constexpr (std::is_same_v<P, aster_ml_layer>) return pick(&w.layer);
    if constexpr (std::is_same_v<P, aster_ml_state>) return pick(&w.state);
    if constexpr (std::is_same_v<P, aster_ml_optimizer>) return pick(&w.optimizer);
    if constexpr (std::is_same_v<P, aster_ml_program>) return pick(&w.program);
    if constexpr (std::is_same_v<P, aster_ml_workspace>) return pick(&w.workspace);
    if constexpr (std::is_same_v<P, aster_ml_scalar>) return pick(&w.scalar);
    if constexpr (std::is_same_v<T, const aster_ml_uop*>) return w.uop;
    if constexpr (std::is_same_v<P, const aster_ml_lazy*>) return s.list;
    if constexpr (std::is_same_v<P, aster_ml_lazy*>) return s.mutable_list;
    if constexpr (std::is_same_v<P, int64_t>) return s.numbers;
    if constexpr (std::is_same_v<P, size_t>) return s.sizes;
    if constexpr (std::is_same_v<P, ptrdiff_t>) return s.strides;
    if constexpr (std::is_same_v<P, char> || std::is_void_v<P>) return s.text;
    if constexpr (std::is_same_v<P, aster_ml_engine_counters>) return pick(&s.counters);
    if constexpr (std::is_same_v<P, aster_ml_runtime_info>) return pick(&s.runtime);
    if constexpr (std::is_same_v<P, aster_ml_uop_options>) return pick(&s.node);
    if constexpr (std::is_same_v<P, aster_ml_backend>) return pick(&s.backend);
    return nullptr;  // options: the default
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return kFloat;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return T{1};
  } else {
    return T{};
  }
}

template <typename T>
constexpr bool is_handle() {
  using P = Pointee<T>;
  return std::is_same_v<P, aster_ml_context> || std::is_same_v<P, aster_ml_lazy> ||
         std::is_same_v<P, aster_ml_layer> || std::is_same_v<P, aster_ml_state> ||
         std::is_same_v<P, aster_ml_optimizer> || std::is_same_v<P, aster_ml_program>;
}

bool ends(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}
bool among(std::string_view what, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), what) != list.end();
}
std::string argument_name(std::string_view names, size_t index) {
  for (; index > 0; --index) names.remove_prefix(names.find(',') + 1);
  return std::string(names.substr(0, names.find(',')));
}

// Frees and ends take null and empty handles for nothing to do.
bool gives_up(std::string_view name) { return ends(name, "_free") || ends(name, "_end"); }
bool frees(std::string_view name) {
  return gives_up(name) && name != "aster_ml_engine_capture_end";
}
// Accessors whose int32_t is a value.
bool plain(std::string_view name) {
  return among(name,
               {"aster_ml_lazy_dtype", "aster_ml_lazy_is_realized", "aster_ml_uop_dtype",
                "aster_ml_buffer_is_read_only", "aster_ml_tensor_is_contiguous",
                "aster_ml_device_type", "aster_ml_device_index", "aster_ml_device_is_available"}) ||
         name.starts_with("aster_ml_dtype_is_");
}
// Pointers that may be null: "function:argument", or ":argument" for all.
bool nullable(const std::string& function, const std::string& argument) {
  const auto is = [&](std::string_view f) { return function == f; };
  if (among(argument,
            {"options", "release", "self", "strides", "fill", "start", "stop", "step", "workspace",
             "prefix", "bias", "text", "now", "most", "pos_weight", "ignore_index", "attn_mask"})) {
    return true;
  }
  if (argument == "axes") return !is("aster_ml_lazy_permute") && !is("aster_ml_lazy_flip");
  if (argument == "weight") {
    return among(function, {"aster_ml_lazy_layer_norm", "aster_ml_lazy_batch_norm",
                            "aster_ml_lazy_batchnorm", "aster_ml_lazy_nll_loss"});
  }
  if (argument == "low" || argument == "high") {
    return is("aster_ml_lazy_clamp") || is("aster_ml_lazy_clip");
  }
  if (argument == "name") return is("aster_ml_lazy_keccak");
  if (argument == "out") {  // the size
    return among(function, {"aster_ml_uop_walk", "aster_ml_uop_print", "aster_ml_engine_graph",
                            "aster_ml_engine_graph_uop"});
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

// Everything known of one public function, and calls of it with one argument replaced.
template <typename... A>
class Caller {
 public:
  Caller(World& world, const char* name, const char* directions, int32_t (*function)(A...))
      : name_(name), directions_(directions), function_(function), scratch_(world) {
    fill(std::index_sequence_for<A...>());
  }
  std::tuple<A...>& arguments() { return arguments_; }
  Scratch& scratch() { return scratch_; }

  // Expects a failure with a message that names the function, and zeroed outputs.
  void refuse(int32_t expected, const std::string& why) {
    aster_ml_error_clear();
    refuse_after(expected, why);
  }
  void refuse_after(int32_t expected, const std::string& why) {
    const int32_t status = std::apply(function_, arguments_);
    EXPECT_EQ(status, expected) << name_ << ", " << why << ": " << last_error();
    if (status == 0) return;
    aster_ml_error error{};
    aster_ml_error_last(&error);
    EXPECT_EQ(error.code, status) << name_ << ", " << why;
    EXPECT_STREQ(error.function, name_) << why;
    EXPECT_STRNE(error.message, "") << name_ << ", " << why;
    zeroed(why, std::index_sequence_for<A...>());
  }

 private:
  template <size_t... I>
  void fill(std::index_sequence<I...>) {
    ((std::get<I>(arguments_) = sample<A>(scratch_, directions_[I])), ...);
  }
  template <size_t... I>
  void zeroed(const std::string& why, std::index_sequence<I...>) {
    (zeroed_one<A>(std::get<I>(arguments_), why), ...);
  }
  template <typename T>
  void zeroed_one(T value, const std::string& why) {
    if constexpr (std::is_pointer_v<T>) {
      using P = std::remove_pointer_t<T>;
      if constexpr (!std::is_void_v<P> && !std::is_function_v<P> && !std::is_const_v<P> &&
                    !std::is_same_v<P, char>) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(value);
        const unsigned char* first = scratch_.out[0];
        if (bytes < first || bytes >= first + sizeof(scratch_.out)) return;
        const bool zero =
            std::all_of(bytes, bytes + sizeof(P), [](unsigned char b) { return b == 0; });
        // uop_walk's count says what its array holds; program_run's tensors come in as well.
        EXPECT_TRUE(zero || among(name_, {"aster_ml_uop_walk", "aster_ml_program_run"}))
            << name_ << ", " << why << ": an output is not zeroed";
      }
    }
  }

  const char* name_;
  const char* directions_;
  int32_t (*function_)(A...);
  Scratch scratch_;
  std::tuple<A...> arguments_{};
};

// ---- Null pointers and empty handles ----

template <size_t I, typename... A>
void null_argument([[maybe_unused]] World& world, [[maybe_unused]] const char* name,
                   [[maybe_unused]] const char* directions, [[maybe_unused]] const char* names,
                   [[maybe_unused]] int32_t (*function)(A...)) {
  using T = std::tuple_element_t<I, std::tuple<A...>>;
  if constexpr (std::is_pointer_v<T>) {
    const std::string argument = argument_name(names, I);
    if (std::is_function_v<std::remove_pointer_t<T>> || nullable(name, argument)) return;
    Caller<A...> caller(world, name, directions, function);
    std::get<I>(caller.arguments()) = nullptr;
    if (frees(name)) {
      EXPECT_EQ(std::apply(function, caller.arguments()), 0) << name << " of null";
    } else if (plain(name)) {
      EXPECT_EQ(std::apply(function, caller.arguments()), 0) << name << " of null";
    } else {
      caller.refuse(of_null(name, argument), argument + " is null");
    }
    if constexpr (is_handle<T>()) {
      if (directions[I] == 'o') return;
      Pointee<T> empty{};
      Caller<A...> again(world, name, directions, function);
      std::get<I>(again.arguments()) = &empty;
      if (frees(name) || plain(name)) {
        EXPECT_EQ(std::apply(function, again.arguments()), 0) << name << " of an empty handle";
      } else {
        again.refuse(ASTER_ML_ARGUMENT, argument + " is an empty handle");
      }
    }
  }
}

template <typename... A, size_t... I>
void null_arguments([[maybe_unused]] World& world, [[maybe_unused]] const char* name,
                    [[maybe_unused]] const char* directions, [[maybe_unused]] const char* names,
                    [[maybe_unused]] int32_t (*function)(A...), std::index_sequence<I...>) {
  (null_argument<I>(world, name, directions, names, function), ...);
}
template <typename... A>
void null_arguments(World& world, const char* name, const char* directions, const char* names,
                    int32_t (*function)(A...)) {
  null_arguments(world, name, directions, names, function, std::index_sequence_for<A...>());
}
// Accessors that return something else: nothing for null.
template <typename R, typename... A>
void null_arguments(World& world, const char* name, const char* directions, const char*,
                    R (*function)(A...)) {
  if constexpr (sizeof...(A) > 0 && (std::is_pointer_v<A> || ...)) {
    Scratch scratch(world);
    std::tuple<A...> arguments{A{}...};
    (void)directions;
    const R got = std::apply(function, arguments);
    if constexpr (std::is_same_v<R, const char*>) {
      EXPECT_TRUE(got == nullptr || *got == '\0') << name;
    } else if constexpr (std::is_same_v<R, int64_t>) {
      EXPECT_TRUE(got == (ends(name, "_dim") ? -1 : 0)) << name;
    } else {
      EXPECT_EQ(got, R{}) << name;
    }
  } else {
    (void)world, (void)name, (void)directions, (void)function;
  }
}

TEST(BadInput, EveryPointerOfEveryFunctionNull) {
  World world;
  size_t functions = 0;
#define FUNCTION(name, directions, arguments)                 \
  null_arguments(world, #name, directions, arguments, &name); \
  ++functions;
#include "public_functions.def"
#undef FUNCTION
  EXPECT_GT(functions, 300u);
}

// ---- An input's handle given as output; a handle of another context; an error passed on ----

template <size_t I, typename... A>
void aliased([[maybe_unused]] World& world, [[maybe_unused]] World& other,
             [[maybe_unused]] const char* name, [[maybe_unused]] const char* directions,
             [[maybe_unused]] const char* names, [[maybe_unused]] int32_t (*function)(A...)) {
  using Types = std::tuple<A...>;
  using T = std::tuple_element_t<I, Types>;
  using Out = std::tuple_element_t<0, Types>;
  if constexpr (I > 0 && std::is_same_v<Out, aster_ml_lazy*> &&
                std::is_same_v<T, const aster_ml_lazy*>) {
    const std::string argument = argument_name(names, I);
    const bool builds = directions[0] == 'o';
    if (builds) {
      Caller<A...> caller(world, name, directions, function);
      std::get<0>(caller.arguments()) = &world.x;
      std::get<I>(caller.arguments()) = &world.x;
      void* const before = world.x.impl;
      caller.refuse(ASTER_ML_ARGUMENT, "out is " + argument);
      EXPECT_EQ(world.x.impl, before) << name << " changed its input";
      world.x.impl = before;

      // What failed before is passed on, record and all.
      aster_ml_lazy empty{}, failed{};
      const int64_t axis = 99;
      EXPECT_EQ(aster_ml_lazy_flip(&failed, &world.x, 1, &axis), ASTER_ML_RANGE);
      Caller<A...> chained(world, name, directions, function);
      std::get<I>(chained.arguments()) = &empty;
      EXPECT_EQ(std::apply(function, chained.arguments()), ASTER_ML_RANGE) << name;
      aster_ml_error error{};
      aster_ml_error_last(&error);
      EXPECT_STREQ(error.function, "aster_ml_lazy_flip") << name;
    }
    if constexpr (((std::is_same_v<A, const aster_ml_lazy*> ? 1 : 0) + ...) > 1 ||
                  std::is_same_v<std::tuple_element_t<1, Types>, const aster_ml_layer*>) {
      Caller<A...> foreign(world, name, directions, function);
      std::get<I>(foreign.arguments()) = &other.x;
      foreign.refuse(ASTER_ML_ARGUMENT, argument + " of another context");
    }
  }
}
template <typename... A, size_t... I>
void aliased_all([[maybe_unused]] World& world, [[maybe_unused]] World& other,
                 [[maybe_unused]] const char* name, [[maybe_unused]] const char* directions,
                 [[maybe_unused]] const char* names, [[maybe_unused]] int32_t (*function)(A...),
                 std::index_sequence<I...>) {
  (aliased<I>(world, other, name, directions, names, function), ...);
}
template <typename R, typename... A>
void aliased_all([[maybe_unused]] World& world, [[maybe_unused]] World& other,
                 [[maybe_unused]] const char* name, [[maybe_unused]] const char* directions,
                 [[maybe_unused]] const char* names, [[maybe_unused]] R (*function)(A...)) {
  if constexpr (std::is_same_v<R, int32_t>) {
    aliased_all(world, other, name, directions, names, function, std::index_sequence_for<A...>());
  }
}

TEST(BadInput, OutIsAnInputAndHandlesOfAnotherContext) {
  World world, other;
#define FUNCTION(name, directions, arguments) \
  aliased_all(world, other, #name, directions, arguments, &name);
#include "public_functions.def"
#undef FUNCTION
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

template <typename... A>
void second_thread(World& world, const char* name, const char* directions,
                   int32_t (*function)(A...)) {
  constexpr bool in_context =
      ((std::is_same_v<A, const aster_ml_context*> || std::is_same_v<A, const aster_ml_lazy*> ||
        std::is_same_v<A, const aster_ml_layer*> || std::is_same_v<A, const aster_ml_state*> ||
        std::is_same_v<A, const aster_ml_optimizer*>) ||
       ... || false);
  const std::string_view text(name);
  // Concrete memory is any thread's; values are read without a lock.
  const bool free_of_it =
      frees(name) || plain(name) || text.starts_with("aster_ml_buffer_") ||
      among(text, {"aster_ml_context_count_bytes", "aster_ml_lazy_shape", "aster_ml_tensor_init",
                   "aster_ml_tensor_from_data", "aster_ml_tensor_from_buffer",
                   "aster_ml_tensor_contiguous", "aster_ml_scope_end"});
  if (!in_context || free_of_it) return;
  Caller<A...> caller(world, name, directions, function);
  caller.refuse(ASTER_ML_STATE, "another thread is inside");
}
template <typename R, typename... A>
void second_thread(World&, const char*, const char*, R (*)(A...)) {}

TEST(BadInput, ASecondThreadInAContext) {
  World world;
  world.gate.close();
  aster_ml_lazy made{};
  std::thread inside([&] { EXPECT_OK(aster_ml_lazy_number(&made, &world.context, 3)); });
  world.gate.wait_for_visitor();
#define FUNCTION(name, directions, arguments) second_thread(world, #name, directions, &name);
#include "public_functions.def"
#undef FUNCTION
  world.gate.open();
  inside.join();
  EXPECT_OK(aster_ml_lazy_free(&made));
}

}  // namespace
}  // namespace programs
