// Strided iteration, element types and small helpers of the reducing, random and optimizer kernels.
#pragma once

#include <hal/numerics/numerics.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "halves.hpp"
#include "kernel.hpp"

namespace cpu::reduce {

inline constexpr int64_t kBlock = 4096;  // docs/numerics.md, section 5
inline constexpr int kLanes = 32;
inline constexpr int64_t kGrain = 16384;  // elements that are worth a thread

// For functions that a vectorised loop calls: GCC must not leave a call there.
#define CPU_INLINE inline __attribute__((always_inline))

// ---- element types: S as stored, C as computed ----

template <int D>
struct Element;
#define CPU_ELEMENT_INT(D, T)                                \
  template <>                                                \
  struct Element<D> {                                        \
    using S = T;                                             \
    using C = T;                                             \
    static constexpr bool is_float = false;                  \
    static CPU_INLINE C load(S s) { return s; }              \
    static CPU_INLINE S store(C c) { return c; }             \
    static CPU_INLINE S from_i64(int64_t v) { return S(v); } \
  };
CPU_ELEMENT_INT(HAL_BOOL, uint8_t)
CPU_ELEMENT_INT(HAL_U8, uint8_t)
CPU_ELEMENT_INT(HAL_I8, int8_t)
CPU_ELEMENT_INT(HAL_I16, int16_t)
CPU_ELEMENT_INT(HAL_I32, int32_t)
CPU_ELEMENT_INT(HAL_I64, int64_t)
#undef CPU_ELEMENT_INT
#define CPU_ELEMENT_FLOAT(D, ST, CT, LOAD, STORE, FROM_I64)         \
  template <>                                                       \
  struct Element<D> {                                               \
    using S = ST;                                                   \
    using C = CT;                                                   \
    static constexpr bool is_float = true;                          \
    static CPU_INLINE C load(S s) { return LOAD(s); }               \
    static CPU_INLINE S store(C c) { return STORE(c); }             \
    static CPU_INLINE S from_i64(int64_t v) { return FROM_I64(v); } \
  };
CPU_ELEMENT_FLOAT(HAL_F16, uint16_t, float, hal_f16_to_f32, hal_f32_to_f16, hal_i64_to_f16)
CPU_ELEMENT_FLOAT(HAL_BF16, uint16_t, float, hal_bf16_to_f32, hal_f32_to_bf16, hal_i64_to_bf16)
CPU_ELEMENT_FLOAT(HAL_F32, float, float, float, float, float)
CPU_ELEMENT_FLOAT(HAL_F64, double, double, double, double, double)
#undef CPU_ELEMENT_FLOAT

template <int D>
using Dtype = std::integral_constant<int, D>;

// f(Dtype<D>{}) for the run-time dtype.
template <class F>
auto for_float(hal_dtype dtype, F &&f) -> decltype(f(Dtype<HAL_F32>{})) {
  switch (dtype) {
    case HAL_F16:
      return f(Dtype<HAL_F16>{});
    case HAL_BF16:
      return f(Dtype<HAL_BF16>{});
    case HAL_F32:
      return f(Dtype<HAL_F32>{});
    case HAL_F64:
      return f(Dtype<HAL_F64>{});
    default:
      throw Unsupported("dtype " + std::to_string(dtype) + " is not a float type");
  }
}
template <class F>
auto for_any(hal_dtype dtype, F &&f) -> decltype(f(Dtype<HAL_F32>{})) {
  switch (dtype) {
    case HAL_BOOL:
      return f(Dtype<HAL_BOOL>{});
    case HAL_U8:
      return f(Dtype<HAL_U8>{});
    case HAL_I8:
      return f(Dtype<HAL_I8>{});
    case HAL_I16:
      return f(Dtype<HAL_I16>{});
    case HAL_I32:
      return f(Dtype<HAL_I32>{});
    case HAL_I64:
      return f(Dtype<HAL_I64>{});
    default:
      return for_float(dtype, f);
  }
}

inline constexpr uint32_t kFloatBits = HAL_DTYPE_BIT(HAL_F16) | HAL_DTYPE_BIT(HAL_BF16) | HAL_DTYPE_BIT(HAL_F32) | HAL_DTYPE_BIT(HAL_F64);
inline constexpr uint32_t kNumberBits =
    kFloatBits | HAL_DTYPE_BIT(HAL_U8) | HAL_DTYPE_BIT(HAL_I8) | HAL_DTYPE_BIT(HAL_I16) | HAL_DTYPE_BIT(HAL_I32) | HAL_DTYPE_BIT(HAL_I64);
inline constexpr uint32_t kAllBits = kNumberBits | HAL_DTYPE_BIT(HAL_BOOL);

// ---- kernels from lambdas; checks ----

template <class F>
class LambdaKernel final : public Kernel {
 public:
  explicit LambdaKernel(F f, uint64_t workspace) : f_(std::move(f)) { workspace_size = workspace; }
  void run(void *const *data, void *workspace) const override { f_(data, workspace); }

 private:
  F f_;
};
// f(data, workspace), as Kernel::run.
template <class F>
std::unique_ptr<Kernel> make_kernel(F f, uint64_t workspace = 0) {
  return std::make_unique<LambdaKernel<F>>(std::move(f), workspace);
}

// Throws Invalid("[op] " + what) unless ok.
void require(bool ok, const hal_op &op, const std::string &what);
void require_operands(const hal_op &op, uint32_t inputs, uint32_t outputs);
void require_same_shape(const hal_op &op, const hal_operand &a, const hal_operand &b);
std::string shape_text(const hal_operand &o);  // "(2, 3)"
inline bool same_shape(const hal_operand &a, const hal_operand &b) {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}
inline bool is_absent(const hal_operand &o) { return (o.flags & HAL_OPERAND_ABSENT) != 0; }

// ---- axes ----

inline constexpr int kOperands = 3;  // that one Axes walks in step

struct Axis {
  int64_t n = 1;
  int64_t stride[kOperands] = {};  // in elements, per operand
};

// A set of axes, outermost first, walked in row-major order.
struct Axes {
  int count = 0;
  Axis axis[HAL_MAX_RANK];

