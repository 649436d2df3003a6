// The allocator's other streams: memory that work elsewhere still uses, and streams that come to their end.
#include <algorithm>

#include "allocator_impl.hpp"

namespace hal {

using namespace allocator;
using Impl = CachingAllocator::Impl;

std::vector<Impl::Wait> Impl::record_waits(const std::vector<Stream *> &streams) {
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

bool Impl::done(std::vector<Wait> &waits, bool block) {
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

void Impl::finish_adopted(Buffer *buffer) {
  Device &device = *buffer->device_;
  if (!device.is_closed()) device.plugin().memory.free(device.handle(), buffer->memory_);
  buffer->deleter_();
  delete static_cast<Adopted *>(buffer->block_);
  delete buffer;
}

void Impl::process_pending(std::unique_lock<Mutex> &lock, bool block) {
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

void Impl::synchronize_streams() {
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

}  // namespace hal
