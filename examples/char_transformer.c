/* Trains a small transformer to write like a text, letter by letter, then lets it write:
 * char_transformer examples/data/gpl-3.txt [STEPS]
 *
 * Writing keeps the keys and values of earlier letters in memory of a fixed size; the position is a
 * tensor, so that one recorded program serves every letter. */
#include <math.h>
#include <string.h>

#include "builders.h"
#include "check.h"

enum { WIDTH = 64, HEADS = 4, BLOCKS = 2, WINDOW = 64, BATCH = 32, PROMPT = 32, WRITTEN = 300 };
static const double kTemperature = 0.5;

/* ---- Builders that are not in builders.h ---- */

UNARY(gelu)
BINARY(add)
BINARY(mul)
BINARY(le)

static tensor count_to(int64_t n) {
  tensor y;
  aster_ml_lazy_arange(&y, &context, 0, n, 1, 0);
  return y;
}

/* ---- The network: layers in a table ---- */

enum { LETTER, POSITION, NORM, HEAD, FIRST_BLOCK };        /* one of each */
enum { NORM1, QKV, OUT, NORM2, UP, DOWN, LAYERS_A_BLOCK }; /* in every block */
enum { LAYERS = FIRST_BLOCK + BLOCKS * LAYERS_A_BLOCK };
static aster_ml_layer net[LAYERS];

static void make_network(aster_ml_state *state, int64_t letters) {
  const int64_t width[] = {WIDTH};
  check(aster_ml_embedding_init(&net[LETTER], &context, letters, WIDTH));
  check(aster_ml_embedding_init(&net[POSITION], &context, WINDOW, WIDTH));
  check(aster_ml_layer_norm_init(&net[NORM], &context, 1, width, 1e-5, 1));
  check(aster_ml_linear_init(&net[HEAD], &context, WIDTH, letters, 1));
  for (aster_ml_layer *b = net + FIRST_BLOCK; b < net + LAYERS; b += LAYERS_A_BLOCK) {
    check(aster_ml_layer_norm_init(&b[NORM1], &context, 1, width, 1e-5, 1));
    check(aster_ml_linear_init(&b[QKV], &context, WIDTH, 3 * WIDTH, 1));
    check(aster_ml_linear_init(&b[OUT], &context, WIDTH, WIDTH, 1));
    check(aster_ml_layer_norm_init(&b[NORM2], &context, 1, width, 1e-5, 1));
    check(aster_ml_linear_init(&b[UP], &context, WIDTH, 4 * WIDTH, 1));
    check(aster_ml_linear_init(&b[DOWN], &context, 4 * WIDTH, WIDTH, 1));
  }
  check(aster_ml_state_init(state, &context));
  for (int i = 0; i < LAYERS; ++i) {
    char name[16];
    snprintf(name, sizeof(name), "layer%d.", i);
    check(aster_ml_state_set_layer(state, name, &net[i]));
  }
}

static tensor run(const aster_ml_layer *layer, tensor x) {
  tensor y;
  aster_ml_layer_run(&y, layer, &x, 1);
  return y;
}

/* Queries, keys and values of [batch, n, WIDTH]: [3, batch, HEADS, n, WIDTH / HEADS]. */
static tensor split(const aster_ml_layer *block, tensor x) {
  const int64_t shape[] = {aster_ml_lazy_dim(&x, 0), aster_ml_lazy_dim(&x, 1), 3, HEADS, -1};
  tensor y, qkv = reshape(run(&block[QKV], run(&block[NORM1], x)), 5, shape);
  aster_ml_lazy_permute(&y, &qkv, 5, (int64_t[]){2, 0, 3, 1, 4});
  return y;
}

/* The rest of a block, given what its heads attend to. */
static tensor join(const aster_ml_layer *block, tensor x, tensor heads) {
  const int64_t shape[] = {aster_ml_lazy_dim(&x, 0), aster_ml_lazy_dim(&x, 1), WIDTH};
  tensor rows;
  aster_ml_lazy_transpose(&rows, &heads, 1, 2);
  x = t_add(x, run(&block[OUT], reshape(rows, 3, shape)));
  return t_add(x, run(&block[DOWN], t_gelu(run(&block[UP], run(&block[NORM2], x)))));
}

/* mask null: every letter sees those before it. */
static tensor attend(tensor q, tensor k, tensor v, const tensor *mask) {
  tensor y;
  aster_ml_lazy_scaled_dot_product_attention(&y, &q, &k, &v, mask, 0, mask == NULL, 0, 0);
  return y;
}

/* What follows each letter of [batch, n]: logits [batch, n, letters]. */
static tensor forward(tensor tokens) {
  tensor x = t_add(run(&net[LETTER], tokens),
                   run(&net[POSITION], count_to(aster_ml_lazy_dim(&tokens, 1))));
  for (aster_ml_layer *b = net + FIRST_BLOCK; b < net + LAYERS; b += LAYERS_A_BLOCK) {
    tensor qkv = split(b, x);
    x = join(b, x, attend(at(qkv, 0, 0), at(qkv, 0, 1), at(qkv, 0, 2), NULL));
  }
  return run(&net[HEAD], run(&net[NORM], x));
}

