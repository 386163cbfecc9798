#include <unistd.h>

#include "nn/world.h"

namespace nn_test {
namespace {

TEST(State, KeepsNamesInOrder) {
  Session s;
  State state;
  OK(aster_ml_state_init(&state, s.get()));
  EXPECT_EQ(aster_ml_state_count(&state), 0u);
  for (const char* name : {"z", "a", "m.ü"}) {
    Tensor x = Tensor(std::vector<float>{1, 2}, {2});
    OK(aster_ml_state_set(&state, name, x.get(), 0));
  }
  Tensor other = Tensor(std::vector<float>{3}, {1});
  OK(aster_ml_state_set(&state, "a", other.get(), 0));
  ASSERT_EQ(aster_ml_state_count(&state), 3u);
  EXPECT_STREQ(aster_ml_state_name(&state, 0), "z");
  EXPECT_STREQ(aster_ml_state_name(&state, 1), "a");
  EXPECT_STREQ(aster_ml_state_name(&state, 2), "m.ü");
  EXPECT_EQ(aster_ml_state_name(&state, 3), nullptr);
  EXPECT_EQ(read(get(state, "a")), std::vector<float>{3});
}

TEST(State, ManyNames) {
  Session s;
  State state;
  OK(aster_ml_state_init(&state, s.get()));
  Tensor x = Tensor(std::vector<float>{1}, {1});
  for (int i = 0; i < 3000; ++i) {
    OK(aster_ml_state_set(&state, ("layer." + std::to_string(i)).c_str(), x.get(), 0));
  }
  EXPECT_EQ(aster_ml_state_count(&state), 3000u);
  EXPECT_EQ(read(get(state, "layer.2999")), std::vector<float>{1});
  aster_ml_lazy none{};
  EXPECT_EQ(aster_ml_state_get(&none, &state, "layer.3000"), ASTER_ML_NOT_FOUND);
}

// The tensors are the ones that were given: assignments to them are seen.
TEST(State, SharesStorage) {
  Session s;
  State state;
  OK(aster_ml_state_init(&state, s.get()));
  Tensor x = Tensor(std::vector<float>{1, 2}, {2});
  OK(aster_ml_state_set(&state, "x", x.get(), 0));
  Tensor next = x + x;
  OK(aster_ml_lazy_assign(x.get(), next.get()));
  EXPECT_OK(realize(x));
  EXPECT_EQ(read(get(state, "x")), (std::vector<float>{2, 4}));
}

TEST(State, RefusesWhatDoesNotFit) {
  Session other;
  Tensor foreign(Floats{1}), none;
  Session s;
  State state, layer_state;
  OK(aster_ml_state_init(&state, s.get()));
  Tensor x = Tensor(std::vector<int32_t>{1}, {1});
  EXPECT_EQ(aster_ml_state_set(&state, nullptr, x.get(), 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_set(&state, "", x.get(), 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_set(&state, "x", x.get(), 1), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_state_set(&state, "x", foreign.get(), 0), ASTER_ML_ARGUMENT);
  EXPECT_NE(aster_ml_state_set(&state, "x", none.get(), 0), ASTER_ML_OK);
  for (const char* bad :
       {"\x80", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82", "a\xFF"}) {
    EXPECT_EQ(aster_ml_state_set(&state, bad, x.get(), 0), ASTER_ML_ARGUMENT) << bad;
  }
  for (const char* good : {"é", "€", "\xF0\x9F\x98\x80", "\x7F"}) {
    EXPECT_OK(aster_ml_state_set(&state, good, x.get(), 0)) << good;
  }
  EXPECT_EQ(aster_ml_state_count(&state), 4u);
  EXPECT_EQ(aster_ml_state_get(none.get(), nullptr, "x"), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_get(nullptr, &state, "x"), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_init(nullptr, s.get()), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_count(nullptr), 0u);
}

// A name that is there already refuses the whole layer, and leaves the state as it was.
TEST(State, LayersAreAddedWhole) {
  Session s;
  Layer layer;
  State state;
  OK(aster_ml_linear_init(&layer, s.get(), 2, 2, 1));
  OK(aster_ml_state_init(&state, s.get()));
  Tensor x = Tensor(std::vector<float>{1}, {1});
  OK(aster_ml_state_set(&state, "l.bias", x.get(), 0));
  EXPECT_EQ(aster_ml_state_set_layer(&state, "l.", &layer), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_count(&state), 1u);
  aster_ml_lazy none{};
  EXPECT_EQ(aster_ml_state_get(&none, &state, "l.weight"), ASTER_ML_NOT_FOUND);
  OK(aster_ml_state_set_layer(&state, "m.", &layer));
  OK(aster_ml_state_set_layer(&state, nullptr, &layer));
  ASSERT_EQ(aster_ml_state_count(&state), 5u);
  EXPECT_STREQ(aster_ml_state_name(&state, 1), "m.weight");
  EXPECT_STREQ(aster_ml_state_name(&state, 4), "bias");
}

TEST(State, LoadsByName) {
  Session s;
  State to, from_;
  OK(aster_ml_state_init(&to, s.get()));
  OK(aster_ml_state_init(&from_, s.get()));
  Tensor a = Tensor(std::vector<float>{1, 2}, {2}), b = Tensor(std::vector<float>{3}, {1});
  OK(aster_ml_state_set(&to, "a", a.get(), 0));
  OK(aster_ml_state_set(&to, "b", b.get(), 0));
  const auto put = [&](const char* name, Tensor x) {
    EXPECT_OK(aster_ml_state_set(&from_, name, x.get(), 0));
  };
  const auto unchanged = [&] {
    EXPECT_EQ(read(a), (std::vector<float>{1, 2}));
    EXPECT_EQ(read(b), std::vector<float>{3});
  };
  put("a", Tensor(std::vector<float>{8, 9}, {2}));
  EXPECT_EQ(aster_ml_state_load(&to, &from_), ASTER_ML_NOT_FOUND);
  unchanged();
  put("b", Tensor(std::vector<float>{7}, {1, 1}));
  EXPECT_EQ(aster_ml_state_load(&to, &from_), ASTER_ML_SHAPE);
  put("b", Tensor(std::vector<int32_t>{7}, {1}));
  EXPECT_EQ(aster_ml_state_load(&to, &from_), ASTER_ML_DTYPE);
  unchanged();
  put("b", Tensor(std::vector<float>{7}, {1}));
  put("more", Tensor(std::vector<float>{7}, {1}));
  OK(aster_ml_state_load(&to, &from_));
  EXPECT_EQ(read(a), (std::vector<float>{8, 9}));
  EXPECT_EQ(read(b), std::vector<float>{7});
  EXPECT_EQ(aster_ml_state_load(&to, nullptr), ASTER_ML_ARGUMENT);
}

TEST(State, Metadata) {
  Session s;
  State state;
  OK(aster_ml_state_init(&state, s.get()));
  const char* text = "before";
  EXPECT_EQ(aster_ml_state_get_metadata(&text, &state, "k"), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(text, nullptr);
  OK(aster_ml_state_set_metadata(&state, "k", "one"));
  OK(aster_ml_state_set_metadata(&state, "l", ""));
  OK(aster_ml_state_set_metadata(&state, "k", "two"));
  OK(aster_ml_state_get_metadata(&text, &state, "k"));
  EXPECT_STREQ(text, "two");
  OK(aster_ml_state_set_metadata(&state, "k", nullptr));
  OK(aster_ml_state_set_metadata(&state, "k", nullptr));
  EXPECT_EQ(aster_ml_state_get_metadata(&text, &state, "k"), ASTER_ML_NOT_FOUND);
  OK(aster_ml_state_get_metadata(&text, &state, "l"));
  EXPECT_STREQ(text, "");
  EXPECT_EQ(aster_ml_state_set_metadata(&state, "k", "\xFF"), ASTER_ML_ARGUMENT);
}

}  // namespace
}  // namespace nn_test
