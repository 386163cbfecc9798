// Strided memory: computed with where it lies, against the same elements copied by hand; what
// cannot be is copied as the context says.
#include <random>
#include <string>

#include "aster_ml/engine.h"
#include "device/toy_backend.h"
#include "world.h"

namespace aster::tensor::test {
namespace {

using Floats = std::vector<float>;
#define EXPECT_OK(call) EXPECT_EQ(call, ASTER_ML_OK) << message()

// Counts of the copies that nobody asked for.
struct Copies {
  uint64_t count, bytes;
};
Copies copies(const aster_ml_context* context) {
  aster_ml_engine_counters counters{};
  counters.struct_size = sizeof(counters);
  EXPECT_OK(aster_ml_engine_count(&counters, context));
  return {counters.copies, counters.copied_bytes};
}

// A descriptor in memory of floats 0, 1, 2, ... that the library knows.
struct Part {
  aster_ml_tensor whole{}, t{};
  Part(const aster_ml_context* context, size_t elements, size_t first,
       const std::vector<size_t>& shape, const std::vector<ptrdiff_t>& strides) {
    Floats data(elements);
    for (size_t i = 0; i < elements; ++i) data[i] = static_cast<float>(i);
    EXPECT_OK(aster_ml_tensor_from_data(&whole, context, data.data(), ASTER_ML_DTYPE_FLOAT32, 1,
                                        &elements));
    EXPECT_OK(aster_ml_tensor_from_buffer(&t, context, &whole.storage, first * sizeof(float),
                                          shape.size(), shape.data(), strides.data()));
  }
  ~Part() {
    aster_ml_tensor_free(&t);
    aster_ml_tensor_free(&whole);
  }
  Part(const Part&) = delete;
  Floats wanted() const {
    Floats out(aster_ml_tensor_count(&t));
    EXPECT_EQ(aster_ml_tensor_copy_out(out.data(), &t, out.size()), 0);
    return out;
  }
};

Floats computed(const aster_ml_context* context, const aster_ml_tensor& x) {
  aster_ml_tensor y{};
  EXPECT_OK(aster_ml_tensor_neg(&y, context, &x));
  Floats out(aster_ml_tensor_count(&y));
  EXPECT_OK(aster_ml_tensor_copy_out(out.data(), &y, out.size()));
  aster_ml_tensor_free(&y);
  for (float& value : out) value = -value;
  return out;
}

class Strided : public ::testing::TestWithParam<bool> {
 protected:
  const World world{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Runtimes, Strided, ::testing::Values(true, false),
                         [](const auto& r) { return r.param ? "interpreted" : "compiled"; });

struct Row {
  size_t elements, first;
  std::vector<size_t> shape;
  std::vector<ptrdiff_t> strides;
};
const Row kRows[] = {
    {12, 0, {4, 3}, {1, 4}},             // transposed
    {24, 2, {4, 3}, {6, 1}},             // columns 2 to 4
    {23, 2, {4, 3}, {6, 1}},             // whose last row ends with them
    {24, 23, {4, 6}, {-6, -1}},          // from the end
    {24, 1, {4, 2}, {6, 3}},             // every third column
    {24, 18, {2, 3}, {-12, 2}},          // every other row from the end
    {10, 9, {5}, {-2}},                  // one axis
    {10, 3, {4}, {0}},                   // one element again and again
    {14, 2, {3, 2, 3}, {4, 0, 1}},       // rows twice
    {120, 7, {2, 3, 2}, {50, 11, 2}},    // nothing divides anything
    {120, 100, {2, 2, 3}, {7, -40, 2}},  // in another order
    {24, 5, {1, 2, 1}, {77, 7, -3}},     // axes of one element
};

TEST_P(Strided, IsComputedInPlace) {
  for (const Row& row : kRows) {
    const Part part(world, row.elements, row.first, row.shape, row.strides);
    EXPECT_EQ(computed(world, part.t), part.wanted());
    T x, y;
    OK(aster_ml_lazy_from_tensor(x, world, &part.t));
    OK(aster_ml_lazy_square(y, x));
    Floats squares = part.wanted(), out(squares.size());
    for (float& value : squares) value *= value;
    OK(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(float), y));
    EXPECT_EQ(out, squares);
  }
  EXPECT_EQ(copies(world).count, 0u);
}

// What no movement says is copied, and counted.
TEST_P(Strided, WindowsAreCopied) {
  const Part part(world, 10, 0, {4, 3}, {1, 1});
  EXPECT_EQ(computed(world, part.t), part.wanted());
  EXPECT_EQ(copies(world).count, 1u);
  EXPECT_EQ(copies(world).bytes, 48u);
}

TEST_P(Strided, RandomDescriptors) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < (GetParam() ? 200 : 20); ++round) {
    std::vector<size_t> shape;
    std::vector<ptrdiff_t> strides;
    ptrdiff_t low = 0, high = 0;
    for (int axes = below(5); axes > 0; --axes) {
      shape.push_back(static_cast<size_t>(1 + below(4)));
      strides.push_back(below(40) - 15);
      const ptrdiff_t reach = strides.back() * static_cast<ptrdiff_t>(shape.back() - 1);
      (reach < 0 ? low : high) += reach;
    }
    const auto first = static_cast<size_t>(-low + below(3));
    const Part part(world, first + static_cast<size_t>(high + 1 + below(3)), first, shape, strides);
    EXPECT_EQ(computed(world, part.t), part.wanted()) << "round " << round;
  }
}

