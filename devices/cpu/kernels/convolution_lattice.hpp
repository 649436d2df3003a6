// The output pixels of conv2d or conv2d_input_grad as lattices: all pixels of a lattice use the same taps, in the same order.
#pragma once

#include "convolution.hpp"

namespace cpu {

// One axis: pixel i reads, for each tap, source position i·step + tap.at, and lies at out_first + i·out_step of the output.
struct Axis {
  struct Tap {
    int64_t kernel;  // index into the weight
    int64_t at;
  };
  int64_t count;  // pixels
  int64_t out_first, out_step;
  int64_t step;
  std::vector<Tap> taps;

  bool is_identity(int64_t source_size) const {
    return count == source_size && step == 1 && out_step == 1 && taps.size() == 1 && taps[0].at == 0;
  }
};

inline Axis forward_axis(int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  Axis axis{out, 0, 1, stride, {}};
  for (int64_t k = 0; k < kernel; ++k) axis.taps.push_back({k, k * dilation - padding});
  return axis;
}

// The positions i of the input with (i + padding) mod stride = phase: a stride leaves each of them its own taps.
inline Axis gradient_axis(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, int64_t phase) {
  const int64_t first = ((phase - padding) % stride + stride) % stride;
  Axis axis{first < size ? (size - first + stride - 1) / stride : 0, first, stride, 1, {}};
  for (int64_t k = 0; k < kernel; ++k)
    if ((first + padding - k * dilation) % stride == 0) axis.taps.push_back({k, (first + padding - k * dilation) / stride});
  return axis;
}

struct Lattice {
  Axis y, x;
  int64_t taps() const { return int64_t(y.taps.size() * x.taps.size()); }
  int64_t pixels() const { return y.count * x.count; }  // of one image
};

// What conv2d (the forward lattice) or conv2d_input_grad (one lattice per phase of the stride) reads and writes.
struct ConvSource {
  int64_t height, width, channels;  // channels of one group
  Strides4 strides;
};

inline ConvSource conv_source(const ConvShape &s, bool gradient) {
  return gradient ? ConvSource{s.out_h, s.out_w, s.filters, s.y} : ConvSource{s.height, s.width, s.channels, s.x};
}

inline std::vector<Lattice> conv_lattices(const ConvShape &s, bool gradient) {
  if (!gradient)
    return {{forward_axis(s.out_h, s.kernel_h, s.stride_h, s.padding_h, s.dilation_h),
             forward_axis(s.out_w, s.kernel_w, s.stride_w, s.padding_w, s.dilation_w)}};
  std::vector<Lattice> lattices;
  for (int64_t ph = 0; ph < s.stride_h; ++ph)
    for (int64_t pw = 0; pw < s.stride_w; ++pw) {
      lattices.push_back({gradient_axis(s.height, s.kernel_h, s.stride_h, s.padding_h, s.dilation_h, ph),
                          gradient_axis(s.width, s.kernel_w, s.stride_w, s.padding_w, s.dilation_w, pw)});
      if (lattices.back().pixels() == 0) lattices.pop_back();
    }
  return lattices;
}

}  // namespace cpu
