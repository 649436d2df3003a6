// Checks of devices, streams and events, and the bookkeeping that all checks share.
#include <algorithm>
#include <cstdio>

#include "validation_checks.hpp"

namespace hal::validation {

// --- shared ----------------------------------------------------------------------------------------------------------------------

hal_status breach(const char *entry, const std::string &text) {
  set_error_text((std::string("[validate] ") + entry + ": " + text).c_str());
  return HAL_ERROR_INVALID_ARGUMENT;
}

void report_breach(const State &state, const char *entry, const std::string &text) {
  std::fprintf(stderr, "[validate] %s: %s: %s\n", state.id.c_str(), entry, text.c_str());
}

bool known_device(State &s, const char *entry, hal_device *device) {
  std::lock_guard lock(s.mutex);
  if (s.devices.count(device) != 0) return true;
  breach(entry, "the device is not an open device of plugin " + s.id);
  return false;
}

bool known_memory(State &s, const char *entry, hal_memory *memory, MemoryState &out) {
  std::lock_guard lock(s.mutex);
  const auto found = s.memories.find(memory);
  if (found == s.memories.end()) {
    breach(entry, memory == nullptr ? "the memory is NULL" : "the memory is not a living allocation of plugin " + s.id);
    return false;
  }
  out = found->second;
  return true;
}

bool known_stream(State &s, const char *entry, hal_stream *stream, std::shared_ptr<StreamState> &out) {
  std::lock_guard lock(s.mutex);
  const auto found = s.streams.find(stream);
  if (found == s.streams.end()) {
    breach(entry, "the stream is not a living stream of plugin " + s.id);
    return false;
  }
  out = found->second;
  return true;
}

bool known_event(State &s, const char *entry, hal_event *event, EventState &out) {
  std::lock_guard lock(s.mutex);
  const auto found = s.events.find(event);
  if (found == s.events.end()) {
    breach(entry, "the event is not a living event of plugin " + s.id);
    return false;
  }
  out = found->second;
  return true;
}

bool in_range(State &s, const char *entry, const char *what, hal_device *device, hal_buffer buffer, uint64_t size) {
  MemoryState memory;
  if (!known_memory(s, entry, buffer.memory, memory)) return false;
  if (memory.device != device) {
    breach(entry, std::string(what) + " belongs to another device than the stream");
    return false;
  }
  if (buffer.offset <= memory.size && size <= memory.size - buffer.offset) return true;
  breach(entry, std::string(what) + " runs past its allocation: offset " + std::to_string(buffer.offset) + " + size " +
                    std::to_string(size) + " > " + std::to_string(memory.size));
  return false;
}

namespace {

hal_device *device_of(const MemoryState &m) { return m.device; }
hal_device *device_of(const EventState &e) { return e.device; }
template <typename T>
hal_device *device_of(const std::shared_ptr<T> &p) {
  return p->device;
}

template <typename Map>
uint32_t drop(const State &s, Map &map, const char *kind, hal_device *device, bool report) {
  uint32_t count = 0;
  for (auto it = map.begin(); it != map.end();) {
    if (device == nullptr || device_of(it->second) == device) {
      it = map.erase(it);
      ++count;
    } else {
      ++it;
    }
  }
  if (report && count != 0) std::fprintf(stderr, "[validate] %s: leak: %u %s still alive\n", s.id.c_str(), count, kind);
  return count;
}

}  // namespace

uint32_t drop_handles(State &s, hal_device *device, bool report) {
  std::lock_guard lock(s.mutex);
  return drop(s, s.executables, "executable(s)", device, report) + drop(s, s.events, "event(s)", device, report) +
         drop(s, s.streams, "stream(s)", device, report) + drop(s, s.memories, "allocation(s)", device, report);
}

// --- device ----------------------------------------------------------------------------------------------------------------------

hal_status device_open(State &s, uint32_t ordinal, const char *options, hal_device **out) {
  constexpr const char *entry = "device.open";
  if (options == nullptr || out == nullptr) return breach(entry, "options and out must not be NULL");
  {
    std::lock_guard lock(s.mutex);
    for (const auto &[handle, state] : s.devices)
      if (state.ordinal == ordinal) return breach(entry, "device " + std::to_string(ordinal) + " is open already");
  }
  const hal_status status = s.device.open(ordinal, options, out);
  if (status != HAL_OK) return status;
  if (*out == nullptr) return breach(entry, "the plugin returned HAL_OK and no device");
  std::lock_guard lock(s.mutex);
  s.devices[*out] = DeviceState{ordinal, 1};
  return HAL_OK;
}

void device_close(State &s, hal_device *device) {
  if (!known_device(s, "device.close", device)) return report_breach(s, "device.close", take_error_text());
  drop_handles(s, device, true);
  {
    std::lock_guard lock(s.mutex);
    s.devices.erase(device);
  }
  s.device.close(device);
}

hal_status device_properties(State &s, hal_device *device, hal_device_properties *out) {
  constexpr const char *entry = "device.properties";
  if (!known_device(s, entry, device)) return HAL_ERROR_INVALID_ARGUMENT;
  if (out == nullptr || out->struct_size < sizeof(uint32_t)) return breach(entry, "out is NULL or its struct_size isn't set");
  const uint32_t size = out->struct_size;
  const hal_status status = s.device.properties(device, out);
  if (status != HAL_OK) return status;
  if (out->struct_size != size) return breach(entry, "the plugin changed struct_size from " + std::to_string(size));
  if (!HAL_HAS_FIELD(out, hal_device_properties, offset_alignment)) return HAL_OK;
  const auto power_of_two = [](uint32_t value) { return value != 0 && (value & (value - 1)) == 0; };
  if (!power_of_two(out->memory_alignment) || !power_of_two(out->offset_alignment))
    return breach(entry, "the plugin's memory_alignment and offset_alignment must be powers of two: got " +
                             std::to_string(out->memory_alignment) + " and " + std::to_string(out->offset_alignment));
  std::lock_guard lock(s.mutex);
  s.devices[device].offset_alignment = out->offset_alignment;
  return HAL_OK;
}

hal_status device_memory_info(State &s, hal_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
  if (!known_device(s, "device.memory_info", device)) return HAL_ERROR_INVALID_ARGUMENT;
  if (free_bytes == nullptr || total_bytes == nullptr) return breach("device.memory_info", "an out-parameter is NULL");
  const hal_status status = s.device.memory_info(device, free_bytes, total_bytes);
  if (status == HAL_OK && *free_bytes > *total_bytes)
    return breach("device.memory_info", "the plugin says that more is free than there is: " + std::to_string(*free_bytes) + " of " +
                                            std::to_string(*total_bytes));
  return status;
}

hal_status device_synchronize(State &s, hal_device *device) {
  if (!known_device(s, "device.synchronize", device)) return HAL_ERROR_INVALID_ARGUMENT;
  return s.device.synchronize(device);
}

hal_status device_reset(State &s, hal_device *device) {
  if (!known_device(s, "device.reset", device)) return HAL_ERROR_INVALID_ARGUMENT;
  const hal_status status = s.device.reset(device);
  if (status == HAL_OK) drop_handles(s, device, false);  // the runtime drops them without destroying
  return status;
}

// --- stream ----------------------------------------------------------------------------------------------------------------------

namespace {

hal_status remember_stream(State &s, const char *entry, hal_device *device, hal_stream *stream) {
  if (stream == nullptr) return breach(entry, "the plugin returned HAL_OK and no stream");
  std::lock_guard lock(s.mutex);
  if (!s.streams.emplace(stream, std::make_shared<StreamState>(device)).second)
    return breach(entry, "the plugin returned a stream that is still alive: each must be a queue of its own");
  return HAL_OK;
}

}  // namespace

hal_status stream_create(State &s, hal_device *device, int32_t priority, hal_stream **out) {
  if (!known_device(s, "stream.create", device)) return HAL_ERROR_INVALID_ARGUMENT;
  if (out == nullptr) return breach("stream.create", "out is NULL");
  const hal_status status = s.stream.create(device, priority, out);
  return status != HAL_OK ? status : remember_stream(s, "stream.create", device, *out);
}

void stream_destroy(State &s, hal_stream *stream) {
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, "stream.destroy", stream, state)) return report_breach(s, "stream.destroy", take_error_text());
  {
    std::lock_guard lock(s.mutex);
    s.streams.erase(stream);
  }
  s.stream.destroy(stream);
}

