// The parts of add_reductions, one per file.
#pragma once

#include "kernel.hpp"

namespace cpu {

void add_exact_reductions(KernelRows &rows);  // amax, amin, any, all
void add_arg_reductions(KernelRows &rows);    // argmax, argmin

}  // namespace cpu
