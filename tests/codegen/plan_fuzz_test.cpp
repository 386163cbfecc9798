// Random legal plans of random kernels: their programs against the graphs' evaluation, their C
// against the programs' bit by bit. Texts of plans that were broken at random are read or refused.
#include "codegen/neighbours.h"
#include "codegen/program_evaluator.h"
#include "codegen/random_kernel.h"
#include "codegen/random_plan.h"

namespace aster::codegen::tests {
namespace {

uint64_t first_seed() {
  const char* chosen = std::getenv("ASTER_TEST_SEED");
  return chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
}
bool exhaustive() { return std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr; }

std::string text_of(const Plan& plan) {
  Text out(process_heap());
  EXPECT_TRUE(print(out, plan).ok());
  return std::string(out.view());
}

class PlannedSuite : public Suite {
 public:
  // All cases, each by a plan of its own.
  void run_planned(int width, uint64_t seed) {
    const Target target = target_of(width);
    std::vector<Made> made;
    std::vector<Rendered> kernels;
    std::vector<const program::RenderedC*> unit;
    std::map<std::string, bool> seen;
    kernels.reserve(cases_.size());
    for (size_t i = 0; i < cases_.size(); ++i) {
      kernels.emplace_back(process_heap());
      made.emplace_back();
      ASSERT_NO_FATAL_FAILURE(
          draw(cases_[i], target, seed * 31 + i, &kernels.back(), &made.back()));
      if (!made.back().skipped && !std::exchange(seen[kernels.back().name], true))
        unit.push_back(&kernels.back().code);
    }
    Text text(process_heap());
    ASSERT_TRUE(program::write_unit(text, unit, target).ok()) << last_message();
    for (const std::string& compiler : compilers()) {
      Library library(compiler, std::string(text.view()), width);
      for (size_t i = 0; i < cases_.size(); ++i) {
        if (made[i].skipped) continue;
        const auto function = library.find(kernels[i].name);
        ASSERT_NE(function, nullptr);
        std::vector<std::pair<int64_t, int64_t>> each;
        for (int64_t task = kernels[i].tasks; task-- > 0;) each.emplace_back(task, task + 1);
        Case given = cases_[i];
        given.params = made[i].given;
        same_bits(given.name + " (" + compiler + ")\n" + made[i].text,
                  call(given, function, each, i % 2 == 0, nullptr, kernels[i].code.scratch_bytes),
                  made[i].params);
      }
      if (::testing::Test::HasFailure() || (!exhaustive() && width != widths().back())) break;
    }
    for (size_t i = 0; i < cases_.size() && width >= 32 && !::testing::Test::HasFailure(); ++i) {
      if (made[i].skipped) continue;
      Case given = cases_[i];
      given.params = made[i].given;
      given.name += "\n" + made[i].text;
      run_code(given, kernels[i].module, kernels[i].tasks, target, made[i].params);
    }
  }
  size_t skipped = 0, shared = 0, packed = 0, split = 0, copied = 0, fetched = 0, by_parts = 0;
  bool searched = false;  // plans are those that a search comes to
  bool copies = false;    // or that have something ready, where one is found
  bool parts = false;     // or whose folds go by parts
  void clear() { cases_.clear(); }

