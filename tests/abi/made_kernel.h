/* Kernels that the library made, as code that knows the interface alone uses them. */
#ifndef ASTER_ML_TESTS_MADE_KERNEL_H
#define ASTER_ML_TESTS_MADE_KERNEL_H

#include <aster_ml/aster_ml.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

typedef aster_ml_dynamic_kernel_instance instance;

#define FUNCTION(type, name, k) \
  type name;                    \
  memcpy(&name, &(k).kernel->function, sizeof name)

static void end(instance *k) {
  k->kernel->destructor(k->kernel);
  k->free_func(k->kernel);
}
/* Moved by memcpy, its old memory given up. */
static void move(instance *k) {
  EXPECT(k->kernel_size % sizeof(void *) == 0);
  void **home = malloc(k->kernel_size);
  memcpy(home, k->kernel, k->kernel_size);
  k->free_func(k->kernel);
  k->kernel = (aster_ml_kernel_data_prefix *)(void *)home;
  k->free_func = free;
}
/* Calls it on several threads at once; what returns other than NULL has failed. */
static void call_on_threads(const instance *k, void *(*call)(void *kernel)) {
  enum { kThreads = 4 };
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++)
    EXPECT(pthread_create(&threads[i], NULL, call, k->kernel) == 0);
  for (int i = 0; i < kThreads; i++) {
    void *result = NULL;
    EXPECT(pthread_join(threads[i], &result) == 0 && result == NULL);
  }
}

#endif
