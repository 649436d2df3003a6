// A device that checks the runtime's side of the ABI: asynchronous (a thread per stream), not host visible, operands aligned to 256 bytes,
// kernels with every flag. What breaks a rule is printed and counted; tests read the counters through picky_counter.
#include <hal/hal.h>
#include <hal/ops.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static const hal_host_api *host;
static std::atomic<int64_t> violations{0}, prepared_add{0}, prepared_neg{0}, prepared_mul{0}, refused_mul{0}, executables{0}, memories{0};

#define REQUIRE(condition, text) ((condition) ? (void)0 : (void)(++violations, std::fprintf(stderr, "picky: %s\n", text)))

static hal_status fail(hal_status status, const char *text) {
  host->set_error_text(text);
  return status;
}

struct State {  // of one recording of an event
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  void finish() {
    std::lock_guard<std::mutex> lock(mutex);
    done = true;
    changed.notify_all();
  }
  bool wait(uint64_t timeout_ns) {
    std::unique_lock<std::mutex> lock(mutex);
    if (timeout_ns > 1000000000000u) return changed.wait(lock, [&] { return done; }), true;
    return changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return done; });
  }
};
struct hal_device {
  int unused;
};
struct hal_memory {
  std::vector<char> data;
  std::atomic<int> in_flight{0};
};
struct hal_event {
  uint32_t flags;
  std::shared_ptr<State> state;
};
struct hal_stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false, stop = false;
  std::atomic<int> submitting{0};
  std::thread thread{[this] { loop(); }};
  void loop() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || !queue.empty(); });
      if (queue.empty()) return;
      auto work = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
  void submit(std::function<void()> work) {
    REQUIRE(submitting.fetch_add(1) == 0, "two threads submit to one stream at once");
    {
      std::lock_guard<std::mutex> lock(mutex);
      queue.push_back(std::move(work));
      changed.notify_all();
    }
    submitting.fetch_sub(1);
  }
};
enum Kind { ADD, NEG, MUL, COPY };
struct hal_executable {  // never deleted, so that a use after release is seen
  Kind kind;
  bool fast, released = false;
  std::atomic<int> in_flight{0};
  std::vector<hal_operand> operands;
};

static hal_status device_count(uint32_t *out) { return *out = 1, HAL_OK; }
static hal_status device_open(uint32_t, const char *, hal_device **out) { return *out = new hal_device{0}, HAL_OK; }
static void device_close(hal_device *device) {
  REQUIRE(executables == 0, "executables are left at close");
  REQUIRE(memories == 0, "memory is left at close");
  delete device;
}
static hal_status device_properties(hal_device *, hal_device_properties *out) {
  hal_device_properties p{};
  p.struct_size = out->struct_size;
  p.capabilities = HAL_CAP_ASYNC | HAL_CAP_HOST_SIGNAL | HAL_CAP_EMULATED;
  p.total_memory = uint64_t(1) << 30;
  p.memory_alignment = 64;
  p.offset_alignment = 256;
  std::strcpy(p.name, "picky");
  std::memcpy(out, &p, std::min<size_t>(sizeof(p), p.struct_size));
  return HAL_OK;
}
static hal_status device_memory_info(hal_device *, uint64_t *free_bytes, uint64_t *total) {
  return *free_bytes = *total = uint64_t(1) << 30, HAL_OK;
}

static hal_status memory_alloc(hal_device *, hal_memory_kind, uint64_t size, uint64_t, hal_memory **out) {
  *out = new hal_memory;
  (*out)->data.resize(size, char(0x5a));
  ++memories;
  return HAL_OK;
}
static void memory_free(hal_device *, hal_memory *memory) {
  REQUIRE(memory->in_flight == 0, "memory is freed while work uses it");
  --memories;
  delete memory;
}
static char *at(hal_buffer b) { return b.memory->data.data() + b.offset; }
static void check_range(hal_buffer b, uint64_t size) {
  REQUIRE(b.offset + size <= b.memory->data.size(), "a copy reaches outside its memory");
}
static hal_status copy_from_host(hal_stream *stream, hal_buffer dst, const void *src, uint64_t size) {
  check_range(dst, size);
  auto staged = std::make_shared<std::vector<char>>(static_cast<const char *>(src), static_cast<const char *>(src) + size);
  ++dst.memory->in_flight;
  stream->submit([=] { std::memcpy(at(dst), staged->data(), size), --dst.memory->in_flight; });
  return HAL_OK;
}
static hal_status copy_to_host(hal_stream *stream, void *dst, hal_buffer src, uint64_t size) {
  check_range(src, size);
  ++src.memory->in_flight;
  stream->submit([=] { std::memcpy(dst, at(src), size), --src.memory->in_flight; });
  return HAL_OK;
}
static hal_status copy(hal_stream *stream, hal_buffer dst, hal_buffer src, uint64_t size) {
  check_range(src, size), check_range(dst, size);
  ++src.memory->in_flight, ++dst.memory->in_flight;
  stream->submit([=] { std::memmove(at(dst), at(src), size), --src.memory->in_flight, --dst.memory->in_flight; });
  return HAL_OK;
}

