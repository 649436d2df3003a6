// The Tensor type: object life cycle, operators, comparison, indexing slots.
#include "op_ids.hpp"
#include "python.hpp"

// after Python.h
#include <structmember.h>

namespace flow {

PyTypeObject *g_tensor_type = nullptr;

void set_python_error() noexcept {
  try {
    throw;
  } catch (py::error_already_set &e) {
    e.restore();
  } catch (...) {
    py::detail::try_translate_exceptions();
  }
}

PyObject *wrap_as(PyTypeObject *type, const Tensor &t) {
  PyObject *o = type->tp_alloc(type, 0);
  if (!o) throw py::error_already_set();
  auto *self = reinterpret_cast<PyTensor *>(o);
  self->impl = t.impl();
  self->impl->retain();
  self->impl->pyobj = o;
  return o;
}

PyObject *wrap(const Tensor &t) {
  if (!t.defined()) Py_RETURN_NONE;
  if (t->pyobj) {
    Py_INCREF(t->pyobj);
    return t->pyobj;
  }
  return wrap_as(g_tensor_type, t);
}

bool parse_value(PyObject *o, Value &out) {
  if (is_tensor(o)) {
    out.tensor = unwrap(o);
    return true;
  }
  out.tensor = Tensor();
  if (PyBool_Check(o)) {
    out.scalar = Scalar(o == Py_True);
    return true;
  }
  if (PyFloat_Check(o)) {
    out.scalar = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow)
      throw Error(ErrorKind::Value, "[number] Python int too large: got " + py::str(o).cast<std::string>() + ", expected it to fit int64");
    out.scalar = Scalar(static_cast<int64_t>(v));
    return true;
  }
  if (PySequence_Check(o) || PyUnicode_Check(o) || PyComplex_Check(o) || o == Py_None) return false;
  // numpy's scalars
  if (PyObject_HasAttrString(o, "dtype") && PyObject_HasAttrString(o, "item")) {
    const py::object v = py::reinterpret_borrow<py::object>(o).attr("item")();
    return !PyObject_HasAttrString(v.ptr(), "dtype") && parse_value(v.ptr(), out);
  }
  return false;
}