/* What follows the letter [1] at a position [1]: logits [letters]. cache, of BLOCKS times keys and
 * values, holds what came before; this letter's are written into it. */
static tensor follow(tensor token, tensor position, tensor *cache) {
  const aster_ml_index all = {ASTER_ML_INDEX_SLICE, INT64_MIN, INT64_MAX, 1, NULL};
  const int64_t one[] = {1, 1, WIDTH}, pair[] = {2, HEADS, 1, -1},
                batch[] = {2, 1, HEADS, WINDOW, -1};
  tensor x = reshape(t_add(run(&net[LETTER], token), run(&net[POSITION], position)), 3, one);
  tensor seen = t_le(count_to(WINDOW), position);
  for (int i = 0; i < BLOCKS; ++i) {
    const aster_ml_layer *b = net + FIRST_BLOCK + i * LAYERS_A_BLOCK;
    tensor qkv = split(b, x), added, kept;
    aster_ml_lazy_slice(&added, &qkv, 1, (int64_t[]){1}, (int64_t[]){3}, NULL);
    added = reshape(added, 4, pair);
    const aster_ml_index here[] = {{.kind = ASTER_ML_INDEX_INTEGER, .start = i},
                                   all,
                                   all,
                                   {.kind = ASTER_ML_INDEX_TENSOR, .tensor = &position}};
    check(aster_ml_lazy_index_assign(cache, 4, here, &added));
    kept = reshape(at(*cache, 0, i), 5, batch);
    x = join(b, x, attend(at(qkv, 0, 0), at(kept, 0, 0), at(kept, 0, 1), &seen));
  }
  return reshape(run(&net[HEAD], run(&net[NORM], x)), 1, (int64_t[]){-1});
}

/* ---- Training ---- */

/* The mean loss of BATCH random windows of the text, in nats a letter. */
static tensor loss_of(tensor text) {
  tensor starts, windows, before, after, logits, loss;
  aster_ml_lazy_randint(&starts, &context, 0, aster_ml_lazy_count(&text) - WINDOW, 0, 2,
                        (int64_t[]){BATCH, 1});
  tensor places = t_add(starts, count_to(WINDOW + 1));
  const aster_ml_index at = {.kind = ASTER_ML_INDEX_TENSOR, .tensor = &places};
  aster_ml_lazy_index(&windows, &text, 1, &at);
  aster_ml_lazy_slice(&before, &windows, 2, (int64_t[]){0, 0}, (int64_t[]){BATCH, -1}, NULL);
  aster_ml_lazy_slice(&after, &windows, 2, (int64_t[]){0, 1}, (int64_t[]){BATCH, INT64_MAX}, NULL);
  logits = forward(before);
  aster_ml_lazy_cross_entropy(&loss, &logits, &after, NULL);
  return loss;
}

/* The loss of the first step, and a mean of the last ones. */
static void train(float *first, float *last, const aster_ml_state *state, tensor text, int steps) {
  const aster_ml_adam_options options = {
      .struct_size = sizeof(options), .rate = 0.003, .weight_decay = 0.01};
  aster_ml_optimizer adam;
  aster_ml_program step;
  aster_ml_tensor result = {0};
  check(aster_ml_adam_init(&adam, state, &options));
  check(aster_ml_engine_capture_begin(&context, NULL, 0));
  tensor loss = loss_of(text), *outputs[] = {&loss};
  check(aster_ml_optimizer_step(&adam, &loss));
  check(aster_ml_engine_capture_end(&step, &context, outputs, 1));
  check(aster_ml_lazy_copy_out(first, sizeof(*first), &loss));
  *last = *first;
  for (int i = 1; i < steps; ++i) {
    check(aster_ml_program_run(&step, NULL, NULL, 0, &result, 1));
    *last = 0.95F * *last + 0.05F * *(const float *)result.storage.data;
    if (i % 100 == 99) printf("step %4d, loss %.3f nats a letter\n", i + 1, (double)*last);
  }
  if (result.storage.data) check(aster_ml_tensor_free(&result));
  check(aster_ml_program_free(&step));
  check(aster_ml_optimizer_free(&adam));
}

/* ---- Writing ---- */

/* Records how a letter is drawn after another one: the results are logits and letter. */
static void record(aster_ml_program *out, aster_ml_tensor *inputs) {
  const int64_t shape[] = {BLOCKS, 2, HEADS, WINDOW, WIDTH / HEADS};
  tensor token, position, cache, sharpness, chances, logits, drawn;
  tensor *ins[] = {&token, &position}, *outs[] = {&logits, &drawn};
  check(aster_ml_lazy_zeros(&cache, &context, 0, 5, shape));
  check(aster_ml_lazy_realize((tensor *[]){&cache}, 1));
  check(aster_ml_lazy_from_tensor(&token, &context, &inputs[0]));
  check(aster_ml_lazy_from_tensor(&position, &context, &inputs[1]));
  check(aster_ml_engine_capture_begin(&context, ins, 2));
  logits = follow(token, position, &cache);
  aster_ml_lazy_number(&sharpness, &context, 1 / kTemperature);
  tensor scaled = t_mul(logits, sharpness);
  aster_ml_lazy_softmax(&chances, &scaled, -1);
  aster_ml_lazy_multinomial(&drawn, &chances, 1, 0);
  check(aster_ml_engine_capture_end(out, &context, outs, 2));
}

