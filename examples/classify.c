/* Says what is in a picture, by a network for ImageNet in an ONNX file, such as ResNet-18:
 * classify MODEL.onnx PICTURE.ppm [NAMES.txt]
 *
 * `convert picture.jpg picture.ppm` makes a PPM; NAMES.txt has a line for each class. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "picture.h"

/* The picture's shorter side is made SHORTER long, a square of its middle is looked at. */
enum { SHORTER = 256, SIZE = 224, SHOWN = 5 };
static const float kMean[] = {0.485F, 0.456F, 0.406F}, kDeviation[] = {0.229F, 0.224F, 0.225F};
typedef aster_ml_lazy tensor;
static aster_ml_context context;

/* [1, 3, SIZE, SIZE] as the network was trained. Nothing is computed yet, and a builder that fails
 * leaves its result empty: the next check tells. */
static tensor prepare(tensor picture) {
  const int64_t height = aster_ml_lazy_dim(&picture, 0), width = aster_ml_lazy_dim(&picture, 1);
  const double scale = (double)SHORTER / (double)(height < width ? height : width);
  const int64_t size[] = {llrint((double)height * scale), llrint((double)width * scale)};
  const int64_t top = (size[0] - SIZE) / 2, left = (size[1] - SIZE) / 2, channel[] = {3, 1, 1};
  tensor planes, real, resized, middle, most, mean, deviation, unit, moved, scaled, batch;
  aster_ml_lazy_permute(&planes, &picture, 3, (int64_t[]){2, 0, 1});
  aster_ml_lazy_cast(&real, &planes, ASTER_ML_DTYPE_FLOAT32);
  aster_ml_lazy_interpolate(&resized, &real, 2, size, ASTER_ML_INTERPOLATION_LINEAR, 0);
  aster_ml_lazy_shrink(&middle, &resized, 3, (int64_t[]){0, top, left},
                       (int64_t[]){3, top + SIZE, left + SIZE});
  aster_ml_lazy_number(&most, &context, 255);
  aster_ml_lazy_from(&mean, &context, kMean, ASTER_ML_DTYPE_FLOAT32, 3, channel);
  aster_ml_lazy_from(&deviation, &context, kDeviation, ASTER_ML_DTYPE_FLOAT32, 3, channel);
  aster_ml_lazy_div(&unit, &middle, &most);
  aster_ml_lazy_sub(&moved, &unit, &mean);
  aster_ml_lazy_div(&scaled, &moved, &deviation);
  check(aster_ml_lazy_unsqueeze(&batch, &scaled, 0));
  return batch;
}

/* A line of a file; empty where there is none. */
static void read_name(char *name, size_t size, const char *path, int line) {
  FILE *file = path ? fopen(path, "r") : NULL;
  *name = 0;
  for (int i = 0; file && i <= line; ++i) {
    if (!fgets(name, (int)size, file)) *name = 0;
  }
  name[strcspn(name, "\r\n")] = 0;
  if (file) fclose(file);
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 4) {
    return fputs("usage: classify MODEL.onnx PICTURE.ppm [NAMES.txt]\n", stderr), 2;
  }
  aster_ml_scope scope;
  aster_ml_onnx model;
  tensor flat, chances, best, classes;
  float chance[SHOWN];
  int32_t number[SHOWN];
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context));
  check(aster_ml_onnx_read(&model, &context, argv[1])); /* mapped: weights are used in the file */
  const tensor scores = run_on(&context, &model, prepare(read_ppm(&context, argv[2])));
  aster_ml_lazy_reshape(&flat, &scores, 1, (int64_t[]){-1});
  aster_ml_lazy_softmax(&chances, &flat, 0);
  check(aster_ml_lazy_topk(&best, &classes, &chances, SHOWN, 0, 1));
  check(aster_ml_lazy_copy_out(chance, sizeof(chance), &best));
  check(aster_ml_lazy_copy_out(number, sizeof(number), &classes));
  for (int i = 0; i < SHOWN; ++i) {
    char name[256];
    read_name(name, sizeof(name), argc > 3 ? argv[3] : NULL, number[i]);
    printf(*name ? "%8.4f %%  class %d %s\n" : "%8.4f %%  class %d\n", 100 * (double)chance[i],
           (int)number[i], name);
  }
  check(aster_ml_onnx_free(&model));
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return 0;
}
