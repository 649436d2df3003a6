// Kernels: the registry, and the two phases prepare and launch.
#include <cstring>

#include "stream.hpp"

namespace cpu {
namespace {

uint32_t element_size(hal_dtype dtype) {
  switch (dtype) {
    case HAL_BOOL:
    case HAL_U8:
    case HAL_I8:
      return 1;
    case HAL_I16:
    case HAL_F16:
    case HAL_BF16:
      return 2;
    case HAL_I32:
    case HAL_F32:
      return 4;
    case HAL_I64:
    case HAL_F64:
      return 8;
    default:
      return 0;
  }
}

[[noreturn]] void invalid(const hal_op &op, uint32_t index, const std::string &what) {
  throw Invalid(std::string("[") + op.name + "] operand " + std::to_string(index) + ": " + what);
}

// Checks a descriptor, and tells which bytes the operand reaches.
hal_executable::Operand examine(const hal_op &op, uint32_t index) {
  using Operand = hal_executable::Operand;
  const hal_operand &o = op.operands[index];
  if (o.flags & HAL_OPERAND_ABSENT) return {Operand::kAbsent, 0, 0};
  const int64_t size = element_size(o.dtype);
  if (size == 0) invalid(op, index, "unknown dtype: got " + std::to_string(o.dtype));
  if (o.flags & HAL_OPERAND_IMMEDIATE) return {Operand::kImmediate, 0, 0};
  if (o.layout != HAL_LAYOUT_STRIDED) throw Unsupported(std::string("[") + op.name + "] opaque layouts aren't served");
  if (o.rank > HAL_MAX_RANK)
    invalid(op, index, "rank: got " + std::to_string(o.rank) + ", expected at most " + std::to_string(HAL_MAX_RANK));
  int64_t low = 0, high = 0;
  bool empty = false, overflow = false;
  for (uint32_t d = 0; d < o.rank; ++d) {
    if (o.dims[d] == HAL_DIM_DYNAMIC) throw Unsupported(std::string("[") + op.name + "] dynamic dimensions aren't served");
    if (o.dims[d] < 0) invalid(op, index, "dimension " + std::to_string(d) + ": got " + std::to_string(o.dims[d]));
    if (o.dims[d] == 0) empty = true;
  }
  if (empty) return {Operand::kEmpty, 0, 0};
  for (uint32_t d = 0; d < o.rank; ++d) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(o.dims[d] - 1, o.strides[d], &reach);
    overflow |= __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
  }
  overflow |=
      __builtin_mul_overflow(low, size, &low) || __builtin_mul_overflow(high, size, &high) || __builtin_add_overflow(high, size, &high);
  if (overflow) invalid(op, index, "it reaches beyond 2^63 bytes");
  return {Operand::kTensor, low, high};
}

hal_status list(hal_device *device, const hal_kernel_info **rows, uint32_t *count) {
  *rows = device->isa->infos.data();
  *count = uint32_t(device->isa->infos.size());
  return HAL_OK;
}

std::unique_ptr<Kernel> make_kernel(const Isa &isa, const hal_op &op) {
  const auto found = isa.by_op.find(op.name);
  if (found == isa.by_op.end()) throw Unsupported(std::string("[") + op.name + "] no kernel on this device");
  return found->second->make(op);
}

hal_status prepare(hal_device *device, const hal_op *op, hal_executable **out, uint64_t *workspace_size) {
  if (!HAL_HAS_FIELD(op, hal_op, operands) || op->name == nullptr)
    return fail(HAL_ERROR_INVALID_ARGUMENT, "[prepare] the op's struct is too short");
  return guarded([&] {
    hal_op known{};  // as far as the caller's struct reaches
    std::memcpy(&known, op, op->struct_size < sizeof known ? op->struct_size : sizeof known);
    const uint64_t count = uint64_t(known.num_inputs) + known.num_outputs;
    if (count > HAL_MAX_OPERANDS || (count != 0 && known.operands == nullptr))
      throw Invalid(std::string("[") + known.name + "] operands: got " + std::to_string(count) + ", expected at most " +
                    std::to_string(HAL_MAX_OPERANDS));
    auto executable = std::make_unique<hal_executable>();
    executable->name = known.name;
    for (uint32_t i = 0; i < count; ++i) executable->operands.push_back(examine(known, i));
    executable->kernel = make_kernel(*device->isa, known);
    *workspace_size = executable->kernel->workspace_size;
    *out = executable.release();
    return hal_status{HAL_OK};
  });
}

void release(hal_device *, hal_executable *executable) { delete executable; }

struct Arguments {
  void *data[HAL_MAX_OPERANDS];
  void *workspace;
};

// What a queued launch keeps of its arguments.
struct KeptArguments {
  Arguments arguments;
  uint64_t immediates[HAL_MAX_OPERANDS];
};

[[noreturn, gnu::cold, gnu::noinline]] void bad_launch(const hal_executable &executable, size_t index, const char *what) {
  throw Invalid("[" + executable.name + "] operand " + std::to_string(index) + ": " + what);
}

void resolve(const hal_executable &executable, const hal_launch &launch, Arguments &out) {
  using Operand = hal_executable::Operand;
  const size_t count = executable.operands.size();
  if (launch.num_buffers != count) bad_launch(executable, launch.num_buffers, "the number of buffers isn't that of the operands");
  for (size_t i = 0; i < count; ++i) {
    const Operand &o = executable.operands[i];
    const hal_buffer &buffer = launch.buffers[i];
    switch (o.kind) {
      case Operand::kTensor: {
        if (buffer.memory == nullptr) bad_launch(executable, i, "no memory given");
        // Signed arithmetic is safe: offset is below the size of a real allocation where it matters.
        if (buffer.offset > buffer.memory->size || int64_t(buffer.offset) + o.low < 0 ||
            uint64_t(o.high) > buffer.memory->size - buffer.offset)
          bad_launch(executable, i, "it reaches outside its memory");
        out.data[i] = buffer.memory->data + buffer.offset;
        break;
      }
      case Operand::kImmediate:
        out.data[i] = const_cast<uint64_t *>(&buffer.immediate);
        break;
      case Operand::kAbsent:
        out.data[i] = nullptr;
        break;
      case Operand::kEmpty:
        out.data[i] = buffer.memory == nullptr ? nullptr : buffer.memory->data;
        break;
    }
  }
  out.workspace = nullptr;
  if (executable.kernel->workspace_size == 0) return;
  const hal_buffer &workspace = launch.workspace;
  if (workspace.memory == nullptr || workspace.offset > workspace.memory->size ||
      executable.kernel->workspace_size > workspace.memory->size - workspace.offset)
    bad_launch(executable, count, "the workspace is missing or too small");
  out.workspace = workspace.memory->data + workspace.offset;
  if (reinterpret_cast<uintptr_t>(out.workspace) % 64 != 0) bad_launch(executable, count, "the workspace isn't aligned to 64 bytes");
}

hal_status launch(hal_stream *stream, hal_executable *executable, const hal_launch *args) {
  return guarded([&] {
    Arguments arguments;
    resolve(*executable, *args, arguments);
    return submit(
        stream, args->label, [&] { executable->kernel->run(arguments.data, arguments.workspace); },
        [&] {
          auto kept = std::make_shared<KeptArguments>();
          kept->arguments = arguments;
          for (size_t i = 0; i < executable->operands.size(); ++i) {
            if (executable->operands[i].kind != hal_executable::Operand::kImmediate) continue;
            kept->immediates[i] = args->buffers[i].immediate;
            kept->arguments.data[i] = &kept->immediates[i];
          }
          return [executable, kept] { executable->kernel->run(kept->arguments.data, kept->arguments.workspace); };
        });
  });
}

}  // namespace

const hal_kernel_api kernel_api = {sizeof(hal_kernel_api), list, nullptr, prepare, release, launch, nullptr};

}  // namespace cpu
