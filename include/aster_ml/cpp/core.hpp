/* Errors, counted references, contexts and arguments of the C++ wrapper; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_CORE_HPP
#define ASTER_ML_CPP_CORE_HPP

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "aster_ml/aster_ml.h"

namespace aster_ml {

class Tensor;
class Array;
class Part;
class Operand;

/* ---- Errors ---- */

namespace detail {

/* The failure of a check of this header; the library's own record goes before it. */
inline aster_ml_error& fault() {
  static thread_local aster_ml_error record{};
  return record;
}

inline void fail(aster_ml_status status, const char* function, const char* message) {
  aster_ml_error_clear();
  aster_ml_error& record = fault();
  record = {};
  record.code = status;
  std::snprintf(record.module, sizeof(record.module), "%s", "cpp");
  std::snprintf(record.function, sizeof(record.function), "%s", function);
  std::snprintf(record.message, sizeof(record.message), "%s", message);
}

inline bool good(aster_ml_status status) { return status == ASTER_ML_OK; }

}  // namespace detail

/* What failed last in this thread; code 0 where nothing has. */
inline aster_ml_error error() {
  aster_ml_error out{};
  aster_ml_error_last(&out);
  return out.code != ASTER_ML_OK ? out : detail::fault();
}

/* Forgets it. */
inline void clear_error() {
  aster_ml_error_clear();
  detail::fault() = {};
}

namespace detail {

/* Whether an object is there; says so if nothing has failed before. */
template <class Object>
bool there(const Object& object, const char* function) {
  if (object.ok()) return true;
  if (error().code == ASTER_ML_OK) fail(ASTER_ML_ARGUMENT, function, "an object is empty");
  return false;
}

}  // namespace detail

/* ---- Counted references ---- */

namespace detail {

inline void release(aster_ml_context* handle) { aster_ml_context_free(handle); }
inline void release(aster_ml_lazy* handle) { aster_ml_lazy_free(handle); }
inline void release(aster_ml_tensor* handle) { aster_ml_tensor_free(handle); }
inline void release(aster_ml_buffer_view* handle) { aster_ml_view_free(handle); }
inline void release(aster_ml_program* handle) { aster_ml_program_free(handle); }
inline void release(aster_ml_kernel* handle) { aster_ml_kernel_free(handle); }
inline void release(aster_ml_event* handle) { aster_ml_event_free(handle); }
inline void release(aster_ml_queue* handle) { aster_ml_queue_free(handle); }
inline void release(aster_ml_sparse* handle) { aster_ml_sparse_free(handle); }
inline void release(aster_ml_arena* handle) { aster_ml_arena_free(handle); }
inline void release(aster_ml_schedule* handle) { aster_ml_schedule_free(handle); }
inline void release(aster_ml_workspace* handle) { aster_ml_workspace_free(handle); }
inline void release(aster_ml_layer* handle) { aster_ml_layer_free(handle); }
inline void release(aster_ml_state* handle) { aster_ml_state_free(handle); }
inline void release(aster_ml_optimizer* handle) { aster_ml_optimizer_free(handle); }

/* A reference to a handle of the library and to something that it needs. */
template <class Handle, class Needed = int>
class Shared {
 public:
  Shared() = default;
  /* Takes the handle over; empty where it is or where memory is short. */
  Shared(Handle&& taken, Needed needed) {
    cell_ = new (std::nothrow) Cell{taken, std::move(needed)};
    if (cell_ != nullptr) return;
    release(&taken);
    fail(ASTER_ML_MEMORY, "Shared", "no memory for a reference");
  }
  Shared(const Shared& other) noexcept : cell_(other.cell_) {
    if (cell_ != nullptr) cell_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  Shared(Shared&& other) noexcept : cell_(std::exchange(other.cell_, nullptr)) {}
  Shared& operator=(const Shared& other) noexcept {
    Shared copy(other);
    std::swap(cell_, copy.cell_);
    return *this;
  }
  Shared& operator=(Shared&& other) noexcept {
    Shared taken(std::move(other));
    std::swap(cell_, taken.cell_);
    return *this;
  }
  ~Shared() {
    if (cell_ == nullptr || cell_->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    release(&cell_->handle);
    delete cell_;
  }

  bool empty() const { return cell_ == nullptr; }
  /* The handle; an empty one where the reference is empty. */
  Handle* get() const { return cell_ != nullptr ? &cell_->handle : nothing(); }
  Needed needed() const { return cell_ != nullptr ? cell_->needed : Needed{}; }
  bool same(const Shared& other) const { return cell_ == other.cell_; }

 private:
  struct Cell {
    Handle handle;
    Needed needed;
    std::atomic<size_t> owners{1};
  };
  static Handle* nothing() {
    static thread_local Handle handle;
    return &(handle = Handle{});
  }
  Cell* cell_ = nullptr;
};

using Root = Shared<aster_ml_context>;
using Lazy = Shared<aster_ml_lazy, Root>;

}  // namespace detail

/* ---- Contexts ---- */

/* A reference to a context, and while it lives the current context of the thread that made it. */
class Context {
 public:
  /* A new context; struct_size is set here. */
  explicit Context(aster_ml_context_options options = {}) {
    options.struct_size = sizeof(options);
    aster_ml_context made{};
    if (detail::good(aster_ml_context_init(&made, &options))) root_ = {std::move(made), 0};
    enter();
  }
  /* The same context, current in this thread from now on. */
  Context(const Context& other) : root_(other.root_) { enter(); }
  explicit Context(detail::Root root) : root_(std::move(root)) { enter(); }
  Context& operator=(const Context&) = delete;
  /* On any thread: the one that made it finds it gone when it looks next. */
  ~Context() {
    if (place_ == nullptr) return;
    place_->context.store(nullptr, std::memory_order_release);
    place_->give_up();
  }

