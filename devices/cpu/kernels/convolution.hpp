// What the convolution kernels share: one geometry read from any of the three ops.
#pragma once

#include <kernel.hpp>

#include "pack.hpp"

namespace cpu {

// A tensor of rank 4: strides in elements.
struct Strides4 {
  int64_t at[4];
  int64_t operator()(int64_t i, int64_t j, int64_t k, int64_t l) const { return i * at[0] + j * at[1] + k * at[2] + l * at[3]; }
};

// x: (batch, groups·channels, height, width); weight: (groups·filters, channels, kernel_h, kernel_w);
// y, the convolution's output or its gradient: (batch, groups·filters, out_h, out_w).
struct ConvShape {
  int64_t batch, groups, channels, filters;
  int64_t height, width, out_h, out_w, kernel_h, kernel_w;
  int64_t stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  Strides4 x, weight, y;
};

// Channels are read in blocks of 16 (docs/numerics.md, 8).
constexpr int64_t kChannelBlock = 16;

// Blocks of 16 channels to a chunk.
inline int64_t blocks_per_chunk(const ConvShape &s) { return std::max<int64_t>(1, 512 / (kChannelBlock * s.kernel_h * s.kernel_w)); }

// Which operand of the op is x, weight and y. Throws Invalid.
ConvShape conv_shape(const hal_op &op, int x, int weight, int y);

// Groups of few channels: convolution_rows.cpp. `general` runs what it can't. The unnamed value names the storage type.
std::unique_ptr<Kernel> make_conv_rows(const ConvShape &s, bool gradient, float, std::unique_ptr<Kernel> general);
std::unique_ptr<Kernel> make_conv_rows(const ConvShape &s, bool gradient, double, std::unique_ptr<Kernel> general);
std::unique_ptr<Kernel> make_conv_rows(const ConvShape &s, bool gradient, f16, std::unique_ptr<Kernel> general);
std::unique_ptr<Kernel> make_conv_rows(const ConvShape &s, bool gradient, bf16, std::unique_ptr<Kernel> general);

std::unique_ptr<Kernel> make_conv2d(const hal_op &op);
std::unique_ptr<Kernel> make_conv2d_input_grad(const hal_op &op);
std::unique_ptr<Kernel> make_conv2d_weight_grad(const hal_op &op);

}  // namespace cpu
