// Movement of movement, and reductions.
#include <algorithm>

#include "uop/composite.h"
#include "uop/expr.h"
#include "uop/rules_tensor.h"

namespace aster::uop::rule {
namespace {

struct SliceWords {
  Dims start, step, size;
  explicit SliceWords(Node slice) {
    for (size_t i = 0; i < slice->ndim; ++i)
      push(slice->arg(2 * i), slice->arg(2 * i + 1), slice->dim(i));
  }
  SliceWords() = default;
  void push(Word at, Word by, Word count) {
    start.push(at);
    step.push(by);
    size.push(count);
  }
  Node of(Graph& g, Node node) const { return g.slice(node, start, step, size); }
};

struct PadWords {
  Dims before, after, interior;
  void push(Word front, Word back, Word between) {
    before.push(front);
    after.push(back);
    interior.push(between);
  }
  Node of(Graph& g, Node node, Word fill) const {
    return g.pad(node, before, after, interior, fill);
  }
};

// Words of a node on another axis order: axis k goes to where permute has it from.
Dims unpermuted(Words words, Node permute) {
  Dims out(words.size(), 0);
  for (size_t k = 0; k < words.size(); ++k) out[static_cast<size_t>(permute->arg(k))] = words[k];
  return out;
}

// Whether two shapes differ by axes of size 1 only; the axes of a that are none, in order, are
// those of b.
bool equal_but_units(Words a, Words b) {
  size_t i = 0, j = 0;
  while (true) {
    while (i < a.size() && a[i] == 1) ++i;
    while (j < b.size() && b[j] == 1) ++j;
    if (i == a.size() || j == b.size()) return i == a.size() && j == b.size();
    if (a[i++] != b[j++]) return false;
  }
}

Op reduction(Node reduce) { return static_cast<Op>(reduce->arg(0)); }
Words reduced_axes(Node reduce) { return reduce->arg().subspan(1); }
}  // namespace

Outcome slice_of_slice(const Match& m) {
  const Node outer = m.root, inner = outer->src(0);
  SliceWords words;
  for (size_t i = 0; i < outer->ndim; ++i) {
    const Word step = inner->arg(2 * i + 1);
    words.push(inner->arg(2 * i) + outer->arg(2 * i) * step, step * outer->arg(2 * i + 1),
               outer->dim(i));
  }
  return words.of(m.g, m[x]);
}

Outcome slice_of_pad(const Match& m) {
  const Node slice = m.root, pad = slice->src(0);
  SliceWords inner;
  PadWords outer;
  bool outside = false;
  for (size_t i = 0; i < slice->ndim; ++i) {
    const Word before = pad->arg(3 * i), after = pad->arg(3 * i + 1), between = pad->arg(3 * i + 2);
    const Word start = slice->arg(2 * i), step = slice->arg(2 * i + 1), size = slice->dim(i);
    const Word dim = m[x]->dim(i);
    if (before == 0 && after == 0 && between == 0) {
      inner.push(start, step, size);
      outer.push(0, 0, 0);
    } else if (size == pad->dim(i)) {
      inner.push(0, 1, dim);
      outer.push(before, after, between);
    } else if (step == 1 && between == 0) {
      const Word lo = std::max<Word>(start - before, 0), hi = std::min(start + size - before, dim);
      outside |= hi <= lo;
      if (outside) break;
      inner.push(lo, 1, hi - lo);
      const Word front = std::max<Word>(before - start, 0);
      outer.push(front, size - front - (hi - lo), 0);
    } else {
      return Outcome::keep();
    }
  }
  const Word fill = pad->arg().back();
  if (outside) return m.g.constant_word(slice->dtype, fill, slice->shape());
  return outer.of(m.g, inner.of(m.g, m[x]), fill);
}

Outcome slice_of_expand(const Match& m) {
  const Node slice = m.root;
  SliceWords words(slice);
  for (size_t i = 0; i < slice->ndim; ++i) {
    if (m[x]->dim(i) != 1) continue;
    words.start[i] = 0;
    words.step[i] = words.size[i] = 1;
  }
  return m.g.expand(words.of(m.g, m[x]), slice->shape());
}

Outcome slice_of_permute(const Match& m) {
  const Node permute = m.root->src(0);
  SliceWords words(m.root);
  words.start = unpermuted(words.start, permute);
  words.step = unpermuted(words.step, permute);
  words.size = unpermuted(words.size, permute);
  return m.g.permute(words.of(m.g, m[x]), permute->arg());
}

Outcome slice_of_flip(const Match& m) {
  const Node flip = m.root->src(0);
  SliceWords words(m.root);
  for (size_t i = 0; i < flip->ndim; ++i) {
    if (flip->arg(i) == 0) continue;
    words.start[i] = flip->dim(i) - 1 - words.start[i] - (words.size[i] - 1) * words.step[i];
  }
  return m.g.flip(words.of(m.g, m[x]), flip->arg());
}

// Only the parts that the slice meets, each cut to it.
Outcome slice_of_cat(const Match& m) {
  const Node slice = m.root, cat = slice->src(0);
  const size_t axis = static_cast<size_t>(cat->arg(0));
  const Word start = slice->arg(2 * axis), end = start + slice->dim(axis);
  if (slice->arg(2 * axis + 1) != 1 || slice->dim(axis) == cat->dim(axis)) return Outcome::keep();
  Vec<Node> parts(m.g.memory());
  SliceWords words(slice);
  Word offset = 0;
  for (Node part : cat->src()) {
    const Word lo = std::max(start - offset, Word{0}), hi = std::min(end - offset, part->dim(axis));
    offset += part->dim(axis);
    if (hi <= lo) continue;
    words.start[axis] = lo;
    words.size[axis] = hi - lo;
    const Node cut = words.of(m.g, part);
    if (cut == nullptr || !parts.push(cut).ok()) return Outcome(nullptr);
  }
  return m.g.cat({parts.data(), parts.size()}, cat->arg(0));
}

Outcome flip_of_flip(const Match& m) {
  Dims mask(m.root->arg());
  for (size_t i = 0; i < mask.size(); ++i) mask[i] ^= m.root->src(0)->arg(i);
  return m.g.flip(m[x], mask);
}

Outcome flip_of_expand(const Match& m) {
  return m.g.expand(m.g.flip(m[x], m.root->arg()), m.root->shape());
}

Outcome flip_of_permute(const Match& m) {
  const Node permute = m.root->src(0);
  return m.g.permute(m.g.flip(m[x], unpermuted(m.root->arg(), permute)), permute->arg());
}

// Axes of size 1 alone have moved.
Outcome permute_of_units(const Match& m) {
  Word last = -1;
  for (Word axis : m.root->arg()) {
    if (m[x]->dim(static_cast<size_t>(axis)) == 1) continue;
    if (axis < last) return Outcome::keep();
    last = axis;
  }
  return m.g.reshape(m[x], m.root->shape());
}

Outcome permute_of_expand(const Match& m) {
  return m.g.expand(m.g.permute(m[x], m.root->arg()), m.root->shape());
}

Outcome reshape_of_expand(const Match& m) {
  const Node expand = m.root->src(0);
  const Words to = m.root->shape();
  if (!equal_but_units(expand->shape(), to)) return Outcome::keep();
  Dims shape(to.size(), 1);
  size_t i = 0;
  for (size_t j = 0; j < to.size(); ++j) {
    if (to[j] == 1) continue;
    while (expand->dim(i) == 1) ++i;
    shape[j] = m[x]->dim(i++);
  }
  return m.g.expand(m.g.reshape(m[x], shape), to);
}

Outcome pad_of_pad(const Match& m) {
  const Node outer = m.root, inner = outer->src(0);
  if (outer->arg().back() != inner->arg().back()) return Outcome::keep();
  PadWords words;
  for (size_t i = 0; i < outer->ndim; ++i) {
    if (outer->arg(3 * i + 2) != 0) return Outcome::keep();
    words.push(outer->arg(3 * i) + inner->arg(3 * i), outer->arg(3 * i + 1) + inner->arg(3 * i + 1),
               inner->arg(3 * i + 2));
  }
  return words.of(m.g, m[x], outer->arg().back());
}

// Without empty parts, and with the parts of a part.
Outcome cat_of_parts(const Match& m) {
  const Node cat = m.root;
  const size_t axis = static_cast<size_t>(cat->arg(0));
  const auto nested = [&](Node part) {
    return part->op == Op::kCat && part->arg(0) == cat->arg(0);
  };
  const Node first = cat->src(0);
  bool constant = true, changes = false;
  for (Node part : cat->src()) {
    constant &= is_const(part) && is_const(first) && part->arg(0) == first->arg(0);
    changes |= part->dim(axis) == 0 || nested(part);
  }
  if (constant) return m.g.constant_word(cat->dtype, first->arg(0), cat->shape());
  if (!changes) return Outcome::keep();
  Vec<Node> parts(m.g.memory());
  for (Node part : cat->src()) {
    if (part->dim(axis) == 0) continue;
    const Nodes inner = nested(part) ? Nodes(part->src()) : Nodes(&part, 1);
    if (!parts.append(inner.data(), inner.size()).ok()) return Outcome(nullptr);
  }
  return m.g.cat({parts.data(), parts.size()}, cat->arg(0));
}

namespace {

// What lies at a place of an axis.
struct Piece {
  Word at;
  Node node;
};

// The one axis along which zeros stand around what a node pads; -1: it is no such node.
Word padded_axis(Node pad) {
  if (pad->op != Op::kPad || pad->arg().back() != 0) return -1;
  Word out = -1;
  for (size_t i = 0; i < pad->ndim; ++i) {
    if (pad->arg(3 * i + 2) != 0) return -1;
    if (pad->arg(3 * i) == 0 && pad->arg(3 * i + 1) == 0) continue;
    if (out >= 0) return -1;
    out = static_cast<Word>(i);
  }
  return out;
}

constexpr size_t kMostPieces = 256;

// What is not 0 of a sum's operand, and where. False: there is too much of it.
bool take_pieces(Vec<Piece>* out, Node node, Word axis, Word at) {
  if (out->size() >= kMostPieces) return false;
  if (is_const(node) && node->arg(0) == 0) return true;
  if (node->op == Op::kPad && padded_axis(node) == axis)
    return take_pieces(out, node->src(0), axis, at + node->arg(3 * static_cast<size_t>(axis)));
  if (node->op != Op::kCat || node->arg(0) != axis) return out->push({at, node}).ok();
  for (Node part : node->src()) {
    if (!take_pieces(out, part, axis, at)) return false;
    at += part->dim(static_cast<size_t>(axis));
  }
  return true;
}

// x + 0.0, which makes 0.0 of -0.0.
Node plus_zero(Graph& g, Node node) {
  if (!dtype::is_float(node->dtype)) return node;
  const Node last = node->op == Op::kAdd ? node->src(1) : nullptr;
  if (last != nullptr && is_const(last) && last->arg(0) == 0) return node;
  return g.alu(Op::kAdd, node, g.constant_word(node->dtype, 0, node->shape()));
}

}  // namespace

// Operands that stand beside each other, zeros around each, as gradients to parts of a tensor do:
// no element has to add or choose.
Outcome sum_of_pads(const Match& m) {
  const Node a = m.root->src(0), b = m.root->src(1);
  const Word axis = std::max(padded_axis(a), padded_axis(b));
  const auto stands = [&](Node node) {
    return padded_axis(node) == axis || (node->op == Op::kCat && node->arg(0) == axis);
  };
  if (axis < 0 || !stands(a) || !stands(b)) return Outcome::keep();
  const auto along = static_cast<size_t>(axis);
  Vec<Piece> pieces(m.g.memory());
  if (!take_pieces(&pieces, a, axis, 0) || !take_pieces(&pieces, b, axis, 0))
    return Outcome::keep();
  std::ranges::sort(pieces, {}, &Piece::at);
  if (pieces.empty()) return Outcome::keep();
  const Word first = pieces[0].at;
  Word end = first;
  Vec<Node> parts(m.g.memory());
  for (const Piece& piece : pieces) {
    if (piece.at < end) return Outcome::keep();
    Dims gap(piece.node->shape());
    gap[along] = piece.at - end;
    if (gap[along] > 0 && !parts.push(m.g.constant_word(m.root->dtype, 0, gap)).ok())
      return Outcome(nullptr);
    if (!parts.push(plus_zero(m.g, piece.node)).ok()) return Outcome(nullptr);
    end = piece.at + piece.node->dim(along);
  }
  for (Node part : parts) {
    if (part == nullptr) return Outcome(nullptr);
  }
  const Node row = m.g.cat({parts.data(), parts.size()}, axis);
  if (first == 0 && end == m.root->dim(along)) return row;
  PadWords words;
  for (size_t i = 0; i < m.root->ndim; ++i)
    words.push(i == along ? first : 0, i == along ? m.root->dim(i) - end : 0, 0);
  return words.of(m.g, row, 0);
}

Outcome reduce_of_units(const Match& m) {
  Dims axes;
  for (Word axis : reduced_axes(m.root)) {
    if (m[x]->dim(static_cast<size_t>(axis)) != 1) axes.push(axis);
  }
  if (axes.size() == reduced_axes(m.root).size()) return Outcome::keep();
  return m.g.reduce(reduction(m.root), m[x], axes);
}

// Over no elements: the neutral element.
Outcome reduce_of_nothing(const Match& m) {
  if (m[x]->count() != 0) return Outcome::keep();
  const DType d = m.root->dtype;
  return m.g.constant_word(d, neutral_word(reduction(m.root), d), m.root->shape());
}

Outcome reduce_of_constant(const Match& m) {
  constexpr int64_t kMultiplied = 64;  // more factors are left to the kernel
  const DType d = m.root->dtype;
  const Op op = reduction(m.root);
  const Word word = m[c0]->arg(0);
  int64_t count = 1;
  for (Word axis : reduced_axes(m.root)) count *= m[c0]->dim(static_cast<size_t>(axis));
  Word result = word;
  if (op == Op::kAdd && dtype::is_float(d)) {
    const double total = const_double(m[c0]) * static_cast<double>(count);
    return m.g.constant(d, total, m.root->shape());
  }
  if (op == Op::kAdd && d != DType::kBool) {
    const Word operands[2] = {word, convert_word(count, DType::kInt64, d)};
    result = evaluate(Op::kMul, d, d, operands);
  }
  if (op == Op::kMul) {
    if (count > kMultiplied) return Outcome::keep();
    for (int64_t i = 1; i < count; ++i) {
      const Word operands[2] = {result, word};
      result = evaluate(Op::kMul, d, d, operands);
    }
  }
  return m.g.constant_word(d, result, m.root->shape());
}

// Equal elements: their number times one of them, or just one where that is the same.
Outcome reduce_of_expand(const Match& m) {
  const Node outer = m.root, expand = outer->src(0);
  const Op op = reduction(outer);
  if (op == Op::kMul) return Outcome::keep();
  Dims axes, shape(expand->shape());
  int64_t times = 1;
  for (Word axis : reduced_axes(outer)) {
    const size_t at = static_cast<size_t>(axis);
    if (m[x]->dim(at) == 1) {
      times *= shape[at];
      shape[at] = 1;
    } else {
      axes.push(axis);
    }
  }
  if (times <= 1) return Outcome::keep();
  const bool sums = op == Op::kAdd && outer->dtype != DType::kBool;
  if (sums && dtype::is_float(outer->dtype) &&
      dtype::truncate_float(outer->dtype, static_cast<double>(times)) !=
          static_cast<double>(times)) {
    return Outcome::keep();
  }
  Node one = m.g.reduce(op, m.g.expand(m[x], shape), axes);
  return sums ? m.g.alu(Op::kMul, one, m.g.constant_int(outer->dtype, times, outer->shape())) : one;
}

}  // namespace aster::uop::rule
