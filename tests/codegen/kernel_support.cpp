#include "codegen/kernel_support.h"

namespace aster::codegen::tests {

Evaluator::Evaluator(Node kernel, std::vector<Param>& params)
    : params_(params), memo_(kernel->id + 1) {
  for (Node store : kernel->src()) run(store, 3);
  for (const auto& [slot, index, word] : results_)
    params_[static_cast<size_t>(slot)].set(index, word);
}

void Evaluator::run(Node store, size_t at) {
  if (at < store->nsrc) {
    Node range = store->src(at);
    for (int64_t i = 0; i < range->arg(1); ++i) {
      set(range, i);
      run(store, at + 1);
    }
    return;
  }
  results_.emplace_back(store->src(0)->arg(0), value(store->src(1)), value(store->src(2)));
}

void Evaluator::set(Node range, int64_t i) {
  ranges_[range->arg(0)] = i;
  ++epoch_;
}

Word Evaluator::value(Node node) {
  const auto [epoch, known] = memo_[node->id];
  if (epoch == epoch_ && node->nsrc > 0) return known;
  const Word word = compute(node);
  memo_[node->id] = {epoch_, word};
  return word;
}

Word Evaluator::compute(Node node) {
  switch (node->op) {
    case Op::kConst:
      return node->arg(0);
    case Op::kRange:
      return ranges_[node->arg(0)];
    case Op::kLoad: {
      if (node->nsrc > 2 && value(node->src(2)) == 0) return 0;
      const Param& p = params_[static_cast<size_t>(node->src(0)->arg(0))];
      const int64_t i = value(node->src(1));
      EXPECT_TRUE(i >= 0 && i < p.count) << "the test reads out of bounds";
      return i >= 0 && i < p.count ? p.get(i) : 0;
    }
    case Op::kFold:
      return fold(node);
    case Op::kCarry:
      return carry(node);
    case Op::kCast:
      return uop::convert_word(value(node->src(0)), node->src(0)->dtype, node->dtype);
    case Op::kBitcast: {
      Param a{node->src(0)->dtype, 1, std::vector<uint8_t>(8)};
      a.set(0, value(node->src(0)));
      a.dtype = node->dtype;
      return a.get(0);
    }
    default:
      break;
  }
  Word words[3] = {};
  for (size_t i = 0; i < node->nsrc; ++i) words[i] = value(node->src(i));
  return uop::evaluate(node->op, node->src(node->nsrc - 1)->dtype, node->dtype, words);
}

Word Evaluator::fold(Node node) {
  const Op op = static_cast<Op>(node->arg(0));
  const DType wide = dtype::is_float(node->dtype) ? DType::kFloat64 : node->dtype;
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (Node range : node->src().subspan(1)) count *= range->arg(1);
  bool first = true;
  Word acc = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t r = node->nsrc; r-- > 1;) {
      set(node->src(r), rest % node->src(r)->arg(1));
      rest /= node->src(r)->arg(1);
    }
    const Word words[3] = {acc, value(node->src(0)), 0};
    acc = first ? words[1] : uop::evaluate(op, wide, wide, words);
    first = false;
  }
  ++epoch_;
  return uop::convert_word(acc, wide, node->dtype);
}

Word Evaluator::carry(Node node) {
  const Op op = static_cast<Op>(node->arg(0));
  const DType wide = dtype::is_float(node->dtype) ? DType::kFloat64 : node->dtype;
  Node range = node->src(node->nsrc - 1);
  const int64_t last = ranges_[range->arg(0)], count = last + (node->arg(1) != 0 ? 0 : 1);
  auto others = ranges_;
  others.erase(range->arg(0));
  std::vector<Word>& done = carried_[{node, others}];  // after so many iterations
  if (done.empty()) done.push_back(op == Op::kMulAcc ? 0 : uop::neutral_word(op, node->dtype));
  for (auto i = static_cast<int64_t>(done.size()) - 1; i < count; ++i) {
    Word acc = done.back();
    set(range, i);
    const Word value = value_of(node, 0, wide);
    if (op == Op::kMulAcc) {
      const Word words[3] = {value, acc, value_of(node, 1, wide)};
      acc = uop::evaluate(op, wide, wide, words);
    } else {
      const Word words[3] = {acc, value, 0};
      acc = i == 0 ? value : uop::evaluate(op, wide, wide, words);
    }
    done.push_back(acc);
  }
  set(range, last);
  return uop::convert_word(done[static_cast<size_t>(count)], wide, node->dtype);
}

