/* Kernels: what a device computes. Used in two phases, as oneDNN, cuDNN and aclnn do: `prepare` turns an
 * op on described operands into an executable and tells its workspace; `launch` runs it on buffers.
 *
 * What an op means (operands, attributes, shapes, bits) is written in docs/numerics.md and in the op
 * table that <hal/ops.h> is generated from. */
#ifndef HAL_KERNEL_H
#define HAL_KERNEL_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAL_MAX_RANK 16
#define HAL_MAX_OPERANDS 24
#define HAL_DIM_DYNAMIC (-1)

/* Layout of an operand. Strided: `strides` counts elements and may be 0 (broadcast) or negative. Values
 * from HAL_LAYOUT_OPAQUE up belong to the plugin and are described by its hal_layout_api. */
typedef int32_t hal_layout;
enum { HAL_LAYOUT_STRIDED = 0, HAL_LAYOUT_OPAQUE = 1024 };

#define HAL_OPERAND_OUTPUT (1u << 0)
#define HAL_OPERAND_IMMEDIATE (1u << 1) /* a scalar that comes with the launch, see hal_buffer */
#define HAL_OPERAND_ABSENT (1u << 2)    /* an optional operand that isn't given; all else is 0 */

/* One operand. Only the first `rank` entries of dims and strides are defined. A dimension may be
 * HAL_DIM_DYNAMIC only for kernels registered with HAL_KERNEL_DYNAMIC_SHAPES; the strides of such an
 * operand are undefined at prepare, and the launch brings full descriptors. */
typedef struct hal_operand {
  uint32_t struct_size;
  uint32_t flags; /* HAL_OPERAND_* */
  hal_dtype dtype;
  hal_layout layout;
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[HAL_MAX_RANK];
  int64_t strides[HAL_MAX_RANK];
} hal_operand;

/* One use of an op. Operands: the inputs in the table's order, then the outputs. An input and an output
 * may share memory only if their descriptors and places are equal (in place) and the op is pointwise;
 * the caller copies otherwise. Outputs never overlap each other nor themselves.
 * `attributes` is the op's POD struct of <hal/ops.h> (struct_size first), or NULL. A non-zero byte beyond
 * what the plugin knows of it must be answered with HAL_ERROR_UNSUPPORTED (HAL_ATTRIBUTES_TAIL_CLEAR). */
typedef struct hal_op {
  uint32_t struct_size;
  uint32_t opset; /* version of the op set that names and attributes follow: HAL_OPSET_VERSION */
  const char *name;
  hal_numerics numerics;
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t reserved;
  const hal_operand *operands;
  const void *attributes;
} hal_op;

#define HAL_KERNEL_DYNAMIC_SHAPES (1u << 0) /* one executable serves all shapes of equal rank */
#define HAL_KERNEL_CONTIGUOUS (1u << 1)     /* operands must be row-major contiguous: the runtime copies */

typedef int32_t hal_kernel_origin;
enum { HAL_KERNEL_NATIVE = 0, HAL_KERNEL_PORTABLE = 1 };

/* A row of the plugin's kernel registry. The dtype of an op is that of the operand which the op table
 * calls primary. For one op, rows are tried in order. */
typedef struct hal_kernel_info {
  uint32_t struct_size;
  uint32_t flags; /* HAL_KERNEL_* */
  const char *op;
  uint32_t dtypes; /* HAL_DTYPE_BIT of each dtype served */
  hal_numerics numerics;
  hal_kernel_origin origin;
  uint32_t reserved;
} hal_kernel_info;

typedef struct hal_launch {
  uint32_t struct_size;
  uint32_t num_buffers;
  const hal_buffer *buffers;   /* one per operand; ABSENT ones are {NULL, 0}. Read during the call only */
  const hal_operand *operands; /* full descriptors; NULL unless prepared with dynamic dimensions */
  hal_buffer workspace;        /* {NULL, 0} if none was asked for; content undefined */
  const char *label;           /* names this launch in errors and profiles; lives as long as the process */
} hal_launch;

/* Threads: list, supports, prepare and release from any thread; launch as stated for streams. */
typedef struct hal_kernel_api {
  uint32_t struct_size;

  /* REQUIRED. The registry, a static array owned by the plugin. A device without kernels gives 0 rows:
   * each op then runs on the host device, counted. */
  hal_status (*list)(hal_device *device, const hal_kernel_info **rows, uint32_t *count);

  /* OPTIONAL; NULL: emulated by prepare and release. HAL_OK or HAL_ERROR_UNSUPPORTED, with the reason as
   * error text. Cheap: no compilation. */
  hal_status (*supports)(hal_device *device, const hal_op *op);

  /* REQUIRED. Makes an executable for `op` and tells the bytes of workspace that a launch needs (with
   * dynamic shapes: an upper bound isn't known; see workspace_size). Everything behind `op` is copied if
   * it is kept. The executable may be launched many times, on any stream, also at once. */
  hal_status (*prepare)(hal_device *device, const hal_op *op, hal_executable **out, uint64_t *workspace_size);

  /* REQUIRED. No launch of it is in flight: the runtime has seen to it. */
  void (*release)(hal_device *device, hal_executable *executable);

  /* REQUIRED. Submits; may return before the work is done. */
  hal_status (*launch)(hal_stream *stream, hal_executable *executable, const hal_launch *args);

  /* OPTIONAL; NULL: what prepare said holds for every shape. Workspace of one launch with dynamic shapes. */
  hal_status (*workspace_size)(hal_executable *executable, const hal_operand *operands, uint32_t count, uint64_t *out);
} hal_kernel_api;

/* OPTIONAL table; NULL: the device has strided operands only. */
typedef struct hal_layout_api {
  uint32_t struct_size;
  hal_status (*list)(hal_device *device, const hal_layout **layouts, uint32_t *count); /* REQUIRED */
  const char *(*name)(hal_layout layout);                                              /* REQUIRED */
  /* REQUIRED. Bytes that an operand of this layout, dtype and dims takes. */
  hal_status (*size)(hal_device *device, const hal_operand *operand, uint64_t *bytes);
  /* REQUIRED. Between strided and each opaque layout, both ways; padding written is 0. */
  hal_status (*convert)(hal_stream *stream, const hal_operand *dst_desc, hal_buffer dst, const hal_operand *src_desc, hal_buffer src);
} hal_layout_api;

/* True if the bytes of an attribute struct beyond `known` are 0. */
static inline int HAL_ATTRIBUTES_TAIL_CLEAR(const void *attributes, uint32_t known) {
  if (attributes == NULL) return 1;
  const uint32_t size = *(const uint32_t *)attributes;
  const unsigned char *bytes = (const unsigned char *)attributes;
  for (uint32_t i = known; i < size; ++i)
    if (bytes[i] != 0) return 0;
  return 1;
}

#ifdef __cplusplus
}
#endif
#endif
