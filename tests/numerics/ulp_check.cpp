// Measures the error of the shared functions in units in the last place (ulp of the exact result).
//   ulp_check f32 [NAME|all] [stride]   every stride-th of the 2^32 inputs (1: exhaustive), judge: libm in double
//   ulp_check f64 [NAME|all] [count]    random and hard inputs, judge: libquadmath
//   ulp_check list                      the one-argument functions and their f32 limits
// Prints one line per function; exits 1 when a limit is passed. With ULP_PROGRESS set the share that is done goes to standard error, a
// line each. Build and run: ulp_check.sh, or all functions whose source has changed: make ulp
#include "hal/numerics/numerics.h"

#include <quadmath.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

typedef __float128 quad;

// ---- references; D: the judge's type for f32, Q: for f64 ----
static double sinpi_d(double x) {
  double r = std::fmod(x, 2.0);
  double n = std::nearbyint(2 * r);
  r -= 0.5 * n;
  int q = (int)n & 3;
  double v = q & 1 ? std::cos(M_PI * r) : std::sin(M_PI * r);
  v = q & 2 ? -v : v;
  return v == 0 ? std::copysign(0.0, x) : v;
}
static double cospi_d(double x) {
  double r = std::fmod(std::fabs(x), 2.0);
  double n = std::nearbyint(2 * r);
  r -= 0.5 * n;
  int q = (int)n & 3;
  double v = q & 1 ? std::sin(M_PI * r) : std::cos(M_PI * r);
  v = (q + 1) & 2 ? -v : v;
  return v == 0 ? 0.0 : v;
}
static double sigmoid_d(double x) { return 1 / (1 + std::exp(-x)); }
static double silu_d(double x) { return x == -INFINITY ? -0.0 : x / (1 + std::exp(-x)); }
static double gelu_d(double x) { return x == -INFINITY ? -0.0 : x * (0.5 * std::erfc(-x * M_SQRT1_2)); }
static double gelu_tanh_d(double x) {
  double y = -x * (std::sqrt(8 / M_PI) * (1 + 0.044715 * x * x));
  return x == -INFINITY ? -0.0 : x == INFINITY ? x : x / (1 + std::exp(y));
}
static double softplus_d(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
static double rsqrt_d(double x) { return 1 / std::sqrt(x); }
static double erfinv_d(double x)  // Newton on the function's own result
{
  double a = std::fabs(x);
  if (!(a < 1)) return a == 1 ? std::copysign(INFINITY, x) : NAN;
  if (x == 0) return x;
  double y = hal_erfinv_f64(a);
  double r = a < 0.5 ? std::erf(y) - a : (1 - a) - std::erfc(y);
  return std::copysign(y - r * 0.5 * std::sqrt(M_PI) * std::exp(y * y), x);
}
static quad pi_red(quad x, int *q) {
  quad r = fmodq(fabsq(x), 2);
  quad n = rintq(2 * r);
  *q = (int)n & 3;
  return r - n / 2;
}
static quad sinpi_q(quad x) {
  int q;
  quad r = pi_red(x, &q), v = q & 1 ? cosq(M_PIq * r) : sinq(M_PIq * r);
  v = q & 2 ? -v : v;
  v = v == 0 ? 0 : v;
  return signbitq(x) ? -v : v;
}
static quad cospi_q(quad x) {
  int q;
  quad r = pi_red(x, &q), v = q & 1 ? sinq(M_PIq * r) : cosq(M_PIq * r);
  v = (q + 1) & 2 ? -v : v;
  return v == 0 ? 0 : v;
}
static quad exp2_q(quad x) { return expq(x * M_LN2q); }
static quad sigmoid_q(quad x) { return 1 / (1 + expq(-x)); }
static quad silu_q(quad x) { return isinfq(x) && x < 0 ? (quad)-0.0 : x / (1 + expq(-x)); }
static quad gelu_q(quad x) { return isinfq(x) && x < 0 ? (quad)-0.0 : x * (0.5Q * erfcq(-x * M_SQRT1_2q)); }
static quad gelu_tanh_q(quad x) {
  if (isinfq(x)) return x < 0 ? (quad)-0.0 : x;
  return x / (1 + expq(-x * (sqrtq(8 / M_PIq) * (1 + 0.044715Q * x * x))));
}
static quad softplus_q(quad x) { return x > 0 ? x + log1pq(expq(-x)) : log1pq(expq(x)); }
static quad rsqrt_q(quad x) { return 1 / sqrtq(x); }
static quad erfinv_q(quad x) {
  quad a = fabsq(x);
  if (!(a < 1)) return a == 1 ? (x < 0 ? -(quad)INFINITY : (quad)INFINITY) : (quad)NAN;
  if (x == 0) return x;
  quad y = hal_erfinv_f64((double)a);
  for (int i = 0; i < 2; i++) {
    quad r = a < 0.5Q ? erfq(y) - a : (1 - a) - erfcq(y);
    quad s = r * 0.5Q * sqrtq(M_PIq) * expq(y * y);
    y -= s / (1 + s * y);  // Halley: the second derivative is 2y times the first
  }
  return x < 0 ? -y : y;
}

// f32 limit, f64 limit (ulp); lo, hi: where random f64 inputs concentrate; symmetry, monotonic (run32)
#define FUNCTIONS(X)                                                     \
  X(exp, std::exp, expq, 1.0, 1.0, -746, 710, NONE, true)                \
  X(exp2, std::exp2, exp2_q, 1.0, 1.0, -1076, 1025, NONE, true)          \
  X(expm1, std::expm1, expm1q, 1.0, 1.0, -40, 710, NONE, true)           \
  X(log, std::log, logq, 1.0, 1.0, 0, 4, NONE, false)                    \
  X(log2, std::log2, log2q, 1.0, 1.0, 0, 4, NONE, false)                 \
  X(log10, std::log10, log10q, 1.0, 1.0, 0, 4, NONE, false)              \
  X(log1p, std::log1p, log1pq, 1.0, 1.0, -1, 4, NONE, false)             \
  X(sin, std::sin, sinq, 1.0, 1.0, -100, 100, ODD, false)                \
  X(cos, std::cos, cosq, 1.0, 1.0, -100, 100, EVEN, false)               \
  X(tan, std::tan, tanq, 1.0, 1.0, -100, 100, ODD, false)                \
  X(sinpi, sinpi_d, sinpi_q, 1.0, 1.0, -4, 4, ODD, false)                \
  X(cospi, cospi_d, cospi_q, 1.0, 1.0, -4, 4, EVEN, false)               \
  X(atan, std::atan, atanq, 1.0, 1.0, -4, 4, ODD, true)                  \
  X(asin, std::asin, asinq, 1.0, 1.0, -1, 1, ODD, false)                 \
  X(acos, std::acos, acosq, 1.0, 1.0, -1, 1, NONE, true)                 \
  X(tanh, std::tanh, tanhq, 1.0, 1.0, -20, 20, ODD, true)                \
  X(sinh, std::sinh, sinhq, 1.0, 1.0, -711, 711, ODD, true)              \
  X(cosh, std::cosh, coshq, 1.0, 1.0, -711, 711, EVEN, true)             \
  X(erf, std::erf, erfq, 1.0, 1.0, -6, 6, ODD, true)                     \
  X(erfc, std::erfc, erfcq, 4.0, 4.0, -6, 27.3, NONE, true)              \
  X(erfinv, erfinv_d, erfinv_q, 6.0, 6.0, -1, 1, ODD, false)             \
  X(rsqrt, rsqrt_d, rsqrt_q, 1.5, 1.5, 0, 4, NONE, false)                \
  X(sigmoid, sigmoid_d, sigmoid_q, 3.0, 3.0, -746, 40, NONE, true)       \
  X(silu, silu_d, silu_q, 4.0, 4.0, -760, 40, NONE, false)               \
  X(gelu, gelu_d, gelu_q, 6.5, 5.0, -38.9, 10, NONE, false)              \
  X(gelu_tanh, gelu_tanh_d, gelu_tanh_q, 4.0, 4.0, -22, 10, NONE, false) \
  X(softplus, softplus_d, softplus_q, 2.0, 2.0, -746, 40, NONE, false)

// ---- f32 ----
struct Worst {
  double ulp = 0, at = 0, at2 = 0;
  long bad = 0;
  double bad_at = 0;
  unsigned long long n = 0;
};

static double ulp32(float got, double ref, Worst &w, double at) {
  if (ref != ref || got != got) {
    if ((ref != ref) != (got != got)) {
      w.bad++;
      w.bad_at = at;
    }
    return 0;
  }
  if (got == 0 && ref == 0) {
    if (std::signbit(got) != std::signbit(ref)) {
      w.bad++;
      w.bad_at = at;
    }
    return 0;
  }
  double g = std::isinf(got) ? std::copysign(0x1p128, got) : (double)got;
  double r = std::fabs(ref) > 0x1p128 ? std::copysign(0x1p128, ref) : ref;
  unsigned long long u;
  memcpy(&u, &r, 8);
  int e = (int)(u >> 52 & 2047) - 1023;
  e = e < -126 ? -126 : e > 127 ? 127 : e;
  u = (unsigned long long)(23 - e + 1023) << 52;
  double s;
  memcpy(&s, &u, 8);
  return std::fabs(g - r) * s;
}

typedef void (*batch32)(const float *, float *, long);
typedef double (*judge32)(double);

// Odd and even functions are judged on the positive half, and the negative half must match it bit for bit. A block of
// consecutive inputs with one and the same result is judged at its ends: the functions are monotonic there (a constant
// stretch of a function that is not would show as a jump at its end).
enum Symmetry { NONE, ODD, EVEN };

static Worst run32(batch32 f, judge32 ref, Symmetry sym, bool monotonic, unsigned long long stride) {
  enum { N = 4096 };
  static float x[N], y[N], m[N];
  Worst w;
  unsigned long long end = sym == NONE ? 1ull << 32 : 1ull << 31;
  const bool progress = std::getenv("ULP_PROGRESS") != nullptr;
  unsigned long long told = 0;
  for (unsigned long long i = 0; i < end;) {
    if (progress && i >= told) {
      std::fprintf(stderr, "%.4f\n", double(i) / double(end));
      told = i + end / 200;
    }
    long n = 0;
    for (; n < N && i < end; i += stride, n++) {
      unsigned u = (unsigned)i;
      memcpy(&x[n], &u, 4);
    }
    f(x, y, n);
    bool constant = monotonic && stride == 1 && x[0] == x[0] && x[n - 1] == x[n - 1];
    for (long k = 1; constant && k < n; k++) constant = !memcmp(&y[k], &y[0], 4);
    for (long k = 0; k < n; k += constant ? n - 1 : 1) {
      double e = ulp32(y[k], ref(x[k]), w, x[k]);
      if (e > w.ulp) {
        w.ulp = e;
        w.at = x[k];
      }
    }
    w.n += n;
    if (sym != NONE) {
      for (long k = 0; k < n; k++) x[k] = -x[k];
      f(x, m, n);
      for (long k = 0; k < n; k++) {
        float v = sym == ODD ? -m[k] : m[k];
        if (memcmp(&v, &y[k], 4) && (v == v || y[k] == y[k])) {
          w.bad++;
          w.bad_at = x[k];
        }
      }
      w.n += n;
    }
  }
  return w;
}

// ---- f64 ----
static unsigned long long state = 0x9E3779B97F4A7C15ull;
static unsigned long long rnd()  // splitmix64
{
  unsigned long long z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
static double unit() { return (double)(rnd() >> 11) * 0x1p-53; }
static double from_bits(unsigned long long u) {
  double d;
  memcpy(&d, &u, 8);
  return d;
}

static double ulp64(double got, quad ref, Worst &w, double at) {
  bool rn = isnanq(ref) != 0, gn = got != got;
  if (rn || gn) {
    if (rn != gn) {
      w.bad++;
      w.bad_at = at;
    }
    return 0;
  }
  if (got == 0 && ref == 0) {
    if (std::signbit(got) != (signbitq(ref) != 0)) {
      w.bad++;
      w.bad_at = at;
    }
    return 0;
  }
  quad big = ldexpq(1, 1024), g = std::isinf(got) ? (got < 0 ? -big : big) : (quad)got;
  quad r = fabsq(ref) > big ? (ref < 0 ? -big : big) : ref;
  int e = r == 0 ? -1022 : ilogbq(r);
  e = e < -1022 ? -1022 : e > 1023 ? 1023 : e;
  return (double)ldexpq(fabsq(g - r), 52 - e);
}

// A third each: any bit pattern, the range of interest, small perturbations of 0, +-1/2, +-1 and multiples of pi/2.
static double hard64(double lo, double hi) {
  switch (rnd() % 6) {
    case 0:
      return from_bits(rnd());
    case 1:
      return from_bits((rnd() & 0x800fffffffffffffull) | ((rnd() % 64 + 1023 - 40) << 52));
    case 2:
    case 3:
      return lo + (hi - lo) * unit();
    case 4: {
      static const double c[] = {0.5, -0.5, 1, -1, 0.70710678118654752, 1.4142135623730951, -1.4142135623730951, 0.34657359027997264};
      double v = c[rnd() % 8], d = std::ldexp(unit() - 0.5, -(int)(rnd() % 54));
      return v + v * d;
    }
    default: {
      double v = (double)(long)(rnd() >> (11 + rnd() % 52)) * M_PI_2;
      return from_bits((unsigned long long)((long long)rnd() % 3) + [](double d) {
        unsigned long long u;
        memcpy(&u, &d, 8);
        return u;
      }(v));
    }
  }
}

static Worst run64(double (*f)(double), quad (*ref)(quad), double lo, double hi, unsigned long long count) {
  static const double corners[] = {0.0,
                                   -0.0,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   5e-324,
                                   -5e-324,
                                   2.2250738585072014e-308,
                                   1.7976931348623157e308,
                                   -1.7976931348623157e308,
                                   1,
                                   -1,
                                   0.5,
                                   -0.5,
                                   2,
                                   709.782712893384,
                                   -745.1332191019411,
                                   6381956970095103.0 * 0x1p797,
                                   9007199254740993.0,
                                   4194304.0,
                                   4194303.999,
                                   0.7853981633974483};
  Worst w;
  for (unsigned long long i = 0; i < count; i++) {
    double x = i < sizeof corners / sizeof *corners ? corners[i] : hard64(lo, hi);
    double e = ulp64(f(x), ref(x), w, x);
    if (e > w.ulp) {
      w.ulp = e;
      w.at = x;
    }
  }
  w.n = count;
  return w;
}

// ---- two arguments ----
static Worst pow32(unsigned long long count) {
  Worst w;
  for (unsigned long long i = 0; i < count; i++) {
    unsigned a = (unsigned)rnd(), b = (unsigned)rnd();
    float x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    if (i % 4) {  // results in range: y = t / log2 |x|
      if (i % 4 == 2) x = 1 + (float)((unit() - 0.5) * std::ldexp(1.0, -(int)(rnd() % 20)));
      y = (float)((unit() * 290 - 155) / std::log2(std::fabs((double)x)));
      if (i % 4 == 3) y = std::nearbyint(y);
    }
    double e = ulp32(hal_pow_f32(x, y), (double)powl(x, y), w, x);
    if (e > w.ulp) {
      w.ulp = e;
      w.at = x;
      w.at2 = y;
    }
  }
  w.n = count;
  return w;
}
static Worst pow64(unsigned long long count) {
  Worst w;
  for (unsigned long long i = 0; i < count; i++) {
    double x = from_bits(rnd()), y = from_bits(rnd());
    if (i % 4) {
      if (i % 4 == 2) x = 1 + (unit() - 0.5) * std::ldexp(1.0, -(int)(rnd() % 50));
      y = (unit() * 2110 - 1080) / std::log2(std::fabs(x));
      if (i % 4 == 3) y = std::nearbyint(y);
    }
    double e = ulp64(hal_pow_f64(x, y), powq(x, y), w, x);
    if (e > w.ulp) {
      w.ulp = e;
      w.at = x;
      w.at2 = y;
    }
  }
  w.n = count;
  return w;
}
static Worst atan2_32(unsigned long long count) {
  Worst w;
  for (unsigned long long i = 0; i < count; i++) {
    unsigned a = (unsigned)rnd(),
             b = i % 4 ? ((unsigned)rnd() & 0x807fffffu) | ((a & 0x7f800000u) + ((unsigned)(rnd() % 8) << 23)) : (unsigned)rnd();
    float x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    if (i % 2) {
      float t = x;
      x = y;
      y = t;
    }
    double e = ulp32(hal_atan2_f32(y, x), std::atan2((double)y, (double)x), w, x);
    if (e > w.ulp) {
      w.ulp = e;
      w.at = y;
      w.at2 = x;
    }
  }
  w.n = count;
  return w;
}
static Worst atan2_64(unsigned long long count) {
  Worst w;
  for (unsigned long long i = 0; i < count; i++) {
    unsigned long long a = rnd(), b = i % 4 ? (rnd() & 0x800fffffffffffffull) | ((a & (2047ull << 52)) + ((rnd() % 8) << 52)) : rnd();
    double x = from_bits(a), y = from_bits(b);
    if (i % 2) {
      double t = x;
      x = y;
      y = t;
    }
    double e = ulp64(hal_atan2_f64(y, x), atan2q(y, x), w, x);
    if (e > w.ulp) {
      w.ulp = e;
      w.at = y;
      w.at2 = x;
    }
  }
  w.n = count;
  return w;
}

static int report(const char *name, const char *type, const Worst &w, double limit) {
  bool ok = w.ulp <= limit && !w.bad;
  printf("%-10s %s  max %.4f ulp at %.17g", name, type, w.ulp, w.at);
  if (w.at2 != 0) printf(", %.17g", w.at2);
  printf("  over %llu inputs", w.n);
  if (w.bad) printf("  WRONG NaN or zero sign: %ld, last at %.9g", w.bad, w.bad_at);
  printf("%s\n", ok ? "" : "  LIMIT PASSED");
  fflush(stdout);
  return ok ? 0 : 1;
}

#define DEFINE(NAME, D, Q, L32, L64, LO, HI, SYM, MONO)            \
  static void b_##NAME(const float *x, float *y, long n) {         \
    for (long i = 0; i < n; i++) y[i] = hal_##NAME##_f32(x[i]);    \
  }                                                                \
  static double d_##NAME(double x) { return D(x); }                \
  static double h_##NAME(double x) { return hal_##NAME##_f64(x); } \
  static quad q_##NAME(quad x) { return Q(x); }
FUNCTIONS(DEFINE)

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "list")) {
#define LIST(NAME, D, Q, L32, L64, LO, HI, SYM, MONO) std::printf("%s %.17g\n", #NAME, double(L32));
    FUNCTIONS(LIST)
    return 0;
  }
  bool f32 = argc > 1 && !strcmp(argv[1], "f32");
  const char *name = argc > 2 ? argv[2] : "all";
  unsigned long long k = argc > 3 ? strtoull(argv[3], nullptr, 10) : f32 ? 1 : 1000000;
  bool all = !strcmp(name, "all");
  int fail = 0;
#define RUN(NAME, D, Q, L32, L64, LO, HI, SYM, MONO)                                 \
  if (all || !strcmp(name, #NAME))                                                   \
    fail |= f32 ? report(#NAME, "f32", run32(b_##NAME, d_##NAME, SYM, MONO, k), L32) \
                : report(#NAME, "f64", run64(h_##NAME, q_##NAME, LO, HI, k), L64);
  FUNCTIONS(RUN)
  unsigned long long n = f32 ? (1ull << 32) / k / 16 : k;
  if (all || !strcmp(name, "pow")) fail |= report("pow", f32 ? "f32" : "f64", f32 ? pow32(n) : pow64(n), f32 ? 1.0 : 1.0);
  if (all || !strcmp(name, "atan2")) fail |= report("atan2", f32 ? "f32" : "f64", f32 ? atan2_32(n) : atan2_64(n), 1.0);
  return fail;
}
