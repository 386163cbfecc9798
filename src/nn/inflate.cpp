#include "nn/inflate.h"

#include <array>
#include <cstring>

namespace aster::nn {
namespace {

constexpr int kMostBits = 15;  // of a code
constexpr int kFastBits = 9;   // decoded by one look into a table

// Bits from the lowest of a byte on. Past the end there are zeros, and over() is true.
class Bits {
 public:
  explicit Bits(std::span<const uint8_t> in) : in_(in) {}
  uint32_t peek(int count) {
    while (held_ < count) {
      word_ |= static_cast<uint64_t>(at_ < in_.size() ? in_[at_] : 0) << held_;
      ++at_;
      held_ += 8;
    }
    return static_cast<uint32_t>(word_ & ((uint64_t{1} << count) - 1));
  }
  void drop(int count) {
    word_ >>= count;
    held_ -= count;
  }
  uint32_t take(int count) {
    const uint32_t value = peek(count);
    drop(count);
    return value;
  }
  void align() { drop(held_ % 8); }
  // Bytes begun.
  size_t used() const { return at_ - static_cast<size_t>(held_ / 8); }
  bool over() const { return used() > in_.size(); }
  // Whole bytes, after align.
  bool copy(uint8_t* to, size_t count) {
    const size_t from = used();
    if (from > in_.size() || count > in_.size() - from) return false;
    if (count != 0) std::memcpy(to, in_.data() + from, count);
    at_ = from + count;
    held_ = 0;
    word_ = 0;
    return true;
  }

 private:
  std::span<const uint8_t> in_;
  size_t at_ = 0;
  uint64_t word_ = 0;
  int held_ = 0;
};

// A canonical Huffman code.
class Code {
 public:
  // False where the lengths make no code. A code that is not complete is one only with a single
  // symbol, or with none.
  bool build(std::span<const uint8_t> lengths) {
    count_ = {};
    for (const uint8_t length : lengths) ++count_[length];
    const bool lone = count_[0] + 1u >= lengths.size();
    count_[0] = 0;
    std::array<uint16_t, kMostBits + 2> next{};
    int left = 1;
    for (size_t length = 1; length <= kMostBits; ++length) {
      left = left * 2 - count_[length];
      if (left < 0) return false;
      next[length + 1] = static_cast<uint16_t>(next[length] + count_[length]);
    }
    if (left > 0 && !lone) return false;
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      if (lengths[symbol] != 0) symbols_[next[lengths[symbol]]++] = static_cast<uint16_t>(symbol);
    }
    fill_fast();
    return true;
  }

  // -1: no symbol has the code that comes.
  int decode(Bits& bits) const {
    const uint16_t fast = fast_[bits.peek(kFastBits)];
    if (fast != 0) {
      bits.drop(fast >> 12);
      return fast & 0xFFF;
    }
    int code = 0, first = 0, index = 0;
    const uint32_t window = bits.peek(kMostBits);
    for (int length = 1; length <= kMostBits; ++length) {
      code |= static_cast<int>(window >> (length - 1) & 1);
      const int count = count_[static_cast<size_t>(length)];
      if (code - first < count) {
        bits.drop(length);
        return symbols_[static_cast<size_t>(index + code - first)];
      }
      index += count;
      first = (first + count) * 2;
      code *= 2;
    }
    return -1;
  }

 private:
  // Every continuation of the short codes: length and symbol.
  void fill_fast() {
    fast_ = {};
    uint32_t code = 0;
    size_t index = 0;
    for (uint32_t length = 1; length <= kFastBits; ++length, code *= 2) {
      for (int i = 0; i < count_[length]; ++i, ++code, ++index) {
        uint32_t reversed = 0;
        for (uint32_t bit = 0; bit < length; ++bit)
          reversed |= (code >> bit & 1) << (length - 1 - bit);
        for (uint32_t at = reversed; at < (1u << kFastBits); at += 1u << length) {
          fast_[at] = static_cast<uint16_t>(length << 12 | symbols_[index]);
        }
      }
    }
  }
  std::array<uint16_t, kMostBits + 1> count_;
  std::array<uint16_t, 288> symbols_;
  std::array<uint16_t, 1 << kFastBits> fast_;
};

constexpr size_t kLiterals = 286, kDistances = 30, kEnd = 256;

// Base and extra bits of the symbols that stand for lengths (from 257) and distances.
struct Step {
  uint16_t base;
  uint8_t bits;
};
constexpr auto kLengths = [] {
  std::array<Step, 29> out{};
  uint16_t base = 3;
  for (size_t i = 0; i < 28; ++i) {
    out[i] = {base, static_cast<uint8_t>(i < 8 ? 0 : i / 4 - 1)};
    base = static_cast<uint16_t>(base + (1 << out[i].bits));
  }
  out[28] = {258, 0};
  return out;
}();
constexpr auto kSpans = [] {
  std::array<Step, kDistances> out{};
  uint32_t base = 1;
  for (size_t i = 0; i < kDistances; ++i) {
    out[i] = {static_cast<uint16_t>(base), static_cast<uint8_t>(i < 4 ? 0 : i / 2 - 1)};
    base += 1u << out[i].bits;
  }
  return out;
}();

class Inflater {
 public:
  Inflater(std::span<uint8_t> out, std::span<const uint8_t> in) : bits_(in), out_(out) {}

