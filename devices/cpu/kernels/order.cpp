// cumsum, sort and topk (docs/numerics.md, section 16), along one axis.
#include "data.hpp"
#include "pack.hpp"
#include "reduce_axes.hpp"

namespace cpu {
namespace {

using namespace reduce;

// Lines along an axis of x, and where they begin in each operand.
struct AlongAxis {
  int outer_rank = 0;
  int64_t dims[HAL_MAX_RANK], strides[3][HAL_MAX_RANK];
  int64_t lines = 1, n = 1;
  int64_t step[3] = {0, 0, 0};  // along the axis

  AlongAxis(const hal_op &op, int64_t axis) {
    const hal_operand &x = op.operands[0];
    const uint32_t count = op.num_inputs + op.num_outputs;
    require(count <= 3 && axis >= 0 && axis < std::max<int64_t>(1, x.rank), op, "axis: got " + std::to_string(axis));
    for (uint32_t k = 1; k < count; ++k) {
      const hal_operand &o = op.operands[k];
      bool same = o.rank == x.rank;
      for (uint32_t d = 0; same && d < x.rank; ++d) same = int64_t(d) == axis || o.dims[d] == x.dims[d];
      require(same, op, "shapes differ: got " + shape_text(o) + " for " + shape_text(x));
    }
    for (uint32_t d = 0; d < x.rank; ++d) {
      if (int64_t(d) == axis) {
        n = x.dims[d];
        for (uint32_t k = 0; k < count; ++k) step[k] = op.operands[k].strides[d];
        continue;
      }
      dims[outer_rank] = x.dims[d];
      for (uint32_t k = 0; k < count; ++k) strides[k][outer_rank] = op.operands[k].strides[d];
      lines *= x.dims[d];
      ++outer_rank;
    }
  }
  int64_t at(int operand, int64_t line) const {
    int64_t offset = 0;
    for (int d = outer_rank - 1; d >= 0; --d) {
      offset += line % dims[d] * strides[operand][d];
      line /= dims[d];
    }
    return offset;
  }
};

// ---- cumsum ----

template <int D>
struct Scan {
  using S = typename Element<D>::S;
  static constexpr bool is_float = Element<D>::is_float;
  using A = std::conditional_t<is_float, typename Element<D>::C, uint64_t>;
  using R = std::conditional_t<is_float, S, int64_t>;
  static CPU_INLINE A load(S s) {
    if constexpr (is_float)
      return Element<D>::load(s);
    else
      return A(int64_t(s));
  }
  static CPU_INLINE R store(A a) {
    if constexpr (is_float)
      return Element<D>::store(a);
    else
      return R(a);
  }

  struct Chain {
    const S *x;
    R *out;
    A sum, prefix;
  };

  // Several chains at once: each is serial, so one alone would wait for every addition.
  template <int K, bool kWrite>
  static void run(Chain *c, int64_t m, int64_t from_step, int64_t to_step) {
    A sum[K], prefix[K];
    const S *x[K];
    R *out[K];
    for (int k = 0; k < K; ++k) {
      sum[k] = c[k].sum;
      prefix[k] = c[k].prefix;
      x[k] = c[k].x;
      out[k] = c[k].out;
    }
    for (int64_t i = 0; i < m; ++i)
      for (int k = 0; k < K; ++k) {
        sum[k] += load(x[k][i * from_step]);
        if (kWrite) out[k][i * to_step] = store(prefix[k] + sum[k]);
      }
    for (int k = 0; k < K; ++k) c[k].sum = sum[k];
  }

