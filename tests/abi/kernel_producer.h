/* A library of somebody else's that makes kernels: it knows the interface, not who calls them. */
#define ASTER_ML_BLAZE_NAMES
#include <aster_ml/kernel.h>

/* A kernel that multiplies int32 elements by a factor which it owns. 0, or less on an error. */
int producer_get_scaling(dynamic_kernel_instance *out_kernel, int32_t factor);

/* The same by form: x * factor on elements that lie strides apart, a + factor * b, and the sum of
 * three elements and factor times their product. */
enum { PRODUCER_SCALE, PRODUCER_SCALE_STRIDED, PRODUCER_ADD_STRIDED, PRODUCER_ARRAYS };
int producer_get(dynamic_kernel_instance *out_kernel, int which, int32_t factor);

/* Kernels alive, and blocks of the producer's own memory in use. */
int producer_kernels(void);
int producer_blocks(void);
