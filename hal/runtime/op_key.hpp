// Private to the runtime: building the key of one use of an op. On the hot path of every op, so all of it is inline.
#pragma once

#include "executable_cache.hpp"

namespace hal {

inline uint64_t mix(uint64_t a, uint64_t b) {
  const __uint128_t product = static_cast<__uint128_t>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// False if the attributes are too long to be keyed.
inline bool build_key(OpKey &key, const Device &device, uint32_t id, hal_numerics numerics, const hal_operand *operands,
                      uint32_t num_inputs, uint32_t num_outputs, const void *attributes) {
  uint64_t *w = key.words;
  *w++ = id | uint64_t(numerics) << 32 | uint64_t(num_inputs) << 40 | uint64_t(num_outputs) << 48 | uint64_t(attributes != nullptr) << 56;
  *w++ = device.slot();
  const uint32_t count = num_inputs + num_outputs;
  for (uint32_t i = 0; i < count; ++i) {
    const hal_operand &o = operands[i];
    *w++ = uint64_t(uint32_t(o.layout)) << 32 | o.flags << 16 | uint64_t(uint32_t(o.dtype)) << 8 | o.rank;
    for (uint32_t d = 0; d < o.rank; ++d) *w++ = uint64_t(o.dims[d]);
    for (uint32_t d = 0; d < o.rank; ++d) *w++ = uint64_t(o.strides[d]);
  }
  if (attributes) {
    const uint32_t size = *static_cast<const uint32_t *>(attributes);
    if (size > OpKey::kMaxAttributeWords * 8 || size < 4) return false;
    w[(size - 1) / 8] = 0;  // the last word may be filled in part
    std::memcpy(w, attributes, size);
    w += (size + 7) / 8;
  }
  key.count = uint32_t(w - key.words);
  *w = 0;
  uint64_t h = key.count;
  for (const uint64_t *p = key.words; p < w; p += 2) h = mix(p[0] ^ h ^ 0xa0761d6478bd642fu, p[1] ^ 0xe7037ed1a0b428dbu);
  key.hash = h;
  return true;
}

}  // namespace hal
