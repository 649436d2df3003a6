// The registry of plugins, and the way from a path to a negotiated, initialised Plugin.
#include "plugin_loader.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <utility>

#include "nearest.hpp"
#include "negotiation.hpp"
#include "probe.hpp"
#include "probe_cache.hpp"
#include "thread_pool.hpp"
#include "validation.hpp"

namespace hal {

namespace {

namespace fs = std::filesystem;

struct Entry {
  PluginRecord record;
  std::string path;                     // canonical; "" for tables of this process
  const hal_plugin_api *api = nullptr;  // tables of this process
  bool probed = false;                  // roles and id are known
  bool attempted = false;               // loading has been tried: the record says how it went
};

struct Registry {
  std::recursive_mutex mutex;  // recursive: a plugin's init may register another
  std::deque<Entry> entries;   // references stay valid
  bool searched = false;       // HAL_PLUGIN_PATH has been read
};

// Never destroyed: plugins may be asked for until the last destructor ran.
Registry &registry() {
  static auto *instance = new Registry;
  return *instance;
}

std::string canonical(const std::string &path) {
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(path, failed);
  return failed ? path : real.string();
}

std::string override_name(const std::string &id) {
  std::string name = "HAL_PLUGIN_" + id;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

// The library that the user chose for an id, "" if none. "PATH" is taken: HAL_PLUGIN_PATH is the search path.
std::string chosen_path(const std::string &id) {
  if (id == "path") return "";
  const char *text = std::getenv(override_name(id).c_str());
  return text != nullptr && *text != '\0' ? canonical(text) : "";
}

// Tables of this process are chosen by how their origin ends: "entry point mychip = module:Class" by module:Class.
bool chosen_in_process(const std::string &id, const std::string &origin) {
  const std::string text = std::getenv(override_name(id).c_str());
  return origin.size() >= text.size() && origin.compare(origin.size() - text.size(), text.size(), text) == 0;
}

// "libhal_mychip.so", "mychip.so" -> "mychip".
std::string id_from_file(const fs::path &file) {
  std::string name = file.filename().string();
  name = name.substr(0, name.find(".so"));
  for (const char *prefix : {"lib", "hal_"})
    if (name.rfind(prefix, 0) == 0) name.erase(0, std::string(prefix).size());
  return name;
}

// --- discovery -------------------------------------------------------------------------------------------------------------------

void read_search_path() {
  const char *text = std::getenv("HAL_PLUGIN_PATH");
  std::string rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string item = rest.substr(0, colon);
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    if (item.empty()) continue;
    std::error_code failed;
    if (!fs::is_directory(item, failed)) {
      register_library(id_from_file(item), item);
      continue;
    }
    std::vector<fs::path> files;
    for (fs::directory_iterator it(item, failed), end; !failed && it != end; it.increment(failed))
      if (it->path().extension() == ".so") files.push_back(it->path());
    std::sort(files.begin(), files.end());
    for (const fs::path &file : files) register_library(id_from_file(file), file.string());
  }
}

// Reads the search path once. Call with the lock held.
void search(Registry &r) {
  if (!r.searched) {
    r.searched = true;
    read_search_path();
  }
}

// --- loading one entry -----------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string &id, const std::string &text, hal_status status = HAL_ERROR_UNAVAILABLE) {
  throw Error(status, "[plugin " + id + "] " + text);
}

std::string text_or_status(hal_status status) {
  const std::string text = take_error_text();
  return text.empty() ? status_name(status) : text;
}

// Learns id and roles without letting the library into this process.
void probe_entry(Entry &entry) {
  if (entry.probed) return;
  entry.probed = true;
  const std::string id = entry.record.id;
  std::error_code failed;
  if (!fs::exists(entry.path, failed)) refuse(id, "no such file: " + entry.path);
  if (!fs::is_regular_file(entry.path, failed)) refuse(id, "not a file: " + entry.path);
  const ProbeVerdict verdict = probe(entry.path);
  if (valid_id(verdict.id)) entry.record.id = verdict.id;
  entry.record.roles = verdict.roles;
  if (!verdict.ok) refuse(entry.record.id, verdict.reason);
}

const hal_plugin_api *map_library(const Entry &entry) {
  const std::string &id = entry.record.id;
  // Never closed: a library that ran threads (OpenMP) can't be unmapped safely.
  void *library = dlopen(entry.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(id, std::string("it can't be loaded: ") + dlerror());
  const auto function = reinterpret_cast<hal_plugin_entry_fn>(dlsym(library, HAL_PLUGIN_ENTRY_NAME));
  if (function == nullptr) refuse(id, "it doesn't export " HAL_PLUGIN_ENTRY_NAME ": not a hal plugin");
  const hal_plugin_api *api = nullptr;
  take_error_text();
  const hal_status status = function(host_api(), &api);
  if (status != HAL_OK) refuse(id, HAL_PLUGIN_ENTRY_NAME ": " + text_or_status(status), status);
  return api;
}

void initialise(Entry &entry, Plugin &plugin) {
  take_error_text();
  if (plugin.init != nullptr) {
    const hal_status status = plugin.init();
    if (status != HAL_OK) refuse(plugin.id, "init: " + text_or_status(status), status);
  }
  uint32_t count = 0;
  const hal_status status = plugin.device.count(&count);
  if (status == HAL_OK && count > 0) {
    entry.record.device_count = count;
    return;
  }
  const std::string text = status == HAL_OK ? "it found no device and gave no reason" : "device.count: " + text_or_status(status);
  if (plugin.deinit != nullptr) plugin.deinit();
  refuse(plugin.id, text, status == HAL_OK ? HAL_ERROR_UNAVAILABLE : status);
}

// Present while a library is mapped and initialised: if that kills the process, the next one probes again.
struct LoadingMark {
  explicit LoadingMark(const Entry &entry) : path(entry.api == nullptr ? entry.path : "") {
    if (!path.empty()) mark_loading(path);
  }
  ~LoadingMark() {
    if (!path.empty()) clear_loading(path);
  }
  std::string path;
};

void load_entry(Entry &entry) {
  if (entry.attempted) return;
  entry.attempted = true;
  try {
    if (entry.api == nullptr) probe_entry(entry);
    const LoadingMark mark(entry);
    const hal_plugin_api *api = entry.api != nullptr ? entry.api : map_library(entry);
    auto plugin = std::make_shared<Plugin>();
    negotiate(api, entry.record.id, *plugin);
    plugin->origin = entry.record.origin;
    if (validation_enabled()) install_validation(*plugin);
    entry.record.id = plugin->id;
    entry.record.roles = plugin->roles;
    initialise(entry, *plugin);
    entry.record.plugin = std::move(plugin);
    entry.record.loaded = true;
    entry.record.available = true;
    entry.record.reason.clear();
  } catch (const Error &error) {
    entry.record.reason = error.what();
  } catch (const std::exception &error) {
    entry.record.reason = "[plugin " + entry.record.id + "] " + error.what();
  }
}

// --- one id, several libraries ---------------------------------------------------------------------------------------------------

std::vector<Entry *> entries_of(const std::string &id) {
  std::vector<Entry *> found;
  for (Entry &entry : registry().entries)
    if (entry.record.id == id) found.push_back(&entry);
  return found;
}

void mark_unavailable(Entry &entry, const std::string &reason) {
  entry.attempted = true;
  entry.record.available = false;
  entry.record.reason = "[plugin " + entry.record.id + "] " + reason;
}

// The one entry that may be loaded for an id; nullptr if the user has to choose (each entry's reason then says so).
Entry *choose(const std::string &id) {
  const std::string wanted = chosen_path(id);
  std::vector<Entry *> candidates = entries_of(id);
  if (!wanted.empty()) {
    Entry *chosen = nullptr;
    for (Entry *entry : candidates)
      if (entry->path.empty() ? chosen_in_process(id, entry->record.origin) : entry->path == wanted) chosen = entry;
    if (chosen == nullptr) {
      registry().entries.emplace_back();
      chosen = &registry().entries.back();
      chosen->record.id = id;
      chosen->record.origin = chosen->path = wanted;
    }
    for (Entry *entry : candidates)
      if (entry != chosen && !entry->record.loaded)
        mark_unavailable(*entry, "not chosen: " + override_name(id) + " is " + wanted + ", this is " + entry->record.origin);
    return chosen;
  }
  for (Entry *entry : candidates)
    if (entry->record.loaded && candidates.size() == 1) return entry;
  if (candidates.size() == 1) return candidates[0];
  // One that is already in use stays; the newcomers are refused.
  Entry *loaded = nullptr;
  std::string origins;
  for (Entry *entry : candidates) {
    if (entry->record.loaded) loaded = entry;
    origins += (origins.empty() ? "" : " and ") + entry->record.origin;
  }
  for (Entry *entry : candidates)
    if (entry != loaded)
      mark_unavailable(*entry, "the id '" + id + "' is claimed by " + origins + "; choose with " + override_name(id) +
                                   "=<path> (module:Class of one in Python)");
  return loaded;
}

// Loads what may be loaded for each id, until nothing new comes up: a library may turn out to have another id than its file name says.
void load_all() {
  Registry &r = registry();
  for (size_t i = 0; i < r.entries.size(); ++i) {
    Entry &entry = r.entries[i];
    if (entry.attempted) continue;
    // Ids become final by probing; a failed probe settles the entry.
    if (entry.api == nullptr) {
      try {
        probe_entry(entry);
      } catch (const Error &error) {
        entry.attempted = true;
        entry.record.reason = error.what();
      }
    }
  }
  for (size_t i = 0; i < r.entries.size(); ++i) {
    Entry &entry = r.entries[i];
    if (entry.attempted) continue;
    Entry *chosen = choose(entry.record.id);
    if (chosen == &entry) load_entry(entry);
  }
}

std::string known_ids() {
  std::vector<std::string> ids;
  for (const Entry &entry : registry().entries) ids.push_back(entry.record.id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::string text;
  for (const std::string &id : ids) text += (text.empty() ? "" : ", ") + id;
  return text.empty() ? "none is installed" : text;
}

void log_to_stderr(int32_t level, const char *text) {
  static const char *const names[] = {"debug", "info", "warning", "error"};
  static const int32_t threshold = [] {
    const char *setting = std::getenv("HAL_LOG");
    for (int i = 0; setting != nullptr && i < 4; ++i)
      if (std::strcmp(setting, names[i]) == 0) return i;
    return setting != nullptr && *setting >= '0' && *setting <= '4' ? *setting - '0' : 2;
  }();
  if (level < threshold || text == nullptr) return;
  std::fprintf(stderr, "hal: %s: %s\n", names[std::clamp(level, 0, 3)], text);
}

}  // namespace

void register_library(const std::string &id, const std::string &path) {
  Registry &r = registry();
  const std::string real = canonical(path);
  std::lock_guard lock(r.mutex);
  for (const Entry &entry : r.entries)
    if (entry.path == real) return;  // found twice, by an entry point and the search path
  Entry entry;
  entry.record.id = id;
  entry.record.origin = entry.path = real;
  r.entries.push_back(std::move(entry));
}

void register_tables(const hal_plugin_api *api, const std::string &origin) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  for (const Entry &entry : r.entries)
    if (entry.api == api && api != nullptr) return;
  auto plugin = std::make_unique<Plugin>();
  negotiate(api, origin, *plugin);  // throws at once: the caller is there to hear it
  Entry entry;
  entry.record.id = plugin->id;
  entry.record.roles = plugin->roles;
  entry.record.origin = origin;
  entry.api = api;
  entry.probed = true;
  r.entries.push_back(std::move(entry));
}

void register_failure(const std::string &id, const std::string &origin, const std::string &reason) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  for (const Entry &entry : r.entries)
    if (entry.record.id == id && entry.record.origin == origin) return;
  Entry entry;
  entry.record.id = id;
  entry.record.origin = origin;
  entry.record.reason = "[plugin " + id + "] " + reason;
  entry.attempted = entry.probed = true;
  r.entries.push_back(std::move(entry));
}

