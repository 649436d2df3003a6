// The frame of the reductions; see reduce.hpp.
#include "reduce.hpp"

namespace cpu::reduce {
namespace {

constexpr int64_t kTileBytes = 16384;  // accumulators of one tile of columns: half an L1 cache
constexpr int64_t kMaxTile = 1024;

class Reduction final : public Kernel {
 public:
  Reduction(const Plan &p, const Reducer &r) : p_(p), r_(r) {
    // Block results: outputs rows of `blocks`, then of blocks / 4096, and so on to one block.
    for (int64_t b = p.blocks; b > 1; b = blocks_of(b)) workspace_size += uint64_t(p.outputs * b * r.size_a);
  }

  void run(void *const *data, void *workspace) const override {
    if (p_.outputs == 0) return;
    const char *x = static_cast<const char *>(data[0]);
    char *out = static_cast<char *>(data[1]), *partial = static_cast<char *>(workspace);
    if (p_.columns)
      run_columns(x, out, partial);
    else if (p_.blocks == 1)
      run_rows(x, out);
    else
      run_blocks(x, partial);
    for (int64_t blocks = p_.blocks; blocks > 1; blocks = blocks_of(blocks)) {
      char *results = partial + p_.outputs * blocks * r_.size_a;
      if (blocks_of(blocks) == 1)
        last_level(partial, blocks, out);
      else
        next_level(partial, blocks, results);
      partial = results;
    }
  }

 private:
  static int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }

  void gather(const char *x, int64_t begin, int64_t m, char *buffer) const {
    const int64_t stride = p_.reduced.inner().stride[kX];
    for_runs(p_.reduced, begin, begin + m, [&](int64_t first, int64_t length, const int64_t *at) {
      r_.load(x + at[kX] * r_.size_x, stride, length, buffer + (first - begin) * r_.size_a);
    });
  }

  // One block of one output, x at the output's first value.
  void block(const char *x, int64_t b, char *buffer, char *to) const {
    const int64_t begin = b * kBlock, m = std::min(kBlock, p_.n - begin);
    if (r_.direct && p_.row) {
      r_.blocks(x + begin * r_.size_a, 0, 1, m, to);
    } else {
      gather(x, begin, m, buffer);
      r_.blocks(buffer, 0, 1, m, to);
    }
  }

  void run_rows(const char *x, char *out) const {
    const Axis inner = p_.kept.inner();
    const int64_t step = inner.stride[kX];
    const bool joined = p_.row && step == p_.n && p_.n > 0;  // many short rows are loaded at once
    parallel_for(p_.outputs, grain(p_.n), [&](int64_t begin, int64_t end) {
      constexpr int64_t kRows = 64;
      alignas(64) char buffer[kBlock * 8];
      alignas(64) char results[kRows * 8];
      const int64_t most = joined ? std::min(kRows, kBlock / p_.n) : kRows;
      for_runs(p_.kept, begin, end, [&](int64_t, int64_t length, const int64_t *at) {
        for (int64_t i = 0; i < length; i += most) {
          const int64_t rows = std::min(most, length - i);
          const char *from = x + (at[kX] + i * step) * r_.size_x;
          if (r_.direct && p_.row) {
            r_.blocks(from, step, rows, p_.n, results);
          } else if (joined) {
            r_.load(from, 1, rows * p_.n, buffer);
            r_.blocks(buffer, p_.n, rows, p_.n, results);
          } else {
            for (int64_t k = 0; k < rows; ++k) block(from + k * step * r_.size_x, 0, buffer, results + k * r_.size_a);
          }
          r_.finish(results, rows, p_.n, out + (at[kOut] + i * inner.stride[kOut]) * r_.size_out, inner.stride[kOut]);
        }
      });
    });
  }

  void run_blocks(const char *x, char *partial) const {
    parallel_for(p_.outputs * p_.blocks, grain(kBlock), [&](int64_t begin, int64_t end) {
      alignas(64) char buffer[kBlock * 8];
      for (int64_t i = begin; i < end; ++i) {
        int64_t at[kOperands];
        p_.kept.offsets(i / p_.blocks, at);
        block(x + at[kX] * r_.size_x, i % p_.blocks, buffer, partial + i * r_.size_a);
      }
    });
  }

