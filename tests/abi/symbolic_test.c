/* Symbolic dimensions from plain C: every function on tensors of n rows against the same on tensors
 * cut to them, at once and by one captured program for all n; and what is wrong with them. */
#include <aster_ml/aster_ml.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

#define OK(call)                                                                     \
  do {                                                                               \
    const int32_t status_ = (call);                                                  \
    if (status_ != 0) {                                                              \
      aster_ml_error error_;                                                         \
      aster_ml_error_last(&error_);                                                  \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, error_.message); \
      expect_failures++;                                                             \
    }                                                                                \
  } while (0)

/* That a call fails so, and says what. */
static void fails(int line, int32_t status, int32_t wanted, const char *part) {
  aster_ml_error error;
  aster_ml_error_last(&error);
  if (status == wanted && strstr(error.message, part) != NULL) return;
  fprintf(stderr, "line %d: status %d, \"%s\"; wanted %d, \"%s\"\n", line, status, error.message,
          wanted, part);
  expect_failures++;
}
#define FAILS(call, wanted, part) fails(__LINE__, (call), (wanted), (part))

enum { MOST = 7, WIDTH = 6 };
static aster_ml_context context;
static size_t every; /* of the functions: 1 is all */
static const aster_ml_uop *n;
static aster_ml_lazy base, other, scratch; /* MOST x WIDTH, WIDTH x MOST */

static aster_ml_dim number(int64_t value) {
  const aster_ml_dim dim = {value, NULL};
  return dim;
}
static aster_ml_dim bound(int64_t value) {
  aster_ml_dim dim = {0, NULL};
  OK(aster_ml_symbolic_bind(&dim.expression, &context, n, "n", value));
  return dim;
}
/* The first rows and columns. */
static void part(aster_ml_lazy *out, const aster_ml_lazy *x, aster_ml_dim rows,
                 aster_ml_dim width) {
  const aster_ml_dim begin[2] = {{0, NULL}, {0, NULL}}, end[2] = {rows, width};
  OK(aster_ml_lazy_shrink_dims(out, x, 2, begin, end));
}

/* ---- What is tried: y of x, rows x WIDTH, and t, WIDTH x rows ---- */

typedef void (*build)(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                      aster_ml_dim rows);

static void do_exp(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                   aster_ml_dim rows) {
  (void)t, (void)rows;
  OK(aster_ml_lazy_exp(y, x));
}
static void do_add(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                   aster_ml_dim rows) {
  aster_ml_lazy turned = {0};
  (void)rows;
  OK(aster_ml_lazy_transpose(&turned, t, 0, 1));
  OK(aster_ml_lazy_add(y, x, &turned));
}
#define ALONG(name, call)                                                                 \
  static void do_##name(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t, \
                        aster_ml_dim rows) {                                              \
    const int64_t axes[] = {0, 1};                                                        \
    (void)axes, (void)x, (void)t, (void)rows;                                             \
    OK(call);                                                                             \
  }
ALONG(sum, aster_ml_lazy_sum(y, x, 1, axes, 0))
ALONG(sum_all, aster_ml_lazy_sum(y, x, 0, NULL, 0))
ALONG(sum_rows, aster_ml_lazy_sum(y, x, 1, axes + 1, 1))
ALONG(prod, aster_ml_lazy_prod(y, x, 1, axes, 1))
ALONG(max, aster_ml_lazy_max(y, x, 1, axes, 0))
ALONG(min, aster_ml_lazy_min(y, x, 2, axes, 0))
ALONG(mean, aster_ml_lazy_mean(y, x, 1, axes, 0))
ALONG(mean_rows, aster_ml_lazy_mean(y, x, 1, axes + 1, 0))
ALONG(var, aster_ml_lazy_var(y, x, 2, axes, 0, 0))
ALONG(logsumexp, aster_ml_lazy_logsumexp(y, x, 1, axes, 0))
ALONG(softmax, aster_ml_lazy_softmax(y, x, 0))
ALONG(log_softmax, aster_ml_lazy_log_softmax(y, x, 1))
ALONG(argmax, aster_ml_lazy_argmax(y, x, 0, 0))
ALONG(argmin, aster_ml_lazy_argmin(y, x, 0, 1))
ALONG(flip, aster_ml_lazy_flip(y, x, 2, axes))
ALONG(select, aster_ml_lazy_select(y, x, 0, -1))
ALONG(unsqueeze, aster_ml_lazy_unsqueeze(y, x, 1))
ALONG(flatten, aster_ml_lazy_flatten(y, x, 0, 1))
ALONG(flatten_turned, aster_ml_lazy_flatten(y, t, 0, 1))
ALONG(product, aster_ml_lazy_matmul(y, x, t))
ALONG(inner, aster_ml_lazy_matmul(y, t, x))
ALONG(any, aster_ml_lazy_any(y, x, 1, axes, 0))
ALONG(all, aster_ml_lazy_all(y, x, 1, axes, 0))
ALONG(sum_dtype, aster_ml_lazy_sum_dtype(y, x, 1, axes, 0, ASTER_ML_DTYPE_FLOAT32))
ALONG(prod_dtype, aster_ml_lazy_prod_dtype(y, x, 1, axes, 0, ASTER_ML_DTYPE_FLOAT32))
ALONG(std, aster_ml_lazy_std(y, x, 1, axes, 1, 0))
ALONG(normalize, aster_ml_lazy_normalize(y, x, 2, 0, 1e-12))
ALONG(softmin, aster_ml_lazy_softmin(y, x, 0, 0))
ALONG(softmax_dtype, aster_ml_lazy_softmax_dtype(y, x, 0, ASTER_ML_DTYPE_FLOAT32))
ALONG(layernorm, aster_ml_lazy_layernorm(y, x, 1, axes, 1e-5))
ALONG(layer_norm, aster_ml_lazy_layer_norm(y, x, 1, NULL, NULL, 1e-5))
ALONG(cumsum, aster_ml_lazy_cumsum(y, x, 0))
ALONG(cumprod, aster_ml_lazy_cumprod(y, x, 1))
ALONG(logcumsumexp, aster_ml_lazy_logcumsumexp(y, x, 0))
ALONG(argsort, aster_ml_lazy_argsort(y, x, 0, 0))
ALONG(argsort_down, aster_ml_lazy_argsort(y, x, 0, 1))
ALONG(tril, aster_ml_lazy_tril(y, x, 0))
ALONG(triu, aster_ml_lazy_triu(y, t, 1))
ALONG(elu, aster_ml_lazy_elu(y, x, 0.5))
ALONG(hardtanh, aster_ml_lazy_hardtanh(y, x, -0.5, 0.5))
ALONG(zeros_like, aster_ml_lazy_zeros_like(y, x, 0))
ALONG(cast, aster_ml_lazy_cast(y, x, ASTER_ML_DTYPE_INT32))
ALONG(clone, aster_ml_lazy_clone(y, x))
ALONG(contiguous, aster_ml_lazy_contiguous(y, x))
ALONG(one_hot, (aster_ml_lazy_argmax(&scratch, x, 1, 0), aster_ml_lazy_one_hot(y, &scratch, WIDTH)))
ALONG(sort, aster_ml_lazy_sort(y, &scratch, x, 0, 1))
ALONG(cummax, aster_ml_lazy_cummax(&scratch, y, x, 0))
ALONG(topk, aster_ml_lazy_topk(y, &scratch, x, 2, 1, 1))
ALONG(gather, (aster_ml_lazy_argsort(&scratch, x, 0, 1), aster_ml_lazy_gather(y, x, 0, &scratch)))
ALONG(attention, aster_ml_lazy_scaled_dot_product_attention(y, &base, x, x, NULL, 0, 0, 0, 0))
ALONG(attention_causal, aster_ml_lazy_scaled_dot_product_attention(y, x, x, x, NULL, 0, 1, 0, 0))
static const int64_t by[] = {2, -1}, times[] = {2, 3}, lead[] = {0, 1}, trail[] = {0, 2}, three = 3;
ALONG(roll, aster_ml_lazy_roll(y, x, 2, by, axes))
ALONG(repeat, aster_ml_lazy_repeat(y, x, 2, times))
ALONG(repeat_interleave, aster_ml_lazy_repeat_interleave(y, x, 2, 0))
ALONG(unfold, aster_ml_lazy_unfold(y, x, 0, 1, 2))
ALONG(unfold_beside, aster_ml_lazy_unfold(y, x, 1, 3, 1))
ALONG(diag, (aster_ml_lazy_select(&scratch, x, 1, 0), aster_ml_lazy_diag(y, &scratch)))
ALONG(bitcast, aster_ml_lazy_bitcast(y, x, ASTER_ML_DTYPE_INT32))
ALONG(linear, aster_ml_lazy_linear(y, x, &other, NULL, 0))
ALONG(batchnorm, (aster_ml_lazy_select(&scratch, &base, 0, 0),
                  aster_ml_lazy_batchnorm(y, x, NULL, NULL, &scratch, &scratch, 1, axes + 1)))
