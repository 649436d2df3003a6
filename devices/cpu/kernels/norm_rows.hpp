// What the normalizations over rows and channels share: one operand's way along a set of axes, and sums of computed terms.
#pragma once

#include "reduce.hpp"

namespace cpu::reduce {

// One operand seen along some of its axes, flattened row-major.
struct Side {
  Axes axes;
  bool uniform = true;  // one step leads from each element to the next
  int64_t step = 0;

  Side() = default;
  // Axes [begin, end) but not `skip`.
  Side(const hal_operand &o, int begin, int end, int skip = -1) {
    for (int d = begin; d < end; ++d) {
      if (d == skip) continue;
      Axis a;
      a.n = o.dims[d];
      a.stride[0] = o.strides[d];
      axes.push(a);
    }
    axes.coalesce();
    uniform = axes.count <= 1;
    step = axes.inner().stride[0];
  }
  int64_t at(int64_t i) const {
    if (uniform) return i * step;
    int64_t offset[kOperands];
    axes.offsets(i, offset);
    return offset[0];
  }
  // How far elements lie side by side: a run's length, 1 if they don't.
  int64_t run() const { return axes.count == 0 ? INT64_MAX : step == 1 ? axes.inner().n : 1; }
};

// Elements [begin, begin + m) of a side as contiguous C: where they lie, if they do so in one run, else copied.
template <int D>
inline const typename Element<D>::C *fetch(const typename Element<D>::S *x, const Side &side, int64_t begin, int64_t m,
                                           typename Element<D>::C *buffer) {
  if constexpr (std::is_same_v<typename Element<D>::S, typename Element<D>::C>) {
    const int64_t run = side.run();
    if (m == 1 || (run >= m && begin % run + m <= run)) return x + side.at(begin);
  }
  gather<D>(x, side.axes, begin, m, buffer);
  return buffer;
}

// The same for results: where to write C values, and what moves them to the operand if that is elsewhere.
template <int D>
inline typename Element<D>::C *target(typename Element<D>::S *x, const Side &side, int64_t begin, int64_t m,
                                      typename Element<D>::C *buffer) {
  if constexpr (std::is_same_v<typename Element<D>::S, typename Element<D>::C>) {
    const int64_t run = side.run();
    if (m == 1 || (run >= m && begin % run + m <= run)) return x + side.at(begin);
  }
  return buffer;
}
template <int D>
inline void deliver(const typename Element<D>::C *from, const typename Element<D>::C *buffer, typename Element<D>::S *x, const Side &side,
                    int64_t begin, int64_t m) {
  if (from == buffer) scatter<D>(from, begin, m, x, side.axes);
}

template <class C>
__attribute__((noinline)) C block_sum(const C *x, int64_t m) {
  return reduce_block<Plus>(x, m);
}
// Σ of n values by section 5; block(begin, m) is the result of one block.
template <class C, class F>
inline C sum_blocks(int64_t n, F &&block) {
  if (n <= kBlock) return block(int64_t{0}, n);
  SumStream<C> stream;
  for (int64_t i = 0; i < n; i += kBlock) stream.push(block(i, std::min(kBlock, n - i)));
  return stream.result();
}

template <class C>
CPU_INLINE C square_root(C x) {
  if constexpr (std::is_same_v<C, float>)
    return HAL_SQRT_F32(x);
  else
    return HAL_SQRT_F64(x);
}

// ---- loops over contiguous values ----

template <class C>
__attribute__((noinline)) void squared_deviations(const C *__restrict x, C mean, int64_t n, C *__restrict t) {
  for (int64_t i = 0; i < n; ++i) {
    const C d = x[i] - mean;
    t[i] = d * d;
  }
}
// t = g·x̂ with x̂ = (x − mean)·rstd.
template <class C>
__attribute__((noinline)) void projections(const C *__restrict g, const C *__restrict x, C mean, C rstd, int64_t n, C *__restrict t) {
  for (int64_t i = 0; i < n; ++i) t[i] = g[i] * ((x[i] - mean) * rstd);
}

}  // namespace cpu::reduce
