#include "ceiling.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "error.hpp"
#include "thread_pool.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

volatile uint64_t sink;  // keeps results alive

// --- bandwidth: int64 elements, so that no floating-point mode matters; plain and non-temporal stores, the better one counts -----------

struct Arrays {
  int64_t *a, *b, *c;
  bool streaming;
};

#if defined(__x86_64__)
// Reads as wide as the CPU can: narrower loads don't reach the memory's limit on one core.
__attribute__((target("avx2"))) uint64_t read_avx2(const int64_t *a, int64_t begin, int64_t end) {
  __m256i sums[8];
  for (__m256i &s : sums) s = _mm256_setzero_si256();
  int64_t i = begin;
  for (; i + 32 <= end; i += 32)
    for (int k = 0; k < 8; ++k) sums[k] = _mm256_add_epi64(sums[k], _mm256_loadu_si256(reinterpret_cast<const __m256i *>(a + i + 4 * k)));
  for (int k = 1; k < 8; ++k) sums[0] = _mm256_add_epi64(sums[0], sums[k]);
  uint64_t lanes[4], total = 0;
  std::memcpy(lanes, &sums[0], sizeof lanes);
  for (const uint64_t lane : lanes) total += lane;
  for (; i < end; ++i) total += static_cast<uint64_t>(a[i]);
  return total;
}
#endif

void read_body(void *context, int64_t begin, int64_t end) {
  const int64_t *a = static_cast<Arrays *>(context)->a;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    sink = read_avx2(a, begin, end);
    return;
  }
#endif
  uint64_t sums[8] = {};
  int64_t i = begin;
  for (; i + 8 <= end; i += 8)
    for (int k = 0; k < 8; ++k) sums[k] += static_cast<uint64_t>(a[i + k]);
  for (; i < end; ++i) sums[0] += static_cast<uint64_t>(a[i]);
  uint64_t total = 0;
  for (const uint64_t s : sums) total += s;
  sink = total;
}

#if defined(__x86_64__)
// 16-byte aligned pieces by stores that bypass the caches; the ends by plain ones.
template <typename Load>
void stream_to(int64_t *out, int64_t begin, int64_t end, Load load) {
  int64_t i = begin;
  for (; i < end && (reinterpret_cast<uintptr_t>(out + i) & 15) != 0; ++i) out[i] = _mm_cvtsi128_si64(load(i));
  for (; i + 2 <= end; i += 2) _mm_stream_si128(reinterpret_cast<__m128i *>(out + i), load(i));
  for (; i < end; ++i) out[i] = _mm_cvtsi128_si64(load(i));
  _mm_sfence();
}

// The same 32 bytes at a time, a[i] = b[i] + c[i] (c may be null: a copy).
__attribute__((target("avx2"))) void stream_avx2(int64_t *a, const int64_t *b, const int64_t *c, int64_t begin, int64_t end) {
  int64_t i = begin;
  const auto at = [&](int64_t k) { return c != nullptr ? b[k] + c[k] : b[k]; };
  for (; i < end && (reinterpret_cast<uintptr_t>(a + i) & 31) != 0; ++i) a[i] = at(i);
  for (; i + 4 <= end; i += 4) {
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(b + i));
    if (c != nullptr) v = _mm256_add_epi64(v, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(c + i)));
    _mm256_stream_si256(reinterpret_cast<__m256i *>(a + i), v);
  }
  for (; i < end; ++i) a[i] = at(i);
  _mm_sfence();
}

__m128i load2(const int64_t *p) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p)); }
#endif

void copy_body(void *context, int64_t begin, int64_t end) {
  const auto &arrays = *static_cast<Arrays *>(context);
#if defined(__x86_64__)
  if (arrays.streaming && __builtin_cpu_supports("avx2")) return stream_avx2(arrays.a, arrays.b, nullptr, begin, end);
  if (arrays.streaming) return stream_to(arrays.a, begin, end, [&](int64_t i) { return load2(arrays.b + i); });
#endif
  std::memcpy(arrays.a + begin, arrays.b + begin, static_cast<size_t>(end - begin) * sizeof(int64_t));
}

void triad_body(void *context, int64_t begin, int64_t end) {
  const auto &arrays = *static_cast<Arrays *>(context);
#if defined(__x86_64__)
  if (arrays.streaming && __builtin_cpu_supports("avx2")) return stream_avx2(arrays.a, arrays.b, arrays.c, begin, end);
  if (arrays.streaming)
    return stream_to(arrays.a, begin, end, [&](int64_t i) { return _mm_add_epi64(load2(arrays.b + i), load2(arrays.c + i)); });
#endif
  for (int64_t i = begin; i < end; ++i) arrays.a[i] = arrays.b[i] + arrays.c[i];
}

struct Free {
  void operator()(int64_t *p) const { std::free(p); }
};
using Array = std::unique_ptr<int64_t, Free>;

void touch_body(void *context, int64_t begin, int64_t end) {
  std::memset(static_cast<int64_t *>(context) + begin, 1, static_cast<size_t>(end - begin) * sizeof(int64_t));
}

Array make_array(int64_t count) {
  auto *data = static_cast<int64_t *>(std::aligned_alloc(4096, (static_cast<size_t>(count) * sizeof(int64_t) + 4095) / 4096 * 4096));
  if (data == nullptr) throw hal::Error(HAL_ERROR_OUT_OF_MEMORY, "[host_bandwidth] no memory for the arrays");
  hal::parallel_for(count, 1 << 16, touch_body, data);
  return Array(data);
}

// --- floating point: chains of multiply-adds in registers, enough of them to hide the latency -------------------------------------------

constexpr int64_t kSteps = 20000;
constexpr int kChains = 12;

