// Programs that a model was compiled to: its graph for inputs of some dtypes and sizes, captured
// once and run again without being built.
#pragma once

#include "aster_ml/engine.h"
#include "nn/onnx/value.h"

namespace aster::nn::onnx {

struct Model;

struct Compiled {
  // A result: of the program, or the same in every run.
  struct Result {
    Ref fixed;
    int32_t element = 0;
    DType dtype = DType::kFloat32;
    Dims shape;
  };

  explicit Compiled(Heap& heap) : key(heap), results(heap) {}
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { aster_ml_program_free(&program); }

  Vec<Word> key;  // of each input its element, number of axes and sizes
  // Empty: the graph decides by what inputs are, and is built for each run.
  aster_ml_program program{};
  Vec<Result> results;
};

// Runs a model at once where it can be compiled for inputs of these sizes, else builds it for this
// run. Errors: as aster_ml_onnx_run, as aster_ml_program_run.
Status compute(Ref* out, Model& model, engine::Engine& engine, const Value& inputs);

}  // namespace aster::nn::onnx
