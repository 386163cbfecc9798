// What a run of the digits' demo found, for its page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli.h"

namespace cli {

struct DigitsRun {
  static constexpr size_t kSide = 8, kPixels = kSide * kSide, kClasses = 10;
  std::vector<double> step_loss;       // of every step
  std::vector<double> epoch_accuracy;  // on the test digits, after every epoch
  int64_t steps_per_epoch = 1;
  std::vector<float> pixels;         // of the test digits, 0 to 1
  std::vector<int32_t> labels;       // theirs
  std::vector<float> probabilities;  // 10 a digit
  struct Figure {
    std::string name, value, note;
  };
  std::vector<Figure> figures;
  std::string network;
};

// The loss and the trained tensors of a step, nothing of it computed.
std::vector<Lazy> digits_step(const aster_ml_context* context);

std::string digits_page(const DigitsRun& run);

}  // namespace cli
