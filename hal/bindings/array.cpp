// hal.Array: the low-level view of device memory, to and from numpy.
#include <pybind11/numpy.h>

#include <algorithm>

#include "bindings.hpp"
#include "device.hpp"
#include "operand.hpp"

namespace {

py::object numpy_dtype(hal_dtype dtype) {
  static const char *const names[HAL_DTYPE_COUNT] = {"",      "bool",    "uint8",    "int8",    "int16",  "int32",
                                                     "int64", "float16", "bfloat16", "float32", "float64"};
  if (dtype == HAL_BF16) return py::module_::import("numpy").attr("dtype")(py::module_::import("ml_dtypes").attr("bfloat16"));
  return py::module_::import("numpy").attr("dtype")(names[dtype]);
}

hal_dtype dtype_of_numpy(const py::handle &dtype) {
  const std::string name = py::str(dtype.attr("name"));
  for (hal_dtype d = HAL_BOOL; d < HAL_DTYPE_COUNT; ++d) {
    static const char *const names[] = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"};
    if (name == names[d - 1]) return d;
  }
  throw hal::Error(hal::ErrorKind::Type, "[array] dtype: got numpy's " + name +
                                             ", expected bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32 or float64");
}

hal_dtype dtype_argument(const py::object &dtype) {
  if (py::isinstance<py::str>(dtype)) return hal::dtype_from_name(dtype.cast<std::string>());
  return dtype_of_numpy(py::module_::import("numpy").attr("dtype")(dtype));
}

py::object to_numpy(const Array &a);

Array from_object(const py::object &object, const py::object &dtype, const py::object &device) {
  hal::Device &target = device_argument(device);
  py::object source = py::isinstance<Array>(object) ? to_numpy(object.cast<const Array &>()) : object;
  const py::module_ numpy = py::module_::import("numpy");
  py::object array = dtype.is_none() ? numpy.attr("asarray")(source, py::arg("order") = "C")
                                     : numpy.attr("asarray")(source, numpy_dtype(dtype_argument(dtype)), py::arg("order") = "C");
  if (!array.attr("dtype").attr("isnative").cast<bool>()) array = array.attr("astype")(array.attr("dtype").attr("newbyteorder")("="));
  const py::array data = array;
  std::vector<int64_t> shape(data.shape(), data.shape() + data.ndim());
  hal::Stream &stream = target.current_stream();
  Array out = make_empty(target, dtype_of_numpy(array.attr("dtype")), shape, stream);
  hal::copy_from_host(stream, *out.buffer, 0, data.data(), uint64_t(data.nbytes()));
  return out;
}

// The bytes that the view touches, copied out; then numpy walks the strides.
py::object to_numpy(const Array &a) {
  const py::module_ numpy = py::module_::import("numpy");
  const py::object dtype = numpy_dtype(a.dtype);
  const py::tuple shape = py::cast(a.shape).cast<py::tuple>();
  const hal_operand o = a.operand(0);
  const hal::Span span = hal::span_of(o);
  const int64_t size = int64_t(hal::dtype_size(a.dtype)), bytes = span.high - span.low;
  if (a.size() == 0) return numpy.attr("empty")(shape, dtype);
  const uint64_t first = uint64_t(a.offset * size + span.low);
  hal::Stream &stream = a.device().current_stream();
  const bool dense = hal::is_contiguous(o);
  const py::object out = dense ? numpy.attr("empty")(shape, dtype) : numpy.attr("empty")(bytes, "uint8");
  hal::copy_to_host(stream, py::array(out).mutable_data(), *a.buffer, first, uint64_t(bytes));
  if (dense) return out;
  py::list strides;
  for (int64_t s : a.strides) strides.append(s * size);
  return numpy
      .attr("ndarray")(shape, dtype, py::arg("buffer") = out, py::arg("offset") = -span.low, py::arg("strides") = py::tuple(strides))
      .attr("copy")();
}

Array as_strided(const Array &a, const std::vector<int64_t> &shape, const std::vector<int64_t> &strides, int64_t offset) {
  if (shape.size() != strides.size())
    throw hal::Error(hal::ErrorKind::Value, "[as_strided] strides: got " + std::to_string(strides.size()) +
                                                ", expected one per dimension of " + shape_text(shape));
  if (shape.size() > HAL_MAX_RANK) throw hal::Error(hal::ErrorKind::Value, "[as_strided] more than 16 dimensions");
  for (int64_t n : shape)
    if (n < 0) throw hal::Error(hal::ErrorKind::Value, "[as_strided] shape: got " + shape_text(shape) + ", expected no negative size");
  Array out{a.buffer, a.dtype, shape, strides, offset};
  const hal::Span span = hal::span_of(out.operand(0));
  const int64_t size = int64_t(hal::dtype_size(a.dtype));
  int64_t start, low, high;
  if (__builtin_mul_overflow(offset, size, &start) || __builtin_add_overflow(start, span.low, &low) ||
      __builtin_add_overflow(start, span.high, &high) || offset < 0 || low < 0 || uint64_t(high) > a.buffer->size())
    throw hal::Error(hal::ErrorKind::Value, "[as_strided] reaches outside the buffer of " + std::to_string(a.buffer->size()) +
                                                " bytes: got shape " + shape_text(shape) + ", strides " + shape_text(strides) +
                                                ", offset " + std::to_string(offset));
  return out;
}

}  // namespace

