#include "sparse/lanes.h"

#include "dtype/convert.h"
#include "dtype/float16.h"

namespace aster::sparse {
namespace {

using dtype::DType;

// How Wide comes of Stored.
enum class Kind : uint8_t { kSame, kBool, kFloat16, kBFloat16, kTable };
template <typename T, typename W, Kind kind>
struct Lane {
  using Stored = T;
  using Wide = W;
  static constexpr Kind kKind = kind;
};

template <typename E>
inline typename E::Wide wide_of(typename E::Stored at, [[maybe_unused]] const RowSums& call) {
  if constexpr (E::kKind == Kind::kBool) {
    return at != 0;
  } else if constexpr (E::kKind == Kind::kFloat16) {
    return dtype::decode_float16(at);
  } else if constexpr (E::kKind == Kind::kBFloat16) {
    return dtype::decode_bfloat16(at);
  } else if constexpr (E::kKind == Kind::kTable) {
    return call.decoded[at];
  } else {
    return at;
  }
}
template <typename E>
inline typename E::Stored stored_of(typename E::Wide value, [[maybe_unused]] const RowSums& call) {
  if constexpr (E::kKind == Kind::kFloat16) {
    return dtype::encode_float16(value);
  } else if constexpr (E::kKind == Kind::kBFloat16) {
    return dtype::encode_bfloat16(value);
  } else if constexpr (E::kKind == Kind::kTable) {
    return static_cast<uint8_t>(dtype::encode(call.dtype, static_cast<double>(value)));
  } else {
    return value;
  }
}
template <typename E>
inline typename E::Wide added(typename E::Wide sum, typename E::Wide a, typename E::Wide b) {
  using Wide = typename E::Wide;
  if constexpr (E::kKind == Kind::kBool) {
    return sum | (a & b);
  } else if constexpr (std::is_floating_point_v<Wide>) {
    return sum + a * b;
  } else {  // in a width that is not promoted to int
    return static_cast<Wide>(sum + static_cast<uint64_t>(a) * b);
  }
}

// ---- In vectors ----

namespace narrow {
#define LANES_BYTES 16
#define LANES_TARGET
#include "sparse/lanes_loop.inc"
}  // namespace narrow

#if defined(__x86_64__)
namespace middle {
#define LANES_BYTES 32
#define LANES_TARGET [[gnu::target("avx2")]]
#include "sparse/lanes_loop.inc"
}  // namespace middle

namespace wide {
#define LANES_BYTES 64
#define LANES_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]
#include "sparse/lanes_loop.inc"
}  // namespace wide
#endif

// ---- Of fewer columns than lanes ----

// One column, in four sums whose order is the vectors' of no CPU.
template <typename E, typename Index>
void one_column(const RowSums& call, int64_t begin, int64_t end) {
  using Stored = typename E::Stored;
  using Wide = typename E::Wide;
  const auto* const offsets = static_cast<const Index*>(call.offsets);
  const auto* const places = static_cast<const Index*>(call.places);
  const auto* const values = static_cast<const Stored*>(call.values);
  const auto* const dense = static_cast<const Stored*>(call.dense);
  auto* const out = static_cast<Stored*>(call.out);
  const auto at = [&](int64_t p) { return wide_of<E>(dense[places[p] * call.dense_stride], call); };
  for (int64_t i = begin; i < end; ++i) {
    Wide sums[4] = {};
    const int64_t last = offsets[i + 1];
    int64_t p = offsets[i];
    for (; last - p >= 4; p += 4) {
      for (int64_t k = 0; k < 4; ++k) {
        sums[k] = added<E>(sums[k], wide_of<E>(values[p + k], call), at(p + k));
      }
    }
    for (int64_t k = 0; p < last; ++p, ++k) {
      sums[k] = added<E>(sums[k], wide_of<E>(values[p], call), at(p));
    }
    const auto join = [](Wide a, Wide b) { return added<E>(a, b, Wide{1}); };
    const Wide sum = join(join(sums[0], sums[1]), join(sums[2], sums[3]));
    out[i * call.out_stride] = stored_of<E>(sum, call);
  }
}

template <typename E, typename Index>
void few_columns(const RowSums& call, int64_t begin, int64_t end) {
  using Stored = typename E::Stored;
  using Wide = typename E::Wide;
  constexpr int64_t kMost = 16;
  const auto* const offsets = static_cast<const Index*>(call.offsets);
  const auto* const places = static_cast<const Index*>(call.places);
  const auto* const values = static_cast<const Stored*>(call.values);
  for (int64_t i = begin; i < end; ++i) {
    Wide sums[kMost] = {};
    for (int64_t p = offsets[i]; p < offsets[i + 1]; ++p) {
      const auto* const row =
          static_cast<const Stored*>(call.dense) + places[p] * call.dense_stride;
      const Wide factor = wide_of<E>(values[p], call);
      for (int64_t j = 0; j < call.columns; ++j) {
        sums[j] = added<E>(sums[j], factor, wide_of<E>(row[j], call));
      }
    }
    auto* const out = static_cast<Stored*>(call.out) + i * call.out_stride;
    for (int64_t j = 0; j < call.columns; ++j) out[j] = stored_of<E>(sums[j], call);
  }
}

template <typename E, typename Index>
RowSumsCode choose(int64_t columns, int32_t bytes) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(typename E::Wide));
  if (columns == 1) return one_column<E, Index>;
#if defined(__x86_64__)
  if (bytes >= 64 && columns * kSize >= 64) return wide::rows<E, Index>;
  if (bytes >= 32 && columns * kSize >= 32) return middle::rows<E, Index>;
#endif
  return bytes >= 16 && columns * kSize >= 16 ? narrow::rows<E, Index> : few_columns<E, Index>;
}

