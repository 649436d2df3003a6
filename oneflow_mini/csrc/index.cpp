// Basic indexing: integers, slices, None, Ellipsis. Each gives a view.
#include "op_ids.hpp"
#include "python.hpp"

namespace flow {

namespace {

Tensor basic_index(const Tensor &t, PyObject *index) {
  PyObject *single[1] = {index};
  PyObject **items = single;
  Py_ssize_t n = 1;
  if (PyTuple_Check(index)) {
    n = PyTuple_GET_SIZE(index);
    items = reinterpret_cast<PyTupleObject *>(index)->ob_item;
  }
  int64_t consumed = 0;
  bool ellipsis = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (items[i] == Py_Ellipsis) {
      if (ellipsis) throw Error(ErrorKind::Index, "[index] an index can only have a single ellipsis ('...')");
      ellipsis = true;
    } else if (items[i] != Py_None) {
      ++consumed;
    }
  }
  if (consumed > t.dim())
    throw Error(ErrorKind::Index,
                "[index] too many indices for tensor: got " + std::to_string(consumed) + ", expected at most " + std::to_string(t.dim()));
  Tensor out = t;
  int64_t dim = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *item = items[i];
    if (item == Py_Ellipsis) {
      dim += t.dim() - consumed;
    } else if (item == Py_None) {
      out = unsqueeze(out, dim++);
    } else if (PySlice_Check(item)) {
      Py_ssize_t start, stop, step;
      if (PySlice_Unpack(item, &start, &stop, &step) < 0) throw py::error_already_set();
      if (step <= 0) throw Error(ErrorKind::Value, "[index] slice step must be positive: got " + std::to_string(step));
      PySlice_AdjustIndices(static_cast<Py_ssize_t>(out.sizes()[dim]), &start, &stop, step);
      out = slice(out, dim, start, std::max(start, stop), step);
      ++dim;
    } else if (PyBool_Check(item)) {
      throw Error(ErrorKind::NotImplemented, "[index] indexing with a bool is not implemented: expected integers, slices, None or ...");
    } else if (PyIndex_Check(item) && !(is_tensor(item) && unwrap(item).dim() > 0)) {
      const Py_ssize_t at = PyNumber_AsSsize_t(item, PyExc_IndexError);
      if (at == -1 && PyErr_Occurred()) throw py::error_already_set();
      out = select(out, dim, at);
    } else if (is_tensor(item) || PySequence_Check(item)) {
      throw Error(ErrorKind::NotImplemented,
                  "[index] indexing with tensors, masks or lists is not implemented: expected integers, slices, None or ...");
    } else {
      throw Error(ErrorKind::Type,
                  std::string("[index] invalid index type: got ") + Py_TYPE(item)->tp_name + ", expected integers, slices, None or ...");
    }
  }
  if (out.impl() == t.impl()) out = make_view(t, "AliasBackward", t.sizes(), t.strides(), t->offset, [](const Tensor &g) { return g; });
  return out;
}

}  // namespace

Tensor get_item(const Tensor &t, PyObject *index) { return basic_index(t, index); }

void set_item(const Tensor &t, PyObject *index, PyObject *value) {
  const Tensor place = basic_index(t, index);
  Value v(0);
  if (!parse_value(value, v)) v = Value(tensor_from_data(value, {}, &t.device()));
  if (v.is_tensor()) {
    Tensor src = v.tensor;
    while (src.dim() > place.dim() && src.sizes()[0] == 1) src = squeeze(src, std::vector<int64_t>{0});
    copy_(place, src);
  } else {
    fill_(place, v.scalar);
  }
}

}  // namespace flow
