/* Events: points in a stream that others wait for. Maps to cudaEvent_t / cl_event (user events for the
 * host-signalled kind) / aclrtEvent. */
#ifndef HAL_EVENT_H
#define HAL_EVENT_H

#include <hal/base.h>
#include <hal/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAL_EVENT_TIMING (1u << 0)         /* elapsed may be asked */
#define HAL_EVENT_HOST_SIGNALLED (1u << 1) /* completed by signal, not by record */

typedef struct hal_event_api {
  uint32_t struct_size;

  /* REQUIRED. Unknown flags, or HOST_SIGNALLED without HAL_CAP_HOST_SIGNAL: HAL_ERROR_UNSUPPORTED. */
  hal_status (*create)(hal_device *device, uint32_t flags, hal_event **out);

  /* REQUIRED. Legal while streams still wait on the event: they keep waiting for what it stood for. */
  void (*destroy)(hal_event *event);

  /* REQUIRED. The event now stands for all work submitted to `stream` so far. Recording again replaces
   * the earlier point; waits made before keep the earlier one. Not for host-signalled events. */
  hal_status (*record)(hal_event *event, hal_stream *stream);

  /* REQUIRED. HAL_OK when done or never recorded, HAL_NOT_READY, or the poison of the work it stands for
   * (every time: an event keeps its poison). A host-signalled event is not ready until signalled. */
  hal_status (*query)(hal_event *event);

  /* REQUIRED. Waits on the host, at most `timeout_ns`; then as query. */
  hal_status (*synchronize)(hal_event *event, uint64_t timeout_ns);

  /* OPTIONAL; NULL: unsupported (HAL_CAP_EVENT_TIMING clear). Nanoseconds from the completion of `start` to
   * that of `end`; both made with HAL_EVENT_TIMING and done, else HAL_NOT_READY. */
  hal_status (*elapsed)(hal_event *start, hal_event *end, uint64_t *nanoseconds);

  /* OPTIONAL; NULL: unsupported (HAL_CAP_HOST_SIGNAL clear). Completes a host-signalled event, once;
   * `status` other than HAL_OK poisons the waiters. A second signal is HAL_ERROR_INVALID_ARGUMENT. */
  hal_status (*signal)(hal_event *event, hal_status status);

  /* OPTIONAL; NULL: no details. What failed behind a poisoned event. */
  hal_status (*get_error)(hal_event *event, hal_error_info *out);
} hal_event_api;

#ifdef __cplusplus
}
#endif
#endif
