#include "tensor/registry_winograd.h"

#include <algorithm>
#include <array>

#include "engine/engine.h"

namespace aster::tensor::registry {
namespace {

// F(m x m, 3 x 3): m x m results of t x t pixels, t = m + 2, by t * t products a channel and a
// filter instead of 9 * m * m: y = A' ((G w G') * (B' x B)) A (A. Lavin and S. Gray, Fast
// algorithms for convolutional neural networks, 2016).
struct Tile {
  Word m, t;
  std::span<const double> results, weights, pixels;  // A' [m, t], G [t, 3], B' [t, t]
};

constexpr double kResults2[] = {1, 1, 1,  0,  //
                                0, 1, -1, -1};
constexpr double kWeights2[] = {1,  0,   0,   //
                                .5, .5,  .5,  //
                                .5, -.5, .5,  //
                                0,  0,   1};
constexpr double kPixels2[] = {1, 0,  -1, 0,  //
                               0, 1,  1,  0,  //
                               0, -1, 1,  0,  //
                               0, 1,  0,  -1};
constexpr Tile kTile2 = {2, 4, kResults2, kWeights2, kPixels2};

constexpr double kResults4[] = {1, 1, 1,  1, 1,  0,  //
                                0, 1, -1, 2, -2, 0,  //
                                0, 1, 1,  4, 4,  0,  //
                                0, 1, -1, 8, -8, 1};
constexpr double kWeights4[] = {1. / 4,  0,        0,        //
                                -1. / 6, -1. / 6,  -1. / 6,  //
                                -1. / 6, 1. / 6,   -1. / 6,  //
                                1. / 24, 1. / 12,  1. / 6,   //
                                1. / 24, -1. / 12, 1. / 6,   //
                                0,       0,        1};
constexpr double kPixels4[] = {4, 0,  -5, 0,  1, 0,  //
                               0, -4, -4, 1,  1, 0,  //
                               0, 4,  -4, -1, 1, 0,  //
                               0, -2, -1, 2,  1, 0,  //
                               0, 2,  -1, -2, 1, 0,  //
                               0, 4,  0,  -5, 0, 1};
constexpr Tile kTile4 = {4, 6, kResults4, kWeights4, kPixels4};

// From here on the products take more time than what is done to images, results and weights.
constexpr Word kFewChannels = 16, kFewTiles = 12;
// Pixels of all channels whose steps are made together, and into how many parts images are cut.
constexpr Word kAtOnce = 1 << 18, kMostParts = 16;

Word tiles(Word size, Word m) { return (size + m - 1) / m; }

struct Winograd {
  Graph& g;
  const Tile& tile;
  DType dtype;