  // All cases by plans whose items share blocks: their programs, which tell of races, and, where
  // the machine has a device, what it computes.
  void run_blocks(const Target& target, uint64_t seed) {
    std::vector<Rendered> kernels;
    std::vector<std::pair<const Case*, std::string>> planned;
    std::vector<const program::RenderedC*> unit;
    kernels.reserve(cases_.size());
    for (size_t i = 0; i < cases_.size(); ++i) {
      const Case& one = cases_[i];
      Kernel kernel(process_heap());
      ASSERT_TRUE(kernel.analyse(one.kernel).ok());
      Plan plan(process_heap()), again(process_heap());
      if (!RandomPlan(kernel, target, seed * 31 + i).make_block(&plan)) continue;
      const std::string text = one.name + "\n" + text_of(plan);
      ASSERT_TRUE(read(&again, text_of(plan)).ok()) << last_message() << "\n" << text;
      ASSERT_TRUE(again == plan) << text << text_of(again);
      ++shared;
      packed += !plan.at(0).packed.empty();
      split += block_steps(kernel, plan.at(0)) < plan.at(0).items;
      program::Module module(process_heap());
      const Status lowered =
          lower_kernel(&module, "kernel", one.kernel, target, process_heap(), &plan);
      Text program(process_heap());
      ASSERT_TRUE(program::print(program, module).ok());
      ASSERT_TRUE(lowered.ok()) << text << last_message() << "\n" << program.view();
      std::vector<Param> got = one.params, expected = one.params;
      ASSERT_EQ(program::tests::Evaluator::run(module, got), "") << text << program.view();
      Evaluator(one.kernel, expected);
      compare(text, got, expected, one.tolerance);
      if (::testing::Test::HasFailure()) std::printf("%s\n", program.c_str());
      if (shared % (exhaustive() ? 8 : 4) != 0) continue;  // drivers take their time
      kernels.emplace_back(process_heap());
      ASSERT_TRUE(render(kernels.back(), graph, one.kernel, target, nullptr, &plan).ok())
          << last_message();
      planned.emplace_back(&one, text);
      unit.push_back(&kernels.back().code);
    }
    OpenclDevice* const device = OpenclDevice::get();
    if (device == nullptr || unit.empty() || ::testing::Test::HasFailure()) return;
    Text text(process_heap());
    ASSERT_TRUE(program::write_unit(text, unit, target).ok()) << last_message();
    run_on_device(*device, kernels, planned, std::string(text.view()));
  }
  void run_on_device(OpenclDevice& device, const std::vector<Rendered>& kernels,
                     const std::vector<std::pair<const Case*, std::string>>& planned,
                     const std::string& text) {
    OpenclDevice::Program program(device, text);
    for (size_t i = 0; i < kernels.size(); ++i) {
      const Case& one = *planned[i].first;
      std::vector<std::vector<uint8_t>> memory;
      for (const Param& p : one.params) memory.push_back(p.bytes);
      const auto items = static_cast<size_t>(kernels[i].code.locals[0]);
      program.run(kernels[i].name, memory, 0, {}, static_cast<size_t>(kernels[i].tasks) * items,
                  items);
      std::vector<Param> got = one.params, expected = one.params;
      for (size_t p = 0; p < got.size(); ++p) got[p].bytes = memory[p];
      Evaluator(one.kernel, expected);
      compare(planned[i].second, got, expected, one.tolerance);
    }
  }

  // All cases by programs whose numbers are sizes: they compute what those do that have them.
  void run_sized(const Target& target) {
    for (const Case& one : cases_) {
      program::Module own(process_heap()), sized(process_heap());
      Kernel kernel(process_heap());
      ASSERT_TRUE(kernel.analyse(one.kernel).ok());
      Plan plan(process_heap()), general(process_heap());
      ASSERT_TRUE(make_plan(&plan, kernel, target, process_heap()).ok());
      ASSERT_TRUE(check(plan, kernel, target).ok()) << last_message() << text_of(plan);
      shared += has_items(plan);
      ASSERT_TRUE(lower_program(&own, "own", kernel, plan, target, process_heap()).ok());
      // What shares work among items has one plan for all sizes.
      const Status lowered =
          has_items(plan)
              ? lower_program(&sized, "sized", kernel, plan, target, process_heap())
              : lower_general(&sized, &general, "sized", kernel, plan, target, process_heap());
      ASSERT_TRUE(lowered.ok()) << last_message();
      const bool blocks = std::ranges::any_of(plan.segments, &SegmentPlan::shares_block);
      Vec<int64_t> sizes(process_heap());
      // What shares blocks has sizes of its own.
      if (!blocks) {
        ASSERT_NO_FATAL_FAILURE(make_general(&sized, &sizes, one.name));
      }
      std::vector<Param> want = one.params, got = one.params;
      ASSERT_EQ(program::tests::Evaluator::run(own, want), "") << one.name << text_of(plan);
      ASSERT_EQ(program::tests::Evaluator::run(sized, got, {sizes.begin(), sizes.end()}), "")
          << one.name;
      same_bits(one.name, got, want);
      std::vector<Param> expected = one.params;
      Evaluator(one.kernel, expected);
      compare(one.name, got, expected, one.tolerance);
    }
    cases_.clear();
  }

