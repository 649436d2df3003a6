// The extension module oneflow_mini._C.
#include "python.hpp"

namespace flow {
void bind_indexing(py::module_ &m, py::object &type);  // python_index.cpp
}

PYBIND11_MODULE(_C, m) {
  m.doc() = "Tensors, ops and autograd of oneflow_mini, in C++.";
  py::module_::import("hal._core");  // registers hal's types and exceptions
  flow::bind_dtypes(m);
  flow::bind_tensor_type(m);
  py::object type = m.attr("Tensor");
  flow::bind_random(m, type);
  flow::bind_tensor_methods(m, type);
  flow::bind_creation(m, type);
  flow::bind_exchange(m, type);
  flow::bind_ops(m, type);
  flow::bind_inplace(m, type);
  flow::bind_indexing(m, type);
  flow::bind_autograd(m, type);
}
