// Casts between any two dtypes, as docs/numerics.md section 2 defines them: one rounding, saturation, NaN to 0.
#include <hal/numerics/numerics.h>

#include <utility>

#include "data.hpp"

namespace cpu {
namespace {

constexpr int64_t kCastGrain = 32768;  // elements

// How a dtype is held in the loops. Halves are read through f32, which is exact, and written directly: one rounding.
template <hal_dtype D>
struct Held;
template <>
struct Held<HAL_BOOL> {
  using Type = uint8_t;
};
template <>
struct Held<HAL_U8> {
  using Type = uint8_t;
};
template <>
struct Held<HAL_I8> {
  using Type = int8_t;
};
template <>
struct Held<HAL_I16> {
  using Type = int16_t;
};
template <>
struct Held<HAL_I32> {
  using Type = int32_t;
};
template <>
struct Held<HAL_I64> {
  using Type = int64_t;
};
template <>
struct Held<HAL_F16> {
  using Type = uint16_t;
};
template <>
struct Held<HAL_BF16> {
  using Type = uint16_t;
};
template <>
struct Held<HAL_F32> {
  using Type = float;
};
template <>
struct Held<HAL_F64> {
  using Type = double;
};
template <hal_dtype D>
using HeldType = typename Held<D>::Type;

constexpr bool is_integer(hal_dtype d) { return d <= HAL_I64; }

template <hal_dtype From, hal_dtype To>
inline HeldType<To> cast_one(HeldType<From> x) {
  if constexpr (To == HAL_BOOL) {
    return x != 0;
  } else if constexpr (is_integer(From)) {
    constexpr bool exact_in_f32 = sizeof(HeldType<From>) <= 2;
    if constexpr (To == HAL_F16)
      return exact_in_f32 ? hal_f32_to_f16(float(x)) : hal_i64_to_f16(int64_t(x));
    else if constexpr (To == HAL_BF16)
      return exact_in_f32 ? hal_f32_to_bf16(float(x)) : hal_i64_to_bf16(int64_t(x));
    else
      return HeldType<To>(x);
  } else if constexpr (From == HAL_F32) {
    if constexpr (To == HAL_U8) return hal_f32_to_u8(x);
    if constexpr (To == HAL_I8) return hal_f32_to_i8(x);
    if constexpr (To == HAL_I16) return hal_f32_to_i16(x);
    if constexpr (To == HAL_I32) return hal_f32_to_i32(x);
    if constexpr (To == HAL_I64) return hal_f32_to_i64(x);
    if constexpr (To == HAL_F64 || To == HAL_F32) return x;
  } else {
    if constexpr (To == HAL_U8) return hal_f64_to_u8(x);
    if constexpr (To == HAL_I8) return hal_f64_to_i8(x);
    if constexpr (To == HAL_I16) return hal_f64_to_i16(x);
    if constexpr (To == HAL_I32) return hal_f64_to_i32(x);
    if constexpr (To == HAL_I64) return hal_f64_to_i64(x);
    if constexpr (To == HAL_F16) return hal_f64_to_f16(x);
    if constexpr (To == HAL_BF16) return hal_f64_to_bf16(x);
    if constexpr (To == HAL_F32) return hal_f64_to_f32(x);
  }
}

template <hal_dtype From, hal_dtype To>
void cast_loop(int64_t n, void *out, const void *const *in) {
  const auto *x = static_cast<const HeldType<From> *>(in[0]);
  auto *y = static_cast<HeldType<To> *>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = cast_one<From, To>(x[i]);
}

// From f32 to a half the machinery rounds (it has the faster instructions), so the loop gives f32.
constexpr bool rounds_outside(hal_dtype from, hal_dtype to) { return from == HAL_F32 && (to == HAL_F16 || to == HAL_BF16); }

template <hal_dtype From, hal_dtype To>
constexpr Loop loop_of() {
  constexpr hal_dtype from = From == HAL_BOOL ? HAL_U8 : From == HAL_F16 || From == HAL_BF16 ? HAL_F32 : From;
  if constexpr (rounds_outside(from, To))
    return cast_loop<from, HAL_F32>;
  else if constexpr (from == HAL_F64 && To == HAL_F64)
    return nullptr;  // a copy
  else
    return cast_loop<from, To>;
}

struct Row {
  Loops to[HAL_DTYPE_COUNT];
};

template <hal_dtype From>
constexpr Row row_of() {
  return {{{},
           {{loop_of<From, HAL_BOOL>()}},
           {{loop_of<From, HAL_U8>()}},
           {{loop_of<From, HAL_I8>()}},
           {{loop_of<From, HAL_I16>()}},
           {{loop_of<From, HAL_I32>()}},
           {{loop_of<From, HAL_I64>()}},
           {{loop_of<From, HAL_F16>()}},
           {{loop_of<From, HAL_BF16>()}},
           {{loop_of<From, HAL_F32>()}},
           {{loop_of<From, HAL_F64>()}}}};
}

constexpr Row kLoops[HAL_DTYPE_COUNT] = {{},
                                         row_of<HAL_BOOL>(),
                                         row_of<HAL_U8>(),
                                         row_of<HAL_I8>(),
                                         row_of<HAL_I16>(),
                                         row_of<HAL_I32>(),
                                         row_of<HAL_I64>(),
                                         row_of<HAL_F16>(),
                                         row_of<HAL_BF16>(),
                                         row_of<HAL_F32>(),
                                         row_of<HAL_F64>()};

std::unique_ptr<Kernel> make_cast(const hal_op &op) {
  if (op.num_inputs != 1 || op.num_outputs != 1) throw Invalid("[cast] operands: expected 1 input and 1 output");
  const hal_dtype from = op.operands[0].dtype, to = op.operands[1].dtype;
  if (from == to) return make_copy(op);
  const hal_dtype held = compute_dtype(from);
  const hal_dtype given = rounds_outside(held, to) ? hal_dtype{HAL_F32} : to;
  return make_elementwise({1, op.operands, {held, given}, &kLoops[from].to[to], kCastGrain, op.name});
}

}  // namespace

void add_cast(KernelRows &rows) { rows.push_back({"cast", ((1u << HAL_DTYPE_COUNT) - 1) & ~1u, make_cast}); }

}  // namespace cpu
