// softmax, log_softmax and their backwards: docs/numerics.md, section 6. Each is: the row's maximum (forward only), the sum of a term, a
// result per element. Rows go through L1 in blocks of 4096; where the axis isn't the innermost, a tile of columns streams by row by row.
#include "reduce.hpp"
#include "reduce_keys.hpp"

namespace cpu {
namespace {

using namespace reduce;

constexpr int64_t kTile = 64;       // columns at once
constexpr int64_t kShortRow = 128;  // rows up to here are copied and padded with their first value to whole vectors
constexpr int64_t kPad = 16;

template <class C>
CPU_INLINE C exp_of(C x) {
  if constexpr (std::is_same_v<C, float>)
    return hal_exp_f32(x);
  else
    return hal_exp_f64(x);
}
template <class C>
C log_of(C x) {
  if constexpr (std::is_same_v<C, float>)
    return hal_log_f32(x);
  else
    return hal_log_f64(x);
}

// Per element: term(a, b, m) is summed to s; result(a, b, t, m, s), where t is the term and s has gone through statistic().
struct Softmax {
  static constexpr int kInputs = 1;
  static constexpr bool kMax = true, kKeepsTerm = true;
  template <class C>
  static CPU_INLINE C term(C a, C, C m) {
    return exp_of(a - m);
  }
  template <class C>
  static C statistic(C s) {
    return s;
  }
  template <class C>
  static CPU_INLINE C result(C, C, C t, C, C s) {
    return t / s;
  }
};
struct LogSoftmax {
  static constexpr int kInputs = 1;
  static constexpr bool kMax = true, kKeepsTerm = false;
  template <class C>
  static CPU_INLINE C term(C a, C, C m) {
    return exp_of(a - m);
  }
  template <class C>
  static C statistic(C s) {
    return log_of(s);
  }
  template <class C>
  static CPU_INLINE C result(C a, C, C, C m, C s) {
    return (a - m) - s;
  }
};
struct SoftmaxBackward {  // a is grad, b is y
  static constexpr int kInputs = 2;
  static constexpr bool kMax = false, kKeepsTerm = false;
  template <class C>
  static CPU_INLINE C term(C a, C b, C) {
    return a * b;
  }
  template <class C>
  static C statistic(C s) {
    return s;
  }
  template <class C>
  static CPU_INLINE C result(C a, C b, C, C, C s) {
    return b * (a - s);
  }
};
struct LogSoftmaxBackward {
  static constexpr int kInputs = 2;
  static constexpr bool kMax = false, kKeepsTerm = false;
  template <class C>
  static CPU_INLINE C term(C a, C, C) {
    return a;
  }
  template <class C>
  static C statistic(C s) {
    return s;
  }
  template <class C>
  static CPU_INLINE C result(C a, C b, C, C, C s) {
    return a - exp_of(b) * s;
  }
};

// Loops over contiguous values. m and s are one per row, or (columns) one per element.
template <class Op, class C, bool kColumns>
__attribute__((noinline)) void terms(const C *__restrict a, const C *__restrict b, const C *__restrict m, int64_t n, C *__restrict t) {
  for (int64_t i = 0; i < n; ++i) t[i] = Op::term(a[i], b[i], m[kColumns ? i : 0]);
}
// r may be t, element by element.
template <class Op, class C, bool kColumns>
__attribute__((noinline)) void results(const C *a, const C *b, const C *t, const C *__restrict m, const C *__restrict s, int64_t n, C *r) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) r[i] = Op::result(a[i], b[i], t[i], m[kColumns ? i : 0], s[kColumns ? i : 0]);
}

template <class C>
using KeyOf = Key<std::is_same_v<C, float> ? int(HAL_F32) : int(HAL_F64), true>;

