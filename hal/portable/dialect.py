"""The prelude: macros under which OpenCL C 1.2, CUDA C and C++17 accept one source, then the shared functions.

The dialect:

- ``HAL_KERNEL(name, lanes, (parameters)) { … }``: a kernel. Parameters are ``GLOBAL`` pointers, ``hal_i64`` and structs of hal_i64.
- ``HAL_GROUP()``: number of the work-group. One group's lanes run together.
- ``HAL_FOR_LANES(lane, n) { … }``: a lane region: the body for lane = 0 … n - 1. With threads each takes its share, else it is a loop.
- ``HAL_LANE_VAR(T, v, lanes);`` a variable of each lane, that lives from one region to the next: ``HAL_V(v)`` in a region over ``lane``.
- ``HAL_SHARED(T, v, count);`` an array that the lanes share; ``HAL_BARRIER()`` between a region that writes it and one that reads it.
- ``HAL_ONE_LANE { … }``: once per group.
- vectors without threads: see vectors.py.
- ``HAL_PTR(T, p, bytes)``: global pointer to T at a byte offset.

Without threads HAL_LANE_VAR is an array, HAL_BARRIER nothing, and a group is one work-item.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from .interface import Target
from .vectors import vectors

_COMMON = r"""
#define HAL_PTR(T, p, bytes) ((GLOBAL T *)((GLOBAL hal_u8 *)(p) + (bytes)))
/* A loop that isn't worth vectorising: saves the compiler's time. */
#if defined(__clang__) && !HAL_THREADS
#define HAL_SCALAR_LOOP _Pragma("clang loop vectorize(disable) unroll(disable)")
#else
#define HAL_SCALAR_LOOP
#endif
/* Stores that pass by the caches, for results that are larger than those: 32 bytes at a time. */
#if defined(__clang__) && defined(__AVX__) && !HAL_THREADS
#define HAL_STREAM 1
typedef hal_u64 hal_line __attribute__((ext_vector_type(4), may_alias));
#define HAL_STREAM_LINE(from, to) __builtin_nontemporal_store(*(const hal_line *)(from), (GLOBAL hal_line *)(to))
#define HAL_STREAM_END() __builtin_ia32_sfence()
#else
#define HAL_STREAM 0
#define HAL_STREAM_LINE(from, to)
#define HAL_STREAM_END()
#endif
#if defined(__GNUC__) || defined(__clang__)
#define HAL_ALIGNED __attribute__((aligned(32)))
#else
#define HAL_ALIGNED
#endif
#if HAL_THREADS
#define HAL_RAW(at, place) (mixed_ ? at : (place))
#define HAL_FOR_LANES(lane, n) for (hal_i32 lane = HAL_LANE(); lane < (hal_i32)(n); lane += HAL_LANE_COUNT())
#define HAL_LANE_VAR(T, v, lanes) T v
#define HAL_V(v) v
#define HAL_ONE_LANE if (HAL_LANE() == 0)
#else
#define HAL_RAW(at, place) (place)
#define HAL_FOR_LANES(lane, n) for (hal_i32 lane = 0; lane < (hal_i32)(n); ++lane)
#define HAL_LANE_VAR(T, v, lanes) T v[lanes] HAL_ALIGNED
#define HAL_V(v) v[lane]
#define HAL_ONE_LANE
#define HAL_BARRIER()
#endif

/* i / d and i % d; 32-bit division is several times faster than 64-bit. */
HAL_FN hal_i64 hal_div(hal_i64 i, hal_i64 d) {
  return ((hal_u64)(i | d) >> 32) == 0 ? (hal_i64)((hal_u32)i / (hal_u32)d) : i / d;
}
HAL_FN hal_i64 hal_min_i64(hal_i64 a, hal_i64 b) { return a < b ? a : b; }
HAL_FN hal_i64 hal_max_i64(hal_i64 a, hal_i64 b) { return a > b ? a : b; }

/* Reports an index out of range: the first to come keeps the place. */
HAL_FN void hal_raise(GLOBAL hal_i64 *status, hal_i64 index) {
  if (HAL_CLAIM((GLOBAL hal_i32 *)status) == 0) status[1] = index;
}
"""

_OPENCL = r"""
#define HAL_THREADS %(threads)d
#define GLOBAL __global
#define HAL_KERNEL(name, lanes, parameters) \
  __kernel __attribute__((reqd_work_group_size(HAL_THREADS ? (lanes) : 1, 1, 1))) void name parameters
