// Installing the validation layer. A table entry carries no context pointer, so each wrapped plugin gets trampolines of its own,
// generated per slot of a fixed array.
#include "validation.hpp"

#include <array>
#include <cstdlib>
#include <utility>

#include "validation_checks.hpp"

namespace hal {

namespace {

using validation::State;

constexpr size_t kMaxPlugins = 16;
std::array<State *, kMaxPlugins> states{};  // never freed: entries may be called until the process ends
std::mutex states_mutex;

// call<I>: the entry that runs check F on the state of plugin I.
template <size_t I, auto F>
struct Trampoline;
template <size_t I, typename Result, typename... Args, Result (*F)(State &, Args...)>
struct Trampoline<I, F> {
  static Result call(Args... args) { return F(*states[I], args...); }
};

template <size_t I>
void wrap(Plugin &plugin) {
#define HAL_WRAP(table, entry) \
  if (plugin.table.entry != nullptr) plugin.table.entry = Trampoline<I, validation::table##_##entry>::call
  HAL_WRAP(device, open);
  HAL_WRAP(device, close);
  HAL_WRAP(device, properties);
  HAL_WRAP(device, memory_info);
  HAL_WRAP(device, synchronize);
  HAL_WRAP(device, reset);
  HAL_WRAP(memory, alloc);
  HAL_WRAP(memory, free);
  HAL_WRAP(memory, copy_from_host);
  HAL_WRAP(memory, copy_to_host);
  HAL_WRAP(memory, copy);
  HAL_WRAP(memory, fill);
  HAL_WRAP(memory, host_pointer);
  HAL_WRAP(memory, adopt);
  HAL_WRAP(memory, native_handle);
  HAL_WRAP(memory, alloc_async);
  HAL_WRAP(memory, free_async);
  HAL_WRAP(stream, create);
  HAL_WRAP(stream, destroy);
  HAL_WRAP(stream, query);
  HAL_WRAP(stream, synchronize);
  HAL_WRAP(stream, get_error);
  HAL_WRAP(stream, wait_event);
  HAL_WRAP(stream, adopt);
  HAL_WRAP(stream, native_handle);
  HAL_WRAP(event, create);
  HAL_WRAP(event, destroy);
  HAL_WRAP(event, record);
  HAL_WRAP(event, query);
  HAL_WRAP(event, synchronize);
  HAL_WRAP(event, elapsed);
  HAL_WRAP(event, signal);
  HAL_WRAP(event, get_error);
  HAL_WRAP(kernel, list);
  HAL_WRAP(kernel, supports);
  HAL_WRAP(kernel, prepare);
  HAL_WRAP(kernel, release);
  HAL_WRAP(kernel, launch);
  HAL_WRAP(kernel, workspace_size);
#undef HAL_WRAP
}

template <size_t... I>
constexpr std::array<void (*)(Plugin &), sizeof...(I)> wrappers(std::index_sequence<I...>) {
  return {wrap<I>...};
}

}  // namespace

bool validation_enabled() {
  const char *text = std::getenv("HAL_VALIDATE");
  return text != nullptr && *text != '\0' && !(text[0] == '0' && text[1] == '\0');
}

void install_validation(Plugin &plugin) {
  static constexpr auto install = wrappers(std::make_index_sequence<kMaxPlugins>());
  std::lock_guard lock(states_mutex);
  size_t slot = 0;
  while (slot < kMaxPlugins && states[slot] != nullptr) ++slot;
  if (slot == kMaxPlugins)
    throw Error(HAL_ERROR_UNAVAILABLE, "[validate] HAL_VALIDATE can wrap at most " + std::to_string(kMaxPlugins) + " plugins");
  auto *state = new State;
  state->id = plugin.id;
  state->device = plugin.device;
  state->memory = plugin.memory;
  state->stream = plugin.stream;
  state->event = plugin.event;
  state->kernel = plugin.kernel;
  states[slot] = state;
  install[slot](plugin);
}

uint32_t report_leaks(const Plugin &plugin) {
  std::lock_guard lock(states_mutex);
  for (State *state : states)
    if (state != nullptr && state->id == plugin.id) return validation::drop_handles(*state, nullptr, true);
  return 0;
}

}  // namespace hal
