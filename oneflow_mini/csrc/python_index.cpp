// What stands between [ and ] when there is a tensor, a mask or a list in it; and bindings of the ops of ops_index.hpp.
#include "launch.hpp"
#include "op_ids.hpp"
#include "ops_index.hpp"
#include "python.hpp"

namespace flow {

// index.cpp
Tensor basic_index(const Tensor &t, PyObject *index);

namespace {

using namespace pybind11::literals;

bool is_integer_scalar(PyObject *item) {
  return !PyBool_Check(item) && PyIndex_Check(item) && !(is_tensor(item) && (unwrap(item).dim() > 0 || unwrap(item).dtype() == HAL_BOOL));
}

bool is_advanced(PyObject *item) {
  if (item == Py_Ellipsis || item == Py_None || PySlice_Check(item) || is_integer_scalar(item)) return false;
  return PyBool_Check(item) || is_tensor(item) || (PySequence_Check(item) && !PyUnicode_Check(item)) || py::hasattr(item, "__array__");
}

Tensor index_tensor(PyObject *item, hal::Device &device) {
  Tensor t;
  if (is_tensor(item)) {
    t = detach(unwrap(item));
    if (&t.device() != &device && t.dim() == 0) t = to_device(t, device);
  } else if (PyBool_Check(item)) {
    t = full({}, Scalar(item == Py_True), HAL_BOOL, device);
  } else if (PySequence_Check(item) && PySequence_Size(item) == 0 && !py::hasattr(item, "__array__")) {
    t = empty({0}, HAL_I64, device);
  } else {
    t = tensor_from_data(item, {}, &device);
  }
  if (t.dtype() == HAL_U8 || hal::is_float(t.dtype()))
    throw Error(ErrorKind::Index,
                std::string("[index] tensors used as indices must be integers or bool: got ") + dtype_long_name(t.dtype()));
  return t;
}

// The index split: a view by its basic parts, in which each tensor stands for one dimension (a mask for as many as it has).
struct Split {
  Tensor view;
  Tensors indices;
};

Split split_index(const Tensor &t, PyObject *index) {
  py::tuple items =
      PyTuple_Check(index) ? py::reinterpret_borrow<py::tuple>(index) : py::make_tuple(py::reinterpret_borrow<py::object>(index));
  const py::object whole = py::reinterpret_steal<py::object>(PySlice_New(nullptr, nullptr, nullptr));
  std::vector<Tensor> parsed(items.size());
  int64_t consumed = 0;
  bool ellipsis = false;
  for (size_t i = 0; i < items.size(); ++i) {
    PyObject *item = py::object(items[i]).ptr();
    if (item == Py_Ellipsis) ellipsis = true;
    if (item == Py_Ellipsis || item == Py_None) continue;
    if (is_advanced(item)) parsed[i] = index_tensor(item, t.device());
    consumed += parsed[i].defined() && parsed[i].dtype() == HAL_BOOL ? parsed[i].dim() : 1;
  }
  if (consumed > t.dim())
    throw Error(ErrorKind::Index,
                "[index] too many indices for tensor: got " + std::to_string(consumed) + ", expected at most " + std::to_string(t.dim()));
  // For the basic half each indexed dimension is a whole slice, and a 0-d mask a new dimension.
  py::list basic;
  Split s;
  size_t dim = 0;  // of the view
  const auto place = [&](const Tensor &part) {
    s.indices.resize(dim);
    s.indices.push_back(part);
    ++dim;
  };
  std::vector<std::pair<size_t, Tensor>> masks;  // first dimension in the view
  for (size_t i = 0; i < items.size(); ++i) {
    const py::object item = items[i];
    if (!parsed[i].defined()) {
      basic.append(item);
      if (item.ptr() == Py_Ellipsis)
        dim += static_cast<size_t>(t.dim() - consumed);
      else if (item.is_none() || PySlice_Check(item.ptr()))
        ++dim;
    } else if (parsed[i].dtype() != HAL_BOOL) {
      basic.append(whole);
      place(parsed[i]);
    } else if (parsed[i].dim() == 0) {
      basic.append(py::none());
      place(zeros({flow::item(parsed[i]).i ? 1 : 0}, HAL_I64, t.device()));
    } else {
      masks.emplace_back(dim, parsed[i]);
      for (const Tensor &part : nonzero(parsed[i])) {
        basic.append(whole);
        place(part);
      }
    }
  }
  (void)ellipsis;
  s.view = basic_index(t, py::tuple(basic).ptr());
  for (const auto &[first, mask] : masks)
    for (int64_t d = 0; d < mask.dim(); ++d)
      if (s.view.sizes()[first + static_cast<size_t>(d)] != mask.sizes()[static_cast<size_t>(d)])
        throw Error(ErrorKind::Index, "[index] the shape of the mask " + to_string(mask.sizes()) + " at index " + std::to_string(d) +
                                          " does not match the shape of the indexed tensor " + to_string(t.sizes()));
  return s;
}

py::object named(const char *type, const std::pair<Tensor, Tensor> &p) {
  return py::module_::import("oneflow_mini._structs").attr(type)(p.first, p.second);
}

Tensors indices_of(const Tensor &t, const py::sequence &given) {
  Tensors out;
  for (const py::handle item : given) {
    if (item.is_none()) {
      out.emplace_back();
      continue;
    }
    const Tensor one = index_tensor(item.ptr(), t.device());
    if (one.dtype() != HAL_BOOL)
      out.push_back(one);
    else
      for (const Tensor &part : nonzero(one)) out.push_back(part);
  }
  const bool any = std::any_of(out.begin(), out.end(), [](const Tensor &o) { return o.defined(); });
  if (!any || static_cast<int64_t>(out.size()) > t.dim())
    throw Error(ErrorKind::Index, "[index_put_] indices: got " + std::to_string(out.size()) + ", expected 1 to " + std::to_string(t.dim()));
  return out;
}

void bind_gathers(py::module_ &m, py::object &type) {
  def_both(m, type, "gather", [](const Tensor &x, int64_t d, const Tensor &i) { return gather(x, d, i); }, "dim"_a, "index"_a);
  def_both(m, type, "index_select", [](const Tensor &x, int64_t d, const Tensor &i) { return index_select(x, d, i); }, "dim"_a, "index"_a);
  for (const char *name : {"take_along_dim"})
    def_both(
        m, type, name, [](const Tensor &x, const Tensor &i, std::optional<int64_t> d) { return take_along_dim(x, i, d); }, "indices"_a,
        "dim"_a = py::none());
  def_both(m, type, "take", [](const Tensor &x, const Tensor &i) { return view(index_get(reshape(x, {-1}), {i}), i.sizes()); }, "index"_a);
  def_both(m, type, "masked_select", [](const Tensor &x, const Tensor &mask) { return masked_select(x, mask); }, "mask"_a);
  def_both(
      m, type, "nonzero",
      [](const Tensor &t, bool as_tuple) -> py::object {
        const Tensor seen = t.dim() ? t : view(t, {1});
        Tensors parts = nonzero(seen);
        if (as_tuple) {
          py::tuple out(parts.size());
          for (size_t i = 0; i < parts.size(); ++i) out[i] = parts[i];
          return std::move(out);
        }
        if (t.dim() == 0) return py::cast(empty({parts[0].numel(), 0}, HAL_I64, t.device()));
        return py::cast(stack(parts, 1));
      },
      py::kw_only(), "as_tuple"_a = false);
  m.def(
      "embedding", [](const Tensor &w, const Tensor &ids, int64_t padding_idx) { return embedding(w, ids, padding_idx); }, "weight"_a,
      "input"_a, "padding_idx"_a = -1);
}

void bind_scatters(py::module_ &m, py::object &type) {
  def_both(
      m, type, "scatter", [](const Tensor &x, int64_t d, const Tensor &i, const Value &s) { return scatter(x, d, i, s); }, "dim"_a,
      "index"_a, "src"_a);
  def_both(
      m, type, "scatter", [](const Tensor &x, int64_t d, const Tensor &i, const Value &s) { return scatter(x, d, i, s); }, "dim"_a,
      "index"_a, "value"_a);
  def_method(
      type, "scatter_", [](const Tensor &x, int64_t d, const Tensor &i, const Value &s) { return scatter_(x, d, i, s); }, "dim"_a,
      "index"_a, "src"_a);
  def_method(
      type, "scatter_", [](const Tensor &x, int64_t d, const Tensor &i, const Value &s) { return scatter_(x, d, i, s); }, "dim"_a,
      "index"_a, "value"_a);
  def_both(
      m, type, "scatter_add", [](const Tensor &x, int64_t d, const Tensor &i, const Tensor &s) { return scatter_add(x, d, i, s); }, "dim"_a,
      "index"_a, "src"_a);
  def_method(
      type, "scatter_add_", [](const Tensor &x, int64_t d, const Tensor &i, const Tensor &s) { return scatter_add_(x, d, i, s); }, "dim"_a,
      "index"_a, "src"_a);
  const auto scaled = [](const Tensor &s, const Scalar &alpha) { return alpha.d == 1 ? s : mul(s, Value(alpha)); };
  def_both(
      m, type, "index_add",
      [scaled](const Tensor &x, int64_t d, const Tensor &i, const Tensor &s, const Scalar &a) { return index_add(x, d, i, scaled(s, a)); },
      "dim"_a, "index"_a, "source"_a, py::kw_only(), "alpha"_a = 1);
  def_method(
      type, "index_add_",
      [scaled](const Tensor &x, int64_t d, const Tensor &i, const Tensor &s, const Scalar &a) { return index_add_(x, d, i, scaled(s, a)); },
      "dim"_a, "index"_a, "source"_a, py::kw_only(), "alpha"_a = 1);
  def_method(
      type, "index_put_",
      [](const Tensor &x, const py::sequence &indices, const Value &v, bool accumulate) {
        index_put(x, indices_of(x, indices), v, accumulate);
        return x;
      },
      "indices"_a, "values"_a, "accumulate"_a = false);
  def_both(
      m, type, "index_put",
      [](const Tensor &x, const py::sequence &indices, const Value &v, bool accumulate) {
        const Tensor out = clone(x);
        index_put(out, indices_of(x, indices), v, accumulate);
        return out;
      },
      "indices"_a, "values"_a, "accumulate"_a = false);
}

void bind_order(py::module_ &m, py::object &type) {
  def_both(
      m, type, "cumsum", [](const Tensor &x, int64_t d, std::optional<DType> t) { return cumsum(t ? cast(x, t->value) : x, d); }, "dim"_a,
      py::kw_only(), "dtype"_a = py::none());
  def_both(
      m, type, "sort", [](const Tensor &x, int64_t d, bool descending, bool) { return named("sort", sort(x, d, descending)); },
      "dim"_a = -1, "descending"_a = false, "stable"_a = false);
  def_both(
      m, type, "argsort", [](const Tensor &x, int64_t d, bool descending, bool) { return sort(detach(x), d, descending).second; },
      "dim"_a = -1, "descending"_a = false, "stable"_a = false);
  def_both(
      m, type, "topk", [](const Tensor &x, int64_t k, int64_t d, bool largest, bool) { return named("topk", topk(x, k, d, largest)); },
      "k"_a, "dim"_a = -1, "largest"_a = true, "sorted"_a = true);
  m.def("flip", [](const Tensor &x, const DimsArg &d) { return flip(x, d.axes.value_or(std::vector<int64_t>{})); }, "input"_a, "dims"_a);
  def_method(type, "flip", [](const Tensor &x, const py::args &args) {
    std::vector<int64_t> dims;
    for (int64_t d : args.size() == 1 ? parse_size(args[0], "flip") : parse_size(args, "flip")) dims.push_back(d);
    return flip(x, dims);
  });
}

}  // namespace

bool has_advanced(PyObject *index) {
  if (!PyTuple_Check(index)) return is_advanced(index);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); ++i)
    if (is_advanced(PyTuple_GET_ITEM(index, i))) return true;
  return false;
}

Tensor advanced_get(const Tensor &t, PyObject *index) {
  const Split s = split_index(t, index);
  return index_get(s.view, s.indices);
}

void advanced_set(const Tensor &t, PyObject *index, const Value &value) {
  // A mask of the whole tensor and one value: no need to count.
  if (is_tensor(index) && unwrap(index).dtype() == HAL_BOOL && unwrap(index).sizes() == t.sizes() &&
      &unwrap(index).device() == &t.device() && (!value.is_tensor() || value.tensor.dim() == 0)) {
    const Value v = value.is_tensor() ? Value(to_device(cast(value.tensor, t.dtype()), t.device()))
                                      : Value(full({}, value.scalar, t.dtype(), t.device()));
    copy_(t, where(unwrap(index), v, t));
    return;
  }
  const Split s = split_index(t, index);
  index_put(s.view, s.indices, value, false);
}

void bind_indexing(py::module_ &m, py::object &type) {
  bind_gathers(m, type);
  bind_scatters(m, type);
  bind_order(m, type);
}

}  // namespace flow
