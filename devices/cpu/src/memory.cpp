// Memory: plain host memory, and copies in stream order.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "stream.hpp"

namespace cpu {
namespace {

constexpr uint64_t kMinAlignment = 64;
constexpr uint64_t kHugePage = uint64_t(2) << 20;
constexpr uint64_t kHugeFrom = uint64_t(4) << 20;  // bytes from which page faults cost more than a little waste
constexpr int64_t kCopyGrain = int64_t(1) << 20;   // bytes per piece of a parallel copy

hal_status alloc(hal_device *, hal_memory_kind kind, uint64_t size, uint64_t alignment, hal_memory **out) {
  if (kind < HAL_MEMORY_DEVICE || kind > HAL_MEMORY_MANAGED)
    return fail(HAL_ERROR_UNSUPPORTED, "unknown memory kind: got " + std::to_string(kind));
  if (size == 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
    return fail(HAL_ERROR_INVALID_ARGUMENT, "allocation of " + std::to_string(size) + " bytes aligned to " + std::to_string(alignment) +
                                                ": expected a positive size and a power of two");
  return guarded([&]() -> hal_status {
    // Linux promises more than there is, so an absurd request is refused here.
    const uint64_t total = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
    const std::string wanted = "out of host memory: got a request for " + std::to_string(size) + " bytes";
    if (size > total) return fail(HAL_ERROR_OUT_OF_MEMORY, wanted + ", the machine has " + std::to_string(total));
    if (alignment < kMinAlignment) alignment = kMinAlignment;
    const bool huge = size >= kHugeFrom;
    if (huge && alignment < kHugePage) alignment = kHugePage;
    auto memory = std::make_unique<hal_memory>();
    void *data = nullptr;
    if (posix_memalign(&data, alignment, size) != 0) return fail(HAL_ERROR_OUT_OF_MEMORY, wanted);
#if defined(MADV_HUGEPAGE)
    if (huge) madvise(data, size / kHugePage * kHugePage, MADV_HUGEPAGE);  // a hint: failure costs speed only
#endif
    memory->data = static_cast<char *>(data);
    memory->size = size;
    memory->owned = true;
    *out = memory.release();
    return HAL_OK;
  });
}

void free_memory(hal_device *, hal_memory *memory) {
  if (memory == nullptr) return;
  if (memory->owned) std::free(memory->data);
  delete memory;
}

struct CopyPieces {
  char *to;
  const char *from;
};

void copy_bytes(char *to, const char *from, uint64_t size) {
  const bool overlap = to < from + size && from < to + size;
  if (overlap || size <= uint64_t(kCopyGrain)) {
    if (size != 0) std::memmove(to, from, size);
    return;
  }
  CopyPieces pieces{to, from};
  host().parallel_for(
      int64_t(size), kCopyGrain,
      [](void *context, int64_t begin, int64_t end) {
        const auto *p = static_cast<const CopyPieces *>(context);
        std::memcpy(p->to + begin, p->from + begin, size_t(end - begin));
      },
      &pieces);
}

// The address of `size` bytes in a buffer; throws Invalid if they don't lie within it.
char *address(const char *what, hal_buffer buffer, uint64_t size) {
  if (size == 0) return nullptr;
  if (buffer.memory == nullptr) throw Invalid(std::string("[") + what + "] no memory given");
  if (buffer.offset > buffer.memory->size || size > buffer.memory->size - buffer.offset)
    throw Invalid(std::string("[") + what + "] out of bounds: got bytes " + std::to_string(buffer.offset) + " to " +
                  std::to_string(buffer.offset + size) + ", expected at most " + std::to_string(buffer.memory->size));
  return buffer.memory->data + buffer.offset;
}

hal_status copy_from_host(hal_stream *stream, hal_buffer dst, const void *src, uint64_t size) {
  return guarded([&] {
    char *to = address("copy_from_host", dst, size);
    return submit(
        stream, nullptr, [&] { copy_bytes(to, static_cast<const char *>(src), size); },
        [&] {
          const std::shared_ptr<char[]> staged(new char[size]);
          copy_bytes(staged.get(), static_cast<const char *>(src), size);
          return [=] { copy_bytes(to, staged.get(), size); };
        });
  });
}

hal_status copy_to_host(hal_stream *stream, void *dst, hal_buffer src, uint64_t size) {
  return guarded([&] {
    const char *from = address("copy_to_host", src, size);
    const auto run = [=] { copy_bytes(static_cast<char *>(dst), from, size); };
    return submit(stream, nullptr, run, [&] { return run; });
  });
}

hal_status copy(hal_stream *stream, hal_buffer dst, hal_buffer src, uint64_t size) {
  return guarded([&] {
    const char *from = address("copy", src, size);
    char *to = address("copy", dst, size);
    const auto run = [=] { copy_bytes(to, from, size); };
    return submit(stream, nullptr, run, [&] { return run; });
  });
}

struct FillPieces {
  char *to;
  int64_t size;
  const char *pattern;  // 64 bytes of it
};

// Cut in units of 64 bytes, so that each piece starts at a whole pattern.
void fill_units(void *context, int64_t begin, int64_t end) {
  const auto *p = static_cast<const FillPieces *>(context);
  int64_t at = begin * 64;
  const int64_t last = end * 64 < p->size ? end * 64 : p->size;
  for (; last - at >= 64; at += 64) std::memcpy(p->to + at, p->pattern, 64);
  if (at < last) std::memcpy(p->to + at, p->pattern, size_t(last - at));
}

void fill_bytes(char *to, uint64_t size, const char *pattern64) {
  FillPieces pieces{to, int64_t(size), pattern64};
  const int64_t units = int64_t((size + 63) / 64);
  if (size <= uint64_t(kCopyGrain)) return fill_units(&pieces, 0, units);
  host().parallel_for(units, kCopyGrain / 64, fill_units, &pieces);
}

hal_status fill(hal_stream *stream, hal_buffer dst, uint64_t size, const void *pattern, uint32_t pattern_size) {
  if ((pattern_size != 1 && pattern_size != 2 && pattern_size != 4 && pattern_size != 8) || size % pattern_size != 0)
    return fail(HAL_ERROR_INVALID_ARGUMENT, "[fill] got a pattern of " + std::to_string(pattern_size) + " bytes over " +
                                                std::to_string(size) + ", expected 1, 2, 4 or 8 bytes and a multiple");
  return guarded([&] {
    char *to = address("fill", dst, size);
    struct {
      char bytes[64];
    } repeated;
    for (uint32_t i = 0; i < 64; i += pattern_size) std::memcpy(repeated.bytes + i, pattern, pattern_size);
    const auto run = [=] { fill_bytes(to, size, repeated.bytes); };
    return submit(stream, nullptr, run, [&] { return run; });
  });
}

hal_status host_pointer(hal_device *, hal_memory *memory, void **out) {
  *out = memory->data;
  return HAL_OK;
}

hal_status adopt(hal_device *, void *native, uint64_t size, hal_memory **out) {
  if (native == nullptr && size != 0) return fail(HAL_ERROR_INVALID_ARGUMENT, "[adopt] got a null pointer");
  return guarded([&] {
    auto memory = std::make_unique<hal_memory>();
    memory->data = static_cast<char *>(native);
    memory->size = size;
    *out = memory.release();
    return hal_status{HAL_OK};
  });
}

}  // namespace

const hal_memory_api memory_api = {sizeof(hal_memory_api), alloc, free_memory,  copy_from_host, copy_to_host, copy, fill,
                                   host_pointer,           adopt, host_pointer, nullptr,        nullptr};

}  // namespace cpu
