/* The toy plugin with one fault, chosen by a macro. */
#define hal_plugin_entry toy_entry /* the toy's own entry becomes a function that we call */
#include "../toy/toy.c"
#undef hal_plugin_entry

#include <unistd.h>

static hal_plugin_api broken;

static hal_status broken_init(void) {
#if defined(ABORT)
  abort();
#elif defined(SEGV)
  *(volatile int *)8 = 1;
#elif defined(HANG)
  for (;;) pause();
#elif defined(EXIT)
  exit(0);
#elif defined(POLITE)
  return fail(HAL_ERROR_UNAVAILABLE, "driver libbroken.so.1 is missing");
#endif
  return HAL_OK;
}

#if defined(NO_DEVICES)
static hal_status count_none(uint32_t *out) { return fail(HAL_ERROR_UNAVAILABLE, "no card on the bus"); }
#endif
#if defined(IN_CONSTRUCTOR)
__attribute__((constructor)) static void crash(void) { abort(); }
#endif
#if defined(LATE_HANG)
static void hang_forever(void) {
  for (;;) pause();
}
#endif

#if defined(NO_SYMBOL)
HAL_EXPORT int some_other_symbol(void) {
  const hal_plugin_api *api;
  (void)broken_init;
  return toy_entry(NULL, &api);
}
#else
HAL_EXPORT hal_status hal_plugin_entry(const hal_host_api *host_api, const hal_plugin_api **out) {
  const hal_plugin_api *toy;
  toy_entry(host_api, &toy);
  broken = *toy;
  broken.id = FAULT;
  broken.init = broken_init;
#if defined(WRONG_MAJOR)
  broken.abi_major = HAL_ABI_MAJOR + 1;
#elif defined(NEWER_MINOR) /* longer structs than ours, with things in their tails: works */
  static struct {
    hal_plugin_api api;
    void *tail;
  } longer;
  static struct {
    hal_stream_api api;
    void *tail;
  } streams;
  streams.api = *toy->stream;
  streams.api.struct_size = sizeof streams;
  streams.tail = (void *)1;
  longer.api = broken;
  longer.api.struct_size = sizeof longer;
  longer.api.abi_minor = HAL_ABI_MINOR + 7;
  longer.api.stream = &streams.api;
  longer.tail = (void *)1;
  *out = &longer.api;
  return HAL_OK;
#elif defined(OLDER_TABLE) /* an older plugin's table ends after the last slot required then: works, though garbage follows */
  static hal_stream_api streams;
  streams = *toy->stream;
  streams.struct_size = offsetof(hal_stream_api, adopt);
  memset(&streams.adopt, 0x5a, sizeof streams - offsetof(hal_stream_api, adopt));
  broken.stream = &streams;
#elif defined(TRUNCATED)
  static hal_stream_api streams;
  streams = *toy->stream;
  streams.struct_size = offsetof(hal_stream_api, query) + 3;
  broken.stream = &streams;
#elif defined(NULL_SLOT)
  static hal_stream_api streams;
  streams = *toy->stream;
  streams.create = NULL;
  broken.stream = &streams;
#elif defined(NULL_TABLE)
  broken.event = NULL;
#elif defined(BAD_ID)
  broken.id = "Bad-Id";
#elif defined(NULL_API)
  *out = NULL;
  return HAL_OK;
#elif defined(NO_DEVICES)
  static hal_device_api devices;
  devices = *toy->device;
  devices.count = count_none;
  broken.device = &devices;
#elif defined(LATE_HANG)
  broken.deinit = hang_forever;
#elif defined(SECOND_HOST)
  broken.roles = HAL_ROLE_HOST;
#elif defined(TWIN)
  broken.id = "toy";
#elif defined(OTHER_NAME)
  broken.id = "renamed";
#endif
  *out = &broken;
  return HAL_OK;
}
#endif
