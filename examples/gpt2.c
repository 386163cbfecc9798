/* Writes on from a text with GPT-2, or a network of its shape:
 * gpt2 FOLDER TEXT [TOKENS] [BITS] [TEMPERATURE]
 *
 * FOLDER has what is published: model.safetensors and merges.txt. BITS are those of a weight: 32
 * (as in the file, which is mapped), 8 or 4. TEMPERATURE 0 takes the likeliest token, always. */
#include <string.h>
#include <time.h>

#include "builders.h"
#include "check.h"
#include "tokenizer.h"

/* Width of a head; inputs that share a scale; tokens to draw from. */
enum { HEAD = 64, GROUP = 32, TOP = 40, MOST_LAYERS = 48, MOST_TEXT = 4096 };

/* ---- Builders that are not in builders.h ---- */

UNARY(abs)
UNARY(round)
UNARY(gelu)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(maximum)
BINARY(le)
BINARY(shr)
BINARY(bitwise_and)
BINARY(matmul)

static tensor whole(int64_t value) {
  tensor y;
  aster_ml_lazy_integer(&y, &context, value);
  return y;
}

static tensor swap(tensor x, int64_t axis0, int64_t axis1) {
  tensor y;
  aster_ml_lazy_transpose(&y, &x, axis0, axis1);
  return y;
}

/* Rows of x, by their numbers. */
static tensor take(tensor x, tensor numbers) {
  const aster_ml_index items = {.kind = ASTER_ML_INDEX_TENSOR, .tensor = &numbers};
  tensor y;
  aster_ml_lazy_index(&y, &x, 1, &items);
  return y;
}

static void halves(tensor *out, tensor x, int64_t axis) {
  size_t count;
  aster_ml_lazy_chunk(out, &count, 2, &x, axis);
}

/* ---- Layers ---- */

/* x @ rows.T + bias, rows [outputs, inputs]. Of 8 bits they are int8, times a scale for every
 * output; of 4 bits there is a scale for GROUP inputs, and two weights share a byte: the low four
 * bits are of the first half of inputs. */
typedef struct linear {
  int bits;
  tensor rows, scale, bias;
} linear;

static void reduce(linear *layer, int bits) {
  const int64_t outputs = aster_ml_lazy_dim(&layer->rows, 0), last = 2;
  tensor groups = reshape(layer->rows, 3, (int64_t[]){outputs, bits == 4 ? -1 : 1, GROUP}), most;
  if (bits == 8) groups = reshape(layer->rows, 3, (int64_t[]){outputs, 1, -1});
  const tensor size = t_abs(groups);
  aster_ml_lazy_max(&most, &size, 1, &last, 1);
  layer->scale = t_maximum(t_div(most, real(bits == 8 ? 127 : 7)), real(1e-20));
  const tensor numbers = t_round(t_div(groups, layer->scale));
  if (bits == 8) {
    layer->rows = reshape(cast(numbers, ASTER_ML_DTYPE_INT8), 2, (int64_t[]){outputs, -1});
    layer->scale = reshape(layer->scale, 1, (int64_t[]){outputs});
  } else {
    tensor half[2];
    halves(half, cast(t_add(numbers, real(8)), ASTER_ML_DTYPE_UINT8), 1);
    layer->rows = t_add(half[0], t_mul(half[1], whole(16)));
  }
  check(aster_ml_lazy_realize((tensor *[]){&layer->rows, &layer->scale}, 2));
}

