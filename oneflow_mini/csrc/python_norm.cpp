// layer_norm, batch_norm and average pooling as functions of the module.
#include "python.hpp"

namespace flow {

using namespace pybind11::literals;

void bind_normalization(py::module_ &m) {
  using Optional = std::optional<Tensor>;
  const auto of = [](const Optional &t) { return t.value_or(Tensor()); };
  m.def(
      "layer_norm",
      [of](const Tensor &x, const Dims &shape, const Optional &w, const Optional &b, double eps) {
        return layer_norm(x, shape, of(w), of(b), eps);
      },
      "input"_a, "normalized_shape"_a, "weight"_a = py::none(), "bias"_a = py::none(), "eps"_a = 1e-5);
  m.def(
      "batch_norm",
      [of](const Tensor &x, const Optional &mean, const Optional &var, const Optional &w, const Optional &b, bool training, double momentum,
           double eps) { return batch_norm(x, of(mean), of(var), of(w), of(b), training, momentum, eps); },
      "input"_a, "running_mean"_a, "running_var"_a, "weight"_a = py::none(), "bias"_a = py::none(), "training"_a = false,
      "momentum"_a = 0.1, "eps"_a = 1e-5);
  m.def(
      "avg_pool2d",
      [](const Tensor &x, const py::object &kernel, const py::object &stride, const py::object &padding, bool ceil_mode,
         bool count_include_pad, std::optional<int64_t> divisor) {
        AverageOptions o;
        parse_pair(kernel, o.kernel, "avg_pool2d", "kernel_size");
        parse_pair(stride.is_none() ? kernel : stride, o.stride, "avg_pool2d", "stride");
        parse_pair(padding, o.padding, "avg_pool2d", "padding");
        o.ceil_mode = ceil_mode;
        o.count_include_pad = count_include_pad;
        if (divisor && *divisor <= 0)
          throw Error(ErrorKind::Value, "[avg_pool2d] divisor_override: got " + std::to_string(*divisor) + ", expected at least 1");
        o.divisor = divisor.value_or(0);
        return avg_pool2d(x, o);
      },
      "input"_a, "kernel_size"_a, "stride"_a = py::none(), "padding"_a = 0, "ceil_mode"_a = false, "count_include_pad"_a = true,
      "divisor_override"_a = py::none());
  m.def(
      "adaptive_avg_pool2d",
      [](const Tensor &x, const py::object &size) {
        int64_t sides[2];
        const bool pair = py::isinstance<py::tuple>(size) || py::isinstance<py::list>(size);
        if (pair && py::len(size) != 2)
          throw Error(ErrorKind::Value, "[adaptive_avg_pool2d] output_size: expected an int or a pair of ints or None");
        for (int i = 0; i < 2; ++i) {
          const py::object side = pair ? py::object(size[py::int_(i)]) : size;
          if (x.dim() < 2)
            throw Error(ErrorKind::Value,
                        "[adaptive_avg_pool2d] input: got shape " + to_string(x.sizes()) + ", expected (N, C, H, W) or (C, H, W)");
          if (!side.is_none() && !py::isinstance<py::int_>(side))
            throw Error(ErrorKind::Type, "[adaptive_avg_pool2d] output_size: expected an int or a pair of ints or None");
          sides[i] = side.is_none() ? x.sizes()[x.dim() - 2 + i] : side.cast<int64_t>();
        }
        return adaptive_avg_pool2d(x, sides[0], sides[1]);
      },
      "input"_a, "output_size"_a);
}

}  // namespace flow
