#include "flt/strassen.h"

#include <algorithm>

namespace aster::flt {
namespace {

struct Block {
  const int32_t* data;
  size_t step;  // of rows
};
struct Modulus {
  int32_t p;
  int32_t near(int32_t x) const { return x - (2 * x > p ? p : 0) + (2 * x < -p ? p : 0); }
};

// to = x + sign y of rows by columns.
void combine(int32_t* to, const Block& x, const Block& y, int32_t sign, size_t rows, size_t columns,
             Modulus m) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j)
      to[i * columns + j] = m.near(x.data[i * x.step + j] + sign * y.data[i * y.step + j]);
  }
}
// to += sign x
void add(int32_t* to, size_t step, const int32_t* x, int32_t sign, size_t rows, size_t columns,
         Modulus m) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j)
      to[i * step + j] = m.near(to[i * step + j] + sign * x[i * columns + j]);
  }
}

void plain(int32_t* c, const Block& a, const Block& b, size_t rows, size_t inner, size_t columns,
           Modulus m) {
  constexpr size_t kAtOnce = 64;  // products of 2^24 in int32, and a residue
  for (size_t i = 0; i < rows; ++i) {
    int32_t* const to = c + i * columns;
    std::fill(to, to + columns, 0);
    for (size_t first = 0; first < inner; first += kAtOnce) {
      for (size_t k = first; k < std::min(inner, first + kAtOnce); ++k) {
        const int32_t x = a.data[i * a.step + k];
        for (size_t j = 0; j < columns; ++j) to[j] += x * b.data[k * b.step + j];
      }
      for (size_t j = 0; j < columns; ++j) to[j] = m.near(to[j] % m.p);
    }
  }
}

void multiply(int32_t* c, const Block& a, const Block& b, size_t rows, size_t inner, size_t columns,
              int levels, Modulus m, int32_t* room) {
  if (levels == 0) return plain(c, a, b, rows, inner, columns, m);
  const size_t r = rows / 2, k = inner / 2, n = columns / 2;
  const auto of = [](const Block& x, size_t height, size_t width, size_t i, size_t j) {
    return Block{x.data + i * height * x.step + j * width, x.step};
  };
  const auto in_a = [&](size_t i, size_t j) { return of(a, r, k, i, j); };
  const auto in_b = [&](size_t i, size_t j) { return of(b, k, n, i, j); };
  int32_t *const left = room, *const right = left + r * k, *const made = right + k * n,
                 *const rest = made + r * n;
  std::fill(c, c + rows * columns, 0);
  // A sum or a block itself; into which blocks of c the product goes, with which sign.
  struct Sum {
    int first, second, sign;  // blocks by number; second -1: none
  };
  struct Step {
    Sum a, b;
    int signs[4];
  };
  constexpr Step kSteps[] = {
      {{0, 3, 1}, {0, 3, 1}, {1, 0, 0, 1}},   {{2, 3, 1}, {0, -1, 0}, {0, 0, 1, -1}},
      {{0, -1, 0}, {1, 3, -1}, {0, 1, 0, 1}}, {{3, -1, 0}, {2, 0, -1}, {1, 0, 1, 0}},
      {{0, 1, 1}, {3, -1, 0}, {-1, 1, 0, 0}}, {{2, 0, -1}, {0, 1, 1}, {0, 0, 0, 1}},
      {{1, 3, -1}, {2, 3, 1}, {1, 0, 0, 0}},
  };
  const auto taken = [&](const Sum& sum, const auto& blocks, int32_t* to, size_t height,
                         size_t width) {
    const auto block = [&](int which) {
      return blocks(static_cast<size_t>(which / 2), static_cast<size_t>(which % 2));
    };
    if (sum.second < 0) return block(sum.first);
    combine(to, block(sum.first), block(sum.second), sum.sign, height, width, m);
    return Block{to, width};
  };
  for (const Step& step : kSteps) {
    multiply(made, taken(step.a, in_a, left, r, k), taken(step.b, in_b, right, k, n), r, k, n,
             levels - 1, m, rest);
    for (size_t q = 0; q < 4; ++q) {
      if (step.signs[q] != 0)
        add(c + q / 2 * r * columns + q % 2 * n, columns, made, step.signs[q], r, n, m);
    }
  }
}

}  // namespace

int strassen_levels(size_t rows, size_t inner, size_t columns) {
  size_t least = std::min({rows, inner, columns});
  int levels = 0;
  for (; least > kStrassenEnds; least = (least + 1) / 2) ++levels;
  return levels;
}

size_t strassen_room(size_t rows, size_t inner, size_t columns, int levels) {
  size_t out = 0;
  for (; levels > 0; --levels) {
    rows /= 2;
    inner /= 2;
    columns /= 2;
    out += rows * inner + inner * columns + rows * columns;
  }
  return out;
}

void strassen(int32_t* c, const int32_t* a, const int32_t* b, size_t rows, size_t inner,
              size_t columns, int levels, int32_t prime, int32_t* room) {
  multiply(c, {a, inner}, {b, columns}, rows, inner, columns, levels, {prime}, room);
}

}  // namespace aster::flt
