/* aster_ml::Tensor, its parts and operators; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_TENSOR_HPP
#define ASTER_ML_CPP_TENSOR_HPP

#include "aster_ml/cpp/arguments.hpp"
#include "aster_ml/cpp/families.hpp"

namespace aster_ml {

namespace detail {

/* What a tensor and a part of one can do besides the generated methods. */
template <class Self, class Tensor>
class Values : public FamilyMethods<Self, Tensor> {
 public:
  /* ---- What it is ---- */

  Dtype dtype() const { return Dtype{aster_ml_lazy_dtype(lazy())}; }
  size_t ndim() const { return aster_ml_lazy_ndim(lazy()); }
  int64_t dim(int64_t axis) const { return aster_ml_lazy_dim(lazy(), axis); }
  int64_t numel() const { return aster_ml_lazy_count(lazy()); }
  std::vector<int64_t> shape() const {
    std::vector<int64_t> out(ndim());
    aster_ml_lazy_shape(out.data(), out.size(), lazy());
    return out;
  }
  /* The code of its device; 0 if empty. */
  int32_t device() const {
    int32_t out = 0;
    aster_ml_lazy_device(&out, lazy());
    return out;
  }
  bool is_realized() const { return aster_ml_lazy_is_realized(lazy()) == 1; }
  /* Whether a size is an expression of variables. */
  bool is_symbolic() const { return aster_ml_lazy_is_symbolic(lazy()) == 1; }
  /* Storage or a view of it: what is assigned to this is written there. */
  bool is_stored() const { return aster_ml_lazy_is_stored(lazy()) == 1; }
  /* What is built of either is the same. */
  bool is_same(const Tensor& other) const {
    return aster_ml_lazy_is_same(lazy(), other.get()) == 1;
  }
  /* Realised where that takes no longer than a call; whether it is. */
  bool realize_ready() const {
    int32_t done = 0;
    return detail::good(aster_ml_lazy_realize_ready(&done, writable())) && done == 1;
  }
  bool shares_storage(const Tensor& other) const {
    int32_t shared = 0;
    return detail::good(aster_ml_lazy_shares_storage(&shared, lazy(), other.get())) && shared == 1;
  }

  /* ---- Its elements ---- */

  bool realize() const {
    aster_ml_lazy* handle = writable();
    return there(this->self(), "realize") && good(aster_ml_lazy_realize(&handle, 1));
  }
  /* The tensor itself, computed; empty where that fails. */
  Tensor realized() const { return realize() ? Tensor(this->self()) : Tensor(); }
  /* The one element; 0 where that fails. */
  template <class Number = double>
  Number item() const {
    if constexpr (std::is_same_v<Number, double>) {
      double out = 0;
      if (there(this->self(), "item")) aster_ml_lazy_to_double(&out, writable());
      return out;
    } else {
      Number out{};
      this->cast(dtype_of<Number>()).copy_out(&out, sizeof(out));
      return out;
    }
  }
  /* Its elements, row-major, as bytes that are as many as it has. */
  bool copy_out(void* data, size_t bytes) const {
    return there(this->self(), "copy_out") && good(aster_ml_lazy_copy_out(data, bytes, writable()));
  }
  /* Its elements, row-major, converted; none where that fails. */
  template <class Number>
  std::vector<Number> to_vector() const {
    static_assert(!std::is_same_v<Number, bool>, "std::vector<bool> has no elements: uint8_t");
    std::vector<Number> out(static_cast<size_t>(numel()));
    const Dtype wanted = dtype_of<Number>();
    const Tensor from = dtype() == wanted ? Tensor(this->self()) : this->cast(wanted);
    if (!from.copy_out(out.data(), out.size() * sizeof(Number))) out.clear();
    return out;
  }
  /* The realised storage, lent; empty where that fails. Row-major, or as it lies. */
  aster_ml_tensor view() const {
    aster_ml_tensor out{};
    if (there(this->self(), "view")) aster_ml_lazy_view(&out, writable());
    return out;
  }
  /* That of the tensor of the greatest sizes. */
  aster_ml_tensor view_whole() const {
    aster_ml_tensor out{};
    if (there(this->self(), "view_whole")) aster_ml_lazy_view_whole(&out, writable());
    return out;
  }
  aster_ml_tensor view_strided() const {
    aster_ml_tensor out{};
    if (there(this->self(), "view_strided")) aster_ml_lazy_view_strided(&out, writable());
    return out;
  }
  /* Its elements in place; null where that fails or they are of another type. */
  template <class Number>
  Number* data() const {
    const aster_ml_tensor lent = view();
    if (lent.storage.data == nullptr || Dtype{lent.dtype} != dtype_of<Number>()) return nullptr;
    return reinterpret_cast<Number*>(static_cast<char*>(lent.storage.data) + lent.byte_offset);
  }

