// To and from numpy, DLPack and raw bytes; without a copy where memory allows.
#include "dlpack.h"
#include "python.hpp"

namespace flow {

namespace {

constexpr int32_t kDlCpu = 1;

struct NumpyName {
  hal_dtype dtype;
  const char *name;
};
constexpr NumpyName kNumpy[] = {{HAL_BOOL, "bool"},   {HAL_U8, "uint8"},     {HAL_I8, "int8"},     {HAL_I16, "int16"},
                                {HAL_I32, "int32"},   {HAL_I64, "int64"},    {HAL_F16, "float16"}, {HAL_F32, "float32"},
                                {HAL_F64, "float64"}, {HAL_BF16, "bfloat16"}};

hal_dtype from_numpy_name(const std::string &name) {
  for (const auto &n : kNumpy)
    if (name == n.name) return n.dtype;
  throw Error(ErrorKind::Type, "[tensor] can't convert a numpy array of dtype " + name +
                                   ": expected bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32 or float64");
}

py::object numpy() { return py::module_::import("numpy"); }

py::object numpy_dtype(hal_dtype d) {
  if (d == HAL_BF16) {
    try {
      return numpy().attr("dtype")(py::module_::import("ml_dtypes").attr("bfloat16"));
    } catch (py::error_already_set &) {
      throw Error(ErrorKind::Type, "[numpy] bfloat16 needs the package ml_dtypes");
    }
  }
  for (const auto &n : kNumpy)
    if (n.dtype == d) return numpy().attr("dtype")(n.name);
  throw Error(ErrorKind::Type, "[numpy] unknown dtype");
}

// Waits for the work that may still write t.
void synchronize(const Tensor &t) {
  hal::Stream &s = t.device().current_stream(), &d = t.device().default_stream();
  py::gil_scoped_release gil;
  if (&d != &s) d.synchronize();
  s.synchronize();
}

void *host_address(const Tensor &t) { return static_cast<char *>(t->storage->buffer->host()) + t.byte_offset(); }

void require_host(const char *op, const Tensor &t) {
  if (!t.device().is_host())
    throw Error(ErrorKind::Type, std::string("[") + op + "] can't convert " + t.device().name() +
                                     " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first");
}

py::object to_numpy(const Tensor &t, bool force) {
  if (t.requires_grad() && !force && grad_enabled())
    throw Error(HAL_ERROR_INVALID_ARGUMENT, "[numpy] Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead");
  Tensor src = force ? to_device(detach(t), hal::host_device()) : t;
  require_host("numpy", src);
  synchronize(src);
  std::vector<py::ssize_t> shape(src.sizes().begin(), src.sizes().end()), strides;
  const auto size = static_cast<py::ssize_t>(hal::dtype_size(src.dtype()));
  for (int64_t s : src.strides()) strides.push_back(static_cast<py::ssize_t>(s) * size);
  // The array keeps the storage alive.
  src->storage->retain();
  py::capsule owner(src->storage.get(), [](void *p) { static_cast<Storage *>(p)->release(); });
  const bool bf16 = src.dtype() == HAL_BF16;
  py::array a(bf16 ? py::dtype("uint16") : py::dtype::from_args(numpy_dtype(src.dtype())), shape, strides, host_address(src), owner);
  return bf16 ? py::object(a.attr("view")(numpy_dtype(HAL_BF16))) : py::object(a);
}

// Wraps memory of the host that `owner` keeps alive. strides in elements.
Tensor adopt_host(void *data, int64_t low_bytes, uint64_t nbytes, hal_dtype dtype, const Dims &sizes, const Dims &strides,
                  std::function<void()> release) {
  hal::Device &host = hal::host_device();
  auto *impl = new TensorImpl;
  Tensor t(impl);
  impl->storage = Ref<Storage>(new Storage);
  impl->storage->buffer = host.allocator().adopt(static_cast<char *>(data) + low_bytes, nbytes ? nbytes : 1, std::move(release));
  impl->storage->nbytes = nbytes;
  impl->offset = -low_bytes / static_cast<int64_t>(hal::dtype_size(dtype));
  impl->dtype = dtype;
  impl->sizes = sizes;
  impl->strides = strides;
  return t;
}

// Bytes before and after element 0 that the view touches.
void extent(const Dims &sizes, const Dims &strides, int64_t size, int64_t &low, int64_t &high) {
  low = 0;
  high = size;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) {
      low = high = 0;
      return;
    }
    const int64_t span = (sizes[i] - 1) * strides[i] * size;
    (span < 0 ? low : high) += span;
  }
}