ALONG(var_mean, aster_ml_lazy_var_mean(y, &scratch, x, 1, axes, 0, 0))
ALONG(std_mean, aster_ml_lazy_std_mean(&scratch, y, x, 1, axes, 0, 0))
ALONG(dot, aster_ml_lazy_dot(y, x, t, 0))
ALONG(pad_mode, aster_ml_lazy_pad_mode(y, x, 2, lead, trail, ASTER_ML_PADDING_REFLECT, NULL))
ALONG(pad_constant, aster_ml_lazy_pad_mode(y, x, 2, trail, lead, ASTER_ML_PADDING_CONSTANT, NULL))
ALONG(interpolate, aster_ml_lazy_interpolate(y, x, 1, &three, ASTER_ML_INTERPOLATION_LINEAR, 0))
/* One image of WIDTH channels and n positions, or of one channel, WIDTH x n. */
static const aster_ml_lazy *image_of(const aster_ml_lazy *t, size_t rank) {
  aster_ml_lazy one = {0};
  OK(aster_ml_lazy_unsqueeze(&scratch, t, 0));
  if (rank == 1) return &scratch;
  OK(aster_ml_lazy_unsqueeze(&one, &scratch, 0));
  scratch = one;
  return &scratch;
}
/* n images of one channel, 2 x 3. */
static const aster_ml_lazy *images_of(const aster_ml_lazy *x, aster_ml_dim rows) {
  const aster_ml_dim dims[4] = {rows, {1, NULL}, {2, NULL}, {3, NULL}};
  OK(aster_ml_lazy_reshape_dims(&scratch, x, 4, dims));
  return &scratch;
}
static const aster_ml_lazy *weight(size_t rank) {
  static aster_ml_lazy made;
  aster_ml_lazy cut = {0};
  const int64_t begin[2] = {0, 0}, end[2] = {6, 6};
  const int64_t line[3] = {3, WIDTH, 2}, square[4] = {9, 1, 2, 2}, turned[3] = {WIDTH, 3, 2};
  const int64_t *const shapes[3] = {line, square, turned};
  OK(aster_ml_lazy_shrink(&cut, &base, 2, begin, end));
  OK(aster_ml_lazy_reshape(&made, &cut, rank == 2 ? 4 : 3, shapes[rank - 1]));
  return &made;
}
static const int64_t steps[] = {2, 1}, unit[] = {1, 1}, pairs[] = {2, 2}, more_after[] = {0, 1};
static const aster_ml_conv_options conv_step = {
    .struct_size = sizeof conv_step, .stride = steps, .before = unit, .after = unit};
static const aster_ml_conv_options conv_back = {
    .struct_size = sizeof conv_back, .stride = pairs, .before = unit, .output_padding = unit};
static const aster_ml_pool_options pool_step = {
    .struct_size = sizeof pool_step, .stride = steps, .before = unit, .after = unit};
static const aster_ml_pool_options pool_inside = {.struct_size = sizeof pool_inside,
                                                  .stride = unit,
                                                  .before = unit,
                                                  .after = more_after,
                                                  .exclude_pad = 1};
static const aster_ml_pool_options pool_up = {
    .struct_size = sizeof pool_up, .stride = pairs, .ceil_mode = 1};
static aster_ml_lazy places;
ALONG(conv, aster_ml_lazy_conv(y, image_of(t, 1), weight(1), NULL, &conv_step))
ALONG(conv_square, aster_ml_lazy_conv(y, image_of(t, 2), weight(2), NULL, &conv_step))
ALONG(conv_images, aster_ml_lazy_conv(y, images_of(x, rows), weight(2), NULL, &conv_step))
ALONG(conv_transpose, aster_ml_lazy_conv_transpose(y, image_of(t, 1), weight(3), NULL, &conv_back))
ALONG(max_pool, aster_ml_lazy_max_pool(y, t, 2, pairs, &pool_step))
ALONG(max_pool_line, aster_ml_lazy_max_pool(y, t, 1, pairs, &pool_step))
ALONG(max_pool_beside, aster_ml_lazy_max_pool(y, x, 1, pairs, &pool_up))
ALONG(max_pool_places, aster_ml_lazy_max_pool_with_indices(&places, y, x, 2, pairs, &pool_step))
ALONG(avg_pool, aster_ml_lazy_avg_pool(y, t, 2, pairs, &pool_step))
ALONG(avg_pool_inside, aster_ml_lazy_avg_pool(y, t, 2, pairs, &pool_inside))
ALONG(max_unpool, (aster_ml_lazy_max_pool_with_indices(&scratch, &places, x, 1, pairs, NULL),
                   aster_ml_lazy_max_unpool(y, &scratch, &places, 1, pairs, NULL)))
