/* Functions of OpenCL, as a program of its own would find them. */
#ifndef ASTER_ML_TESTS_OPENCL_H
#define ASTER_ML_TESTS_OPENCL_H

#include <dlfcn.h>
#include <string.h>

/* Fills a struct of pointers to functions in the order of their names; 0: one is missing. */
static int open_opencl(void *functions, const char *const *names, size_t count) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
  for (size_t i = 0; library != NULL && i < count; i++) {
    void *function = dlsym(library, names[i]);
    memcpy((char *)functions + i * sizeof function, &function, sizeof function);
    if (function == NULL) return 0;
  }
  return library != NULL;
}

#endif