void release_python(PyObject *o) {
  if (!Py_IsInitialized()) return;
  py::gil_scoped_acquire gil;
  Py_DECREF(o);
}

Tensor from_array(py::object array, bool share) {
  const py::object np = numpy();
  const hal_dtype dtype = from_numpy_name(array.attr("dtype").attr("name").cast<std::string>());
  if (!array.attr("dtype").attr("isnative").cast<bool>()) array = array.attr("astype")(array.attr("dtype").attr("newbyteorder")("="));
  const int64_t size = static_cast<int64_t>(hal::dtype_size(dtype));
  Dims sizes, strides;
  bool usable = array.attr("flags").attr("writeable").cast<bool>() && array.attr("flags").attr("aligned").cast<bool>();
  for (auto d : array.attr("shape")) sizes.push_back(d.cast<int64_t>());
  for (auto s : array.attr("strides")) {
    const int64_t bytes = s.cast<int64_t>();
    usable &= bytes % size == 0 && bytes >= 0;
    strides.push_back(bytes / size);
  }
  if (!share || !usable) {
    array = np.attr("array")(array, py::arg("copy") = true, py::arg("order") = "C");
    strides = contiguous_strides(sizes);
  }
  auto *data = reinterpret_cast<void *>(array.attr("ctypes").attr("data").cast<uintptr_t>());
  int64_t low, high;
  extent(sizes, strides, size, low, high);
  PyObject *owner = array.inc_ref().ptr();
  return adopt_host(data, low, static_cast<uint64_t>(high - low), dtype, sizes, strides, [owner] { release_python(owner); });
}

// ---- DLPack ----

DLDataType to_dl(hal_dtype d) {
  const auto bits = static_cast<uint8_t>(8 * hal::dtype_size(d));
  const uint8_t code = d == HAL_BOOL ? 6 : d == HAL_U8 ? 1 : d == HAL_BF16 ? 4 : hal::is_float(d) ? 2 : 0;
  return {code, bits, 1};
}

hal_dtype from_dl(DLDataType d) {
  for (hal_dtype t = 1; t < HAL_DTYPE_COUNT; ++t) {
    const DLDataType c = to_dl(t);
    if (d.lanes == 1 && d.code == c.code && d.bits == c.bits) return t;
  }
  throw Error(ErrorKind::Type, "[from_dlpack] unsupported dtype: got code " + std::to_string(d.code) + ", " + std::to_string(d.bits) +
                                   " bits, " + std::to_string(d.lanes) + " lanes");
}

struct Exported {
  DLManagedTensor managed{};
  Tensor tensor;
  Dims shape, strides;
};

py::capsule to_dlpack(const Tensor &t) {
  if (t.requires_grad())
    throw Error(HAL_ERROR_INVALID_ARGUMENT, "[dlpack] Can't export tensors that require gradient, use tensor.detach()");
  if (!t.device().is_host())
    throw Error(ErrorKind::NotImplemented, "[dlpack] export of " + t.device().name() + " memory is not implemented: use cpu() first");
  synchronize(t);
  auto *e = new Exported;
  e->tensor = t;
  e->shape = t.sizes();
  e->strides = t.strides();
  e->managed.dl_tensor = {host_address(t),
                          {kDlCpu, 0},
                          static_cast<int32_t>(t.dim()),
                          to_dl(t.dtype()),
                          const_cast<int64_t *>(e->shape.data()),
                          const_cast<int64_t *>(e->strides.data()),
                          0};
  e->managed.manager_ctx = e;
  e->managed.deleter = [](DLManagedTensor *m) { delete static_cast<Exported *>(m->manager_ctx); };
  return py::capsule(&e->managed, "dltensor", [](PyObject *o) {
    if (!PyCapsule_IsValid(o, "dltensor")) return;  // a consumer took it and renamed the capsule
    auto *m = static_cast<DLManagedTensor *>(PyCapsule_GetPointer(o, "dltensor"));
    m->deleter(m);
  });
}