static int32_t sums(aster_ml_lazy *y, const char *formula, const aster_ml_lazy *a,
                    const aster_ml_lazy *b) {
  const aster_ml_lazy *const both[2] = {a, b};
  return aster_ml_lazy_einsum(y, formula, both, b == NULL ? 1 : 2, 0);
}
ALONG(einsum, sums(y, "nc,dn->cd", x, t))
ALONG(einsum_beside, sums(y, "...c,c...->...", x, t))
ALONG(einsum_kept, sums(y, "nc,mc->nm", x, &base))
ALONG(einsum_diagonal, (aster_ml_lazy_matmul(&scratch, x, t), sums(y, "nn->n", &scratch, NULL)))
ALONG(einsum_trace, (aster_ml_lazy_matmul(&scratch, x, t), sums(y, "nn", &scratch, NULL)))
ALONG(svd, aster_ml_lazy_svdvals(y, images_of(x, rows)))
static aster_ml_dim_index item_of(int32_t kind, aster_ml_dim start, aster_ml_dim stop,
                                  int64_t step) {
  const aster_ml_dim_index item = {kind, start, stop, step, NULL};
  return item;
}
static aster_ml_dim_index slice_of(aster_ml_dim start, aster_ml_dim stop, int64_t step) {
  return item_of(ASTER_ML_INDEX_SLICE, start, stop, step);
}
static aster_ml_dim_index tensor_item(const aster_ml_lazy *tensor) {
  aster_ml_dim_index item = slice_of(number(0), number(0), 1);
  item.kind = ASTER_ML_INDEX_TENSOR;
  item.tensor = tensor;
  return item;
}
#define ALL slice_of(number(INT64_MIN), number(INT64_MAX), 1)
/* a op b of sizes; the scope's end leaves it to its caller. */
static aster_ml_dim combined(const char *op, aster_ml_dim a, int64_t b) {
  const aster_ml_dim right = number(b);
  aster_ml_dim out = {0, NULL};
  OK(aster_ml_symbolic_combine(&out.expression, &context, op, &a, &right));
  return out;
}
static void let_go(aster_ml_dim dim) { OK(aster_ml_uop_release(&context, dim.expression)); }
/* x[n - 1, 1:5:2], x[::-2, None], other[:, n // 2:n], x of rows by t's order. */
static void do_index(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                     aster_ml_dim rows) {
  const aster_ml_dim last = combined("Sub", rows, 1), half = combined("FloorDiv", rows, 2);
  aster_ml_lazy row = {0}, turned = {0}, late = {0}, sum = {0}, both = {0};
  const int64_t axis = 0, second[] = {1};
  const aster_ml_dim_index one[] = {item_of(ASTER_ML_INDEX_INTEGER, last, last, 0),
                                    slice_of(number(1), number(5), 2)};
  const aster_ml_dim_index back[] = {slice_of(number(INT64_MAX), number(INT64_MIN), -2),
                                     item_of(ASTER_ML_INDEX_NEW_AXIS, last, last, 0),
                                     slice_of(number(-2), number(INT64_MAX), 1)};
  const aster_ml_dim_index columns[] = {item_of(ASTER_ML_INDEX_ELLIPSIS, last, last, 0),
                                        slice_of(half, rows, 1)};
  (void)t;
  OK(aster_ml_lazy_index_dims(&row, x, 2, one));
  OK(aster_ml_lazy_index_dims(&turned, x, 3, back));
  OK(aster_ml_lazy_index_dims(&late, &other, 2, columns));
  OK(aster_ml_lazy_max(&sum, &late, 1, second, 0));
  OK(aster_ml_lazy_sum(&late, &sum, 1, &axis, 0));
  OK(aster_ml_lazy_mul(&both, &turned, &row));
  OK(aster_ml_lazy_add(y, &both, &late));
  let_go(last);
  let_go(half);
}
/* Rows by tensors: places that count from the end, beside columns by others. */
static void do_index_tensor(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                            aster_ml_dim rows) {
  aster_ml_lazy order = {0}, one = {0}, back = {0}, first = {0};
  (void)rows, (void)t;
  OK(aster_ml_lazy_argsort(&order, x, 0, 0)); /* n x WIDTH */
  OK(aster_ml_lazy_number(&one, &context, 1));
  OK(aster_ml_lazy_cast(&first, &one, ASTER_ML_DTYPE_INT32));
  OK(aster_ml_lazy_neg(&back, &order));
  OK(aster_ml_lazy_sub(&one, &back, &first)); /* -1 .. -n */
  const aster_ml_dim_index items[] = {tensor_item(&one), ALL};
  OK(aster_ml_lazy_index_dims(y, x, 2, items));
}
static void do_index_plain(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                           aster_ml_dim rows) {
  const aster_ml_index items[] = {
      {ASTER_ML_INDEX_INTEGER, -1, 0, 0, NULL},
      {ASTER_ML_INDEX_SLICE, INT64_MAX, INT64_MIN, -1, NULL},
  };
  (void)x, (void)rows;
  OK(aster_ml_lazy_index(y, t, 2, items));
}
/* A cache whose rows from n // 2 to n are written, and a column of it up to n. */
static void do_index_assign(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                            aster_ml_dim rows) {
  const aster_ml_dim half = combined("FloorDiv", rows, 2);
  aster_ml_lazy cache = {0}, part_of = {0}, column = {0};
  const aster_ml_dim_index late[] = {slice_of(half, rows, 1)};
  const aster_ml_dim_index ends[] = {slice_of(number(INT64_MIN), rows, 1),
                                     item_of(ASTER_ML_INDEX_INTEGER, number(-1), number(0), 0)};
  OK(aster_ml_lazy_mul(&cache, &base, &base));
  OK(aster_ml_lazy_index_dims(&part_of, x, 1, late));
  OK(aster_ml_lazy_index_assign_dims(&cache, 1, late, &part_of));
  OK(aster_ml_lazy_select(&column, t, 0, 2));
  OK(aster_ml_lazy_index_assign_dims(&cache, 2, ends, &column));
  OK(aster_ml_lazy_clone(y, &cache));
  let_go(half);
}
/* Of a tensor of n rows: its last row, every second one, and all of a column. */
static void do_index_assign_part(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                                 aster_ml_dim rows) {
  const aster_ml_dim last = combined("Sub", rows, 1);
  aster_ml_lazy row = {0}, column = {0}, value = {0};
  const aster_ml_dim_index at[] = {item_of(ASTER_ML_INDEX_INTEGER, last, last, 0)};
  const aster_ml_dim_index second[] = {slice_of(number(0), rows, 2),
                                       slice_of(number(1), number(3), 1)};
  const aster_ml_index all[] = {{ASTER_ML_INDEX_SLICE, INT64_MIN, INT64_MAX, 1, NULL},
                                {ASTER_ML_INDEX_INTEGER, 4, 0, 0, NULL}};
  OK(aster_ml_lazy_mul(&value, x, x));
  OK(aster_ml_lazy_select(&row, &base, 0, 1));
  OK(aster_ml_lazy_index_assign_dims(&value, 1, at, &row));
  OK(aster_ml_lazy_number(&row, &context, 3));
  OK(aster_ml_lazy_index_assign_dims(&value, 2, second, &row));
  OK(aster_ml_lazy_select(&column, t, 0, 2));
  OK(aster_ml_lazy_index_assign(&value, 2, all, &column));
  OK(aster_ml_lazy_clone(y, &value));
  let_go(last);
}
static const char *const names[] = {"a", "n"};
static void do_rearrange(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                         aster_ml_dim rows) {
  const aster_ml_dim sizes[] = {number(2), rows};
  (void)t;
  OK(aster_ml_lazy_rearrange_dims(y, x, "n (a b) -> b a n", 2, names, sizes));
}
static void do_rearrange_joined(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                                aster_ml_dim rows) {
  const int64_t two = 2;
  (void)x, (void)rows;
  OK(aster_ml_lazy_rearrange(y, t, "(a b) ... -> b (... a) 1", 1, names, &two));
}
/* Labels of the rows, below WIDTH. */
static aster_ml_lazy *labels_of(const aster_ml_lazy *x) {
  OK(aster_ml_lazy_argmax(&scratch, x, 1, 0));
  return &scratch;
}
static const int64_t ignored = 2;
ALONG(binary, aster_ml_lazy_binary_crossentropy_logits(y, x, x, NULL, ASTER_ML_REDUCTION_MEAN))
ALONG(binary_none, aster_ml_lazy_binary_crossentropy_logits(y, x, x, x, ASTER_ML_REDUCTION_NONE))
ALONG(probabilities, aster_ml_lazy_binary_crossentropy(y, x, x, ASTER_ML_REDUCTION_SUM))
ALONG(sparse, aster_ml_lazy_sparse_categorical_crossentropy(y, x, labels_of(x), -1, 0.1,
                                                            ASTER_ML_REDUCTION_MEAN))
