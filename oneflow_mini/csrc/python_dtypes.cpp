// dtype objects, and the parsing of arguments that many bindings share.
#include "python.hpp"

namespace flow {

namespace {

struct DTypeObject {
  hal_dtype value;
  std::string name;
};
PyObject *g_dtypes[HAL_DTYPE_COUNT];  // never freed: they outlive the interpreter's tear-down

}  // namespace

py::object dtype_object(hal_dtype dtype) { return py::reinterpret_borrow<py::object>(g_dtypes[dtype]); }

bool parse_dtype(PyObject *o, hal_dtype &out) {
  if (o == reinterpret_cast<PyObject *>(&PyFloat_Type)) return out = HAL_F64, true;
  if (o == reinterpret_cast<PyObject *>(&PyLong_Type)) return out = HAL_I64, true;
  if (o == reinterpret_cast<PyObject *>(&PyBool_Type)) return out = HAL_BOOL, true;
  for (hal_dtype d = 1; d < HAL_DTYPE_COUNT; ++d)
    if (g_dtypes[d] == o) return out = d, true;
  return false;
}

hal::Device &device_or_host(const std::optional<DeviceArg> &d) { return d ? *d->device : hal::host_device(); }
py::object device_object(hal::Device &device) { return py::cast(&device, py::return_value_policy::reference); }

Dims parse_size(const py::handle &h, const char *op) {
  const auto one = [op](PyObject *o) {
    if (!PyIndex_Check(o)) throw Error(ErrorKind::Type, std::string("[") + op + "] sizes must be integers: got " + Py_TYPE(o)->tp_name);
    const Py_ssize_t v = PyNumber_AsSsize_t(o, PyExc_OverflowError);
    if (v == -1 && PyErr_Occurred()) throw py::error_already_set();
    return static_cast<int64_t>(v);
  };
  if (PyIndex_Check(h.ptr())) return {one(h.ptr())};
  if (!PySequence_Check(h.ptr()) || PyUnicode_Check(h.ptr()))
    throw Error(ErrorKind::Type, std::string("[") + op + "] expected integers or a sequence of integers: got " + Py_TYPE(h.ptr())->tp_name);
  Dims out;
  for (auto item : py::reinterpret_borrow<py::sequence>(h)) out.push_back(one(item.ptr()));
  return out;
}

Dims parse_sizes(const py::args &args, const char *op) {
  if (args.size() == 1 && !PyIndex_Check(args[0].ptr())) return parse_size(args[0], op);
  return parse_size(args, op);
}

void parse_pair(const py::object &o, int64_t out[2], const char *op, const char *name) {
  const Dims d = parse_size(o, op);
  if (d.size() != 1 && d.size() != 2)
    throw Error(ErrorKind::Value, std::string("[") + op + "] " + name + " must be an int or a pair: got " + to_string(d));
  out[0] = d[0];
  out[1] = d[d.size() - 1];
}

void bind_dtypes(py::module_ &m) {
  py::class_<DTypeObject>(m, "dtype")
      .def_readonly("name", &DTypeObject::name)
      .def_property_readonly("itemsize", [](const DTypeObject &d) { return hal::dtype_size(d.value); })
      .def_property_readonly("is_floating_point", [](const DTypeObject &d) { return hal::is_float(d.value); })
      .def_property_readonly("is_signed", [](const DTypeObject &d) { return d.value != HAL_BOOL && d.value != HAL_U8; })
      .def("__repr__", [](const DTypeObject &d) { return "oneflow_mini." + d.name; })
      .def("__reduce__",
           [](const DTypeObject &d) {
             return py::make_tuple(py::module_::import("builtins").attr("getattr"),
                                   py::make_tuple(py::module_::import("oneflow_mini._C"), d.name));
           })
      .def("__hash__", [](const DTypeObject &d) { return d.value; })
      .def("__eq__", [](py::handle a, py::handle b) { return a.ptr() == b.ptr(); });
  for (hal_dtype d = 1; d < HAL_DTYPE_COUNT; ++d) {
    g_dtypes[d] = py::cast(new DTypeObject{d, dtype_long_name(d)}, py::return_value_policy::take_ownership).release().ptr();
    m.attr(dtype_long_name(d)) = dtype_object(d);
  }
  m.attr("bool_") = dtype_object(HAL_BOOL);
  m.def("get_default_dtype", [] { return DType{default_dtype()}; });
  m.def("set_default_dtype", [](DType d) { set_default_dtype(d.value); });
  m.def("promote_types", [](DType a, DType b) { return DType{promote(a.value, b.value)}; });
  m.def("result_type", [](const Value &a, const Value &b) { return DType{result_type(a, b)}; });
}

}  // namespace flow