  /* That of this thread. */
  static Context& current() {
    Context* top = stack().top();
    if (top != nullptr) return *top;
    static thread_local Context usual; /* which enters here, and stays below all later ones */
    return usual;
  }

  bool ok() const { return !root_.empty(); }
  aster_ml_context* get() const { return root_.get(); }
  const detail::Root& root() const { return root_; }

  aster_ml_engine_counters counters() const {
    aster_ml_engine_counters out{};
    out.struct_size = sizeof(out);
    aster_ml_engine_count(&out, get());
    return out;
  }
  /* Bytes held from the allocator now, and the most. */
  std::pair<size_t, size_t> bytes() const {
    std::pair<size_t, size_t> out{};
    aster_ml_context_count_bytes(&out.first, &out.second, get());
    return out;
  }
  /* Whether tensors built from now on are tinygrad's where ours deliberately differ. */
  bool set_strict_parity(bool on) const {
    return detail::good(aster_ml_context_set_strict_parity(get(), on ? 1 : 0));
  }
  /* Whether plans of kernels are searched for, so many at a time; 0: no. */
  bool set_beam(int32_t width) const {
    return detail::good(aster_ml_context_set_beam(get(), width));
  }
  /* What happens where a call has to copy what it was given: ASTER_ML_COPIES_ALLOW, ... */
  bool set_copies(int32_t policy) const {
    return detail::good(aster_ml_context_set_copies(get(), policy));
  }
  /* Bytes that one archive may unpack to; 0: the default. */
  bool set_archive_limit(uint64_t bytes) const {
    return detail::good(aster_ml_context_set_archive_limit(get(), bytes));
  }
  /* Stops what is computed in it now; from any thread. */
  bool cancel() const { return detail::good(aster_ml_engine_cancel(get())); }
  bool collect() const { return detail::good(aster_ml_engine_collect(get())); }
  /* The default device: where new tensors live, and what reads no memory is computed. */
  int32_t device() const {
    int32_t out = 0;
    aster_ml_engine_device(&out, get());
    return out;
  }
  bool set_device(int32_t device) const {
    return detail::good(aster_ml_engine_set_device(get(), device));
  }
  /* What a weak dtype (ASTER_ML_DTYPE_WEAKFLOAT, _WEAKINT) becomes where it is stored; 0 if it is
   * none. Setting takes a dtype of the kind. */
  int32_t default_dtype(int32_t weak) const {
    int32_t out = 0;
    aster_ml_engine_default_dtype(&out, get(), weak);
    return out;
  }
  bool set_default_dtype(int32_t dtype) const {
    return detail::good(aster_ml_engine_set_default_dtype(get(), dtype));
  }
  bool manual_seed(uint64_t seed) const {
    return detail::good(aster_ml_lazy_manual_seed(get(), seed));
  }
  /* Has a function told of every launch; null: no longer. */
  bool trace(aster_ml_launch_function function, void* self = nullptr) const {
    return detail::good(aster_ml_engine_trace(get(), function, self));
  }
  /* How the last schedule looks. */
  std::string schedule() const {
    std::string out(1 << 16, '\0');
    if (!detail::good(aster_ml_engine_print_schedule(&out[0], out.size(), get()))) return {};
    return out.c_str();
  }

