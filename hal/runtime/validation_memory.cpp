// Checks of the memory table.
#include "validation_checks.hpp"

namespace hal::validation {

namespace {

bool power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

hal_status remember(State &s, const char *entry, hal_device *device, hal_memory *memory, uint64_t size) {
  if (memory == nullptr) return breach(entry, "the plugin returned HAL_OK and no memory");
  std::lock_guard lock(s.mutex);
  if (!s.memories.emplace(memory, MemoryState{device, size}).second)
    return breach(entry, "the plugin returned memory that is still allocated");
  return HAL_OK;
}

hal_status busy(const char *entry) { return breach(entry, "another thread is submitting to this stream"); }

}  // namespace

hal_status memory_alloc(State &s, hal_device *device, hal_memory_kind kind, uint64_t size, uint64_t alignment, hal_memory **out) {
  constexpr const char *entry = "memory.alloc";
  if (!known_device(s, entry, device)) return HAL_ERROR_INVALID_ARGUMENT;
  if (size == 0 || !power_of_two(alignment) || out == nullptr)
    return breach(entry, "got size " + std::to_string(size) + " and alignment " + std::to_string(alignment) +
                             ", expected size > 0, a power of two, and out not NULL");
  const hal_status status = s.memory.alloc(device, kind, size, alignment, out);
  if (status != HAL_OK) return status;
  void *host = nullptr;
  if (kind == HAL_MEMORY_DEVICE && *out != nullptr && s.memory.host_pointer != nullptr &&
      s.memory.host_pointer(device, *out, &host) == HAL_OK && reinterpret_cast<uintptr_t>(host) % alignment != 0)
    return breach(entry, "the plugin returned memory that is not aligned to " + std::to_string(alignment));
  return remember(s, entry, device, *out, size);
}

void memory_free(State &s, hal_device *device, hal_memory *memory) {
  constexpr const char *entry = "memory.free";
  MemoryState state;
  if (!known_memory(s, entry, memory, state)) return report_breach(s, entry, take_error_text());
  if (state.device != device) return report_breach(s, entry, "the memory belongs to another device");
  {
    std::lock_guard lock(s.mutex);
    s.memories.erase(memory);
  }
  s.memory.free(device, memory);
}

hal_status memory_copy_from_host(State &s, hal_stream *stream, hal_buffer dst, const void *src, uint64_t size) {
  constexpr const char *entry = "memory.copy_from_host";
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, entry, stream, state) || !in_range(s, entry, "dst", state->device, dst, size)) return HAL_ERROR_INVALID_ARGUMENT;
  if (src == nullptr && size != 0) return breach(entry, "src is NULL");
  Submission submission(*state);
  return submission.alone() ? s.memory.copy_from_host(stream, dst, src, size) : busy(entry);
}

hal_status memory_copy_to_host(State &s, hal_stream *stream, void *dst, hal_buffer src, uint64_t size) {
  constexpr const char *entry = "memory.copy_to_host";
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, entry, stream, state) || !in_range(s, entry, "src", state->device, src, size)) return HAL_ERROR_INVALID_ARGUMENT;
  if (dst == nullptr && size != 0) return breach(entry, "dst is NULL");
  Submission submission(*state);
  return submission.alone() ? s.memory.copy_to_host(stream, dst, src, size) : busy(entry);
}

hal_status memory_copy(State &s, hal_stream *stream, hal_buffer dst, hal_buffer src, uint64_t size) {
  constexpr const char *entry = "memory.copy";
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, entry, stream, state) || !in_range(s, entry, "dst", state->device, dst, size) ||
      !in_range(s, entry, "src", state->device, src, size))
    return HAL_ERROR_INVALID_ARGUMENT;
  Submission submission(*state);
  return submission.alone() ? s.memory.copy(stream, dst, src, size) : busy(entry);
}

hal_status memory_fill(State &s, hal_stream *stream, hal_buffer dst, uint64_t size, const void *pattern, uint32_t pattern_size) {
  constexpr const char *entry = "memory.fill";
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, entry, stream, state) || !in_range(s, entry, "dst", state->device, dst, size)) return HAL_ERROR_INVALID_ARGUMENT;
  if (pattern == nullptr || !power_of_two(pattern_size) || pattern_size > 8 || size % pattern_size != 0)
    return breach(entry, "got size " + std::to_string(size) + " and pattern_size " + std::to_string(pattern_size) +
                             ", expected a pattern of 1, 2, 4 or 8 bytes and a multiple of it");
  Submission submission(*state);
  return submission.alone() ? s.memory.fill(stream, dst, size, pattern, pattern_size) : busy(entry);
}

hal_status memory_host_pointer(State &s, hal_device *device, hal_memory *memory, void **out) {
  constexpr const char *entry = "memory.host_pointer";
  MemoryState state;
  if (!known_memory(s, entry, memory, state)) return HAL_ERROR_INVALID_ARGUMENT;
  if (state.device != device || out == nullptr) return breach(entry, "out is NULL, or the memory belongs to another device");
  return s.memory.host_pointer(device, memory, out);
}

hal_status memory_adopt(State &s, hal_device *device, void *native, uint64_t size, hal_memory **out) {
  constexpr const char *entry = "memory.adopt";
  if (!known_device(s, entry, device)) return HAL_ERROR_INVALID_ARGUMENT;
  if (native == nullptr || out == nullptr) return breach(entry, "native and out must not be NULL");
  const hal_status status = s.memory.adopt(device, native, size, out);
  return status != HAL_OK ? status : remember(s, entry, device, *out, size);
}

hal_status memory_native_handle(State &s, hal_device *device, hal_memory *memory, void **out) {
  constexpr const char *entry = "memory.native_handle";
  MemoryState state;
  if (!known_memory(s, entry, memory, state)) return HAL_ERROR_INVALID_ARGUMENT;
  if (state.device != device || out == nullptr) return breach(entry, "out is NULL, or the memory belongs to another device");
  return s.memory.native_handle(device, memory, out);
}

hal_status memory_alloc_async(State &s, hal_stream *stream, uint64_t size, uint64_t alignment, hal_memory **out) {
  constexpr const char *entry = "memory.alloc_async";
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, entry, stream, state)) return HAL_ERROR_INVALID_ARGUMENT;
  if (size == 0 || !power_of_two(alignment) || out == nullptr) return breach(entry, "expected size > 0, a power of two, and out not NULL");
  Submission submission(*state);
  if (!submission.alone()) return busy(entry);
  const hal_status status = s.memory.alloc_async(stream, size, alignment, out);
  return status != HAL_OK ? status : remember(s, entry, state->device, *out, size);
}

hal_status memory_free_async(State &s, hal_stream *stream, hal_memory *memory) {
  constexpr const char *entry = "memory.free_async";
  std::shared_ptr<StreamState> state;
  MemoryState memory_state;
  if (!known_stream(s, entry, stream, state) || !known_memory(s, entry, memory, memory_state)) return HAL_ERROR_INVALID_ARGUMENT;
  if (memory_state.device != state->device) return breach(entry, "the memory belongs to another device than the stream");
  Submission submission(*state);
  if (!submission.alone()) return busy(entry);
  {
    std::lock_guard lock(s.mutex);
    s.memories.erase(memory);
  }
  return s.memory.free_async(stream, memory);
}

}  // namespace hal::validation
