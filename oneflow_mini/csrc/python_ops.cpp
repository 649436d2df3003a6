// Ops as functions of the module and as methods of Tensor.
#include "op_ids.hpp"
#include "python.hpp"

namespace flow {

namespace {

using OptDType = std::optional<DType>;
using namespace pybind11::literals;

hal_dtype or_none(const OptDType &d) { return d ? d->value : 0; }

py::object named_pair(const char *type, const Tensor &values, const Tensor &indices) {
  return py::module_::import("oneflow_mini._structs").attr(type)(values, indices);
}

Tensor divide(const Value &a, const Value &b, const std::optional<std::string> &mode) {
  if (!mode) return div(a, b);
  if (*mode == "floor") return binary(binary_op(hal::op::floor_divide), a, b);
  if (*mode != "trunc") throw Error(ErrorKind::Value, "[div] rounding_mode must be None, 'trunc' or 'floor': got '" + *mode + "'");
  const Tensor q = unary(unary_op(hal::op::trunc), div(a, b));
  return cast(q, result_type(a, b));
}

Value scaled(const Value &other, const Scalar &alpha) {
  if (alpha.d == 1) return other;
  if (other.is_tensor()) return mul(other, Value(alpha));
  if (alpha.kind == Scalar::Float || other.scalar.kind == Scalar::Float) return Value(other.scalar.d * alpha.d);
  return Value(Scalar(other.scalar.i * alpha.i));
}

ConvOptions conv_options(const py::object &stride, const py::object &padding, const py::object &dilation, int64_t groups) {
  ConvOptions o;
  parse_pair(stride, o.stride, "conv2d", "stride");
  parse_pair(padding, o.padding, "conv2d", "padding");
  parse_pair(dilation, o.dilation, "conv2d", "dilation");
  o.groups = groups;
  return o;
}

void bind_pointwise(py::module_ &m, py::object &type) {
  for (const UnaryOp &op : unary_ops()) {
    if (std::string(op.name).find("gelu") == 0) continue;
    def_both(m, type, op.name, [o = &op](const Tensor &x) { return unary(*o, x); });
  }
  def_both(
      m, type, "gelu",
      [](const Tensor &x, const std::string &approximate) {
        if (approximate != "none" && approximate != "tanh")
          throw Error(ErrorKind::Value, "[gelu] approximate must be 'none' or 'tanh': got '" + approximate + "'");
        return gelu(x, approximate == "tanh");
      },
      "approximate"_a = "none");
  for (const BinaryOp &op : binary_ops()) {
    const std::string name = op.name;
    if (name == "add" || name == "sub" || name == "div" || name == "pow" || name.find("backward") != std::string::npos) continue;
    m.def(op.name, [o = &op](const Value &a, const Value &b) { return binary(*o, a, b); }, "input"_a, "other"_a);
    def_method(type, op.name, [o = &op](const Tensor &a, const Value &b) { return binary(*o, a, b); }, "other"_a);
  }
  const auto add_alpha = [](const Value &a, const Value &b, const Scalar &alpha) { return add(a, scaled(b, alpha)); };
  const auto sub_alpha = [](const Value &a, const Value &b, const Scalar &alpha) { return sub(a, scaled(b, alpha)); };
  for (const char *name : {"add"}) {
    m.def(name, add_alpha, "input"_a, "other"_a, py::kw_only(), "alpha"_a = 1);
    def_method(type, name, add_alpha, "other"_a, py::kw_only(), "alpha"_a = 1);
  }
  for (const char *name : {"sub", "subtract"}) {
    m.def(name, sub_alpha, "input"_a, "other"_a, py::kw_only(), "alpha"_a = 1);
    def_method(type, name, sub_alpha, "other"_a, py::kw_only(), "alpha"_a = 1);
  }
  for (const char *name : {"div", "divide", "true_divide"}) {
    m.def(name, &divide, "input"_a, "other"_a, py::kw_only(), "rounding_mode"_a = py::none());
    def_method(
        type, name, [](const Tensor &a, const Value &b, const std::optional<std::string> &mode) { return divide(a, b, mode); }, "other"_a,
        py::kw_only(), "rounding_mode"_a = py::none());
  }
  m.def("pow", &power, "input"_a, "exponent"_a);
  def_method(type, "pow", &power, "exponent"_a);
  m.def("where", &where, "condition"_a, "input"_a, "other"_a);
  def_method(
      type, "where", [](const Tensor &a, const Tensor &condition, const Value &b) { return where(condition, a, b); }, "condition"_a,
      "other"_a);
  const auto clamp_ = [](const Tensor &x, const std::optional<Value> &low, const std::optional<Value> &high) {
    return clamp(x, low, high);
  };
  for (const char *name : {"clamp", "clip"}) def_both(m, type, name, clamp_, "min"_a = py::none(), "max"_a = py::none());
}

void bind_reductions(py::module_ &m, py::object &type) {
  def_both(
      m, type, "sum", [](const Tensor &t, const DimsArg &dim, bool keep, OptDType d) { return sum(t, dim.axes, keep, or_none(d)); },
      "dim"_a = py::none(), "keepdim"_a = false, py::kw_only(), "dtype"_a = py::none());
  def_both(
      m, type, "mean", [](const Tensor &t, const DimsArg &dim, bool keep, OptDType d) { return mean(t, dim.axes, keep, or_none(d)); },
      "dim"_a = py::none(), "keepdim"_a = false, py::kw_only(), "dtype"_a = py::none());
  def_both(
      m, type, "prod", [](const Tensor &t, const DimsArg &dim, bool keep, OptDType d) { return prod(t, dim.axes, keep, or_none(d)); },
      "dim"_a = py::none(), "keepdim"_a = false, py::kw_only(), "dtype"_a = py::none());
  for (const bool largest : {true, false}) {
    const char *amax = largest ? "amax" : "amin", *arg = largest ? "argmax" : "argmin", *name = largest ? "max" : "min";
    const uint32_t pointwise = largest ? hal::op::maximum : hal::op::minimum;
    def_both(
        m, type, amax, [largest](const Tensor &t, const DimsArg &dim, bool keep) { return extremum(t, largest, dim.axes, keep); },
        "dim"_a = py::none(), "keepdim"_a = false);
    def_both(
        m, type, arg, [largest](const Tensor &t, const DimsArg &dim, bool keep) { return arg_extremum(t, largest, dim.axes, keep); },
        "dim"_a = py::none(), "keepdim"_a = false);
    def_both(
        m, type, name,
        [largest, pointwise, name](const Tensor &t, const py::object &dim, bool keep) -> py::object {
          if (dim.is_none()) return py::cast(extremum(t, largest, {}, false));
          if (is_tensor(dim.ptr())) return py::cast(binary(binary_op(pointwise), t, unwrap(dim.ptr())));
          const auto [values, indices] = extremum_with_index(t, largest, parse_integer(dim, name, "dim"), keep);
          return named_pair(name, values, indices);
        },
        "dim"_a = py::none(), "keepdim"_a = false);
  }
  def_both(
      m, type, "any", [](const Tensor &t, const DimsArg &dim, bool keep) { return any_all(t, false, dim.axes, keep); },
      "dim"_a = py::none(), "keepdim"_a = false);
  def_both(
      m, type, "all", [](const Tensor &t, const DimsArg &dim, bool keep) { return any_all(t, true, dim.axes, keep); }, "dim"_a = py::none(),
      "keepdim"_a = false);
  for (const bool log : {false, true})
    def_both(
        m, type, log ? "log_softmax" : "softmax",
        [log](const Tensor &t, int64_t dim, OptDType d) { return softmax(d ? cast(t, d->value) : t, dim, log); }, "dim"_a,
        "dtype"_a = py::none());
}

void bind_nn(py::module_ &m, py::object &type) {
  for (const auto &[name, rank] : {std::pair<const char *, int64_t>{"matmul", 0}, {"mm", 2}, {"bmm", 3}})
    def_both(
        m, type, name,
        [name = name, rank = rank](const Tensor &a, const Tensor &b) {
          if (rank && (a.dim() != rank || b.dim() != rank || (rank == 3 && a.sizes()[0] != b.sizes()[0])))
            throw Error(ErrorKind::Value, std::string("[") + name + "] expected two tensors of " + std::to_string(rank) + " dimensions" +
                                              (rank == 3 ? " and as many matrices" : "") + ": got shapes " + to_string(a.sizes()) +
                                              " and " + to_string(b.sizes()));
          return matmul(a, b);
        },
        "other"_a);
  m.def(
      "linear", [](const Tensor &x, const Tensor &w, const std::optional<Tensor> &b) { return linear(x, w, b.value_or(Tensor())); },
      "input"_a, "weight"_a, "bias"_a = py::none());
  m.def(
      "conv2d",
      [](const Tensor &x, const Tensor &w, const std::optional<Tensor> &b, const py::object &stride, const py::object &padding,
         const py::object &dilation,
         int64_t groups) { return conv2d(x, w, b.value_or(Tensor()), conv_options(stride, padding, dilation, groups)); },
      "input"_a, "weight"_a, "bias"_a = py::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1);
  m.def(
      "conv2d_input_grad",
      [](const Tensor &g, const Tensor &w, const Dims &sizes, const py::object &stride, const py::object &padding,
         const py::object &dilation,
         int64_t groups) { return conv2d_input_grad(g, w, sizes, conv_options(stride, padding, dilation, groups)); },
      "grad"_a, "weight"_a, "sizes"_a, "stride"_a, "padding"_a, "dilation"_a, "groups"_a);
  m.def(
      "max_pool2d",
      [](const Tensor &x, const py::object &kernel, const py::object &stride, const py::object &padding, const py::object &dilation,
         bool ceil_mode) {
        PoolOptions o;
        parse_pair(kernel, o.kernel, "max_pool2d", "kernel_size");
        parse_pair(stride.is_none() ? kernel : stride, o.stride, "max_pool2d", "stride");
        parse_pair(padding, o.padding, "max_pool2d", "padding");
        parse_pair(dilation, o.dilation, "max_pool2d", "dilation");
        o.ceil_mode = ceil_mode;
        return max_pool2d(x, o);
      },
      "input"_a, "kernel_size"_a, "stride"_a = py::none(), "padding"_a = 0, "dilation"_a = 1, "ceil_mode"_a = false);
  m.def("nll_loss", &nll_loss, "input"_a, "target"_a, "ignore_index"_a = -100);
  m.def("cross_entropy", &cross_entropy, "input"_a, "target"_a, "ignore_index"_a = -100, "reduction"_a = "mean");
  m.def("dropout", &dropout, "input"_a, "p"_a = 0.5, "training"_a = true);
}

std::vector<int64_t> sections_of(const Tensor &t, const py::object &size, int64_t dim) {
  dim = wrap_dim(dim, t.dim(), "split");
  if (PyTuple_Check(size.ptr()) || PyList_Check(size.ptr())) {
    std::vector<int64_t> sections;
    for (auto s : size) sections.push_back(parse_integer(s, "split", "split_size_or_sections"));
    return sections;
  }
  const int64_t n = parse_integer(size, "split", "split_size_or_sections"), total = t.dim() ? t.sizes()[dim] : 0;
  if (n <= 0) throw Error(ErrorKind::Value, "[split] split_size must be positive: got " + std::to_string(n));
  std::vector<int64_t> out;
  for (int64_t at = 0; at < total; at += n) out.push_back(std::min(n, total - at));
  if (out.empty()) out.push_back(0);
  return out;
}

py::tuple tuple_of(const Tensors &ts) {
  py::tuple out(ts.size());
  for (size_t i = 0; i < ts.size(); ++i) out[i] = ts[i];
  return out;
}

// A method with sizes as *args, and a function with them as one sequence.
template <class F>
void def_sizes(py::module_ &m, py::object &type, const char *name, const char *arg, F f) {
  m.def(name, [f](const Tensor &t, const Dims &d) { return f(t, d); }, "input"_a, py::arg(arg));
  def_method(type, name, [f, name](const Tensor &t, const py::args &args) { return f(t, parse_sizes(args, name)); });
}

void bind_views(py::module_ &m, py::object &type) {
  def_sizes(m, type, "reshape", "shape", [](const Tensor &t, const Dims &d) { return reshape(t, d); });
  def_sizes(m, type, "permute", "dims", [](const Tensor &t, const Dims &d) { return permute(t, d); });
  def_method(type, "view", [](const Tensor &t, const py::args &args) { return view(t, parse_sizes(args, "view")); });
  def_method(type, "expand", [](const Tensor &t, const py::args &args) { return expand(t, parse_sizes(args, "expand")); });
  m.def("broadcast_to", [](const Tensor &t, const Dims &d) { return expand(t, d); }, "input"_a, "size"_a);
  def_method(type, "view_as", [](const Tensor &t, const Tensor &o) { return view(t, o.sizes()); }, "other"_a);
  def_method(type, "reshape_as", [](const Tensor &t, const Tensor &o) { return reshape(t, o.sizes()); }, "other"_a);
  def_method(type, "expand_as", [](const Tensor &t, const Tensor &o) { return expand(t, o.sizes()); }, "other"_a);
  for (const char *name : {"transpose", "swapaxes"})
    def_both(m, type, name, [](const Tensor &t, int64_t a, int64_t b) { return transpose(t, a, b); }, "dim0"_a, "dim1"_a);
  def_both(m, type, "t", [](const Tensor &t) {
    if (t.dim() > 2) throw Error(HAL_ERROR_INVALID_ARGUMENT, "[t] expects a tensor with <= 2 dimensions: got " + std::to_string(t.dim()));
    return t.dim() == 2 ? transpose(t, 0, 1) : transpose(t, 0, 0);
  });
  def_both(m, type, "flatten", [](const Tensor &t, int64_t a, int64_t b) { return flatten(t, a, b); }, "start_dim"_a = 0, "end_dim"_a = -1);
  def_both(m, type, "squeeze", [](const Tensor &t, const DimsArg &d) { return squeeze(t, d.axes); }, "dim"_a = py::none());
  def_both(m, type, "unsqueeze", [](const Tensor &t, int64_t d) { return unsqueeze(t, d); }, "dim"_a);
  def_both(m, type, "select", [](const Tensor &t, int64_t d, int64_t i) { return select(t, d, i); }, "dim"_a, "index"_a);
  def_both(
      m, type, "narrow",
      [](const Tensor &t, int64_t d, int64_t start, int64_t length) {
        d = wrap_dim(d, t.dim(), "narrow");
        if (t.dim() == 0) throw Error(HAL_ERROR_INVALID_ARGUMENT, "[narrow] cannot be applied to a 0-d tensor");
        const int64_t n = t.dim() ? t.sizes()[d] : 0;
        if (start < 0) start += n;
        if (start < 0 || length < 0 || start > n - length)
          throw Error(HAL_ERROR_INVALID_ARGUMENT, "[narrow] start + length exceeds dimension size: got start " + std::to_string(start) +
                                                      ", length " + std::to_string(length) + " for size " + std::to_string(n));
        return slice(t, d, start, start + length, 1);
      },
      "dim"_a, "start"_a, "length"_a);
  def_both(
      m, type, "as_strided",
      [](const Tensor &t, const Dims &s, const Dims &st, std::optional<int64_t> offset) {
        return as_strided(t, s, st, offset.value_or(t->offset));
      },
      "size"_a, "stride"_a, "storage_offset"_a = py::none());
  m.def("cat", &cat, "tensors"_a, "dim"_a = 0);
  for (const char *name : {"concat", "concatenate"}) m.def(name, &cat, "tensors"_a, "dim"_a = 0);
  m.def("stack", &stack, "tensors"_a, "dim"_a = 0);
  for (const char *name : {"cat", "concat", "concatenate", "stack"}) accept_numpy_names(m, name, false);
  def_both(
      m, type, "split", [](const Tensor &t, const py::object &size, int64_t d) { return tuple_of(split(t, sections_of(t, size, d), d)); },
      "split_size_or_sections"_a, "dim"_a = 0);
  def_both(
      m, type, "chunk",
      [](const Tensor &t, int64_t n, int64_t d) {
        if (n <= 0) throw Error(ErrorKind::Value, "[chunk] chunks must be greater than 0: got " + std::to_string(n));
        d = wrap_dim(d, t.dim(), "chunk");
        const int64_t total = t.dim() ? t.sizes()[d] : 0;
        return tuple_of(split(t, sections_of(t, py::int_(std::max<int64_t>(1, (total + n - 1) / n)), d), d));
      },
      "chunks"_a, "dim"_a = 0);
  def_both(
      m, type, "unbind",
      [](const Tensor &t, int64_t d) {
        d = wrap_dim(d, t.dim(), "unbind");
        if (t.dim() == 0) throw Error(HAL_ERROR_INVALID_ARGUMENT, "[unbind] cannot be applied to a 0-d tensor");
        Tensors out;
        for (int64_t i = 0; i < (t.dim() ? t.sizes()[d] : 0); ++i) out.push_back(select(t, d, i));
        return tuple_of(out);
      },
      "dim"_a = 0);
}

}  // namespace

void accept_numpy_names(py::object scope, const char *name, bool method) {
  const auto again = [scope, name](const py::args &args, const py::kwargs &kwargs) {
    py::dict renamed;
    bool any = false;
    for (const auto &[key, value] : kwargs) {
      const auto given = key.cast<std::string>();
      const char *known = given == "axis" ? "dim" : given == "keepdims" ? "keepdim" : nullptr;
      any |= known != nullptr;
      const py::str as(known ? known : given.c_str());
      if (renamed.contains(as)) throw Error(ErrorKind::Type, std::string("[") + name + "] got both " + known + " and " + given);
      renamed[as] = value;
    }
    if (!any) throw py::reference_cast_error();  // not ours: the error of the other overloads
    return py::object(scope.attr(name)(*args, **renamed));
  };
  if (method)
    def_method(scope, name, again);
  else
    scope.attr(name) = py::cpp_function(again, py::name(name), py::scope(scope), py::sibling(scope.attr(name)));
}

void bind_ops(py::module_ &m, py::object &type) {
  bind_pointwise(m, type);
  bind_reductions(m, type);
  bind_nn(m, type);
  bind_normalization(m);
  bind_views(m, type);
}

void bind_inplace(py::module_ &m, py::object &type) {
  (void)m;
  for (const UnaryOp &op : unary_ops()) {
    if (op.kind == Kind::Compare && std::string(op.name) != "logical_not") continue;
    if (std::string(op.name).find("gelu") == 0) continue;
    def_method(type, (std::string(op.name) + "_").c_str(), [o = &op](const Tensor &x) { return inplace_unary(*o, x); });
  }
  for (const BinaryOp &op : binary_ops()) {
    const std::string name = op.name;
    if (name == "add" || name == "sub" || name.find("backward") != std::string::npos) continue;
    def_method(type, (name + "_").c_str(), [o = &op](const Tensor &x, const Value &y) { return inplace_binary(*o, x, y); }, "other"_a);
  }
  def_method(
      type, "add_",
      [](const Tensor &x, const Value &y, const Scalar &alpha) { return inplace_binary(binary_op(hal::op::add), x, scaled(y, alpha)); },
      "other"_a, py::kw_only(), "alpha"_a = 1);
  def_method(
      type, "sub_",
      [](const Tensor &x, const Value &y, const Scalar &alpha) { return inplace_binary(binary_op(hal::op::sub), x, scaled(y, alpha)); },
      "other"_a, py::kw_only(), "alpha"_a = 1);
  const auto clamp_ = [](const Tensor &x, const std::optional<Value> &low, const std::optional<Value> &high) {
    if (!low && !high) throw Error(ErrorKind::Value, "[clamp_] At least one of 'min' or 'max' must not be None");
    if (low) inplace_binary(binary_op(hal::op::maximum), x, *low);
    if (high) inplace_binary(binary_op(hal::op::minimum), x, *high);
    return x;
  };
  def_method(type, "clamp_", clamp_, "min"_a = py::none(), "max"_a = py::none());
  def_method(
      type, "fill_",
      [](const Tensor &t, const Value &v) {
        if (v.is_tensor()) return fill_(t, item(v.tensor));
        return fill_(t, v.scalar);
      },
      "value"_a);
  def_method(type, "zero_", [](const Tensor &t) { return fill_(t, Scalar(0)); });
  def_method(
      type, "copy_", [](const Tensor &t, const Tensor &src, const py::object &) { return copy_(t, src); }, "src"_a,
      "non_blocking"_a = false);
}

}  // namespace flow