 private:
  /* Where a context stands in the stack of its thread: one reference is the context's, one the
   * stack's. */
  struct Place {
    std::atomic<Context*> context; /* null once it is gone */
    Place* below;
    std::atomic<int> owners{2};
    void give_up() {
      if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }
  };
  struct Stack {
    Place* first = nullptr;
    ~Stack() {
      while (first != nullptr) pop();
    }
    void pop() { std::exchange(first, first->below)->give_up(); }
    /* The innermost context that is still there. */
    Context* top() {
      Context* found = nullptr;
      while (first != nullptr && found == nullptr) {
        found = first->context.load(std::memory_order_acquire);
        if (found == nullptr) pop();
      }
      return found;
    }
  };
  static Stack& stack() {
    static thread_local Stack contexts;
    return contexts;
  }
  void enter() {
    Stack& contexts = stack();
    contexts.top(); /* without those that are gone */
    place_ = new (std::nothrow) Place{{this}, contexts.first};
    if (place_ == nullptr)
      detail::fail(ASTER_ML_MEMORY, "Context", "no memory for a context");
    else
      contexts.first = place_;
  }
  detail::Root root_;
  Place* place_ = nullptr;
};

/* ---- Arguments ---- */

/* Integers: axes or dimensions. Made of a list, a vector, or one number, and copied. */
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> list) { take(list.begin(), list.size()); }
  Dims(const std::vector<int64_t>& list) { take(list.data(), list.size()); }
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  Dims(Integer one) : size_(1), is_one_(true) {
    few_[0] = static_cast<int64_t>(one);
  }
  /* Null where there are none. */
  const int64_t* data() const { return size_ == 0 ? nullptr : size_ <= kFew ? few_ : many_.data(); }
  size_t size() const { return size_; }
  /* Made of one number, not of a list of one. */
  bool is_number() const { return is_one_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }

 private:
  static constexpr size_t kFew = 8; /* without memory of their own */
  void take(const int64_t* list, size_t size) {
    size_ = size;
    if (size > kFew) {
      many_.assign(list, list + size);
    } else {
      for (size_t i = 0; i < size; ++i) few_[i] = list[i];
    }
  }
  int64_t few_[kFew] = {};
  std::vector<int64_t> many_;
  size_t size_ = 0;
  bool is_one_ = false;
};

/* A number with its dtype: weak for C++'s numbers. A default-made one stands for none. */
class Scalar {
 public:
  Scalar() = default;
  Scalar(const aster_ml_scalar& value) : value_(value), given_(true) {}
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Scalar(Number value) : given_(true) {
    if constexpr (std::is_same_v<Number, bool>) {
      aster_ml_scalar_from_int64(&value_, ASTER_ML_DTYPE_BOOL, value);
    } else if constexpr (std::is_floating_point_v<Number>) {
      aster_ml_scalar_from_double(&value_, ASTER_ML_DTYPE_WEAKFLOAT, static_cast<double>(value));
    } else if constexpr (std::is_unsigned_v<Number> && sizeof(Number) == 8) {
      const bool large = value > static_cast<Number>(std::numeric_limits<int64_t>::max());
      aster_ml_scalar_from_uint64(&value_, large ? ASTER_ML_DTYPE_UINT64 : ASTER_ML_DTYPE_WEAKINT,
                                  static_cast<uint64_t>(value));
    } else {
      aster_ml_scalar_from_int64(&value_, ASTER_ML_DTYPE_WEAKINT, static_cast<int64_t>(value));
    }
  }
  const aster_ml_scalar* get() const { return given_ ? &value_ : nullptr; }

 private:
  aster_ml_scalar value_{};
  bool given_ = false;
};

