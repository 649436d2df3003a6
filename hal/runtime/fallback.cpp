// Fallback: an op that its device has no kernel for runs on the host device, counted.
#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "dispatch_internal.hpp"

namespace hal {
namespace {

struct Records {
  std::mutex mutex;
  std::map<std::tuple<std::string, std::string, std::string>, FallbackRecord> map;
};

Records &records() {
  static auto *r = new Records;
  return *r;
}

// A stream of its own, so that fallback neither waits for nor takes the poison of the user's work on the host device.
struct HostQueue {
  Mutex mutex;  // one fallback at a time: a poison belongs to the op that just ran
  std::shared_ptr<Stream> stream;
};

HostQueue &host_queue() {
  static auto *q = new HostQueue;
  return *q;
}

void count(const std::string &device, const char *op, hal_dtype dtype, uint64_t bytes, uint64_t nanoseconds) {
  Records &r = records();
  std::lock_guard<std::mutex> lock(r.mutex);
  FallbackRecord &record = r.map[{device, op, dtype_name(dtype)}];
  record.device = device;
  record.op = op;
  record.dtype = dtype_name(dtype);
  record.calls += 1;
  record.bytes_moved += bytes;
  record.nanoseconds += nanoseconds;
}

// True if the operand's elements fill its span, so that writing it leaves no byte of the span as it was.
bool fills_span(const hal_operand &o, const Span &span) {
  return uint64_t(element_count(o)) * dtype_size(o.dtype) == uint64_t(span.high - span.low);
}

}  // namespace

void run_on_host(Stream &stream, const OpInfo &info, uint32_t id, const hal_operand *operands, const Place *places, uint32_t num_inputs,
                 uint32_t num_outputs, const void *attributes, const std::string &reason) {
  const uint32_t n = num_inputs + num_outputs;
  Device &device = stream.device();
  const std::string head = std::string("[") + info.name + "] no kernel on " + device.name() + " for " + dtypes_text(operands, n);
  const std::string why = reason.empty() ? "" : " (" + reason + ")";
  if (device.is_host()) throw Error(HAL_ERROR_UNSUPPORTED, head + why);
  if (fallback_policy() == FallbackPolicy::Error) throw Error(HAL_ERROR_UNSUPPORTED, head + why + "; fallback is forbidden");
  const auto start = std::chrono::steady_clock::now();
  Device &host = host_device();
  for (uint32_t i = 0; i < n; ++i)
    if (is_tensor(operands[i]) && operands[i].layout != HAL_LAYOUT_STRIDED)
      throw Error(HAL_ERROR_UNSUPPORTED, head + why + "; an operand has an opaque layout, so it can't fall back");
  HostQueue &queue = host_queue();
  BufferPtr copies[HAL_MAX_OPERANDS];
  Place host_places[HAL_MAX_OPERANDS];
  Span spans[HAL_MAX_OPERANDS];
  uint64_t moved = 0;
  std::unique_lock<Mutex> lock(queue.mutex);
  if (!queue.stream) queue.stream = Stream::create(host);
  Stream &host_stream = *queue.stream;
  for (uint32_t i = 0; i < n; ++i) {
    host_places[i] = {nullptr, places[i].offset};
    if (!is_tensor(operands[i])) continue;
    spans[i] = span_of(operands[i]);
    const uint64_t size = uint64_t(spans[i].high - spans[i].low);
    copies[i] = host.allocator().allocate(size, host_stream);
    if (!copies[i]->host()) throw Error(HAL_ERROR_INTERNAL, "[fallback] the memory of " + host.name() + " has no host address");
    host_places[i] = {copies[i].get(), uint64_t(-spans[i].low)};
    const bool read = i < num_inputs || !fills_span(operands[i], spans[i]);
    if (!read || size == 0) continue;
    copy_to_host(stream, copies[i]->host(), *places[i].buffer, places[i].offset + spans[i].low, size);
    moved += size;
  }
  run(host_stream, id, operands, host_places, num_inputs, num_outputs, attributes);
  host_stream.synchronize();
  for (uint32_t i = num_inputs; i < n; ++i) {
    const uint64_t size = uint64_t(spans[i].high - spans[i].low);
    if (!is_tensor(operands[i]) || size == 0) continue;
    copy_from_host(stream, *places[i].buffer, places[i].offset + spans[i].low, copies[i]->host(), size);
    moved += size;
  }
  lock.unlock();
  const auto elapsed = std::chrono::steady_clock::now() - start;
  count(device.name(), info.name, primary_dtype(info, operands, num_inputs, num_outputs), moved,
        uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count()));
}

void close_fallback() {
  HostQueue &queue = host_queue();
  std::unique_lock<Mutex> lock(queue.mutex, std::try_to_lock);
  if (lock.owns_lock()) queue.stream.reset();
}

std::vector<FallbackRecord> fallback_records() {
  Records &r = records();
  std::lock_guard<std::mutex> lock(r.mutex);
  std::vector<FallbackRecord> out;
  for (auto &entry : r.map) out.push_back(entry.second);
  return out;
}

void reset_fallback_records() {
  Records &r = records();
  std::lock_guard<std::mutex> lock(r.mutex);
  r.map.clear();
}

}  // namespace hal
