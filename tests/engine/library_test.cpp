// What a library call can read where it lies.
#include "engine/library.h"

#include "engine/world.h"
#include "uop/composite.h"

namespace aster::engine {
namespace {

using testing::Shape;
using testing::words;
using testing::World;
using uop::Node;

// A product whose first operand is four rows of 500 columns, the rows so many elements apart. The
// memory is never touched.
Node product_of_rows(uop::Graph& g, int64_t apart, bool turned) {
  const Shape all = {4, apart}, start = {0, 0}, step = {1, 1}, part = {4, 500}, order = {1, 0};
  Node rows =
      g.slice(g.param(0, DType::kFloat32, words(all)), words(start), words(step), words(part));
  if (turned) {
    const Shape square = {500, 500}, narrow = {500, 4};
    return uop::build_matmul(g, g.param(1, DType::kFloat32, words(square)),
                             g.permute(rows, words(order)));
  }
  const Shape other = {500, 450};
  return uop::build_matmul(g, rows, g.param(1, DType::kFloat32, words(other)));
}

TEST(Library, RowsFartherApartThanBlasCanSayAreCopied) {
  for (const bool turned : {false, true}) {
    for (const int64_t apart : {int64_t{INT32_MAX}, int64_t{INT32_MAX} + 1, int64_t{1} << 40}) {
      World world;
      Node call = product_of_rows(world.g(), apart, turned);
      ASSERT_NE(call, nullptr);
      const size_t argument = turned ? 2 : 1;
      Vec<int64_t> view(world.engine().context.heap());
      Node base = nullptr;
      ASSERT_TRUE(library::view_base(&base, &view, world.g(), call, argument).ok());
      EXPECT_EQ(base->op == uop::Op::kParam, apart <= INT32_MAX) << apart;
      for (const int64_t stride : view) EXPECT_LE(stride, INT32_MAX);
    }
  }
}

}  // namespace
}  // namespace aster::engine
