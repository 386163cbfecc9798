// Programs that a model was compiled to: its graph for inputs of some dtypes and sizes, captured
// once and run again without being built.
//
// The first sizes that a model meets get a program of their own. When it meets others, in axes to
// which the file gives no number, it is compiled once more with variables in their place, and that
// program serves all sizes up to a bound; sizes beyond get another with a greater one. Where an
// operator has no rule for such sizes (symbolic.h), all sizes have programs of their own.
#pragma once

#include "aster_ml/engine.h"
#include "nn/onnx/value.h"
#include "tensor/api.h"

namespace aster::nn::onnx {

struct Model;

struct Compiled {
  // A result: of the program, or the same in every run.
  struct Result {
    Ref fixed;
    int32_t element = 0;
    DType dtype = DType::kFloat32;
    Dims shape;           // the greatest
    tensor::Sizes sizes;  // those that are expressions are retained
  };
  // A variable: its bound, its number in the engine, and where its value is an input's size.
  struct Variable {
    Word most;
    uint32_t number;
    size_t input, axis;
  };

  Compiled(engine::Engine& of, Heap& heap)
      : engine(of), key(heap), results(heap), variables(heap), order(heap), staging(heap) {}
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled();
  bool symbolic() const { return !variables.empty(); }

  engine::Engine& engine;
  // Of each input its element, number of axes and sizes; of those that are variables -1 - which.
  Vec<Word> key;
  // Empty: the graph decides by what inputs are, and is built for each run.
  aster_ml_program program{};
  Vec<Result> results;
  Vec<Variable> variables;
  Vec<uint32_t> order;  // of the program's variables
  Vec<Ref> staging;     // of each input memory of the greatest sizes; empty where they are numbers
};

// Runs a model at once where it can be compiled for inputs of these sizes, else builds it for this
// run. Errors: as aster_ml_onnx_run, as aster_ml_program_run.
Status compute(Ref* out, Model& model, engine::Engine& engine, const Value& inputs);

}  // namespace aster::nn::onnx
