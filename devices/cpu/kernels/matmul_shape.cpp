#include <utility>

#include "matmul.hpp"

namespace cpu {
namespace {

std::string dims_text(const hal_operand &o) {
  std::string text = "(";
  for (uint32_t i = 0; i < o.rank; ++i) text += (i ? ", " : "") + std::to_string(o.dims[i]);
  return text + ")";
}

void check(const hal_op &op) {
  const hal_operand &a = op.operands[0], &b = op.operands[1], &out = op.operands[2];
  const uint32_t rank = out.rank;
  bool ok = rank >= 2 && a.rank == rank && b.rank == rank;
  for (uint32_t i = 0; ok && i + 2 < rank; ++i)
    ok = (a.dims[i] == out.dims[i] || a.dims[i] == 1) && (b.dims[i] == out.dims[i] || b.dims[i] == 1);
  ok = ok && a.dims[rank - 1] == b.dims[rank - 2] && a.dims[rank - 2] == out.dims[rank - 2] && b.dims[rank - 1] == out.dims[rank - 1];
  if (!ok)
    throw Invalid("[matmul] shapes don't fit: got " + dims_text(a) + " × " + dims_text(b) + " → " + dims_text(out) +
                  ", expected (…, M, K) × (…, K, N) → (…, M, N)");
}

void transpose(MatmulShape &s) {
  s.swapped = !s.swapped;
  std::swap(s.m, s.n);
  std::swap(s.a_row, s.b_column);
  std::swap(s.a_k, s.b_k);
  std::swap(s.out_row, s.out_column);
  for (auto &axis : s.axes) std::swap(axis.a, axis.b);
}

// Batch axes whose B is one and the same are rows of A.
void fold_rows(MatmulShape &s) {
  while (!s.axes.empty()) {
    const auto axis = s.axes.back();
    if (axis.b != 0) return;
    if (s.m == 1) {
      s.a_row = axis.a;
      s.out_row = axis.out;
    } else if (axis.a != s.m * s.a_row || axis.out != s.m * s.out_row) {
      return;
    }
    s.m *= axis.size;
    s.axes.pop_back();
  }
}

}  // namespace

MatmulShape::Offsets MatmulShape::offsets(int64_t item) const {
  Offsets o;
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t index = item % axes[i].size;
    item /= axes[i].size;
    o.a += index * axes[i].a;
    o.b += index * axes[i].b;
    o.out += index * axes[i].out;
  }
  return o;
}

MatmulShape matmul_shape(const hal_op &op) {
  check(op);
  const hal_operand &a = op.operands[0], &b = op.operands[1], &out = op.operands[2];
  const uint32_t r = out.rank;
  MatmulShape s;
  s.m = out.dims[r - 2];
  s.n = out.dims[r - 1];
  s.k = a.dims[r - 1];
  s.a_row = a.strides[r - 2];
  s.a_k = a.strides[r - 1];
  s.b_k = b.strides[r - 2];
  s.b_column = b.strides[r - 1];
  s.out_row = out.strides[r - 2];
  s.out_column = out.strides[r - 1];
  for (uint32_t i = 0; i + 2 < r; ++i) {
    MatmulShape::Axis axis{out.dims[i], a.dims[i] == 1 ? 0 : a.strides[i], b.dims[i] == 1 ? 0 : b.strides[i], out.strides[i]};
    s.batch *= axis.size;
    if (axis.size == 1) continue;
    if (!s.axes.empty()) {
      auto &last = s.axes.back();
      if (last.a == axis.size * axis.a && last.b == axis.size * axis.b && last.out == axis.size * axis.out) {
        last = {last.size * axis.size, axis.a, axis.b, axis.out};
        continue;
      }
    }
    s.axes.push_back(axis);
  }
  if (s.batch == 0 || s.m == 0 || s.n == 0) return s;
  fold_rows(s);
  s.batch = 1;
  for (const auto &axis : s.axes) s.batch *= axis.size;
  // A dimension of one element has no stride to speak of: let it look contiguous.
  if (s.n == 1) s.out_column = s.b_column = 1;
  if (s.m == 1) s.out_row = s.a_row = 1;
  const bool narrow = s.n <= 4 && s.n < s.m;
  const bool flat = s.m <= 4 && s.m <= s.n;
  if (narrow || (!flat && s.out_column != 1 && s.out_row == 1)) transpose(s);
  return s;
}

}  // namespace cpu
