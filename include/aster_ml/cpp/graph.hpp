/* aster_ml::Uop: nodes of the graph behind tensors; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_GRAPH_HPP
#define ASTER_ML_CPP_GRAPH_HPP

#include "aster_ml/cpp/tensor.hpp"
#include "aster_ml/graph.h"

namespace aster_ml {

/* A rule of Uop::rewrite, as aster_ml_uop_rule has it. */
struct UopRule {
  std::string name, from, to;
};

/* A node of the graph: what a tensor names, or what was built of nodes.
 *
 *   Uop x = Uop::of(tensor);
 *   Tensor twice = Uop::make("Add", {x, x}).tensor();
 *
 * A copy is the same node. Contracts stand above the functions of aster_ml/uop.h and graph.h. */
class Uop {
 public:
  Uop() = default;
  /* Takes a retained node over. */
  Uop(const aster_ml_uop* retained, detail::Root root) : node_(retained), root_(std::move(root)) {}
  Uop(const Uop& other) : node_(other.node_), root_(other.root_) {
    if (node_ != nullptr) aster_ml_uop_retain(root_.get(), node_);
  }
  Uop(Uop&& other) noexcept : node_(other.node_), root_(std::move(other.root_)) {
    other.node_ = nullptr;
  }
  Uop& operator=(Uop other) {
    std::swap(node_, other.node_);
    std::swap(root_, other.root_);
    return *this;
  }
  ~Uop() {
    if (node_ != nullptr) aster_ml_uop_release(root_.get(), node_);
  }

  /* The node that a tensor names now. */
  static Uop of(const Tensor& x) {
    const aster_ml_uop* out = nullptr;
    const detail::Root root = x.root();
    return detail::good(aster_ml_lazy_to_uop(&out, x.get())) ? Uop(out, root) : Uop();
  }
  /* What aster_ml_uop_init builds of sources; in their context, or the current one. */
  static Uop make(const std::string& op, const std::vector<Uop>& sources,
                  const std::vector<int64_t>& arguments = {},
                  const std::vector<int64_t>& shape = {}, Dtype dtype = {}) {
    std::vector<const aster_ml_uop*> nodes;
    for (const Uop& source : sources) nodes.push_back(source.node_);
    aster_ml_uop_options options{};
    options.struct_size = sizeof(options);
    options.dtype = static_cast<int32_t>(dtype);
    options.op = op.c_str();
    options.sources = nodes.data();
    options.source_count = nodes.size();
    options.arguments = arguments.data();
    options.argument_count = arguments.size();
    options.shape = shape.data();
    options.ndim = shape.size();
    const detail::Root root = sources.empty() ? Context::current().root() : sources[0].root_;
    const aster_ml_uop* out = nullptr;
    return detail::good(aster_ml_uop_init(&out, root.get(), &options)) ? Uop(out, root) : Uop();
  }
  /* A constant with these elements, row-major. */
  template <class Number>
  static Uop from_data(const std::vector<Number>& data, const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    if (count != static_cast<int64_t>(data.size())) return {};
    const detail::Root root = Context::current().root();
    const aster_ml_uop* out = nullptr;
    const int32_t dtype = static_cast<int32_t>(dtype_of<Number>());
    return detail::good(aster_ml_uop_from_data(&out, root.get(), data.data(), dtype, shape.size(),
                                               shape.data()))
               ? Uop(out, root)
               : Uop();
  }

  /* A tensor that names it. */
  Tensor tensor() const {
    aster_ml_lazy out{};
    if (!detail::good(aster_ml_lazy_from_uop(&out, root_.get(), node_))) return {};
    return Tensor(std::move(out), root_);
  }
  /* Rewritten by rules until none applies; empty where that fails. */
  Uop rewrite(const std::vector<UopRule>& rules) const {
    std::vector<aster_ml_uop_rule> given(rules.size());
    for (size_t i = 0; i < rules.size(); ++i) {
      given[i].struct_size = sizeof(given[i]);
      given[i].name = rules[i].name.empty() ? nullptr : rules[i].name.c_str();
      given[i].from = rules[i].from.c_str();
      given[i].to = rules[i].to.c_str();
    }
    const aster_ml_uop* out = nullptr;
    return detail::good(
               aster_ml_uop_rewrite(&out, root_.get(), node_, given.data(), given.size(), nullptr))
               ? Uop(out, root_)
               : Uop();
  }

  const aster_ml_uop* get() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  std::string op() const { return aster_ml_uop_op(node_); }
  size_t source_count() const { return aster_ml_uop_source_count(node_); }
  Uop source(size_t i) const {
    const aster_ml_uop* out = aster_ml_uop_source_at(node_, i);
    if (out != nullptr) aster_ml_uop_retain(root_.get(), out);
    return out == nullptr ? Uop() : Uop(out, root_);
  }
  std::vector<int64_t> shape() const {
    std::vector<int64_t> out(aster_ml_uop_ndim(node_));
    for (size_t i = 0; i < out.size(); ++i) out[i] = aster_ml_uop_dim_at(node_, i);
    return out;
  }
  friend bool operator==(const Uop& a, const Uop& b) { return a.node_ == b.node_; }
  friend bool operator!=(const Uop& a, const Uop& b) { return a.node_ != b.node_; }

 private:
  const aster_ml_uop* node_ = nullptr;
  detail::Root root_;
};

}  // namespace aster_ml

#endif
