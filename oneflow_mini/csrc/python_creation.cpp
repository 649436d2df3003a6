// Factories.
#include <cmath>

#include "python.hpp"

namespace flow {

namespace {

using OptDType = std::optional<DType>;
using OptDevice = std::optional<DeviceArg>;

Tensor with_grad(Tensor t, bool requires_grad) {
  if (requires_grad) {
    if (!hal::is_float(t.dtype()))
      throw Error(
          HAL_ERROR_INVALID_ARGUMENT,
          std::string("[requires_grad] only Tensors of floating point dtype can require gradients: got ") + dtype_long_name(t.dtype()));
    autograd_meta(t).requires_grad = true;
  }
  return t;
}

hal_dtype or_default(const OptDType &d) { return d ? d->value : default_dtype(); }

int64_t arange_count(const Scalar &start, const Scalar &end, const Scalar &step) {
  const double s = step.d;
  if (!std::isfinite(start.d) || !std::isfinite(end.d) || !std::isfinite(s))
    throw Error(ErrorKind::Value, "[arange] start, end and step must be finite");
  if (s == 0) throw Error(ErrorKind::Value, "[arange] step must be nonzero");
  if ((s > 0 && start.d > end.d) || (s < 0 && start.d < end.d))
    throw Error(ErrorKind::Value, "[arange] upper bound and lower bound inconsistent with step sign");
  if (start.kind != Scalar::Float && end.kind != Scalar::Float && step.kind != Scalar::Float) {
    const __int128 span = static_cast<__int128>(end.i) - start.i;
    const __int128 n = (span + step.i + (step.i > 0 ? -1 : 1)) / step.i;
    if (n > INT64_MAX) throw Error(HAL_ERROR_OUT_OF_MEMORY, "[arange] too many elements");
    return static_cast<int64_t>(n);
  }
  const double n = std::ceil((end.d - start.d) / s);
  if (n > 9e18) throw Error(HAL_ERROR_OUT_OF_MEMORY, "[arange] too many elements");
  return static_cast<int64_t>(n);
}

template <class Make>
void def_like(py::module_ &m, const char *name, Make make) {
  auto f = [make](const Tensor &t, OptDType d, OptDevice dev, bool rg) {
    return with_grad(make(t.sizes(), d ? d->value : t.dtype(), dev ? *dev->device : t.device()), rg);
  };
  m.def(name, f, py::arg("input"), py::kw_only(), py::arg("dtype") = py::none(), py::arg("device") = py::none(),
        py::arg("requires_grad") = false);
}

template <class Make>
void def_sized(py::module_ &m, const char *name, Make make) {
  m.def(
      name,
      [make, name](const py::args &size, py::object generator, OptDType d, OptDevice dev, bool rg) {
        return with_grad(make(parse_sizes(size, name), or_default(d), device_or_host(dev), generator), rg);
      },
      py::kw_only(), py::arg("generator") = py::none(), py::arg("dtype") = py::none(), py::arg("device") = py::none(),
      py::arg("requires_grad") = false);
}

}  // namespace

void bind_creation(py::module_ &m, py::object &type) {
  m.def(
      "tensor",
      [](py::object data, OptDType d, OptDevice dev, bool rg) {
        return with_grad(tensor_from_data(data, d, dev ? dev->device : nullptr), rg);
      },
      py::arg("data"), py::kw_only(), py::arg("dtype") = py::none(), py::arg("device") = py::none(), py::arg("requires_grad") = false);
  def_sized(m, "empty", [](const Dims &s, hal_dtype d, hal::Device &dev, const py::object &) { return empty(s, d, dev); });
  def_sized(m, "zeros", [](const Dims &s, hal_dtype d, hal::Device &dev, const py::object &) { return zeros(s, d, dev); });
  def_sized(m, "ones", [](const Dims &s, hal_dtype d, hal::Device &dev, const py::object &) { return full(s, Scalar(1), d, dev); });
  def_sized(m, "rand", [](const Dims &s, hal_dtype d, hal::Device &dev, const py::object &g) {
    Tensor t = empty(s, d, dev);
    uniform_into(t, 0, 1, generator_of(g));
    return t;
  });
  def_sized(m, "randn", [](const Dims &s, hal_dtype d, hal::Device &dev, const py::object &g) {
    Tensor t = empty(s, d, dev);
    normal_into(t, 0, 1, generator_of(g));
    return t;
  });
  m.def(
      "full",
      [](const Dims &s, Scalar v, OptDType d, OptDevice dev, bool rg) {
        const hal_dtype dtype = d ? d->value : v.kind == Scalar::Bool ? HAL_BOOL : v.kind == Scalar::Int ? HAL_I64 : default_dtype();
        return with_grad(full(s, v, dtype, device_or_host(dev)), rg);
      },
      py::arg("size"), py::arg("fill_value"), py::kw_only(), py::arg("dtype") = py::none(), py::arg("device") = py::none(),
      py::arg("requires_grad") = false);
  m.def(
      "full_like",
      [](const Tensor &t, Scalar v, OptDType d, OptDevice dev, bool rg) {
        return with_grad(full(t.sizes(), v, d ? d->value : t.dtype(), dev ? *dev->device : t.device()), rg);
      },
      py::arg("input"), py::arg("fill_value"), py::kw_only(), py::arg("dtype") = py::none(), py::arg("device") = py::none(),
      py::arg("requires_grad") = false);
  def_like(m, "empty_like", [](const Dims &s, hal_dtype d, hal::Device &dev) { return empty(s, d, dev); });
  def_like(m, "zeros_like", [](const Dims &s, hal_dtype d, hal::Device &dev) { return zeros(s, d, dev); });
  def_like(m, "ones_like", [](const Dims &s, hal_dtype d, hal::Device &dev) { return full(s, Scalar(1), d, dev); });
  def_like(m, "rand_like", [](const Dims &s, hal_dtype d, hal::Device &dev) {
    Tensor t = empty(s, d, dev);
    uniform_into(t, 0, 1, default_generator());
    return t;
  });
  def_like(m, "randn_like", [](const Dims &s, hal_dtype d, hal::Device &dev) {
    Tensor t = empty(s, d, dev);
    normal_into(t, 0, 1, default_generator());
    return t;
  });
  m.def(
      "arange",
      [](const py::args &args, OptDType d, OptDevice dev, bool rg) {
        if (args.empty() || args.size() > 3)
          throw Error(ErrorKind::Type,
                      "[arange] expected (end), (start, end) or (start, end, step): got " + std::to_string(args.size()) + " numbers");
        std::vector<Scalar> v;
        for (auto a : args) {
          Value n(0);
          if (is_tensor(a.ptr()) ? unwrap(a.ptr()).numel() != 1 : !parse_value(a.ptr(), n))
            throw Error(ErrorKind::Type, std::string("[arange] start, end and step must be numbers: got ") + Py_TYPE(a.ptr())->tp_name);
          v.push_back(is_tensor(a.ptr()) ? item(unwrap(a.ptr())) : n.scalar);
        }
        const Scalar start = v.size() > 1 ? v[0] : Scalar(0), end = v.size() > 1 ? v[1] : v[0], step = v.size() > 2 ? v[2] : Scalar(1);
        const bool floats = start.kind == Scalar::Float || end.kind == Scalar::Float || step.kind == Scalar::Float;
        return with_grad(arange(start, step, arange_count(start, end, step),
                                d        ? d->value
                                : floats ? default_dtype()
                                         : HAL_I64,
                                device_or_host(dev)),
                         rg);
      },
      py::kw_only(), py::arg("dtype") = py::none(), py::arg("device") = py::none(), py::arg("requires_grad") = false);
  m.def(
      "eye",
      [](int64_t n, std::optional<int64_t> cols, OptDType d, OptDevice dev, bool rg) {
        const int64_t c = cols.value_or(n);
        Tensor t = zeros({n, c}, or_default(d), device_or_host(dev));
        const int64_t k = std::min(n, c);
        if (k > 0) fill_into(alias(t, {k}, {c + 1}, 0), Scalar(1));
        return with_grad(t, rg);
      },
      py::arg("n"), py::arg("m") = py::none(), py::kw_only(), py::arg("dtype") = py::none(), py::arg("device") = py::none(),
      py::arg("requires_grad") = false);
  const auto randint = [](int64_t low, int64_t high, const Dims &size, py::object g, OptDType d, OptDevice dev) {
    Tensor t = empty(size, d ? d->value : HAL_I64, device_or_host(dev));
    if (low < high && hal::is_integer(t.dtype()))
      for (const int64_t bound : {low, high - 1}) scalar_bits("randint", Scalar(bound), t.dtype());  // throws if out of range
    integers_into(t, low, high, generator_of(g));
    return t;
  };
  m.def("randint", randint, py::arg("low"), py::arg("high"), py::arg("size"), py::kw_only(), py::arg("generator") = py::none(),
        py::arg("dtype") = py::none(), py::arg("device") = py::none());
  m.def(
      "randint",
      [randint](int64_t high, const Dims &size, py::object g, OptDType d, OptDevice dev) { return randint(0, high, size, g, d, dev); },
      py::arg("high"), py::arg("size"), py::kw_only(), py::arg("generator") = py::none(), py::arg("dtype") = py::none(),
      py::arg("device") = py::none());
  // new_*: like the tensor in dtype and device
  const auto def_new = [&](const char *name, int value) {
    def_method(
        type, name,
        [name, value](const Tensor &t, const py::args &size, OptDType d, OptDevice dev, bool rg) {
          const Dims s = parse_sizes(size, name);
          const hal_dtype dtype = d ? d->value : t.dtype();
          hal::Device &device = dev ? *dev->device : t.device();
          return with_grad(value < 0 ? empty(s, dtype, device) : full(s, Scalar(value), dtype, device), rg);
        },
        py::kw_only(), py::arg("dtype") = py::none(), py::arg("device") = py::none(), py::arg("requires_grad") = false);
  };
  def_new("new_empty", -1);
  def_new("new_zeros", 0);
  def_new("new_ones", 1);
  def_method(
      type, "new_full",
      [](const Tensor &t, const Dims &s, Scalar v, OptDType d, OptDevice dev, bool rg) {
        return with_grad(full(s, v, d ? d->value : t.dtype(), dev ? *dev->device : t.device()), rg);
      },
      py::arg("size"), py::arg("fill_value"), py::kw_only(), py::arg("dtype") = py::none(), py::arg("device") = py::none(),
      py::arg("requires_grad") = false);
  def_method(
      type, "new_tensor",
      [](const Tensor &t, py::object data, OptDType d, OptDevice dev, bool rg) {
        return with_grad(tensor_from_data(data, d ? *d : DType{t.dtype()}, dev ? dev->device : &t.device()), rg);
      },
      py::arg("data"), py::kw_only(), py::arg("dtype") = py::none(), py::arg("device") = py::none(), py::arg("requires_grad") = false);
}

}  // namespace flow
