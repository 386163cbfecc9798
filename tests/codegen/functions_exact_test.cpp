// Functions with one right answer for every argument: casts against the library's conversion of
// arrays (held against an oracle in tests/dtype), integer arithmetic in 128 bits, roundings and
// fused multiply-adds against the C library, threefry's known answers; and equal bits by every
// compiler, width and number of lanes. ASTER_ML_EXHAUSTIVE=1 takes all 2^32 floats of what has one
// operand, and many doubles.
#include <random>

#include "codegen/functions_support.h"
#include "dtype/convert.h"

namespace aster::codegen::program::tests {
namespace {

__extension__ typedef __int128 Wide;
Wide floor_div(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

// The low bits count.
Wide of_integers(Op op, Wide x, Wide y, int bits) {
  const bool past = y < 0 || y >= bits;
  switch (op) {
    case Op::kCDiv:
      return y == 0 ? 0 : x / y;
    case Op::kCMod:
      return y == 0 ? x : x % y;
    case Op::kFloorDiv:
      return y == 0 ? 0 : floor_div(x, y);
    case Op::kFloorMod:
      return y == 0 ? x : x - y * floor_div(x, y);
    case Op::kShl:
      return past ? 0 : x * (Wide{1} << static_cast<int>(y));
    case Op::kShr:
      return past ? (x < 0 ? -1 : 0) : floor_div(x, Wide{1} << static_cast<int>(y));
    case Op::kMax:
      return x < y ? y : x;
    default:
      return y < x ? y : x;
  }
}

template <typename T>
T of_reals(Op op, T x, T y, T z, bool fma) {
  const bool unordered = std::isnan(x) || std::isnan(y);
  switch (op) {
    case Op::kFloor:
      return std::floor(x);
    case Op::kCeil:
      return std::ceil(x);
    case Op::kTrunc:
      return std::trunc(x);
    case Op::kRound:
      return std::nearbyint(x);
    case Op::kAbs:
      return std::fabs(x);
    case Op::kSqrt:
      return std::sqrt(x);
    case Op::kMax:
      return unordered ? std::numeric_limits<T>::quiet_NaN() : x < y ? y : x;
    case Op::kMin:
      return unordered ? std::numeric_limits<T>::quiet_NaN() : y < x ? y : x;
    default: {
      const volatile T product = x * y;
      return fma ? std::fma(x, y, z) : product + z;
    }
  }
}

template <typename T>
void reals(const Sample& c, const std::vector<uint8_t>* x, std::vector<uint8_t>* out, bool fma) {
  for (size_t i = 0; i < out->size(); i += sizeof(T)) {
    T v[3] = {};
    for (int k = 0; k < c.arity; ++k) std::memcpy(&v[k], &x[k][i], sizeof(T));
    const T y = of_reals(c.key.op, v[0], v[1], v[2], fma);
    std::memcpy(out->data() + i, &y, sizeof(T));
  }
}

bool has_reference(const Sample& c) {
  constexpr Op kReal[] = {Op::kFloor, Op::kCeil, Op::kTrunc, Op::kRound, Op::kAbs,
                          Op::kSqrt,  Op::kMax,  Op::kMin,   Op::kMulAcc};
  if (c.key.op == Op::kCast) return true;
  if (dtype::is_float(c.key.operand)) return std::ranges::find(kReal, c.key.op) != std::end(kReal);
  return c.key.op != Op::kThreefry;
}

std::vector<uint8_t> reference(const Sample& c, const std::vector<uint8_t>* x, bool fma) {
  const DType from = c.key.operand, to = c.key.result;
  const size_t size = dtype::size(from), n = x[0].size() / size;
  std::vector<uint8_t> out(n * dtype::size(to));
  if (c.key.op == Op::kCast) {
    dtype::convert(out.data(), to, x[0].data(), from, n);
  } else if (from == kF32) {
    reals<float>(c, x, &out, fma);
  } else if (from == kF64) {
    reals<double>(c, x, &out, fma);
  } else {
    const auto wide = [&](const std::vector<uint8_t>& of, size_t i) -> Wide {
      const int64_t word = dtype::load_int(from, &of[i * size]);
      return dtype::is_unsigned(from) ? Wide{static_cast<uint64_t>(word)} : Wide{word};
    };
    for (size_t i = 0; i < n; ++i) {
      const int bits = static_cast<int>(dtype::bits(from));
      const Wide y = of_integers(c.key.op, wide(x[0], i), wide(x[1], i), bits);
      dtype::store_int(to, &out[i * size], static_cast<int64_t>(y));
    }
  }
  return out;
}

// Against the reference, or else against the first build whose multiply-adds are as these.
class Expected {
 public:
  Expected(const Sample& c, const std::vector<uint8_t>* x) : case_(c), x_(x) {}
  void check(const Built& build, int lanes) {
    const size_t n = x_[0].size() / dtype::size(case_.key.operand);
    std::vector<uint8_t> got(n * dtype::size(case_.key.result), uint8_t{0xAB});
    build.run(case_, lanes, {x_[0].data(), x_[1].data(), x_[2].data()}, got.data(), n);
    std::vector<uint8_t>& expected = expected_[build.fma()];
    if (expected.empty()) expected = has_reference(case_) ? reference(case_, x_, build.fma()) : got;
    expect_same(build.name() + " x" + std::to_string(lanes), case_, got, expected, x_);
  }

 private:
  const Sample& case_;
  const std::vector<uint8_t>* x_;
  std::vector<uint8_t> expected_[2];
};

TEST(Functions, AreExactAndTheSameAtEveryWidth) {
  if (builds().empty()) GTEST_SKIP() << "no C compiler";
  for (const Sample& c : all_cases()) {
    std::vector<uint8_t> x[3];
    fill(c, x);
    Expected expected(c, x);
    for (const auto& build : builds()) {
      if (!is_tried(c, build->width())) continue;
      for (int lanes : build->lanes_of(c)) expected.check(*build, lanes);
    }
  }
}

// C for any CPU on another one.
TEST(Functions, AreTheSameOnAarch64) {
  if (!codegen::tests::Aarch64::here()) GTEST_SKIP() << codegen::tests::kNoAarch64;
  const Built x86("gcc", 0, all_cases());
  std::vector<std::unique_ptr<RenderedC>> programs;
  std::vector<std::string> names;
  for (const Sample& c : all_cases()) {
    if (!is_tried(c, 0)) continue;
    names.push_back(c.name());
    Module module(process_heap());
    add_kernel(&module, c, c.name(), c.lanes(16), false);
    programs.push_back(std::make_unique<RenderedC>(process_heap()));
    ASSERT_TRUE(render_c(*programs.back(), module, target_of(0)).ok()) << last_error();
  }
  codegen::tests::Aarch64 built(unit_of(programs, 0), names);
  for (const Sample& c : all_cases()) {
    if (!is_tried(c, 0)) continue;
    std::vector<uint8_t> x[3];
    fill(c, x);
    const size_t n = x[0].size() / dtype::size(c.key.operand);
    std::vector<uint8_t> expected(n * dtype::size(c.key.result));
    x86.run(c, c.lanes(16), {x[0].data(), x[1].data(), x[2].data()}, expected.data(), n);
    std::vector<std::vector<uint8_t>> params(x, x + c.arity);
    params.push_back(std::vector<uint8_t>(expected.size()));
    const auto count = static_cast<int64_t>(n);
    params = built.run(c.name(), params, count / c.lanes(16), {count});
    expect_same("aarch64", c, params.back(), expected, x);
  }
}

// Known answers of the generator's authors (Random123, kat_vectors).
TEST(Functions, ThreefryKnownAnswers) {
  const Sample threefry{{Op::kThreefry, DType::kUInt64, DType::kUInt64}, 2};
  std::vector<uint64_t> counter(64, 0), key(64, 0);
  counter[1] = key[1] = ~uint64_t{0};
  counter[2] = 0x85a308d3243f6a88, key[2] = 0x0370734413198a2e;
  for (const auto& build : builds()) {
    const std::vector<uint64_t> y = (*build)(threefry, counter, key);
    EXPECT_EQ(y[0], 0x99ba4efe6b200159u) << build->name();
    EXPECT_EQ(y[1], 0xbb002be71cb996fcu) << build->name();
    EXPECT_EQ(y[2], 0x483df7a0c4923a9cu) << build->name();
    EXPECT_EQ(y[63], y[0]) << build->name();
  }
}

// ---- Lanes combined: halves joined until one is left ----

template <typename T>
T combine(Op op, T a, T b) {
  if (op == Op::kMax) return std::max(a, b);
  if (op == Op::kMin) return std::min(a, b);
  if constexpr (std::is_integral_v<T>) {  // which wrap
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(op == Op::kMul ? x * y : x + y);
  } else {
    return op == Op::kMul ? a * b : a + b;
  }
}

template <typename T>
T tree(Op op, std::vector<T> x) {
  for (size_t half = x.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) x[i] = combine(op, x[i], x[i + half]);
  }
  return x[0];
}

struct Reduction {
  DType dtype;
  Op op;
  int lanes;
  std::string name() const {
    return std::string(uop::info(op).name) + "_" + type_name(dtype) + "x" + std::to_string(lanes);
  }
};

// Sums of each vector of 256 elements go to its first one's place.
std::unique_ptr<RenderedC> rendered(const Reduction& r, const Target& target) {
  const std::string type = type_name(r.dtype), n = std::to_string(r.lanes);
  Read program("program " + r.name() + "\n%0 = Param " + type + " 0 [256]\n%1 = Param " + type +
               " 1 [256] write\n%2 = Loop task 0 256 " + n + "\n%3 = Load " + type + "x" + n +
               " %0 + %2\n%4 = Across:" + uop::info(r.op).name + " " + type +
               " %3\nStore %1 + %2, %4\nEnd");
  auto out = std::make_unique<RenderedC>(process_heap());
  EXPECT_TRUE(verify(program.module).ok() && render_c(*out, program.module, target).ok())
      << last_error();
  return out;
}

template <typename T>
void check_reduction(const Reduction& r, Library::Function function) {
  ASSERT_NE(function, nullptr) << r.name();
  std::mt19937 random(1);
  std::vector<T> x(256), y(256);
  for (T& v : x) {
    const int some = static_cast<int>(random() % 200) - (std::is_signed_v<T> ? 100 : 0);
    v = std::is_floating_point_v<T> ? static_cast<T>(some) / T{7} : static_cast<T>(some);
  }
  void* params[] = {x.data(), y.data()};
  function(params, nullptr, nullptr, 0, 256 / r.lanes);
  for (auto i = x.begin(); i < x.end(); i += r.lanes) {
    EXPECT_EQ(y[static_cast<size_t>(i - x.begin())], tree(r.op, std::vector<T>(i, i + r.lanes)))
        << r.name();
  }
}

TEST(Functions, LanesAreCombinedAsATree) {
  if (compilers().empty()) GTEST_SKIP() << "no C compiler";
  constexpr struct {
    DType dtype;
    void (*check)(const Reduction&, Library::Function);
  } kTypes[] = {{DType::kInt8, check_reduction<int8_t>},
                {DType::kUInt16, check_reduction<uint16_t>},
                {DType::kInt32, check_reduction<int32_t>},
                {DType::kUInt64, check_reduction<uint64_t>},
                {kF32, check_reduction<float>},
                {kF64, check_reduction<double>}};
  for (int width : widths()) {
    std::vector<std::unique_ptr<RenderedC>> programs;
    const auto each = [&](auto use) {
      for (const auto& type : kTypes) {
        const int full = width / static_cast<int>(dtype::size(type.dtype));
        for (Op op : {Op::kAdd, Op::kMul, Op::kMax, Op::kMin}) {
          use(type, Reduction{type.dtype, op, full});
          if (full != 4) use(type, Reduction{type.dtype, op, 4});
        }
      }
    };
    each([&](const auto&, const Reduction& r) {
      programs.push_back(rendered(r, target_of(width)));
    });
    Library library(compilers()[0], unit_of(programs, width), width);
    each([&](const auto& type, const Reduction& r) {
      type.check(r, library.find(r.name().c_str()));
    });
  }
}

// All floats of each function of one; 2^25 random doubles of the others. Where it is asked for.
class EveryFloat : public ::testing::TestWithParam<Sample> {
 protected:
  static constexpr size_t kBlock = 1 << 16;
  // Every third block of doubles has any bits, the others are of middling size.
  static void random_doubles(std::mt19937_64* random, uint64_t block, std::vector<uint8_t>* out) {
    std::uniform_real_distribution<double> exponent(block % 3 == 1 ? -60 : -5, 11);
    for (size_t i = 0; i < kBlock; ++i) {
      const double some = std::exp2(exponent(*random)) * (i % 2 ? 1 : -1);
      const uint64_t bits = block % 3 == 0 ? (*random)() : std::bit_cast<uint64_t>(some);
      std::memcpy(out->data() + i * 8, &bits, 8);
    }
  }
};
TEST_P(EveryFloat, IsTheSame) {
  if (!exhaustive()) GTEST_SKIP() << "ASTER_ML_EXHAUSTIVE is not set";
  const Sample c = GetParam();
  const bool all = c.arity == 1 && c.key.operand == kF32;
  const size_t from = dtype::size(c.key.operand);
  std::vector<uint8_t> x[3];
  for (auto& operand : x) operand.resize(kBlock * from);
  const std::vector<std::unique_ptr<Built>> mine = build({c});
  std::mt19937_64 random(5);
  for (uint64_t block = 0; block < (all ? uint64_t{1} << 16 : 512); ++block) {
    for (size_t i = 0; all && i < kBlock; ++i) {
      const uint32_t bits = static_cast<uint32_t>(block << 16 | i);
      std::memcpy(x[0].data() + i * from, &bits, from);
    }
    for (int k = 0; !all && k < c.arity; ++k) random_doubles(&random, block, &x[k]);
    Expected expected(c, x);
    for (const auto& build : mine) {
      if (is_tried(c, build->width())) expected.check(*build, build->lanes_of(c)[0]);
      if (HasFailure()) return;
    }
  }
}
std::vector<Sample> of_one_float() {
  std::vector<Sample> out;
  for (const Sample& c : all_functions()) {
    if (c.key.operand == kF64 || (c.arity == 1 && c.key.operand == kF32)) out.push_back(c);
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Functions, EveryFloat, ::testing::ValuesIn(of_one_float()),
                         [](const auto& at) { return at.param.name(); });

}  // namespace
}  // namespace aster::codegen::program::tests
