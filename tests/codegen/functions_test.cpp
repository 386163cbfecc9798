// Functions as programs: what they mean and what C makes of them, by which names they go, what
// there is. How near they are: functions_accuracy_test.cpp, functions_exact_test.cpp.
#include "codegen/functions_support.h"

namespace aster::codegen::program::tests {
namespace {

// What a function says by its instructions, and what C makes of them.
TEST(Functions, MeanWhatIsCompiled) {
  constexpr int64_t kCount = 192;
  for (const Sample& c : all_cases()) {
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
      const bool fma = build->fma();
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
  for (const Sample& c : all_functions()) {
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
      text[fma] = print(module);
      name[fma] = module.programs[place].name;
      Read back(text[fma]);
      EXPECT_EQ(print(back.module), text[fma]) << back.error;
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
      const bool integral = rule == uop::DTypeRule::kIntegral || rule == uop::DTypeRule::kBits64 ||
                            rule == uop::DTypeRule::kInt32;
      if (real ? integral : rule == uop::DTypeRule::kFloating) continue;
      if (rule == uop::DTypeRule::kBits64 && d != DType::kUInt64) continue;
      if (rule == uop::DTypeRule::kInt32 && d != DType::kInt32) continue;
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
  const Sample exp = of_real(Op::kExp, kF32);
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
  Read other(
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
      FailingMemory memory(left);
      Module module(memory);
      size_t place = 0;
      const Status status = add_function(&place, &module, {op, kF32, kF32}, false);
      if (status.ok()) break;
      ASSERT_EQ(status.code, static_cast<int32_t>(Code::kMEMORY));
    }
  }
}

}  // namespace
}  // namespace aster::codegen::program::tests
