/* Contexts, scopes, allocators and the error record, from plain C. */
#include <aster_ml/base.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static void test_texts(void) {
  EXPECT(strcmp(aster_ml_version(), "0.1.0") == 0);
  EXPECT(strcmp(aster_ml_status_name(ASTER_ML_OK), "OK") == 0);
  EXPECT(strcmp(aster_ml_status_name(ASTER_ML_INTERNAL), "INTERNAL") == 0);
  EXPECT(strcmp(aster_ml_status_name(-1), "UNKNOWN") == 0);
  for (int32_t code = ASTER_ML_OK; code <= ASTER_ML_INTERNAL; code++) {
    EXPECT(strlen(aster_ml_status_name(code)) > 0);
    EXPECT(strlen(aster_ml_status_text(code)) > 0);
  }
}

static void test_error_record(void) {
  aster_ml_error error;
  EXPECT(aster_ml_error_clear() == ASTER_ML_OK);
  EXPECT(aster_ml_error_last(&error) == ASTER_ML_OK);
  EXPECT(error.code == 0);
  EXPECT(aster_ml_context_init(NULL, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_error_last(&error) == ASTER_ML_OK);
  EXPECT(error.code == ASTER_ML_ARGUMENT);
  EXPECT(strcmp(error.function, "aster_ml_context_init") == 0);
  EXPECT(strlen(error.message) > 0 && strlen(error.message) < sizeof error.message);
  EXPECT(aster_ml_error_last(NULL) == ASTER_ML_ARGUMENT);
}

static void test_context(void) {
  aster_ml_context context = {0};
  EXPECT(aster_ml_context_free(&context) == ASTER_ML_OK); /* empty */
  EXPECT(aster_ml_context_init(&context, NULL) == ASTER_ML_OK);
  EXPECT(context.impl != NULL);

  aster_ml_scope outer = {0}, inner = {0};
  EXPECT(aster_ml_scope_begin(&outer, &context) == ASTER_ML_OK);
  EXPECT(aster_ml_scope_begin(&inner, &context) == ASTER_ML_OK);
  EXPECT(aster_ml_scope_end(&outer) == ASTER_ML_STATE); /* the inner one is open */
  EXPECT(aster_ml_scope_end(&inner) == ASTER_ML_OK);
  EXPECT(aster_ml_scope_end(&outer) == ASTER_ML_OK);

  EXPECT(aster_ml_context_free(&context) == ASTER_ML_OK);
  EXPECT(context.impl == NULL);
  EXPECT(aster_ml_context_free(&context) == ASTER_ML_OK); /* twice */
}

static void test_options(void) {
  aster_ml_context context;
  aster_ml_context_options options = {0};
  options.struct_size = sizeof options;
  options.threads = -1;
  memset(&context, 0xff, sizeof context);
  EXPECT(aster_ml_context_init(&context, &options) == ASTER_ML_RANGE);
  EXPECT(context.impl == NULL); /* a failure leaves outputs zeroed */
  options.threads = 1;
  options.vector_bytes = 7;
  EXPECT(aster_ml_context_init(&context, &options) != ASTER_ML_OK);

  /* An older client's shorter struct: what lies behind it is not read. */
  options.vector_bytes = 0;
  options.struct_size = (uint32_t)offsetof(aster_ml_context_options, allocator);
  options.cache_dir = (const char *)1;
  EXPECT(aster_ml_context_init(&context, &options) == ASTER_ML_OK);
  EXPECT(aster_ml_context_free(&context) == ASTER_ML_OK);
}

/* Counts what the library holds; refuses after a number of requests. */
typedef struct counter {
  size_t blocks, bytes, left;
} counter;

static void *counted_allocate(void *self, size_t bytes, size_t alignment) {
  counter *c = self;
  if (c->left == 0) return NULL;
  c->left--;
  size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void *p = aligned_alloc(alignment < sizeof(void *) ? sizeof(void *) : alignment,
                          rounded < sizeof(void *) ? sizeof(void *) : rounded);
  if (p != NULL) {
    c->blocks++;
    c->bytes += bytes;
  }
  return p;
}

static void counted_release(void *self, void *pointer, size_t bytes, size_t alignment) {
  counter *c = self;
  (void)alignment;
  c->blocks--;
  c->bytes -= bytes;
  free(pointer);
}

static void test_allocator(void) {
  int done = 0;
  for (size_t limit = 0; !done && limit < 100; limit++) {
    counter c = {0, 0, limit};
    aster_ml_allocator allocator = {sizeof allocator, &c, counted_allocate, counted_release};
    aster_ml_context_options options = {0};
    options.struct_size = sizeof options;
    options.allocator = &allocator;
    aster_ml_context context;
    int32_t status = aster_ml_context_init(&context, &options);
    EXPECT(status == ASTER_ML_OK || status == ASTER_ML_MEMORY);
    EXPECT((status == ASTER_ML_OK) == (context.impl != NULL));
    if (status == ASTER_ML_OK) {
      size_t now = 0, most = 0;
      EXPECT(aster_ml_context_count_bytes(&now, &most, &context) == ASTER_ML_OK);
      EXPECT(now <= most && now <= c.bytes);
      done = 1;
    }
    EXPECT(aster_ml_context_free(&context) == ASTER_ML_OK);
    EXPECT(c.blocks == 0 && c.bytes == 0);
  }
  EXPECT(done);
}

int main(void) {
  test_texts();
  test_error_record();
  test_context();
  test_options();
  test_allocator();
  return expect_failures;
}
