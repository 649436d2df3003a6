// max_pool2d, its backward and its gather (docs/numerics.md, 9): one plane of one image is one task.
#include <kernel.hpp>

#include <limits>

#include "pack.hpp"

namespace cpu {
namespace {

std::string dims_text(const hal_operand &o) {
  std::string text = "(";
  for (uint32_t i = 0; i < o.rank; ++i) text += (i ? ", " : "") + std::to_string(o.dims[i]);
  return text + ")";
}

// Planes of a tensor of rank 4.
struct Planes {
  int64_t batch, channels, height, width;
  int64_t n, c, y, x;  // strides
  explicit Planes(const hal_operand &o)
      : batch(o.dims[0]),
        channels(o.dims[1]),
        height(o.dims[2]),
        width(o.dims[3]),
        n(o.strides[0]),
        c(o.strides[1]),
        y(o.strides[2]),
        x(o.strides[3]) {}
  int64_t count() const { return batch * channels; }
  int64_t at(int64_t plane) const { return plane / channels * n + plane % channels * c; }
  int64_t size() const { return height * width; }
};

void check_planes(const hal_op &op, int first, int second) {
  const hal_operand &a = op.operands[first], &b = op.operands[second];
  if (a.rank != 4 || b.rank != 4 || a.dims[0] != b.dims[0] || a.dims[1] != b.dims[1])
    throw Invalid(std::string("[") + op.name + "] shapes: got " + dims_text(a) + " and " + dims_text(b) +
                  ", expected rank 4 and equal batch and channels");
}

void check_equal(const hal_op &op, int first, int second) {
  check_planes(op, first, second);
  const hal_operand &a = op.operands[first], &b = op.operands[second];
  if (a.dims[2] != b.dims[2] || a.dims[3] != b.dims[3])
    throw Invalid(std::string("[") + op.name + "] shapes: got " + dims_text(a) + " and " + dims_text(b) + ", expected equal shapes");
}

int64_t grain(int64_t work_per_plane) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work_per_plane)); }

[[noreturn]] void bad_index(const char *op, int64_t index, int64_t size) {
  throw OutOfRange(std::string("[") + op + "] index out of range: got " + std::to_string(index) + ", expected 0 to " +
                   std::to_string(size - 1));
}

template <class S>
class MaxPool final : public Kernel {
 public:
  explicit MaxPool(const hal_op &op)
      : x_(op.operands[0]), out_(op.operands[1]), indices_(op.operands[2]), a_(attributes<hal_attributes_max_pool2d>(op)) {
    check_planes(op, 0, 1);
    check_equal(op, 1, 2);
    const std::string prefix = std::string("[") + op.name + "] ";
    const int64_t size[2] = {x_.height, x_.width}, out[2] = {out_.height, out_.width};
    for (int i = 0; i < 2; ++i) {
      const int64_t limit = int64_t{1} << 31;
      if (a_.kernel[i] < 1 || a_.stride[i] < 1 || a_.dilation[i] < 1 || a_.padding[i] < 0 || a_.kernel[i] > limit || a_.stride[i] > limit ||
          a_.dilation[i] > limit)
        throw Invalid(prefix + "kernel " + std::to_string(a_.kernel[i]) + ", stride " + std::to_string(a_.stride[i]) + ", dilation " +
                      std::to_string(a_.dilation[i]) + ", padding " + std::to_string(a_.padding[i]) +
                      ": expected kernel, stride, dilation ≥ 1, padding ≥ 0");
      const int64_t half = (a_.dilation[i] * (a_.kernel[i] - 1) + 1) / 2;
      if (a_.padding[i] > half)
        throw Invalid(prefix + "padding: got " + std::to_string(a_.padding[i]) + ", expected at most half the window, " +
                      std::to_string(half));
      const int64_t room = size[i] + 2 * a_.padding[i] - a_.dilation[i] * (a_.kernel[i] - 1) - 1;
      int64_t expected = room < 0 ? 0 : (room + (a_.ceil_mode ? a_.stride[i] - 1 : 0)) / a_.stride[i] + 1;
      // A window that begins beyond the input and its left padding is left out.
      if (a_.ceil_mode && expected > 0 && (expected - 1) * a_.stride[i] >= size[i] + a_.padding[i]) --expected;
      if (expected < 1 || out[i] != expected)
        throw Invalid(prefix + "output size along axis " + std::to_string(2 + i) + ": got " + std::to_string(out[i]) + ", expected " +
                      std::to_string(expected));
    }
  }

