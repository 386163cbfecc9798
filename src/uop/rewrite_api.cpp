// Rewriting by rules of callers.
#include <algorithm>
#include <cstdio>

#include "aster_ml/graph.h"
#include "base/options.h"
#include "uop/context_graph.h"
#include "uop/pattern.h"

namespace aster::uop {
namespace {

constexpr uint64_t kFiringsAtLeast = 256, kFiringsPerNode = 64;

struct GivenRule {
  explicit GivenRule(Memory& memory) : text(memory) {}
  aster_ml_uop_rule given{};
  char number[24] = {};
  TextRule text;
};

const aster_ml_uop* handle_of(Node node) { return reinterpret_cast<const aster_ml_uop*>(node); }
Node node_of(const aster_ml_uop* uop) { return reinterpret_cast<Node>(uop); }

class ByText {
 public:
  ByText(Graph& graph, const aster_ml_context* context)
      : g_(graph), context_(context), rules_(graph.memory()) {}
  ~ByText() {
    for (GivenRule* rule : rules_) g_.memory().destroy(rule);
  }
  ByText(const ByText&) = delete;
  ByText& operator=(const ByText&) = delete;

  Status read(const aster_ml_uop_rule* rules, size_t count, uint64_t* fired) {
    fired_ = fired;
    const auto* at = reinterpret_cast<const char*>(rules);
    for (size_t i = 0; i < count; ++i, at += rules->struct_size) {
      auto* rule = g_.memory().create<GivenRule>(g_.memory());
      if (rule == nullptr) return out_of_memory(sizeof(GivenRule));
      const Status pushed = rules_.push(rule);
      if (!pushed.ok()) g_.memory().destroy(rule);
      ASTER_TRY(pushed);
      ASTER_TRY(
          read_one(*rule, reinterpret_cast<const aster_ml_uop_rule*>(at), i, rules->struct_size));
      if (fired != nullptr) fired[i] = 0;
    }
    return kOk;
  }

  Status rewrite(Node* out, Node root) {
    Vec<Node> nodes(g_.memory());
    ASTER_TRY(toposort(&nodes, {&root, 1}));
    left_ = kFiringsAtLeast + kFiringsPerNode * nodes.size();
    const Graph::Hold hold(g_);
    const auto apply = [](void* self, Node node) {
      return static_cast<ByText*>(self)->apply(node);
    };
    const auto endless = [](void* self, Node node) {
      return static_cast<ByText*>(self)->endless(node);
    };
    return rule::rewrite(out, g_, root, rule::Rewriter{this, apply, endless});
  }

 private:
  Status read_one(GivenRule& rule, const aster_ml_uop_rule* given, size_t number, uint32_t size) {
    ASTER_TRY(read_struct(&rule.given, given, "a rule"));
    if (rule.given.struct_size != size)
      return ASTER_FAIL(kARGUMENT, "rule %zu: struct_size is not that of the first", number);
    std::snprintf(rule.number, sizeof(rule.number), "%zu", number);
    rule.text.name = rule.given.name == nullptr ? rule.number : rule.given.name;
    if (rule.given.from == nullptr)
      return ASTER_FAIL(kARGUMENT, "rule %s: from is null", name(rule));
    if ((rule.given.to == nullptr) == (rule.given.build == nullptr))
      return ASTER_FAIL(kARGUMENT, "rule %s: it has either a text or a function", name(rule));
    return read_rule(&rule.text, rule.given.from, rule.given.to);
  }
  static const char* name(const GivenRule& rule) { return rule.text.name.data(); }

  rule::Outcome apply(Node node) {
    for (size_t i = 0; i < rules_.size(); ++i) {
      TextMatch match;
      if (!match_rule(&match, rules_[i]->text, node)) continue;
      const rule::Outcome out = build(*rules_[i], match, node);
      if (!out.applies || out.node == node) continue;
      if (out.node == nullptr) return out;
      last_ = rules_[i];
      if (left_-- == 0) return rule::Outcome(nil(endless(node)));
      if (fired_ != nullptr) ++fired_[i];
      return out;
    }
    return rule::Outcome::keep();
  }
  static Node nil(Status) { return nullptr; }

