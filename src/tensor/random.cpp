// Random numbers: threefry2x32 of a key (device constant, seed) and a counter of words drawn, as
// tinygrad lays them out.
//
// Counter and key are state in storage. A draw takes its part of the counter at once, on the host,
// and gives the graph a key of its own as a leaf (engine.h).
#include "tensor/random.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <numbers>

#include "aster_ml/random.h"
#include "device/device.h"
#include "engine/engine.h"
#include "runtime/cpu/sha256.h"
#include "tensor/state.h"

namespace aster::tensor {
namespace {

using engine::RandomState;
using uop::alu;
using uop::Dims;
using uop::Op;

constexpr int64_t kMostWords = INT64_C(1) << 40;

// What a device draws from. Devices are numbered as they are first drawn on after a seed was set;
// until then one keeps the number that it had, for replays.
struct Source {
  int32_t device;
  uint32_t number;
  bool numbered;
  buffer::Storage* storage;  // a RandomState; internal, so that the context may end
};

struct Random {
  explicit Random(Heap& heap) : sources(heap) {}
  uint64_t seed = 0;
  uint32_t numbered = 0;
  Vec<Source> sources;
};

// Half of the key: the last 32 bits of SHA-256 of the device's number, as four bytes.
uint64_t device_key(uint32_t number) {
  const uint8_t bytes[4] = {static_cast<uint8_t>(number >> 24), static_cast<uint8_t>(number >> 16),
                            static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
  const runtime::cpu::Digest digest = runtime::cpu::Sha256().add(bytes, sizeof(bytes)).finish();
  uint64_t key = 0;
  for (size_t i = digest.size() - 4; i < digest.size(); ++i) key = key << 8 | digest[i];
  return key;
}

void start(const Random& random, const Source& source) {
  RandomState& state = *static_cast<RandomState*>(source.storage->data);
  std::atomic_ref(state.counter).store(0);
  std::atomic_ref(state.key).store(device_key(source.number) | (random.seed & 0xFFFFFFFFu) << 32);
}

void set_seed(Random& random, uint64_t seed) {
  random.seed = seed;
  random.numbered = 0;
  for (Source& source : random.sources) {
    source.numbered = false;
    start(random, source);
  }
}

void destroy_random(Context& context, void* state) {
  Random* random = static_cast<Random*>(state);
  for (const Source& source : random->sources) buffer::storage_release(source.storage);
  context.heap().destroy(random);
}

Status random_of(Random** out, Context& context) {
  *out = static_cast<Random*>(part_of(context, Part::kRandom));
  if (*out != nullptr) return kOk;
  Random* random = context.heap().create<Random>(context.heap());
  if (random == nullptr) return out_of_memory(sizeof(Random));
  random->seed = context.options().seed;
  const Status set = set_part(context, Part::kRandom, random, destroy_random);
  if (!set.ok()) {
    context.heap().destroy(random);
    return set;
  }
  *out = random;
  return kOk;
}

// The source of a device, numbered.
Status source_of(Source** out, Context& context, int32_t device) {
  Random* random;
  ASTER_TRY(random_of(&random, context));
  *out = nullptr;
  for (Source& source : random->sources) {
    if (source.device == device) *out = &source;
  }
  if (*out == nullptr) {
    ASTER_TRY(random->sources.reserve(random->sources.size() + 1));
    Source made{device, ~0u, false, nullptr};
    ASTER_TRY(buffer::storage_create(&made.storage, context, sizeof(RandomState), device::kCpu));
    buffer::storage_make_internal(made.storage);
    ASTER_TRY(random->sources.push(made));
    *out = &random->sources.back();
  }
  Source& source = **out;
  if (source.numbered) return kOk;
  source.numbered = true;
  const uint32_t number = random->numbered++;
  if (source.number == number) return kOk;
  source.number = number;
  start(*random, source);
  return kOk;
}

// count words, uint32. Each call of threefry gives two: the first half of the result, then the
// second.
Status bits(Node* out, engine::Engine& engine, int64_t count, int32_t device) {
  if (count < 0 || count > kMostWords) {
    return ASTER_FAIL(kRANGE, "%lld random words", static_cast<long long>(count));
  }
  Graph& g = engine::graph_of(engine);
  if (count == 0) {
    *out = g.constant_int(DType::kUInt32, 0, Dims(1, 0));
    return *out == nullptr ? last_failure() : kOk;
  }
  Node keys;
  if (device == 0) device = engine.device;
  Source* source;
  ASTER_TRY(source_of(&source, engine.context, device));
  ASTER_TRY(
      engine::draw_random(&keys, engine, source->storage, device, static_cast<uint64_t>(count)));
  constexpr int64_t kChunk = engine::kRandomChunk;
  Vec<Node> chunks(engine.context.heap());
  for (int64_t done = 0; done < count; done += kChunk) {
    const int64_t size = std::min(count - done, kChunk), half = (size + 1) / 2;
    const auto word = [&](uint64_t value) {
      return Expr{&g, g.constant_word(DType::kUInt64, std::bit_cast<Word>(value), Dims(1, 1))};
    };
    const Expr key{&g, g.slice(keys, Dims(1, done / kChunk), Dims(1, 1), Dims(1, 1))};
    const Expr low{&g, g.iota(DType::kUInt64, half)};
    const Expr high = alu(Op::kShl, low + word(static_cast<uint64_t>(half)), word(32));
    const Expr both = alu(Op::kThreefry, low | high, key);
    const Node parts[] = {both.cast(DType::kUInt32).n,
                          alu(Op::kShr, both, word(32)).cast(DType::kUInt32).n};
    if (parts[0] == nullptr || parts[1] == nullptr) return last_failure();
    const Node chunk = g.slice(g.cat(parts, 0), Dims(1, 0), Dims(1, 1), Dims(1, size));
    if (chunk == nullptr) return last_failure();
    ASTER_TRY(chunks.push(chunk));
  }
  *out = g.cat({chunks.data(), chunks.size()}, 0);
  return *out == nullptr ? last_failure() : kOk;
}

// How a float dtype is made of random bits: of an unsigned integer of its size, with the bits
// of 1.0.
struct Layout {
  DType dtype, bits;
  int mantissa;
  int64_t one;
};
constexpr Layout kLayouts[] = {
    {DType::kFp8E4M3, DType::kUInt8, 3, 0x38},
    {DType::kFp8E4M3Fnuz, DType::kUInt8, 3, 0x40},
    {DType::kFp8E5M2, DType::kUInt8, 2, 0x3C},
    {DType::kFp8E5M2Fnuz, DType::kUInt8, 2, 0x40},
    {DType::kFloat16, DType::kUInt16, 10, 0x3C00},
    {DType::kBFloat16, DType::kUInt16, 7, 0x3F80},
    {DType::kFloat32, DType::kUInt32, 23, 0x3F800000},
    {DType::kFloat64, DType::kUInt64, 52, INT64_C(0x3FF0000000000000)},
};

// Words [n] as elements of another size, in memory order: [n * 4 / size].
Expr regroup(Expr words, DType to) {
  const size_t size = dtype::size(to);
  if (words.n == nullptr || size == 4) return words;
  const int64_t n = words.n->count();
  if (size == 8) {
    const Expr pairs = words.reshape(std::array<Word, 2>{n / 2, 2}).cast(to);
    const auto half = [&](Word column) {
      return Expr{words.g,
                  words.g->slice(pairs.n, std::array<Word, 2>{0, column}, std::array<Word, 2>{1, 1},
                                 std::array<Word, 2>{n / 2, 1})};
    };
    return (half(0) | alu(Op::kShl, half(1), 32.0)).reshape(Dims(1, n / 2));
  }
  const Word parts = static_cast<Word>(4 / size);
  const std::array<Word, 2> shape{n, parts};
  const Expr shift = iota(*words.g, DType::kUInt32, shape, 1) * static_cast<double>(8 * size);
  return alu(Op::kShr, words.reshape(std::array<Word, 2>{n, 1}), shift)
      .cast(to)
      .reshape(Dims(1, n * parts));
}

Status count_elements(int64_t* out, Words shape) {
  int64_t n = 1;
  bool zero = false;
  for (Word dim : shape) {
    if (dim < 0)
      return ASTER_FAIL(kRANGE, "a negative dimension in %s", uop::brief_shape(shape).text);
    zero |= dim == 0;
  }
  for (Word dim : shape) {
    if (!checked_mul(n, std::max<Word>(dim, 1), &n) || (!zero && n > kMostWords)) {
      return ASTER_FAIL(kRANGE, "random numbers of shape %s", uop::brief_shape(shape).text);
    }
  }
  *out = zero ? 0 : n;
  return kOk;
}

}  // namespace

Status uniform(Node* out, engine::Engine& engine, DType dtype, Words shape, int32_t device) {
  const Layout* layout = nullptr;
  for (const Layout& row : kLayouts) {
    if (row.dtype == dtype) layout = &row;
  }
  if (layout == nullptr)
    return ASTER_FAIL(kDTYPE, "random numbers of %s: a float dtype is needed", dtype::name(dtype));
  int64_t count;
  ASTER_TRY(count_elements(&count, shape));
  const int64_t size = static_cast<int64_t>(dtype::size(dtype));
  int64_t words = (count * size + 3) / 4;
  Node drawn;
  ASTER_TRY(bits(&drawn, engine, words, device));
  Graph& g = engine::graph_of(engine);
  const Expr all = regroup({&g, drawn}, layout->bits);
  if (all.n == nullptr) return last_failure();
  const Expr taken{&g, g.slice(all.n, Dims(1, 0), Dims(1, 1), Dims(1, count))};
  const double shift = static_cast<double>(dtype::bits(dtype)) - layout->mantissa;
  const Expr one{&g, g.constant_int(layout->bits, layout->one, Dims(1, count))};
  const Expr mantissa = alu(Op::kShr, taken, shift) | one;
  const Expr unit = Expr{&g, g.bitcast(mantissa.n, dtype)} - 1.0;
  *out = unit.reshape(shape).n;
  return *out == nullptr ? last_failure() : kOk;
}

namespace {

// Numbers that are drawn once, however often they are read.
Status keep(Node* out, Expr numbers) {
  *out = numbers.n == nullptr ? nullptr : numbers.g->contiguous(numbers.n);
  return *out == nullptr ? last_failure() : kOk;
}

// Standard normal numbers, computed wherever they are read.
Status gaussian(Node* out, engine::Engine& engine, DType dtype, Words shape, int32_t device) {
  if (!dtype::is_float(dtype) || dtype::is_wide(dtype)) {
    return ASTER_FAIL(kDTYPE, "random numbers of %s: a float dtype is needed", dtype::name(dtype));
  }
  Dims two;
  two.push(2);
  for (Word dim : shape) two.push(dim);
  Node drawn;
  ASTER_TRY(uniform(&drawn, engine, DType::kFloat32, two, device));
  Graph& g = engine::graph_of(engine);
  // cos(2 pi u) as sin(pi / 2 - 2 pi u), the angle folded into the half turn around 0 with pi
  // rounded to float32: the same roundings as the oracle's, which near the zeros of the cosine are
  // what counts.
  constexpr double kPi = std::numbers::pi;
  const Expr turn{&g, select(g, drawn, 0, 0)};
  if (turn.n == nullptr) return last_failure();
  const Expr whole = alu(Op::kMulAcc, turn, turn.like(-2 * kPi), turn.like(kPi / 2));
  const Expr angle = where(whole < -kPi / 2, -kPi - whole, whole);
  const Expr other{&g, select(g, drawn, 0, 1)};
  const Expr radius = sqrt(log2(1.0 - other) * std::numbers::ln2 * -2.0);
  *out = (sin(angle) * radius).cast(dtype).n;
  return *out == nullptr ? last_failure() : kOk;
}

}  // namespace

Status rand(Node* out, engine::Engine& engine, DType dtype, Words shape, int32_t device) {
  ASTER_TRY(uniform(out, engine, dtype, shape, device));
  return keep(out, {&engine::graph_of(engine), *out});
}

Status normal(Node* out, engine::Engine& engine, DType dtype, Words shape, int32_t device) {
  ASTER_TRY(gaussian(out, engine, dtype, shape, device));
  return keep(out, {&engine::graph_of(engine), *out});
}

Status uniform_between(Node* out, engine::Engine& engine, double low, double high, DType dtype,
                       Words shape) {
  if (!(low < high)) return ASTER_FAIL(kRANGE, "uniform numbers from %g to %g", low, high);
  if (!dtype::is_float(dtype) || dtype::is_weak(dtype) || dtype::is_wide(dtype)) {
    return ASTER_FAIL(kDTYPE, "uniform numbers of %s: a float dtype is needed", dtype::name(dtype));
  }
  Graph& g = engine::graph_of(engine);
  ASTER_TRY(uniform(out, engine, g.defaults.real, shape));
  const Expr unit{&g, *out};
  // What needs no cast is rounded once, as the oracle's compiler has it.
  const Expr y = dtype == unit.dtype()
                     ? alu(Op::kMulAcc, unit, unit.like(high - low), unit.like(low))
                     : (unit * (high - low)).cast(dtype) + low;
  return keep(out, y);
}

Status normal_around(Node* out, engine::Engine& engine, double mean, double std, DType dtype,
                     Words shape) {
  if (!(std >= 0)) return ASTER_FAIL(kRANGE, "normal numbers with deviation %g", std);
  ASTER_TRY(gaussian(out, engine, dtype, shape, 0));
  return keep(out, Expr{&engine::graph_of(engine), *out} * std + mean);
}

Status request(Request* out, int32_t dtype, DType fallback, size_t ndim, const int64_t* shape) {
  ASTER_TRY(dtype_argument(&out->dtype, dtype, fallback));
  return shape_argument(&out->shape, ndim, shape);
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_lazy_manual_seed(const aster_ml_context* context, uint64_t seed) {
  ASTER_API();
  aster::Context* impl = context_of(context);
  const aster::ContextLock lock(impl);
  ASTER_TRY(lock.status());
  Random* random;
  ASTER_TRY(random_of(&random, *impl));
  set_seed(*random, seed);
  return kOk;
}

int32_t aster_ml_lazy_random_bits(aster_ml_lazy* out, const aster_ml_context* context,
                                  int64_t count) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  Node words;
  ASTER_TRY(bits(&words, build.engine(), count, 0));
  return build.finish(build.graph().contiguous(words));
}

int32_t aster_ml_lazy_rand(aster_ml_lazy* out, const aster_ml_context* context, int32_t dtype,
                           size_t ndim, const int64_t* shape) {
  ASTER_API();
  return draw(out, context, dtype, DType::kWeakFloat, ndim, shape,
              [&](Node* numbers, Build& build, const Request& r) -> Status {
                return rand(numbers, build.engine(), r.dtype, r.shape);
              });
}

int32_t aster_ml_lazy_uniform(aster_ml_lazy* out, const aster_ml_context* context, double low,
                              double high, int32_t dtype, size_t ndim, const int64_t* shape) {
  ASTER_API();
  return draw(out, context, dtype, DType::kWeakFloat, ndim, shape,
              [&](Node* numbers, Build& build, const Request& r) -> Status {
                return uniform_between(numbers, build.engine(), low, high, r.dtype, r.shape);
              });
}

int32_t aster_ml_lazy_randint(aster_ml_lazy* out, const aster_ml_context* context, int64_t low,
                              int64_t high, int32_t dtype, size_t ndim, const int64_t* shape) {
  ASTER_API();
  return draw(out, context, dtype, DType::kInt32, ndim, shape,
              [&](Node* numbers, Build& build, const Request& r) -> Status {
                if (low >= high) {
                  return ASTER_FAIL(kRANGE, "integers from %lld to %lld",
                                    static_cast<long long>(low), static_cast<long long>(high));
                }
                if (!aster::dtype::is_int(r.dtype) || aster::dtype::is_weak(r.dtype)) {
                  return ASTER_FAIL(kDTYPE, "random integers of %s", aster::dtype::name(r.dtype));
                }
                Graph& g = build.graph();
                ASTER_TRY(uniform(numbers, build.engine(), g.defaults.real, r.shape));
                const Expr scaled =
                    Expr{&g, *numbers} * (static_cast<double>(high) - static_cast<double>(low));
                const Expr offset{&g, g.constant_int(r.dtype, low, r.shape)};
                return keep(numbers, scaled.cast(r.dtype) + offset);
              });
}

int32_t aster_ml_lazy_randn(aster_ml_lazy* out, const aster_ml_context* context, int32_t dtype,
                            size_t ndim, const int64_t* shape) {
  ASTER_API();
  return draw(out, context, dtype, DType::kWeakFloat, ndim, shape,
              [&](Node* numbers, Build& build, const Request& r) -> Status {
                return normal(numbers, build.engine(), r.dtype, r.shape);
              });
}

int32_t aster_ml_lazy_normal(aster_ml_lazy* out, const aster_ml_context* context, double mean,
                             double std, int32_t dtype, size_t ndim, const int64_t* shape) {
  ASTER_API();
  return draw(out, context, dtype, DType::kWeakFloat, ndim, shape,
              [&](Node* numbers, Build& build, const Request& r) -> Status {
                return normal_around(numbers, build.engine(), mean, std, r.dtype, r.shape);
              });
}
