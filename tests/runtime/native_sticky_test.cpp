// Products of sticky integers against sums of 128-bit products, for every width of vectors, sizes
// that fill no tile, operands that lie anyhow and end where memory does.
#include "runtime/cpu/native_sticky.h"

#include <sys/mman.h>
#include <unistd.h>

#include "dtype/sticky.h"
#include "runtime/cpu/native_types.h"
#include "runtime/cpu/sticky_product.h"
#include "uop/wide.h"

#include "native_support.h"
#include "sanitizers.h"

namespace aster::runtime::cpu::native {
namespace {

using dtype::Exact;

// Memory that ends at a page which cannot be read, or begins behind one.
class Guarded {
 public:
  Guarded(size_t bytes, bool at_end) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page + 2 * page;
    base_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(base_, page, PROT_NONE), 0);
    EXPECT_EQ(mprotect(base_ + size_ - page, page, PROT_NONE), 0);
    data_ = at_end ? base_ + size_ - page - bytes : base_ + page;
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  char* data() const { return data_; }

 private:
  char *base_, *data_;
  size_t size_;
};

// How an operand of [batch, rows, columns] lies, in elements.
struct View {
  int64_t first, batch, row, column;
  int64_t at(int64_t i, int64_t r, int64_t c) const {
    return first + i * batch + r * row + c * column;
  }
  std::vector<int64_t> words() const { return {first, batch, row, column, kPlain}; }
};
enum class How { kPlain, kTurned, kApart, kRepeated };
View view_of(How how, int64_t rows, int64_t columns) {
  switch (how) {
    case How::kPlain:
      return {0, rows * columns, columns, 1};
    case How::kTurned:
      return {0, rows * columns, 1, rows};
    case How::kApart:
      return {3, 2 * rows * (columns + 5), 2 * columns + 5, 2};
    default:
      return {1, 0, columns, 1};
  }
}

enum class Kind { kFull, kNear, kCancelling, kGreatest };
struct Case {
  DType dtype;
  int64_t batch, m, k, n;
  How a, b;
  Kind kind;
  bool errors;
};

class Operand {
 public:
  Operand(const Case& c, bool right)
      : dtype_(c.dtype),
        rows_(right ? c.k : c.m),
        columns_(right ? c.n : c.k),
        batch_(c.batch),
        view_(view_of(right ? c.b : c.a, rows_, columns_)),
        memory_(static_cast<size_t>(last() + 1) * dtype::size(dtype_), !right) {}
  int64_t get(int64_t i, int64_t r, int64_t column) const {
    return dtype::load_int(dtype::stored_as(dtype_), at(i, r, column));
  }
  void set(int64_t i, int64_t r, int64_t column, int64_t value) {
    dtype::store_int(dtype::stored_as(dtype_), at(i, r, column), value);
  }
  void* data() const { return memory_.data(); }
  const View& view() const { return view_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

 private:
  int64_t last() const { return view_.at(batch_ - 1, rows_ - 1, columns_ - 1); }
  char* at(int64_t i, int64_t r, int64_t column) const {
    return memory_.data() + static_cast<size_t>(view_.at(i, r, column)) * dtype::size(dtype_);
  }

  DType dtype_;
  int64_t rows_, columns_, batch_;
  View view_;
  Guarded memory_;
};

void fill(Operand* x, const Case& c, bool right, Random& random) {
  const auto bits = static_cast<int64_t>(dtype::bits(c.dtype));
  const int64_t most = dtype::sticky_most(c.dtype);
  // Sums of k products of so many bits are about as large as the result's dtype holds.
  const int64_t near = std::min(
      bits, (65 - static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(c.k)) / 2)) / 2);
  for (int64_t i = 0; i < c.batch; ++i) {
    for (int64_t r = 0; r < x->rows(); ++r) {
      for (int64_t column = 0; column < x->columns(); ++column) {
        const int64_t k = right ? r : column;
        const int64_t shift = 64 - (c.kind == Kind::kNear ? near : bits);
        int64_t value = static_cast<int64_t>(random()) >> shift;
        if (c.kind == Kind::kGreatest) value = random() % 2 == 0 ? most : -most;
        if (c.kind == Kind::kGreatest && random() % 8 != 0) value = most;
        // Every second product takes the one before it back, but for a little.
        if (c.kind == Kind::kCancelling && k % 2 == 1) {
          const int64_t before = right ? x->get(i, r - 1, column) : x->get(i, r, column - 1);
          value = right ? -before : before;
          if (right && k == 1) value = std::clamp<int64_t>(value + 1, -most, most);
        }
        if (value < -most) value = most;
        x->set(i, r, column, value);
      }
    }
  }
}