  Status endless(Node node) {
    return ASTER_FAIL(kRANGE, "rule %s: rewriting does not end, last at %s %s",
                      last_ == nullptr ? "" : name(*last_), info(node->op).name, brief(node).text);
  }

  rule::Outcome build(const GivenRule& rule, const TextMatch& match, Node root) {
    Node made = nullptr;
    if (rule.given.build == nullptr) {
      made = build_rule(g_, rule.text, match, root);
      if (made == nullptr) return rule::Outcome(nil(named(rule)));
    } else {
      const aster_ml_uop* variables[TextRule::kMostNames];
      const size_t count = rule.text.names.size();
      for (size_t i = 0; i < count; ++i) variables[i] = handle_of(match.variable[i]);
      const aster_ml_uop* given = nullptr;
      const int32_t code =
          rule.given.build(rule.given.self, &given, context_, handle_of(root), variables, count);
      if (code != ASTER_ML_OK) {
        return rule::Outcome(nil(fail_at(static_cast<Code>(code), ASTER_MODULE, __FILE__, __LINE__,
                                         "rule %s: its function failed", name(rule))));
      }
      if (given == nullptr) return rule::Outcome::keep();
      made = node_of(given);
      if (!g_.owns(made)) {
        return rule::Outcome(
            nil(ASTER_FAIL(kARGUMENT, "rule %s: a node of another context", name(rule))));
      }
      if (made->references != 0) g_.release(made);
    }
    const bool same = made->ndim == root->ndim &&
                      std::equal(made->shape().begin(), made->shape().end(), root->shape().begin());
    if (same && made->dtype == root->dtype) return rule::Outcome(made);
    return rule::Outcome(nil(fail_at(same ? Code::kDTYPE : Code::kSHAPE, ASTER_MODULE, __FILE__,
                                     __LINE__, "rule %s: it gives %s for %s %s", name(rule),
                                     brief(made).text, info(root->op).name, brief(root).text)));
  }
  // The failure in the error record, with the rule's name before it.
  static Status named(const GivenRule& rule) {
    aster_ml_error error;
    aster_ml_error_last(&error);
    return fail_at(static_cast<Code>(error.code), ASTER_MODULE, __FILE__, __LINE__, "rule %s: %s",
                   name(rule), error.message);
  }

  Graph& g_;
  const aster_ml_context* context_;
  Vec<GivenRule*> rules_;
  const GivenRule* last_ = nullptr;
  uint64_t* fired_ = nullptr;
  uint64_t left_ = 0;
};

Status rewrite(const aster_ml_uop** out, Graph& g, const aster_ml_context* context,
               const aster_ml_uop* root, const aster_ml_uop_rule* rules, size_t count,
               uint64_t* fired) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  if (root == nullptr) return ASTER_FAIL(kARGUMENT, "the node is null");
  if (!g.owns(node_of(root))) return ASTER_FAIL(kARGUMENT, "a node of another context");
  if (rules == nullptr && count != 0)
    return ASTER_FAIL(kARGUMENT, "a null pointer for %zu rules", count);
  ByText by(g, context);
  ASTER_TRY(by.read(rules, count, fired));
  Node made = nullptr;
  ASTER_TRY(by.rewrite(&made, node_of(root)));
  g.retain(made);
  *out = handle_of(made);
  return kOk;
}

}  // namespace
}  // namespace aster::uop

int32_t aster_ml_uop_rewrite(const aster_ml_uop** out, const aster_ml_context* context,
                             const aster_ml_uop* root, const aster_ml_uop_rule* rules, size_t count,
                             uint64_t* fired) {
  if (out != nullptr) *out = nullptr;
  ASTER_ENTER(aster::context_of(context));
  aster::uop::Graph* graph = nullptr;
  ASTER_TRY(aster::uop::graph_of_context(&graph, *aster::context_of(context)));
  return aster::uop::rewrite(out, *graph, context, root, rules, count, fired);
}