  // A matrix of a tile: equal ones are one node.
  Node matrix(std::span<const double> values, Word columns) const {
    Vec<Node> rows(g.memory()), row(g.memory());
    for (size_t i = 0; i < values.size(); ++i) {
      if (!row.push(g.constant(dtype, values[i], std::array<Word, 2>{1, 1})).ok()) return nullptr;
      if (row.size() != static_cast<size_t>(columns)) continue;
      if (!rows.push(g.cat({row.data(), row.size()}, 1)).ok()) return nullptr;
      row.clear();
    }
    return g.contiguous(g.cat({rows.data(), rows.size()}, 0));
  }
  // The matrix times x [count, columns, rest], which is stored.
  Node apply(std::span<const double> values, Word columns, Node x, Word count) const {
    if (x == nullptr) return nullptr;
    const Word rows = static_cast<Word>(values.size()) / columns;
    const Node left =
        uop::broadcast_to(g, matrix(values, columns), std::array<Word, 3>{count, rows, columns});
    const std::array<Word, 3> shape = {count, columns, x->count() / (count * columns)};
    return uop::build_matmul(g, left, g.reshape(g.contiguous(x), shape));
  }
  // The windows of t elements, m apart, of an axis: [.., tiles, t, ..].
  Node windows(Node x, Word axis) const { return g.window(x, axis, tile.t, tile.m, 1); }
};

// The transformed weights [3, 3, C, O] -> [t * t, C, O].
Node weights_of(const Winograd& by, Node w) {
  Graph& g = by.g;
  const Word t = by.tile.t, channels = w->dim(1), filters = w->dim(0);
  w = by.apply(by.tile.weights, 3, g.permute(w, std::array<Word, 4>{2, 3, 1, 0}), 1);
  w = g.reshape(w, std::array<Word, 4>{t, 3, channels, filters});
  w = by.apply(by.tile.weights, 3, w, t);
  return g.contiguous(g.reshape(w, std::array<Word, 3>{t * t, channels, filters}));
}

// Results [N, height, width, O] of images that are padded for windows of whole tiles, whose
// channels lie side by side: [N, .., .., C].
Node results_of(const Winograd& by, Node x, Node weights, Word height, Word width) {
  if (x == nullptr || weights == nullptr) return nullptr;
  Graph& g = by.g;
  const Word m = by.tile.m, t = by.tile.t, images = x->dim(0), channels = x->dim(3);
  const Word rows = tiles(height, m), columns = tiles(width, m), filters = weights->dim(2);
  x = by.apply(by.tile.pixels, t, by.windows(g.contiguous(x), 1), images * rows);
  x = g.reshape(g.contiguous(x),
                std::array<Word, 3>{images * rows * t, columns * m + t - m, channels});
  x = by.apply(by.tile.pixels, t, by.windows(x, 1), images * rows * t * columns);
  x = g.reshape(x, std::array<Word, 6>{images, rows, t, columns, t, channels});
  x = g.contiguous(g.permute(x, std::array<Word, 6>{2, 4, 0, 1, 3, 5}));
  const Word count = images * rows * columns;
  x = g.reshape(x, std::array<Word, 3>{t * t, count, channels});
  Node y = by.apply(by.tile.results, t, uop::build_matmul(g, x, weights), 1);
  y = g.reshape(y, std::array<Word, 3>{m, t, count * filters});
  y = by.apply(by.tile.results, t, y, m);
  y = g.reshape(y, std::array<Word, 6>{m, m, images, rows, columns, filters});
  y = g.permute(y, std::array<Word, 6>{2, 3, 0, 4, 1, 5});
  y = g.reshape(y, std::array<Word, 4>{images, rows * m, columns * m, filters});
  return g.contiguous(g.slice(y, uop::Dims(4, 0), uop::Dims(4, 1),
                              std::array<Word, 4>{images, height, width, filters}));
}

Node build(engine::Engine& engine, const Call& call, Nodes operands, const Tile& tile) {
  Graph& g = engine.graph;
  const Node x = operands[0], y = call.usual;
  const uop::Conv2d o = uop::conv2d_of(y);
  const Winograd by{g, tile, x->dtype};
  const Word images = x->dim(0), height = y->dim(2), width = y->dim(3);
  const Word below = tiles(height, tile.m) * tile.m + 2 - x->dim(2) - o.pad[0];
  const Word right = tiles(width, tile.m) * tile.m + 2 - x->dim(3) - o.pad[2];
  const Node image = g.pad(g.permute(x, std::array<Word, 4>{0, 2, 3, 1}),
                           std::array<Word, 4>{0, o.pad[0], o.pad[2], 0},
                           std::array<Word, 4>{0, below, right, 0}, uop::Dims(4, 0), 0);
  const Node weights = weights_of(by, operands[1]);
  if (image == nullptr) return nullptr;
  // What some images have between the steps stays in the caches.
  const Word parts = std::min(images, std::min<Word>(kMostParts, image->count() / kAtOnce + 1));
  Vec<Node> made(g.memory());
  for (Word i = 0; i < parts; ++i) {
    const Word first = images * i / parts, count = images * (i + 1) / parts - first;
    const Node some = part(g, image, 4, first, count);
    if (!made.push(results_of(by, some, weights, height, width)).ok()) return nullptr;
  }
  return g.permute(g.cat({made.data(), made.size()}, 0), std::array<Word, 4>{0, 3, 1, 2});
}

}  // namespace

void refuse_winograd(Refusal* why, Context&, const Call& call) {
  const Node x = call.operands[0], w = call.operands[1];
  const uop::Conv2d o = uop::conv2d_of(call.usual);
  const auto ones = [](const Word(&pair)[2]) { return pair[0] == 1 && pair[1] == 1; };
  if (x->dtype != DType::kFloat32 && x->dtype != DType::kFloat64)
    return say(why, "float32 or float64 is needed: weights are divided, and sums rounded");
  if (w->dim(2) != 3 || w->dim(3) != 3) return say(why, "a kernel of 3 x 3 is needed");
  if (!ones(o.stride) || !ones(o.dilation) || o.groups != 1)
    return say(why, "stride, dilation and groups of 1 are needed");
  if (x->count() == 0 || call.usual->count() == 0) return say(why, "it has no elements");
}

Node winograd_2(engine::Engine& engine, const Call& call, Nodes operands) {
  return build(engine, call, operands, kTile2);
}

Node winograd_4(engine::Engine& engine, const Call& call, Nodes operands) {
  return build(engine, call, operands, kTile4);
}

bool winograd_4_is_fast(Nodes operands, Node usual) {
  const Word m = kTile4.m;
  return std::min(operands[0]->dim(1), operands[1]->dim(0)) >= kFewChannels &&
         usual->dim(0) * tiles(usual->dim(2), m) * tiles(usual->dim(3), m) >= kFewTiles;
}

}  // namespace aster::tensor::registry
