/* A device without kernels: it executes whole portable programs (docs/PORTABLE.md), which it reads
 * as text, node by node in float32. Made with nothing but the public header. Its memory has no
 * addresses of the host. What it does not know it leaves to the library. */
#ifndef PROGRAM_DEVICE_H
#define PROGRAM_DEVICE_H

#include "aster_ml/device.h"
#include "aster_ml/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What goes wrong on purpose. */
enum {
  PROGRAM_DEVICE_FINE,
  PROGRAM_DEVICE_TAKES_NONE, /* UNSUPPORTED */
  PROGRAM_DEVICE_LOST,       /* DEVICE when a program is taken */
  PROGRAM_DEVICE_FAILS,      /* DEVICE when one is executed */
  PROGRAM_DEVICE_WRONG_DTYPE,
  PROGRAM_DEVICE_WRONG_SHAPE,
  PROGRAM_DEVICE_WRONG_RANK,
  PROGRAM_DEVICE_SAYS_NOTHING /* of what it made */
};

/* What it has done. One process, one device. */
typedef struct program_device_state {
  int32_t blocks, programs;         /* that live */
  int64_t taken, refused, executed; /* since the start */
  int32_t fault;
} program_device_state;

program_device_state *program_device(void);
int32_t program_device_register(int32_t *out, const char *name);

#ifdef __cplusplus
}
#endif
#endif