  // Prefix of each block from the blocks' totals, by the rule itself: levels of 4096.
  static void prefixes(A *totals, int64_t blocks) {
    struct Level {
      A local = A(0), prefix = A(0);
      int64_t count = 0;
    } level[6];  // 4096^6 is beyond what memory holds
    for (int64_t b = 0; b < blocks; ++b) {
      A carry = totals[b];
      totals[b] = level[0].prefix + level[0].local;
      int top = 0;
      for (;; ++top) {
        level[top].local += carry;
        if (++level[top].count < kBlock) break;
        carry = level[top].local;
      }
      for (int k = top - 1; k >= 0; --k) {
        level[k].prefix = level[k + 1].prefix + level[k + 1].local;
        level[k].local = A(0);
        level[k].count = 0;
      }
    }
  }
};

thread_local Scratch totals_scratch, pairs_scratch;

template <int D>
std::unique_ptr<Kernel> make_scan(const AlongAxis &a) {
  return make_kernel([a](void *const *data, void *) {
    using K = Scan<D>;
    using A = typename K::A;
    if (a.n == 0 || a.lines == 0) return;
    const auto *x = static_cast<const typename K::S *>(data[0]);
    auto *out = static_cast<typename K::R *>(data[1]);
    const int64_t blocks = (a.n + kBlock - 1) / kBlock, chains = a.lines * blocks;
    A *totals = blocks > 1 ? totals_scratch.get<A>(chains) : nullptr;
    constexpr int kGroup = 8;
    const auto pass = [&](bool write) {
      const int64_t length = std::min(a.n, kBlock), grain = std::max<int64_t>(kGroup, kGrain / length);
      parallel_for(chains, grain, [&](int64_t begin, int64_t end) {
        typename K::Chain c[kGroup];
        int64_t lengths[kGroup];
        for (int64_t first = begin; first < end; first += kGroup) {
          const int count = int(std::min<int64_t>(kGroup, end - first));
          int64_t common = kBlock;
          for (int k = 0; k < count; ++k) {
            const int64_t line = (first + k) / blocks, block = (first + k) % blocks;
            c[k] = {x + a.at(0, line) + block * kBlock * a.step[0], out + a.at(1, line) + block * kBlock * a.step[1], A(0),
                    write && totals ? totals[first + k] : A(0)};
            lengths[k] = std::min(kBlock, a.n - block * kBlock);
            common = std::min(common, lengths[k]);
          }
          if (count < kGroup) common = 0;
          if (common) (write ? K::template run<kGroup, true> : K::template run<kGroup, false>)(c, common, a.step[0], a.step[1]);
          for (int k = 0; k < count; ++k) {
            c[k].x += common * a.step[0];
            c[k].out += common * a.step[1];
            (write ? K::template run<1, true> : K::template run<1, false>)(c + k, lengths[k] - common, a.step[0], a.step[1]);
            if (!write) totals[first + k] = c[k].sum;
          }
        }
      });
    };
    if (totals) {
      pass(false);
      for (int64_t line = 0; line < a.lines; ++line) K::prefixes(totals + line * blocks, blocks);
    }
    pass(true);
  });
}

std::unique_ptr<Kernel> make_cumsum(const hal_op &op) {
  require_operands(op, 1, 1);
  const AlongAxis a(op, attributes<hal_attributes_cumsum>(op).axis);
  return for_any(op.operands[0].dtype, [&](auto d) { return make_scan<decltype(d)::value>(a); });
}

// ---- sort and topk: by unsigned keys in the order of the values ----

template <int D>
struct Keys {
  using S = typename Element<D>::S;
  using K = std::conditional_t<sizeof(S) == 1, uint8_t,
                               std::conditional_t<sizeof(S) == 2, uint16_t, std::conditional_t<sizeof(S) == 4, uint32_t, uint64_t>>>;
  static constexpr K kSign = K(K(1) << (8 * sizeof(K) - 1));

