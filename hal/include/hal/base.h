/* Versions, status codes, data types and the conventions that every table of the ABI follows.
 *
 * Conventions, stated once:
 *  - Plain C11. Every struct begins with `uint32_t struct_size`, set by whoever fills the struct to the
 *    sizeof that *they* compiled against. Fields are only ever appended. A reader uses a field only if
 *    HAL_HAS_FIELD says that the writer's struct reaches it; else the field counts as NULL or 0.
 *  - Handles (hal_device, hal_stream, ...) are opaque: the plugin that returns one defines its content
 *    and the runtime only hands it back to the same plugin.
 *  - Every entry returns a hal_status. On failure the plugin first describes the fault in words through
 *    hal_host_api.set_error_text (thread-local, copied); out-parameters are then left untouched.
 *  - No C++ exception, longjmp or signal may leave a plugin.
 *  - Threads: the runtime may call any entry from any thread. Calls that name the same stream are
 *    serialised by the runtime, except query and synchronize, which may run beside a launch (and except
 *    on a device that says HAL_CAP_CONCURRENT_SUBMIT, device.h). Entries on
 *    different handles run concurrently. A plugin that needs more locks does its own locking.
 *  - Strings are UTF-8, NUL-terminated, and live as long as the plugin (or as stated).
 */
#ifndef HAL_BASE_H
#define HAL_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0.x: the ABI may still break between minors until `ascend_sim` and `cuda` keep it. From 1.0 on, a
 * minor only appends, and a host and a plugin with equal majors always work together. */
#define HAL_ABI_MAJOR 0
#define HAL_ABI_MINOR 1

#if defined(_WIN32)
#define HAL_EXPORT __declspec(dllexport)
#else
#define HAL_EXPORT __attribute__((visibility("default")))
#endif

/* True if the struct behind `ptr`, as its writer knew it, contains `field`. */
#define HAL_HAS_FIELD(ptr, type, field) ((ptr) != NULL && (ptr)->struct_size >= offsetof(type, field) + sizeof((ptr)->field))

typedef int32_t hal_status;
enum {
  HAL_OK = 0,
  HAL_NOT_READY = 1,              /* query only: not an error */
  HAL_ERROR_INVALID_ARGUMENT = 2, /* the caller broke the contract; nothing happened */
  HAL_ERROR_OUT_OF_MEMORY = 3,    /* the runtime frees its caches and retries once */
  HAL_ERROR_UNSUPPORTED = 4,      /* a legal request that this device doesn't serve */
  HAL_ERROR_DEVICE_LOST = 5,      /* sticky: only device.reset or reopening helps */
  HAL_ERROR_TIMEOUT = 6,          /* a wait ran past its limit; the work goes on */
  HAL_ERROR_LAUNCH_FAILED = 7,    /* asynchronous: the work behind a stream or event failed */
  HAL_ERROR_UNAVAILABLE = 8,      /* driver, library or hardware missing */
  HAL_ERROR_INTERNAL = 9,         /* a fault of the plugin itself */
  HAL_ERROR_ABI_MISMATCH = 10,    /* plugin entry only */
  HAL_ERROR_INDEX = 11            /* asynchronous: a value in an operand points outside of another operand */
};

/* Element types. Values are part of the ABI and never reused. f16 is IEEE binary16, bf16 the upper half
 * of binary32. bool is one byte, 0 or 1; any other byte in a bool buffer is undefined. */
typedef int32_t hal_dtype;
enum {
  HAL_BOOL = 1,
  HAL_U8 = 2,
  HAL_I8 = 3,
  HAL_I16 = 4,
  HAL_I32 = 5,
  HAL_I64 = 6,
  HAL_F16 = 7,
  HAL_BF16 = 8,
  HAL_F32 = 9,
  HAL_F64 = 10,
  HAL_DTYPE_COUNT = 11
};
#define HAL_DTYPE_BIT(dtype) (1u << (dtype))

/* Which definition of an op a kernel computes: docs/numerics.md, or an error bound. */
typedef int32_t hal_numerics;
enum { HAL_NUMERICS_REPRODUCIBLE = 0, HAL_NUMERICS_FAST = 1 };

#define HAL_TIMEOUT_INFINITE UINT64_MAX

typedef struct hal_device hal_device;
typedef struct hal_memory hal_memory;
typedef struct hal_stream hal_stream;
typedef struct hal_event hal_event;
typedef struct hal_executable hal_executable;

/* A place in device memory: an allocation and a byte offset into it, never a bare pointer (OpenCL has no
 * pointer arithmetic). For an operand flagged HAL_OPERAND_IMMEDIATE, `memory` is NULL and `immediate`
 * holds the value: the bits of the operand's dtype in the low-order bytes. */
typedef struct hal_buffer {
  hal_memory *memory;
  union {
    uint64_t offset;
    uint64_t immediate;
  };
} hal_buffer;

#ifdef __cplusplus
}
#endif
#endif
