/* Devices: what a plugin drives. Maps to cudaDevice / cl_device_id + cl_context / aclrtSetDevice. */
#ifndef HAL_DEVICE_H
#define HAL_DEVICE_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Capability bits. A set bit is a promise that the conformance suite tests; an unknown bit is ignored.
 * The first four are what the reproducible numerics need: a device without them may only offer
 * HAL_NUMERICS_FAST kernels for the dtypes concerned. */
#define HAL_CAP_FMA (UINT64_C(1) << 0)              /* exact fused multiply-add in f32 (and f64 if HAL_CAP_F64) */
#define HAL_CAP_SUBNORMALS (UINT64_C(1) << 1)       /* subnormals are neither flushed on input nor on output */
#define HAL_CAP_ROUNDED_DIV_SQRT (UINT64_C(1) << 2) /* division and square root correctly rounded */
#define HAL_CAP_F64 (UINT64_C(1) << 3)
#define HAL_CAP_HOST_VISIBLE (UINT64_C(1) << 4)   /* memory.host_pointer works on HAL_MEMORY_DEVICE */
#define HAL_CAP_EVENT_TIMING (UINT64_C(1) << 5)   /* event.elapsed works */
#define HAL_CAP_ASYNC (UINT64_C(1) << 6)          /* launches may return before the work is done */
#define HAL_CAP_HOST_SIGNAL (UINT64_C(1) << 7)    /* HAL_EVENT_HOST_SIGNALLED events work */
#define HAL_CAP_EMULATED (UINT64_C(1) << 8)       /* the hardware is emulated in software */
#define HAL_CAP_SIMULATED_TIME (UINT64_C(1) << 9) /* event times are simulated, not measured */
/* Calls that submit to one stream may come from several threads at once, and from inside one another (a launch that
 * runs another op): the plugin orders them itself, and the runtime holds no lock around them. */
#define HAL_CAP_CONCURRENT_SUBMIT (UINT64_C(1) << 10)

typedef struct hal_device_properties {
  uint32_t struct_size;
  uint32_t compute_units; /* cores, multiprocessors, AI cores */
  char name[128];         /* of the hardware, for people */
  char vendor[64];
  char driver[64];           /* driver or implementation version, for people */
  uint64_t capabilities;     /* HAL_CAP_* */
  uint64_t total_memory;     /* bytes */
  uint64_t max_allocation;   /* bytes; 0: no limit below total_memory */
  uint32_t memory_alignment; /* every allocation is aligned to this many bytes, a power of two */
  uint32_t offset_alignment; /* hal_buffer.offset of an operand must be a multiple of this; 1: any */
} hal_device_properties;

/* Threads: all entries may be called from any thread. */
typedef struct hal_device_api {
  uint32_t struct_size;

  /* REQUIRED. Number of devices that can be opened now. 0 devices: rather return HAL_ERROR_UNAVAILABLE with
   * the reason as error text, so that users are told why (HAL_OK with 0 counts as unavailable without a
   * reason). cudaGetDeviceCount. */
  hal_status (*count)(uint32_t *out);

  /* REQUIRED. Opens device `ordinal`. The runtime opens a device at most once and owns the handle until
   * close. `options` is the text after '?' in a device string ("mychip:0?profile=x"), or "". An unknown
   * option is HAL_ERROR_INVALID_ARGUMENT. */
  hal_status (*open)(uint32_t ordinal, const char *options, hal_device **out);

  /* REQUIRED. Closes a device. The runtime has destroyed every stream, event, executable and memory. */
  void (*close)(hal_device *device);

  /* REQUIRED. Fills the fields that out->struct_size reaches. */
  hal_status (*properties)(hal_device *device, hal_device_properties *out);

  /* REQUIRED. Bytes free and in all, as the device sees them now. cudaMemGetInfo. */
  hal_status (*memory_info)(hal_device *device, uint64_t *free_bytes, uint64_t *total_bytes);

  /* OPTIONAL; NULL: emulated by synchronising every stream of the device. cudaDeviceSynchronize. */
  hal_status (*synchronize)(hal_device *device);

  /* OPTIONAL; NULL: unsupported. Brings a lost device back. All memory content, streams and events of
   * the device are gone; the runtime drops its handles without calling destroy. */
  hal_status (*reset)(hal_device *device);
} hal_device_api;

#ifdef __cplusplus
}
#endif
#endif
