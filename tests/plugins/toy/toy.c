/* The smallest plugin that is honest: memory, streams and events of a synchronous device, and one kernel (add, f32).
 * Every call is done when it returns, so a stream is always idle and an event always complete. All other ops run on the host device. */
#include <hal/hal.h>
#include <hal/ops.h>
#include <stdlib.h>
#include <string.h>

struct hal_device {
  uint64_t used;
};
struct hal_memory {
  char *data;
  uint64_t size;
};
struct hal_stream {
  hal_device *device;
};
struct hal_event {
  uint32_t flags;
};
struct hal_executable {
  int64_t count;
  int immediate[2];
};

#define TOTAL_MEMORY (UINT64_C(64) << 20)

static const hal_host_api *host;

static hal_status fail(hal_status status, const char *text) {
  host->set_error_text(text);
  return status;
}

/* --- device ------------------------------------------------------------------------------------------------------------------ */

static hal_status device_count(uint32_t *out) {
  *out = 1;
  return HAL_OK;
}

static hal_status device_open(uint32_t ordinal, const char *options, hal_device **out) {
  if (ordinal != 0) return fail(HAL_ERROR_INVALID_ARGUMENT, "toy has one device, 0");
  if (options[0] != '\0') return fail(HAL_ERROR_INVALID_ARGUMENT, "toy knows no options");
  *out = calloc(1, sizeof(hal_device));
  return *out ? HAL_OK : fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory");
}

static void device_close(hal_device *device) { free(device); }

static hal_status device_properties(hal_device *device, hal_device_properties *out) {
  hal_device_properties p = {.compute_units = 1,
                             .name = "toy device",
                             .vendor = "tests",
                             .driver = "0.1",
                             .capabilities = HAL_CAP_FMA | HAL_CAP_SUBNORMALS | HAL_CAP_ROUNDED_DIV_SQRT | HAL_CAP_F64 | HAL_CAP_EMULATED,
                             .total_memory = TOTAL_MEMORY,
                             .memory_alignment = 16,
                             .offset_alignment = 4};
  const uint32_t size = out->struct_size < sizeof p ? out->struct_size : (uint32_t)sizeof p;
  p.struct_size = out->struct_size;
  memcpy(out, &p, size);
  return HAL_OK;
}

static hal_status device_memory_info(hal_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
  *free_bytes = TOTAL_MEMORY - device->used;
  *total_bytes = TOTAL_MEMORY;
  return HAL_OK;
}

/* --- memory ------------------------------------------------------------------------------------------------------------------ */

static hal_status memory_alloc(hal_device *device, hal_memory_kind kind, uint64_t size, uint64_t alignment, hal_memory **out) {
  if (kind != HAL_MEMORY_DEVICE) return fail(HAL_ERROR_UNSUPPORTED, "toy has device memory only");
  if (size > TOTAL_MEMORY - device->used) return fail(HAL_ERROR_OUT_OF_MEMORY, "toy's 64 MiB are used up");
  hal_memory *memory = malloc(sizeof *memory);
  if (alignment < 16) alignment = 16;
  char *data = memory ? aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment) : NULL;
  if (!data) {
    free(memory);
    return fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  }
  memory->data = data;
  memory->size = size;
  device->used += size;
  *out = memory;
  return HAL_OK;
}

static void memory_free(hal_device *device, hal_memory *memory) {
  device->used -= memory->size;
  free(memory->data);
  free(memory);
}

static char *address(hal_buffer buffer) { return buffer.memory->data + buffer.offset; }

static hal_status copy_from_host(hal_stream *stream, hal_buffer dst, const void *src, uint64_t size) {
  memcpy(address(dst), src, size);
  return HAL_OK;
}

static hal_status copy_to_host(hal_stream *stream, void *dst, hal_buffer src, uint64_t size) {
  memcpy(dst, address(src), size);
  return HAL_OK;
}

static hal_status copy(hal_stream *stream, hal_buffer dst, hal_buffer src, uint64_t size) {
  memmove(address(dst), address(src), size);
  return HAL_OK;
}

/* --- streams and events ------------------------------------------------------------------------------------------------------ */

static hal_status stream_create(hal_device *device, int32_t priority, hal_stream **out) {
  *out = malloc(sizeof(hal_stream));
  if (!*out) return fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  (*out)->device = device;
  return HAL_OK;
}

static void stream_destroy(hal_stream *stream) { free(stream); }
static hal_status stream_query(hal_stream *stream) { return HAL_OK; }
static hal_status stream_synchronize(hal_stream *stream, uint64_t timeout_ns) { return HAL_OK; }
static hal_status stream_wait_event(hal_stream *stream, hal_event *event) { return HAL_OK; }

static hal_status stream_get_error(hal_stream *stream, hal_error_info *out) {
  out->status = HAL_OK;
  out->label = NULL;
  out->text[0] = '\0';
  return HAL_OK;
}

