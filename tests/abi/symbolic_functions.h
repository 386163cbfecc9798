/* What is computed of tensors of symbolic sizes: y of x, rows x WIDTH, and t, WIDTH x rows. */
#ifndef TESTS_ABI_SYMBOLIC_FUNCTIONS_H
#define TESTS_ABI_SYMBOLIC_FUNCTIONS_H

#include "symbolic.h"

static aster_ml_lazy scratch, places;

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
static const int64_t from_end[] = {-1, 1}, to_all[] = {INT64_MIN, 5}, in_steps[] = {-2, 2};
ALONG(slice, aster_ml_lazy_slice(y, x, 2, from_end, to_all, in_steps))
ALONG(slice_forward, aster_ml_lazy_slice(y, x, 1, NULL, NULL, in_steps + 1))
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
static const int64_t wide_lead[] = {2, 5}, cut_trail[] = {-1, 3}, four[] = {3, 4};
ALONG(pad_replicate,
      aster_ml_lazy_pad_mode(y, x, 2, wide_lead, lead, ASTER_ML_PADDING_REPLICATE, NULL))
ALONG(pad_replicate_cut,
      aster_ml_lazy_pad_mode(y, t, 2, trail, cut_trail, ASTER_ML_PADDING_REPLICATE, NULL))
ALONG(shrunk, aster_ml_lazy_interpolate(y, t, 2, four, ASTER_ML_INTERPOLATION_LINEAR, 0))
ALONG(grown, aster_ml_lazy_interpolate(y, t, 1, &three, ASTER_ML_INTERPOLATION_LINEAR, 1))
ALONG(nearest, aster_ml_lazy_interpolate(y, t, 2, four, ASTER_ML_INTERPOLATION_NEAREST, 0))
ALONG(nearest_exact,
      aster_ml_lazy_interpolate(y, t, 1, four + 1, ASTER_ML_INTERPOLATION_NEAREST_EXACT, 0))
static int32_t resized(aster_ml_lazy *y, const aster_ml_lazy *x, aster_ml_dim rows, int64_t more,
                       aster_ml_interpolation mode) {
  const aster_ml_dim wanted = combined("Add", rows, more), both[] = {wanted, wanted};
  const int32_t status =
      aster_ml_lazy_interpolate_dims(y, x, 2, both, mode, mode == 0 && more == 2);
  let_go(wanted);
  return status;
}
ALONG(resized_to, resized(y, x, rows, 2, ASTER_ML_INTERPOLATION_LINEAR))
ALONG(resized_halves, resized(y, t, rows, 3, ASTER_ML_INTERPOLATION_LINEAR))
ALONG(resized_nearest, resized(y, &base, rows, 0, ASTER_ML_INTERPOLATION_NEAREST))
static const aster_ml_lazy *mask_of(const aster_ml_lazy *x) {
  aster_ml_lazy less = {0};
  OK(aster_ml_lazy_number(&scratch, &context, 0.25));
  OK(aster_ml_lazy_cast(&less, &scratch, ASTER_ML_DTYPE_FLOAT32));
  OK(aster_ml_lazy_lt(&scratch, x, &less));
  return &scratch;
}
ALONG(masked_select, aster_ml_lazy_masked_select(y, x, mask_of(x), 20, NULL))
ALONG(masked_select_few, aster_ml_lazy_masked_select(y, t, mask_of(t), 3, NULL))
ALONG(masked_select_rows, (aster_ml_lazy_select(&places, &base, 0, 1),
                           aster_ml_lazy_masked_select(y, x, mask_of(&places), 30, NULL)))
ALONG(nonzero, aster_ml_lazy_nonzero(y, mask_of(t), 50, NULL))
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
/* A tensor of n rows where it is less than a number, and rows of a cache up to n by their first. */
static void do_assign_by_mask(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                              aster_ml_dim rows) {
  aster_ml_lazy value = {0}, filling = {0}, cache = {0}, early = {0}, first = {0};
  (void)t;
  OK(aster_ml_lazy_number(&filling, &context, 3));
  OK(aster_ml_lazy_mul(&value, x, x));
  const aster_ml_index less[] = {{ASTER_ML_INDEX_TENSOR, 0, 0, 0, mask_of(x)}};
  OK(aster_ml_lazy_index_assign(&value, 1, less, &filling));
  OK(aster_ml_lazy_clone(&cache, &base));
  aster_ml_lazy *const stored[] = {&cache};
  OK(aster_ml_lazy_realize(stored, 1));
  part(&early, &cache, rows, number(WIDTH));
  OK(aster_ml_lazy_select(&first, x, 1, 0));
  const aster_ml_index of_rows[] = {{ASTER_ML_INDEX_TENSOR, 0, 0, 0, mask_of(&first)}};
  OK(aster_ml_lazy_index_assign(&early, 1, of_rows, &filling));
  OK(aster_ml_lazy_sum(&first, &cache, 0, NULL, 0));
  OK(aster_ml_lazy_add(y, &value, &first));
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
    {"slice", do_slice},
    {"slice_forward", do_slice_forward},
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
    {"pad_replicate", do_pad_replicate},
    {"pad_replicate_cut", do_pad_replicate_cut},
    {"shrunk", do_shrunk},
    {"grown", do_grown},
    {"nearest", do_nearest},
    {"nearest_exact", do_nearest_exact},
    {"resized_to", do_resized_to},
    {"resized_halves", do_resized_halves},
    {"resized_nearest", do_resized_nearest},
    {"masked_select", do_masked_select},
    {"masked_select_few", do_masked_select_few},
    {"masked_select_rows", do_masked_select_rows},
    {"nonzero", do_nonzero},
    {"assign_by_mask", do_assign_by_mask},
    {"svd", do_svd},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

#endif
