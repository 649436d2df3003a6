// hal.Stream, hal.Event, and the thread's current stream.
#include "bindings.hpp"
#include "device.hpp"

namespace {

// None: without limit. Seconds else.
uint64_t timeout_ns(const py::object &seconds) {
  if (seconds.is_none()) return HAL_TIMEOUT_INFINITE;
  const double s = seconds.cast<double>();
  if (!(s >= 0)) throw hal::Error(hal::ErrorKind::Value, "[timeout] got " + std::to_string(s) + ", expected seconds >= 0 or None");
  return s > 1e9 ? HAL_TIMEOUT_INFINITE : uint64_t(s * 1e9);
}

// `with hal.stream(s):`
struct StreamGuard {
  std::shared_ptr<hal::Stream> stream;
  std::vector<std::shared_ptr<hal::Stream>> previous;
};

}  // namespace

void bind_stream(py::module_ &m) {
  py::class_<hal::Stream, std::shared_ptr<hal::Stream>>(m, "Stream", "An in-order queue of work on a device.")
      .def(py::init([](const py::object &device, int32_t priority) { return hal::Stream::create(device_argument(device), priority); }),
           py::arg("device") = py::none(), py::arg("priority") = 0)
      .def_property_readonly("device", &hal::Stream::device, py::return_value_policy::reference)
      .def_property_readonly("id", &hal::Stream::id)
      .def("query", &hal::Stream::query, "True if all submitted work is done.")
      .def(
          "synchronize", [](hal::Stream &s, const py::object &timeout) { s.synchronize(timeout_ns(timeout)); },
          py::arg("timeout") = py::none(), "Waits for the submitted work, at most `timeout` seconds; raises its failure, once.")
      .def("wait", &hal::Stream::wait, py::arg("event"), "Work submitted later waits for the event, on the device.")
      .def("record_event",
           [](hal::Stream &s) {
             auto event = hal::Event::create(s.device(), false, false);
             event->record(s);
             return event;
           })
      .def("__repr__", [](const hal::Stream &s) { return "<hal.Stream " + std::to_string(s.id()) + " of " + s.device().name() + ">"; });

  py::class_<hal::Event, std::shared_ptr<hal::Event>>(m, "Event", "A point in a stream that others wait for.")
      .def(py::init([](const py::object &device, bool timing, bool host_signalled) {
             return hal::Event::create(device_argument(device), timing, host_signalled);
           }),
           py::arg("device") = py::none(), py::arg("timing") = false, py::arg("host_signalled") = false)
      .def_property_readonly("device", &hal::Event::device, py::return_value_policy::reference)
      .def(
          "record", [](hal::Event &e, hal::Stream *s) { e.record(s ? *s : e.device().current_stream()); }, py::arg("stream") = py::none(),
          "Stands for all work submitted to the stream so far.")
      .def("query", &hal::Event::query, "True if done; raises the failure behind it.")
      .def(
          "synchronize", [](hal::Event &e, const py::object &timeout) { e.synchronize(timeout_ns(timeout)); },
          py::arg("timeout") = py::none())
      .def(
          "elapsed", [](hal::Event &e, hal::Event &end) { return double(e.elapsed_ns(end)) * 1e-9; }, py::arg("end"),
          "Seconds from this event to `end`.")
      .def(
          "signal", [](hal::Event &e, int32_t status) { e.signal(status); }, py::arg("status") = 0,
          "Completes a host-signalled event; a status other than 0 poisons the waiters.");

  py::class_<StreamGuard>(m, "_StreamGuard")
      .def("__enter__",
           [](StreamGuard &g) {
             hal::Device &device = g.stream->device();
             g.previous.push_back(device.current_stream().shared_from_this());
             device.set_current_stream(g.stream.get());
             return g.stream;
           })
      .def("__exit__", [](StreamGuard &g, const py::args &) {
        if (g.previous.empty()) return;
        g.stream->device().set_current_stream(g.previous.back().get());
        g.previous.pop_back();
      });
  m.def(
      "stream", [](std::shared_ptr<hal::Stream> s) { return StreamGuard{std::move(s), {}}; }, py::arg("stream").none(false),
      "Context manager: the thread's current stream on the stream's device.");
}
