// Events: thin owners of a plugin's handles.
#include "device.hpp"

namespace hal {
namespace {

[[noreturn]] void throw_event_error(Event &event, hal_status status) {
  if (status == HAL_ERROR_TIMEOUT) throw Error(status, "[Event.synchronize] timed out on " + event.device().name() + "; the work goes on");
  hal_error_info info{};
  info.struct_size = sizeof(info);
  std::string text = take_error_text();
  const auto get_error = event.device().plugin().event.get_error;
  if (get_error && get_error(event.handle(), &info) == HAL_OK && info.text[0]) {
    info.text[sizeof(info.text) - 1] = 0;
    text = info.text;
  }
  if (text.empty()) text = status_name(status);
  const std::string label = std::string("[") + (info.label ? info.label : "event") + "] ";
  if (text.compare(0, label.size(), label) != 0) text = label + text;
  throw Error(status, text + " (on " + event.device().name() + ")");
}

}  // namespace

std::shared_ptr<Event> Event::create(Device &device, bool timing, bool host_signalled) {
  const hal_event_api &api = device.plugin().event;
  const uint64_t caps = device.properties().capabilities;
  if (device.is_closed()) throw Error(HAL_ERROR_UNAVAILABLE, "[Event] " + device.name() + " has been closed");
  if (timing && (!api.elapsed || !(caps & HAL_CAP_EVENT_TIMING)))
    throw Error(HAL_ERROR_UNSUPPORTED, "[Event] timing: " + device.name() + " does not time events");
  if (host_signalled && (!api.signal || !(caps & HAL_CAP_HOST_SIGNAL)))
    throw Error(HAL_ERROR_UNSUPPORTED, "[Event] host_signalled: " + device.name() + " has no host-signalled events");
  std::shared_ptr<Event> out(new Event);
  out->device_ = &device;
  take_error_text();
  check(api.create(device.handle(), (timing ? HAL_EVENT_TIMING : 0u) | (host_signalled ? HAL_EVENT_HOST_SIGNALLED : 0u), &out->handle_),
        "Event");
  return out;
}

Event::~Event() {
  if (handle_ && !device_->is_closed()) device_->plugin().event.destroy(handle_);
}

void Event::record(Stream &stream) {
  if (&stream.device() != device_)
    throw Error(ErrorKind::Value, "[Event.record] got a stream of " + stream.device().name() + ", expected one of " + device_->name());
  take_error_text();
  SubmitLock lock(stream);
  check(device_->plugin().event.record(handle_, stream.handle()), "Event.record");
}

bool Event::query() {
  take_error_text();
  const hal_status status = device_->plugin().event.query(handle_);
  if (status == HAL_OK) return true;
  if (status == HAL_NOT_READY) return false;
  throw_event_error(*this, status);
}

void Event::synchronize(uint64_t timeout_ns) {
  hal_status status;
  {
    BlockingScope blocking;
    take_error_text();
    status = device_->plugin().event.synchronize(handle_, timeout_ns);
  }
  // A device without a wait of its own may answer NOT_READY at the limit.
  if (status == HAL_NOT_READY) status = HAL_ERROR_TIMEOUT;
  if (status != HAL_OK) throw_event_error(*this, status);
}

uint64_t Event::elapsed_ns(Event &end) {
  if (!device_->plugin().event.elapsed) throw Error(HAL_ERROR_UNSUPPORTED, "[Event.elapsed] " + device_->name() + " does not time events");
  if (&end.device() != device_)
    throw Error(ErrorKind::Value,
                "[Event.elapsed] got events of " + device_->name() + " and " + end.device().name() + ", expected one device");
  uint64_t ns = 0;
  take_error_text();
  const hal_status status = device_->plugin().event.elapsed(handle_, end.handle_, &ns);
  if (status == HAL_NOT_READY) throw Error(ErrorKind::Value, "[Event.elapsed] both events must be recorded with timing, and done");
  if (status != HAL_OK) throw_event_error(*this, status);
  return ns;
}

void Event::signal(hal_status status) {
  if (!device_->plugin().event.signal)
    throw Error(HAL_ERROR_UNSUPPORTED, "[Event.signal] " + device_->name() + " has no host-signalled events");
  take_error_text();
  check(device_->plugin().event.signal(handle_, status), "Event.signal");
}

}  // namespace hal
