// Cases: printing, copying, running on the interpreter, comparing, shrinking.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "dtype/convert.h"
#include "fuzz/random_graph.h"
#include "runtime/reference/interpret.h"

namespace aster::fuzz {
namespace {

std::vector<Node> order_of(const std::vector<Node>& roots) {
  Vec<Node> order(process_heap());
  if (!uop::toposort(&order, roots).ok()) return {};
  return {order.begin(), order.end()};
}

// A copy of a case in which replaced is a leaf holding bytes; only leaves that are read remain.
Case with_leaf(const Case& c, const std::vector<Node>& roots, Node replaced, const Bytes& bytes) {
  Case out;
  out.seed = c.seed;
  out.graph = std::make_unique<Graph>(process_heap());
  out.memory = c.memory;
  std::map<Node, Node> map;
  if (replaced != nullptr) {
    const int64_t slot = 1000 + static_cast<int64_t>(c.leaves.size());
    Node leaf =
        out.graph->make(Op::kBuffer, replaced->dtype, {}, std::array{slot}, replaced->shape());
    out.leaves.push_back({leaf, c.memory.size(), 0});
    out.memory.push_back(bytes);
    map[replaced] = leaf;
  }
  out.roots = copy_into(*out.graph, roots, &map);
  for (const Leaf& leaf : c.leaves) {
    const auto node = map.find(leaf.node);
    if (node != map.end()) out.leaves.push_back({node->second, leaf.memory, leaf.offset});
  }
  return out;
}

Case copy_of(const Case& c, const std::vector<Node>& roots) {
  return with_leaf(c, roots, nullptr, {});
}

// The interpreter's value of any node of a case.
bool value_of(Case& c, Node node, Bytes* out) {
  Case alone = copy_of(c, {node});
  Answer answer;
  if (!run_reference(alone, &answer)) return false;
  *out = answer.roots[0];
  return true;
}

std::string compare_value(Node node, double error, const Bytes& want, const Bytes& got,
                          const std::string& what) {
  if (want.size() != got.size()) return what + ": sizes differ";
  const bool real = dtype::is_float(node->dtype);
  const size_t size = dtype::size(node->dtype);
  for (size_t i = 0; i < want.size(); i += size) {
    if (std::memcmp(&want[i], &got[i], size) == 0) continue;
    const double x = dtype::load_double(node->dtype, &want[i]);
    const double y = dtype::load_double(node->dtype, &got[i]);
    if (real && (std::fabs(x - y) <= error || (std::isnan(x) && std::isnan(y)))) continue;
    char text[320];
    std::snprintf(text, sizeof(text), ": element %zu of %s is %.17g, not %.17g (within %.3g)",
                  i / size, uop::brief(node).text, y, x, error);
    return what + text;
  }
  return {};
}

}  // namespace

size_t bytes_of(Node node) { return static_cast<size_t>(node->count()) * dtype::size(node->dtype); }

bool overlap(const Leaf& a, const Leaf& b) {
  return a.memory == b.memory && a.offset < b.offset + bytes_of(b.node) &&
         b.offset < a.offset + bytes_of(a.node);
}

Bytes contents(const std::vector<Bytes>& memory, const Leaf& leaf) {
  const auto begin = memory[leaf.memory].begin() + static_cast<std::ptrdiff_t>(leaf.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes_of(leaf.node))};
}

Node viewed(Node node) {
  while ((uop::is_movement(node->op) && node->op != Op::kPad && node->op != Op::kUnwindow &&
          node->op != Op::kCat) ||
         node->op == Op::kAssign || node->op == Op::kAfter || node->op == Op::kDetach) {
    node = node->src(0);
  }
  return node->op == Op::kBuffer ? node : nullptr;
}

std::vector<Node> copy_into(Graph& to, const std::vector<Node>& roots,
                            std::map<Node, Node>* counterparts) {
  std::map<Node, Node>& map = *counterparts;
  // A node that has a counterpart is not walked: what is only below it is not copied.
  std::vector<Node> stack(roots.rbegin(), roots.rend());
  while (!stack.empty()) {
    const Node node = stack.back();
    bool ready = true;
    if (!map.contains(node)) {
      for (Node source : node->src()) {
        if (!map.contains(source)) stack.push_back(source), ready = false;
      }
      if (!ready) continue;
      std::vector<Node> sources;
      for (Node source : node->src()) sources.push_back(map[source]);
      map[node] = to.make(node->op, node->dtype, sources, node->arg(), node->shape());
    }
    stack.pop_back();
  }
  std::vector<Node> out;
  for (Node root : roots) out.push_back(map[root]);
  return out;
}

std::string print(const Case& c) {
  std::string out;
  std::map<Node, size_t> number;
  for (Node node : order_of(c.roots)) {
    const size_t n = number.size();
    number[node] = n;
    out +=
        "  %" + std::to_string(n) + " = " + uop::info(node->op).name + " " + uop::brief(node).text;
    for (Node source : node->src()) out += " %" + std::to_string(number[source]);
    if (node->op == Op::kReduce) {
      out += std::string(" ") + uop::info(static_cast<Op>(node->arg(0))).name;
    }
    if (node->op == Op::kConst && dtype::is_float(node->dtype)) {
      out += " " + std::to_string(uop::const_double(node));
    } else if (node->narg != 0) {
      out += std::string(" ") + uop::brief_shape(node->arg()).text;
    }
    for (const Leaf& leaf : c.leaves) {
      if (leaf.node != node) continue;
      out += " at " + std::to_string(leaf.memory) + "+" + std::to_string(leaf.offset) + " =";
      const size_t size = dtype::size(node->dtype);
      const Bytes bytes = contents(c.memory, leaf);
      for (size_t i = 0; i < std::min<size_t>(bytes.size() / size, 8); ++i) {
        char text[32];
        std::snprintf(text, sizeof(text), " %g", dtype::load_double(node->dtype, &bytes[i * size]));
        out += text;
      }
      if (bytes.size() / size > 8) out += " ..";
    }
    out += "\n";
  }
  out += "  roots";
  for (Node root : c.roots) out += " %" + std::to_string(number[root]);
  return out + "\n";
}

