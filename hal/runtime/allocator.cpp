// The caching allocator: docs/decisions/0003-caching-allocator.md says why it is built this way.
#include "allocator.hpp"

#include <algorithm>
#include <cstdio>
#include <set>
#include <unordered_set>

namespace hal {
namespace {

constexpr uint64_t kMiB = uint64_t(1) << 20;
constexpr uint64_t kSmallLimit = kMiB;  // up to here from shared segments
constexpr uint64_t kSmallSegment = 2 * kMiB;
constexpr uint64_t kLargeRound = 2 * kMiB;  // size of a segment of its own
constexpr uint64_t kLargeRemainder = kMiB;  // a large block is split if more than this is left
constexpr uint64_t kTinyLimit = 1024;       // up to here 64-byte steps, above 512
constexpr uint64_t kBinLimit = 4096;        // up to here freed blocks stay whole, in bins of one size
constexpr uint64_t kBinBytes = kMiB;        // most bytes that a stream's bins keep
constexpr uint64_t kCacheFloor = 256 * kMiB;
constexpr uint64_t kPatience = 10'000'000'000;  // ns that an allocation without memory waits for a stream's work

}  // namespace

struct CachingAllocator::Impl {
  struct Pool;
  struct Block;
  struct Segment {
    hal_memory *memory;
    uint64_t size;
    char *host;
    bool large;
    Block *first = nullptr;  // at offset 0
  };
  struct Block {
    Segment *segment;
    uint64_t offset, size;
    Block *previous, *next;  // neighbours in the segment
    Pool *pool;              // of the stream that may reuse it
    Block *next_in_bin;
    bool free;  // in pool->blocks; neither in a bin nor in use
    std::vector<Stream *> others;
    Buffer buffer;
  };
  struct BySize {
    bool operator()(const Block *a, const Block *b) const {
      if (a->size != b->size) return a->size < b->size;
      if (a->segment != b->segment) return a->segment < b->segment;
      return a->offset < b->offset;
    }
  };
  struct Pool {
    Stream *stream;
    Block *bins[kBinLimit / 64 + 1] = {};
    uint64_t bin_bytes = 0;
    std::set<Block *, BySize> blocks[2];  // small, large
  };
  struct Wait {
    Device *device;
    hal_event *event;
  };
  struct Pending {  // freed by its owner, still used by other streams
    Block *block;   // or
    Buffer *adopted;
    std::vector<Wait> waits;
  };
  struct Adopted {
    std::vector<Stream *> others;
  };

  Device &device;
  Mutex mutex;
  uint64_t granularity;
  uint64_t alignment;
  uint64_t limit = 0;
  uint64_t cache_bound;
  AllocatorStats stats;
  std::vector<std::unique_ptr<Pool>> pools;
  std::unordered_set<Segment *> segments;
  std::vector<Block *> spare;          // recycled bookkeeping
  std::unordered_set<Block *> shared;  // live blocks used by other streams
  std::unordered_set<Buffer *> adopted;
  std::vector<Pending> pending;
  bool closed = false;

  explicit Impl(Device &d) : device(d) {
    const hal_device_properties &p = d.properties();
    granularity = std::max<uint64_t>(64, p.offset_alignment);
    alignment = std::max<uint64_t>(64, std::max(p.memory_alignment, p.offset_alignment));
    cache_bound = std::max(kCacheFloor, p.total_memory / 4);
  }

  uint64_t round(uint64_t size) const {
    const uint64_t step = std::max<uint64_t>(size <= kTinyLimit ? 64 : 512, granularity);
    return (std::max<uint64_t>(size, 1) + step - 1) / step * step;
  }

  Pool &pool_of(Stream &stream) {
    if (!stream.pool_) {
      pools.push_back(std::make_unique<Pool>());
      pools.back()->stream = &stream;
      stream.pool_ = pools.back().get();
    }
    return *static_cast<Pool *>(stream.pool_);
  }

  Block *new_block() {
    if (spare.empty()) {
      Block *block = new Block;
      block->buffer.block_ = block;
      return block;
    }
    Block *block = spare.back();
    spare.pop_back();
    return block;
  }

