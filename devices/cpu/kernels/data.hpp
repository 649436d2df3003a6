// Shared by the files of data kernels.
#pragma once

#include "elementwise.hpp"

namespace cpu {

// A copy of operand 0 to operand 1, of one dtype.
std::unique_ptr<Kernel> make_copy(const hal_op &op);

void add_cast(KernelRows &rows);

}  // namespace cpu
