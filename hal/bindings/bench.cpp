// What the runtime itself costs, measured in C++.
#include <algorithm>
#include <chrono>

#include "bindings.hpp"
#include "device.hpp"
#include "operand.hpp"

namespace {

using Clock = std::chrono::steady_clock;

hal_operand vector_operand(uint32_t flags, int64_t n) {
  hal_operand o{};
  o.struct_size = sizeof(o);
  o.flags = flags;
  o.dtype = HAL_F32;
  o.rank = 1;
  o.dims[0] = n;
  o.strides[0] = 1;
  return o;
}

// Best of rounds short enough that some run undisturbed, n calls in all.
template <class Body>
double best_ns(int n, Body &&body) {
  double best = 1e30;
  const int length = std::max(1, std::min(n, 1000));
  for (int done = 0; done < n; done += length) {
    const auto start = Clock::now();
    for (int i = 0; i < length; ++i) body();
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count() / length);
  }
  return best;
}

// ns per launch of a prepared fill of one element, straight through the plugin's table.
double bench_noop_launch(const py::object &device_object, int n) {
  hal::Device &device = device_argument(device_object);
  hal::Stream &stream = device.current_stream();
  const hal::Plugin &plugin = device.plugin();
  hal_operand operands[2] = {vector_operand(HAL_OPERAND_IMMEDIATE, 1), vector_operand(HAL_OPERAND_OUTPUT, 1)};
  operands[0].rank = 0;
  hal_op op{};
  op.struct_size = sizeof(op);
  op.opset = HAL_OPSET_VERSION;
  op.name = "fill";
  op.num_inputs = op.num_outputs = 1;
  op.operands = operands;
  hal_executable *executable = nullptr;
  uint64_t workspace = 0;
  hal::take_error_text();
  hal::check(plugin.kernel.prepare(device.handle(), &op, &executable, &workspace), "fill");
  const hal::BufferPtr out = device.allocator().allocate(64, stream);
  const hal::BufferPtr scratch = device.allocator().allocate(workspace, stream);
  const hal_buffer buffers[2] = {{nullptr, {0}}, out->at(0)};
  hal_launch launch{};
  launch.struct_size = sizeof(launch);
  launch.num_buffers = 2;
  launch.buffers = buffers;
  if (workspace) launch.workspace = scratch->at(0);
  launch.label = "fill";
  hal_status status = HAL_OK;
  const double ns = best_ns(n, [&] { status |= plugin.kernel.launch(stream.handle(), executable, &launch); });
  stream.synchronize();
  plugin.kernel.release(device.handle(), executable);
  hal::check(status, "fill");
  return ns;
}

// ns per hal::run of an add of `elements` floats, all included.
double bench_run(const py::object &device_object, int n, int64_t elements) {
  hal::Device &device = device_argument(device_object);
  hal::Stream &stream = device.current_stream();
  const hal_operand operands[3] = {vector_operand(0, elements), vector_operand(0, elements), vector_operand(HAL_OPERAND_OUTPUT, elements)};
  hal::BufferPtr buffers[3];
  for (auto &b : buffers) b = device.allocator().allocate(uint64_t(elements) * 4, stream);
  const float zero = 0;
  hal::fill_bytes(stream, *buffers[0], 0, uint64_t(elements) * 4, &zero, 4);
  hal::fill_bytes(stream, *buffers[1], 0, uint64_t(elements) * 4, &zero, 4);
  const hal::Place places[3] = {{buffers[0].get(), 0}, {buffers[1].get(), 0}, {buffers[2].get(), 0}};
  const double ns = best_ns(n, [&] { hal::run(stream, hal::op::add, operands, places, 2, 1); });
  stream.synchronize();
  return ns;
}

// ns per allocation and release of `bytes`.
double bench_allocate(const py::object &device_object, int n, uint64_t bytes) {
  hal::Device &device = device_argument(device_object);
  hal::Stream &stream = device.current_stream();
  return best_ns(n, [&] { device.allocator().allocate(bytes, stream); });
}

}  // namespace

void bind_bench(py::module_ &m) {
  m.def("bench_noop_launch", &bench_noop_launch, py::arg("device") = py::none(), py::arg("n") = 100000,
        "ns per launch of a prepared one-element fill through the ABI, from C++; best of rounds of 1000.");
  m.def("bench_run", &bench_run, py::arg("device") = py::none(), py::arg("n") = 100000, py::arg("elements") = 4,
        "ns per hal::run of an f32 add, from C++; best of rounds of 1000.");
  m.def("bench_allocate", &bench_allocate, py::arg("device") = py::none(), py::arg("n") = 100000, py::arg("bytes") = 16,
        "ns per allocation and release, from C++; best of rounds of 1000.");
}
