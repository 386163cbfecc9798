// The programs that the sweep runs: between them they call every function that allocates.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "fault.h"

namespace fault {
namespace {

constexpr int32_t kFloat = ASTER_ML_DTYPE_FLOAT32;
constexpr int32_t kInt = ASTER_ML_DTYPE_INT32;

void load(Pass& run, aster_ml_lazy* out, const Shape& shape, float start = 0.25f) {
  size_t count = 1;
  for (int64_t dim : shape) count *= static_cast<size_t>(dim);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = start + static_cast<float>(i * 7 % 11) / 8.0f;
  CALL(aster_ml_lazy_from, out, &run.context, values.data(), kFloat, shape.size(), shape.data());
}
void load_ints(Pass& run, aster_ml_lazy* out, const Shape& shape) {
  size_t count = 1;
  for (int64_t dim : shape) count *= static_cast<size_t>(dim);
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i % 3);
  CALL(aster_ml_lazy_from, out, &run.context, values.data(), kInt, shape.size(), shape.data());
}
void read(Pass& run, aster_ml_lazy* x) {
  std::vector<float> values(static_cast<size_t>(aster_ml_lazy_count(x)));
  CALL(aster_ml_lazy_copy_out, values.data(), values.size() * sizeof(float), x);
  run.values.insert(run.values.end(), values.begin(), values.end());
}

template <typename Change>
aster_ml_context_options with(Change change) {
  aster_ml_context_options options{};
  change(options);
  return options;
}

// A helper that failed in the strict mode ends the program.
#define DO(call)               \
  do {                         \
    call;                      \
    if (run.stopped()) return; \
  } while (0)

TEST(Fault, Context) {
  sweep(
      [](Pass& run) {
        aster_ml_scope outer{}, inner{};
        CALL(aster_ml_scope_begin, &outer, &run.context);
        if (run.check("aster_ml_scope_begin", aster_ml_scope_begin(&inner, &run.context))) {
          aster_ml_lazy x{}, y{};
          if (run.check("aster_ml_lazy_number", aster_ml_lazy_number(&x, &run.context, 2))) {
            run.check("aster_ml_lazy_copy", aster_ml_lazy_copy(&y, &x));
          }
          EXPECT_EQ(aster_ml_scope_end(&inner), 0);
        }
        EXPECT_EQ(aster_ml_scope_end(&outer), 0);
      },
      with([](auto& o) { o.cache_dir = "/nonexistent/cache", o.compiler = "none"; }));
}

TEST(Fault, Buffers) {
  sweep([](Pass& run) {
    aster_ml_buffer *a = run.buffer(), *b = run.buffer();
    CALL(aster_ml_buffer_init, a, &run.context, 64, kFloat, 0);
    int released = 0;
    alignas(64) float memory[4] = {1, 2, 3, 4};
    const auto release = [](void* self, void*, size_t) { ++*static_cast<int*>(self); };
    const bool wrapped =
        run.check("aster_ml_buffer_from_memory",
                  aster_ml_buffer_from_memory(b, &run.context, memory, sizeof(memory), kFloat, 0, 0,
                                              release, &released));
    if (b->data == nullptr) {
      EXPECT_EQ(released, 0) << "released what was not taken";
      if (!wrapped) return;
    } else {
      aster_ml_tensor t{};
      const size_t shape[] = {2, 2};
      const ptrdiff_t strides[] = {1, 2};
      const bool made =
          run.check("aster_ml_tensor_from_buffer",
                    aster_ml_tensor_from_buffer(&t, &run.context, b, 0, 2, shape, strides));
      if (made) {
        aster_ml_tensor* dense = run.tensor();
        run.check("aster_ml_tensor_contiguous",
                  aster_ml_tensor_contiguous(dense, &run.context, &t));
      }
      EXPECT_EQ(aster_ml_tensor_free(&t), 0);
      aster_ml_buffer_view view{};
      const size_t one[] = {2};
      run.check("aster_ml_view_from_buffer",
                aster_ml_view_from_buffer(&view, &run.context, b, 4, 8, 1, one, nullptr));
      EXPECT_EQ(aster_ml_view_free(&view), 0);
      EXPECT_EQ(aster_ml_buffer_free(b), 0);
      EXPECT_EQ(released, 1);
    }
    if (run.stopped()) return;
    aster_ml_tensor* t = run.tensor();
    const size_t shape[] = {2, 3};
    const float values[6] = {1, 2, 3, 4, 5, 6};
    CALL(aster_ml_tensor_from_data, t, &run.context, values, kFloat, 2, shape);
    MAKE(lazy, aster_ml_lazy_from_tensor, &run.context, t);
    DO(read(run, lazy));
  });
}

TEST(Fault, Creation) {
  sweep([](Pass& run) {
    const int64_t shape[] = {2, 3};
    aster_ml_scalar half{};
    aster_ml_scalar_from_double(&half, kFloat, 0.5);
    MAKE(a, aster_ml_lazy_full, &run.context, &half, 0, 2, shape);
    MAKE(b, aster_ml_lazy_zeros, &run.context, kFloat, 2, shape);
    MAKE(c, aster_ml_lazy_ones, &run.context, kFloat, 2, shape);
    MAKE(d, aster_ml_lazy_empty, &run.context, kFloat, 2, shape);
    MAKE(e, aster_ml_lazy_arange, &run.context, 0, 6, 1, kFloat);
    MAKE(f, aster_ml_lazy_arange_float, &run.context, 0.5, 3.5, 1, kFloat);
    MAKE(g, aster_ml_lazy_linspace, &run.context, 0, 1, 3, kFloat);
    MAKE(h, aster_ml_lazy_eye, &run.context, 2, 3, kFloat);
    MAKE(i, aster_ml_lazy_scalar, &run.context, &half);
    MAKE(j, aster_ml_lazy_number, &run.context, 1.5);
    MAKE(k, aster_ml_lazy_integer, &run.context, 4);
    MAKE(reshaped, aster_ml_lazy_reshape, e, 2, shape);
    CALL(aster_ml_lazy_assign, d, reshaped);
    aster_ml_lazy* total = a;
    for (aster_ml_lazy* next : {b, c, d, f, g, h, i, j, k}) {
      MAKE(sum, aster_ml_lazy_add, total, next);
      total = sum;
    }
    DO(read(run, total));
  });
}

TEST(Fault, Random) {
  sweep(
      [](Pass& run) {
        const int64_t shape[] = {2, 3};
        CALL(aster_ml_lazy_manual_seed, &run.context, 7);
        MAKE(bits, aster_ml_lazy_random_bits, &run.context, 5);
        MAKE(a, aster_ml_lazy_rand, &run.context, 0, 2, shape);
        MAKE(b, aster_ml_lazy_uniform, &run.context, -1, 1, 0, 2, shape);
        MAKE(c, aster_ml_lazy_randint, &run.context, 0, 9, 0, 2, shape);
        MAKE(d, aster_ml_lazy_randn, &run.context, 0, 2, shape);
        MAKE(e, aster_ml_lazy_normal, &run.context, 1, 2, 0, 2, shape);
        MAKE(ab, aster_ml_lazy_add, a, b);
        MAKE(cd, aster_ml_lazy_add, c, d);
        MAKE(abcd, aster_ml_lazy_mul, ab, cd);
        MAKE(all, aster_ml_lazy_add, abcd, e);
        DO(read(run, all));
      },
      {}, 60);
}

#define UNARY(name, domain, expression) aster_ml_lazy_##name,
constexpr int32_t (*kUnary[])(aster_ml_lazy*, const aster_ml_lazy*) = {
#include "tensor/elementwise.def"
#undef UNARY
};
#define UNARY(name, domain, expression) "aster_ml_lazy_" #name,
constexpr const char* kUnaryNames[] = {
#include "tensor/elementwise.def"
#undef UNARY
};
#define BINARY(name, domain, expression) aster_ml_lazy_##name,
constexpr int32_t (*kBinary[])(aster_ml_lazy*, const aster_ml_lazy*, const aster_ml_lazy*) = {
#include "tensor/elementwise.def"
#undef BINARY
};
#define BINARY(name, domain, expression) "aster_ml_lazy_" #name,
constexpr const char* kBinaryNames[] = {
#include "tensor/elementwise.def"
#undef BINARY
};
#define BINARY(name, domain, expression) std::string_view(#domain) == "kWord",
constexpr bool kBinaryOfWords[] = {
#include "tensor/elementwise.def"
#undef BINARY
};

// Builders of graphs that nothing computes: ints, which all of them take but those of words.
TEST(Fault, Elementwise) {
  sweep([](Pass& run) {
    aster_ml_lazy *a = run.lazy(), *b = run.lazy();
    DO(load_ints(run, a, {2, 3}));
    DO(load_ints(run, b, {3}));
    for (size_t i = 0; i < std::size(kUnary); ++i) {
      if (!run.check(kUnaryNames[i], kUnary[i](run.lazy(), a))) return;
    }
    MAKE(u, aster_ml_lazy_cast, a, ASTER_ML_DTYPE_UINT64);
    MAKE(v, aster_ml_lazy_cast, b, ASTER_ML_DTYPE_UINT64);
    for (size_t i = 0; i < std::size(kBinary); ++i) {
      const bool words = kBinaryOfWords[i];
      if (!run.check(kBinaryNames[i], kBinary[i](run.lazy(), words ? u : a, words ? v : b))) return;
    }
    MAKE(yes, aster_ml_lazy_lt, a, b);
    MAKE(c, aster_ml_lazy_where, yes, a, b);
    MAKE(d, aster_ml_lazy_cast, c, kFloat);
    MAKE(e, aster_ml_lazy_bitcast, d, kInt);
    MAKE(f, aster_ml_lazy_fma, d, d, e);
    MAKE(g, aster_ml_lazy_clamp, f, d, nullptr);
    MAKE(h, aster_ml_lazy_lerp, g, d, d);
    MAKE(i, aster_ml_lazy_leaky_relu, h, 0.1);
    MAKE(j, aster_ml_lazy_detach, i);
    MAKE(k, aster_ml_lazy_contiguous, j);
    MAKE(l, aster_ml_lazy_clone, k);
    MAKE(m, aster_ml_lazy_to, l, ASTER_ML_DEVICE_REFERENCE);
    MAKE(n, aster_ml_lazy_add, m, m);
    MAKE(o, aster_ml_lazy_to, n, ASTER_ML_DEVICE_CPU + 1);
    DO(read(run, o));
    int32_t device = 0;
    CALL(aster_ml_lazy_device, &device, k);
    CALL(aster_ml_engine_device, &device, &run.context);
    CALL(aster_ml_engine_set_device, &run.context, ASTER_ML_DEVICE_REFERENCE);
    MAKE(p, aster_ml_lazy_number, &run.context, 9);
    DO(read(run, p));
  });
}

void wide(Pass& run) {
  aster_ml_lazy *x = run.lazy(), *a = run.lazy(), *b = run.lazy(), *c = run.lazy();
  aster_ml_lazy *d = run.lazy(), *y = run.lazy();
  load(run, x, {3, 3});
  CALL(aster_ml_lazy_cast, a, x, ASTER_ML_DTYPE_FLT256);
  CALL(aster_ml_lazy_matmul, b, a, a);
  CALL(aster_ml_lazy_mul, c, a, b);
  const int64_t axis = 0;
  CALL(aster_ml_lazy_sum, d, c, 1, &axis, 0);
  CALL(aster_ml_lazy_cast, y, d, kFloat);
  read(run, y);
}
TEST(Fault, WideFloats) { sweep(wide); }
TEST(Fault, WideFloatsInterpreted) {
  sweep(wide, with([](auto& o) { o.cache_dir = "/nonexistent/cache", o.compiler = "none"; }));
}

TEST(Fault, Movement) {
  sweep([](Pass& run) {
    aster_ml_lazy* x = run.lazy();
    DO(load(run, x, {2, 3, 4}));
    const int64_t shape[] = {6, 4}, wide[] = {2, 6, 4}, order[] = {1, 0}, axes[] = {0, 1},
                  one[] = {1, 1}, two[] = {2, 0}, from[] = {5, 0}, to[] = {0, 4}, step[] = {-2, 1};
    aster_ml_scalar fill{};
    aster_ml_scalar_from_double(&fill, kFloat, 3);
    MAKE(a, aster_ml_lazy_reshape, x, 2, shape);
    MAKE(b, aster_ml_lazy_expand, a, 3, wide);
    MAKE(c, aster_ml_lazy_select, b, 0, 1);
    MAKE(d, aster_ml_lazy_flip, c, 2, axes);
    MAKE(e, aster_ml_lazy_pad, d, 2, one, two, &fill);
    MAKE(f, aster_ml_lazy_slice, e, 2, from, to, step);
    MAKE(g, aster_ml_lazy_permute, f, 2, order);
    MAKE(h, aster_ml_lazy_unsqueeze, g, 0);
    MAKE(i, aster_ml_lazy_squeeze, h, 0);
    MAKE(j, aster_ml_lazy_transpose, i, 0, 1);
    MAKE(k, aster_ml_lazy_flatten, j, 0, -1);
    const aster_ml_lazy* list[] = {k, k};
    MAKE(l, aster_ml_lazy_cat, list, 2, 0);
    MAKE(m, aster_ml_lazy_stack, list, 2, 0);
    const int64_t begin[] = {0, 1}, end[] = {2, 3};
    MAKE(n, aster_ml_lazy_shrink, m, 2, begin, end);
    aster_ml_lazy* labels = run.lazy();
    DO(load_ints(run, labels, {4}));
    MAKE(hot, aster_ml_lazy_one_hot, labels, 3);
    (void)hot;
    DO(read(run, l));
    DO(read(run, n));
    // A write through a view reaches what reads the storage.
    aster_ml_lazy* base = run.lazy();
    DO(load(run, base, {4, 4}));
    MAKE(part, aster_ml_lazy_select, base, 0, 2);
    MAKE(number, aster_ml_lazy_number, &run.context, 9);
    CALL(aster_ml_lazy_assign, part, number);
    MAKE(twice, aster_ml_lazy_add, base, base);
    DO(read(run, twice));
    DO(read(run, base));
  });
}

TEST(Fault, ReductionsAndComposites) {
  sweep([](Pass& run) {
    aster_ml_lazy *x = run.lazy(), *w = run.lazy(), *image = run.lazy(), *filter = run.lazy(),
                  *labels = run.lazy();
    DO(load(run, x, {3, 4}));
    DO(load(run, w, {4}));
    DO(load(run, image, {1, 2, 6, 6}));
    DO(load(run, filter, {2, 2, 3, 3}));
    DO(load_ints(run, labels, {3}));
    const int64_t axis[] = {1};
    MAKE(sum, aster_ml_lazy_sum, x, 1, axis, 0);
    MAKE(prod, aster_ml_lazy_prod, x, 1, axis, 0);
    MAKE(max, aster_ml_lazy_max, x, 1, axis, 0);
    MAKE(min, aster_ml_lazy_min, x, 1, axis, 0);
    MAKE(mean, aster_ml_lazy_mean, x, 1, axis, 0);
    MAKE(var, aster_ml_lazy_var, x, 1, axis, 0, 1);
    MAKE(any, aster_ml_lazy_any, x, 1, axis, 0);
    MAKE(all, aster_ml_lazy_all, x, 0, nullptr, 0);
    MAKE(argmax, aster_ml_lazy_argmax, x, 1, 0);
    MAKE(argmin, aster_ml_lazy_argmin, x, 0, 1);
    MAKE(lse, aster_ml_lazy_logsumexp, x, 1, axis, 0);
    MAKE(turned, aster_ml_lazy_transpose, x, 0, 1);
    MAKE(product, aster_ml_lazy_matmul, x, turned);
    MAKE(conv, aster_ml_lazy_conv2d, image, filter, nullptr, nullptr);
    MAKE(top, aster_ml_lazy_max_pool2d, conv, nullptr);
    MAKE(avg, aster_ml_lazy_avg_pool2d, conv, nullptr);
    MAKE(soft, aster_ml_lazy_softmax, x, -1);
    MAKE(log_soft, aster_ml_lazy_log_softmax, x, -1);
    MAKE(layer, aster_ml_lazy_layer_norm, x, 1, w, w, 1e-5);
    MAKE(batch, aster_ml_lazy_batch_norm, x, w, w, w, w);
    MAKE(loss, aster_ml_lazy_cross_entropy, x, labels, nullptr);
    for (aster_ml_lazy* value : {product, top, avg, soft, log_soft, layer, batch, loss})
      DO(read(run, value));
    (void)sum, (void)prod, (void)max, (void)min, (void)mean, (void)var, (void)any, (void)all,
        (void)argmax, (void)argmin, (void)lse;
  });
}

// A small convolutional net: two steps of stochastic gradient descent.
void train(Pass& run) {
  aster_ml_lazy *w = run.lazy(), *f = run.lazy();
  DO(load(run, w, {2, 1, 3, 3}, -0.5f));
  DO(load(run, f, {8, 3}, -0.4f));
  for (int step = 0; step < 2; ++step) {
    aster_ml_lazy *x = run.lazy(), *y = run.lazy();
    DO(load(run, x, {3, 1, 6, 6}));
    DO(load_ints(run, y, {3}));
    MAKE(conv, aster_ml_lazy_conv2d, x, w, nullptr, nullptr);
    MAKE(relu, aster_ml_lazy_relu, conv);
    MAKE(pool, aster_ml_lazy_max_pool2d, relu, nullptr);
    const int64_t flat[] = {3, 8};
    MAKE(h, aster_ml_lazy_reshape, pool, 2, flat);
    MAKE(logits, aster_ml_lazy_matmul, h, f);
    MAKE(loss, aster_ml_lazy_cross_entropy, logits, y, nullptr);
    const aster_ml_lazy* targets[] = {w, f};
    aster_ml_lazy grads[2] = {};
    const bool built =
        run.check("aster_ml_gradient", aster_ml_gradient(grads, loss, targets, 2, nullptr));
    *run.lazy() = grads[0];
    *run.lazy() = grads[1];
    if (!built) return;
    MAKE(rate, aster_ml_lazy_number, &run.context, 0.1);
    for (int i = 0; i < 2; ++i) {
      aster_ml_lazy* target = i == 0 ? w : f;
      MAKE(by, aster_ml_lazy_mul, &grads[i], rate);
      MAKE(next, aster_ml_lazy_sub, target, by);
      CALL(aster_ml_lazy_assign, target, next);
    }
    aster_ml_lazy* all[] = {loss, w, f};
    CALL(aster_ml_lazy_realize, all, 3);
    double value = 0;
    CALL(aster_ml_lazy_to_double, &value, loss);
    run.values.push_back(static_cast<float>(value));
    aster_ml_tensor lent{};
    CALL(aster_ml_lazy_view, &lent, w);
  }
  DO(read(run, w));
  DO(read(run, f));
}

TEST(Fault, TrainingStep) { sweep(train); }
TEST(Fault, TrainingStepWithoutCaches) {
  sweep(train, with([](auto& o) { o.no_schedule_cache = 1; }), 60);
}
TEST(Fault, TrainingStepWithoutLibrary) {
  sweep(train, with([](auto& o) { o.threads = 2, o.no_library = 1; }), 60);
}
TEST(Fault, TrainingStepInterpreted) {
  sweep(train, with([](auto& o) { o.compiler = "none"; }));
}
TEST(Fault, TrainingStepAsTinygradDoes) {
  sweep(train, with([](auto& o) { o.strict_parity = 1; }), 60);
}

// A step recorded, replayed on other inputs, in memory of its own and of the program.
void capture_step(Pass& run, bool prune) {
  aster_ml_lazy *x = run.lazy(), *state = run.lazy();
  DO(load(run, x, {4, 4}));
  DO(load(run, state, {4}));
  CALL(aster_ml_lazy_manual_seed, &run.context, 3);
  aster_ml_lazy* inputs[] = {x};
  CALL(aster_ml_engine_capture_begin, &run.context, inputs, 1);
  // Whatever fails inside, the capture is ended or given up.
  const auto record = [&](aster_ml_lazy* y, aster_ml_lazy* z) {
    MAKE(product, aster_ml_lazy_matmul, x, x);
    MAKE(noise, aster_ml_lazy_rand, &run.context, 0, 0, nullptr);
    CALL(aster_ml_lazy_add, y, product, noise);
    MAKE(next, aster_ml_lazy_add, state, state);
    CALL(aster_ml_lazy_assign, state, next);
    CALL(aster_ml_lazy_realize, std::array{state}.data(), 1);
    CALL(aster_ml_lazy_exp, z, y);
  };
  aster_ml_lazy *y = run.lazy(), *z = run.lazy();
  if (prune) CALL(aster_ml_engine_capture_prune, &run.context);
  record(y, z);
  if (y->impl == nullptr || z->impl == nullptr) {
    if (run.context.impl == nullptr) return;
    EXPECT_EQ(aster_ml_engine_capture_cancel(&run.context), 0);
    return;
  }
  aster_ml_program* program = run.program();
  aster_ml_lazy* outputs[] = {y, z};
  if (!run.check("aster_ml_engine_capture_end",
                 aster_ml_engine_capture_end(program, &run.context, outputs, 2)) ||
      program->impl == nullptr) {
    return;  // a capture that failed is over
  }
  CALL(aster_ml_program_set_name, program, ASTER_ML_PROGRAM_OUTPUTS, 0, "y");
  aster_ml_tensor* in = run.tensor();
  const size_t shape[] = {4, 4};
  std::vector<float> values(16, 0.5f);
  CALL(aster_ml_tensor_from_data, in, &run.context, values.data(), kFloat, 2, shape);
  aster_ml_workspace* workspace = run.workspace();
  CALL(aster_ml_workspace_init, workspace, program);
  for (aster_ml_workspace* memory : {static_cast<aster_ml_workspace*>(nullptr), workspace}) {
    aster_ml_tensor results[2] = {};
    const bool ran =
        run.check("aster_ml_program_run", aster_ml_program_run(program, memory, in, 1, results, 2));
    if (results[0].storage.data != nullptr) {
      const float* data = static_cast<const float*>(results[0].storage.data);
      run.values.insert(run.values.end(), data, data + 16);
    }
    for (aster_ml_tensor& result : results) EXPECT_EQ(aster_ml_tensor_free(&result), 0);
    if (!ran) return;
  }
  DO(read(run, state));
}

void capture(Pass& run) { capture_step(run, false); }

TEST(Fault, Capture) { sweep(capture); }

TEST(Fault, PrunedCapture) {
  sweep([](Pass& run) { capture_step(run, true); });
}
TEST(Fault, CaptureInterpreted) {
  sweep(capture, with([](auto& o) { o.compiler = "none"; }), 60);
}

TEST(Fault, Eager) {
  sweep([](Pass& run) {
    const size_t shape[] = {2, 2};
    const float values[] = {1, 2, 3, 4};
    aster_ml_tensor *a = run.tensor(), *b = run.tensor(), *c = run.tensor(), *d = run.tensor(),
                    *e = run.tensor();
    CALL(aster_ml_tensor_from_data, a, &run.context, values, kFloat, 2, shape);
    CALL(aster_ml_tensor_add, b, &run.context, a, a);
    CALL(aster_ml_tensor_matmul, c, &run.context, a, b);
    CALL(aster_ml_tensor_exp, d, &run.context, a);
    CALL(aster_ml_tensor_sum, e, &run.context, c, 0, nullptr, 0);
    if (e->storage.data != nullptr)
      run.values.push_back(*static_cast<const float*>(e->storage.data));
    aster_ml_tensor *yes = run.tensor(), *chosen = run.tensor(), *whole = run.tensor();
    CALL(aster_ml_tensor_lt, yes, &run.context, a, b);
    CALL(aster_ml_tensor_where, chosen, &run.context, yes, a, b);
    CALL(aster_ml_tensor_cast, whole, &run.context, chosen, kInt);
  });
}

TEST(Fault, Nodes) {
  sweep([](Pass& run) {
    std::vector<const aster_ml_uop*> kept;
    const auto body = [&] {
      const auto make = [&](const aster_ml_uop** out, const char* op,
                            std::initializer_list<const aster_ml_uop*> sources,
                            std::initializer_list<int64_t> arguments, int32_t dtype = 0,
                            const Shape& shape = {}) {
        aster_ml_uop_options options{};
        options.struct_size = sizeof(options);
        options.op = op;
        options.dtype = dtype;
        options.sources = sources.begin();
        options.source_count = sources.size();
        options.arguments = arguments.begin();
        options.argument_count = arguments.size();
        options.shape = shape.data();
        options.ndim = shape.size();
        const bool ok =
            run.check("aster_ml_uop_init", aster_ml_uop_init(out, &run.context, &options));
        if (*out != nullptr) kept.push_back(*out);
        return ok && *out != nullptr;
      };
      const aster_ml_uop *i, *two, *sum, *simple = nullptr, *param, *reduced;
      if (!make(&i, "Range", {}, {0, 8})) return;
      if (!make(&two, "Const", {}, {2}, ASTER_ML_DTYPE_WEAKINT)) return;
      if (!make(&sum, "Add", {i, two}, {})) return;
      CALL(aster_ml_uop_simplify, &simple, &run.context, sum);
      if (simple != nullptr) kept.push_back(simple);
      if (!make(&param, "Param", {}, {0}, kFloat, {4, 5})) return;
      if (!make(&reduced, "Reduce:Add", {param}, {1})) return;
      CALL(aster_ml_uop_retain, &run.context, param);
      kept.push_back(param);
      size_t count = 0, length = 0;
      std::vector<const aster_ml_uop*> nodes(16);
      CALL(aster_ml_uop_walk, nodes.data(), &count, nodes.size(), &run.context, reduced);
      std::string text(4096, '\0');
      CALL(aster_ml_uop_print, text.data(), &length, text.size(), &run.context, reduced);
      int64_t least = 0, most = 0;
      CALL(aster_ml_uop_get_bounds, &least, &most, sum);
      run.values = {static_cast<float>(least), static_cast<float>(most), static_cast<float>(count)};
    };
    body();
    for (const aster_ml_uop* node : kept) EXPECT_EQ(aster_ml_uop_release(&run.context, node), 0);
    if (run.context.impl != nullptr)
      run.check("aster_ml_uop_collect", aster_ml_uop_collect(&run.context));
  });
}

// Layers, a state, an optimiser, and a file written and read.
void network(Pass& run, const char* path) {
  CALL(aster_ml_lazy_manual_seed, &run.context, 5);
  aster_ml_layer *conv = run.layer(), *norm = run.layer(), *linear = run.layer();
  CALL(aster_ml_conv2d_init, conv, &run.context, 1, 2, 3, 3, 1, nullptr);
  CALL(aster_ml_batch_norm_init, norm, &run.context, 2, nullptr);
  CALL(aster_ml_linear_init, linear, &run.context, 8, 3, 1);
  aster_ml_state* state = run.state();
  CALL(aster_ml_state_init, state, &run.context);
  CALL(aster_ml_state_set_layer, state, "conv.", conv);
  CALL(aster_ml_state_set_layer, state, "norm.", norm);
  CALL(aster_ml_state_set_layer, state, "linear.", linear);
  CALL(aster_ml_state_set_metadata, state, "made by", "a test");
  aster_ml_optimizer* optimizer = run.optimizer();
  CALL(aster_ml_adam_init, optimizer, state, nullptr);
  aster_ml_lazy *x = run.lazy(), *y = run.lazy();
  DO(load(run, x, {3, 1, 4, 4}));
  DO(load_ints(run, y, {3}));
  MAKE(a, aster_ml_layer_run, conv, x, 1);
  MAKE(b, aster_ml_layer_run, norm, a, 1);
  const int64_t flat[] = {3, 8};
  MAKE(c, aster_ml_lazy_reshape, b, 2, flat);
  MAKE(d, aster_ml_layer_run, linear, c, 1);
  MAKE(loss, aster_ml_lazy_cross_entropy, d, y, nullptr);
  CALL(aster_ml_optimizer_step, optimizer, loss);
  double value = 0;
  CALL(aster_ml_lazy_to_double, &value, loss);
  run.values.push_back(static_cast<float>(value));
  MAKE(weight, aster_ml_layer_get, linear, "weight");
  DO(read(run, weight));
  CALL(aster_ml_state_write, state, path);
  aster_ml_state* found = run.state();
  CALL(aster_ml_state_read, found, &run.context, path);
  CALL(aster_ml_state_load, state, found);
  MAKE(again, aster_ml_state_get, found, "linear.weight");
  DO(read(run, again));
}

TEST(Fault, Networks) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("aster_fault_" + std::to_string(getpid()) + ".safetensors"))
                               .string();
  sweep([&](Pass& run) { network(run, path.c_str()); }, {}, 50);
  std::filesystem::remove(path);
}

