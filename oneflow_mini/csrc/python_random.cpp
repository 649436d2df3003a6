// Generators, random fills, optimizer steps and scalar math for Python.
#include <random>

#include "python.hpp"

extern "C" {
#include <hal/numerics/numerics.h>
}

namespace flow {

namespace {

using namespace pybind11::literals;

Generator &generator_of(const py::object &o) { return o.is_none() ? default_generator() : o.cast<Generator &>(); }

uint64_t seed_of(const py::int_ &seed) {
  int overflow = 0;
  const long long s = PyLong_AsLongLongAndOverflow(seed.ptr(), &overflow);
  if (!overflow) return static_cast<uint64_t>(s);
  const unsigned long long u = overflow > 0 ? PyLong_AsUnsignedLongLong(seed.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    throw Error(ErrorKind::Value, "[manual_seed] seed must be in [-2**63, 2**64): got " + py::str(seed).cast<std::string>());
  }
  return u;
}

// Random fills write like fill_: in place, with no gradient to what was there.
template <class F>
Tensor random_fill(const char *name, const Tensor &t, F &&f) {
  const Tensor before = before_inplace(name, t, false);
  f();
  Tensor result = t;
  if (before.impl() != t.impl()) {
    result = alias(t, t.sizes(), t.strides(), t->offset);
    record(result, "RandomBackward", {&before},
           [](Node &, const Tensor &g, Tensors &gin) { gin[0] = zeros(g.sizes(), g.dtype(), g.device()); });
  }
  after_inplace(t, before, result);
  return t;
}

double host_math(const std::string &name, double x, double y) {
  if (name == "exp") return hal_exp_f64(x);
  if (name == "log") return hal_log_f64(x);
  if (name == "pow") return hal_pow_f64(x, y);
  if (name == "cospi") return hal_cospi_f64(x);
  if (name == "sinpi") return hal_sinpi_f64(x);
  if (name == "tanh") return hal_tanh_f64(x);
  if (name == "sqrt") return __builtin_sqrt(x);
  throw Error(ErrorKind::Value, "[host_math] unknown function: got '" + name + "', expected exp, log, pow, cospi, sinpi, tanh or sqrt");
}

}  // namespace

void bind_random(py::module_ &m, py::object &type) {
  py::class_<Generator>(m, "Generator")
      .def(py::init([](const py::object &) { return Generator(); }), "device"_a = py::none())
      .def(
          "manual_seed",
          [](py::object self, const py::int_ &seed) {
            auto &g = self.cast<Generator &>();
            g.seed = seed_of(seed);
            g.offset = 0;
            return self;
          },
          "seed"_a)
      .def("initial_seed", [](const Generator &g) { return g.seed; })
      .def("seed",
           [](Generator &g) {
             std::random_device r;
             g.seed = (static_cast<uint64_t>(r()) << 32) | r();
             g.offset = 0;
             return g.seed;
           })
      .def_property(
          "offset", [](const Generator &g) { return g.offset; },
          [](Generator &g, uint64_t v) {
            if (v % 4) throw Error(ErrorKind::Value, "[Generator] offset must be a multiple of 4: got " + std::to_string(v));
            g.offset = v;
          });
  m.attr("default_generator") = py::cast(&default_generator(), py::return_value_policy::reference);
  def_method(
      type, "uniform_",
      [](const Tensor &t, double low, double high, const py::object &g) {
        return random_fill("uniform_", t, [&] { uniform_into(t, low, high, generator_of(g)); });
      },
      "from"_a = 0.0, "to"_a = 1.0, py::kw_only(), "generator"_a = py::none());
  def_method(
      type, "normal_",
      [](const Tensor &t, double mean, double std, const py::object &g) {
        return random_fill("normal_", t, [&] { normal_into(t, mean, std, generator_of(g)); });
      },
      "mean"_a = 0.0, "std"_a = 1.0, py::kw_only(), "generator"_a = py::none());
  def_method(
      type, "bernoulli_",
      [](const Tensor &t, double p, const py::object &g) {
        return random_fill("bernoulli_", t, [&] {
          Tensor mask = t.dtype() == HAL_BOOL ? t : empty(t.sizes(), HAL_BOOL, t.device());
          bernoulli_into(mask, p, generator_of(g));
          copy_into(t, mask);
        });
      },
      "p"_a = 0.5, py::kw_only(), "generator"_a = py::none());

  m.def(
      "sgd_step_",
      [](const Tensor &p, const Tensor &g, const std::optional<Tensor> &b, double lr, double momentum, double dampening, double wd,
         bool nesterov, bool maximize,
         bool first) { sgd_step(p, g, b.value_or(Tensor()), {lr, momentum, dampening, wd, nesterov, maximize, first}); },
      "param"_a, "grad"_a, "momentum_buffer"_a, "lr"_a, "momentum"_a, "dampening"_a, "weight_decay"_a, "nesterov"_a, "maximize"_a,
      "first_step"_a);
  m.def(
      "adam_step_",
      [](const Tensor &p, const Tensor &g, const Tensor &m1, const Tensor &v, const std::optional<Tensor> &vmax, double lr, double b1,
         double b2, double eps, double wd, double c1, double c2, bool decoupled, bool amsgrad,
         bool maximize) { adam_step(p, g, m1, v, vmax.value_or(Tensor()), {lr, b1, b2, eps, wd, c1, c2, decoupled, amsgrad, maximize}); },
      "param"_a, "grad"_a, "exp_avg"_a, "exp_avg_sq"_a, "max_exp_avg_sq"_a, "lr"_a, "beta1"_a, "beta2"_a, "eps"_a, "weight_decay"_a,
      "bias_correction1"_a, "bias_correction2_sqrt"_a, "decoupled"_a, "amsgrad"_a, "maximize"_a);
  m.def("host_math", &host_math, "name"_a, "x"_a, "y"_a = 0.0);
}

}  // namespace flow