// Rows that are whole in known memory are written to where they lie.
TEST_P(Strided, AssignmentsGoThrough) {
  for (const Row& row : kRows) {
    const Part part(world, row.elements, row.first, row.shape, row.strides);
    T x, value;
    OK(aster_ml_lazy_from_tensor(x, world, &part.t));
    Floats data(aster_ml_tensor_count(&part.t));
    for (size_t i = 0; i < data.size(); ++i) data[i] = 1000 + static_cast<float>(i);
    std::vector<int64_t> dims(row.shape.begin(), row.shape.end());
    OK(aster_ml_lazy_from(value, world, data.data(), ASTER_ML_DTYPE_FLOAT32, dims.size(),
                          dims.data()));
    const bool stored = aster_ml_lazy_is_stored(x) != 0;
    const Floats before = part.wanted();
    OK(aster_ml_lazy_assign(x, value));
    aster_ml_lazy* list[] = {x};
    OK(aster_ml_lazy_realize(list, 1));
    EXPECT_EQ(part.wanted(), stored ? data : before);
    Floats out(data.size());
    OK(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(float), x));
    EXPECT_EQ(out, data);
  }
  const Part part(world, 24, 2, {4, 3}, {6, 1});
  T x;
  OK(aster_ml_lazy_from_tensor(x, world, &part.t));
  EXPECT_EQ(aster_ml_lazy_is_stored(x), 1);
}

// Realising and reading leave a view where it lies: what is written there later is seen.
TEST_P(Strided, StayViews) {
  for (const Row& row : kRows) {
    Part part(world, row.elements, row.first, row.shape, row.strides);
    T x, twice;
    OK(aster_ml_lazy_from_tensor(x, world, &part.t));
    aster_ml_lazy* list[] = {x};
    OK(aster_ml_lazy_realize(list, 1));
    EXPECT_EQ(aster_ml_lazy_is_realized(x), 1);
    Floats out(aster_ml_tensor_count(&part.t));
    for (int round = 0; round < 2; ++round) {
      OK(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(float), x));
      EXPECT_EQ(out, part.wanted());
      Floats data(row.elements);
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(7 * i + 3);
      OK(aster_ml_tensor_copy_in(&part.whole, data.data(), data.size()));
    }
    aster_ml_tensor lent{};
    OK(aster_ml_lazy_view_strided(&lent, x));
    EXPECT_EQ(lent.storage.data, part.t.storage.data);
    EXPECT_EQ(lent.byte_offset, part.t.byte_offset);
    for (size_t i = 0; i < row.shape.size(); ++i) {
      EXPECT_EQ(lent.shape[i], row.shape[i]);
      if (row.shape[i] > 1) {
        EXPECT_EQ(lent.strides[i], row.strides[i]);
      }
    }
    OK(aster_ml_lazy_mul(twice, x, x));
    Floats squares = part.wanted();
    for (float& value : squares) value *= value;
    OK(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(float), twice));
    EXPECT_EQ(out, squares);
  }
  EXPECT_EQ(copies(world).count, 0u);
}

