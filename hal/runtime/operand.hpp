// Private to the runtime: small questions about operands.
#pragma once

#include <hal/kernel.h>

#include <string>

#include "op_table.hpp"

namespace hal {

inline bool is_tensor(const hal_operand &o) { return (o.flags & (HAL_OPERAND_IMMEDIATE | HAL_OPERAND_ABSENT)) == 0; }

inline bool is_empty(const hal_operand &o) {
  for (uint32_t d = 0; d < o.rank; ++d)
    if (o.dims[d] == 0) return true;
  return false;
}

inline bool is_contiguous(const hal_operand &o) {
  int64_t expected = 1;
  for (int d = int(o.rank) - 1; d >= 0; --d) {
    if (o.dims[d] != 1 && o.strides[d] != expected) return false;
    expected *= o.dims[d];
  }
  return true;
}

inline void set_row_major(hal_operand &o) {
  int64_t stride = 1;
  for (int d = int(o.rank) - 1; d >= 0; --d) {
    o.strides[d] = stride;
    stride *= o.dims[d] > 0 ? o.dims[d] : 1;
  }
}

inline int64_t element_count(const hal_operand &o) {
  int64_t n = 1;
  for (uint32_t d = 0; d < o.rank; ++d) n *= o.dims[d];
  return n;
}

// Bytes that a strided operand touches around its place, [low, high).
struct Span {
  int64_t low = 0, high = 0;
};
inline Span span_of(const hal_operand &o) {
  Span span;
  if (!is_tensor(o) || is_empty(o)) return span;
  const int64_t size = int64_t(dtype_size(o.dtype));
  for (uint32_t d = 0; d < o.rank; ++d) {
    int64_t reach;
    if (__builtin_mul_overflow(o.dims[d] - 1, o.strides[d], &reach) || __builtin_mul_overflow(reach, size, &reach) ||
        __builtin_add_overflow(reach < 0 ? span.low : span.high, reach, reach < 0 ? &span.low : &span.high))
      throw Error(ErrorKind::Value, "[operand] dims and strides overflow 64 bits");
  }
  if (__builtin_add_overflow(span.high, size, &span.high)) throw Error(ErrorKind::Value, "[operand] dims and strides overflow 64 bits");
  return span;
}

inline std::string shape_text(const hal_operand &o) {
  std::string out = "(";
  for (uint32_t d = 0; d < o.rank; ++d) out += (d ? ", " : "") + std::to_string(o.dims[d]);
  return out + (o.rank == 1 ? ",)" : ")");
}

inline std::string dtypes_text(const hal_operand *operands, uint32_t count) {
  std::string out = "(";
  for (uint32_t i = 0; i < count; ++i)
    if (!(operands[i].flags & HAL_OPERAND_ABSENT)) out += (out.size() > 1 ? ", " : "") + std::string(dtype_name(operands[i].dtype));
  return out + ")";
}

}  // namespace hal
