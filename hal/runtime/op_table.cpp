// The generated op table, names of ops that plugins bring, and what there is to say of dtypes.
#include "op_table.hpp"

#include <array>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "nearest.hpp"

namespace hal {

namespace {

const std::vector<OpInfo> &table() {
  static const std::vector<OpInfo> rows = {
#include <op_table.inc>
  };
  return rows;
}

// Ops of plugins that the table doesn't know. Entries never move nor go, so references to them stay valid.
struct CustomOps {
  std::shared_mutex mutex;
  std::deque<std::string> names;
  std::deque<OpInfo> infos;
  std::unordered_map<std::string_view, uint32_t> ids;
};

CustomOps &custom_ops() {
  static auto *ops = new CustomOps;
  return *ops;
}

const std::unordered_map<std::string_view, uint32_t> &table_ids() {
  static const auto ids = [] {
    std::unordered_map<std::string_view, uint32_t> map;
    for (uint32_t i = 0; i < table().size(); ++i) map.emplace(table()[i].name, i);
    return map;
  }();
  return ids;
}

bool lookup(std::string_view name, uint32_t &id) {
  const auto found = table_ids().find(name);
  if (found != table_ids().end()) {
    id = found->second;
    return true;
  }
  CustomOps &custom = custom_ops();
  std::shared_lock lock(custom.mutex);
  const auto other = custom.ids.find(name);
  if (other == custom.ids.end()) return false;
  id = other->second;
  return true;
}

struct DTypeInfo {
  const char *name;
  size_t size;
  hal_dtype compute;
  hal_dtype accumulator;
};

// Indexed by hal_dtype; entry 0 isn't a dtype.
constexpr std::array<DTypeInfo, HAL_DTYPE_COUNT> kDTypes = {{
    {"none", 0, 0, 0},
    {"bool", 1, HAL_BOOL, HAL_I64},
    {"u8", 1, HAL_U8, HAL_I64},
    {"i8", 1, HAL_I8, HAL_I64},
    {"i16", 2, HAL_I16, HAL_I64},
    {"i32", 4, HAL_I32, HAL_I64},
    {"i64", 8, HAL_I64, HAL_I64},
    {"f16", 2, HAL_F32, HAL_F32},
    {"bf16", 2, HAL_F32, HAL_F32},
    {"f32", 4, HAL_F32, HAL_F32},
    {"f64", 8, HAL_F64, HAL_F64},
}};

const DTypeInfo &dtype_info(hal_dtype dtype) {
  if (dtype < 1 || dtype >= HAL_DTYPE_COUNT)
    throw Error(ErrorKind::Value,
                "[dtype] unknown dtype code: got " + std::to_string(dtype) + ", expected 1 to " + std::to_string(HAL_DTYPE_COUNT - 1));
  return kDTypes[static_cast<size_t>(dtype)];
}

}  // namespace

const OpInfo &op_info(uint32_t id) {
  if (id < table().size()) return table()[id];
  CustomOps &custom = custom_ops();
  std::shared_lock lock(custom.mutex);
  const size_t index = id - table().size();
  if (index >= custom.infos.size()) throw Error(ErrorKind::Value, "[op] no op has the id " + std::to_string(id));
  return custom.infos[index];
}

uint32_t find_op(std::string_view name) {
  uint32_t id;
  if (lookup(name, id)) return id;
  std::vector<std::string> names;
  for (const OpInfo &op : table()) names.emplace_back(op.name);
  {
    std::shared_lock lock(custom_ops().mutex);
    names.insert(names.end(), custom_ops().names.begin(), custom_ops().names.end());
  }
  const std::string near = nearest_names(name, names);
  throw Error(ErrorKind::Value, "[op] unknown op: got '" + std::string(name) + "', expected a name of the op table" +
                                    (near.empty() ? "" : ", nearest: " + near));
}

uint32_t intern_op(std::string_view name) {
  uint32_t id;
  if (lookup(name, id)) return id;
  CustomOps &custom = custom_ops();
  std::unique_lock lock(custom.mutex);
  const auto raced = custom.ids.find(name);
  if (raced != custom.ids.end()) return raced->second;
  id = static_cast<uint32_t>(table().size() + custom.infos.size());
  custom.names.emplace_back(name);
  OpInfo info{};
  info.name = custom.names.back().c_str();
  info.category = "custom";
  info.numerics = "custom";
  info.dtypes = (1u << HAL_DTYPE_COUNT) - 2;
  info.shape = ShapeRule::custom;
  custom.infos.push_back(std::move(info));
  custom.ids.emplace(custom.names.back(), id);
  return id;
}

uint32_t op_count() {
  std::shared_lock lock(custom_ops().mutex);
  return static_cast<uint32_t>(table().size() + custom_ops().infos.size());
}

size_t dtype_size(hal_dtype dtype) { return dtype_info(dtype).size; }
const char *dtype_name(hal_dtype dtype) { return dtype_info(dtype).name; }
hal_dtype compute_type(hal_dtype dtype) { return dtype_info(dtype).compute; }
hal_dtype accumulator_type(hal_dtype dtype) { return dtype_info(dtype).accumulator; }

hal_dtype dtype_from_name(std::string_view name) {
  for (hal_dtype d = 1; d < HAL_DTYPE_COUNT; ++d)
    if (name == kDTypes[static_cast<size_t>(d)].name) return d;
  std::string all;
  for (hal_dtype d = 1; d < HAL_DTYPE_COUNT; ++d) all.append(d > 1 ? ", " : "").append(kDTypes[static_cast<size_t>(d)].name);
  throw Error(ErrorKind::Value, "[dtype] unknown dtype: got '" + std::string(name) + "', expected one of " + all);
}

}  // namespace hal