 private:
  struct Made {
    std::string text;
    std::vector<Param> given, params;  // before and after: the kernel's, then copies
    bool skipped = false;
  };

  void draw(const Case& one, const Target& target, uint64_t seed, Rendered* out, Made* made) {
    Kernel kernel(process_heap());
    ASSERT_TRUE(kernel.analyse(one.kernel).ok());
    Plan plan = searched ? walk(kernel, one.kernel, target, seed)
                         : RandomPlan(kernel, target, seed).make(true);
    const auto goes_by_parts = [&] {
      return std::ranges::any_of(plan.at(0).folds, [](const Nest& nest) {
        return nest.loop_count > 0 && nest.loops[0].block != 0;
      });
    };
    // Every second one with sums by blocks as well.
    const auto lacks = [&] {
      return plan.at(0).ready.empty() || (seed % 2 == 0 && !goes_by_parts());
    };
    for (uint64_t again = 1; copies && again < 100 && lacks(); ++again)
      ASSERT_TRUE(copy(&plan, RandomPlan(kernel, target, seed + 977 * again).make(true)).ok());
    for (uint64_t again = 1; parts && again < 200 && !goes_by_parts(); ++again)
      ASSERT_TRUE(copy(&plan, RandomPlan(kernel, target, seed + 977 * again).make()).ok());
    by_parts += goes_by_parts();
    made->text = text_of(plan);
    ASSERT_TRUE(check(plan, kernel, target).ok()) << last_message() << "\n" << made->text;
    Plan again(process_heap());
    ASSERT_TRUE(read(&again, made->text).ok()) << last_message() << "\n" << made->text;
    ASSERT_TRUE(again == plan) << made->text << text_of(again);
    program::Module module(process_heap());
    const Status status =
        lower_kernel(&module, "kernel", one.kernel, target, process_heap(), &plan);
    // Steps that are longer than a program may be are the one thing that a plan alone does not
    // tell.
    made->skipped = !status.ok() && last_message().find("written out") != std::string::npos;
    skipped += made->skipped;
    if (made->skipped) return;
    Text program(process_heap());
    EXPECT_TRUE(status.ok() || program::print(program, module).ok());
    ASSERT_TRUE(status.ok()) << one.name << ": " << last_message() << "\n"
                             << made->text << program.view();
    ASSERT_TRUE(render(*out, graph, one.kernel, target, nullptr, &plan).ok()) << last_message();
    made->given = one.params;
    ASSERT_NO_FATAL_FAILURE(make_copies(kernel, plan, target, made));
    made->params = made->given;
    ASSERT_EQ(program::tests::Evaluator::run(module, made->params), "") << one.name << "\n"
                                                                        << made->text;
    std::vector<Param> expected = made->given;
    Evaluator(one.kernel, expected);
    compare(one.name + "\n" + made->text, made->params, expected, one.tolerance);
  }

  // What a plan has ready of what does not change.
  void make_copies(const Kernel& kernel, const Plan& plan, const Target& target, Made* made) {
    Vec<ReadyCopy> ready(process_heap());
    ASSERT_TRUE(find_ready(&ready, kernel, plan).ok());
    for (size_t i = 0; i < ready.size(); ++i) {
      const Node source = ready[i].access->node->src(0);
      Param param{source->dtype, ready[i].elements, {}};
      param.bytes.resize(static_cast<size_t>(param.count) * dtype::size(param.dtype));
      std::vector<Param> both = {made->given[static_cast<size_t>(source->arg(0))], param};
      program::Module module(process_heap());
      ASSERT_TRUE(
          lower_ready(&module, "copy", kernel, plan, static_cast<int>(i), target, process_heap())
              .ok())
          << last_message() << made->text;
      Text text(process_heap());
      ASSERT_TRUE(program::print(text, module).ok());
      ASSERT_TRUE(program::verify(module, {true}).ok())
          << last_message() << made->text << text.view();
      ASSERT_EQ(program::tests::Evaluator::run(module, both), "") << made->text << text.view();
      made->given.push_back(std::move(both[1]));
    }
    copied += ready.size();
    fetched += plan.at(0).fetched.size();
  }

