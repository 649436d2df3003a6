// The caching allocator, one per device, and the buffers it hands out.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "device.hpp"

namespace hal {

// A piece of device memory with a reference count. The last release returns it to the allocator, which gives it out again only
// to the stream it was allocated for, or once the work of every other stream that used it (record_stream) is done.
class HAL_API Buffer {
 public:
  Device &device() const { return *device_; }
  hal_buffer at(uint64_t byte_offset) const { return {memory_, {base_ + byte_offset}}; }
  uint64_t size() const { return size_; }  // usable bytes
  // Host address of byte 0, or nullptr if the device's memory isn't host visible. The caller synchronises.
  void *host() const { return host_; }
  Stream *stream() const { return stream_; }
  void record_stream(Stream &stream) {
    if (&stream != stream_) record_other_stream(stream);
  }
  void retain() { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  uint32_t use_count() const { return count_.load(std::memory_order_relaxed); }

 private:
  friend class CachingAllocator;
  friend class BufferAccess;
  void record_other_stream(Stream &stream);
  void destroy();
  std::atomic<uint32_t> count_{1};
  Device *device_ = nullptr;
  hal_memory *memory_ = nullptr;
  uint64_t base_ = 0;
  uint64_t size_ = 0;
  void *host_ = nullptr;
  Stream *stream_ = nullptr;
  void *block_ = nullptr;          // the allocator's bookkeeping; nullptr for adopted memory
  std::function<void()> deleter_;  // adopted memory only
  uint32_t other_streams_ = 0;     // nonzero: the allocator holds a list
};

class BufferPtr {
 public:
  BufferPtr() = default;
  explicit BufferPtr(Buffer *adopt) : p_(adopt) {}  // takes over one reference
  BufferPtr(const BufferPtr &o) : p_(o.p_) {
    if (p_) p_->retain();
  }
  BufferPtr(BufferPtr &&o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  BufferPtr &operator=(BufferPtr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~BufferPtr() {
    if (p_) p_->release();
  }
  Buffer *get() const { return p_; }
  Buffer *operator->() const { return p_; }
  Buffer &operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  Buffer *p_ = nullptr;
};

struct AllocatorStats {
  uint64_t allocated = 0;  // bytes in live buffers (as requested sizes rounded to the allocator's granularity)
  uint64_t reserved = 0;   // bytes taken from the plugin
  uint64_t peak_allocated = 0, peak_reserved = 0;
  uint64_t allocations = 0;      // calls
  uint64_t raw_allocations = 0;  // calls to the plugin
  uint64_t retries = 0;          // free-and-retry after an out-of-memory
};

class HAL_API CachingAllocator {
 public:
  explicit CachingAllocator(Device &device);
  ~CachingAllocator();
  // Undefined content; size 0 gives a valid 1-byte buffer. Throws Error(HAL_ERROR_OUT_OF_MEMORY) with sizes and the limit in words.
  BufferPtr allocate(uint64_t size, Stream &stream);
  // Memory that someone else owns; `deleter` runs when the last reference goes.
  BufferPtr adopt(void *native, uint64_t size, std::function<void()> deleter);
  void empty_cache();
  void set_limit(uint64_t bytes);  // of reserved; 0: none
  AllocatorStats stats();
  void reset_peak();
  // Puts back freed memory that other streams have finished with since.
  void collect();

  // For tests: the n-th allocation from now on fails as if there were no memory (n = 1: the next); 0 forgets it.
  void fail_allocation(uint64_t n);

  struct Impl;  // allocator_impl.hpp

 private:
  friend class Buffer;
  friend class Stream;
  friend class DeviceRegistry;
  friend class ForkLocks;
  void forget_stream(Stream &stream, Stream *heir);  // its work is done: its memory becomes the heir's
  void close();                                      // gives everything back; later releases of buffers do nothing
  std::unique_ptr<Impl> impl_;
};

}  // namespace hal
