// Section 2, casts: every value is taken apart into an exact sign · mantissa · 2^exponent and put together in the target's format
// with integer arithmetic only.
#include <cstring>

#include "reference.hpp"

namespace reference {
namespace {

struct Number {
  enum Kind { Finite, Infinite, NaN } kind = Finite;
  bool negative = false;
  uint64_t mantissa = 0;
  int exponent = 0;  // value = mantissa · 2^exponent
};

// An IEEE 754 binary format: total bits = 1 + exponent_bits + fraction_bits.
struct Format {
  int exponent_bits;
  int fraction_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int lowest() const { return 1 - bias() - fraction_bits; }  // exponent of the last bit of a subnormal
  uint64_t all_ones() const { return (uint64_t(1) << exponent_bits) - 1; }
};

constexpr Format kF16{5, 10}, kBF16{8, 7}, kF32{8, 23}, kF64{11, 52};

Number decode(uint64_t bits, Format f) {
  Number n;
  n.negative = (bits >> (f.exponent_bits + f.fraction_bits)) & 1;
  const uint64_t field = (bits >> f.fraction_bits) & f.all_ones();
  const uint64_t fraction = bits & ((uint64_t(1) << f.fraction_bits) - 1);
  if (field == f.all_ones()) {
    n.kind = fraction ? Number::NaN : Number::Infinite;
  } else if (field == 0) {
    n.mantissa = fraction;
    n.exponent = f.lowest();
  } else {
    n.mantissa = fraction | (uint64_t(1) << f.fraction_bits);
    n.exponent = f.lowest() + static_cast<int>(field) - 1;
  }
  return n;
}

int bit_length(uint64_t x) {
  int length = 0;
  for (; x != 0; x >>= 1) ++length;
  return length;
}

// x / 2^shift, to nearest, ties to even.
uint64_t shift_right_rounded(uint64_t x, int shift) {
  if (shift > 64) return 0;  // less than half
  const uint64_t half = uint64_t(1) << (shift - 1);
  const uint64_t quotient = shift == 64 ? 0 : x >> shift;
  const uint64_t rest = shift == 64 ? x : x & ((uint64_t(1) << shift) - 1);
  if (rest > half || (rest == half && (quotient & 1))) return quotient + 1;
  return quotient;
}

uint64_t encode(const Number &n, Format f) {
  const uint64_t sign = uint64_t(n.negative) << (f.exponent_bits + f.fraction_bits);
  const uint64_t infinity = f.all_ones() << f.fraction_bits;
  if (n.kind == Number::NaN) return infinity | (uint64_t(1) << (f.fraction_bits - 1));
  if (n.kind == Number::Infinite) return sign | infinity;
  if (n.mantissa == 0) return sign;
  // The last bit kept: `fraction_bits + 1` bits in all, but not below the last bit of a subnormal.
  int last = n.exponent + bit_length(n.mantissa) - (f.fraction_bits + 1);
  if (last < f.lowest()) last = f.lowest();
  uint64_t kept = last > n.exponent ? shift_right_rounded(n.mantissa, last - n.exponent) : n.mantissa << (n.exponent - last);
  const uint64_t one = uint64_t(1) << f.fraction_bits;
  if (kept == 2 * one) {  // the rounding carried into a new bit
    kept = one;
    ++last;
  }
  if (kept < one) return sign | kept;  // subnormal
  const uint64_t field = static_cast<uint64_t>(last - f.lowest() + 1);
  if (field >= f.all_ones()) return sign | infinity;
  return sign | (field << f.fraction_bits) | (kept - one);
}

Number from_integer(__int128 value) {
  Number n;
  n.negative = value < 0;
  n.mantissa = static_cast<uint64_t>(value < 0 ? -value : value);
  return n;
}

// Truncated towards zero, saturated to [low, high]; NaN is 0.
__int128 to_integer(const Number &n, __int128 low, __int128 high) {
  if (n.kind == Number::NaN) return 0;
  if (n.kind == Number::Infinite) return n.negative ? low : high;
  __int128 magnitude;
  if (n.exponent < 0)
    magnitude = n.exponent <= -64 ? 0 : n.mantissa >> -n.exponent;
  else if (n.mantissa == 0)
    magnitude = 0;
  else if (bit_length(n.mantissa) + n.exponent > 64)
    magnitude = static_cast<__int128>(1) << 64;
  else
    magnitude = static_cast<__int128>(n.mantissa) << n.exponent;
  const __int128 value = n.negative ? -magnitude : magnitude;
  return value < low ? low : value > high ? high : value;
}

enum class Class { Bool, Integer, Float };

struct Type {
  Class kind;
  int bytes;
  bool is_signed;
  Format format;
};

Type type_of(const std::string &name) {
  const Format none{0, 0};
  if (name == "bool") return {Class::Bool, 1, false, none};
  if (name == "u8") return {Class::Integer, 1, false, none};
  if (name == "i8") return {Class::Integer, 1, true, none};
  if (name == "i16") return {Class::Integer, 2, true, none};
  if (name == "i32") return {Class::Integer, 4, true, none};
  if (name == "i64") return {Class::Integer, 8, true, none};
  if (name == "f16") return {Class::Float, 2, true, kF16};
  if (name == "bf16") return {Class::Float, 2, true, kBF16};
  if (name == "f32") return {Class::Float, 4, true, kF32};
  if (name == "f64") return {Class::Float, 8, true, kF64};
  throw std::invalid_argument("[reference] unknown dtype: got " + name);
}

uint64_t read_bits(const char *p, int bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, p, static_cast<size_t>(bytes));  // little endian
  return bits;
}

__int128 read_integer(const char *p, const Type &t) {
  const uint64_t bits = read_bits(p, t.bytes);
  if (t.kind == Class::Bool) return bits != 0;
  const bool negative = t.is_signed && ((bits >> (8 * t.bytes - 1)) & 1);
  return negative ? static_cast<__int128>(bits) - (static_cast<__int128>(1) << (8 * t.bytes)) : static_cast<__int128>(bits);
}

uint64_t cast_one(const char *p, const Type &from, const Type &to) {
  if (from.kind == Class::Float) {
    const Number n = decode(read_bits(p, from.bytes), from.format);
    if (to.kind == Class::Float) return encode(n, to.format);
    if (to.kind == Class::Bool) return n.kind != Number::Finite || n.mantissa != 0;
    const __int128 size = static_cast<__int128>(1) << (8 * to.bytes);
    return static_cast<uint64_t>(to.is_signed ? to_integer(n, -size / 2, size / 2 - 1) : to_integer(n, 0, size - 1));
  }
  const __int128 value = read_integer(p, from);
  if (to.kind == Class::Float) return encode(from_integer(value), to.format);
  if (to.kind == Class::Bool) return value != 0;
  return static_cast<uint64_t>(value);  // modulo 2^n: the low bytes are stored
}

// Casts raw elements. Halves are uint16 arrays of their bits, bool is one byte.
py::array_t<uint8_t> cast(const Array<uint8_t> &bytes, const std::string &from_name, const std::string &to_name) {
  const Type from = type_of(from_name), to = type_of(to_name);
  const py::ssize_t n = bytes.size() / from.bytes;
  py::array_t<uint8_t> out(n * to.bytes);
  const char *source = reinterpret_cast<const char *>(bytes.data());
  char *target = reinterpret_cast<char *>(out.mutable_data());
  for (py::ssize_t i = 0; i < n; ++i) {
    const uint64_t bits = cast_one(source + i * from.bytes, from, to);
    std::memcpy(target + i * to.bytes, &bits, static_cast<size_t>(to.bytes));
  }
  return out;
}

}  // namespace

void bind_casts(py::module_ &m) { m.def("cast", &cast, py::arg("bytes").noconvert(), py::arg("from_name"), py::arg("to_name")); }

}  // namespace reference