Tensor from_dlpack(py::object source) {
  py::object holder = source;
  if (!PyCapsule_CheckExact(source.ptr())) {
    if (!py::hasattr(source, "__dlpack__"))
      throw Error(ErrorKind::Type, std::string("[from_dlpack] expected an object with __dlpack__ or a DLPack capsule: got ") +
                                       Py_TYPE(source.ptr())->tp_name);
    holder = source.attr("__dlpack__")();
  }
  if (!PyCapsule_IsValid(holder.ptr(), "dltensor"))
    throw Error(ErrorKind::Value, "[from_dlpack] the capsule was consumed before, or is no DLPack capsule");
  auto *m = static_cast<DLManagedTensor *>(PyCapsule_GetPointer(holder.ptr(), "dltensor"));
  const DLTensor &d = m->dl_tensor;
  if (d.device.device_type != kDlCpu)
    throw Error(ErrorKind::NotImplemented,
                "[from_dlpack] only CPU memory can be imported: got device type " + std::to_string(d.device.device_type));
  if (d.ndim > HAL_MAX_RANK) throw Error(ErrorKind::Value, "[from_dlpack] too many dimensions: got " + std::to_string(d.ndim));
  const hal_dtype dtype = from_dl(d.dtype);
  const Dims sizes(d.shape, static_cast<size_t>(d.ndim));
  const Dims strides = d.strides ? Dims(d.strides, static_cast<size_t>(d.ndim)) : contiguous_strides(sizes);
  int64_t low, high;
  extent(sizes, strides, static_cast<int64_t>(hal::dtype_size(dtype)), low, high);
  PyCapsule_SetName(holder.ptr(), "used_dltensor");
  return adopt_host(static_cast<char *>(d.data) + d.byte_offset, low, static_cast<uint64_t>(high - low), dtype, sizes, strides, [m] {
    if (!m->deleter) return;
    if (!Py_IsInitialized()) return;
    py::gil_scoped_acquire gil;
    m->deleter(m);
  });
}

py::bytes to_bytes(const Tensor &t) {
  GradMode off(false);
  const Tensor src = contiguous(to_device(t, hal::host_device()));
  synchronize(src);
  return py::bytes(static_cast<const char *>(host_address(src)), static_cast<size_t>(src.numel()) * hal::dtype_size(src.dtype()));
}

Tensor from_bytes(const py::buffer &data, DType dtype, const Dims &shape, std::optional<DeviceArg> device) {
  const py::buffer_info info = data.request();
  const int64_t bytes = count(shape) * static_cast<int64_t>(hal::dtype_size(dtype.value));
  if (info.size * info.itemsize != bytes)
    throw Error(ErrorKind::Value, "[tensor_from_bytes] length doesn't match: got " + std::to_string(info.size * info.itemsize) +
                                      " bytes, expected " + std::to_string(bytes));
  Tensor t = empty(shape, dtype.value, device_or_host(device));
  if (bytes) hal::copy_from_host(t.device().current_stream(), *t->storage->buffer, 0, info.ptr, static_cast<uint64_t>(bytes));
  return t;
}

py::object to_list(const Tensor &t) { return to_numpy(t.dtype() == HAL_BF16 ? cast(detach(t), HAL_F32) : t, true).attr("tolist")(); }

}  // namespace

