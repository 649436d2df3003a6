// Section 7, matmul, and section 8, conv2d and its gradients: chains of fma.
#include "reference.hpp"

namespace reference {
namespace {

constexpr int64_t kChunk = 512;
constexpr int64_t kChannels = 16;
constexpr int64_t kGroup = 16;  // chunks per group of the weight gradient

// Products in order, cut into chunks; chunk sums added in order.
template <class F>
class Chain {
 public:
  void product(F a, F b) { chunk_ = std::fma(a, b, chunk_); }
  void end_chunk() {
    const F value = chunk_ + F(0);
    total_ = first_ ? value : total_ + value;
    first_ = false;
    chunk_ = F(0);
  }
  F result() const { return total_; }

 private:
  F chunk_ = F(0), total_ = F(0);
  bool first_ = true;
};

// Integers: exact modulo 2^64.
template <>
class Chain<uint64_t> {
 public:
  void product(uint64_t a, uint64_t b) { total_ += a * b; }
  void end_chunk() {}
  uint64_t result() const { return total_; }

 private:
  uint64_t total_ = 0;
};

// (batch, M, K) × (batch, K, N)
template <class F>
Array<F> matmul(const Array<F> &a, const Array<F> &b) {
  DefaultFloatMode mode;
  require(a.ndim() == 3 && b.ndim() == 3 && a.shape(0) == b.shape(0) && a.shape(2) == b.shape(1), "matmul: shapes don't fit");
  const int64_t batch = a.shape(0), rows = a.shape(1), depth = a.shape(2), columns = b.shape(2);
  Array<F> out({batch, rows, columns});
  const auto A = a.template unchecked<3>();
  const auto B = b.template unchecked<3>();
  auto O = out.template mutable_unchecked<3>();
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        Chain<F> chain;
        for (int64_t k = 0; k < depth; ++k) {
          chain.product(A(n, i, k), B(n, k, j));
          if ((k + 1) % kChunk == 0 || k + 1 == depth) chain.end_chunk();
        }
        O(n, i, j) = chain.result();
      }
  return out;
}

struct Geometry {
  int64_t stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, groups;
};

// Blocks of 16 channels per chunk.
int64_t blocks_per_chunk(int64_t kh, int64_t kw) { return std::max<int64_t>(1, kChunk / (kChannels * kh * kw)); }

// Calls product(c, kh, kw) for every c < channels and tap in the order (c div 16, kh, kw, c mod 16), and end_chunk() after each chunk.
template <class Product, class EndChunk>
void in_channel_order(int64_t channels, int64_t KH, int64_t KW, Product product, EndChunk end_chunk) {
  const int64_t blocks = (channels + kChannels - 1) / kChannels, per_chunk = blocks_per_chunk(KH, KW);
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t kh = 0; kh < KH; ++kh)
      for (int64_t kw = 0; kw < KW; ++kw)
        for (int64_t c = block * kChannels; c < std::min(channels, (block + 1) * kChannels); ++c) product(c, kh, kw);
    if ((block + 1) % per_chunk == 0 || block + 1 == blocks) end_chunk();
  }
}

// x (N, C, H, W), w (O, C/groups, KH, KW) -> (N, O, OH, OW)
template <class F>
Array<F> conv2d(const Array<F> &x, const Array<F> &w, const Geometry &g, int64_t OH, int64_t OW) {
  DefaultFloatMode mode;
  const int64_t N = x.shape(0), H = x.shape(2), W = x.shape(3), O = w.shape(0), CG = w.shape(1), KH = w.shape(2), KW = w.shape(3);
  require(x.shape(1) == CG * g.groups && O % g.groups == 0, "conv2d: channels don't fit the groups");
  const int64_t OG = O / g.groups;
  Array<F> out({N, O, OH, OW});
  const auto X = x.template unchecked<4>();
  const auto K = w.template unchecked<4>();
  auto Y = out.template mutable_unchecked<4>();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t o = 0; o < O; ++o)
      for (int64_t oh = 0; oh < OH; ++oh)
        for (int64_t ow = 0; ow < OW; ++ow) {
          Chain<F> chain;
          const int64_t first_channel = o / OG * CG;
          in_channel_order(
              CG, KH, KW,
              [&](int64_t c, int64_t kh, int64_t kw) {
                const int64_t ih = oh * g.stride_h - g.padding_h + kh * g.dilation_h;
                const int64_t iw = ow * g.stride_w - g.padding_w + kw * g.dilation_w;
                const bool inside = ih >= 0 && ih < H && iw >= 0 && iw < W;
                chain.product(inside ? X(n, first_channel + c, ih, iw) : F(0), K(o, c, kh, kw));
              },
              [&] { chain.end_chunk(); });
          Y(n, o, oh, ow) = chain.result();
        }
  return out;
}

// Output position that reads `i` through tap `k`, or -1.
int64_t reader(int64_t i, int64_t k, int64_t stride, int64_t padding, int64_t dilation, int64_t outputs) {
  const int64_t numerator = i + padding - k * dilation;
  if (numerator < 0 || numerator % stride != 0 || numerator / stride >= outputs) return -1;
  return numerator / stride;
}

