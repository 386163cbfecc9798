#include "tensor/functions_math.h"

#include <array>
#include <limits>
#include <numbers>
#include <span>

namespace aster::tensor {
namespace {

using uop::alu;
using uop::Op;

constexpr double kPi = std::numbers::pi;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// What float32 leaves of pi/2, and float64.
constexpr double kHalfPi32 = 1.57079637050628662109375;
constexpr double kHalfPi32Rest = kPi / 2 - kHalfPi32;
constexpr double kHalfPi64Rest = 6.123233995736766e-17;

// Coefficients: tools/minimax/minimax.py, whose names stand beside them; lowest power first.
constexpr std::array kAsin32 = {0x1.5555c8p-3, 0x1.3301cep-4, 0x1.7480c2p-5, 0x1.8c0dd4p-6,
                                0x1.598538p-5};  // asin_f32
constexpr std::array kAsin64 = {0x1.5555555555577p-3, 0x1.333333332e08fp-4, 0x1.6db6db7219d48p-5,
                                0x1.f1c71a9227acap-6, 0x1.6e8bdf2ffc094p-6, 0x1.1c49eaac4c3cap-6,
                                0x1.ca20186ab6a45p-7, 0x1.7581024d181afp-7, 0x1.61566efcafb15p-7,
                                0x1.e466bb482c45ap-9, 0x1.641819dc3e3fdp-6, -0x1.58afd6b7b861ep-6,
                                0x1.0b7f8fefd1d40p-5};  // asin_f64
constexpr std::array kAtan32 = {-0x1.55554ap-2, 0x1.999194p-3, -0x1.23b4ecp-3, 0x1.b1e8c6p-4,
                                -0x1.f1db40p-5};  // atan_f32
constexpr std::array kAtan64 = {-0x1.555555555553dp-2, 0x1.9999999995794p-3,  -0x1.24924922a8ce0p-3,
                                0x1.c71c70e470e68p-4,  -0x1.745cf8b10d161p-4, 0x1.3b11164236f90p-4,
                                -0x1.10eb994401045p-4, 0x1.df0d981a1c05fp-5,  -0x1.9ccb4f373b2e2p-5,
                                0x1.37c33f53f9661p-5,  -0x1.2542ed5dff8bdp-6};  // atan_f64
constexpr std::array kSinh32 = {0x1.555556p-3, 0x1.111136p-7, 0x1.9ffe90p-13,
                                0x1.7a161ap-19};  // sinh_f32
constexpr std::array kSinh64 = {0x1.5555555555556p-3,  0x1.11111111110a6p-7,  0x1.a01a01a0289cfp-13,
                                0x1.71de3a46587f2p-19, 0x1.ae64671d47363p-26, 0x1.611a553b1a337p-33,
                                0x1.b4c7a201bd7bcp-41};  // sinh_f64
constexpr std::array kExpm132 = {0x1.555554p-3, 0x1.5554f2p-5, 0x1.1111cap-7, 0x1.6d407ap-10,
                                 0x1.9fbe0cp-13};  // expm1_f32
constexpr std::array kExpm164 = {
    0x1.5555555555559p-3,  0x1.5555555555549p-5,  0x1.111111110f7e8p-7,  0x1.6c16c16c1cd06p-10,
    0x1.a01a01af77abap-13, 0x1.a01a0182fd233p-16, 0x1.71ddf94df27f4p-19, 0x1.27e52b3abf550p-22,
    0x1.af5d2bb321e2dp-26, 0x1.1ef514ddd64c4p-29};  // expm1_f64

bool single(Expr x) { return x.dtype() == dtype::DType::kFloat32; }

// sum c[k] * x^k by Horner's rule.
Expr polynomial(Expr x, std::span<const double> c) {
  Expr y = x.like(c.back());
  for (size_t k = c.size() - 1; k-- > 0;) y = alu(Op::kMulAcc, y, x, x.like(c[k]));
  return y;
}
template <size_t M, size_t N>
Expr polynomial(Expr x, const std::array<double, M>& f32, const std::array<double, N>& f64) {
  return single(x) ? polynomial(x, std::span(f32)) : polynomial(x, std::span(f64));
}

// x + x * z * P(z): an odd function near 0, of z = x^2.
Expr odd_series(Expr x, Expr z, Expr p) { return alu(Op::kMulAcc, x * z, p, x); }

// An odd function of x from its value y at |x|.
Expr odd(Expr x, Expr y) { return where(x < 0.0, -y, where(x == 0.0, x, y)); }

// multiple * pi/2 - y.
Expr from_half_pi(Expr y, double multiple) {
  const double high = single(y) ? kHalfPi32 : kPi / 2;
  const double low = single(y) ? kHalfPi32Rest : kHalfPi64Rest;
  return multiple * high - (y - multiple * low);
}

struct Arc {
  Expr large;  // |x| > 1/2
  Expr y;      // asin(x), or asin(sqrt((1 - |x|) / 2)) where large
};
Arc arc(Expr x) {
  const Expr a = abs(x);
  const Expr large = a > 0.5;
  const Expr half = (1.0 - a) * 0.5;
  const Expr z = where(large, half, x * x);
  const Expr s = where(large, sqrt(where(large, half, 1.0)), x);
  return {large, odd_series(s, z, polynomial(z, kAsin32, kAsin64))};
}

// From where on ln(x + sqrt(x^2 + 1)) is ln(2 x).
double far(Expr x) { return single(x) ? 0x1p14 : 0x1p30; }

}  // namespace

// ln u for u = 1 + x as it rounds, and what was lost of x.
Expr log1p(Expr x) {
  const Expr u = 1.0 + x;
  const Expr lost = where(u == kInfinity, 0.0, x - (u - 1.0)) / where(u == 0.0, 1.0, u);
  return log(u) + lost.detach();
}

Expr expm1(Expr x) {
  const Expr near = abs(x) < 0.34;
  const Expr r = where(near, x, 0.0);
  const Expr tail = alu(Op::kMulAcc, r * r * r, polynomial(r, kExpm132, kExpm164), r * r * 0.5);
  return where(near, r + tail, exp(x) - 1.0);
}

Expr asin(Expr x) {
  const Arc s = arc(x);
  const Expr far = from_half_pi(2.0 * s.y, 1);
  return where(s.large, where(x < 0.0, -far, far), s.y);
}

Expr acos(Expr x) {
  const Arc s = arc(x);
  const Expr far = where(x < 0.0, from_half_pi(2.0 * s.y, 2), 2.0 * s.y);
  return where(s.large, far, from_half_pi(s.y, 1));
}

// Of |x|, of pi/4 + (|x| - 1) / (|x| + 1) or of pi/2 - 1 / |x|.
Expr atan(Expr x) {
  constexpr double kTan1 = 0.41421356237309503, kTan3 = 2.4142135623730949;
  const Expr a = abs(x);
  const Expr most = a > kTan3, some = a > kTan1;
  const Expr t =
      where(most, -1.0, where(some, a - 1.0, x)) / where(most, a, where(some, a + 1.0, x.like(1)));
  const Expr z = t * t;
  const Expr y = odd_series(t, z, polynomial(z, kAtan32, kAtan64));
  const double high = single(x) ? kHalfPi32 : kPi / 2;
  const double low = single(x) ? kHalfPi32Rest : kHalfPi64Rest;
  const Expr base = where(most, x.like(high), x.like(high / 2));
  const Expr far = base + (y + where(most, x.like(low), x.like(low / 2)));
  return where(some, where(x < 0.0, -far, far), where(x == 0.0, x, y));
}

Expr sinh(Expr x) {
  const Expr small = abs(x) <= 1.0;
  const Expr s = where(small, x, 0.0), a = where(small, 1.0, abs(x));
  const Expr z = s * s;
  const Expr t = exp(a * 0.5);  // e^a overflows before sinh does
  const Expr far = (0.5 * t) * t - 0.5 / t / t;
  return where(small, odd_series(s, z, polynomial(z, kSinh32, kSinh64)), where(x < 0.0, -far, far));
}

Expr cosh(Expr x) {
  const Expr t = exp(abs(x) * 0.5);
  return (0.5 * t) * t + 0.5 / t / t;
}

Expr asinh(Expr x) {
  const Expr a = abs(x);
  const Expr large = a > far(x);
  const Expr s = where(large, 1.0, a);
  const Expr z = s * s;
  const Expr near = log1p(s + z / (1.0 + sqrt(1.0 + z)));
  return odd(x, where(large, log(where(large, a, 1.0)) + std::numbers::ln2, near));
}

Expr acosh(Expr x) {
  const Expr large = x > far(x);
  const Expr y = where(large, 1.0, x) - 1.0;
  const Expr near = log1p(y + sqrt(y * (y + 2.0)));
  const Expr far = log(where(large, x, 1.0)) + std::numbers::ln2;
  return where(x < 1.0, std::numeric_limits<double>::quiet_NaN(), where(large, far, near));
}

Expr atanh(Expr x) {
  const Expr a = abs(x);
  return odd(x, 0.5 * log1p(2.0 * a / (1.0 - a)));
}

Expr logaddexp(Expr a, Expr b) {
  const Expr equal = a == b;
  const Expr apart = where(equal, 0.0, abs(a - b));
  return max(a, b) + where(equal, a.like(std::numbers::ln2), log1p(exp(-apart)));
}

Expr softplus(Expr x) { return max(x, 0.0) + log1p(exp(-abs(x))); }

}  // namespace aster::tensor
