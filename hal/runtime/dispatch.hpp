// Running an op: find or prepare an executable, fall back to the host if the device has no kernel, launch.
#pragma once

#include <hal/kernel.h>
#include <hal/ops.h>

#include <string>
#include <vector>

#include "allocator.hpp"
#include "op_table.hpp"

namespace hal {

// A place for each operand: a buffer and a byte offset, or (buffer == nullptr) the immediate's bits.
struct Place {
  Buffer *buffer;
  uint64_t offset;
};

// Runs op `id` on `stream`. `operands`: inputs then outputs, strided, flags set, only the first `rank` dims and strides defined.
// Inputs and outputs live on stream.device(). Nothing is launched when all outputs are empty. The buffers stay alive until the work is
// done (stream order). Throws; a failure that happens later poisons the stream and surfaces at its next synchronize.
HAL_API void run(Stream &stream, uint32_t id, const hal_operand *operands, const Place *places, uint32_t num_inputs, uint32_t num_outputs,
                 const void *attributes = nullptr);

// Output shapes and dtypes by the op's rules; checks operands, dtypes and attributes: throws Error "[op] what: got ..., expected ...".
// `operands` has the inputs filled; outputs' dtype (unless Any), rank and dims are written, strides row-major. For ShapeRule::given the
// outputs' dims must be set already.
HAL_API void infer(uint32_t id, hal_operand *operands, uint32_t num_inputs, uint32_t num_outputs, const void *attributes = nullptr);

// Byte copies in stream order. Different devices: ordered by events, through the host if the plugin has no peer copy.
HAL_API void copy_bytes(Stream &stream, Buffer &dst, uint64_t dst_offset, Buffer &src, uint64_t src_offset, uint64_t size);
HAL_API void copy_from_host(Stream &stream, Buffer &dst, uint64_t offset, const void *src, uint64_t size);
HAL_API void copy_to_host(Stream &stream, void *dst, Buffer &src, uint64_t offset, uint64_t size);  // and synchronises

// Fills with a repeated pattern of 1, 2, 4 or 8 bytes; `size` is a multiple of it. Emulated by copies if the plugin has no fill.
HAL_API void fill_bytes(Stream &stream, Buffer &dst, uint64_t offset, uint64_t size, const void *pattern, uint32_t pattern_size);

// Numerics class of ops run by this thread: the thread's own setting if any, else the process default.
HAL_API hal_numerics numerics();
HAL_API void set_default_numerics(hal_numerics value);
HAL_API void set_thread_numerics(int value);  // -1: none
HAL_API int thread_numerics();

// Fallback to the host device, per thread as numerics is. Error: an op without a kernel raises HAL_ERROR_UNSUPPORTED.
enum class FallbackPolicy : int { Allow = 0, Error = 1 };
HAL_API FallbackPolicy fallback_policy();
HAL_API void set_default_fallback(FallbackPolicy policy);
HAL_API void set_thread_fallback(int policy);  // -1: none
HAL_API int thread_fallback();

struct FallbackRecord {
  std::string device, op, dtype;
  uint64_t calls = 0, bytes_moved = 0, nanoseconds = 0;
};
HAL_API std::vector<FallbackRecord> fallback_records();
HAL_API void reset_fallback_records();

struct ExecutableCacheStats {
  uint64_t hits = 0, misses = 0, evictions = 0, size = 0, capacity = 0;
};
HAL_API ExecutableCacheStats executable_cache_stats(Device &device);
HAL_API void set_executable_cache_capacity(Device &device, uint64_t capacity);

// Would `device` run this op itself (no fallback)? Asks the registry and the plugin's supports().
HAL_API bool supported(Device &device, uint32_t id, const hal_operand *operands, uint32_t num_inputs, uint32_t num_outputs,
                       const void *attributes, std::string *reason = nullptr);

}  // namespace hal