Word Evaluator::value_of(Node node, size_t source, DType wide) {
  return uop::convert_word(value(node->src(source)), node->src(source)->dtype, wide);
}

Case& Suite::add(const std::string& name, std::vector<Node> stores, double tolerance, double low,
                 double high) {
  Case out;
  out.name = name;
  out.tolerance = tolerance;
  out.kernel = graph.sink({stores.data(), stores.size()});
  Vec<Node> order(process_heap());
  EXPECT_TRUE(toposort(&order, std::array{out.kernel}).ok());
  std::mt19937_64 random(std::hash<std::string>()(name));
  for (Node node : order) {
    if (node->op != Op::kParam) continue;
    const size_t slot = static_cast<size_t>(node->arg(0));
    if (out.params.size() <= slot) out.params.resize(slot + 1);
    Param& p = out.params[slot];
    p.dtype = node->dtype;
    p.count = node->count();
    p.bytes.resize(static_cast<size_t>(p.count) * dtype::size(p.dtype));
    for (int64_t i = 0; i < p.count; ++i) {
      const double x = std::uniform_real_distribution<double>(low, high)(random);
      p.set(i, dtype::is_float(p.dtype)
                   ? std::bit_cast<Word>(dtype::truncate_float(p.dtype, x))
                   : dtype::truncate_int(p.dtype, static_cast<int64_t>(std::floor(x))));
    }
  }
  cases_.push_back(out);
  return cases_.back();
}

void Suite::run(int64_t cache_bytes) {
  std::vector<std::vector<Param>> expected;
  for (Case& one : cases_) {
    std::vector<Param> params = one.params;
    Evaluator(one.kernel, params);
    expected.push_back(std::move(params));
  }
  std::vector<std::vector<Param>> narrowest, widest;
  for (int width : widths()) {
    Target target = target_of(width);
    target.cache_bytes = cache_bytes;
    widest.clear();
    run_at(target, expected, &widest);
    if (width == 16) narrowest = widest;
  }
  if (!::testing::Test::HasFailure()) run_on_aarch64(narrowest);
  if (!::testing::Test::HasFailure() && with_devices) run_opencl(cache_bytes, widest);
  if (!::testing::Test::HasFailure() && with_devices) run_items(expected);
  cases_.clear();
}

void Suite::render_all(const Target& target, std::vector<Rendered>* kernels, Text* text,
                       size_t each) {
  std::vector<const program::RenderedC*> unit;
  std::map<std::string, bool> seen;
  kernels->reserve(cases_.size());
  for (size_t i = 0; i < cases_.size(); i += each) {
    const Case& one = cases_[i];
    kernels->emplace_back(process_heap());
    const Status status = render(kernels->back(), graph, one.kernel, target);
    ASSERT_TRUE(status.ok()) << one.name << ": " << last_message();
    verify_program(one, target);
    if (!std::exchange(seen[kernels->back().name], true)) unit.push_back(&kernels->back().code);
  }
  ASSERT_TRUE(program::write_unit(*text, unit, target).ok()) << last_message();
}