Tensor tensor_from_data(py::handle data, std::optional<DType> dtype, hal::Device *device) {
  GradMode off(false);
  Tensor t;
  Value v(0);
  if (is_tensor(data.ptr())) {
    const Tensor src = unwrap(data.ptr());
    hal::Device &d = device ? *device : src.device();
    const hal_dtype want = dtype ? dtype->value : src.dtype();
    t = to_device(cast(src, want), d);
    return t->storage == src->storage ? clone(t) : t;
  }
  hal::Device &target = device ? *device : hal::host_device();
  if ((PyFloat_CheckExact(data.ptr()) || PyLong_Check(data.ptr())) && parse_value(data.ptr(), v)) {
    const Scalar s = v.scalar;
    return full({}, s,
                dtype                    ? dtype->value
                : s.kind == Scalar::Bool ? HAL_BOOL
                : s.kind == Scalar::Int  ? HAL_I64
                                         : default_dtype(),
                target);
  }
  const py::object np = numpy();
  const bool is_array = py::isinstance(data, np.attr("ndarray")) || py::isinstance(data, np.attr("generic"));
  py::object array;
  try {
    array = np.attr("asarray")(data);
  } catch (py::error_already_set &e) {
    throw Error(ErrorKind::Value, std::string("[tensor] data can't be read as an array: ") + e.what());
  }
  const std::string kind = array.attr("dtype").attr("kind").cast<std::string>();
  if (kind == "O" || kind == "U" || kind == "S")
    throw Error(ErrorKind::Type, "[tensor] data has no numeric type: got " + py::str(array.attr("dtype")).cast<std::string>());
  const bool plain = !is_array && kind == "f";  // Python floats take the default dtype
  const hal_dtype want = dtype ? dtype->value
                         : plain || (!is_array && array.attr("size").cast<int64_t>() == 0)
                             ? default_dtype()
                             : from_numpy_name(array.attr("dtype").attr("name").cast<std::string>());
  t = from_array(array, !is_array);  // an array made just now may be taken over
  t = to_device(cast(t, want), target);
  return t;
}

void bind_exchange(py::module_ &m, py::object &type) {
  def_method(type, "numpy", [](const Tensor &t, bool force) { return to_numpy(t, force); }, py::kw_only(), py::arg("force") = false);
  def_method(
      type, "__array__",
      [](const Tensor &t, py::object dtype, py::object copy) {
        py::object a = to_numpy(t, false);
        if (!dtype.is_none())
          a = a.attr("astype")(dtype);
        else if (!copy.is_none() && copy.cast<bool>())
          a = a.attr("copy")();
        return a;
      },
      py::arg("dtype") = py::none(), py::arg("copy") = py::none());
  def_method(type, "tolist", [](const Tensor &t) -> py::object {
    if (t.dim() == 0) return py::cast(item(t));
    return to_list(t);
  });
  def_method(type, "item", [](const Tensor &t) { return item(t); });
  def_method(type, "__dlpack__", [](const Tensor &t, const py::kwargs &) { return to_dlpack(t); });
  def_method(type, "__dlpack_device__", [](const Tensor &t) {
    if (!t.device().is_host())
      throw Error(ErrorKind::NotImplemented, "[dlpack] export of " + t.device().name() + " memory is not implemented");
    return py::make_tuple(kDlCpu, 0);
  });
  m.def("to_dlpack", &to_dlpack, py::arg("tensor"));
  m.def("from_dlpack", &from_dlpack, py::arg("ext_tensor"));
  m.def(
      "from_numpy",
      [](py::object array) {
        if (!py::isinstance(array, numpy().attr("ndarray")))
          throw Error(ErrorKind::Type, std::string("[from_numpy] expected np.ndarray: got ") + Py_TYPE(array.ptr())->tp_name);
        return from_array(array, true);
      },
      py::arg("ndarray"));
  m.def(
      "as_tensor",
      [](py::object data, std::optional<DType> dtype, std::optional<DeviceArg> device) {
        if (is_tensor(data.ptr())) {
          Tensor t = unwrap(data.ptr());
          if (dtype) t = cast(t, dtype->value);
          return device ? to_device(t, *device->device) : t;
        }
        if (py::isinstance(data, numpy().attr("ndarray"))) {
          Tensor t = from_array(data, true);
          if (dtype) t = cast(t, dtype->value);
          return device ? to_device(t, *device->device) : t;
        }
        return tensor_from_data(data, dtype, device ? device->device : nullptr);
      },
      py::arg("data"), py::arg("dtype") = py::none(), py::arg("device") = py::none());
  m.def("tensor_to_bytes", &to_bytes, py::arg("tensor"));
  m.def("tensor_from_bytes", &from_bytes, py::arg("data"), py::arg("dtype"), py::arg("shape"), py::arg("device") = py::none());
}

}  // namespace flow