template <class C>
void keys_of(const C *__restrict x, int64_t n, typename KeyOf<C>::K *__restrict keys) {
  for (int64_t i = 0; i < n; ++i) {
    typename KeyOf<C>::U bits;
    __builtin_memcpy(&bits, x + i, sizeof bits);
    keys[i] = KeyOf<C>::from(bits);
  }
}
template <class C>
C from_key(typename KeyOf<C>::K key) {
  const auto bits = KeyOf<C>::to(key);
  C value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class C>
__attribute__((noinline)) typename KeyOf<C>::K largest_key(const C *x, int64_t n) {
  using Keys = KeyOf<C>;
  using K = typename Keys::K;
  typedef K V __attribute__((vector_size(32)));
  constexpr int kWidth = 32 / sizeof(K);
  constexpr K kInf = K(Keys::B::kInf), kMagnitude = K(Keys::kMagnitude);
  K top[kWidth];
  V best = V{} + std::numeric_limits<K>::min(), other = best;
  const auto larger = [&](V &to, const C *at) __attribute__((always_inline)) {  // Key::from, on a vector
    V v;
    __builtin_memcpy(&v, at, sizeof v);
    const V magnitude = v & kMagnitude, order = v ^ ((v < 0) & kMagnitude);
    const V key = magnitude > kInf ? V{} + Keys::kNan : order;
    to = key > to ? key : to;
  };
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    larger(best, x + i);
    larger(other, x + i + kWidth);
  }
  best = best > other ? best : other;
  __builtin_memcpy(top, &best, sizeof top);
  for (; i < n; ++i) {
    typename Keys::U bits;
    __builtin_memcpy(&bits, x + i, sizeof bits);
    top[0] = std::max(top[0], Keys::from(bits));
  }
  return *std::max_element(top, top + kWidth);
}

template <class C>
__attribute__((noinline)) C sum_block(const C *x, int64_t m) {
  return reduce_block<Plus>(x, m);
}

template <class C>
__attribute__((noinline)) void larger_keys(const C *x, int64_t n, typename KeyOf<C>::K *__restrict best) {
  alignas(64) typename KeyOf<C>::K keys[kTile];
  keys_of(x, n, keys);
  for (int64_t i = 0; i < n; ++i) best[i] = std::max(best[i], keys[i]);
}

// Sums of a tile of columns, row after row: SumStream for each.
template <class C>
class ColumnSums {
 public:
  explicit ColumnSums(int64_t width) : width_(width) {}
  __attribute__((noinline)) void push(const C *__restrict row, int level = 0) {
    C *__restrict lane = lanes_[level] + count_[level] % kLanes * kTile;
    if (count_[level] < kLanes)
      for (int64_t k = 0; k < width_; ++k) lane[k] = C(0) + row[k];
    else
      for (int64_t k = 0; k < width_; ++k) lane[k] += row[k];
    if (++count_[level] == kBlock && level + 1 < kLevels) close(level);
  }
  const C *result() {
    for (int level = 0; level + 1 < kLevels; ++level)
      if (count_[level]) close(level);
    return tree_of(kLevels - 1);
  }

 private:
  static constexpr int kLevels = 3;
  __attribute__((noinline)) const C *tree_of(int level) {
    const int64_t lanes = std::min<int64_t>(count_[level], kLanes);
    for (int64_t s = kLanes / 2; s >= 1; s /= 2)
      for (int64_t j = 0; j < s && j + s < lanes; ++j) {
        C *__restrict to = lanes_[level] + j * kTile;
        const C *__restrict from = lanes_[level] + (j + s) * kTile;
        for (int64_t k = 0; k < width_; ++k) to[k] += from[k];
      }
    count_[level] = 0;
    return lanes_[level];
  }
  void close(int level) { push(tree_of(level), level + 1); }

  int64_t width_, count_[kLevels] = {};
  alignas(64) C lanes_[kLevels][kLanes * kTile];
};

constexpr int kOutput = 2;  // operands of the axes: a, b, out

struct AxisPlan {
  Axis row;
  Axes kept;
  bool columns = false;
};

AxisPlan plan_axis(const hal_op &op, uint32_t inputs, int64_t axis) {
  require_operands(op, inputs, 1);
  const hal_operand &x = op.operands[0], &second = op.operands[inputs - 1], &out = op.operands[inputs];
  require_same_shape(op, x, second);
  require_same_shape(op, x, out);
  const int64_t rank = x.rank, least = rank == 0 ? -1 : -rank, end = std::max<int64_t>(rank, 1);
  require(axis >= least && axis < end, op,
          "axis out of range: got " + std::to_string(axis) + ", expected " + std::to_string(least) + " <= axis < " + std::to_string(end));
  if (axis < 0) axis += end;
  AxisPlan p;
  for (int64_t i = 0; i < rank; ++i) {
    Axis a;
    a.n = x.dims[i];
    a.stride[0] = x.strides[i];
    a.stride[1] = second.strides[i];
    a.stride[kOutput] = out.strides[i];
    if (i == axis)
      p.row = a;
    else
      p.kept.push(a);
  }
  nearest_inside(p.kept, kOutput);
  p.kept.coalesce();
  const Axis inner = p.kept.inner();
  p.columns = p.kept.count > 0 && inner.n >= 8 && inner.stride[0] == 1 && inner.stride[1] == 1 && inner.stride[kOutput] == 1 &&
              p.row.stride[0] != 1;
  return p;
}

