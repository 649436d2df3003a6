// The caching allocator: what its users call.
#include <algorithm>
#include <cstdio>

#include "allocator_impl.hpp"

namespace hal {

using namespace allocator;
using Impl = CachingAllocator::Impl;

void Impl::throw_out_of_memory(uint64_t size, const std::string &words) {
  char text[320];
  std::snprintf(text, sizeof(text), "[allocate] out of memory on %s: requested %llu bytes, allocated %llu, reserved %llu, limit %s%s%s",
                device.name().c_str(), (unsigned long long)size, (unsigned long long)stats.allocated, (unsigned long long)stats.reserved,
                limit ? std::to_string(limit).c_str() : "none", words.empty() ? "" : "; ", words.c_str());
  throw Error(HAL_ERROR_OUT_OF_MEMORY, text);
}

Impl::Block *Impl::allocate_slow(Pool &pool, uint64_t requested, uint64_t size, std::unique_lock<Mutex> &lock) {
  process_pending(lock, false);
  if (Block *block = best_fit(pool, size)) return block;
  if (Block *block = take_from_idle(pool, size)) return block;
  take_error_text();
  hal_status status = HAL_OK;
  if (Block *block = new_segment(pool, size, status)) return block;
  if (status != HAL_ERROR_OUT_OF_MEMORY) {
    lock.unlock();
    check(status, "allocate");
  }
  const std::string words = take_error_text();
  // Give back what is cached, then also what becomes free once all work is done, and ask again.
  ++stats.retries;
  for (bool patient : {false, true}) {
    if (patient) {
      lock.unlock();
      synchronize_streams();
      device.collect_streams();
      lock.lock();
    }
    process_pending(lock, patient);
    trim(0);
    if (Block *block = best_fit(pool, size)) return block;
    if (Block *block = new_segment(pool, size, status)) return block;
  }
  const std::string again = take_error_text();
  throw_out_of_memory(requested, again.empty() ? words : again);
}

CachingAllocator::CachingAllocator(Device &device) : impl_(new Impl(device)) {}
CachingAllocator::~CachingAllocator() = default;

BufferPtr CachingAllocator::allocate(uint64_t requested, Stream &stream) {
  Impl &a = *impl_;
  run_put_off();
  if (requested > (uint64_t(1) << 62)) {
    std::lock_guard<Mutex> lock(a.mutex);
    a.throw_out_of_memory(requested, "");
  }
  const uint64_t size = a.round(requested);
  std::unique_lock<Mutex> lock(a.mutex);
  if (a.closed) throw Error(HAL_ERROR_UNAVAILABLE, "[allocate] " + a.device.name() + " has been closed");
  if (a.failing_allocation && a.stats.allocations + 1 == a.failing_allocation) {
    a.failing_allocation = 0;
    a.throw_out_of_memory(requested, "a test asked for this failure");
  }
  Impl::Pool &pool = a.pool_of(stream);
  Impl::Block *block = nullptr;
  if (size <= kBinLimit && pool.bins[size / 64]) {
    block = pool.bins[size / 64];
    pool.bins[size / 64] = block->next_in_bin;
    pool.bin_bytes -= size;
  } else {
    if (a.pending.empty()) block = a.best_fit(pool, size);
    if (!block) block = a.allocate_slow(pool, requested, size, lock);
  }
  ++a.stats.allocations;
  a.stats.allocated += block->size;
  if (a.stats.allocated > a.stats.peak_allocated) a.stats.peak_allocated = a.stats.allocated;
  Buffer &buffer = block->buffer;
  buffer.count_.store(1, std::memory_order_relaxed);
  buffer.device_ = &a.device;
  buffer.memory_ = block->segment->memory;
  buffer.base_ = block->offset;
  buffer.size_ = block->size;
  buffer.host_ = block->segment->host ? block->segment->host + block->offset : nullptr;
  buffer.stream_ = pool.stream;
  return BufferPtr(&buffer);
}

BufferPtr CachingAllocator::adopt(void *native, uint64_t size, std::function<void()> deleter) {
  Impl &a = *impl_;
  if (!a.device.plugin().memory.adopt) throw Error(HAL_ERROR_UNSUPPORTED, "[adopt] " + a.device.name() + " can't use memory of others");
  hal_memory *memory = nullptr;
  take_error_text();
  check(a.device.plugin().memory.adopt(a.device.handle(), native, size, &memory), "adopt");
  std::unique_ptr<Buffer> buffer(new Buffer);
  buffer->device_ = &a.device;
  buffer->memory_ = memory;
  buffer->size_ = size;
  buffer->stream_ = &a.device.default_stream();
  buffer->deleter_ = deleter ? std::move(deleter) : [] {};  // its presence marks adopted memory
  if (a.device.plugin().memory.host_pointer && (a.device.properties().capabilities & HAL_CAP_HOST_VISIBLE) &&
      a.device.plugin().memory.host_pointer(a.device.handle(), memory, &buffer->host_) != HAL_OK)
    buffer->host_ = nullptr;
  std::lock_guard<Mutex> lock(a.mutex);
  a.adopted.insert(buffer.get());
  return BufferPtr(buffer.release());
}

void Buffer::destroy() {
  if (__builtin_expect(in_hook(), 0)) return put_off([this] { destroy(); });
  Impl &a = *device_->allocator().impl_;
  std::unique_lock<Mutex> lock(a.mutex);
  if (a.closed) {
    // Everything went with the device; only what others own is left to be told.
    if (!deleter_) return;
    a.adopted.erase(this);
    lock.unlock();
    Impl::finish_adopted(this);
    return;
  }
  if (deleter_) {
    a.adopted.erase(this);
    std::vector<Stream *> streams{stream_};
    if (block_) {
      auto &others = static_cast<Impl::Adopted *>(block_)->others;
      streams.insert(streams.end(), others.begin(), others.end());
    }
    lock.unlock();
    std::vector<Impl::Wait> waits = a.record_waits(streams);
    if (waits.empty()) {
      Impl::finish_adopted(this);
    } else {
      lock.lock();
      a.pending.push_back({nullptr, this, std::move(waits)});
    }
    return;
  }
  auto *block = static_cast<Impl::Block *>(block_);
  a.stats.allocated -= block->size;
  if (other_streams_) {
    other_streams_ = 0;
    a.shared.erase(block);
    std::vector<Stream *> others;
    others.swap(block->others);
    lock.unlock();
    std::vector<Impl::Wait> waits = a.record_waits(others);
    lock.lock();
    if (!waits.empty()) {
      a.pending.push_back({block, nullptr, std::move(waits)});
      return;
    }
  }
  Impl::Pool &pool = *block->pool;
  const uint64_t size = block->size;
  if (size <= kBinLimit && size % 64 == 0 && pool.bin_bytes + size <= kBinBytes) {
    block->next_in_bin = pool.bins[size / 64];
    pool.bins[size / 64] = block;
    pool.bin_bytes += size;
    return;
  }
  a.put_back(block);
  if (size > kSmallLimit && a.stats.reserved - a.stats.allocated > a.cache_bound) a.trim(a.cache_bound);
}

void CachingAllocator::empty_cache() {
  Impl &a = *impl_;
  run_put_off();
  a.synchronize_streams();
  a.device.collect_streams();
  std::unique_lock<Mutex> lock(a.mutex);
  if (a.closed) return;
  a.process_pending(lock, false);
  a.trim(0);
}

void CachingAllocator::collect() {
  std::unique_lock<Mutex> lock(impl_->mutex);
  if (!impl_->closed) impl_->process_pending(lock, false);
}

void CachingAllocator::set_limit(uint64_t bytes) {
  std::lock_guard<Mutex> lock(impl_->mutex);
  impl_->limit = bytes;
}

void CachingAllocator::fail_allocation(uint64_t n) {
  std::lock_guard<Mutex> lock(impl_->mutex);
  impl_->failing_allocation = n ? impl_->stats.allocations + n : 0;
}

AllocatorStats CachingAllocator::stats() {
  std::lock_guard<Mutex> lock(impl_->mutex);
  return impl_->stats;
}

void CachingAllocator::reset_peak() {
  std::lock_guard<Mutex> lock(impl_->mutex);
  impl_->stats.peak_allocated = impl_->stats.allocated;
  impl_->stats.peak_reserved = impl_->stats.reserved;
}

void CachingAllocator::close() {
  Impl &a = *impl_;
  std::lock_guard<Mutex> lock(a.mutex);
  if (a.closed) return;
  a.closed = true;
  for (Impl::Segment *segment : a.segments) a.device.plugin().memory.free(a.device.handle(), segment->memory);
  for (Buffer *buffer : a.adopted) a.device.plugin().memory.free(a.device.handle(), buffer->memory_);
  a.segments.clear();
  a.stats.reserved = 0;
}

}  // namespace hal
