// Handles whose tensor, scope or context is gone.
#include "aster_ml/indexing.h"
#include "tensor/world.h"

namespace aster::tensor::test {
namespace {

TEST(FreedHandles, TensorsAndTheirScopes) {
  const World world;
  aster_ml_scope scope{};
  OK(aster_ml_scope_begin(&scope, world));
  aster_ml_lazy made{}, kept{}, out{};
  const float values[] = {1, 2};
  const int64_t shape[] = {2};
  OK(aster_ml_lazy_from(&made, world, values, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  OK(aster_ml_lazy_exp(&kept, &made));
  OK(aster_ml_lazy_keep(&kept));
  OK(aster_ml_scope_end(&scope));
  // The handle is as it was, the tensor is gone, and others come where it was.
  ASSERT_NE(made.impl, nullptr);
  std::vector<T> later;
  for (int i = 0; i < 300; ++i) later.push_back(from<float>(world, {1, 2}, {2}));
  const auto refused = [](int32_t status, const char* function) {
    aster_ml_error error{};
    aster_ml_error_last(&error);
    EXPECT_EQ(status, ASTER_ML_ARGUMENT);
    EXPECT_STREQ(error.function, function);
    EXPECT_NE(std::string(error.message).find("freed"), std::string::npos) << error.message;
    aster_ml_error_clear();
  };
  double number = 1;
  float read[2];
  aster_ml_lazy* one[] = {&made};
  const aster_ml_lazy* both[] = {&kept, &made};
  refused(aster_ml_lazy_exp(&out, &made), "aster_ml_lazy_exp");
  refused(aster_ml_lazy_add(&out, &kept, &made), "aster_ml_lazy_add");
  refused(aster_ml_lazy_cat(&out, both, 2, 0), "aster_ml_lazy_cat");
  refused(aster_ml_lazy_realize(one, 1), "aster_ml_lazy_realize");
  refused(aster_ml_lazy_copy_out(read, sizeof(read), &made), "aster_ml_lazy_copy_out");
  refused(aster_ml_lazy_to_double(&number, &made), "aster_ml_lazy_to_double");
  refused(aster_ml_lazy_assign(&made, &kept), "aster_ml_lazy_assign");
  refused(aster_ml_lazy_assign(&kept, &made), "aster_ml_lazy_assign");
  refused(aster_ml_lazy_keep(&made), "aster_ml_lazy_keep");
  const aster_ml_index item{ASTER_ML_INDEX_TENSOR, 0, 0, 1, &made};
  refused(aster_ml_lazy_index(&out, &kept, 1, &item), "aster_ml_lazy_index");
  EXPECT_EQ(aster_ml_lazy_dtype(&made), 0);
  EXPECT_EQ(aster_ml_lazy_ndim(&made), 0u);
  EXPECT_EQ(aster_ml_lazy_dim(&made, 0), -1);
  EXPECT_EQ(aster_ml_lazy_count(&made), 0);
  EXPECT_EQ(aster_ml_lazy_is_stored(&made), 0);
  // Copies of a handle: the first free counts, the others do nothing.
  int64_t word = 7;
  aster_ml_lazy copy = kept, rubbish{&word};
  OK(aster_ml_lazy_free(&made));
  OK(aster_ml_lazy_free(&kept));
  refused(aster_ml_lazy_exp(&out, &copy), "aster_ml_lazy_exp");
  OK(aster_ml_lazy_free(&copy));
  refused(aster_ml_lazy_exp(&out, &rubbish), "aster_ml_lazy_exp");
  OK(aster_ml_lazy_free(&rubbish));
  for (T& x : later) EXPECT_EQ(x.floats(), (std::vector<float>{1, 2}));
}

TEST(FreedHandles, AContextThatIsGone) {
  aster_ml_context context{};
  aster_ml_lazy x{}, out{};
  OK(aster_ml_context_init(&context, nullptr));
  aster_ml_context copy = context;
  OK(aster_ml_lazy_number(&x, &context, 3));
  OK(aster_ml_context_free(&context));
  // The tensor keeps what it needs; the handle of the context is no more.
  EXPECT_EQ(aster_ml_lazy_number(&out, &copy, 3), ASTER_ML_ARGUMENT);
  OK(aster_ml_lazy_exp(&out, &x));
  aster_ml_lazy old = x;
  OK(aster_ml_lazy_free(&x));
  OK(aster_ml_lazy_free(&out));
  EXPECT_EQ(aster_ml_lazy_exp(&out, &old), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_number(&out, &copy, 3), ASTER_ML_ARGUMENT);
  OK(aster_ml_context_free(&copy));
}

}  // namespace
}  // namespace aster::tensor::test
