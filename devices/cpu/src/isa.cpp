// Picks the kernel library: the best instruction set that this CPU has, unless told otherwise.
#include "isa.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "internal.hpp"

namespace cpu {
namespace {

struct Candidate {
  const char *name;
  bool (*runs_here)();
};

bool always() { return true; }

#if defined(__x86_64__)
bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
#endif

// Best first. A new instruction set is a row here and an add_kernel_library in CMakeLists.txt.
const Candidate candidates[] = {
#if defined(__x86_64__)
    {"avx2", has_avx2},
#endif
    {"baseline", always},
};

std::string known_names() {
  std::string names;
  for (const Candidate &c : candidates) names += (names.empty() ? "" : ", ") + std::string(c.name);
  return names;
}

std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void *>(&own_folder), &info) == 0 || info.dli_fname == nullptr)
    throw IsaUnavailable("can't tell the plugin's own path");
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

const Isa &load(const Candidate &candidate) {
  static std::mutex mutex;
  static auto &loaded = *new std::map<std::string, Isa>;
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = loaded.find(candidate.name);
  if (found != loaded.end()) return found->second;

  const std::string path = own_folder() + "/libhal_cpu_kernels_" + candidate.name + ".so";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw IsaUnavailable(std::string("can't load kernels: ") + dlerror());
  const auto kernels = reinterpret_cast<KernelsFunction>(dlsym(library, "hal_cpu_kernels"));
  if (kernels == nullptr) throw IsaUnavailable(path + " lacks hal_cpu_kernels");
  Isa isa;
  isa.name = candidate.name;
  isa.rows = kernels(&host());
  for (const KernelRow &row : *isa.rows) {
    isa.infos.push_back({sizeof(hal_kernel_info), 0, row.op, row.dtypes, HAL_NUMERICS_REPRODUCIBLE, HAL_KERNEL_NATIVE, 0});
    if (!isa.by_op.emplace(row.op, &row).second) throw IsaUnavailable(path + " has two rows for " + row.op);
  }
  return loaded.emplace(candidate.name, std::move(isa)).first->second;
}

}  // namespace

const Isa &select_isa(const std::string &name) {
  std::string wanted = name;
  if (wanted.empty()) {
    const char *environment = std::getenv("HAL_CPU_ISA");
    if (environment != nullptr) wanted = environment;
  }
  if (!wanted.empty()) {
    for (const Candidate &c : candidates) {
      if (wanted != c.name) continue;
      if (!c.runs_here()) throw IsaUnavailable("this CPU doesn't run isa=" + wanted);
      return load(c);
    }
    throw Invalid("unknown instruction set: got isa=" + wanted + ", expected one of " + known_names());
  }
  std::string reasons;
  for (const Candidate &c : candidates) {
    if (!c.runs_here()) continue;
    try {
      return load(c);
    } catch (const IsaUnavailable &e) {  // an incomplete installation still works, but not silently
      reasons += std::string(reasons.empty() ? "" : "; ") + e.what();
      if (host().log != nullptr) host().log(2, (std::string("cpu: ") + e.what()).c_str());
    }
  }
  throw IsaUnavailable(reasons);
}

}  // namespace cpu
