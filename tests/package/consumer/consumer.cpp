// Built with -fno-exceptions -fno-rtti: a shape error is a status, and the context still works
// after it.
#include <aster_ml/aster_ml.h>

#include <array>
#include <cstdio>
#include <cstring>

int main() {
  aster_ml_context context{};
  if (aster_ml_context_init(&context, nullptr) != ASTER_ML_OK) return 1;
  const std::array<int64_t, 2> shape{2, 3}, other{2, 4};
  aster_ml_lazy a{}, b{}, sum{};
  aster_ml_lazy_ones(&a, &context, 0, shape.size(), shape.data());
  aster_ml_lazy_ones(&b, &context, 0, other.size(), other.data());
  const bool refused = aster_ml_lazy_add(&sum, &a, &b) == ASTER_ML_SHAPE && sum.impl == nullptr;
  aster_ml_error error{};
  aster_ml_error_last(&error);
  const bool named = std::strcmp(error.function, "aster_ml_lazy_add") == 0;
  double total = 0;
  aster_ml_lazy_sum(&sum, &a, 0, nullptr, 0);
  const int32_t status = aster_ml_lazy_to_double(&total, &sum);
  aster_ml_lazy_free(&sum);
  aster_ml_lazy_free(&b);
  aster_ml_lazy_free(&a);
  aster_ml_context_free(&context);
  std::printf("%s; sum %g\n", error.message, total);
  return refused && named && status == ASTER_ML_OK && total == 6 ? 0 : 1;
}
