// Kernel libraries: one per instruction set, mapped on demand.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "kernel.hpp"

namespace cpu {

// A mapped kernel library and its registry. Lives as long as the process.
struct Isa {
  std::string name;
  const KernelRows *rows = nullptr;
  std::vector<hal_kernel_info> infos;                        // one per row, in order
  std::unordered_map<std::string, const KernelRow *> by_op;  // one row an op: its factory picks by dtype
};

// The library for `name`, or, if `name` is empty, that of HAL_CPU_ISA or else the best that this CPU runs.
// Throws Invalid for an unknown name, IsaUnavailable if the CPU or the installation lacks it.
struct IsaUnavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};
const Isa &select_isa(const std::string &name);

}  // namespace cpu
