// Decompositions and solutions of one row-major matrix of float32 or float64: by LAPACK where there
// is one and the matrix is not small, else by our own algorithms (factor_own.h, spectrum_own.h,
// general_own.h). Wide floats have theirs (linalg_wide.h). kLu and kLuFactor of int32 or int64 are
// those of sticky integers (lu_exact.h).
//
// A row-major matrix is the transpose of a column-major one in the same memory: it is transposed
// only where that does not serve.
#pragma once

#include "base/status.h"
#include "dtype/dtype.h"

namespace aster::runtime::cpu::linalg {

// Why a matrix has no result, of every dtype; the number is the pivot, order, count or element.
constexpr const char* kSingular = "it is singular: pivot %lld is 0";
constexpr const char* kNotPositive =
    "it is not positive definite: its leading minor of order %lld is not positive";
constexpr const char* kNotConverged = "%lld of its values did not converge";
constexpr const char* kNotFinite = "its element %lld is not finite";

// What is computed of a, m by n: its results in order. k = min(m, n).
enum class What : uint8_t {
  kLu,           // p [m, m], l [m, k], u [k, n], a = p l u
  kLuFactor,     // l below the diagonal and u [m, n]; row i of p a is row r[i] of a: r [m]
  kCholesky,     // l [n, n], or u where upper, of that triangle of a
  kQr,           // q [m, m], r [m, n], or where reduced q [m, k], r [k, n]
  kSvd,          // u [m, m], s [k], vt [n, n], or where reduced u [m, k], vt [k, n]
  kSvdValues,    // s [k]
  kEigh,         // w [n], rising, v [n, n], of the lower or the upper triangle
  kEighValues,   // w [n]
  kEig,          // real and imaginary parts [n] each, v [n, n] as LAPACK packs pairs
  kEigValues,    // the parts alone
  kSolve,        // x [n, k] of a x = b, b [n, k] being operand 1; k is columns
  kTriangular,   // the same of a triangle of a
  kInverse,      // [n, n]
  kDeterminant,  // its value, its sign and the logarithm of its magnitude, [] each
  kExpm          // [n, n]
};

struct Problem {
  What what;
  dtype::DType dtype;
  int64_t m, n, columns;
  // turned: a lies in memory as its transpose does; of solutions: its transpose is solved with.
  bool reduced, upper, turned, unit;
  bool library;      // LAPACK may be used
  int32_t rounding;  // of operations on wide floats: a mode of flt.h
  bool operator==(const Problem&) const = default;
};

constexpr size_t kMostResults = 3;

// Of one matrix: the axes of a result.
struct Result {
  size_t ndim;
  int64_t dims[2];
  int64_t count() const { return (ndim > 0 ? dims[0] : 1) * (ndim > 1 ? dims[1] : 1); }
};
struct Results {
  Result of[kMostResults];
  size_t count;
};
Results results_of(const Problem& problem);
const char* name_of(What what);

// Nanoseconds on one thread, about.
double cost_of(const Problem& problem);
// RANGE where LAPACK's 32-bit numbers, or memory's, do not hold it.
Status check(const Problem& problem);
// Of one call, aligned to 64.
int64_t scratch_bytes(const Problem& problem);

// Why there is no result: a text with one %lld for `at`; null: there is one.
struct Trouble {
  const char* text = nullptr;
  int64_t at = 0;
  Code code = Code::kNUMERIC;
};
// One matrix; results do not overlap operands. Threads: any, each with its scratch.
Trouble compute(const Problem& problem, const void* const* operands, void* const* results,
                void* scratch);

}  // namespace aster::runtime::cpu::linalg
