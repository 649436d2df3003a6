// usage: driver PLUGIN OPTIONS CHECK | driver PLUGIN OPTIONS --list
#include "driver.hpp"

#include <dlfcn.h>

#include <map>
#include <thread>

namespace driver {

const hal_plugin_api *plugin = nullptr;
hal_device *device = nullptr;
int pool_threads = 1;

namespace {

thread_local std::string t_error;
thread_local bool t_in_loop = false;

void parallel_for(int64_t n, int64_t grain, hal_loop_body body, void *context) {
  if (t_in_loop || pool_threads == 1 || n <= grain) return body(context, 0, n);
  const int64_t most = n / (grain < 1 ? 1 : grain), pieces = most < pool_threads ? (most < 1 ? 1 : most) : pool_threads;
  std::vector<std::thread> threads;
  for (int64_t p = 1; p < pieces; ++p)
    threads.emplace_back([=] {
      t_in_loop = true;
      body(context, n * p / pieces, n * (p + 1) / pieces);
    });
  t_in_loop = true;
  body(context, 0, n / pieces);
  t_in_loop = false;
  for (std::thread &t : threads) t.join();
}

const hal_host_api host = {sizeof(hal_host_api),
                           HAL_ABI_MAJOR,
                           HAL_ABI_MINOR,
                           [](const char *text) { t_error = text == nullptr ? "" : text; },
                           parallel_for,
                           [] { return pool_threads; },
                           [](int32_t, const char *text) { std::fprintf(stderr, "log: %s\n", text); }};

std::map<std::string, void (*)()> &checks() {
  static std::map<std::string, void (*)()> all;
  return all;
}

}  // namespace

void failed(const char *file, int line, const std::string &what) {
  std::fprintf(stderr, "%s:%d: failed: %s (last error text: %s)\n", file, line, what.c_str(), t_error.c_str());
  std::_Exit(1);
}

void check_status(const char *file, int line, const char *call, hal_status got, hal_status expected) {
  if (got != expected)
    failed(file, line, std::string(call) + ": got status " + std::to_string(got) + ", expected " + std::to_string(expected));
}

std::string error_text() { return t_error; }

Check::Check(const char *name, void (*run)()) { checks()[name] = run; }

uint32_t size_of(hal_dtype dtype) {
  static const uint32_t sizes[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return sizes[dtype];
}

hal_operand tensor(hal_dtype dtype, std::vector<int64_t> dims, std::vector<int64_t> strides, bool output) {
  hal_operand o{};
  o.struct_size = sizeof o;
  o.flags = output ? HAL_OPERAND_OUTPUT : 0;
  o.dtype = dtype;
  o.rank = uint32_t(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    o.dims[i] = dims[i];
    o.strides[i] = strides[i];
  }
  return o;
}

hal_operand contiguous(hal_dtype dtype, std::vector<int64_t> dims, bool output) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return tensor(dtype, dims, strides, output);
}

hal_operand immediate(hal_dtype dtype) {
  hal_operand o = tensor(dtype, {}, {});
  o.flags = HAL_OPERAND_IMMEDIATE;
  return o;
}

hal_status try_prepare(const char *name, const std::vector<hal_operand> &operands, uint32_t inputs, hal_executable **out,
                       const void *attributes) {
  hal_op op{};
  op.struct_size = sizeof op;
  op.opset = HAL_OPSET_VERSION;
  op.name = name;
  op.num_inputs = inputs;
  op.num_outputs = uint32_t(operands.size()) - inputs;
  op.operands = operands.data();
  op.attributes = attributes;
  uint64_t workspace = 0;
  return plugin->kernel->prepare(device, &op, out, &workspace);
}

hal_executable *prepare(const char *name, const std::vector<hal_operand> &operands, uint32_t inputs, const void *attributes) {
  hal_executable *executable = nullptr;
  const hal_status status = try_prepare(name, operands, inputs, &executable, attributes);
  if (status != HAL_OK) failed(name, 0, "prepare: status " + std::to_string(status));
  return executable;
}

hal_status launch(hal_stream *stream, hal_executable *executable, const std::vector<hal_buffer> &buffers, const char *label) {
  hal_launch l{};
  l.struct_size = sizeof l;
  l.num_buffers = uint32_t(buffers.size());
  l.buffers = buffers.data();
  l.label = label;
  return plugin->kernel->launch(stream, executable, &l);
}

Memory::Memory(uint64_t size) {
  CHECK_OK(plugin->memory->alloc(device, HAL_MEMORY_DEVICE, size == 0 ? 1 : size, 64, &memory_));
  CHECK_OK(plugin->memory->host_pointer(device, memory_, &data_));
}

Memory::~Memory() { plugin->memory->free(device, memory_); }

}  // namespace driver

int main(int argc, char **argv) {
  using namespace driver;
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s PLUGIN OPTIONS CHECK|--list\n", argv[0]);
    return 2;
  }
  if (std::string(argv[3]) == "--list") {
    for (const auto &check : checks()) std::puts(check.first.c_str());
    return 0;
  }
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) failed(__FILE__, __LINE__, dlerror());
  const auto entry = reinterpret_cast<hal_plugin_entry_fn>(dlsym(library, HAL_PLUGIN_ENTRY_NAME));
  CHECK(entry != nullptr);
  CHECK_OK(entry(&host, &plugin));
  CHECK_OK(plugin->init == nullptr ? HAL_OK : plugin->init());
  CHECK_OK(plugin->device->open(0, argv[2], &device));
  const auto found = checks().find(argv[3]);
  CHECK(found != checks().end());
  found->second();
  plugin->device->close(device);
  return 0;
}