  void insert(Block *block) {
    block->free = true;
    block->pool->blocks[block->segment->large].insert(block);
  }
  void remove(Block *block) {
    block->free = false;
    block->pool->blocks[block->segment->large].erase(block);
  }

  // Joins with free neighbours and makes the block available to its pool.
  void put_back(Block *block) {
    for (Block *other : {block->previous, block->next}) {
      if (!other || !other->free || other->pool != block->pool) continue;
      remove(other);
      Block *first = other == block->previous ? other : block, *second = first->next;
      first->size += second->size;
      first->next = second->next;
      if (second->next) second->next->previous = first;
      spare.push_back(second);
      block = first;
    }
    insert(block);
  }

  void flush_bins(Pool &pool) {
    for (Block *&bin : pool.bins)
      while (Block *block = bin) {
        bin = block->next_in_bin;
        put_back(block);
      }
    pool.bin_bytes = 0;
  }

  void split(Block *block, uint64_t size) {
    Block *rest = new_block();
    rest->segment = block->segment;
    rest->offset = block->offset + size;
    rest->size = block->size - size;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next) rest->next->previous = rest;
    rest->pool = block->pool;
    block->next = rest;
    block->size = size;
    insert(rest);
  }

  Block *best_fit(Pool &pool, uint64_t size) {
    const bool large = size > kSmallLimit;
    Block probe;
    probe.segment = nullptr;
    probe.offset = 0;
    probe.size = size;
    auto &set = pool.blocks[large];
    auto it = set.lower_bound(&probe);
    if (it == set.end()) return nullptr;
    Block *block = *it;
    remove(block);
    const uint64_t rest = block->size - size;
    if (large ? rest > kLargeRemainder : rest >= granularity) split(block, size);
    return block;
  }

  // A free segment of another stream that is idle, so that many short-lived streams don't each hold memory.
  Block *take_from_idle(Pool &pool, uint64_t size) {
    const bool large = size > kSmallLimit;
    Block probe;
    probe.segment = nullptr;
    probe.offset = 0;
    probe.size = size;
    for (auto &other : pools) {
      auto &set = other->blocks[large];
      auto it = other.get() == &pool ? set.end() : set.lower_bound(&probe);
      while (it != set.end() && !whole(*it)) ++it;
      if (it == set.end() || device.plugin().stream.query(other->stream->handle()) == HAL_NOT_READY) continue;
      Block *block = *it;
      remove(block);
      block->pool = &pool;
      insert(block);
      return best_fit(pool, size);
    }
    return nullptr;
  }

  // A whole free segment. Its stream's work must be done.
  void release_segment(Block *block) {
    Segment *segment = block->segment;
    remove(block);
    spare.push_back(block);
    segments.erase(segment);
    stats.reserved -= segment->size;
    device.plugin().memory.free(device.handle(), segment->memory);
    delete segment;
  }

  static bool whole(const Block *block) { return !block->previous && !block->next; }

  // Gives back free segments of idle streams, largest first, until no more than `keep` bytes are cached.
  void trim(uint64_t keep) {
    for (auto &pool : pools) {
      if (stats.reserved - stats.allocated <= keep) return;
      if (device.plugin().stream.query(pool->stream->handle()) == HAL_NOT_READY) continue;
      if (keep == 0) flush_bins(*pool);
      for (auto *set : {&pool->blocks[1], &pool->blocks[0]})
        for (auto it = set->end(); it != set->begin() && stats.reserved - stats.allocated > keep;) {
          Block *block = *--it;
          if (!whole(block)) continue;
          ++it;
          release_segment(block);  // erases the element before `it`
        }
    }
  }

