// argmax, argmin: the first index of the largest key. A key is an integer (reduce_keys.hpp) with -0 equal to +0 and NaN above all; argmin
// takes the complement of keys with NaN below all. Blocks give (key, index) pairs, joined in ascending order.
#include "reduce.hpp"
#include "reduce_keys.hpp"
#include "reductions.hpp"

namespace cpu {
namespace {

using namespace reduce;

constexpr int64_t kTile = 512;  // columns at once

struct Best {
  int64_t key, index;
};

// The loops that depend on the dtype. Keys are K, best_in widens them.
struct ArgReducer {
  int64_t size_x, size_k;
  bool direct;  // stored values are keys
  void (*load)(const void *x, int64_t stride, int64_t n, void *keys);
  Best (*best_in)(const void *keys, int64_t m);                                           // of m >= 1 contiguous keys
  void (*rows_best)(const void *row, int64_t n, int32_t at, void *keys, int32_t *index);  // row number `at` against the best so far
  int64_t (*widen)(const void *keys, int64_t i);
};

template <class K>
Best best_in(const void *keys, int64_t m) {
  const K *k = static_cast<const K *>(keys);
  if (m < 64) {
    K best = k[0];
    int64_t at = 0;
    for (int64_t i = 1; i < m; ++i) {
      at = k[i] > best ? i : at;
      best = std::max(best, k[i]);
    }
    return {int64_t(best), at};
  }
  const K top = reduce_block<Larger>(k, m);
  int64_t i = 0;
  for (; i + 64 <= m; i += 64) {
    K hit = 0;
    for (int j = 0; j < 64; ++j) hit |= K(k[i + j] == top);
    if (hit) break;
  }
  while (k[i] != top) ++i;
  return {int64_t(top), i};
}

template <class K>
void rows_best(const void *row, int64_t n, int32_t at, void *keys, int32_t *__restrict index) {
  const K *__restrict from = static_cast<const K *>(row);
  K *__restrict best = static_cast<K *>(keys);
  if (at == 0) {
    for (int64_t i = 0; i < n; ++i) best[i] = from[i], index[i] = 0;
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const bool better = from[i] > best[i];
    index[i] = better ? at : index[i];
    best[i] = better ? from[i] : best[i];
  }
}

template <int D, bool kLargest>
const ArgReducer &arg_reducer() {
  using Keys = Key<D, kLargest>;
  using S = typename Keys::S;
  using K = typename Keys::K;
  static const ArgReducer r = {
      sizeof(S),
      sizeof(K),
      Keys::kDirect && kLargest,
      [](const void *x, int64_t stride, int64_t n, void *keys) {
        const S *__restrict from = static_cast<const S *>(x);
        K *__restrict to = static_cast<K *>(keys);
        const auto key = [](S s) {
          K k = Keys::from(s);
          if (Element<D>::is_float) k = k == K(-1) ? K(0) : k;
          return kLargest ? k : K(~k);
        };
        if (stride == 1)
          for (int64_t i = 0; i < n; ++i) to[i] = key(from[i]);
        else
          for (int64_t i = 0; i < n; ++i) to[i] = key(from[i * stride]);
      },
      best_in<K>,
      rows_best<K>,
      [](const void *keys, int64_t i) { return int64_t(static_cast<const K *>(keys)[i]); },
  };
  return r;
}

class ArgReduction final : public Kernel {
 public:
  ArgReduction(const Plan &p, const ArgReducer &r) : p_(p), r_(r) {
    if (p.blocks > 1) workspace_size = uint64_t(p.outputs * p.blocks) * sizeof(Best);
  }

  void run(void *const *data, void *workspace) const override {
    if (p_.outputs == 0) return;
    const char *x = static_cast<const char *>(data[0]);
    int64_t *out = static_cast<int64_t *>(data[1]);
    Best *partial = static_cast<Best *>(workspace);
    if (p_.columns)
      run_columns(x, out, partial);
    else
      run_rows(x, out, partial);
    if (p_.blocks > 1) join(partial, out);
  }

 private:
  Best block(const char *x, int64_t b, char *keys) const {
    const int64_t begin = b * kBlock, m = std::min(kBlock, p_.n - begin);
    if (r_.direct && p_.row) return r_.best_in(x + begin * r_.size_x, m);
    const int64_t stride = p_.reduced.inner().stride[kX];
    for_runs(p_.reduced, begin, begin + m, [&](int64_t first, int64_t length, const int64_t *at) {
      r_.load(x + at[kX] * r_.size_x, stride, length, keys + (first - begin) * r_.size_k);
    });
    return r_.best_in(keys, m);
  }

