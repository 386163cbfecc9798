/* Finds things in a picture, by a detector in an ONNX file:
 * detect MODEL.onnx PICTURE.ppm
 *
 * The model is of YOLO's kind: pictures [1, 3, height, width] from 0 to 1, and for every anchor the
 * middle of a box, its width and height, and a score for each class: [1, 4 + classes, anchors].
 * Most boxes are of things that a better one has found; they are suppressed here. */
#include <math.h>
#include <string.h>

#include "builders.h"
#include "check.h"
#include "picture.h"

static const double kScore = 0.25, kOverlap = 0.45; /* least score; what two boxes may share */
enum { MOST = 300 };                                /* boxes looked at */

/* ---- Builders that are not in builders.h ---- */

UNARY(relu)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(minimum)
BINARY(maximum)
BINARY(gt)
BINARY(eq)
BINARY(logical_and)
BINARY(matmul)

static tensor unsqueeze(tensor x, int64_t axis) {
  tensor y;
  aster_ml_lazy_unsqueeze(&y, &x, axis);
  return y;
}

static tensor rows(tensor x, int64_t begin, int64_t end) {
  tensor y;
  aster_ml_lazy_slice(&y, &x, 1, &begin, &end, NULL);
  return y;
}

/* Elements of the last axis, by their numbers. */
static tensor take(tensor x, tensor numbers) {
  const aster_ml_index items[] = {{.kind = ASTER_ML_INDEX_ELLIPSIS},
                                  {.kind = ASTER_ML_INDEX_TENSOR, .tensor = &numbers}};
  tensor y;
  aster_ml_lazy_index(&y, &x, 2, items);
  return y;
}

/* ---- The picture, and the model ---- */

/* Where the picture lies in what the model sees. */
typedef struct place {
  double scale;
  int64_t top, left;
} place;

/* The picture in the middle of grey: [1, 3, height, width]. */
static tensor prepare(place *out, tensor picture, int64_t height, int64_t width) {
  aster_ml_scalar grey;
  const double rows_now = (double)aster_ml_lazy_dim(&picture, 0),
               columns_now = (double)aster_ml_lazy_dim(&picture, 1);
  tensor planes, resized, padded;
  out->scale = fmin((double)height / rows_now, (double)width / columns_now);
  const int64_t size[] = {llrint(rows_now * out->scale), llrint(columns_now * out->scale)};
  out->top = (height - size[0]) / 2, out->left = (width - size[1]) / 2;
  check(aster_ml_scalar_from_double(&grey, ASTER_ML_DTYPE_FLOAT32, 114.0 / 255));
  aster_ml_lazy_permute(&planes, &picture, 3, (int64_t[]){2, 0, 1});
  planes = cast(planes, ASTER_ML_DTYPE_FLOAT32);
  aster_ml_lazy_interpolate(&resized, &planes, 2, size, ASTER_ML_INTERPOLATION_LINEAR, 0);
  const tensor unit = t_div(resized, real(255));
  const int64_t before[] = {0, out->top, out->left},
                after[] = {0, height - size[0] - out->top, width - size[1] - out->left};
  aster_ml_lazy_pad(&padded, &unit, 3, before, after, &grey);
  return unsqueeze(padded, 0);
}

/* ---- What stays of the boxes ---- */

/* The best boxes, best first: corners [4, count], scores and classes [count], and which of them
 * hide which [count, count]: an earlier one of the same class that shares too much with it. */
typedef struct candidates {
  int64_t count;
  tensor boxes, scores, classes, hides;
} candidates;