  /* The graph that realising it would compute, as text for Graphviz or JSON; level and format are
   * ASTER_ML_GRAPH_*. Empty where that fails. */
  std::string graph(int32_t level = ASTER_ML_GRAPH_TENSOR,
                    int32_t format = ASTER_ML_GRAPH_DOT) const {
    std::string out;
    const aster_ml_lazy* handle = lazy();
    const Root root = this->self().root();
    size_t length = 0;
    const auto write = [&](char* text, size_t room) {
      return good(
          aster_ml_engine_graph(text, &length, room, root.get(), &handle, 1, level, format));
    };
    if (!there(this->self(), "graph") || !write(nullptr, 0)) return out;
    out.resize(length + 1);
    out.resize(write(&out[0], out.size()) ? length : 0);
    return out;
  }

  /* Bytes that realising it would take beside what exists. */
  size_t count_peak() const {
    const aster_ml_lazy* handle = lazy();
    const Root root = this->self().root();
    size_t bytes = 0;
    if (there(this->self(), "count_peak"))
      good(aster_ml_engine_count_peak(&bytes, root.get(), &handle, 1));
    return bytes;
  }

  /* ---- Gradients ---- */

  /* d self / d target for each of the targets; seed is that of self, ones if left out. */
  std::vector<Tensor> gradient(const Tensors& targets, const Operand& seed = {},
                               const Gradients& how = {}) const {
    aster_ml_gradient_options options{};
    options.struct_size = sizeof(options);
    options.require_path = how.require_path ? 1 : 0;
    options.empty_without_path = how.empty_without_path ? 1 : 0;
    options.seed = seed.in(this->self());
    if (has_gap(targets) || is_gap(options.seed)) return {};
    return many(targets.size(), [&](aster_ml_lazy* out, size_t* count) {
      *count = targets.size();
      return aster_ml_gradient(out, lazy(), targets.data(), *count, &options);
    });
  }
  Tensor gradient(const Tensor& target, const Operand& seed = {}, const Gradients& how = {}) const {
    std::vector<Tensor> out = gradient(Tensors({target}), seed, how);
    return out.empty() ? Tensor() : out[0];
  }

  /* This, whose gradient computes anew what lies between the inputs and it. */
  Tensor checkpoint(const Tensors& inputs) const {
    if (has_gap(inputs)) return {};
    return this->make(aster_ml_gradient_checkpoint, inputs.data(), inputs.size());
  }

  /* Whether backward() gives it a gradient: this object, not what is computed of it. */
  const Tensor& requires_grad(bool on = true) const {
    if (there(this->self(), "requires_grad"))
      good(aster_ml_lazy_set_requires_grad(writable(), on ? 1 : 0));
    return this->self();
  }
  bool is_requiring_grad() const { return aster_ml_lazy_requires_grad(lazy()) != 0; }
  /* Adds its gradient to those that tensors keep, computes both and gives the graph behind it up;
   * with retain_graph neither. */
  bool backward(const Operand& seed = {}, bool retain_graph = false) const {
    aster_ml_backward_options options{};
    options.struct_size = sizeof(options);
    options.retain_graph = retain_graph ? 1 : 0;
    options.seed = seed.in(this->self());
    return there(this->self(), "backward") && !is_gap(options.seed) &&
           good(aster_ml_lazy_backward(writable(), &options));
  }
  /* What backward() has added up; empty, with NOT_FOUND, where that is nothing. */
  Tensor grad() const { return this->make(aster_ml_lazy_grad); }
  bool reset_grad() const {
    return there(this->self(), "reset_grad") && good(aster_ml_lazy_reset_grad(writable()));
  }

  /* ---- Indexing ---- */

  /* x[items]: a part to be read or assigned to. */
  inline Part operator[](std::initializer_list<Index> items) const;
  inline Part operator[](const std::vector<Index>& items) const;
  inline Part operator[](const Index& item) const;

  /* ---- Movement ---- */