  // Some random steps away from the planner's.
  static Plan walk(const Kernel& kernel, Node node, const Target& target, uint64_t seed) {
    Plan plan(process_heap());
    EXPECT_TRUE(plan_kernel(&plan, node, target, process_heap()).ok());
    std::mt19937_64 random(seed);
    for (uint64_t step = 0; step <= seed % 5; ++step) {
      Vec<Plan> beside(process_heap());
      EXPECT_TRUE(neighbours(&beside, plan, kernel, target, process_heap()).ok());
      for (const Plan& one : beside) {
        EXPECT_FALSE(one == plan);
        EXPECT_TRUE(check(one, kernel, target).ok()) << last_message() << text_of(one);
      }
      if (beside.empty()) break;
      Plan& next = beside[random() % beside.size()];
      EXPECT_TRUE(copy(&plan, next).ok());
    }
    return plan;
  }

  static void same_bits(const std::string& where, const std::vector<Param>& got,
                        const std::vector<Param>& want) {
    for (size_t s = 0; s < got.size(); ++s) {
      for (int64_t i = 0; i < got[s].count; ++i) {
        const Word a = got[s].get(i), b = want[s].get(i);
        const bool real = dtype::is_float(got[s].dtype);
        const bool nans =
            real && std::isnan(std::bit_cast<double>(a)) && std::isnan(std::bit_cast<double>(b));
        ASSERT_TRUE(a == b || nans) << where << ": param " << s << "[" << i << "]";
      }
    }
  }
};

TEST(PlanFuzz, RandomPlansOfRandomKernels) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(first_seed()));
  size_t skipped = 0, drawn = 0;
  for (uint64_t batch = 0; batch < (exhaustive() ? 40u : 1u); ++batch) {
    for (int width : widths()) {
      PlannedSuite s;
      const uint64_t seed = (first_seed() * 977 + batch) * 4 + static_cast<uint64_t>(width) / 32;
      for (uint64_t i = 0; i < 30; ++i, ++drawn)
        RandomKernel(s, seed * 1009 + i).add("random" + std::to_string(seed * 1009 + i));
      s.run_planned(width, seed);
      skipped += s.skipped;
      if (HasFailure()) return;
    }
  }
  EXPECT_LT(skipped * 4, drawn);
}

// Products and correlations by groups whose operands lie in several orders: what their panels are
// copied from may be copied before.
TEST(PlanFuzz, CopiesOfWhatDoesNotChange) {
  for (int width : widths()) {
    PlannedSuite s;
    const uint64_t seed = first_seed() * 61 + static_cast<uint64_t>(width);
    int cases = 0;
    for (int round = 0; round < (exhaustive() ? 40 : 4); ++round) {
      for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
        const int64_t g = 1 + round % 3, m = 9 + 5 * round, n = 33 + round, k = 5, c = 3;
        Node b = s.range(0, g), i = s.range(1, m), j = s.range(2, n);
        Node t = s.range(3, k), u = s.range(4, c);
        Node x = s.param(0, dtype, g * n * k * c), w = s.param(1, dtype, g * m * k * c);
        Node z = s.param(2, dtype, g * m * n);
        Node a = s.load(x, s.at({{b, n * k * c}, {t, c * n}, {u, n}, {j, 1}}));
        Node f = round % 2 == 0 ? s.load(w, s.at({{b, m * k * c}, {i, k * c}, {t, c}, {u, 1}}))
                                : s.load(w, s.at({{b, m * k * c}, {u, k * m}, {t, m}, {i, 1}}));
        Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, f), {t, u});
        s.add("copies" + std::to_string(cases++),
              {s.store(z, s.at({{b, m * n}, {i, n}, {j, 1}}), sum, {b, i, j})},
              dtype == DType::kFloat16 ? 0.1 : 1e-4);
      }
    }
    s.copies = true;
    ASSERT_NO_FATAL_FAILURE(s.run_planned(width, seed));
    std::printf("%zu copies\n", s.copied);
    EXPECT_GT(s.copied, 5u);
    EXPECT_GT(s.fetched, 1u);
    EXPECT_GT(s.by_parts, 0u);
  }
}