ALONG(sparse_ignored, aster_ml_lazy_sparse_categorical_crossentropy(y, x, labels_of(x), 5, 0,
                                                                    ASTER_ML_REDUCTION_SUM))
ALONG(categorical,
      aster_ml_lazy_categorical_crossentropy(y, x, labels_of(x), 0.1, ASTER_ML_REDUCTION_MEAN))
ALONG(soft_labels, aster_ml_lazy_categorical_crossentropy(y, x, x, 0, ASTER_ML_REDUCTION_MEAN))
ALONG(soft_labels_none, aster_ml_lazy_categorical_crossentropy(y, x, x, 0, ASTER_ML_REDUCTION_NONE))
ALONG(nll, aster_ml_lazy_nll_loss(y, x, labels_of(x), NULL, NULL, ASTER_ML_REDUCTION_MEAN))
ALONG(nll_ignored, (labels_of(x),
                    aster_ml_lazy_nll_loss(y, x, &scratch, NULL, &ignored, ASTER_ML_REDUCTION_SUM)))
ALONG(scatter, (aster_ml_lazy_argsort(&scratch, x, 1, 0),
                aster_ml_lazy_scatter(y, &base, 1, &scratch, x, ASTER_ML_SCATTER_ADD, 1)))
ALONG(scatter_rows, (aster_ml_lazy_argsort(&scratch, x, 0, 0),
                     aster_ml_lazy_scatter(y, x, 0, &scratch, &base, ASTER_ML_SCATTER_WRITE, 1)))
/* Of the sum of squares by x, whose size it has. */
static void do_gradient(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                        aster_ml_dim rows) {
  aster_ml_lazy square = {0}, loss = {0};
  const aster_ml_lazy *const targets[] = {x};
  (void)t, (void)rows;
  OK(aster_ml_lazy_mul(&square, x, x));
  OK(aster_ml_lazy_mean(&loss, &square, 0, NULL, 0));
  OK(aster_ml_gradient(y, &loss, targets, 1, NULL));
}
static void do_gradient_by(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                           aster_ml_dim rows) {
  aster_ml_lazy square = {0};
  const aster_ml_lazy *const targets[] = {x};
  const aster_ml_gradient_options options = {.struct_size = sizeof options, .seed = x};
  (void)t, (void)rows;
  OK(aster_ml_lazy_mul(&square, x, x));
  OK(aster_ml_gradient(y, &square, targets, 1, &options));
}
static void do_reshape(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                       aster_ml_dim rows) {
  const aster_ml_dim dims[3] = {{-1, NULL}, {2, NULL}, {3, NULL}};
  (void)t, (void)rows;
  OK(aster_ml_lazy_reshape_dims(y, x, 3, dims));
}
static void do_reshape_places(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                              aster_ml_dim rows) {
  const aster_ml_dim dims[2] = {{3, NULL}, {-1, NULL}};
  (void)x, (void)rows;
  OK(aster_ml_lazy_reshape_dims(y, t, 2, dims));
}
static void do_expand(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                      aster_ml_dim rows) {
  aster_ml_lazy sums = {0};
  const int64_t axis = 0;
  const aster_ml_dim dims[2] = {rows, {WIDTH, NULL}};
  (void)t;
  OK(aster_ml_lazy_max(&sums, x, 1, &axis, 1));
  OK(aster_ml_lazy_expand_dims(y, &sums, 2, dims));
}
static void do_pad(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                   aster_ml_dim rows) {
  const aster_ml_dim before[2] = {rows, {1, NULL}}, after[2] = {{2, NULL}, {0, NULL}};
  (void)t;
  OK(aster_ml_lazy_pad_dims(y, x, 2, before, after, NULL));
}
static void do_cat(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                   aster_ml_dim rows) {
  aster_ml_lazy turned = {0};
  (void)rows;
  OK(aster_ml_lazy_transpose(&turned, t, 0, 1));
  const aster_ml_lazy *const parts[] = {x, &turned, &base};
  OK(aster_ml_lazy_cat(y, parts, 3, 0));
}
static void do_stack(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                     aster_ml_dim rows) {
  const aster_ml_lazy *const parts[] = {x, x};
  (void)t, (void)rows;
  OK(aster_ml_lazy_stack(y, parts, 2, -1));
}
/* Rows (n - 1) / 2 to n, and the first of them. */
static void do_positions(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                         aster_ml_dim rows) {
  aster_ml_lazy late = {0}, row = {0};
  aster_ml_dim one = number(1), two = number(2), less = {0, NULL}, half = {0, NULL};
  (void)t;
  OK(aster_ml_symbolic_combine(&less.expression, &context, "Sub", &rows, &one));
  OK(aster_ml_symbolic_combine(&half.expression, &context, "FloorDiv", &less, &two));
  const aster_ml_dim begin[2] = {half, {0, NULL}}, end[2] = {rows, {WIDTH, NULL}};
  OK(aster_ml_lazy_shrink_dims(&late, x, 2, begin, end));
  OK(aster_ml_lazy_select_dims(&row, x, 0, &half));
  OK(aster_ml_lazy_mul(y, &late, &row));
  OK(aster_ml_uop_release(&context, half.expression));
  OK(aster_ml_uop_release(&context, less.expression));
}
static void do_made(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                    aster_ml_dim rows) {
  aster_ml_lazy line = {0}, ones = {0}, both = {0};
  const aster_ml_dim first = number(2);
  aster_ml_dim last = {0, NULL}, square[2] = {rows, rows};
  aster_ml_scalar one = {0};
  const float value = 1;
  (void)x, (void)t;
  one.dtype = ASTER_ML_DTYPE_FLOAT32;
  memcpy(one.value, &value, sizeof value);
  OK(aster_ml_symbolic_combine(&last.expression, &context, "Add", &rows, &first));
  OK(aster_ml_lazy_arange_dims(&line, &context, &first, &last, ASTER_ML_DTYPE_FLOAT32));
  OK(aster_ml_lazy_full_dims(&ones, &context, &one, 0, 2, square));
  OK(aster_ml_lazy_add(&both, &ones, &line));
  OK(aster_ml_lazy_matmul(y, &both, &line));
  OK(aster_ml_uop_release(&context, last.expression));
}

