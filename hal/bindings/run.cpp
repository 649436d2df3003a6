// hal.run: any op of the table on arrays and scalars.
#include <hal/numerics/numerics.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bindings.hpp"
#include "device.hpp"
#include "fp_mode.hpp"
#include "operand.hpp"

namespace {

using hal::Error;
using hal::ErrorKind;
using hal::OperandInfo;
using hal::OpInfo;

[[noreturn]] void fail(const OpInfo &info, const std::string &text, ErrorKind kind = ErrorKind::Value) {
  throw Error(kind, std::string("[") + info.name + "] " + text);
}

std::string type_name(const py::handle &value) { return py::str(py::type::of(value).attr("__name__")); }

// x rounded once to a floating-point `dtype`, in the low-order bytes.
uint64_t float_bits(double x, hal_dtype dtype) {
  uint64_t bits = 0;
  if (dtype == HAL_F64) std::memcpy(&bits, &x, 8);
  if (dtype == HAL_F32) {
    const float f = float(x);
    std::memcpy(&bits, &f, 4);
  }
  if (dtype == HAL_F16) bits = hal_f64_to_f16(x);
  if (dtype == HAL_BF16) bits = hal_f64_to_bf16(x);
  return bits;
}

// The bits of a Python number in `dtype`, in the low-order bytes. Floats round once; integers must fit (i64: also as unsigned 64 bits).
uint64_t scalar_bits(const OpInfo &info, const std::string &name, const py::handle &value, hal_dtype dtype) {
  uint64_t bits = 0;
  if (hal::is_float(dtype)) {
    const double x = PyFloat_AsDouble(value.ptr());
    if (x == -1.0 && PyErr_Occurred()) {
      PyErr_Clear();
      fail(info, name + ": got " + type_name(value) + ", expected a number that fits a double", ErrorKind::Type);
    }
    const hal::DefaultFpMode mode;    // the caller may have set flush-to-zero
    const volatile double given = x;  // volatile in and out: the conversion stays inside the mode's scope
    const volatile uint64_t result = float_bits(given, dtype);
    return result;
  }
  py::object integer = py::reinterpret_borrow<py::object>(value);
  if (PyFloat_Check(value.ptr())) {
    const double x = PyFloat_AsDouble(value.ptr());
    if (!std::isfinite(x) || x != std::floor(x))
      fail(info, name + ": got " + std::string(py::repr(value)) + ", expected an integer for " + hal::dtype_name(dtype), ErrorKind::Type);
    integer = py::reinterpret_steal<py::object>(PyLong_FromDouble(x));
  } else {
    integer = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!integer) {
      PyErr_Clear();
      fail(info, name + ": got " + type_name(value) + ", expected an integer for " + hal::dtype_name(dtype), ErrorKind::Type);
    }
  }
  int overflow = 0;
  const long long x = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  if (dtype == HAL_BOOL) return overflow != 0 || x != 0;
  const int width = int(hal::dtype_size(dtype)) * 8;
  bool fits = overflow == 0;
  bits = uint64_t(x);
  if (dtype == HAL_U8)
    fits &= x >= 0 && x <= 255;
  else if (width < 64)
    fits &= x >= -(1ll << (width - 1)) && x < (1ll << (width - 1));
  else if (overflow > 0) {
    const unsigned long long u = PyLong_AsUnsignedLongLong(integer.ptr());
    fits = !PyErr_Occurred();
    PyErr_Clear();
    bits = u;
  }
  if (!fits) fail(info, name + ": " + std::string(py::str(integer)) + " doesn't fit " + hal::dtype_name(dtype));
  return width < 64 ? bits & ((uint64_t(1) << width) - 1) : bits;
}