// Plans that a search comes to, step by step.
TEST(PlanFuzz, NeighboursOfPlans) {
  for (uint64_t batch = 0; batch < (exhaustive() ? 20u : 1u); ++batch) {
    for (int width : widths()) {
      PlannedSuite s;
      s.searched = true;
      const uint64_t seed = (first_seed() * 499 + batch) * 4 + static_cast<uint64_t>(width) / 32;
      for (uint64_t i = 0; i < 30; ++i)
        RandomKernel(s, seed * 1009 + i).add("random" + std::to_string(seed * 1009 + i));
      s.run_planned(width, seed);
      if (HasFailure()) return;
    }
  }
}

TEST(PlanFuzz, SizesAsArguments) {
  for (int width : widths()) {
    PlannedSuite s;
    const uint64_t seed = first_seed() * 61 + static_cast<uint64_t>(width);
    for (uint64_t i = 0; i < (exhaustive() ? 400u : 40u); ++i)
      RandomKernel(s, seed * 1009 + i).add("random" + std::to_string(seed * 1009 + i));
    s.run_sized(target_of(width));
    if (HasFailure()) return;
  }
}

// The planner's plans for devices of very many items: no two of them write, or write and read, the
// same element.
TEST(PlanFuzz, ItemsAsTasks) {
  PlannedSuite s;
  const uint64_t seed = first_seed() * 83;
  for (uint64_t i = 0; i < (exhaustive() ? 1000u : 100u); ++i)
    RandomKernel(s, seed * 1009 + i).add("random" + std::to_string(seed * 1009 + i));
  s.run_sized(target_of_items());
  EXPECT_GT(s.shared, 0u);
}

// Rows whose folds items of a group share: sums, products with a weight, softmax, what several
// folds and loops behind them give; lengths with every rest.
TEST(PlanFuzz, ItemsShareFolds) {
  PlannedSuite s;
  int cases = 0;
  for (int64_t size : {16, 17, 31, 64, 67, 130, 515}) {
    for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kFloat16}) {
      Node row = s.range(0, 5), i = s.range(1, size), j = s.range(2, size);
      Node z = s.param(0, dtype, 5), x = s.param(1, dtype, 5 * size), w = s.param(2, dtype, size);
      Node y = s.param(3, dtype, 5 * size);
      const auto read = [&](Node r) { return s.load(x, s.at({{row, size}, {r, 1}})); };
      Node most = s.fold(Op::kMax, read(i), {i});
      Node sum = s.fold(Op::kAdd, s.op(Op::kMul, read(i), s.load(w, i)), {i});
      Node out = s.op(Op::kAdd, s.op(Op::kMul, read(j), most), sum);
      std::vector<Node> stores{s.store(z, row, sum, {row})};
      if (cases % 2 == 0) stores.push_back(s.store(y, s.at({{row, size}, {j, 1}}), out, {row, j}));
      s.add("rows" + std::to_string(cases++), stores,
            dtype == DType::kFloat16 ? 0.1
            : dtype::is_float(dtype) ? 1e-4
                                     : 0);
    }
  }
  s.run_sized(target_of_items());
  EXPECT_GT(s.shared, 20u);
}

