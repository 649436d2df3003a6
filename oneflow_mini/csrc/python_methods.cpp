// Properties and conversions of Tensor.
#include "python.hpp"

namespace flow {

namespace {

using namespace pybind11::literals;

py::tuple size_tuple(const Dims &d) {
  py::tuple t(d.size());
  for (size_t i = 0; i < d.size(); ++i) t[i] = py::int_(d[i]);
  return t;
}

// .to(dtype), .to(device), .to(device, dtype), .to(other), in any order of positionals and keywords.
Tensor to(const Tensor &t, const py::args &args, const py::kwargs &kwargs) {
  std::optional<hal_dtype> dtype;
  hal::Device *device = nullptr;
  bool copy = false;
  const auto take = [&](py::handle h) {
    hal_dtype d;
    if (h.is_none() || PyBool_Check(h.ptr())) return;
    if (is_tensor(h.ptr())) {
      dtype = unwrap(h.ptr()).dtype();
      device = &unwrap(h.ptr()).device();
    } else if (parse_dtype(h.ptr(), d)) {
      dtype = d;
    } else {
      for (hal_dtype named = 1; PyUnicode_Check(h.ptr()) && named < HAL_DTYPE_COUNT; ++named)
        if (h.cast<std::string>() == dtype_long_name(named))
          throw Error(ErrorKind::Type, "[to] a dtype is an object, not a string: got '" + h.cast<std::string>() +
                                           "', expected oneflow_mini." + dtype_long_name(named) + " or the name of a device");
      py::detail::make_caster<DeviceArg> c;
      if (!c.load(h, true))
        throw Error(ErrorKind::Type, std::string("[to] expected a dtype, a device or a tensor: got ") + Py_TYPE(h.ptr())->tp_name);
      device = py::detail::cast_op<DeviceArg &>(c).device;
    }
  };
  for (auto a : args) take(a);
  for (auto [key, value] : kwargs) {
    const auto name = key.cast<std::string>();
    if (name == "dtype" || name == "device" || name == "other")
      take(value);
    else if (name == "copy")
      copy = value.cast<bool>();
    else if (name != "non_blocking" && name != "memory_format")
      throw Error(ErrorKind::Type, "[to] unexpected keyword argument: got '" + name + "', expected dtype, device, copy or non_blocking");
  }
  Tensor out = t;
  if (dtype) out = cast(out, *dtype);
  if (device) out = to_device(out, *device);
  return copy && out.impl() == t.impl() ? clone(out) : out;
}

void bind_conversions(py::object &type) {
  def_method(type, "to", &to);
  const std::pair<const char *, hal_dtype> casts[] = {{"float", HAL_F32}, {"double", HAL_F64}, {"half", HAL_F16},  {"bfloat16", HAL_BF16},
                                                      {"long", HAL_I64},  {"int", HAL_I32},    {"short", HAL_I16}, {"bool", HAL_BOOL},
                                                      {"byte", HAL_U8},   {"char", HAL_I8}};
  for (const auto &[name, dtype] : casts) def_method(type, name, [d = dtype](const Tensor &t) { return cast(t, d); });
  def_method(type, "type_as", [](const Tensor &t, const Tensor &o) { return cast(t, o.dtype()); }, "other"_a);
  def_method(
      type, "type",
      [](const Tensor &t, std::optional<DType> d) -> py::object {
        if (d) return py::cast(cast(t, d->value));
        return py::str(std::string("oneflow_mini.") + dtype_long_name(t.dtype()));
      },
      "dtype"_a = py::none());
  def_method(type, "cpu", [](const Tensor &t) { return to_device(t, hal::host_device()); });
  def_method(type, "clone", [](const Tensor &t) { return clone(t); });
  def_method(type, "contiguous", [](const Tensor &t) { return contiguous(t); });
  def_method(type, "detach", [](const Tensor &t) { return detach(t); });
  def_method(type, "detach_", [](const Tensor &t) {
    if (t->autograd && t->autograd->base.defined())
      throw Error(HAL_ERROR_INVALID_ARGUMENT, "[detach_] Can't detach views in-place. Use detach() instead");
    if (t->autograd) {
      t->autograd->grad_fn = {};
      t->autograd->requires_grad = false;
    }
    return t;
  });
}

void bind_geometry(py::object &type) {
  def_property(type, "shape", [](const Tensor &t) { return size_tuple(t.sizes()); });
  def_property(type, "dtype", [](const Tensor &t) { return dtype_object(t.dtype()); });
  def_property(type, "device", [](const Tensor &t) { return device_object(t.device()); });
  def_property(type, "ndim", [](const Tensor &t) { return t.dim(); });
  def_property(type, "T", [](const Tensor &t) {
    Dims reversed;
    for (int64_t i = t.dim(); i-- > 0;) reversed.push_back(i);
    return permute(t, reversed);
  });
  def_property(type, "mT", [](const Tensor &t) { return transpose(t, -2, -1); });
  def_property(type, "itemsize", [](const Tensor &t) { return hal::dtype_size(t.dtype()); });
  def_property(type, "nbytes", [](const Tensor &t) { return static_cast<uint64_t>(t.numel()) * hal::dtype_size(t.dtype()); });
  const auto by_dim = [](const Tensor &t, const Dims &d, const std::optional<int64_t> &dim, const char *op) -> py::object {
    if (!dim) return size_tuple(d);
    if (t.dim() == 0)
      throw Error(ErrorKind::Index,
                  std::string("[") + op + "] Dimension specified as " + std::to_string(*dim) + " but tensor has no dimensions");
    return py::int_(d[wrap_dim(*dim, t.dim(), op)]);
  };
  def_method(
      type, "size", [by_dim](const Tensor &t, std::optional<int64_t> dim) { return by_dim(t, t.sizes(), dim, "size"); },
      "dim"_a = py::none());
  def_method(
      type, "stride", [by_dim](const Tensor &t, std::optional<int64_t> dim) { return by_dim(t, t.strides(), dim, "stride"); },
      "dim"_a = py::none());
  def_method(type, "storage_offset", [](const Tensor &t) { return t->offset; });
  for (const char *name : {"dim", "ndimension"}) def_method(type, name, [](const Tensor &t) { return t.dim(); });
  for (const char *name : {"numel", "nelement"}) def_method(type, name, [](const Tensor &t) { return t.numel(); });
  def_method(type, "element_size", [](const Tensor &t) { return hal::dtype_size(t.dtype()); });
  def_method(type, "data_ptr", [](const Tensor &t) {
    auto *host = static_cast<char *>(t->storage->buffer->host());
    return host ? reinterpret_cast<uintptr_t>(host) + t.byte_offset() : uintptr_t{0};
  });
  def_method(type, "is_contiguous", [](const Tensor &t) { return t.is_contiguous(); });
  def_method(type, "is_floating_point", [](const Tensor &t) { return hal::is_float(t.dtype()); });
  def_method(type, "__deepcopy__", [](py::object self, py::dict memo) -> py::object {
    const Tensor t = unwrap(self.ptr());
    if (!t.is_leaf())
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  "[deepcopy] Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment");
    const py::int_ key(reinterpret_cast<uintptr_t>(self.ptr()));
    if (memo.contains(key)) return memo[key];
    GradMode off(false);
    Tensor copy = clone(detach(t));
    if (t->autograd) {
      autograd_meta(copy).requires_grad = t->autograd->requires_grad;
      if (t->autograd->grad.defined()) autograd_meta(copy).grad = clone(detach(t->autograd->grad));
    }
    py::object out = py::reinterpret_steal<py::object>(wrap_as(Py_TYPE(self.ptr()), copy));
    memo[key] = out;
    return out;
  });
  def_method(type, "__reduce_ex__", [](py::object self, py::object) -> py::object {
    throw Error(ErrorKind::Type, "[pickle] tensors aren't pickled: use oneflow_mini.save and load (safetensors)");
    return self;
  });
}

}  // namespace

void bind_tensor_methods(py::module_ &, py::object &type) {
  bind_geometry(type);
  bind_conversions(type);
}

}  // namespace flow
