// copy, fill and arange. Casts are in data_cast.cpp.
#include <algorithm>
#include <cstring>

#include "data.hpp"
#include "halves.hpp"
#include "streaming.hpp"

namespace cpu {
namespace {

constexpr int64_t kMoveGrain = 65536;  // elements

template <class T>
void move_loop(int64_t n, void *out, const void *const *in) {
  std::memcpy(out, in[0], size_t(n) * sizeof(T));
}

template <class T>
void fill_loop(int64_t n, void *out, const void *const *in) {
  std::fill_n(static_cast<T *>(out), n, *static_cast<const T *>(in[0]));
}

// Bits are moved, never values: a NaN keeps its payload.
template <class T>
constexpr Loops kMoveLoops = {{move_loop<T>, fill_loop<T>}};

const Loops &move_loops(hal_dtype dtype) {
  switch (dtype_size(dtype)) {
    case 1:
      return kMoveLoops<uint8_t>;
    case 2:
      return kMoveLoops<uint16_t>;
    case 4:
      return kMoveLoops<uint32_t>;
    default:
      return kMoveLoops<uint64_t>;
  }
}

void expect_operands(const hal_op &op, uint32_t inputs) {
  if (op.num_inputs != inputs || op.num_outputs != 1)
    throw Invalid(std::string("[") + op.name + "] operands: got " + std::to_string(op.num_inputs) + " inputs and " +
                  std::to_string(op.num_outputs) + " outputs, expected " + std::to_string(inputs) + " and 1");
}

void expect_dtype(const hal_op &op, uint32_t operand, hal_dtype expected) {
  if (op.operands[operand].dtype != expected)
    throw Invalid(std::string("[") + op.name + "] operand " + std::to_string(operand) + ": dtype: got " +
                  dtype_name(op.operands[operand].dtype) + ", expected " + dtype_name(expected));
}

// Copies between contiguous ranges.
class FlatCopy final : public Kernel {
 public:
  explicit FlatCopy(int64_t bytes) : bytes_(bytes) {}
  void run(void *const *data, void *) const override {
    const char *from = static_cast<const char *>(data[0]);
    char *to = static_cast<char *>(data[1]);
    if (to == from) return;
    parallel_for(bytes_, 1 << 18, [&](int64_t begin, int64_t end) {
      if (bytes_ < kStreamFrom) {
        std::memcpy(to + begin, from + begin, size_t(end - begin));
      } else {
        stream_copy(to + begin, from + begin, end - begin);
        stream_fence();
      }
    });
  }

 private:
  int64_t bytes_;
};

// Copies where the output is contiguous along its inner dimension and the input along another, in square tiles: both sides are then
// touched a whole cache line at a time.
template <class T>
class TransposedCopy final : public Kernel {
 public:
  // `dims` etc. as merge_dimensions left them (walk 0: output, walk 1: input); `row` is the input's contiguous dimension.
  TransposedCopy(int rank, const int64_t *dims, const Walk &out, const Walk &in, int row) : columns_(dims[rank - 1]), rows_(dims[row]) {
    out_row_ = out.strides[row];
    in_column_ = in.strides[rank - 1];
    for (int d = 0; d < rank - 1; ++d) {
      if (d == row) continue;
      outer_dims_[outer_rank_] = dims[d];
      out_.strides[outer_rank_] = out.strides[d];
      in_.strides[outer_rank_] = in.strides[d];
      outer_ *= dims[d];
      ++outer_rank_;
    }
  }

  void run(void *const *data, void *) const override {
    const char *from = static_cast<const char *>(data[0]);
    char *to = static_cast<char *>(data[1]);
    const int64_t row_tiles = (rows_ + kTile - 1) / kTile;
    parallel_for(outer_ * row_tiles, std::max<int64_t>(1, kMoveGrain / (kTile * columns_)), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        int64_t rest = t / row_tiles, out_offset = 0, in_offset = 0;
        for (int d = outer_rank_ - 1; d >= 0; --d) {
          const int64_t i = rest % outer_dims_[d];
          rest /= outer_dims_[d];
          out_offset += i * out_.strides[d];
          in_offset += i * in_.strides[d];
        }
        const int64_t row = t % row_tiles * kTile;
        band(to + out_offset + row * out_row_, from + in_offset + row * int64_t(sizeof(T)), std::min<int64_t>(kTile, rows_ - row));
      }
    });
  }