void Suite::run_at(const Target& target, const std::vector<std::vector<Param>>& expected,
                   std::vector<std::vector<Param>>* out) {
  const int width = target.vector_bytes;
  std::vector<Rendered> kernels;
  Text text(process_heap());
  ASSERT_NO_FATAL_FAILURE(render_all(target, &kernels, &text));
  std::vector<std::unique_ptr<Library>> libraries;
  const bool all_compilers =
      width == widths().back() || std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr;
  for (const std::string& compiler : compilers()) {
    if (!all_compilers && !libraries.empty()) break;
    libraries.push_back(std::make_unique<Library>(compiler, std::string(text.view()), width));
  }
  std::vector<std::vector<Param>>& first = *out;  // of the first compiler
  for (size_t l = 0; l < libraries.size(); ++l) {
    for (size_t i = 0; i < cases_.size(); ++i) {
      const std::string where =
          cases_[i].name + " (" + compilers()[l] + ", " + std::to_string(width) + ")";
      const auto function = libraries[l]->find(kernels[i].name);
      ASSERT_NE(function, nullptr) << where;
      const std::vector<Param> got = call(cases_[i], function, {{0, kernels[i].tasks}}, false,
                                          nullptr, kernels[i].code.scratch_bytes);
      compare(where, got, expected[i], cases_[i].tolerance);
      std::vector<std::pair<int64_t, int64_t>> each;
      for (int64_t t = kernels[i].tasks; t-- > 0;) each.push_back({t, t + 1});
      same(where + " by single tasks",
           call(cases_[i], function, each, true, nullptr, kernels[i].code.scratch_bytes), got);
      if (l == 0) first.push_back(got);
      same(where + " against the first compiler", got, first[i]);
    }
  }
  for (size_t i = 0; i < cases_.size() && width >= 32; ++i)
    run_code(cases_[i], kernels[i].module, kernels[i].tasks, target, first[i]);
  run_general(target, first);
}

size_t Suite::run_code(const Case& one, const program::Module& module, int64_t tasks,
                       const Target& target, const std::vector<Param>& want, const int64_t* sizes) {
  const program::tests::MachineCode code(module, target);
  if (!code.status().ok()) {
    EXPECT_EQ(code.status().code, ASTER_ML_UNSUPPORTED) << last_message();
    if (std::getenv("ASTER_TEST_TELL") != nullptr)
      std::printf("%d %s: %s\n", target.vector_bytes, one.name.c_str(), last_message().c_str());
    return 1;
  }
  const std::string where =
      one.name + " (machine code, " + std::to_string(target.vector_bytes) + ")";
  const int64_t scratch = program::scratch_bytes(module.programs.back());
  same(where, call(one, code.function(), {{0, tasks}}, false, sizes, scratch), want);
  std::vector<std::pair<int64_t, int64_t>> each;
  for (int64_t t = tasks; t-- > 0;) each.push_back({t, t + 1});
  same(where + " by single tasks", call(one, code.function(), each, true, sizes, scratch), want);
  if (::testing::Test::HasFailure() && std::getenv("ASTER_TEST_SHOW") != nullptr) {
    Text text(process_heap());
    (void)program::print(text, module);
    std::printf("%s\n", text.c_str());
  }
  return 0;
}

void Suite::make_general(program::Module* module, Vec<int64_t>* sizes, const std::string& name) {
  program::Program& program = module->programs.back();
  Numbers numbers(process_heap());
  ASSERT_TRUE(take_apart(&numbers, program, process_heap()).ok()) << name;
  Pattern pattern(process_heap());
  std::map<std::pair<NumberKind, Word>, uint16_t> groups;
  for (size_t i = 0; i < numbers.words.size(); ++i) {
    const std::pair key{numbers.kinds[i], numbers.words[i]};
    // 0 and 1 say too much: a loop that runs once, a stride that is none.
    const bool free = may_vary(key.first, key.second) &&
                      (key.first != NumberKind::kIndex || std::abs(key.second) > 1) &&
                      (key.first != NumberKind::kStep || key.second > 1);
    const auto next = static_cast<uint16_t>(groups.size() + 1);
    const uint16_t group = free ? groups.try_emplace(key, next).first->second : uint16_t{0};
    ASSERT_TRUE(pattern.groups.push(group).ok());
    ASSERT_TRUE(pattern.words.push(numbers.words[i]).ok());
    if (pattern.first.size() < group) {
      ASSERT_TRUE(pattern.first.push(static_cast<uint32_t>(i)).ok());
    }
  }
  program::Program general(process_heap());
  const Status made = generalise(&general, &pattern, program, numbers, process_heap());
  ASSERT_TRUE(made.ok()) << name << ": " << last_message();
  ASSERT_TRUE(append_sizes(sizes, numbers, pattern).ok()) << name;
  program = std::move(general);
  Text text(process_heap());
  ASSERT_TRUE(program::print(text, *module).ok());
  const Status status = program::verify(*module, {.vouched = true});
  ASSERT_TRUE(status.ok()) << name << ": " << last_message() << "\n" << text.view();
}

