// Programs with what renderers have to say: rows of the tables, casts, memory, random ones.
#pragma once

#include <string>
#include <vector>

#include "codegen/program_evaluator.h"
#include "codegen/random_program.h"

namespace aster::codegen::program::tests {

struct Case {
  std::string text;
  std::vector<int64_t> sizes = {};
  int64_t tasks = 1;
  bool special = false;  // params hold ends of ranges, zeros, infinities, NaN
};

inline void make_special(std::vector<Param>* params) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double reals[] = {0.0,    -0.0,    1,      -1,    kInf,    -kInf,  std::nan(""),
                          0.5,    -2.5,    3.5,    1e-40, -1e-310, 1e30,   -1e30,
                          0x1p63, -0x1p63, 0x1p31, 255.5, 1e-45,   3.4e38, -7.75};
  const int64_t wholes[] = {0,         1,         -1,        2,         -2,   7,   31,    32,
                            63,        64,        127,       128,       -128, 255, 32767, -32768,
                            INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 8,    16,  15,    -7};
  size_t at = 0;
  for (Param& p : *params) {
    for (int64_t i = 0; i < p.count; ++i, at += at % 7 == 0 ? 2u : 1u) {
      const double real = reals[at % std::size(reals)];
      const int64_t whole = wholes[at % std::size(wholes)];
      p.set(i, dtype::is_float(p.dtype)  ? std::bit_cast<Word>(dtype::truncate_float(p.dtype, real))
               : p.dtype == DType::kBool ? whole & 1
                                         : dtype::truncate_int(p.dtype, whole));
    }
    at += 5;
  }
}

inline std::string rename(std::string text, const std::string& name) {
  const size_t at = text.rfind("program ") + 8;
  return text.replace(at, text.find_first_of(" \n", at) - at, name);
}

inline void same(const std::string& where, const std::vector<Param>& got,
                 const std::vector<Param>& expected) {
  for (size_t p = 0; p < got.size(); ++p) {
    for (int64_t i = 0; i < got[p].count; ++i) {
      const Word a = got[p].get(i), b = expected[p].get(i);
      const auto nan = [&](Word w) {
        return dtype::is_float(got[p].dtype) && std::isnan(std::bit_cast<double>(w));
      };
      if (a == b || (nan(a) && nan(b))) continue;
      ADD_FAILURE() << where << ": param " << p << " element " << i << " is " << std::hex << a
                    << ", not " << b;
      return;
    }
  }
}

// The convolution over two channels, without a fused multiply-add where asked.
inline std::string conv(bool fused) {
  std::string text = kConv3x3;
  const auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("%8 = Loop 0 64 1", "%8 = Loop 0 2 1");
  if (fused) return text;
  replace("%14 = MulAcc f32x16 {u v} %13 %11 %7",
          "%21 = Mul f32x16 {u v} %13 %11; %14 = Add f32x16 {u v} %21 %7");
  return text;
}

// Random programs for targets with or without fused multiply-adds.
inline std::vector<Case> random_cases(bool fused, uint64_t count) {
  std::vector<Case> cases;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const std::string text = RandomProgram(seed, fused).text();
    Read got(text);
    int64_t tasks = 0;
    for (const Instruction& in : got.last().code()) {
      if (in.op == Op::kLoop && in.kind != 0) tasks = got.last().words(in)[1];
    }
    cases.push_back({text, {}, tasks});
  }
  return cases;
}

inline const char* const kTypes[] = {"f32", "f64", "i8",  "u8",  "i16", "u16",
                                     "i32", "u32", "i64", "u64", "bool"};
inline DType dtype_of(std::string_view name) {
  Read one("program p\n%0 = Const " + std::string(name) + " 0");
  return one.last().at(0).dtype;
}

// Results of operations on 256 elements of one type, some lanes at a time. `%6 %7 %8` are operands,
// %9 conditions.
class Operations {
 public:
  Operations(const std::string& from, int lanes) : from_(from), lanes_(lanes) {}
  std::string type(const std::string& element) const {
    return lanes_ == 1 ? element : element + "x" + std::to_string(lanes_);
  }
  // Body defines %N for the number that it is given.
  void add(const std::string& to, const std::string& body) {
    const std::string memory = "%" + std::to_string(1000 + count_);
    params_ += memory + " = Param " + to + " " + std::to_string(4 + count_) + " [256] write\n";
    body_ += body + "\nStore " + memory + " + %5, " + value() + "\n";
    ++count_;
  }
  // The value that the next body is to define; others of its own: value("a"), ..
  std::string value(const std::string& more = "") const {
    return "%" + std::to_string(2000 + count_) + more;
  }
  size_t size() const { return count_; }
  Case get() const {
    std::string text = "program p\n";
    for (int i = 0; i < 3; ++i) {
      text += "%" + std::to_string(i) + " = Param " + from_ + " " + std::to_string(i) + " [256]\n";
    }
    text += "%3 = Param bool 3 [256]\n" + params_ + "%5 = Loop task 0 256 " +
            std::to_string(lanes_) + "\n";
    for (int i = 0; i < 3; ++i) {
      text += "%" + std::to_string(6 + i) + " = Load " + type(from_) + " %" + std::to_string(i) +
              " + %5\n";
    }
    text += "%9 = Load " + type("bool") + " %3 + %5\n" + body_ + "End\n";
    return {text, {}, 256 / lanes_, true};
  }

