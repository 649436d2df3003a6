// Private to the runtime: prepared executables by op, operands and attributes.
#pragma once

#include <hal/kernel.h>

#include <cstring>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dispatch.hpp"

namespace hal {

// What one use of an op looks like, as words: everything that an executable depends on. Compared word by word.
struct OpKey {
  static constexpr uint32_t kMaxAttributeWords = 64;
  uint64_t hash;
  uint32_t count;
  uint64_t words[3 + HAL_MAX_OPERANDS * (1 + 2 * HAL_MAX_RANK) + kMaxAttributeWords];
};

// A prepared executable. Released once no entry refers to it and the streams that used it are past it.
class Executable {
 public:
  Executable(Device &device, hal_executable *handle, uint64_t workspace, uint32_t flags, hal_numerics numerics);
  ~Executable();
  hal_executable *handle;
  const uint64_t workspace;
  const uint32_t flags;  // HAL_KERNEL_*
  const hal_numerics numerics;
  void used_on(Stream &stream) {
    if (last_stream_.load(std::memory_order_relaxed) != stream.id()) note(stream);
  }

 private:
  friend class ExecutableCache;
  void note(Stream &stream);
  Device &device_;
  std::atomic<uint64_t> last_stream_{0};
  std::vector<uint64_t> streams_;  // ids; guarded by the cache's mutex
};

// What was found out about one key. Immutable once published, but for the marks.
struct CacheEntry {
  enum class Action : uint8_t { Launch, Nothing, Fallback };
  Action action = Action::Fallback;
  bool simple = false;  // Launch: no workspace, no copies, static shapes
  uint32_t copies = 0;  // bit i: operand i must be copied to or from a contiguous buffer
  std::shared_ptr<Executable> executable;
  const char *label = "";
  std::string reason;  // of a fallback
  // Bytes that operand i touches around its place, [low, high): checked against the buffer at each run.
  struct Reach {
    int64_t low, high;
  };
  std::vector<Reach> reach;

  uint64_t hash = 0;
  std::vector<uint64_t> words;
  std::atomic<uint32_t> references{0};
  std::atomic<bool> evicted{false};
  std::atomic<bool> touched{false};  // since the last look of the eviction
  CacheEntry *newer = nullptr, *older = nullptr;

  bool matches(const OpKey &key) const {
    return hash == key.hash && words.size() == key.count && std::memcmp(words.data(), key.words, key.count * sizeof(uint64_t)) == 0;
  }
};

inline void retain(CacheEntry *entry) { entry->references.fetch_add(1, std::memory_order_relaxed); }
void destroy(CacheEntry *entry);  // put off inside a hook, where the locks that it needs may be held
inline void release(CacheEntry *entry) {
  if (entry->references.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(entry);
}

// Keeps an entry, and so its executable, alive.
class EntryRef {
 public:
  explicit EntryRef(CacheEntry *entry) : entry_(entry) {}  // takes over a reference
  EntryRef(EntryRef &&o) noexcept : entry_(o.entry_) { o.entry_ = nullptr; }
  EntryRef &operator=(EntryRef &&o) noexcept {
    std::swap(entry_, o.entry_);
    return *this;
  }
  EntryRef(const EntryRef &) = delete;
  EntryRef &operator=(const EntryRef &) = delete;
  ~EntryRef() {
    if (entry_) release(entry_);
  }
  CacheEntry *get() const { return entry_; }
  CacheEntry *operator->() const { return entry_; }

 private:
  CacheEntry *entry_;
};

// One per device: a bounded least-recently-used map. Threads have a small map of their own in front of it (dispatch.cpp), which
// holds references; so an entry evicted here dies when the last thread drops it.
class ExecutableCache {
 public:
  explicit ExecutableCache(Device &device);
  ~ExecutableCache();
  EntryRef find(const OpKey &key);
  // Publishes `entry`, or gives the one that another thread published first.
  EntryRef insert(const OpKey &key, std::unique_ptr<CacheEntry> entry);
  // The one executable that all shapes of a dynamic kernel share; `make` prepares it (nullptr: not supported).
  std::shared_ptr<Executable> dynamic(const hal_op &op, uint32_t flags, const std::function<std::shared_ptr<Executable>()> &make);
  void set_capacity(uint64_t capacity);
  ExecutableCacheStats stats();
  void count_hit() { hits_.store(hits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }  // threads may lose counts
  // Releases executables whose streams are past them.
  void collect();
  // Releases everything; no work is in flight.
  void close();

 private:
  friend class Executable;
  friend class ForkLocks;
  struct Retired {
    hal_executable *handle;
    std::vector<hal_event *> events;
  };
  void retire(Executable &executable);
  void unlink(CacheEntry *entry);
  void link_newest(CacheEntry *entry);
  void evict_over_capacity(std::vector<CacheEntry *> &evicted);
  std::vector<hal_event *> record_events(const std::vector<uint64_t> &streams);

  Device &device_;
  Mutex mutex_;
  std::unordered_multimap<uint64_t, CacheEntry *> map_;
  CacheEntry *newest_ = nullptr, *oldest_ = nullptr;
  uint64_t capacity_ = 4096;
  std::atomic<uint64_t> hits_{0};
  uint64_t misses_ = 0, evictions_ = 0;
  std::unordered_set<Executable *> live_;
  std::vector<Retired> retired_;
  std::unordered_map<std::string, std::weak_ptr<Executable>> dynamic_;  // lives as long as an entry uses it
  bool closed_ = false;
};

}  // namespace hal
