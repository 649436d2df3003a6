// Pointwise kernels: loops over the scalar functions of <hal/pointwise.h>, one set per op and compute type.
//
// A file of loops defines CPU_PICK_<compute type>(...) as __VA_ARGS__ for the compute types that it wants, then includes this header and
// expands CPU_POINTWISE_ENTRIES_<arity>. Vector and scalar parts of a loop run the same IEEE operations, so the compiler's cut can't show.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"  // one expression serves signed and unsigned
#include <hal/pointwise.h>
#pragma GCC diagnostic pop

#include <vector>

#include "elementwise.hpp"

namespace cpu {

struct PointwiseEntry {
  const char *name;
  hal_dtype dtype;  // that the operands have in memory
  int num_inputs;
  bool is_bool[4];  // operand of dtype bool whatever `dtype` is: inputs, then the output
  Loops loops;      // in compute_dtype(dtype)
};
using PointwiseEntries = std::vector<PointwiseEntry>;

void add_unary_f32(PointwiseEntries &entries);
void add_unary_f64(PointwiseEntries &entries);
void add_unary_integer(PointwiseEntries &entries);
void add_binary_f32(PointwiseEntries &entries);
void add_binary_f64(PointwiseEntries &entries);
void add_binary_integer(PointwiseEntries &entries);
void add_ternary(PointwiseEntries &entries);

// In all loops out[i] may share memory with in[k][i], and with nothing else that is read later: so ivdep, not restrict.

template <auto F, class O, class A>
void unary_loop(int64_t n, void *out, const void *const *in) {
  O *o = static_cast<O *>(out);
  const A *a = static_cast<const A *>(in[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = F(a[i]);
}

template <auto F, int kScalars, class O, class A, class B>
void binary_loop(int64_t n, void *out, const void *const *in) {
  O *o = static_cast<O *>(out);
  const A *a = static_cast<const A *>(in[0]);
  const B *b = static_cast<const B *>(in[1]);
  const A a0 = *a;
  const B b0 = *b;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = F(kScalars & 1 ? a0 : a[i], kScalars & 2 ? b0 : b[i]);
}

template <auto F, int kScalars, class O, class A, class B, class C>
void ternary_loop(int64_t n, void *out, const void *const *in) {
  O *o = static_cast<O *>(out);
  const A *a = static_cast<const A *>(in[0]);
  const B *b = static_cast<const B *>(in[1]);
  const C *c = static_cast<const C *>(in[2]);
  const A a0 = *a;
  const B b0 = *b;
  const C c0 = *c;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = F(kScalars & 1 ? a0 : a[i], kScalars & 2 ? b0 : b[i], kScalars & 4 ? c0 : c[i]);
}

template <auto F, class O, class A>
constexpr PointwiseEntry unary_entry(const char *name, hal_dtype dtype, bool a, bool out) {
  return {name, dtype, 1, {a, out}, {{unary_loop<F, O, A>}}};
}

template <auto F, class O, class A, class B>
constexpr PointwiseEntry binary_entry(const char *name, hal_dtype dtype, bool a, bool b, bool out) {
  return {name, dtype, 2, {a, b, out}, {{binary_loop<F, 0, O, A, B>, binary_loop<F, 1, O, A, B>, binary_loop<F, 2, O, A, B>}}};
}

template <auto F, class O, class A, class B, class C>
constexpr PointwiseEntry ternary_entry(const char *name, hal_dtype dtype, bool a, bool b, bool c, bool out) {
  return {name,
          dtype,
          3,
          {a, b, c, out},
          {{ternary_loop<F, 0, O, A, B, C>, ternary_loop<F, 1, O, A, B, C>, ternary_loop<F, 2, O, A, B, C>, ternary_loop<F, 3, O, A, B, C>,
            ternary_loop<F, 4, O, A, B, C>, ternary_loop<F, 5, O, A, B, C>, ternary_loop<F, 6, O, A, B, C>}}};
}

}  // namespace cpu

#ifndef CPU_PICK_bool
#define CPU_PICK_bool(...)
#endif
#ifndef CPU_PICK_u8
#define CPU_PICK_u8(...)
#endif
#ifndef CPU_PICK_i8
#define CPU_PICK_i8(...)
#endif
#ifndef CPU_PICK_i16
#define CPU_PICK_i16(...)
#endif
#ifndef CPU_PICK_i32
#define CPU_PICK_i32(...)
#endif
#ifndef CPU_PICK_i64
#define CPU_PICK_i64(...)
#endif
#ifndef CPU_PICK_f32
#define CPU_PICK_f32(...)
#endif
#ifndef CPU_PICK_f64
#define CPU_PICK_f64(...)
#endif

#define CPU_TYPE_bool uint8_t
#define CPU_TYPE_u8 uint8_t
#define CPU_TYPE_i8 int8_t
#define CPU_TYPE_i16 int16_t
#define CPU_TYPE_i32 int32_t
#define CPU_TYPE_i64 int64_t
#define CPU_TYPE_f32 float
#define CPU_TYPE_f64 double

#define CPU_DTYPE_bool HAL_BOOL
#define CPU_DTYPE_u8 HAL_U8
#define CPU_DTYPE_i8 HAL_I8
#define CPU_DTYPE_i16 HAL_I16
#define CPU_DTYPE_i32 HAL_I32
#define CPU_DTYPE_i64 HAL_I64
#define CPU_DTYPE_f16 HAL_F16
#define CPU_DTYPE_bf16 HAL_BF16
#define CPU_DTYPE_f32 HAL_F32
#define CPU_DTYPE_f64 HAL_F64

#define CPU_CLASS_T(compute) CPU_TYPE_##compute
#define CPU_CLASS_BOOL(compute) uint8_t
#define CPU_IS_BOOL_T false
#define CPU_IS_BOOL_BOOL true

#define CPU_ENTRY_1(name, storage, compute, a, out)                                                            \
  CPU_PICK_##compute(unary_entry<hal_op_##name##_##compute, CPU_CLASS_##out(compute), CPU_CLASS_##a(compute)>( \
                         #name, CPU_DTYPE_##storage, CPU_IS_BOOL_##a, CPU_IS_BOOL_##out), )
#define CPU_ENTRY_2(name, storage, compute, a, b, out)                                                                                  \
  CPU_PICK_##compute(binary_entry<hal_op_##name##_##compute, CPU_CLASS_##out(compute), CPU_CLASS_##a(compute), CPU_CLASS_##b(compute)>( \
                         #name, CPU_DTYPE_##storage, CPU_IS_BOOL_##a, CPU_IS_BOOL_##b, CPU_IS_BOOL_##out), )
#define CPU_ENTRY_3(name, storage, compute, a, b, c, out)                                                                                 \
  CPU_PICK_##compute(ternary_entry<hal_op_##name##_##compute, CPU_CLASS_##out(compute), CPU_CLASS_##a(compute), CPU_CLASS_##b(compute),   \
                                   CPU_CLASS_##c(compute)>(#name, CPU_DTYPE_##storage, CPU_IS_BOOL_##a, CPU_IS_BOOL_##b, CPU_IS_BOOL_##c, \
                                                           CPU_IS_BOOL_##out), )