template <int D, class Op>
class AxisKernel final : public Kernel {
  using E = Element<D>;
  using S = typename E::S;
  using C = typename E::C;
  static constexpr bool kIsC = std::is_same_v<S, C>;

 public:
  explicit AxisKernel(const AxisPlan &plan) : row_(plan.row), kept_(plan.kept), columns_(plan.columns) {}

  void run(void *const *data, void *) const override {
    const int64_t rows = kept_.total();
    if (rows == 0 || row_.n == 0) return;
    const S *a = static_cast<const S *>(data[0]), *b = static_cast<const S *>(data[Op::kInputs - 1]);
    S *out = static_cast<S *>(data[Op::kInputs]);
    if (columns_) return run_columns(a, b, out);
    parallel_for(rows, grain(row_.n * 2), [&](int64_t begin, int64_t end) {
      const Axis inner = kept_.inner();
      for_runs(kept_, begin, end, [&](int64_t, int64_t length, const int64_t *at) {
        for (int64_t i = 0; i < length; ++i)
          row(a + at[0] + i * inner.stride[0], b + at[1] + i * inner.stride[1], out + at[kOutput] + i * inner.stride[kOutput]);
      });
    });
  }

 private:
  struct Buffers {
    alignas(64) C a[kBlock], b[kBlock], t[kBlock];
  };

  // n values from element i of a row, as contiguous C: in place if they lie so, else copied.
  static __attribute__((noinline)) const C *load(const S *x, int64_t stride, int64_t i, int64_t n, bool copy, C *__restrict buffer) {
    if constexpr (kIsC) {
      if (stride == 1 && !copy) return x + i;
    }
    load_run<D>(x + i * stride, stride, n, buffer);
    if (copy)
      for (int64_t k = n; k % kPad; ++k) buffer[k] = buffer[0];
    return buffer;
  }
  static __attribute__((noinline)) void store(const C *__restrict r, int64_t n, S *__restrict out, int64_t stride) {
    store_run<D>(r, n, out, stride);
  }

  void row(const S *x, const S *y, S *out) const {
    Buffers buffer;  // never cleared: C has no constructor
    const int64_t n = row_.n;
    const bool one = n <= kBlock, copy = n <= kShortRow, in_place = kIsC && !copy && row_.stride[kOutput] == 1;
    const C *a = nullptr, *b = nullptr;
    const auto fetch = [&](int64_t i, int64_t m) {
      a = load(x, row_.stride[0], i, m, copy, buffer.a);
      b = Op::kInputs == 2 ? load(y, row_.stride[1], i, m, copy, buffer.b) : a;
    };
    const auto each_block = [&](auto &&f) {
      for (int64_t i = 0; i < n; i += kBlock) f(i, std::min(kBlock, n - i));
    };
    const auto whole = [&](int64_t m) { return copy ? (m + kPad - 1) / kPad * kPad : m; };
    if (one) fetch(0, n);

    C m = 0, s = 0;
    if constexpr (Op::kMax) {
      auto top = std::numeric_limits<typename KeyOf<C>::K>::min();
      each_block([&](int64_t i, int64_t size) {
        if (!one) fetch(i, size);
        top = std::max(top, largest_key(a, whole(size)));
      });
      m = from_key<C>(top);
    }
    // Where softmax's terms go: into the row itself if it can hold them, so that a long row needs exp once.
    const auto terms_of = [&](int64_t i) {
      if constexpr (kIsC)
        if (in_place && !one) return out + i;
      (void)i;
      return buffer.t;
    };
    if (one) {
      terms<Op, C, false>(a, b, &m, whole(n), buffer.t);
      s = sum_block(buffer.t, n);
    } else {
      SumStream<C> sum;
      each_block([&](int64_t i, int64_t size) {
        fetch(i, size);
        C *t = terms_of(i);
        terms<Op, C, false>(a, b, &m, size, t);
        sum.push(sum_block(t, size));
      });
      s = sum.result();
    }
    s = Op::statistic(s);
    each_block([&](int64_t i, int64_t size) {
      const C *t = terms_of(i);
      if (!one && (!Op::kKeepsTerm || !in_place)) {
        fetch(i, size);
        if (Op::kKeepsTerm) terms<Op, C, false>(a, b, &m, size, buffer.t);
      }
      if constexpr (kIsC) {
        if (in_place) return results<Op, C, false>(a, b, t, &m, &s, size, out + i);
      }
      results<Op, C, false>(a, b, t, &m, &s, whole(size), buffer.t);
      store(buffer.t, size, out + i * row_.stride[kOutput], row_.stride[kOutput]);
    });
  }