  static CPU_INLINE K key(S s) {
    K bits;
    __builtin_memcpy(&bits, &s, sizeof bits);
    if constexpr (Element<D>::is_float) {
      constexpr K infinity = D == HAL_F16     ? K(0x7c00)
                             : D == HAL_BF16  ? K(0x7f80)
                             : sizeof(K) == 4 ? K(0x7f800000)
                                              : K(uint64_t(0x7ff) << 52);
      const K magnitude = K(bits & K(~kSign));
      if (magnitude > infinity) return K(~K(0));  // NaN: above all
      if (magnitude == 0) return kSign;           // −0 is 0
      return bits & kSign ? K(~bits) : K(bits | kSign);
    } else if constexpr (std::is_signed_v<S>) {
      return K(bits ^ kSign);
    } else {
      return bits;
    }
  }
};

template <class K, class I>
struct Pair {
  K key;
  I at;
  bool operator<(const Pair &o) const { return key < o.key || (key == o.key && at < o.at); }
};

// Stable: least significant digit first. Gives the array that holds the result.
template <class K, class I>
Pair<K, I> *radix_sort(Pair<K, I> *from, Pair<K, I> *to, int64_t n) {
  constexpr int kDigits = sizeof(K);
  int64_t counts[kDigits][256] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < kDigits; ++d) ++counts[d][from[i].key >> (8 * d) & 255];
  for (int d = 0; d < kDigits; ++d) {
    int64_t *c = counts[d];
    if (c[from[0].key >> (8 * d) & 255] == n) continue;  // all alike
    int64_t sum = 0;
    for (int v = 0; v < 256; ++v) sum += std::exchange(c[v], sum);
    for (int64_t i = 0; i < n; ++i) to[c[from[i].key >> (8 * d) & 255]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

// The first k of the n elements in order.
template <int D, class I>
void order_line(const typename Keys<D>::S *x, int64_t step, int64_t n, int64_t k, bool descending, typename Keys<D>::S *values,
                int64_t values_step, int64_t *indices, int64_t indices_step) {
  using K = typename Keys<D>::K;
  using P = Pair<K, I>;
  const K flip = descending ? K(~K(0)) : K(0);
  P *pairs;
  if (k < n && k <= 1024 && k * 16 <= n) {
    // A heap of the k first so far, the last of them on top; an equal key that comes later is never before it.
    pairs = pairs_scratch.get<P>(k + 1);
    int64_t i = 0;
    for (; i < k; ++i) pairs[i] = {K(Keys<D>::key(x[i * step]) ^ flip), I(i)};
    std::make_heap(pairs, pairs + k);
    for (; i < n && k > 0; ++i) {
      const K key = K(Keys<D>::key(x[i * step]) ^ flip);
      if (key >= pairs[0].key) continue;
      std::pop_heap(pairs, pairs + k);
      pairs[k - 1] = {key, I(i)};
      std::push_heap(pairs, pairs + k);
    }
    std::sort_heap(pairs, pairs + k);
  } else {
    pairs = pairs_scratch.get<P>(2 * n);
    for (int64_t i = 0; i < n; ++i) pairs[i] = {K(Keys<D>::key(x[i * step]) ^ flip), I(i)};
    if (k < n) {
      std::nth_element(pairs, pairs + k, pairs + n);
      std::sort(pairs, pairs + k);
    } else if (n < 512) {
      std::sort(pairs, pairs + n);
    } else {
      pairs = radix_sort(pairs, pairs + n, n);
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    values[i * values_step] = x[int64_t(pairs[i].at) * step];
    indices[i * indices_step] = int64_t(pairs[i].at);
  }
}

std::unique_ptr<Kernel> make_ordered(const hal_op &op, int64_t axis, int64_t k, bool descending) {
  const AlongAxis a(op, axis);
  for (int i = 1; i <= 2; ++i) {
    const hal_operand &o = op.operands[i];
    require((o.rank ? o.dims[axis] : 1) == k && k >= 0 && k <= a.n, op,
            "size along the axis: got " + shape_text(o) + ", expected " + std::to_string(k));
  }
  return for_any(op.operands[0].dtype, [&](auto d) {
    constexpr int D = decltype(d)::value;
    using S = typename Element<D>::S;
    return make_kernel([=](void *const *data, void *) {
      if (k == 0) return;
      const S *x = static_cast<const S *>(data[0]);
      S *values = static_cast<S *>(data[1]);
      int64_t *indices = static_cast<int64_t *>(data[2]);
      parallel_for(a.lines, std::max<int64_t>(1, kGrain / 8 / a.n), [&](int64_t begin, int64_t end) {
        const auto line = a.n <= int64_t(UINT32_MAX) ? order_line<D, uint32_t> : order_line<D, uint64_t>;
        for (int64_t i = begin; i < end; ++i)
          line(x + a.at(0, i), a.step[0], a.n, k, descending, values + a.at(1, i), a.step[1], indices + a.at(2, i), a.step[2]);
      });
    });
  });
}

std::unique_ptr<Kernel> make_sort(const hal_op &op) {
  require_operands(op, 1, 2);
  const auto attribute = attributes<hal_attributes_sort>(op);
  const hal_operand &x = op.operands[0];
  require(attribute.axis >= 0 && attribute.axis < std::max<int64_t>(1, x.rank), op, "axis: got " + std::to_string(attribute.axis));
  return make_ordered(op, attribute.axis, x.rank ? x.dims[attribute.axis] : 1, attribute.descending != 0);
}

std::unique_ptr<Kernel> make_topk(const hal_op &op) {
  require_operands(op, 1, 2);
  const auto attribute = attributes<hal_attributes_topk>(op);
  require(attribute.axis >= 0 && attribute.axis < std::max<int64_t>(1, op.operands[0].rank), op,
          "axis: got " + std::to_string(attribute.axis));
  return make_ordered(op, attribute.axis, attribute.k, attribute.largest != 0);
}

}  // namespace

void add_order(KernelRows &rows) {
  rows.push_back({"cumsum", kAllBits, make_cumsum});
  rows.push_back({"sort", kAllBits, make_sort});
  rows.push_back({"topk", kAllBits, make_topk});
}

}  // namespace cpu
