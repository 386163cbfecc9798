// Every allocation of movement, convolutions, pools and interpolation fails once.
#include "fault.h"

namespace fault {
namespace {

// A realised tensor of 0.5, 1, 1.5, ...
void load(Pass& run, aster_ml_lazy* x, const Shape& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5f * static_cast<float>(i % 9) + 0.5f;
  CALL(aster_ml_lazy_from, x, &run.context, values.data(), ASTER_ML_DTYPE_FLOAT32, shape.size(),
       shape.data());
}
void read(Pass& run, aster_ml_lazy* x) {
  std::vector<float> values(static_cast<size_t>(aster_ml_lazy_count(x)));
  CALL(aster_ml_lazy_copy_out, values.data(), values.size() * sizeof(float), x);
  run.values.insert(run.values.end(), values.begin(), values.end());
}
#define DO(call)               \
  do {                         \
    call;                      \
    if (run.stopped()) return; \
  } while (0)

TEST(FaultSpatial, Movement) {
  sweep([](Pass& run) {
    aster_ml_lazy* x = run.lazy();
    DO(load(run, x, {4, 6}));
    const int64_t shift[] = {1, 2}, axes[] = {0, 1}, more[] = {1, 2}, none[] = {0, 1},
                  sizes[] = {2, 2}, parts[] = {1, 3}, wide[] = {5, -1}, thin[] = {-1, 3};
    const char* const names[] = {"p"};
    const int64_t two = 2;
    MAKE(a, aster_ml_lazy_roll, x, 2, shift, axes);
    MAKE(b, aster_ml_lazy_repeat, a, 2, more);
    MAKE(c, aster_ml_lazy_repeat_interleave, b, 2, 0);
    MAKE(d, aster_ml_lazy_pad_mode, c, 2, more, none, ASTER_ML_PADDING_REFLECT, nullptr);
    MAKE(e, aster_ml_lazy_unfold, d, 1, 3, 2);
    MAKE(f, aster_ml_lazy_diagonal, e, 1, 0, 1);
    MAKE(g, aster_ml_lazy_tril, f, 0);
    MAKE(h, aster_ml_lazy_rearrange, x, "(a p) b -> b (p a)", 1, names, &two);
    MAKE(i, aster_ml_lazy_bitcast, x, ASTER_ML_DTYPE_UINT8);
    MAKE(j, aster_ml_lazy_bitcast, i, ASTER_ML_DTYPE_FLOAT32);
    MAKE(k, aster_ml_lazy_unflatten, x, 0, 2, sizes);
    MAKE(l, aster_ml_lazy_squeeze_all, k);
    MAKE(m, aster_ml_lazy_pad_to, x, 2, wide, nullptr);
    MAKE(n, aster_ml_lazy_shrink_to, m, 2, thin);
    aster_ml_lazy split[2]{}, chunks[3]{}, grid[2]{};
    size_t made = 0;
    const auto give_back = [&] {
      for (aster_ml_lazy* list :
           {&split[0], &split[1], &chunks[0], &chunks[1], &chunks[2], &grid[0], &grid[1]}) {
        aster_ml_lazy_free(list);
      }
    };
    const bool ok = run.check("aster_ml_lazy_split", aster_ml_lazy_split(split, 2, x, parts, 0)) &&
                    run.check("aster_ml_lazy_chunk", aster_ml_lazy_chunk(chunks, &made, 3, x, 1));
    aster_ml_lazy line{};
    const aster_ml_lazy* const lines[] = {&line, &line};
    if (ok && run.check("aster_ml_lazy_flatten", aster_ml_lazy_flatten(&line, x, 0, -1)) &&
        run.check("aster_ml_lazy_meshgrid", aster_ml_lazy_meshgrid(grid, lines, 2, 1))) {
      read(run, &grid[1]);
      if (!run.stopped()) read(run, &split[1]);
    }
    aster_ml_lazy_free(&line);
    give_back();
    if (run.stopped()) return;
    for (aster_ml_lazy* t : {g, h, j, l, n}) DO(read(run, t));
  });
}

TEST(FaultSpatial, WindowsOfThreeAxes) {
  sweep([](Pass& run) {
    aster_ml_lazy *x = run.lazy(), *w = run.lazy(), *bias = run.lazy();
    DO(load(run, x, {1, 2, 3, 4, 4}));
    DO(load(run, w, {2, 2, 2, 2, 2}));
    DO(load(run, bias, {2}));
    const int64_t two[] = {2, 2, 2}, one[] = {1, 1, 1}, size[] = {5, 7};
    aster_ml_conv_options o{};
    o.struct_size = sizeof(o);
    o.stride = two;
    o.before = one;
    aster_ml_pool_options p{};
    p.struct_size = sizeof(p);
    p.ceil_mode = 1;
    MAKE(y, aster_ml_lazy_conv, x, w, bias, &o);
    MAKE(z, aster_ml_lazy_conv_transpose, y, w, nullptr, &o);
    MAKE(mean, aster_ml_lazy_avg_pool, z, 3, two, &p);
    aster_ml_lazy *most = run.lazy(), *places = run.lazy();
    CALL(aster_ml_lazy_max_pool_with_indices, most, places, x, 2, two, nullptr);
    MAKE(back, aster_ml_lazy_max_unpool, most, places, 2, two, nullptr);
    MAKE(larger, aster_ml_lazy_interpolate, back, 2, size, ASTER_ML_INTERPOLATION_LINEAR, 0);
    MAKE(loss, aster_ml_lazy_sum, z, 0, nullptr, 0);
    const aster_ml_lazy* const targets[] = {x};
    MAKE(g, aster_ml_gradient, loss, targets, 1, nullptr);
    for (aster_ml_lazy* t : {mean, larger, g}) DO(read(run, t));
  });
}

}  // namespace
}  // namespace fault
