/* The graph in public: lazy tensors as nodes, nodes as lazy tensors, constants of any shape, and
 * rewriting by rules of the caller's.
 *
 * A lazy tensor names a node (uop.h). aster_ml_lazy_to_uop gives it; whoever has nodes, by walking
 * those of tensors or by aster_ml_uop_init, makes them tensors with aster_ml_lazy_from_uop. Such a
 * tensor is one like any other: realize computes it, gradients go through it, captures record it.
 *
 *   const aster_ml_uop *node = NULL, *twice = NULL;
 *   aster_ml_lazy_to_uop(&node, &x);
 *   aster_ml_uop_options add = {.struct_size = sizeof add, .op = "Add",
 *                               .sources = (const aster_ml_uop *[]){node, node}, .source_count =
 * 2}; aster_ml_uop_init(&twice, &context, &add); aster_ml_lazy_from_uop(&y, &context, twice);
 *
 * A node says what is computed of the memory that it reads as it is when that happens. Realising a
 * tensor changes what the tensor names, not the node that it named before. A node with writes in it
 * (Assign) does them in every realisation of a tensor of it; writes that wait for each other are
 * UNSUPPORTED there.
 */
#ifndef ASTER_ML_GRAPH_H
#define ASTER_ML_GRAPH_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"
#include "aster_ml/uop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The node that x names now, retained (aster_ml_uop_release). Of a tensor with symbolic sizes that
 * of the present ones, which are used as numbers. */
ASTER_ML_API int32_t aster_ml_lazy_to_uop(const aster_ml_uop **out, const aster_ml_lazy *x);

/* A tensor that names a node, whatever built it: everything below it is checked. Errors: ARGUMENT
 * (null, a node of another context; an operation of kernels, a Param, which has no memory, a Sink;
 * a write to what is no storage; a device that there is not), DTYPE (a weak dtype anywhere but in
 * constants and in casts to it), UNSUPPORTED (more than 255 axes). Cost: O(nodes below). */
ASTER_ML_API int32_t aster_ml_lazy_from_uop(aster_ml_lazy *out, const aster_ml_context *context,
                                            const aster_ml_uop *uop);

/* A constant with elements of its own: a Buffer that nothing can be assigned to, holding a copy of
 * host data, row-major, on the default device; retained. data may be null where a dimension is 0.
 * Errors: ARGUMENT, RANGE (a negative dimension, too many elements), DTYPE (a weak dtype). */
ASTER_ML_API int32_t aster_ml_uop_from_data(const aster_ml_uop **out,
                                            const aster_ml_context *context, const void *data,
                                            int32_t dtype, size_t ndim, const int64_t *shape);

/* A rule of rewriting: what matches `from` becomes `to`. Both are texts:
 *
 *   Add(Mul(x, c0), Mul(x, c1))  ->  Mul(x, Add(c0, c1))
 *   Reduce:Add[r](Neg(x))        ->  Neg(Reduce:Add[r](x))
 *   Cast:float32(Cast:float64(x:float32))  ->  x
 *
 * Operations go by the names that aster_ml_uop_op gives, those of composites without their body;
 * all that has two operands and is commutative is tried in both orders. Variables begin with a
 * small letter and match any node; x:float, x:int, x:const and x:int8 only such, c0, c1, .. only
 * constants. One that occurs twice is the same node. A number matches a constant of that value, of
 * any dtype, and on the right becomes one of what stands beside it. A label, [r], names the
 * arguments, the shape and the dtype of an operation; one of the right side that has more than
 * operands takes those of the label. The left side is an operation. */
typedef struct aster_ml_uop_rule {
  uint32_t struct_size; /* in: sizeof(aster_ml_uop_rule), the same in all of an array */
  const char *name;     /* for messages; null: "0", "1", .. by its place */
  const char *from;
  const char *to; /* null: build says what */
  /* What stands for root, given what the variables of `from` stand for in the order in which they
   * first occur: retained for the caller in *out, or null where the rule does not apply after all.
   * It may use the context. A status stops the rewriting. */
  int32_t (*build)(void *self, const aster_ml_uop **out, const aster_ml_context *context,
                   const aster_ml_uop *root, const aster_ml_uop *const *variables, size_t count);
  void *self;
} aster_ml_uop_rule;

/* root, and all that it is made of, rewritten until no rule applies, sources before users;
 * retained. The first rule of the list that matches is applied; bodies of composites are left
 * alone. fired, if given, counts for each rule how often it was. What a rule gives has to have the
 * shape and dtype of what it replaces. Rules that go on for ever are stopped: after 256
 * applications, and 64 more a node of root. Errors name the rule. Errors: ARGUMENT (null, a node of
 * another context, a variable that the left side does not bind, wrong numbers of operands, a
 * pattern of more than 64 parts), FORMAT (a text that does not read, with the column), NOT_FOUND
 * (no such operation), SHAPE, DTYPE (what came is not as what it replaces, or cannot be built),
 * RANGE (no end), what build gives. */
ASTER_ML_API int32_t aster_ml_uop_rewrite(const aster_ml_uop **out, const aster_ml_context *context,
                                          const aster_ml_uop *root, const aster_ml_uop_rule *rules,
                                          size_t count, uint64_t *fired);

#ifdef __cplusplus
}
#endif
#endif
