/* Trains a small convolutional network on handwritten digits, tests it on a fifth held out, saves
 * it and reads it back:   digits examples/data/digits.bin [EPOCHS] */
#include <string.h>

#include "check.h"

enum { PIXELS = 64, COUNT = 1797, TRAINED = 1438, TESTED = COUNT - TRAINED, BATCH = 128 };
static unsigned char records[COUNT][PIXELS + 1]; /* pixels from 0 to 16, then the label */
static aster_ml_context context;

enum { CONV1, NORM1, CONV2, NORM2, LINEAR, LAYERS };
static const char *const names[] = {"conv1.", "norm1.", "conv2.", "norm2.", "linear."};

/* Puts the first count digits in random order, the same in every run. */
static void shuffle(size_t count) {
  static uint64_t state = 42;
  for (size_t i = count; i-- > 1;) {
    unsigned char record[sizeof(records[0])];
    state = state * 6364136223846793005u + 1442695040888963407u;
    const size_t j = (state >> 33) % (i + 1);
    memcpy(record, records[i], sizeof(record));
    memcpy(records[i], records[j], sizeof(record));
    memcpy(records[j], record, sizeof(record));
  }
}

/* count digits from the first on, pixels from 0 to 1. */
static void take(float *images, int32_t *labels, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    for (size_t p = 0; p < PIXELS; ++p) *images++ = (float)records[i][p] / 16;
    *labels++ = records[i][PIXELS];
  }
}

/* The layers of a network, and their parameters by name. */
static void make_network(aster_ml_layer *net, aster_ml_state *state) {
  aster_ml_conv2d_options same = {.struct_size = sizeof(same), .padding = {1, 1, 1, 1}};
  check(aster_ml_conv2d_init(&net[CONV1], &context, 1, 16, 3, 3, 0, &same));
  check(aster_ml_batch_norm_init(&net[NORM1], &context, 16, NULL));
  check(aster_ml_conv2d_init(&net[CONV2], &context, 16, 32, 3, 3, 0, &same));
  check(aster_ml_batch_norm_init(&net[NORM2], &context, 32, NULL));
  check(aster_ml_linear_init(&net[LINEAR], &context, 32 * 2 * 2, 10, 1));
  check(aster_ml_state_init(state, &context));
  for (int i = 0; i < LAYERS; ++i) check(aster_ml_state_set_layer(state, names[i], &net[i]));
}

/* [n, 64] -> [n, 10]. A call that fails leaves its handle empty, which the next ones pass on. */
static void run(aster_ml_lazy *logits, const aster_ml_layer *net, const aster_ml_lazy *images,
                int training) {
  aster_ml_lazy x[5];
  aster_ml_lazy_reshape(&x[0], images, 4, (int64_t[]){-1, 1, 8, 8});
  for (int i = CONV1; i < LINEAR; i += 2, x[0] = x[4]) {
    aster_ml_layer_run(&x[1], &net[i], &x[0], training);
    aster_ml_layer_run(&x[2], &net[i + 1], &x[1], training);
    aster_ml_lazy_relu(&x[3], &x[2]);
    aster_ml_lazy_max_pool2d(&x[4], &x[3], NULL);
  }
  aster_ml_lazy_flatten(&x[1], &x[0], 1, -1);
  aster_ml_layer_run(logits, &net[LINEAR], &x[1], training);
}

