// The machinery of every elementwise kernel. An op brings loops over contiguous runs in its compute type; this file brings them the
// operands: it merges dimensions, cuts the work for the pool, gathers what isn't contiguous into small buffers, and widens f16 and bf16
// on the way in and rounds them on the way out. So strides and halves cost no instantiation, and can't change a bit.
#pragma once

#include <memory>

#include "kernel.hpp"

namespace cpu {

// Runs one op over n elements: out[i] from in[k][i], or in[k][0] for the operands that the variant takes as scalars.
using Loop = void (*)(int64_t n, void *out, const void *const *in);

// Variants by the set of scalar operands (bit k: input k). Variant 0 is required; where another is missing, scalars are spread out.
struct Loops {
  Loop variant[8];
};

int64_t dtype_size(hal_dtype dtype);
const char *dtype_name(hal_dtype dtype);
// f32 for halves, else the dtype itself.
inline hal_dtype compute_dtype(hal_dtype dtype) { return dtype == HAL_F16 || dtype == HAL_BF16 ? hal_dtype{HAL_F32} : dtype; }

struct ElementwiseSpec {
  int num_inputs;               // 1 to 3
  const hal_operand *operands;  // inputs, then the output; inputs broadcast to the output's shape
  // What the loops take and give. Either equals the operand's dtype, or is f32 for a half.
  hal_dtype loop_dtypes[4];
  const Loops *loops;
  int64_t grain;  // elements worth a piece of their own
  const char *name;
};

std::unique_ptr<Kernel> make_elementwise(const ElementwiseSpec &spec);

// One operand's way through memory, dimension by dimension (outermost first).
struct Walk {
  int64_t strides[HAL_MAX_RANK];  // bytes
};

// Sorts dimensions by stride (that of the first walk counts most), merges those that continue each other and drops those of size 1.
// Gives the new rank, at least 1. Every walk sees the same elements in the same, but maybe another than row-major, order.
int merge_dimensions(int rank, int64_t *dims, Walk *const *walks, int num_walks, bool sort);

}  // namespace cpu
