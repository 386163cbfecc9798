// Keccak hashes as graphs on uint64 lanes, [5, 5, messages]: every round is the same computation on
// tables in storage, vectors run over messages.
#include <algorithm>
#include <array>

#include "aster_ml/linalg.h"
#include "device/device.h"
#include "tensor/api.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::alu;
using uop::brief;
using uop::Dims;
using uop::Op;

constexpr Word kLanes = 25, kRounds = 24, kStateBytes = 200;
constexpr Word kMostBlocks = 4096;  // of a message: each is 24 rounds in the graph
constexpr Word kPiece = 4096, kMegabyte = Word{1} << 20;

// Keccak-f[1600], after the specification's summary (keccak.team): the constants of the rounds, and
// the rotation of each lane once the lanes have changed places.
constexpr uint64_t kRoundConstants[kRounds] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808A, 0x8000000080008000,
    0x000000000000808B, 0x0000000080000001, 0x8000000080008081, 0x8000000000008009,
    0x000000000000008A, 0x0000000000000088, 0x0000000080008009, 0x000000008000000A,
    0x000000008000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003,
    0x8000000000008002, 0x8000000000000080, 0x000000000000800A, 0x800000008000000A,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

// Offsets of the rho step follow the walk (x, y) -> (y, 2x + 3y) from (1, 0); pi takes lane (x, y)
// to (y, 2x + 3y).
constexpr std::array<uint64_t, kLanes> moved_rotations() {
  std::array<uint64_t, kLanes> by{};
  Word x = 1, y = 0;
  for (Word t = 0; t < kLanes - 1; ++t) {
    const Word to_x = y, to_y = (2 * x + 3 * y) % 5;
    by[static_cast<size_t>(5 * to_y + to_x)] = static_cast<uint64_t>((t + 1) * (t + 2) / 2 % 64);
    x = to_x;
    y = to_y;
  }
  return by;
}
constexpr std::array<uint64_t, kLanes> kRotations = moved_rotations();

// What each round reads: rotations, and what it adds to the lanes. No two rounds share a table:
// that would make the scheduler look for kernels to merge among all of them.
struct Tables {
  Node rotations[kRounds];
  Node constants[kRounds];
};
Status make_tables(Tables* out, Build& build) {
  constexpr size_t kRow = kLanes * sizeof(uint64_t);
  buffer::Storage* storage;
  ASTER_TRY(buffer::storage_create(&storage, build.context(), 2 * kRounds * kRow, device::kCpu));
  std::memset(storage->data, 0, 2 * kRounds * kRow);
  uint64_t* words = static_cast<uint64_t*>(storage->data);
  const auto row = [&](Word i) {
    return engine::buffer_node_on(build.engine(), storage, 0, i * static_cast<Word>(kRow),
                                  DType::kUInt64, std::array<Word, 3>{5, 5, 1});
  };
  bool made = true;
  for (Word i = 0; i < kRounds; ++i) {
    std::copy(kRotations.begin(), kRotations.end(), words + kLanes * 2 * i);
    words[kLanes * (2 * i + 1)] = kRoundConstants[i];
    out->rotations[i] = row(2 * i);
    out->constants[i] = row(2 * i + 1);
    made = made && out->rotations[i] != nullptr && out->constants[i] != nullptr;
  }
  buffer::storage_release(storage);
  return made ? kOk : last_failure();
}

Expr part(Expr x, size_t axis, Word from, Word count) {
  if (x.n == nullptr) return x;
  Dims start(x.ndim(), 0), step(x.ndim(), 1), size(x.shape());
  start[axis] = from;
  size[axis] = count;
  return {x.g, x.g->slice(x.n, start, step, size)};
}
Expr joined(Expr a, Expr b, size_t axis) {
  if (a.n == nullptr || b.n == nullptr) return {a.g, nullptr};
  return {a.g, a.g->cat(std::array{a.n, b.n}, static_cast<int64_t>(axis))};
}
// y[.., i, ..] = x[.., (i + by) mod 5, ..]
Expr rolled(Expr x, size_t axis, Word by) {
  return joined(part(x, axis, by, 5 - by), part(x, axis, 0, by), axis);
}
Expr keep(Expr x) { return {x.g, x.g->contiguous(x.n)}; }
Expr rotated(Expr x, Expr by) {
  // A rotation by 0 shifts by 64, which gives 0.
  return alu(Op::kShl, x, by) | alu(Op::kShr, x, 64.0 - by);
}