#define HAL_FLOPS_LOOP(vector, set1, fmadd, lanes)                                              \
  vector chains[kChains];                                                                       \
  for (int k = 0; k < kChains; ++k) chains[k] = set1(1.0f + 0.01f * k);                         \
  const vector factor = set1(0.999f), term = set1(0.001f);                                      \
  for (int64_t i = 0; i < kSteps; ++i)                                                          \
    for (int k = 0; k < kChains; ++k) chains[k] = fmadd(chains[k], factor, term);               \
  for (int k = 0; k < kChains; ++k) std::memcpy(&bits, &chains[k], sizeof bits), total += bits; \
  return 2.0 * lanes * kChains * kSteps;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) double flops_avx512_f32(uint64_t &total) {
  uint64_t bits;
  HAL_FLOPS_LOOP(__m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)
}
__attribute__((target("avx512f"))) double flops_avx512_f64(uint64_t &total) {
  uint64_t bits;
  HAL_FLOPS_LOOP(__m512d, _mm512_set1_pd, _mm512_fmadd_pd, 8)
}
__attribute__((target("avx2,fma"))) double flops_avx2_f32(uint64_t &total) {
  uint64_t bits;
  HAL_FLOPS_LOOP(__m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)
}
__attribute__((target("avx2,fma"))) double flops_avx2_f64(uint64_t &total) {
  uint64_t bits;
  HAL_FLOPS_LOOP(__m256d, _mm256_set1_pd, _mm256_fmadd_pd, 4)
}
inline __m128 multiply_add(__m128 a, __m128 b, __m128 c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
inline __m128d multiply_add(__m128d a, __m128d b, __m128d c) { return _mm_add_pd(_mm_mul_pd(a, b), c); }
double flops_plain_f32(uint64_t &total) {
  uint64_t bits;
  HAL_FLOPS_LOOP(__m128, _mm_set1_ps, multiply_add, 4)
}
double flops_plain_f64(uint64_t &total) {
  uint64_t bits;
  HAL_FLOPS_LOOP(__m128d, _mm_set1_pd, multiply_add, 2)
}
#elif defined(__aarch64__)
inline float32x4_t fmadd(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }
inline float64x2_t fmadd(float64x2_t a, float64x2_t b, float64x2_t c) { return vfmaq_f64(c, a, b); }
double flops_plain_f32(uint64_t &total) {
  uint64_t bits;
  HAL_FLOPS_LOOP(float32x4_t, vdupq_n_f32, fmadd, 4)
}
double flops_plain_f64(uint64_t &total) {
  uint64_t bits;
  HAL_FLOPS_LOOP(float64x2_t, vdupq_n_f64, fmadd, 2)
}
#else
inline double fmadd(double a, double b, double c) { return a * b + c; }
double flops_plain_f32(uint64_t &total) {
  uint64_t bits;
  HAL_FLOPS_LOOP(double, double, fmadd, 1)
}
double flops_plain_f64(uint64_t &total) { return flops_plain_f32(total); }
#endif

using Flops = double (*)(uint64_t &);

Flops pick(bool f64) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return f64 ? flops_avx512_f64 : flops_avx512_f32;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return f64 ? flops_avx2_f64 : flops_avx2_f32;
#endif
  return f64 ? flops_plain_f64 : flops_plain_f32;
}

void flops_body(void *context, int64_t begin, int64_t end) {
  uint64_t total = 0;
  for (int64_t i = begin; i < end; ++i) (*static_cast<Flops *>(context))(total);
  sink = total;
}

}  // namespace

double host_bandwidth(const std::string &pattern, uint64_t bytes, int repeats) {
  struct Pattern {
    const char *name;
    hal_loop_body body;
    int arrays;
  };
  static constexpr Pattern patterns[] = {{"read", read_body, 1}, {"copy", copy_body, 2}, {"triad", triad_body, 3}};
  const auto *found = std::find_if(std::begin(patterns), std::end(patterns), [&](const Pattern &p) { return pattern == p.name; });
  if (found == std::end(patterns))
    throw hal::Error(hal::ErrorKind::Value, "[host_bandwidth] unknown pattern: got '" + pattern + "', expected read, copy or triad");
  const auto count = static_cast<int64_t>(bytes / sizeof(int64_t));
  if (count < 1 || repeats < 1) throw hal::Error(hal::ErrorKind::Value, "[host_bandwidth] bytes and repeats must be positive");
  Array a = make_array(count), b, c;
  if (found->arrays > 1) b = make_array(count);
  if (found->arrays > 2) c = make_array(count);
  double best = 0;
  for (const bool streaming : {false, true}) {
    Arrays arrays{a.get(), b.get(), c.get(), streaming};
    for (int r = 0; r < repeats; ++r) {
      const auto start = Clock::now();
      hal::parallel_for(count, 1 << 14, found->body, &arrays);
      best = std::max(best, static_cast<double>(count) * sizeof(int64_t) * found->arrays / seconds_since(start));
    }
  }
  return best;
}

double host_flops(const std::string &dtype, int repeats) {
  if (dtype != "f32" && dtype != "f64")
    throw hal::Error(hal::ErrorKind::Value, "[host_flops] unknown dtype: got '" + dtype + "', expected f32 or f64");
  Flops loop = pick(dtype == "f64");
  uint64_t total = 0;
  const double work = loop(total);  // and warm
  sink = total;
  const int64_t pieces = int64_t{4} * hal::num_threads() * 8;
  double best = 0;
  for (int r = 0; r < std::max(repeats, 1); ++r) {
    const auto start = Clock::now();
    hal::parallel_for(pieces, 1, flops_body, &loop);
    best = std::max(best, work * static_cast<double>(pieces) / seconds_since(start));
  }
  return best;
}
