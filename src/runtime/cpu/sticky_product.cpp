#include "runtime/cpu/sticky_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace aster::runtime::cpu::sticky {
namespace {

namespace narrow {
using Left = int16_t;
using Right = int16_t;
#define LOOPS_TARGET
#include "runtime/cpu/sticky_loops.inc"
}  // namespace narrow

#if defined(__x86_64__)
namespace middle {
using Left = int16_t;
using Right = int16_t;
#define LOOPS_TARGET [[gnu::target("avx2")]]
#include "runtime/cpu/sticky_loops.inc"
}  // namespace middle

namespace wide {
using Left = int8_t;
using Right = uint8_t;
#define LOOPS_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]
#include "runtime/cpu/sticky_loops.inc"
}  // namespace wide
#endif

// No two share a divisor.
constexpr int32_t kModuli[] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227,
                               223, 217, 211, 199, 197, 193, 191, 181, 179};
constexpr int64_t kMostModuli = std::size(kModuli);
static_assert(kMostModuli <= kMostPlanes);

void multiply(int64_t* limbs, int64_t by) {
  int64_t carry = 0;
  for (int64_t d = 0; d < kLimbs; ++d) {
    const int64_t t = limbs[d] * by + carry;
    const bool last = d + 1 == kLimbs;
    limbs[d] = last ? t : t & ((int64_t{1} << kLimbBits) - 1);
    carry = t >> kLimbBits;
  }
}

int32_t balanced(int64_t x, int32_t modulus) {
  const auto residue = static_cast<int32_t>(x % modulus);
  return residue > modulus / 2 ? residue - modulus : residue;
}

// How many moduli have a product above 2^bits.
int64_t moduli_for(int64_t bits) {
  double reached = 1;
  int64_t count = 0;
  for (; count < kMostModuli && reached < std::ldexp(1.0, static_cast<int>(bits)); ++count)
    reached *= kModuli[count];
  return count;
}

void write_modulus(Planes* out, int64_t p) {
  const int32_t modulus = kModuli[p];
  out->moduli[p] = modulus;
  out->inverses[p] = 1.0f / static_cast<float>(modulus);
  int64_t others = 1;
  std::fill_n(out->limbs[p], kLimbs, 0);
  out->limbs[p][0] = 1;
  for (int64_t i = 0; i < out->count; ++i) {
    if (i == p) continue;
    others = others * kModuli[i] % modulus;
    multiply(out->limbs[p], kModuli[i]);
  }
  int64_t inverse = 1;
  while (others * inverse % modulus != 1) ++inverse;
  for (int64_t d = 0, power = 1; d < kParts; ++d, power = power * 65536 % modulus) {
    out->right_weights[p][d] = balanced(power, modulus);
    out->left_weights[p][d] = balanced(power * inverse, modulus);
  }
}

}  // namespace

Planes planes_for(DType stored, int64_t terms) {
  Planes out = {};
  const auto bits = static_cast<int64_t>(dtype::bits(stored));
  if (bits <= 16) {
    out.left = out.right = bits / 8;
    out.count = out.left * out.right;
    return out;
  }
  // A sum lies within a fourth of the moduli's product, which the float that tells its multiple
  // needs.
  out.count =
      moduli_for(2 * bits + static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(terms - 1))));
  out.left = out.right = out.count;
  for (int64_t p = 0; p < out.count; ++p) write_modulus(&out, p);
  out.all[0] = 1;
  for (int64_t p = 0; p < out.count; ++p) multiply(out.all, kModuli[p]);
  return out;
}

Code code_for(DType stored, int32_t vector_bytes) {
  const flt::Tile pairs = flt::tile_for(std::min(vector_bytes, 32)).tile;
#if defined(__x86_64__)
  if (vector_bytes >= 64) {
    if (const flt::Tile bytes = flt::byte_tile_for(64); bytes != nullptr) {
      Code code = wide::code_of(stored, bytes);
      if (vector_bytes >= kTileBytes) code.amx = amx_tile();
      return code;
    }
  }
  if (vector_bytes >= 32) return middle::code_of(stored, pairs);
#endif
  return narrow::code_of(stored, pairs);
}

}  // namespace aster::runtime::cpu::sticky