/* How far the logits after a window are from those that the network gives without a cache. */
static float compare(const int32_t *window, size_t count, const float *cached, size_t letters) {
  tensor tokens, last;
  float all[256], error = 0;
  aster_ml_lazy_from(&tokens, &context, window, ASTER_ML_DTYPE_INT32, 2,
                     (int64_t[]){1, (int64_t)count});
  last = at(at(forward(tokens), 0, 0), 0, -1);
  check(aster_ml_lazy_copy_out(all, letters * sizeof(*all), &last));
  for (size_t i = 0; i < letters; ++i) error = fmaxf(error, fabsf(all[i] - cached[i]));
  return error;
}

/* Prints the prompt and WRITTEN letters more; the error of compare. */
static float write_on(const char *letters, const int32_t *prompt) {
  int32_t window[WINDOW + 1];
  size_t count = PROMPT, fed = 0;
  aster_ml_program step;
  aster_ml_tensor inputs[2], outputs[2];
  for (int i = 0; i < 2; ++i) {
    check(aster_ml_tensor_init(&inputs[i], &context, ASTER_ML_DTYPE_INT32, 0, 1, (size_t[]){1}));
    *(int32_t *)inputs[i].storage.data = 0;
  }
  memset(outputs, 0, sizeof(outputs)); /* the program lends its memory */
  record(&step, inputs);
  memcpy(window, prompt, PROMPT * sizeof(*prompt));
  for (int i = 0; i < PROMPT; ++i) putchar(letters[prompt[i]]);
  for (int i = 0; i < WRITTEN; ++i) {
    if (count > WINDOW) { /* its second half begins the next one */
      memmove(window, window + count - WINDOW / 2, WINDOW / 2 * sizeof(*window));
      count = WINDOW / 2, fed = 0;
    }
    for (; fed < count; ++fed) {
      *(int32_t *)inputs[0].storage.data = window[fed];
      *(int32_t *)inputs[1].storage.data = (int32_t)fed;
      check(aster_ml_program_run(&step, NULL, inputs, 2, outputs, 2));
    }
    window[count] = *(const int32_t *)outputs[1].storage.data;
    putchar(letters[window[count++]]);
  }
  puts("");
  const float error = compare(window, fed, outputs[0].storage.data, strlen(letters));
  for (int i = 0; i < 2; ++i) {
    check(aster_ml_tensor_free(&inputs[i]));
    check(aster_ml_tensor_free(&outputs[i]));
  }
  check(aster_ml_program_free(&step));
  return error;
}

/* A text as numbers, in the order of their codes, of the letters it has; how many it has read. */
static size_t read_text(int32_t *codes, size_t capacity, char *letters, FILE *file) {
  static unsigned char text[1 << 20];
  int32_t code[256] = {0}, known = 0;
  const size_t count = fread(text, 1, capacity < sizeof(text) ? capacity : sizeof(text), file);
  for (size_t i = 0; i < count; ++i) code[text[i]] = 1;
  for (int c = 1; c < 256; ++c) {
    if (code[c]) letters[known] = (char)c, code[c] = known++;
  }
  letters[known] = 0;
  for (size_t i = 0; i < count; ++i) codes[i] = code[text[i]];
  return count;
}

int main(int argc, char **argv) {
  static int32_t codes[1 << 20];
  char letters[256];
  const int steps = argc > 2 ? number(argv[2]) : 500;
  FILE *file = argc > 1 && argc < 4 && steps > 0 ? fopen(argv[1], "rb") : NULL;
  const size_t count = file ? read_text(codes, 1 << 20, letters, file) : 0;
  if (file) fclose(file);
  if (count < 2 * WINDOW) {
    return fputs("usage: char_transformer examples/data/gpl-3.txt [STEPS]\n", stderr), 2;
  }
  aster_ml_scope scope;
  aster_ml_state state;
  tensor text;
  float first, last;
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context));
  check(aster_ml_lazy_manual_seed(&context, 7));
  make_network(&state, (int64_t)strlen(letters));
  check(aster_ml_lazy_from(&text, &context, codes, ASTER_ML_DTYPE_INT32, 1,
                           (int64_t[]){(int64_t)count}));
  train(&first, &last, &state, text, steps);
  const float error = write_on(letters, codes);
  printf("with and without a cache, logits differ by %.1e at most\n", (double)error);
  for (int i = 0; i < LAYERS; ++i) aster_ml_layer_free(&net[i]);
  aster_ml_state_free(&state);
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return (steps < 2 || last < first) && error < 1e-3F ? 0 : 1;
}
