// A host in miniature: loads the plugin through the C ABI alone, and runs named checks on it.
#pragma once

#include <hal/ops.h>
#include <hal/plugin.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace driver {

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) ::driver::failed(__FILE__, __LINE__, #condition); \
  } while (0)
#define CHECK_STATUS(call, expected) ::driver::check_status(__FILE__, __LINE__, #call, (call), (expected))
#define CHECK_OK(call) CHECK_STATUS(call, HAL_OK)

[[noreturn]] void failed(const char *file, int line, const std::string &what);
void check_status(const char *file, int line, const char *call, hal_status got, hal_status expected);

extern const hal_plugin_api *plugin;
extern hal_device *device;
extern int pool_threads;  // of the toy host's parallel_for

std::string error_text();  // what the plugin set last on this thread

struct Check {
  Check(const char *name, void (*run)());
};
#define DEFINE_CHECK(name)                                             \
  static void check_##name();                                          \
  static const ::driver::Check registered_##name(#name, check_##name); \
  static void check_##name()

uint32_t size_of(hal_dtype dtype);
hal_operand tensor(hal_dtype dtype, std::vector<int64_t> dims, std::vector<int64_t> strides, bool output = false);
hal_operand contiguous(hal_dtype dtype, std::vector<int64_t> dims, bool output = false);
hal_operand immediate(hal_dtype dtype);

hal_executable *prepare(const char *name, const std::vector<hal_operand> &operands, uint32_t inputs, const void *attributes = nullptr);
hal_status try_prepare(const char *name, const std::vector<hal_operand> &operands, uint32_t inputs, hal_executable **out,
                       const void *attributes = nullptr);
hal_status launch(hal_stream *stream, hal_executable *executable, const std::vector<hal_buffer> &buffers, const char *label = "label");

// Memory of the device; host visible.
class Memory {
 public:
  explicit Memory(uint64_t size);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  template <class T>
  T *as() const {
    return static_cast<T *>(data_);
  }
  hal_buffer at(uint64_t offset = 0) const {
    hal_buffer b;
    b.memory = memory_;
    b.offset = offset;
    return b;
  }
  hal_memory *handle() const { return memory_; }

 private:
  hal_memory *memory_ = nullptr;
  void *data_ = nullptr;
};

template <class T>
hal_buffer value(T v) {
  hal_buffer b;
  b.memory = nullptr;
  b.immediate = 0;
  std::memcpy(&b.immediate, &v, sizeof v);
  return b;
}

}  // namespace driver
