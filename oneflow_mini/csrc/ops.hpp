// The ops of oneflow_mini: checks, type promotion, one or more ops of the table, and the gradient.
#pragma once

#include <optional>

#include "tensor.hpp"

namespace flow {

// A tensor or a Python number.
struct Value {
  Tensor tensor;
  Scalar scalar = Scalar(0);
  Value(const Tensor &t) : tensor(t) {}  // NOLINT: implicit
  Value(Scalar s) : scalar(s) {}         // NOLINT: implicit
  Value(double d) : scalar(d) {}         // NOLINT: implicit
  Value(int i) : scalar(i) {}            // NOLINT: implicit
  bool is_tensor() const { return tensor.defined(); }
};

// ---- pointwise (ops_pointwise.cpp) ----------------------------------------------------------------------------------------------

enum class Kind {
  Same,     // the promoted dtype
  Float,    // integers are computed in the default float dtype
  Compare,  // promoted dtype in, bool out
  Integer   // bool and integers only
};
enum class Keep { Nothing, Input, Output };

struct UnaryOp {
  const char *name, *backward_name;
  uint32_t id;
  Kind kind;
  Keep keep;                                                // what `gradient` wants as its second argument
  Tensor (*gradient)(const Tensor &g, const Tensor &kept);  // nullptr: not differentiable (zero almost everywhere: see `zero_gradient`)
};
struct BinaryOp {
  const char *name, *backward_name;
  uint32_t id;
  Kind kind;
  Tensor (*gradient_a)(const Tensor &g, const Value &a, const Value &b, const Tensor &out);
  Tensor (*gradient_b)(const Tensor &g, const Value &a, const Value &b, const Tensor &out);
  unsigned uses_a, uses_b;  // what gradient_a and gradient_b read: kUseA | kUseB | kUseOutput
};
constexpr unsigned kUseA = 1, kUseB = 2, kUseOutput = 4;
const std::vector<UnaryOp> &unary_ops();
const std::vector<BinaryOp> &binary_ops();
const UnaryOp &unary_op(uint32_t id);
const BinaryOp &binary_op(uint32_t id);
// `out`: write into this tensor (same dtype and shape as the result) instead of a new one; no autograd then.
Tensor unary(const UnaryOp &op, const Tensor &a, const Tensor *out = nullptr);
Tensor binary(const BinaryOp &op, const Value &a, const Value &b, const Tensor *out = nullptr);
hal_dtype result_type(const Value &a, const Value &b);

Tensor neg(const Tensor &a);
Tensor exp(const Tensor &a);
Tensor log(const Tensor &a);
Tensor sqrt(const Tensor &a);
Tensor add(const Value &a, const Value &b);
Tensor sub(const Value &a, const Value &b);
Tensor mul(const Value &a, const Value &b);
Tensor div(const Value &a, const Value &b);
Tensor pow(const Value &a, const Value &b);
Tensor power(const Value &a, const Value &b);  // what ** means: integers stay integers, x ** 2 is x·x
Tensor eq(const Value &a, const Value &b);
Tensor where(const Tensor &condition, const Value &a, const Value &b);
Tensor clamp(const Tensor &x, const std::optional<Value> &low, const std::optional<Value> &high);
void inplace_add(const Tensor &self, const Tensor &other);  // no autograd
// self = result of an op on it: with history, version and view bookkeeping.
Tensor inplace_unary(const UnaryOp &op, const Tensor &self);
Tensor inplace_binary(const BinaryOp &op, const Tensor &self, const Value &other);

// ---- data (ops_data.cpp) ---------------------------------------------------------------------------------------------------------

Tensor full(const Dims &sizes, Scalar value, hal_dtype dtype, hal::Device &device);
Tensor zeros(const Dims &sizes, hal_dtype dtype, hal::Device &device);
Tensor arange(Scalar start, Scalar step, int64_t n, hal_dtype dtype, hal::Device &device);
Tensor cast(const Tensor &t, hal_dtype dtype);  // t itself if it has the dtype
Tensor clone(const Tensor &t);                  // contiguous copy
Tensor contiguous(const Tensor &t);             // t itself if contiguous
Tensor to_device(const Tensor &t, hal::Device &device);
void copy_into(const Tensor &dst, const Tensor &src);  // casts, broadcasts, crosses devices; no autograd
void fill_into(const Tensor &dst, Scalar value);       // no autograd
Tensor copy_(const Tensor &self, const Tensor &src);   // with autograd
Tensor fill_(const Tensor &self, Scalar value);
Scalar item(const Tensor &t);  // one element; synchronises

// ---- views (ops_view.cpp) --------------------------------------------------------------------------------------------------------

Tensor as_strided(const Tensor &t, const Dims &sizes, const Dims &strides, int64_t offset);
Tensor view(const Tensor &t, Dims sizes);     // one -1 allowed; throws if strides don't permit
Tensor reshape(const Tensor &t, Dims sizes);  // view or copy
Tensor permute(const Tensor &t, const Dims &dims);
Tensor transpose(const Tensor &t, int64_t a, int64_t b);
Tensor expand(const Tensor &t, const Dims &sizes);  // -1 keeps a dimension
Tensor squeeze(const Tensor &t, const std::optional<std::vector<int64_t>> &dims);
Tensor unsqueeze(const Tensor &t, int64_t dim);
Tensor flatten(const Tensor &t, int64_t start, int64_t end);
Tensor select(const Tensor &t, int64_t dim, int64_t index);
Tensor slice(const Tensor &t, int64_t dim, int64_t start, int64_t stop, int64_t step);  // normalised: 0 <= start <= stop <= size, step > 0
Tensor cat(const Tensors &tensors, int64_t dim);
Tensor stack(const Tensors &tensors, int64_t dim);
Tensors split(const Tensor &t, const std::vector<int64_t> &sections, int64_t dim);
Tensor sum_to(const Tensor &t, const Dims &sizes);  // the reverse of broadcasting

// ---- reductions (ops_reduce.cpp) ---------------------------------------------------------------------------------------------------

using Axes = std::optional<std::vector<int64_t>>;  // none: all
Tensor sum(const Tensor &t, const Axes &dims = {}, bool keepdim = false, hal_dtype dtype = 0);
Tensor mean(const Tensor &t, const Axes &dims = {}, bool keepdim = false, hal_dtype dtype = 0);
Tensor prod(const Tensor &t, const Axes &dims = {}, bool keepdim = false, hal_dtype dtype = 0);
Tensor extremum(const Tensor &t, bool largest, const Axes &dims, bool keepdim);      // amax, amin
Tensor arg_extremum(const Tensor &t, bool largest, const Axes &dims, bool keepdim);  // argmax, argmin
std::pair<Tensor, Tensor> extremum_with_index(const Tensor &t, bool largest, int64_t dim, bool keepdim);
Tensor any_all(const Tensor &t, bool all, const Axes &dims, bool keepdim);
Tensor softmax(const Tensor &t, int64_t dim, bool log);

// ---- neural networks (ops_nn.cpp) --------------------------------------------------------------------------------------------------

Tensor matmul(const Tensor &a, const Tensor &b);
Tensor linear(const Tensor &x, const Tensor &weight, const Tensor &bias);  // bias may be undefined
struct ConvOptions {
  int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1}, groups = 1;
};
Tensor conv2d(const Tensor &x, const Tensor &weight, const Tensor &bias, const ConvOptions &options);
// What conv2d with these options would give x of these sizes as a gradient; conv_transpose2d.
Tensor conv2d_input_grad(const Tensor &g, const Tensor &weight, const Dims &sizes, const ConvOptions &options);
struct PoolOptions {
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  bool ceil_mode = false;
};
std::pair<Tensor, Tensor> max_pool2d(const Tensor &x, const PoolOptions &options);
Tensor nll_loss(const Tensor &x, const Tensor &target, int64_t ignore_index);
Tensor cross_entropy(const Tensor &x, const Tensor &target, int64_t ignore_index, const std::string &reduction);
Tensor gelu(const Tensor &x, bool tanh_form);
// Over the last dimensions; weight, bias: of normalized_shape, may be undefined (ops_norm.cpp).
Tensor layer_norm(const Tensor &x, const Dims &normalized_shape, const Tensor &weight, const Tensor &bias, double eps);
// Per channel (dimension 1); any of the (C,) tensors may be undefined, the running ones only in training, which updates them.
Tensor batch_norm(const Tensor &x, const Tensor &running_mean, const Tensor &running_var, const Tensor &weight, const Tensor &bias,
                  bool training, double momentum, double eps);