static const struct {
  const char *name;
  build f;
} functions[] = {
    {"exp", do_exp},
    {"add", do_add},
    {"sum", do_sum},
    {"sum_all", do_sum_all},
    {"sum_rows", do_sum_rows},
    {"prod", do_prod},
    {"max", do_max},
    {"min", do_min},
    {"mean", do_mean},
    {"mean_rows", do_mean_rows},
    {"var", do_var},
    {"logsumexp", do_logsumexp},
    {"softmax", do_softmax},
    {"log_softmax", do_log_softmax},
    {"argmax", do_argmax},
    {"argmin", do_argmin},
    {"flip", do_flip},
    {"select", do_select},
    {"unsqueeze", do_unsqueeze},
    {"flatten", do_flatten},
    {"flatten_turned", do_flatten_turned},
    {"product", do_product},
    {"inner", do_inner},
    {"reshape", do_reshape},
    {"reshape_places", do_reshape_places},
    {"expand", do_expand},
    {"pad", do_pad},
    {"cat", do_cat},
    {"stack", do_stack},
    {"positions", do_positions},
    {"made", do_made},
    {"any", do_any},
    {"all", do_all},
    {"sum_dtype", do_sum_dtype},
    {"prod_dtype", do_prod_dtype},
    {"std", do_std},
    {"normalize", do_normalize},
    {"softmin", do_softmin},
    {"softmax_dtype", do_softmax_dtype},
    {"layernorm", do_layernorm},
    {"layer_norm", do_layer_norm},
    {"cumsum", do_cumsum},
    {"cumprod", do_cumprod},
    {"logcumsumexp", do_logcumsumexp},
    {"argsort", do_argsort},
    {"argsort_down", do_argsort_down},
    {"tril", do_tril},
    {"triu", do_triu},
    {"elu", do_elu},
    {"hardtanh", do_hardtanh},
    {"zeros_like", do_zeros_like},
    {"cast", do_cast},
    {"clone", do_clone},
    {"contiguous", do_contiguous},
    {"one_hot", do_one_hot},
    {"sort", do_sort},
    {"cummax", do_cummax},
    {"topk", do_topk},
    {"gather", do_gather},
    {"attention", do_attention},
    {"attention_causal", do_attention_causal},
    {"gradient", do_gradient},
    {"gradient_by", do_gradient_by},
    {"binary", do_binary},
    {"binary_none", do_binary_none},
    {"probabilities", do_probabilities},
    {"sparse", do_sparse},
    {"sparse_ignored", do_sparse_ignored},
    {"categorical", do_categorical},
    {"soft_labels", do_soft_labels},
    {"soft_labels_none", do_soft_labels_none},
    {"nll", do_nll},
    {"nll_ignored", do_nll_ignored},
    {"scatter", do_scatter},
    {"scatter_rows", do_scatter_rows},
    {"roll", do_roll},
    {"repeat", do_repeat},
    {"repeat_interleave", do_repeat_interleave},
    {"unfold", do_unfold},
    {"unfold_beside", do_unfold_beside},
    {"diag", do_diag},
    {"bitcast", do_bitcast},
    {"linear", do_linear},
    {"batchnorm", do_batchnorm},
    {"var_mean", do_var_mean},
    {"std_mean", do_std_mean},
    {"dot", do_dot},
    {"pad_mode", do_pad_mode},
    {"pad_constant", do_pad_constant},
    {"interpolate", do_interpolate},
    {"index", do_index},
    {"index_tensor", do_index_tensor},
    {"index_plain", do_index_plain},
    {"index_assign", do_index_assign},
    {"index_assign_part", do_index_assign_part},
    {"rearrange", do_rearrange},
    {"rearrange_joined", do_rearrange_joined},
    {"conv", do_conv},
    {"conv_square", do_conv_square},
    {"conv_images", do_conv_images},
    {"conv_transpose", do_conv_transpose},
    {"max_pool", do_max_pool},
    {"max_pool_line", do_max_pool_line},
    {"max_pool_beside", do_max_pool_beside},
    {"max_pool_places", do_max_pool_places},
    {"avg_pool", do_avg_pool},
    {"avg_pool_inside", do_avg_pool_inside},
    {"max_unpool", do_max_unpool},
    {"einsum", do_einsum},
    {"einsum_beside", do_einsum_beside},
    {"einsum_kept", do_einsum_kept},
    {"einsum_diagonal", do_einsum_diagonal},
    {"einsum_trace", do_einsum_trace},
    {"svd", do_svd},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* ---- Comparing ---- */

typedef struct array {
  size_t ndim;
  int64_t shape[4];
  double data[4096];
} array;

static double element(int32_t dtype, const void *data, size_t i) {
  if (dtype == ASTER_ML_DTYPE_FLOAT32) return (double)((const float *)data)[i];
  if (dtype == ASTER_ML_DTYPE_INT32) return (double)((const int32_t *)data)[i];
  EXPECT(dtype == ASTER_ML_DTYPE_BOOL);
  return (double)((const unsigned char *)data)[i];
}

static void fetch(array *out, aster_ml_lazy *x) {
  static float data[sizeof out->data / sizeof out->data[0]];
  const size_t count = (size_t)aster_ml_lazy_count(x);
  const int32_t dtype = aster_ml_lazy_dtype(x);
  out->ndim = aster_ml_lazy_ndim(x);
  OK(aster_ml_lazy_shape(out->shape, out->ndim, x));
  OK(aster_ml_lazy_copy_out(data, count * (dtype == ASTER_ML_DTYPE_BOOL ? 1 : 4), x));
  for (size_t i = 0; i < count; i++) out->data[i] = element(dtype, data, i);
}

/* Whether the first elements of every axis of got are those of want. */
static int begins_with(const array *got, const array *want) {
  int64_t count = 1;
  if (got->ndim != want->ndim) return 0;
  for (size_t k = 0; k < want->ndim; k++) {
    if (got->shape[k] < want->shape[k]) return 0;
    count *= want->shape[k];
  }
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, at = 0, step = 1;
    for (size_t k = want->ndim; k-- > 0; rest /= want->shape[k], step *= got->shape[k])
      at += rest % want->shape[k] * step;
    if (!(fabs(got->data[at] - want->data[i]) <= 1e-4 * (1 + fabs(want->data[i])))) return 0;
  }
  return 1;
}

static void expect_array(const char *name, int64_t rows, const array *got, const array *want,
                         int exact) {
  int same = begins_with(got, want);
  for (size_t k = 0; exact && k < want->ndim; k++) same &= got->shape[k] == want->shape[k];
  if (same) return;
  fprintf(stderr, "%s of %d rows differs\n", name, (int)rows);
  expect_failures++;
}

static void concrete(array *out, build f, int64_t rows) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, t = {0}, y = {0};
  OK(aster_ml_scope_begin(&scope, &context));
  part(&x, &base, number(rows), number(WIDTH));
  part(&t, &other, number(WIDTH), number(rows));
  f(&y, &x, &t, number(rows));
  fetch(out, &y);
  OK(aster_ml_scope_end(&scope));
}

/* ---- Tests ---- */

static array got, want;