  void run(void *const *data, void *) const override {
    const S *x = static_cast<const S *>(data[0]);
    S *out = static_cast<S *>(data[1]);
    int64_t *indices = static_cast<int64_t *>(data[2]);
    parallel_for(x_.count(), grain(out_.size() * a_.kernel[0] * a_.kernel[1]), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) plane(x + x_.at(p), out + out_.at(p), indices ? indices + indices_.at(p) : nullptr);
    });
  }

 private:
  // First k with first + k·dilation ≥ 0, and first beyond the end.
  struct Range {
    int64_t begin, end;
  };
  static Range inside(int64_t first, int64_t kernel, int64_t dilation, int64_t size) {
    const int64_t begin = first < 0 ? (-first + dilation - 1) / dilation : 0;
    const int64_t end = first < size ? std::min(kernel, (size - first + dilation - 1) / dilation) : 0;
    return {begin, end};
  }

  void plane(const S *x, S *out, int64_t *indices) const {
    for (int64_t oh = 0; oh < out_.height; ++oh) {
      const int64_t y0 = oh * a_.stride[0] - a_.padding[0];
      const Range rows = inside(y0, a_.kernel[0], a_.dilation[0], x_.height);
      for (int64_t ow = 0; ow < out_.width; ++ow) {
        const int64_t x0 = ow * a_.stride[1] - a_.padding[1];
        const Range columns = inside(x0, a_.kernel[1], a_.dilation[1], x_.width);
        compute_t<S> largest = -std::numeric_limits<compute_t<S>>::infinity();  // of a window that dilation leaves empty
        int64_t at = -1;
        for (int64_t kh = rows.begin; kh < rows.end; ++kh)
          for (int64_t kw = columns.begin; kw < columns.end; ++kw) {
            const int64_t y = y0 + kh * a_.dilation[0], z = x0 + kw * a_.dilation[1];
            const compute_t<S> value = widen(x[y * x_.y + z * x_.x]);
            // The first NaN wins over all: nothing is larger than it, and it replaces anything but a NaN.
            if (at < 0 || value > largest || (value != value && largest == largest)) {
              largest = value;
              at = y * x_.width + z;
            }
          }
        out[oh * out_.y + ow * out_.x] = at < 0 ? narrow<S>(largest) : x[at / x_.width * x_.y + at % x_.width * x_.x];
        if (indices) indices[oh * indices_.y + ow * indices_.x] = std::max<int64_t>(at, 0);
      }
    }
  }

  Planes x_, out_, indices_;
  hal_attributes_max_pool2d a_;
};

thread_local Scratch sums;

template <class S>
class MaxPoolBackward final : public Kernel {
 public:
  explicit MaxPoolBackward(const hal_op &op) : grad_(op.operands[0]), indices_(op.operands[1]), out_(op.operands[2]) {
    check_equal(op, 0, 1);
    check_planes(op, 0, 2);
  }

  void run(void *const *data, void *) const override {
    using T = compute_t<S>;
    const S *g = static_cast<const S *>(data[0]);
    const int64_t *indices = static_cast<const int64_t *>(data[1]);
    S *out = static_cast<S *>(data[2]);
    // Looked at before anything is written; also, no exception then crosses the pool.
    check_indices("max_pool2d_backward", indices, indices_, out_.size());
    parallel_for(out_.count(), grain(out_.size() + grad_.size()), [&](int64_t begin, int64_t end) {
      T *sum = sums.get<T>(out_.size());
      for (int64_t p = begin; p < end; ++p) {
        std::fill(sum, sum + out_.size(), T(0));
        const S *gp = g + grad_.at(p);
        const int64_t *ip = indices + indices_.at(p);
        for (int64_t y = 0; y < grad_.height; ++y)
          for (int64_t x = 0; x < grad_.width; ++x) sum[ip[y * indices_.y + x * indices_.x]] += T(widen(gp[y * grad_.y + x * grad_.x]));
        store_block(Matrix<S>{out + out_.at(p), out_.y, out_.x}, sum, out_.width, out_.height, out_.width);
      }
    });
  }

  static void check_indices(const char *op, const int64_t *indices, const Planes &s, int64_t size) {
    for (int64_t p = 0; p < s.count(); ++p)
      for (int64_t y = 0; y < s.height; ++y)
        for (int64_t x = 0; x < s.width; ++x) {
          const int64_t i = indices[s.at(p) + y * s.y + x * s.x];
          if (uint64_t(i) >= uint64_t(size)) bad_index(op, i, size);
        }
  }

 private:
  Planes grad_, indices_, out_;
};

template <class S>
class MaxPoolGather final : public Kernel {
 public:
  explicit MaxPoolGather(const hal_op &op) : x_(op.operands[0]), indices_(op.operands[1]), out_(op.operands[2]) {
    check_planes(op, 0, 1);
    check_equal(op, 1, 2);
  }

  void run(void *const *data, void *) const override {
    const S *x = static_cast<const S *>(data[0]);
    const int64_t *indices = static_cast<const int64_t *>(data[1]);
    S *out = static_cast<S *>(data[2]);
    MaxPoolBackward<S>::check_indices("max_pool2d_gather", indices, indices_, x_.size());
    parallel_for(out_.count(), grain(out_.size()), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        for (int64_t i = 0; i < out_.height; ++i)
          for (int64_t j = 0; j < out_.width; ++j) {
            const int64_t at = indices[indices_.at(p) + i * indices_.y + j * indices_.x];
            out[out_.at(p) + i * out_.y + j * out_.x] = x[x_.at(p) + at / x_.width * x_.y + at % x_.width * x_.x];
          }
    });
  }

 private:
  Planes x_, indices_, out_;
};

template <template <class> class K>
std::unique_ptr<Kernel> make(const hal_op &op) {
  switch (op.operands[0].dtype) {
    case HAL_F16:
      return std::make_unique<K<f16>>(op);
    case HAL_BF16:
      return std::make_unique<K<bf16>>(op);
    case HAL_F64:
      return std::make_unique<K<double>>(op);
    default:
      return std::make_unique<K<float>>(op);
  }
}

}  // namespace

void add_pooling(KernelRows &rows) {
  const uint32_t floats = HAL_DTYPE_BIT(HAL_F16) | HAL_DTYPE_BIT(HAL_BF16) | HAL_DTYPE_BIT(HAL_F32) | HAL_DTYPE_BIT(HAL_F64);
  rows.push_back({"max_pool2d", floats, make<MaxPool>});
  rows.push_back({"max_pool2d_backward", floats, make<MaxPoolBackward>});
  rows.push_back({"max_pool2d_gather", floats, make<MaxPoolGather>});
}

}  // namespace cpu