  Tensor T() const { return this->transpose(); }
  /* Axes split, reordered and joined by a formula; names and their sizes. */
  Tensor rearrange(const char* formula,
                   std::initializer_list<std::pair<const char*, int64_t>> sizes = {}) const {
    std::vector<const char*> names;
    std::vector<int64_t> values;
    for (const auto& [name, size] : sizes) {
      names.push_back(name);
      values.push_back(size);
    }
    return this->make(aster_ml_lazy_rearrange, formula, names.size(), names.data(), values.data());
  }
  /* Parts of the given sizes, or of one size with a rest. */
  std::vector<Tensor> split(const Dims& sizes, int64_t axis = 0) const {
    if (sizes.size() == 1) return split_every(*sizes.data(), axis);
    return many(sizes.size(), [&](aster_ml_lazy* out, size_t* count) {
      return aster_ml_lazy_split(out, *count = sizes.size(), lazy(), sizes.data(), axis);
    });
  }
  std::vector<Tensor> split_every(int64_t size, int64_t axis = 0) const {
    const int64_t whole = dim(axis);
    const int64_t room = size < 1 || whole < 1 ? 1 : (whole - 1) / size + 1;
    return many(static_cast<size_t>(room), [&](aster_ml_lazy* out, size_t* count) {
      return aster_ml_lazy_split_every(out, count, static_cast<size_t>(room), lazy(), size, axis);
    });
  }
  std::vector<Tensor> chunk(size_t chunks, int64_t axis = 0) const {
    return many(chunks, [&](aster_ml_lazy* out, size_t* count) {
      return aster_ml_lazy_chunk(out, count, chunks, lazy(), axis);
    });
  }
  static std::vector<Tensor> meshgrid(const Tensors& tensors, Indexing indexing = Indexing::ij) {
    if (has_gap(tensors)) return {};
    return several(tensors.size(), tensors.root(), [&](aster_ml_lazy* out, size_t* count) {
      *count = tensors.size();
      return aster_ml_lazy_meshgrid(out, tensors.data(), *count, code(indexing));
    });
  }

  /* ---- Convolutions and pools: on as many axes as the kernel has, a number being for two ---- */

  Tensor conv2d(const Operand& weight, const Operand& bias = {}, const Windows& how = {}) const {
    return convolve(aster_ml_lazy_conv, "conv2d", weight, bias, how);
  }
  Tensor conv_transpose2d(const Operand& weight, const Operand& bias = {},
                          const Windows& how = {}) const {
    return convolve(aster_ml_lazy_conv_transpose, "conv_transpose2d", weight, bias, how);
  }
  Tensor avg_pool2d(const Dims& kernel = 2, const Windows& how = {}) const {
    return pool(aster_ml_lazy_avg_pool, "avg_pool2d", kernel, how);
  }
  Tensor max_pool2d(const Dims& kernel = 2, const Windows& how = {}) const {
    return pool(aster_ml_lazy_max_pool, "max_pool2d", kernel, how);
  }
  std::pair<Tensor, Tensor> max_pool2d_with_indices(const Dims& kernel = 2,
                                                    const Windows& how = {}) const {
    const std::vector<int64_t> sizes = kernel_of(kernel);
    const Spread spread("max_pool2d_with_indices", sizes.size(), how);
    if (!spread.ok()) return {};
    const aster_ml_pool_options options = spread.pool(how);
    return this->make2(aster_ml_lazy_max_pool_with_indices, sizes.size(), sizes.data(), &options);
  }
  Tensor max_unpool2d(const Operand& indices, const Dims& kernel = 2,
                      const Windows& how = {}) const {
    const std::vector<int64_t> sizes = kernel_of(kernel);
    const Spread spread("max_unpool2d", sizes.size(), how);
    if (!spread.ok()) return {};
    const aster_ml_pool_options options = spread.pool(how);
    return this->make(aster_ml_lazy_max_unpool, indices.in(this->self()), sizes.size(),
                      sizes.data(), &options);
  }

  /* ---- Losses ---- */

  /* -log_softmax at the labels; ignore_index leaves labels out. */
  Tensor cross_entropy(const Operand& labels, Reduction reduction = Reduction::mean,
                       double label_smoothing = 0, const int32_t* ignore_index = nullptr) const {
    aster_ml_cross_entropy_options options{};
    options.struct_size = sizeof(options);
    options.reduction = code(reduction);
    options.label_smoothing = label_smoothing;
    options.ignore = ignore_index != nullptr ? 1 : 0;
    options.ignore_index = ignore_index != nullptr ? *ignore_index : 0;
    return this->make(aster_ml_lazy_cross_entropy, labels.in(this->self()), &options);
  }
  Tensor nll_loss(const Operand& labels, const Operand& weight = {},
                  const int64_t* ignore_index = nullptr,
                  Reduction reduction = Reduction::mean) const {
    const Tensor& x = this->self();
    return this->make(aster_ml_lazy_nll_loss, labels.in(x), weight.in(x), ignore_index,
                      code(reduction));
  }

