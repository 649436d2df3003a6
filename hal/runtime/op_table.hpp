// The op table as the runtime sees it: generated from hal/ops (see generate.py).
#pragma once

#include <hal/base.h>

#include <string_view>
#include <vector>

#include "error.hpp"
#include "op_ids.hpp"

namespace hal {

enum class OperandKind { Tensor, Scalar, Either };
// Dtype of an operand from the op's dtype T: T itself, its compute type, its accumulator for integers (floats stay T), anything, or fixed.
enum class DTypeRule { Same, Compute, Accumulated, Any, Fixed };
enum class ShapeRule {
  broadcast,
  same,
  given,
  reduce,
  matmul,
  conv2d,
  max_pool2d,
  max_pool2d_gather,
  nll_loss,
  optimizer,
  layer_norm,
  batch_norm,
  avg_pool2d,
  adaptive_avg_pool2d,
  gather,
  scatter,
  along_axis,
  custom
};

struct OperandInfo {
  const char *name;
  OperandKind kind;
  DTypeRule rule;
  hal_dtype fixed;
  bool optional;
};

struct AttributeInfo {
  const char *name;
  bool is_float;
  int count;
  uint32_t offset;  // in the attribute struct
  double default_value;
};

struct OpInfo {
  const char *name;
  const char *category;
  const char *numerics;
  uint32_t num_inputs;
  uint32_t num_outputs;
  std::vector<OperandInfo> operands;  // inputs, then outputs
  uint32_t dtypes;                    // HAL_DTYPE_BIT of each that the primary operand may have
  ShapeRule shape;
  uint32_t primary;  // index into operands
  std::vector<AttributeInfo> attributes;
  uint32_t attributes_size;  // of the struct, 0 if none
};

// Entry of an id. Ids of the table are op::Id; plugins' own ops follow.
HAL_API const OpInfo &op_info(uint32_t id);
// Throws Error(Value) naming the nearest names if there is none.
HAL_API uint32_t find_op(std::string_view name);
// Id of a name, made on first use if neither the table nor a plugin has it: an op that a plugin brings (ShapeRule::custom).
HAL_API uint32_t intern_op(std::string_view name);
HAL_API uint32_t op_count();

HAL_API size_t dtype_size(hal_dtype dtype);
HAL_API const char *dtype_name(hal_dtype dtype);  // "f32"
HAL_API hal_dtype dtype_from_name(std::string_view name);
HAL_API hal_dtype compute_type(hal_dtype dtype);
HAL_API hal_dtype accumulator_type(hal_dtype dtype);
inline bool is_float(hal_dtype d) { return d >= HAL_F16; }
inline bool is_integer(hal_dtype d) { return d >= HAL_U8 && d <= HAL_I64; }

}  // namespace hal