static void test_every_value(void) {
  for (size_t i = 0; i < FUNCTIONS; i += every) {
    for (int64_t rows = 1; rows <= MOST; rows++) {
      aster_ml_scope scope;
      aster_ml_lazy x = {0}, t = {0}, y = {0};
      const aster_ml_dim size = bound(rows);
      OK(aster_ml_scope_begin(&scope, &context));
      part(&x, &base, size, number(WIDTH));
      part(&t, &other, number(WIDTH), size);
      functions[i].f(&y, &x, &t, size);
      fetch(&got, &y);
      concrete(&want, functions[i].f, rows);
      expect_array(functions[i].name, rows, &got, &want, 1);
      OK(aster_ml_scope_end(&scope));
      OK(aster_ml_uop_release(&context, size.expression));
    }
  }
}

/* What a program gives for a value, as the greatest sizes. */
static void run(array *out, const aster_ml_program *program, int64_t value) {
  aster_ml_tensor made = {0};
  OK(aster_ml_program_run_bound(program, NULL, &value, 1, NULL, 0, &made, 1));
  out->ndim = made.ndim;
  size_t count = 1;
  for (size_t k = 0; k < made.ndim; k++) {
    out->shape[k] = (int64_t)made.shape[k];
    count *= made.shape[k];
  }
  static float data[sizeof out->data / sizeof out->data[0]];
  OK(aster_ml_tensor_copy_out(data, &made, count));
  for (size_t i = 0; i < count; i++) out->data[i] = element(made.dtype, data, i);
  OK(aster_ml_tensor_free(&made));
}

static void test_programs(void) {
  for (size_t i = 0; i < FUNCTIONS; i += every) {
    aster_ml_scope scope;
    aster_ml_lazy x = {0}, t = {0}, y = {0};
    aster_ml_program program = {0};
    const aster_ml_dim size = bound(3);
    OK(aster_ml_scope_begin(&scope, &context));
    OK(aster_ml_engine_capture_begin(&context, NULL, 0));
    part(&x, &base, size, number(WIDTH));
    part(&t, &other, number(WIDTH), size);
    functions[i].f(&y, &x, &t, size);
    aster_ml_lazy *const outputs[] = {&y};
    OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
    aster_ml_program_variable variable = {.struct_size = sizeof variable};
    EXPECT(aster_ml_program_count_variables(&program) <= 1);
    if (aster_ml_program_count_variables(&program) == 1) {
      OK(aster_ml_program_get_variable(&variable, &program, 0));
      EXPECT(strcmp(variable.name, "n") == 0 && variable.min == 1 && variable.max == MOST);
      EXPECT(variable.value == 3);
      if (variable.fixed != 0) {
        fprintf(stderr, "%s looked at its size\n", functions[i].name);
        expect_failures++;
      }
      for (int64_t rows = 1; rows <= MOST && variable.fixed == 0; rows++) {
        run(&got, &program, rows);
        concrete(&want, functions[i].f, rows);
        expect_array(functions[i].name, rows, &got, &want, 0);
      }
    } else { /* nothing reads the size: what lies beyond it is computed too */
      aster_ml_tensor made = {0};
      OK(aster_ml_program_run(&program, NULL, NULL, 0, &made, 1));
      OK(aster_ml_tensor_free(&made));
    }
    OK(aster_ml_program_free(&program));
    OK(aster_ml_scope_end(&scope));
    OK(aster_ml_uop_release(&context, size.expression));
  }
}

static void test_dims(void) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, flat = {0}, value = {0}, all = {0}, copy = {0};
  aster_ml_dim dims[2], one;
  int64_t shape[2] = {0}, min = 0, max = 0;
  double number_read = 0;
  const aster_ml_dim size = bound(4);
  OK(aster_ml_scope_begin(&scope, &context));
  part(&x, &base, size, number(WIDTH));
  OK(aster_ml_lazy_shape(shape, 2, &x));
  EXPECT(shape[0] == 4 && shape[1] == WIDTH && aster_ml_lazy_count(&x) == 4 * WIDTH);
  OK(aster_ml_lazy_dims(dims, 2, &x));
  EXPECT(dims[0].value == 4 && dims[0].expression == size.expression);
  EXPECT(dims[1].value == WIDTH && dims[1].expression == NULL);
  OK(aster_ml_lazy_flatten(&flat, &x, 0, 1));
  OK(aster_ml_lazy_dims(&one, 1, &flat));
  EXPECT(one.value == 4 * WIDTH);
  OK(aster_ml_uop_get_bounds(&min, &max, one.expression));
  EXPECT(min == WIDTH && max == MOST * WIDTH);
  OK(aster_ml_lazy_from_dim(&value, &context, &one));
  EXPECT(aster_ml_lazy_dtype(&value) == ASTER_ML_DTYPE_INT32);
  OK(aster_ml_lazy_to_double(&number_read, &value));
  EXPECT(number_read == 4 * WIDTH);
  OK(aster_ml_lazy_whole(&all, &x));
  EXPECT(aster_ml_lazy_dim(&all, 0) == MOST);
  /* What it is made of, and its memory. */
  const char *name = NULL;
  int32_t is_bound = 0;
  int64_t now = 0;
  const aster_ml_uop *leaf = size.expression;
  while (aster_ml_uop_source_count(leaf) != 0) leaf = aster_ml_uop_source_at(leaf, 0);
  OK(aster_ml_symbolic_get(&name, &min, &max, &now, &is_bound, &context, leaf));
  EXPECT(strcmp(name, "n") == 0 && min == 1 && max == MOST && now == 4 && is_bound == 1);
  EXPECT(aster_ml_lazy_is_symbolic(&x) == 1 && aster_ml_lazy_is_symbolic(&all) == 0);
  aster_ml_tensor lent = {0};
  OK(aster_ml_lazy_view_whole(&lent, &x));
  EXPECT(lent.shape[0] == MOST && lent.shape[1] == WIDTH);
  aster_ml_lazy doubled = {0};
  const aster_ml_dim less = bound(2), both[2] = {less, {WIDTH, NULL}};
  OK(aster_ml_lazy_add(&doubled, &x, &x));
  OK(aster_ml_lazy_view_whole(&lent, &doubled));
  OK(aster_ml_lazy_set_dims(&doubled, 2, both));
  fetch(&got, &doubled);
  fetch(&want, &base);
  EXPECT(got.shape[0] == 2 && got.shape[1] == WIDTH);
  for (int i = 0; i < 2 * WIDTH; i++) EXPECT(got.data[i] == 2 * want.data[i]);
  FAILS(aster_ml_lazy_set_dims(&doubled, 1, both), ASTER_ML_SHAPE, "1 dimensions");
  FAILS(aster_ml_lazy_set_dims(&base, 2, both), ASTER_ML_ARGUMENT, "no size of");
  FAILS(aster_ml_symbolic_get(&name, &min, &max, &now, &is_bound, &context, NULL),
        ASTER_ML_ARGUMENT, "null");
  OK(aster_ml_uop_release(&context, less.expression));
  /* Writing to the part leaves what lies beyond it. */
  aster_ml_lazy zeros = {0}, negative = {0};
  OK(aster_ml_lazy_clone(&copy, &base));
  part(&zeros, &copy, size, number(WIDTH));
  OK(aster_ml_lazy_neg(&negative, &x));
  OK(aster_ml_lazy_assign(&zeros, &negative));
  fetch(&got, &copy);
  fetch(&want, &base);
  for (int i = 0; i < MOST * WIDTH; i++)
    EXPECT(got.data[i] == (i < 4 * WIDTH ? -want.data[i] : want.data[i]));
  OK(aster_ml_scope_end(&scope));
  OK(aster_ml_uop_release(&context, size.expression));
}