std::string shape_text(const std::vector<int64_t> &shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

int64_t Array::size() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

hal_operand Array::operand(uint32_t flags) const {
  hal_operand o;
  o.struct_size = sizeof(o);
  o.flags = flags;
  o.dtype = dtype;
  o.layout = HAL_LAYOUT_STRIDED;
  o.rank = uint32_t(shape.size());
  o.reserved = 0;
  std::copy(shape.begin(), shape.end(), o.dims);
  std::copy(strides.begin(), strides.end(), o.strides);
  return o;
}

Array make_empty(hal::Device &device, hal_dtype dtype, const std::vector<int64_t> &shape, hal::Stream &stream) {
  if (shape.size() > HAL_MAX_RANK)
    throw hal::Error(hal::ErrorKind::Value, "[empty] shape: got " + std::to_string(shape.size()) + " dimensions, expected at most 16");
  Array out;
  out.dtype = dtype;
  out.shape = shape;
  out.strides.resize(shape.size());
  int64_t count = 1, stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 0) throw hal::Error(hal::ErrorKind::Value, "[empty] shape: got " + shape_text(shape) + ", expected no negative size");
    out.strides[i] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(shape[i], 1), &stride)) stride = INT64_MAX;
    if (__builtin_mul_overflow(count, shape[i], &count)) count = INT64_MAX;
  }
  const uint64_t bytes = count > (INT64_MAX >> 4) ? UINT64_MAX : uint64_t(count) * hal::dtype_size(dtype);
  out.buffer = device.allocator().allocate(bytes, stream);
  return out;
}

void bind_array(py::module_ &m) {
  py::class_<Array>(m, "Array", "A strided view of device memory. Made by hal.array, hal.empty and hal.run.")
      .def_property_readonly("shape", [](const Array &a) { return py::tuple(py::cast(a.shape)); })
      .def_property_readonly(
          "strides", [](const Array &a) { return py::tuple(py::cast(a.strides)); }, "In elements.")
      .def_property_readonly("dtype", [](const Array &a) { return hal::dtype_name(a.dtype); })
      .def_property_readonly("device", &Array::device, py::return_value_policy::reference)
      .def_property_readonly(
          "offset", [](const Array &a) { return a.offset; }, "Of the first element in the buffer, in elements.")
      .def_property_readonly("nbytes", [](const Array &a) { return a.size() * int64_t(hal::dtype_size(a.dtype)); })
      .def_property_readonly("ndim", [](const Array &a) { return a.shape.size(); })
      .def("numpy", &to_numpy, "Waits for the current stream and copies out.")
      .def(
          "__array__",
          [](const Array &a, const py::object &dtype, const py::object &) {
            py::object out = to_numpy(a);
            return dtype.is_none() ? out : py::object(out.attr("astype")(dtype));
          },
          py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def("as_strided", &as_strided, py::arg("shape"), py::arg("strides"), py::arg("offset_elements") = 0,
           "Another view of the same buffer; strides and offset in elements. Must lie inside the buffer.")
      .def(
          "record_stream", [](Array &a, hal::Stream &s) { a.buffer->record_stream(s); }, py::arg("stream"))
      .def_property_readonly("_buffer_id", [](const Array &a) { return reinterpret_cast<uintptr_t>(a.buffer.get()); })
      .def_property_readonly(
          "_address",
          [](const Array &a) -> py::object {
            const hal_buffer place = a.buffer->at(uint64_t(a.offset) * hal::dtype_size(a.dtype));
            return py::make_tuple(reinterpret_cast<uintptr_t>(place.memory), place.offset);
          },
          "(allocation, byte offset), to see reuse in tests.")
      .def("__repr__", [](const Array &a) {
        return "hal.Array(shape=" + shape_text(a.shape) + ", dtype=" + hal::dtype_name(a.dtype) + ", device='" + a.device().name() + "')";
      });
  m.def("array", &from_object, py::arg("obj"), py::arg("dtype") = py::none(), py::arg("device") = py::none(),
        "Copies a numpy array, nested list or scalar to a device (default: the host device).");
  m.def(
      "empty",
      [](const std::vector<int64_t> &shape, const py::object &dtype, const py::object &device) {
        hal::Device &d = device_argument(device);
        return make_empty(d, dtype_argument(dtype), shape, d.current_stream());
      },
      py::arg("shape"), py::arg("dtype"), py::arg("device") = py::none(), "An array with undefined content.");
}
