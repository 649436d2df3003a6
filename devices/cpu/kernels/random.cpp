// random_*: docs/numerics.md, section 10. Philox in vectors of blocks; an element depends on seed, offset and its index alone, so any cut
// of the elements gives the same numbers.
#include "reduce.hpp"

namespace cpu {
namespace {

using namespace reduce;

constexpr int64_t kChunk = 1024;  // elements at once: a multiple of 4
constexpr int kVector = 16;       // Philox blocks at once

// Words [first, first + n) of the seed's stream, first a multiple of 4, n rounded up to 4 * kVector in `words`.
__attribute__((noinline)) void philox_words(uint64_t seed, uint64_t first, int64_t n, uint32_t *__restrict words) {
  for (int64_t w = 0; w < n; w += 4 * kVector) {
    const uint64_t block = first / 4 + uint64_t(w / 4);
    hal_u32 c0[kVector], c1[kVector], c2[kVector], c3[kVector];
    for (int i = 0; i < kVector; ++i) {
      c0[i] = hal_u32(block + uint64_t(i));
      c1[i] = hal_u32((block + uint64_t(i)) >> 32);
      c2[i] = c3[i] = 0;
    }
    hal_u32 k0 = hal_u32(seed), k1 = hal_u32(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < kVector; ++i) {
        const hal_u64 p0 = hal_u64(0xD2511F53u) * c0[i], p1 = hal_u64(0xCD9E8D57u) * c2[i];
        c0[i] = hal_u32(p1 >> 32) ^ c1[i] ^ k0;
        c2[i] = hal_u32(p0 >> 32) ^ c3[i] ^ k1;
        c1[i] = hal_u32(p1);
        c3[i] = hal_u32(p0);
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < kVector; ++i) {
      words[w + 4 * i] = c0[i];
      words[w + 4 * i + 1] = c1[i];
      words[w + 4 * i + 2] = c2[i];
      words[w + 4 * i + 3] = c3[i];
    }
  }
}

// The loops from words to elements; n elements, C the scalars' type. `words` reach beyond n to whole blocks.
template <int D>
struct Uniform {
  using C = typename Element<D>::C;
  static constexpr int kWords = D == HAL_F64 ? 2 : 1;  // per element
  C low, width;
  Uniform(const void *const *data, const hal_op &) : low(*static_cast<const C *>(data[2])), width(*static_cast<const C *>(data[3]) - low) {}
  void operator()(const uint32_t *__restrict w, int64_t n, typename Element<D>::S *__restrict out) const {
    const C low_ = low, width_ = width;
    for (int64_t i = 0; i < n; ++i) {
      C u;
      if constexpr (D == HAL_F64)
        u = hal_uniform_f64(w[2 * i], w[2 * i + 1]);
      else if constexpr (D == HAL_F32)
        u = hal_uniform_f32(w[i]);
      else if constexpr (D == HAL_F16)
        u = hal_uniform_f16(w[i]);
      else
        u = hal_uniform_bf16(w[i]);
      out[i] = Element<D>::store(low_ + u * width_);
    }
  }
};

template <int D>
struct Normal {
  using C = typename Element<D>::C;
  using S = typename Element<D>::S;
  static constexpr int kWords = D == HAL_F64 ? 2 : 1;
  C mean, std;
  Normal(const void *const *data, const hal_op &) : mean(*static_cast<const C *>(data[2])), std(*static_cast<const C *>(data[3])) {}
  void operator()(const uint32_t *__restrict w, int64_t n, S *__restrict out) const {
    C even[kChunk / 2], odd[kChunk / 2];
    const C mean_ = mean, std_ = std;
    const int64_t pairs = (n + 1) / 2;
    for (int64_t p = 0; p < pairs; ++p) {
      C z0, z1;
      if constexpr (D == HAL_F64) {
        const hal_pair_f64 z = hal_normal_pair_f64(w[4 * p], w[4 * p + 1], w[4 * p + 2], w[4 * p + 3]);
        z0 = z.hi, z1 = z.lo;
      } else {
        const hal_pair_f32 z = hal_normal_pair_f32(w[2 * p], w[2 * p + 1]);
        z0 = z.hi, z1 = z.lo;
      }
      even[p] = mean_ + std_ * z0;
      odd[p] = mean_ + std_ * z1;
    }
    for (int64_t p = 0; p < n / 2; ++p) {
      out[2 * p] = Element<D>::store(even[p]);
      out[2 * p + 1] = Element<D>::store(odd[p]);
    }
    if (n % 2) out[n - 1] = Element<D>::store(even[n / 2]);
  }
};

struct Bernoulli {
  static constexpr int kWords = 1;
  float p;
  Bernoulli(const void *const *data, const hal_op &) : p(*static_cast<const float *>(data[2])) {}
  void operator()(const uint32_t *__restrict w, int64_t n, uint8_t *__restrict out) const {
    const float p_ = p;
    for (int64_t i = 0; i < n; ++i) out[i] = hal_uniform_f32(w[i]) < p_;
  }
};

template <int D>
struct Integer {
  static constexpr int kWords = 1;
  uint64_t low, width;
  Integer(const void *const *data, const hal_op &op) {
    const int64_t l = *static_cast<const int64_t *>(data[2]), h = *static_cast<const int64_t *>(data[3]);
    low = uint64_t(l);
    width = uint64_t(h) - low;
    require(l < h && width <= (uint64_t(1) << 32), op,
            "range: got low " + std::to_string(l) + ", high " + std::to_string(h) + ", expected 0 < high - low <= 2**32");
  }
  void operator()(const uint32_t *__restrict w, int64_t n, typename Element<D>::S *__restrict out) const {
    const uint64_t low_ = low, width_ = width;
    for (int64_t i = 0; i < n; ++i) out[i] = Element<D>::from_i64(int64_t(low_ + ((w[i] * width_) >> 32)));
  }
};

// The op's name, kept for errors at run: prepare's hal_op is gone by then.
struct Named {
  std::string name;
  hal_op op() const {
    hal_op o{};
    o.name = name.c_str();
    return o;
  }
};

template <class Fill, class S>
std::unique_ptr<Kernel> make_fill(const hal_op &op, uint32_t inputs) {
  require_operands(op, inputs, 1);
  const hal_operand &out = op.operands[inputs];
  const Axes axes = axes_of({&out});
  const int64_t n = element_count(out);
  return make_kernel([axes, n, inputs, named = Named{op.name}](void *const *data, void *) {
    const uint64_t seed = *static_cast<const uint64_t *>(data[0]), offset = *static_cast<const uint64_t *>(data[1]);
    require(offset % 4 == 0, named.op(), "offset: got " + std::to_string(offset) + ", expected a multiple of 4");
    const Fill fill(data, named.op());
    S *to = static_cast<S *>(data[inputs]);
    const bool dense = axes.count == 0 || (axes.count == 1 && axes.axis[0].stride[0] == 1);
    parallel_for((n + kChunk - 1) / kChunk, 4, [&](int64_t begin, int64_t end) {
      alignas(64) uint32_t words[kChunk * Fill::kWords + 4 * kVector];
      alignas(64) S values[kChunk];
      for (int64_t c = begin; c < end; ++c) {
        const int64_t first = c * kChunk, m = std::min(kChunk, n - first);
        // The last pair may be half used.
        philox_words(seed, offset + uint64_t(first) * Fill::kWords, (m + m % 2) * Fill::kWords, words);
        if (dense) {
          fill(words, m, to + first);
        } else {
          fill(words, m, values);
          const int64_t stride = axes.inner().stride[0];
          for_runs(axes, first, first + m, [&](int64_t at, int64_t length, const int64_t *offset) {
            for (int64_t i = 0; i < length; ++i) to[offset[0] + i * stride] = values[at - first + i];
          });
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_uniform(const hal_op &op) {
  require_operands(op, 4, 1);
  return for_float(op.operands[4].dtype,
                   [&](auto d) { return make_fill<Uniform<decltype(d)::value>, typename Element<decltype(d)::value>::S>(op, 4); });
}
std::unique_ptr<Kernel> make_normal(const hal_op &op) {
  require_operands(op, 4, 1);
  return for_float(op.operands[4].dtype,
                   [&](auto d) { return make_fill<Normal<decltype(d)::value>, typename Element<decltype(d)::value>::S>(op, 4); });
}
std::unique_ptr<Kernel> make_bernoulli(const hal_op &op) { return make_fill<Bernoulli, uint8_t>(op, 3); }
std::unique_ptr<Kernel> make_integer(const hal_op &op) {
  require_operands(op, 4, 1);
  return for_any(op.operands[4].dtype,
                 [&](auto d) { return make_fill<Integer<decltype(d)::value>, typename Element<decltype(d)::value>::S>(op, 4); });
}

}  // namespace

void add_random(KernelRows &rows) {
  rows.push_back({"random_uniform", kFloatBits, make_uniform});
  rows.push_back({"random_normal", kFloatBits, make_normal});
  rows.push_back({"random_bernoulli", HAL_DTYPE_BIT(HAL_BOOL), make_bernoulli});
  rows.push_back({"random_integer", kNumberBits, make_integer});
}

}  // namespace cpu
