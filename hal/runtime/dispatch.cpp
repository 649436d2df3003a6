// Running an op. run() is on the path of every op of every program: apart from the plugin's launch it takes about 100 ns, so it
// takes one look into a table of the thread's own, keyed by all that an executable depends on, and everything else is kept out of line.
#include "dispatch.hpp"

#include <array>

#include "dispatch_internal.hpp"
#include "op_key.hpp"
#include "thread_state.hpp"

namespace hal {
// A thread's own direct-mapped cache in front of the devices' locked ones. Its references keep entries alive while they are used.
struct FrontCache {
  static constexpr uint32_t kSlots = 512;
  std::array<CacheEntry *, kSlots> slots{};
  FrontCache() { t_state.front = this; }
  ~FrontCache() {
    t_state.front = nullptr;
    t_state.front_gone = true;
    for (CacheEntry *entry : slots)
      if (entry) release(entry);
  }
};

namespace {

__attribute__((noinline)) FrontCache *make_front() {
  if (t_state.front_gone) return nullptr;
  thread_local FrontCache cache;
  return &cache;
}

std::atomic<int> g_numerics{HAL_NUMERICS_REPRODUCIBLE};
std::atomic<int> g_fallback{int(FallbackPolicy::Allow)};

struct Call {
  Stream &stream;
  uint32_t id;
  const hal_operand *operands;
  const Place *places;
  uint32_t num_inputs, num_outputs;
  const void *attributes;
  uint32_t count() const { return num_inputs + num_outputs; }
};

std::unique_ptr<CacheEntry> resolve(const Call &call, hal_numerics numerics) {
  Device &device = call.stream.device();
  const OpInfo &info = op_info(call.id);
  check_operands(info, call.id, call.operands, call.num_inputs, call.num_outputs, call.attributes);
  auto entry = std::make_unique<CacheEntry>();
  entry->label = info.name;
  bool all_empty = true;
  for (uint32_t i = call.num_inputs; i < call.count(); ++i)
    if (is_tensor(call.operands[i]) && !is_empty(call.operands[i])) all_empty = false;
  for (uint32_t i = 0; i < call.count(); ++i) {
    const Span span = span_of(call.operands[i]);
    entry->reach.push_back({span.low, span.high});
  }
  if (all_empty) {
    entry->action = CacheEntry::Action::Nothing;
    return entry;
  }
  entry->executable = prepare(device, info, numerics, call.operands, call.num_inputs, call.num_outputs, call.attributes, entry->reason);
  if (!entry->executable) return entry;  // Fallback
  const uint32_t flags = entry->executable->flags;
  if (flags & HAL_KERNEL_CONTIGUOUS)
    for (uint32_t i = 0; i < call.count(); ++i)
      if (is_tensor(call.operands[i]) && !is_contiguous(call.operands[i])) entry->copies |= 1u << i;
  if (entry->copies && call.id == op::copy) {  // its copies would need itself
    entry->executable.reset();
    entry->reason = "its copy kernel takes contiguous operands only";
    return entry;
  }
  entry->action = CacheEntry::Action::Launch;
  entry->simple = !entry->copies && !(flags & HAL_KERNEL_DYNAMIC_SHAPES) && entry->executable->workspace == 0 &&
                  device.properties().offset_alignment <= 1;
  return entry;
}

// Finds or makes the entry, and puts it into the thread's own cache.
__attribute__((noinline)) EntryRef look_up(const Call &call, hal_numerics numerics, const OpKey &key, FrontCache *front) {
  ExecutableCache &cache = call.stream.device().executables();
  if (call.stream.device().is_closed()) throw Error(HAL_ERROR_UNAVAILABLE, "[run] " + call.stream.device().name() + " has been closed");
  EntryRef entry = cache.find(key);
  if (!entry.get()) {
    std::unique_ptr<CacheEntry> made = resolve(call, numerics);
    entry = EntryRef(cache.insert(key, std::move(made)));
  }
  if (front) {
    CacheEntry *&slot = front->slots[key.hash % FrontCache::kSlots];
    CacheEntry *old = slot;
    retain(entry.get());
    slot = entry.get();
    if (old) release(old);
  }
  return entry;
}

[[noreturn]] __attribute__((noinline)) void throw_place(const CacheEntry &entry, const Call &call, uint32_t i) {
  const OpInfo &info = op_info(call.id);
  const std::string name = i < info.operands.size() ? info.operands[i].name : "operand " + std::to_string(i);
  const std::string head = std::string("[") + entry.label + "] " + name;
  const hal_operand &o = call.operands[i];
  if (o.flags & HAL_OPERAND_IMMEDIATE) throw Error(ErrorKind::Value, head + " is an immediate, but has a buffer");
  const Buffer *buffer = call.places[i].buffer;
  if (!buffer) throw Error(ErrorKind::Value, head + " has no buffer");
  if (&buffer->device() != &call.stream.device())
    throw Error(ErrorKind::Value,
                head + " is on the wrong device: got " + buffer->device().name() + ", expected " + call.stream.device().name());
  throw Error(ErrorKind::Value, head + " reaches outside its buffer: got bytes [" +
                                    std::to_string(int64_t(call.places[i].offset) + entry.reach[i].low) + ", " +
                                    std::to_string(int64_t(call.places[i].offset) + entry.reach[i].high) + ") of a buffer of " +
                                    std::to_string(buffer->size()) + " bytes");
}

// Fills the ABI's buffers; checks that each operand lies inside its own.
inline void fill_buffers(const CacheEntry &entry, const Call &call, hal_buffer *buffers) {
  Stream &stream = call.stream;
  Device *device = &stream.device();
  const CacheEntry::Reach *reach = entry.reach.data();
  for (uint32_t i = 0, n = call.count(); i < n; ++i) {
    const Place &place = call.places[i];
    if (place.buffer) {
      const int64_t offset = int64_t(place.offset);
      if (__builtin_expect(&place.buffer->device() != device || offset + reach[i].low < 0 ||
                               uint64_t(offset + reach[i].high) > place.buffer->size() || (call.operands[i].flags & HAL_OPERAND_IMMEDIATE),
                           0))
        throw_place(entry, call, i);
      buffers[i] = place.buffer->at(place.offset);
      place.buffer->record_stream(stream);
    } else {
      if (__builtin_expect(is_tensor(call.operands[i]), 0)) throw_place(entry, call, i);
      buffers[i].memory = nullptr;
      buffers[i].immediate = place.offset;
    }
  }
}

[[noreturn]] __attribute__((noinline)) void throw_launch(hal_status status, const char *label) {
  std::string text = take_error_text();
  const std::string head = std::string("[") + label + "] ";
  if (text.empty()) text = status_name(status);
  throw Error(status, text.compare(0, head.size(), head) == 0 ? text : head + text);
}

// Out of memory at launch: once more with the caches given back.
__attribute__((noinline)) void retry_launch(hal_status status, Stream &stream, Executable &executable, const hal_launch &launch) {
  if (status == HAL_ERROR_OUT_OF_MEMORY) {
    stream.device().allocator().empty_cache();
    take_error_text();
    SubmitLock lock(stream);
    status = stream.device().plugin().kernel.launch(stream.handle(), executable.handle, &launch);
  }
  if (status != HAL_OK) throw_launch(status, launch.label);
}

inline void submit(Stream &stream, Executable &executable, const hal_launch &launch) {
  executable.used_on(stream);
  hal_status status;
  {
    SubmitLock lock(stream);
    status = stream.device().plugin().kernel.launch(stream.handle(), executable.handle, &launch);
  }
  if (__builtin_expect(status != HAL_OK, 0)) retry_launch(status, stream, executable, launch);
}

// A copy of operand i's bytes at an aligned place: same strides, other offset.
void stage_span(const Call &call, uint32_t i, const CacheEntry &entry, BufferPtr &temporary, Place &place) {
  Device &device = call.stream.device();
  const uint64_t align = device.properties().offset_alignment;
  const int64_t low = entry.reach[i].low, high = entry.reach[i].high;
  const uint64_t shift = (uint64_t(-low) + align - 1) / align * align;  // where element [0, …, 0] goes
  temporary = device.allocator().allocate(shift + uint64_t(high), call.stream);
  copy_bytes(call.stream, *temporary, shift + low, *call.places[i].buffer, call.places[i].offset + low, uint64_t(high - low));
  place = {temporary.get(), shift};
}

// Everything that isn't `simple`: workspace, dynamic shapes, copies to contiguous or aligned places.
__attribute__((noinline)) void run_prepared(const CacheEntry &entry, const Call &call) {
  Device &device = call.stream.device();
  const std::shared_ptr<Executable> executable = entry.executable;
  const uint32_t n = call.count();
  hal_operand operands[HAL_MAX_OPERANDS];
  Place places[HAL_MAX_OPERANDS];
  BufferPtr temporaries[HAL_MAX_OPERANDS];
  bool staged[HAL_MAX_OPERANDS] = {};
  hal_buffer buffers[HAL_MAX_OPERANDS];
  fill_buffers(entry, call, buffers);
  const uint64_t align = device.properties().offset_alignment;
  for (uint32_t i = 0; i < n; ++i) {
    operands[i] = call.operands[i];
    places[i] = call.places[i];
    if (!places[i].buffer || is_empty(operands[i])) continue;
    const bool output = i >= call.num_inputs;
    if (entry.copies >> i & 1) {
      set_row_major(operands[i]);
      temporaries[i] = device.allocator().allocate(uint64_t(element_count(operands[i])) * dtype_size(operands[i].dtype), call.stream);
      places[i] = {temporaries[i].get(), 0};
      if (!output) {
        hal_operand pair[2] = {call.operands[i], operands[i]};
        pair[1].flags = HAL_OPERAND_OUTPUT;
        const Place pair_places[2] = {call.places[i], places[i]};
        run(call.stream, op::copy, pair, pair_places, 1, 1);
      }
    } else if (align > 1 && call.places[i].buffer->at(call.places[i].offset).offset % align != 0) {
      stage_span(call, i, entry, temporaries[i], places[i]);
      staged[i] = true;
    }
    buffers[i] = places[i].buffer->at(places[i].offset);
  }
  hal_launch launch{};
  launch.struct_size = sizeof(launch);
  launch.num_buffers = n;
  launch.buffers = buffers;
  launch.label = entry.label;
  uint64_t workspace = executable->workspace;
  if (executable->flags & HAL_KERNEL_DYNAMIC_SHAPES) {
    launch.operands = operands;
    if (device.plugin().kernel.workspace_size) {
      take_error_text();
      const hal_status status = device.plugin().kernel.workspace_size(executable->handle, operands, n, &workspace);
      if (status != HAL_OK) throw_launch(status, entry.label);
    }
  }
  BufferPtr scratch;
  if (workspace) {
    scratch = device.allocator().allocate(workspace, call.stream);
    launch.workspace = scratch->at(0);
  }
  submit(call.stream, *executable, launch);
  for (uint32_t i = call.num_inputs; i < n; ++i) {
    if (entry.copies >> i & 1 && temporaries[i]) {
      hal_operand pair[2] = {operands[i], call.operands[i]};
      pair[0].flags = 0;
      const Place pair_places[2] = {places[i], call.places[i]};
      run(call.stream, op::copy, pair, pair_places, 1, 1);
    } else if (staged[i]) {
      const int64_t low = entry.reach[i].low, high = entry.reach[i].high;
      copy_bytes(call.stream, *call.places[i].buffer, call.places[i].offset + low, *temporaries[i], places[i].offset + low,
                 uint64_t(high - low));
    }
  }
}

inline void run_entry(CacheEntry &entry, const Call &call) {
  if (__builtin_expect(entry.simple, 1)) {
    hal_buffer buffers[HAL_MAX_OPERANDS];
    fill_buffers(entry, call, buffers);
    const hal_launch launch = {sizeof(hal_launch), call.count(), buffers, nullptr, {nullptr, {0}}, entry.label};
    submit(call.stream, *entry.executable, launch);
    return;
  }
  if (entry.action == CacheEntry::Action::Nothing) return;
  if (entry.action == CacheEntry::Action::Launch) return run_prepared(entry, call);
  hal_buffer buffers[HAL_MAX_OPERANDS];
  fill_buffers(entry, call, buffers);
  run_on_host(call.stream, op_info(call.id), call.id, call.operands, call.places, call.num_inputs, call.num_outputs, call.attributes,
              entry.reason);
}

}  // namespace

void run(Stream &stream, uint32_t id, const hal_operand *operands, const Place *places, uint32_t num_inputs, uint32_t num_outputs,
         const void *attributes) {
  if (__builtin_expect(num_inputs > HAL_MAX_OPERANDS || num_outputs > HAL_MAX_OPERANDS || num_inputs + num_outputs > HAL_MAX_OPERANDS, 0))
    throw Error(ErrorKind::Value, "[run] more than 24 operands");
  const Call call{stream, id, operands, places, num_inputs, num_outputs, attributes};
  for (uint32_t i = 0; i < num_inputs + num_outputs; ++i)
    if (__builtin_expect(operands[i].rank > HAL_MAX_RANK, 0))
      throw Error(ErrorKind::Value,
                  std::string("[") + op_info(id).name + "] rank: got " + std::to_string(operands[i].rank) + ", expected at most 16");
  OpKey key;
  const ThreadState &state = t_state;
  const hal_numerics wanted = state.numerics_plus_1 ? state.numerics_plus_1 - 1 : g_numerics.load(std::memory_order_relaxed);
  if (__builtin_expect(!build_key(key, stream.device(), id, wanted, operands, num_inputs, num_outputs, attributes), 0))
    throw Error(ErrorKind::Value, std::string("[") + op_info(id).name + "] attributes: struct_size must be 4 to 512 bytes");
  FrontCache *front = state.front;
  if (__builtin_expect(front == nullptr, 0)) front = make_front();
  if (__builtin_expect(front != nullptr, 1)) {
    CacheEntry *entry = front->slots[key.hash % FrontCache::kSlots];
    if (__builtin_expect(entry && entry->matches(key) && !entry->evicted.load(std::memory_order_relaxed), 1)) {
      if (!entry->touched.load(std::memory_order_relaxed)) entry->touched.store(true, std::memory_order_relaxed);
      stream.device().executables().count_hit();
      if (__builtin_expect(entry->simple, 1)) return run_entry(*entry, call);
      // It may run other ops, which could push the entry out of its slot.
      retain(entry);
      EntryRef hold(entry);
      return run_entry(*entry, call);
    }
  }
  EntryRef entry = look_up(call, wanted, key, front);
  run_entry(*entry.get(), call);
}

hal_numerics numerics() {
  const int own = t_state.numerics_plus_1;
  return own ? own - 1 : g_numerics.load(std::memory_order_relaxed);
}
void set_default_numerics(hal_numerics value) { g_numerics = value; }
void set_thread_numerics(int value) { t_state.numerics_plus_1 = value + 1; }
int thread_numerics() { return t_state.numerics_plus_1 - 1; }

FallbackPolicy fallback_policy() {
  const int own = t_state.fallback_plus_1;
  return FallbackPolicy(own ? own - 1 : g_fallback.load(std::memory_order_relaxed));
}
void set_default_fallback(FallbackPolicy policy) { g_fallback = int(policy); }
void set_thread_fallback(int policy) { t_state.fallback_plus_1 = policy + 1; }
int thread_fallback() { return t_state.fallback_plus_1 - 1; }

}  // namespace hal