// Rows of exponentials by their sums: what folds have computed is read again, in part or not at
// all where the last steps differ.
TEST(PlanFuzz, WhatFoldsComputedIsKept) {
  for (const int width : widths()) {
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      PlannedSuite s;
      for (int64_t size : {5, 8, 16, 31, 64, 67, 130}) {
        for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
          Node row = s.range(0, 3), i = s.range(1, size), j = s.range(2, size);
          Node x = s.param(0, dtype, 3 * size), y = s.param(1, dtype, 3 * size);
          const auto read = [&](Node r) { return s.load(x, s.at({{row, size}, {r, 1}})); };
          Node most = s.fold(Op::kMax, read(i), {i});
          const auto term = [&](Node r) { return s.op(Op::kExp2, s.op(Op::kSub, read(r), most)); };
          Node sum = s.fold(Op::kAdd, term(i), {i});
          Node out = s.op(Op::kMul, term(j), s.op(Op::kRecip, sum));
          s.add("kept " + std::to_string(size),
                {s.store(y, s.at({{row, size}, {j, 1}}), out, {row, j})}, 1e-5);
        }
      }
      ASSERT_NO_FATAL_FAILURE(s.run_planned(width, seed));
    }
  }
}

// Products, and the greatest of sums, whose terms go block by block, and what follows them.
TEST(PlanFuzz, SumsByBlocks) {
  for (const int width : widths()) {
    for (uint64_t round = 1; round <= (exhaustive() ? 20u : 2u); ++round) {
      PlannedSuite s;
      s.parts = true;
      std::mt19937_64 random(first_seed() * 131 + round);
      const auto pick = [&](uint64_t most) { return 2 + static_cast<int64_t>(random() % most); };
      for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32}) {
        for (Op op : {Op::kAdd, Op::kMax}) {
          // Windows of an image: the copies of filters serve rows and columns.
          const int64_t f = pick(40), rows = pick(6), row = pick(40), c = pick(20), w = pick(3);
          const int64_t wide = row + w - 1, high = rows + w - 1;
          Node filter = s.range(0, f), y = s.range(1, rows), x = s.range(2, row);
          Node t0 = s.range(3, c), u = s.range(4, w), v = s.range(5, w);
          Node pixel = s.load(s.param(0, dtype, c * high * wide),
                              s.at({{t0, high * wide}, {y, wide}, {u, wide}, {x, 1}, {v, 1}}));
          Node weight = s.load(s.param(1, dtype, f * c * w * w),
                               s.at({{filter, c * w * w}, {t0, w * w}, {u, w}, {v, 1}}));
          Node all =
              s.fold(op, s.op(op == Op::kAdd ? Op::kMul : Op::kAdd, pixel, weight), {t0, u, v});
          s.add("windows of " + std::to_string(c),
                {s.store(s.param(2, dtype, f * rows * row),
                         s.at({{filter, rows * row}, {y, row}, {x, 1}}), all, {filter, y, x})},
                dtype == DType::kFloat16 ? 0.2 : 1e-4);
          const int64_t m = pick(40), n = pick(80), k = pick(40);
          Node i = s.range(0, m), j = s.range(1, n), t = s.range(2, k);
          Node a = s.load(s.param(0, dtype, m * k), s.at({{i, k}, {t, 1}}));
          Node b = s.load(s.param(1, dtype, k * n), s.at({{t, n}, {j, 1}}));
          Node sum = s.fold(op, s.op(op == Op::kAdd ? Op::kMul : Op::kAdd, a, b), {t});
          sum = s.op(Op::kAdd, sum, s.load(s.param(2, dtype, n), j));
          s.add("sums of " + std::to_string(k),
                {s.store(s.param(3, dtype, m * n), s.at({{i, n}, {j, 1}}), sum, {i, j})},
                dtype == DType::kFloat16 ? 0.1 : 1e-4);
        }
      }
      ASSERT_NO_FATAL_FAILURE(s.run_planned(width, first_seed() * 17 + round));
      EXPECT_GT(s.by_parts, 5u);
    }
  }
}

