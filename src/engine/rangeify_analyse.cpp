// What is known of nodes before anything is decided.
#include <algorithm>

#include "engine/fusion.h"
#include "engine/library.h"
#include "engine/rangeify.h"

namespace aster::engine::fusion {
namespace {

// Terms in all, and of one sum, from which sums of products count as products of matrices.
constexpr int64_t kLargeProduct = 256 * 1024;
constexpr int64_t kFewestTerms = 16;

// Arguments of a library call lie in memory: the node below the views of an argument is
// materialised if those are strides, the argument itself otherwise.
Status analyse_library(Analysis* out, Graph& g, Node call) {
  out->records[out->at(call)].arguments = static_cast<uint32_t>(out->arguments.size());
  for (size_t i = 0; i < call->nsrc; ++i) {
    Node base = nullptr;
    const auto first = static_cast<uint32_t>(out->words.size());
    ASTER_TRY(library::view_base(&base, &out->words, g, call, i));
    const auto count = static_cast<uint32_t>(out->words.size()) - first;
    const uint32_t at = base == nullptr ? kNone : out->at(base);
    out->arguments.push(Argument{at, first, count});
    if (base != nullptr && !is_effect(base->op) && base->op != Op::kParam)
      out->records[at].hold("an operand of a call");
  }
  return out->arguments.arena().status();
}

// Scattering into storage that is then assigned the result is one call on that storage, unless
// something else wants the result or an argument is the storage itself.
Status find_in_place(Analysis* out) {
  Table<Node, uint32_t> users(out->records.arena());
  for (const Record& record : out->records) {
    for (Node source : record.node->src()) users.set(source, users.get(source, 0) + 1);
  }
  for (const Record& record : out->records) {
    const Node node = record.node;
    if (node->op != Op::kAssign || node->src(1)->op != Op::kScatter) continue;
    const Node target = node->src(0), call = node->src(1);
    Node storage = target;
    while (is_effect(storage->op)) storage = storage->src(0);
    if (storage->op != Op::kParam || call->src(0) != target || users.get(call, 0) != 1) continue;
    bool apart = true;
    for (const Argument& argument : out->arguments_of(call).subspan(1)) {
      Node base = argument.base == kNone ? nullptr : out->node(argument.base);
      while (base != nullptr && is_effect(base->op)) base = base->src(0);
      apart &= base == nullptr || base->op != Op::kParam || !out->overlap(base, storage);
    }
    if (!apart) continue;
    out->in_place.set(node, call);
    out->records[out->at(call)].held = false;
  }
  return out->records.arena().status();
}

// A product of matrices that kernels compute: a sum whose factors both repeat, over many terms.
bool is_product(Node node) {
  if (node->op != Op::kReduce || static_cast<Op>(node->arg(0)) != Op::kAdd) return false;
  Node terms = node->src(0);
  while (terms->op == Op::kCast) terms = terms->src(0);
  if (terms->op != Op::kMul || terms->count() < kLargeProduct ||
      terms->count() < kFewestTerms * node->count())
    return false;
  return repeats(terms->src(0)) && repeats(terms->src(1));
}

// Who reads each node: how many, and the last of them.
struct Users {
  explicit Users(Arena& memory) : count(memory), last(memory) {}
  Table<Node, uint32_t> count;
  Table<Node, Node> last;

