// Streams, and what devices know of them.
#include <algorithm>

#include "allocator.hpp"
#include "device.hpp"
#include "executable_cache.hpp"
#include "stream_error.hpp"
#include "thread_state.hpp"

namespace hal {
namespace {

std::atomic<uint64_t> g_next_id{1};

}  // namespace

__thread ThreadState t_state;

void throw_stream_error(Stream &stream, hal_status status) {
  if (status == HAL_ERROR_TIMEOUT) throw Error(status, "[synchronize] timed out on " + stream.device().name() + "; the work goes on");
  hal_error_info info{};
  info.struct_size = sizeof(info);
  const std::string thread_text = take_error_text();
  std::string text;
  if (stream.device().plugin().stream.get_error(stream.handle(), &info) == HAL_OK) {
    info.text[sizeof(info.text) - 1] = 0;
    text = info.text;
  }
  if (text.empty()) text = thread_text.empty() ? std::string(status_name(status)) : thread_text;
  const std::string label = std::string("[") + (info.label ? info.label : "stream") + "] ";
  if (text.compare(0, label.size(), label) != 0) text = label + text;
  throw Error(status, text + " (on " + stream.device().name() + ")");
}

std::shared_ptr<Stream> Stream::create(Device &device, int32_t priority) {
  std::unique_ptr<Stream> made(new Stream);
  made->device_ = &device;
  made->id_ = g_next_id.fetch_add(1);
  made->concurrent_ = (device.properties().capabilities & HAL_CAP_CONCURRENT_SUBMIT) != 0;
  take_error_text();
  if (device.is_closed()) throw Error(HAL_ERROR_UNAVAILABLE, "[Stream] " + device.name() + " has been closed");
  if (device.default_stream_) device.collect_streams();
  check(device.plugin().stream.create(device.handle(), priority, &made->handle_), "Stream");
  std::shared_ptr<Stream> out(made.release(), &Stream::retire);
  std::lock_guard<Mutex> lock(device.streams_mutex_);
  auto &list = device.streams_;
  list.erase(std::remove_if(list.begin(), list.end(), [](const std::weak_ptr<Stream> &s) { return s.expired(); }), list.end());
  list.push_back(out);
  return out;
}

// A stream whose work isn't done stays, ownerless, until collect_streams finds it idle: its memory can't be reused before.
void Stream::retire(Stream *stream) {
  if (in_hook()) return put_off([stream] { retire(stream); });
  std::shared_ptr<Stream> owned(stream);
  Device &device = *stream->device_;
  for (Stream *&current : t_state.current)
    if (current == stream) current = nullptr;
  if (device.is_closed()) return;
  if (device.plugin().stream.query(stream->handle_) == HAL_NOT_READY) {
    std::lock_guard<Mutex> lock(device.streams_mutex_);
    if (!device.is_closed()) device.orphans_.push_back(std::move(owned));
  }
}

Stream::~Stream() {
  if (!handle_ || device_->is_closed()) return;
  if (device_->allocator_) device_->allocator_->forget_stream(*this, device_->default_stream_.get());
  device_->plugin().stream.destroy(handle_);
}

bool Stream::query() {
  const hal_status status = device_->plugin().stream.query(handle_);
  if (status == HAL_OK) return true;
  if (status == HAL_NOT_READY) return false;
  check(status, "query");
  return false;
}

void Stream::synchronize(uint64_t timeout_ns) {
  run_put_off();
  hal_status status;
  {
    BlockingScope blocking;
    take_error_text();
    status = device_->plugin().stream.synchronize(handle_, timeout_ns);
  }
  if (status != HAL_OK) throw_stream_error(*this, status);
}

void Stream::wait(Event &event) {
  if (&event.device().plugin() != &device_->plugin()) {
    event.synchronize();  // streams of one plugin can't wait for another's events
    return;
  }
  take_error_text();
  SubmitLock lock(*this);
  check(device_->plugin().stream.wait_event(handle_, event.handle()), "wait");
}

Stream &Device::current_stream() {
  Stream *stream = slot_ < ThreadState::kMaxDevices ? t_state.current[slot_] : nullptr;
  return stream ? *stream : *default_stream_;
}

void Device::set_current_stream(Stream *stream) {
  if (stream && &stream->device() != this)
    throw Error(ErrorKind::Value, "[set_current_stream] got a stream of " + stream->device().name() + ", expected one of " + name_);
  if (slot_ >= ThreadState::kMaxDevices) throw Error(ErrorKind::Value, "[set_current_stream] more than 256 open devices");
  t_state.current[slot_] = stream == default_stream_.get() ? nullptr : stream;
}

std::shared_ptr<Stream> Device::find_stream(uint64_t id) {
  for (auto &stream : streams())
    if (stream->id() == id) return stream;
  return nullptr;
}

std::vector<std::shared_ptr<Stream>> Device::streams() {
  std::vector<std::shared_ptr<Stream>> out;
  std::lock_guard<Mutex> lock(streams_mutex_);
  for (auto &weak : streams_)
    if (auto stream = weak.lock()) out.push_back(std::move(stream));
  out.insert(out.end(), orphans_.begin(), orphans_.end());
  return out;
}

void Device::collect_streams() {
  std::vector<std::shared_ptr<Stream>> done;
  {
    std::lock_guard<Mutex> lock(streams_mutex_);
    for (auto &orphan : orphans_)
      if (plugin_->stream.query(orphan->handle_) != HAL_NOT_READY) done.push_back(std::move(orphan));
    orphans_.erase(std::remove(orphans_.begin(), orphans_.end(), nullptr), orphans_.end());
  }
}

void Device::synchronize() {
  if (is_closed()) return;
  run_put_off();
  std::string message;
  hal_status first = HAL_OK;
  auto note = [&](hal_status status, const std::string &text) {
    if (first == HAL_OK) first = status, message = text;
  };
  {
    BlockingScope blocking;
    take_error_text();
    if (plugin_->device.synchronize) {
      const hal_status status = plugin_->device.synchronize(handle_);
      // A poisoned stream says more below.
      if (status != HAL_OK && status != HAL_ERROR_LAUNCH_FAILED) note(status, "[synchronize] " + take_error_text());
    }
    for (auto &stream : streams()) {
      try {
        stream->synchronize();
      } catch (const Error &e) {
        note(e.status(), e.what());
      }
    }
    collect_streams();
    executables_->collect();
    allocator_->collect();
  }
  if (first != HAL_OK) throw Error(first, message);
}

void Device::memory_info(uint64_t &free_bytes, uint64_t &total_bytes) {
  take_error_text();
  check(plugin_->device.memory_info(handle_, &free_bytes, &total_bytes), "memory_info");
}

}  // namespace hal