// y[i, j] = x[j, (j + 3i) mod 5]: the lanes' new places. In four copies of x side by side that is
// element 21 j + 3 i.
Expr permuted(Expr x) {
  if (x.n == nullptr) return x;
  Graph& g = *x.g;
  const Word messages = x.shape()[2];
  const Expr twice = joined(x, x, 1);
  const Expr row = joined(twice, twice, 1).reshape(std::array{Word{100}, messages});
  const Expr all{&g, g.window(row.n, 0, 5, 3, 21)};
  return part(all, 0, 0, 5);
}

Expr round(Expr a, Node rotations, Node constants) {
  Graph& g = *a.g;
  const auto row = [&](Word y) { return part(a, 0, y, 1); };
  const Expr parity = row(0) ^ row(1) ^ row(2) ^ row(3) ^ row(4);
  const Expr one = parity.like(1);
  const Expr mixed = a ^ (rolled(parity, 1, 4) ^ rotated(rolled(parity, 1, 1), one));
  const Expr b = rotated(permuted(mixed), Expr{&g, rotations});
  return keep(b ^ (~rolled(b, 1, 1) & rolled(b, 1, 2)) ^ Expr{&g, constants});
}

// The bytes of x, its last axis longer for it.
Expr bytes_of(Graph& g, Node x) {
  x = strong(g, x);
  if (x == nullptr) return {&g, nullptr};
  const size_t size = dtype::size(x->dtype);
  if (size == 1) {
    return {&g, x->dtype == DType::kBool ? g.cast(x, DType::kUInt8) : g.bitcast(x, DType::kUInt8)};
  }
  const DType bits = size == 2 ? DType::kUInt16 : size == 4 ? DType::kUInt32 : DType::kUInt64;
  Dims column(x->shape()), wide(x->shape()), result(x->shape());
  column.push(1);
  wide.push(static_cast<Word>(size));
  result[x->ndim - 1u] *= static_cast<Word>(size);
  const Expr shift = iota(g, bits, wide, x->ndim) * 8.0;
  return alu(Op::kShr, Expr{&g, g.bitcast(x, bits)}.reshape(column), shift)
      .cast(DType::kUInt8)
      .reshape(result);
}

struct Sponge {
  Word rate, suffix;
};

// Messages [count, n] as lanes [rate / 8, blocks, count]: the suffix behind them, then zeros up to
// the last bit of a block.
Expr absorbable(Expr x, const Sponge& sponge) {
  if (x.n == nullptr) return x;
  Graph& g = *x.g;
  const Word count = x.shape()[0], length = x.shape()[1], rate = sponge.rate;
  const Word padding = rate - length % rate, blocks = (length + padding) / rate;
  const auto filled = [&](Word value, Word width) {
    return Expr{&g, g.constant_int(DType::kUInt8, value, std::array{count, width})};
  };
  Expr all = joined(x, filled(padding == 1 ? sponge.suffix ^ 0x80 : sponge.suffix, 1), 1);
  if (padding > 2) all = joined(all, filled(0, padding - 2), 1);
  if (padding > 1) all = joined(all, filled(0x80, 1), 1);
  const std::array<Word, 4> split{count, blocks, rate / 8, 8};
  const Expr shift = iota(g, DType::kUInt64, split, 3) * 8.0;
  const Expr lanes =
      reduce(Op::kOr, alu(Op::kShl, keep(all).reshape(split).cast(DType::kUInt64), shift),
             std::array<Word, 1>{3});
  return keep(
      lanes.reshape(std::array{count, blocks, rate / 8}).permute(std::array<Word, 3>{2, 1, 0}));
}

// Messages [count, n] uint8 to hashes [count, (200 - rate) / 2].
Expr hashed(Expr x, const Sponge& sponge, const Tables& tables) {
  const Expr lanes = absorbable(x, sponge);
  if (lanes.n == nullptr) return lanes;
  Graph& g = *x.g;
  const Word taken = lanes.shape()[0], blocks = lanes.shape()[1], count = lanes.shape()[2];
  const std::array<Word, 3> shape{5, 5, count};
  const Expr none{&g, g.constant_int(DType::kUInt64, 0, std::array{kLanes - taken, count})};
  Expr state{&g, g.constant_int(DType::kUInt64, 0, shape)};
  for (Word block = 0; block < blocks && state.n != nullptr; ++block) {
    const Expr read = part(lanes, 1, block, 1).reshape(std::array{taken, count});
    state = keep(state ^ joined(read, none, 0).reshape(shape));
    for (Word i = 0; i < kRounds; ++i)
      state = round(state, tables.rotations[i], tables.constants[i]);
  }
  const Word bytes = (kStateBytes - sponge.rate) / 2, words = (bytes + 7) / 8;
  const Expr squeezed = part(state.reshape(std::array{kLanes, count}), 0, 0, words)
                            .permute(std::array<Word, 2>{1, 0});
  return part(bytes_of(g, squeezed.n), 1, 0, bytes);
}

