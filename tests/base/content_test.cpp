// Digests of many bytes: of all of them, wherever they lie.
#include "base/content.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace aster {
namespace {

std::vector<uint8_t> random_bytes(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> out(size);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random());
  return out;
}

TEST(Content, EveryBitOfEverySizeCounts) {
  std::set<std::pair<uint64_t, uint64_t>> seen;
  size_t made = 0;
  for (const size_t size : {0u, 1u, 7u, 8u, 15u, 16u, 17u, 63u, 64u, 65u, 128u, 200u}) {
    for (const bool zeros : {false, true}) {
      if (size == 0 && zeros) continue;
      std::vector<uint8_t> bytes = zeros ? std::vector<uint8_t>(size) : random_bytes(size, 5);
      const auto add = [&] {
        const Content one = content_of(bytes);
        seen.insert({one.low, one.high});
        ++made;
      };
      add();
      for (size_t bit = 0; bit < 8 * size; ++bit) {
        bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
        add();
        bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      }
    }
  }
  EXPECT_EQ(seen.size(), made);
}

// Words that change places, and equal changes at two places.
TEST(Content, PlacesCount) {
  std::vector<uint8_t> bytes = random_bytes(4096, 6);
  const Content first = content_of(bytes);
  for (size_t at = 8; at < bytes.size(); at += 8) {
    std::vector<uint8_t> turned = bytes;
    std::swap_ranges(&turned[0], &turned[8], &turned[at]);
    EXPECT_NE(content_of(turned), first) << at;
    std::vector<uint8_t> twice = bytes;
    twice[0] ^= 255, twice[at] ^= 255;
    EXPECT_NE(content_of(twice), first) << at;
  }
}

TEST(Content, WhereTheyLieDoesNot) {
  const std::vector<uint8_t> bytes = random_bytes(3000, 7);
  const Content first = content_of(bytes);
  for (size_t shift = 1; shift < 9; ++shift) {
    std::vector<uint8_t> moved(bytes.size() + shift);
    std::copy(bytes.begin(), bytes.end(), moved.begin() + static_cast<ptrdiff_t>(shift));
    EXPECT_EQ(content_of({moved.data() + shift, bytes.size()}), first) << shift;
  }
}

}  // namespace
}  // namespace aster
