// matmul of integers: exact modulo 2ⁿ in any order, so plain loops over unsigned words, B packed a block of columns at a time.
#include "matmul.hpp"

namespace cpu {
namespace {

constexpr int64_t kColumns = 128, kDepth = 256;

thread_local Scratch b_block;

template <class S, class U>
class IntegerMatmul final : public Kernel {
 public:
  explicit IntegerMatmul(const hal_op &op) : s_(matmul_shape(op)) {}

  void run(void *const *data, void *) const override {
    const S *a = static_cast<const S *>(data[s_.swapped]), *b = static_cast<const S *>(data[!s_.swapped]);
    S *out = static_cast<S *>(data[2]);
    if (s_.batch == 0 || s_.m == 0 || s_.n == 0) return;
    const int64_t strips = (s_.n + kColumns - 1) / kColumns;
    // Rows are cut too, so that one strip of columns can feed many threads.
    const int64_t cuts = std::max<int64_t>(1, std::min<int64_t>(s_.m / 16, host().num_threads() * 2 / (strips * s_.batch)));
    const int64_t work = s_.m * s_.n * std::max<int64_t>(s_.k, 1) / (strips * cuts);
    parallel_for(s_.batch * strips * cuts, std::max<int64_t>(1, 50000 / (work + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const auto at = s_.offsets(task / (strips * cuts));
        const int64_t strip = task / cuts % strips, cut = task % cuts;
        block(a + at.a, b + at.b, out + at.out, s_.m * cut / cuts, s_.m * (cut + 1) / cuts, strip * kColumns,
              std::min(s_.n, (strip + 1) * kColumns));
      }
    });
  }

 private:
  void block(const S *a, const S *b, S *out, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    U *panel = b_block.get<U>(kDepth * kColumns);
    const int64_t columns = n1 - n0;
    for (int64_t k0 = 0; k0 == 0 || k0 < s_.k; k0 += kDepth) {
      const int64_t depth = std::min(kDepth, s_.k - k0);
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t j = 0; j < kColumns; ++j)
          panel[k * kColumns + j] = j < columns ? U(b[(k0 + k) * s_.b_k + (n0 + j) * s_.b_column]) : U(0);
      for (int64_t i = m0; i < m1; ++i) {
        alignas(64) U acc[kColumns] = {};
        const S *x = a + i * s_.a_row + k0 * s_.a_k;
        for (int64_t k = 0; k < depth; ++k) {
          const U value = U(x[k * s_.a_k]);
          const U *row = panel + k * kColumns;
          for (int64_t j = 0; j < kColumns; ++j) acc[j] += value * row[j];
        }
        S *place = out + i * s_.out_row + n0 * s_.out_column;
        for (int64_t j = 0; j < columns; ++j) {
          S &o = place[j * s_.out_column];
          o = S(k0 == 0 ? acc[j] : U(o) + acc[j]);
        }
      }
    }
  }

  MatmulShape s_;
};

}  // namespace

std::unique_ptr<Kernel> make_integer_matmul(const hal_op &op) {
  switch (op.operands[0].dtype) {
    case HAL_U8:
      return std::make_unique<IntegerMatmul<uint8_t, uint32_t>>(op);
    case HAL_I8:
      return std::make_unique<IntegerMatmul<int8_t, uint32_t>>(op);
    case HAL_I16:
      return std::make_unique<IntegerMatmul<int16_t, uint32_t>>(op);
    case HAL_I32:
      return std::make_unique<IntegerMatmul<int32_t, uint32_t>>(op);
    default:
      return std::make_unique<IntegerMatmul<int64_t, uint64_t>>(op);
  }
}

}  // namespace cpu