int64_t expected(const Case& c, const Operand& a, const Operand& b, int64_t i, int64_t row,
                 int64_t column) {
  const int64_t error = dtype::sticky_error(c.dtype);
  const DType to = dtype::sum_acc(c.dtype);
  Exact low = 0, high = 0;
  bool bad = false;
  for (int64_t k = 0; k < c.k; ++k) {
    const int64_t x = a.get(i, row, k), y = b.get(i, k, column);
    bad |= x == error || y == error;
    const Exact product = Exact{x} * y;
    low += static_cast<uint64_t>(product);
    high += product >> 64;
  }
  high += low >> 64;
  if (bad || (high != 0 && high != -1)) return dtype::sticky_error(to);
  return dtype::sticky_checked(to, high * (Exact{1} << 64) + static_cast<uint64_t>(low));
}

Node product(uop::Graph& g, DType d, const Shape& a, const Shape& b) {
  Shape shape = a;
  shape.back() = b.back();
  const DType stored = dtype::stored_as(d);
  return g.make(
      Op::kWide, dtype::stored_as(dtype::sum_acc(d)),
      std::array{g.param(0, stored, a), g.param(1, stored, b)},
      std::array{static_cast<int64_t>(uop::WideKind::kBytes), static_cast<int64_t>(stored)}, shape);
}

void check(const Case& c, Random& random, bool everywhere = true) {
  Heap heap(nullptr);
  uop::Graph g(heap);
  Operand a(c, false), b(c, true);
  fill(&a, c, false, random);
  fill(&b, c, true, random);
  if (c.errors) {
    for (Operand* x : {&a, &b}) {
      for (int turn = 0; turn < 2; ++turn)
        x->set(draw(random, 0, c.batch - 1), draw(random, 0, x->rows() - 1),
               draw(random, 0, x->columns() - 1), dtype::sticky_error(c.dtype));
    }
  }
  const Node call = product(g, c.dtype, Shape{c.batch, c.m, c.k}, Shape{c.batch, c.k, c.n});
  ASSERT_NE(call, nullptr);
  std::vector<int64_t> views = a.view().words();
  for (const int64_t word : b.view().words()) views.push_back(word);
  const size_t size = dtype::size(call->dtype), count = static_cast<size_t>(call->count());
  for (const int bytes : {static_cast<int>(sticky::kTileBytes), 64, 32, 16}) {
    const bool tiles = bytes == sticky::kTileBytes;
    if (tiles && sticky::amx_tile() == nullptr) continue;
    if (!tiles && narrowed(detect_features(), bytes).vector_bytes != bytes)
      continue;  // the CPU has none that wide
    SCOPED_TRACE(::testing::Message()
                 << dtype::name(c.dtype) << " " << c.batch << "x" << c.m << "x" << c.k << "x" << c.n
                 << ", views " << static_cast<int>(c.a) << static_cast<int>(c.b) << ", kind "
                 << static_cast<int>(c.kind) << ", vectors of " << bytes);
    Guarded result(count * size, true);
    Plan plan(heap);
    plan.implementation = find(call);
    ASSERT_TRUE(prepare_sticky_matmul(&plan, call, {views.data(), views.size()}, bytes).ok());
    run(plan, call, {a.data(), b.data(), result.data()}, random);
    // Sanitizers look at what was read and written; values are the others' to check one by one.
    const bool all = everywhere && (kSlower == 1 || call->count() <= 40);
    const int64_t places = all ? call->count() : 40;
    for (int64_t p = 0; p < places; ++p) {
      const int64_t at = all ? p : draw(random, 0, call->count() - 1);
      const int64_t found = dtype::load_int(dtype::stored_as(call->dtype),
                                            result.data() + static_cast<size_t>(at) * size);
      const int64_t i = at / (c.m * c.n), row = at / c.n % c.m, column = at % c.n;
      ASSERT_EQ(found, expected(c, a, b, i, row, column))
          << "at " << i << " " << row << " " << column;
    }
  }
}

constexpr DType kSticky[] = {DType::kTbb8, DType::kTbb16, DType::kTbb32, DType::kTbb64};
// TSan takes a hundred times as long, and nothing here has threads.
#ifdef ASTER_TEST_TSAN
constexpr bool kFew = true;
#else
constexpr bool kFew = false;
#endif
constexpr Kind kKinds[] = {Kind::kFull, Kind::kNear, Kind::kCancelling, Kind::kGreatest};

