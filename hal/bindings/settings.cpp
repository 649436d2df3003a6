// Numerics class and fallback policy: process default and per thread; records of fallback.
#include "bindings.hpp"

namespace {

hal_numerics parse_numerics(const std::string &name) {
  if (name == "reproducible") return HAL_NUMERICS_REPRODUCIBLE;
  if (name == "fast") return HAL_NUMERICS_FAST;
  throw hal::Error(hal::ErrorKind::Value, "[numerics] got '" + name + "', expected 'reproducible' or 'fast'");
}

int parse_fallback(const std::string &name) {
  if (name == "allow") return int(hal::FallbackPolicy::Allow);
  if (name == "error") return int(hal::FallbackPolicy::Error);
  throw hal::Error(hal::ErrorKind::Value, "[fallback] got '" + name + "', expected 'allow' or 'error'");
}

// A thread's setting for the length of a with block; may be entered again.
struct Setting {
  int value;
  int (*get)();
  void (*set)(int);
  std::vector<int> previous;
};

}  // namespace

void bind_settings(py::module_ &m) {
  py::class_<Setting>(m, "_Setting")
      .def("__enter__",
           [](Setting &s) {
             s.previous.push_back(s.get());
             s.set(s.value);
           })
      .def("__exit__", [](Setting &s, const py::args &) {
        if (s.previous.empty()) return;
        s.set(s.previous.back());
        s.previous.pop_back();
      });
  m.def(
      "numerics",
      [](const std::string &name) { return Setting{parse_numerics(name), &hal::thread_numerics, &hal::set_thread_numerics, {}}; },
      py::arg("mode"), "Context manager, per thread: 'reproducible' or 'fast' kernels.");
  m.def(
      "set_numerics", [](const std::string &name) { hal::set_default_numerics(parse_numerics(name)); }, py::arg("mode"),
      "The process default.");
  m.def("get_numerics", [] { return hal::numerics() == HAL_NUMERICS_FAST ? "fast" : "reproducible"; }, "What holds for this thread.");
  m.def(
      "fallback",
      [](const std::string &name) { return Setting{parse_fallback(name), &hal::thread_fallback, &hal::set_thread_fallback, {}}; },
      py::arg("policy"), "Context manager, per thread: 'allow' or 'error' when a device has no kernel.");
  m.def(
      "set_fallback", [](const std::string &name) { hal::set_default_fallback(hal::FallbackPolicy(parse_fallback(name))); },
      py::arg("policy"), "The process default.");
  m.def(
      "get_fallback", [] { return hal::fallback_policy() == hal::FallbackPolicy::Error ? "error" : "allow"; },
      "What holds for this thread.");
  m.def(
      "fallback_records",
      [] {
        py::list out;
        for (const hal::FallbackRecord &r : hal::fallback_records()) {
          py::dict d;
          d["device"] = r.device;
          d["op"] = r.op;
          d["dtype"] = r.dtype;
          d["calls"] = r.calls;
          d["bytes_moved"] = r.bytes_moved;
          d["seconds"] = double(r.nanoseconds) * 1e-9;
          out.append(d);
        }
        return out;
      },
      "One dict per (device, op, dtype) that ran on the host device instead.");
  m.def("reset_fallback_records", &hal::reset_fallback_records);
}
