// Loops of one operand, computed in f32 (f16, bf16 and f32).
#define CPU_PICK_f32(...) __VA_ARGS__
#include "pointwise.hpp"

namespace cpu {

void add_unary_f32(PointwiseEntries &entries) {
  static constexpr PointwiseEntry kEntries[] = {HAL_POINTWISE_1(CPU_ENTRY_1)};
  entries.insert(entries.end(), std::begin(kEntries), std::end(kEntries));
}

}  // namespace cpu
