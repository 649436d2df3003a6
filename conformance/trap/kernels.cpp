// Kernels: the host plugin's, run by a stream's worker on our memory.
#include <cstring>
#include <stdexcept>

#include "trap.hpp"

namespace trap {
namespace {

constexpr unsigned char kScratch = 0xE7;  // what a workspace holds at a launch

hal_status list(hal_device *device, const hal_kernel_info **rows, uint32_t *count) {
  return device->host.api->kernel->list(device->host.device, rows, count);
}

hal_status prepare(hal_device *device, const hal_op *op, hal_executable **out, uint64_t *workspace_size) {
  return guarded([&] {
    State &s = state();
    {
      std::lock_guard<std::mutex> lock(s.mutex);
      if (device->lost) return fail(HAL_ERROR_DEVICE_LOST, "injected: the device is lost");
      if (fires(kPrepareFault)) return fail(HAL_ERROR_OUT_OF_MEMORY, "injected: this prepare fails");
    }
    auto executable = std::make_unique<hal_executable>();
    const hal_status status = device->host.api->kernel->prepare(device->host.device, op, &executable->host, workspace_size);
    if (status != HAL_OK) return status;
    executable->name = op->name;
    executable->workspace_size = *workspace_size;
    const char *operand = reinterpret_cast<const char *>(op->operands);  // a newer runtime's are longer
    for (uint32_t i = 0; i < op->num_inputs + op->num_outputs; ++i) {
      const auto &o = *reinterpret_cast<const hal_operand *>(operand);
      executable->tensor.push_back((o.flags & (HAL_OPERAND_IMMEDIATE | HAL_OPERAND_ABSENT)) == 0);
      operand += o.struct_size;
    }
    std::lock_guard<std::mutex> lock(s.mutex);
    s.executables.insert(executable.get());
    *out = executable.release();
    return hal_status{HAL_OK};
  });
}

void release(hal_device *device, hal_executable *executable) {
  State &s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.executables.erase(executable) == 0) return violation_locked("an executable released twice");
  if (executable->in_flight != 0 && s.generation == 0) violation_locked("executable of " + executable->name + " released in flight");
  device->host.api->kernel->release(device->host.device, executable->host);
  delete executable;
}

// A launch's arguments, for later.
struct Arguments {
  std::vector<hal_buffer> buffers;
  hal_launch launch;
};

// Launches once more behind an event, so that the host plugin tells the failure through get_error.
std::string words_of_failure(hal_device *device, hal_stream *stream, hal_executable *executable, const hal_launch &launch) {
  const hal_plugin_api &api = *device->host.api;
  hal_error_info info{};
  info.struct_size = sizeof info;
  hal_event *gate = nullptr;
  if (api.event->create(device->host.device, HAL_EVENT_HOST_SIGNALLED, &gate) != HAL_OK) return "";
  const bool queued = api.stream->wait_event(stream, gate) == HAL_OK && api.kernel->launch(stream, executable, &launch) == HAL_OK;
  api.event->signal(gate, HAL_OK);
  if (api.stream->synchronize(stream, HAL_TIMEOUT_INFINITE) != HAL_OK && queued) api.stream->get_error(stream, &info);
  api.event->destroy(gate);
  return info.text;
}

FailurePtr run_on_host(hal_stream *stream, hal_executable *executable, const Arguments &arguments) {
  const hal_plugin_api &api = *stream->device->host.api;
  hal_launch launch = arguments.launch;
  launch.buffers = arguments.buffers.data();
  hal_status status = api.kernel->launch(stream->host, executable->host, &launch);
  std::string text;
  if (status != HAL_OK) {
    text = words_of_failure(stream->device, stream->host, executable->host, launch);
  } else {
    status = api.stream->synchronize(stream->host, HAL_TIMEOUT_INFINITE);
    if (status == HAL_OK) return nullptr;
    hal_error_info info{};
    info.struct_size = sizeof info;
    api.stream->get_error(stream->host, &info);
    text = info.text;
  }
  return std::make_shared<Failure>(Failure{status, launch.label, text});
}

hal_status launch(hal_stream *stream, hal_executable *executable, const hal_launch *args) {
  return guarded([&]() -> hal_status {
    State &s = state();
    Task task;
    const auto arguments = std::make_shared<Arguments>();
    arguments->launch = *args;
    const hal_buffer workspace = args->workspace;
    {
      std::lock_guard<std::mutex> lock(s.mutex);
      if (s.executables.count(executable) == 0) {
        violation_locked("launch of an executable that is not there");
        return HAL_ERROR_INVALID_ARGUMENT;
      }
      if (fires(kLaunchFault)) return fail(HAL_ERROR_INTERNAL, "injected: this launch is refused");
      if (args->num_buffers != executable->tensor.size()) return fail(HAL_ERROR_INVALID_ARGUMENT, "[trap] wrong number of buffers");
      const auto use = [&](hal_buffer buffer) {
        if (s.memories.count(buffer.memory) == 0) {
          violation_locked("launch of " + executable->name + " on memory that is not allocated");
          throw std::invalid_argument("[trap] the memory is not allocated");
        }
        task.uses.push_back(buffer.memory);
        buffer.memory = buffer.memory->host;
        return buffer;
      };
      for (uint32_t i = 0; i < args->num_buffers; ++i) {
        const hal_buffer &buffer = args->buffers[i];
        arguments->buffers.push_back(executable->tensor[i] && buffer.memory != nullptr ? use(buffer) : buffer);
      }
      if (workspace.memory != nullptr) arguments->launch.workspace = use(workspace);
      if (executable->workspace_size != 0 && (workspace.memory == nullptr || workspace.offset > workspace.memory->size ||
                                              executable->workspace_size > workspace.memory->size - workspace.offset)) {
        violation_locked("launch of " + executable->name + " without the workspace it asked for");
        return HAL_ERROR_INVALID_ARGUMENT;
      }
    }
    task.label = args->label;
    task.executable = executable;
    task.run = [stream, executable, arguments, workspace, uses = task.uses]() -> FailurePtr {
      Access access(uses);
      if (workspace.memory != nullptr) std::memset(workspace.memory->data + workspace.offset, kScratch, executable->workspace_size);
      return run_on_host(stream, executable, *arguments);
    };
    return enqueue(stream, std::move(task));
  });
}

}  // namespace

const hal_kernel_api kernel_api = {sizeof(hal_kernel_api), list, nullptr, prepare, release, launch, nullptr};

}  // namespace trap
