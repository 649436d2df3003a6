// One use of an op during its checks, and the checks that the files of shape rules share.
#pragma once

#include "dispatch_internal.hpp"

namespace hal::shape {

// One use of an op, with what its messages need.
struct Use {
  const OpInfo &info;
  uint32_t id;
  hal_operand *operands;
  uint32_t num_inputs, num_outputs;
  const void *attributes;

  hal_operand &in(uint32_t i) const { return operands[i]; }
  hal_operand &out(uint32_t i) const { return operands[num_inputs + i]; }
  std::string name(uint32_t i) const { return i < info.operands.size() ? info.operands[i].name : "operand " + std::to_string(i); }
  [[noreturn]] void fail(const std::string &text, ErrorKind kind = ErrorKind::Value) const {
    throw Error(kind, std::string("[") + info.name + "] " + text);
  }
};

// The output's shape, row-major. Throws if it is too large.
void set_shape(const Use &use, hal_operand &o, uint32_t rank, const int64_t *dims);
void check_rank(const Use &use, uint32_t i, uint32_t rank, const char *meaning);
void check_same_shape(const Use &use, uint32_t i, const hal_operand &model, const std::string &model_name);
void check_positive(const Use &use, const char *name, const int64_t *values, int count, int64_t least);

// Rules of shape_rules_normalization.cpp and shape_rules_average.cpp.
void layer_norm(const Use &use);
void batch_norm(const Use &use);
void avg_pool2d(const Use &use);
void adaptive_avg_pool2d(const Use &use);
void average_backward(const Use &use);

}  // namespace hal::shape
