#include "engine/leaves.h"

#include <algorithm>
#include <functional>

#include "base/set.h"
#include "engine/engine.h"
#include "engine/indexing.h"

namespace aster::engine {
namespace {

using uop::Node;
using uop::Nodes;
using uop::Op;

class Finder {
 public:
  Finder(Leaves& out, Engine& engine, bool params)
      : out_(out),
        e_(engine),
        params_(params),
        slices_(engine.context.heap()),
        whole_(engine.context.heap()),
        needed_(engine.context.heap()),
        pieces_(engine.context.heap()) {}

  Status run(Vec<Node>* nodes, Nodes roots) {
    for (Node node : *nodes) {
      Slice slice{};
      if (node->op == Op::kSlice && node->count() != 0 &&
          one_piece(&slice.buffer, &slice.first, node))
        ASTER_TRY(slices_.set(node, slice));
    }
    if (!slices_.empty()) ASTER_TRY(drop_below(nodes, roots));
    for (Node node : *nodes) ASTER_TRY(take(node));
    return pieces_.size() == 1 ? only() : join();
  }

 private:
  struct Slice {
    Node buffer;
    int64_t first;
  };
  // One of out_.parts, in its Buffer.
  struct Piece {
    Node buffer;
    int64_t begin, end;
    uint32_t part;
  };

  // A slice is a leaf unless its Buffer is read in another way as well: then that is.
  bool is_leaf(Node node) {
    const Slice* slice = slices_.find(node);
    return slice != nullptr && !whole_.contains(slice->buffer);
  }
  Status drop_below(Vec<Node>* nodes, Nodes roots) {
    ASTER_TRY(mark(*nodes, roots));
    const auto is_read_whole = [&](const auto& slice) {
      return whole_.contains(slice.value.buffer);
    };
    if (std::ranges::any_of(slices_, is_read_whole)) ASTER_TRY(mark(*nodes, roots));
    size_t kept = 0;
    for (Node node : *nodes) {
      if (needed_.contains(node)) (*nodes)[kept++] = node;
    }
    nodes->truncate(kept);
    return kOk;
  }
  // What roots need down to leaves, users first.
  Status mark(const Vec<Node>& nodes, Nodes roots) {
    bool fresh;
    for (Node root : roots) ASTER_TRY(needed_.add(&fresh, root));
    for (size_t i = nodes.size(); i-- > 0;) {
      const Node node = nodes[i];
      if (!needed_.contains(node) || is_leaf(node)) continue;
      if (node->op == Op::kBuffer) ASTER_TRY(whole_.add(&fresh, node));
      for (Node source : node->src()) ASTER_TRY(needed_.add(&fresh, source));
    }
    return kOk;
  }

  Status take(Node node) {
    Slice slice{node, 0};
    if (is_leaf(node)) {
      slice = *slices_.find(node);
    } else if (node->op != Op::kBuffer && !(params_ && node->op == Op::kParam)) {
      return kOk;
    }
    const auto part = static_cast<uint32_t>(out_.parts.size());
    ASTER_TRY(pieces_.push(Piece{slice.buffer, slice.first, slice.first + node->count(), part}));
    return out_.parts.push(Leaves::Part{node, 0, slice.first});
  }

  // join of one piece.
  Status only() {
    Leaves::Part& part = out_.parts[0];
    const Piece& piece = pieces_[0];
    ASTER_TRY(out_.wholes.push(piece.buffer));
    ASTER_TRY(add(part.node, piece.buffer, piece.begin, part.node->shape()));
    part.first = 0;
    return find_regions(&out_.regions, {out_.buffers.data(), 1});
  }

  // Pieces that overlap are one leaf. Leaves are numbered in the order of their first parts.
  Status join() {
    constexpr uint32_t kNone = UINT32_MAX;
    struct Joined {
      Node buffer;
      int64_t begin, end;
      uint32_t number, parts;
    };
    Vec<Joined> all(pieces_.memory());
    Vec<uint32_t> joined(pieces_.memory());  // of each part
    ASTER_TRY(joined.resize(pieces_.size(), 0));
    std::ranges::sort(pieces_, [](const Piece& a, const Piece& b) {
      if (a.buffer != b.buffer) return std::less<Node>()(a.buffer, b.buffer);
      return a.begin != b.begin ? a.begin < b.begin : a.part < b.part;
    });
    for (const Piece& piece : pieces_) {
      if (all.empty() || all.back().buffer != piece.buffer || all.back().end <= piece.begin)
        ASTER_TRY(all.push(Joined{piece.buffer, piece.begin, piece.end, kNone, 0}));
      Joined& last = all.back();
      last.end = std::max(last.end, piece.end);
      ++last.parts;
      joined[piece.part] = static_cast<uint32_t>(all.size() - 1);
    }
    for (size_t i = 0; i < out_.parts.size(); ++i) {
      Leaves::Part& part = out_.parts[i];
      Joined& leaf = all[joined[i]];
      if (leaf.number == kNone) {
        leaf.number = static_cast<uint32_t>(out_.buffers.size());
        ASTER_TRY(out_.wholes.push(leaf.buffer));
        const int64_t count[] = {leaf.end - leaf.begin};
        ASTER_TRY(add(part.node, leaf.buffer, leaf.begin,
                      leaf.parts == 1 ? part.node->shape() : uop::Words(count)));
      }
      part.leaf = leaf.number;
      part.first -= leaf.begin;
    }
    return find_regions(&out_.regions, {out_.buffers.data(), out_.buffers.size()});
  }
  // The memory of a leaf whose first part is node.
  Status add(Node node, Node whole, int64_t first, uop::Words shape) {
    if (node != whole) {
      const auto size = static_cast<int64_t>(dtype::size(whole->dtype));
      node = buffer_node_on(e_, storage_at(whole), static_cast<int32_t>(whole->arg(1)),
                            whole->arg(2) + first * size, whole->dtype, shape);
      ASTER_TRY(need(node));
    }
    return out_.buffers.push(node);
  }

  Leaves& out_;
  Engine& e_;
  bool params_;
  Map<Node, Slice> slices_;
  Set<Node> whole_;  // Buffers that are leaves themselves
  Set<Node> needed_;
  Vec<Piece> pieces_;
};

}  // namespace

Status find_leaves(Leaves* out, Vec<Node>* nodes, Engine& engine, Nodes roots, bool params) {
  return Finder(*out, engine, params).run(nodes, roots);
}

}  // namespace aster::engine
