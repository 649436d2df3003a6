// What the files of the module `hal._core` share.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "allocator.hpp"
#include "dispatch.hpp"

namespace py = pybind11;

// A strided view of a buffer, as the low-level API sees tensors. Strides and offset count elements.
struct Array {
  hal::BufferPtr buffer;
  hal_dtype dtype = HAL_F32;
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;

  hal::Device &device() const { return buffer->device(); }
  int64_t size() const;  // elements
  hal_operand operand(uint32_t flags) const;
  hal::Place place() const { return {buffer.get(), uint64_t(offset) * hal::dtype_size(dtype)}; }
};

Array make_empty(hal::Device &device, hal_dtype dtype, const std::vector<int64_t> &shape, hal::Stream &stream);
std::string shape_text(const std::vector<int64_t> &shape);

// None: the host device. A string or a Device.
hal::Device &device_argument(const py::object &device);

// The code behind one of hal's exception types (or a subclass); HAL_OK for others.
hal_status status_of_python_type(PyObject *type);
// Raises type(text) from the exception of a plugin's hook, if the text carries that exception's words. False: nothing was raised.
bool raise_with_cause(PyObject *type, const char *text);

// Of the interpreter's end (module.cpp). Another thread that would have to take the interpreter's lock stops here for good.
bool ends_interpreter();
void stop_if_exiting();
void count_hook(int change);
int open_python_devices();

void bind_errors(py::module_ &m);
void bind_device(py::module_ &m);
void bind_stream(py::module_ &m);
void bind_array(py::module_ &m);
void bind_run(py::module_ &m);
void bind_settings(py::module_ &m);
void bind_bench(py::module_ &m);
void bind_loader(py::module_ &m);
void bind_plugin(py::module_ &m);
void bind_plugin_kernels(py::module_ &m);
