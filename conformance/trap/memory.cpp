// Memory that faults when anybody but our own work touches it, between two guard pages; and copies, all of them late.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "trap.hpp"

namespace trap {
namespace {

constexpr unsigned char kFresh = 0xFB;      // content of new memory: NaNs, and no small integers
constexpr unsigned char kUnwritten = 0xA5;  // what a copy to the host shows until it is done
constexpr size_t kQuarantine = 64;          // freed ranges that stay unmapped before their addresses may come again

uint64_t page_size() {
  static const uint64_t size = uint64_t(sysconf(_SC_PAGESIZE));
  return size;
}

uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

struct Range {
  void *address;
  size_t size;
};

void protect(hal_memory *memory, int mode) { mprotect(memory->map + page_size(), memory->map_size - 2 * page_size(), mode); }

hal_status alloc(hal_device *device, hal_memory_kind kind, uint64_t size, uint64_t alignment, hal_memory **out) {
  if (kind != HAL_MEMORY_DEVICE) return fail(HAL_ERROR_UNSUPPORTED, "[trap] device memory only");
  if (size == 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
    return fail(HAL_ERROR_INVALID_ARGUMENT,
                "[trap] allocation of " + std::to_string(size) + " bytes aligned to " + std::to_string(alignment));
  return guarded([&]() -> hal_status {
    State &s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (device->lost) return fail(HAL_ERROR_DEVICE_LOST, "injected: the device is lost");
    if (fires(kAllocFault)) return fail(HAL_ERROR_OUT_OF_MEMORY, "injected: this allocation fails");
    if (size > s.memory_limit || s.memory_used > s.memory_limit - size)
      return fail(HAL_ERROR_OUT_OF_MEMORY, "[trap] " + std::to_string(size) + " bytes asked for, " +
                                               std::to_string(s.memory_limit - s.memory_used) + " of " + std::to_string(s.memory_limit) +
                                               " free");
    const uint64_t page = page_size();
    if (alignment < 64) alignment = 64;
    auto memory = std::make_unique<hal_memory>();
    memory->device = device;
    memory->size = size;
    const uint64_t room = round_up(round_up(size, alignment) + (alignment > page ? alignment : 0), page);
    memory->map_size = room + 2 * page;
    void *map = mmap(nullptr, memory->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return fail(HAL_ERROR_OUT_OF_MEMORY, "[trap] mmap failed");
    memory->map = static_cast<char *>(map);
    const uintptr_t end = reinterpret_cast<uintptr_t>(memory->map) + page + room;
    memory->data = reinterpret_cast<char *>((end - round_up(size, 64)) / alignment * alignment);
    protect(memory.get(), PROT_READ | PROT_WRITE);
    std::memset(memory->map + page, kFresh, room);
    protect(memory.get(), PROT_NONE);
    const hal_status status = device->host.api->memory->adopt(device->host.device, memory->data, size, &memory->host);
    if (status != HAL_OK) {
      munmap(memory->map, memory->map_size);
      return status;
    }
    s.memory_used += size;
    *out = memory.get();
    s.memories.insert(memory.release());
    return HAL_OK;
  });
}

// Bytes of the allocation's pages that nobody was given must be as they were.
bool margins_intact(hal_memory *memory) {
  const char *begin = memory->map + page_size(), *end = memory->map + memory->map_size - page_size();
  for (const char *p = begin; p < memory->data; ++p)
    if (static_cast<unsigned char>(*p) != kFresh) return false;
  for (const char *p = memory->data + memory->size; p < end; ++p)
    if (static_cast<unsigned char>(*p) != kFresh) return false;
  return true;
}

void free_memory(hal_device *device, hal_memory *memory) {
  State &s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.memories.erase(memory) == 0) return violation_locked("memory freed twice, or never allocated");
  if (memory->users != 0 && s.generation == 0) violation_locked("memory freed with " + std::to_string(memory->users) + " tasks in flight");
  if (memory->device != device) violation_locked("memory freed on another device than its own");
  protect(memory, PROT_READ | PROT_WRITE);
  if (!margins_intact(memory)) violation_locked("bytes beside an allocation were written");
  protect(memory, PROT_NONE);
  device->host.api->memory->free(device->host.device, memory->host);
  madvise(memory->map, memory->map_size, MADV_DONTNEED);
  static std::deque<Range> &quarantine = *new std::deque<Range>;  // a late access faults
  quarantine.push_back({memory->map, memory->map_size});
  if (quarantine.size() > kQuarantine) {
    munmap(quarantine.front().address, quarantine.front().size);
    quarantine.pop_front();
  }
  s.memory_used -= memory->size;
  delete memory;
}

char *address(const char *what, hal_buffer buffer, uint64_t size) {
  State &s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.memories.count(buffer.memory) == 0) {
    violation_locked(std::string(what) + " on memory that is not allocated");
    throw std::invalid_argument(std::string("[") + what + "] the memory is not allocated");
  }
  if (buffer.offset > buffer.memory->size || size > buffer.memory->size - buffer.offset) {
    violation_locked(std::string(what) + " reaches outside its memory");
    throw std::invalid_argument(std::string("[") + what + "] outside its memory");
  }
  return buffer.memory->data + buffer.offset;
}

hal_status copy_from_host(hal_stream *stream, hal_buffer dst, const void *src, uint64_t size) {
  return guarded([&] {
    char *to = address("copy_from_host", dst, size);
    const std::shared_ptr<char[]> staged(new char[size]);
    std::memcpy(staged.get(), src, size);
    Task task;
    task.uses = {dst.memory};
    task.run = [=]() -> FailurePtr {
      Access access({dst.memory});
      std::memcpy(to, staged.get(), size);
      return nullptr;
    };
    return enqueue(stream, std::move(task));
  });
}

hal_status copy_to_host(hal_stream *stream, void *dst, hal_buffer src, uint64_t size) {
  return guarded([&] {
    const char *from = address("copy_to_host", src, size);
    std::memset(dst, kUnwritten, size);
    Task task;
    task.uses = {src.memory};
    task.run = [=]() -> FailurePtr {
      Access access({src.memory});
      std::memcpy(dst, from, size);
      return nullptr;
    };
    return enqueue(stream, std::move(task));
  });
}

hal_status copy(hal_stream *stream, hal_buffer dst, hal_buffer src, uint64_t size) {
  return guarded([&] {
    const char *from = address("copy", src, size);
    char *to = address("copy", dst, size);
    Task task;
    task.uses = {dst.memory, src.memory};
    task.run = [=]() -> FailurePtr {
      Access access({dst.memory, src.memory});
      std::memmove(to, from, size);
      return nullptr;
    };
    return enqueue(stream, std::move(task));
  });
}

}  // namespace

Access::Access(std::vector<hal_memory *> memories) : memories_(std::move(memories)) {
  std::lock_guard<std::mutex> lock(state().mutex);
  for (hal_memory *memory : memories_)
    if (memory->open++ == 0) protect(memory, PROT_READ | PROT_WRITE);
}

Access::~Access() {
  std::lock_guard<std::mutex> lock(state().mutex);
  for (hal_memory *memory : memories_)
    if (--memory->open == 0) protect(memory, PROT_NONE);
}

const hal_memory_api memory_api = {
    sizeof(hal_memory_api), alloc, free_memory, copy_from_host, copy_to_host, copy, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace trap
