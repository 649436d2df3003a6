// Breaks one rule of the ABI after another against the plugin named in argv[1], whose tables are wrapped (HAL_VALIDATE=1), and prints
// what each call answered: "<name>|<status>|<text>". test_loader_validate.py knows what to expect.
#include <cstdio>
#include <cstring>

#include "plugin_loader.hpp"

namespace {

void show(const char *name, hal_status status) {
  std::printf("%s|%s|%s\n", name, hal::status_name(status), hal::take_error_text().c_str());
}

hal_operand vector_operand(int64_t n, uint32_t flags) {
  hal_operand o{};
  o.struct_size = sizeof o;
  o.flags = flags;
  o.dtype = HAL_F32;
  o.rank = 1;
  o.dims[0] = n;
  o.strides[0] = 1;
  return o;
}

}  // namespace

int main(int, char **argv) {
  const auto plugin = hal::load_plugin(argv[1]);
  const hal::Plugin &p = *plugin;
  hal_device *device = nullptr;
  hal_stream *stream = nullptr;
  hal_memory *memory = nullptr;
  hal_event *event = nullptr;
  char host[64] = {};

  show("open", p.device.open(0, "", &device));
  show("open_twice", p.device.open(0, "", &device));
  hal_device_properties properties{};
  properties.struct_size = sizeof properties;
  show("properties", p.device.properties(device, &properties));
  show("stream", p.stream.create(device, 0, &stream));
  show("foreign_device", p.stream.create(reinterpret_cast<hal_device *>(host), 0, &stream));
  show("alloc", p.memory.alloc(device, HAL_MEMORY_DEVICE, 64, 16, &memory));
  show("alloc_zero", p.memory.alloc(device, HAL_MEMORY_DEVICE, 0, 16, &memory));
  show("alloc_alignment", p.memory.alloc(device, HAL_MEMORY_DEVICE, 64, 24, &memory));

  show("copy", p.memory.copy_from_host(stream, {memory, {0}}, host, 64));
  show("copy_past_end", p.memory.copy_from_host(stream, {memory, {8}}, host, 64));
  show("copy_wraps", p.memory.copy_to_host(stream, host, {memory, {UINT64_MAX - 7}}, 16));
  show("copy_null_memory", p.memory.copy(stream, {memory, {0}}, {nullptr, {0}}, 8));

  show("event", p.event.create(device, 0, &event));
  show("elapsed_untimed", p.event.elapsed ? p.event.elapsed(event, event, nullptr) : HAL_ERROR_UNSUPPORTED);
  p.event.destroy(event);
  show("event_destroyed", p.event.record(event, stream));

  hal_operand operands[3] = {vector_operand(4, 0), vector_operand(4, 0), vector_operand(4, HAL_OPERAND_OUTPUT)};
  hal_op op{};
  op.struct_size = sizeof op;
  op.name = "add";
  op.num_inputs = 2;
  op.num_outputs = 1;
  op.operands = operands;
  hal_executable *executable = nullptr;
  uint64_t workspace = 0;
  show("prepare", p.kernel.prepare(device, &op, &executable, &workspace));
  operands[2].flags = 0;
  show("prepare_flags", p.kernel.prepare(device, &op, &executable, &workspace));
  operands[2].flags = HAL_OPERAND_OUTPUT;
  operands[0].rank = 99;
  show("prepare_rank", p.kernel.prepare(device, &op, &executable, &workspace));

  hal_buffer buffers[3] = {{memory, {0}}, {memory, {16}}, {memory, {32}}};
  hal_launch launch{};
  launch.struct_size = sizeof launch;
  launch.num_buffers = 3;
  launch.buffers = buffers;
  show("launch", p.kernel.launch(stream, executable, &launch));
  buffers[2].offset = 52;
  show("launch_past_end", p.kernel.launch(stream, executable, &launch));
  buffers[2].offset = 34;
  show("launch_offset", p.kernel.launch(stream, executable, &launch));
  buffers[2].offset = 32;
  launch.num_buffers = 2;
  show("launch_count", p.kernel.launch(stream, executable, &launch));
  launch.num_buffers = 3;
  p.kernel.release(device, executable);
  show("launch_released", p.kernel.launch(stream, executable, &launch));

  p.memory.free(device, memory);
  show("copy_freed", p.memory.copy_from_host(stream, {memory, {0}}, host, 8));
  p.memory.free(device, memory);  // reported on stderr, not passed on
  p.device.close(device);         // the stream leaks
  show("closed", p.stream.create(device, 0, &stream));
  return 0;
}
