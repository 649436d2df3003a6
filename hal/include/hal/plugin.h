/* The plugin itself: one exported symbol that exchanges two tables. */
#ifndef HAL_PLUGIN_H
#define HAL_PLUGIN_H

#include <hal/device.h>
#include <hal/event.h>
#include <hal/kernel.h>
#include <hal/memory.h>
#include <hal/optional.h>
#include <hal/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Part of a loop, [begin, end). Runs on any thread of the pool. */
typedef void (*hal_loop_body)(void *context, int64_t begin, int64_t end);

/* What the host offers. Lives as long as the process. All entries may be called from any thread. */
typedef struct hal_host_api {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor; /* of the host */

  /* Describes the failure that this thread is about to return. Copied; NULL clears. */
  void (*set_error_text)(const char *text);

  /* Runs body over [0, n) in pieces of at least `grain` on the process's one thread pool, and waits.
   * How the range is cut depends on the number of threads, so results must not. Inside a body it runs
   * serially. Threads run in the default floating-point mode (round to nearest, subnormals kept). */
  void (*parallel_for)(int64_t n, int64_t grain, hal_loop_body body, void *context);
  int32_t (*num_threads)(void);

  /* level 0 debug, 1 info, 2 warning, 3 error. */
  void (*log)(int32_t level, const char *text);
} hal_host_api;

#define HAL_ROLE_HOST (1u << 0) /* serves as host: its memory is host memory, fallback runs on it */

typedef struct hal_plugin_api {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor; /* that the plugin was compiled against */
  const char *id;                /* [a-z][a-z0-9_]*, the part of a device string before ':' */
  const char *version;           /* of the plugin, for people */
  uint32_t roles;                /* HAL_ROLE_* */
  uint32_t opset;                /* HAL_OPSET_VERSION compiled against; 0 without kernels */

  /* OPTIONAL; NULL: nothing to do. init is called once before any table entry, and again after a
   * deinit. It may fail: HAL_ERROR_UNAVAILABLE with the reason (no driver) is the polite way. */
  hal_status (*init)(void);
  /* OPTIONAL; NULL: nothing to do. All devices are closed. The library stays mapped. */
  void (*deinit)(void);

  const hal_device_api *device; /* REQUIRED */
  const hal_memory_api *memory; /* REQUIRED */
  const hal_stream_api *stream; /* REQUIRED */
  const hal_event_api *event;   /* REQUIRED */
  const hal_kernel_api *kernel; /* REQUIRED */

  const hal_layout_api *layout; /* OPTIONAL tables, see their headers for what NULL means */
  const hal_graph_api *graph;
  const hal_peer_api *peer;
  const hal_profiler_api *profiler;
  const hal_compiler_api *compiler;
  const hal_collective_api *collective;
} hal_plugin_api;

/* The exported symbol. Called once per load, possibly in a probing child process, from any thread. `host`
 * stays valid. On success *out points to a table that lives as long as the library is mapped.
 * Negotiation: equal majors work together; each side reads of the other's structs only what
 * struct_size reaches. A plugin that needs a newer host returns HAL_ERROR_ABI_MISMATCH. */
#define HAL_PLUGIN_ENTRY hal_plugin_entry
#define HAL_PLUGIN_ENTRY_NAME "hal_plugin_entry"
typedef hal_status (*hal_plugin_entry_fn)(const hal_host_api *host, const hal_plugin_api **out);
HAL_EXPORT hal_status hal_plugin_entry(const hal_host_api *host, const hal_plugin_api **out);

#ifdef __cplusplus
}
#endif
#endif
