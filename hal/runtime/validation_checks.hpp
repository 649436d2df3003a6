// What the validation layer knows of one plugin, and the checks in front of its table entries. Private to validation*.cpp.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugin_loader.hpp"

namespace hal::validation {

struct DeviceState {
  uint32_t ordinal = 0;
  uint32_t offset_alignment = 1;
};
struct MemoryState {
  hal_device *device;
  uint64_t size;
};
struct StreamState {
  hal_device *device;
  std::atomic<int> submitting{0};
  explicit StreamState(hal_device *d) : device(d) {}
};
struct EventState {
  hal_device *device;
  uint32_t flags;
  bool signalled = false;
};
struct ExecutableState {
  hal_device *device;
  std::vector<hal_operand> operands;
  bool dynamic = false;
  uint64_t workspace = 0;
  std::string op;
};

// The plugin's own tables and every handle that is alive.
struct State {
  std::string id;
  hal_device_api device;
  hal_memory_api memory;
  hal_stream_api stream;
  hal_event_api event;
  hal_kernel_api kernel;

  std::mutex mutex;  // of the maps; never held while the plugin runs
  std::unordered_map<hal_device *, DeviceState> devices;
  std::unordered_map<hal_memory *, MemoryState> memories;
  std::unordered_map<hal_stream *, std::shared_ptr<StreamState>> streams;
  std::unordered_map<hal_event *, EventState> events;
  std::unordered_map<hal_executable *, std::shared_ptr<ExecutableState>> executables;
};

// Sets the error text "[validate] <entry>: <text>" and returns HAL_ERROR_INVALID_ARGUMENT.
hal_status breach(const char *entry, const std::string &text);
// For entries that return nothing: to stderr.
void report_breach(const State &state, const char *entry, const std::string &text);

// Lookups that complain: each returns false after breach().
bool known_device(State &s, const char *entry, hal_device *device);
bool known_memory(State &s, const char *entry, hal_memory *memory, MemoryState &out);
bool known_stream(State &s, const char *entry, hal_stream *stream, std::shared_ptr<StreamState> &out);
bool known_event(State &s, const char *entry, hal_event *event, EventState &out);
// [offset, offset + size) lies in a living allocation of `device`.
bool in_range(State &s, const char *entry, const char *what, hal_device *device, hal_buffer buffer, uint64_t size);

// One submission to a stream at a time: what the runtime promises to plugins.
class Submission {
 public:
  explicit Submission(StreamState &stream) : stream_(stream), alone_(stream.submitting.fetch_add(1) == 0) {}
  ~Submission() { stream_.submitting.fetch_sub(1); }
  bool alone() const { return alone_; }

 private:
  StreamState &stream_;
  bool alone_;
};

// Writes a line per kind of handle of `device` (nullptr: of any) that is still alive, forgets them, and returns how many there were.
uint32_t drop_handles(State &s, hal_device *device, bool report);

// Checks, with the signature of the entry after the state.
hal_status device_open(State &s, uint32_t ordinal, const char *options, hal_device **out);
void device_close(State &s, hal_device *device);
hal_status device_properties(State &s, hal_device *device, hal_device_properties *out);
hal_status device_memory_info(State &s, hal_device *device, uint64_t *free_bytes, uint64_t *total_bytes);
hal_status device_synchronize(State &s, hal_device *device);
hal_status device_reset(State &s, hal_device *device);

hal_status memory_alloc(State &s, hal_device *device, hal_memory_kind kind, uint64_t size, uint64_t alignment, hal_memory **out);
void memory_free(State &s, hal_device *device, hal_memory *memory);
hal_status memory_copy_from_host(State &s, hal_stream *stream, hal_buffer dst, const void *src, uint64_t size);
hal_status memory_copy_to_host(State &s, hal_stream *stream, void *dst, hal_buffer src, uint64_t size);
hal_status memory_copy(State &s, hal_stream *stream, hal_buffer dst, hal_buffer src, uint64_t size);
hal_status memory_fill(State &s, hal_stream *stream, hal_buffer dst, uint64_t size, const void *pattern, uint32_t pattern_size);
hal_status memory_host_pointer(State &s, hal_device *device, hal_memory *memory, void **out);
hal_status memory_adopt(State &s, hal_device *device, void *native, uint64_t size, hal_memory **out);
hal_status memory_native_handle(State &s, hal_device *device, hal_memory *memory, void **out);
hal_status memory_alloc_async(State &s, hal_stream *stream, uint64_t size, uint64_t alignment, hal_memory **out);
hal_status memory_free_async(State &s, hal_stream *stream, hal_memory *memory);

hal_status stream_create(State &s, hal_device *device, int32_t priority, hal_stream **out);
void stream_destroy(State &s, hal_stream *stream);
hal_status stream_query(State &s, hal_stream *stream);
hal_status stream_synchronize(State &s, hal_stream *stream, uint64_t timeout_ns);
hal_status stream_get_error(State &s, hal_stream *stream, hal_error_info *out);
hal_status stream_wait_event(State &s, hal_stream *stream, hal_event *event);
hal_status stream_adopt(State &s, hal_device *device, void *native, hal_stream **out);
hal_status stream_native_handle(State &s, hal_stream *stream, void **out);

hal_status event_create(State &s, hal_device *device, uint32_t flags, hal_event **out);
void event_destroy(State &s, hal_event *event);
hal_status event_record(State &s, hal_event *event, hal_stream *stream);
hal_status event_query(State &s, hal_event *event);
hal_status event_synchronize(State &s, hal_event *event, uint64_t timeout_ns);
hal_status event_elapsed(State &s, hal_event *start, hal_event *end, uint64_t *nanoseconds);
hal_status event_signal(State &s, hal_event *event, hal_status status);
hal_status event_get_error(State &s, hal_event *event, hal_error_info *out);

hal_status kernel_list(State &s, hal_device *device, const hal_kernel_info **rows, uint32_t *count);
hal_status kernel_supports(State &s, hal_device *device, const hal_op *op);
hal_status kernel_prepare(State &s, hal_device *device, const hal_op *op, hal_executable **out, uint64_t *workspace_size);
void kernel_release(State &s, hal_device *device, hal_executable *executable);
hal_status kernel_launch(State &s, hal_stream *stream, hal_executable *executable, const hal_launch *args);
hal_status kernel_workspace_size(State &s, hal_executable *executable, const hal_operand *operands, uint32_t count, uint64_t *out);

}  // namespace hal::validation