// Where the greatest or least of rows is for the first time, by parts of these: ties, NaN in
// several places, rows of nothing else and of infinities alone.
TEST(PlanFuzz, FirstPlacesByParts) {
  for (const int width : widths()) {
    for (uint64_t seed = 1; seed <= (exhaustive() ? 20u : 1u); ++seed) {
      PlannedSuite s;
      s.parts = true;
      for (int64_t size : {16, 67, 130, 515}) {
        for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32}) {
          for (Op op : {Op::kMax, Op::kMin}) {
            const int64_t rows = 9;
            Node row = s.range(0, rows), i = s.range(1, size), j = s.range(2, size);
            Node x = s.param(0, dtype, rows * size), y = s.param(1, DType::kInt32, rows);
            const auto read = [&](Node r) { return s.load(x, s.at({{row, size}, {r, 1}})); };
            Node hit = s.op(Op::kCmpEq, read(j), s.fold(op, read(i), {i}));
            if (dtype::is_float(dtype))
              hit = s.op(Op::kOr, hit, s.op(Op::kCmpNe, read(j), read(j)));
            const Node all = s.c(DType::kInt32, static_cast<double>(size));
            Node left = s.op(Op::kSub, all, s.graph.cast(j, DType::kInt32));
            Node place = s.op(Op::kWhere, hit, left, s.c(DType::kInt32, 0));
            Node best = s.fold(Op::kMax, place, {j});
            Param& values = s.add("place in " + std::to_string(size),
                                  {s.store(y, row, s.op(Op::kSub, all, best), {row})})
                                .params[0];
            std::mt19937_64 random(seed * 31 + static_cast<uint64_t>(size));
            const double infinity = std::numeric_limits<double>::infinity();
            const auto special = [&](int64_t r) {
              return r == 6   ? (op == Op::kMax ? -infinity : infinity)
                     : r == 7 ? std::nan("")
                     : r == 8 ? (random() % 2 == 0 ? 0.0 : -0.0)
                              : std::nan("");
            };
            for (int64_t at = 0; at < rows * size; ++at) {
              const int64_t r = at / size;
              const bool odd = r >= 6 || (r >= 4 && random() % 40 == 0);
              const auto small = static_cast<int64_t>(random() % (r < 2 ? 3 : 100));
              if (dtype::is_float(dtype)) {
                values.set(at, std::bit_cast<Word>(odd ? special(r) : static_cast<double>(small)));
              } else {
                values.set(at, static_cast<Word>(small));
              }
            }
          }
        }
      }
      ASSERT_NO_FATAL_FAILURE(s.run_planned(width, seed));
      EXPECT_GT(s.by_parts, 16u);
    }
  }
}

// Blocks of groups: transposes, sums along either axis and products, whose ends are in the middle
// of blocks, and random kernels; by plans drawn at random.
TEST(PlanFuzz, ItemsShareBlocks) {
  PlannedSuite s;
  Target target = target_of_items();
  target.group_limit = 16;
  const uint64_t seed = first_seed() * 97;
  for (int round = 0; round < (exhaustive() ? 200 : 4); ++round) {
    int cases = 0;
    const auto add = [&](std::vector<Node> stores, DType dtype) {
      s.add("blocks" + std::to_string(cases++), stores,
            dtype == DType::kFloat16 ? 0.1
            : dtype::is_float(dtype) ? 1e-4
                                     : 0);
    };
    for (DType dtype : {DType::kFloat32, DType::kInt64, DType::kFloat16}) {
      const int64_t m = 5 + 2 * round, n = 12, k = 7;
      Node i = s.range(0, m), j = s.range(1, n), t = s.range(2, k);
      Node x = s.param(0, dtype, m * k), y = s.param(1, dtype, k * n), z = s.param(2, dtype, m * n);
      Node turned = s.load(s.param(3, dtype, m * n), s.at({{j, m}, {i, 1}}));
      Node plain = s.load(s.param(4, dtype, m * n), s.at({{i, n}, {j, 1}}));
      const Node here = s.at({{i, n}, {j, 1}});
      Node a = s.load(x, s.at({{i, k}, {t, 1}})), b = s.load(y, s.at({{t, n}, {j, 1}}));
      const Node sum = s.fold(Op::kAdd, s.op(Op::kMul, a, b), {t});
      add({s.store(z, here, s.op(Op::kAdd, turned, plain), {i, j})}, dtype);
      add({s.store(z, here, s.op(Op::kAdd, sum, turned), {i, j})}, dtype);
      add({s.store(z, i, s.fold(Op::kMax, a, {t}), {i})}, dtype);
      add({s.store(z, j, s.fold(Op::kAdd, b, {t}), {j})}, dtype);
    }
    for (uint64_t i = 0; i < 12; ++i) {
      const uint64_t number = seed * 1009 + static_cast<uint64_t>(round) * 12 + i;
      RandomKernel(s, number).add("random" + std::to_string(number));
    }
    s.run_blocks(target, seed + static_cast<uint64_t>(round));
    if (HasFailure()) return;
    s.clear();
  }
  std::printf("%zu plans, %zu packed, %zu split\n", s.shared, s.packed, s.split);
  EXPECT_GT(s.shared, 40u);
  EXPECT_GT(s.packed, 10u);
  EXPECT_GT(s.split, 5u);
}