static void test_errors(void) {
  aster_ml_scope scope;
  const aster_ml_uop *made = NULL, *wide = NULL;
  aster_ml_lazy x = {0}, y = {0};
  const aster_ml_dim open = {0, n}, zero = number(0), size = bound(4);
  OK(aster_ml_scope_begin(&scope, &context));
  FAILS(aster_ml_symbolic_init(&made, &context, "m", 3, 2), ASTER_ML_RANGE, "m from 3 to 2");
  FAILS(aster_ml_symbolic_init(&made, &context, "", 1, 2), ASTER_ML_ARGUMENT, "name");
  FAILS(aster_ml_symbolic_init(&made, &context, NULL, 1, 2), ASTER_ML_ARGUMENT, "name");
  FAILS(aster_ml_symbolic_bind(&made, &context, n, "n", MOST + 1), ASTER_ML_RANGE, "from 1 to 7");
  FAILS(aster_ml_symbolic_bind(&made, &context, n, "n", 0), ASTER_ML_RANGE, "n = 0");
  FAILS(aster_ml_symbolic_bind(&made, &context, n, "k", 1), ASTER_ML_ARGUMENT, "named k");
  FAILS(aster_ml_symbolic_bind(&made, &context, NULL, "n", 1), ASTER_ML_ARGUMENT, "null");
  FAILS(aster_ml_symbolic_combine(&made, &context, "FloorDiv", &open, &zero), ASTER_ML_RANGE,
        "division by zero");
  FAILS(aster_ml_symbolic_combine(&made, &context, "Pow", &open, &zero), ASTER_ML_ARGUMENT, "Pow");
  int64_t value = 0;
  FAILS(aster_ml_symbolic_value(&value, &context, n), ASTER_ML_STATE, "n has no value");
  const aster_ml_dim begin[2] = {{0, NULL}, {0, NULL}}, unbound[2] = {open, {WIDTH, NULL}};
  FAILS(aster_ml_lazy_shrink_dims(&x, &base, 2, begin, unbound), ASTER_ML_STATE, "no value");
  /* A size that the tensor may not have, and does not have now. */
  OK(aster_ml_symbolic_init(&wide, &context, "w", 1, 100));
  aster_ml_dim large = {0, NULL};
  OK(aster_ml_symbolic_bind(&large.expression, &context, wide, "w", 50));
  const aster_ml_dim end[2] = {large, {WIDTH, NULL}};
  FAILS(aster_ml_lazy_shrink_dims(&x, &base, 2, begin, end), ASTER_ML_RANGE, "[50, 6]");
  /* A node that is no expression of variables. */
  aster_ml_uop_options options = {.struct_size = sizeof options, .op = "Range"};
  const int64_t arguments[] = {0, 5};
  options.arguments = arguments;
  options.argument_count = 2;
  OK(aster_ml_uop_init(&made, &context, &options));
  const aster_ml_dim range[2] = {{0, made}, {WIDTH, NULL}};
  FAILS(aster_ml_lazy_shrink_dims(&x, &base, 2, begin, range), ASTER_ML_ARGUMENT,
        "Range is no expression of variables");
  const aster_ml_dim_index items[] = {slice_of(range[0], size, 1)};
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, items), ASTER_ML_ARGUMENT,
        "Range is no expression of variables");
  OK(aster_ml_uop_release(&context, made));
  const aster_ml_dim_index unset[] = {item_of(ASTER_ML_INDEX_INTEGER, open, zero, 0)};
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, unset), ASTER_ML_STATE, "no value");
  const aster_ml_dim_index outside[] = {item_of(ASTER_ML_INDEX_INTEGER, large, zero, 0)};
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, outside), ASTER_ML_RANGE, "element 50");
  FAILS(aster_ml_lazy_index_assign_dims(&base, 1, outside, &base), ASTER_ML_RANGE, "element 50");
  const aster_ml_dim_index unknown[] = {item_of(7, zero, zero, 0)};
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, unknown), ASTER_ML_ARGUMENT, "of kind 7");
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, NULL), ASTER_ML_ARGUMENT, "null pointer");
  const char *const axis[] = {"a"};
  FAILS(aster_ml_lazy_rearrange_dims(&x, &base, "n (a b) -> a n b", 1, axis, &open), ASTER_ML_STATE,
        "no value");
  FAILS(aster_ml_lazy_rearrange_dims(&x, &base, "n (a b) -> a n b", 1, axis, &large),
        ASTER_ML_SHAPE, "does not divide");
  /* Sizes that do not go together. */
  part(&x, &base, size, number(WIDTH));
  const aster_ml_dim_index all[] = {ALL};
  FAILS(aster_ml_lazy_index_assign_dims(&x, 1, all, &base), ASTER_ML_SHAPE, "expand of");
  FAILS(aster_ml_lazy_add(&y, &x, &base), ASTER_ML_SHAPE, "do not broadcast");
  FAILS(aster_ml_lazy_matmul(&y, &x, &base), ASTER_ML_SHAPE, "matmul");
  OK(aster_ml_uop_release(&context, large.expression));
  OK(aster_ml_uop_release(&context, wide));
  OK(aster_ml_uop_release(&context, size.expression));
  OK(aster_ml_scope_end(&scope));
}

/* A program whose function has no rule, or that read a size as a number, is for one value. */
static void test_looking(void) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, y = {0};
  aster_ml_program program = {0};
  const aster_ml_dim size = bound(3);
  int64_t shape[2], value = 5;
  aster_ml_tensor made = {0};
  OK(aster_ml_scope_begin(&scope, &context));
  OK(aster_ml_engine_capture_begin(&context, NULL, 0));
  part(&x, &base, size, number(WIDTH));
  OK(aster_ml_lazy_shape(shape, 2, &x));
  OK(aster_ml_lazy_exp(&y, &x));
  aster_ml_lazy *const outputs[] = {&y};
  OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
  aster_ml_program_variable variable = {.struct_size = sizeof variable};
  OK(aster_ml_program_get_variable(&variable, &program, 0));
  EXPECT(variable.fixed == 1 && variable.value == 3);
  FAILS(aster_ml_program_run_bound(&program, NULL, &value, 1, NULL, 0, &made, 1),
        ASTER_ML_UNSUPPORTED, "for 3 alone");
  FAILS(aster_ml_program_set_variable(&program, "n", 5), ASTER_ML_UNSUPPORTED, "for 3 alone");
  FAILS(aster_ml_program_set_variable(&program, "k", 5), ASTER_ML_NOT_FOUND, "named k");
  FAILS(aster_ml_program_run_bound(&program, NULL, &value, 0, NULL, 0, &made, 1), ASTER_ML_ARGUMENT,
        "0 values given for 1");
  value = MOST + 1;
  FAILS(aster_ml_program_run_bound(&program, NULL, &value, 1, NULL, 0, &made, 1), ASTER_ML_RANGE,
        "from 1 to 7");
  FAILS(aster_ml_program_get_variable(&variable, &program, 1), ASTER_ML_RANGE, "variable 1 of 1");
  OK(aster_ml_program_run(&program, NULL, NULL, 0, &made, 1));
  OK(aster_ml_tensor_free(&made));
  OK(aster_ml_program_free(&program));
  OK(aster_ml_scope_end(&scope));
  OK(aster_ml_uop_release(&context, size.expression));
}

