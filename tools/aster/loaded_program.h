// A portable program that is run on inputs of its own.
#pragma once

#include "cli.h"

namespace cli {

class LoadedProgram {
 public:
  // Inputs of floats are numbers around 0; indices and masks are 0.
  LoadedProgram(const Context& context, const std::string& path);
  void run();

 private:
  Program program_;
  std::vector<Tensor> arrays_[2];          // inputs, outputs
  std::vector<aster_ml_tensor> given_[2];  // the same, as a run takes them
};

}  // namespace cli
