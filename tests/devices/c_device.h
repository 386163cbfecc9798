/* A device that compiles C with the system's compiler and runs it on threads of its own, made with
 * nothing but the public header. Its memory has addresses that fault wherever they are used without
 * asking it, and it fails where it is told to. */
#ifndef C_DEVICE_H
#define C_DEVICE_H

#include "aster_ml/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What it is to do, and what it has done. One process, one device. */
typedef struct c_device_state {
  /* Faults: statuses of the next calls, 0: none. */
  int32_t fail_allocate, fail_build, fail_submit, fail_copy;
  int32_t fail_command;   /* DEVICE from the nth command on: 1 is the next one */
  const char *said;       /* of what fails, by failing in a function of the library */
  const char *beyond;     /* kernels with this in their text are beyond it */
  const char *bad_text;   /* put in front of each text, for the compiler to refuse */
  const char *bad_word;   /* only of texts with this */
  int32_t without_double; /* asks for no float64 */
  /* Counts. */
  int32_t blocks, modules, queues;            /* that live */
  int64_t builds, kernels, submits, launches; /* since the start */
  int64_t ins, outs, in_bytes, out_bytes;     /* copies by commands and by copy_in and copy_out */
} c_device_state;

c_device_state *c_device(void);
/* Registers it as CDEV; gives the code of its first device of two. */
int32_t c_device_register(int32_t *out);
/* Makes all its faults go away. */
void c_device_mend(void);

#ifdef __cplusplus
}
#endif
#endif
