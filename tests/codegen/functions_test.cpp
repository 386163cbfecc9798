// Functions as programs: against the C text that kernels called before them, bit by bit, at every
// width; against their meaning; at lanes that vectors do not have. ASTER_ML_EXHAUSTIVE=1 takes all
// 2^32 floats of each function of one, and many doubles.
#include "codegen/functions.h"

#include <algorithm>

#include "codegen/prelude_support.h"
#include "codegen/program_evaluator.h"
#include "codegen/render_c.h"

namespace aster::codegen::program {
namespace {

using codegen::tests::Library;
using codegen::tests::target_of;
using codegen::tests::widths;
using tests::Evaluator;
using tests::last_error;
using tests::Param;

using Old = void (*)(const void*, const void*, const void*, void*, long);
using New = void (*)(void* const*, const long long*, void*, long long, long long);

bool exhaustive() { return std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr; }

const DType kF32 = DType::kFloat32, kF64 = DType::kFloat64;
const DType kNarrow[] = {DType::kFloat16,     DType::kBFloat16, DType::kFp8E4M3,
                         DType::kFp8E4M3Fnuz, DType::kFp8E5M2,  DType::kFp8E5M2Fnuz};
const DType kInts[] = {DType::kInt8,  DType::kUInt8,  DType::kInt16, DType::kUInt16,
                       DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64};

struct Case {
  FunctionKey key;
  int arity = 1;
  MathFn old = MathFn::kSelect;  // a cast
  std::string name() const {
    return std::string(uop::info(key.op).name) + "_" + type_name(key.operand) + "_" +
           type_name(key.result);
  }
  // Lanes of a vector of so many bytes.
  int lanes(int bytes) const {
    size_t size = std::max(dtype::size(key.operand), dtype::size(key.result));
    if (dtype::is_narrow_float(key.operand) || dtype::is_narrow_float(key.result)) {
      size = std::max<size_t>(size, 4);
    }
    return bytes / static_cast<int>(size);
  }
};

std::vector<Case> all_cases() {
  std::vector<Case> out;
  const auto real = [&](Op op, MathFn old, int arity) {
    for (DType d : {kF32, kF64}) out.push_back({{op, d, d}, arity, old});
  };
  real(Op::kExp, MathFn::kExp, 1);
  real(Op::kExp2, MathFn::kExp2, 1);
  real(Op::kLog, MathFn::kLog, 1);
  real(Op::kLog2, MathFn::kLog2, 1);
  real(Op::kSin, MathFn::kSin, 1);
  real(Op::kCos, MathFn::kCos, 1);
  real(Op::kTanh, MathFn::kTanh, 1);
  real(Op::kErf, MathFn::kErf, 1);
  real(Op::kPow, MathFn::kPow, 2);
  real(Op::kSqrt, MathFn::kSqrt, 1);
  real(Op::kTrunc, MathFn::kTrunc, 1);
  real(Op::kFloor, MathFn::kFloor, 1);
  real(Op::kCeil, MathFn::kCeil, 1);
  real(Op::kRound, MathFn::kRound, 1);
  real(Op::kMulAcc, MathFn::kFma, 3);
  for (DType d : kInts) {
    out.push_back({{Op::kCDiv, d, d}, 2, MathFn::kDiv});
    out.push_back({{Op::kCMod, d, d}, 2, MathFn::kMod});
    out.push_back({{Op::kFloorDiv, d, d}, 2, MathFn::kFloorDiv});
    out.push_back({{Op::kFloorMod, d, d}, 2, MathFn::kFloorMod});
  }
  out.push_back({{Op::kThreefry, DType::kUInt64, DType::kUInt64}, 2, MathFn::kThreefry});
  std::vector<DType> all(std::begin(kNarrow), std::end(kNarrow));
  all.insert(all.end(), std::begin(kInts), std::end(kInts));
  all.insert(all.end(), {DType::kBool, kF32, kF64});
  for (DType from : all) {
    for (DType to : all) {
      const Case one{{Op::kCast, to, from}};
      if (has_function(one.key)) out.push_back(one);
    }
  }
  return out;
}

// Casts between others are made of these.
bool is_basic(const Case& c) {
  const auto basic = [](DType d) {
    return d == kF32 || d == kF64 || d == DType::kInt32 || d == DType::kInt64;
  };
  return c.key.op != Op::kCast || basic(c.key.operand) || basic(c.key.result);
}
// The others only at the widest.
bool is_tried(const Case& c, int width) { return is_basic(c) || width == widths().back(); }

// `kernel(name, lanes)` calls the function on every element.
void add_kernel(Module* module, const Case& c, const std::string& name, int lanes, bool fma) {
  size_t place = 0;
  ASSERT_TRUE(add_function(&place, module, c.key, fma).ok()) << last_error() << c.name();
  const std::string x = lanes == 1 ? "" : "x" + std::to_string(lanes);
  const std::string from = type_name(c.key.operand), to = type_name(c.key.result);
  std::string text = "program " + name + "\n%0 = Param i64 0 from 0 to 4294967296 by 64\n";
  std::string loads, arguments;
  for (int i = 0; i < c.arity; ++i) {
    const std::string n = std::to_string(i);
    text += "%1" + n + " = Param " + from + " " + n + " [%0]\n";
    loads += "%2" + n + " = Load " + from + x + " %1" + n + " + %1\n";
    arguments += " %2" + n;
  }
  text += "%30 = Param " + to + " " + std::to_string(c.arity) +
          " [%0] write\n%1 = Loop task 0 %0 " + std::to_string(lanes) + "\n" + loads +
          "%2 = Call " + to + x + " " + module->programs[place].name + arguments +
          "\nStore %30 + %1, %2\nEnd\n";
  ASSERT_TRUE(read(module, text).ok()) << last_error() << text;
  ASSERT_TRUE(verify(*module).ok()) << last_error() << tests::print(*module);
}

Target target_at(int width) {
  Target out = target_of(std::max(width, 16));
  out.vector_bytes = width;
  return out;
}

std::string unit_of(const std::vector<std::unique_ptr<RenderedC>>& programs, int width) {
  std::vector<const RenderedC*> all;
  for (const auto& one : programs) all.push_back(one.get());
  Text out(process_heap());
  EXPECT_TRUE(write_unit(out, all, target_at(width)).ok()) << last_error();
  return std::string(out.view());
}

// Old and new functions of one width by one compiler. 0: new ones in C for any CPU.
class Built {
 public:
  Built(const std::string& compiler, int width, const std::vector<Case>& cases)
      : compiler_(compiler), width_(width) {
    codegen::testing::Program old(bytes());
    std::vector<std::unique_ptr<RenderedC>> programs;
    for (const Case& c : cases) {
      if (!is_tried(c, width)) continue;
      const int lanes = c.lanes(bytes());
      if (c.old == MathFn::kSelect) {
        old.cast("old_" + c.name(), c.key.operand, c.key.result, lanes);
      } else {
        old.function("old_" + c.name(), c.old, c.key.operand, c.arity, lanes);
      }
      for (int n : lanes_of(c)) {
        Module module(process_heap());
        add_kernel(&module, c, c.name() + "_" + std::to_string(n), n, width >= 32);
        programs.push_back(std::make_unique<RenderedC>(process_heap()));
        EXPECT_TRUE(render_c(*programs.back(), module, target_at(width)).ok())
            << last_error() << tests::print(module);
      }
    }
    library_ = std::make_unique<Library>(compiler, old.text() + unit_of(programs, width), bytes());
  }
  // A vector's, one, less than a vector of 16 bytes, more than the target has.
  std::vector<int> lanes_of(const Case& c) const {
    const int full = c.lanes(bytes());
    std::vector<int> out{full};
    const auto add = [&](int lanes) {
      if (lanes <= 64 && std::ranges::find(out, lanes) == out.end()) out.push_back(lanes);
    };
    const bool widest = width_ == widths().back();
    if (compiler_ != "gcc" || !is_basic(c)) return out;
    if (widest || width_ == 16) add(1);
    if (widest) add(2), add(2 * full);
    return out;
  }
  std::string name() const { return compiler_ + " " + std::to_string(width_); }
  int width() const { return width_; }
  int bytes() const { return std::max(width_, 16); }
  Old old(const Case& c) const {
    return reinterpret_cast<Old>(
        reinterpret_cast<void*>(library_->find(("old_" + c.name()).c_str())));
  }
  void run(const Case& c, int lanes, std::vector<const void*> x, void* y, size_t n) const {
    const std::string name = c.name() + "_" + std::to_string(lanes);
    const auto f = reinterpret_cast<New>(reinterpret_cast<void*>(library_->find(name.c_str())));
    ASSERT_NE(f, nullptr) << name;
    x.resize(static_cast<size_t>(c.arity));
    x.push_back(y);
    const long long sizes[] = {static_cast<long long>(n)};
    f(const_cast<void* const*>(x.data()), sizes, nullptr, 0, static_cast<long long>(n));
  }