Status keccak(Node* out, Build& build, Node x, const Sponge& sponge) {
  Graph& g = build.graph();
  if (x->ndim == 0) return ASTER_FAIL(kSHAPE, "keccak of %s: an axis is needed", brief(x).text);
  Tables tables;
  ASTER_TRY(make_tables(&tables, build));
  const Expr bytes = bytes_of(g, x);
  if (bytes.n == nullptr) return last_failure();
  Dims shape(bytes.shape());
  const Word length = shape[shape.size() - 1];
  if (length / sponge.rate >= kMostBlocks) {
    return ASTER_FAIL(kRANGE, "keccak of %s: a message may have %lld bytes", brief(x).text,
                      static_cast<long long>(kMostBlocks * sponge.rate - 1));
  }
  Word count = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) count *= shape[i];
  const Expr all = hashed(bytes.reshape(std::array{count, length}), sponge, tables);
  shape[shape.size() - 1] = (kStateBytes - sponge.rate) / 2;
  *out = all.reshape(shape).n;
  return *out == nullptr ? last_failure() : kOk;
}

struct Named {
  const char* name;
  Sponge sponge;
};
constexpr Named kNamed[] = {
    {"sha3_224", {144, 0x06}}, {"sha3_256", {136, 0x06}}, {"shake_128", {168, 0x1F}}};
constexpr Sponge kShake128 = kNamed[2].sponge;

// Bytes [n] followed by zeros up to length.
Expr extended(Expr x, Word length) {
  if (x.n == nullptr || x.shape()[0] == length) return x;
  const Word missing = length - x.shape()[0];
  return joined(x, {x.g, x.g->constant_int(DType::kUInt8, 0, Dims(1, missing))}, 0);
}
// Megabytes [count * 2^20] to hashes [count * 16].
Expr hashed_megabytes(Expr x, Word count, const Tables& tables) {
  const Expr pieces =
      hashed(x.reshape(std::array{count * kMegabyte / kPiece, kPiece}), kShake128, tables);
  const Expr whole = hashed(pieces.reshape(std::array{count, kPiece}), kShake128, tables);
  return whole.reshape(Dims(1, count * 16));
}

Status hash(Node* out, Build& build, Node x) {
  Graph& g = build.graph();
  Tables tables;
  ASTER_TRY(make_tables(&tables, build));
  const Node flat = reshape(g, x, Dims(1, x->count()));
  if (flat == nullptr) return last_failure();
  Expr data = bytes_of(g, flat);
  if (data.n == nullptr) return last_failure();
  Word count = (data.shape()[0] + kMegabyte - 1) / kMegabyte;
  while (count > 1 && data.n != nullptr) {
    data = hashed_megabytes(extended(data, count * kMegabyte), count, tables);
    count = (count + 65535) / 65536;
  }
  *out = hashed_megabytes(extended(data, kMegabyte), 1, tables).n;
  return *out == nullptr ? last_failure() : kOk;
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_lazy_keccak(aster_ml_lazy* out, const aster_ml_lazy* x, const char* name) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  const std::string_view wanted = name == nullptr ? "sha3_256" : name;
  for (const Named& row : kNamed) {
    if (wanted != row.name) continue;
    Node result;
    ASTER_TRY(sized::beside_last(build, x, 1));
    ASTER_TRY(keccak(&result, build, node(x), row.sponge));
    return build.finish_beside(result);
  }
  return ASTER_FAIL(kNOT_FOUND, "no Keccak hash \"%s\"", name);
}

int32_t aster_ml_lazy_keccak_rate(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t rate,
                                  int64_t suffix) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (rate < 8 || rate >= kStateBytes || rate % 8 != 0 || suffix < 1 || suffix > 127) {
    return ASTER_FAIL(kRANGE, "Keccak with rate %lld, suffix %lld", static_cast<long long>(rate),
                      static_cast<long long>(suffix));
  }
  Node result;
  ASTER_TRY(sized::beside_last(build, x, 1));
  ASTER_TRY(keccak(&result, build, node(x), {rate, suffix}));
  return build.finish_beside(result);
}

int32_t aster_ml_lazy_hash(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Node result;
  ASTER_TRY(hash(&result, build, node(x)));
  return build.finish(result);
}