/* Records one step, then replays it: nothing is built or scheduled any more. */
static void train(const aster_ml_layer *net, const aster_ml_state *state, int epochs) {
  aster_ml_optimizer adam;
  aster_ml_program step;
  aster_ml_lazy x, y, logits, mean, *inputs[] = {&x, &y}, *outputs[] = {&mean};
  aster_ml_tensor batch[2], loss = {0};
  check(aster_ml_adam_init(&adam, state, NULL));
  const size_t shape[] = {BATCH, PIXELS};
  check(aster_ml_tensor_init(&batch[0], &context, ASTER_ML_DTYPE_FLOAT32, 0, 2, shape));
  check(aster_ml_tensor_init(&batch[1], &context, ASTER_ML_DTYPE_INT32, 0, 1, shape));
  take(batch[0].storage.data, batch[1].storage.data, 0, BATCH); /* recording is a step as well */
  check(aster_ml_lazy_from_tensor(&x, &context, &batch[0]));
  check(aster_ml_lazy_from_tensor(&y, &context, &batch[1]));
  check(aster_ml_engine_capture_begin(&context, inputs, 2));
  run(&logits, net, &x, 1);
  aster_ml_lazy_cross_entropy(&mean, &logits, &y, NULL);
  check(aster_ml_optimizer_step(&adam, &mean));
  check(aster_ml_engine_capture_end(&step, &context, outputs, 1));
  for (int epoch = 0; epoch < epochs; ++epoch) {
    shuffle(TRAINED);
    check(aster_ml_optimizer_set_rate(&adam, 0.01 * (epochs - epoch) / epochs));
    for (size_t i = 0; i + BATCH <= TRAINED; i += BATCH) {
      take(batch[0].storage.data, batch[1].storage.data, i, BATCH);
      check(aster_ml_program_run(&step, NULL, batch, 2, &loss, 1));
    }
    printf("epoch %2d, loss %.4f\n", epoch + 1, (double)*(const float *)loss.storage.data);
  }
  for (int i = 0; i < 2; ++i) check(aster_ml_tensor_free(&batch[i]));
  check(aster_ml_tensor_free(&loss));
  check(aster_ml_program_free(&step));
  check(aster_ml_optimizer_free(&adam));
}

/* Reads the test digits; the number of right ones. */
static int predict(int32_t *read, const aster_ml_layer *net) {
  static float images[TESTED][PIXELS];
  int32_t labels[TESTED], right = 0;
  aster_ml_lazy x, logits, best;
  take(images[0], labels, TRAINED, TESTED);
  aster_ml_lazy_from(&x, &context, images, ASTER_ML_DTYPE_FLOAT32, 2, (int64_t[]){TESTED, PIXELS});
  run(&logits, net, &x, 0);
  aster_ml_lazy_argmax(&best, &logits, -1, 0);
  check(aster_ml_lazy_copy_out(read, TESTED * sizeof(*read), &best)); /* computes */
  for (int i = 0; i < TESTED; ++i) right += read[i] == labels[i];
  return right;
}

int main(int argc, char **argv) {
  const int epochs = argc > 2 ? number(argv[2]) : 20;
  FILE *file = argc > 1 && argc < 4 && epochs > 0 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL || fread(records, sizeof(records), 1, file) != 1)
    return fputs("usage: digits examples/data/digits.bin [EPOCHS]\n", stderr), 2;
  fclose(file);
  shuffle(COUNT);
  aster_ml_scope scope;
  aster_ml_layer net[LAYERS], copy[LAYERS];
  aster_ml_state state, copied, saved;
  int32_t first[TESTED], again[TESTED];
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context)); /* frees every tensor made until its end */
  make_network(net, &state);
  train(net, &state, epochs);
  const int right = predict(first, net);
  printf("%d of %d test digits right, %.2f %%\n", right, TESTED, 100.0 * right / TESTED);
  check(aster_ml_state_write(&state, "digits.safetensors"));
  check(aster_ml_state_read(&saved, &context, "digits.safetensors"));
  make_network(copy, &copied);
  check(aster_ml_state_load(&copied, &saved));
  predict(again, copy);
  const int same = memcmp(first, again, sizeof(first)) == 0;
  printf("digits.safetensors, read back, gives %s\n", same ? "the same" : "OTHER PREDICTIONS");
  for (int i = 0; i < LAYERS; ++i) aster_ml_layer_free(&net[i]), aster_ml_layer_free(&copy[i]);
  aster_ml_state_free(&state), aster_ml_state_free(&copied), aster_ml_state_free(&saved);
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return same && right >= 0.98 * TESTED ? 0 : 1;
}
