// Byte copies: host to device and back, inside a device, between devices.
#include <algorithm>
#include <vector>

#include "dispatch.hpp"
#include "stream_error.hpp"

namespace hal {
namespace {

void check_range(const char *op, const Buffer &buffer, uint64_t offset, uint64_t size) {
  if (size > buffer.size() || offset > buffer.size() - size)
    throw Error(ErrorKind::Value, std::string("[") + op + "] reaches outside the buffer: got bytes [" + std::to_string(offset) + ", " +
                                      std::to_string(offset) + " + " + std::to_string(size) + ") of " + std::to_string(buffer.size()));
}

// One call that submits to `stream`, under its lock, with the buffer marked as used by it.
template <class Submit>
void submit(Stream &stream, Buffer &buffer, const char *what, Submit &&call) {
  if (&buffer.device() != &stream.device())
    throw Error(ErrorKind::Value,
                std::string("[") + what + "] got a buffer of " + buffer.device().name() + " on a stream of " + stream.device().name());
  if (stream.device().is_closed())
    throw Error(HAL_ERROR_UNAVAILABLE, std::string("[") + what + "] " + stream.device().name() + " has been closed");
  buffer.record_stream(stream);
  take_error_text();
  SubmitLock lock(stream);
  check(call(stream.device().plugin().memory, stream.handle()), what);
}

// What was submitted for the buffer so far (its own stream's work, and the current stream's) happens before later work on `stream`.
void order_after(Stream &stream, Buffer &buffer) {
  Device &device = buffer.device();
  for (Stream *other : {buffer.stream(), &device.current_stream()}) {
    if (other == &stream || device.plugin().stream.query(other->handle()) != HAL_NOT_READY) continue;
    const std::shared_ptr<Event> event = Event::create(device, false, false);
    event->record(*other);
    stream.wait(*event);
  }
}

}  // namespace

void copy_from_host(Stream &stream, Buffer &dst, uint64_t offset, const void *src, uint64_t size) {
  check_range("copy_from_host", dst, offset, size);
  if (size == 0) return;
  submit(stream, dst, "copy_from_host",
         [&](const hal_memory_api &api, hal_stream *handle) { return api.copy_from_host(handle, dst.at(offset), src, size); });
}

void copy_to_host(Stream &stream, void *dst, Buffer &src, uint64_t offset, uint64_t size) {
  check_range("copy_to_host", src, offset, size);
  if (size != 0)
    submit(stream, src, "copy_to_host",
           [&](const hal_memory_api &api, hal_stream *handle) { return api.copy_to_host(handle, dst, src.at(offset), size); });
  stream.synchronize();
}

void copy_bytes(Stream &stream, Buffer &dst, uint64_t dst_offset, Buffer &src, uint64_t src_offset, uint64_t size) {
  check_range("copy_bytes", dst, dst_offset, size);
  check_range("copy_bytes", src, src_offset, size);
  if (size == 0) return;
  Device &to = dst.device(), &from = src.device();
  if (&to == &from) {
    src.record_stream(stream);
    submit(stream, dst, "copy_bytes",
           [&](const hal_memory_api &api, hal_stream *handle) { return api.copy(handle, dst.at(dst_offset), src.at(src_offset), size); });
    return;
  }
  Stream &to_stream = &stream.device() == &to ? stream : to.current_stream();
  Stream &from_stream = &stream.device() == &from ? stream : from.current_stream();
  if (&to.plugin() == &from.plugin() && to.plugin().has_peer) {
    order_after(to_stream, src);
    src.record_stream(to_stream);
    dst.record_stream(to_stream);
    take_error_text();
    SubmitLock lock(to_stream);
    check(to.plugin().peer.copy(to_stream.handle(), to.handle(), dst.at(dst_offset), from.handle(), src.at(src_offset), size),
          "copy_bytes");
    return;
  }
  order_after(from_stream, src);
  if (src.host()) {  // host visible: no staging
    from_stream.synchronize();
    copy_from_host(to_stream, dst, dst_offset, static_cast<const char *>(src.host()) + src_offset, size);
  } else if (dst.host()) {
    order_after(to_stream, dst);
    to_stream.synchronize();
    copy_to_host(from_stream, static_cast<char *>(dst.host()) + dst_offset, src, src_offset, size);
  } else {
    std::vector<char> staging(size);
    copy_to_host(from_stream, staging.data(), src, src_offset, size);
    copy_from_host(to_stream, dst, dst_offset, staging.data(), size);
  }
}

void fill_bytes(Stream &stream, Buffer &dst, uint64_t offset, uint64_t size, const void *pattern, uint32_t pattern_size) {
  check_range("fill_bytes", dst, offset, size);
  if ((pattern_size != 1 && pattern_size != 2 && pattern_size != 4 && pattern_size != 8) || size % pattern_size != 0)
    throw Error(ErrorKind::Value, "[fill_bytes] pattern of " + std::to_string(pattern_size) + " bytes for " + std::to_string(size) +
                                      " bytes: expected 1, 2, 4 or 8, dividing the size");
  if (size == 0) return;
  if (stream.device().plugin().memory.fill) {
    submit(stream, dst, "fill_bytes",
           [&](const hal_memory_api &api, hal_stream *handle) { return api.fill(handle, dst.at(offset), size, pattern, pattern_size); });
    return;
  }
  // Emulated, in pieces that don't need much host memory.
  const uint64_t piece = std::min<uint64_t>(size, uint64_t(1) << 22);
  std::vector<char> values(piece);
  for (uint64_t i = 0; i < piece; i += pattern_size) std::copy_n(static_cast<const char *>(pattern), pattern_size, values.data() + i);
  for (uint64_t done = 0; done < size; done += piece)
    copy_from_host(stream, dst, offset + done, values.data(), std::min(piece, size - done));
}

}  // namespace hal