  void last_level(const char *partial, int64_t blocks, char *out) const {
    const int64_t step = p_.kept.inner().stride[kOut];
    parallel_for(p_.outputs, grain(blocks), [&](int64_t begin, int64_t end) {
      for_runs(p_.kept, begin, end, [&](int64_t first, int64_t length, const int64_t *at) {
        for (int64_t i = 0; i < length; ++i) {
          alignas(8) char result[8];
          r_.blocks(partial + (first + i) * blocks * r_.size_a, 0, 1, blocks, result);
          r_.finish(result, 1, p_.n, out + (at[kOut] + i * step) * r_.size_out, 1);
        }
      });
    });
  }

  void next_level(const char *partial, int64_t blocks, char *results) const {
    const int64_t next = blocks_of(blocks);
    parallel_for(p_.outputs * next, grain(kBlock), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = i % next * kBlock;
        r_.blocks(partial + (i / next * blocks + from) * r_.size_a, 0, 1, std::min(kBlock, blocks - from), results + i * r_.size_a);
      }
    });
  }

  // Columns: 32 lanes of a tile of outputs; the rows stream by in order.
  void run_columns(const char *x, char *out, char *partial) const {
    Axes outer = p_.kept;
    const Axis columns = outer.axis[--outer.count];
    const int64_t m = std::min(p_.n, kBlock), lanes = std::clamp<int64_t>(m, 1, kLanes), others = outer.total() * p_.blocks;
    int64_t tile = std::clamp<int64_t>(kTileBytes / r_.size_a / lanes, 16, kMaxTile);
    // Narrower tiles if that is what gives every thread work.
    const int64_t threads = host().num_threads();
    if (others < threads) tile = std::min(tile, std::max<int64_t>(16, (columns.n * others / threads + 15) / 16 * 16));
    const int64_t fewest = (columns.n + tile - 1) / tile;
    tile = std::min(columns.n, ((columns.n + fewest - 1) / fewest + 15) / 16 * 16);
    const int64_t tiles = (columns.n + tile - 1) / tile;
    parallel_for(others * tiles, grain(m * tile), [&](int64_t begin, int64_t end) {
      alignas(64) char acc[kTileBytes], loaded[kTileBytes];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = i % tiles * tile, width = std::min(tile, columns.n - c), b = i / tiles % p_.blocks, o = i / tiles / p_.blocks;
        int64_t at[kOperands];
        outer.offsets(o, at);
        column_block(x + (at[kX] + c) * r_.size_x, b, width, acc, loaded);
        if (p_.blocks == 1) {
          r_.finish(acc, width, p_.n, out + (at[kOut] + c * columns.stride[kOut]) * r_.size_out, columns.stride[kOut]);
        } else {
          char *to = partial + ((o * columns.n + c) * p_.blocks + b) * r_.size_a;
          for (int64_t k = 0; k < width; ++k) __builtin_memcpy(to + k * p_.blocks * r_.size_a, acc + k * r_.size_a, size_t(r_.size_a));
        }
      }
    });
  }

  void column_block(const char *x, int64_t b, int64_t width, char *acc, char *loaded) const {
    const int64_t begin = b * kBlock, m = std::min(kBlock, p_.n - begin), lanes = std::min<int64_t>(m, kLanes),
                  row_bytes = width * r_.size_a;
    if (m == 0) return r_.start(nullptr, width, acc);
    const auto add = [&](const char *row, int64_t n, int64_t lane, bool first) {
      if (!r_.direct) {
        r_.load(row, 1, n, loaded);
        row = loaded;
      }
      (first ? r_.start : r_.combine)(row, n, acc + lane * row_bytes);
    };
    const int64_t step = p_.reduced.inner().stride[kX];
    for_runs(p_.reduced, begin, begin + m, [&](int64_t first, int64_t length, const int64_t *at) {
      const char *from = x + at[kX] * r_.size_x;
      int64_t r = first - begin;
      const int64_t last = r + length;
      if (step == width && r == 0 && length == m) {  // the rows join: 32 of them are one long row
        for (; r < last; r += kLanes, from += kLanes * width * r_.size_x) add(from, std::min<int64_t>(kLanes, last - r) * width, 0, r == 0);
        return;
      }
      for (; r < last; ++r, from += step * r_.size_x) add(from, width, r % kLanes, r < kLanes);
    });
    for (int64_t s = kLanes / 2; s >= 1; s /= 2) {
      const int64_t pairs = std::min(s, lanes - s);
      if (pairs > 0) r_.combine(acc + s * row_bytes, pairs * width, acc);
    }
  }

  Plan p_;
  const Reducer &r_;
};

}  // namespace