namespace {

PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  try {
    if (kwargs && PyDict_Size(kwargs))
      throw Error(ErrorKind::Type, "[Tensor] takes no keyword arguments: use tensor(data, dtype=..., device=...)");
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n == 0) return wrap_as(type, empty({0}, default_dtype(), hal::host_device()));
    PyObject *first = PyTuple_GET_ITEM(args, 0);
    if (n == 1 && is_tensor(first)) return wrap_as(type, detach(unwrap(first)));
    if (PyLong_Check(first))
      return wrap_as(type, empty(parse_sizes(py::reinterpret_borrow<py::args>(args), "Tensor"), default_dtype(), hal::host_device()));
    return wrap_as(type, tensor_from_data(first, DType{default_dtype()}, nullptr));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// References that the garbage collector can follow: attributes, and hooks that belong to this tensor alone.
int tensor_traverse(PyObject *o, visitproc visit, void *arg) {
  auto *self = reinterpret_cast<PyTensor *>(o);
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(self->dict);
  return self->impl ? traverse_hooks(self->impl, visit, arg) : 0;
}

int tensor_clear(PyObject *o) {
  auto *self = reinterpret_cast<PyTensor *>(o);
  Py_CLEAR(self->dict);
  if (self->impl) clear_hooks(self->impl);
  return 0;
}

void tensor_dealloc(PyObject *o) {
  PyObject_GC_UnTrack(o);
  auto *self = reinterpret_cast<PyTensor *>(o);
  PyTypeObject *type = Py_TYPE(o);
  if (self->weakrefs) PyObject_ClearWeakRefs(o);
  Py_CLEAR(self->dict);
  if (self->impl) {
    if (self->impl->pyobj == o) self->impl->pyobj = nullptr;
    TensorImpl *impl = self->impl;
    self->impl = nullptr;
    impl->release();
  }
  type->tp_free(o);
  Py_DECREF(type);
}

// The operand behind a tensor, where numpy arrays count as tensors (else numpy would take the whole expression over). Before a tensor
// they are refused, as PyTorch does.
bool parse_operand(PyObject *o, PyObject *other, Value &out) {
  if (is_tensor(other) && py::isinstance<py::array>(o)) {
    out = Value(tensor_from_data(o, {}, &unwrap(other).device()));
    return true;
  }
  return parse_value(o, out);
}

template <uint32_t Op>
PyObject *nb_binary(PyObject *a, PyObject *b) {
  try {
    static const BinaryOp &op = binary_op(Op);
    Value x(0), y(0);
    if (!parse_value(a, x) || !parse_operand(b, a, y)) Py_RETURN_NOTIMPLEMENTED;
    return wrap(binary(op, x, y));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

template <uint32_t Op>
PyObject *nb_inplace(PyObject *a, PyObject *b) {
  try {
    static const BinaryOp &op = binary_op(Op);
    Value y(0);
    if (!parse_operand(b, a, y)) Py_RETURN_NOTIMPLEMENTED;
    inplace_binary(op, unwrap(a), y);
    Py_INCREF(a);
    return a;
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

template <uint32_t Op>
PyObject *nb_unary(PyObject *a) {
  try {
    return wrap(unary(unary_op(Op), unwrap(a)));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject *nb_positive(PyObject *a) {
  Py_INCREF(a);
  return a;
}

PyObject *nb_power(PyObject *a, PyObject *b, PyObject *) {
  try {
    Value x(0), y(0);
    if (!parse_value(a, x) || !parse_operand(b, a, y)) Py_RETURN_NOTIMPLEMENTED;
    return wrap(power(x, y));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}
PyObject *nb_inplace_power(PyObject *a, PyObject *b, PyObject *) { return nb_inplace<hal::op::pow>(a, b); }

PyObject *nb_matmul(PyObject *a, PyObject *b) {
  try {
    Value x(0), y(0);
    if (!parse_value(a, x) || !parse_operand(b, a, y) || !x.is_tensor() || !y.is_tensor()) Py_RETURN_NOTIMPLEMENTED;
    return wrap(matmul(x.tensor, y.tensor));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

int nb_bool(PyObject *a) {
  try {
    const Tensor t = unwrap(a);
    if (t.numel() != 1)
      throw Error(HAL_ERROR_INVALID_ARGUMENT, "[bool] Boolean value of Tensor with " +
                                                  std::string(t.numel() ? "more than one value" : "no values") +
                                                  " is ambiguous: got shape " + to_string(t.sizes()));
    const Scalar s = item(t);
    return s.kind == Scalar::Float ? s.d != 0 : s.i != 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

PyObject *nb_float(PyObject *a) {
  try {
    const Scalar s = item(unwrap(a));
    return PyFloat_FromDouble(s.kind == Scalar::Float ? s.d : static_cast<double>(s.i));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject *nb_int(PyObject *a) {
  try {
    const Scalar s = item(unwrap(a));
    return s.kind == Scalar::Float ? PyLong_FromDouble(s.d) : PyLong_FromLongLong(s.i);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject *nb_index(PyObject *a) {
  try {
    const Tensor t = unwrap(a);
    if (hal::is_float(t.dtype()) || t.numel() != 1)
      throw Error(ErrorKind::Type, "[index] only integer tensors of a single element can be converted to an index");
    return PyLong_FromLongLong(item(t).i);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject *richcompare(PyObject *a, PyObject *b, int op) {
  switch (op) {
    case Py_EQ:
      return b == Py_None ? (Py_INCREF(Py_False), Py_False) : nb_binary<hal::op::eq>(a, b);
    case Py_NE:
      return b == Py_None ? (Py_INCREF(Py_True), Py_True) : nb_binary<hal::op::ne>(a, b);
    case Py_LT:
      return nb_binary<hal::op::lt>(a, b);
    case Py_LE:
      return nb_binary<hal::op::le>(a, b);
    case Py_GT:
      return nb_binary<hal::op::gt>(a, b);
    default:
      return nb_binary<hal::op::ge>(a, b);
  }
}

Py_hash_t tensor_hash(PyObject *o) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(o) >> 4); }

Py_ssize_t mp_length(PyObject *a) {
  const Tensor t = unwrap(a);
  if (t.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return static_cast<Py_ssize_t>(t.sizes()[0]);
}

PyObject *mp_subscript(PyObject *a, PyObject *index) {
  try {
    return wrap(get_item(unwrap(a), index));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

int mp_ass_subscript(PyObject *a, PyObject *index, PyObject *value) {
  try {
    if (!value) throw Error(ErrorKind::Type, "[index] Tensor does not support deleting items");
    set_item(unwrap(a), index, value);
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

PyObject *tensor_iter(PyObject *a) {
  try {
    const Tensor t = unwrap(a);
    if (t.dim() == 0) throw Error(ErrorKind::Type, "[iter] iteration over a 0-d tensor");
    py::tuple rows(static_cast<size_t>(t.sizes()[0]));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = py::reinterpret_steal<py::object>(wrap(select(t, 0, static_cast<int64_t>(i))));
    return PyObject_GetIter(rows.ptr());
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject *tensor_repr(PyObject *a) {
  try {
    return py::module_::import("oneflow_mini._tensor_str").attr("tensor_str")(py::handle(a)).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyMemberDef kMembers[] = {{"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
                          {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weakrefs), READONLY, nullptr},
                          {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef kGetSet[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                         {nullptr, nullptr, nullptr, nullptr, nullptr}};

template <class F>
void *slot(F *f) {
  return reinterpret_cast<void *>(f);
}

}  // namespace

void bind_tensor_type(py::module_ &m) {
  namespace id = hal::op;
  PyType_Slot slots[] = {
      {Py_tp_new, slot(tensor_new)},
      {Py_tp_dealloc, slot(tensor_dealloc)},
      {Py_tp_traverse, slot(tensor_traverse)},
      {Py_tp_clear, slot(tensor_clear)},
      {Py_tp_members, kMembers},
      {Py_tp_getset, kGetSet},
      {Py_tp_repr, slot(tensor_repr)},
      {Py_tp_hash, slot(tensor_hash)},
      {Py_tp_richcompare, slot(richcompare)},
      {Py_tp_iter, slot(tensor_iter)},
      {Py_tp_doc, const_cast<char *>("A typed, strided array on a device, with a gradient. See oneflow_mini.tensor.")},
      {Py_nb_add, slot(nb_binary<id::add>)},
      {Py_nb_subtract, slot(nb_binary<id::sub>)},
      {Py_nb_multiply, slot(nb_binary<id::mul>)},
      {Py_nb_true_divide, slot(nb_binary<id::div>)},
      {Py_nb_floor_divide, slot(nb_binary<id::floor_divide>)},
      {Py_nb_remainder, slot(nb_binary<id::remainder>)},
      {Py_nb_and, slot(nb_binary<id::bitwise_and>)},
      {Py_nb_or, slot(nb_binary<id::bitwise_or>)},
      {Py_nb_xor, slot(nb_binary<id::bitwise_xor>)},
      {Py_nb_lshift, slot(nb_binary<id::bitwise_left_shift>)},
      {Py_nb_rshift, slot(nb_binary<id::bitwise_right_shift>)},
      {Py_nb_power, slot(nb_power)},
      {Py_nb_matrix_multiply, slot(nb_matmul)},
      {Py_nb_inplace_add, slot(nb_inplace<id::add>)},
      {Py_nb_inplace_subtract, slot(nb_inplace<id::sub>)},
      {Py_nb_inplace_multiply, slot(nb_inplace<id::mul>)},
      {Py_nb_inplace_true_divide, slot(nb_inplace<id::div>)},
      {Py_nb_inplace_floor_divide, slot(nb_inplace<id::floor_divide>)},
      {Py_nb_inplace_remainder, slot(nb_inplace<id::remainder>)},
      {Py_nb_inplace_power, slot(nb_inplace_power)},
      {Py_nb_inplace_lshift, slot(nb_inplace<id::bitwise_left_shift>)},
      {Py_nb_inplace_rshift, slot(nb_inplace<id::bitwise_right_shift>)},
      {Py_nb_inplace_and, slot(nb_inplace<id::bitwise_and>)},
      {Py_nb_inplace_or, slot(nb_inplace<id::bitwise_or>)},
      {Py_nb_inplace_xor, slot(nb_inplace<id::bitwise_xor>)},
      {Py_nb_negative, slot(nb_unary<id::neg>)},
      {Py_nb_positive, slot(nb_positive)},
      {Py_nb_absolute, slot(nb_unary<id::abs>)},
      {Py_nb_invert, slot(nb_unary<id::bitwise_not>)},
      {Py_nb_bool, slot(nb_bool)},
      {Py_nb_float, slot(nb_float)},
      {Py_nb_int, slot(nb_int)},
      {Py_nb_index, slot(nb_index)},
      {Py_mp_length, slot(mp_length)},
      {Py_mp_subscript, slot(mp_subscript)},
      {Py_mp_ass_subscript, slot(mp_ass_subscript)},
      {0, nullptr},
  };
  PyType_Spec spec = {"oneflow_mini.Tensor", sizeof(PyTensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  g_tensor_type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  if (!g_tensor_type) throw py::error_already_set();
  m.attr("Tensor") = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject *>(g_tensor_type));
}

}  // namespace flow
