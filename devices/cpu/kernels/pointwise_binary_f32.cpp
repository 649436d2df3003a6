// Loops of two operands, computed in f32 (f16, bf16 and f32).
#define CPU_PICK_f32(...) __VA_ARGS__
#include "pointwise.hpp"

namespace cpu {

void add_binary_f32(PointwiseEntries &entries) {
  static constexpr PointwiseEntry kEntries[] = {HAL_POINTWISE_2(CPU_ENTRY_2)};
  entries.insert(entries.end(), std::begin(kEntries), std::end(kEntries));
}

}  // namespace cpu