void require(bool ok, const hal_op &op, const std::string &what) {
  if (!ok) throw Invalid(std::string("[") + op.name + "] " + what);
}

std::string shape_text(const hal_operand &o) {
  std::string s = "(";
  for (uint32_t i = 0; i < o.rank; ++i) s += (i ? ", " : "") + std::to_string(o.dims[i]);
  return s + (o.rank == 1 ? ",)" : ")");
}

void require_operands(const hal_op &op, uint32_t inputs, uint32_t outputs) {
  require(op.num_inputs == inputs && op.num_outputs == outputs, op,
          "wrong number of operands: got " + std::to_string(op.num_inputs) + " + " + std::to_string(op.num_outputs) + ", expected " +
              std::to_string(inputs) + " + " + std::to_string(outputs));
}

void require_same_shape(const hal_op &op, const hal_operand &a, const hal_operand &b) {
  require(same_shape(a, b), op, "shapes differ: got " + shape_text(b) + ", expected " + shape_text(a));
}

void nearest_inside(Axes &axes, int k) {
  const auto distance = [k](const Axis &a) { return a.stride[k] == 0 ? INT64_MAX : std::llabs(a.stride[k]); };
  std::stable_sort(axes.axis, axes.axis + axes.count, [&](const Axis &a, const Axis &b) { return distance(a) > distance(b); });
}

Plan plan_reduction(const hal_op &op, uint64_t mask) {
  require_operands(op, 1, 1);
  const hal_operand &x = op.operands[0], &out = op.operands[1];
  require((mask >> x.rank) == 0, op,
          "axes beyond the rank: got bit mask " + std::to_string(mask) + ", expected bits below " + std::to_string(x.rank));
  require(x.rank == out.rank, op, "rank of the output: got " + std::to_string(out.rank) + ", expected " + std::to_string(x.rank));
  Plan p;
  for (uint32_t i = 0; i < x.rank; ++i) {
    const bool reduced = (mask >> i) & 1;
    require(out.dims[i] == (reduced ? 1 : x.dims[i]), op,
            "shape of the output: got " + shape_text(out) + ", expected " + shape_text(x) + " with 1 in reduced axes");
    Axis a;
    a.n = x.dims[i];
    a.stride[kX] = x.strides[i];
    a.stride[kOut] = reduced ? 0 : out.strides[i];
    (reduced ? p.reduced : p.kept).push(a);
  }
  p.outputs = p.kept.total();
  p.n = p.reduced.total();
  nearest_inside(p.kept, kX);
  p.kept.coalesce();
  p.reduced.coalesce();
  p.blocks = std::max<int64_t>(1, (p.n + kBlock - 1) / kBlock);
  p.row = p.reduced.count == 0 || (p.reduced.count == 1 && p.reduced.axis[0].stride[kX] == 1);
  p.columns = p.kept.count > 0 && p.kept.inner().stride[kX] == 1 && !(p.row && p.n > 1);
  return p;
}

void require_not_empty(const hal_op &op, uint64_t mask) {
  require_operands(op, 1, 1);
  const hal_operand &x = op.operands[0];
  for (uint32_t i = 0; i < x.rank; ++i)
    require(((mask >> i) & 1) == 0 || x.dims[i] > 0, op,
            "nothing to reduce: got shape " + shape_text(x) + ", expected axis " + std::to_string(i) + " not to be empty");
}

std::unique_ptr<Kernel> make_reduction(const hal_op &op, uint64_t mask, const Reducer &reducer) {
  return std::make_unique<Reduction>(plan_reduction(op, mask), reducer);
}

}  // namespace cpu::reduce
