// Random numbers: Philox streams of docs/numerics.md section 10, counted in words.
#include "autograd.hpp"
#include "launch.hpp"
#include "op_ids.hpp"

#include <mutex>

namespace flow {

namespace id = hal::op;

namespace {
std::mutex g_mutex;

void launch_random(uint32_t op, const Tensor &t, uint64_t words, Generator &g, Arg a, Arg b) {
  uint64_t offset, seed;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    seed = g.seed;
    offset = g.advance(words);
  }
  if (t.numel() == 0) return;
  const Arg s = Arg::immediate("random", Scalar(static_cast<int64_t>(seed)), HAL_I64),
            o = Arg::immediate("random", Scalar(static_cast<int64_t>(offset)), HAL_I64);
  if (b.dtype) {
    launch(op, {s, o, a, b}, {&t});
  } else {
    launch(op, {s, o, a}, {&t});
  }
}

void check_float(const char *op, const Tensor &t) {
  if (!hal::is_float(t.dtype()))
    throw Error(ErrorKind::Type, std::string("[") + op + "] only defined for floating point dtypes: got " + dtype_long_name(t.dtype()));
}

uint64_t even(uint64_t n) { return (n + 1) & ~uint64_t{1}; }
uint64_t words_per_element(const Tensor &t) { return t.dtype() == HAL_F64 ? 2 : 1; }
}  // namespace

uint64_t Generator::advance(uint64_t words) {
  const uint64_t before = offset;
  offset += (words + 3) & ~uint64_t{3};
  return before;
}

Generator &default_generator() {
  static Generator g;
  return g;
}

void uniform_into(const Tensor &t, double low, double high, Generator &g) {
  check_float("uniform_", t);
  if (!(low <= high))
    throw Error(ErrorKind::Value,
                "[uniform_] expects to return a [from, to) range: got from=" + std::to_string(low) + " > to=" + std::to_string(high));
  const hal_dtype c = hal::compute_type(t.dtype());
  launch_random(id::random_uniform, t, static_cast<uint64_t>(t.numel()) * words_per_element(t), g, Arg::immediate("uniform_", low, c),
                Arg::immediate("uniform_", high, c));
}

void normal_into(const Tensor &t, double mean, double std, Generator &g) {
  check_float("normal_", t);
  if (!(std >= 0)) throw Error(ErrorKind::Value, "[normal_] expects std >= 0.0: got std=" + std::to_string(std));
  const hal_dtype c = hal::compute_type(t.dtype());
  launch_random(id::random_normal, t, even(static_cast<uint64_t>(t.numel())) * words_per_element(t), g, Arg::immediate("normal_", mean, c),
                Arg::immediate("normal_", std, c));
}

void bernoulli_into(const Tensor &mask, double p, Generator &g) {
  if (!(p >= 0 && p <= 1)) throw Error(ErrorKind::Value, "[bernoulli_] p must be between 0 and 1: got " + std::to_string(p));
  launch_random(id::random_bernoulli, mask, static_cast<uint64_t>(mask.numel()), g, Arg::immediate("bernoulli_", p, HAL_F32), Arg());
}

void integers_into(const Tensor &t, int64_t low, int64_t high, Generator &g) {
  if (low >= high)
    throw Error(ErrorKind::Value, "[randint] expects low < high: got low=" + std::to_string(low) + ", high=" + std::to_string(high));
  uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (range > (uint64_t{1} << 32))
    throw Error(ErrorKind::Value, "[randint] high - low must be at most 2**32: got " + std::to_string(range));
  launch_random(id::random_integer, t, static_cast<uint64_t>(t.numel()), g, Arg::immediate("randint", Scalar(low), HAL_I64),
                Arg::immediate("randint", Scalar(high), HAL_I64));
}

namespace {
// keep ? x·scale : 0; linear in x, so its gradient is itself.
Tensor dropout_apply(const Tensor &x, const Tensor &keep, double scale) {
  Tensor out = empty(x.sizes(), x.dtype(), x.device());
  if (out.numel()) {
    const Tensor src = contiguous(x);
    launch(id::dropout_apply, {src, keep, Arg::immediate("dropout", scale, hal::compute_type(x.dtype()))}, {&out});
  }
  if (needs_grad(x))
    record(out, "DropoutBackward", {&x}, [keep, scale](Node &, const Tensor &g, Tensors &gin) { gin[0] = dropout_apply(g, keep, scale); });
  return out;
}
}  // namespace

Tensor dropout(const Tensor &x, double p, bool training) {
  if (!(p >= 0 && p <= 1)) throw Error(ErrorKind::Value, "[dropout] probability has to be between 0 and 1: got p=" + std::to_string(p));
  check_float("dropout", x);
  if (!training || p == 0) return x;
  if (p == 1) return mul(x, 0.0);
  Tensor keep = empty(x.sizes(), HAL_BOOL, x.device());
  bernoulli_into(keep, 1 - p, default_generator());
  return dropout_apply(x, keep, 1 / (1 - p));
}

}  // namespace flow