bool run_reference(Case& c, Answer* answer) {
  *answer = Answer{};
  std::vector<runtime::reference::Binding> bindings;
  std::vector<runtime::reference::Output> outputs;
  answer->memory = c.memory;
  for (const Leaf& leaf : c.leaves) {
    bindings.push_back({leaf.node, answer->memory[leaf.memory].data() + leaf.offset});
  }
  for (Node root : c.roots) answer->roots.emplace_back(bytes_of(root));
  for (size_t i = 0; i < c.roots.size(); ++i) {
    outputs.push_back({c.roots[i], answer->roots[i].data()});
  }
  return runtime::reference::interpret(*c.graph, process_heap(), bindings, outputs).ok();
}

std::string compare(Case& c, const Answer& want, const Answer& got) {
  Bounds bounds(c);
  for (size_t i = 0; i < c.roots.size(); ++i) {
    std::string text = compare_value(c.roots[i], 2 * bounds.of(c.roots[i]).error, want.roots[i],
                                     got.roots[i], "root " + std::to_string(i));
    if (!text.empty()) return text;
  }
  double written = 0;  // the worst that may have been assigned
  for (Node node : order_of(c.roots)) {
    if (node->op == Op::kAssign) written = std::max(written, bounds.of(node).error);
  }
  for (size_t i = 0; i < c.leaves.size(); ++i) {
    const Leaf& leaf = c.leaves[i];
    std::string text =
        compare_value(leaf.node, 2 * written, contents(want.memory, leaf),
                      contents(got.memory, leaf), "leaf " + std::to_string(i) + " afterwards");
    if (!text.empty()) return text;
  }
  for (size_t i = 0; i < c.memory.size(); ++i) {  // what no leaf holds stays as it was
    Bytes rest = c.memory[i], now = got.memory[i];
    for (const Leaf& leaf : c.leaves) {
      if (leaf.memory != i) continue;
      for (size_t k = 0; k < bytes_of(leaf.node); ++k)
        rest[leaf.offset + k] = now[leaf.offset + k] = 0;
    }
    if (rest != now) return "memory " + std::to_string(i) + " changed outside of its leaves";
  }
  return {};
}

Case shrink(Case c, const std::function<bool(Case&)>& fails) {
  int attempts = 400;
  const auto take = [&](Case smaller) {
    if (--attempts < 0 || !fails(smaller)) return false;
    c = std::move(smaller);
    return true;
  };
  bool progress = true;
  while (progress && attempts > 0) {
    progress = false;
    for (size_t i = 0; i < c.roots.size() && c.roots.size() > 1;) {
      std::vector<Node> roots = c.roots;
      roots.erase(roots.begin() + static_cast<std::ptrdiff_t>(i));
      if (take(copy_of(c, roots))) {
        progress = true;
      } else {
        ++i;
      }
    }
    // A root's source in its place.
    for (size_t i = 0; i < c.roots.size(); ++i) {
      for (size_t k = 0; k < c.roots[i]->nsrc && attempts > 0; ++k) {
        if (c.roots[i]->op == Op::kCall && k == 0) continue;
        std::vector<Node> roots = c.roots;
        roots[i] = c.roots[i]->src(k);
        if (take(copy_of(c, roots))) {
          progress = true;
          break;
        }
      }
    }
    // Any node as a leaf with its value, those next to the roots last.
    const std::vector<Node> order = order_of(c.roots);
    for (size_t i = order.size(); i-- > 0 && attempts > 0;) {
      const Node node = order[i];
      Bytes bytes;
      const bool structural = node->nsrc == 0 || node->op == Op::kAssign || node->op == Op::kAfter;
      if (structural || std::ranges::find(c.roots, node) != c.roots.end()) continue;
      if (!value_of(c, node, &bytes)) continue;
      if (take(with_leaf(c, c.roots, node, bytes))) {
        progress = true;
        break;
      }
    }
  }
  return c;
}

std::string check(uint64_t seed, const Options& options, const Runner& reference,
                  const Runner& tested) {
  std::string difference;
  const auto differs = [&](Case& c) {
    Answer want, got;
    if (!reference(c, &want)) return false;
    std::string text = tested(c, &got) ? compare(c, want, got) : "the tested side failed";
    if (text.empty()) return false;
    difference = text;
    return true;
  };
  Case c = make_case(seed, options);
  Answer want;
  if (!reference(c, &want)) {
    return "seed " + std::to_string(seed) + ": the reference failed on\n" + print(c);
  }
  if (!differs(c)) return {};
  const std::string first = difference;
  c = shrink(std::move(c), differs);
  return "seed " + std::to_string(seed) + ": " + first + "\nshrunk: " + difference + "\n" +
         print(c);
}

}  // namespace aster::fuzz