 private:
  std::string from_, params_, body_;
  int lanes_;
  size_t count_ = 0;
};

// Every operation that a target has on a dtype, some lanes at a time, on numbers at the ends of
// their ranges; nothing where it has none. Render: of a module by the target.
template <typename Render>
Case row_case(const std::string& type, int lanes, Render render, size_t* rows) {
  Operations all(type, lanes);
  for (size_t o = 0; o < static_cast<size_t>(Op::kCount); ++o) {
    const Op op = static_cast<Op>(o);
    const uop::OpInfo& row = uop::info(op);
    const bool partial = !row.kernel && op != Op::kLeast && op != Op::kMost;
    if (!is_arithmetic(op) || partial) continue;
    const std::string to = row.rule == uop::DTypeRule::kCompare ? "bool" : type;
    const char* const arguments[] = {"", " %6", " %6 %7", " %6 %7 %8"};
    const auto body = [&](const Operations& in) {
      return in.value() + " = " + row.name + " " + in.type(to) +
             (op == Op::kWhere ? " %9 %6 %7" : arguments[row.sources]);
    };
    Operations alone(type, lanes);
    alone.add(to, body(alone));
    Read got(alone.get().text);
    if (!verify(got.module).ok()) continue;  // not an operation of this dtype
    const Status status = render(got.module);
    if (status.code == static_cast<int32_t>(Code::kUNSUPPORTED)) continue;
    EXPECT_TRUE(status.ok()) << last_error() << alone.get().text;
    all.add(to, body(all));
  }
  *rows += all.size();
  return all.get();
}

inline std::vector<Case> partial_cases() {
  std::vector<Case> cases;
  for (const std::string type : {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}) {
    for (int lanes : {1, 4}) {
      Operations all(type, lanes);
      for (const char* op : {"Quo", "Rem", "Left", "Right"}) {
        // The second operand is 1, 3, 5 or 7.
        const std::string t = all.type(type);
        std::string body;
        for (const auto& [name, number] : {std::pair("1", "7"), std::pair("2", "1")}) {
          body +=
              all.value("0") + name + " = Const " + type + " " + number + "\n" + all.value("1") +
              name + " = " +
              (lanes == 1 ? "Or " + t + " " + all.value("0") + name + " " + all.value("0") + name
                          : "Spread " + t + " " + all.value("0") + name) +
              "\n";
        }
        body += all.value("21") + " = And " + t + " %7 " + all.value("11") + "\n" +
                all.value("22") + " = Or " + t + " " + all.value("21") + " " + all.value("12") +
                "\n" + all.value() + " = " + op + " " + t + " %6 " + all.value("22");
        all.add(type, body);
      }
      cases.push_back(all.get());
    }
  }
  return cases;
}

// By 2^-151 .. 2^104 (f64: 2^-1100 .. 2^947), to what is below the normal numbers and past the
// largest.
inline std::vector<Case> scaling_cases() {
  std::vector<Case> cases;
  const char* const kParts[][5] = {{"f32", "i32", "255", "151", "12582912"},
                                   {"f64", "i64", "2047", "1100", "6755399441055744"}};
  for (const auto& [real, whole, mask, least, offset] : kParts) {
    for (const int lanes : {1, 2, 4, 8, 16}) {
      const std::string x = lanes == 1 ? "" : "x" + std::to_string(lanes);
      const std::string f = real + x, i = whole + x;
      std::string text = std::string("program p\n%0 = Param ") + real + " 0 [256]\n%1 = Param " +
                         whole + " 1 [256]\n%2 = Param " + real + " 2 [256] write\n";
      const std::pair<const char*, std::string> numbers[] = {
          {"3", std::string(whole) + " " + mask},
          {"4", std::string(whole) + " " + least},
          {"5", std::string(real) + " " + offset}};
      for (const auto& [id, number] : numbers) {
        text += std::string("%1") + id + " = Const " + number + "\n";
        const std::string type = number.substr(0, 3);
        text +=
            lanes == 1 ? "" : std::string("%2") + id + " = Spread " + type + x + " %1" + id + "\n";
      }
      const std::string v = lanes == 1 ? " %1" : " %2";
      text += "%6 = Loop task 0 256 " + std::to_string(lanes) + "\n%7 = Load " + f +
              " %0 + %6\n%8 = Load " + i + " %1 + %6\n%9 = And " + i + " %8" + v + "3\n%30 = Sub " +
              i + " %9" + v + "4\n%31 = Cast " + f + " %30\n%32 = Add " + f + " %31" + v +
              "5\n%33 = Scale " + f + " %7 %32\nStore %2 + %6, %33\nEnd\n";
      cases.push_back({text, {}, 256 / lanes, true});
      cases.push_back({text, {}, 256 / lanes, false});
    }
  }
  return cases;
}

