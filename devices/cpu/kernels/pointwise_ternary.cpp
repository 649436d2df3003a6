// Loops of three operands, all dtypes.
#define CPU_PICK_bool(...) __VA_ARGS__
#define CPU_PICK_u8(...) __VA_ARGS__
#define CPU_PICK_i8(...) __VA_ARGS__
#define CPU_PICK_i16(...) __VA_ARGS__
#define CPU_PICK_i32(...) __VA_ARGS__
#define CPU_PICK_i64(...) __VA_ARGS__
#define CPU_PICK_f32(...) __VA_ARGS__
#define CPU_PICK_f64(...) __VA_ARGS__
#include "pointwise.hpp"

namespace cpu {

void add_ternary(PointwiseEntries &entries) {
  static constexpr PointwiseEntry kEntries[] = {HAL_POINTWISE_3(CPU_ENTRY_3)};
  entries.insert(entries.end(), std::begin(kEntries), std::end(kEntries));
}

}  // namespace cpu
