// What the matmul kernels share: the op's operands, brought into one form.
#pragma once

#include <kernel.hpp>

#include "pack.hpp"

namespace cpu {

// Length of a chain of matmul (docs/numerics.md, 7).
constexpr int64_t kChunk = 512;

// out[m, n] = chain over k of a[m, k]·b[k, n], for each item of a batch. Strides count elements.
struct MatmulShape {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  int64_t a_row = 0, a_k = 0, b_k = 0, b_column = 0, out_row = 0, out_column = 0;
  struct Axis {
    int64_t size, a, b, out;
  };
  std::vector<Axis> axes;  // of the batch, outermost first; none has size 1
  bool swapped = false;    // a is the op's second operand

  struct Offsets {
    int64_t a = 0, b = 0, out = 0;
  };
  Offsets offsets(int64_t item) const;
  int64_t chunks() const { return (k + kChunk - 1) / kChunk; }
};

// Checks dims (throws Invalid), merges batch axes, folds the batch into the rows where B is shared, and transposes the problem
// (outᵀ = Bᵀ·Aᵀ, the same products) where that makes the output's columns contiguous or a narrow product flat.
MatmulShape matmul_shape(const hal_op &op);

// Integers modulo 2ⁿ: matmul_integer.cpp.
std::unique_ptr<Kernel> make_integer_matmul(const hal_op &op);

}  // namespace cpu
