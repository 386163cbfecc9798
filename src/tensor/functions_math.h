// Transcendental functions as expressions of the IR's operations: to a few units in the last place,
// with gradients that are finite wherever the function's is. Operands are float32 or float64.
#pragma once

#include "uop/expr.h"

namespace aster::tensor {

using uop::Expr;

// ln(1 + x) and e^x - 1, exact for small x.
Expr log1p(Expr x);
Expr expm1(Expr x);
Expr asin(Expr x);
Expr acos(Expr x);
Expr atan(Expr x);
Expr sinh(Expr x);
Expr cosh(Expr x);
Expr asinh(Expr x);
Expr acosh(Expr x);
Expr atanh(Expr x);
// ln(e^a + e^b); infinities are themselves.
Expr logaddexp(Expr a, Expr b);
// ln(1 + e^x).
Expr softplus(Expr x);

}  // namespace aster::tensor