void Suite::run_general(const Target& target, const std::vector<std::vector<Param>>& expected) {
  std::vector<std::unique_ptr<program::RenderedC>> codes;
  std::vector<const program::RenderedC*> unit;
  std::vector<Vec<int64_t>> sizes;
  std::vector<int64_t> tasks;
  std::map<Node, size_t> known;  // cases may differ in what they are given alone
  std::vector<size_t> code_of;
  for (size_t i = 0; i < cases_.size(); ++i) {
    code_of.push_back(known.try_emplace(cases_[i].kernel, codes.size()).first->second);
    if (code_of.back() < codes.size()) continue;
    const std::string name = "general_" + std::to_string(codes.size());
    program::Module module(process_heap());
    Kernel kernel(process_heap());
    ASSERT_TRUE(kernel.analyse(cases_[i].kernel).ok());
    Plan plan(process_heap()), general(process_heap());
    ASSERT_TRUE(make_plan(&plan, kernel, target, process_heap()).ok());
    const Status lowered =
        lower_general(&module, &general, "general", kernel, plan, target, process_heap());
    ASSERT_TRUE(lowered.ok()) << cases_[i].name << ": " << last_message();
    tasks.push_back(0);
    for (int at : kernel.roots) tasks.back() += task_count(kernel, general.at(at));
    sizes.emplace_back(process_heap());
    ASSERT_NO_FATAL_FAILURE(make_general(&module, &sizes.back(), cases_[i].name));
    std::snprintf(module.programs.back().name, program::kMaxName, "%s", name.c_str());
    codes.push_back(std::make_unique<program::RenderedC>(process_heap()));
    const Status status = program::render_c(*codes.back(), module, target);
    ASSERT_TRUE(status.ok()) << cases_[i].name << ": " << last_message();
    unit.push_back(codes.back().get());
  }
  Text text(process_heap());
  ASSERT_TRUE(program::write_unit(text, unit, target).ok()) << last_message();
  Library library(compilers()[0], std::string(text.view()), target.vector_bytes);
  for (size_t i = 0; i < cases_.size(); ++i) {
    const size_t code = code_of[i];
    const auto function = library.find(("general_" + std::to_string(code)).c_str());
    ASSERT_NE(function, nullptr) << cases_[i].name;
    std::vector<std::pair<int64_t, int64_t>> each;
    for (int64_t t = tasks[code]; t-- > 0;) each.push_back({t, t + 1});
    same(cases_[i].name + " with sizes as arguments, " + std::to_string(target.vector_bytes),
         call(cases_[i], function, each, true, sizes[code].data(), codes[code]->scratch_bytes),
         expected[i]);
  }
}

void Suite::run_on_aarch64(const std::vector<std::vector<Param>>& expected) {
  if (!Aarch64::here()) return;
  std::vector<Rendered> kernels;
  Text text(process_heap());
  ASSERT_NO_FATAL_FAILURE(render_all(target_of(0), &kernels, &text));
  std::vector<std::string> names;
  for (const Rendered& one : kernels) {
    if (std::ranges::find(names, one.name) == names.end()) names.push_back(one.name);
  }
  Aarch64 built(std::string(text.view()), names);
  for (size_t i = 0; i < expected.size(); ++i) {
    std::vector<Param> got = cases_[i].params;
    std::vector<std::vector<uint8_t>> bytes;
    for (const Param& p : got) bytes.push_back(p.bytes);
    bytes = built.run(kernels[i].name, bytes, kernels[i].tasks, {}, kernels[i].code.scratch_bytes);
    for (size_t p = 0; p < got.size(); ++p) got[p].bytes = bytes[p];
    compare(cases_[i].name + " (aarch64)", got, expected[i], 0);
  }
}