// A slice of what is computed here sees what is assigned to it, however often it was read.
TEST_P(Strided, SlicesSeeAssignmentsAfterTheyWereRead) {
  T x, odd, turned, value;
  const Floats data = {0, 1, 2, 3, 4, 5};
  const int64_t six[] = {6}, axes[] = {1, 0}, two_by_three[] = {2, 3};
  OK(aster_ml_lazy_from(x, world, data.data(), ASTER_ML_DTYPE_FLOAT32, 1, six));
  const int64_t start[] = {1}, stop[] = {6}, step[] = {2};
  OK(aster_ml_lazy_slice(odd, x, 1, start, stop, step));
  T square;
  OK(aster_ml_lazy_reshape(square, x, 2, two_by_three));
  OK(aster_ml_lazy_permute(turned, square, 2, axes));
  aster_ml_lazy* list[] = {odd, turned};
  for (float plus : {0.f, 10.f, 20.f}) {
    OK(aster_ml_lazy_realize(list, 2));
    Floats out(3), all(6);
    OK(aster_ml_lazy_copy_out(out.data(), 12, odd));
    EXPECT_EQ(out, (Floats{1 + plus, 3 + plus, 5 + plus}));
    OK(aster_ml_lazy_copy_out(all.data(), 24, turned));
    EXPECT_EQ(all, (Floats{plus, 3 + plus, 1 + plus, 4 + plus, 2 + plus, 5 + plus}));
    int32_t shared = 0;
    OK(aster_ml_lazy_shares_storage(&shared, odd, turned));
    EXPECT_EQ(shared, 1);
    Floats next(6);
    for (size_t i = 0; i < 6; ++i) next[i] = static_cast<float>(i) + plus + 10;
    T more;
    OK(aster_ml_lazy_from(more, world, next.data(), ASTER_ML_DTYPE_FLOAT32, 1, six));
    OK(aster_ml_lazy_assign(x, more));
  }
  EXPECT_EQ(copies(world).count, 0u);
}

// Whoever asks for row-major memory of a view gets a copy, which the context is asked for.
TEST_P(Strided, RowMajorDescriptorsOfViewsAreCopies) {
  const Part part(world, 12, 0, {4, 3}, {1, 4});
  T x, other;
  OK(aster_ml_lazy_from_tensor(x, world, &part.t));
  OK(aster_ml_lazy_from_tensor(other, world, &part.t));
  aster_ml_tensor lent{};
  OK(aster_ml_context_set_copies(world, ASTER_ML_COPIES_REFUSE));
  EXPECT_EQ(aster_ml_lazy_view(&lent, x), ASTER_ML_UNSUPPORTED);
  EXPECT_NE(message().find("row-major descriptor"), std::string::npos) << message();
  EXPECT_EQ(lent.storage.data, nullptr);
  OK(aster_ml_context_set_copies(world, ASTER_ML_COPIES_ALLOW));
  OK(aster_ml_lazy_view(&lent, x));
  EXPECT_NE(lent.storage.data, part.t.storage.data);
  EXPECT_EQ(aster_ml_tensor_is_contiguous(&lent), 1);
  EXPECT_EQ(copies(world).count, 1u);
  EXPECT_EQ(copies(world).bytes, 48u);
  Floats out(12);
  OK(aster_ml_tensor_copy_out(out.data(), &lent, 12));
  EXPECT_EQ(out, part.wanted());
  // The other handle on the same view is still one.
  OK(aster_ml_lazy_view_strided(&lent, other));
  EXPECT_EQ(lent.storage.data, part.t.storage.data);
  EXPECT_EQ(copies(world).count, 1u);
  // No strides say this one.
  T flat;
  const int64_t twelve[] = {12};
  OK(aster_ml_lazy_reshape(flat, other, 1, twelve));
  OK(aster_ml_lazy_view_strided(&lent, flat));
  EXPECT_EQ(aster_ml_tensor_is_contiguous(&lent), 1);
  EXPECT_EQ(copies(world).count, 2u);
  EXPECT_EQ(aster_ml_lazy_view_strided(nullptr, x), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_view_strided(&lent, nullptr), ASTER_ML_ARGUMENT);
}

TEST_P(Strided, ResultsAreOfTheirOwn) {
  const Part part(world, 12, 0, {4, 3}, {1, 4});
  aster_ml_tensor same{};
  OK(aster_ml_tensor_cast(&same, world, &part.t, ASTER_ML_DTYPE_FLOAT32));
  EXPECT_NE(same.storage.data, part.whole.storage.data);
  EXPECT_EQ(aster_ml_tensor_is_contiguous(&same), 1);
  Floats out(12);
  OK(aster_ml_tensor_copy_out(out.data(), &same, 12));
  EXPECT_EQ(out, part.wanted());
  aster_ml_tensor_free(&same);
}

