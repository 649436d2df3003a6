// Every reduction is one frame (reduce.cpp), which cuts axes, blocks and outputs into work, and a Reducer: the few loops that depend on
// the op and the dtype.
#pragma once

#include "reduce_lanes.hpp"

namespace cpu::reduce {

// Loops over stored values (S), accumulators (A) and results (R). Sizes are in bytes, counts and strides in elements.
struct Reducer {
  int64_t size_x, size_a, size_out;
  bool direct;  // S is A: contiguous input is read where it lies

  void (*load)(const void *x, int64_t stride, int64_t n, void *a);  // a[i] = x[i * stride]
  void (*blocks)(const void *a, int64_t stride, int64_t rows, int64_t m,
                 void *to);                              // to[r] = block of the m <= 4096 values at a + r * stride
  void (*start)(const void *a, int64_t n, void *acc);    // acc[i] = start ∘ a[i]; a NULL: acc[i] = start
  void (*combine)(const void *a, int64_t n, void *acc);  // acc[i] = acc[i] ∘ a[i]
  void (*finish)(const void *a, int64_t rows, int64_t n, void *out, int64_t stride);  // out[r * stride] = result of a[r] over n values
};

// Op: types S, A, Combine; kDirect; static R finish(A, n); static A load(S), or with kLoadsRuns load_run(x, stride, n, to).
template <class Op>
const Reducer &reducer() {
  using S = typename Op::S;
  using A = typename Op::A;
  using R = decltype(Op::finish(A{}, int64_t{}));
  using Combine = typename Op::Combine;
  static const Reducer r = {
      sizeof(S),
      sizeof(A),
      sizeof(R),
      Op::kDirect,
      [](const void *x, int64_t stride, int64_t n, void *a) {
        const S *__restrict from = static_cast<const S *>(x);
        A *__restrict to = static_cast<A *>(a);
        if constexpr (Op::kLoadsRuns)
          Op::load_run(from, stride, n, to);
        else if (stride == 1)
          for (int64_t i = 0; i < n; ++i) to[i] = Op::load(from[i]);
        else
          for (int64_t i = 0; i < n; ++i) to[i] = Op::load(from[i * stride]);
      },
      block_rows<A, Combine>,
      start_row<A, Combine>,
      combine_row<A, Combine>,
      [](const void *a, int64_t rows, int64_t n, void *out, int64_t stride) {
        const A *__restrict from = static_cast<const A *>(a);
        R *__restrict to = static_cast<R *>(out);
        if (stride == 1)
          for (int64_t i = 0; i < rows; ++i) to[i] = Op::finish(from[i], n);
        else
          for (int64_t i = 0; i < rows; ++i) to[i * stride] = Op::finish(from[i], n);
      },
  };
  return r;
}

// Axes of `mask` are reduced. x and out have equal rank, out with size 1 in reduced axes.
std::unique_ptr<Kernel> make_reduction(const hal_op &op, uint64_t mask, const Reducer &reducer);

// What the frame knows of the shapes; argmax and argmin use it too.
inline constexpr int kX = 0, kOut = 1;  // operands of the axes below
struct Plan {
  Axes kept;     // x and out
  Axes reduced;  // x
  int64_t outputs = 0, n = 0;
  int64_t blocks = 0;    // of one output
  bool columns = false;  // the innermost kept axis is contiguous in x, the reduced axes are outside
  bool row = false;      // the reduced axes are one contiguous run
};
Plan plan_reduction(const hal_op &op, uint64_t mask);
// Throws Invalid if a reduced axis is empty.
void require_not_empty(const hal_op &op, uint64_t mask);

inline int64_t grain(int64_t elements_per_item) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, elements_per_item)); }

}  // namespace cpu::reduce
