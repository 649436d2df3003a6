/* Memory: raw allocation and copies. The runtime's caching allocator sits on top, so a plugin's alloc and
 * free may be slow. Maps to cudaMalloc / clCreateBuffer / aclrtMalloc.
 *
 * Ownership: the runtime owns what alloc or adopt returned until free. Threads: any. */
#ifndef HAL_MEMORY_H
#define HAL_MEMORY_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t hal_memory_kind;
enum {
  HAL_MEMORY_DEVICE = 0,      /* what kernels work on */
  HAL_MEMORY_HOST_PINNED = 1, /* host memory that copies read and write at full speed */
  HAL_MEMORY_MANAGED = 2      /* one address on host and device */
};

typedef struct hal_memory_api {
  uint32_t struct_size;

  /* REQUIRED for HAL_MEMORY_DEVICE; other kinds may be HAL_ERROR_UNSUPPORTED, and the runtime then uses
   * device memory or plain host memory. `size` > 0, `alignment` a power of two; the content is undefined.
   * No memory left: HAL_ERROR_OUT_OF_MEMORY (the runtime frees its cache and asks once more). */
  hal_status (*alloc)(hal_device *device, hal_memory_kind kind, uint64_t size, uint64_t alignment, hal_memory **out);

  /* REQUIRED. No submitted work uses the memory any more: the runtime has seen to it. Never fails. */
  void (*free)(hal_device *device, hal_memory *memory);

  /* REQUIRED. Copies `size` bytes in stream order. `src` may be reused when the call returns: pageable
   * host memory is staged by the plugin if it copies late. cudaMemcpyAsync(HostToDevice). */
  hal_status (*copy_from_host)(hal_stream *stream, hal_buffer dst, const void *src, uint64_t size);

  /* REQUIRED. Copies `size` bytes to the host in stream order; `dst` holds them once the stream has been
   * synchronised past this call, and must live until then. cudaMemcpyAsync(DeviceToHost). */
  hal_status (*copy_to_host)(hal_stream *stream, void *dst, hal_buffer src, uint64_t size);

  /* REQUIRED. Copies inside the device in stream order. Overlap behaves as memmove. */
  hal_status (*copy)(hal_stream *stream, hal_buffer dst, hal_buffer src, uint64_t size);

  /* OPTIONAL; NULL: emulated by copy_from_host. Fills with a repeated pattern of 1, 2, 4 or 8 bytes;
   * `size` is a multiple of it. cudaMemsetAsync, clEnqueueFillBuffer. */
  hal_status (*fill)(hal_stream *stream, hal_buffer dst, uint64_t size, const void *pattern, uint32_t pattern_size);

  /* OPTIONAL; NULL: not host visible. The address at which the host may read and write the memory while
   * no submitted work touches it. Valid until free. */
  hal_status (*host_pointer)(hal_device *device, hal_memory *memory, void **out);

  /* OPTIONAL; NULL: unsupported. Wraps memory that someone else owns (DLPack, an application's pointer):
   * free then releases the wrapper only. `native` is a pointer or the platform's handle (cl_mem). */
  hal_status (*adopt)(hal_device *device, void *native, uint64_t size, hal_memory **out);

  /* OPTIONAL; NULL: unsupported. The reverse of adopt: the pointer or handle, still owned by us. */
  hal_status (*native_handle)(hal_device *device, hal_memory *memory, void **out);

  /* OPTIONAL, both or neither; NULL: the runtime uses alloc and free. Stream-ordered allocation
   * (cudaMallocAsync): the memory may be used by work submitted to `stream` after the call, and is
   * released after work submitted to `stream` before the call. */
  hal_status (*alloc_async)(hal_stream *stream, uint64_t size, uint64_t alignment, hal_memory **out);
  hal_status (*free_async)(hal_stream *stream, hal_memory *memory);
} hal_memory_api;

#ifdef __cplusplus
}
#endif
#endif
