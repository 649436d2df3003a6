// An extension module of its own that links libhal and throws hal::Error: the classes that hal registered must arrive in Python.
#include <pybind11/pybind11.h>

#include "error.hpp"

PYBIND11_MODULE(hal_test_errors, m) {
  m.def("fail_status", [](int status) { throw hal::Error(hal_status(status), "[test] status"); });
  m.def("fail_kind", [](int kind) { throw hal::Error(hal::ErrorKind(kind), "[test] kind"); });
}
