// The allocator's blocks: where they come from, how they are split, joined and given back.
#include <algorithm>

#include "allocator_impl.hpp"

namespace hal {

using namespace allocator;
using Impl = CachingAllocator::Impl;

void Impl::put_back(Block *block) {
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

void Impl::flush_bins(Pool &pool) {
  for (Block *&bin : pool.bins)
    while (Block *block = bin) {
      bin = block->next_in_bin;
      put_back(block);
    }
  pool.bin_bytes = 0;
}

void Impl::split(Block *block, uint64_t size) {
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

Impl::Block *Impl::best_fit(Pool &pool, uint64_t size) {
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

Impl::Block *Impl::take_from_idle(Pool &pool, uint64_t size) {
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

void Impl::release_segment(Block *block) {
  Segment *segment = block->segment;
  remove(block);
  spare.push_back(block);
  segments.erase(segment);
  stats.reserved -= segment->size;
  device.plugin().memory.free(device.handle(), segment->memory);
  delete segment;
}

void Impl::trim(uint64_t keep) {
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

Impl::Block *Impl::new_segment(Pool &pool, uint64_t size, hal_status &status) {
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

}  // namespace hal
