// Elementwise kernels against the scalar functions of <hal/pointwise.h>, one element at a time: every op, dtype, kind of strides,
// immediate and in-place use must give the scalar function's bits. Whether those are right is judged elsewhere.
#pragma GCC diagnostic ignored "-Wtype-limits"
#include <hal/pointwise.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "driver.hpp"

using namespace driver;

namespace {

struct Half {
  uint16_t bits;
};
struct BHalf {
  uint16_t bits;
};

// Storage types and their way into the compute type and back.
struct S_bool {
  using Store = uint8_t;
  using Compute = uint8_t;
  static Compute load(Store x) { return x; }
  static Store store(Compute x) { return x; }
};
struct S_u8 : S_bool {};
struct S_i8 {
  using Store = int8_t;
  using Compute = int8_t;
  static Compute load(Store x) { return x; }
  static Store store(Compute x) { return x; }
};
struct S_i16 {
  using Store = int16_t;
  using Compute = int16_t;
  static Compute load(Store x) { return x; }
  static Store store(Compute x) { return x; }
};
struct S_i32 {
  using Store = int32_t;
  using Compute = int32_t;
  static Compute load(Store x) { return x; }
  static Store store(Compute x) { return x; }
};
struct S_i64 {
  using Store = int64_t;
  using Compute = int64_t;
  static Compute load(Store x) { return x; }
  static Store store(Compute x) { return x; }
};
struct S_f32 {
  using Store = float;
  using Compute = float;
  static Compute load(Store x) { return x; }
  static Store store(Compute x) { return x; }
};
struct S_f64 {
  using Store = double;
  using Compute = double;
  static Compute load(Store x) { return x; }
  static Store store(Compute x) { return x; }
};
struct S_f16 {
  using Store = uint16_t;
  using Compute = float;
  static Compute load(Store x) { return hal_f16_to_f32(x); }
  static Store store(Compute x) { return hal_f32_to_f16(x); }
};
struct S_bf16 {
  using Store = uint16_t;
  using Compute = float;
  static Compute load(Store x) { return hal_bf16_to_f32(x); }
  static Store store(Compute x) { return hal_f32_to_bf16(x); }
};

using Scalar = void (*)(const void *const *in, void *out);

template <auto F, class O, class A>
void scalar1(const void *const *in, void *out) {
  const auto r = O::store(F(A::load(*static_cast<const typename A::Store *>(in[0]))));
  std::memcpy(out, &r, sizeof r);
}
template <auto F, class O, class A, class B>
void scalar2(const void *const *in, void *out) {
  const auto r =
      O::store(F(A::load(*static_cast<const typename A::Store *>(in[0])), B::load(*static_cast<const typename B::Store *>(in[1]))));
  std::memcpy(out, &r, sizeof r);
}
template <auto F, class O, class A, class B, class C>
void scalar3(const void *const *in, void *out) {
  const auto r =
      O::store(F(A::load(*static_cast<const typename A::Store *>(in[0])), B::load(*static_cast<const typename B::Store *>(in[1])),
                 C::load(*static_cast<const typename C::Store *>(in[2]))));
  std::memcpy(out, &r, sizeof r);
}

enum : hal_dtype { D_bool = 1, D_u8, D_i8, D_i16, D_i32, D_i64, D_f16, D_bf16, D_f32, D_f64 };

struct Case {
  const char *name;
  hal_dtype dtype, compute;
  int inputs;
  hal_dtype dtypes[4];  // inputs, then the output
  Scalar scalar;
};

#define CLASS_T(s) S_##s
#define CLASS_BOOL(s) S_bool
#define DTYPE_T(s) D_##s
#define DTYPE_BOOL(s) D_bool
#define CASE_1(n, s, c, a, o) \
  Case{#n, D_##s, D_##c, 1, {DTYPE_##a(s), DTYPE_##o(s)}, scalar1<hal_op_##n##_##c, CLASS_##o(s), CLASS_##a(s)>},
#define CASE_2(n, s, c, a, b, o)                   \
  Case{#n,                                         \
       D_##s,                                      \
       D_##c,                                      \
       2,                                          \
       {DTYPE_##a(s), DTYPE_##b(s), DTYPE_##o(s)}, \
       scalar2<hal_op_##n##_##c, CLASS_##o(s), CLASS_##a(s), CLASS_##b(s)>},
#define CASE_3(n, s, c, a, b, d, o)                              \
  Case{#n,                                                       \
       D_##s,                                                    \
       D_##c,                                                    \
       3,                                                        \
       {DTYPE_##a(s), DTYPE_##b(s), DTYPE_##d(s), DTYPE_##o(s)}, \
       scalar3<hal_op_##n##_##c, CLASS_##o(s), CLASS_##a(s), CLASS_##b(s), CLASS_##d(s)>},

const Case cases[] = {HAL_POINTWISE_1(CASE_1) HAL_POINTWISE_2(CASE_2) HAL_POINTWISE_3(CASE_3)};

bool is_nan(hal_dtype dtype, const void *p) {
  uint16_t h;
  std::memcpy(&h, p, 2);
  if (dtype == HAL_F16) return (h & 0x7fff) > 0x7c00;
  if (dtype == HAL_BF16) return (h & 0x7fff) > 0x7f80;
  if (dtype == HAL_F32) {
    float f;
    std::memcpy(&f, p, 4);
    return f != f;
  }
  if (dtype == HAL_F64) {
    double d;
    std::memcpy(&d, p, 8);
    return d != d;
  }
  return false;
}

bool same(hal_dtype dtype, const void *a, const void *b) {
  return std::memcmp(a, b, size_of(dtype)) == 0 || (is_nan(dtype, a) && is_nan(dtype, b));
}

// Ordinary values, special ones and plain bit patterns.
void fill_values(hal_dtype dtype, void *out, int64_t n, std::mt19937_64 &random) {
  const uint32_t size = size_of(dtype);
  constexpr int64_t period = 100003;  // large arrays repeat themselves: random numbers are slow
  if (n > period) {
    fill_values(dtype, out, period, random);
    for (int64_t i = period; i < n; i += period)
      std::memcpy(static_cast<char *>(out) + i * size, out, size_t(std::min(period, n - i)) * size);
    return;
  }
  static const double special[] = {0.0,    -0.0,     1,         -1,  2,   0.5, -0.5, 3,    -7,  88,  1e-40,
                                   1e-310, INFINITY, -INFINITY, NAN, 1.5, 2.5, 127,  -128, 255, 1e30};
  for (int64_t i = 0; i < n; ++i) {
    char *at = static_cast<char *>(out) + i * size;
    uint64_t bits = random();
    const uint64_t choice = random() % 4;
    if (dtype == HAL_BOOL) {
      bits &= 1;
    } else if (dtype >= HAL_F16 && choice != 0) {
      double v = choice == 1 ? special[random() % (sizeof special / sizeof *special)]
                             : (double(int64_t(random())) / 0x1p63) * (choice == 2 ? 4 : 100);
      bits = 0;
      const float f = float(v);
      if (dtype == HAL_F64) std::memcpy(&bits, &v, 8);
      if (dtype == HAL_F32) std::memcpy(&bits, &f, 4);
      if (dtype == HAL_F16) bits = hal_f32_to_f16(f);
      if (dtype == HAL_BF16) bits = hal_f32_to_bf16(f);
    } else if (dtype < HAL_F16 && choice == 1) {
      bits = random() % 5 - 2;  // 0, ±1, ±2
    } else if (dtype < HAL_F16 && choice == 2) {
      bits = (uint64_t(1) << (8 * size - 1)) - random() % 2;  // the extremes
    }
    std::memcpy(at, &bits, size);
  }
}

// How an operand lies in memory.
enum Layout { kContiguous, kSecond, kReversed, kTransposed, kRow, kColumn, kOne, kImmediate, kLayouts };

struct Placed {
  hal_operand descriptor;
  int64_t first;  // element offset of [0, ..., 0]
};

Placed place(hal_dtype dtype, int64_t rows, int64_t columns, Layout layout, bool output) {
  switch (layout) {
    case kSecond:
      return {tensor(dtype, {rows, columns}, {2 * columns, 2}, output), 0};
    case kReversed:
      return {tensor(dtype, {rows, columns}, {columns, -1}, output), columns - 1};
    case kTransposed:
      return {tensor(dtype, {rows, columns}, {1, rows}, output), 0};
    case kRow:
      return {tensor(dtype, {rows, columns}, {0, 1}, output), 0};
    case kColumn:
      return {tensor(dtype, {rows, columns}, {1, 0}, output), 0};
    case kOne:
      return {tensor(dtype, {rows, columns}, {0, 0}, output), 0};
    default:
      return {tensor(dtype, {rows, columns}, {columns, 1}, output), 0};
  }
}

// Runs `c` on a rows × columns array with these layouts (inputs, then the output) and compares.
void run_case(const Case &c, int64_t rows, int64_t columns, const Layout *layouts, bool in_place, std::mt19937_64 &random) {
  const int64_t total = rows * columns;
  std::vector<hal_operand> operands;
  std::vector<hal_buffer> buffers;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<Placed> placed;
  for (int k = 0; k <= c.inputs; ++k) {
    const uint32_t size = size_of(c.dtypes[k]);
    Placed p = place(c.dtypes[k], rows, columns, layouts[k], k == c.inputs);
    memories.push_back(std::make_unique<Memory>(uint64_t(2 * total + 8) * size));
    fill_values(c.dtypes[k], memories[k]->as<char>(), 2 * total + 8, random);
    hal_buffer b = memories[k]->at(uint64_t(p.first) * size);
    if (k < c.inputs && layouts[k] == kImmediate) {
      const hal_dtype given = c.dtypes[k] == D_bool ? hal_dtype{D_bool} : c.compute;
      p.descriptor = immediate(given);
      b = hal_buffer{};
      fill_values(given, &b.immediate, 1, random);
      // The scalar function reads storage: a half that is exact in both.
      if (given != c.dtypes[k]) {
        uint16_t h;
        fill_values(c.dtypes[k], &h, 1, random);
        const float f = c.dtypes[k] == HAL_F16 ? hal_f16_to_f32(h) : hal_bf16_to_f32(h);
        b = value(f);
        std::memcpy(memories[k]->as<char>(), &h, 2);
      } else {
        std::memcpy(memories[k]->as<char>(), &b.immediate, size);
      }
    }
    placed.push_back(p);
    operands.push_back(p.descriptor);
    buffers.push_back(b);
  }
  if (in_place) {
    placed[c.inputs] = placed[0];
    operands[c.inputs] = operands[0];
    operands[c.inputs].flags = HAL_OPERAND_OUTPUT;
    buffers[c.inputs] = buffers[0];
  }

  const uint32_t out_size = size_of(c.dtypes[c.inputs]);
  std::vector<char> expected(size_t(total) * out_size + 8);
  const auto address = [&](int k, int64_t r, int64_t col) {
    const hal_operand &o = placed[k].descriptor;
    const char *base = (in_place && k == c.inputs ? memories[0] : memories[k])->as<char>();
    if (o.flags & HAL_OPERAND_IMMEDIATE) return base;
    return base + (placed[k].first + r * o.strides[0] + col * o.strides[1]) * size_of(c.dtypes[k]);
  };
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t col = 0; col < columns; ++col) {
      const void *in[3];
      for (int k = 0; k < c.inputs; ++k) in[k] = address(k, r, col);
      c.scalar(in, expected.data() + (r * columns + col) * out_size);
    }

  hal_executable *e = prepare(c.name, operands, uint32_t(c.inputs));
  hal_stream *stream = nullptr;
  CHECK_OK(plugin->stream->create(device, 0, &stream));
  CHECK_OK(launch(stream, e, buffers));
  CHECK_OK(plugin->stream->synchronize(stream, HAL_TIMEOUT_INFINITE));
  plugin->stream->destroy(stream);
  plugin->kernel->release(device, e);

  for (int64_t r = 0; r < rows; ++r)
    for (int64_t col = 0; col < columns; ++col) {
      const char *want = expected.data() + (r * columns + col) * out_size, *got = address(c.inputs, r, col);
      if (same(c.dtypes[c.inputs], want, got)) continue;
      uint64_t w = 0, g = 0;
      std::memcpy(&w, want, out_size);
      std::memcpy(&g, got, out_size);
      std::fprintf(stderr, "%s dtype %d shape %ldx%ld layouts %d %d %d %d in place %d threads %d at [%ld, %ld]: got %lx, expected %lx\n",
                   c.name, c.dtype, long(rows), long(columns), layouts[0], layouts[1], c.inputs > 1 ? layouts[2] : -1,
                   c.inputs > 2 ? layouts[3] : -1, in_place, pool_threads, long(r), long(col), g, w);
      failed(__FILE__, __LINE__, c.name);
    }
}

const int64_t kShapes[][2] = {{1, 1}, {1, 7}, {3, 5}, {0, 4}, {2, 300}, {33, 35}, {5, 1031}};

}  // namespace

DEFINE_CHECK(pointwise_ops_equal_their_scalar_functions) {
  std::mt19937_64 random(20240601);
  for (const Case &c : cases) {
    for (int round = 0; round < 14; ++round) {
      Layout layouts[4] = {kContiguous, kContiguous, kContiguous, kContiguous};
      const bool in_place = round % 5 == 4 && c.dtypes[0] == c.dtypes[c.inputs];
      if (round > 1)
        for (int k = 0; k < c.inputs; ++k) layouts[k] = Layout(random() % kLayouts);
      // An op on a bool output needs a tensor first; masks are tensors.
      if (layouts[0] == kImmediate) layouts[0] = kOne;
      for (int k = 0; k < c.inputs; ++k)
        if (layouts[k] == kImmediate && c.dtypes[k] == D_bool && c.dtype != D_bool) layouts[k] = kRow;
      layouts[c.inputs] = round > 6 ? Layout(random() % (kTransposed + 1)) : kContiguous;
      if (in_place && layouts[0] > kTransposed) layouts[0] = kTransposed;
      if (in_place) layouts[c.inputs] = layouts[0];
      pool_threads = 1 + round % 3;
      const auto &shape = kShapes[round % 7];
      run_case(c, shape[0], shape[1], layouts, in_place, random);
    }
  }
}

// Beyond the grain and beyond the size from which stores are streamed.
DEFINE_CHECK(large_operands) {
  std::mt19937_64 random(7);
  for (const Case &c : cases) {
    const std::string name = c.name;
    if (name != "add" && name != "where" && name != "lt") continue;
    if (c.dtype != HAL_F32 && c.dtype != HAL_BF16) continue;
    for (int in_place = 0; in_place < 2; ++in_place) {
      const Layout layouts[4] = {kContiguous, kContiguous, kContiguous, kContiguous};
      const Layout mixed[4] = {kContiguous, kRow, kColumn, kContiguous};
      pool_threads = 3;
      if (in_place && c.dtypes[0] != c.dtypes[c.inputs]) continue;
      run_case(c, 1000, 1001, layouts, in_place, random);
      Layout m[4] = {mixed[0], mixed[1], c.inputs == 2 ? kContiguous : kColumn, kContiguous};
      run_case(c, 1000, 1001, m, in_place, random);
    }
    if (name == "add" && c.dtype == HAL_F32) {
      const Layout layouts[3] = {kContiguous, kColumn, kContiguous};
      run_case(c, 3001, 2800, layouts, false, random);  // 33.6 MB
    }
  }
}

DEFINE_CHECK(high_rank_and_empty) {
  std::vector<int64_t> dims = {2, 1, 3, 2, 2, 1, 2, 3};
  const hal_operand x = tensor(HAL_I32, dims, {1, 0, 2, 6, 12, 99, 24, 48}), y = contiguous(HAL_I32, dims, true);
  Memory mx(144 * 4), my(144 * 4);
  for (int i = 0; i < 144; ++i) mx.as<int32_t>()[i] = i;
  for (const char *op : {"neg", "copy"}) {
    hal_executable *e = prepare(op, {x, y}, 1);
    hal_stream *s = nullptr;
    CHECK_OK(plugin->stream->create(device, 0, &s));
    CHECK_OK(launch(s, e, {mx.at(), my.at()}));
    for (int i = 0; i < 144; ++i) {
      int rest = i, from = 0;
      for (int d = 7; d >= 0; --d) {
        from += int(rest % dims[d]) * int(x.strides[d]);
        rest /= int(dims[d]);
      }
      CHECK(my.as<int32_t>()[i] == (std::string(op) == "neg" ? -from : from));
    }
    plugin->kernel->release(device, e);
    e = prepare(op, {contiguous(HAL_I32, {0, 3}), contiguous(HAL_I32, {0, 3}, true)}, 1);
    CHECK_OK(launch(s, e, {hal_buffer{}, hal_buffer{}}));
    plugin->kernel->release(device, e);
    plugin->stream->destroy(s);
  }
}

namespace {

// Casts by the rules of docs/numerics.md section 2, through long double and integers: slow, and not the library's own way.
long double load_any(hal_dtype dtype, const void *p) {
  switch (dtype) {
    case HAL_BOOL:
    case HAL_U8:
      return *static_cast<const uint8_t *>(p);
    case HAL_I8:
      return *static_cast<const int8_t *>(p);
    case HAL_I16:
      return *static_cast<const int16_t *>(p);
    case HAL_I32:
      return *static_cast<const int32_t *>(p);
    case HAL_I64:
      return *static_cast<const int64_t *>(p);
    case HAL_F16:
      return hal_f16_to_f32(*static_cast<const uint16_t *>(p));
    case HAL_BF16:
      return hal_bf16_to_f32(*static_cast<const uint16_t *>(p));
    case HAL_F32:
      return *static_cast<const float *>(p);
    default:
      return *static_cast<const double *>(p);
  }
}

// Rounds to `digits` bits with smallest normal exponent `emin` and overflow from 2^emax, all by exact steps in long double (64 bits).
long double round_to(long double x, int digits, int emin, int emax) {
  if (x == 0 || x != x || __builtin_isinfl(x)) return x;
  int e;
  __builtin_frexpl(x, &e);
  const int unit = std::max(e - digits, emin - digits + 1);
  const long double scaled = __builtin_ldexpl(x, -unit);
  long double below = __builtin_floorl(scaled), rest = scaled - below;
  if (rest > 0.5L || (rest == 0.5L && __builtin_fmodl(below, 2) != 0)) below += 1;
  const long double r = __builtin_ldexpl(below, unit);
  if (r == 0) return __builtin_copysignl(0, x);
  return __builtin_fabsl(r) >= __builtin_ldexpl(1, emax) ? __builtin_copysignl(INFINITY, x) : r;
}

void store_cast(hal_dtype from, hal_dtype to, const void *p, void *out) {
  const long double x = load_any(from, p);
  const bool from_integer = from <= HAL_I64;
  uint64_t bits = 0;
  if (to == HAL_BOOL) {
    bits = x != 0;
  } else if (to <= HAL_I64) {
    if (from_integer) {
      bits = uint64_t(int64_t(x));
    } else {
      static const long double low[] = {0, 0, 0, -128, -32768, -0x1p31L, -0x1p63L},
                               high[] = {0, 0, 255, 127, 32767, 0x1p31L - 1, 0x1p63L - 1};
      const long double v = x != x ? 0 : std::min(std::max(x, low[to]), high[to]);
      bits = uint64_t(int64_t(v));
    }
  } else if (to == HAL_F64) {
    const double d = double(x);
    std::memcpy(&bits, &d, 8);
  } else {
    const bool f16 = to == HAL_F16, f32 = to == HAL_F32;
    const float f = float(round_to(x, f32 ? 24 : f16 ? 11 : 8, f16 ? -14 : -126, f16 ? 16 : 128));  // exact in f32
    if (f32) std::memcpy(&bits, &f, 4);
    if (f16) bits = hal_f32_to_f16(f);
    if (to == HAL_BF16) bits = hal_f32_to_bf16(f);
  }
  std::memcpy(out, &bits, size_of(to));
}

}  // namespace

DEFINE_CHECK(casts) {
  std::mt19937_64 random(99);
  hal_stream *s = nullptr;
  CHECK_OK(plugin->stream->create(device, 0, &s));
  const int64_t n = 5000;
  for (hal_dtype from = HAL_BOOL; from < HAL_DTYPE_COUNT; ++from)
    for (hal_dtype to = HAL_BOOL; to < HAL_DTYPE_COUNT; ++to)
      for (int strided = 0; strided < 2; ++strided) {
        const int64_t step = 1 + strided;
        Memory x(uint64_t(n * step) * size_of(from)), y(uint64_t(n) * size_of(to));
        fill_values(from, x.as<char>(), n * step, random);
        hal_executable *e = prepare("cast", {tensor(from, {n}, {step}), contiguous(to, {n}, true)}, 1);
        pool_threads = 2;
        CHECK_OK(launch(s, e, {x.at(), y.at()}));
        plugin->kernel->release(device, e);
        for (int64_t i = 0; i < n; ++i) {
          char want[8];
          const char *in = x.as<char>() + i * step * size_of(from), *got = y.as<char>() + i * size_of(to);
          store_cast(from, to, in, want);
          if (same(to, want, got)) continue;
          uint64_t a = 0, g = 0, w = 0;
          std::memcpy(&a, in, size_of(from));
          std::memcpy(&g, got, size_of(to));
          std::memcpy(&w, want, size_of(to));
          std::fprintf(stderr, "cast %d -> %d of %lx: got %lx, expected %lx\n", from, to, a, g, w);
          failed(__FILE__, __LINE__, "cast");
        }
      }
  plugin->stream->destroy(s);
}

DEFINE_CHECK(copies_of_any_strides) {
  std::mt19937_64 random(5);
  hal_stream *s = nullptr;
  CHECK_OK(plugin->stream->create(device, 0, &s));
  const hal_dtype dtypes[] = {HAL_U8, HAL_BF16, HAL_F32, HAL_F64};
  for (int round = 0; round < 400; ++round) {
    const hal_dtype dtype = dtypes[round % 4];
    const uint32_t size = size_of(dtype);
    pool_threads = 1 + round % 3;
    const int rank = 1 + int(random() % 4);
    std::vector<int64_t> dims(rank);
    for (auto &d : dims) d = 1 + int64_t(random() % (round % 7 == 0 ? 70 : 12));
    // A permuted, padded, sometimes reversed layout for each side.
    const auto layout = [&](int64_t *first, int64_t *span) {
      std::vector<int> order(rank);
      for (int d = 0; d < rank; ++d) order[d] = d;
      std::shuffle(order.begin(), order.end(), random);
      std::vector<int64_t> strides(rank);
      int64_t step = random() % 3 == 0 ? 2 : 1;
      *first = 0;
      for (int d : order) {
        strides[d] = step;
        step *= dims[d] + int64_t(random() % 2);
      }
      *span = step;
      for (int d = 0; d < rank; ++d)
        if (random() % 5 == 0) {
          *first += (dims[d] - 1) * strides[d];
          strides[d] = -strides[d];
        }
      return strides;
    };
    int64_t x_first, x_span, y_first, y_span;
    const auto xs = layout(&x_first, &x_span), ys = layout(&y_first, &y_span);
    Memory x(uint64_t(x_span) * size), y(uint64_t(y_span) * size);
    for (int64_t i = 0; i < x_span * size; ++i) x.as<uint8_t>()[i] = uint8_t(random());
    std::memset(y.as<char>(), 0x77, size_t(y_span) * size);
    std::vector<char> expected(y.as<char>(), y.as<char>() + y_span * size);
    int64_t total = 1;
    for (int64_t d : dims) total *= d;
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i, from = x_first, to = y_first;
      for (int d = rank - 1; d >= 0; --d) {
        from += rest % dims[d] * xs[d];
        to += rest % dims[d] * ys[d];
        rest /= dims[d];
      }
      std::memcpy(expected.data() + to * size, x.as<char>() + from * size, size);
    }
    hal_executable *e = prepare("copy", {tensor(dtype, dims, xs), tensor(dtype, dims, ys, true)}, 1);
    CHECK_OK(launch(s, e, {x.at(uint64_t(x_first) * size), y.at(uint64_t(y_first) * size)}));
    plugin->kernel->release(device, e);
    CHECK(std::memcmp(expected.data(), y.as<char>(), expected.size()) == 0);  // nothing beside the view was touched either
  }
  plugin->stream->destroy(s);
}

DEFINE_CHECK(fill_and_arange) {
  hal_stream *s = nullptr;
  CHECK_OK(plugin->stream->create(device, 0, &s));
  const int64_t n = 100003;
  pool_threads = 3;
  Memory y(uint64_t(n) * 2 * 8);
  hal_executable *e = prepare("fill", {immediate(HAL_F32), contiguous(HAL_F32, {n}, true)}, 1);
  const uint32_t nan_with_payload = 0x7fa12345;
  CHECK_OK(launch(s, e, {value(nan_with_payload), y.at()}));
  for (int64_t i = 0; i < n; ++i) CHECK(y.as<uint32_t>()[i] == nan_with_payload);
  plugin->kernel->release(device, e);
  e = prepare("fill", {immediate(HAL_I16), tensor(HAL_I16, {100, 3}, {8, 2}, true)}, 1);
  std::memset(y.as<char>(), 0, 2000);
  CHECK_OK(launch(s, e, {value(int16_t{-5}), y.at()}));
  for (int64_t i = 0; i < 800; ++i) CHECK(y.as<int16_t>()[i] == (i % 8 < 6 && i % 2 == 0 ? -5 : 0));
  plugin->kernel->release(device, e);

  const volatile float start = 0.1f, step = 0.3f;
  e = prepare("arange", {immediate(HAL_F32), immediate(HAL_F32), contiguous(HAL_F32, {n}, true)}, 2);
  CHECK_OK(launch(s, e, {value(float(start)), value(float(step)), y.at()}));
  for (int64_t i = 0; i < n; ++i) {
    const volatile float product = float(i) * step;
    CHECK(y.as<float>()[i] == start + product);
  }
  plugin->kernel->release(device, e);
  e = prepare("arange", {immediate(HAL_F32), immediate(HAL_F32), tensor(HAL_F16, {30, 40}, {1, 30}, true)}, 2);
  CHECK_OK(launch(s, e, {value(float(start)), value(float(step)), y.at()}));
  for (int64_t i = 0; i < 1200; ++i) {
    const volatile float product = float(i) * step;
    CHECK(y.as<uint16_t>()[i / 40 + i % 40 * 30] == hal_f32_to_f16(start + product));
  }
  plugin->kernel->release(device, e);
  e = prepare("arange", {immediate(HAL_I8), immediate(HAL_I8), contiguous(HAL_I8, {1000}, true)}, 2);
  CHECK_OK(launch(s, e, {value(int8_t{100}), value(int8_t{-3}), y.at()}));
  for (int64_t i = 0; i < 1000; ++i) CHECK(y.as<int8_t>()[i] == int8_t(uint8_t(100 - 3 * i)));
  plugin->kernel->release(device, e);
  hal_executable *none = nullptr;
  CHECK_STATUS(try_prepare("arange", {immediate(HAL_I8), immediate(HAL_I32), contiguous(HAL_I8, {4}, true)}, 2, &none),
               HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(try_prepare("fill", {immediate(HAL_I8), contiguous(HAL_I16, {4}, true)}, 1, &none), HAL_ERROR_INVALID_ARGUMENT);
  plugin->stream->destroy(s);
}
