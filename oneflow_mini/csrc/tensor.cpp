#include "tensor.hpp"

#include <cmath>
#include <limits>

#include "autograd.hpp"
#include "fp_mode.hpp"

extern "C" {
#include <hal/numerics/numerics.h>
}

namespace flow {

TensorImpl::TensorImpl() = default;
TensorImpl::~TensorImpl() = default;

int64_t Tensor::numel() const {
  int64_t n = 1;
  for (int64_t d : impl_->sizes) n *= d;
  return n;
}

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (size_t i = sizes().size(); i-- > 0;) {
    if (sizes()[i] == 0) return true;
    if (sizes()[i] != 1 && strides()[i] != expected) return false;
    expected *= sizes()[i];
  }
  return true;
}

int64_t count(const Dims &sizes) {
  int64_t n = 1;
  bool zero = false;
  for (int64_t d : sizes) {
    if (d < 0) throw Error(ErrorKind::Value, "[tensor] negative dimension: got shape " + to_string(sizes));
    zero |= d == 0;
  }
  if (zero) return 0;
  for (int64_t d : sizes)
    if (__builtin_mul_overflow(n, d, &n)) throw Error(HAL_ERROR_OUT_OF_MEMORY, "[tensor] shape too large: got " + to_string(sizes));
  return n;
}

Dims contiguous_strides(const Dims &sizes) {
  Dims strides = sizes;
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i] > 1 ? sizes[i] : 1;
  }
  return strides;
}

std::string to_string(const Dims &sizes) {
  std::string s = "(";
  for (size_t i = 0; i < sizes.size(); ++i) s += (i ? ", " : "") + std::to_string(sizes[i]);
  return s + (sizes.size() == 1 ? ",)" : ")");
}

int64_t wrap_dim(int64_t dim, int64_t rank, const char *op) {
  const int64_t n = rank ? rank : 1;
  if (dim < -n || dim >= n)
    throw Error(ErrorKind::Index, std::string("[") + op + "] Dimension out of range: got dim " + std::to_string(dim) +
                                      ", expected to be in range of [" + std::to_string(-n) + ", " + std::to_string(n - 1) + "]");
  return dim < 0 ? dim + n : dim;
}

Dims broadcast_shapes(const char *op, const Dims &a, const Dims &b) {
  if (a == b) return a;
  Dims out = a.size() >= b.size() ? a : b;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t back = out.size() - i;
    const int64_t x = back <= a.size() ? a[a.size() - back] : 1, y = back <= b.size() ? b[b.size() - back] : 1;
    if (x != y && x != 1 && y != 1)
      throw Error(ErrorKind::Value, std::string("[") + op + "] shapes can't be broadcast: got " + to_string(a) + " and " + to_string(b) +
                                        ", dimension " + std::to_string(i) + " has " + std::to_string(x) + " and " + std::to_string(y));
    out[i] = x == 1 ? y : x;
  }
  return out;
}

Tensor empty(const Dims &sizes, hal_dtype dtype, hal::Device &device) {
  const int64_t n = count(sizes);
  int64_t bytes;
  if (__builtin_mul_overflow(n, static_cast<int64_t>(hal::dtype_size(dtype)), &bytes))
    throw Error(HAL_ERROR_OUT_OF_MEMORY, "[empty] shape too large: got " + to_string(sizes));
  auto *impl = new TensorImpl;
  Tensor t(impl);
  impl->storage = Ref<Storage>(new Storage);
  impl->storage->buffer = device.allocator().allocate(static_cast<uint64_t>(bytes), device.current_stream());
  impl->storage->nbytes = static_cast<uint64_t>(bytes);
  impl->dtype = dtype;
  impl->sizes = sizes;
  impl->strides = contiguous_strides(sizes);
  return t;
}

Tensor alias(const Tensor &t, const Dims &sizes, const Dims &strides, int64_t offset) {
  auto *impl = new TensorImpl;
  impl->storage = t->storage;
  impl->offset = offset;
  impl->dtype = t->dtype;
  impl->sizes = sizes;
  impl->strides = strides;
  return Tensor(impl);
}

