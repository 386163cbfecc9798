// Keccak hashes against Python's hashlib and tinygrad (oracle/make_linalg.py).
#include "aster_ml/engine.h"
#include "aster_ml/linalg.h"
#include "linalg_world.h"

namespace aster::tensor::test {
namespace {

// The script's message().
std::vector<double> message_of(size_t n) {
  std::vector<double> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<double>(i * 31 % 251);
  return bytes;
}
T input(const World& world, const std::string& dtype, const Shape& shape) {
  if (dtype != "uint8") return matrix(world, shape, 1, dtype);
  return tensor_of(world, message_of(count_of(shape)), ASTER_ML_DTYPE_UINT8, shape);
}

TEST(Hash, KeccakIsRight) {
  const World world;
  for (const auto& row : oracle("hash.tsv")) {
    if (row[0] == "hash") continue;
    const Shape shape = shape_of(row[2]);
    const T x = input(world, row[1], shape);
    T y;
    OK(aster_ml_lazy_keccak(y, x, row[0].c_str()));
    EXPECT_EQ(y.dtype(), ASTER_ML_DTYPE_UINT8);
    const std::vector<uint8_t> expected = unhex(row[3]);
    Shape result = shape;
    result.back() = row[0] == "sha3_224" ? 28 : row[0] == "sha3_256" ? 32 : 16;
    EXPECT_EQ(y.shape(), result);
    EXPECT_EQ(y.read<uint8_t>(), expected) << row[0] << " " << row[1] << " " << row[2];
  }
}

TEST(Hash, CompiledAndByRate) {
  const World world(false);
  const auto rows = oracle("hash.tsv");
  for (const auto& row : rows) {
    if (row[0] != "sha3_256" || row[1] != "uint8" || row[2] != "400") continue;
    const T x = input(world, row[1], shape_of(row[2]));
    T named, plain, rated;
    OK(aster_ml_lazy_keccak(named, x, "sha3_256"));
    OK(aster_ml_lazy_keccak(plain, x, nullptr));
    OK(aster_ml_lazy_keccak_rate(rated, x, 136, 6));
    for (T* t : {&named, &plain, &rated}) EXPECT_EQ(t->read<uint8_t>(), unhex(row[3]));
  }
}

TEST(Hash, CompiledMegabyte) {
  const World world(false);
  for (const auto& row : oracle("hash.tsv")) {
    if (row[0] != "hash" || row[2] != "5000") continue;
    const T x = input(world, row[1], shape_of(row[2]));
    T y;
    OK(aster_ml_lazy_hash(y, x));
    EXPECT_EQ(y.read<uint8_t>(), unhex(row[3]));
  }
}

TEST(Hash, Refuses) {
  const World world;
  const T scalar = number(world, 1), x = input(world, "uint8", {3});
  T y;
  EXPECT_EQ(aster_ml_lazy_keccak(y, scalar, nullptr), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_keccak(y, x, "md5"), ASTER_ML_NOT_FOUND);
  EXPECT_NE(message().find("md5"), std::string::npos);
  for (int64_t rate : {0, 4, 200, 137, -8})
    EXPECT_EQ(aster_ml_lazy_keccak_rate(y, x, rate, 6), ASTER_ML_RANGE) << rate;
  for (int64_t suffix : {0, 128, -1})
    EXPECT_EQ(aster_ml_lazy_keccak_rate(y, x, 136, suffix), ASTER_ML_RANGE) << suffix;
  EXPECT_EQ(y.x.impl, nullptr);
}

}  // namespace
}  // namespace aster::tensor::test
