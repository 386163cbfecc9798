/* The library for C++17 and later: one header, no exceptions, no run-time types.
 *
 *   aster_ml::Tensor x({1., 2., 3.}), w({4., 5., 6.});
 *   aster_ml::Tensor loss = (x * w + 1).sum();
 *   if (!loss.realize()) puts(aster_ml::error().message);
 *
 * Objects    Context, Tensor, Array, Program, nn::Layer, nn::State and nn::Optimizer are counted
 *            references: a copy is the same object, as in Python, and the last one frees it.
 *            Moved-from and default-made ones are empty, and may be used as such.
 * Errors     A function that fails gives an empty tensor (or false, or nothing), and what is built
 *            on an empty tensor is empty too, without a new error: the record that error() gives
 *            stays the first one. So it is enough to look at what realize() says.
 * Contexts   Creation takes place in the current context of the thread: the last Context made in it
 *            that still lives, else a default one. Operands belong to one context; a number among
 *            them is made in the context of the others, of a weak dtype.
 * Memory     What the library cannot allocate is a MEMORY error. std::vector takes its own.
 * Scopes     Those of C (aster_ml_scope_begin) must not be open where tensors are made here.
 *
 * Methods that are one call of the C library stand in cpp/methods.hpp and cpp/families.hpp, their
 * contracts above the C functions; names, order and defaults of arguments are those of tinygrad's
 * Tensor.
 */
#ifndef ASTER_ML_HPP
#define ASTER_ML_HPP

#include "aster_ml/cpp/arena.hpp"
#include "aster_ml/cpp/array.hpp"
#include "aster_ml/cpp/graph.hpp"
#include "aster_ml/cpp/kernel.hpp"
#include "aster_ml/cpp/nn.hpp"
#include "aster_ml/cpp/program.hpp"
#include "aster_ml/cpp/queue.hpp"
#include "aster_ml/cpp/registry.hpp"
#include "aster_ml/cpp/schedule.hpp"
#include "aster_ml/cpp/sparse.hpp"
#include "aster_ml/cpp/symbolic.hpp"
#include "aster_ml/cpp/tensor.hpp"
#include "aster_ml/cpp/trace.hpp"
#include "aster_ml/cpp/view.hpp"

#endif
