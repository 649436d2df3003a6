// The slow reference of docs/numerics.md: what each part binds, and the few things they share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace reference {

namespace py = pybind11;

// Contiguous numpy array of exactly this element type.
template <class T>
using Array = py::array_t<T, py::array::c_style>;

// The caller may have set flush-to-zero or another rounding mode: the reference computes in IEEE's default, and restores.
class DefaultFloatMode {
 public:
  DefaultFloatMode() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatMode() { std::fesetenv(&saved_); }
  DefaultFloatMode(const DefaultFloatMode &) = delete;

 private:
  std::fenv_t saved_;
};

// Section 3: IEEE 754-2019 maximum and minimum.
template <class T>
T maximum(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == 0 && b == 0) return std::signbit(static_cast<double>(a)) ? b : a;
  return a > b ? a : b;
}

template <class T>
T minimum(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == 0 && b == 0) return std::signbit(static_cast<double>(a)) ? a : b;
  return a < b ? a : b;
}

inline void require(bool condition, const std::string &text) {
  if (!condition) throw std::invalid_argument("[reference] " + text);
}

void bind_casts(py::module_ &m);
void bind_pointwise(py::module_ &m);
void bind_reductions(py::module_ &m);
void bind_chains(py::module_ &m);
void bind_pooling(py::module_ &m);
void bind_random(py::module_ &m);
void bind_optimizer(py::module_ &m);
void bind_normalization(py::module_ &m);

}  // namespace reference
