/* A device that knows no compiler: it reads the text of kernel programs and goes through it
 * (text_program.h). Made with nothing but the public header. Its memory has no addresses of the
 * host; a command is done when submit returns. */
#ifndef TEXT_DEVICE_H
#define TEXT_DEVICE_H

#include "aster_ml/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What it has done. One process, one device. */
typedef struct text_device_state {
  int32_t blocks, modules, queues;               /* that live */
  int64_t kernels, refused, launches, ins, outs; /* since the start */
  char why[128];                                 /* the last kernel was refused */
} text_device_state;

text_device_state *text_device(void);
/* Registers it under a name, TEXT or one that waits for a backend. */
int32_t text_device_register(int32_t *out, const char *name);

#ifdef __cplusplus
}
#endif
#endif
