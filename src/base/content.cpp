#include "base/content.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace aster {
namespace {

constexpr size_t kLanes = 4, kBlock = kLanes * 16;

// One of several states that take turns, so that their products do not wait for each other.
struct Lane {
  uint64_t x, y;
  void add(const uint8_t* bytes) {
    uint64_t a, b;
    std::memcpy(&a, bytes, 8);
    std::memcpy(&b, bytes + 8, 8);
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(x ^ a) * (y ^ b);
    // What was added stays seen where a factor is 0.
    x = (static_cast<uint64_t>(product) ^ b) + 0x9E3779B97F4A7C15u;
    y = (static_cast<uint64_t>(product >> 64) ^ y) + a;
  }
};

}  // namespace

Content content_of(std::span<const uint8_t> bytes) {
  Lane lanes[kLanes];
  for (uint64_t i = 0; i < kLanes; ++i)
    lanes[i] = {hash_mix(i, bytes.size()), hash_mix(i + kLanes, bytes.size())};
  size_t at = 0;
  for (; at + kBlock <= bytes.size(); at += kBlock) {
    const uint8_t* const block = bytes.data() + at;
    lanes[0].add(block);
    lanes[1].add(block + 16);
    lanes[2].add(block + 32);
    lanes[3].add(block + 48);
  }
  uint8_t rest[kBlock] = {};
  if (at < bytes.size()) std::memcpy(rest, bytes.data() + at, bytes.size() - at);
  Content out{bytes.size(), ~uint64_t{bytes.size()}};
  for (size_t i = 0; i < kLanes; ++i) {
    lanes[i].add(rest + 16 * i);
    out.low = hash_mix(hash_mix(out.low, lanes[i].x), lanes[i].y);
    out.high = hash_mix(hash_mix(out.high, lanes[i].y), lanes[i].x);
  }
  return out;
}

}  // namespace aster
