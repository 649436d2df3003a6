// Private to the runtime: the parts of dispatch that live in files of their own.
#pragma once

#include "executable_cache.hpp"
#include "operand.hpp"

namespace hal {

// Checks everything that infer doesn't: counts, flags, ranks, and that outputs have the shape that the op gives. Throws.
void check_operands(const OpInfo &info, uint32_t id, const hal_operand *operands, uint32_t num_inputs, uint32_t num_outputs,
                    const void *attributes);

// The dtype by which kernels are registered.
hal_dtype primary_dtype(const OpInfo &info, const hal_operand *operands, uint32_t num_inputs, uint32_t num_outputs);

// Finds a row of the device's registry whose kernel takes the op, and prepares it. nullptr and a reason if there is none.
std::shared_ptr<Executable> prepare(Device &device, const OpInfo &info, hal_numerics numerics, const hal_operand *operands,
                                    uint32_t num_inputs, uint32_t num_outputs, const void *attributes, std::string &reason);

// Runs the op on the host device with copies of the operands, or throws as the policy says.
void run_on_host(Stream &stream, const OpInfo &info, uint32_t id, const hal_operand *operands, const Place *places, uint32_t num_inputs,
                 uint32_t num_outputs, const void *attributes, const std::string &reason);

// Waits for and drops what fallback keeps; at shutdown.
void close_fallback();

}  // namespace hal