void Suite::run_opencl(int64_t cache_bytes, const std::vector<std::vector<Param>>& expected) {
  OpenclDevice* const device = OpenclDevice::get();
  if (device == nullptr) return;
  Target target = device->target();
  target.vector_bytes = widths().back();
  target.fma = target_of(target.vector_bytes).fma;
  target.cache_bytes = cache_bytes;
  std::vector<Rendered> kernels;
  Text text(process_heap());
  ASSERT_NO_FATAL_FAILURE(render_all(target, &kernels, &text));
  OpenclDevice::Program program(*device, std::string(text.view()));
  for (size_t i = 0; i < cases_.size() && !::testing::Test::HasFailure(); ++i) {
    std::vector<Param> got = cases_[i].params;
    std::vector<std::vector<uint8_t>> memory;
    for (const Param& p : got) memory.push_back(around(p.bytes));
    program.run(kernels[i].name, memory, kGuard, {}, static_cast<size_t>(kernels[i].tasks), 1);
    for (size_t p = 0; p < got.size(); ++p) {
      std::copy_n(memory[p].begin() + kGuard, got[p].bytes.size(), got[p].bytes.begin());
      const bool clean = memory[p] == around(got[p].bytes);
      EXPECT_TRUE(clean) << cases_[i].name << " (OpenCL) writes outside param " << p;
    }
    same(cases_[i].name + " (OpenCL) against C", got, expected[i]);
  }
}

void Suite::run_items(const std::vector<std::vector<Param>>& expected) {
  const size_t each = std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr ? 1 : 4;
  const Target target = target_of_items();
  OpenclDevice* const device = OpenclDevice::get();
  if (device == nullptr) return;
  std::vector<Rendered> kernels;
  Text text(process_heap());
  ASSERT_NO_FATAL_FAILURE(render_all(target, &kernels, &text, each));
  OpenclDevice::Program program(*device, std::string(text.view()));
  for (size_t i = 0; i < cases_.size() && !::testing::Test::HasFailure(); i += each) {
    const Rendered& kernel = kernels[i / each];
    std::vector<Param> got = cases_[i].params;
    std::vector<std::vector<uint8_t>> memory;
    for (const Param& p : got) memory.push_back(around(p.bytes));
    const auto tasks = static_cast<size_t>(kernel.tasks);
    const auto items = static_cast<size_t>(kernel.code.locals[0]);
    const size_t group = items != 0 ? items : tasks > 1 ? 4 : 1;
    const size_t groups = items != 0 ? tasks : (tasks + group - 1) / group;
    program.run(kernel.name, memory, kGuard, {}, groups * group, group);
    for (size_t p = 0; p < got.size(); ++p) {
      std::copy_n(memory[p].begin() + kGuard, got[p].bytes.size(), got[p].bytes.begin());
      const bool clean = memory[p] == around(got[p].bytes);
      EXPECT_TRUE(clean) << cases_[i].name << " (items) writes outside param " << p;
    }
    compare(cases_[i].name + " (items of OpenCL)", got, expected[i], cases_[i].tolerance);
  }
}

std::vector<uint8_t> Suite::around(const std::vector<uint8_t>& bytes) {
  std::vector<uint8_t> out(bytes.size() + 2 * kGuard, uint8_t{0xAB});
  std::copy(bytes.begin(), bytes.end(), out.begin() + kGuard);
  return out;
}

