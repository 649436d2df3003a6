#include "launch.hpp"

namespace flow {

namespace {
constexpr int64_t kGilWork = 1 << 16;  // elements from which releasing the GIL costs nothing that one would notice
}

hal::Device &same_device(const char *op, std::initializer_list<const Tensor *> tensors) {
  hal::Device *device = nullptr;
  for (const Tensor *t : tensors) {
    if (!t->defined()) continue;
    if (!device) device = &t->device();
    if (device != &t->device())
      throw Error(HAL_ERROR_INVALID_ARGUMENT, std::string("[") + op + "] Expected all tensors to be on the same device: got " +
                                                  device->name() + " and " + t->device().name());
  }
  if (!device) throw Error(ErrorKind::Type, std::string("[") + op + "] expected a tensor: got none");
  return *device;
}

void launch(uint32_t id, std::initializer_list<Arg> inputs, std::initializer_list<const Tensor *> outputs, const void *attributes) {
  hal_operand operands[HAL_MAX_OPERANDS];
  hal::Place places[HAL_MAX_OPERANDS];
  uint32_t n = 0;
  int64_t work = 0;
  hal::Device *device = nullptr;
  const auto put = [&](const Tensor &t, uint32_t flags) {
    hal::Device &d = t.device();
    if (!device) device = &d;
    if (device != &d)
      throw Error(HAL_ERROR_INVALID_ARGUMENT, std::string("[") + hal::op_info(id).name +
                                                  "] Expected all tensors to be on the same device: got " + device->name() + " and " +
                                                  d.name());
    operands[n] = operand_of(t, flags);
    places[n] = {t->storage->buffer.get(), t.byte_offset()};
    work += t.numel();
    ++n;
  };
  for (const Arg &a : inputs) {
    if (a.tensor) {
      put(*a.tensor, 0);
      continue;
    }
    operands[n].struct_size = sizeof(hal_operand);
    operands[n].flags = a.dtype ? HAL_OPERAND_IMMEDIATE : HAL_OPERAND_ABSENT;
    operands[n].dtype = a.dtype;
    operands[n].layout = HAL_LAYOUT_STRIDED;
    operands[n].rank = 0;
    operands[n].reserved = 0;
    places[n++] = {nullptr, a.bits};
  }
  for (const Tensor *t : outputs) {
    if (t && t->defined()) {
      put(*t, HAL_OPERAND_OUTPUT);
      continue;
    }
    operands[n].struct_size = sizeof(hal_operand);
    operands[n].flags = HAL_OPERAND_OUTPUT | HAL_OPERAND_ABSENT;
    operands[n].dtype = 0;
    operands[n].layout = HAL_LAYOUT_STRIDED;
    operands[n].rank = 0;
    operands[n].reserved = 0;
    places[n++] = {nullptr, 0};
  }
  ReleaseGil gil(work > kGilWork);
  hal::run(device->current_stream(), id, operands, places, static_cast<uint32_t>(inputs.size()), static_cast<uint32_t>(outputs.size()),
           attributes);
}

}  // namespace flow