  void push(const Axis &a) { axis[count++] = a; }
  Axis inner() const { return count ? axis[count - 1] : Axis{}; }
  int64_t total() const {
    int64_t n = 1;
    for (int i = 0; i < count; ++i) n *= axis[i].n;
    return n;
  }
  // Drops axes of size 1 and joins neighbours that one stride walks; the order of the elements stays. An empty set keeps one axis of 0.
  void coalesce() {
    if (total() == 0) {
      count = 1;
      axis[0] = Axis{};
      axis[0].n = 0;
      return;
    }
    int kept = 0;
    for (int i = 0; i < count; ++i) {
      const Axis a = axis[i];
      if (a.n == 1) continue;
      bool joins = kept > 0;
      for (int k = 0; joins && k < kOperands; ++k) joins = axis[kept - 1].stride[k] == a.stride[k] * a.n;
      if (joins) {
        Axis &outer = axis[kept - 1];
        outer.n *= a.n;
        std::copy(a.stride, a.stride + kOperands, outer.stride);
      } else {
        axis[kept++] = a;
      }
    }
    count = kept;
  }
  void offsets(int64_t index, int64_t *out) const {
    std::fill(out, out + kOperands, 0);
    for (int i = count - 1; i >= 0; --i) {
      const int64_t at = index % axis[i].n;
      index /= axis[i].n;
      for (int k = 0; k < kOperands; ++k) out[k] += at * axis[i].stride[k];
    }
  }
};

// All axes of up to three operands of one shape.
inline Axes axes_of(std::initializer_list<const hal_operand *> operands) {
  Axes axes;
  const hal_operand &first = **operands.begin();
  for (uint32_t i = 0; i < first.rank; ++i) {
    Axis a;
    a.n = first.dims[i];
    int k = 0;
    for (const hal_operand *o : operands) a.stride[k++] = is_absent(*o) ? 0 : o->strides[i];
    axes.push(a);
  }
  axes.coalesce();
  return axes;
}

// Cuts the elements [begin, end) into runs along the innermost axis: f(first element, length, offsets of the first element).
template <class F>
inline void for_runs(const Axes &axes, int64_t begin, int64_t end, F &&f) {
  if (begin >= end) return;
  int64_t at[HAL_MAX_RANK] = {}, offset[kOperands] = {};
  int64_t rest = begin;
  for (int i = axes.count - 1; i >= 0; --i) {
    at[i] = rest % axes.axis[i].n;
    rest /= axes.axis[i].n;
    for (int k = 0; k < kOperands; ++k) offset[k] += at[i] * axes.axis[i].stride[k];
  }
  const int last = axes.count - 1;
  const int64_t inner = last >= 0 ? axes.axis[last].n : 1;
  int64_t left = last >= 0 ? inner - at[last] : 1;
  while (true) {
    const int64_t length = std::min(left, end - begin);
    f(begin, length, static_cast<const int64_t *>(offset));
    begin += length;
    if (begin >= end) return;
    // From the run's first element back to the axis' start, then on to the next of the outer axes.
    for (int k = 0; k < kOperands; ++k) offset[k] -= (inner - left) * axes.axis[last].stride[k];
    left = inner;
    for (int i = last - 1; i >= 0; --i) {
      const Axis &a = axes.axis[i];
      for (int k = 0; k < kOperands; ++k) offset[k] += a.stride[k];
      if (++at[i] < a.n) break;
      at[i] = 0;
      for (int k = 0; k < kOperands; ++k) offset[k] -= a.n * a.stride[k];
    }
  }
}

// Orders axes by their distance in operand k, the nearest innermost, broadcast ones outermost: for outputs, whose order is ours.
void nearest_inside(Axes &axes, int k);

// to[i] = x[i * stride], as C.
template <int D>
inline void load_run(const typename Element<D>::S *x, int64_t stride, int64_t n, typename Element<D>::C *__restrict to) {
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = Element<D>::load(x[i * stride]);
  } else if constexpr (D == HAL_F16) {
    f16_to_f32(n, to, x);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = Element<D>::load(x[i]);
  }
}
// x[i * stride] = from[i], rounded.
template <int D>
inline void store_run(const typename Element<D>::C *__restrict from, int64_t n, typename Element<D>::S *x, int64_t stride) {
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i) x[i * stride] = Element<D>::store(from[i]);
  } else if constexpr (D == HAL_F16) {
    f32_to_f16(n, x, from);
  } else {
    for (int64_t i = 0; i < n; ++i) x[i] = Element<D>::store(from[i]);
  }
}

// The same for elements [begin, begin + n) of the axes, operand 0.
template <int D>
inline void gather(const typename Element<D>::S *x, const Axes &axes, int64_t begin, int64_t n, typename Element<D>::C *to) {
  for_runs(axes, begin, begin + n, [&](int64_t first, int64_t length, const int64_t *at) {
    load_run<D>(x + at[0], axes.inner().stride[0], length, to + (first - begin));
  });
}
template <int D>
inline void scatter(const typename Element<D>::C *from, int64_t begin, int64_t n, typename Element<D>::S *x, const Axes &axes) {
  for_runs(axes, begin, begin + n, [&](int64_t first, int64_t length, const int64_t *at) {
    store_run<D>(from + (first - begin), length, x + at[0], axes.inner().stride[0]);
  });
}

}  // namespace cpu::reduce