std::shared_ptr<Plugin> load_plugin(const std::string &id) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  search(r);
  if (entries_of(id).empty() && chosen_path(id).empty()) load_all();  // one may carry another id than its file's name
  if (entries_of(id).empty() && chosen_path(id).empty()) {
    std::vector<std::string> ids;
    for (const Entry &entry : r.entries) ids.push_back(entry.record.id);
    const std::string near = nearest_names(id, ids);
    throw Error(ErrorKind::Value,
                "[device] unknown device: got '" + id + "', expected one of: " + known_ids() + (near.empty() ? "" : "; nearest: " + near));
  }
  Entry *entry = choose(id);
  if (entry == nullptr) throw Error(HAL_ERROR_UNAVAILABLE, entries_of(id).front()->record.reason);
  load_entry(*entry);
  if (!entry->record.loaded) throw Error(HAL_ERROR_UNAVAILABLE, entry->record.reason);
  if (entry->record.id != id) {
    // Its table says another id than its file name did.
    if (choose(entry->record.id) != entry) throw Error(HAL_ERROR_UNAVAILABLE, entry->record.reason);
    throw Error(ErrorKind::Value, "[device] unknown device: got '" + id + "', expected one of: " + known_ids() + "; " +
                                      entry->record.origin + " has the id '" + entry->record.id + "'");
  }
  return entry->record.plugin;
}

