/* aster_ml::registry: which implementation an operation is built by; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_REGISTRY_HPP
#define ASTER_ML_CPP_REGISTRY_HPP

#include <memory>
#include <utility>

#include "aster_ml/cpp/kernel.hpp"
#include "aster_ml/cpp/tensor.hpp"
#include "aster_ml/registry.h"

namespace aster_ml::registry {

/* Sets policies of the current context from JSON. */
inline bool set_policies(const std::string& json) {
  const detail::Root root = Context::current().root();
  return detail::good(aster_ml_registry_set_policies(root.get(), json.c_str()));
}

/* The same for what this thread builds while the object lives; false where the JSON is wrong. */
class Policies {
 public:
  explicit Policies(const std::string& json) : root_(Context::current().root()) {
    pushed_ = detail::good(aster_ml_registry_push_policies(root_.get(), json.c_str()));
  }
  ~Policies() {
    if (pushed_) (void)aster_ml_registry_pop_policies(root_.get());
  }
  Policies(const Policies&) = delete;
  Policies& operator=(const Policies&) = delete;
  explicit operator bool() const { return pushed_; }

 private:
  detail::Root root_;
  bool pushed_ = false;
};

/* What there is, as JSON; of all operations without a name. */
inline std::string describe(const char* operation = nullptr) {
  const detail::Root root = Context::current().root();
  size_t length = 0;
  if (!detail::good(aster_ml_registry_describe(nullptr, &length, 0, root.get(), operation))) {
    return {};
  }
  std::string text(length + 1, '\0');
  if (!detail::good(
          aster_ml_registry_describe(text.data(), &length, text.size(), root.get(), operation)))
    return {};
  text.resize(length);
  return text;
}

inline bool forget() {
  const detail::Root root = Context::current().root();
  return detail::good(aster_ml_registry_forget(root.get()));
}

/* Registers build(const aster_ml_op_call&, const std::vector<Tensor>&) -> Tensor as an
 * implementation in the current context, which has to be that of whoever builds. refuses: why it
 * does not take a call, or null. What build throws must not leave it. */
template <class Build>
bool add(const char* operation, const char* name, Build build,
         const char* (*refuses)(void*, const aster_ml_op_call*) = nullptr) {
  struct Held {
    Build build;
  };
  const detail::Root root = Context::current().root();
  auto held = std::make_unique<Held>(Held{std::move(build)});
  aster_ml_implementation made = {};
  made.struct_size = sizeof(made);
  made.operation = operation;
  made.name = name;
  made.refuses = refuses;
  made.self = held.get();
  made.release = [](void* self) { delete static_cast<Held*>(self); };
  made.build = [](void* self, aster_ml_lazy* out, const aster_ml_op_call* call,
                  const aster_ml_lazy* operands) -> int32_t {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < call->operand_count; ++i) {
      aster_ml_lazy copy = {};
      if (const int32_t status = aster_ml_lazy_copy(&copy, &operands[i]); status != 0)
        return status;
      tensors.push_back(Tensor(std::move(copy), Context::current().root()));
    }
    const Tensor result = static_cast<Held*>(self)->build(*call, tensors);
    return aster_ml_lazy_copy(out, result.get());
  };
  if (!detail::good(aster_ml_registry_add(root.get(), &made))) return false;
  (void)held.release();
  return true;
}

inline bool remove(const char* operation, const char* name) {
  const detail::Root root = Context::current().root();
  return detail::good(aster_ml_registry_remove(root.get(), operation, name));
}

}  // namespace aster_ml::registry
#endif
