// What a captured program tells of its inputs, its outputs and the memory that it was captured
// with.
#include "aster.h"

namespace programs {
namespace {

using aster_ml::Array;
using aster_ml::Program;
using aster_ml::ProgramArray;
using aster_ml::ProgramList;

// Both runtimes.
class ProgramArrays : public testing::TestWithParam<const char*> {
 protected:
  static aster_ml_context_options options() {
    aster_ml_context_options o{};
    o.compiler = GetParam();
    return o;
  }
};
INSTANTIATE_TEST_SUITE_P(Runtimes, ProgramArrays, testing::Values(nullptr, "none"),
                         [](const auto& each) {
                           return std::string(each.param == nullptr ? "Compiled" : "Interpreted");
                         });

int32_t status_of(const Program& program, int32_t list, size_t index) {
  aster_ml_program_array array{};
  array.struct_size = sizeof(array);
  return aster_ml_program_get_array(&array, program.get(), list, index);
}

TEST_P(ProgramArrays, NamesShapesAndDtypesOfEveryList) {
  Session s(options());
  Tensor x({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}), n(Ints{1, 2, 3});
  x = x.reshape({2, 3}).realized();
  Tensor weight({1.f, 2.f, 3.f}), state({0.f, 0.f});
  OK(weight.realize());
  OK(state.realize());
  Program program({x, n}, [&] {
    EXPECT_OK(state.assign(state + (x * weight).sum({1})));
    EXPECT_OK(state.realize());
    return std::vector{(x + n).realized(), n.sum()};
  });
  OK(program);
  const std::vector<ProgramArray> in = program.arrays(ProgramList::inputs);
  ASSERT_EQ(in.size(), 2u);
  EXPECT_EQ(in[0].name, "input0");
  EXPECT_EQ(in[0].shape, (Shape{2, 3}));
  EXPECT_EQ(in[0].dtype, aster_ml::Dtype{ASTER_ML_DTYPE_FLOAT32});
  EXPECT_EQ(in[0].device, ASTER_ML_DEVICE_CPU);
  EXPECT_FALSE(in[0].assigned);
  EXPECT_EQ(in[0].data, nullptr);
  EXPECT_EQ(in[1].name, "input1");
  EXPECT_EQ(in[1].shape, (Shape{3}));
  EXPECT_EQ(in[1].dtype, aster_ml::Dtype{ASTER_ML_DTYPE_INT32});
  const std::vector<ProgramArray> out = program.arrays(ProgramList::outputs);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].name, "output0");
  EXPECT_EQ(out[0].shape, (Shape{2, 3}));
  EXPECT_EQ(out[1].name, "output1");
  EXPECT_EQ(out[1].shape, Shape{});
  EXPECT_EQ(out[1].dtype, aster_ml::Dtype{ASTER_ML_DTYPE_INT32});
  // The weight is read; what is assigned is another value for the next run.
  const std::vector<ProgramArray> captured = program.arrays(ProgramList::captured);
  ASSERT_EQ(captured.size(), 2u);
  const bool weight_first = captured[0].shape == Shape{3};
  const ProgramArray &w = captured[weight_first ? 0 : 1], &st = captured[weight_first ? 1 : 0];
  EXPECT_EQ(captured[0].name, "captured0");
  EXPECT_EQ(captured[1].name, "captured1");
  EXPECT_EQ(w.shape, (Shape{3}));
  EXPECT_FALSE(w.assigned);
  EXPECT_EQ(w.data, weight.view().storage.data);
  EXPECT_EQ(st.shape, (Shape{2}));
  EXPECT_TRUE(st.assigned);
  EXPECT_EQ(st.data, state.view().storage.data);
}

TEST_P(ProgramArrays, AssignedInputsAreMarkedAndDataMadeInsideIsNot) {
  Session s(options());
  Tensor x({1.f, 2.f});
  Program program({x}, [&] {
    Tensor made({3.f, 4.f});
    EXPECT_OK(made.assign(made * x));
    EXPECT_OK(x.assign(x + made));
    EXPECT_OK(x.realize());
  });
  OK(program);
  ASSERT_EQ(program.arrays(ProgramList::inputs).size(), 1u);
  EXPECT_TRUE(program.arrays(ProgramList::inputs)[0].assigned);
  EXPECT_TRUE(program.arrays(ProgramList::outputs).empty());
  // Every run finds what was made inside as it was made.
  for (const ProgramArray& each : program.arrays(ProgramList::captured))
    EXPECT_FALSE(each.assigned) << each.name;
}

