// Between Python objects and the C++ core: the Tensor type, casters of arguments, parsing helpers.
#pragma once

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "autograd.hpp"
#include "ops.hpp"

namespace py = pybind11;
PYBIND11_DECLARE_HOLDER_TYPE(T, flow::Ref<T>, true)

namespace flow {

// The Python object of a tensor. TensorImpl::pyobj points back while it lives, so `t.grad is t.grad` as long as somebody holds it.
struct PyTensor {
  PyObject_HEAD TensorImpl *impl;  // owns one reference
  PyObject *dict;
  PyObject *weakrefs;
};

extern PyTypeObject *g_tensor_type;
inline bool is_tensor(PyObject *o) { return PyObject_TypeCheck(o, g_tensor_type); }
inline Tensor unwrap(PyObject *o) { return Tensor(reinterpret_cast<PyTensor *>(o)->impl); }
PyObject *wrap(const Tensor &t);                         // new reference; None if undefined
PyObject *wrap_as(PyTypeObject *type, const Tensor &t);  // a new object of a subclass; t must have none yet

// The Python object of a dtype: flow.float32 and so on.
struct DType {
  hal_dtype value;
};
py::object dtype_object(hal_dtype dtype);
bool parse_dtype(PyObject *o, hal_dtype &out);

// A device argument: a name, a hal.Device, or None for the host device.
struct DeviceArg {
  hal::Device *device;
};
hal::Device &device_or_host(const std::optional<DeviceArg> &d);
py::object device_object(hal::Device &device);

bool parse_value(PyObject *o, Value &out);  // a tensor or a number (numpy scalars too)

// dim arguments: None, an int, or a sequence of ints.
struct DimsArg {
  Axes axes;
};
Dims parse_sizes(const py::args &args, const char *op);  // (2, 3) or ((2, 3),)
Dims parse_size(const py::handle &h, const char *op);    // an int or a sequence
// An int argument, and a dim argument (an int or a sequence of ints); a TypeError or ValueError names the argument otherwise.
int64_t parse_integer(const py::handle &h, const char *op, const char *name);
std::vector<int64_t> parse_dims(const py::handle &h);
Generator &generator_of(const py::object &o);  // None: the default generator
void parse_pair(const py::object &o, int64_t out[2], const char *op, const char *name);

// Turns the C++ exception in flight into the Python error state; for raw type slots.
void set_python_error() noexcept;

// Parts of the module, in the order in which they are set up.
void bind_dtypes(py::module_ &m);
void bind_tensor_type(py::module_ &m);
void bind_tensor_methods(py::module_ &m, py::object &type);
void bind_creation(py::module_ &m, py::object &type);
void bind_exchange(py::module_ &m, py::object &type);
void bind_ops(py::module_ &m, py::object &type);
void bind_normalization(py::module_ &m);
void bind_inplace(py::module_ &m, py::object &type);
void bind_autograd(py::module_ &m, py::object &type);
void bind_random(py::module_ &m, py::object &type);

// For the garbage collector: the Python callables that only t keeps, as its hooks.
int traverse_hooks(const TensorImpl *t, visitproc visit, void *arg);
void clear_hooks(TensorImpl *t);

// tensor(data): from anything that numpy understands; copies.
Tensor tensor_from_data(py::handle data, std::optional<DType> dtype, hal::Device *device);
// Indexing (index.cpp).
Tensor get_item(const Tensor &t, PyObject *index);
void set_item(const Tensor &t, PyObject *index, PyObject *value);

template <class F, class... Extra>
void def_method(py::object &type, const char *name, F &&f, const Extra &...extra) {
  type.attr(name) =
      py::cpp_function(std::forward<F>(f), py::name(name), py::is_method(type), py::sibling(py::getattr(type, name, py::none())), extra...);
}
// A last overload that takes numpy's names, axis for dim and keepdims for keepdim, as PyTorch does.
void accept_numpy_names(py::object scope, const char *name, bool method);
template <class... Extra>
bool has_dim(const Extra &...extra) {
  [[maybe_unused]] const auto is_dim = [](const auto &e) {
    if constexpr (std::is_base_of_v<py::arg, std::decay_t<decltype(e)>>)
      return std::strcmp(e.name, "dim") == 0;
    else
      return false;
  };
  return (is_dim(extra) || ...);
}
// A function of the module and a method of Tensor at once.
template <class F, class... Extra>
void def_both(py::module_ &m, py::object &type, const char *name, F &&f, const Extra &...extra) {
  m.def(name, f, py::arg("input"), extra...);
  def_method(type, name, f, extra...);
  if (has_dim(extra...)) {
    accept_numpy_names(m, name, false);
    accept_numpy_names(type, name, true);
  }
}
template <class Get>
void def_property(py::object &type, const char *name, Get &&get) {
  type.attr(name) =
      py::module_::import("builtins").attr("property")(py::cpp_function(std::forward<Get>(get), py::name(name), py::is_method(type)));
}
template <class Get, class Set>
void def_property(py::object &type, const char *name, Get &&get, Set &&set) {
  type.attr(name) = py::module_::import("builtins")
                        .attr("property")(py::cpp_function(std::forward<Get>(get), py::name(name), py::is_method(type)),
                                          py::cpp_function(std::forward<Set>(set), py::name(name), py::is_method(type)));
}

}  // namespace flow