  /* ---- Creation ---- */

  using Methods<Self, Tensor>::arange;
  using Methods<Self, Tensor>::eye;
  static Tensor arange(int64_t stop) { return Methods<Self, Tensor>::arange(0, stop); }
  static Tensor eye(int64_t rows) { return Methods<Self, Tensor>::eye(rows, rows); }
  static bool manual_seed(uint64_t seed = 0) { return Context::current().manual_seed(seed); }
  /* A copy of row-major elements. */
  static Tensor from(const void* data, Dtype dtype, const Dims& shape) {
    return Values::create(aster_ml_lazy_from, data, code(dtype), shape.size(), shape.data());
  }
  template <class Number>
  static Tensor from(const std::vector<Number>& values, const Dims& shape) {
    uint64_t count = 1;
    for (const int64_t size : shape) count *= static_cast<uint64_t>(size);
    if (count == values.size()) return from(values.data(), dtype_of<Number>(), shape);
    fail(ASTER_ML_SHAPE, "from", "as many values as the shape has elements are needed");
    return {};
  }
  /* The storage of a concrete tensor, no copy. */
  static Tensor from_tensor(const aster_ml_tensor& tensor) {
    return Values::create(aster_ml_lazy_from_tensor, &tensor);
  }
  /* Constants without axes, of a weak dtype or of that of the scalar. */
  static Tensor number(double value) { return Values::create(aster_ml_lazy_number, value); }
  static Tensor integer(int64_t value) { return Values::create(aster_ml_lazy_integer, value); }
  static Tensor scalar(const Scalar& value) {
    return Values::create(aster_ml_lazy_scalar, value.get());
  }

 protected:
  const aster_ml_lazy* lazy() const { return this->self().get(); }
  aster_ml_lazy* writable() const { return this->self().get(); }

 private:
  /* The handles that a function writes into `room`. */
  template <class Function>
  static std::vector<Tensor> several(size_t room, const Root& root, Function function) {
    std::vector<aster_ml_lazy> handles(room);
    std::vector<Tensor> out;
    size_t count = 0;
    if (root.empty() || !good(function(handles.data(), &count))) return out;
    for (size_t i = 0; i < count; ++i) out.push_back(Tensor(std::move(handles[i]), root));
    return out;
  }
  template <class Function>
  std::vector<Tensor> many(size_t room, Function function) const {
    return several(room, this->self().root(), function);
  }
  template <class Function>
  Tensor convolve(Function function, const char* name, const Operand& weight, const Operand& bias,
                  const Windows& how) const {
    const Tensor& x = this->self();
    const aster_ml_lazy* w = weight.in(x);
    const size_t ndim = w == nullptr ? 0 : aster_ml_lazy_ndim(w);
    const size_t rank = ndim < 2 ? 0 : ndim - 2;
    const Spread spread(name, rank, how);
    if (!spread.ok()) return {};
    const aster_ml_conv_options options = spread.conv(how);
    return this->make(function, w, bias.in(x), &options);
  }
  template <class Function>
  Tensor pool(Function function, const char* name, const Dims& kernel, const Windows& how) const {
    const std::vector<int64_t> sizes = kernel_of(kernel);
    const Spread spread(name, sizes.size(), how);
    if (!spread.ok()) return {};
    const aster_ml_pool_options options = spread.pool(how);
    return this->make(function, sizes.size(), sizes.data(), &options);
  }
};

}  // namespace detail

/* ---- Tensors ---- */

/* A reference to a lazy tensor. */
class Tensor : public detail::Values<Tensor, Tensor> {
 public:
  Tensor() = default;
  /* Takes a handle over. No scope may own it too: aster_ml_lazy_keep takes it out of one. */
  Tensor(aster_ml_lazy&& handle, const detail::Root& root) : lazy_(std::move(handle), root) {}
  /* A constant of a weak dtype. */
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  explicit Tensor(Number value) : Tensor(scalar(value)) {}
  /* Nested lists: integers become int32 or their own type, others float32. */
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Tensor(std::initializer_list<Number> list) : Tensor(of(list)) {}
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Tensor(std::initializer_list<std::initializer_list<Number>> rows) : Tensor(of_rows(rows)) {}
  /* A copy, of the dtype of its numbers. */
  template <class Number>
  explicit Tensor(const std::vector<Number>& values)
      : Tensor(from(values, static_cast<int64_t>(values.size()))) {}
  template <class Number>
  Tensor(const std::vector<Number>& values, const Dims& shape) : Tensor(from(values, shape)) {}