hal_operand operand_of(const Tensor &t, uint32_t flags) {
  hal_operand o;
  o.struct_size = sizeof(hal_operand);
  o.flags = flags;
  o.dtype = t.dtype();
  o.layout = HAL_LAYOUT_STRIDED;
  o.rank = static_cast<uint32_t>(t.dim());
  o.reserved = 0;
  std::memcpy(o.dims, t.sizes().data(), o.rank * sizeof(int64_t));
  std::memcpy(o.strides, t.strides().data(), o.rank * sizeof(int64_t));
  return o;
}

uint64_t scalar_bits(const char *op, Scalar s, hal_dtype dtype) {
  const auto integer = [&](int64_t low, int64_t high, uint64_t mask) -> uint64_t {
    if (s.kind == Scalar::Float) s.i = hal_f64_to_i64(s.d);
    if (s.i < low || s.i > high)
      throw Error(ErrorKind::Value, std::string("[") + op + "] value cannot be converted to " + dtype_long_name(dtype) +
                                        " without overflow: got " + std::to_string(s.i) + ", expected between " + std::to_string(low) +
                                        " and " + std::to_string(high));
    return static_cast<uint64_t>(s.i) & mask;
  };
  switch (dtype) {
    case HAL_BOOL:
      return s.kind == Scalar::Float ? s.d != 0 : s.i != 0;
    case HAL_U8:
      return integer(0, 255, 0xff);
    case HAL_I8:
      return integer(-128, 127, 0xff);
    case HAL_I16:
      return integer(-32768, 32767, 0xffff);
    case HAL_I32:
      return integer(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), 0xffffffffu);
    case HAL_I64:
      return integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), ~uint64_t{0});
    case HAL_F16:
    case HAL_BF16:
    case HAL_F32: {
      const hal::DefaultFpMode mode;      // the caller may have set flush-to-zero
      const volatile double given = s.d;  // volatile in and out: the conversion stays inside the mode's scope
      const double d = given;
      uint32_t bits;
      if (dtype == HAL_F16) {
        bits = s.kind == Scalar::Float ? hal_f64_to_f16(d) : hal_i64_to_f16(s.i);
      } else if (dtype == HAL_BF16) {
        bits = s.kind == Scalar::Float ? hal_f64_to_bf16(d) : hal_i64_to_bf16(s.i);
      } else {
        const float f = s.kind == Scalar::Float ? static_cast<float>(d) : static_cast<float>(s.i);
        std::memcpy(&bits, &f, 4);
      }
      const volatile uint32_t result = bits;
      return result;
    }
    case HAL_F64: {
      uint64_t bits;
      std::memcpy(&bits, &s.d, 8);
      return bits;
    }
    default:
      throw Error(ErrorKind::Type, std::string("[") + op + "] unknown dtype");
  }
}

namespace {
hal_dtype g_default_dtype = HAL_F32;
}
hal_dtype default_dtype() { return g_default_dtype; }
void set_default_dtype(hal_dtype dtype) {
  if (!hal::is_float(dtype))
    throw Error(ErrorKind::Type,
                "[set_default_dtype] only floating-point dtypes can be the default: got " + std::string(dtype_long_name(dtype)));
  g_default_dtype = dtype;
}

hal_dtype promote(hal_dtype a, hal_dtype b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);  // the codes ascend: bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64
  if (a == HAL_U8 && b == HAL_I8) return HAL_I16;
  if (a == HAL_F16 && b == HAL_BF16) return HAL_F32;
  return b;
}

const char *dtype_long_name(hal_dtype dtype) {
  static const char *names[] = {"?", "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"};
  return dtype > 0 && dtype < HAL_DTYPE_COUNT ? names[dtype] : names[0];
}

bool Tensor::requires_grad() const {
  const auto &m = impl_->autograd;
  return m && (m->requires_grad || m->grad_fn || (m->base.defined() && grad_fn()));
}
bool Tensor::is_leaf() const { return !impl_->autograd || !impl_->autograd->grad_fn; }

}  // namespace flow