inline std::vector<Case> cast_cases() {
  std::vector<Case> cases;
  for (const std::string from : kTypes) {
    for (int lanes : {1, 8}) {
      Operations all(from, lanes);
      for (const std::string to : kTypes) {
        all.add(to, all.value() + " = Cast " + all.type(to) + " %6");
        const bool same = from != "bool" && to != "bool" &&
                          dtype::size(dtype_of(from)) == dtype::size(dtype_of(to));
        if (same) all.add(to, all.value() + " = Bitcast " + all.type(to) + " %6");
      }
      cases.push_back(all.get());
    }
  }
  return cases;
}

// Narrow floats are moved, no more.
inline const char* const kFunctions = R"(function limit
%0 = Param f32xn 0
%1 = Param f32 1
%2 = Spread f32xn %1
%3 = CmpLt boolxn %2 %0
%4 = Acc f32xn %0
%5 = Across:Or bool %3
If %5
  %6 = Where f32xn %3 %2 %0
  Set %4 %6
End
Result %4
function both
%0 = Param f32 1
%1 = Param boolxn 0
%2 = Param f32xn 2
%3 = Call f32xn limit %2 %0
%4 = Where f32xn %1 %3 %2
Result %4
program p
%0 = Param i64 0 from 8 to 400 by 8
%1 = Param f32 0 [%0]
%2 = Param f32 1 [%0] write
%3 = Const f32 0.5
%4 = Loop task 0 %0 8
  %5 = Load f32x8 %1 + %4
  %6 = CmpLt boolx8 %5 %5
  %7 = Not boolx8 %6
  %8 = Call f32x8 both %7 %3 %5
  %9 = Lane f32 %8 3
  %10 = Lane bool %7 2
  %11 = Call f32 both %10 %3 %9
  %12 = Spread f32x8 %11
  %13 = Add f32x8 %12 %8
  Store %2 + %4, %13
End
)";
inline const char* const kArrays = R"(program p
axis u 4, w 8
%0 = Param bf16 0 [256]
%1 = Param bf16 1 [256] write
%2 = Param i32 2 [64] write atomic
%3 = Table bf16 [8] 1 2 3 4 5 6 7 8
%4 = Array bf16 [64] scratch slack 8
%5 = Array i32 [16] private
%6 = Param i32 3 [64] write
%7 = Loop task 0 2 1; %8 = Loop task 0 4 1
  %9 = Load bf16x8 {u} %0 + 128*%7 + 32*%8 + 8*u
  %10 = Turn bf16x8 {w} %9 u->w
  Store {w} %4 + 8*w, %10
  %11 = Load bf16x8 {u} %4 + 16*u
  %12 = Load bf16x8 %3 + 7 step -1
  %13 = Shuffle bf16x8 %12 %12 8 1 10 3 12 5 14 7
  Store {u} %1 + 128*%7 + 32*%8 + 8*u, %11 first 7
  Store %1 + 128*%7 + 32*%8 + 7, %13 first 1
  %14 = Lanes i32x8; %15 = Const i32 3; %16 = Spread i32x8 %15
  %17 = Mul i32x8 %14 %16; %18 = CmpLt boolx8 %17 %14
  Store %5, %17; %19 = Load i32x4 %5 + 1 step 2
  Prefetch %0 + 1000000 write
  %20 = Const i64 5
  Atomic:Add %2 + 8*%7 + 4*%8, %19 mask %22
End; End
)";
inline const char* const kGroups = R"(program p
%0 = Param i64 0 [64] write
%1 = Loop group 0 0 8 1; %2 = Loop group 1 0 2 1; %3 = Loop local 0 0 4 1
  Store %0 + 8*%1 + 4*%2 + %3, %2
End; End; End
)";
inline const char* const kMasks = R"(program p
axis u 3, v 4, w 8
%0 = Param f64 0 [64]
%1 = Param bool 1 [64] write
%2 = Param bool 2 [32]
%3 = Load f64x8 {v} %0 + 8*v
%4 = CmpLt boolx8 {v} %3 %3
%5 = Load boolx8 {v} %2 + 8*v
%6 = Or boolx8 {v} %4 %5
%7 = Load boolx8 {u} %2 + 8*u
%8 = Turn boolx8 {w} %7 u->w
%9 = Join:And boolx8 %6 v
%10 = Xor boolx8 {w} %8 %9
Store {w} %1 + 8*w, %10
)";
inline std::vector<Case> memory_cases() {
  std::string arrays = kArrays;
  arrays.replace(arrays.find(" mask %22"), 9, "");
  return {{kFunctions, {400}, 50}, {arrays, {}, 8}, {kGroups, {}, 1}, {kMasks, {}, 1}};
}

}  // namespace aster::codegen::program::tests