  Block *new_segment(Pool &pool, uint64_t size, hal_status &status) {
    const bool large = size > kSmallLimit;
    if (size > UINT64_MAX - kLargeRound) return status = HAL_ERROR_OUT_OF_MEMORY, nullptr;
    uint64_t bytes = large ? (size + kLargeRound - 1) / kLargeRound * kLargeRound : kSmallSegment;
    const uint64_t max = device.properties().max_allocation;
    if (max && bytes > max) bytes = size;  // without slack, the plugin decides
    if (limit && stats.reserved + bytes > limit) bytes = size;
    if (limit && (bytes > limit || stats.reserved > limit - bytes)) return status = HAL_ERROR_OUT_OF_MEMORY, nullptr;
    hal_memory *memory = nullptr;
    ++stats.raw_allocations;
    status = device.plugin().memory.alloc(device.handle(), HAL_MEMORY_DEVICE, bytes, alignment, &memory);
    if (status != HAL_OK) return nullptr;
    void *host = nullptr;
    if (device.plugin().memory.host_pointer && (device.properties().capabilities & HAL_CAP_HOST_VISIBLE) &&
        device.plugin().memory.host_pointer(device.handle(), memory, &host) != HAL_OK)
      host = nullptr;
    Segment *segment = new Segment{memory, bytes, static_cast<char *>(host), large, nullptr};
    segments.insert(segment);
    stats.reserved += bytes;
    stats.peak_reserved = std::max(stats.peak_reserved, stats.reserved);
    Block *block = new_block();
    block->segment = segment;
    segment->first = block;
    block->offset = 0;
    block->size = bytes;
    block->previous = block->next = nullptr;
    block->pool = &pool;
    block->free = false;
    const uint64_t rest = bytes - size;
    if (large ? rest > kLargeRemainder : rest >= granularity) split(block, size);
    return block;
  }

  // Events behind which freed memory may be reused; streams that are idle need none. Called without the lock (it takes stream locks).
  std::vector<Wait> record_waits(const std::vector<Stream *> &streams) {
    std::vector<Wait> waits;
    for (Stream *stream : streams) {
      Device &d = stream->device();
      if (d.is_closed() || d.plugin().stream.query(stream->handle()) != HAL_NOT_READY) continue;
      hal_event *event = nullptr;
      hal_status status = d.plugin().event.create(d.handle(), 0, &event);
      if (status == HAL_OK) {
        {
          SubmitLock lock(*stream);
          status = d.plugin().event.record(event, stream->handle());
        }
        if (status == HAL_OK) {
          waits.push_back({&d, event});
          continue;
        }
        d.plugin().event.destroy(event);
      }
      d.plugin().stream.synchronize(stream->handle(), HAL_TIMEOUT_INFINITE);
    }
    return waits;
  }

  static bool done(std::vector<Wait> &waits, bool block) {
    while (!waits.empty()) {
      const Wait &wait = waits.back();
      if (!wait.device->is_closed()) {
        const hal_event_api &api = wait.device->plugin().event;
        if (block) api.synchronize(wait.event, kPatience);
        if (api.query(wait.event) == HAL_NOT_READY) return false;
        api.destroy(wait.event);
      }
      waits.pop_back();
    }
    return true;
  }

  static void finish_adopted(Buffer *buffer) {
    Device &device = *buffer->device_;
    if (!device.is_closed()) device.plugin().memory.free(device.handle(), buffer->memory_);
    buffer->deleter_();
    delete static_cast<Adopted *>(buffer->block_);
    delete buffer;
  }

  // Pending blocks whose waits are done go back to their pools. Deleters run without the lock.
  void process_pending(std::unique_lock<Mutex> &lock, bool block) {
    if (pending.empty()) return;
    std::vector<Pending> work;
    work.swap(pending);
    if (block) lock.unlock();
    std::vector<Pending> ready;
    for (auto it = work.begin(); it != work.end();)
      if (done(it->waits, block)) {
        ready.push_back(std::move(*it));
        it = work.erase(it);
      } else {
        ++it;
      }
    if (block) lock.lock();
    pending.insert(pending.end(), std::make_move_iterator(work.begin()), std::make_move_iterator(work.end()));
    std::vector<Buffer *> deletions;
    for (Pending &p : ready) {
      if (p.block)
        put_back(p.block);
      else
        deletions.push_back(p.adopted);
    }
    if (deletions.empty()) return;
    lock.unlock();
    for (Buffer *buffer : deletions) finish_adopted(buffer);
    lock.lock();
  }

