// Private to the allocator: its blocks, pools and what waits for other streams. docs/decisions/0003-caching-allocator.md says why.
#pragma once

#include <set>
#include <unordered_set>

#include "allocator.hpp"

namespace hal {

namespace allocator {

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

}  // namespace allocator

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
    Block *bins[allocator::kBinLimit / 64 + 1] = {};
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
  uint64_t failing_allocation = 0;  // the number (of stats.allocations) of the one that must fail; 0: none

  explicit Impl(Device &d) : device(d) {
    const hal_device_properties &p = d.properties();
    granularity = std::max<uint64_t>(64, p.offset_alignment);
    alignment = std::max<uint64_t>(64, std::max(p.memory_alignment, p.offset_alignment));
    cache_bound = std::max(allocator::kCacheFloor, p.total_memory / 4);
  }

  uint64_t round(uint64_t size) const {
    const uint64_t step = std::max<uint64_t>(size <= allocator::kTinyLimit ? 64 : 512, granularity);
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
  void put_back(Block *block);

  void flush_bins(Pool &pool);

  void split(Block *block, uint64_t size);

  Block *best_fit(Pool &pool, uint64_t size);

  // A free segment of another stream that is idle, so that many short-lived streams don't each hold memory.
  Block *take_from_idle(Pool &pool, uint64_t size);

  // A whole free segment. Its stream's work must be done.
  void release_segment(Block *block);

  static bool whole(const Block *block) { return !block->previous && !block->next; }

  // Gives back free segments of idle streams, largest first, until no more than `keep` bytes are cached.
  void trim(uint64_t keep);

  Block *new_segment(Pool &pool, uint64_t size, hal_status &status);

  // Events behind which freed memory may be reused; streams that are idle need none. Called without the lock (it takes stream locks).
  std::vector<Wait> record_waits(const std::vector<Stream *> &streams);

  static bool done(std::vector<Wait> &waits, bool block);

  static void finish_adopted(Buffer *buffer);

  // Pending blocks whose waits are done go back to their pools. Deleters run without the lock.
  void process_pending(std::unique_lock<Mutex> &lock, bool block);

  [[noreturn]] void throw_out_of_memory(uint64_t size, const std::string &words);

  Block *allocate_slow(Pool &pool, uint64_t requested, uint64_t size, std::unique_lock<Mutex> &lock);

  // Waits without taking anyone's poison: by event. Bounded, since a stream may wait for a signal that never comes.
  void synchronize_streams();
};

}  // namespace hal