static hal_status stream_create(hal_device *, int32_t, hal_stream **out) { return *out = new hal_stream, HAL_OK; }
static void stream_destroy(hal_stream *stream) {
  {
    std::lock_guard<std::mutex> lock(stream->mutex);
    stream->stop = true;
    stream->changed.notify_all();
  }
  stream->thread.join();
  delete stream;
}
static hal_status stream_query(hal_stream *stream) {
  std::lock_guard<std::mutex> lock(stream->mutex);
  return stream->queue.empty() && !stream->busy ? HAL_OK : HAL_NOT_READY;
}
static hal_status stream_synchronize(hal_stream *stream, uint64_t timeout_ns) {
  auto idle = [&] { return stream->queue.empty() && !stream->busy; };
  std::unique_lock<std::mutex> lock(stream->mutex);
  if (timeout_ns > 1000000000000u) return stream->changed.wait(lock, idle), HAL_OK;
  return stream->changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), idle) ? HAL_OK : HAL_ERROR_TIMEOUT;
}
static hal_status stream_get_error(hal_stream *, hal_error_info *) { return HAL_OK; }
static hal_status stream_wait_event(hal_stream *stream, hal_event *event) {
  auto state = event->state;
  if (state) stream->submit([=] { state->wait(UINT64_MAX); });
  return HAL_OK;
}

static hal_status event_create(hal_device *, uint32_t flags, hal_event **out) {
  *out = new hal_event{flags, flags & HAL_EVENT_HOST_SIGNALLED ? std::make_shared<State>() : nullptr};
  return HAL_OK;
}
static void event_destroy(hal_event *event) { delete event; }
static hal_status event_record(hal_event *event, hal_stream *stream) {
  auto state = event->state = std::make_shared<State>();
  stream->submit([=] { state->finish(); });
  return HAL_OK;
}
static hal_status event_synchronize(hal_event *event, uint64_t timeout_ns) {
  return !event->state || event->state->wait(timeout_ns) ? HAL_OK : HAL_ERROR_TIMEOUT;
}
static hal_status event_query(hal_event *event) { return !event->state || event->state->wait(0) ? HAL_OK : HAL_NOT_READY; }
static hal_status event_signal(hal_event *event, hal_status) {
  if (event->state->wait(0)) return fail(HAL_ERROR_INVALID_ARGUMENT, "signalled already");
  return event->state->finish(), HAL_OK;
}