  bool ok() const { return !lazy_.empty(); }
  aster_ml_lazy* get() const { return lazy_.get(); }
  detail::Root root() const { return lazy_.needed(); }
  const detail::Lazy& shared() const { return lazy_; }
  const Tensor& self() const { return *this; }
  bool is(const Tensor& other) const { return lazy_.same(other.lazy_); }

  /* Gives the raw handle a life of its own: a copy, which the caller frees. */
  aster_ml_lazy to_c() const {
    aster_ml_lazy out{};
    if (detail::good(aster_ml_lazy_copy(&out, get()))) aster_ml_lazy_keep(&out);
    return out;
  }

  /* ---- Writing; false where it fails ---- */

  bool assign(const Operand& value) const {
    return detail::there(*this, "assign") &&
           detail::good(aster_ml_lazy_assign(get(), value.in(*this)));
  }
  bool set(const std::vector<Index>& items, const Operand& value) const {
    const std::vector<aster_ml_index> list = raw(items);
    return detail::there(*this, "set") && detail::good(aster_ml_lazy_index_assign(
                                              get(), list.size(), list.data(), value.in(*this)));
  }
  Tensor& operator+=(const Operand& b) { return write(add(b)); }
  Tensor& operator-=(const Operand& b) { return write(sub(b)); }
  Tensor& operator*=(const Operand& b) { return write(mul(b)); }
  Tensor& operator/=(const Operand& b) { return write(div(b)); }

  /* Whether dropout drops and batch norms learn, in this thread; false at first. */
  static bool& training() { return detail::training_now(); }

  static std::vector<aster_ml_index> raw(const std::vector<Index>& items) {
    std::vector<aster_ml_index> out;
    for (const Index& item : items) out.push_back(item.get());
    return out;
  }

  template <class Function, class... Arguments>
  static Tensor call(const Tensor& x, Function function, Arguments... arguments) {
    aster_ml_lazy out{};
    if (!x.ok() || (detail::is_gap(arguments) || ...)) return {};
    if (!detail::good(function(&out, x.get(), arguments...))) return {};
    return Tensor(std::move(out), x.root());
  }

 private:
  /* A failed write leaves an empty tensor, so that the error is seen. */
  Tensor& write(const Tensor& value) {
    if (!assign(value)) *this = Tensor();
    return *this;
  }
  template <class Number>
  static Tensor of_values(const std::vector<Number>& values, const Dims& shape) {
    if constexpr (!std::is_same_v<Number, double>) {
      return from(values, shape);
    } else {
      return from(std::vector<float>(values.begin(), values.end()), shape);
    }
  }
  template <class Number>
  using Stored = std::conditional_t<std::is_floating_point_v<Number>, float, Number>;
  template <class Number>
  static Tensor of(std::initializer_list<Number> list) {
    const int64_t count = static_cast<int64_t>(list.size());
    return of_rows({list}).reshape(count);
  }
  template <class Number>
  static Tensor of_rows(std::initializer_list<std::initializer_list<Number>> rows) {
    constexpr bool is_bool = std::is_same_v<Number, bool>;
    std::vector<std::conditional_t<is_bool, uint8_t, Stored<Number>>> values;
    const size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
    for (const auto& row : rows) {
      if (row.size() != columns) {
        detail::fail(ASTER_ML_SHAPE, "Tensor", "the rows of a nested list differ in length");
        return {};
      }
      for (const Number value : row) {
        values.push_back(static_cast<typename decltype(values)::value_type>(value));
      }
    }
    const Dtype dtype = is_bool ? dtypes::bool_ : dtype_of<Stored<Number>>();
    return from(values.data(), dtype,
                {static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)});
  }
  detail::Lazy lazy_;
};