static tensor apply(const linear *layer, tensor x) {
  tensor y;
  if (layer->bits == 32) {
    y = t_matmul(x, swap(layer->rows, 0, 1));
  } else if (layer->bits == 8) {
    y = t_mul(t_matmul(x, swap(cast(layer->rows, ASTER_ML_DTYPE_FLOAT32), 0, 1)), layer->scale);
  } else { /* a sum of two products: unpacked weights are stored nowhere */
    const int64_t outputs = aster_ml_lazy_dim(&layer->scale, 0);
    const tensor nibbles[] = {t_bitwise_and(layer->rows, whole(15)), t_shr(layer->rows, whole(4))};
    tensor parts[2], scales[2], products[2];
    halves(parts, x, -1);
    halves(scales, layer->scale, 1);
    for (int i = 0; i < 2; ++i) {
      const tensor weights = cast(nibbles[i], ASTER_ML_DTYPE_FLOAT32);
      const tensor rows = t_mul(t_sub(weights, real(8)), scales[i]);
      products[i] = t_matmul(parts[i], swap(reshape(rows, 2, (int64_t[]){outputs, -1}), 0, 1));
    }
    y = t_add(products[0], products[1]);
  }
  return layer->bias.impl ? t_add(y, layer->bias) : y;
}

typedef struct norm {
  tensor weight, bias;
} norm;

static tensor normal(const norm *layer, tensor x) {
  tensor y;
  aster_ml_lazy_layer_norm(&y, &x, 1, &layer->weight, &layer->bias, 1e-5);
  return y;
}

/* ---- The network, and its file ---- */

typedef struct block {
  norm norm1, norm2;
  linear qkv, out, up, down;
} block;

static struct {
  int64_t layers, heads, width, window;
  tensor token, position, cache;
  block blocks[MOST_LAYERS];
  norm last;
  linear scores;
} net;

/* A tensor of the file; layer -1: none of a layer. */
static tensor get(const aster_ml_state *file, int layer, const char *name, const char *part) {
  char full[64], longer[80];
  tensor y;
  if (layer < 0) snprintf(full, sizeof(full), "%s.%s", name, part);
  if (layer >= 0) snprintf(full, sizeof(full), "h.%d.%s.%s", layer, name, part);
  snprintf(longer, sizeof(longer), "transformer.%s", full);
  if (aster_ml_state_get(&y, file, longer)) check(aster_ml_state_get(&y, file, full));
  return y;
}

static norm get_norm(const aster_ml_state *file, int layer, const char *name) {
  return (norm){get(file, layer, name, "weight"), get(file, layer, name, "bias")};
}

/* Published turned: [inputs, outputs]. */
static linear get_linear(const aster_ml_state *file, int layer, const char *name, int bits) {
  linear out = {.bits = bits, .bias = get(file, layer, name, "bias")};
  out.rows = swap(get(file, layer, name, "weight"), 0, 1);
  if (bits != 32) reduce(&out, bits);
  return out;
}

static void make_network(const aster_ml_state *file, int bits) {
  net.token = get(file, -1, "wte", "weight");
  net.position = get(file, -1, "wpe", "weight");
  net.window = aster_ml_lazy_dim(&net.position, 0);
  net.width = aster_ml_lazy_dim(&net.position, 1);
  net.heads = net.width / HEAD;
  for (size_t i = 0; i < aster_ml_state_count(file); ++i) {
    net.layers += strstr(aster_ml_state_name(file, i), ".ln_1.weight") != NULL;
  }
  if (net.layers > MOST_LAYERS) net.layers = MOST_LAYERS;
  for (int i = 0; i < net.layers; ++i) {
    net.blocks[i] = (block){.norm1 = get_norm(file, i, "ln_1"),
                            .norm2 = get_norm(file, i, "ln_2"),
                            .qkv = get_linear(file, i, "attn.c_attn", bits),
                            .out = get_linear(file, i, "attn.c_proj", bits),
                            .up = get_linear(file, i, "mlp.c_fc", bits),
                            .down = get_linear(file, i, "mlp.c_proj", bits)};
  }
  net.last = get_norm(file, -1, "ln_f");
  net.scores = (linear){.bits = bits, .rows = net.token};
  if (bits != 32) reduce(&net.scores, bits);
  const int64_t shape[] = {net.layers, 2, net.heads, net.window, HEAD};
  check(aster_ml_lazy_zeros(&net.cache, &context, 0, 5, shape));
  check(aster_ml_lazy_realize((tensor *[]){&net.cache}, 1));
}