struct AverageOptions {
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, divisor = 0;
  bool ceil_mode = false, count_include_pad = true;
};
Tensor avg_pool2d(const Tensor &x, const AverageOptions &options);  // ops_average.cpp
Tensor adaptive_avg_pool2d(const Tensor &x, int64_t height, int64_t width);

// ---- random numbers and optimizers (ops_random.cpp, ops_optim.cpp) -----------------------------------------------------------------

struct Generator {
  uint64_t seed = 0, offset = 0;
  uint64_t advance(uint64_t words);  // returns the offset before; rounds up to 4
};
Generator &default_generator();
void uniform_into(const Tensor &t, double low, double high, Generator &g);
void normal_into(const Tensor &t, double mean, double std, Generator &g);
void bernoulli_into(const Tensor &mask, double p, Generator &g);
void integers_into(const Tensor &t, int64_t low, int64_t high, Generator &g);
Tensor dropout(const Tensor &x, double p, bool training);
struct SgdOptions {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize, first_step;
};
void sgd_step(const Tensor &param, const Tensor &grad, const Tensor &momentum_buffer, const SgdOptions &options);
struct AdamOptions {
  double lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2_sqrt;
  bool decoupled, amsgrad, maximize;
};
void adam_step(const Tensor &param, const Tensor &grad, const Tensor &exp_avg, const Tensor &exp_avg_sq, const Tensor &max_exp_avg_sq,
               const AdamOptions &options);

}  // namespace flow
