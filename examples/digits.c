/* Trains a small convolutional network on handwritten digits, tests it on a fifth held out, saves
 * it and reads it back.
 *
 *   digits DIGITS.BIN [EPOCHS [FILE]]    examples/data/digits.bin, 20, digits.safetensors
 */
#include <aster_ml/aster_ml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, COUNT = 1797, TRAINED = 1438, TESTED = COUNT - TRAINED, BATCH = 128 };
static float pixels[COUNT][PIXELS]; /* 0 to 1 */
static int32_t labels[COUNT];
static aster_ml_context context;

enum { CONV1, NORM1, CONV2, NORM2, LINEAR, LAYERS };
static const char *const names[] = {"conv1.", "norm1.", "conv2.", "norm2.", "linear."};
typedef struct network {
  aster_ml_layer layers[LAYERS];
  aster_ml_state state; /* their parameters by name */
} network;

/* What failed, in the library's words; the program ends. */
static void check(int32_t status) {
  aster_ml_error error;
  if (status == ASTER_ML_OK) return;
  aster_ml_error_last(&error);
  fprintf(stderr, "%s in %s: %s\n", aster_ml_status_name(status), error.function, error.message);
  exit(2);
}

/* Puts the first count digits in random order, the same in every run. */
static void shuffle(size_t count) {
  static uint64_t state = 42;
  for (size_t i = count; i-- > 1;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const size_t j = (state >> 33) % (i + 1);
    float image[PIXELS];
    const int32_t label = labels[i];
    memcpy(image, pixels[i], sizeof(image));
    memcpy(pixels[i], pixels[j], sizeof(image));
    memcpy(pixels[j], image, sizeof(image));
    labels[i] = labels[j];
    labels[j] = label;
  }
}

static int read_digits(const char *path) {
  unsigned char record[PIXELS + 1];
  size_t i = 0;
  FILE *file = fopen(path, "rb");
  for (; file != NULL && i < COUNT && fread(record, sizeof(record), 1, file) == 1; ++i) {
    for (size_t p = 0; p < PIXELS; ++p) pixels[i][p] = (float)record[p] / 16;
    labels[i] = record[PIXELS];
  }
  if (file != NULL) fclose(file);
  shuffle(COUNT);
  return i == COUNT;
}

static void make_network(network *net) {
  aster_ml_conv2d_options same = {.struct_size = sizeof(same), .padding = {1, 1, 1, 1}};
  check(aster_ml_conv2d_init(&net->layers[CONV1], &context, 1, 16, 3, 3, 0, &same));
  check(aster_ml_batch_norm_init(&net->layers[NORM1], &context, 16, NULL));
  check(aster_ml_conv2d_init(&net->layers[CONV2], &context, 16, 32, 3, 3, 0, &same));
  check(aster_ml_batch_norm_init(&net->layers[NORM2], &context, 32, NULL));
  check(aster_ml_linear_init(&net->layers[LINEAR], &context, 32 * 2 * 2, 10, 1));
  check(aster_ml_state_init(&net->state, &context));
  for (int i = 0; i < LAYERS; ++i)
    check(aster_ml_state_set_layer(&net->state, names[i], &net->layers[i]));
}

static void free_network(network *net) {
  for (int i = 0; i < LAYERS; ++i) check(aster_ml_layer_free(&net->layers[i]));
  check(aster_ml_state_free(&net->state));
}