std::vector<PluginRecord> plugin_records(bool load) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  search(r);
  if (load) load_all();
  std::vector<PluginRecord> records;
  for (const Entry &entry : r.entries) records.push_back(entry.record);
  return records;
}

std::shared_ptr<Plugin> host_plugin() {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  search(r);
  std::vector<std::string> hosts;
  for (size_t i = 0; i < r.entries.size(); ++i) {
    Entry &entry = r.entries[i];
    if (!entry.attempted && !entry.probed) {
      try {
        probe_entry(entry);
      } catch (const Error &error) {
        entry.attempted = true;
        entry.record.reason = error.what();
      }
    }
    if (entry.attempted && !entry.record.loaded) continue;
    if ((entry.record.roles & HAL_ROLE_HOST) != 0) hosts.push_back(entry.record.id);
  }
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (hosts.size() == 1) return load_plugin(hosts[0]);
  if (hosts.empty()) {
    std::string reasons;
    for (const Entry &entry : r.entries)
      if (!entry.record.reason.empty()) reasons += "\n  " + entry.record.reason;
    throw Error(HAL_ERROR_UNAVAILABLE,
                "[host_device] no plugin with the role HOST is available" + (reasons.empty() ? "; none is installed" : ":" + reasons));
  }
  std::string all;
  for (const std::string &id : hosts) all += (all.empty() ? "" : " and ") + id;
  throw Error(HAL_ERROR_UNAVAILABLE, "[host_device] only one plugin may have the role HOST: got " + all + "; uninstall one of them");
}

void deinit_plugins(const std::vector<std::string> &busy) {
  Registry &r = registry();
  std::unique_lock lock(r.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;  // another thread is loading a plugin: leave everything to the system
  for (Entry &entry : r.entries) {
    if (!entry.record.loaded || std::find(busy.begin(), busy.end(), entry.record.id) != busy.end()) continue;
    if (validation_enabled()) report_leaks(*entry.record.plugin);
    if (entry.record.plugin->deinit != nullptr) entry.record.plugin->deinit();
    entry.record.loaded = entry.record.available = false;
    entry.attempted = true;
    entry.record.reason = "[plugin " + entry.record.id + "] the runtime has been shut down";
  }
}

const hal_host_api *host_api() {
  static const hal_host_api api = {sizeof(hal_host_api), HAL_ABI_MAJOR, HAL_ABI_MINOR, set_error_text,
                                   parallel_for,         num_threads,   log_to_stderr};
  return &api;
}

}  // namespace hal
