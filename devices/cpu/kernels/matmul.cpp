// matmul of floats: packed panels, a 6-row micro-kernel, chunks of 512 (docs/numerics.md, 7). Three ways through one definition:
// thin (≤ 4 rows: B is read in place), blocks of the output, and, for small outputs with long chains, one task per chunk.
#include "matmul.hpp"

#include "matmul_thin.hpp"

namespace cpu {
namespace {

constexpr int64_t kBlockRows = 96;      // rows of A packed at once: 96·512 floats stay in the second-level cache
constexpr int64_t kBlockColumns = 512;  // columns of B packed at once

thread_local Scratch a_panels, b_panels, c_block;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How the output is cut into tasks; any cut gives the same bits.
struct Grid {
  int32_t threads = 0;
  int64_t rows = 1, columns = 1;  // cuts per batch item
  bool by_chunk = false;
};

template <class S>
class FloatMatmul final : public Kernel {
 public:
  using T = compute_t<S>;

  explicit FloatMatmul(const hal_op &op) : s_(matmul_shape(op)) {
    const int64_t slots = s_.batch * s_.chunks();
    const int64_t bytes = slots * s_.m * s_.n * int64_t(sizeof(T));
    can_split_ = s_.m > kThinRows && s_.chunks() >= 2 && s_.m * s_.n <= 256 * 256 && bytes <= (int64_t{16} << 20);
    if (can_split_) workspace_size = uint64_t(bytes);
    grid_ = choose(host().num_threads());
  }

  void run(void *const *data, void *workspace) const override {
    const S *a = static_cast<const S *>(data[s_.swapped]), *b = static_cast<const S *>(data[!s_.swapped]);
    S *out = static_cast<S *>(data[2]);
    if (s_.batch == 0 || s_.m == 0 || s_.n == 0) return;
    if (s_.m <= kThinRows && (s_.b_column == 1 || s_.b_k == 1)) return run_thin(a, b, out);
    const int32_t threads = host().num_threads();
    const Grid grid = threads == grid_.threads ? grid_ : choose(threads);
    if (grid.by_chunk) return run_by_chunk(a, b, out, static_cast<T *>(workspace));
    const int64_t per_item = grid.rows * grid.columns;
    const int64_t row_panels = ceil_div(s_.m, MR), column_panels = ceil_div(s_.n, NR<T>);
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const auto at = s_.offsets(task / per_item);
        const int64_t i = task % per_item / grid.columns, j = task % grid.columns;
        const int64_t m0 = row_panels * i / grid.rows * MR, m1 = std::min(s_.m, row_panels * (i + 1) / grid.rows * MR);
        const int64_t n0 = column_panels * j / grid.columns * NR<T>, n1 = std::min(s_.n, column_panels * (j + 1) / grid.columns * NR<T>);
        block(a + at.a, b + at.b, out + at.out, m0, m1, n0, n1);
      }
    };
    const int64_t tasks = s_.batch * per_item;
    parallel_for(tasks, cycles(s_.m, s_.n) * s_.batch < kSerialCycles ? tasks : 1, body);
  }

 private:
  static constexpr int64_t kSerialCycles = 20000;  // about twice what a parallel loop costs

  // A model of one block's time: the micro-kernel does MR×NR fmas in MR cycles; packing moves a few elements per cycle.
  int64_t cycles(int64_t rows, int64_t columns) const {
    return s_.k * (ceil_div(rows, MR) * ceil_div(columns, NR<T>) * MR + (rows + columns) / 3);
  }