/* What each of n tokens takes from those before it; their keys and values are kept. */
static tensor attend(int layer, tensor x, tensor places) {
  const aster_ml_index all = {ASTER_ML_INDEX_SLICE, INT64_MIN, INT64_MAX, 1, NULL};
  const aster_ml_index here[] = {{.kind = ASTER_ML_INDEX_INTEGER, .start = layer},
                                 all,
                                 all,
                                 {.kind = ASTER_ML_INDEX_TENSOR, .tensor = &places}};
  const int64_t one = net.heads, shape[] = {-1, 3 * net.heads, HEAD}, kept[] = {2, one, -1, HEAD};
  tensor parts[3], numbers, y, query, added;
  tensor qkv = swap(reshape(apply(&net.blocks[layer].qkv, x), 3, shape), 0, 1);
  aster_ml_lazy_split(parts, 2, &qkv, (int64_t[]){one, 2 * one}, 0);
  query = reshape(parts[0], 4, (int64_t[]){1, one, -1, HEAD});
  added = reshape(parts[1], 4, kept);
  check(aster_ml_lazy_index_assign(&net.cache, 4, here, &added));
  const tensor mine = at(net.cache, 0, layer);
  const tensor keys = reshape(at(mine, 0, 0), 4, (int64_t[]){1, one, -1, HEAD});
  const tensor values = reshape(at(mine, 0, 1), 4, (int64_t[]){1, one, -1, HEAD});
  aster_ml_lazy_arange(&numbers, &context, 0, net.window, 1, 0);
  const tensor seen = t_le(numbers, reshape(places, 2, (int64_t[]){-1, 1}));
  aster_ml_lazy_scaled_dot_product_attention(&y, &query, &keys, &values, &seen, 0, 0, 0, 0);
  return reshape(swap(at(y, 0, 0), 0, 1), 2, (int64_t[]){-1, net.width});
}

/* Scores [words] of what follows n tokens that stand at these places of the text. */
static tensor forward(tensor tokens, tensor places) {
  tensor x = t_add(take(net.token, tokens), take(net.position, places));
  for (int i = 0; i < net.layers; ++i) {
    const block *b = &net.blocks[i];
    x = t_add(x, apply(&b->out, attend(i, normal(&b->norm1, x), places)));
    x = t_add(x, apply(&b->down, t_gelu(apply(&b->up, normal(&b->norm2, x)))));
  }
  x = reshape(at(x, 0, -1), 2, (int64_t[]){1, -1});
  return reshape(apply(&net.scores, normal(&net.last, x)), 1, (int64_t[]){-1});
}

/* One of the TOP likeliest tokens [1]. */
static tensor draw(tensor scores, double temperature) {
  tensor values, numbers, chances, drawn;
  if (temperature == 0) {
    aster_ml_lazy_argmax(&drawn, &scores, 0, 1);
    return drawn;
  }
  aster_ml_lazy_topk(&values, &numbers, &scores, TOP, 0, 1);
  const tensor scaled = t_div(values, real(temperature));
  aster_ml_lazy_softmax(&chances, &scaled, -1);
  aster_ml_lazy_multinomial(&drawn, &chances, 1, 0);
  return take(numbers, drawn);
}

/* ---- Writing ---- */

static tensor integers(const int32_t *values, int count) {
  tensor y;
  aster_ml_lazy_from(&y, &context, values, ASTER_ML_DTYPE_INT32, 1, (int64_t[]){count});
  return y;
}

/* Records how the token behind another one is drawn, which writes the first one. */
static tensor record(aster_ml_program *out, aster_ml_tensor *inputs, double temperature) {
  tensor token, place, next;
  check(aster_ml_lazy_from_tensor(&token, &context, &inputs[0]));
  check(aster_ml_lazy_from_tensor(&place, &context, &inputs[1]));
  check(aster_ml_engine_capture_begin(&context, (tensor *[]){&token, &place}, 2));
  next = draw(forward(token, place), temperature);
  check(aster_ml_engine_capture_end(out, &context, (tensor *[]){&next}, 1));
  return next;
}