  void run_rows(const char *x, int64_t *out, Best *partial) const {
    parallel_for(p_.outputs * p_.blocks, grain(std::min(p_.n, kBlock)), [&](int64_t begin, int64_t end) {
      alignas(64) char keys[kBlock * 8];
      if (p_.blocks == 1) {
        const Axis inner = p_.kept.inner();
        for_runs(p_.kept, begin, end, [&](int64_t, int64_t length, const int64_t *at) {
          if (p_.row && inner.stride[kX] == p_.n && !r_.direct) {  // short rows are loaded many at once
            const int64_t most = kBlock / p_.n;
            for (int64_t i = 0; i < length; i += most) {
              const int64_t rows = std::min(most, length - i);
              r_.load(x + (at[kX] + i * p_.n) * r_.size_x, 1, rows * p_.n, keys);
              for (int64_t k = 0; k < rows; ++k)
                out[at[kOut] + (i + k) * inner.stride[kOut]] = r_.best_in(keys + k * p_.n * r_.size_k, p_.n).index;
            }
            return;
          }
          for (int64_t i = 0; i < length; ++i)
            out[at[kOut] + i * inner.stride[kOut]] = block(x + (at[kX] + i * inner.stride[kX]) * r_.size_x, 0, keys).index;
        });
        return;
      }
      for (int64_t i = begin; i < end; ++i) {
        int64_t at[kOperands];
        p_.kept.offsets(i / p_.blocks, at);
        partial[i] = block(x + at[kX] * r_.size_x, i % p_.blocks, keys);
        partial[i].index += i % p_.blocks * kBlock;
      }
    });
  }

  void run_columns(const char *x, int64_t *out, Best *partial) const {
    Axes outer = p_.kept;
    const Axis columns = outer.axis[--outer.count];
    const int64_t tile = std::min(columns.n, kTile), tiles = (columns.n + tile - 1) / tile, m = std::min(p_.n, kBlock);
    const int64_t step = p_.reduced.inner().stride[kX];
    parallel_for(outer.total() * p_.blocks * tiles, grain(m * tile), [&](int64_t begin, int64_t end) {
      alignas(64) char best[kTile * 8], keys[kTile * 8];
      alignas(64) int32_t index[kTile];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = i % tiles * tile, width = std::min(tile, columns.n - c), b = i / tiles % p_.blocks, o = i / tiles / p_.blocks;
        int64_t at[kOperands];
        outer.offsets(o, at);
        const char *from = x + (at[kX] + c) * r_.size_x;
        const int64_t start = b * kBlock;
        for_runs(p_.reduced, start, std::min(p_.n, start + kBlock), [&](int64_t first, int64_t length, const int64_t *row) {
          for (int64_t r = 0; r < length; ++r) {
            const char *values = from + (row[kX] + r * step) * r_.size_x;
            if (!r_.direct) {
              r_.load(values, 1, width, keys);
              values = keys;
            }
            r_.rows_best(values, width, int32_t(first + r - start), best, index);
          }
        });
        for (int64_t k = 0; k < width; ++k) {
          if (p_.blocks == 1)
            out[at[kOut] + (c + k) * columns.stride[kOut]] = index[k];
          else
            partial[(o * columns.n + c + k) * p_.blocks + b] = {r_.widen(best, k), index[k] + start};
        }
      }
    });
  }

  void join(const Best *partial, int64_t *out) const {
    const int64_t step = p_.kept.inner().stride[kOut];
    parallel_for(p_.outputs, grain(p_.blocks), [&](int64_t begin, int64_t end) {
      for_runs(p_.kept, begin, end, [&](int64_t first, int64_t length, const int64_t *at) {
        for (int64_t i = 0; i < length; ++i) {
          const Best *b = partial + (first + i) * p_.blocks;
          Best best = b[0];
          for (int64_t k = 1; k < p_.blocks; ++k)
            if (b[k].key > best.key) best = b[k];
          out[at[kOut] + i * step] = best.index;
        }
      });
    });
  }

  Plan p_;
  const ArgReducer &r_;
};

template <bool kLargest>
std::unique_ptr<Kernel> make(const hal_op &op) {
  const uint64_t mask = uint64_t(attributes<hal_attributes_argmax>(op).axes);
  require_not_empty(op, mask);
  return for_any(op.operands[0].dtype, [&](auto d) -> std::unique_ptr<Kernel> {
    return std::make_unique<ArgReduction>(plan_reduction(op, mask), arg_reducer<decltype(d)::value, kLargest>());
  });
}

}  // namespace

void add_arg_reductions(KernelRows &rows) {
  rows.push_back({"argmax", kAllBits, make<true>});
  rows.push_back({"argmin", kAllBits, make<false>});
}

}  // namespace cpu
