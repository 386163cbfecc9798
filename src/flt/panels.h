// Residues of rows times panels of 32 columns by one prime: seven products of halves in the place
// of eight, again and again (V. Strassen 1969, with S. Winograd's 15 sums).
#pragma once

#include <cstddef>
#include <cstdint>

#include "flt/tile.h"

namespace aster::flt {

class PanelRows {
 public:
  static constexpr int kMostLevels = 2;
  // Rows by pairs, multiples of 8 and of 2, of them 2^levels times as many.
  PanelRows(const PanelCode& code, int levels, size_t rows, size_t pairs);

  int levels() const { return levels_; }
  size_t rows() const { return rows_ << levels_; }
  size_t panels() const { return size_t{1} << levels_; }  // that are multiplied at once
  // int32 that it takes besides.
  static size_t room(int levels, size_t rows, size_t pairs);

  // Rows, step apart, that the next products are of. They and room are held on to.
  void begin(const int32_t* a, size_t step, int32_t prime, float inverse, int32_t* room);
  // Their products with panels() panels, panel apart, each followed by what belongs to its columns
  // (PanelProduct); next: those that come after. Panel j goes to, across j further, rows step
  // apart, as the lower or higher halves of pairs.
  struct To {
    int32_t* data;
    size_t across, step;
    Place place;
  };
  void multiply(const int32_t* b, size_t panel, const int32_t* next, const To& to) const;

 private:
  // A block of 2^level by 2^level ends.
  struct Columns {
    const int32_t* data;
    size_t down, across;
    const Columns of(size_t i, size_t j) const {
      return {data + i * down + j * across, down, across};
    }
  };
  struct Sums {
    int32_t* data;
    size_t down, across, step;
    Place place;
  };
  struct End {
    const int32_t* a;
    size_t step;
  };
  static constexpr size_t kMostEnds = 49;
  static_assert(kMostLevels == 2);

  size_t end_size() const { return pairs_ * kTileLanes; }
  // Those of sums and products; no powers of two, which would be one place of a cache.
  static constexpr size_t kApart = 16;
  size_t sum_size() const { return end_size() + kApart; }
  size_t tile_size() const { return rows_ * kShortRow + kApart; }
  int32_t* expand(size_t end, int level, const int32_t* a, size_t step, int32_t* room);
  void product(size_t end, int level, const Columns& b, const Sums& to, int32_t* room) const;
  const int32_t* fetched(size_t end) const;

  const PanelCode& code_;
  const int levels_;
  const size_t rows_, pairs_;  // of an end
  int32_t prime_ = 1;
  float inverse_ = 1;
  End ends_[kMostEnds + 1];
  int32_t* parts_ = nullptr;  // of the rows of each end
  int32_t* rest_ = nullptr;
  mutable Columns next_ = {};
};

}  // namespace aster::flt
