// The wrapper alone, built with -fno-exceptions -fno-rtti: a line is fitted, an error is seen.
#include <aster_ml/aster_ml.hpp>

#include <cstdio>

using aster_ml::Tensor;
namespace nn = aster_ml::nn;

int main() {
  const Tensor x({{1.}, {2.}, {3.}}), y({{3.}, {5.}, {7.}});
  const nn::Linear model(1, 1);
  const nn::SGD optimizer({{"", model}}, 0.1);
  for (int i = 0; i < 300; ++i) {
    if (!optimizer.step((model(x) - y).square().mean())) std::puts(aster_ml::error().message);
  }
  const double slope = model.weight().item();
  const Tensor refused = x.matmul(x) + 1;
  std::printf("slope %g; %s\n", slope, aster_ml::error().message);
  return slope > 1.99 && slope < 2.01 && !refused.ok() ? 0 : 1;
}