#define HAL_GROUP() ((hal_i64)get_group_id(0))
#define HAL_LANE() ((hal_i32)get_local_id(0))
#define HAL_LANE_COUNT() ((hal_i32)get_local_size(0))
#define HAL_CLAIM(p) atomic_cmpxchg((volatile __global int *)(p), 0, 1)
#if HAL_THREADS
#define HAL_SHARED(T, v, count) __local T v[count]
#define HAL_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define HAL_SHARED(T, v, count) T v[count]
#endif
"""

_CUDA = r"""
#define HAL_THREADS 1
#define GLOBAL
#define HAL_KERNEL(name, lanes, parameters) extern "C" __global__ void __launch_bounds__(lanes) name parameters
#define HAL_GROUP() ((hal_i64)blockIdx.x)
#define HAL_LANE() ((hal_i32)threadIdx.x)
#define HAL_LANE_COUNT() ((hal_i32)blockDim.x)
#define HAL_CLAIM(p) atomicCAS((int *)(p), 0, 1)
#define HAL_SHARED(T, v, count) __shared__ T v[count]
#define HAL_BARRIER() __syncthreads()
"""

# A kernel `k` becomes `extern "C" void k(hal_i64 begin, hal_i64 end, void **arguments)`: groups begin … end - 1, arguments as CUDA's
# launch takes them: a pointer to each parameter. Calls on disjoint ranges may run on several threads.
_CXX = r"""
#include <utility>
#define HAL_THREADS 0
#define GLOBAL
namespace {
thread_local hal_i64 hal_group_ = 0;
template <auto F> struct hal_launcher_;
template <typename... P, void (*F)(P...)> struct hal_launcher_<F> {
  template <std::size_t... I> static void run(hal_i64 begin, hal_i64 end, void **arguments, std::index_sequence<I...>) {
    for (hal_group_ = begin; hal_group_ < end; ++hal_group_) F(*static_cast<P *>(arguments[I])...);
  }
  static void run(hal_i64 begin, hal_i64 end, void **arguments) { run(begin, end, arguments, std::index_sequence_for<P...>()); }
};
}  // namespace
#define HAL_KERNEL(name, lanes, parameters)                                                        \
  static void name##_group parameters;                                                             \
  extern "C" __attribute__((visibility("default"))) void name(hal_i64 begin, hal_i64 end, void **arguments) { \
    hal_launcher_<name##_group>::run(begin, end, arguments);                                       \
  }                                                                                                \
  static void name##_group parameters
#define HAL_GROUP() hal_group_
#define HAL_LANE() 0
#define HAL_LANE_COUNT() 1
#define HAL_SHARED(T, v, count) T v[count]
#define HAL_CLAIM(p) hal_claim_(p)
static inline hal_i32 hal_claim_(hal_i32 *p) {
  hal_i32 expected = 0;
  __atomic_compare_exchange_n(p, &expected, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
"""

# After prelude.h of the shared functions. PoCL's fma() is a call, 12 times slower than the builtin that becomes one
# instruction; sqrt 7 times.
# `static` lets the compiler drop what a kernel doesn't use.
_OPENCL_BUILTINS = r"""
#undef HAL_FN
#define HAL_FN static inline __attribute__((always_inline, unused))
#if defined(POCL_DEVICE_ADDRESS_BITS)
#undef HAL_FMA_F32
#undef HAL_SQRT_F32
#undef HAL_FMA_F64
#undef HAL_SQRT_F64
#define HAL_FMA_F32(a, b, c) __builtin_fmaf((a), (b), (c))
#define HAL_SQRT_F32(a) __builtin_sqrtf(a)
#define HAL_FMA_F64(a, b, c) __builtin_fma((a), (b), (c))
#define HAL_SQRT_F64(a) __builtin_sqrt(a)
#endif
"""

_LANGUAGE = {"opencl": _OPENCL, "cuda": _CUDA, "c++": _CXX}


def _numerics() -> Path:
    """Folder of the shared functions: beside this package's sources, or where the package is installed."""
    import hal

    for base in hal.__path__:
        folder = Path(base) / "include" / "hal" / "numerics"
        if (folder / "prelude.h").is_file():
            return folder
    raise FileNotFoundError("[portable] hal/include/hal/numerics is missing: the package isn't installed completely")


def _flat(name: str, seen: set[str], opencl: bool) -> list[str]:
    """A header with the shared headers that it includes, each once, so that no include path is needed."""
    if name in seen:
        return []
    seen.add(name)
    lines: list[str] = []
    for line in (_numerics() / name).read_text(encoding="utf-8").splitlines():
        included = re.match(r'#include "hal/numerics/(\w+\.h)"', line)
        lines += _flat(included[1], seen, opencl) if included else [line]
    if name == "prelude.h" and opencl:
        lines += _OPENCL_BUILTINS.splitlines()
    return lines


@lru_cache(maxsize=32)
def prelude(target: Target) -> str:
    """What to compile before a plan's source. Compiler flags that the bits depend on stand in hal/numerics/prelude.h."""
    head = "" if target.f64 else "#define HAL_NO_F64 1\n"
    seen: set[str] = set()
    functions = [line for header in ("numerics.h", "op_names.h") for line in _flat(header, seen, target.language == "opencl")]
    language = _LANGUAGE[target.language]
    if target.language == "opencl":
        language = language % {"threads": int(bool(target.threads))}
    return head + "\n".join(functions) + "\n" + language + _COMMON + vectors(target.language)