// g (N, O, OH, OW), w (O, C/groups, KH, KW) -> (N, C, H, W)
template <class F>
Array<F> conv2d_input_grad(const Array<F> &grad, const Array<F> &w, const Geometry &g, int64_t H, int64_t W) {
  DefaultFloatMode mode;
  const int64_t N = grad.shape(0), O = grad.shape(1), OH = grad.shape(2), OW = grad.shape(3);
  const int64_t CG = w.shape(1), KH = w.shape(2), KW = w.shape(3), OG = O / g.groups, C = CG * g.groups;
  require(w.shape(0) == O && O % g.groups == 0, "conv2d_input_grad: channels don't fit the groups");
  Array<F> out({N, C, H, W});
  const auto G = grad.template unchecked<4>();
  const auto K = w.template unchecked<4>();
  auto X = out.template mutable_unchecked<4>();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < C; ++c)
      for (int64_t ih = 0; ih < H; ++ih)
        for (int64_t iw = 0; iw < W; ++iw) {
          Chain<F> chain;
          const int64_t first_output = c / CG * OG;
          in_channel_order(
              OG, KH, KW,
              [&](int64_t o, int64_t kh, int64_t kw) {
                const int64_t oh = reader(ih, kh, g.stride_h, g.padding_h, g.dilation_h, OH);
                const int64_t ow = reader(iw, kw, g.stride_w, g.padding_w, g.dilation_w, OW);
                if (oh >= 0 && ow >= 0) chain.product(G(n, first_output + o, oh, ow), K(first_output + o, c % CG, kh, kw));
              },
              [&] { chain.end_chunk(); });
          X(n, c, ih, iw) = chain.result();
        }
  return out;
}

// Sum in ascending order; nothing gives +0.
template <class F>
F add_in_order(const std::vector<F> &values) {
  if (values.empty()) return F(0);
  F total = values[0];
  for (size_t i = 1; i < values.size(); ++i) total = total + values[i];
  return total;
}

// g (N, O, OH, OW), x (N, C, H, W) -> (O, C/groups, KH, KW)
template <class F>
Array<F> conv2d_weight_grad(const Array<F> &grad, const Array<F> &x, const Geometry &g, int64_t KH, int64_t KW) {
  DefaultFloatMode mode;
  const int64_t N = grad.shape(0), O = grad.shape(1), OH = grad.shape(2), OW = grad.shape(3);
  const int64_t C = x.shape(1), H = x.shape(2), W = x.shape(3), CG = C / g.groups, OG = O / g.groups;
  require(x.shape(0) == N && C % g.groups == 0 && O % g.groups == 0, "conv2d_weight_grad: channels don't fit the groups");
  Array<F> out({O, CG, KH, KW});
  const auto G = grad.template unchecked<4>();
  const auto X = x.template unchecked<4>();
  auto K = out.template mutable_unchecked<4>();
  const int64_t rows = OW == 0 ? 0 : N * OH, rows_per_chunk = OW == 0 ? 1 : std::max<int64_t>(1, kChunk / OW);
  for (int64_t o = 0; o < O; ++o)
    for (int64_t c = 0; c < CG; ++c)
      for (int64_t kh = 0; kh < KH; ++kh)
        for (int64_t kw = 0; kw < KW; ++kw) {
          std::vector<F> chunks;
          for (int64_t begin = 0; begin < rows; begin += rows_per_chunk) {
            Chain<F> chain;
            for (int64_t r = begin; r < std::min(rows, begin + rows_per_chunk); ++r)
              for (int64_t ow = 0; ow < OW; ++ow) {
                const int64_t n = r / OH, oh = r % OH;
                const int64_t ih = oh * g.stride_h - g.padding_h + kh * g.dilation_h;
                const int64_t iw = ow * g.stride_w - g.padding_w + kw * g.dilation_w;
                const bool inside = ih >= 0 && ih < H && iw >= 0 && iw < W;
                chain.product(G(n, o, oh, ow), inside ? X(n, o / OG * CG + c, ih, iw) : F(0));
              }
            chain.end_chunk();
            chunks.push_back(chain.result());
          }
          std::vector<F> groups;
          for (size_t begin = 0; begin < chunks.size(); begin += kGroup)
            groups.push_back(
                add_in_order(std::vector<F>(chunks.begin() + static_cast<std::ptrdiff_t>(begin),
                                            chunks.begin() + static_cast<std::ptrdiff_t>(std::min(chunks.size(), begin + kGroup)))));
          K(o, c, kh, kw) = add_in_order(groups);
        }
  return out;
}

template <class F>
void bind_convolutions(py::module_ &m) {
  const auto a = py::arg("a").noconvert(), b = py::arg("b").noconvert();
  m.def("matmul", &matmul<F>, a, b);
  m.def("conv2d", &conv2d<F>, a, b, py::arg("geometry"), py::arg("out_h"), py::arg("out_w"));
  m.def("conv2d_input_grad", &conv2d_input_grad<F>, a, b, py::arg("geometry"), py::arg("height"), py::arg("width"));
  m.def("conv2d_weight_grad", &conv2d_weight_grad<F>, a, b, py::arg("geometry"), py::arg("kernel_h"), py::arg("kernel_w"));
}

}  // namespace

void bind_chains(py::module_ &m) {
  py::class_<Geometry>(m, "Geometry")
      .def(py::init([](int64_t sh, int64_t sw, int64_t ph, int64_t pw, int64_t dh, int64_t dw, int64_t groups) {
        return Geometry{sh, sw, ph, pw, dh, dw, groups};
      }));
  bind_convolutions<float>(m);
  bind_convolutions<double>(m);
  m.def("matmul", &matmul<uint64_t>, py::arg("a").noconvert(), py::arg("b").noconvert());
}

}  // namespace reference
