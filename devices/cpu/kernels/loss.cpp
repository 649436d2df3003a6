// nll_loss and its backward: docs/numerics.md, section 6.
#include <atomic>

#include "reduce_axes.hpp"

namespace cpu {
namespace {

using namespace reduce;

// The row with the first bad target, found by any thread.
class FirstBad {
 public:
  void note(int64_t row) {
    int64_t seen = row_.load(std::memory_order_relaxed);
    while (row < seen && !row_.compare_exchange_weak(seen, row)) {
    }
  }
  void check(const std::string &op, const int64_t *target, int64_t stride, int64_t classes, int64_t ignore_index) const {
    const int64_t row = row_.load();
    if (row == INT64_MAX) return;
    throw OutOfRange("[" + op + "] target out of range: got " + std::to_string(target[row * stride]) + " at row " + std::to_string(row) +
                     ", expected 0 <= target < " + std::to_string(classes) + " or ignore_index " + std::to_string(ignore_index));
  }

 private:
  std::atomic<int64_t> row_{INT64_MAX};
};

struct Shape {
  int64_t rows, classes, ignore_index;
};

// wide: the (N, C) operand; rows of the others: (N,).
Shape check_operands(const hal_op &op, int wide, int narrow) {
  require_operands(op, 2, 1);
  const hal_operand &w = op.operands[wide], &g = op.operands[narrow], &target = op.operands[1];
  require(w.rank == 2, op, "rank: got shape " + shape_text(w) + ", expected (N, C)");
  require(target.rank == 1 && target.dims[0] == w.dims[0] && target.dtype == HAL_I64, op,
          "target: got shape " + shape_text(target) + ", expected (" + std::to_string(w.dims[0]) + ",) of i64");
  require(same_shape(target, g), op, "shapes differ: got " + shape_text(g) + ", expected " + shape_text(target));
  return {w.dims[0], w.dims[1], attributes<hal_attributes_nll_loss>(op).ignore_index};
}

template <class S>
S negated(S s) {
  if constexpr (std::is_same_v<S, uint16_t>)
    return S(s ^ 0x8000u);  // the sign bit of both half formats
  else
    return -s;
}

std::unique_ptr<Kernel> make_loss(const hal_op &op) {
  const Shape shape = check_operands(op, 0, 2);
  const hal_operand x = op.operands[0], t = op.operands[1], y = op.operands[2];
  return for_float(x.dtype, [&](auto d) {
    using S = typename Element<decltype(d)::value>::S;
    return make_kernel([=, name = std::string(op.name)](void *const *data, void *) {
      const S *from = static_cast<const S *>(data[0]);
      const int64_t *target = static_cast<const int64_t *>(data[1]);
      S *out = static_cast<S *>(data[2]);
      FirstBad bad;
      parallel_for(shape.rows, kGrain / 4, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const int64_t c = target[n * t.strides[0]];
          const bool inside = c >= 0 && c < shape.classes;
          if (c == shape.ignore_index)
            out[n * y.strides[0]] = S(0);
          else if (inside)
            out[n * y.strides[0]] = negated(from[n * x.strides[0] + c * x.strides[1]]);
          else
            bad.note(n);
        }
      });
      bad.check(name, target, t.strides[0], shape.classes, shape.ignore_index);
    });
  });
}

std::unique_ptr<Kernel> make_loss_backward(const hal_op &op) {
  const Shape shape = check_operands(op, 2, 0);
  const hal_operand g = op.operands[0], t = op.operands[1], y = op.operands[2];
  return for_float(g.dtype, [&](auto d) {
    using S = typename Element<decltype(d)::value>::S;
    return make_kernel([=, name = std::string(op.name)](void *const *data, void *) {
      const S *grad = static_cast<const S *>(data[0]);
      const int64_t *target = static_cast<const int64_t *>(data[1]);
      S *out = static_cast<S *>(data[2]);
      FirstBad bad;
      parallel_for(shape.rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, shape.classes)), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          S *row = out + n * y.strides[0];
          if (y.strides[1] == 1)
            std::fill(row, row + shape.classes, S(0));
          else
            for (int64_t c = 0; c < shape.classes; ++c) row[c * y.strides[1]] = S(0);
          const int64_t c = target[n * t.strides[0]];
          if (c == shape.ignore_index) continue;
          if (c >= 0 && c < shape.classes)
            row[c * y.strides[1]] = negated(grad[n * g.strides[0]]);
          else
            bad.note(n);
        }
      });
      bad.check(name, target, t.strides[0], shape.classes, shape.ignore_index);
    });
  });
}

}  // namespace

void add_loss(KernelRows &rows) {
  rows.push_back({"nll_loss", kFloatBits, make_loss});
  rows.push_back({"nll_loss_backward", kFloatBits, make_loss_backward});
}

}  // namespace cpu
