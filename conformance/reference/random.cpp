// Section 10, random numbers: Philox4x32-10 written out, and what is made of its words.
#include <hal/numerics/numerics.h>

#include "reference.hpp"

namespace reference {
namespace {

struct Block {
  uint32_t word[4];
};

// Salmon, Moraes, Dror, Shaw, SC 2011: ten rounds; the key grows by the Weyl constants between rounds.
Block philox(Block counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t(0xD2511F53u) * counter.word[0];
    const uint64_t product1 = uint64_t(0xCD9E8D57u) * counter.word[2];
    const uint32_t high0 = static_cast<uint32_t>(product0 >> 32), low0 = static_cast<uint32_t>(product0);
    const uint32_t high1 = static_cast<uint32_t>(product1 >> 32), low1 = static_cast<uint32_t>(product1);
    counter = Block{{high1 ^ counter.word[1] ^ key0, low1, high0 ^ counter.word[3] ^ key1, low0}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

uint32_t word(uint64_t seed, uint64_t k) {
  const uint64_t block = k / 4;
  const Block counter{{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}};
  return philox(counter, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)).word[k % 4];
}

// 53 bits of words k and k + 1.
uint64_t bits53(uint64_t seed, uint64_t k) { return ((uint64_t(word(seed, k)) << 32) + word(seed, k + 1)) >> 11; }

float unit32(uint32_t w) { return static_cast<float>(w >> 8) * 0x1p-24f; }

Array<float> uniform32(uint64_t seed, uint64_t offset, float low, float high, int64_t n, const std::string &dtype) {
  DefaultFloatMode mode;
  Array<float> out(n);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t w = word(seed, offset + static_cast<uint64_t>(i));
    float u;
    if (dtype == "f16")
      u = static_cast<float>(w >> 21) * 0x1p-11f;
    else if (dtype == "bf16")
      u = static_cast<float>(w >> 24) * 0x1p-8f;
    else
      u = unit32(w);
    const float range = high - low;
    const float scaled = u * range;
    out.mutable_data()[i] = low + scaled;
  }
  return out;
}

Array<double> uniform64(uint64_t seed, uint64_t offset, double low, double high, int64_t n) {
  DefaultFloatMode mode;
  Array<double> out(n);
  for (int64_t i = 0; i < n; ++i) {
    const double u = static_cast<double>(bits53(seed, offset + 2 * static_cast<uint64_t>(i))) * 0x1p-53;
    const double range = high - low;
    const double scaled = u * range;
    out.mutable_data()[i] = low + scaled;
  }
  return out;
}

Array<float> normal32(uint64_t seed, uint64_t offset, float mean, float std, int64_t n) {
  DefaultFloatMode mode;
  Array<float> out(n);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t pair = offset + static_cast<uint64_t>(i / 2 * 2);
    const float u1 = static_cast<float>((word(seed, pair) >> 8) + 1) * 0x1p-24f;
    const float u2 = unit32(word(seed, pair + 1));
    const float r = std::sqrt(-2.0f * hal_log_f32(u1));
    const float angle = 2.0f * u2;
    const float z = r * (i % 2 == 0 ? hal_cospi_f32(angle) : hal_sinpi_f32(angle));
    const float scaled = std * z;
    out.mutable_data()[i] = mean + scaled;
  }
  return out;
}

Array<double> normal64(uint64_t seed, uint64_t offset, double mean, double std, int64_t n) {
  DefaultFloatMode mode;
  Array<double> out(n);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t pair = offset + static_cast<uint64_t>(i / 2 * 4);
    const double u1 = static_cast<double>(bits53(seed, pair) + 1) * 0x1p-53;
    const double u2 = static_cast<double>(bits53(seed, pair + 2)) * 0x1p-53;
    const double r = std::sqrt(-2.0 * hal_log_f64(u1));
    const double angle = 2.0 * u2;
    const double z = r * (i % 2 == 0 ? hal_cospi_f64(angle) : hal_sinpi_f64(angle));
    const double scaled = std * z;
    out.mutable_data()[i] = mean + scaled;
  }
  return out;
}

Array<bool> bernoulli(uint64_t seed, uint64_t offset, float p, int64_t n) {
  DefaultFloatMode mode;
  Array<bool> out(n);
  for (int64_t i = 0; i < n; ++i) out.mutable_data()[i] = unit32(word(seed, offset + static_cast<uint64_t>(i))) < p;
  return out;
}

Array<int64_t> integer(uint64_t seed, uint64_t offset, int64_t low, int64_t high, int64_t n) {
  Array<int64_t> out(n);
  for (int64_t i = 0; i < n; ++i) {
    const unsigned __int128 range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    const uint64_t step = static_cast<uint64_t>((word(seed, offset + static_cast<uint64_t>(i)) * range) >> 32);
    out.mutable_data()[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + step);
  }
  return out;
}

// start + C(i)·step
template <class C>
Array<C> arange(C start, C step, int64_t n) {
  DefaultFloatMode mode;
  Array<C> out(n);
  for (int64_t i = 0; i < n; ++i) {
    const C product = static_cast<C>(i) * step;
    out.mutable_data()[i] = start + product;
  }
  return out;
}

}  // namespace

void bind_random(py::module_ &m) {
  m.def("philox_word", &word);
  m.def("philox", [](uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
    const Block b = philox(Block{{c0, c1, c2, c3}}, k0, k1);
    return py::make_tuple(b.word[0], b.word[1], b.word[2], b.word[3]);
  });
  m.def("uniform32", &uniform32);
  m.def("uniform64", &uniform64);
  m.def("normal32", &normal32);
  m.def("normal64", &normal64);
  m.def("bernoulli", &bernoulli);
  m.def("integer", &integer);
  m.def("arange_f32", &arange<float>);
  m.def("arange_f64", &arange<double>);
  m.def("arange_u64", &arange<uint64_t>);
}

}  // namespace reference