namespace pybind11::detail {

template <>
struct type_caster<flow::Tensor> {
  PYBIND11_TYPE_CASTER(flow::Tensor, const_name("Tensor"));
  bool load(handle src, bool) {
    if (!flow::is_tensor(src.ptr())) return false;
    value = flow::unwrap(src.ptr());
    return true;
  }
  static handle cast(const flow::Tensor &t, return_value_policy, handle) { return flow::wrap(t); }
};

template <>
struct type_caster<flow::Value> {
  PYBIND11_TYPE_CASTER(flow::Value, const_name("Tensor | int | float"));
  type_caster() : value(0) {}
  bool load(handle src, bool) { return flow::parse_value(src.ptr(), value); }
};

template <>
struct type_caster<flow::Scalar> {
  PYBIND11_TYPE_CASTER(flow::Scalar, const_name("int | float"));
  type_caster() : value(0) {}
  bool load(handle src, bool) {
    flow::Value v(0);
    if (flow::is_tensor(src.ptr()) || !flow::parse_value(src.ptr(), v)) return false;
    value = v.scalar;
    return true;
  }
  static handle cast(const flow::Scalar &s, return_value_policy, handle) {
    if (s.kind == flow::Scalar::Bool) return pybind11::bool_(s.i != 0).release();
    if (s.kind == flow::Scalar::Int) return pybind11::int_(s.i).release();
    return pybind11::float_(s.d).release();
  }
};

template <>
struct type_caster<flow::DType> {
  PYBIND11_TYPE_CASTER(flow::DType, const_name("dtype"));
  bool load(handle src, bool) { return flow::parse_dtype(src.ptr(), value.value); }
  static handle cast(const flow::DType &d, return_value_policy, handle) { return flow::dtype_object(d.value).release(); }
};

template <>
struct type_caster<flow::DeviceArg> {
  PYBIND11_TYPE_CASTER(flow::DeviceArg, const_name("str | Device"));
  bool load(handle src, bool) {
    if (PyUnicode_Check(src.ptr())) {
      value.device = &hal::device(src.cast<std::string>());
      return true;
    }
    make_caster<hal::Device> c;
    if (!c.load(src, false)) return false;
    value.device = &cast_op<hal::Device &>(c);
    return true;
  }
};

template <>
struct type_caster<flow::DimsArg> {
  PYBIND11_TYPE_CASTER(flow::DimsArg, const_name("int | Sequence[int] | None"));
  bool load(handle src, bool) {
    if (!src.is_none()) value.axes = flow::parse_dims(src);
    return true;
  }
};

template <>
struct type_caster<flow::Dims> {
  PYBIND11_TYPE_CASTER(flow::Dims, const_name("Sequence[int]"));
  bool load(handle src, bool) {
    if (PyUnicode_Check(src.ptr()) || (!PySequence_Check(src.ptr()) && !PyIndex_Check(src.ptr())) || flow::is_tensor(src.ptr()))
      return false;
    value = flow::parse_size(src, "shape");
    return true;
  }
  static handle cast(const flow::Dims &d, return_value_policy, handle) {
    tuple t(d.size());
    for (size_t i = 0; i < d.size(); ++i) t[i] = int_(d[i]);
    return t.release();
  }
};

}  // namespace pybind11::detail