template <typename Index>
RowSumsCode choose_dtype(DType d, int64_t columns, int32_t bytes) {
  switch (dtype::bits(d) + (dtype::is_float(d) ? 1 : 0)) {
    case 8:
      return dtype::is_bool(d) ? choose<Lane<uint8_t, uint8_t, Kind::kBool>, Index>(columns, bytes)
                               : choose<Lane<uint8_t, uint8_t, Kind::kSame>, Index>(columns, bytes);
    case 16:
      return choose<Lane<uint16_t, uint16_t, Kind::kSame>, Index>(columns, bytes);
    case 32:
      return choose<Lane<uint32_t, uint32_t, Kind::kSame>, Index>(columns, bytes);
    case 64:
      return choose<Lane<uint64_t, uint64_t, Kind::kSame>, Index>(columns, bytes);
    case 9:
      return choose<Lane<uint8_t, float, Kind::kTable>, Index>(columns, bytes);
    case 17:
      return d == DType::kFloat16
                 ? choose<Lane<uint16_t, float, Kind::kFloat16>, Index>(columns, bytes)
                 : choose<Lane<uint16_t, float, Kind::kBFloat16>, Index>(columns, bytes);
    case 33:
      return choose<Lane<float, float, Kind::kSame>, Index>(columns, bytes);
    default:
      return choose<Lane<double, double, Kind::kSame>, Index>(columns, bytes);
  }
}

int32_t widest(int32_t vector_bytes) {
  const int32_t most = vector_bytes == 0 ? 64 : vector_bytes;
#if defined(__x86_64__)
  if (most >= 64 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return 64;
  }
  if (most >= 32 && __builtin_cpu_supports("avx2")) return 32;
#endif
  return most < 16 ? most : 16;
}

}  // namespace

RowSumsCode row_sums_for(DType dtype, bool wide_indices, int64_t columns, int32_t vector_bytes) {
  const int32_t bytes = widest(vector_bytes);
  return wide_indices ? choose_dtype<int64_t>(dtype, columns, bytes)
                      : choose_dtype<int32_t>(dtype, columns, bytes);
}

}  // namespace aster::sparse