  [[noreturn]] void throw_out_of_memory(uint64_t size, const std::string &words) {
    char text[320];
    std::snprintf(text, sizeof(text), "[allocate] out of memory on %s: requested %llu bytes, allocated %llu, reserved %llu, limit %s%s%s",
                  device.name().c_str(), (unsigned long long)size, (unsigned long long)stats.allocated, (unsigned long long)stats.reserved,
                  limit ? std::to_string(limit).c_str() : "none", words.empty() ? "" : "; ", words.c_str());
    throw Error(HAL_ERROR_OUT_OF_MEMORY, text);
  }

  Block *allocate_slow(Pool &pool, uint64_t requested, uint64_t size, std::unique_lock<Mutex> &lock) {
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

  // Waits without taking anyone's poison: by event. Bounded, since a stream may wait for a signal that never comes.
  void synchronize_streams() {
    BlockingScope blocking;
    const hal_event_api &api = device.plugin().event;
    for (auto &stream : device.streams()) {
      if (device.plugin().stream.query(stream->handle()) != HAL_NOT_READY) continue;
      hal_event *event = nullptr;
      if (api.create(device.handle(), 0, &event) != HAL_OK) continue;
      hal_status status;
      {
        SubmitLock lock(*stream);
        status = api.record(event, stream->handle());
      }
      if (status == HAL_OK) api.synchronize(event, kPatience);
      api.destroy(event);
    }
  }
};

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

void Buffer::record_other_stream(Stream &stream) {
  CachingAllocator::Impl &a = *device_->allocator().impl_;
  std::lock_guard<Mutex> lock(a.mutex);
  if (deleter_) {
    if (!block_) block_ = new CachingAllocator::Impl::Adopted;
    auto &others = static_cast<CachingAllocator::Impl::Adopted *>(block_)->others;
    if (std::find(others.begin(), others.end(), &stream) == others.end()) others.push_back(&stream);
    return;
  }
  auto *block = static_cast<CachingAllocator::Impl::Block *>(block_);
  if (std::find(block->others.begin(), block->others.end(), &stream) != block->others.end()) return;
  block->others.push_back(&stream);
  a.shared.insert(block);
  other_streams_ = uint32_t(block->others.size());
}

void Buffer::destroy() {
  using Impl = CachingAllocator::Impl;
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

AllocatorStats CachingAllocator::stats() {
  std::lock_guard<Mutex> lock(impl_->mutex);
  return impl_->stats;
}

void CachingAllocator::reset_peak() {
  std::lock_guard<Mutex> lock(impl_->mutex);
  impl_->stats.peak_allocated = impl_->stats.allocated;
  impl_->stats.peak_reserved = impl_->stats.reserved;
}

void CachingAllocator::forget_stream(Stream &stream, Stream *heir_stream) {
  Impl &a = *impl_;
  std::lock_guard<Mutex> lock(a.mutex);
  if (a.closed) return;
  // The stream's work is done, so "used by this stream" says nothing any more.
  for (auto it = a.shared.begin(); it != a.shared.end();) {
    Impl::Block *block = *it;
    auto &others = block->others;
    others.erase(std::remove(others.begin(), others.end(), &stream), others.end());
    block->buffer.other_streams_ = uint32_t(others.size());
    it = others.empty() ? a.shared.erase(it) : std::next(it);
  }
  for (Buffer *buffer : a.adopted)
    if (buffer->block_) {
      auto &others = static_cast<Impl::Adopted *>(buffer->block_)->others;
      others.erase(std::remove(others.begin(), others.end(), &stream), others.end());
    }
  if (!stream.pool_) return;
  auto *pool = static_cast<Impl::Pool *>(stream.pool_);
  if (!heir_stream || heir_stream == &stream) return;
  Impl::Pool &heir = a.pool_of(*heir_stream);
  a.flush_bins(*pool);
  for (Impl::Segment *segment : a.segments) {
    if (segment->first->pool != pool) continue;  // a segment serves one stream
    for (Impl::Block *block = segment->first; block; block = block->next) {
      if (block->free) a.remove(block), block->free = true;
      block->pool = &heir;
      block->buffer.stream_ = heir.stream;
      if (block->free) a.insert(block);
    }
  }
  a.pools.erase(std::find_if(a.pools.begin(), a.pools.end(), [&](auto &p) { return p.get() == pool; }));
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
