// The table of operators.
#include <algorithm>

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

#define ONNX(domain, name, since, until, builder) \
  {domain, name, since, until, build::builder, false, true},
#define CONTROL(domain, name, since, until, builder) \
  {domain, name, since, until, build::builder, true, true},
#define SCALED(domain, name, since, until, builder) \
  {domain, name, since, until, build::builder, false, false},
constexpr Row kRows[] = {
#include "nn/onnx/ops.def"
};

struct Domain {
  std::string_view name;
  int64_t latest;
};
constexpr Domain kDomains[] = {
    {"", 28}, {"ai.onnx.ml", 5}, {"ai.onnx.preview", 1}, {"ai.onnx.preview.training", 1}};

}  // namespace

const Row* find_row(std::string_view domain, std::string_view name, int64_t version) {
  for (const Row& row : kRows) {
    if (row.name == name && row.domain == domain && version >= row.since &&
        (row.until == 0 || version <= row.until)) {
      return &row;
    }
  }
  return nullptr;
}

int64_t latest_opset(std::string_view domain) {
  for (const Domain& known : kDomains) {
    if (known.name == domain) return known.latest;
  }
  return 0;
}

}  // namespace aster::nn::onnx
