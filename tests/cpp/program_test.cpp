// Programs that are saved and loaded: what was captured gives the same bits again.
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "world.h"

namespace {

using aster_ml::Program;
using aster_ml::ProgramForm;
using aster_ml::ProgramList;
using aster_ml::Size;
using aster_ml::Tensor;
using cpp_test::Floats;
using cpp_test::floats;
using cpp_test::noise;

class CppProgram : public testing::Test {
 protected:
  void SetUp() override {
    OK(context.ok());
    // Its own for each process: the same tests run as C++17 and as C++20 beside each other.
    std::string name = (std::filesystem::temp_directory_path() / "aster-cpp-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path(const char* name) const { return (folder / name).string(); }
  Tensor made(size_t rows, size_t columns, uint32_t seed) {
    return Tensor(noise(rows * columns, seed))
        .reshape({static_cast<int64_t>(rows), static_cast<int64_t>(columns)})
        .clone()
        .realized();
  }
  // Every form in which a program goes out and comes back.
  std::vector<Program> all_of(const Program& program) {
    std::vector<Program> out;
    EXPECT_OK(program.save(path("p.aster")));
    EXPECT_OK(program.save(path("s.aster"), ProgramForm::side_file));
    EXPECT_OK(program.save(path("p.txt"), ProgramForm::text));
    out.push_back(Program::load(path("p.aster")));
    out.push_back(Program::load(path("s.aster")));
    out.push_back(Program::load(path("p.txt")));
    out.push_back(Program::from_bytes(program.to_bytes()));
    out.push_back(Program::from_bytes(out.back().to_bytes()));  // what was loaded is saved again
    for (const Program& each : out) EXPECT_OK(each.ok());
    return out;
  }
  // A linear layer trained by momentum: each run gives the loss and leaves weights and velocity.
  struct Trained {
    Tensor w, b, v;
    Program step;
  };
  Trained trained() {
    Trained out;
    out.w = made(6, 3, 1);
    out.b = made(1, 3, 2);
    out.v = Tensor::zeros({6, 3}).contiguous();
    EXPECT_OK(out.v.realize());
    const Tensor x = made(4, 6, 3), y = made(4, 3, 4), w = out.w, b = out.b, v = out.v;
    out.step = Program({x, y}, [=] {
      const Tensor loss = (x.matmul(w).tanh() + b - y).square().mean();
      const std::vector<Tensor> slopes = loss.gradient({w, b});
      EXPECT_OK(v.assign(v * 0.9 + slopes[0]));
      EXPECT_OK(aster_ml::realize(v));  // one realize call of several
      EXPECT_OK(w.assign(w - v * 0.1));
      EXPECT_OK(b.assign(b - slopes[1] * 0.1));
      EXPECT_OK(aster_ml::realize(loss, w, b));
      return loss;
    });
    EXPECT_OK(out.step.ok());
    EXPECT_OK(out.step.set_name(ProgramList::inputs, 0, "x"));
    EXPECT_OK(out.step.set_name(ProgramList::outputs, 0, "loss"));
    return out;
  }
  aster_ml::Context context{cpp_test::one_thread()};
  std::filesystem::path folder;
};

// Training steps: the loaded ones go on from the same weights, and give the same bits, step by
// step.
TEST_F(CppProgram, TrainingStepsGiveTheSameBits) {
  const Trained t = trained();
  std::vector<Program> loaded = all_of(t.step);
  EXPECT_EQ(loaded[0].kernels(), t.step.kernels());
  for (uint32_t round = 0; round < 4; ++round) {
    const Tensor x = made(4, 6, 10 + round), y = made(4, 3, 20 + round);
    OK(t.step.run({x, y}));
    const Floats want = floats(t.step.outputs()[0]);
    for (const Program& each : loaded) {
      OK(each.run({x, y}));
      EXPECT_EQ(floats(each.outputs()[0]), want) << round;
    }
  }
  EXPECT_EQ(loaded[0].arrays(ProgramList::inputs)[0].name, "x");
  EXPECT_EQ(loaded[0].arrays(ProgramList::outputs)[0].name, "loss");
}

// State by name, in programs that have it and in such as are given it.
TEST_F(CppProgram, StateHasNames) {
  Trained t = trained();
  const std::vector<aster_ml::ProgramArray> captured = t.step.arrays(ProgramList::captured);
  const auto name = [&](const Tensor& state, const char* text) {
    for (size_t i = 0; i < captured.size(); ++i) {
      if (captured[i].data == state.view().storage.data) {
        EXPECT_OK(t.step.set_name(ProgramList::captured, i, text));
      }
    }
  };
  name(t.w, "w");
  name(t.b, "b");
  name(t.v, "v");
  const Program own = Program::from_bytes(t.step.to_bytes());
  const Program given = Program::from_bytes(t.step.to_bytes(ProgramForm::state_inputs));
  OK(own.ok() && given.ok());
  size_t named = 0;
  for (const auto& each : own.arrays(ProgramList::captured)) {
    named += each.assigned && (each.name == "w" || each.name == "b" || each.name == "v");
  }
  EXPECT_EQ(named, 3u);
  std::vector<Tensor> state;  // by the names that the program has
  std::vector<std::string> names;
  for (const auto& each : given.arrays(ProgramList::inputs)) {
    names.push_back(each.name);
    if (each.name == "w") state.push_back(t.w.clone().realized());
    if (each.name == "b") state.push_back(t.b.clone().realized());
    if (each.name == "v") state.push_back(t.v.clone().realized());
    EXPECT_EQ(each.assigned, names.size() > 2) << each.name;
  }
  ASSERT_EQ(names.size(), 5u);
  ASSERT_EQ(state.size(), 3u);
  for (uint32_t round = 0; round < 3; ++round) {
    const Tensor x = made(4, 6, 30 + round), y = made(4, 3, 40 + round);
    OK(t.step.run({x, y}));
    OK(own.run({x, y}));
    OK(given.run({x, y, state[0], state[1], state[2]}));
    EXPECT_EQ(floats(own.outputs()[0]), floats(t.step.outputs()[0]));
    EXPECT_EQ(floats(given.outputs()[0]), floats(t.step.outputs()[0]));
  }
  for (size_t i = 0; i < 3; ++i) {
    const Tensor& want = names[i + 2] == "w" ? t.w : names[i + 2] == "b" ? t.b : t.v;
    EXPECT_EQ(floats(state[i]), floats(want)) << names[i + 2];
  }
}

// What a run makes and then assigns to, parts of a cache, several realize calls, and a step without
// results.
TEST_F(CppProgram, WritesGoWhereTheyWent) {
  const Tensor cache = Tensor::zeros({4, 3}).contiguous().realized(), x = made(1, 3, 1);
  const Program step({x}, [&] {
    const Tensor room = (x * 2.f).clone().realized();
    EXPECT_OK(room.assign(room + 1.f));
    EXPECT_OK(room.realize());
    EXPECT_OK(cache.set({2}, room.reshape({3}) + cache[2]));
    EXPECT_OK(cache.realize());
    EXPECT_OK(cache.set({0}, cache[2] * 3.f));
    EXPECT_OK(cache.realize());
    const Tensor out = (cache.sum(0) + room).realized();
    return std::vector<Tensor>{out, cache};
  });
  OK(step.ok());
  const std::vector<Program> loaded = all_of(step);
  const Tensor sum = Tensor::zeros({1, 3}).contiguous().realized();
  const Program silent({x}, [&] {
    EXPECT_OK(sum.assign(sum + x));
    EXPECT_OK(sum.realize());
  });
  const Program quiet = Program::from_bytes(silent.to_bytes());
  OK(quiet.ok());
  EXPECT_EQ(quiet.arrays(ProgramList::outputs).size(), 0u);
  for (uint32_t round = 0; round < 3; ++round) {
    const Tensor y = made(1, 3, 50 + round);
    OK(step.run({y}));
    for (const Program& each : loaded) {
      OK(each.run({y}));
      EXPECT_EQ(floats(each.outputs()[0]), floats(step.outputs()[0])) << round;
      EXPECT_EQ(floats(each.outputs()[1]), floats(step.outputs()[1])) << round;
    }
    EXPECT_OK(quiet.run({y}));
  }
}

// Random numbers: each run draws others, and a loaded program goes on from where it was saved.
TEST_F(CppProgram, RandomNumbersGoOn) {
  const Tensor x = made(8, 16, 1);
  const Program step({x}, [&] {
    const Tensor a = x.dropout(0.5, true).realized();
    return (a + Tensor::rand({8, 16})).realized();
  });
  OK(step.ok());
  const Program loaded = Program::from_bytes(step.to_bytes());
  OK(loaded.ok());
  Floats last;
  for (int round = 0; round < 3; ++round) {
    OK(step.run({x}));
    OK(loaded.run({x}));
    EXPECT_EQ(floats(loaded.outputs()[0]), floats(step.outputs()[0]));
    EXPECT_NE(floats(loaded.outputs()[0]), last);
    last = floats(loaded.outputs()[0]);
  }
}

TEST_F(CppProgram, BadInputIsNamed) {
  Trained t = trained();
  EXPECT_FALSE(t.step.save(path("no/such/folder")));
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
  EXPECT_FALSE(t.step.save(""));
  EXPECT_FALSE(Program().save(path("empty")));
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  EXPECT_FALSE(std::filesystem::exists(path("empty")));
  EXPECT_FALSE(Program::load(path("none")).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
  EXPECT_EQ(t.step.to_bytes(static_cast<ProgramForm>(64)), "");
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_RANGE);
  const std::string text = t.step.to_bytes(ProgramForm::text);
  EXPECT_EQ(text.rfind("aster 2 opset 1\n", 0), 0u) << text;
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
    EXPECT_FALSE(Program::verify(text.substr(0, at - 3)));
  const auto refuse = [&](const std::string& from, const std::string& to, const char* says) {
    std::string altered = text;
    const size_t at = altered.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    altered.replace(at, from.size(), to);
    EXPECT_FALSE(Program::verify(altered)) << to;
    EXPECT_NE(std::string(aster_ml::error().message).find(says), std::string::npos)
        << aster_ml::error().message;
    EXPECT_FALSE(Program::from_bytes(altered).ok());
  };
  refuse("aster 2 ", "aster 3 ", "version 3");
  refuse("aster 2 ", "aster 1 ", "line");
  refuse("realize ", "realize %999 ", "a node above");
  refuse("realize %", "realize ", "realize call");
  refuse("output ", "require 1 <=\noutput ", "<=");
  refuse("output ", "require \"n\" <= 1\noutput ", "a variable above");
  refuse("output ", "sizes input 9 (1)\noutput ", "an array above");
  refuse("output ", "sizes input 0 (1)\noutput ", "an expression an axis");
  EXPECT_FALSE(
      Program::verify("aster 2 opset 1\n%0 = Input float32[1] \"x\"\n%1 = Exp float32[1] %0\n"
                      "realize %1\n%2 = Input float32[1] \"late\"\noutput %2 \"y\"\nend\n"));
  EXPECT_NE(std::string(aster_ml::error().message).find("line 5"), std::string::npos);
  // A size nested too deep is one line of a message, not a stack.
  refuse("output ", "require " + std::string(100000, '(') + "\noutput ", "line");
  std::string deep = "require ";
  for (int i = 0; i < 10000; ++i) deep += "Neg(";
  refuse("output ", deep + "\noutput ", "so deep");
}

// A step of symbolic sizes: rows of two inputs, n and n + 1 of them, less their mean; and the sums.
struct Centred {
  Program step;
  explicit Centred(bool looks = false) {
    const Size n = Size::variable("n", 2, 9).bind("n", 3);
    const Tensor most = Tensor::zeros({9, 4}).contiguous().realized(),
                 more = Tensor::zeros({10, 4}).contiguous().realized();
    const Tensor x = shrink(most, {0, 0}, {n, 4}), y = shrink(more, {0, 0}, {n + 1, 4});
    step = Program({x, y}, [&] {
      EXPECT_OK(Program::dry());
      if (looks) return std::vector<Tensor>{x * static_cast<float>(n.value()), y.sum(0)};
      return std::vector<Tensor>{x - x.mean({0}, true), y.sum(0), y * 2.f};
    });
    EXPECT_OK(step.set_name(ProgramList::inputs, 0, "x"));
  }
};

TEST_F(CppProgram, OneFileServesManySizes) {
  const Centred made;
  OK(made.step.ok());
  const std::string text = made.step.to_bytes(ProgramForm::text);
  EXPECT_NE(text.find("Variable int32 \"n\" (2, 9, 3)"), std::string::npos) << text;
  EXPECT_NE(text.find("sizes input 0 (\"n\", 4)"), std::string::npos) << text;
  EXPECT_NE(text.find("sizes input 1 (Add("), std::string::npos) << text;
  const std::vector<Program> all = all_of(made.step);
  EXPECT_EQ(Program::from_bytes(text).to_bytes(ProgramForm::text), text);
  aster_ml_engine_counters before{}, after{};
  before.struct_size = after.struct_size = sizeof(before);
  for (const Program& each : all) {
    ASSERT_EQ(each.variables().size(), 1u);
    EXPECT_EQ(each.variables()[0].name, "n");
    EXPECT_FALSE(each.variables()[0].fixed);
    EXPECT_EQ(each.sizes(ProgramList::inputs, 0), (std::vector<int64_t>{3, 4}));
    EXPECT_EQ(each.sizes(ProgramList::inputs, 1, {5}), (std::vector<int64_t>{6, 4}));
    EXPECT_EQ(each.sizes(ProgramList::outputs, 0, {9}), (std::vector<int64_t>{9, 4}));
    EXPECT_EQ(each.sizes(ProgramList::outputs, 1, {9}), (std::vector<int64_t>{4}));
    for (const size_t n : {2u, 9u, 5u}) {
      const Floats a = noise(n * 4, 1), b = noise((n + 1) * 4, 2);
      const Tensor x = Tensor(a).reshape({static_cast<int64_t>(n), 4}).realized();
      // Strided: the rows of one that is wider.
      Floats wide((n + 1) * 6, 7.f);
      for (size_t i = 0; i < b.size(); ++i) wide[i / 4 * 6 + i % 4 + 1] = b[i];
      const Tensor whole = Tensor(wide).reshape({static_cast<int64_t>(n + 1), 6}).realized();
      const Tensor y = shrink(whole, {0, 1}, {static_cast<int64_t>(n + 1), 5});
      y.view();  // what computing it compiles is not the program's
      aster_ml_engine_count(&before, context.get());
      const std::vector<aster_ml::Array> got = each.run_sized({x, y});
      aster_ml_engine_count(&after, context.get());
      EXPECT_EQ(after.kernels_compiled, before.kernels_compiled);
      ASSERT_EQ(got.size(), 3u) << aster_ml::error().message;
      const Floats centred = got[0].to_vector<float>(), sums = got[1].to_vector<float>(),
                   twice = got[2].to_vector<float>();
      ASSERT_EQ(centred.size(), n * 4);
      ASSERT_EQ(sums.size(), 4u);
      ASSERT_EQ(twice.size(), (n + 1) * 4);
      for (size_t j = 0; j < 4; ++j) {
        double mean = 0, sum = 0;
        for (size_t i = 0; i < n; ++i) mean += static_cast<double>(a[i * 4 + j]);
        for (size_t i = 0; i <= n; ++i) sum += static_cast<double>(b[i * 4 + j]);
        mean /= static_cast<double>(n);
        EXPECT_NEAR(static_cast<double>(sums[j]), sum, 1e-5);
        for (size_t i = 0; i < n; ++i) {
          EXPECT_NEAR(static_cast<double>(centred[i * 4 + j]),
                      static_cast<double>(a[i * 4 + j]) - mean, 1e-6);
        }
        for (size_t i = 0; i <= n; ++i) EXPECT_EQ(twice[i * 4 + j], 2 * b[i * 4 + j]);
      }
    }
  }
}

TEST_F(CppProgram, SizesThatDoNotFitAreNamed) {
  const Program step = Program::from_bytes(Centred().step.to_bytes());
  OK(step.ok());
  const auto rows = [](int64_t count) { return Tensor::ones({count, 4}).contiguous().realized(); };
  const auto refuse = [&](const std::vector<Tensor>& given, int32_t code, const char* says) {
    EXPECT_TRUE(step.run_sized(given).empty());
    EXPECT_EQ(aster_ml::error().code, code) << aster_ml::error().message;
    EXPECT_NE(std::string(aster_ml::error().message).find(says), std::string::npos)
        << aster_ml::error().message;
    aster_ml::clear_error();
  };
  EXPECT_EQ(step.run_sized({rows(4), rows(5)}).size(), 3u);
  refuse({rows(4), rows(4)}, ASTER_ML_SHAPE, "input 1");
  refuse({rows(1), rows(2)}, ASTER_ML_RANGE, "n = 1");
  refuse({rows(10), rows(11)}, ASTER_ML_RANGE, "n = 10");
  refuse({rows(4)}, ASTER_ML_ARGUMENT, "1 inputs");
  refuse({rows(4).reshape({16}), rows(5)}, ASTER_ML_SHAPE, "1 axes");
  refuse({rows(4).cast(aster_ml::dtypes::int32).realized(), rows(5)}, ASTER_ML_DTYPE, "input 0");
  refuse({Tensor::ones({4, 5}).contiguous().realized(), rows(5)}, ASTER_ML_SHAPE, "axis 1");
  EXPECT_TRUE(step.sizes(ProgramList::inputs, 7).empty());
  EXPECT_TRUE(step.sizes(ProgramList::inputs, 0, {99}).empty());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_RANGE);
  // What looked at the value is for this one alone, in the file as well.
  const Program fixed = Program::from_bytes(Centred(true).step.to_bytes());
  OK(fixed.ok());
  if (!fixed.variables().empty()) {
    EXPECT_EQ(fixed.run_sized({rows(3), rows(4)}).size(), 2u);
  }
}

// Graphs, without a capture.
TEST_F(CppProgram, GraphsAreFilesToo) {
  const Tensor x({1.f, 2.f}), w({3.f, -4.f});
  const std::string bytes = aster_ml::to_program({{"x", x}}, {{"y", (x * w).relu()}});
  const Program program = Program::from_bytes(bytes);
  OK(program.ok());
  EXPECT_EQ(program.arrays(ProgramList::inputs)[0].name, "x");
  EXPECT_EQ(program.arrays(ProgramList::outputs)[0].name, "y");
  EXPECT_EQ(floats(program({Tensor({2.f, -1.f}).realized()})), (Floats{6, 4}));
  EXPECT_EQ(aster_ml::to_program({{"x", x}}, {}), "");
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml::to_program({{"", x}}, {{"y", x + x}}), "");
}

TEST_F(CppProgram, OperationsArePlanned) {
  using aster_ml::dtypes::float32;
  const aster_ml::Plan product = aster_ml::plan("matmul", {{float32, {4, 8}}, {float32, {8, 2}}});
  OK(product.ok());
  EXPECT_EQ(product.results[0].shape, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(product.results[0].dtype, float32);
  EXPECT_EQ(product.operations, 2u * 4 * 8 * 2);
  EXPECT_EQ(product.bytes, 4u * (32 + 16 + 8));
  const Tensor x({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  const std::vector<int64_t> axes{0};
  EXPECT_EQ(aster_ml::plan("sum", {x}, {{"axes", axes}, {"keepdim", 1}}).results[0].shape,
            (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(aster_ml::plan("matmul", {{float32, {4, 8}}, {float32, {7, 2}}}).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);
  EXPECT_FALSE(aster_ml::plan("nothing", {}).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
  EXPECT_FALSE(aster_ml::plan("sum", {x}, {{"axis", 0}}).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  EXPECT_GT(aster_ml::plan_names().size(), 200u);
}

TEST_F(CppProgram, SchedulesAreLists) {
  using aster_ml::Schedule;
  EXPECT_FALSE(Schedule::last().ok());  // nothing was realised
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
  const Tensor x = made(16, 16, 1), y = (x.matmul(x) + x).realized();
  OK(y.ok());
  const Schedule schedule = Schedule::last();
  OK(schedule.ok());
  ASSERT_GE(schedule.size(), 1u);
  const Schedule::Item item = schedule[schedule.size() - 1];
  EXPECT_NE(std::string(item.name), "");
  EXPECT_GE(item.operand_count, 2u);
  bool output = false;
  for (size_t i = 0; i < item.operand_count; ++i)
    output |= item.operands[i].slot == ASTER_ML_SLOT_OUTPUT && item.operands[i].count == 256;
  EXPECT_TRUE(output);
  for (size_t i = 0; i < schedule.size(); ++i) {
    if (schedule[i].kind != ASTER_ML_ITEM_KERNEL) continue;
    EXPECT_NE(schedule.source(i).find("float"), std::string::npos);
  }
  EXPECT_EQ(schedule.source(99), "");
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_RANGE);
  EXPECT_EQ(schedule[99].name, nullptr);
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_RANGE);
  EXPECT_EQ(Schedule().size(), 0u);
}

}  // namespace
