#include <sys/resource.h>
#include <unistd.h>

#include <numeric>

#include "nn/world.h"

namespace nn_test {
namespace {

std::string raw(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
Tensor open_file(Session& s, const char* path, const Shape& shape, int64_t offset = 0,
                 int32_t mode = ASTER_ML_FILE_READ, int32_t dtype = ASTER_ML_DTYPE_FLOAT32) {
  return make(aster_ml_lazy_from_file, s.get(), path, dtype, shape.size(), shape.data(), offset,
              mode);
}
int32_t code_of(Session& s, const char* path, const Shape& shape, int64_t offset = 0,
                int32_t mode = ASTER_ML_FILE_READ, int32_t dtype = ASTER_ML_DTYPE_FLOAT32) {
  aster_ml_lazy out{};
  const int32_t code =
      aster_ml_lazy_from_file(&out, s.get(), path, dtype, shape.size(), shape.data(), offset, mode);
  EXPECT_EQ(out.impl == nullptr, code != 0);
  aster_ml_lazy_free(&out);
  return code;
}

std::vector<float> counted(size_t count) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}

TEST(File, ReadsAndSlices) {
  Session s;
  TemporaryFile file;
  file.write("head" + raw(counted(12)) + "tail");
  Tensor whole = open_file(s, file.path(), {3, 4}, 4);
  EXPECT_EQ(aster_ml_lazy_is_realized(whole.get()), 1);
  EXPECT_EQ(read(whole), counted(12));
  const int64_t begin[] = {1, 2}, end[] = {3, 3};
  EXPECT_EQ(read(make(aster_ml_lazy_shrink, whole.get(), size_t{2}, begin, end)),
            (std::vector<float>{6, 10}));
  EXPECT_EQ(read_bytes(open_file(s, file.path(), {-1}, 0, 0, 0)), file.read());
  EXPECT_EQ(read_bytes(open_file(s, file.path(), {4}, 0, 0, ASTER_ML_DTYPE_UINT8)), "head");
  Tensor rest = open_file(s, file.path(), {-1, 2}, 4 + 20);
  EXPECT_EQ(aster_ml_lazy_dim(rest.get(), 0), 4);
  EXPECT_EQ(read(open_file(s, file.path(), {2}, 5 * 4)), (std::vector<float>{4, 5}));
  // Not aligned: the same values, copied.
  TemporaryFile odd;
  odd.write("x" + raw(counted(3)));
  EXPECT_EQ(read(open_file(s, odd.path(), {3}, 1)), counted(3));
  EXPECT_EQ(read(open_file(s, odd.path(), {0, 5}, 1)), std::vector<float>{});
}

// Nothing is read that nobody uses: a file larger than the address space may be filled with takes
// neither memory nor time.
TEST(File, IsNotReadBeforeItIsUsed) {
  Session s;
  TemporaryFile file;
  file.write("start");
  constexpr int64_t kSize = int64_t{1} << 36;
  if (truncate(file.path(), kSize) != 0) GTEST_SKIP() << "no sparse files here";
  Tensor huge = open_file(s, file.path(), {kSize / 4});
  const int64_t begin[] = {kSize / 4 - 3}, end[] = {kSize / 4};
  EXPECT_EQ(read(make(aster_ml_lazy_shrink, huge.get(), size_t{1}, begin, end)),
            (std::vector<float>{0, 0, 0}));
  struct rusage usage {};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 4 << 20);  // of 64 GiB
}

TEST(File, AssignmentsGoToTheFile) {
  Session s;
  TemporaryFile file;
  file.write("head" + raw(counted(6)));
  Tensor x = open_file(s, file.path(), {2, 3}, 4, ASTER_ML_FILE_WRITE);
  Tensor doubled = x + x;
  OK(aster_ml_lazy_assign(x.get(), doubled.get()));
  EXPECT_EQ(file.read(), "head" + raw(counted(6)));  // not yet
  EXPECT_OK(realize(x));
  EXPECT_EQ(file.read(), "head" + raw({0, 2, 4, 6, 8, 10}));
  // Through a view, too.
  const int64_t begin[] = {1, 0}, end[] = {2, 2};
  Tensor part = make(aster_ml_lazy_shrink, x.get(), size_t{2}, begin, end);
  Tensor nines = Tensor(std::vector<float>{9, 9.5}, {1, 2});
  OK(aster_ml_lazy_assign(part.get(), nines.get()));
  EXPECT_OK(realize(x));
  EXPECT_EQ(file.read(), "head" + raw({0, 2, 4, 9, 9.5, 10}));
}

TEST(File, IsMadeAndGrown) {
  Session s;
  TemporaryFile file;
  Tensor x = open_file(s, file.path(), {4}, 8, ASTER_ML_FILE_CREATE);
  EXPECT_EQ(file.read(), std::string(24, '\0'));
  Tensor values = Tensor(std::vector<float>{1, 2, 3, 4}, {4});
  OK(aster_ml_lazy_assign(x.get(), values.get()));
  EXPECT_OK(realize(x));
  EXPECT_EQ(file.read(), std::string(8, '\0') + raw({1, 2, 3, 4}));
  Tensor longer = open_file(s, file.path(), {8}, 0, ASTER_ML_FILE_CREATE);
  EXPECT_EQ(read(longer), (std::vector<float>{0, 0, 1, 2, 3, 4, 0, 0}));
  Tensor shorter = open_file(s, file.path(), {1}, 8, ASTER_ML_FILE_CREATE);
  EXPECT_EQ(file.read().size(), 32u);
  EXPECT_EQ(read(shorter), std::vector<float>{1});
}

// What happens to a file while it is mapped: it may be removed, replaced and grow.
TEST(File, MayBeRemovedAndGrow) {
  Session s;
  TemporaryFile file;
  file.write(raw(counted(4)));
  Tensor x = open_file(s, file.path(), {4});
  std::ofstream(file.path(), std::ios::app | std::ios::binary) << "more";
  EXPECT_EQ(read(x), counted(4));
  unlink(file.path());
  EXPECT_EQ(read(x + x), (std::vector<float>{0, 2, 4, 6}));
}

TEST(File, ReadOnlyStaysSo) {
  Session s;
  TemporaryFile file;
  file.write(raw(counted(2)));
  Tensor x = open_file(s, file.path(), {2}), y = x + x;
  EXPECT_EQ(aster_ml_lazy_assign(x.get(), y.get()), ASTER_ML_ARGUMENT);
  EXPECT_EQ(read(x), counted(2));
  EXPECT_EQ(file.read(), raw(counted(2)));
}

TEST(File, RefusesWhatDoesNotFit) {
  Session s;
  TemporaryFile file, none, folder;
  file.write(raw(counted(4)));
  EXPECT_EQ(code_of(s, file.path(), {5}), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {4}, 4), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {1}, -4), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {-1}, 17), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {-1}, 2), ASTER_ML_SHAPE);
  EXPECT_EQ(code_of(s, file.path(), {-1, 3}), ASTER_ML_SHAPE);
  EXPECT_EQ(code_of(s, file.path(), {-1, 0}), ASTER_ML_SHAPE);
  EXPECT_EQ(code_of(s, file.path(), {-1, -1}), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {-2}), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {INT64_MAX, 4}), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {1}, INT64_MAX), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {1}, 2, ASTER_ML_FILE_WRITE), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {-1}, 0, ASTER_ML_FILE_CREATE), ASTER_ML_RANGE);
  EXPECT_EQ(code_of(s, file.path(), {1}, 0, 3), ASTER_ML_ARGUMENT);
  EXPECT_EQ(code_of(s, file.path(), {1}, 0, 0, ASTER_ML_DTYPE_WEAKFLOAT), ASTER_ML_DTYPE);
  EXPECT_EQ(code_of(s, none.path(), {1}), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(code_of(s, none.path(), {1}, 0, ASTER_ML_FILE_WRITE), ASTER_ML_NOT_FOUND);
  EXPECT_FALSE(std::filesystem::exists(none.path()));
  std::filesystem::create_directory(folder.path());
  EXPECT_EQ(code_of(s, folder.path(), {1}), ASTER_ML_IO);
  EXPECT_EQ(code_of(s, folder.path(), {1}, 0, ASTER_ML_FILE_CREATE), ASTER_ML_IO);
  EXPECT_EQ(code_of(s, (std::string(none.path()) + "/x").c_str(), {1}, 0, ASTER_ML_FILE_CREATE),
            ASTER_ML_NOT_FOUND);
  EXPECT_EQ(file.read(), raw(counted(4)));
}

}  // namespace
}  // namespace nn_test