static hal_status event_create(hal_device *device, uint32_t flags, hal_event **out) {
  if (flags != 0) return fail(HAL_ERROR_UNSUPPORTED, "toy's events neither tell time nor wait for the host");
  *out = calloc(1, sizeof(hal_event));
  return *out ? HAL_OK : fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory");
}

static void event_destroy(hal_event *event) { free(event); }
static hal_status event_record(hal_event *event, hal_stream *stream) { return HAL_OK; }
static hal_status event_query(hal_event *event) { return HAL_OK; }
static hal_status event_synchronize(hal_event *event, uint64_t timeout_ns) { return HAL_OK; }

/* --- kernels ----------------------------------------------------------------------------------------------------------------- */

static const hal_kernel_info kernels[] = {{.struct_size = sizeof(hal_kernel_info),
                                           .flags = HAL_KERNEL_CONTIGUOUS,
                                           .op = "add",
                                           .dtypes = HAL_DTYPE_BIT(HAL_F32),
                                           .numerics = HAL_NUMERICS_REPRODUCIBLE,
                                           .origin = HAL_KERNEL_NATIVE}};

static hal_status kernel_list(hal_device *device, const hal_kernel_info **rows, uint32_t *count) {
  *rows = kernels;
  *count = 1;
  return HAL_OK;
}

static hal_status kernel_prepare(hal_device *device, const hal_op *op, hal_executable **out, uint64_t *workspace_size) {
  if (strcmp(op->name, "add") != 0 || op->num_inputs != 2 || op->operands[2].dtype != HAL_F32)
    return fail(HAL_ERROR_UNSUPPORTED, "toy adds f32");
  hal_executable *executable = calloc(1, sizeof *executable);
  if (!executable) return fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory");
  executable->count = 1;
  for (uint32_t i = 0; i < op->operands[2].rank; ++i) executable->count *= op->operands[2].dims[i];
  for (int i = 0; i < 2; ++i) executable->immediate[i] = (op->operands[i].flags & HAL_OPERAND_IMMEDIATE) != 0;
  *out = executable;
  *workspace_size = 0;
  return HAL_OK;
}

static void kernel_release(hal_device *device, hal_executable *executable) { free(executable); }

static hal_status kernel_launch(hal_stream *stream, hal_executable *executable, const hal_launch *args) {
  float scalar[2];
  const float *in[2];
  for (int i = 0; i < 2; ++i) {
    if (executable->immediate[i]) {
      memcpy(&scalar[i], &args->buffers[i].immediate, sizeof scalar[i]);
      in[i] = &scalar[i];
    } else {
      in[i] = (const float *)address(args->buffers[i]);
    }
  }
  float *out = (float *)address(args->buffers[2]);
  for (int64_t i = 0; i < executable->count; ++i)
    out[i] = in[0][executable->immediate[0] ? 0 : i] + in[1][executable->immediate[1] ? 0 : i];
  return HAL_OK;
}

/* --- the plugin -------------------------------------------------------------------------------------------------------------- */

static const hal_device_api device_api = {.struct_size = sizeof device_api,
                                          .count = device_count,
                                          .open = device_open,
                                          .close = device_close,
                                          .properties = device_properties,
                                          .memory_info = device_memory_info};
static const hal_memory_api memory_api = {.struct_size = sizeof memory_api,
                                          .alloc = memory_alloc,
                                          .free = memory_free,
                                          .copy_from_host = copy_from_host,
                                          .copy_to_host = copy_to_host,
                                          .copy = copy};
static const hal_stream_api stream_api = {.struct_size = sizeof stream_api,
                                          .create = stream_create,
                                          .destroy = stream_destroy,
                                          .query = stream_query,
                                          .synchronize = stream_synchronize,
                                          .get_error = stream_get_error,
                                          .wait_event = stream_wait_event};
static const hal_event_api event_api = {.struct_size = sizeof event_api,
                                        .create = event_create,
                                        .destroy = event_destroy,
                                        .record = event_record,
                                        .query = event_query,
                                        .synchronize = event_synchronize};
static const hal_kernel_api kernel_api = {
    .struct_size = sizeof kernel_api, .list = kernel_list, .prepare = kernel_prepare, .release = kernel_release, .launch = kernel_launch};
static const hal_plugin_api plugin = {.struct_size = sizeof plugin,
                                      .abi_major = HAL_ABI_MAJOR,
                                      .abi_minor = HAL_ABI_MINOR,
                                      .id = "toy",
                                      .version = "0.1.0",
                                      .opset = HAL_OPSET_VERSION,
                                      .device = &device_api,
                                      .memory = &memory_api,
                                      .stream = &stream_api,
                                      .event = &event_api,
                                      .kernel = &kernel_api};

hal_status hal_plugin_entry(const hal_host_api *host_api, const hal_plugin_api **out) {
  host = host_api;
  *out = &plugin;
  return HAL_OK;
}
