// Kernels of plugins written in Python: descriptors become Python objects at prepare; a launch builds the arguments and calls.
#include <hal/numerics/numerics.h>

#include <algorithm>
#include <cstring>

#include "device.hpp"
#include "op_table.hpp"
#include "plugin_python.hpp"

namespace {

// One argument of a step: how it is made of a launch's buffers.
struct Argument {
  enum Kind : uint8_t { Buffer, Workspace, Immediate, Bits, Constant, Tensor, Absent };
  Kind kind = Constant;
  hal_dtype dtype = 0;
  uint32_t operand = 0;
  uint64_t bytes = 0;          // Buffer, Workspace: added to the offset
  PyObject *object = nullptr;  // Constant: itself; Tensor: a callable (memory, byte offset) that makes it
};

// function(stream, *head, arguments)
struct Step {
  PyObject *function;
  std::vector<PyObject *> head;
  std::vector<Argument> arguments;
};

}  // namespace

struct hal_executable {
  std::vector<Step> steps;
  std::vector<PyObject *> owned;
};

namespace {

PyObject *g_operand_type = nullptr;  // hal.plugin.Operand

// --- prepare -----------------------------------------------------------------------------------------------------------------------

py::object operand_object(const hal_operand &o) {
  py::tuple shape(o.rank), strides(o.rank);
  for (uint32_t d = 0; d < o.rank; ++d) {
    shape[d] = o.dims[d];
    strides[d] = o.strides[d];
  }
  const char *kind = o.flags & HAL_OPERAND_ABSENT      ? "absent"
                     : o.flags & HAL_OPERAND_IMMEDIATE ? "immediate"
                     : o.flags & HAL_OPERAND_OUTPUT    ? "output"
                                                       : "input";
  const py::object dtype = o.flags & HAL_OPERAND_ABSENT ? py::object(py::str("")) : py::str(hal::dtype_name(o.dtype));
  return py::reinterpret_borrow<py::object>(g_operand_type)(kind, dtype, shape, strides);
}

// The attribute struct as a dict. Ops that a plugin brings have attributes of their own, as bytes.
py::object attributes_object(const hal::OpInfo &info, const void *attributes) {
  if (attributes == nullptr) return py::dict();
  uint32_t size;
  std::memcpy(&size, attributes, sizeof size);
  const char *bytes = static_cast<const char *>(attributes);
  if (info.shape == hal::ShapeRule::custom) return py::bytes(bytes, size);
  py::dict out;
  for (const hal::AttributeInfo &a : info.attributes) {
    py::tuple values(static_cast<size_t>(a.count));
    for (int i = 0; i < a.count; ++i) {
      const size_t place = a.offset + 8 * size_t(i);
      int64_t n = 0;
      double d = 0;
      if (place + 8 <= size) {
        std::memcpy(&n, bytes + place, 8);
        std::memcpy(&d, bytes + place, 8);
      }
      values[size_t(i)] = a.is_float ? py::object(py::float_(d)) : py::object(py::int_(n));
    }
    out[a.name] = a.count == 1 ? py::object(values[0]) : py::object(values);
  }
  return out;
}

Argument read_argument(const py::tuple &from, hal_executable &executable) {
  const std::string kind = from[0].cast<std::string>();
  Argument a;
  auto keep = [&](const py::object &object) {
    if (object.is_none()) return;
    a.object = object.ptr();
    Py_INCREF(a.object);
    executable.owned.push_back(a.object);
  };
  if (kind == "buffer") {
    a.kind = Argument::Buffer;
    a.operand = from[1].cast<uint32_t>();
    a.bytes = from[2].cast<uint64_t>();
  } else if (kind == "workspace") {
    a.kind = Argument::Workspace;
    a.bytes = from[1].cast<uint64_t>();
  } else if (kind == "immediate") {
    a.kind = Argument::Immediate;
    a.operand = from[1].cast<uint32_t>();
    a.dtype = hal::dtype_from_name(from[2].cast<std::string>());
  } else if (kind == "bits") {
    a.kind = Argument::Bits;
    a.operand = from[1].cast<uint32_t>();
  } else if (kind == "constant") {
    a.kind = Argument::Constant;
    a.object = py::object(from[1]).ptr();
    Py_INCREF(a.object);
    executable.owned.push_back(a.object);
  } else if (kind == "tensor") {
    a.kind = Argument::Tensor;
    a.operand = from[1].cast<uint32_t>();
    keep(from[2]);
  } else if (kind == "absent") {
    a.kind = Argument::Absent;
  } else {
    throw py::value_error("prepare: unknown kind of argument '" + kind + "'");
  }
  return a;
}

void read_steps(const py::handle &steps, uint32_t num_operands, hal_executable &executable) {
  auto keep = [&](const py::handle &object) {
    Py_INCREF(object.ptr());
    executable.owned.push_back(object.ptr());
    return object.ptr();
  };
  for (const auto &item : steps.cast<py::sequence>()) {
    const auto from = item.cast<py::tuple>();
    Step step;
    step.function = keep(from[0]);
    for (const auto &object : from[1].cast<py::tuple>()) step.head.push_back(keep(object));
    for (const auto &argument : from[2].cast<py::sequence>()) {
      step.arguments.push_back(read_argument(argument.cast<py::tuple>(), executable));
      if (step.arguments.back().operand >= num_operands) throw py::index_error("prepare: an argument names an operand that isn't there");
    }
    if (step.head.size() > 8) throw py::value_error("prepare: more than 8 leading arguments");
    executable.steps.push_back(std::move(step));
  }
}

void release_objects(hal_executable *executable) {
  for (PyObject *object : executable->owned) Py_DECREF(object);
  delete executable;
}

hal_status kernel_list(hal_device *device, const hal_kernel_info **rows, uint32_t *count) {
  *rows = device->plugin->rows.data();
  *count = uint32_t(device->plugin->rows.size());
  return HAL_OK;
}

hal_status kernel_prepare(hal_device *device, const hal_op *op, hal_executable **out, uint64_t *workspace_size) {
  const hal::OpInfo &info = hal::op_info(hal::find_op(op->name));
  if (op->attributes != nullptr && info.shape != hal::ShapeRule::custom &&
      !HAL_ATTRIBUTES_TAIL_CLEAR(op->attributes, info.attributes_size)) {
    hal::set_error_text("attributes of a newer op set");
    return HAL_ERROR_UNSUPPORTED;
  }
  HookCall hook;
  auto *executable = new hal_executable;
  try {
    const uint32_t n = op->num_inputs + op->num_outputs;
    py::tuple operands(n);
    for (uint32_t i = 0; i < n; ++i) operands[i] = operand_object(op->operands[i]);
    const py::str name(op->name), numerics(op->numerics == HAL_NUMERICS_FAST ? "fast" : "reproducible");
    const py::object attributes = attributes_object(info, op->attributes);
    const auto result = py::reinterpret_steal<py::object>(
        call(device->hooks().prepare, {device->object, name.ptr(), numerics.ptr(), operands.ptr(), attributes.ptr()}));
    if (!result) throw py::error_already_set();
    const auto prepared = result.cast<py::tuple>();
    const uint64_t workspace = prepared[0].cast<uint64_t>();
    read_steps(prepared[1], n, *executable);
    *workspace_size = workspace;
    *out = executable;
    return HAL_OK;
  } catch (py::error_already_set &error) {
    error.restore();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  release_objects(executable);
  return take_exception("prepare");
}

void kernel_release(hal_device *, hal_executable *executable) {
  HookCall hook;
  release_objects(executable);
}

// --- launch ------------------------------------------------------------------------------------------------------------------------

PyObject *immediate_object(uint64_t bits, hal_dtype dtype) {
  switch (dtype) {
    case HAL_F64: {
      double x;
      std::memcpy(&x, &bits, sizeof x);
      return PyFloat_FromDouble(x);
    }
    case HAL_F32: {
      const uint32_t low = uint32_t(bits);
      float x;
      std::memcpy(&x, &low, sizeof x);
      return PyFloat_FromDouble(double(x));
    }
    case HAL_F16:
      return PyFloat_FromDouble(double(hal_f16_to_f32(uint16_t(bits))));
    case HAL_BF16:
      return PyFloat_FromDouble(double(hal_bf16_to_f32(uint16_t(bits))));
    case HAL_BOOL:
      return PyBool_FromLong(long(bits & 1));
    case HAL_U8:
      return PyLong_FromLong(long(uint8_t(bits)));
    default: {
      const int shift = 64 - 8 * int(hal::dtype_size(dtype));
      return PyLong_FromLongLong((long long)(int64_t(bits << shift) >> shift));
    }
  }
}

// (memory, byte offset); of an immediate: (None, its bits), as hal_buffer has it.
PyObject *place_object(const hal_buffer &buffer, uint64_t bytes) {
  PyObject *offset = PyLong_FromLongLong((long long)(buffer.offset + bytes));
  PyObject *place = PyTuple_Pack(2, buffer.memory != nullptr ? buffer.memory->object : Py_None, offset);
  Py_XDECREF(offset);
  return place;
}

PyObject *make_argument(const Argument &a, const hal_buffer *buffers, const hal_buffer &workspace) {
  switch (a.kind) {
    case Argument::Buffer:
      return place_object(buffers[a.operand], a.bytes);
    case Argument::Workspace:
      return place_object(workspace, a.bytes);
    case Argument::Immediate:
      return immediate_object(buffers[a.operand].immediate, a.dtype);
    case Argument::Bits:
      return PyLong_FromLongLong((long long)buffers[a.operand].immediate);
    case Argument::Tensor: {
      PyObject *memory = buffers[a.operand].memory != nullptr ? buffers[a.operand].memory->object : Py_None;
      PyObject *offset = PyLong_FromUnsignedLongLong(buffers[a.operand].offset);
      PyObject *result = call(a.object, {memory, offset});
      Py_DECREF(offset);
      return result;
    }
    case Argument::Absent:
      Py_RETURN_NONE;
    case Argument::Constant:
      break;
  }
  Py_INCREF(a.object);
  return a.object;
}

hal_status run_step(const Step &step, PyObject *stream, const hal_buffer *buffers, const hal_buffer &workspace) {
  PyObject *arguments = PyTuple_New(Py_ssize_t(step.arguments.size()));
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    PyObject *argument = make_argument(step.arguments[i], buffers, workspace);
    if (argument == nullptr) {
      Py_DECREF(arguments);
      return take_exception("launch");
    }
    PyTuple_SET_ITEM(arguments, Py_ssize_t(i), argument);
  }
  PyObject *stack[11];
  size_t n = 0;
  stack[n++] = stream;
  for (PyObject *object : step.head) stack[n++] = object;
  stack[n++] = arguments;
  PyObject *result = PyObject_Vectorcall(step.function, stack, n, nullptr);
  Py_DECREF(arguments);
  if (result == nullptr) return take_exception("launch");
  Py_DECREF(result);
  return HAL_OK;
}

hal_status run_steps(Queue &queue, const hal_executable &executable, const hal_buffer *buffers, const hal_buffer &workspace) {
  HookCall hook;
  for (const Step &step : executable.steps) {
    const hal_status status = run_step(step, queue.object, buffers, workspace);
    if (status != HAL_OK) return status;
  }
  return HAL_OK;
}

hal_status kernel_launch(hal_stream *stream, hal_executable *executable, const hal_launch *args) {
  Queue &queue = *stream->queue;
  return submit(
      queue, args->label, [&] { return run_steps(queue, *executable, args->buffers, args->workspace); },
      [&]() -> Work {
        std::vector<hal_buffer> buffers(args->buffers, args->buffers + args->num_buffers);
        return [&queue, executable, buffers = std::move(buffers), workspace = args->workspace] {
          return run_steps(queue, *executable, buffers.data(), workspace);
        };
      });
}

}  // namespace

void bind_plugin_kernels(py::module_ &m) {
  m.def(
      "set_plugin_operand_type", [](const py::object &type) { g_operand_type = py::object(type).release().ptr(); }, py::arg("type"),
      "The class (kind, dtype, shape, strides) by which prepare is told of operands.");
}

const hal_kernel_api kPythonKernelApi = {sizeof(hal_kernel_api), kernel_list,   nullptr, kernel_prepare,
                                         kernel_release,         kernel_launch, nullptr};