TEST_P(ProgramArrays, WhatManyKernelsReadIsListedOnce) {
  Session s(options());
  Tensor x({1.f, 2.f, 3.f, 4.f}), weight({2.f, 2.f, 2.f, 2.f});
  OK(weight.realize());
  const Program program({x}, [&] {
    Tensor y = x;
    for (int i = 0; i < 5; ++i) y = (y * weight).realized();
    return y;
  });
  OK(program);
  const std::vector<ProgramArray> captured = program.arrays(ProgramList::captured);
  ASSERT_EQ(captured.size(), 1u);
  EXPECT_EQ(captured[0].shape, (Shape{4}));
}

// A slice of a weight is a part of the memory that is listed.
TEST_P(ProgramArrays, PiecesAreToldAsTheirBuffer) {
  Session s(options());
  Tensor x({1.f, 2.f}), weight({1.f, 2.f, 3.f, 4.f});
  OK(weight.realize());
  const Program program({x}, [&] { return (x + weight[aster_ml::Slice(2, 4)]).realized(); });
  OK(program);
  const std::vector<ProgramArray> captured = program.arrays(ProgramList::captured);
  ASSERT_EQ(captured.size(), 1u);
  EXPECT_EQ(captured[0].shape, (Shape{4}));
  EXPECT_EQ(captured[0].data, weight.view().storage.data);
}

TEST(ProgramNames, AreSetAndChecked) {
  Session s;
  Tensor x({1.f, 2.f}), y({1.f, 2.f});
  Program program({x, y}, [&] { return x * y; });
  OK(program);
  EXPECT_TRUE(program.set_name(ProgramList::inputs, 0, "image"));
  EXPECT_TRUE(program.set_name(ProgramList::inputs, 0, "image"));  // its own name
  EXPECT_TRUE(program.set_name(ProgramList::outputs, 0, "image"));
  EXPECT_EQ(program.arrays(ProgramList::inputs)[0].name, "image");
  EXPECT_EQ(program.arrays(ProgramList::inputs)[1].name, "input1");
  EXPECT_EQ(program.arrays(ProgramList::outputs)[0].name, "image");
  const auto refused = [&](ProgramList list, size_t index, const char* name, int32_t code) {
    EXPECT_EQ(aster_ml_program_set_name(program.get(), static_cast<int32_t>(list), index, name),
              code)
        << last_error();
  };
  refused(ProgramList::inputs, 1, "", ASTER_ML_ARGUMENT);
  refused(ProgramList::inputs, 1, nullptr, ASTER_ML_ARGUMENT);
  refused(ProgramList::inputs, 1, "\xff", ASTER_ML_ARGUMENT);
  refused(ProgramList::inputs, 2, "late", ASTER_ML_RANGE);
  refused(ProgramList{3}, 0, "nowhere", ASTER_ML_ARGUMENT);
  EXPECT_EQ(program.arrays(ProgramList::inputs)[1].name, "input1");
}

TEST(ProgramNames, WhatIsNotThereIsRefused) {
  Session s;
  Tensor x({1.f, 2.f});
  Program program({x}, [&] { return -x; });
  OK(program);
  EXPECT_EQ(status_of(program, ASTER_ML_PROGRAM_INPUTS, 1), ASTER_ML_RANGE);
  EXPECT_EQ(status_of(program, ASTER_ML_PROGRAM_CAPTURED, 0), ASTER_ML_RANGE);
  EXPECT_EQ(status_of(program, -1, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(status_of(program, 3, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(status_of(Program(), ASTER_ML_PROGRAM_INPUTS, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_program_count_arrays(program.get(), 3), 0u);
  EXPECT_EQ(aster_ml_program_count_arrays(nullptr, ASTER_ML_PROGRAM_INPUTS), 0u);
  aster_ml_program_array array{};
  EXPECT_EQ(aster_ml_program_get_array(&array, program.get(), 0, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_program_get_array(nullptr, program.get(), 0, 0), ASTER_ML_ARGUMENT);
  // A caller of an earlier version, with a shorter struct.
  array.struct_size = offsetof(aster_ml_program_array, name);
  OK(aster_ml_program_get_array(&array, program.get(), 0, 0));
  EXPECT_EQ(array.dtype, ASTER_ML_DTYPE_FLOAT32);
  EXPECT_EQ(array.name, nullptr);
}

}  // namespace
}  // namespace programs
