// Loops of one operand on integers and bool.
#define CPU_PICK_bool(...) __VA_ARGS__
#define CPU_PICK_u8(...) __VA_ARGS__
#define CPU_PICK_i8(...) __VA_ARGS__
#define CPU_PICK_i16(...) __VA_ARGS__
#define CPU_PICK_i32(...) __VA_ARGS__
#define CPU_PICK_i64(...) __VA_ARGS__
#include "pointwise.hpp"

namespace cpu {

void add_unary_integer(PointwiseEntries &entries) {
  static constexpr PointwiseEntry kEntries[] = {HAL_POINTWISE_1(CPU_ENTRY_1)};
  entries.insert(entries.end(), std::begin(kEntries), std::end(kEntries));
}

}  // namespace cpu
