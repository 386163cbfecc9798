// Random graphs of tensors with symbolic sizes against the same graphs of tensors cut to them, at
// once and as programs that are captured for some values and run with others.
#include <cmath>
#include <cstdio>
#include <random>

#include "aster_ml/engine.h"
#include "aster_ml/indexing.h"
#include "aster_ml/linalg.h"
#include "aster_ml/movement.h"
#include "aster_ml/spatial.h"
#include "aster_ml/symbolic.h"
#include "tensor/world.h"

namespace aster::tensor::test {
namespace {

constexpr int64_t kRows = 5, kColumns = 4;  // the greatest
constexpr int kSteps = 7;
constexpr unsigned kOperations = 35;

// A step: what is built of which tensors, with numbers that say how.
struct Step {
  unsigned op, a, b, by;
};

struct Sizes {
  int64_t n, m;
};

// Sizes as they are given: expressions, or numbers.
class Source {
 public:
  Source(const World& world, bool symbolic) : world_(world), symbolic_(symbolic) {
    if (!symbolic) return;
    EXPECT_EQ(aster_ml_symbolic_init(&n_, world, "n", 1, kRows), 0) << message();
    EXPECT_EQ(aster_ml_symbolic_init(&m_, world, "m", 1, kColumns), 0) << message();
  }
  ~Source() {
    for (const aster_ml_uop* made : made_) aster_ml_uop_release(world_, made);
    if (n_ != nullptr) aster_ml_uop_release(world_, n_);
    if (m_ != nullptr) aster_ml_uop_release(world_, m_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  aster_ml_dim bound(const char* name, int64_t value) {
    const aster_ml_uop* out = nullptr;
    if (!symbolic_) return {value, nullptr};
    EXPECT_EQ(aster_ml_symbolic_bind(&out, world_, *name == 'n' ? n_ : m_, name, value), 0)
        << message();
    return keep(out);
  }
  aster_ml_dim combine(const char* op, aster_ml_dim a, int64_t b) {
    const aster_ml_dim right{b, nullptr};
    const aster_ml_uop* out = nullptr;
    EXPECT_EQ(aster_ml_symbolic_combine(&out, world_, op, &a, &right), 0) << message();
    return keep(out);
  }
  // A dimension of a tensor.
  static aster_ml_dim of(const T& x, size_t axis) {
    std::vector<aster_ml_dim> dims(aster_ml_lazy_ndim(x));
    EXPECT_EQ(aster_ml_lazy_dims(dims.data(), dims.size(), x), 0) << message();
    return dims[axis];
  }

 private:
  aster_ml_dim keep(const aster_ml_uop* made) {
    made_.push_back(made);
    return {0, made};
  }
  const World& world_;
  bool symbolic_;
  const aster_ml_uop *n_ = nullptr, *m_ = nullptr;
  std::vector<const aster_ml_uop*> made_;
};

class Graph {
 public:
  Graph(const World& world, Source& source, const std::vector<float>& data, Sizes sizes)
      : world_(world), source_(source) {
    const T all = from(world, data, {kRows, kColumns, 3});
    const aster_ml_dim zero{0, nullptr},
        begin[] = {zero, zero, zero},
        end[] = {source.bound("n", sizes.n), source.bound("m", sizes.m), {3, {}}};
    T part, turned;
    const int64_t order[] = {1, 0, 2};
    EXPECT_EQ(aster_ml_lazy_shrink_dims(part, all, 3, begin, end), 0) << message();
    EXPECT_EQ(aster_ml_lazy_permute(turned, part, 3, order), 0) << message();
    tensors_.push_back(std::move(part));
    tensors_.push_back(std::move(turned));
  }
  // False where a step fails, which is left out.
  bool add(const Step& step) {
    T made;
    const T &a = tensors_[step.a % tensors_.size()], &b = tensors_[step.b % tensors_.size()];
    if (build(made, step, a, b) != 0 || count(made) > 4000) return false;
    tensors_.push_back(std::move(made));
    return true;
  }
  T& last() { return tensors_.back(); }
  size_t size() const { return tensors_.size(); }
  T& operator[](size_t i) { return tensors_[i]; }

 private:
  // By lazy_dims, which is no use of the values.
  static int64_t count(const T& x) {
    std::vector<aster_ml_dim> dims(aster_ml_lazy_ndim(x));
    int64_t product = 1;
    EXPECT_EQ(aster_ml_lazy_dims(dims.data(), dims.size(), x), 0) << message();
    for (const aster_ml_dim& dim : dims) product *= dim.value;
    return product;
  }
  int32_t build(T& y, const Step& step, const T& a, const T& b) {
    const size_t ndim = aster_ml_lazy_ndim(a);
    const int64_t axis = ndim == 0 ? 0 : static_cast<int64_t>(step.by % ndim);
    const int32_t keep = static_cast<int32_t>(step.by / 7 % 2);
    switch (step.op % kOperations) {
      case 0:
        return aster_ml_lazy_sigmoid(y, a);
      case 1:
        return aster_ml_lazy_add(y, a, b);
      case 2:
        return aster_ml_lazy_maximum(y, a, b);
      case 3:
        return aster_ml_lazy_sum(y, a, 1, &axis, keep);
      case 4:
        return aster_ml_lazy_max(y, a, 1, &axis, keep);
      case 5:
        return aster_ml_lazy_mean(y, a, 1, &axis, keep);
      case 6:
        return aster_ml_lazy_var(y, a, 1, &axis, keep, 0);
      case 7:
        return aster_ml_lazy_softmax(y, a, axis);
      case 8:
        return aster_ml_lazy_cumsum(y, a, axis);
      case 9:
        return aster_ml_lazy_transpose(y, a, axis, -1);
      case 10:
        return aster_ml_lazy_flatten(y, a, axis, -1);
      case 11:
        return aster_ml_lazy_unsqueeze(y, a, axis);
      case 12:
        return aster_ml_lazy_flip(y, a, 1, &axis);
      case 13: {
        const aster_ml_lazy* const parts[] = {a, b};
        return aster_ml_lazy_cat(y, parts, 2, axis);
      }
      case 14: {
        const aster_ml_lazy* const parts[] = {a, a};
        return aster_ml_lazy_stack(y, parts, 2, axis);
      }
      case 15:
        return pad(y, a, axis, step.by);
      case 16:
        return part(y, a, axis);
      case 17:
        return last_of(y, a, axis);
      default:
        return build_more(y, step, a, b, axis, keep);
    }
  }
  int32_t build_more(T& y, const Step& step, const T& a, const T& b, int64_t axis, int32_t keep) {
    T one, two;
    switch (step.op % kOperations) {
      case 18: {
        const int32_t status = aster_ml_lazy_transpose(one, b, -1, -2);
        return status != 0 ? status : aster_ml_lazy_matmul(y, a, one);
      }
      case 19:
        return aster_ml_lazy_matmul(y, a, b);
      case 20:
        return aster_ml_lazy_sort(y, one, a, axis, keep);
      case 21: {
        const int32_t status = aster_ml_lazy_argmax(one, a, axis, keep);
        return status != 0 ? status : aster_ml_lazy_cast(y, one, ASTER_ML_DTYPE_FLOAT32);
      }
      case 22: {
        const aster_ml_dim dims[] = {{-1, nullptr}};
        return aster_ml_lazy_reshape_dims(y, a, 1, dims);
      }
      case 23:
        return aster_ml_lazy_scaled_dot_product_attention(y, a, b, b, nullptr, 0, keep, 0, 0);
      case 24:
        return index(y, a, axis, step.by);
      case 25:
        return index_by(y, a, axis, keep);
      case 26:
        return index_assign(y, a, b, axis, step.by);
      case 27: {
        const aster_ml_lazy* const both[] = {a, b};
        const char* const formulas[] = {"...ab,...cb->...ac", "...ab,...ab->...b", "ab,bc->c",
                                        "abc,abc->ca", "...a,...a->..."};
        return aster_ml_lazy_einsum(y, formulas[step.by % 5], both, 2, 0);
      }
      case 28: {
        const char* const formulas[] = {"a ... b -> b ... a", "... a b -> ... (a b)",
                                        "a b ... -> (b a) ... 1", "a b -> b 1 a",
                                        "a b c -> b (a c)"};
        return aster_ml_lazy_rearrange(y, a, formulas[step.by % 5], 0, nullptr, nullptr);
      }
      case 29:
        return conv(y, a, step.by);
      case 30:
        return pool(y, a, step.by);
      case 31:
        return pad_mode(y, a, axis, step.by);
      case 32:
        return resize(y, a, step.by);
      case 33: {
        aster_ml_scalar fill;
        EXPECT_EQ(aster_ml_scalar_from_double(&fill, ASTER_ML_DTYPE_FLOAT32, -1.5), 0);
        const int32_t status = aster_ml_lazy_lt(one, a, b);
        return status != 0 ? status : aster_ml_lazy_masked_select(y, a, one, 11, &fill);
      }
      default: {
        const int64_t kernel[] = {2};
        const int32_t status = aster_ml_lazy_max_pool_with_indices(one, two, a, 1, kernel, nullptr);
        return status != 0 ? status : aster_ml_lazy_max_unpool(y, one, two, 1, kernel, nullptr);
      }
    }
  }
  static std::vector<aster_ml_dim_index> items(size_t count) {
    const aster_ml_dim zero{0, nullptr}, first{INT64_MIN, nullptr}, last{INT64_MAX, nullptr};
    const aster_ml_dim_index all{ASTER_ML_INDEX_SLICE, first, last, 1, nullptr};
    std::vector<aster_ml_dim_index> out(count, all);
    out.push_back({ASTER_ML_INDEX_ELLIPSIS, zero, zero, 0, nullptr});
    return out;
  }
  // Of an axis: from its middle, backwards, every second one, its last, a new axis before it.
  void place(aster_ml_dim_index& item, const T& a, int64_t axis, unsigned by) {
    const aster_ml_dim size = Source::of(a, static_cast<size_t>(axis));
    const int64_t steps[] = {1, 2, -1, -2};
    item.step = steps[by / 5 % 4];
    switch (by % 5) {
      case 0:
        if (item.step > 0) item.start = source_.combine("FloorDiv", size, 2);
        if (item.step < 0) item.stop = source_.combine("FloorDiv", size, 2);
        break;
      case 1:
        if (item.step > 0) item.stop = source_.combine("Sub", size, 1);
        break;
      case 2:
        item.kind = ASTER_ML_INDEX_INTEGER;
        item.start = source_.combine("Sub", size, 1);
        break;
      case 3:
        item.kind = ASTER_ML_INDEX_INTEGER;
        item.start.value = -1;
        break;
      default:
        item.start.value = item.step < 0 ? INT64_MAX : INT64_MIN;
        item.stop.value = item.step < 0 ? INT64_MIN : INT64_MAX;
    }
    if (item.kind != ASTER_ML_INDEX_SLICE || item.step > 0) return;
    item.start = {INT64_MAX, nullptr};
    if (item.stop.expression == nullptr) item.stop = {INT64_MIN, nullptr};
  }
  int32_t index(T& y, const T& a, int64_t axis, unsigned by) {
    if (aster_ml_lazy_ndim(a) == 0) return 1;
    std::vector<aster_ml_dim_index> list = items(static_cast<size_t>(axis) + 1);
    place(list[static_cast<size_t>(axis)], a, axis, by);
    if (by % 11 == 0)
      list.insert(list.begin(), aster_ml_dim_index{ASTER_ML_INDEX_NEW_AXIS, {}, {}, 0, nullptr});
    return aster_ml_lazy_index_dims(y, a, list.size(), list.data());
  }
  // By the order of an axis, counted from its end.
  int32_t index_by(T& y, const T& a, int64_t axis, int32_t down) {
    T order, largest, place, one;
    if (aster_ml_lazy_ndim(a) == 0) return 1;
    for (const int32_t status : {aster_ml_lazy_argsort(order, a, axis, down),
                                 aster_ml_lazy_max(largest, order, 1, &axis, 0),
                                 aster_ml_lazy_bitwise_not(place, largest)}) {
      if (status != 0) return status;
    }
    std::vector<aster_ml_dim_index> list = items(static_cast<size_t>(axis) + 1);
    list[static_cast<size_t>(axis)] = {ASTER_ML_INDEX_TENSOR, {}, {}, 0, place};
    return aster_ml_lazy_index_dims(y, a, list.size(), list.data());
  }
  // A part of a becomes the same part of b, or one number.
  int32_t index_assign(T& y, const T& a, const T& b, int64_t axis, unsigned by) {
    T value, number;
    if (aster_ml_lazy_ndim(a) == 0) return 1;
    std::vector<aster_ml_dim_index> list = items(static_cast<size_t>(axis) + 1);
    place(list[static_cast<size_t>(axis)], a, axis, by);
    int32_t status = aster_ml_lazy_number(number, world_, 0.5);
    if (status == 0 && by % 2 == 0)
      status = aster_ml_lazy_index_dims(value, b, list.size(), list.data());
    if (status == 0) status = aster_ml_lazy_mul(y, a, a);
    if (status != 0) return status;
    return aster_ml_lazy_index_assign_dims(y, list.size(), list.data(),
                                           by % 2 == 0 ? value : number);
  }
  // Every row of a as an image of one channel, with windows along the others.
  int32_t conv(T& y, const T& a, unsigned by) {
    const size_t ndim = aster_ml_lazy_ndim(a);
    const int64_t ones[] = {1, 1}, two[] = {2, 1}, filters[] = {2, 1, 2, 1};
    T image, weight;
    if (ndim != 2 && ndim != 3) return 1;
    const T values = from(world_, std::vector<float>{0.5F, -1, 2, 0.25F}, {4});
    int32_t status = aster_ml_lazy_unsqueeze(image, a, 1);
    if (status == 0) status = aster_ml_lazy_reshape(weight, values, ndim + 1, filters);
    if (status != 0) return status;
    aster_ml_conv_options options{};
    options.struct_size = sizeof options;
    options.stride = two;
    options.before = ones;
    options.after = by % 3 == 0 ? ones : nullptr;
    if (by % 2 == 0) return aster_ml_lazy_conv(y, image, weight, nullptr, &options);
    T turned;
    status = aster_ml_lazy_transpose(turned, weight, 0, 1);
    return status != 0 ? status : aster_ml_lazy_conv_transpose(y, image, turned, nullptr, nullptr);
  }
  int32_t pool(T& y, const T& a, unsigned by) {
    const int64_t ones[] = {1, 1}, kernel[] = {2, 3};
    const size_t rank = 1 + by / 5 % 2;
    aster_ml_pool_options options{};
    options.struct_size = sizeof options;
    options.exclude_pad = static_cast<int32_t>(by / 3 % 2);
    options.stride = options.before = options.after = ones;
    return by % 2 == 0 ? aster_ml_lazy_max_pool(y, a, rank, kernel, &options)
                       : aster_ml_lazy_avg_pool(y, a, rank, kernel, &options);
  }
  int32_t pad(T& y, const T& a, int64_t axis, unsigned by) {
    const size_t ndim = aster_ml_lazy_ndim(a);
    std::vector<aster_ml_dim> before(ndim, {0, nullptr}), after(ndim, {0, nullptr});
    if (ndim == 0) return 1;
    before[static_cast<size_t>(axis)].value = by / 3 % 3;
    after[static_cast<size_t>(axis)] = by % 5 == 0 ? Source::of(a, 0) : aster_ml_dim{1, nullptr};
    return aster_ml_lazy_pad_dims(y, a, ndim, before.data(), after.data(), nullptr);
  }
  int32_t pad_mode(T& y, const T& a, int64_t axis, unsigned by) {
    const size_t ndim = aster_ml_lazy_ndim(a);
    std::vector<int64_t> before(ndim, 0), after(ndim, 0);
    if (ndim == 0) return 1;
    before[static_cast<size_t>(axis)] = static_cast<int64_t>(by / 3 % 4) - 1;
    after[static_cast<size_t>(axis)] = by / 5 % 2;
    return aster_ml_lazy_pad_mode(y, a, ndim, before.data(), after.data(),
                                  static_cast<aster_ml_padding>(1 + by % 3), nullptr);
  }
  // The last axes become as many elements as others have, or three.
  int32_t resize(T& y, const T& a, unsigned by) {
    const size_t ndim = aster_ml_lazy_ndim(a), rank = 1 + by % 2;
    if (ndim < rank) return 1;
    const aster_ml_dim three{3, nullptr},
        wanted[] = {by % 3 == 0 ? three : Source::of(a, 0), by % 5 == 0 ? Source::of(a, 0) : three};
    const auto mode = static_cast<aster_ml_interpolation>(by / 2 % 3);
    return aster_ml_lazy_interpolate_dims(y, a, rank, wanted, mode, mode == 0 && by / 7 % 2 == 0);
  }
  // The first half of an axis is left out.
  int32_t part(T& y, const T& a, int64_t axis) {
    const size_t ndim = aster_ml_lazy_ndim(a);
    std::vector<aster_ml_dim> begin(ndim, {0, nullptr}), end;
    if (ndim == 0) return 1;
    for (size_t k = 0; k < ndim; ++k) end.push_back(Source::of(a, k));
    begin[static_cast<size_t>(axis)] =
        source_.combine("FloorDiv", end[static_cast<size_t>(axis)], 2);
    return aster_ml_lazy_shrink_dims(y, a, ndim, begin.data(), end.data());
  }
  int32_t last_of(T& y, const T& a, int64_t axis) {
    if (aster_ml_lazy_ndim(a) == 0) return 1;
    const aster_ml_dim at = source_.combine("Sub", Source::of(a, static_cast<size_t>(axis)), 1);
    return aster_ml_lazy_select_dims(y, a, axis, &at);
  }
  const World& world_;
  Source& source_;
  std::vector<T> tensors_;
};

bool close(float a, float b) {
  return std::isnan(b) ? std::isnan(a) : a == b || std::abs(a - b) <= 1e-4f * (1 + std::abs(b));
}

int cases(int usual) {
  const char* const given = std::getenv("ASTER_ML_FUZZ_ENGINE_CASES");
  return given == nullptr ? usual : std::atoi(given);
}

std::vector<float> random_data(std::mt19937& random) {
  std::vector<float> data(kRows * kColumns * 3);
  for (float& x : data) x = static_cast<float>(static_cast<int>(random() % 41) - 20) / 8;
  return data;
}

Step random_step(std::mt19937& random) {
  return {static_cast<unsigned>(random()), static_cast<unsigned>(random() >> 3),
          static_cast<unsigned>(random() >> 3), static_cast<unsigned>(random() % 420)};
}

class Sized : public testing::TestWithParam<bool> {
 protected:
  World world_{GetParam()};
};

TEST_P(Sized, RandomGraphsAreThoseOfTensorsCut) {
  for (unsigned seed = 1; seed <= static_cast<unsigned>(GetParam() ? cases(150) : 8); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::vector<float> data = random_data(random);
    const Sizes sizes{1 + static_cast<int64_t>(random() % kRows),
                      1 + static_cast<int64_t>(random() % kColumns)};
    Source symbols(world_, true), numbers(world_, false);
    Graph graph(world_, symbols, data, sizes), plain(world_, numbers, data, sizes);
    for (int i = 0; i < kSteps; ++i) {
      const Step step = random_step(random);
      const bool built = plain.add(step);
      EXPECT_EQ(graph.add(step), built)
          << "operation " << step.op % kOperations << ": " << message();
      if (graph.size() != plain.size()) return;
    }
    for (size_t i = 0; i < graph.size(); ++i) {
      ASSERT_EQ(graph[i].shape(), plain[i].shape()) << "tensor " << i;
      const std::vector<float> got = graph[i].floats(), want = plain[i].floats();
      for (size_t k = 0; k < got.size(); ++k)
        ASSERT_TRUE(close(got[k], want[k])) << i << ": " << got[k] << " for " << want[k];
    }
  }
}

// The first elements of each axis, as many as shape says, of a row-major tensor.
std::vector<float> first_of(const aster_ml_tensor& all, const Shape& shape) {
  const auto* data =
      reinterpret_cast<const float*>(static_cast<const char*>(all.storage.data) + all.byte_offset);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (size_t k = shape.size(); k-- > 0; step *= static_cast<int64_t>(all.shape[k])) {
      at += rest % shape[k] * step;
      rest /= shape[k];
    }
    out.push_back(data[at]);
  }
  return out;
}

TEST_P(Sized, CapturedGraphsServeOtherValues) {
  int served = 0;
  const int count = GetParam() ? cases(60) : 6;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(count); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed * 77);
    const std::vector<float> data = random_data(random);
    std::vector<Step> steps;
    Source symbols(world_, true), numbers(world_, false);
    aster_ml_program program{};
    {
      Graph plain(world_, numbers, data, {2, 3});  // a call that fails looks at sizes
      for (int i = 0; i < kSteps; ++i) {
        const Step step = random_step(random);
        if (plain.add(step)) steps.push_back(step);
      }
      OK(aster_ml_engine_capture_begin(world_, nullptr, 0));
      Graph graph(world_, symbols, data, {2, 3});
      for (const Step& step : steps) EXPECT_TRUE(graph.add(step)) << message();
      aster_ml_lazy* const outputs[] = {graph.last()};
      OK(aster_ml_engine_capture_end(&program, world_, outputs, 1));
    }
    bool fixed = false;
    std::vector<aster_ml_program_variable> variables(aster_ml_program_count_variables(&program));
    for (size_t i = 0; i < variables.size(); ++i) {
      variables[i].struct_size = sizeof(variables[i]);
      OK(aster_ml_program_get_variable(&variables[i], &program, i));
      fixed |= variables[i].fixed != 0;
    }
    for (int64_t n = 1; n <= kRows && !fixed; ++n) {
      for (int64_t m = 1; m <= kColumns; ++m) {
        Graph plain(world_, numbers, data, {n, m});
        bool all = true;
        for (const Step& step : steps) all = all && plain.add(step);
        if (!all) continue;  // sizes that go together by chance
        std::vector<int64_t> values;
        for (const auto& v : variables) values.push_back(*v.name == 'n' ? n : m);
        EXPECT_EQ(aster_ml_program_is_for(&program, values.data(), values.size()), 1)
            << n << ", " << m;
        aster_ml_tensor made{};
        OK(aster_ml_program_run_bound(&program, nullptr, values.data(), values.size(), nullptr, 0,
                                      &made, 1));
        const std::vector<float> got = first_of(made, plain.last().shape()),
                                 want = plain.last().floats();
        for (size_t k = 0; k < got.size(); ++k)
          ASSERT_TRUE(close(got[k], want[k]))
              << n << ", " << m << ": " << got[k] << " for " << want[k];
        aster_ml_tensor_free(&made);
        ++served;
      }
    }
    aster_ml_program_free(&program);
  }
  EXPECT_GT(served, count);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, Sized, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "interpreted" : "compiled");
});

}  // namespace
}  // namespace aster::tensor::test
