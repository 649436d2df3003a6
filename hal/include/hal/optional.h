/* Optional tables: typed slots that a plugin may leave NULL, and what NULL then means. */
#ifndef HAL_OPTIONAL_H
#define HAL_OPTIONAL_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hal_graph hal_graph;

/* Graph capture. NULL: unsupported; graphs run op by op. cudaStreamBeginCapture. */
typedef struct hal_graph_api {
  uint32_t struct_size;
  hal_status (*begin_capture)(hal_stream *stream);
  hal_status (*end_capture)(hal_stream *stream, hal_graph **out);
  hal_status (*launch)(hal_stream *stream, hal_graph *graph);
  void (*destroy)(hal_graph *graph);
} hal_graph_api;

/* Copies between two devices of this plugin. NULL: emulated through host memory. cudaMemcpyPeerAsync. */
typedef struct hal_peer_api {
  uint32_t struct_size;
  hal_status (*can_access)(hal_device *from, hal_device *to, uint32_t *out);
  /* In order on `stream`, which belongs to the destination's device. */
  hal_status (*copy)(hal_stream *stream, hal_device *dst_device, hal_buffer dst, hal_device *src_device, hal_buffer src, uint64_t size);
} hal_peer_api;

/* Records of what ran. NULL: unsupported; the runtime times launches on the host. */
typedef struct hal_profiler_record {
  uint32_t struct_size;
  uint32_t reserved;
  const char *label;
  uint64_t begin_ns, end_ns; /* device clock */
} hal_profiler_record;

typedef struct hal_profiler_api {
  uint32_t struct_size;
  hal_status (*start)(hal_device *device);
  hal_status (*stop)(hal_device *device);
  /* Writes at most `capacity` records and drops them; `count` tells how many. */
  hal_status (*read)(hal_device *device, hal_profiler_record *records, uint32_t capacity, uint32_t *count);
} hal_profiler_api;

typedef struct hal_program hal_program;

/* Compiling portable kernel sources. NULL: unsupported. NVRTC, clBuildProgram. */
typedef struct hal_compiler_api {
  uint32_t struct_size;
  hal_status (*compile)(hal_device *device, const char *source, const char *options, hal_program **out);
  void (*release)(hal_device *device, hal_program *program);
  hal_status (*launch)(hal_stream *stream, hal_program *program, const char *kernel, const uint32_t grid[3], const uint32_t block[3],
                       const hal_buffer *args, uint32_t num_args);
} hal_compiler_api;

/* EXPERIMENTAL until something uses it: may change in any minor. NULL: unsupported. */
typedef struct hal_collective_api {
  uint32_t struct_size;
  hal_status (*all_reduce)(hal_stream *stream, void *communicator, hal_buffer dst, hal_buffer src, uint64_t count, hal_dtype dtype);
} hal_collective_api;

#ifdef __cplusplus
}
#endif
#endif
