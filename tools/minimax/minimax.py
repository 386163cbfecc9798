#!/usr/bin/env python3
"""Polynomial coefficients of the functions of kernels (src/codegen/functions_*.cpp) and of those
composed in src/tensor/functions_math.cpp.

Remez exchange on a Chebyshev grid with mpmath, weighted so that the largest relative error of the
function is what is minimised. Coefficients are then rounded to the target format; the error printed
is that of the rounded polynomial evaluated exactly.

Needs mpmath.

    minimax.py [NAME...]      prints coefficients (hexadecimal) and the largest error of each fit
"""
import sys

from mpmath import mp, mpf

mp.prec = 240


def rounded(value, bits):
    """value to the nearest number of that many significant bits."""
    with mp.workprec(bits):
        return +value


class Fit:
    """f(x) ~ fixed(x) + sum c[k] * x**powers[k], least max |error * weight| on [low, high]."""

    def __init__(self, f, powers, low, high, weight, bits, fixed=lambda x: mpf(0)):
        points = max(40 * len(powers), 400)
        mid, half = (mpf(low) + high) / 2, (mpf(high) - low) / 2
        self.grid = [mid - half * mp.cos(mp.pi * (i + mpf(1) / 2) / points) for i in range(points)]
        self.weight = [mpf(weight(x)) for x in self.grid]
        self.rest = [f(x) - fixed(x) for x in self.grid]
        self.powers, self.bits = powers, bits

    def run(self):
        """The rounded coefficients and their largest weighted error."""
        # Divided by the lowest power: errors alternate in sign only then if 0 is inside.
        powers = [p - self.powers[0] for p in self.powers]
        rest = [r / x**self.powers[0] for r, x in zip(self.rest, self.grid)]
        weight = [abs(w * x**self.powers[0]) for w, x in zip(self.weight, self.grid)]
        n, last = len(powers), len(self.grid) - 1
        columns = [[x**p for p in powers] for x in self.grid]
        nodes = [round(last * (1 - float(mp.cos(mp.pi * i / n))) / 2) for i in range(n + 1)]

        def errors(c):
            return [(r - sum(c[k] * row[k] for k in range(n))) * w
                    for r, row, w in zip(rest, columns, weight)]

        for _ in range(30):
            matrix = mp.matrix(n + 1, n + 1)
            right = mp.matrix(n + 1, 1)
            for row, g in enumerate(nodes):
                for k in range(n):
                    matrix[row, k] = columns[g][k]
                matrix[row, n] = (-1)**row / weight[g]
                right[row] = rest[g]
            solved = mp.lu_solve(matrix, right)
            error = errors(solved)
            if max(abs(e) for e in error) <= abs(solved[n]) * mpf("1.001"):
                break
            nodes = self.exchange(error, nodes, n + 1)
        best = [rounded(solved[k], self.bits) for k in range(n)]
        return best, max(abs(e) for e in errors(best)), abs(solved[n])

    @staticmethod
    def exchange(error, nodes, count):
        """The extreme of every run of one sign; the weakest dropped from the ends."""
        runs = []
        for i, e in enumerate(error):
            if runs and (error[runs[-1]] > 0) == (e > 0):
                if abs(e) > abs(error[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        while len(runs) > count:
            runs.pop(0 if abs(error[runs[0]]) < abs(error[runs[-1]]) else -1)
        return runs if len(runs) == count else nodes


LN2 = mp.log(2)
EDGE = LN2 / 2 * mpf("1.0001")
SQRT_LOW, SQRT_HIGH = mp.sqrt(mpf(1) / 2) - 1 - mpf("1e-4"), mp.sqrt(2) - 1 + mpf("1e-4")
QUARTER = mp.pi / 4 * mpf("1.0002")
S_MAX = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mpf("1.0005")


def exp_fit(base_log, low, high, degree, bits, first):
    """base**r - 1 - [base_log r if first == 2], the powers from `first` on, relative to base**r."""
    fixed = (lambda r: 1 + base_log * r) if first == 2 else (lambda r: mpf(1))
    return Fit(lambda r: mp.exp(base_log * r), list(range(first, degree + 1)), low, high,
               lambda r: mp.exp(-base_log * r), bits, fixed)


def expm1_fit(degree, bits):
    """expm1(r) - r - r^2/2 relative to expm1(r)."""
    return Fit(mp.expm1, list(range(3, degree + 1)), -EDGE, EDGE,
               lambda r: 1 / abs(mp.expm1(r)), bits, lambda r: r + r * r / 2)


def log_fit(degree, bits):
    """log1p(f) - f + f^2/2 relative to log1p(f)."""
    return Fit(mp.log1p, list(range(3, degree + 1)), SQRT_LOW, SQRT_HIGH,
               lambda f: 1 / abs(mp.log1p(f)), bits, lambda f: f - f * f / 2)


def atanh_fit(first, last, bits, scale):
    """scale * (2 atanh(s) - the terms below `first`), odd powers, relative to 2 atanh(s)."""
    def lower(s):
        return scale * sum(2 * s**k / k for k in range(1, first, 2))
    return Fit(lambda s: scale * 2 * mp.atanh(s), list(range(first, last + 1, 2)), mpf("1e-8"),
               S_MAX, lambda s: 1 / (scale * 2 * mp.atanh(s)), bits, lower)


def sin_fit(last, bits):
    return Fit(mp.sin, list(range(3, last + 1, 2)), mpf("1e-6"), QUARTER,
               lambda r: 1 / mp.sin(r), bits, lambda r: r)


def cos_fit(last, bits):
    return Fit(mp.cos, list(range(4, last + 1, 2)), mpf("1e-6"), QUARTER,
               lambda r: 1 / mp.cos(r), bits, lambda r: 1 - r * r / 2)


def erf_small(last, high, bits):
    """erf(x) - x, odd powers: the factor of x in x + x * P(x^2)."""
    return Fit(mp.erf, list(range(1, last + 1, 2)), mpf("1e-6"), high,
               lambda x: 1 / mp.erf(x), bits, lambda x: x)


def erf_tail(degree, low, high, centre, bits):
    """log(erfc(x)) as a polynomial of x - centre, by its effect on erf(x)."""
    return Fit(lambda t: mp.log(mp.erfc(t + centre)), list(range(degree + 1)), low - centre,
               high - centre, lambda t: mp.erfc(t + centre) / mp.erf(t + centre), bits)


def odd(f, last, high, bits):
    """f(x) - x of an odd function: the factor of x^3 in x + x^3 * P(x^2)."""
    return Fit(f, list(range(3, last + 1, 2)), mpf("1e-6"), high, lambda x: 1 / f(x), bits,
               lambda x: x)


HALF = mpf("0.5001")
EIGHTH = mp.tan(mp.pi / 8) * mpf("1.0002")
ONE = mpf("1.0001")
FITS = {
    "exp_f32": lambda: exp_fit(mpf(1), -EDGE, EDGE, 6, 24, 2),
    "exp2_f32": lambda: exp_fit(LN2, -HALF, HALF, 6, 24, 1),
    "expm1_f32": lambda: expm1_fit(7, 24),
    "log_f32": lambda: log_fit(10, 24),
    "sin_f32": lambda: sin_fit(7, 24),
    "cos_f32": lambda: cos_fit(8, 24),
    "erf_small_f32": lambda: erf_small(13, mpf("0.93"), 24),
    "erf_tail_f32": lambda: erf_tail(8, mpf("0.92"), mpf(4), mpf(0), 24),
    "pow_log2_f32": lambda: Fit(lambda f: mp.log(1 + f, 2), list(range(1, 15)), SQRT_LOW, SQRT_HIGH,
                                lambda f: 1 / abs(mp.log(1 + f, 2)), 53),
    "pow_exp2_f32": lambda: exp_fit(LN2, -HALF, HALF, 7, 53, 1),
    "exp_f64": lambda: exp_fit(mpf(1), -EDGE, EDGE, 11, 53, 2),
    "exp2_f64": lambda: exp_fit(LN2, -HALF, HALF, 11, 53, 1),
    "expm1_f64": lambda: expm1_fit(12, 53),
    "log_f64": lambda: atanh_fit(3, 15, 53, mpf(1)),
    "pow_log_f64": lambda: atanh_fit(5, 19, 53, mpf(1)),
    "sin_f64": lambda: sin_fit(15, 53),
    "cos_f64": lambda: cos_fit(14, 53),
    "erf_small_f64": lambda: erf_small(23, mpf("0.85"), 53),
    "asin_f32": lambda: odd(mp.asin, 11, HALF, 24),
    "asin_f64": lambda: odd(mp.asin, 27, HALF, 53),
    "atan_f32": lambda: odd(mp.atan, 11, EIGHTH, 24),
    "atan_f64": lambda: odd(mp.atan, 23, EIGHTH, 53),
    "sinh_f32": lambda: odd(mp.sinh, 9, ONE, 24),
    "sinh_f64": lambda: odd(mp.sinh, 15, ONE, 53),
    "erf_tail_f64": lambda: erf_tail(22, mpf("0.84"), mpf("5.95"), mpf(1), 53),
}


def hexadecimal(value, bits):
    if value == 0:
        return "0x0p+0"
    exponent = int(mp.floor(mp.log(abs(value), 2)))
    digits = int(abs(value) * mpf(2)**(bits - 1 - exponent))
    width = (bits - 1 + 3) // 4
    fraction = (digits - (1 << (bits - 1))) << (4 * width - (bits - 1))
    return f"{'-' if value < 0 else ''}0x1.{fraction:0{width}x}p{exponent:+d}"


def main():
    for name in sys.argv[1:] or FITS:
        fit = FITS[name]()
        coefficients, worst, unrounded = fit.run()
        error, before = (float(mp.log(e, 2)) for e in (worst, unrounded))
        print(f"{name}: 2^{error:.2f} (2^{before:.2f} unrounded)")
        for power, c in zip(fit.powers, coefficients):
            print(f"  x^{power}: {hexadecimal(c, fit.bits)}  {mp.nstr(c, 17)}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
