// The executable cache: least recently used, bounded, never releases an executable in flight.
#include "executable_cache.hpp"

#include <algorithm>

namespace hal {

void destroy(CacheEntry *entry) {
  if (in_hook()) return put_off([entry] { delete entry; });
  delete entry;
}

Executable::Executable(Device &device, hal_executable *h, uint64_t w, uint32_t f, hal_numerics n)
    : handle(h), workspace(w), flags(f), numerics(n), device_(device) {
  ExecutableCache &cache = device.executables();
  std::lock_guard<Mutex> lock(cache.mutex_);
  cache.live_.insert(this);
}

Executable::~Executable() { device_.executables().retire(*this); }

void Executable::note(Stream &stream) {
  ExecutableCache &cache = device_.executables();
  std::lock_guard<Mutex> lock(cache.mutex_);
  if (std::find(streams_.begin(), streams_.end(), stream.id()) == streams_.end()) streams_.push_back(stream.id());
  last_stream_.store(stream.id(), std::memory_order_relaxed);
}

ExecutableCache::ExecutableCache(Device &device) : device_(device) {}
ExecutableCache::~ExecutableCache() = default;

void ExecutableCache::unlink(CacheEntry *entry) {
  (entry->newer ? entry->newer->older : newest_) = entry->older;
  (entry->older ? entry->older->newer : oldest_) = entry->newer;
  entry->newer = entry->older = nullptr;
}

void ExecutableCache::link_newest(CacheEntry *entry) {
  entry->newer = nullptr;
  entry->older = newest_;
  if (newest_) newest_->newer = entry;
  newest_ = entry;
  if (!oldest_) oldest_ = entry;
}

EntryRef ExecutableCache::find(const OpKey &key) {
  std::lock_guard<Mutex> lock(mutex_);
  auto range = map_.equal_range(key.hash);
  for (auto it = range.first; it != range.second; ++it)
    if (it->second->matches(key)) {
      unlink(it->second);
      link_newest(it->second);
      retain(it->second);
      count_hit();
      return EntryRef(it->second);
    }
  ++misses_;
  return EntryRef(nullptr);
}

EntryRef ExecutableCache::insert(const OpKey &key, std::unique_ptr<CacheEntry> entry) {
  std::vector<CacheEntry *> evicted;
  CacheEntry *result = nullptr;
  {
    std::lock_guard<Mutex> lock(mutex_);
    auto range = map_.equal_range(key.hash);
    for (auto it = range.first; it != range.second && !result; ++it)
      if (it->second->matches(key)) result = it->second;
    if (!result) {
      result = entry.release();
      result->hash = key.hash;
      result->words.assign(key.words, key.words + key.count);
      result->references.store(1, std::memory_order_relaxed);  // the map's
      if (closed_) {
        retain(result);
        result->evicted = true;
        evicted.push_back(result);
      } else {
        retain(result);
        map_.emplace(key.hash, result);
        link_newest(result);
        evict_over_capacity(evicted);
      }
    } else {
      retain(result);
    }
  }
  for (CacheEntry *e : evicted) release(e);
  entry.reset();
  collect();
  return EntryRef(result);
}

std::shared_ptr<Executable> ExecutableCache::dynamic(const hal_op &op, uint32_t flags,
                                                     const std::function<std::shared_ptr<Executable>()> &make) {
  std::string key = op.name;
  auto append = [&](uint32_t word) { key.append(reinterpret_cast<const char *>(&word), sizeof(word)); };
  for (uint32_t word : {uint32_t(0), uint32_t(op.numerics), flags, op.num_inputs, op.num_outputs}) append(word);
  for (uint32_t i = 0; i < op.num_inputs + op.num_outputs; ++i)
    for (uint32_t word : {op.operands[i].flags, uint32_t(op.operands[i].dtype), uint32_t(op.operands[i].layout), op.operands[i].rank})
      append(word);
  if (op.attributes) key.append(static_cast<const char *>(op.attributes), *static_cast<const uint32_t *>(op.attributes));
  {
    std::lock_guard<Mutex> lock(mutex_);
    auto it = dynamic_.find(key);
    if (it != dynamic_.end())
      if (auto known = it->second.lock()) return known;
  }
  std::shared_ptr<Executable> made = make();
  if (!made) return nullptr;
  std::shared_ptr<Executable> known;  // dropped without the lock
  std::lock_guard<Mutex> lock(mutex_);
  std::weak_ptr<Executable> &slot = dynamic_[key];
  known = slot.lock();
  if (!known) slot = made;
  if (dynamic_.size() > 2 * capacity_)
    for (auto it = dynamic_.begin(); it != dynamic_.end();) it = it->second.expired() ? dynamic_.erase(it) : std::next(it);
  return known ? known : made;
}

void ExecutableCache::evict_over_capacity(std::vector<CacheEntry *> &evicted) {
  uint64_t second_chances = map_.size();
  while (map_.size() > capacity_ && oldest_) {
    CacheEntry *entry = oldest_;
    unlink(entry);
    // Threads' own maps hide uses from the order; they leave a mark instead.
    if (second_chances > 0 && entry->touched.exchange(false, std::memory_order_relaxed)) {
      --second_chances;
      link_newest(entry);
      continue;
    }
    auto range = map_.equal_range(entry->hash);
    for (auto it = range.first; it != range.second; ++it)
      if (it->second == entry) {
        map_.erase(it);
        break;
      }
    entry->evicted.store(true, std::memory_order_release);
    evicted.push_back(entry);
    ++evictions_;
  }
}

void ExecutableCache::set_capacity(uint64_t capacity) {
  std::vector<CacheEntry *> evicted;
  {
    std::lock_guard<Mutex> lock(mutex_);
    capacity_ = std::max<uint64_t>(capacity, 1);
    evict_over_capacity(evicted);
  }
  for (CacheEntry *e : evicted) release(e);
  collect();
}

ExecutableCacheStats ExecutableCache::stats() {
  std::lock_guard<Mutex> lock(mutex_);
  return {hits_.load(), misses_, evictions_, map_.size(), capacity_};
}

// One event on each stream that still has work and used the executable. Never called with a stream's lock held.
std::vector<hal_event *> ExecutableCache::record_events(const std::vector<uint64_t> &ids) {
  std::vector<hal_event *> events;
  const Plugin &plugin = device_.plugin();
  for (uint64_t id : ids) {
    const std::shared_ptr<Stream> stream = device_.find_stream(id);
    if (!stream || plugin.stream.query(stream->handle()) != HAL_NOT_READY) continue;
    hal_event *event = nullptr;
    hal_status status = plugin.event.create(device_.handle(), 0, &event);
    if (status == HAL_OK) {
      {
        SubmitLock lock(*stream);
        status = plugin.event.record(event, stream->handle());
      }
      if (status == HAL_OK) {
        events.push_back(event);
        continue;
      }
      plugin.event.destroy(event);
    }
    BlockingScope blocking;
    plugin.stream.synchronize(stream->handle(), HAL_TIMEOUT_INFINITE);
  }
  return events;
}

void ExecutableCache::retire(Executable &executable) {
  std::vector<uint64_t> streams;
  {
    std::lock_guard<Mutex> lock(mutex_);
    live_.erase(&executable);
    if (!executable.handle || closed_) return;
    streams.swap(executable.streams_);
  }
  std::vector<hal_event *> events;
  if (device_.is_async()) events = record_events(streams);
  if (events.empty()) {
    device_.plugin().kernel.release(device_.handle(), executable.handle);
    return;
  }
  std::lock_guard<Mutex> lock(mutex_);
  retired_.push_back({executable.handle, std::move(events)});
}

void ExecutableCache::collect() {
  std::vector<Retired> retired;
  {
    std::lock_guard<Mutex> lock(mutex_);
    if (retired_.empty() || closed_) return;
    retired.swap(retired_);
  }
  // The plugin is asked without the lock.
  std::vector<Retired> waiting;
  for (Retired &r : retired) {
    while (!r.events.empty() && device_.plugin().event.query(r.events.back()) != HAL_NOT_READY) {
      device_.plugin().event.destroy(r.events.back());
      r.events.pop_back();
    }
    if (r.events.empty())
      device_.plugin().kernel.release(device_.handle(), r.handle);
    else
      waiting.push_back(std::move(r));
  }
  if (waiting.empty()) return;
  std::lock_guard<Mutex> lock(mutex_);
  for (Retired &r : waiting) retired_.push_back(std::move(r));
}

void ExecutableCache::close() {
  std::lock_guard<Mutex> lock(mutex_);
  if (closed_) return;
  closed_ = true;
  const Plugin &plugin = device_.plugin();
  for (auto &retired : retired_) {
    for (hal_event *event : retired.events) plugin.event.destroy(event);
    plugin.kernel.release(device_.handle(), retired.handle);
  }
  retired_.clear();
  // Entries stay for the threads that hold them, but their executables are gone.
  for (Executable *executable : live_) {
    plugin.kernel.release(device_.handle(), executable->handle);
    executable->handle = nullptr;
  }
}

ExecutableCacheStats executable_cache_stats(Device &device) { return device.executables().stats(); }
void set_executable_cache_capacity(Device &device, uint64_t capacity) { device.executables().set_capacity(capacity); }

}  // namespace hal
