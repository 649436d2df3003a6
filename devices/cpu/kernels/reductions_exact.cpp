// amax, amin, any, all: exact, so any order gives the same value; they use the frame of reduce.hpp.
#include "reduce.hpp"
#include "reduce_keys.hpp"
#include "reductions.hpp"

namespace cpu {
namespace {

using namespace reduce;

template <int D, bool kLargest>
struct Extremum {
  using Keys = Key<D, kLargest>;
  using S = typename Keys::S;
  using A = typename Keys::K;
  using Combine = std::conditional_t<kLargest, Larger, Smaller>;
  static constexpr bool kLoadsRuns = false;
  static constexpr bool kDirect = Keys::kDirect;
  static CPU_INLINE A load(S s) { return Keys::from(s); }
  static S finish(A a, int64_t) { return Keys::to(a); }
};
template <int D>
using Amax = Extremum<D, true>;
template <int D>
using Amin = Extremum<D, false>;

// Bits of x that say x != 0: all of an integer's, all but the sign of a float's.
template <int D, bool = Element<D>::is_float>
struct TruthBits {
  using U = std::make_unsigned_t<typename Element<D>::S>;
  static CPU_INLINE U of(U u) { return u; }
};
template <int D>
struct TruthBits<D, true> {
  using U = typename FloatBits<D>::U;
  static CPU_INLINE U of(U u) { return U(u << 1); }
};

template <int D>
struct Any {
  using S = typename TruthBits<D>::U;
  using A = S;
  using Combine = Or;
  static constexpr bool kLoadsRuns = false;
  static constexpr bool kDirect = !Element<D>::is_float;
  static CPU_INLINE A load(S s) { return TruthBits<D>::of(s); }
  static uint8_t finish(A a, int64_t) { return a != 0; }
};
template <int D>
struct All {
  using S = typename TruthBits<D>::U;
  using A = S;
  using Combine = And;
  static constexpr bool kLoadsRuns = false;
  static constexpr bool kDirect = false;
  static CPU_INLINE A load(S s) { return TruthBits<D>::of(s) != 0 ? A(~A(0)) : A(0); }
  static uint8_t finish(A a, int64_t) { return a != 0; }
};

template <template <int> class Op>
std::unique_ptr<Kernel> make(const hal_op &op) {
  const uint64_t mask = uint64_t(attributes<hal_attributes_amax>(op).axes);
  require_operands(op, 1, 1);
  return for_any(op.operands[0].dtype, [&](auto d) { return make_reduction(op, mask, reducer<Op<decltype(d)::value>>()); });
}

template <template <int> class Op>
std::unique_ptr<Kernel> make_nonempty(const hal_op &op) {
  const uint64_t mask = uint64_t(attributes<hal_attributes_amax>(op).axes);
  require_not_empty(op, mask);
  return make<Op>(op);
}

}  // namespace

void add_exact_reductions(KernelRows &rows) {
  rows.push_back({"amax", kAllBits, make_nonempty<Amax>});
  rows.push_back({"amin", kAllBits, make_nonempty<Amin>});
  rows.push_back({"any", kAllBits, make<Any>});
  rows.push_back({"all", kAllBits, make<All>});
}

}  // namespace cpu