static candidates find(tensor found) {
  const int64_t first = 0, anchors = aster_ml_lazy_dim(&found, 1);
  candidates out = {.count = anchors < MOST ? anchors : MOST};
  const tensor all = rows(found, 4, INT64_MAX);
  tensor best, places, of_all, shared, area, corners;
  aster_ml_lazy_max(&best, &all, 1, &first, 0);
  aster_ml_lazy_topk(&out.scores, &places, &best, out.count, 0, 1);
  aster_ml_lazy_argmax(&of_all, &all, 0, 0);
  out.classes = take(of_all, places);
  const tensor middle = take(rows(found, 0, 2), places), size = take(rows(found, 2, 4), places);
  const tensor half = t_div(size, real(2)), low = t_sub(middle, half), high = t_add(middle, half);
  /* Every box against every other one: axes 1 and 2. */
  const tensor end = t_minimum(unsqueeze(high, 2), unsqueeze(high, 1));
  const tensor begin = t_maximum(unsqueeze(low, 2), unsqueeze(low, 1));
  const tensor inside = t_relu(t_sub(end, begin));
  aster_ml_lazy_prod(&shared, &inside, 1, &first, 0);
  aster_ml_lazy_prod(&area, &size, 1, &first, 0);
  const tensor both = t_sub(t_add(unsqueeze(area, 1), unsqueeze(area, 0)), shared);
  const tensor much = t_gt(shared, t_mul(both, real(kOverlap)));
  const tensor same = t_eq(unsqueeze(out.classes, 1), unsqueeze(out.classes, 0));
  const tensor hidden = cast(t_logical_and(much, same), ASTER_ML_DTYPE_FLOAT32);
  aster_ml_lazy_triu(&out.hides, &hidden, 1);
  aster_ml_lazy_cat(&corners, (const tensor *[]){&low, &high}, 2, 0);
  out.boxes = corners;
  check(aster_ml_lazy_realize((tensor *[]){&out.boxes, &out.scores, &out.classes, &out.hides}, 4));
  return out;
}

/* What stays: those with a score that nothing hides that stays. Row i is right after i + 1 rounds,
 * and mostly much sooner: nothing changes then. */
static void suppress(float *stays, const candidates *c) {
  const size_t bytes = (size_t)c->count * sizeof(*stays);
  float before[MOST];
  const tensor good = cast(t_gt(c->scores, real(kScore)), ASTER_ML_DTYPE_FLOAT32);
  tensor now = good;
  check(aster_ml_lazy_copy_out(stays, bytes, &now));
  do {
    memcpy(before, stays, bytes);
    now = t_mul(good, cast(t_eq(t_matmul(now, c->hides), real(0)), ASTER_ML_DTYPE_FLOAT32));
    check(aster_ml_lazy_copy_out(stays, bytes, &now)); /* computes */
  } while (memcmp(before, stays, bytes) != 0);
}

static void print(candidates *c, const float *stays, place at) {
  static float boxes[4][MOST];
  float scores[MOST];
  int32_t classes[MOST];
  const size_t count = (size_t)c->count;
  float *const flat = &boxes[0][0];
  check(aster_ml_lazy_copy_out(flat, 4 * count * sizeof(*flat), &c->boxes));
  check(aster_ml_lazy_copy_out(scores, count * sizeof(*scores), &c->scores));
  check(aster_ml_lazy_copy_out(classes, count * sizeof(*classes), &c->classes));
  for (size_t i = 0; i < count; ++i) {
    if (stays[i] == 0) continue;
    printf("class %d %.4f", (int)classes[i], (double)scores[i]);
    for (size_t k = 0; k < 4; ++k) {
      const int64_t origin = k % 2 ? at.top : at.left;
      printf(" %.2f", ((double)flat[k * count + i] - (double)origin) / at.scale);
    }
    puts("");
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return fputs("usage: detect MODEL.onnx PICTURE.ppm\n", stderr), 2;
  aster_ml_scope scope;
  aster_ml_onnx model;
  place at;
  float stays[MOST];
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context));
  check(aster_ml_onnx_read(&model, &context, argv[1]));
  const int64_t height = aster_ml_onnx_input_dim(&model, 0, 2),
                width = aster_ml_onnx_input_dim(&model, 0, 3);
  const tensor picture = read_ppm(&context, argv[2]);
  const tensor x = prepare(&at, picture, height > 0 ? height : 640, width > 0 ? width : 640);
  tensor found = run_on(&context, &model, x), boxes;
  check(aster_ml_lazy_select(&boxes, &found, 0, 0));
  candidates c = find(boxes);
  suppress(stays, &c);
  print(&c, stays, at);
  check(aster_ml_onnx_free(&model));
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return 0;
}