/* x[items]: read it as a tensor, or assign to it. */
class Part : public detail::Values<Part, Tensor> {
 public:
  Part(const Tensor& whole, std::vector<Index> items) : whole_(whole), items_(std::move(items)) {}
  Part(const Part&) = default;
  operator const Tensor&() const { return self(); }
  /* The elements, taken when they are first asked for. */
  const Tensor& self() const {
    if (!value_.ok()) {
      const std::vector<aster_ml_index> list = Tensor::raw(items_);
      value_ = Tensor::call(whole_, aster_ml_lazy_index, list.size(), list.data());
    }
    return value_;
  }
  Part& operator=(const Operand& value) { return write(value); }
  Part& operator=(const Part& value) { return write(value); }
  Part& operator+=(const Operand& b) { return write(self().add(b)); }
  Part& operator-=(const Operand& b) { return write(self().sub(b)); }
  Part& operator*=(const Operand& b) { return write(self().mul(b)); }
  Part& operator/=(const Operand& b) { return write(self().div(b)); }
  /* Whether all went well, assigning included. */
  bool ok() const { return !failed_ && self().ok(); }

 private:
  Part& write(const Operand& value) {
    failed_ = !whole_.set(items_, value);
    value_ = Tensor();
    return *this;
  }
  Tensor whole_;
  std::vector<Index> items_;
  mutable Tensor value_;
  bool failed_ = false;
};

inline Operand::Operand(const Part& part) : tensor_(&part.self()) {}
inline const aster_ml_lazy* Operand::in(const Tensor& other) const {
  if (tensor_ != nullptr) return tensor_->get();
  return number_.get() == nullptr ? nullptr : constant(other.root());
}
/* The tensor itself, or the number beside the other operand. */
inline Tensor Operand::tensor_with(const Operand& other) const {
  if (tensor_ != nullptr) return *tensor_;
  const detail::Root root = other.tensor_ ? other.tensor_->root() : Context::current().root();
  aster_ml_lazy out{};
  if (root.empty() || !detail::good(aster_ml_lazy_scalar(&out, root.get(), number_.get()))) {
    return {};
  }
  return Tensor(std::move(out), root);
}

inline void Tensors::take(const Tensor* list, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    kept_.push_back(list[i].shared());
    handles_.push_back(list[i].get());
    writable_.push_back(list[i].get());
    if (root_.empty()) root_ = list[i].root();
  }
}
inline Tensors::Tensors(std::initializer_list<Tensor> list) { take(list.begin(), list.size()); }
inline Tensors::Tensors(const std::vector<Tensor>& list) { take(list.data(), list.size()); }

inline Index::Index(const Tensor& tensor) : tensor_(tensor.shared()) {
  item_.kind = ASTER_ML_INDEX_TENSOR;
}

template <class Self, class T>
Part detail::Values<Self, T>::operator[](std::initializer_list<Index> items) const {
  return Part(this->self(), std::vector<Index>(items));
}
template <class Self, class T>
Part detail::Values<Self, T>::operator[](const std::vector<Index>& items) const {
  return Part(this->self(), items);
}
template <class Self, class T>
Part detail::Values<Self, T>::operator[](const Index& item) const {
  return Part(this->self(), {item});
}

/* Computes tensors, together. */
inline bool realize(const Tensors& tensors) {
  return detail::good(aster_ml_lazy_realize(tensors.mutable_data(), tensors.size()));
}
template <class... Others>
bool realize(const Tensor& first, const Others&... others) {
  return realize(Tensors({first, Tensor(others)...}));
}

/* Operators, elementwise; a number on either side. */
#define ASTER_ML_OPERATOR(symbol, method)                             \
  inline Tensor operator symbol(const Operand& a, const Operand& b) { \
    return a.tensor_with(b).method(b);                                \
  }
ASTER_ML_OPERATOR(+, add)
ASTER_ML_OPERATOR(-, sub)
ASTER_ML_OPERATOR(*, mul)
ASTER_ML_OPERATOR(/, div)
ASTER_ML_OPERATOR(%, mod)
ASTER_ML_OPERATOR(==, eq)
ASTER_ML_OPERATOR(!=, ne)
ASTER_ML_OPERATOR(<, lt)
ASTER_ML_OPERATOR(<=, le)
ASTER_ML_OPERATOR(>, gt)
ASTER_ML_OPERATOR(>=, ge)
ASTER_ML_OPERATOR(&, bitwise_and)
ASTER_ML_OPERATOR(|, bitwise_or)
ASTER_ML_OPERATOR(^, bitwise_xor)
ASTER_ML_OPERATOR(<<, shl)
ASTER_ML_OPERATOR(>>, shr)
#undef ASTER_ML_OPERATOR
inline Tensor operator-(const Tensor& x) { return x.neg(); }
inline Tensor operator~(const Tensor& x) { return x.bitwise_not(); }

}  // namespace aster_ml

#endif