// dict -> the op's POD struct, defaults filled in.
std::vector<uint64_t> attribute_struct(const OpInfo &info, const py::object &given, uint32_t rank) {
  std::vector<uint64_t> words(info.attributes_size / 8, 0);
  if (!words.empty()) {
    const uint32_t size = info.attributes_size;
    std::memcpy(words.data(), &size, sizeof(size));
  }
  auto store = [&](const hal::AttributeInfo &a, int i, double d, int64_t n) {
    std::memcpy(reinterpret_cast<char *>(words.data()) + a.offset + 8 * i, a.is_float ? static_cast<const void *>(&d) : &n, 8);
  };
  for (const hal::AttributeInfo &a : info.attributes)
    for (int i = 0; i < a.count; ++i) store(a, i, a.default_value, int64_t(a.default_value));
  if (given.is_none()) return words;
  for (const auto &item : given.cast<py::dict>()) {
    const std::string name = py::str(item.first);
    const hal::AttributeInfo *found = nullptr;
    for (const hal::AttributeInfo &a : info.attributes)
      if (name == a.name) found = &a;
    if (!found) {
      std::string valid;
      for (const hal::AttributeInfo &a : info.attributes) valid += (valid.empty() ? "" : ", ") + std::string(a.name);
      fail(info, "unknown attribute '" + name + "': expected " + (valid.empty() ? "none" : valid));
    }
    py::handle value = item.second;
    const bool sequence = py::isinstance<py::sequence>(value) && !py::isinstance<py::str>(value);
    try {
      if (sequence && name == "axes") {  // a list of axes means their bits
        int64_t mask = 0;
        for (const auto &axis : value.cast<py::sequence>()) {
          int64_t k = axis.cast<int64_t>();
          if (k < 0) k += rank;
          if (k < 0 || k >= int64_t(rank))
            fail(info, "axes: got " + std::string(py::repr(value)) + ", expected axes of " + std::to_string(rank) + " dimensions",
                 ErrorKind::Index);
          mask |= int64_t(1) << k;
        }
        store(*found, 0, 0, mask);
        continue;
      }
      std::vector<py::object> values;
      if (sequence)
        for (const auto &v : value.cast<py::sequence>()) values.push_back(py::reinterpret_borrow<py::object>(v));
      else
        values.assign(size_t(found->count), py::reinterpret_borrow<py::object>(value));
      if (int(values.size()) != found->count)
        fail(info, name + ": got " + std::to_string(values.size()) + " values, expected " + std::to_string(found->count));
      for (int i = 0; i < found->count; ++i) {
        if (found->is_float)
          store(*found, i, values[size_t(i)].cast<double>(), 0);
        else
          store(*found, i, 0, values[size_t(i)].cast<int64_t>());
      }
    } catch (const py::cast_error &) {
      fail(info, name + ": got " + std::string(py::repr(value)) + ", expected " + (found->is_float ? "numbers" : "integers of 64 bits"),
           ErrorKind::Type);
    }
  }
  return words;
}

struct Bytes {
  uint64_t begin, end;
};
Bytes bytes_of(const Array &a) {
  const hal::Span span = hal::span_of(a.operand(0));
  const int64_t start = a.offset * int64_t(hal::dtype_size(a.dtype));
  return {uint64_t(start + span.low), uint64_t(start + span.high)};
}
bool overlap(const Array &a, const Array &b) {
  if (a.buffer.get() != b.buffer.get()) return false;
  const Bytes x = bytes_of(a), y = bytes_of(b);
  return x.begin < y.end && y.begin < x.end;
}
bool same_view(const Array &a, const Array &b) {
  return a.dtype == b.dtype && a.offset == b.offset && a.shape == b.shape && a.strides == b.strides;
}

// False only if no two elements share a place (sufficient: each stride steps over all that smaller strides reach).
bool may_overlap_itself(const Array &a) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i] == 0) return false;
    if (a.shape[i] > 1) dims.emplace_back(std::abs(a.strides[i]), a.shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto &[stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

Array contiguous_copy(const Array &a, hal::Stream &stream) {
  Array out = make_empty(a.device(), a.dtype, a.shape, stream);
  const hal_operand operands[2] = {a.operand(0), out.operand(HAL_OPERAND_OUTPUT)};
  const hal::Place places[2] = {a.place(), out.place()};
  hal::run(stream, hal::op::copy, operands, places, 1, 1);
  return out;
}

// The operand seen through `dims` by stride 0, from the right.
void expand(hal_operand &o, const hal_operand &to, uint32_t skip_last) {
  hal_operand wide = o;
  wide.rank = to.rank;
  for (uint32_t d = 0; d < to.rank; ++d) {
    const int from = int(d) - int(to.rank - o.rank);
    const bool keep = from >= 0 && (o.dims[from] == to.dims[d] || d + skip_last >= to.rank);
    wide.dims[d] = keep ? o.dims[from] : to.dims[d];
    wide.strides[d] = keep ? o.strides[from] : 0;
  }
  o = wide;
}

std::vector<py::object> as_list(const py::object &value) {
  std::vector<py::object> out;
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value))
    for (const auto &v : value) out.push_back(py::reinterpret_borrow<py::object>(v));
  else
    out.push_back(value);
  return out;
}

