#include <unistd.h>

#include "nn/world.h"

namespace nn_test {
namespace {

aster_ml_sgd_options sgd(double rate, double momentum = 0, double decay = 0, int nesterov = 0) {
  return {sizeof(aster_ml_sgd_options), nesterov, rate, momentum, decay, 0};
}
aster_ml_adam_options adam(double rate, double beta1 = 0, double beta2 = 0, double eps = 0,
                           double decay = 0) {
  return {sizeof(aster_ml_adam_options), rate, beta1, beta2, eps, decay};
}

// The oracle's least-squares problem.
struct Problem {
  explicit Problem(const Session& s) {
    EXPECT_OK(aster_ml_state_init(&state, s.get()));
    EXPECT_OK(aster_ml_state_set(&state, "a", a.get(), 1));
    EXPECT_OK(aster_ml_state_set(&state, "b", b.get(), 1));
  }
  Tensor loss() { return (get(state, "a").matmul(get(state, "b")) - c).square().mean(); }
  std::vector<float> weights() { return joined({read(get(state, "a")), read(get(state, "b"))}); }
  State state;
  Tensor a = tensor({4, 3}, 1), b = tensor({3, 2}, 2), c = tensor({4, 2}, 3);
};

using Init = void (*)(Optimizer&, State&);
struct Case {
  const char* name;
  Init init;
};
template <auto Make>
void make_sgd(Optimizer& o, State& state) {
  const aster_ml_sgd_options options = Make();
  OK(aster_ml_sgd_init(&o, &state, &options));
}
template <auto Make>
void make_adam(Optimizer& o, State& state) {
  const aster_ml_adam_options options = Make();
  OK(aster_ml_adam_init(&o, &state, &options));
}
void make_classic(Optimizer& o, State& state) {
  aster_ml_sgd_options options = sgd(0.05, 0.9);
  options.classic = 1;
  OK(aster_ml_sgd_init(&o, &state, &options));
}
template <auto Make>
void make_lars(Optimizer& o, State& state) {
  const aster_ml_lars_options options = Make();
  OK(aster_ml_lars_init(&o, &state, &options));
}
aster_ml_lars_options lars(double rate) {
  aster_ml_lars_options options{};
  options.struct_size = sizeof(options);
  options.rate = rate;
  return options;
}
aster_ml_lars_options other_lars() {
  aster_ml_lars_options options = lars(0.5);
  options.momentum = 0.5;
  options.weight_decay = -0.0;
  options.nesterov = 1;
  options.not_classic = 1;
  options.trust = 0.1;
  return options;
}
void make_lamb(Optimizer& o, State& state) {
  const aster_ml_adam_options options = adam(0.02, 0, 0, 0, 0.1);
  OK(aster_ml_lamb_init(&o, &state, &options));
}
template <auto Make>
void make_muon(Optimizer& o, State& state) {
  const aster_ml_muon_options options = Make();
  OK(aster_ml_muon_init(&o, &state, &options));
}
aster_ml_muon_options muon(double rate) {
  aster_ml_muon_options options{};
  options.struct_size = sizeof(options);
  options.rate = rate;
  return options;
}
aster_ml_muon_options other_muon() {
  aster_ml_muon_options options = muon(0.02);
  options.no_nesterov = 1;
  options.momentum = 0.5;
  options.weight_decay = -0.0;
  options.steps = 2;
  options.coefficients[0] = 2;
  options.coefficients[1] = -1.5;
  options.coefficients[2] = 0.5;
  return options;
}
const Case kCases[] = {
    {"sgd", make_sgd<[] { return sgd(0.05); }>},
    {"sgd_momentum", make_sgd<[] { return sgd(0.05, 0.9); }>},
    {"sgd_nesterov_decay", make_sgd<[] { return sgd(0.05, 0.8, 0.1, 1); }>},
    {"sgd_decay", make_sgd<[] { return sgd(0.05, 0, 0.1); }>},
    {"adam", make_adam<[] { return adam(0.02); }>},
    {"adam_betas", make_adam<[] { return adam(0.02, 0.7, 0.9, 1e-3); }>},
    {"adamw", make_adam<[] { return adam(0.02, 0, 0, 0, 0.05); }>},
    {"sgd_classic", make_classic},
    {"lars", make_lars<[] { return lars(0.5); }>},
    {"lars_other", make_lars<other_lars>},
    {"lamb", make_lamb},
    {"adam_no_beta1", make_adam<[] { return adam(0.02, -0.0); }>},
    {"muon", make_muon<[] { return muon(0.02); }>},
    {"muon_other", make_muon<other_muon>},
};

class Optimizers : public ::testing::TestWithParam<Case> {};

TEST_P(Optimizers, FollowTinygrad) {
  Session s;
  Problem p(s);
  Optimizer o;
  GetParam().init(o, p.state);
  EXPECT_EQ(aster_ml_optimizer_count(&o), 2u);
  for (int step = 0; step < 5; ++step) {
    Tensor loss = p.loss();
    OK(aster_ml_optimizer_step(&o, loss.get()));
    const std::string name = GetParam().name + std::string(".") + std::to_string(step);
    expect_near(p.weights(), oracle(name), 2e-6, name);
  }
  EXPECT_EQ(s.counters().schedule_misses, 1u);
  EXPECT_EQ(s.counters().schedule_hits, 4u);
}

// The same trajectory by replays of the first step.
TEST_P(Optimizers, ReplayCapturedSteps) {
  Session s;
  Problem p(s);
  Optimizer o;
  GetParam().init(o, p.state);
  Program program;
  OK(aster_ml_engine_capture_begin(s.get(), nullptr, 0));
  Tensor loss = p.loss();
  OK(aster_ml_optimizer_step(&o, loss.get()));
  OK(aster_ml_engine_capture_end(&program, s.get(), nullptr, 0));
  for (int step = 0; step < 5; ++step) {
    if (step > 0) {
      OK(aster_ml_program_run(&program, nullptr, nullptr, 0, nullptr, 0));
    }
    const std::string name = GetParam().name + std::string(".") + std::to_string(step);
    expect_near(p.weights(), oracle(name), 2e-6, name);
  }
}

// What an optimiser keeps is where its parameters are, whatever the default device is.
TEST_P(Optimizers, OnAnotherDevice) {
  Session s;
  OK(aster_ml_engine_set_device(s.get(), ASTER_ML_DEVICE_REFERENCE));
  Problem p(s);
  OK(aster_ml_engine_set_device(s.get(), ASTER_ML_DEVICE_CPU));
  Optimizer o;
  GetParam().init(o, p.state);
  State kept;
  OK(aster_ml_state_init(&kept, s.get()));
  OK(aster_ml_state_set_optimizer(&kept, nullptr, &o));
  for (size_t i = 0; i < aster_ml_state_count(&kept); ++i) {
    const char* name = aster_ml_state_name(&kept, i);
    Tensor t = get(kept, name);
    int32_t device = 0;
    OK(aster_ml_lazy_device(&device, t.get()));
    EXPECT_EQ(device, ASTER_ML_DEVICE_REFERENCE) << name;
  }
  for (int step = 0; step < 2; ++step) {
    Tensor loss = p.loss();
    OK(aster_ml_optimizer_step(&o, loss.get()));
    const std::string name = GetParam().name + std::string(".") + std::to_string(step);
    expect_near(p.weights(), oracle(name), 2e-6, name);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Optimizer, RefusesParametersOfSeveralDevices) {
  Session s;
  Problem p(s);
  OK(aster_ml_engine_set_device(s.get(), ASTER_ML_DEVICE_REFERENCE));
  Tensor away = tensor({2}, 1);
  OK(aster_ml_state_set(&p.state, "away", away.get(), 1));
  Optimizer o;
  EXPECT_EQ(aster_ml_adam_init(&o, &p.state, nullptr), ASTER_ML_DEVICE);
  EXPECT_EQ((&o)->impl, nullptr);
}

// The rate is as wide as the default float, at least float32; set whole.
TEST(Optimizer, TheRateIsOfTheDefaultFloat) {
  Session s;
  for (const auto& [given, wanted] : {std::pair(ASTER_ML_DTYPE_FLOAT16, ASTER_ML_DTYPE_FLOAT32),
                                      std::pair(ASTER_ML_DTYPE_FLOAT64, ASTER_ML_DTYPE_FLOAT64)}) {
    OK(aster_ml_engine_set_default_dtype(s.get(), given));
    Problem p(s);
    Optimizer o;
    OK(aster_ml_sgd_init(&o, &p.state, nullptr));
    OK(aster_ml_optimizer_set_rate(&o, 0.05));
    Tensor rate = make(aster_ml_optimizer_get_rate, &o);
    EXPECT_EQ(aster_ml_lazy_dtype(rate.get()), wanted);
    double value = 0;
    OK(aster_ml_lazy_to_double(&value, rate.get()));
    EXPECT_EQ(value, wanted == ASTER_ML_DTYPE_FLOAT64 ? 0.05 : static_cast<double>(0.05f));
    Tensor loss = p.loss();
    OK(aster_ml_optimizer_step(&o, loss.get()));
    expect_near(p.weights(), oracle("sgd.0"), 2e-6, "sgd.0");
  }
}

TEST(Optimizer, StepsByGivenGradients) {
  Session s;
  Problem p(s);
  Optimizer o;
  const aster_ml_sgd_options options = sgd(0.5);
  OK(aster_ml_sgd_init(&o, &p.state, &options));
  const std::vector<float> before = p.weights();
  Tensor ga = tensor({4, 3}, 5), gb = tensor({3, 2}, 6), wrong = tensor({2, 3}, 6);
  const aster_ml_lazy* gradients[] = {ga.get(), gb.get()};
  OK(aster_ml_optimizer_step_by(&o, gradients, 2));
  const std::vector<float> g = joined({values(12, 5), values(6, 6)});
  std::vector<float> after = p.weights();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_FLOAT_EQ(after[i], before[i] - 0.5f * g[i]);

  EXPECT_EQ(aster_ml_optimizer_step_by(&o, gradients, 1), ASTER_ML_RANGE);
  gradients[1] = wrong.get();
  EXPECT_EQ(aster_ml_optimizer_step_by(&o, gradients, 2), ASTER_ML_SHAPE);
  Tensor integers = Tensor(std::vector<int32_t>{1, 2, 3, 4, 5, 6}, {3, 2});
  gradients[1] = integers.get();
  EXPECT_EQ(aster_ml_optimizer_step_by(&o, gradients, 2), ASTER_ML_DTYPE);
  EXPECT_EQ(p.weights(), after);
}

// A rate of 0 changes nothing; captured steps take a new rate.
TEST(Optimizer, RateIsATensor) {
  Session s;
  Problem p(s);
  Optimizer o;
  OK(aster_ml_sgd_init(&o, &p.state, nullptr));
  OK(aster_ml_optimizer_set_rate(&o, 0));
  const std::vector<float> before = p.weights();
  Program program;
  OK(aster_ml_engine_capture_begin(s.get(), nullptr, 0));
  Tensor loss = p.loss();
  OK(aster_ml_optimizer_step(&o, loss.get()));
  EXPECT_EQ(aster_ml_optimizer_set_rate(&o, 1), ASTER_ML_STATE);
  OK(aster_ml_engine_capture_end(&program, s.get(), nullptr, 0));
  EXPECT_EQ(p.weights(), before);
  OK(aster_ml_optimizer_set_rate(&o, 0.05));
  OK(aster_ml_program_run(&program, nullptr, nullptr, 0, nullptr, 0));
  expect_near(p.weights(), oracle("sgd.0"), 2e-6, "sgd.0");
  EXPECT_EQ(aster_ml_optimizer_set_rate(&o, -1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_optimizer_set_rate(&o, std::nan("")), ASTER_ML_RANGE);
}

// The rate is assigned as any tensor: pending, computed once, seen by replays.
TEST(Optimizer, RateMayBeAssigned) {
  Session s;
  Problem p(s), q(s);
  Optimizer o, plain;
  const aster_ml_sgd_options half = sgd(0.1), whole = sgd(0.05);
  OK(aster_ml_sgd_init(&o, &p.state, &half));
  OK(aster_ml_sgd_init(&plain, &q.state, &whole));
  Tensor rate = make(aster_ml_optimizer_get_rate, &o);
  ASSERT_EQ(aster_ml_lazy_count(rate.get()), 1);
  for (int step = 0; step < 3; ++step) {
    OK(rate *= step == 0 ? 0.5 : 1);
    Tensor loss = p.loss(), other = q.loss();
    OK(aster_ml_optimizer_step(&o, loss.get()));
    OK(aster_ml_optimizer_step(&plain, other.get()));
    EXPECT_EQ(p.weights(), q.weights()) << step;
  }
  EXPECT_EQ(read(rate), std::vector<float>{0.05f});
  OK(rate *= 2);
  OK(aster_ml_optimizer_set_rate(&o, 0.25));
  EXPECT_EQ(read(rate), std::vector<float>{0.25f});
}

// Two optimisers, each with one of the weights, step as one realize; their gradients are those of
// before the step.
TEST(Optimizer, StepsInGroups) {
  Session other;
  Problem foreign(other);
  Session s;
  Problem p(s);
  State first, second;
  Optimizer sgd_a, adam_b, elsewhere;
  OK(aster_ml_state_init(&first, s.get()));
  OK(aster_ml_state_init(&second, s.get()));
  Tensor a = get(p.state, "a"), b = get(p.state, "b");
  OK(aster_ml_state_set(&first, "a", a.get(), 1));
  OK(aster_ml_state_set(&second, "b", b.get(), 1));
  const aster_ml_sgd_options slow = sgd(0.05);
  const aster_ml_adam_options quick = adam(0.02);
  OK(aster_ml_sgd_init(&sgd_a, &first, &slow));
  OK(aster_ml_adam_init(&adam_b, &second, &quick));
  OK(aster_ml_sgd_init(&elsewhere, &foreign.state, nullptr));
  const uint64_t before = s.counters().realizes;
  Tensor loss = p.loss();
  const aster_ml_optimizer* group[] = {&sgd_a.h, &adam_b.h};
  OK(aster_ml_optimizer_step_group(group, 2, loss.get()));
  EXPECT_EQ(s.counters().realizes, before + 1);
  const std::vector<float> sgd_row = oracle("sgd.0"), adam_row = oracle("adam.0");
  std::vector<float> expected(sgd_row.begin(), sgd_row.begin() + 12);
  expected.insert(expected.end(), adam_row.begin() + 12, adam_row.end());
  expect_near(p.weights(), expected, 2e-6, "group");

  const aster_ml_optimizer* mixed[] = {&sgd_a.h, &elsewhere.h};
  const aster_ml_optimizer nothing{};
  const aster_ml_optimizer* with_empty[] = {&sgd_a.h, &nothing};
  EXPECT_EQ(aster_ml_optimizer_step_group(mixed, 2, loss.get()), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_optimizer_step_group(with_empty, 2, loss.get()), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_optimizer_step_group(group, 0, loss.get()), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_optimizer_step_group(nullptr, 1, loss.get()), ASTER_ML_ARGUMENT);
}

// Scheduled steps wait for a realize, which runs several optimisers as one.
TEST(Optimizer, SchedulesWithoutComputing) {
  Session s;
  Problem p(s);
  Optimizer o;
  const aster_ml_adam_options options = adam(0.02);
  OK(aster_ml_adam_init(&o, &p.state, &options));
  for (int step = 0; step < 3; ++step) {
    const std::vector<Tensor> made = p.loss().gradient({get(p.state, "a"), get(p.state, "b")});
    ASSERT_EQ(made.size(), 2u);
    const aster_ml_lazy* gradients[] = {made[0].get(), made[1].get()};
    const uint64_t before = s.counters().realizes;
    OK(aster_ml_optimizer_schedule_by(&o, gradients, 2));
    EXPECT_EQ(s.counters().realizes, before);
    const aster_ml_optimizer* group[] = {&o.h};
    OK(aster_ml_optimizer_realize(group, 1));
    EXPECT_EQ(s.counters().realizes, before + 1);
    expect_near(p.weights(), oracle("adam." + std::to_string(step)), 2e-6, "adam");
  }
  EXPECT_EQ(aster_ml_optimizer_schedule_by(&o, nullptr, 2), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_optimizer_realize(nullptr, 1), ASTER_ML_ARGUMENT);
}

// What an optimiser keeps is saved and loaded: training goes on as if it had not stopped.
TEST(Optimizer, GoesOnFromItsState) {
  TemporaryFile file;
  const aster_ml_adam_options options = adam(0.02);
  {
    Session s;
    Problem p(s);
    Optimizer o;
    OK(aster_ml_adam_init(&o, &p.state, &options));
    for (int step = 0; step < 3; ++step) {
      Tensor loss = p.loss();
      OK(aster_ml_optimizer_step(&o, loss.get()));
    }
    OK(aster_ml_state_set_optimizer(&p.state, "adam.", &o));
    EXPECT_EQ(aster_ml_state_count(&p.state), 2u + 3u + 4u);
    EXPECT_EQ(aster_ml_state_set_optimizer(&p.state, "adam.", &o), ASTER_ML_ARGUMENT);
    EXPECT_EQ(aster_ml_state_count(&p.state), 2u + 3u + 4u);
    OK(aster_ml_state_write(&p.state, file.path()));
  }
  Session s;
  Problem p(s);
  Optimizer o;
  State saved;
  OK(aster_ml_adam_init(&o, &p.state, nullptr));
  OK(aster_ml_state_set_optimizer(&p.state, "adam.", &o));
  OK(aster_ml_state_read(&saved, s.get(), file.path()));
  OK(aster_ml_state_load(&p.state, &saved));
  for (int step = 3; step < 5; ++step) {
    Tensor loss = p.loss();
    OK(aster_ml_optimizer_step(&o, loss.get()));
    expect_near(p.weights(), oracle("adam." + std::to_string(step)), 2e-6, "adam");
  }
}

// Half-precision weights are updated in float32 and rounded once.
TEST(Optimizer, NarrowWeights) {
  Session s;
  State state;
  Optimizer o;
  OK(aster_ml_state_init(&state, s.get()));
  Tensor w = cast(Tensor(std::vector<float>{1, 2}, {2}), ASTER_ML_DTYPE_FLOAT16);
  OK(aster_ml_state_set(&state, "w", w.get(), 1));
  const aster_ml_sgd_options options = sgd(0.25, 0.5);
  OK(aster_ml_sgd_init(&o, &state, &options));
  for (int step = 0; step < 2; ++step) {
    Tensor loss = get(state, "w").square().sum();
    OK(aster_ml_optimizer_step(&o, loss.get()));
  }
  // g = 2w: 1 -> 0.5 -> 0.5 - 0.25 * (0.5 * 2 + 1) = 0
  Tensor wide = cast(get(state, "w"), ASTER_ML_DTYPE_FLOAT32);
  EXPECT_EQ(read(wide), (std::vector<float>{0, 0}));
}

TEST(Optimizer, RefusesWhatDoesNotFit) {
  Session other;
  const Tensor foreign = tensor({2}, 1).sum();
  Session s;
  Problem p(s);
  Optimizer o, none;
  State empty;
  OK(aster_ml_state_init(&empty, s.get()));
  EXPECT_EQ(aster_ml_sgd_init(&none, &empty, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_sgd_init(nullptr, &p.state, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_adam_init(&none, nullptr, nullptr), ASTER_ML_ARGUMENT);
  for (const aster_ml_sgd_options& bad :
       {sgd(-1), sgd(0, 1), sgd(0, -0.1), sgd(0, 0, -1), sgd(std::nan(""))}) {
    EXPECT_EQ(aster_ml_sgd_init(&none, &p.state, &bad), ASTER_ML_RANGE);
  }
  for (const aster_ml_adam_options& bad :
       {adam(-1), adam(0, 1), adam(0, 0, 1.5), adam(0, 0, 0, -1)}) {
    EXPECT_EQ(aster_ml_adam_init(&none, &p.state, &bad), ASTER_ML_RANGE);
  }
  for (const double bad : {-1.0, std::nan("")}) {
    aster_ml_lars_options options = lars(0);
    options.trust = bad;
    EXPECT_EQ(aster_ml_lars_init(&none, &p.state, &options), ASTER_ML_RANGE);
    options = lars(bad);
    EXPECT_EQ(aster_ml_lars_init(&none, &p.state, &options), ASTER_ML_RANGE);
    aster_ml_muon_options matrices = muon(0);
    matrices.coefficients[1] = bad * HUGE_VAL;
    EXPECT_EQ(aster_ml_muon_init(&none, &p.state, &matrices), ASTER_ML_RANGE);
    matrices = muon(0);
    matrices.steps = -2;
    EXPECT_EQ(aster_ml_muon_init(&none, &p.state, &matrices), ASTER_ML_RANGE);
    const aster_ml_adam_options decay = adam(0, 0, 0, 0, bad);
    EXPECT_EQ(aster_ml_lamb_init(&none, &p.state, &decay), ASTER_ML_RANGE);
  }
  Tensor scalar(1.0);
  State scalars;
  OK(aster_ml_state_init(&scalars, s.get()));
  OK(aster_ml_state_set(&scalars, "x", scalar.get(), 1));
  EXPECT_EQ(aster_ml_muon_init(&none, &scalars, nullptr), ASTER_ML_SHAPE);
  EXPECT_EQ(none.h.impl, nullptr);
  OK(aster_ml_sgd_init(&o, &p.state, nullptr));
  Tensor matrix = p.c.square(), nothing;
  EXPECT_EQ(aster_ml_optimizer_step(&o, matrix.get()), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_optimizer_step(&o, foreign.get()), ASTER_ML_ARGUMENT);
  EXPECT_NE(aster_ml_optimizer_step(&o, nothing.get()), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_optimizer_get(nothing.get(), &o, 2), ASTER_ML_RANGE);
  EXPECT_EQ(joined({values(12, 1), values(6, 2)}), p.weights());
}

// One step of a network: layers, statistics and weights in one realize, hitting the cache from the
// second on.
TEST(Optimizer, StepsOfANetworkAreOneSchedule) {
  Session s;
  Layer linear, norm;
  State state;
  Optimizer o;
  OK(aster_ml_linear_init(&linear, s.get(), 6, 4, 0));
  OK(aster_ml_batch_norm_init(&norm, s.get(), 4, nullptr));
  OK(aster_ml_state_init(&state, s.get()));
  OK(aster_ml_state_set_layer(&state, "linear.", &linear));
  OK(aster_ml_state_set_layer(&state, "norm.", &norm));
  const aster_ml_adam_options options = adam(0.05);
  OK(aster_ml_adam_init(&o, &state, &options));
  EXPECT_EQ(aster_ml_optimizer_count(&o), 3u);
  const uint64_t before = s.counters().realizes, misses = s.counters().schedule_misses;
  double first = 0, last = 0;
  for (int step = 0; step < 30; ++step) {
    const Tensor y = run(norm, run(linear, tensor({8, 6}, step % 3), 1), 1);
    const Tensor loss = (y - tensor({8, 4}, 50)).square().mean();
    OK(aster_ml_optimizer_step(&o, loss.get()));
    if (step % 3 == 0) (step == 0 ? first : last) = loss.item();
  }
  EXPECT_LT(last, 0.8 * first);
  EXPECT_EQ(s.counters().realizes - before, 30u);
  EXPECT_EQ(s.counters().schedule_misses - misses, 1u);
}

}  // namespace
}  // namespace nn_test