  // The only user, if it computes as many elements, each from one of the node; else null.
  Node next(Node node) const {
    if (count.get(node, 0) != 1) return nullptr;
    const Node user = last.get(node, nullptr);
    const bool follows = uop::is_alu(user->op) || user->op == Op::kCast ||
                         (passes_through(user->op) && user->nsrc == 1);
    return follows && user->count() == node->count() ? user : nullptr;
  }
};

// What follows a large product belongs to its kernel up to where ways part; that is stored, so that
// each way is computed from one value in memory instead of being stored for itself. Where two
// products meet, what comes of the smaller one is stored: a kernel has the tiles of one.
Status hold_products(Analysis* out) {
  Users users(out->records.arena());
  Table<Node, Node> product_of(out->records.arena());  // of what follows one
  bool any = false;
  for (const Record& record : out->records) {
    any |= is_product(record.node);
    for (Node source : record.node->src()) {
      users.count.set(source, users.count.get(source, 0) + 1);
      users.last.set(source, record.node);
    }
  }
  ASTER_TRY(out->records.arena().status());
  if (!any) return kOk;
  for (const Record& record : out->records) {
    if (!is_product(record.node)) continue;
    const Node product = record.node;
    Node computed = product;  // the last node that is no movement
    for (Node node = product; node != nullptr; node = users.next(node)) {
      const Node other = product_of.get(node, nullptr);
      if (other != nullptr && product->src(0)->count() <= other->src(0)->count()) {
        out->records[out->at(computed)].hold("a product that meets another one");
        break;
      }
      for (Node source : node->src()) {
        if (other != nullptr && product_of.get(source, nullptr) == other)
          out->records[out->at(source)].hold("a product that meets another one");
      }
      product_of.set(node, product);
      if (!passes_through(node->op)) computed = node;
      if (users.count.get(node, 0) > 1)
        out->records[out->at(node)].hold("several read it behind a product");
    }
  }
  return out->records.arena().status();
}

void summarise(Record& record, const Analysis& nodes) {
  const Node node = record.node;
  uint32_t count = 0;
  const auto add_leaf = [&](uint32_t leaf) {
    for (uint32_t i = 0; i < count; ++i) {
      if (record.leaves[i] == leaf) return;
    }
    if (count < 4) record.leaves[count++] = leaf;
  };
  const bool library = nodes.library_call(node) != nullptr;
  record.scans = scans_along(node);
  if (node->op == Op::kReduce || library || record.scans) record.reduces = true;
  record.weight =
      passes_through(node->op) || is_leaf(node->op) ? 0 : static_cast<float>(uop::cost(node));
  const bool adds_up = node->op != Op::kReduce;  // a reduction decides for itself
  const size_t first = node->op == Op::kAssign ? 1 : 0;
  for (size_t i = first; i < node->nsrc; ++i) {
    const uint32_t at = nodes.at(node->src(i));
    const Record& source = nodes.records[at];
    if (source.node->op == Op::kParam || source.held || is_effect(source.node->op)) {
      add_leaf(at);
      record.reduces |= library::computes(source.node) && !library && !passes_through(node->op);
      continue;
    }
    for (uint32_t leaf : source.leaves) {
      if (leaf != kNone) add_leaf(leaf);
    }
    record.reduces |= source.reduces;
    record.scans |= source.scans;
    if (adds_up) record.weight = std::min(record.weight + source.weight, 1e6f);
  }
}

}  // namespace

Node Analysis::library_call(Node node) const {
  if (node->op == Op::kAssign) return in_place.get(node, nullptr);
  return library::computes(node) ? node : nullptr;
}

std::span<const Argument> Analysis::arguments_of(Node call) const {
  return {arguments.data() + of(call).arguments, call->nsrc};
}

Status analyse(Analysis* out, Graph& g, Node sink) {
  List<Node> all(out->records.arena());
  ASTER_TRY(walk(&all, std::array{sink}));
  for (Node node : all) {
    Record record;
    record.node = node;
    if (node->op == Op::kContiguous) record.hold("asked for in memory");
    if (node->op == Op::kAssign) record.hold("written to storage");
    if (library::computes(node)) record.hold("a call of its own");
    out->position.set(node, static_cast<uint32_t>(out->records.size()));
    out->records.push(record);
  }
  ASTER_TRY(all.arena().status());
  for (Node root : sink->src()) {
    if (root->op != Op::kAssign) out->records[out->at(root)].hold("a result");
  }
  for (Node node : all) {
    if (library::computes(node)) ASTER_TRY(analyse_library(out, g, node));
  }
  ASTER_TRY(find_in_place(out));
  ASTER_TRY(hold_products(out));
  for (Record& record : out->records) summarise(record, *out);
  return kOk;
}

}  // namespace aster::engine::fusion