std::string mutated(std::string text, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const char* const kWords[] = {"r0",
                                "r64",
                                "p0",
                                "/4",
                                " overlap",
                                " scalar",
                                " mask",
                                "; ",
                                "\n",
                                "0.0: ",
                                "1: ",
                                "vector r0 8",
                                "tile ",
                                "order ",
                                "tasks ",
                                "written r1",
                                "stream p1",
                                "rolled 4",
                                "9223372036854775807",
                                "-1",
                                "plan\n"};
  for (size_t count = 1 + below(2); count > 0 && !text.empty(); --count) {
    const size_t at = below(text.size()), length = 1 + below(8);
    switch (below(9)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(below(text.size()), length));
        break;
      case 2:
        text[at] = static_cast<char>(random());
        break;
      case 3:
        text.insert(at, kWords[below(std::size(kWords))]);
        break;
      default:
        // Another number in the place of one.
        if (const size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos)
          text.replace(digit, 1, std::to_string(below(below(4) == 0 ? 70 : 10)));
    }
  }
  return text;
}

// Whatever is read prints and reads back; whatever is checked is lowered, or is too long.
TEST(PlanFuzz, BrokenTextIsReadOrRefused) {
  std::mt19937_64 random(first_seed() + 40);
  Suite s;
  std::vector<Node> kernels;
  for (uint64_t i = 0; i < 20; ++i) {
    RandomKernel(s, 5000 + i).add("random");
    kernels.push_back(s.last().kernel);
  }
  const Target target = target_of(32);
  size_t formats = 0, refused = 0, legal = 0;
  for (int i = 0; i < (exhaustive() ? 400000 : 20000); ++i) {
    const Node node = kernels[random() % kernels.size()];
    Kernel kernel(process_heap());
    ASSERT_TRUE(kernel.analyse(node).ok());
    const std::string text = mutated(text_of(RandomPlan(kernel, target, random()).make()), random);
    Plan plan(process_heap()), again(process_heap());
    if (!read(&plan, text).ok()) {
      EXPECT_TRUE(last_message().starts_with("line ")) << last_message();
      EXPECT_TRUE(plan.segments.empty());
      ++formats;
      continue;
    }
    ASSERT_TRUE(read(&again, text_of(plan)).ok()) << last_message() << "\n" << text_of(plan);
    EXPECT_TRUE(again == plan) << text;
    EXPECT_EQ(digest(again), digest(plan));
    const Status status = check(plan, kernel, target);
    if (!status.ok()) {
      EXPECT_EQ(status.code, static_cast<int32_t>(Code::kARGUMENT));
      EXPECT_TRUE(last_message().starts_with("plan")) << last_message();
      ++refused;
      continue;
    }
    ++legal;
    program::Module module(process_heap());
    const Status lowered = lower_kernel(&module, "kernel", node, target, process_heap(), &plan);
    EXPECT_TRUE(lowered.ok() || lowered.code == static_cast<int32_t>(Code::kARGUMENT))
        << last_message() << "\n"
        << text;
  }
  std::printf("%zu malformed, %zu illegal, %zu legal\n", formats, refused, legal);
  EXPECT_GT(formats, 1000u);
  EXPECT_GT(refused, 500u);
  EXPECT_GT(legal, 200u);
}

}  // namespace
}  // namespace aster::codegen::tests
