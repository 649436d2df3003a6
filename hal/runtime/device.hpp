// Devices, streams and events: thin owners of a plugin's handles.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mutex.hpp"

namespace hal {

class CachingAllocator;
class ExecutableCache;
class Stream;
class Event;

// An open device. Opened once, lives as long as the process (its handles are closed by shutdown()).
class HAL_API Device {
 public:
  const std::string &id() const { return plugin_->id; }  // "cpu"
  uint32_t index() const { return index_; }
  const std::string &name() const { return name_; }  // "cpu:0"
  bool is_host() const { return is_host_; }
  const Plugin &plugin() const { return *plugin_; }
  hal_device *handle() const { return handle_; }
  const hal_device_properties &properties() const { return properties_; }
  CachingAllocator &allocator() { return *allocator_; }
  ExecutableCache &executables() { return *executables_; }
  const std::vector<hal_kernel_info> &kernels() const { return kernels_; }

  Stream &default_stream() { return *default_stream_; }
  // The stream of this thread, default_stream() unless set.
  Stream &current_stream();
  void set_current_stream(Stream *stream);  // nullptr: default

  void synchronize();  // every stream; throws the first poison
  void memory_info(uint64_t &free_bytes, uint64_t &total_bytes);

  uint32_t slot() const { return slot_; }                                     // number of the device in this process, from 0
  bool is_async() const { return async_; }                                    // launches may return before the work is done
  bool is_closed() const { return closed_.load(std::memory_order_acquire); }  // after shutdown()
  const std::string &options() const { return options_; }                     // text after '?' that it was opened with
  // The stream with this id, or nullptr if it has been destroyed.
  std::shared_ptr<Stream> find_stream(uint64_t id);
  // All streams that still exist, also those whose last owner is gone but whose work isn't done.
  std::vector<std::shared_ptr<Stream>> streams();
  // Destroys streams without an owner whose work has been done since.
  void collect_streams();

 private:
  friend class DeviceRegistry;
  friend class ForkLocks;
  friend class Stream;
  Device() = default;
  std::shared_ptr<Plugin> plugin_;
  uint32_t index_ = 0;
  bool is_host_ = false;
  std::string name_;
  hal_device *handle_ = nullptr;
  hal_device_properties properties_{};
  std::vector<hal_kernel_info> kernels_;
  std::unique_ptr<CachingAllocator> allocator_;
  std::unique_ptr<ExecutableCache> executables_;
  std::shared_ptr<Stream> default_stream_;
  Mutex streams_mutex_;
  std::vector<std::weak_ptr<Stream>> streams_;
  std::vector<std::shared_ptr<Stream>> orphans_;  // no owner, work not done yet
  uint32_t slot_ = 0;
  bool async_ = false;
  std::atomic<bool> closed_{false};
  std::string options_;
};

// "cpu", "cpu:0", "mychip:1?profile=x". Throws Error(Value) naming what exists. The same device always gives the same object.
HAL_API Device &device(const std::string &name);
HAL_API Device &host_device();
// Devices opened so far.
HAL_API std::vector<Device *> open_devices();
// "cpu:0" of every device of every plugin that can be loaded (this loads them).
HAL_API std::vector<std::string> available_devices();

// What finds plugins (the Python package does). Runs on the first use of a device or list, outside all locks; must be idempotent.
HAL_API void set_discovery(std::function<void()> discover);
HAL_API void run_discovery();

// What surrounds calls that may block (the Python bindings release the interpreter lock): enter returns a token that leave gets.
HAL_API void set_blocking_hooks(void *(*enter)(), void (*leave)(void *));
class HAL_API BlockingScope {
 public:
  BlockingScope();
  ~BlockingScope();
  BlockingScope(const BlockingScope &) = delete;
  BlockingScope &operator=(const BlockingScope &) = delete;

 private:
  void *token_;
};

// Destroys caches, streams and devices in order; called once at exit, safe with work in flight.
HAL_API void shutdown();

// An in-order queue. Calls that submit hold a SubmitLock.
class HAL_API Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> create(Device &device, int32_t priority = 0);
  ~Stream();
  Device &device() const { return *device_; }
  hal_stream *handle() const { return handle_; }
  uint64_t id() const { return id_; }
  bool query();
  void synchronize(uint64_t timeout_ns = HAL_TIMEOUT_INFINITE);  // throws the poison: "[op] text"
  void wait(Event &event);

 private:
  friend class Device;
  friend class DeviceRegistry;
  friend class CachingAllocator;
  friend class ForkLocks;
  friend class SubmitLock;
  Stream() = default;
  static void retire(Stream *stream);  // the last owner is gone
  Device *device_ = nullptr;
  hal_stream *handle_ = nullptr;
  uint64_t id_ = 0;
  Mutex mutex_;
  bool concurrent_ = false;  // HAL_CAP_CONCURRENT_SUBMIT
  void *pool_ = nullptr;     // the allocator's free lists for this stream
};

// Serialises the calls that submit to a stream, unless its device does that itself.
class SubmitLock {
 public:
  explicit SubmitLock(Stream &stream) : mutex_(stream.concurrent_ ? nullptr : &stream.mutex_) {
    if (mutex_) mutex_->lock();
  }
  ~SubmitLock() {
    if (mutex_) mutex_->unlock();
  }
  SubmitLock(const SubmitLock &) = delete;
  SubmitLock &operator=(const SubmitLock &) = delete;

 private:
  Mutex *mutex_;
};

class HAL_API Event {
 public:
  static std::shared_ptr<Event> create(Device &device, bool timing, bool host_signalled);
  ~Event();
  Device &device() const { return *device_; }
  hal_event *handle() const { return handle_; }
  void record(Stream &stream);
  bool query();  // throws the poison
  void synchronize(uint64_t timeout_ns = HAL_TIMEOUT_INFINITE);
  uint64_t elapsed_ns(Event &end);
  void signal(hal_status status = HAL_OK);

 private:
  Event() = default;
  Device *device_ = nullptr;
  hal_event *handle_ = nullptr;
};

}  // namespace hal