/* Puts count tokens behind those that are there; milliseconds of each but the first two. */
static double write_on(int32_t *tokens, int known, int count, double temperature) {
  int32_t places[MOST_TEXT], *given[2];
  aster_ml_program step; /* one for every place: the place is a tensor */
  aster_ml_tensor inputs[2], output = {0};
  struct timespec begin, end;
  for (int i = 0; i < known; ++i) places[i] = i;
  tensor next = draw(forward(integers(tokens, known), integers(places, known)), temperature);
  check(aster_ml_lazy_copy_out(&tokens[known], sizeof(*tokens), &next));
  for (int i = 0; i < 2; ++i) {
    check(aster_ml_tensor_init(&inputs[i], &context, ASTER_ML_DTYPE_INT32, 0, 1, (size_t[]){1}));
    given[i] = inputs[i].storage.data;
  }
  *given[0] = tokens[known], *given[1] = known;
  next = record(&step, inputs, temperature);
  if (count > 1) check(aster_ml_lazy_copy_out(&tokens[known + 1], sizeof(*tokens), &next));
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = known + 1; i + 1 < known + count; ++i) {
    *given[0] = tokens[i], *given[1] = i;
    check(aster_ml_program_run(&step, NULL, inputs, 2, &output, 1));
    tokens[i + 1] = *(const int32_t *)output.storage.data;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (output.storage.data) check(aster_ml_tensor_free(&output));
  for (int i = 0; i < 2; ++i) check(aster_ml_tensor_free(&inputs[i]));
  check(aster_ml_program_free(&step));
  const double seconds =
      (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
  return 1e3 * seconds / (count > 2 ? count - 2 : 1);
}

static void print(const int32_t *tokens, int count, double milliseconds) {
  for (int i = 0; i < count; ++i) {
    if (tokens[i] >= vocabulary.count) continue; /* none of merges.txt */
    fwrite(vocabulary.tokens[tokens[i]].text, 1, (size_t)vocabulary.tokens[tokens[i]].length,
           stdout);
  }
  printf("\ntokens");
  for (int i = 0; i < count; ++i) printf(" %d", (int)tokens[i]);
  printf("\n%.1f ms a token\n", milliseconds);
}

int main(int argc, char **argv) {
  static int32_t tokens[MOST_TEXT];
  char path[4096];
  const int count = argc > 3 ? number(argv[3]) : 40, bits = argc > 4 ? number(argv[4]) : 8;
  const double temperature = argc > 5 ? strtod(argv[5], NULL) : 0.8;
  if (argc < 3 || argc > 6 || count < 1 || (bits != 32 && bits != 8 && bits != 4)) {
    return fputs("usage: gpt2 FOLDER TEXT [TOKENS] [BITS] [TEMPERATURE]\n", stderr), 2;
  }
  aster_ml_scope scope;
  aster_ml_state file;
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context));
  check(aster_ml_lazy_manual_seed(&context, 7));
  snprintf(path, sizeof(path), "%s/merges.txt", argv[1]);
  if (!read_merges(path)) return fprintf(stderr, "%s cannot be read\n", path), 1;
  snprintf(path, sizeof(path), "%s/model.safetensors", argv[1]);
  check(aster_ml_state_read(&file, &context, path));
  make_network(&file, bits);
  const int known = encode(tokens, MOST_TEXT, argv[2]);
  const int room = net.window < MOST_TEXT ? (int)net.window : MOST_TEXT;
  if (known == 0 || known > room - count) {
    return fprintf(stderr, "%d tokens and %d more do not fit into %d\n", known, count, room), 1;
  }
  const double milliseconds = write_on(tokens, known, count, temperature);
  print(tokens, known + count, milliseconds);
  aster_ml_state_free(&file);
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return 0;
}