hal_status stream_query(State &s, hal_stream *stream) {
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, "stream.query", stream, state)) return HAL_ERROR_INVALID_ARGUMENT;
  const hal_status status = s.stream.query(stream);
  if (status != HAL_OK && status != HAL_NOT_READY && status != HAL_ERROR_DEVICE_LOST)
    return breach("stream.query", std::string("the plugin returned ") + status_name(status) + ": query never reports a poison");
  return status;
}

hal_status stream_synchronize(State &s, hal_stream *stream, uint64_t timeout_ns) {
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, "stream.synchronize", stream, state)) return HAL_ERROR_INVALID_ARGUMENT;
  return s.stream.synchronize(stream, timeout_ns);
}

hal_status stream_get_error(State &s, hal_stream *stream, hal_error_info *out) {
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, "stream.get_error", stream, state)) return HAL_ERROR_INVALID_ARGUMENT;
  if (out == nullptr || out->struct_size == 0) return breach("stream.get_error", "out is NULL or its struct_size isn't set");
  return s.stream.get_error(stream, out);
}

hal_status stream_wait_event(State &s, hal_stream *stream, hal_event *event) {
  std::shared_ptr<StreamState> state;
  EventState event_state;
  if (!known_stream(s, "stream.wait_event", stream, state) || !known_event(s, "stream.wait_event", event, event_state))
    return HAL_ERROR_INVALID_ARGUMENT;
  Submission submission(*state);
  if (!submission.alone()) return breach("stream.wait_event", "another thread is submitting to this stream");
  return s.stream.wait_event(stream, event);
}

