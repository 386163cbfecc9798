#include "runtime/cpu/sha256.h"

#include <atomic>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace aster::runtime::cpu {
namespace {

alignas(16) constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, 4);
  return __builtin_bswap32(word);
}

void compress_portable(uint32_t* state, const uint8_t* block, size_t blocks) {
  for (; blocks != 0; --blocks, block += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = load_big(block + 4 * i);
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8];
    std::memcpy(v, state, sizeof(v));
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
      const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
      const uint32_t t1 = v[7] + s1 + choice + kRounds[i] + w[i];
      const uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
      const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      for (int j = 7; j > 0; --j) v[j] = v[j - 1];
      v[4] += t1;
      v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; ++i) state[i] += v[i];
  }
}

#if defined(__x86_64__)

// The CPU's SHA instructions: four rounds a step, message words in a ring of four vectors.
[[gnu::target("sha,sse4.1,ssse3")]] void compress_sha_ni(uint32_t* state, const uint8_t* block,
                                                         size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions want the state as (a b e f) and (c d g h), high to low.
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; blocks != 0; --blocks, block += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 16; ++i) {
      __m128i& words = w[i & 3];
      if (i < 4) {
        words = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * i)),
                                 swap);
      } else {
        const __m128i last = w[(i + 3) & 3];
        const __m128i seventh = _mm_alignr_epi8(last, w[(i + 2) & 3], 4);
        words = _mm_sha256msg2_epu32(
            _mm_add_epi32(_mm_sha256msg1_epu32(words, w[(i + 1) & 3]), seventh), last);
      }
      const __m128i sum =
          _mm_add_epi32(words, _mm_load_si128(reinterpret_cast<const __m128i*>(kRounds + 4 * i)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

bool has_sha_ni() {
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && ((b >> 29) & 1) != 0;
}

#endif

using Compress = void (*)(uint32_t* state, const uint8_t* block, size_t blocks);

Compress choose_compress() {
#if defined(__x86_64__)
  if (has_sha_ni()) return compress_sha_ni;
#endif
  return compress_portable;
}

void compress(uint32_t* state, const uint8_t* block, size_t blocks) {
  // Every thread that finds it empty chooses the same; no guard, which would link libstdc++.
  static constinit std::atomic<Compress> chosen{nullptr};
  Compress function = chosen.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = choose_compress();
    chosen.store(function, std::memory_order_relaxed);
  }
  if (blocks != 0) function(state, block, blocks);
}

}  // namespace

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

Sha256& Sha256::add(const void* data, size_t size) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  const size_t held = length_ % 64;
  length_ += size;
  if (held != 0) {
    const size_t room = 64 - held;
    const size_t part = size < room ? size : room;
    if (part != 0) std::memcpy(pending_ + held, bytes, part);
    if (size < room) return *this;
    compress(state_, pending_, 1);
    bytes += part;
    size -= part;
  }
  compress(state_, bytes, size / 64);
  if (size % 64 != 0) std::memcpy(pending_, bytes + size / 64 * 64, size % 64);
  return *this;
}

Sha256& Sha256::add_text(std::string_view text) {
  const uint64_t size = text.size();
  add(&size, sizeof(size));
  return add(text.data(), text.size());
}

Digest Sha256::finish() {
  const uint64_t bits = __builtin_bswap64(length_ * 8);
  const uint8_t padding[64] = {0x80};
  const size_t held = length_ % 64;
  add(padding, held < 56 ? 56 - held : 120 - held);
  add(&bits, sizeof(bits));
  Digest out;
  for (size_t i = 0; i < 8; ++i) {
    const uint32_t word = __builtin_bswap32(state_[i]);
    std::memcpy(out.data() + 4 * i, &word, 4);
  }
  return out;
}

void write_hex(const uint8_t* bytes, size_t count, char* out) {
  constexpr const char* kDigits = "0123456789abcdef";
  for (size_t i = 0; i < count; ++i) {
    out[2 * i] = kDigits[bytes[i] >> 4];
    out[2 * i + 1] = kDigits[bytes[i] & 15];
  }
}

}  // namespace aster::runtime::cpu