  Grid choose(int32_t threads) const {
    Grid best;
    best.threads = threads;
    if (threads <= 1 || s_.batch == 0 || s_.m == 0 || s_.n == 0) return best;
    const int64_t row_panels = ceil_div(s_.m, MR), column_panels = ceil_div(s_.n, NR<T>);
    double best_cost = 1e300;
    const bool large = double(s_.m) * double(s_.n) * double(s_.k) > 1e8;
    for (int64_t target = threads; target <= threads * (large ? 4 : 2); target *= 2) {
      const int64_t per_item = ceil_div(target, s_.batch);
      for (int64_t rows = 1; rows <= std::min(per_item, row_panels); ++rows) {
        const int64_t columns = std::min(per_item / rows, column_panels);
        const int64_t rounds = ceil_div(rows * columns * s_.batch, threads);
        const double cost = double(rounds) * double(cycles(ceil_div(row_panels, rows) * MR, ceil_div(column_panels, columns) * NR<T>));
        if (cost < best_cost * (large && target > threads ? 1.03 : 1.0)) {
          best_cost = std::min(cost, best_cost);
          best.rows = rows;
          best.columns = columns;
        }
      }
    }
    if (can_split_) {
      const int64_t rounds = ceil_div(s_.batch * s_.chunks(), threads);
      const double cost =
          double(rounds) * double(cycles(s_.m, s_.n)) / double(s_.chunks()) + double(s_.batch * s_.chunks() * s_.m * s_.n) / threads;
      best.by_chunk = cost < best_cost * 0.9;
    }
    return best;
  }

  // Sums of the chunks [chunk0, chunk1) for rows [m0, m1) × columns [n0, n1) to c[(i − m0)·ldc + j − n0].
  void chains(const S *a, const S *b, int64_t m0, int64_t m1, int64_t n0, int64_t n1, int64_t chunk0, int64_t chunk1, T *c,
              int64_t ldc) const {
    const int64_t depth_max = std::min(s_.k, kChunk);
    T *bp = b_panels.get<T>(depth_max * ceil_div(n1 - n0, NR<T>) * NR<T>);
    // Short rows of A are read where they lie; long ones, a page or more apart, would push each other out of the cache.
    const bool in_place = std::is_same_v<S, T> && s_.a_k == 1 && s_.a_row > 0 && s_.a_row * int64_t(sizeof(T)) < 4096;
    T *ap = in_place ? nullptr : a_panels.get<T>(depth_max * ceil_div(std::min(m1 - m0, kBlockRows), MR) * MR);
    for (int64_t chunk = chunk0; chunk < chunk1; ++chunk) {
      const int64_t k0 = chunk * kChunk, depth = std::min(s_.k - k0, kChunk);
      pack_panels<NR<T>>(bp, b + k0 * s_.b_k + n0 * s_.b_column, s_.b_column, s_.b_k, n1 - n0, depth);
      for (int64_t mb = m0; mb < m1; mb += kBlockRows) {
        const int64_t me = std::min(m1, mb + kBlockRows);
        if (!in_place) pack_panels<MR>(ap, a + k0 * s_.a_k + mb * s_.a_row, s_.a_row, s_.a_k, me - mb, depth);
        for (int64_t j = n0; j < n1; j += NR<T>)
          for (int64_t i = mb; i < me; i += MR) {
            const int rows = int(std::min<int64_t>(me - i, MR)), columns = int(std::min<int64_t>(n1 - j, NR<T>));
            const T *panel = bp + (j - n0) * depth;
            T *place = c + (i - m0) * ldc + (j - n0);
            if constexpr (std::is_same_v<S, T>)
              if (in_place) {
                tile(rows, columns, depth, InPlace<T>(a + k0 + i * s_.a_row, s_.a_row), panel, Dense{NR<T>}, place, ldc, chunk != chunk0);
                continue;
              }
            tile(rows, columns, depth, ap + (i - mb) * depth, panel, Dense{NR<T>}, place, ldc, chunk != chunk0);
          }
      }
    }
  }

  void block(const S *a, const S *b, S *out, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    for (int64_t nb = n0; nb < n1; nb += kBlockColumns) {
      const int64_t ne = std::min(n1, nb + kBlockColumns);
      const Matrix<S> place = Matrix<S>{out, s_.out_row, s_.out_column}.at(m0, nb);
      if constexpr (std::is_same_v<S, T>) {
        if (s_.out_column == 1 && s_.k > 0) {
          chains(a, b, m0, m1, nb, ne, 0, s_.chunks(), place.data, s_.out_row);
          continue;
        }
      }
      T *c = c_block.get<T>((m1 - m0) * (ne - nb));
      if (s_.k == 0) std::fill(c, c + (m1 - m0) * (ne - nb), T(0));
      chains(a, b, m0, m1, nb, ne, 0, s_.chunks(), c, ne - nb);
      store_block(place, c, ne - nb, m1 - m0, ne - nb);
    }
  }