/* Rows 1 to 3 of n, which is 4: a slice of numbers may be another's for another n, and fixes it;
 * one of lazy_index_dims is inside by its caller's word, and gets nothing from beyond its axis. */
static void test_inside(void) {
  for (int word = 0; word < 2; word++) {
    aster_ml_scope scope;
    aster_ml_lazy x = {0}, y = {0};
    aster_ml_program program = {0};
    const aster_ml_dim size = bound(4), next = combined("Add", size, 2);
    const aster_ml_index plain[] = {{ASTER_ML_INDEX_SLICE, 1, 3, 1, NULL}};
    const aster_ml_dim_index items[] = {slice_of(size, next, 1)};
    OK(aster_ml_scope_begin(&scope, &context));
    OK(aster_ml_engine_capture_begin(&context, NULL, 0));
    part(&x, &base, size, number(WIDTH));
    OK(word == 0 ? aster_ml_lazy_index(&y, &x, 1, plain)
                 : aster_ml_lazy_index_dims(&y, &base, 1, items));
    aster_ml_lazy result = {0};
    OK(aster_ml_lazy_exp(&result, &y));
    aster_ml_lazy *const outputs[] = {&result};
    OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
    aster_ml_program_variable variable = {.struct_size = sizeof variable};
    OK(aster_ml_program_get_variable(&variable, &program, 0));
    EXPECT(variable.fixed == (word == 0));
    if (word == 1) {
      run(&got, &program, MOST - 1); /* rows 6 and 7, of which there is no second */
      EXPECT(got.shape[0] == 2);
      for (int k = 0; k < WIDTH; k++) EXPECT(got.data[WIDTH + k] == 1);
      run(&got, &program, MOST);
      for (int k = 0; k < 2 * WIDTH; k++) EXPECT(got.data[k] == 1);
    }
    OK(aster_ml_program_free(&program));
    OK(aster_ml_scope_end(&scope));
    let_go(next);
    let_go(size);
  }
}

static void fill(aster_ml_lazy *out, int64_t rows, int64_t width, int seed) {
  const int64_t shape[] = {rows, width};
  float *data = malloc((size_t)(rows * width) * sizeof *data);
  for (int64_t i = 0; i < rows * width; i++)
    data[i] = (float)((i * 37 + seed * 11) % 29) / 13.0F - 1.0F;
  OK(aster_ml_lazy_from(out, &context, data, ASTER_ML_DTYPE_FLOAT32, 2, shape));
  free(data);
}

/* A step of attention over the first n of 2048 positions of a cache: one captured program. */
enum { POSITIONS = 2048, HEAD = 16 };
static void attend(aster_ml_lazy *out, const aster_ml_lazy *query, const aster_ml_lazy *keys,
                   const aster_ml_lazy *values) {
  aster_ml_lazy turned = {0}, scores = {0}, scale = {0}, scaled = {0}, weights = {0};
  OK(aster_ml_lazy_transpose(&turned, keys, 0, 1));
  OK(aster_ml_lazy_matmul(&scores, query, &turned));
  OK(aster_ml_lazy_number(&scale, &context, 0.25));
  OK(aster_ml_lazy_mul(&scaled, &scores, &scale));
  OK(aster_ml_lazy_softmax(&weights, &scaled, -1));
  OK(aster_ml_lazy_matmul(out, &weights, values));
}

static void test_attention(void) {
  static const int64_t sizes[] = {1, 2, 16, 17, 128, 1000, 1024, 2047, 2048};
  aster_ml_scope scope;
  const aster_ml_uop *p = NULL, *now = NULL;
  aster_ml_lazy query = {0}, cache_k = {0}, cache_v = {0}, keys = {0}, values = {0}, y = {0};
  aster_ml_program program = {0};
  OK(aster_ml_scope_begin(&scope, &context));
  fill(&query, 1, HEAD, 1);
  fill(&cache_k, POSITIONS, HEAD, 2);
  fill(&cache_v, POSITIONS, HEAD, 3);
  OK(aster_ml_symbolic_init(&p, &context, "positions", 1, POSITIONS));
  OK(aster_ml_symbolic_bind(&now, &context, p, "positions", 5));
  const aster_ml_dim size = {0, now};
  aster_ml_lazy *const inputs[] = {&query}, *const outputs[] = {&y};
  OK(aster_ml_engine_capture_begin(&context, inputs, 1));
  part(&keys, &cache_k, size, number(HEAD));
  part(&values, &cache_v, size, number(HEAD));
  attend(&y, &query, &keys, &values);
  OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
  EXPECT(aster_ml_program_count_variables(&program) == 1);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    aster_ml_lazy k = {0}, v = {0}, wanted = {0};
    aster_ml_tensor given = {0}, made = {0};
    part(&k, &cache_k, number(sizes[i]), number(HEAD));
    part(&v, &cache_v, number(sizes[i]), number(HEAD));
    attend(&wanted, &query, &k, &v);
    fetch(&want, &wanted);
    OK(aster_ml_lazy_view(&given, &query));
    if (i % 2 == 0) {
      OK(aster_ml_program_run_bound(&program, NULL, &sizes[i], 1, &given, 1, &made, 1));
    } else {
      OK(aster_ml_program_set_variable(&program, "positions", sizes[i]));
      OK(aster_ml_program_run(&program, NULL, &given, 1, &made, 1));
    }
    float data[HEAD];
    OK(aster_ml_tensor_copy_out(data, &made, HEAD));
    for (int j = 0; j < HEAD; j++) EXPECT(fabs((double)data[j] - want.data[j]) < 1e-4);
    OK(aster_ml_tensor_free(&made));
  }
  OK(aster_ml_program_free(&program));
  OK(aster_ml_uop_release(&context, now));
  OK(aster_ml_uop_release(&context, p));
  OK(aster_ml_scope_end(&scope));
}

static void test_on(int32_t device, size_t step) {
  every = step;
  OK(aster_ml_context_init(&context, NULL));
  OK(aster_ml_engine_set_device(&context, device));
  OK(aster_ml_symbolic_init(&n, &context, "n", 1, MOST));
  fill(&base, MOST, WIDTH, 4);
  fill(&other, WIDTH, MOST, 5);
  test_dims();
  test_errors();
  test_every_value();
  test_programs();
  test_looking();
  test_inside();
  test_attention();
  OK(aster_ml_lazy_free(&base));
  OK(aster_ml_lazy_free(&other));
  OK(aster_ml_uop_release(&context, n));
  OK(aster_ml_context_free(&context));
}

int main(void) {
  test_on(ASTER_ML_DEVICE_CPU, 1);
  test_on(ASTER_ML_DEVICE_REFERENCE, 1);
  /* Drivers take their time to compile. */
  if (aster_ml_device_is_available(ASTER_ML_DEVICE_OPENCL) != 0) test_on(ASTER_ML_DEVICE_OPENCL, 9);
  return expect_failures;
}
