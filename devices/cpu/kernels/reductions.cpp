// sum, mean, prod: docs/numerics.md, section 5. The exact reductions stand in reductions_exact.cpp, argmax and argmin in
// reductions_arg.cpp.
#include "reductions.hpp"

#include "reduce.hpp"

namespace cpu {
namespace {

using namespace reduce;

// Floats accumulate in C and round once; integers and bool in i64, wrapping (as u64, which C++ lets wrap).
template <int D>
struct Accumulated {
  using E = Element<D>;
  using S = typename E::S;
  using A = std::conditional_t<E::is_float, typename E::C, uint64_t>;
  static constexpr bool kLoadsRuns = true;
  static constexpr bool kDirect = std::is_same_v<S, A> || std::is_same_v<S, int64_t>;
  static void load_run(const S *x, int64_t stride, int64_t n, A *__restrict to) {
    if constexpr (E::is_float)
      reduce::load_run<D>(x, stride, n, to);
    else if (stride == 1)
      for (int64_t i = 0; i < n; ++i) to[i] = A(int64_t(x[i]));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = A(int64_t(x[i * stride]));
  }
  static auto finish(A a, int64_t) {
    if constexpr (E::is_float)
      return E::store(a);
    else
      return int64_t(a);
  }
};

template <int D>
struct Sum : Accumulated<D> {
  using Combine = Plus;
};
template <int D>
struct Prod : Accumulated<D> {
  using Combine = Times;
};
template <int D>
struct Mean : Sum<D> {
  using A = typename Sum<D>::A;
  static auto finish(A a, int64_t n) { return Element<D>::store(a / A(n)); }
};

template <template <int> class Op>
std::unique_ptr<Kernel> make_any(const hal_op &op) {
  const uint64_t mask = uint64_t(attributes<hal_attributes_sum>(op).axes);
  require_operands(op, 1, 1);
  return for_any(op.operands[0].dtype, [&](auto d) { return make_reduction(op, mask, reducer<Op<decltype(d)::value>>()); });
}
template <template <int> class Op>
std::unique_ptr<Kernel> make_float(const hal_op &op) {
  const uint64_t mask = uint64_t(attributes<hal_attributes_sum>(op).axes);
  require_operands(op, 1, 1);
  return for_float(op.operands[0].dtype, [&](auto d) { return make_reduction(op, mask, reducer<Op<decltype(d)::value>>()); });
}

}  // namespace

void add_reductions(KernelRows &rows) {
  rows.push_back({"sum", kAllBits, make_any<Sum>});
  rows.push_back({"prod", kAllBits, make_any<Prod>});
  rows.push_back({"mean", kFloatBits, make_float<Mean>});
  add_exact_reductions(rows);
  add_arg_reductions(rows);
}

}  // namespace cpu
