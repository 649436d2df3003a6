// The registry of pointwise ops, and the way from an op's operands to its loops.
#include "pointwise.hpp"

#include <map>
#include <string>

namespace cpu {
namespace {

// Entries of each op, by dtype.
using OpEntries = std::vector<const PointwiseEntry *>;
const std::map<std::string, OpEntries> &registry() {
  static const auto &ops = *new std::map<std::string, OpEntries>([] {
    auto &entries = *new PointwiseEntries;
    for (auto add : {add_unary_f32, add_unary_f64, add_unary_integer, add_binary_f32, add_binary_f64, add_binary_integer, add_ternary})
      add(entries);
    std::map<std::string, OpEntries> by_name;
    for (const PointwiseEntry &e : entries) by_name[e.name].push_back(&e);
    return by_name;
  }());
  return ops;
}

// Elements that keep a thread busy for about ten microseconds. A hint: it can't change a result.
int64_t grain_of(const PointwiseEntry &entry) {
  static const char *const functions[] = {"exp",
                                          "exp2",
                                          "expm1",
                                          "log",
                                          "log2",
                                          "log10",
                                          "log1p",
                                          "sin",
                                          "cos",
                                          "tan",
                                          "atan",
                                          "tanh",
                                          "asin",
                                          "acos",
                                          "sinh",
                                          "cosh",
                                          "erfc",
                                          "erfinv",
                                          "atan2",
                                          "erf",
                                          "rsqrt",
                                          "sigmoid",
                                          "silu",
                                          "gelu",
                                          "gelu_tanh",
                                          "softplus",
                                          "silu_backward",
                                          "gelu_backward",
                                          "gelu_tanh_backward"};
  static const char *const slow[] = {"pow", "floor_divide", "remainder", "fmod"};
  const std::string name = entry.name;
  for (const char *f : functions)
    if (name == f) return 4096;
  for (const char *f : slow)
    if (name == f) return 2048;
  return 32768;
}

[[noreturn]] void reject(const hal_op &op, int operand, const std::string &what) {
  throw Invalid(std::string("[") + op.name + "] operand " + std::to_string(operand) + ": " + what);
}

// The dtype that the op works on: the output's, or if that is always bool, the first tensor's.
hal_dtype op_dtype(const hal_op &op, const PointwiseEntry &any) {
  if (!any.is_bool[any.num_inputs]) return op.operands[any.num_inputs].dtype;
  for (int k = 0; k < any.num_inputs; ++k)
    if (!any.is_bool[k] && !(op.operands[k].flags & HAL_OPERAND_IMMEDIATE)) return op.operands[k].dtype;
  return op.operands[0].dtype;
}

std::unique_ptr<Kernel> make_pointwise(const hal_op &op) {
  const OpEntries &entries = registry().at(op.name);
  const int inputs = entries[0]->num_inputs;
  if (int(op.num_inputs) != inputs || op.num_outputs != 1)
    throw Invalid(std::string("[") + op.name + "] operands: got " + std::to_string(op.num_inputs) + " inputs and " +
                  std::to_string(op.num_outputs) + " outputs, expected " + std::to_string(inputs) + " and 1");
  const hal_dtype dtype = op_dtype(op, *entries[0]);
  const PointwiseEntry *entry = nullptr;
  for (const PointwiseEntry *e : entries)
    if (e->dtype == dtype) entry = e;
  if (entry == nullptr) throw Unsupported(std::string("[") + op.name + "] no kernel for dtype " + dtype_name(dtype));

  ElementwiseSpec spec{inputs, op.operands, {}, &entry->loops, grain_of(*entry), op.name};
  for (int k = 0; k <= inputs; ++k) {
    const hal_operand &o = op.operands[k];
    if (o.flags & HAL_OPERAND_ABSENT) reject(op, k, "is absent");
    const hal_dtype expected = entry->is_bool[k] ? hal_dtype{HAL_BOOL} : dtype;
    spec.loop_dtypes[k] = entry->is_bool[k] ? expected : compute_dtype(dtype);
    const bool immediate = (o.flags & HAL_OPERAND_IMMEDIATE) && k < inputs;
    if (o.dtype != expected && !(immediate && o.dtype == spec.loop_dtypes[k]))
      reject(op, k, std::string("dtype: got ") + dtype_name(o.dtype) + ", expected " + dtype_name(expected));
  }
  return make_elementwise(spec);
}

}  // namespace

void add_pointwise(KernelRows &rows) {
  for (const auto &[name, entries] : registry()) {
    uint32_t dtypes = 0;
    for (const PointwiseEntry *e : entries) dtypes |= HAL_DTYPE_BIT(e->dtype);
    rows.push_back({name.c_str(), dtypes, make_pointwise});
  }
}

}  // namespace cpu