void Suite::verify_program(const Case& one, const Target& target) {
  Kernel kernel(process_heap());
  Plan plan(process_heap()), again(process_heap());
  Text planned(process_heap());
  ASSERT_TRUE(kernel.analyse(one.kernel).ok());
  ASSERT_TRUE(make_plan(&plan, kernel, target, process_heap()).ok());
  ASSERT_TRUE(print(planned, plan).ok());
  ASSERT_TRUE(check(plan, kernel, target).ok()) << one.name << ": " << last_message() << "\n"
                                                << planned.view();
  ASSERT_TRUE(codegen::read(&again, planned.view()).ok()) << last_message() << planned.view();
  EXPECT_TRUE(again == plan) << planned.view();
  program::Module module(process_heap()), read(process_heap());
  ASSERT_TRUE(lower_kernel(&module, "kernel", one.kernel, target, process_heap()).ok());
  Text text(process_heap());
  ASSERT_TRUE(program::print(text, module).ok());
  program::Verified verified;
  const Status status = program::verify(module, {.vouched = true}, &verified);
  ASSERT_TRUE(status.ok()) << one.name << ": " << last_message() << "\n" << text.view();
  ASSERT_TRUE(program::read(&read, text.view()).ok()) << one.name << "\n" << text.view();
  EXPECT_EQ(read.programs.back().digest(), module.programs.back().digest()) << text.view();
  if (std::getenv("ASTER_TEST_SHOW") != nullptr)
    std::printf("%s: %llu unproved\n%s\n", one.name.c_str(),
                static_cast<unsigned long long>(verified.unproved), text.c_str());
}

std::vector<Param> Suite::call(const Case& one, Library::Function function,
                               const std::vector<std::pair<int64_t, int64_t>>& parts, bool aligned,
                               const int64_t* sizes, int64_t scratch_bytes) {
  std::vector<Param> params = one.params;
  std::vector<std::vector<uint8_t>> memory;
  std::vector<void*> pointers;
  for (const Param& p : params) {
    const size_t skip = aligned || p.dtype == DType::kNone ? 0 : dtype::size(p.dtype);
    memory.emplace_back(p.bytes.size() + 4 * kGuard, uint8_t{0xAB});
    const size_t line = reinterpret_cast<uintptr_t>(memory.back().data()) % kGuard;
    uint8_t* at = memory.back().data() + (kGuard - line) + kGuard + skip;
    if (!p.bytes.empty()) std::memcpy(at, p.bytes.data(), p.bytes.size());
    pointers.push_back(at);
  }
  static_assert(sizeof(long long) == sizeof(int64_t));
  std::vector<uint8_t> scratch(static_cast<size_t>(scratch_bytes) + kGuard, uint8_t{0xCD});
  uint8_t* const aligned_scratch =
      scratch.data() + (kGuard - reinterpret_cast<uintptr_t>(scratch.data()) % kGuard) % kGuard;
  for (const auto& [begin, end] : parts)
    function(pointers.data(), reinterpret_cast<const long long*>(sizes), aligned_scratch, begin,
             end);
  for (size_t i = 0; i < params.size(); ++i) {
    uint8_t* at = static_cast<uint8_t*>(pointers[i]);
    std::vector<uint8_t>& bytes = params[i].bytes;
    if (!bytes.empty()) std::memcpy(bytes.data(), at, bytes.size());
    std::memset(at, 0xAB, bytes.size());
    for (uint8_t byte : memory[i]) {
      if (byte == 0xAB) continue;
      ADD_FAILURE() << one.name << " writes outside param " << i;
      break;
    }
  }
  return params;
}

void Suite::compare(const std::string& where, const std::vector<Param>& got,
                    const std::vector<Param>& want, double tolerance) {
  for (size_t s = 0; s < got.size(); ++s) {
    for (int64_t i = 0; i < got[s].count; ++i) {
      const Word a = got[s].get(i), b = want[s].get(i);
      bool equal = a == b;
      if (dtype::is_float(got[s].dtype)) {
        const double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
        equal = x == y || (x != x && y != y) || std::fabs(x - y) <= tolerance * (1 + std::fabs(y));
        ASSERT_TRUE(equal) << where << ": param " << s << "[" << i << "] is " << x << ", should be "
                           << y;
      } else {
        const bool near = tolerance >= 1 &&
                          std::fabs(static_cast<double>(a) - static_cast<double>(b)) <= tolerance;
        ASSERT_TRUE(equal || near)
            << where << ": param " << s << "[" << i << "] is " << a << ", should be " << b;
      }
    }
  }
}

void Suite::same(const std::string& where, const std::vector<Param>& got,
                 const std::vector<Param>& want) {
  for (size_t s = 0; s < got.size(); ++s)
    EXPECT_EQ(got[s].bytes, want[s].bytes) << where << ": other bits";
}

}  // namespace aster::codegen::tests
