// Making, casting, copying and moving tensors.
#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

extern "C" {
#include <hal/numerics/numerics.h>
}

namespace flow {

namespace id = hal::op;

void fill_into(const Tensor &dst, Scalar value) {
  if (dst.numel() == 0) return;
  launch(id::fill, {Arg::immediate("fill", value, dst.dtype())}, {&dst});
}

Tensor full(const Dims &sizes, Scalar value, hal_dtype dtype, hal::Device &device) {
  Tensor t = empty(sizes, dtype, device);
  fill_into(t, value);
  return t;
}

Tensor zeros(const Dims &sizes, hal_dtype dtype, hal::Device &device) { return full(sizes, Scalar(0), dtype, device); }

Tensor arange(Scalar start, Scalar step, int64_t n, hal_dtype dtype, hal::Device &device) {
  Tensor t = empty({n}, dtype, device);
  const hal_dtype c = hal::compute_type(dtype);
  if (n) launch(id::arange, {Arg::immediate("arange", start, c), Arg::immediate("arange", step, c)}, {&t});
  return t;
}

Tensor cast(const Tensor &t, hal_dtype dtype) {
  if (t.dtype() == dtype) return t;
  Tensor out = empty(t.sizes(), dtype, t.device());
  if (out.numel()) launch(id::cast, {t}, {&out});
  if (needs_grad(t) && hal::is_float(dtype))
    record(out, "ToCopyBackward", {&t}, [from = t.dtype()](Node &, const Tensor &g, Tensors &gin) { gin[0] = cast(g, from); });
  return out;
}

Tensor clone(const Tensor &t) {
  Tensor out = empty(t.sizes(), t.dtype(), t.device());
  if (out.numel()) launch(id::copy, {t}, {&out});
  if (needs_grad(t)) record(out, "CloneBackward", {&t}, [](Node &, const Tensor &g, Tensors &gin) { gin[0] = g; });
  return out;
}

Tensor contiguous(const Tensor &t) { return t.is_contiguous() ? t : clone(t); }

Tensor to_device(const Tensor &t, hal::Device &device) {
  if (&t.device() == &device) return t;
  Tensor out;
  {
    GradMode off(false);
    const Tensor src = contiguous(t);
    out = empty(t.sizes(), t.dtype(), device);
    ReleaseGil gil(true);
    hal::copy_bytes(device.current_stream(), *out->storage->buffer, out.byte_offset(), *src->storage->buffer, src.byte_offset(),
                    out->storage->nbytes);
  }
  if (needs_grad(t))
    record(out, "ToCopyBackward", {&t}, [from = &t.device()](Node &, const Tensor &g, Tensors &gin) { gin[0] = to_device(g, *from); });
  return out;
}

void copy_into(const Tensor &dst, const Tensor &src) {
  if (dst.impl() == src.impl()) return;
  GradMode off(false);
  Tensor s = to_device(src, dst.device());
  s = cast(s, dst.dtype());
  if (s.sizes() != dst.sizes()) s = expand(s, dst.sizes());
  if (dst.numel() == 0) return;
  if (s->storage == dst->storage) {
    if (s->offset == dst->offset && s.strides() == dst.strides()) return;
    s = clone(s);  // the two may overlap
  }
  launch(id::copy, {s}, {&dst});
}

Tensor copy_(const Tensor &self, const Tensor &src) {
  if (broadcast_shapes("copy_", self.sizes(), src.sizes()) != self.sizes())
    throw Error(ErrorKind::Value,
                "[copy_] source can't be broadcast to the target: got " + to_string(src.sizes()) + ", expected " + to_string(self.sizes()));
  const bool source_needs = needs_grad(src) && hal::is_float(self.dtype());
  const Tensor before = before_inplace("copy_", self, source_needs);
  copy_into(self, src);
  Tensor result = src;
  if (before.impl() != self.impl()) {
    // The history of the new value: src, seen in self's shape, dtype and place; nothing of what self was.
    result = alias(self, self.sizes(), self.strides(), self->offset);
    record(result, "CopyBackward", {&before, &src},
           [from = src.dtype(), sizes = src.sizes(), device = &src.device()](Node &n, const Tensor &g, Tensors &gin) {
             if (n.needs(0)) gin[0] = zeros(g.sizes(), g.dtype(), g.device());
             if (n.needs(1)) gin[1] = cast(to_device(sum_to(g, sizes), *device), from);
           });
  }
  after_inplace(self, before, result);
  return self;
}

Tensor fill_(const Tensor &self, Scalar value) {
  const Tensor before = before_inplace("fill_", self, false);
  fill_into(self, value);
  Tensor result = self;
  if (before.impl() != self.impl()) {
    result = alias(self, self.sizes(), self.strides(), self->offset);
    record(result, "FillBackward", {&before},
           [](Node &, const Tensor &g, Tensors &gin) { gin[0] = zeros(g.sizes(), g.dtype(), g.device()); });
  }
  after_inplace(self, before, result);
  return self;
}

Scalar item(const Tensor &t) {
  if (t.numel() != 1)
    throw Error(ErrorKind::Value, "[item] a Tensor with " + std::to_string(t.numel()) +
                                      " elements cannot be converted to Scalar: got shape " + to_string(t.sizes()));
  uint64_t bits = 0;
  hal::Buffer &buffer = *t->storage->buffer;
  hal::Stream &stream = t.device().current_stream();
  {
    const size_t size = hal::dtype_size(t.dtype());
    if (buffer.host()) {
      {
        ReleaseGil gil(!stream.query());
        stream.synchronize();
      }
      std::memcpy(&bits, static_cast<char *>(buffer.host()) + t.byte_offset(), size);
    } else {
      ReleaseGil gil(true);
      hal::copy_to_host(stream, &bits, buffer, t.byte_offset(), size);
    }
  }
  switch (t.dtype()) {
    case HAL_BOOL:
      return Scalar(bits != 0);
    case HAL_U8:
      return Scalar(static_cast<int64_t>(static_cast<uint8_t>(bits)));
    case HAL_I8:
      return Scalar(static_cast<int64_t>(static_cast<int8_t>(bits)));
    case HAL_I16:
      return Scalar(static_cast<int64_t>(static_cast<int16_t>(bits)));
    case HAL_I32:
      return Scalar(static_cast<int64_t>(static_cast<int32_t>(bits)));
    case HAL_I64:
      return Scalar(static_cast<int64_t>(bits));
    case HAL_F16:
      return Scalar(static_cast<double>(hal_f16_to_f32(static_cast<uint16_t>(bits))));
    case HAL_BF16:
      return Scalar(static_cast<double>(hal_bf16_to_f32(static_cast<uint16_t>(bits))));
    case HAL_F32: {
      float f;
      std::memcpy(&f, &bits, 4);
      return Scalar(static_cast<double>(f));
    }
    default: {
      double d;
      std::memcpy(&d, &bits, 8);
      return Scalar(d);
    }
  }
}

}  // namespace flow