  Status run(size_t* used) {
    for (bool last = false; !last;) {
      last = bits_.take(1) != 0;
      const uint32_t kind = bits_.take(2);
      const bool fine = kind == 0   ? stored()
                        : kind == 1 ? fixed() && block()
                        : kind == 2 ? dynamic() && block()
                                    : false;
      if (!fine || bits_.over()) return broken();
    }
    if (done_ != out_.size()) return broken();
    *used = bits_.used();
    return kOk;
  }

 private:
  Status broken() const {
    return ASTER_FAIL(kFORMAT, "a damaged deflate stream: %zu of %zu bytes came of it", done_,
                      out_.size());
  }

  bool stored() {
    bits_.align();
    const uint32_t length = bits_.take(16), complement = bits_.take(16);
    if ((length ^ complement) != 0xFFFF || length > out_.size() - done_) return false;
    if (!bits_.copy(out_.data() + done_, length)) return false;
    done_ += length;
    return true;
  }

  bool fixed() {
    std::array<uint8_t, 288> lengths;
    for (size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    }
    std::array<uint8_t, 32> spans;
    spans.fill(5);
    return literals_.build(lengths) && distances_.build(spans);
  }

  bool dynamic() {
    constexpr uint8_t kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const size_t literals = bits_.take(5) + 257, distances = bits_.take(5) + 1;
    const size_t codes = bits_.take(4) + 4;
    if (literals > kLiterals || distances > kDistances) return false;
    std::array<uint8_t, kLiterals + kDistances> lengths{};
    for (size_t i = 0; i < codes; ++i) lengths[kOrder[i]] = static_cast<uint8_t>(bits_.take(3));
    if (!literals_.build({lengths.data(), std::size(kOrder)})) return false;
    for (size_t i = 0; i < literals + distances;) {
      const int symbol = literals_.decode(bits_);
      if (symbol < 0 || bits_.over()) return false;
      if (symbol < 16) {
        lengths[i++] = static_cast<uint8_t>(symbol);
        continue;
      }
      if (symbol == 16 && i == 0) return false;
      const uint8_t repeated = symbol == 16 ? lengths[i - 1] : 0;
      size_t count = symbol == 16   ? 3 + bits_.take(2)
                     : symbol == 17 ? 3 + bits_.take(3)
                                    : 11 + bits_.take(7);
      if (count > literals + distances - i) return false;
      for (; count > 0; --count) lengths[i++] = repeated;
    }
    if (lengths[kEnd] == 0) return false;
    return literals_.build({lengths.data(), literals}) &&
           distances_.build({lengths.data() + literals, distances});
  }

  bool block() {
    for (;;) {
      const int symbol = literals_.decode(bits_);
      if (symbol < 0 || bits_.over()) return false;
      if (symbol == kEnd) return true;
      if (symbol < static_cast<int>(kEnd)) {
        if (done_ == out_.size()) return false;
        out_[done_++] = static_cast<uint8_t>(symbol);
        continue;
      }
      const size_t which = static_cast<size_t>(symbol) - kEnd - 1;
      if (which >= kLengths.size()) return false;
      const size_t length = kLengths[which].base + bits_.take(kLengths[which].bits);
      const int far = distances_.decode(bits_);
      if (far < 0 || far >= static_cast<int>(kDistances)) return false;
      const Step& span = kSpans[static_cast<size_t>(far)];
      const size_t distance = span.base + bits_.take(span.bits);
      if (distance > done_ || length > out_.size() - done_) return false;
      // One byte after the other: the piece may overlap itself.
      for (size_t i = 0; i < length; ++i, ++done_) out_[done_] = out_[done_ - distance];
    }
  }

  Bits bits_;
  std::span<uint8_t> out_;
  size_t done_ = 0;
  Code literals_, distances_;
};

constexpr auto kCrc = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value & 1) != 0 ? value >> 1 ^ 0xEDB88320 : value >> 1;
    table[i] = value;
  }
  return table;
}();

}  // namespace

Status inflate(std::span<uint8_t> out, std::span<const uint8_t> in, size_t* used) {
  return Inflater(out, in).run(used);
}

uint32_t crc32(std::span<const uint8_t> bytes) {
  uint32_t value = 0xFFFFFFFF;
  for (const uint8_t byte : bytes) value = value >> 8 ^ kCrc[(value ^ byte) & 0xFF];
  return ~value;
}

}  // namespace aster::nn