/* A tensor, or a number that becomes one in the context of the others; none if default-made. */
class Operand {
 public:
  Operand() = default;
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  inline Operand(const Part& part);
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Operand(Number number) : number_(number) {}
  Operand(const aster_ml_scalar& number) : number_(number) {}
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  ~Operand() { aster_ml_lazy_free(&made_); }

  inline const aster_ml_lazy* in(const Tensor& other) const;
  inline Tensor tensor_with(const Operand& other) const;

 private:
  const aster_ml_lazy* constant(const detail::Root& root) const {
    if (root.empty()) return &made_;
    if (made_.impl == nullptr) aster_ml_lazy_scalar(&made_, root.get(), number_.get());
    return &made_;
  }
  const Tensor* tensor_ = nullptr;
  Scalar number_;
  mutable aster_ml_lazy made_{};
};

/* Several tensors as the library takes them; references to them are held. */
class Tensors {
 public:
  inline Tensors(std::initializer_list<Tensor> list);
  inline Tensors(const std::vector<Tensor>& list);
  const aster_ml_lazy* const* data() const { return handles_.data(); }
  aster_ml_lazy* const* mutable_data() const { return writable_.data(); }
  size_t size() const { return handles_.size(); }
  const detail::Root& root() const { return root_; }

 private:
  inline void take(const Tensor* list, size_t count);
  std::vector<detail::Lazy> kept_;
  std::vector<const aster_ml_lazy*> handles_;
  std::vector<aster_ml_lazy*> writable_;
  detail::Root root_;
};

namespace detail {

template <class Enumeration>
constexpr int32_t code(Enumeration value) {
  return static_cast<int32_t>(value);
}

inline bool& training_now() {
  static thread_local bool training = false;
  return training;
}

/* Whether an argument is an empty tensor: what is built on one is empty, without a call. */
inline bool is_gap(const aster_ml_lazy* tensor) {
  return tensor != nullptr && tensor->impl == nullptr;
}
template <class Other>
bool is_gap(const Other&) {
  return false;
}
inline bool has_gap(const Tensors& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_gap(tensors.data()[i])) return true;
  }
  return false;
}

/* How methods call the library. Self's self() is the Object that it stands for. */
template <class Self, class Object>
class Calls {
 protected:
  const Object& self() const { return static_cast<const Self*>(this)->self(); }

  template <class Function, class... Arguments>
  Object make(Function function, Arguments... arguments) const {
    return Object::call(self(), function, arguments...);
  }
  template <class Function, class... Arguments>
  std::pair<Object, Object> make2(Function function, Arguments... arguments) const {
    const Object& x = self();
    aster_ml_lazy first{}, second{};
    if (!x.ok() || (is_gap(arguments) || ...)) return {};
    if (!good(function(&first, &second, x.get(), arguments...))) return {};
    return {Object(std::move(first), x.root()), Object(std::move(second), x.root())};
  }
  template <class Function, class... Arguments>
  std::tuple<Object, Object, Object> make3(Function function, Arguments... arguments) const {
    const Object& x = self();
    aster_ml_lazy first{}, second{}, third{};
    if (!x.ok() || (is_gap(arguments) || ...)) return {};
    if (!good(function(&first, &second, &third, x.get(), arguments...))) return {};
    return {Object(std::move(first), x.root()), Object(std::move(second), x.root()),
            Object(std::move(third), x.root())};
  }
  template <class Function, class... Arguments>
  static Object create(Function function, Arguments... arguments) {
    const Context& context = Context::current();
    aster_ml_lazy out{};
    if (!context.ok() || !good(function(&out, context.get(), arguments...))) return {};
    return Object(std::move(out), context.root());
  }
  template <class Function, class... Arguments>
  static Object join(Function function, const Tensors& tensors, Arguments... arguments) {
    aster_ml_lazy out{};
    if (has_gap(tensors) || !good(function(&out, arguments...))) return {};
    return Object(std::move(out), tensors.root());
  }
  /* Lists that go together; those left out do not count. */
  template <class... Lists>
  static bool equal_lengths(const Dims& first, const Lists&... others) {
    if (((others.data() == nullptr || others.size() == first.size()) && ...)) return true;
    fail(ASTER_ML_SHAPE, "Tensor", "lists of arguments that go together differ in length");
    return false;
  }
};

}  // namespace detail
}  // namespace aster_ml

#endif
