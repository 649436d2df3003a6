// Loops of one operand, computed in f64.
#define CPU_PICK_f64(...) __VA_ARGS__
#include "pointwise.hpp"

namespace cpu {

void add_unary_f64(PointwiseEntries &entries) {
  static constexpr PointwiseEntry kEntries[] = {HAL_POINTWISE_1(CPU_ENTRY_1)};
  entries.insert(entries.end(), std::begin(kEntries), std::end(kEntries));
}

}  // namespace cpu