py::object run_op(const std::string &name, const py::object &inputs_object, const py::object &attributes, const py::object &outputs_object,
                  const py::object &shape, const py::object &dtype, const py::object &stream_object) {
  const uint32_t id = hal::find_op(name);
  const OpInfo &info = hal::op_info(id);
  const std::vector<py::object> inputs = as_list(inputs_object);
  const bool custom = info.shape == hal::ShapeRule::custom;
  const bool have_outputs = !outputs_object.is_none();
  std::vector<py::object> outputs = have_outputs ? as_list(outputs_object) : std::vector<py::object>(info.num_outputs, py::none());
  if (custom && !have_outputs) fail(info, "an op that isn't in the table needs its outputs");
  if (!custom && (inputs.size() != info.num_inputs || outputs.size() != info.num_outputs))
    fail(info, "operands: got " + std::to_string(inputs.size()) + " inputs and " + std::to_string(outputs.size()) + " outputs, expected " +
                   std::to_string(info.num_inputs) + " and " + std::to_string(info.num_outputs));
  const uint32_t num_inputs = uint32_t(inputs.size()), num_outputs = uint32_t(outputs.size()), n = num_inputs + num_outputs;
  if (n > HAL_MAX_OPERANDS) fail(info, "more than 24 operands");

  std::vector<Array> arrays(n);
  hal_operand operands[HAL_MAX_OPERANDS] = {};
  hal::Place places[HAL_MAX_OPERANDS] = {};
  hal::Device *device = nullptr;
  std::vector<py::object> all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  for (uint32_t i = 0; i < n; ++i) {
    operands[i].struct_size = sizeof(hal_operand);
    const uint32_t output = i >= num_inputs ? HAL_OPERAND_OUTPUT : 0;
    if (!py::isinstance<Array>(all[i])) continue;
    arrays[i] = all[i].cast<const Array &>();
    operands[i] = arrays[i].operand(output);
    if (device && device != &arrays[i].device())
      fail(info, (custom ? "operand " + std::to_string(i) : std::string(info.operands[i].name)) + " is on " + arrays[i].device().name() +
                     ", expected " + device->name() + " as the operands before");
    device = &arrays[i].device();
  }
  std::shared_ptr<hal::Stream> stream_owner;
  if (!stream_object.is_none()) {
    stream_owner = stream_object.cast<std::shared_ptr<hal::Stream>>();
    if (device && device != &stream_owner->device())
      fail(info, "stream: got one of " + stream_owner->device().name() + ", expected one of " + device->name());
    device = &stream_owner->device();
  }
  if (!device) device = &hal::host_device();
  if (!stream_owner) stream_owner = device->current_stream().shared_from_this();
  hal::Stream &stream = *stream_owner;

  // The op's dtype, to convert scalars.
  hal_dtype t = 0;
  if (!custom) {
    if (arrays[info.primary].buffer)
      t = arrays[info.primary].dtype;
    else {
      for (uint32_t i = 0; i < num_inputs && !t; ++i)
        if (arrays[i].buffer && info.operands[i].rule == hal::DTypeRule::Same) t = arrays[i].dtype;
      if (!t && !dtype.is_none()) t = hal::dtype_from_name(dtype.cast<std::string>());
      if (!t && info.operands[info.primary].rule == hal::DTypeRule::Fixed) t = info.operands[info.primary].fixed;
    }
    if (!t) fail(info, "dtype: nothing gives the op's dtype: expected an array among the operands, or dtype=", ErrorKind::Type);
  }
  for (uint32_t i = 0; i < num_inputs; ++i) {
    if (arrays[i].buffer) continue;
    const std::string operand_name = custom ? "operand " + std::to_string(i) : info.operands[i].name;
    if (inputs[i].is_none()) {
      operands[i].flags = HAL_OPERAND_ABSENT;
      continue;
    }
    hal_dtype d = HAL_F64;
    if (!custom) {
      const OperandInfo &o = info.operands[i];
      if (o.kind == hal::OperandKind::Tensor)
        fail(info, operand_name + ": got " + type_name(inputs[i]) + ", expected a hal.Array", ErrorKind::Type);
      d = o.rule == hal::DTypeRule::Fixed                                           ? o.fixed
          : o.kind == hal::OperandKind::Either || o.rule == hal::DTypeRule::Compute ? hal::compute_type(t)
                                                                                    : t;
    }
    operands[i].flags = HAL_OPERAND_IMMEDIATE;
    operands[i].dtype = d;
    places[i].offset = scalar_bits(info, operand_name, inputs[i], d);
  }
  const std::vector<uint64_t> words =
      attribute_struct(info, attributes, num_inputs && arrays[0].buffer ? uint32_t(arrays[0].shape.size()) : 0);
  const void *attribute_pointer = words.empty() ? nullptr : words.data();

  if (!custom) {
    hal_operand inferred[HAL_MAX_OPERANDS];
    std::copy_n(operands, n, inferred);
    for (uint32_t i = num_inputs; i < n; ++i) {
      hal_operand &o = inferred[i];
      if (arrays[i].buffer) continue;
      // A state that isn't given doesn't come out.
      if (info.operands[i].optional) {
        bool wanted = !have_outputs;
        for (uint32_t j = 0; j < num_inputs; ++j)
          if (info.operands[j].optional && (operands[j].flags & HAL_OPERAND_ABSENT)) wanted = false;
        if (!wanted) {
          o.flags = HAL_OPERAND_ABSENT;
          continue;
        }
      }
      if (have_outputs)
        fail(info, std::string(info.operands[i].name) + ": got " + type_name(all[i]) + ", expected a hal.Array", ErrorKind::Type);
      o.flags = HAL_OPERAND_OUTPUT;
      o.dtype = info.operands[i].rule == hal::DTypeRule::Any ? (dtype.is_none() ? 0 : hal::dtype_from_name(dtype.cast<std::string>())) : t;
      if (info.shape == hal::ShapeRule::given) {
        if (shape.is_none()) fail(info, "shape: this op needs shape= or outputs=");
        const auto dims = shape.cast<std::vector<int64_t>>();
        if (dims.size() > HAL_MAX_RANK) fail(info, "shape: got " + std::to_string(dims.size()) + " dimensions, expected at most 16");
        o.rank = uint32_t(dims.size());
        std::copy(dims.begin(), dims.end(), o.dims);
      }
    }
    hal::infer(id, inferred, num_inputs, num_outputs, attribute_pointer);
    for (uint32_t i = num_inputs; i < n; ++i) {
      if (arrays[i].buffer || (inferred[i].flags & HAL_OPERAND_ABSENT)) {
        if (!arrays[i].buffer) operands[i] = inferred[i];
        continue;
      }
      arrays[i] =
          make_empty(*device, inferred[i].dtype, std::vector<int64_t>(inferred[i].dims, inferred[i].dims + inferred[i].rank), stream);
      operands[i] = arrays[i].operand(HAL_OPERAND_OUTPUT);
    }
    if (info.shape == hal::ShapeRule::broadcast || info.shape == hal::ShapeRule::matmul)
      for (uint32_t i = 0; i < num_inputs; ++i)
        if (hal::is_tensor(operands[i])) expand(operands[i], inferred[num_inputs], info.shape == hal::ShapeRule::matmul ? 2 : 0);
  }
  // Aliases that the contract forbids: inputs are copied first, outputs are refused.
  const bool pointwise = std::strcmp(info.category, "pointwise") == 0;
  for (uint32_t i = num_inputs; i < n && have_outputs; ++i) {
    if (!arrays[i].buffer) continue;
    if (may_overlap_itself(arrays[i]))
      fail(info, "output " + std::to_string(i - num_inputs) + " overlaps itself: strides " + shape_text(arrays[i].strides));
    for (uint32_t j = num_inputs; j < i; ++j)
      if (arrays[j].buffer && overlap(arrays[i], arrays[j]))
        fail(info, "outputs " + std::to_string(j - num_inputs) + " and " + std::to_string(i - num_inputs) + " overlap");
    for (uint32_t j = 0; j < num_inputs; ++j) {
      if (!arrays[j].buffer || !overlap(arrays[i], arrays[j]) || (pointwise && same_view(arrays[i], arrays[j]))) continue;
      arrays[j] = contiguous_copy(arrays[j], stream);
      const hal_operand before = operands[j];
      operands[j] = arrays[j].operand(0);
      if (!custom && (info.shape == hal::ShapeRule::broadcast || info.shape == hal::ShapeRule::matmul))
        expand(operands[j], before, info.shape == hal::ShapeRule::matmul ? 2 : 0);
    }
  }
  for (uint32_t i = 0; i < n; ++i)
    if (arrays[i].buffer) places[i] = arrays[i].place();
  hal::run(stream, id, operands, places, num_inputs, num_outputs, attribute_pointer);

  if (num_outputs == 1) return have_outputs ? outputs[0] : py::cast(arrays[num_inputs]);
  py::tuple result(num_outputs);
  for (uint32_t i = 0; i < num_outputs; ++i)
    result[i] = have_outputs ? outputs[i] : arrays[num_inputs + i].buffer ? py::cast(arrays[num_inputs + i]) : py::object(py::none());
  return result;
}

}  // namespace

void bind_run(py::module_ &m) {
  m.def("run", &run_op, py::arg("op"), py::arg("inputs"), py::arg("attributes") = py::none(), py::arg("outputs") = py::none(),
        py::kw_only(), py::arg("shape") = py::none(), py::arg("dtype") = py::none(), py::arg("stream") = py::none(),
        "Runs an op of the table.\n\n"
        "inputs: arrays, Python numbers (converted once to the operand's type) or None (an optional operand left out).\n"
        "attributes: dict by the table's names. outputs: arrays to write to (also strided, also in place), else allocated;\n"
        "shape= and dtype= for ops whose output they don't follow from the inputs. Returns the output, or a tuple of outputs.");
}