TEST(NativeSticky, OddSizes) {
  Random random(21);
  const struct {
    int64_t m, k, n;
  } sizes[] = {{1, 1, 1},    {3, 5, 7},     {8, 4, 32},    {9, 33, 31},   {7, 127, 33},
               {8, 128, 64}, {15, 129, 65}, {16, 257, 96}, {67, 131, 70}, {40, 68, 33}};
  for (const DType d : kSticky) {
    for (const auto& s : sizes) {
      for (const Kind kind : kKinds) {
        if (kFew && kind != Kind::kNear) continue;
        for (const bool errors : {false, true})
          check({d, 1, s.m, s.k, s.n, How::kPlain, How::kPlain, kind, errors}, random);
      }
    }
  }
}

TEST(NativeSticky, OperandsThatLieAnyhow) {
  Random random(22);
  constexpr How kAll[] = {How::kPlain, How::kTurned, How::kApart, How::kRepeated};
  for (const DType d : kSticky) {
    for (const How a : kAll) {
      for (const How b : kAll) check({d, 3, 19, 45, 37, a, b, Kind::kNear, true}, random);
    }
  }
}

// Several tasks, some of the same columns, some rows that are not cut at once.
TEST(NativeSticky, SizesOfSeveralTasks) {
  Random random(23);
  for (const DType d : kSticky) {
    if (kFew && d != DType::kTbb16) continue;
    for (const How how : {How::kPlain, How::kTurned}) {
      if (kSlower == 1 || (!kFew && d == DType::kTbb16))
        check({d, 1, 600, 70, 2100, how, how, Kind::kNear, true}, random, false);
      check({d, 2, 300, 500, 40, how, how, Kind::kNear, false}, random, false);
    }
  }
}

// As many terms as 32 bits hold sums of, of the greatest size.
TEST(NativeSticky, MostTerms) {
  Random random(24);
  for (const DType d : kSticky) {
    for (const Kind kind : {Kind::kCancelling, Kind::kGreatest}) {
      if (kFew && (kind != Kind::kGreatest || d != DType::kTbb32)) continue;
      if (kSlower > 1 && kind != Kind::kGreatest) continue;
      const int64_t m = kSlower > 1 ? 3 : 9, n = kSlower > 1 ? 17 : 33;
      check({d, 1, m, int64_t{1} << (kFew ? 12 : 16), n, How::kPlain, How::kPlain, kind, false},
            random, false);
    }
  }
}

TEST(NativeSticky, TakesWhatIsLargeEnough) {
  Heap heap(nullptr);
  uop::Graph g(heap);
  const auto taken = [&](DType d, int64_t m, int64_t k, int64_t n) {
    return worth_bytes(g.param(0, d, Shape{m, k}), g.param(1, d, Shape{k, n}));
  };
  for (const DType d : kSticky) {
    EXPECT_TRUE(taken(d, 128, 128, 128));
    EXPECT_FALSE(taken(d, 16, 16, 16)) << "generated loops are faster";
    EXPECT_FALSE(taken(d, 1, 1000, 1000));
    EXPECT_FALSE(taken(d, 1000, 1000, 1));
    EXPECT_TRUE(taken(d, 64, 1 << 16, 64));
    EXPECT_FALSE(taken(d, 64, (1 << 16) + 1, 64)) << "sums of bytes' products leave 32 bits";
    EXPECT_FALSE(taken(d, 64, 0, 64));
  }
  const Node node = product(g, DType::kTbb8, {4, 4}, {4, 4});
  EXPECT_EQ(find(node)->run, run_sticky_matmul);
}

TEST(NativeSticky, EveryFailedAllocationIsAStatus) {
  Heap heap(nullptr);
  uop::Graph g(heap);
  const Node call = product(g, DType::kTbb32, {5, 40, 40}, {5, 40, 40});
  int64_t allowed = 0;
  for (;; ++allowed) {
    FailingHeap failing(allowed);
    Plan plan(failing);
    const Status status = prepare(&plan, call, {});
    if (status.ok()) break;
    EXPECT_EQ(status, code(Code::kMEMORY));
    ASSERT_LT(allowed, 100);
  }
  EXPECT_GE(allowed, 1);
}

}  // namespace
}  // namespace aster::runtime::cpu::native