 private:
  std::string compiler_;
  int width_;
  std::unique_ptr<Library> library_;
};

const std::vector<std::unique_ptr<Built>>& builds() {
  static std::vector<std::unique_ptr<Built>> out;
  if (!out.empty()) return out;
  std::vector<int> all = widths();
  all.insert(all.begin(), 0);
  for (int width : all) {
    for (const std::string& compiler : codegen::tests::compilers()) {
      if (compiler == "clang" && width != widths().back()) continue;
      out.push_back(std::make_unique<Built>(compiler, width, all_cases()));
    }
  }
  return out;
}

// ---- Values ----

const double kReals[] = {0.0,
                         0.5,
                         0.75,
                         1.0,
                         1.5,
                         2.0,
                         2.5,
                         3.0,
                         1e-5,
                         6e-8,
                         2.9e-8,
                         1e-40,
                         1e-45,
                         1e-310,
                         5e-324,
                         0x1p-126,
                         0x1p-149,
                         0x1p-1022,
                         88.0,
                         88.72,
                         88.73,
                         103.9,
                         104.0,
                         105.0,
                         127.0,
                         128.0,
                         149.0,
                         150.5,
                         709.7,
                         709.8,
                         745.1,
                         745.2,
                         746.0,
                         1024.0,
                         1075.0,
                         1075.5,
                         126.5,
                         255.0,
                         256.0,
                         257.9,
                         448.0,
                         464.0,
                         464.1,
                         480.0,
                         57344.0,
                         61440.0,
                         61439.0,
                         240.0,
                         248.0,
                         247.9,
                         32767.0,
                         32768.0,
                         32769.0,
                         65504.0,
                         65519.9,
                         65520.0,
                         65536.0,
                         1048576.,
                         1048577.,
                         0x1p31,
                         0x1p31 - 1,
                         0x1p32,
                         6442450944.,
                         0x1p23,
                         0x1p23 - .5,
                         0x1p52,
                         0x1p52 - .5,
                         0x1p53,
                         0x1p62,
                         0x1p63,
                         0x1.fffffep62,
                         0x1p64,
                         1e30,
                         3.4e38,
                         3.5e38,
                         1e300,
                         1.7e308,
                         0.785398,
                         1.570796326794897,
                         3.141592653589793,
                         6.283185307179586,
                         0x1.921fb6p+0,
                         710.0,
                         0.925,
                         0.845,
                         5.95,
                         __builtin_inf(),
                         __builtin_nan("")};

// All values of 8 and 16 bits; else ends of ranges and random ones of all sizes. A multiple of 64.
std::vector<uint8_t> values(DType d, uint64_t seed) {
  std::vector<uint8_t> out;
  const size_t size = dtype::size(d);
  const auto put = [&](uint64_t bits) {
    out.resize(out.size() + size);
    std::memcpy(out.data() + out.size() - size, &bits, size);
  };
  std::mt19937_64 random(seed);
  if (d == DType::kBool) {
    for (uint64_t i = 0; i < 64; ++i) put(random() & 1);
  } else if (size <= 2 && seed == 0) {
    for (uint64_t i = 0; i < uint64_t{1} << dtype::bits(d); ++i) put(i);
  } else {
    for (double x : kReals) {
      for (double y : {x, -x}) {
        const int64_t whole = std::fabs(y) < 0x1p63 ? static_cast<int64_t>(y) : INT64_MIN;
        put(d == kF64   ? std::bit_cast<uint64_t>(y)
            : d == kF32 ? std::bit_cast<uint32_t>(static_cast<float>(y))
                        : static_cast<uint64_t>(whole));
      }
    }
    for (int i = 0; i < 8000; ++i) put(random());
    for (int i = 0; i < 8000; ++i) put(random() >> (random() % 64));
    std::uniform_real_distribution<double> exponent(-40, 70);
    for (int i = 0; i < 16000; ++i) {
      const double x = std::exp2(exponent(random)) * (i % 2 ? 1 : -1);
      // Few bits now and then, to meet ties.
      const int e = std::ilogb(x) - 5;
      const double y = i % 3 == 0 ? std::ldexp(std::round(std::ldexp(x, -e)), e) : x;
      if (d == kF64) put(std::bit_cast<uint64_t>(y));
      if (d == kF32) put(std::bit_cast<uint32_t>(static_cast<float>(y)));
    }
  }
  while (out.size() / size % 64 != 0) put(0);
  return out;
}

void same(const std::string& where, const Case& c, const std::vector<uint8_t>& got,
          const std::vector<uint8_t>& expected, const std::vector<uint8_t>* x) {
  if (got == expected) return;
  const size_t size = dtype::size(c.key.result), from = dtype::size(c.key.operand);
  for (size_t i = 0; i < got.size() / size; ++i) {
    if (std::memcmp(&got[i * size], &expected[i * size], size) == 0) continue;
    uint64_t bits[4] = {};
    std::memcpy(&bits[0], &got[i * size], size);
    std::memcpy(&bits[1], &expected[i * size], size);
    for (int k = 0; k < c.arity; ++k) std::memcpy(&bits[2 + k], &x[k][i * from], from);
    ADD_FAILURE() << where << " " << c.name() << " of " << std::hex << bits[2] << ", " << bits[3]
                  << " is " << bits[0] << ", not " << bits[1];
    return;
  }
}

// Operands of one size; of several, every pair of ends of ranges comes first.
void fill(const Case& c, std::vector<uint8_t> (&x)[3]) {
  const size_t size = dtype::size(c.key.operand), ends = 2 * std::size(kReals);
  for (size_t i = 0; i < 3; ++i) x[i] = values(c.key.operand, c.arity == 1 ? 0 : i + 1);
  if (c.arity == 1) return;
  const std::vector<uint8_t> first = x[0];
  const size_t pairs = std::min(ends * ends / 2, first.size() / size);
  for (size_t i = 0; i < pairs; ++i) {
    std::memcpy(&x[0][i * size], &first[i % ends * size], size);
    std::memcpy(&x[1][i * size], &first[i / ends * size], size);
  }
}

TEST(Functions, AreWhatKernelsCalledBitByBit) {
  for (const Case& c : all_cases()) {
    std::vector<uint8_t> x[3];
    fill(c, x);
    const size_t n = x[0].size() / dtype::size(c.key.operand);
    for (const auto& build : builds()) {
      if (!is_tried(c, build->width())) continue;
      const Old old = build->old(c);
      ASSERT_NE(old, nullptr);
      std::vector<uint8_t> expected(n * dtype::size(c.key.result)), got(expected.size());
      old(x[0].data(), x[1].data(), x[2].data(), expected.data(), static_cast<long>(n));
      for (int lanes : build->lanes_of(c)) {
        std::fill(got.begin(), got.end(), 0xAB);
        build->run(c, lanes, {x[0].data(), x[1].data(), x[2].data()}, got.data(), n);
        same(build->name() + " x" + std::to_string(lanes), c, got, expected, x);
      }
    }
  }
}

// What a function says by its instructions, and what C makes of them.
TEST(Functions, MeanWhatIsCompiled) {
  constexpr int64_t kCount = 192;
  for (const Case& c : all_cases()) {
    std::vector<uint8_t> x[3];
    fill(c, x);
    const size_t size = dtype::size(c.key.operand), all = x[0].size() / size;
    std::vector<Param> params;
    for (int i = 0; i < c.arity; ++i) {
      params.push_back({c.key.operand, kCount, std::vector<uint8_t>(kCount * size)});
      for (size_t k = 0; k < kCount; ++k) {  // the first ones, then some of the others
        const size_t from = k < kCount / 2 ? k : k * (all / kCount);
        std::memcpy(&params.back().bytes[k * size], &x[i][from % all * size], size);
      }
    }
    params.push_back(
        {c.key.result, kCount, std::vector<uint8_t>(kCount * dtype::size(c.key.result))});
    for (const auto& build : builds()) {
      const bool fma = build->width() >= 32;
      if (!is_tried(c, build->width()) || (fma && build != builds().back())) continue;
      Module module(process_heap());
      add_kernel(&module, c, "kernel", 4, fma);
      std::vector<Param> meant = params, got = params;
      ASSERT_EQ(Evaluator::run(module, meant, {kCount}), "") << c.name();
      std::vector<const void*> in;
      for (int i = 0; i < c.arity; ++i) in.push_back(params[static_cast<size_t>(i)].bytes.data());
      build->run(c, build->lanes_of(c)[0], in, got.back().bytes.data(), kCount);
      for (int64_t i = 0; i < kCount; ++i) {
        const Word a = got.back().get(i), b = meant.back().get(i);
        const bool nan = dtype::is_float(c.key.result) && std::isnan(std::bit_cast<double>(a)) &&
                         std::isnan(std::bit_cast<double>(b));
        ASSERT_TRUE(a == b || nan) << build->name() << " " << c.name() << " of " << std::hex
                                   << params[0].get(i) << " is " << a << ", not " << b;
      }
    }
  }
}

// Functions that differ without FMA say so in their names; no two have one name.
TEST(Functions, NamesAreUnique) {
  std::map<std::string, std::string> texts;
  for (const Case& c : all_cases()) {
    std::string text[2], name[2];
    for (const bool fma : {false, true}) {
      Module module(process_heap());
      size_t place = 0, again = 0;
      ASSERT_TRUE(add_function(&place, &module, c.key, fma).ok());
      const size_t count = module.programs.size();
      ASSERT_TRUE(add_function(&again, &module, c.key, fma).ok());
      EXPECT_EQ(place, again);
      EXPECT_EQ(count, module.programs.size());
      ASSERT_TRUE(verify(module).ok()) << last_error();
      text[fma] = tests::print(module);
      name[fma] = module.programs[place].name;
      tests::Read back(text[fma]);
      EXPECT_EQ(tests::print(back.module), text[fma]) << back.error;
      // Each by itself: "function NAME" up to the next.
      for (size_t from = 0, to = 0; from < text[fma].size(); from = to) {
        to = std::min(text[fma].find("\nfunction ", from + 1), text[fma].size());
        const std::string one = text[fma].substr(from, to - from);
        const size_t at = one.find("function ");
        const auto [known, fresh] = texts.emplace(one.substr(at, one.find('\n', at) - at), one);
        const auto lines = [](const std::string& x) { return x.substr(x.find("function ")); };
        EXPECT_TRUE(fresh || lines(known->second) == lines(one)) << one << known->second;
      }
    }
    EXPECT_EQ(name[0] == name[1], text[0] == text[1]) << text[0] << text[1];
  }
  EXPECT_GT(texts.size(), 200u);
}

TEST(Functions, AreThereForWhatTargetsLack) {
  const Target sse = target_of(16), avx2 = target_of(32), avx512 = target_of(64);
  EXPECT_TRUE(is_native(avx2, Op::kMulAcc, kF32, kF32, 8));
  EXPECT_FALSE(is_native(avx2, Op::kMulAcc, kF32, kF32, 16));
  EXPECT_TRUE(is_native(avx512, Op::kMulAcc, kF32, kF32, 16));
  EXPECT_FALSE(is_native(sse, Op::kMulAcc, kF32, kF32, 4));
  EXPECT_FALSE(is_native(avx512, Op::kExp, kF32, kF32, 16));
  EXPECT_TRUE(is_native(avx2, Op::kCast, kF32, DType::kFloat16, 8));
  EXPECT_FALSE(is_native(sse, Op::kCast, kF32, DType::kFloat16, 4));
  EXPECT_FALSE(is_native(avx512, Op::kCast, DType::kBFloat16, kF32, 16));
  EXPECT_FALSE(is_native(avx512, Op::kAdd, DType::kFloat16, DType::kFloat16, 16));
  EXPECT_TRUE(is_native(sse, Op::kCast, DType::kInt64, kF32, 1));
  EXPECT_FALSE(is_native(sse, Op::kCast, DType::kInt64, kF32, 2));
  EXPECT_TRUE(is_native(sse, Op::kCDiv, DType::kInt32, DType::kInt32, 1));
  EXPECT_FALSE(is_native(avx2, Op::kCDiv, DType::kInt32, DType::kInt32, 8));
  EXPECT_TRUE(is_native(sse, Op::kWhere, DType::kFloat16, DType::kFloat16, 8));
  // What the tables lack on numbers, functions have.
  for (size_t o = 0; o < static_cast<size_t>(Op::kCount); ++o) {
    const Op op = static_cast<Op>(o);
    const uop::DTypeRule rule = uop::info(op).rule;
    if (!is_arithmetic(op) || rule == uop::DTypeRule::kWhere) continue;
    for (DType d : {kF32, kF64, DType::kInt32, DType::kUInt64}) {
      const bool real = dtype::is_float(d);
      const bool integral = rule == uop::DTypeRule::kIntegral || rule == uop::DTypeRule::kBits64;
      if (real ? integral : rule == uop::DTypeRule::kFloating) continue;
      if (rule == uop::DTypeRule::kBits64 && d != DType::kUInt64) continue;
      const DType to = rule == uop::DTypeRule::kCompare ? DType::kBool : d;
      for (const Target& target : {sse, avx2, avx512}) {
        const int lanes = target.vector_bytes / static_cast<int>(dtype::size(d));
        EXPECT_TRUE(is_native(target, op, to, d, lanes) || has_function({op, to, d}))
            << uop::info(op).name << " of " << type_name(d) << " in " << target.vector_bytes;
      }
    }
  }
}

TEST(Functions, WhatThereIsNotIsUnsupported) {
  Module module(process_heap());
  size_t place = 0;
  for (const FunctionKey& key :
       {FunctionKey{Op::kAdd, kF32, kF32}, FunctionKey{Op::kExp, DType::kInt32, DType::kInt32},
        FunctionKey{Op::kExp, kF32, kF64}, FunctionKey{Op::kCast, kF32, kF32},
        FunctionKey{Op::kCast, kF64, kF32}, FunctionKey{Op::kExp, DType::kFloat16, DType::kFloat16},
        FunctionKey{Op::kCast, DType::kFloat16, DType::kWeakInt}}) {
    EXPECT_FALSE(has_function(key));
    EXPECT_EQ(add_function(&place, &module, key, true).code,
              static_cast<int32_t>(Code::kUNSUPPORTED));
  }
  EXPECT_EQ(module.programs.size(), 0u);
}

TEST(Functions, UnitsHaveEachOnce) {
  std::vector<std::unique_ptr<RenderedC>> programs;
  const Case exp{{Op::kExp, kF32, kF32}, 1, MathFn::kExp};
  for (const char* name : {"first", "second"}) {
    Module module(process_heap());
    add_kernel(&module, exp, name, 8, true);
    programs.push_back(std::make_unique<RenderedC>(process_heap()));
    ASSERT_TRUE(render_c(*programs.back(), module, target_of(32)).ok());
    EXPECT_STREQ(programs.back()->functions[0].name, "exp_f32_x8");
  }
  const std::string text = unit_of(programs, 32);
  for (const char* once :
       {" exp_f32_x8(f32x8 a0) {", "typedef float f32x8 ", "void first(", "void second("}) {
    const size_t at = text.find(once);
    EXPECT_NE(at, std::string::npos) << once;
    EXPECT_EQ(text.find(once, at + 1), std::string::npos) << once;
  }
  // Another function of the same name.
  tests::Read other(
      "function exp_f32\n%0 = Param f32xn 0\nResult %0\nprogram third\n%0 = Param f32 0 [8] write\n"
      "%1 = Const f32 2\n%2 = Spread f32x8 %1\n%3 = Call f32x8 exp_f32 %2\nStore %0, %3");
  programs.push_back(std::make_unique<RenderedC>(process_heap()));
  ASSERT_TRUE(render_c(*programs.back(), other.module, target_of(32)).ok()) << last_error();
  std::vector<const RenderedC*> all;
  for (const auto& one : programs) all.push_back(one.get());
  Text out(process_heap());
  EXPECT_EQ(write_unit(out, all, target_of(32)).code, static_cast<int32_t>(Code::kARGUMENT));
  EXPECT_EQ(last_error(), "two functions exp_f32_x8 differ");
}

TEST(Functions, EveryAllocationMayFail) {
  for (const Op op : {Op::kPow, Op::kSin}) {
    for (int64_t left = 0;; ++left) {
      tests::FailingMemory memory(left);
      Module module(memory);
      size_t place = 0;
      const Status status = add_function(&place, &module, {op, kF32, kF32}, false);
      if (status.ok()) break;
      ASSERT_EQ(status.code, static_cast<int32_t>(Code::kMEMORY));
    }
  }
}

// All floats of each function of one, old and new; 2^25 random doubles of the others. Where it is
// asked for.
class EveryFloat : public ::testing::TestWithParam<Case> {
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
  const Case c = GetParam();
  const bool all = c.arity == 1 && c.key.operand == kF32;
  const size_t size = dtype::size(c.key.result), from = dtype::size(c.key.operand);
  std::vector<uint8_t> x[3], expected(kBlock * size), got(kBlock * size);
  for (auto& operand : x) operand.resize(kBlock * from);
  std::vector<std::unique_ptr<Built>> builds;
  for (int width : widths()) {
    for (const std::string& compiler : codegen::tests::compilers()) {
      if (is_tried(c, width)) {
        builds.push_back(std::make_unique<Built>(compiler, width, std::vector<Case>{c}));
      }
    }
  }
  std::mt19937_64 random(5);
  for (uint64_t block = 0; block < (all ? uint64_t{1} << 16 : 512); ++block) {
    for (size_t i = 0; all && i < kBlock; ++i) {
      const uint32_t bits = static_cast<uint32_t>(block << 16 | i);
      std::memcpy(x[0].data() + i * from, &bits, from);
    }
    for (int k = 0; !all && k < c.arity; ++k) random_doubles(&random, block, &x[k]);
    for (const auto& build : builds) {
      build->old(c)(x[0].data(), x[1].data(), x[2].data(), expected.data(),
                    static_cast<long>(kBlock));
      build->run(c, build->lanes_of(c)[0], {x[0].data(), x[1].data(), x[2].data()}, got.data(),
                 kBlock);
      same(build->name(), c, got, expected, x);
      if (HasFailure()) return;
    }
  }
}
std::vector<Case> of_one_float() {
  std::vector<Case> out;
  for (const Case& c : all_cases()) {
    if (c.key.operand == kF64 || (c.arity == 1 && c.key.operand == kF32)) out.push_back(c);
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Functions, EveryFloat, ::testing::ValuesIn(of_one_float()),
                         [](const auto& at) { return at.param.name(); });

}  // namespace
}  // namespace aster::codegen::program