 private:
  static constexpr int64_t kTile = 32;

  void band(char *to, const char *from, int64_t rows) const {
    T tile[kTile][kTile];
    for (int64_t c = 0; c < columns_; c += kTile) {
      const int64_t columns = std::min(kTile, columns_ - c);
      for (int64_t j = 0; j < columns; ++j) std::memcpy(tile[j], from + (c + j) * in_column_, size_t(rows) * sizeof(T));
      for (int64_t i = 0; i < rows; ++i) {
        T *out = reinterpret_cast<T *>(to + i * out_row_) + c;
        for (int64_t j = 0; j < columns; ++j) out[j] = tile[j][i];
      }
    }
  }

  int64_t columns_, rows_, out_row_, in_column_;
  int outer_rank_ = 0;
  int64_t outer_ = 1;
  int64_t outer_dims_[HAL_MAX_RANK];
  Walk out_, in_;
};

std::unique_ptr<Kernel> make_transposed(int64_t size, int rank, const int64_t *dims, const Walk &out, const Walk &in, int row) {
  switch (size) {
    case 1:
      return std::make_unique<TransposedCopy<uint8_t>>(rank, dims, out, in, row);
    case 2:
      return std::make_unique<TransposedCopy<uint16_t>>(rank, dims, out, in, row);
    case 4:
      return std::make_unique<TransposedCopy<uint32_t>>(rank, dims, out, in, row);
    default:
      return std::make_unique<TransposedCopy<uint64_t>>(rank, dims, out, in, row);
  }
}

std::unique_ptr<Kernel> make_copy_checked(const hal_op &op) {
  expect_operands(op, 1);
  expect_dtype(op, 1, op.operands[0].dtype);
  return make_copy(op);
}

std::unique_ptr<Kernel> make_fill(const hal_op &op) {
  expect_operands(op, 1);
  expect_dtype(op, 0, op.operands[1].dtype);
  const hal_dtype dtype = op.operands[1].dtype;
  return make_elementwise({1, op.operands, {dtype, dtype}, &move_loops(dtype), kMoveGrain, op.name});
}

// out[i] = start + C(i)·step, i row-major.
template <class C>
class Arange final : public Kernel {
 public:
  explicit Arange(const hal_operand &out)
      : dtype_(out.dtype), size_(dtype_size(out.dtype)), total_(element_count(out)), rank_(int(out.rank)) {
    Walk *walks[] = {&walk_};
    for (int d = 0; d < rank_; ++d) {
      dims_[d] = out.dims[d];
      walk_.strides[d] = out.strides[d] * size_;
    }
    rank_ = merge_dimensions(rank_, dims_, walks, 1, false);  // keeps the order: positions count
  }

  void run(void *const *data, void *) const override {
    const C start = *static_cast<const C *>(data[0]), step = *static_cast<const C *>(data[1]);
    char *to = static_cast<char *>(data[2]);
    parallel_for(total_, kMoveGrain, [&](int64_t begin, int64_t end) {
      alignas(64) C values[kBlock];
      alignas(64) uint16_t halves[kBlock];
      const int64_t inner = dims_[rank_ - 1];
      for (int64_t at = begin; at < end;) {
        const int64_t n = std::min({end - at, kBlock, inner - at % inner});
        for (int64_t i = 0; i < n; ++i) values[i] = value(start, step, at + i);
        const void *from = values;
        if constexpr (std::is_same_v<C, float>) {
          if (dtype_ == HAL_F16) f32_to_f16(n, halves, values);
          if (dtype_ == HAL_BF16) f32_to_bf16(n, halves, values);
          if (dtype_ != HAL_F32) from = halves;
        }
        store(to, at, n, static_cast<const char *>(from));
        at += n;
      }
    });
  }

