#include "flt/panels.h"

namespace aster::flt {
namespace {

size_t power(size_t base, int exponent) {
  return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

// What sums of a level take: 4 of a quarter's ends each, and those of all products below.
size_t sums_of(int level) { return level == 0 ? 0 : power(4, level) + 7 * sums_of(level - 1); }
// The same where they are made one after the other.
size_t deep_sums_of(int level) {
  return level == 0 ? 0 : power(4, level) + deep_sums_of(level - 1);
}
size_t tiles_of(int level) {
  return level == 0 ? 0 : 7 * power(4, level - 1) + tiles_of(level - 1);
}

}  // namespace

PanelRows::PanelRows(const PanelCode& code, int levels, size_t rows, size_t pairs)
    : code_(code), levels_(levels), rows_(rows >> levels), pairs_(pairs >> levels) {}

size_t PanelRows::room(int levels, size_t rows, size_t pairs) {
  const size_t height = rows >> levels, width = pairs >> levels;
  return sums_of(levels) * (height * width + kApart) + power(7, levels) * height + kTileLanes +
         deep_sums_of(levels) * (width * kTileLanes + kApart) +
         tiles_of(levels) * (height * kShortRow + kApart);
}

// The ends of the rows of a block, of their products' order.
int32_t* PanelRows::expand(size_t end, int level, const int32_t* a, size_t step, int32_t* room) {
  if (level == 0) {
    ends_[end] = {a, step};
    code_.row_parts(parts_ + end * rows_, a, step, rows_, pairs_, prime_);
    return room;
  }
  const size_t height = rows_ << (level - 1), width = pairs_ << (level - 1);
  const int32_t* const quarters[] = {a, a + width, a + height * step, a + height * step + width};
  int32_t* sums[4];
  for (int32_t*& sum : sums) sum = room, room += height * width + kApart;
  code_.row_sums(sums, quarters, step, height, width, prime_);
  const struct {
    const int32_t* data;
    size_t step;
  } factors[] = {{quarters[0], step}, {quarters[1], step}, {sums[3], width}, {quarters[3], step},
                 {sums[0], width},    {sums[1], width},    {sums[2], width}};
  for (size_t i = 0; i < 7; ++i)
    room = expand(end * 7 + i, level - 1, factors[i].data, factors[i].step, room);
  return room;
}

void PanelRows::begin(const int32_t* a, size_t step, int32_t prime, float inverse, int32_t* room) {
  prime_ = prime;
  inverse_ = inverse;
  parts_ = room;
  const size_t ends = power(7, levels_);
  rest_ = expand(0, levels_, a, step, room + ends * rows_);
  ends_[ends] = ends_[0];
}

// What is multiplied soon, of an end's size.
const int32_t* PanelRows::fetched(size_t end) const {
  const size_t side = panels();
  return end < side * side ? next_.of(end / side, end % side).data : next_.data;
}

void PanelRows::product(size_t end, int level, const Columns& b, const Sums& to,
                        int32_t* room) const {
  if (level == 0) {
    int32_t* const parts = room;
    if (levels_ > 0) code_.column_parts(parts, b.data, pairs_, prime_, inverse_);
    return code_.multiply({
        .a = ends_[end].a,
        .step = ends_[end].step,
        .a_parts = parts_ + end * rows_,
        .row_count = rows_,
        .b = b.data,
        .b_parts = levels_ > 0 ? parts : b.data + end_size(),
        .pairs = pairs_,
        .prime = prime_,
        .inverse = inverse_,
        .to = to.data,
        .to_step = to.step,
        .place = to.place,
        .next = fetched(end),
        .next_a = ends_[end + 1].a,
        .next_step = ends_[end + 1].step,
    });
  }
  const size_t half = size_t{1} << (level - 1);
  const Columns quarters[] = {b.of(0, 0), b.of(0, half), b.of(half, 0), b.of(half, half)};
  Columns sums[4];
  int32_t* at[4];
  for (size_t i = 0; i < 4; ++i) {
    at[i] = room;
    sums[i] = {room, half * sum_size(), sum_size()};
    room += half * half * sum_size();
  }
  Sums products[7];
  for (Sums& made : products) {
    made = {room, half * tile_size(), tile_size(), kShortRow, Place::kShort};
    room += half * half * tile_size();
  }
  for (size_t i = 0; i < half * half; ++i) {
    const int32_t* from[4];
    int32_t* made[4];
    for (size_t q = 0; q < 4; ++q) {
      from[q] = quarters[q].of(i / half, i % half).data;
      made[q] = at[q] + i * sum_size();
    }
    code_.column_sums(made, from, end_size(), prime_);
  }
  const Columns factors[] = {quarters[0], quarters[2], quarters[3], sums[3],
                             sums[0],     sums[1],     sums[2]};
  for (size_t i = 0; i < 7; ++i) product(end * 7 + i, level - 1, factors[i], products[i], room);
  for (size_t i = 0; i < half * half; ++i) {
    const size_t down = i / half, across = i % half;
    const int32_t* from[7];
    int32_t* out[4];
    for (size_t p = 0; p < 7; ++p)
      from[p] = products[p].data + down * products[p].down + across * products[p].across;
    for (size_t q = 0; q < 4; ++q)
      out[q] = to.data + (down + q / 2 * half) * to.down + (across + q % 2 * half) * to.across;
    code_.result_sums(out, to.step, to.place, from, rows_, prime_);
  }
}

void PanelRows::multiply(const int32_t* b, size_t panel, const int32_t* next, const To& to) const {
  next_ = {next, end_size(), panel};
  product(0, levels_, {b, end_size(), panel},
          {to.data, rows_ * to.step, to.across, to.step, to.place}, rest_);
}

}  // namespace aster::flt
