// What calls are made on: a context with one object of every kind, and tensors of many shapes and
// dtypes, freed, foreign and empty handles among them.
#pragma once

#include <string>
#include <vector>

#include "aster_ml/aster_ml.h"
#include "chooser.h"

namespace api_fuzz {

struct Held {
  aster_ml_lazy handle;
  bool costly;  // may take long to compute: built upon, never realised
};

class World {
 public:
  World(bool compiled, std::string folder);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Objects that calls have freed are made again.
  void renew();
  // One more tensor in the place of another.
  void put(size_t place, aster_ml_lazy made, bool costly);

  aster_ml_context context{}, other{};
  std::vector<Held> tensors;
  aster_ml_lazy stale{}, foreign{};
  aster_ml_layer layer{};
  aster_ml_state state{};
  aster_ml_optimizer optimizer{};
  aster_ml_sparse sparse{};
  aster_ml_onnx_value value{};
  aster_ml_program program{};
  aster_ml_workspace workspace{};
  aster_ml_tensor tensor{};
  aster_ml_buffer buffer{};
  const aster_ml_uop* uop = nullptr;
  const aster_ml_uop* bound = nullptr;  // a variable with a value
  std::string folder;

 private:
  void add(const double* values, size_t count, int32_t dtype, std::initializer_list<int64_t> shape);
  void make_tensors();
  void make_program();
};

}  // namespace api_fuzz
