// Checks of the kernel table: descriptors at prepare, places and extents at launch.
#include <cstddef>

#include "op_table.hpp"
#include "validation_checks.hpp"

namespace hal::validation {

namespace {

std::string operand_name(uint32_t index) { return "operand " + std::to_string(index); }

// What is wrong with a descriptor, "" if nothing.
std::string descriptor_fault(const hal_operand &operand, bool is_output) {
  if ((operand.flags & HAL_OPERAND_ABSENT) != 0) return "";
  if (operand.struct_size < sizeof(hal_operand)) return "struct_size is " + std::to_string(operand.struct_size);
  if (operand.dtype < 1 || operand.dtype >= HAL_DTYPE_COUNT) return "unknown dtype " + std::to_string(operand.dtype);
  if (operand.rank > HAL_MAX_RANK) return "rank " + std::to_string(operand.rank) + " is above " + std::to_string(HAL_MAX_RANK);
  if (((operand.flags & HAL_OPERAND_OUTPUT) != 0) != is_output)
    return is_output ? "an output without HAL_OPERAND_OUTPUT" : "an input with HAL_OPERAND_OUTPUT";
  if (is_output && (operand.flags & HAL_OPERAND_IMMEDIATE) != 0) return "an output can't be immediate";
  for (uint32_t d = 0; d < operand.rank; ++d)
    if (operand.dims[d] < HAL_DIM_DYNAMIC) return "dimension " + std::to_string(d) + " is " + std::to_string(operand.dims[d]);
  return "";
}

bool is_dynamic(const hal_operand &operand) {
  for (uint32_t d = 0; d < operand.rank; ++d)
    if (operand.dims[d] == HAL_DIM_DYNAMIC) return true;
  return false;
}

hal_status check_op(State &s, const char *entry, hal_device *device, const hal_op *op) {
  if (!known_device(s, entry, device)) return HAL_ERROR_INVALID_ARGUMENT;
  if (op == nullptr || op->name == nullptr || !HAL_HAS_FIELD(op, hal_op, attributes))
    return breach(entry, "op is NULL, nameless or too short");
  const uint32_t count = op->num_inputs + op->num_outputs;
  if (op->num_inputs > HAL_MAX_OPERANDS || count > HAL_MAX_OPERANDS || (count != 0 && op->operands == nullptr))
    return breach(entry, std::string(op->name) + " has " + std::to_string(count) + " operands, or none are given");
  for (uint32_t i = 0; i < count; ++i) {
    const std::string fault = descriptor_fault(op->operands[i], i >= op->num_inputs);
    if (!fault.empty()) return breach(entry, std::string(op->name) + ": " + operand_name(i) + ": " + fault);
  }
  return HAL_OK;
}

// Elements before and after the place that a strided operand touches; false if it is empty.
bool extent(const hal_operand &operand, int64_t &lowest, int64_t &highest) {
  lowest = highest = 0;
  for (uint32_t d = 0; d < operand.rank; ++d) {
    if (operand.dims[d] == 0) return false;
    const int64_t reach = (operand.dims[d] - 1) * operand.strides[d];
    (reach < 0 ? lowest : highest) += reach;
  }
  return true;
}

std::string place_fault(State &s, hal_device *device, const hal_operand &operand, hal_buffer place) {
  if ((operand.flags & HAL_OPERAND_ABSENT) != 0) return place.memory == nullptr ? "" : "is absent and has memory";
  if ((operand.flags & HAL_OPERAND_IMMEDIATE) != 0) return place.memory == nullptr ? "" : "is immediate and has memory";
  int64_t lowest, highest;
  if (operand.layout != HAL_LAYOUT_STRIDED || !extent(operand, lowest, highest)) return "";
  MemoryState memory;
  uint32_t alignment;
  {
    std::lock_guard lock(s.mutex);
    const auto found = s.memories.find(place.memory);
    if (found == s.memories.end()) return "is not in a living allocation";
    memory = found->second;
    alignment = s.devices[device].offset_alignment;
  }
  if (memory.device != device) return "belongs to another device than the stream";
  const auto size = static_cast<int64_t>(dtype_size(operand.dtype));
  if (place.offset % alignment != 0)
    return "has an offset of " + std::to_string(place.offset) + ", not a multiple of " + std::to_string(alignment);
  const __int128 first = static_cast<__int128>(place.offset) + static_cast<__int128>(lowest) * size;
  const __int128 end = static_cast<__int128>(place.offset) + (static_cast<__int128>(highest) + 1) * size;
  if (first < 0 || end > static_cast<__int128>(memory.size))
    return "touches bytes " + std::to_string(static_cast<int64_t>(first)) + " to " + std::to_string(static_cast<int64_t>(end)) +
           " of an allocation of " + std::to_string(memory.size);
  return "";
}

}  // namespace

hal_status kernel_list(State &s, hal_device *device, const hal_kernel_info **rows, uint32_t *count) {
  constexpr const char *entry = "kernel.list";
  if (!known_device(s, entry, device)) return HAL_ERROR_INVALID_ARGUMENT;
  if (rows == nullptr || count == nullptr) return breach(entry, "an out-parameter is NULL");
  const hal_status status = s.kernel.list(device, rows, count);
  if (status != HAL_OK) return status;
  if (*count != 0 && *rows == nullptr) return breach(entry, "the plugin returned rows that are NULL");
  const char *row = reinterpret_cast<const char *>(*rows);
  for (uint32_t i = 0; i < *count; ++i) {
    const auto *info = reinterpret_cast<const hal_kernel_info *>(row);
    if (!HAL_HAS_FIELD(info, hal_kernel_info, origin) || info->op == nullptr || info->dtypes == 0)
      return breach(entry, "row " + std::to_string(i) + " of the plugin's registry is too short, nameless or without dtypes");
    row += info->struct_size;
  }
  return HAL_OK;
}

hal_status kernel_supports(State &s, hal_device *device, const hal_op *op) {
  const hal_status status = check_op(s, "kernel.supports", device, op);
  if (status != HAL_OK) return status;
  const hal_status answer = s.kernel.supports(device, op);
  if (answer == HAL_OK || answer == HAL_ERROR_UNSUPPORTED) return answer;
  return breach("kernel.supports",
                std::string("the plugin returned ") + status_name(answer) + ", expected HAL_OK or HAL_ERROR_UNSUPPORTED");
}

hal_status kernel_prepare(State &s, hal_device *device, const hal_op *op, hal_executable **out, uint64_t *workspace_size) {
  constexpr const char *entry = "kernel.prepare";
  const hal_status status = check_op(s, entry, device, op);
  if (status != HAL_OK) return status;
  if (out == nullptr || workspace_size == nullptr) return breach(entry, "an out-parameter is NULL");
  const hal_status result = s.kernel.prepare(device, op, out, workspace_size);
  if (result != HAL_OK) return result;
  if (*out == nullptr) return breach(entry, "the plugin returned HAL_OK and no executable");
  auto state = std::make_shared<ExecutableState>();
  state->device = device;
  state->op = op->name;
  state->workspace = *workspace_size;
  for (uint32_t i = 0; i < op->num_inputs + op->num_outputs; ++i) {
    state->operands.push_back(op->operands[i]);
    state->dynamic = state->dynamic || is_dynamic(op->operands[i]);
  }
  std::lock_guard lock(s.mutex);
  if (!s.executables.emplace(*out, std::move(state)).second) return breach(entry, "the plugin returned an executable that is still alive");
  return HAL_OK;
}

void kernel_release(State &s, hal_device *device, hal_executable *executable) {
  constexpr const char *entry = "kernel.release";
  {
    std::lock_guard lock(s.mutex);
    const auto found = s.executables.find(executable);
    if (found == s.executables.end() || found->second->device != device)
      return report_breach(s, entry, "the executable is not a living one of this device");
    s.executables.erase(found);
  }
  s.kernel.release(device, executable);
}

hal_status kernel_launch(State &s, hal_stream *stream, hal_executable *executable, const hal_launch *args) {
  constexpr const char *entry = "kernel.launch";
  std::shared_ptr<StreamState> stream_state;
  if (!known_stream(s, entry, stream, stream_state)) return HAL_ERROR_INVALID_ARGUMENT;
  std::shared_ptr<ExecutableState> state;
  {
    std::lock_guard lock(s.mutex);
    const auto found = s.executables.find(executable);
    if (found != s.executables.end()) state = found->second;
  }
  if (state == nullptr) return breach(entry, "the executable is not a living one of plugin " + s.id);
  if (state->device != stream_state->device) return breach(entry, state->op + ": executable and stream belong to different devices");
  if (!HAL_HAS_FIELD(args, hal_launch, workspace)) return breach(entry, state->op + ": args is NULL or too short");
  if (args->num_buffers != state->operands.size() || (args->num_buffers != 0 && args->buffers == nullptr))
    return breach(
        entry, state->op + ": got " + std::to_string(args->num_buffers) + " buffers, expected " + std::to_string(state->operands.size()));
  if (state->dynamic && args->operands == nullptr)
    return breach(entry, state->op + ": prepared with dynamic dimensions, but no descriptors given");
  const hal_operand *operands = args->operands != nullptr ? args->operands : state->operands.data();
  for (uint32_t i = 0; i < args->num_buffers; ++i) {
    const std::string fault = place_fault(s, state->device, operands[i], args->buffers[i]);
    if (!fault.empty()) return breach(entry, state->op + ": " + operand_name(i) + " " + fault);
  }
  if (!state->dynamic && state->workspace != 0 && !in_range(s, entry, "workspace", state->device, args->workspace, state->workspace))
    return HAL_ERROR_INVALID_ARGUMENT;
  Submission submission(*stream_state);
  if (!submission.alone()) return breach(entry, "another thread is submitting to this stream");
  return s.kernel.launch(stream, executable, args);
}

hal_status kernel_workspace_size(State &s, hal_executable *executable, const hal_operand *operands, uint32_t count, uint64_t *out) {
  constexpr const char *entry = "kernel.workspace_size";
  {
    std::lock_guard lock(s.mutex);
    const auto found = s.executables.find(executable);
    if (found == s.executables.end()) return breach(entry, "the executable is not a living one of plugin " + s.id);
    if (count != found->second->operands.size() || operands == nullptr || out == nullptr)
      return breach(entry, "got " + std::to_string(count) + " descriptors, expected " + std::to_string(found->second->operands.size()));
  }
  return s.kernel.workspace_size(executable, operands, count, out);
}

}  // namespace hal::validation
