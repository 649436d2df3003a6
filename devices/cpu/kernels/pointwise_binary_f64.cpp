// Loops of two operands, computed in f64.
#define CPU_PICK_f64(...) __VA_ARGS__
#include "pointwise.hpp"

namespace cpu {

void add_binary_f64(PointwiseEntries &entries) {
  static constexpr PointwiseEntry kEntries[] = {HAL_POINTWISE_2(CPU_ENTRY_2)};
  entries.insert(entries.end(), std::begin(kEntries), std::end(kEntries));
}

}  // namespace cpu
