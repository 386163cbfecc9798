// Functions as programs and what the tests ask them for: each at its dtypes, compiled by each
// compiler at each vector width, in loops over arrays.
#pragma once

#include <algorithm>
#include <limits>

#include "codegen/functions.h"
#include "codegen/program_evaluator.h"
#include "codegen/render_c.h"

namespace aster::codegen::program::tests {

using codegen::tests::compilers;
using codegen::tests::Library;
using codegen::tests::target_of;
using codegen::tests::widths;

inline bool exhaustive() { return std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr; }

inline constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64;
inline constexpr DType kNarrow[] = {DType::kFloat16,     DType::kBFloat16, DType::kFp8E4M3,
                                    DType::kFp8E4M3Fnuz, DType::kFp8E5M2,  DType::kFp8E5M2Fnuz};
inline constexpr DType kInts[] = {DType::kInt8,  DType::kUInt8,  DType::kInt16, DType::kUInt16,
                                  DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64};

// A function; an operation that targets have themselves where there is no function.
struct Sample {
  FunctionKey key;
  int arity = 1;
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

inline Sample of_real(Op op, DType d, int arity = 1) { return {{op, d, d}, arity}; }

inline std::vector<Sample> all_functions() {
  std::vector<Sample> out;
  for (DType d : {kF32, kF64}) {
    for (Op op : {Op::kExp, Op::kExp2, Op::kLog, Op::kLog2, Op::kSin, Op::kCos, Op::kTanh, Op::kErf,
                  Op::kSqrt, Op::kTrunc, Op::kFloor, Op::kCeil, Op::kRound}) {
      out.push_back(of_real(op, d));
    }
    out.push_back(of_real(Op::kPow, d, 2));
    out.push_back(of_real(Op::kMulAcc, d, 3));
  }
  for (DType d : kInts) {
    for (Op op : {Op::kCDiv, Op::kCMod, Op::kFloorDiv, Op::kFloorMod}) {
      out.push_back({{op, d, d}, 2});
    }
  }
  out.push_back({{Op::kThreefry, DType::kUInt64, DType::kUInt64}, 2});
  std::vector<DType> all(std::begin(kNarrow), std::end(kNarrow));
  all.insert(all.end(), std::begin(kInts), std::end(kInts));
  all.insert(all.end(), {DType::kBool, kF32, kF64});
  for (DType from : all) {
    for (DType to : all) {
      const Sample one{{Op::kCast, to, from}};
      if (has_function(one.key)) out.push_back(one);
    }
  }
  return out;
}

// With what targets have themselves and the library's rules say more of than C.
inline std::vector<Sample> all_cases() {
  std::vector<Sample> out = all_functions();
  for (DType d : {kF32, kF64}) {
    out.push_back(of_real(Op::kAbs, d));
    out.push_back(of_real(Op::kMax, d, 2));
    out.push_back(of_real(Op::kMin, d, 2));
  }
  for (DType d : kInts) {
    for (Op op : {Op::kShl, Op::kShr, Op::kMax, Op::kMin}) out.push_back({{op, d, d}, 2});
  }
  return out;
}

// Casts between others are made of these.
inline bool is_basic(const Sample& c) {
  const auto basic = [](DType d) {
    return d == kF32 || d == kF64 || d == DType::kInt32 || d == DType::kInt64;
  };
  return c.key.op != Op::kCast || basic(c.key.operand) || basic(c.key.result);
}
// The others only at the widest.
inline bool is_tried(const Sample& c, int width) { return is_basic(c) || width == widths().back(); }

// `kernel(name, lanes)` computes it for every element.
inline void add_kernel(Module* module, const Sample& c, const std::string& name, int lanes,
                       bool fma) {
  const std::string x = lanes == 1 ? "" : "x" + std::to_string(lanes);
  const std::string from = type_name(c.key.operand), to = type_name(c.key.result) + x;
  std::string what = uop::info(c.key.op).name + (" " + to);
  if (has_function(c.key)) {
    size_t place = 0;
    ASSERT_TRUE(add_function(&place, module, c.key, fma).ok()) << last_error() << c.name();
    what = "Call " + to + " " + module->programs[place].name;
  }
  std::string text = "program " + name + "\n%0 = Param i64 0 from 0 to 4294967296 by 64\n";
  std::string loads;
  for (int i = 0; i < c.arity; ++i) {
    const std::string n = std::to_string(i);
    text += "%1" + n + " = Param " + from + " " + n + " [%0]\n";
    loads += "%2" + n + " = Load " + from + x + " %1" + n + " + %1\n";
    what += " %2" + n;
  }
  text += "%30 = Param " + std::string(type_name(c.key.result)) + " " + std::to_string(c.arity) +
          " [%0] write\n%1 = Loop task 0 %0 " + std::to_string(lanes) + "\n" + loads +
          "%2 = " + what + "\nStore %30 + %1, %2\nEnd\n";
  ASSERT_TRUE(read(module, text).ok()) << last_error() << text;
  ASSERT_TRUE(verify(*module).ok()) << last_error() << print(*module);
}

inline std::string unit_of(const std::vector<std::unique_ptr<RenderedC>>& programs, int width) {
  std::vector<const RenderedC*> all;
  for (const auto& one : programs) all.push_back(one.get());
  Text out(process_heap());
  EXPECT_TRUE(write_unit(out, all, target_of(width)).ok()) << last_error();
  return std::string(out.view());
}

// The functions of one width by one compiler; "clang ubsan" traps where behaviour is undefined,
// "own" is machine code of our own.
class Built {
 public:
  Built(const std::string& compiler, int width, const std::vector<Sample>& cases)
      : compiler_(compiler), width_(width) {
    std::vector<std::unique_ptr<RenderedC>> programs;
    for (const Sample& c : cases) {
      if (!is_tried(c, width)) continue;
      for (int n : lanes_of(c)) {
        Module module(process_heap());
        const std::string name = c.name() + "_" + std::to_string(n);
        add_kernel(&module, c, name, n, fma());
        if (compiler == "own") {
          codes_[name] = std::make_unique<MachineCode>(module, target_of(width));
          EXPECT_TRUE(codes_[name]->status().ok()) << last_error() << print(module);
          continue;
        }
        programs.push_back(std::make_unique<RenderedC>(process_heap()));
        EXPECT_TRUE(render_c(*programs.back(), module, target_of(width)).ok())
            << last_error() << print(module);
      }
    }
    if (compiler == "own") return;
    const std::string command = compiler == "clang ubsan"
                                    ? "clang -fsanitize=undefined -fsanitize-trap=undefined"
                                    : compiler;
    library_ = std::make_unique<Library>(command, unit_of(programs, width), bytes());
  }
  // A vector's, one, less than a vector of 16 bytes, more than the target has.
  std::vector<int> lanes_of(const Sample& c) const {
    const int full = c.lanes(bytes());
    std::vector<int> out{full};
    const auto add = [&](int lanes) {
      if (lanes <= 64 && std::ranges::find(out, lanes) == out.end()) out.push_back(lanes);
    };
    const bool widest = width_ == widths().back();
    if (compiler_ == "own" && is_basic(c)) add(1), add(full / 2);
    if (compiler_ != "gcc" || !is_basic(c)) return out;
    if (widest || width_ == 16) add(1);
    if (widest) add(2), add(2 * full);
    return out;
  }
  std::string name() const { return compiler_ + " " + std::to_string(width_); }
  int width() const { return width_; }
  bool fma() const { return width_ >= 32; }
  int bytes() const { return std::max(width_, 16); }
  // n elements, a multiple of 64.
  void run(const Sample& c, int lanes, std::vector<const void*> x, void* y, size_t n) const {
    const std::string name = c.name() + "_" + std::to_string(lanes);
    const auto f = library_ != nullptr ? library_->find(name.c_str()) : codes_.at(name)->function();
    ASSERT_NE(f, nullptr) << name;
    x.resize(static_cast<size_t>(c.arity));
    x.push_back(y);
    const long long sizes[] = {static_cast<long long>(n)};
    f(const_cast<void* const*>(x.data()), sizes, nullptr, 0, sizes[0] / lanes);
  }
  template <typename T>
  std::vector<T> operator()(const Sample& c, const std::vector<T>& x,
                            const std::vector<T>& y = {}) const {
    std::vector<T> out(x.size());
    run(c, lanes_of(c)[0], {x.data(), y.data()}, out.data(), x.size());
    return out;
  }

