// Pointwise ops: promotion, broadcasting, one launch.
#include <algorithm>

#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

namespace flow {

namespace {

// The three steps of promotion: tensors with dimensions, then 0-d tensors, then numbers; a later step only counts if its category
// (bool < integer < float) is higher.
int category(hal_dtype d) { return d == 0 ? -1 : d == HAL_BOOL ? 0 : hal::is_integer(d) ? 1 : 2; }
hal_dtype join(hal_dtype a, hal_dtype b) { return a == 0 ? b : b == 0 ? a : promote(a, b); }
hal_dtype combine(hal_dtype higher, hal_dtype lower) { return category(higher) >= category(lower) ? higher : join(higher, lower); }

struct Promotion {
  hal_dtype dim = 0, zero_dim = 0, number = 0;
  void add(const Value &v) {
    if (!v.is_tensor()) {
      number = join(number, v.scalar.kind == Scalar::Bool ? HAL_BOOL : v.scalar.kind == Scalar::Int ? HAL_I64 : default_dtype());
    } else if (v.tensor.dim() == 0) {
      zero_dim = join(zero_dim, v.tensor.dtype());
    } else {
      dim = join(dim, v.tensor.dtype());
    }
  }
  hal_dtype result() const { return combine(combine(dim, zero_dim), number); }
};

// Strides of t as seen in the broadcast shape `sizes`.
Dims expanded_strides(const Tensor &t, const Dims &sizes) {
  Dims out;
  const size_t lead = sizes.size() - t.sizes().size();
  for (size_t i = 0; i < lead; ++i) out.push_back(0);
  for (size_t i = 0; i < t.sizes().size(); ++i) out.push_back(t.sizes()[i] == 1 && sizes[lead + i] != 1 ? 0 : t.strides()[i]);
  return out;
}

// Could writing `out` change `in` other than in place?
bool overlaps_badly(const Tensor &out, const Tensor &in, const Dims &sizes) {
  if (!(out->storage == in->storage)) return false;
  return !(out->offset == in->offset && out->dtype == in->dtype && in.sizes() == sizes && out.strides() == in.strides());
}

// Launches on tensors of one dtype each, broadcasting by strides.
Tensor run_pointwise(uint32_t id, const char *name, const Arg *args, size_t num_args, hal_dtype out_dtype, const Tensor *out) {
  const Tensor *first = nullptr;
  bool same = true;
  for (size_t i = 0; i < num_args; ++i) {
    const Tensor *t = args[i].tensor;
    if (!t) continue;
    if (!first) {
      first = t;
      same = t->is_contiguous();
    } else if (same) {
      same = t->sizes() == first->sizes() && t->is_contiguous();
    }
  }
  if (!first) throw Error(ErrorKind::Type, std::string("[") + name + "] expected at least one tensor");
  Dims sizes = first->sizes();
  if (!same)
    for (size_t i = 0; i < num_args; ++i)
      if (args[i].tensor) sizes = broadcast_shapes(name, sizes, args[i].tensor->sizes());
  Tensor result;
  if (out) {
    if (out->sizes() != sizes)
      throw Error(ErrorKind::Value, std::string("[") + name + "] output with shape " + to_string(out->sizes()) +
                                        " doesn't match the broadcast shape " + to_string(sizes));
    bool clash = out->dtype() != out_dtype;
    for (size_t i = 0; i < num_args && !clash; ++i) clash = args[i].tensor && overlaps_badly(*out, *args[i].tensor, sizes);
    if (clash) {
      copy_into(*out, run_pointwise(id, name, args, num_args, out_dtype, nullptr));
      return *out;
    }
    result = *out;
    same = same && out->is_contiguous();
  } else {
    result = empty(sizes, out_dtype, first->device());
  }
  hal_operand operands[4];
  hal::Place places[4];
  hal::Device &device = result.device();
  const int64_t n = result.numel();
  for (size_t i = 0; i <= num_args; ++i) {
    const Tensor *t = i < num_args ? args[i].tensor : &result;
    hal_operand &o = operands[i];
    o.struct_size = sizeof(hal_operand);
    o.layout = HAL_LAYOUT_STRIDED;
    o.reserved = 0;
    if (!t) {
      o.flags = HAL_OPERAND_IMMEDIATE;
      o.dtype = args[i].dtype;
      o.rank = 0;
      places[i] = {nullptr, args[i].bits};
      continue;
    }
    if (&t->device() != &device)
      throw Error(HAL_ERROR_INVALID_ARGUMENT, std::string("[") + name + "] Expected all tensors to be on the same device: got " +
                                                  device.name() + " and " + t->device().name());
    o.flags = i < num_args ? 0 : HAL_OPERAND_OUTPUT;
    o.dtype = t->dtype();
    places[i] = {(*t)->storage->buffer.get(), t->byte_offset()};
    if (same) {
      o.rank = 1;
      o.dims[0] = n;
      o.strides[0] = 1;
    } else {
      const Dims strides = expanded_strides(*t, sizes);
      o.rank = static_cast<uint32_t>(sizes.size());
      std::memcpy(o.dims, sizes.data(), sizes.size() * sizeof(int64_t));
      std::memcpy(o.strides, strides.data(), sizes.size() * sizeof(int64_t));
    }
  }
  std::vector<Ref<Storage>> keep;  // without the GIL another thread may give a tensor other data
  if (n > (1 << 16)) {
    for (size_t i = 0; i < num_args; ++i)
      if (args[i].tensor) keep.push_back((*args[i].tensor)->storage);
    keep.push_back(result->storage);
  }
  ReleaseGil gil(n > (1 << 16));
  hal::run(device.current_stream(), id, operands, places, static_cast<uint32_t>(num_args), 1);
  return result;
}

void check_integer(const char *name, hal_dtype d) {
  if (d != HAL_BOOL && !hal::is_integer(d))
    throw Error(ErrorKind::Type,
                std::string("[") + name + "] not defined for " + dtype_long_name(d) + ": expected bool or an integer dtype");
}

bool table_has(uint32_t id, hal_dtype d) { return (hal::op_info(id).dtypes & HAL_DTYPE_BIT(d)) != 0; }

// The dtype in which an op of this kind computes operands that promote to d.
hal_dtype compute_dtype(const char *name, uint32_t id, Kind kind, hal_dtype d) {
  if (kind == Kind::Float && !hal::is_float(d)) return default_dtype();
  if (kind == Kind::Integer) check_integer(name, d);
  if (kind != Kind::Compare && !table_has(id, d))
    throw Error(ErrorKind::Type, std::string("[") + name + "] not defined for " + dtype_long_name(d));
  return d;
}

}  // namespace

hal_dtype result_type(const Value &a, const Value &b) {
  Promotion p;
  p.add(a);
  p.add(b);
  return p.result();
}

Tensor unary(const UnaryOp &op, const Tensor &a, const Tensor *out) {
  hal_dtype d = a.dtype();
  const bool rounds = op.id == hal::op::floor || op.id == hal::op::ceil || op.id == hal::op::trunc || op.id == hal::op::round;
  if (rounds && !out && hal::is_integer(d)) return clone(a);
  if (op.kind == Kind::Compare && !table_has(op.id, d)) d = default_dtype();  // isnan and friends of integers
  d = compute_dtype(op.name, op.id, op.kind, d);
  const Tensor x = cast(a, d);
  const Arg args[1] = {x};
  Tensor y = run_pointwise(op.id, op.name, args, 1, op.kind == Kind::Compare ? HAL_BOOL : d, out);
  if (!out && op.kind != Kind::Compare && needs_grad(x)) {
    auto *gradient = op.gradient;
    switch (op.keep) {
      case Keep::Nothing:
        record(y, op.backward_name, {&x}, [gradient](Node &, const Tensor &g, Tensors &gin) {
          gin[0] = gradient ? gradient(g, g) : zeros(g.sizes(), g.dtype(), g.device());
        });
        break;
      case Keep::Input:
        record(y, op.backward_name, {&x},
               [gradient, s = Saved(x)](Node &n, const Tensor &g, Tensors &gin) { gin[0] = gradient(g, s.get(n)); });
        break;
      case Keep::Output:
        record(y, op.backward_name, {&x},
               [gradient, s = Saved::output(y)](Node &n, const Tensor &g, Tensors &gin) { gin[0] = gradient(g, s.get(n)); });
        break;
    }
  }
  return y;
}

Tensor binary(const BinaryOp &op, const Value &a, const Value &b, const Tensor *out) {
  if (!a.is_tensor() && !b.is_tensor()) throw Error(ErrorKind::Type, std::string("[") + op.name + "] expected a tensor: got two numbers");
  hal_dtype d;
  if (a.is_tensor() && b.is_tensor() && a.tensor.dtype() == b.tensor.dtype()) {
    d = a.tensor.dtype();
  } else {
    d = result_type(a, b);
  }
  d = compute_dtype(op.name, op.id, op.kind, d);
  // Casts are ops of their own (differentiable); a 0-d tensor of another device becomes a number.
  Value va = a, vb = b;
  const auto prepare = [&](Value &v, const Value &other) {
    if (!v.is_tensor()) return;
    if (v.tensor.dim() == 0 && other.is_tensor() && other.tensor.dim() > 0 && &v.tensor.device() != &other.tensor.device() &&
        v.tensor.device().is_host())
      v = Value(item(v.tensor));
    else if (v.tensor.dtype() != d)
      v = Value(cast(v.tensor, d));
  };
  prepare(va, vb);
  prepare(vb, va);
  Tensor holder;  // comparisons need a tensor first
  if (!va.is_tensor() && op.kind == Kind::Compare) {
    holder = full({}, va.scalar, d, vb.tensor.device());
    va = Value(holder);
  }
  const hal_dtype c = hal::compute_type(d);
  const Arg args[2] = {va.is_tensor() ? Arg(va.tensor) : Arg::immediate(op.name, va.scalar, c),
                       vb.is_tensor() ? Arg(vb.tensor) : Arg::immediate(op.name, vb.scalar, c)};
  Tensor y = run_pointwise(op.id, op.name, args, 2, op.kind == Kind::Compare ? HAL_BOOL : d, out);
  if (!out && op.kind != Kind::Compare && needs_grad(va.tensor, vb.tensor)) {
    const Dims sa = va.is_tensor() ? va.tensor.sizes() : Dims(), sb = vb.is_tensor() ? vb.tensor.sizes() : Dims();
    if (!op.gradient_a) return y;
    const unsigned used = (needs_grad(va.tensor) ? op.uses_a : 0) | (needs_grad(vb.tensor) ? op.uses_b : 0);
    if (!used) {
      record(y, op.backward_name, {&va.tensor, &vb.tensor}, [o = &op, sa, sb](Node &n, const Tensor &g, Tensors &gin) {
        const Value none(0);
        if (n.needs(0)) gin[0] = sum_to(o->gradient_a(g, none, none, g), sa);
        if (n.needs(1)) gin[1] = sum_to(o->gradient_b(g, none, none, g), sb);
      });
      return y;
    }
    const auto keep = [used](const Value &v, unsigned bit) { return v.is_tensor() && (used & bit) ? Saved(v.tensor) : Saved(); };
    record(y, op.backward_name, {&va.tensor, &vb.tensor},
           [o = &op, sa, sb, a = keep(va, kUseA), b = keep(vb, kUseB), na = va.scalar, nb = vb.scalar,
            out = used & kUseOutput ? Saved::output(y) : Saved()](Node &n, const Tensor &g, Tensors &gin) {
             const Value x = a ? Value(a.get(n)) : Value(na), z = b ? Value(b.get(n)) : Value(nb);
             const Tensor y = out ? out.get(n) : Tensor();
             if (n.needs(0)) gin[0] = sum_to(o->gradient_a(g, x, z, y), sa);
             if (n.needs(1)) gin[1] = sum_to(o->gradient_b(g, x, z, y), sb);
           });
  }
  return y;
}

Tensor where(const Tensor &condition, const Value &a, const Value &b) {
  if (condition.dtype() != HAL_BOOL)
    throw Error(ErrorKind::Type, std::string("[where] condition must be a bool tensor: got ") + dtype_long_name(condition.dtype()));
  const hal_dtype d = result_type(a, b), c = hal::compute_type(d);
  const Tensor x = a.is_tensor() ? cast(a.tensor, d) : Tensor(), z = b.is_tensor() ? cast(b.tensor, d) : Tensor();
  const Arg args[3] = {condition, x.defined() ? Arg(x) : Arg::immediate("where", a.scalar, c),
                       z.defined() ? Arg(z) : Arg::immediate("where", b.scalar, c)};
  Tensor y = run_pointwise(hal::op::where, "where", args, 3, d, nullptr);
  if (needs_grad(x, z)) {
    record(y, "WhereBackward", {&x, &z},
           [m = Saved(condition), sx = x.defined() ? x.sizes() : Dims(), sz = z.defined() ? z.sizes() : Dims()](Node &n, const Tensor &g,
                                                                                                                Tensors &gin) {
             const Tensor mask = m.get(n);
             if (n.needs(0)) gin[0] = sum_to(where(mask, g, 0.0), sx);
             if (n.needs(1)) gin[1] = sum_to(where(mask, 0.0, g), sz);
           });
  }
  return y;
}

Tensor clamp(const Tensor &x, const std::optional<Value> &low, const std::optional<Value> &high) {
  if (!low && !high) throw Error(ErrorKind::Value, "[clamp] At least one of 'min' or 'max' must not be None");
  Tensor y = x;
  {
    GradMode off(false);
    if (low) y = binary(binary_op(hal::op::maximum), y, *low);
    if (high) y = binary(binary_op(hal::op::minimum), y, *high);
  }
  if (needs_grad(x))
    record(y, "ClampBackward", {&x}, [s = Saved(x), low, high](Node &n, const Tensor &g, Tensors &gin) {
      const Tensor a = s.get(n);
      Tensor d = g;
      if (low) d = where(binary(binary_op(hal::op::ge), a, *low), d, 0.0);
      if (high) d = where(binary(binary_op(hal::op::le), a, *high), d, 0.0);
      gin[0] = sum_to(d, a.sizes());
    });
  return y;
}

void inplace_add(const Tensor &self, const Tensor &other) {
  GradMode off(false);
  binary(binary_op(hal::op::add), self, other, &self);
  self.bump_version();
}

namespace {
// Shared end of in-place ops: writes result into self unless it is there already.
Tensor finish_inplace(const char *name, const Tensor &self, const Tensor &before, const Tensor &result) {
  if (self.sizes() != broadcast_shapes(name, self.sizes(), result.sizes()))
    throw Error(ErrorKind::Value, std::string("[") + name + "] output with shape " + to_string(self.sizes()) +
                                      " doesn't match the broadcast shape " + to_string(result.sizes()));
  copy_into(self, result);
  after_inplace(self, before, self.dtype() == result.dtype() ? result : cast(result, self.dtype()));
  return self;
}
// self as it was, with data of its own: for gradients that read what the in-place op is about to overwrite.
Tensor keep_data(const Tensor &before) {
  Tensor copy;
  {
    GradMode off(false);
    copy = clone(before);
  }
  if (before->autograd) {
    AutogradMeta &m = autograd_meta(copy);
    m.grad_fn = before->autograd->grad_fn;
    m.output_nr = before->autograd->output_nr;
    m.requires_grad = before->autograd->requires_grad;
  }
  return copy;
}
void check_result_type(const char *name, hal_dtype self, hal_dtype result) {
  if (category(result) > category(self))
    throw Error(ErrorKind::Type, std::string("[") + name + "] result type " + dtype_long_name(result) +
                                     " can't be cast to the desired output type " + dtype_long_name(self));
}
}  // namespace

Tensor inplace_unary(const UnaryOp &op, const Tensor &self) {
  if (op.kind == Kind::Float) check_result_type(op.name, self.dtype(), hal::is_float(self.dtype()) ? self.dtype() : default_dtype());
  Tensor before = before_inplace(op.name, self, false);
  if (before.impl() == self.impl() && op.kind != Kind::Compare && !needs_grad(self) && table_has(op.id, self.dtype())) {
    unary(op, self, &self);
    self.bump_version();
    return self;
  }
  if (op.keep == Keep::Input && needs_grad(before)) before = keep_data(before);
  return finish_inplace(op.name, self, before, unary(op, before));
}

Tensor inplace_binary(const BinaryOp &op, const Tensor &self, const Value &other) {
  hal_dtype d = result_type(self, other);
  if (op.id == hal::op::pow && !hal::is_float(d)) {  // integers stay integers
    check_result_type(op.name, self.dtype(), d);
    return copy_(self, power(self, other));
  }
  if (op.kind == Kind::Float && !hal::is_float(d)) d = default_dtype();
  if (op.kind != Kind::Compare) check_result_type(op.name, self.dtype(), d);
  const bool other_needs = other.is_tensor() && needs_grad(other.tensor);
  Tensor before = before_inplace(op.name, self, other_needs);
  if (before.impl() == self.impl() && op.kind != Kind::Compare && d == self.dtype() && !needs_grad(self) && !other_needs) {
    GradMode off(false);
    binary(op, self, other, &self);
    self.bump_version();
    return self;
  }
  if (((needs_grad(before) ? op.uses_a : 0) | (other_needs ? op.uses_b : 0)) & kUseA) before = keep_data(before);
  return finish_inplace(op.name, self, before, binary(op, before, other));
}

Tensor neg(const Tensor &a) { return unary(unary_op(hal::op::neg), a); }
Tensor exp(const Tensor &a) { return unary(unary_op(hal::op::exp), a); }
Tensor log(const Tensor &a) { return unary(unary_op(hal::op::log), a); }
Tensor sqrt(const Tensor &a) { return unary(unary_op(hal::op::sqrt), a); }
Tensor add(const Value &a, const Value &b) { return binary(binary_op(hal::op::add), a, b); }
Tensor sub(const Value &a, const Value &b) { return binary(binary_op(hal::op::sub), a, b); }
Tensor mul(const Value &a, const Value &b) { return binary(binary_op(hal::op::mul), a, b); }
Tensor div(const Value &a, const Value &b) { return binary(binary_op(hal::op::div), a, b); }
Tensor pow(const Value &a, const Value &b) { return binary(binary_op(hal::op::pow), a, b); }
namespace {
// Square and multiply with wrap-around, in the promoted dtype. A negative exponent gives the integer part of the true value: 0 unless the
// base is 1 or -1.
Tensor integer_power(const Value &a, const Tensor &b) {
  const hal_dtype d = result_type(a, b);
  if (d == HAL_BOOL) throw Error(ErrorKind::Type, "[pow] not defined for bool");
  const Tensor exponent = cast(b, d);
  Tensor base = a.is_tensor() ? cast(a.tensor, d) : full({}, a.scalar, d, b.device());
  Tensor result = full(broadcast_shapes("pow", base.sizes(), exponent.sizes()), Scalar(1), d, b.device());
  if (result.numel() == 0) return result;
  const BinaryOp &bit_and = binary_op(hal::op::bitwise_and), &not_equal = binary_op(hal::op::ne);
  const auto odd = [&](int64_t bit) { return binary(not_equal, binary(bit_and, exponent, Value(Scalar(bit))), Value(0)); };
  const Tensor original = base;
  const int64_t largest = item(extremum(exponent, true, {}, false)).i, least = item(extremum(exponent, false, {}, false)).i;
  for (int64_t bit = 1; bit > 0 && bit <= largest; bit = bit > largest / 2 ? 0 : bit * 2) {
    result = where(odd(bit), mul(result, base), result);
    base = mul(base, base);
  }
  if (least >= 0) return result;
  const Tensor one = full({}, Scalar(1), d, b.device()), zero = full({}, Scalar(0), d, b.device());
  Tensor inverse = where(eq(original, Value(1)), one, zero);
  inverse = where(eq(original, Value(-1)), where(odd(1), neg(one), one), inverse);
  return where(binary(binary_op(hal::op::lt), exponent, Value(0)), inverse, result);
}
}  // namespace

Tensor power(const Value &a, const Value &b) {
  if (a.is_tensor() && !b.is_tensor() && b.scalar.kind != Scalar::Float) {
    const hal_dtype d = result_type(a, b);
    Tensor base = cast(a.tensor, d);
    if (d == HAL_BOOL) throw Error(ErrorKind::Type, "[pow] not defined for bool");
    if (b.scalar.i == 2) return mul(base, base);
    if (!hal::is_float(d)) {
      if (b.scalar.i < 0)
        throw Error(ErrorKind::Value,
                    "[pow] Integers to negative integer powers are not allowed: got exponent " + std::to_string(b.scalar.i));
      Tensor result = full(base.sizes(), Scalar(1), d, base.device());
      for (int64_t e = b.scalar.i; e; e >>= 1) {
        if (e & 1) result = mul(result, base);
        if (e > 1) base = mul(base, base);
      }
      return result;
    }
  } else if (b.is_tensor() && !hal::is_float(result_type(a, b))) {
    return integer_power(a, b.tensor);
  }
  return pow(a, b);
}
Tensor eq(const Value &a, const Value &b) { return binary(binary_op(hal::op::eq), a, b); }

}  // namespace flow