static const uint32_t F32 = HAL_DTYPE_BIT(HAL_F32);
static hal_kernel_info row(const char *op, uint32_t flags, hal_numerics numerics) {
  return {sizeof(hal_kernel_info), flags, op, F32, numerics, HAL_KERNEL_NATIVE, 0};
}
static hal_status kernel_list(hal_device *, const hal_kernel_info **rows, uint32_t *count) {
  static const hal_kernel_info table[] = {row("add", HAL_KERNEL_CONTIGUOUS | HAL_KERNEL_DYNAMIC_SHAPES, HAL_NUMERICS_REPRODUCIBLE),
                                          row("neg", HAL_KERNEL_CONTIGUOUS, HAL_NUMERICS_REPRODUCIBLE),
                                          row("mul", 0, HAL_NUMERICS_REPRODUCIBLE), row("mul", 0, HAL_NUMERICS_FAST),
                                          row("copy", 0, HAL_NUMERICS_REPRODUCIBLE)};
  *rows = table;
  *count = sizeof(table) / sizeof(table[0]);
  return HAL_OK;
}
static bool contiguous(const hal_operand &o) {
  int64_t expected = 1;
  for (int d = int(o.rank) - 1; d >= 0; expected *= o.dims[d--])
    if (o.dims[d] != 1 && o.strides[d] != expected) return false;
  return true;
}
static hal_status kernel_prepare(hal_device *, const hal_op *op, hal_executable **out, uint64_t *workspace) {
  const std::string name = op->name;
  const Kind kind = name == "add" ? ADD : name == "neg" ? NEG : name == "mul" ? MUL : COPY;
  for (uint32_t i = 0; i < op->num_inputs + op->num_outputs; ++i) {
    const hal_operand &o = op->operands[i];
    if (o.flags & HAL_OPERAND_IMMEDIATE) continue;
    if (kind == NEG) REQUIRE(contiguous(o), "neg: a contiguous kernel is given strides");
    for (uint32_t d = 0; kind == ADD && d < o.rank; ++d) REQUIRE(o.dims[d] == HAL_DIM_DYNAMIC, "add: dims must be dynamic");
  }
  if (kind == MUL && op->operands[0].rank > 1) return ++refused_mul, fail(HAL_ERROR_UNSUPPORTED, "mul takes vectors only");
  ++(kind == ADD ? prepared_add : kind == NEG ? prepared_neg : prepared_mul);
  ++executables;
  *out = new hal_executable{kind, op->numerics == HAL_NUMERICS_FAST, false, {0}, {}};
  (*out)->operands.assign(op->operands, op->operands + op->num_inputs + op->num_outputs);
  *workspace = kind == NEG ? 64 : 0;
  return HAL_OK;
}
static void kernel_release(hal_device *, hal_executable *executable) {
  REQUIRE(executable->in_flight == 0, "an executable is released in flight");
  REQUIRE(!executable->released, "an executable is released twice");
  executable->released = true;
  --executables;
}
static int64_t place(const hal_operand &o, int64_t index) {
  int64_t offset = 0;
  for (int d = int(o.rank) - 1; d >= 0; index /= o.dims[d--]) offset += index % o.dims[d] * o.strides[d];
  return offset;
}
static hal_status kernel_launch(hal_stream *stream, hal_executable *executable, const hal_launch *args) {
  REQUIRE(!executable->released, "a released executable is launched");
  REQUIRE((args->operands != nullptr) == (executable->kind == ADD), "descriptors must come with dynamic launches, and only with them");
  REQUIRE((args->workspace.memory != nullptr) == (executable->kind == NEG), "workspace as prepare asked");
  std::vector<hal_operand> operands = executable->operands;
  if (args->operands) operands.assign(args->operands, args->operands + args->num_buffers);
  std::vector<hal_buffer> buffers(args->buffers, args->buffers + args->num_buffers);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].memory) continue;
    REQUIRE(buffers[i].offset % 256 == 0, "an operand's offset isn't aligned");
    if (executable->kind == ADD) REQUIRE(contiguous(operands[i]), "add: a contiguous kernel is given strides");
    ++buffers[i].memory->in_flight;
  }
  const hal_buffer workspace = args->workspace;
  if (workspace.memory) ++workspace.memory->in_flight;
  ++executable->in_flight;
  stream->submit([=] {
    const hal_operand &out = operands.back();
    int64_t count = 1;
    for (uint32_t d = 0; d < out.rank; ++d) count *= out.dims[d];
    auto value = [&](size_t i, int64_t k) {
      float x;
      std::memcpy(
          &x, buffers[i].memory ? at(buffers[i]) + 4 * place(operands[i], k) : reinterpret_cast<const char *>(&buffers[i].immediate), 4);
      return x;
    };
    for (int64_t k = 0; k < count; ++k) {
      float y = value(0, k);
      if (executable->kind == ADD) y += value(1, k);
      if (executable->kind == MUL) y = y * value(1, k) + (executable->fast ? 1000.0f : 0.0f);
      if (executable->kind == NEG) y = -y;
      std::memcpy(at(buffers.back()) + 4 * place(out, k), &y, 4);
    }
    if (workspace.memory) std::memset(at(workspace), 0x77, 64), --workspace.memory->in_flight;
    for (const hal_buffer &b : buffers)
      if (b.memory) --b.memory->in_flight;
    --executable->in_flight;
  });
  return HAL_OK;
}

extern "C" HAL_EXPORT int64_t picky_counter(const char *name) {
  const std::string n = name;
  return n == "violations"     ? violations.load()
         : n == "prepared_add" ? prepared_add.load()
         : n == "prepared_neg" ? prepared_neg.load()
         : n == "prepared_mul" ? prepared_mul.load()
         : n == "refused_mul"  ? refused_mul.load()
         : n == "executables"  ? executables.load()
                               : -1;
}

extern "C" hal_status hal_plugin_entry(const hal_host_api *host_api, const hal_plugin_api **out) {
  host = host_api;
  static hal_device_api device{};
  device = {sizeof(device), device_count, device_open, device_close, device_properties, device_memory_info, nullptr, nullptr};
  static hal_memory_api memory{};
  memory.struct_size = sizeof(memory);
  memory.alloc = memory_alloc, memory.free = memory_free;
  memory.copy_from_host = copy_from_host, memory.copy_to_host = copy_to_host, memory.copy = copy;
  static hal_stream_api stream{};
  stream = {sizeof(stream),   stream_create,     stream_destroy, stream_query, stream_synchronize,
            stream_get_error, stream_wait_event, nullptr,        nullptr};
  static hal_event_api event{};
  event = {sizeof(event), event_create, event_destroy, event_record, event_query, event_synchronize, nullptr, event_signal, nullptr};
  static hal_kernel_api kernel{};
  kernel = {sizeof(kernel), kernel_list, nullptr, kernel_prepare, kernel_release, kernel_launch, nullptr};
  static hal_plugin_api api{};
  api.struct_size = sizeof(api);
  api.abi_major = HAL_ABI_MAJOR, api.abi_minor = HAL_ABI_MINOR, api.opset = HAL_OPSET_VERSION;
  api.id = "picky", api.version = "1";
  api.device = &device, api.memory = &memory, api.stream = &stream, api.event = &event, api.kernel = &kernel;
  *out = &api;
  return HAL_OK;
}