// Of a first part of so many rows as a variable says, read as the present sizes.
void compute_sized(Pass& run, const aster_ml_uop* now) {
  const aster_ml_dim rows{0, now}, none{0, nullptr}, four{4, nullptr}, one{1, nullptr};
  const aster_ml_dim begin[] = {none, none}, end[] = {rows, four}, after[] = {one, none};
  const int64_t axis[] = {0};
  MAKE(memory, aster_ml_lazy_empty_dims, &run.context, kFloat, 2, end);
  aster_ml_lazy *cache = run.lazy(), *weights = run.lazy();
  DO(load(run, cache, {6, 4}));
  MAKE(x, aster_ml_lazy_shrink_dims, cache, 2, begin, end);
  MAKE(y, aster_ml_lazy_add, x, x);
  MAKE(sum, aster_ml_lazy_sum, y, 1, axis, 0);
  MAKE(soft, aster_ml_lazy_softmax, y, 0);
  DO(load(run, weights, {4, 3}));
  MAKE(product, aster_ml_lazy_matmul, y, weights);
  MAKE(padded, aster_ml_lazy_pad_dims, product, 2, begin, after, nullptr);
  aster_ml_lazy* both[] = {soft, x};
  MAKE(joined, aster_ml_lazy_cat, both, 2, 0);
  MAKE(row, aster_ml_lazy_select_dims, joined, 0, &rows);
  const aster_ml_dim_index last[] = {{ASTER_ML_INDEX_SLICE, none, rows, 1, nullptr},
                                     {ASTER_ML_INDEX_INTEGER, one, none, 0, nullptr}};
  MAKE(items, aster_ml_lazy_index_dims, joined, 2, last);
  MAKE(order, aster_ml_lazy_argsort, items, 0, 0);
  const aster_ml_dim_index by[] = {{ASTER_ML_INDEX_TENSOR, none, none, 0, order}};
  MAKE(taken, aster_ml_lazy_index_dims, x, 1, by);
  CALL(aster_ml_lazy_index_assign_dims, joined, 2, last, items);
  const char* const names[] = {"n", "a"};
  const aster_ml_dim lengths[] = {rows, {2, nullptr}};
  MAKE(turned, aster_ml_lazy_rearrange_dims, x, "n (a b) -> a (n b)", 2, names, lengths);
  const aster_ml_lazy* const factors[] = {x, weights};
  MAKE(summed, aster_ml_lazy_einsum, "nc,cd->d", factors, 2, 0);
  const int64_t two = 2;
  MAKE(pooled, aster_ml_lazy_avg_pool, turned, 1, &two, nullptr);
  const int64_t ones[] = {1, 1};
  MAKE(around, aster_ml_lazy_pad_mode, x, 2, ones, ones, ASTER_ML_PADDING_REFLECT, nullptr);
  MAKE(grown, aster_ml_lazy_interpolate_dims, around, 2, end, ASTER_ML_INTERPOLATION_LINEAR, 0);
  MAKE(selected, aster_ml_lazy_nonzero, grown, 9, nullptr);
  MAKE(line, aster_ml_lazy_arange_dims, &run.context, &none, &rows, kFloat);
  const aster_ml_dim column[] = {rows, one};
  MAKE(tall, aster_ml_lazy_reshape_dims, line, 2, column);
  MAKE(wide, aster_ml_lazy_expand_dims, tall, 2, end);
  MAKE(scaled, aster_ml_lazy_mul, wide, y);
  MAKE(value, aster_ml_lazy_from_dim, &run.context, &rows);
  MAKE(total, aster_ml_lazy_sum, scaled, 0, nullptr, 0);
  MAKE(slope, aster_ml_gradient, total, &cache, 1, nullptr);
  aster_ml_dim dims[2];
  CALL(aster_ml_lazy_dims, dims, 2, scaled);
  for (aster_ml_lazy* out :
       {sum, padded, row, total, slope, taken, joined, summed, pooled, grown, selected})
    DO(read(run, out));
  const aster_ml_uop* twice = nullptr;
  CALL(aster_ml_symbolic_combine, &twice, &run.context, "Mul", &rows, &four);
  int64_t found = 0;
  CALL(aster_ml_symbolic_value, &found, &run.context, twice);
  if (twice == nullptr) return;
  run.values.push_back(static_cast<float>(found));
  EXPECT_EQ(aster_ml_uop_release(&run.context, twice), 0);
}