  void run_by_chunk(const S *a, const S *b, S *out, T *slots) const {
    const int64_t chunks = s_.chunks(), size = s_.m * s_.n;
    parallel_for(s_.batch * chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const auto at = s_.offsets(task / chunks);
        chains(a + at.a, b + at.b, 0, s_.m, 0, s_.n, task % chunks, task % chunks + 1, slots + task * size, s_.n);
      }
    });
    parallel_for(s_.batch * s_.m, std::max<int64_t>(1, 8192 / (s_.n * chunks)), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t item = row / s_.m, i = row % s_.m;
        T *sum = slots + item * chunks * size + i * s_.n;
        for (int64_t chunk = 1; chunk < chunks; ++chunk)
          for (int64_t j = 0; j < s_.n; ++j) sum[j] += sum[chunk * size + j];
        store_block(Matrix<S>{out + s_.offsets(item).out, s_.out_row, s_.out_column}.at(i, 0), sum, s_.n, 1, s_.n);
      }
    });
  }

  void run_thin(const S *a, const S *b, S *out) const {
    const bool rows = s_.b_column == 1;  // the order of B in memory
    const int64_t width =
        rows ? std::min<int64_t>(2048 / s_.m, std::max<int64_t>(64, ceil_div(ceil_div(s_.n, host().num_threads()), 64) * 64))
             : std::max<int64_t>(32, std::min<int64_t>(256, int64_t{1} << 20 >> (s_.k > 4096 ? 15 : 12)));
    const int64_t blocks = ceil_div(s_.n, width);
    const int64_t tasks = s_.batch * blocks;
    const int64_t work = std::max<int64_t>(1, s_.k * std::min(width, s_.n));
    parallel_for(tasks, std::max<int64_t>(1, 100000 / work), [&](int64_t begin, int64_t end) {
      T *ap = a_panels.get<T>(s_.m * s_.k);
      T *c = c_block.get<T>(2 * s_.m * width);
      int64_t packed = -1;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t item = task / blocks, j = task % blocks * width, columns = std::min(width, s_.n - j);
        const auto at = s_.offsets(item);
        if (item != packed) {
          for (int64_t r = 0; r < s_.m; ++r)
            for (int64_t k = 0; k < s_.k; ++k) ap[r * s_.k + k] = widen(a[at.a + r * s_.a_row + k * s_.a_k]);
          packed = item;
        }
        const S *first = b + at.b + j * s_.b_column;
        switch (s_.m) {
          case 1:
            thin<1>(rows, ap, first, columns, c, width);
            break;
          case 2:
            thin<2>(rows, ap, first, columns, c, width);
            break;
          case 3:
            thin<3>(rows, ap, first, columns, c, width);
            break;
          default:
            thin<4>(rows, ap, first, columns, c, width);
            break;
        }
        store_block(Matrix<S>{out + at.out, s_.out_row, s_.out_column}.at(0, j), c, width, s_.m, columns);
      }
    });
  }

  template <int Rows>
  void thin(bool rows, const T *a, const S *b, int64_t columns, T *c, int64_t width) const {
    if (s_.k == 0) {
      std::fill(c, c + Rows * width, T(0));
    } else if (rows) {
      thin_rows<Rows>(a, s_.k, b, s_.b_k, columns, c, c + Rows * width, width);
    } else {
      thin_columns<Rows>(a, s_.k, b, s_.b_column, columns, c, width, b_panels.get<T>(kThinBuffer<T>));
    }
  }

  MatmulShape s_;
  Grid grid_;
  bool can_split_ = false;
};

std::unique_ptr<Kernel> make(const hal_op &op) {
  switch (op.operands[0].dtype) {
    case HAL_F16:
      return std::make_unique<FloatMatmul<f16>>(op);
    case HAL_BF16:
      return std::make_unique<FloatMatmul<bf16>>(op);
    case HAL_F32:
      return std::make_unique<FloatMatmul<float>>(op);
    case HAL_F64:
      return std::make_unique<FloatMatmul<double>>(op);
    default:
      return make_integer_matmul(op);
  }
}

}  // namespace

void add_matmul(KernelRows &rows) {
  uint32_t numbers = 0;
  for (hal_dtype d = HAL_U8; d <= HAL_F64; ++d) numbers |= HAL_DTYPE_BIT(d);
  rows.push_back({"matmul", numbers, make});
}

}  // namespace cpu