 private:
  static constexpr int64_t kBlock = 1024;

  static C value(C start, C step, int64_t i) {
    if constexpr (std::is_floating_point_v<C>)
      return start + C(i) * step;
    else
      return C(uint64_t(start) + uint64_t(i) * uint64_t(step));
  }

  void store(char *to, int64_t at, int64_t n, const char *from) const {
    for (int d = rank_ - 1; d >= 0; --d) {
      to += at % dims_[d] * walk_.strides[d];
      at /= dims_[d];
    }
    const int64_t step = walk_.strides[rank_ - 1];
    if (step == size_) {
      std::memcpy(to, from, size_t(n * size_));
      return;
    }
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * step, from + i * size_, size_t(size_));
  }

  hal_dtype dtype_;
  int64_t size_, total_;
  int rank_;
  int64_t dims_[HAL_MAX_RANK];
  Walk walk_{};
};

std::unique_ptr<Kernel> make_arange(const hal_op &op) {
  expect_operands(op, 2);
  const hal_operand &out = op.operands[2];
  for (uint32_t k = 0; k < 2; ++k) {
    expect_dtype(op, k, compute_dtype(out.dtype));
    if (!(op.operands[k].flags & HAL_OPERAND_IMMEDIATE)) throw Invalid("[arange] operand " + std::to_string(k) + ": expected an immediate");
  }
  switch (compute_dtype(out.dtype)) {
    case HAL_U8:
      return std::make_unique<Arange<uint8_t>>(out);
    case HAL_I8:
      return std::make_unique<Arange<int8_t>>(out);
    case HAL_I16:
      return std::make_unique<Arange<int16_t>>(out);
    case HAL_I32:
      return std::make_unique<Arange<int32_t>>(out);
    case HAL_I64:
      return std::make_unique<Arange<int64_t>>(out);
    case HAL_F32:
      return std::make_unique<Arange<float>>(out);
    case HAL_F64:
      return std::make_unique<Arange<double>>(out);
    default:
      throw Unsupported(std::string("[arange] no kernel for dtype ") + dtype_name(out.dtype));
  }
}

}  // namespace

std::unique_ptr<Kernel> make_copy(const hal_op &op) {
  const hal_operand &x = op.operands[0], &y = op.operands[1];
  const int64_t size = dtype_size(y.dtype);
  const bool same_shape = !(x.flags & HAL_OPERAND_IMMEDIATE) && x.rank == y.rank && std::equal(x.dims, x.dims + x.rank, y.dims);
  if (same_shape) {
    int64_t dims[HAL_MAX_RANK];
    Walk out{}, in{};
    for (uint32_t d = 0; d < y.rank; ++d) {
      dims[d] = y.dims[d];
      out.strides[d] = y.strides[d] * size;
      in.strides[d] = x.strides[d] * size;
    }
    Walk *walks[] = {&out, &in};
    const int rank = merge_dimensions(int(y.rank), dims, walks, 2, true);
    const int64_t total = element_count(y);
    if (rank == 1 && (total <= 1 || (out.strides[0] == size && in.strides[0] == size))) return std::make_unique<FlatCopy>(total * size);
    if (rank > 1 && out.strides[rank - 1] == size && in.strides[rank - 1] != size)
      for (int d = 0; d < rank - 1; ++d)
        if (in.strides[d] == size && dims[d] >= 4) return make_transposed(size, rank, dims, out, in, d);
  }
  return make_elementwise({1, op.operands, {y.dtype, y.dtype}, &move_loops(y.dtype), kMoveGrain, op.name});
}

void add_data(KernelRows &rows) {
  const uint32_t all = ((1u << HAL_DTYPE_COUNT) - 1) & ~1u;
  rows.push_back({"copy", all, make_copy_checked});
  rows.push_back({"fill", all, make_fill});
  rows.push_back({"arange", all & ~HAL_DTYPE_BIT(HAL_BOOL), make_arange});
  add_cast(rows);
}

}  // namespace cpu