// A program for values for which a row is there, run with one and asked of another.
void capture_sized(Pass& run, const aster_ml_uop* now) {
  aster_ml_lazy *cache = run.lazy(), *y = run.lazy();
  DO(load(run, cache, {5, 4}));
  CALL(aster_ml_engine_capture_begin, &run.context, nullptr, 0);
  const auto record = [&] {
    const aster_ml_dim_index last[] = {
        {ASTER_ML_INDEX_INTEGER, {0, now}, {0, nullptr}, 0, nullptr}};
    MAKE(row, aster_ml_lazy_index_dims, cache, 1, last);
    CALL(aster_ml_lazy_exp, y, row);
  };
  record();
  if (y->impl == nullptr) {
    EXPECT_EQ(aster_ml_engine_capture_cancel(&run.context), 0);
    return;
  }
  aster_ml_program* program = run.program();
  aster_ml_lazy* outputs[] = {y};
  CALL(aster_ml_engine_capture_end, program, &run.context, outputs, 1);
  if (program->impl == nullptr) return;
  const int64_t inside = 4;
  aster_ml_tensor result{};
  CALL(aster_ml_program_run_bound, program, nullptr, &inside, 1, nullptr, 0, &result, 1);
  if (result.storage.data == nullptr) return;
  const float* data = static_cast<const float*>(result.storage.data);
  run.values.insert(run.values.end(), data, data + 4);
  EXPECT_EQ(aster_ml_tensor_free(&result), 0);
}

TEST(Fault, SymbolicSizes) {
  sweep(
      [](Pass& run) {
        const aster_ml_uop *n = nullptr, *now = nullptr;
        CALL(aster_ml_symbolic_init, &n, &run.context, "n", 1, 6);
        if (n == nullptr) return;
        run.check("aster_ml_symbolic_bind", aster_ml_symbolic_bind(&now, &run.context, n, "n", 3));
        EXPECT_EQ(aster_ml_uop_release(&run.context, n), 0);
        if (now == nullptr) return;
        compute_sized(run, now);
        capture_sized(run, now);
        EXPECT_EQ(aster_ml_uop_release(&run.context, now), 0);
      },
      with([](auto& o) { o.compiler = "none"; }));
}

}  // namespace
}  // namespace fault