  void run_columns(const S *x, const S *y, S *out) const {
    Axes outer = kept_;
    const Axis columns = outer.axis[--outer.count];
    const int64_t tiles = (columns.n + kTile - 1) / kTile;
    parallel_for(outer.total() * tiles, grain(row_.n * 2 * std::min(columns.n, kTile)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t at[kOperands];
        outer.offsets(i / tiles, at);
        const int64_t c = i % tiles * kTile;
        tile(x + at[0] + c, y + at[1] + c, out + at[kOutput] + c, std::min(kTile, columns.n - c));
      }
    });
  }

  void tile(const S *x, const S *y, S *out, int64_t width) const {
    alignas(64) C a_buffer[kTile], b_buffer[kTile], t[kTile], m[kTile], s[kTile];
    typename KeyOf<C>::K top[kTile];
    const C *a = nullptr, *b = nullptr;
    const auto fetch = [&](int64_t r) {
      a = load(x + r * row_.stride[0], 1, 0, width, false, a_buffer);
      b = Op::kInputs == 2 ? load(y + r * row_.stride[1], 1, 0, width, false, b_buffer) : a;
    };
    std::fill(m, m + width, C(0));
    if constexpr (Op::kMax) {
      std::fill(top, top + width, std::numeric_limits<typename KeyOf<C>::K>::min());
      for (int64_t r = 0; r < row_.n; ++r) {
        fetch(r);
        larger_keys(a, width, top);
      }
      for (int64_t k = 0; k < width; ++k) m[k] = from_key<C>(top[k]);
    }
    ColumnSums<C> sums(width);
    for (int64_t r = 0; r < row_.n; ++r) {
      fetch(r);
      terms<Op, C, true>(a, b, m, width, t);
      if constexpr (kIsC && Op::kKeepsTerm) std::copy(t, t + width, out + r * row_.stride[kOutput]);
      sums.push(t);
    }
    const C *total = sums.result();
    for (int64_t k = 0; k < width; ++k) s[k] = Op::statistic(total[k]);
    for (int64_t r = 0; r < row_.n; ++r) {
      S *to = out + r * row_.stride[kOutput];
      if constexpr (kIsC && Op::kKeepsTerm) {
        results<Op, C, true>(to, to, to, m, s, width, to);
      } else {
        fetch(r);
        if (Op::kKeepsTerm) terms<Op, C, true>(a, b, m, width, t);
        results<Op, C, true>(a, b, t, m, s, width, t);
        store(t, width, to, 1);
      }
    }
  }

  Axis row_;
  Axes kept_;
  bool columns_;
};

template <class Op>
std::unique_ptr<Kernel> make(const hal_op &op) {
  const int64_t axis = attributes<hal_attributes_softmax>(op).axis;
  const AxisPlan plan = plan_axis(op, Op::kInputs, axis);
  return for_float(op.operands[0].dtype,
                   [&](auto d) -> std::unique_ptr<Kernel> { return std::make_unique<AxisKernel<decltype(d)::value, Op>>(plan); });
}

}  // namespace

void add_normalization(KernelRows &rows) {
  rows.push_back({"softmax", kFloatBits, make<Softmax>});
  rows.push_back({"log_softmax", kFloatBits, make<LogSoftmax>});
  rows.push_back({"softmax_backward", kFloatBits, make<SoftmaxBackward>});
  rows.push_back({"log_softmax_backward", kFloatBits, make<LogSoftmaxBackward>});
}

}  // namespace cpu
