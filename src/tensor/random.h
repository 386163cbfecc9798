// Random numbers as nodes: what random.cpp draws and sampling.cpp builds on. Every call moves the
// counter of a device on, the default one for 0. Errors: RANGE, DTYPE.
#pragma once

#include "tensor/api.h"

namespace aster::tensor {

// Uniform in [0, 1): the top bits become the mantissa of a number in [1, 2), less 1. Computed
// wherever it is read.
Status uniform(Node* out, engine::Engine& engine, DType dtype, Words shape, int32_t device = 0);
// The same, materialised.
Status rand(Node* out, engine::Engine& engine, DType dtype, Words shape, int32_t device = 0);
// Standard normal, by Box and Muller from two uniform numbers, in float32.
Status normal(Node* out, engine::Engine& engine, DType dtype, Words shape, int32_t device = 0);
// (high - low) * rand of the default float, cast, then + low.
Status uniform_between(Node* out, engine::Engine& engine, double low, double high, DType dtype,
                       Words shape);
// mean + std * normal.
Status normal_around(Node* out, engine::Engine& engine, double mean, double std, DType dtype,
                     Words shape);
// x / (1 - p) where a random number is at least p, else 0; x itself unless training.
Status dropout(Node* out, engine::Engine& engine, Node x, double p, bool training);

// What the public functions with a dtype and a shape are asked for.
struct Request {
  DType dtype;
  Words shape;
};
Status request(Request* out, int32_t dtype, DType fallback, size_t ndim, const int64_t* shape);

// A public function that fills such a tensor: fill(Node* numbers, Build&, const Request&).
template <typename Fill>
Status draw(aster_ml_lazy* out, const aster_ml_context* context, int32_t dtype, DType fallback,
            size_t ndim, const int64_t* shape, Fill fill) {
  Build build(out, context);
  ASTER_TRY(build.status());
  Request r;
  ASTER_TRY(request(&r, dtype, build.graph().strong(fallback), ndim, shape));
  Node numbers;
  ASTER_TRY(fill(&numbers, build, r));
  return build.finish(numbers);
}

}  // namespace aster::tensor
