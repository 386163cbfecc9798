/* Pictures, binary PPM files (`convert picture.jpg picture.ppm`), and models that look at them. */
#ifndef ASTER_EXAMPLES_PICTURE_H
#define ASTER_EXAMPLES_PICTURE_H

#include <ctype.h>

#include "check.h"

/* A number of a header, behind white space and comments; -1 where there is none. */
static inline int header_number(FILE *file) {
  int c, value = -1;
  while ((c = fgetc(file)) == '#' || isspace(c)) {
    while (c == '#' && (c = fgetc(file)) != '\n' && c != EOF) c = '#';
  }
  for (; isdigit(c) && value < 100000; c = fgetc(file))
    value = (value < 0 ? 0 : value) * 10 + c - '0';
  return value;
}

/* The picture as uint8 [height, width, 3]; the program ends where there is none. */
static inline aster_ml_lazy read_ppm(const aster_ml_context *owner, const char *path) {
  aster_ml_lazy picture = {0};
  FILE *file = fopen(path, "rb");
  const int is_ppm = file && fgetc(file) == 'P' && fgetc(file) == '6';
  const int width = is_ppm ? header_number(file) : -1, height = is_ppm ? header_number(file) : -1;
  if (width < 1 || height < 1 || header_number(file) != 255) {
    fprintf(stderr, "%s is no binary PPM of 8 bits\n", path);
    exit(1);
  }
  check(aster_ml_lazy_from_file(&picture, owner, path, ASTER_ML_DTYPE_UINT8, 3,
                                (int64_t[]){height, width, 3}, ftell(file), ASTER_ML_FILE_READ));
  fclose(file);
  return picture;
}

/* The first result of a model of one input. */
static inline aster_ml_lazy run_on(const aster_ml_context *owner, const aster_ml_onnx *model,
                                   aster_ml_lazy x) {
  aster_ml_onnx_value inputs, input, outputs, output;
  aster_ml_lazy y;
  check(aster_ml_onnx_value_init(&inputs, owner, ASTER_ML_ONNX_SEQUENCE));
  check(aster_ml_onnx_value_from_lazy(&input, &x));
  check(aster_ml_onnx_value_push(&inputs, &input));
  check(aster_ml_onnx_compute(&outputs, model, &inputs));
  check(aster_ml_onnx_value_at(&output, &outputs, 0));
  check(aster_ml_onnx_value_get(&y, &output));
  aster_ml_onnx_value *const values[] = {&inputs, &input, &outputs, &output};
  for (int i = 0; i < 4; ++i) aster_ml_onnx_value_free(values[i]);
  return y;
}

#endif
