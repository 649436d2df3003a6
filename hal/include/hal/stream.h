/* Streams: in-order, asynchronous queues of work. Maps to cudaStream_t / in-order cl_command_queue /
 * aclrtStream.
 *
 * Order: work on one stream runs in the order of submission; work on two streams is unordered unless
 * an event orders it. There is no implicit "default stream" order.
 *
 * Errors: a failure inside a stream's work poisons the stream: later work on it is skipped, and every
 * event recorded after the failure carries it to whoever waits on the event. The poison is reported
 * once, by the next synchronize of the stream (code HAL_ERROR_LAUNCH_FAILED or a more exact one, details
 * through get_error), and is then cleared, unless the device is lost. */
#ifndef HAL_STREAM_H
#define HAL_STREAM_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hal_error_info {
  uint32_t struct_size;
  hal_status status;
  const char *label; /* hal_launch.label of the launch that failed, or NULL (a copy, a wait) */
  char text[512];    /* the plugin's words */
} hal_error_info;

typedef struct hal_stream_api {
  uint32_t struct_size;

  /* REQUIRED. `priority` 0 is normal, lower is more urgent; a device without priorities ignores it. Each
   * call gives a queue of its own. Owned by the runtime until destroy. */
  hal_status (*create)(hal_device *device, int32_t priority, hal_stream **out);

  /* REQUIRED. Submitted work still completes (the call may wait for it). */
  void (*destroy)(hal_stream *stream);

  /* REQUIRED. HAL_OK: all submitted work is done. HAL_NOT_READY: some is queued or running. Never
   * blocks, never reports nor clears a poison. */
  hal_status (*query)(hal_stream *stream);

  /* REQUIRED. Waits until all work submitted before the call is done, at most `timeout_ns`
   * (HAL_ERROR_TIMEOUT: the work goes on). Returns and clears the poison. Several threads may wait. */
  hal_status (*synchronize)(hal_stream *stream, uint64_t timeout_ns);

  /* REQUIRED. Details of the failure that synchronize of this stream returned last; this, not
   * hal_host_api.set_error_text, is where a poison's words come from. Before any failure: status HAL_OK,
   * label NULL, text "". */
  hal_status (*get_error)(hal_stream *stream, hal_error_info *out);

  /* REQUIRED. Work submitted later waits for `event`, on the device: the call itself never blocks. An
   * event that was never recorded (nor host-signalled kind) counts as done. A poisoned event poisons
   * this stream. The event may be destroyed right after. cudaStreamWaitEvent. */
  hal_status (*wait_event)(hal_stream *stream, hal_event *event);

  /* OPTIONAL; NULL: unsupported. Wraps a queue that an application owns; destroy releases the wrapper. */
  hal_status (*adopt)(hal_device *device, void *native, hal_stream **out);

  /* OPTIONAL; NULL: unsupported. The native queue (cudaStream_t, cl_command_queue), still owned by us. */
  hal_status (*native_handle)(hal_stream *stream, void **out);
} hal_stream_api;

#ifdef __cplusplus
}
#endif
#endif
