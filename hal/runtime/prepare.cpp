// From the registry's rows to an executable: which row takes an op, and with which description of the operands.
#include "dispatch_internal.hpp"

namespace hal {
namespace {

// The op as a row's flags want to see it.
void describe(const hal_operand *operands, uint32_t count, uint32_t flags, hal_operand *out) {
  for (uint32_t i = 0; i < count; ++i) {
    const hal_operand &from = operands[i];
    hal_operand &o = out[i];
    o = hal_operand{};
    o.struct_size = sizeof(hal_operand);
    o.flags = from.flags;
    if (from.flags & HAL_OPERAND_ABSENT) continue;
    o.dtype = from.dtype;
    o.layout = from.layout;
    o.rank = from.rank;
    for (uint32_t d = 0; d < o.rank; ++d) {
      o.dims[d] = from.dims[d];
      o.strides[d] = from.strides[d];
    }
    if (flags & HAL_KERNEL_CONTIGUOUS) set_row_major(o);
    if (flags & HAL_KERNEL_DYNAMIC_SHAPES)
      for (uint32_t d = 0; d < o.rank; ++d) o.dims[d] = HAL_DIM_DYNAMIC, o.strides[d] = 0;
  }
}

hal_op make_op(const OpInfo &info, hal_numerics numerics, const hal_operand *operands, uint32_t num_inputs, uint32_t num_outputs,
               const void *attributes) {
  hal_op op{};
  op.struct_size = sizeof(op);
  op.opset = HAL_OPSET_VERSION;
  op.name = info.name;
  op.numerics = numerics;
  op.num_inputs = num_inputs;
  op.num_outputs = num_outputs;
  op.operands = operands;
  op.attributes = attributes;
  return op;
}

// Calls visit(numerics, flags) for each distinct way in which matching rows want the op, fast ones first if wanted; until it gives true.
template <class Visit>
bool for_each_row(Device &device, const OpInfo &info, hal_numerics wanted, hal_dtype dtype, Visit &&visit) {
  uint32_t tried = 0;
  for (hal_numerics numerics : {HAL_NUMERICS_FAST, HAL_NUMERICS_REPRODUCIBLE}) {
    if (numerics == HAL_NUMERICS_FAST && wanted != HAL_NUMERICS_FAST) continue;
    for (const hal_kernel_info &row : device.kernels()) {
      if (row.numerics != numerics || !(row.dtypes & HAL_DTYPE_BIT(dtype)) || std::strcmp(row.op, info.name) != 0) continue;
      const uint32_t flags = row.flags & (HAL_KERNEL_DYNAMIC_SHAPES | HAL_KERNEL_CONTIGUOUS);
      const uint32_t bit = 1u << (flags * 2 + (numerics == HAL_NUMERICS_FAST));
      if (tried & bit) continue;  // the plugin can't tell two such rows apart either
      tried |= bit;
      if (visit(numerics, flags)) return true;
    }
  }
  return false;
}

}  // namespace

hal_dtype primary_dtype(const OpInfo &info, const hal_operand *operands, uint32_t num_inputs, uint32_t num_outputs) {
  const uint32_t count = num_inputs + num_outputs;
  if (count == 0) return HAL_F32;
  return operands[info.primary < count && !info.operands.empty() ? info.primary : 0].dtype;
}

std::shared_ptr<Executable> prepare(Device &device, const OpInfo &info, hal_numerics wanted, const hal_operand *operands,
                                    uint32_t num_inputs, uint32_t num_outputs, const void *attributes, std::string &reason) {
  const hal_dtype dtype = primary_dtype(info, operands, num_inputs, num_outputs);
  std::shared_ptr<Executable> result;
  hal_operand described[HAL_MAX_OPERANDS];
  for_each_row(device, info, wanted, dtype, [&](hal_numerics numerics, uint32_t flags) {
    describe(operands, num_inputs + num_outputs, flags, described);
    const hal_op op = make_op(info, numerics, described, num_inputs, num_outputs, attributes);
    auto make = [&]() -> std::shared_ptr<Executable> {
      hal_executable *handle = nullptr;
      uint64_t workspace = 0;
      hal_status status;
      {
        BlockingScope blocking;
        take_error_text();
        status = device.plugin().kernel.prepare(device.handle(), &op, &handle, &workspace);
      }
      if (status == HAL_ERROR_UNSUPPORTED) {
        const std::string text = take_error_text();
        if (!text.empty()) reason = text;
        return nullptr;
      }
      if (status != HAL_OK) {
        std::string text = take_error_text();
        const std::string head = std::string("[") + info.name + "] ";
        if (text.empty()) text = status_name(status);
        throw Error(status, text.compare(0, head.size(), head) == 0 ? text : head + text);
      }
      return std::make_shared<Executable>(device, handle, workspace, flags, numerics);
    };
    result = flags & HAL_KERNEL_DYNAMIC_SHAPES ? device.executables().dynamic(op, flags, make) : make();
    return result != nullptr;
  });
  return result;
}

bool supported(Device &device, uint32_t id, const hal_operand *operands, uint32_t num_inputs, uint32_t num_outputs, const void *attributes,
               std::string *reason) {
  const OpInfo &info = op_info(id);
  const hal_dtype dtype = primary_dtype(info, operands, num_inputs, num_outputs);
  hal_operand described[HAL_MAX_OPERANDS];
  std::string why = std::string("no kernel for ") + info.name + " on " + dtype_name(dtype);
  const bool found = for_each_row(device, info, numerics(), dtype, [&](hal_numerics numerics, uint32_t flags) {
    describe(operands, num_inputs + num_outputs, flags, described);
    const hal_op op = make_op(info, numerics, described, num_inputs, num_outputs, attributes);
    const hal_kernel_api &api = device.plugin().kernel;
    BlockingScope blocking;
    take_error_text();
    hal_status status;
    if (api.supports) {
      status = api.supports(device.handle(), &op);
    } else {
      hal_executable *handle = nullptr;
      uint64_t workspace = 0;
      status = api.prepare(device.handle(), &op, &handle, &workspace);
      if (status == HAL_OK) api.release(device.handle(), handle);
    }
    if (status == HAL_OK) return true;
    const std::string text = take_error_text();
    why = text.empty() ? std::string(status_name(status)) : text;
    return false;
  });
  if (!found && reason) *reason = why;
  return found;
}

}  // namespace hal