 private:
  std::string compiler_;
  int width_;
  std::unique_ptr<Library> library_;
  std::map<std::string, std::unique_ptr<MachineCode>> codes_;
};

// By every compiler at every width; gcc's as C for any CPU too.
inline std::vector<std::unique_ptr<Built>> build(const std::vector<Sample>& cases) {
  std::vector<std::unique_ptr<Built>> out;
  for (const std::string& compiler : compilers()) {
    if (compiler == "gcc") out.push_back(std::make_unique<Built>(compiler, 0, cases));
    for (int width : widths()) out.push_back(std::make_unique<Built>(compiler, width, cases));
    for (int width : widths()) {
      if (width >= 32 && compiler == "gcc")
        out.push_back(std::make_unique<Built>("own", width, cases));
    }
    if (compiler == "clang")
      out.push_back(std::make_unique<Built>("clang ubsan", widths().back(), cases));
  }
  return out;
}

inline const std::vector<std::unique_ptr<Built>>& builds() {
  static const std::vector<std::unique_ptr<Built>> all = build(all_cases());
  return all;
}

// ---- Values ----

inline constexpr double kReals[] = {0.0,
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
inline std::vector<uint8_t> values(DType d, uint64_t seed) {
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

// Equal bits, any NaN like any other.
inline bool same(DType d, const uint8_t* a, const uint8_t* b) {
  if (std::memcmp(a, b, dtype::size(d)) == 0) return true;
  return dtype::is_float(d) && std::isnan(dtype::load_double(d, a)) &&
         std::isnan(dtype::load_double(d, b));
}

inline void expect_same(const std::string& where, const Sample& c, const std::vector<uint8_t>& got,
                        const std::vector<uint8_t>& expected, const std::vector<uint8_t>* x) {
  if (got == expected) return;
  const size_t size = dtype::size(c.key.result), from = dtype::size(c.key.operand);
  for (size_t i = 0; i < got.size() / size; ++i) {
    if (same(c.key.result, &got[i * size], &expected[i * size])) continue;
    uint64_t bits[5] = {};
    std::memcpy(&bits[0], &got[i * size], size);
    std::memcpy(&bits[1], &expected[i * size], size);
    for (int k = 0; k < c.arity; ++k) std::memcpy(&bits[2 + k], &x[k][i * from], from);
    ADD_FAILURE() << where << " " << c.name() << " of " << std::hex << bits[2] << ", " << bits[3]
                  << " is " << bits[0] << ", not " << bits[1];
    return;
  }
}

// Operands of one size; of several, every pair of ends of ranges comes first.
inline void fill(const Sample& c, std::vector<uint8_t> (&x)[3]) {
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

}  // namespace aster::codegen::program::tests
