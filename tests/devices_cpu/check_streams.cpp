// Streams and events: order, asynchrony, poison, time limits, fork, floating-point mode.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "driver.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

using namespace driver;

namespace {

constexpr uint64_t kMillisecond = 1000000;

struct Stream {
  Stream() { CHECK_OK(plugin->stream->create(device, 0, &handle)); }
  ~Stream() {
    if (handle != nullptr) plugin->stream->destroy(handle);
  }
  Stream(const Stream &) = delete;
  hal_status query() { return plugin->stream->query(handle); }
  hal_status synchronize(uint64_t ns = HAL_TIMEOUT_INFINITE) { return plugin->stream->synchronize(handle, ns); }
  hal_status wait(hal_event *e) { return plugin->stream->wait_event(handle, e); }
  hal_error_info error() {
    hal_error_info info{};
    info.struct_size = sizeof info;
    CHECK_OK(plugin->stream->get_error(handle, &info));
    return info;
  }
  hal_stream *handle = nullptr;
};

struct Event {
  explicit Event(uint32_t flags = 0) { CHECK_OK(plugin->event->create(device, flags, &handle)); }
  ~Event() {
    if (handle != nullptr) plugin->event->destroy(handle);
  }
  Event(const Event &) = delete;
  hal_status record(Stream &s) { return plugin->event->record(handle, s.handle); }
  hal_status query() { return plugin->event->query(handle); }
  hal_status synchronize(uint64_t ns = HAL_TIMEOUT_INFINITE) { return plugin->event->synchronize(handle, ns); }
  hal_status signal(hal_status status = HAL_OK) { return plugin->event->signal(handle, status); }
  void destroy() {
    plugin->event->destroy(handle);
    handle = nullptr;
  }
  hal_event *handle = nullptr;
};

struct Gate : Event {
  Gate() : Event(HAL_EVENT_HOST_SIGNALLED) {}
};

// x += step on 16 floats.
struct Add {
  Add() : memory(64), executable(prepare("add", {contiguous(HAL_F32, {16}), immediate(HAL_F32), contiguous(HAL_F32, {16}, true)}, 2)) {
    for (int i = 0; i < 16; ++i) x(i) = 0;
  }
  ~Add() { plugin->kernel->release(device, executable); }
  float &x(int i) { return memory.as<float>()[i]; }
  hal_status operator()(Stream &s, float step = 1) {
    return launch(s.handle, executable, {memory.at(), value(step), memory.at()}, "add one");
  }
  Memory memory;
  hal_executable *executable;
};

}  // namespace

DEFINE_CHECK(idle_stream_runs_inline) {
  Stream s;
  Add add;
  CHECK_OK(s.query());
  CHECK_OK(add(s));
  CHECK(add.x(0) == 1 && add.x(15) == 1);  // done when launch returned
  CHECK_OK(s.query());
  CHECK_OK(s.synchronize());
}