hal_status stream_adopt(State &s, hal_device *device, void *native, hal_stream **out) {
  if (!known_device(s, "stream.adopt", device)) return HAL_ERROR_INVALID_ARGUMENT;
  if (out == nullptr) return breach("stream.adopt", "out is NULL");
  const hal_status status = s.stream.adopt(device, native, out);
  return status != HAL_OK ? status : remember_stream(s, "stream.adopt", device, *out);
}

hal_status stream_native_handle(State &s, hal_stream *stream, void **out) {
  std::shared_ptr<StreamState> state;
  if (!known_stream(s, "stream.native_handle", stream, state)) return HAL_ERROR_INVALID_ARGUMENT;
  return s.stream.native_handle(stream, out);
}

// --- event -----------------------------------------------------------------------------------------------------------------------

hal_status event_create(State &s, hal_device *device, uint32_t flags, hal_event **out) {
  if (!known_device(s, "event.create", device)) return HAL_ERROR_INVALID_ARGUMENT;
  if (out == nullptr) return breach("event.create", "out is NULL");
  const hal_status status = s.event.create(device, flags, out);
  if (status != HAL_OK) return status;
  if ((flags & ~(HAL_EVENT_TIMING | HAL_EVENT_HOST_SIGNALLED)) != 0)
    return breach("event.create", "the plugin accepted unknown flags " + std::to_string(flags) + ", expected HAL_ERROR_UNSUPPORTED");
  if (*out == nullptr) return breach("event.create", "the plugin returned HAL_OK and no event");
  std::lock_guard lock(s.mutex);
  if (!s.events.emplace(*out, EventState{device, flags}).second)
    return breach("event.create", "the plugin returned an event that is still alive");
  return HAL_OK;
}

void event_destroy(State &s, hal_event *event) {
  EventState state;
  if (!known_event(s, "event.destroy", event, state)) return report_breach(s, "event.destroy", take_error_text());
  {
    std::lock_guard lock(s.mutex);
    s.events.erase(event);
  }
  s.event.destroy(event);
}

hal_status event_record(State &s, hal_event *event, hal_stream *stream) {
  constexpr const char *entry = "event.record";
  EventState state;
  std::shared_ptr<StreamState> stream_state;
  if (!known_event(s, entry, event, state) || !known_stream(s, entry, stream, stream_state)) return HAL_ERROR_INVALID_ARGUMENT;
  if ((state.flags & HAL_EVENT_HOST_SIGNALLED) != 0) return breach(entry, "a host-signalled event can't be recorded");
  if (state.device != stream_state->device) return breach(entry, "event and stream belong to different devices");
  Submission submission(*stream_state);
  if (!submission.alone()) return breach(entry, "another thread is submitting to this stream");
  return s.event.record(event, stream);
}

hal_status event_query(State &s, hal_event *event) {
  EventState state;
  if (!known_event(s, "event.query", event, state)) return HAL_ERROR_INVALID_ARGUMENT;
  return s.event.query(event);
}

hal_status event_synchronize(State &s, hal_event *event, uint64_t timeout_ns) {
  EventState state;
  if (!known_event(s, "event.synchronize", event, state)) return HAL_ERROR_INVALID_ARGUMENT;
  return s.event.synchronize(event, timeout_ns);
}

hal_status event_elapsed(State &s, hal_event *start, hal_event *end, uint64_t *nanoseconds) {
  constexpr const char *entry = "event.elapsed";
  EventState first, last;
  if (!known_event(s, entry, start, first) || !known_event(s, entry, end, last)) return HAL_ERROR_INVALID_ARGUMENT;
  if ((first.flags & last.flags & HAL_EVENT_TIMING) == 0) return breach(entry, "both events must be made with HAL_EVENT_TIMING");
  return s.event.elapsed(start, end, nanoseconds);
}

hal_status event_signal(State &s, hal_event *event, hal_status status) {
  constexpr const char *entry = "event.signal";
  EventState state;
  if (!known_event(s, entry, event, state)) return HAL_ERROR_INVALID_ARGUMENT;
  if ((state.flags & HAL_EVENT_HOST_SIGNALLED) == 0) return breach(entry, "the event isn't a host-signalled one");
  if (state.signalled) return breach(entry, "the event has been signalled already");
  const hal_status result = s.event.signal(event, status);
  if (result == HAL_OK) {
    std::lock_guard lock(s.mutex);
    const auto found = s.events.find(event);
    if (found != s.events.end()) found->second.signalled = true;
  }
  return result;
}

hal_status event_get_error(State &s, hal_event *event, hal_error_info *out) {
  EventState state;
  if (!known_event(s, "event.get_error", event, state)) return HAL_ERROR_INVALID_ARGUMENT;
  if (out == nullptr || out->struct_size == 0) return breach("event.get_error", "out is NULL or its struct_size isn't set");
  return s.event.get_error(event, out);
}

}  // namespace hal::validation