TEST_P(Strided, OutsideItsMemoryIsRefused) {
  Part part(world, 12, 0, {4, 3}, {1, 4});
  part.t.strides[1] = 5;
  aster_ml_tensor y{};
  EXPECT_EQ(aster_ml_tensor_neg(&y, world, &part.t), ASTER_ML_RANGE);
  part.t.strides[1] = -1;
  EXPECT_EQ(aster_ml_tensor_neg(&y, world, &part.t), ASTER_ML_RANGE);
  EXPECT_EQ(y.storage.data, nullptr);
}

// ---- The policy of copies ----

struct Lines {
  std::vector<std::string> lines;
};

TEST(CopyPolicy, LogsOrRefuses) {
  Lines log;
  aster_ml_context context{};
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.compiler = "none";
  options.log_self = &log;
  options.log = [](void* self, int32_t level, const char* line) {
    if (level <= ASTER_ML_LOG_WARNING) static_cast<Lines*>(self)->lines.emplace_back(line);
  };
  OK(aster_ml_context_init(&context, &options));
  EXPECT_EQ(aster_ml_context_set_copies(&context, 3), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_context_set_copies(&context, -1), ASTER_ML_ARGUMENT);
  {
    const Part windows(&context, 10, 0, {4, 3}, {1, 1}), turned(&context, 12, 0, {4, 3}, {1, 4});
    OK(aster_ml_context_set_copies(&context, ASTER_ML_COPIES_LOG));
    EXPECT_EQ(computed(&context, windows.t), windows.wanted());
    ASSERT_EQ(log.lines.size(), 1u);
    for (const char* part : {"aster_ml_tensor_neg", "48 bytes", "float32[4, 3]"})
      EXPECT_NE(log.lines[0].find(part), std::string::npos) << log.lines[0];

    OK(aster_ml_context_set_copies(&context, ASTER_ML_COPIES_REFUSE));
    aster_ml_tensor y{};
    aster_ml_lazy x{};
    EXPECT_EQ(aster_ml_tensor_neg(&y, &context, &windows.t), ASTER_ML_UNSUPPORTED);
    EXPECT_NE(message().find("48 bytes"), std::string::npos) << message();
    EXPECT_EQ(aster_ml_lazy_from_tensor(&x, &context, &windows.t), ASTER_ML_UNSUPPORTED);
    EXPECT_EQ(computed(&context, turned.t), turned.wanted());  // nothing to copy
    EXPECT_EQ(copies(&context).count, 1u);

    OK(aster_ml_context_set_copies(&context, ASTER_ML_COPIES_ALLOW));
    EXPECT_EQ(computed(&context, windows.t), windows.wanted());
    EXPECT_EQ(copies(&context).count, 2u);
    EXPECT_EQ(log.lines.size(), 1u);
  }
  OK(aster_ml_context_free(&context));
}

// The host computes on copies of what it does not address.
TEST(CopyPolicy, ForeignDevices) {
  static aster_test::ToyDevice toy;
  const aster_ml_backend table = toy.table(true);
  int32_t device = 0;
  OK(aster_ml_device_register(&device, "COPIED", &table));
  const World world(true);
  const size_t shape[] = {4};
  const Floats data{1, 2, 3, 4};
  aster_ml_tensor x{}, y{};
  OK(aster_ml_tensor_init(&x, world, ASTER_ML_DTYPE_FLOAT32, device, 1, shape));
  OK(aster_ml_tensor_copy_in(&x, data.data(), 4));
  OK(aster_ml_context_set_copies(world, ASTER_ML_COPIES_REFUSE));
  EXPECT_EQ(aster_ml_tensor_neg(&y, world, &x), ASTER_ML_UNSUPPORTED);
  EXPECT_NE(message().find("COPIED"), std::string::npos) << message();
  OK(aster_ml_context_set_copies(world, ASTER_ML_COPIES_ALLOW));
  OK(aster_ml_tensor_neg(&y, world, &x));
  EXPECT_GE(copies(world).bytes, 16u);
  OK(aster_ml_tensor_free(&x));
  OK(aster_ml_tensor_free(&y));
}

}  // namespace
}  // namespace aster::tensor::test
