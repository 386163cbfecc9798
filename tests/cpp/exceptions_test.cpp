// Programs of C++ that use exceptions: the wrapper throws none, and what passes through it leaves
// nothing behind.
#include <stdexcept>

#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Context;
using aster_ml::Program;
using aster_ml::Tensor;

TEST(Exceptions, ABodyThatThrowsLeavesNoCaptureOpen) {
  const Context context(one_thread());
  const Tensor x = Tensor({1., 2.}).realized();
  const auto capture = [&](bool fails) {
    return Program({x}, [&] {
      Tensor y = (x * 2).realized();
      if (fails) throw std::runtime_error("given up");
      return y + 1;
    });
  };
  EXPECT_THROW(capture(true), std::runtime_error);
  EXPECT_EQ((x + 1).sum().item(), 5);  // not while a capture is open
  const Program program = capture(false);
  OK(program.ok());
  EXPECT_EQ(floats(program({Tensor({3., 4.}).realized()})), (Floats{7, 9}));
}

}  // namespace
}  // namespace cpp_test
