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
  if (!uop::multiplies(terms->op) || terms->count() < kLargeProduct ||
      terms->count() < kFewestTerms * node->count())
    return false;
  return repeats(terms->src(0)) && repeats(terms->src(1));
}

// Whether a node computes as many elements as a source of it has, each from one of these.
bool goes_by_elements(Node node, Node source) {
  const bool one = uop::is_alu(node->op) || node->op == Op::kCast ||
                   (passes_through(node->op) && node->nsrc == 1);
  return one && node->count() == source->count();
}

// What all that is made of a node comes to next, element by element: its only user, or the one in
// which ways that part meet again, as those of an activation that reads its argument twice do. Null
// if there is none.
Node only_way(const Analysis& nodes, Node node) {
  constexpr size_t kMostBetween = 24;
  const Record& record = nodes.of(node);
  if (record.users == 0) return nullptr;
  const Node end = nodes.node(record.last_user);
  if (!goes_by_elements(end, node)) return nullptr;
  if (record.users == 1) return end;
  struct Between {
    Node node;
    uint32_t uses = 0;
  } between[kMostBetween] = {{end}};
  size_t count = 1;
  uint32_t uses = 0;  // of the node, by those between
  for (size_t i = 0; i < count; ++i) {
    for (Node source : between[i].node->src()) {
      uses += source == node ? 1 : 0;
      if (nodes.at(source) <= nodes.at(node) || !goes_by_elements(source, node)) continue;
      const auto at = std::find_if(between, between + count,
                                   [&](const Between& other) { return other.node == source; });
      if (at == between + kMostBetween) return nullptr;
      if (at == between + count) between[count++].node = source;
      ++at->uses;
    }
  }
  // Of what comes of the node nothing goes elsewhere.
  std::sort(between, between + count, [&](const Between& a, const Between& b) {
    return nodes.at(a.node) < nodes.at(b.node);
  });
  Table<Node, uint8_t> comes_of(nodes.records.arena());
  comes_of.set(node, 1);
  for (size_t i = 0; i + 1 < count; ++i) {
    const Node one = between[i].node;
    if (std::ranges::none_of(one->src(), [&](Node source) { return comes_of.contains(source); }))
      continue;
    comes_of.set(one, 1);
    if (nodes.of(one).held || between[i].uses != nodes.of(one).users) return nullptr;
  }
  return uses == record.users ? end : nullptr;
}

// Notes what is made of reductions element by element.
void mark_followers(Analysis* out) {
  for (size_t at = 0; at < out->records.size(); ++at) {
    const Record& record = out->records[at];
    if (record.node->op != Op::kReduce || library::computes(record.node)) continue;
    for (Node node = record.node; node != nullptr && !out->of(node).held;
         node = only_way(*out, node))
      out->records[out->at(node)].follows = true;
  }
}

// What follows a large product belongs to its kernel up to where ways part; that is stored, so that
// each way is computed from one value in memory instead of being stored for itself. Where two
// products meet, what comes of the smaller one is stored: a kernel has the tiles of one.
Status hold_products(Analysis* out) {
  Table<Node, Node> product_of(out->records.arena());  // of what follows one
  bool any = false;
  for (const Record& record : out->records) any |= is_product(record.node);
  if (!any) return kOk;
  for (const Record& record : out->records) {
    if (!is_product(record.node)) continue;
    const Node product = record.node;
    Node computed = product;  // the last node that is no movement
    for (Node node = product, next; node != nullptr; node = next) {
      next = only_way(*out, node);
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
      if (next == nullptr && out->of(node).users > 1)
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
  record.multiplies = is_product(node);
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
    record.multiplies |= source.multiplies;
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

Status analyse(Analysis* out, Graph& g, Node sink, bool here) {
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
  for (uint32_t at = 0; at < out->records.size(); ++at) {
    for (Node source : out->node(at)->src()) {
      Record& record = out->records[out->at(source)];
      ++record.users;
      record.last_user = at;
    }
  }
  for (Node root : sink->src()) {
    out->records[out->at(root)].root = true;
    if (root->op != Op::kAssign) out->records[out->at(root)].hold("a result");
  }
  for (Node node : all) {
    if (library::computes(node)) ASTER_TRY(analyse_library(out, g, node));
  }
  ASTER_TRY(find_in_place(out));
  ASTER_TRY(hold_products(out));
  for (Node node : all) {
    if (here && !out->of(node).root) hold_within(out, node);
  }
  mark_followers(out);
  for (Record& record : out->records) summarise(record, *out);
  return kOk;
}

}  // namespace aster::engine::fusion