/* [n, 64] -> [n, 10]. A call that fails leaves its handle empty, which the next ones pass on. */
static void run(aster_ml_lazy *logits, const network *net, const aster_ml_lazy *images, int train) {
  aster_ml_lazy x[10];
  aster_ml_lazy_reshape(&x[0], images, 4, (int64_t[]){-1, 1, 8, 8});
  aster_ml_layer_run(&x[1], &net->layers[CONV1], &x[0], train);
  aster_ml_layer_run(&x[2], &net->layers[NORM1], &x[1], train);
  aster_ml_lazy_relu(&x[3], &x[2]);
  aster_ml_lazy_max_pool2d(&x[4], &x[3], NULL);
  aster_ml_layer_run(&x[5], &net->layers[CONV2], &x[4], train);
  aster_ml_layer_run(&x[6], &net->layers[NORM2], &x[5], train);
  aster_ml_lazy_relu(&x[7], &x[6]);
  aster_ml_lazy_max_pool2d(&x[8], &x[7], NULL);
  aster_ml_lazy_flatten(&x[9], &x[8], 1, -1);
  aster_ml_layer_run(logits, &net->layers[LINEAR], &x[9], train);
}

/* Records one step, then replays it: nothing is built or scheduled any more. */
static void train(const network *net, int epochs) {
  aster_ml_optimizer adam;
  aster_ml_program step;
  aster_ml_lazy x, y, logits, mean, *inputs[] = {&x, &y}, *outputs[] = {&mean};
  aster_ml_tensor batch[2], loss = {0};
  check(aster_ml_adam_init(&adam, &net->state, NULL));
  const size_t shape[] = {BATCH, PIXELS};
  check(aster_ml_tensor_init(&batch[0], &context, ASTER_ML_DTYPE_FLOAT32, 0, 2, shape));
  check(aster_ml_tensor_init(&batch[1], &context, ASTER_ML_DTYPE_INT32, 0, 1, shape));
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
      check(aster_ml_tensor_copy_in(&batch[0], pixels[i], BATCH * PIXELS));
      check(aster_ml_tensor_copy_in(&batch[1], &labels[i], BATCH));
      check(aster_ml_program_run(&step, NULL, batch, 2, &loss, 1));
    }
    printf("epoch %2d, loss %.4f\n", epoch + 1, (double)*(const float *)loss.storage.data);
  }
  for (int i = 0; i < 2; ++i) check(aster_ml_tensor_free(&batch[i]));
  check(aster_ml_tensor_free(&loss));
  check(aster_ml_program_free(&step));
  check(aster_ml_optimizer_free(&adam));
}

static void predict(int32_t *out, const network *net) {
  aster_ml_lazy x, logits, best;
  const int64_t shape[] = {TESTED, PIXELS};
  aster_ml_lazy_from(&x, &context, pixels[TRAINED], ASTER_ML_DTYPE_FLOAT32, 2, shape);
  run(&logits, net, &x, 0);
  aster_ml_lazy_argmax(&best, &logits, -1, 0);
  check(aster_ml_lazy_copy_out(out, TESTED * sizeof(*out), &best)); /* computes */
}

int main(int argc, char **argv) {
  const char *path = argc > 3 ? argv[3] : "digits.safetensors";
  if (argc < 2 || !read_digits(argv[1])) return fputs("digits: which DIGITS.BIN?\n", stderr), 2;
  network net, loaded;
  aster_ml_state saved;
  aster_ml_scope scope;
  int32_t read[TESTED], again[TESTED], right = 0;
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context)); /* frees every tensor made until its end */
  make_network(&net);
  train(&net, argc > 2 ? atoi(argv[2]) : 20);
  predict(read, &net);
  check(aster_ml_state_write(&net.state, path));
  make_network(&loaded);
  check(aster_ml_state_read(&saved, &context, path));
  check(aster_ml_state_load(&loaded.state, &saved));
  predict(again, &loaded);
  for (int i = 0; i < TESTED; ++i) right += read[i] == labels[TRAINED + i];
  const int same = memcmp(read, again, sizeof(read)) == 0;
  printf("%.2f %% of %d test digits right, read back %s\n", 100.0 * right / TESTED, TESTED,
         same ? "alike" : "DIFFERENT");
  free_network(&net), free_network(&loaded), check(aster_ml_state_free(&saved));
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return same && right >= 0.98 * TESTED ? 0 : 1;
}