DEFINE_CHECK(blocked_stream_is_asynchronous_and_in_order) {
  Stream s;
  Gate gate;
  Add add;
  CHECK_STATUS(gate.query(), HAL_NOT_READY);
  CHECK_OK(s.wait(gate.handle));
  CHECK_STATUS(s.query(), HAL_NOT_READY);
  for (int i = 0; i < 100; ++i) CHECK_OK(add(s));
  float host[16] = {}, source[16];
  for (float &v : source) v = 1000;
  CHECK_OK(plugin->memory->copy_to_host(s.handle, host, add.memory.at(), 64));  // sees 100
  CHECK_OK(plugin->memory->copy_from_host(s.handle, add.memory.at(), source, 64));
  for (float &v : source) v = -1;  // staged: too late to matter
  CHECK_OK(add(s));
  CHECK(add.x(0) == 0);
  CHECK_STATUS(s.synchronize(20 * kMillisecond), HAL_ERROR_TIMEOUT);
  CHECK_STATUS(s.synchronize(0), HAL_ERROR_TIMEOUT);
  CHECK_OK(gate.signal());
  CHECK_STATUS(gate.signal(), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_OK(s.synchronize());
  CHECK_OK(s.query());
  CHECK(host[0] == 100 && host[15] == 100 && add.x(0) == 1001);
  CHECK_OK(add(s));  // inline again
  CHECK(add.x(0) == 1002);
}

DEFINE_CHECK(copy_and_fill_in_stream_order) {
  Stream s;
  Gate gate;
  Memory m(64);
  for (int i = 0; i < 64; ++i) m.as<uint8_t>()[i] = uint8_t(i);
  CHECK_OK(s.wait(gate.handle));
  CHECK_OK(plugin->memory->copy(s.handle, m.at(8), m.at(0), 32));  // overlaps: memmove
  const uint16_t pattern = 0xabcd;
  CHECK_OK(plugin->memory->fill(s.handle, m.at(0), 6, &pattern, 2));
  CHECK(m.as<uint8_t>()[8] == 8);
  CHECK_OK(gate.signal());
  CHECK_OK(s.synchronize());
  for (int i = 8; i < 40; ++i) CHECK(m.as<uint8_t>()[i] == i - 8);
  CHECK(m.as<uint16_t>()[2] == 0xabcd && m.as<uint8_t>()[6] == 6);
  CHECK_STATUS(plugin->memory->fill(s.handle, m.at(0), 6, &pattern, 3), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(plugin->memory->copy(s.handle, m.at(60), m.at(0), 5), HAL_ERROR_INVALID_ARGUMENT);
  Memory big(5 << 20);
  const uint64_t eight = 0x0102030405060708;
  CHECK_OK(plugin->memory->fill(s.handle, big.at(8), (5 << 20) - 16, &eight, 8));
  for (int i = 1; i < (5 << 17) - 1; ++i) CHECK(big.as<uint64_t>()[i] == eight);
}

DEFINE_CHECK(events_order_streams) {
  Stream a, b;
  Gate gate;
  Event recorded;
  Add add;
  CHECK_OK(recorded.query());  // never recorded: done
  CHECK_OK(recorded.synchronize());
  CHECK_OK(b.wait(recorded.handle));
  CHECK_OK(b.query());
  CHECK_OK(a.wait(gate.handle));
  CHECK_OK(add(a));
  CHECK_OK(recorded.record(a));
  CHECK_OK(b.wait(recorded.handle));
  CHECK_OK(add(b, 10));
  CHECK_STATUS(recorded.query(), HAL_NOT_READY);
  CHECK_STATUS(recorded.synchronize(kMillisecond), HAL_ERROR_TIMEOUT);
  CHECK_STATUS(b.query(), HAL_NOT_READY);
  CHECK_OK(gate.signal());
  CHECK_OK(b.synchronize());
  CHECK_OK(recorded.query());
  CHECK(add.x(3) == 11);
  CHECK_OK(a.synchronize());
  CHECK_STATUS(gate.record(a), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(recorded.signal(), HAL_ERROR_INVALID_ARGUMENT);
  hal_event *unknown = nullptr;
  CHECK_STATUS(plugin->event->create(device, 1u << 9, &unknown), HAL_ERROR_UNSUPPORTED);
}

DEFINE_CHECK(recording_again_keeps_earlier_waits) {
  Stream a, b;
  Gate first, second;
  Event e;
  Add add;
  CHECK_OK(a.wait(first.handle));
  CHECK_OK(e.record(a));
  CHECK_OK(b.wait(e.handle));  // for the first point
  CHECK_OK(add(b));
  CHECK_OK(a.wait(second.handle));
  CHECK_OK(e.record(a));
  CHECK_OK(first.signal());
  CHECK_OK(b.synchronize());
  CHECK(add.x(0) == 1);
  CHECK_STATUS(e.query(), HAL_NOT_READY);
  CHECK_OK(second.signal());
  CHECK_OK(e.synchronize());
}

DEFINE_CHECK(streams_that_wait_on_each_other) {
  for (int round = 0; round < 200; ++round) {
    Stream a, b;
    Gate gate;
    Event ea, eb;
    Add add;
    CHECK_OK(a.wait(gate.handle));
    for (int i = 0; i < 4; ++i) {
      CHECK_OK(ea.record(a));
      CHECK_OK(b.wait(ea.handle));
      CHECK_OK(add(b));
      CHECK_OK(eb.record(b));
      CHECK_OK(a.wait(eb.handle));
      CHECK_OK(add(a));
    }
    CHECK_OK(gate.signal());
    CHECK_OK(a.synchronize(10000 * kMillisecond));
    CHECK_OK(b.synchronize(10000 * kMillisecond));
    CHECK(add.x(0) == 8);
  }
}

DEFINE_CHECK(inline_failure_is_returned) {
  Stream s;
  Add add;
  hal_launch l{};
  l.struct_size = sizeof l;
  CHECK_STATUS(plugin->kernel->launch(s.handle, add.executable, &l), HAL_ERROR_INVALID_ARGUMENT);
  CHECK(error_text().find("[add]") == 0);
  const Memory small(8);
  CHECK_STATUS(launch(s.handle, add.executable, {small.at(), value(1.0f), small.at()}), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(launch(s.handle, add.executable, {hal_buffer{}, value(1.0f), add.memory.at()}), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_OK(s.synchronize());  // not poisoned
  CHECK_OK(add(s));
}

DEFINE_CHECK(poison_from_a_host_event) {
  Stream a, b;
  Gate gate;
  Event after;
  Add add;
  CHECK_OK(a.wait(gate.handle));
  CHECK_OK(add(a));
  CHECK_OK(after.record(a));
  CHECK_OK(b.wait(after.handle));
  CHECK_OK(add(b));
  CHECK_OK(gate.signal(HAL_ERROR_LAUNCH_FAILED));
  CHECK_STATUS(a.synchronize(), HAL_ERROR_LAUNCH_FAILED);
  CHECK_STATUS(after.query(), HAL_ERROR_LAUNCH_FAILED);
  CHECK_STATUS(b.synchronize(), HAL_ERROR_LAUNCH_FAILED);
  CHECK(add.x(0) == 0);  // skipped in both
  CHECK(b.error().status == HAL_ERROR_LAUNCH_FAILED && b.error().label == nullptr && b.error().text[0] != 0);
  CHECK_OK(a.synchronize());  // reported once
  CHECK_OK(b.synchronize());
  CHECK_STATUS(after.synchronize(), HAL_ERROR_LAUNCH_FAILED);  // an event keeps it
  hal_error_info info{};
  info.struct_size = sizeof info;
  CHECK_OK(plugin->event->get_error(after.handle, &info));
  CHECK(info.status == HAL_ERROR_LAUNCH_FAILED);
  CHECK_OK(add(a));
  CHECK(add.x(0) == 1);
  CHECK_OK(a.wait(after.handle));  // idle stream, poisoned event: poisoned at once
  CHECK_OK(a.query());             // never reports a poison
  CHECK_OK(add(a));                // skipped
  Event later;
  CHECK_OK(later.record(a));
  CHECK_STATUS(later.query(), HAL_ERROR_LAUNCH_FAILED);
  CHECK_STATUS(a.synchronize(), HAL_ERROR_LAUNCH_FAILED);
  CHECK(add.x(0) == 1);
}

// A kernel that fails while it runs: a target out of range.
DEFINE_CHECK(poison_from_a_queued_kernel) {
  Stream s;
  Gate gate;
  Add add;
  Memory x(4 * 4), target(8 * 2), out(4 * 2);
  target.as<int64_t>()[0] = 0;
  target.as<int64_t>()[1] = 2;
  hal_attributes_nll_loss attributes{};
  attributes.struct_size = sizeof attributes;
  attributes.ignore_index = -100;
  hal_executable *loss = nullptr;
  const hal_status status = try_prepare("nll_loss", {contiguous(HAL_F32, {2, 2}), contiguous(HAL_I64, {2}), contiguous(HAL_F32, {2}, true)},
                                        2, &loss, &attributes);
  CHECK_STATUS(status, HAL_OK);
  CHECK_STATUS(launch(s.handle, loss, {x.at(), target.at(), out.at()}, "bad loss"), HAL_ERROR_INDEX);  // inline: returned
  CHECK_OK(s.synchronize());
  CHECK_OK(s.wait(gate.handle));
  CHECK_OK(add(s));
  CHECK_OK(launch(s.handle, loss, {x.at(), target.at(), out.at()}, "bad loss"));
  CHECK_OK(add(s));
  CHECK_OK(gate.signal());
  CHECK_STATUS(s.synchronize(), HAL_ERROR_INDEX);
  const hal_error_info info = s.error();
  CHECK(info.label != nullptr && std::string(info.label) == "bad loss" && std::string(info.text).find("[nll_loss]") == 0);
  CHECK(add.x(0) == 1);  // before the failure: ran; after it: skipped
  CHECK_OK(s.synchronize());
  CHECK_OK(add(s));
  CHECK(add.x(0) == 2);
  plugin->kernel->release(device, loss);
}

DEFINE_CHECK(destroying_what_is_waited_on) {
  Stream s;
  Add add;
  {
    Gate gate;
    Event e;
    Stream busy;
    CHECK_OK(busy.wait(gate.handle));
    CHECK_OK(add(busy));
    CHECK_OK(e.record(busy));
    CHECK_OK(s.wait(e.handle));
    CHECK_OK(add(s));
    e.destroy();                           // s keeps waiting for what it stood for
    plugin->stream->destroy(busy.handle);  // busy: its work still completes
    busy.handle = nullptr;
    CHECK_STATUS(s.query(), HAL_NOT_READY);
    CHECK_OK(gate.signal());
  }
  CHECK_OK(s.synchronize(10000 * kMillisecond));
  CHECK(add.x(0) == 2);
  {
    Gate never;
    CHECK_OK(s.wait(never.handle));
  }  // can't be signalled any more: fails, doesn't hang
  CHECK_STATUS(s.synchronize(10000 * kMillisecond), HAL_ERROR_LAUNCH_FAILED);
}

DEFINE_CHECK(many_threads_synchronise) {
  Stream s;
  Gate gate;
  Add add;
  CHECK_OK(s.wait(gate.handle));
  CHECK_OK(add(s));
  std::vector<std::thread> threads;
  std::atomic<int> ready{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      CHECK_OK(s.synchronize());
      CHECK(add.x(0) >= 1);
      ++ready;
    });
  CHECK(ready == 0);
  CHECK_OK(gate.signal());
  for (std::thread &t : threads) t.join();
  // Beside inline launches, query and synchronize are legal too.
  std::atomic<bool> stop{false};
  std::thread prober([&] {
    while (!stop) {
      const hal_status status = s.query();
      CHECK(status == HAL_OK || status == HAL_NOT_READY);
      CHECK_OK(s.synchronize());
    }
  });
  for (int i = 0; i < 20000; ++i) CHECK_OK(add(s));
  stop = true;
  prober.join();
  CHECK(add.x(0) == 20001);
}

DEFINE_CHECK(streams_in_many_threads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int round = 0; round < 50; ++round) {
        Stream a, b;
        Gate gate;
        Event e;
        Add add;
        CHECK_OK(a.wait(gate.handle));
        std::thread signaller([&] { CHECK_OK(gate.signal()); });
        for (int i = 0; i < 20; ++i) CHECK_OK(add(a));
        CHECK_OK(e.record(a));
        CHECK_OK(b.wait(e.handle));
        CHECK_OK(add(b));
        CHECK_OK(b.synchronize());
        CHECK(add.x(7) == 21);
        signaller.join();
      }
    });
  for (std::thread &t : threads) t.join();
}

DEFINE_CHECK(event_timing) {
  Stream s;
  Event start(HAL_EVENT_TIMING), end(HAL_EVENT_TIMING), plain;
  uint64_t ns = 0;
  CHECK_STATUS(plugin->event->elapsed(start.handle, end.handle, &ns), HAL_NOT_READY);
  CHECK_OK(start.record(s));
  Gate gate;
  CHECK_OK(s.wait(gate.handle));
  CHECK_OK(end.record(s));
  CHECK_STATUS(plugin->event->elapsed(start.handle, end.handle, &ns), HAL_NOT_READY);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_OK(gate.signal());
  CHECK_OK(end.synchronize());
  CHECK_OK(plugin->event->elapsed(start.handle, end.handle, &ns));
  CHECK(ns >= 20 * kMillisecond && ns < 10000 * kMillisecond);
  CHECK_OK(plain.record(s));
  CHECK_OK(plain.synchronize());
  CHECK_STATUS(plugin->event->elapsed(start.handle, plain.handle, &ns), HAL_NOT_READY);
}

DEFINE_CHECK(fork_leaves_no_hang) {
  Stream idle, worked, busy;
  Gate gate;
  Add add;
  {  // `worked` has a thread, but is idle
    Gate g;
    CHECK_OK(worked.wait(g.handle));
    CHECK_OK(add(worked));
    CHECK_OK(g.signal());
    CHECK_OK(worked.synchronize());
  }
  CHECK_OK(busy.wait(gate.handle));
  CHECK_OK(add(busy));
  Event recorded;
  CHECK_OK(recorded.record(busy));
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(20);  // a hang ends the child
    CHECK_OK(add(idle));
    CHECK_OK(add(worked));
    CHECK(add.x(0) == 3);
    CHECK_OK(idle.synchronize());
    CHECK_OK(worked.synchronize());
    CHECK_STATUS(add(busy), HAL_ERROR_UNAVAILABLE);
    CHECK(error_text().find("fork") != std::string::npos);
    CHECK_STATUS(busy.synchronize(), HAL_ERROR_UNAVAILABLE);
    CHECK_STATUS(recorded.synchronize(), HAL_ERROR_UNAVAILABLE);
    CHECK_STATUS(idle.wait(recorded.handle), HAL_ERROR_UNAVAILABLE);
    Gate fresh;
    CHECK_STATUS(worked.wait(fresh.handle), HAL_ERROR_UNAVAILABLE);
    {
      Stream made_here;
      CHECK_OK(made_here.wait(fresh.handle));
      CHECK_OK(add(made_here));
      CHECK_OK(fresh.signal());
      CHECK_OK(made_here.synchronize());
      CHECK(add.x(0) == 4);
    }
    plugin->stream->destroy(busy.handle);
    plugin->stream->destroy(worked.handle);
    plugin->stream->destroy(idle.handle);
    plugin->event->destroy(gate.handle);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_OK(gate.signal());
  CHECK_OK(busy.synchronize());
  CHECK(add.x(0) == 2);
}

#if defined(__SSE__)
DEFINE_CHECK(flush_to_zero_of_the_caller_does_not_matter) {
  Stream s;
  Gate gate;
  Add add;
  const unsigned before = _mm_getcsr();
  const unsigned flushing = before | 0x8040 | 0x6000;  // FTZ, DAZ, round towards zero
  const float tiny = 1e-40f;
  CHECK_OK(s.query());
  _mm_setcsr(flushing);
  const hal_status inline_status = add(s, tiny);
  const unsigned after = _mm_getcsr();
  CHECK_OK(s.wait(gate.handle));
  const hal_status queued_status = add(s, tiny);
  CHECK_OK(gate.signal());
  CHECK_OK(s.synchronize());
  _mm_setcsr(before);
  CHECK_OK(inline_status);
  CHECK_OK(queued_status);
  CHECK((after & ~0x3fu) == (flushing & ~0x3fu));  // put back
  CHECK(add.x(0) == tiny + tiny && add.x(0) != 0);
}
#endif

DEFINE_CHECK(prepare_rejects_bad_operands) {
  hal_executable *e = nullptr;
  const hal_operand f = contiguous(HAL_F32, {4}), out = contiguous(HAL_F32, {4}, true);
  CHECK_STATUS(try_prepare("no_such_op", {f, out}, 1, &e), HAL_ERROR_UNSUPPORTED);
  CHECK(error_text().find("[no_such_op]") == 0);
  CHECK_STATUS(try_prepare("add", {f, out}, 1, &e), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(try_prepare("add", {f, contiguous(HAL_F64, {4}), out}, 2, &e), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(try_prepare("add", {f, contiguous(HAL_F32, {3}), out}, 2, &e), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(try_prepare("exp", {contiguous(HAL_I32, {4}), contiguous(HAL_I32, {4}, true)}, 1, &e), HAL_ERROR_UNSUPPORTED);
  CHECK_STATUS(try_prepare("neg", {contiguous(99, {4}), out}, 1, &e), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(try_prepare("neg", {contiguous(HAL_F32, {-1}), contiguous(HAL_F32, {-1}, true)}, 1, &e), HAL_ERROR_UNSUPPORTED);
  CHECK_STATUS(try_prepare("neg", {contiguous(HAL_F32, {-7}), contiguous(HAL_F32, {-7}, true)}, 1, &e), HAL_ERROR_INVALID_ARGUMENT);
  const int64_t huge = INT64_MAX / 2;
  CHECK_STATUS(try_prepare("neg", {tensor(HAL_F32, {4}, {huge}), out}, 1, &e), HAL_ERROR_INVALID_ARGUMENT);
  hal_operand opaque = f;
  opaque.layout = HAL_LAYOUT_OPAQUE;
  CHECK_STATUS(try_prepare("neg", {opaque, out}, 1, &e), HAL_ERROR_UNSUPPORTED);
  CHECK(e == nullptr);
}

DEFINE_CHECK(device_and_memory) {
  hal_device *other = nullptr;
  CHECK_STATUS(plugin->device->open(1, "", &other), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(plugin->device->open(0, "colour=red", &other), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(plugin->device->open(0, "isa=mmx", &other), HAL_ERROR_INVALID_ARGUMENT);
  CHECK(error_text().find("baseline") != std::string::npos);
  struct {
    hal_device_properties known;
    char beyond[64];
  } p;
  std::memset(&p, 0x5a, sizeof p);
  p.known.struct_size = offsetof(hal_device_properties, total_memory);  // an older host
  CHECK_OK(plugin->device->properties(device, &p.known));
  CHECK(p.known.name[0] != 0 && p.known.compute_units >= 1 && (p.known.capabilities & HAL_CAP_FMA) != 0);
  CHECK(p.known.total_memory == 0x5a5a5a5a5a5a5a5a);
  uint64_t free_bytes = 0, total = 0;
  CHECK_OK(plugin->device->memory_info(device, &free_bytes, &total));
  CHECK(free_bytes > 0 && free_bytes <= total);
  hal_memory *m = nullptr;
  CHECK_STATUS(plugin->memory->alloc(device, HAL_MEMORY_DEVICE, UINT64_MAX / 2, 64, &m), HAL_ERROR_OUT_OF_MEMORY);
  CHECK_STATUS(plugin->memory->alloc(device, HAL_MEMORY_DEVICE, 0, 64, &m), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_STATUS(plugin->memory->alloc(device, HAL_MEMORY_DEVICE, 64, 3, &m), HAL_ERROR_INVALID_ARGUMENT);
  CHECK_OK(plugin->memory->alloc(device, HAL_MEMORY_HOST_PINNED, 100, 4096, &m));
  void *address = nullptr;
  CHECK_OK(plugin->memory->host_pointer(device, m, &address));
  CHECK(reinterpret_cast<uintptr_t>(address) % 4096 == 0);
  plugin->memory->free(device, m);
  float mine[4] = {1, 2, 3, 4};
  CHECK_OK(plugin->memory->adopt(device, mine, sizeof mine, &m));
  CHECK_OK(plugin->memory->host_pointer(device, m, &address));
  CHECK(address == mine);
  plugin->memory->free(device, m);
}

// Run with options or an environment that ask for them.
DEFINE_CHECK(runs_baseline_kernels) {
  hal_device_properties p{};
  p.struct_size = sizeof p;
  CHECK_OK(plugin->device->properties(device, &p));
  CHECK(std::string(p.driver).find("baseline") != std::string::npos);
}
