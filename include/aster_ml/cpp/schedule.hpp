/* aster_ml::plan, what an operation would give, and aster_ml::Schedule, what a realize ran; include
 * aster_ml.hpp. */
#ifndef ASTER_ML_CPP_SCHEDULE_HPP
#define ASTER_ML_CPP_SCHEDULE_HPP

#include "aster_ml/cpp/tensor.hpp"
#include "aster_ml/plan.h"
#include "aster_ml/schedule.h"

namespace aster_ml {

/* An operand that is only described: of a dtype and shape, or as a tensor is; {}: left out. */
struct PlanOperand {
  PlanOperand() = default;
  PlanOperand(Dtype of, std::vector<int64_t> sizes) : dtype(of), shape(std::move(sizes)) {}
  PlanOperand(const Tensor& x) : dtype(x.dtype()), shape(x.shape()) {}  // NOLINT: it is one
  Dtype dtype{};
  std::vector<int64_t> shape;
};
/* An argument that is no tensor, by its name in the C function's declaration. */
struct PlanAttribute {
  PlanAttribute(std::string of, int64_t value)
      : name(std::move(of)), kind(ASTER_ML_ATTRIBUTE_INTEGER), integer(value) {}
  PlanAttribute(std::string of, int value) : PlanAttribute(std::move(of), int64_t{value}) {}
  PlanAttribute(std::string of, double value)
      : name(std::move(of)), kind(ASTER_ML_ATTRIBUTE_REAL), real(value) {}
  PlanAttribute(std::string of, const char* value)
      : name(std::move(of)), kind(ASTER_ML_ATTRIBUTE_TEXT), text(value) {}
  PlanAttribute(std::string of, std::vector<int64_t> value)
      : name(std::move(of)), kind(ASTER_ML_ATTRIBUTE_LIST), list(std::move(value)) {}
  std::string name;
  int32_t kind;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<int64_t> list;
};
/* What an operation gives and costs, as aster_ml_op_costs has it; ok() says whether it would. */
struct Plan {
  std::vector<PlanOperand> results;
  uint64_t operations = 0, bytes = 0;
  bool ok() const { return !results.empty(); }
};

/* Plans the operation that aster_ml_lazy_NAME builds, without building it (aster_ml_op_plan):
 *
 *   plan("softmax", {{dtypes::float32, {8, 10}}}, {{"axis", 1}}).results[0].shape
 *
 * Empty where the operation would fail, for the reason that error() has. */
inline Plan plan(const std::string& name, const std::vector<PlanOperand>& operands,
                 const std::vector<PlanAttribute>& attributes = {}) {
  std::vector<aster_ml_op_operand> given;
  for (const PlanOperand& each : operands)
    given.push_back({detail::code(each.dtype), each.shape.size(), each.shape.data()});
  std::vector<aster_ml_op_attribute> named;
  for (const PlanAttribute& each : attributes) {
    named.push_back({each.name.c_str(), each.kind, each.integer, each.real, each.text.c_str(),
                     each.list.data(), each.list.size()});
  }
  aster_ml_op_costs costs{};
  costs.struct_size = sizeof(costs);
  Plan out;
  if (!detail::good(aster_ml_op_plan(&costs, Context::current().root().get(), name.c_str(),
                                     given.data(), given.size(), named.data(), named.size())))
    return out;
  for (uint32_t i = 0; i < costs.result_count; ++i) {
    const aster_ml_op_result& result = costs.results[i];
    out.results.push_back({Dtype{result.dtype}, {result.shape, result.shape + result.ndim}});
  }
  out.operations = costs.operations;
  out.bytes = costs.bytes;
  return out;
}
/* The names of all operations that can be planned. */
inline std::vector<std::string> plan_names() {
  std::vector<std::string> out;
  for (size_t i = 0; aster_ml_op_name(i) != nullptr; ++i) out.push_back(aster_ml_op_name(i));
  return out;
}

/* The schedule of the last realize of the current context: its launches, one by one. A copy is the
 * same; it keeps the code of its kernels. */
class Schedule {
 public:
  /* One launch, as aster_ml_schedule_item has it; what it points to is the schedule's. */
  using Item = aster_ml_schedule_item;

  Schedule() = default;
  static Schedule last() {
    const detail::Root root = Context::current().root();
    aster_ml_schedule made{};
    Schedule out;
    if (detail::good(aster_ml_schedule_init(&made, root.get())))
      out.schedule_ = {std::move(made), root};
    return out;
  }
  bool ok() const { return !schedule_.empty(); }
  aster_ml_schedule* get() const { return schedule_.get(); }
  size_t size() const { return aster_ml_schedule_count(get()); }
  /* The index-th launch; one of no name where there is none. */
  Item operator[](size_t index) const {
    Item out{};
    out.struct_size = sizeof(out);
    if (!detail::good(aster_ml_schedule_at(&out, get(), index))) out = {};
    return out;
  }
  /* The source of the index-th launch, a kernel; "" on errors. */
  std::string source(size_t index) const {
    size_t length = 0;
    if (!detail::good(aster_ml_schedule_source(nullptr, &length, 0, get(), index))) return {};
    std::string text(length + 1, '\0');
    if (!detail::good(aster_ml_schedule_source(text.data(), &length, text.size(), get(), index)))
      return {};
    text.resize(length);
    return text;
  }

 private:
  detail::Shared<aster_ml_schedule, detail::Root> schedule_;
};

}  // namespace aster_ml

#endif
