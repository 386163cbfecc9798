/* Portable programs: what lies between some tensors and others, as a file.
 *
 * A program of this form is a graph of named operations with its constants. It is for any machine
 * and any later version of the library: loading compiles it for the machine at hand and gives an
 * aster_ml_program (engine.h) like one that was captured.
 *
 *   aster_ml_boundary step = {.struct_size = sizeof step, .inputs = (aster_ml_lazy *[]){&x},
 *                             .input_count = 1, .outputs = (aster_ml_lazy *[]){&y},
 *                             .output_count = 1};
 *   aster_ml_program_save("step.aster", &context, &step, 0);
 *   aster_ml_program_load(&program, &context, "step.aster");
 *
 * A file is a header of 64 bytes, the graph as text, and the constants, each aligned to 64 bytes.
 * The text alone, with its constants as hexadecimal digits, is a program too. docs/PORTABLE.md has
 * the format.
 */
#ifndef ASTER_ML_PORTABLE_H
#define ASTER_ML_PORTABLE_H

#include "aster_ml/base.h"
#include "aster_ml/engine.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a program begins and ends. Inputs are what runs are given: memory, realised where they are
 * not, of which the outputs are computed. All else that is read is written as it is now: constants,
 * or, where the outputs assign to it, state that a loaded program has for itself. */
typedef struct aster_ml_boundary {
  uint32_t struct_size;
  aster_ml_lazy *const *inputs;
  size_t input_count;
  const char *const *input_names; /* UTF-8; null: "input0", "input1", .. */
  aster_ml_lazy *const *outputs;
  size_t output_count;
  const char *const *output_names; /* null: "output0", .. */
} aster_ml_boundary;

enum {
  ASTER_ML_PROGRAM_TEXT = 1,      /* as text alone */
  ASTER_ML_PROGRAM_SIDE_FILE = 2, /* constants in PATH.data */
  ASTER_ML_PROGRAM_STATE_INPUTS =
      4 /* what is assigned to is no state of the program, but inputs behind the others, to which
           runs assign: under the names that they have, or "state0", .. */
};

/* Writes what computes the outputs of the inputs to a file, whole or not at all. flags:
 * ASTER_ML_PROGRAM_*. Nothing is computed but the inputs. Errors: ARGUMENT (inputs that overlap, no
 * outputs, a name twice or none), UNSUPPORTED (symbolic sizes, kernels that are not the library's,
 * memory that is assigned and read in two shapes), IO, NOT_FOUND (the folder), STATE (in a
 * capture). */
ASTER_ML_API int32_t aster_ml_program_save(const char *path, const aster_ml_context *context,
                                           const aster_ml_boundary *boundary, uint32_t flags);

/* The same into memory. length: the bytes; out holds room for capacity of them and may be null to
 * ask for length alone. Errors: as save; RANGE (capacity is less than length; a side file). */
ASTER_ML_API int32_t aster_ml_program_to_bytes(void *out, size_t *length, size_t capacity,
                                               const aster_ml_context *context,
                                               const aster_ml_boundary *boundary, uint32_t flags);

/* The same of a program that was captured, or loaded: all that its runs compute and assign, call by
 * call of realize, so that what is loaded gives the same bits. Memory that it assigns is state of
 * the loaded program, which begins with what it is now; all else that was captured is constant.
 * Names (aster_ml_program_set_name) are kept. Random numbers go on from a state of the program's
 * own. Nothing is computed. Errors: ARGUMENT (an empty program, two inputs of a name), UNSUPPORTED
 * (kernels that are not the library's, memory that is assigned and read in two shapes), IO,
 * NOT_FOUND (the folder), STATE (in a capture). Threads: not during a run of the program. */
ASTER_ML_API int32_t aster_ml_program_save_captured(const char *path,
                                                    const aster_ml_program *program,
                                                    uint32_t flags);

/* The same into memory; see aster_ml_program_to_bytes. */
ASTER_ML_API int32_t aster_ml_program_captured_to_bytes(void *out, size_t *length, size_t capacity,
                                                        const aster_ml_program *program,
                                                        uint32_t flags);

/* The program of a file. Its constants are the file's pages, mapped and not copied; the file has to
 * stay as it is while the program lives. Nothing runs. Errors: NOT_FOUND, IO, FORMAT (what is no
 * such file, truncated or altered, with the line of what does not read), UNSUPPORTED (of a later
 * version), as realize where kernels are made. */
ASTER_ML_API int32_t aster_ml_program_load(aster_ml_program *out, const aster_ml_context *context,
                                           const char *path);

/* The same of bytes, either form. Constants are copied. */
ASTER_ML_API int32_t aster_ml_program_from_bytes(aster_ml_program *out,
                                                 const aster_ml_context *context, const void *data,
                                                 size_t bytes);

/* The same on a device (0: the CPU), where runs are given inputs and outputs. Where its backend
 * executes programs (execute_program of device.h) and takes this one, a run is one call of that,
 * and such a program is not saved again; where it answers UNSUPPORTED, where there is none, and
 * where a program has Variables, the library computes as for any graph on that device, with
 * constants copied there. Errors: as load and from_bytes, ARGUMENT (no such device), UNSUPPORTED
 * (NULL, DISK), DEVICE. */
ASTER_ML_API int32_t aster_ml_program_load_on(aster_ml_program *out,
                                              const aster_ml_context *context, const char *path,
                                              int32_t device);
ASTER_ML_API int32_t aster_ml_program_from_bytes_on(aster_ml_program *out,
                                                    const aster_ml_context *context,
                                                    const void *data, size_t bytes, int32_t device);

/* Checks bytes as loading does, without making anything of them. Errors: as from_bytes. */
ASTER_ML_API int32_t aster_ml_program_verify(const aster_ml_context *context, const void *data,
                                             size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
