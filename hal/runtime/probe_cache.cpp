// The verdict cache. A file is "hal-probe 1", the library's size and mtime, the verdict's fields, then "end": a file cut short has no
// end and counts as absent. Files are written aside and renamed, so readers never see half of one.
#include "probe_cache.hpp"

#include <hal/base.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

namespace hal {

namespace {

constexpr long kFailureLifetime = 60;  // seconds; what failed may depend on more than the file

std::string setting() {
  const char *text = std::getenv("HAL_PROBE_CACHE");
  return text != nullptr ? text : "";
}

// "" if there is no place for a cache.
std::string directory() {
  const char *xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && xdg[0] == '/') return std::string(xdg) + "/hal/probe";
  const char *home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/hal/probe";
  return "";
}

// FNV-1a: only to name the file; the path inside decides.
std::string file_name(const std::string &path) {
  uint64_t hash = 14695981039346656037u;
  for (const unsigned char c : path) hash = (hash ^ c) * 1099511628211u;
  char text[32];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

// Identity of the library and of the prober.
std::string stamp(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return "";
  std::ostringstream text;
  text << HAL_ABI_MAJOR << '.' << HAL_ABI_MINOR << ' ' << info.st_size << ' ' << info.st_mtim.tv_sec << '.' << info.st_mtim.tv_nsec << ' '
       << info.st_ino;
  return text.str();
}

std::string one_line(std::string text) {
  for (char &c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

bool to_number(const std::string &text, long &value) {
  char *end = nullptr;
  value = std::strtol(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && value >= 0;
}

std::string mark_name(const std::string &path) { return directory() + "/" + file_name(path) + ".loading"; }

// Did a process die while it loaded this library?
bool load_was_fatal(const std::string &path) {
  std::ifstream file(mark_name(path));
  long process = 0;
  if (!(file >> process) || process <= 0) return false;
  return process != getpid() && kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

}  // namespace

void mark_loading(const std::string &path) {
  if (directory().empty() || setting() == "0") return;
  std::ofstream(mark_name(path), std::ios::trunc) << getpid() << '\n';
}

void clear_loading(const std::string &path) {
  if (!directory().empty()) unlink(mark_name(path).c_str());
}

bool read_cached_verdict(const std::string &path, ProbeVerdict &verdict) {
  const std::string folder = directory();
  const std::string mode = setting();
  if (folder.empty() || mode == "0" || mode == "refresh" || load_was_fatal(path)) return false;
  std::ifstream file(folder + "/" + file_name(path));
  std::string line;
  if (!std::getline(file, line) || line != "hal-probe 1") return false;
  std::map<std::string, std::string> fields;
  bool complete = false;
  for (int lines = 0; lines < 32 && std::getline(file, line); ++lines) {
    if (line == "end") {
      complete = true;
      break;
    }
    const size_t space = line.find(' ');
    if (space == std::string::npos) return false;
    fields[line.substr(0, space)] = line.substr(space + 1);
  }
  long when, ok, roles, devices;
  if (!complete || fields["path"] != one_line(path) || fields["stamp"] != stamp(path) || !to_number(fields["time"], when) ||
      !to_number(fields["ok"], ok) || !to_number(fields["roles"], roles) || !to_number(fields["devices"], devices) || ok > 1)
    return false;
  const long age = static_cast<long>(std::time(nullptr)) - when;
  if (ok == 0 && (age < 0 || age > kFailureLifetime)) return false;
  verdict = ProbeVerdict{};
  verdict.ok = ok == 1;
  verdict.cached = true;
  verdict.reason = fields["reason"];
  verdict.id = fields["id"];
  verdict.version = fields["version"];
  verdict.roles = static_cast<uint32_t>(roles);
  verdict.devices = static_cast<uint32_t>(devices);
  return true;
}

void write_cached_verdict(const std::string &path, const ProbeVerdict &verdict) {
  const std::string folder = directory();
  if (folder.empty() || setting() == "0") return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string target = folder + "/" + file_name(path);
  const std::string aside = target + "." + std::to_string(getpid());
  {
    std::ofstream file(aside, std::ios::trunc);
    file << "hal-probe 1\npath " << one_line(path) << "\nstamp " << stamp(path) << "\ntime " << std::time(nullptr) << "\nok "
         << (verdict.ok ? 1 : 0) << "\nid " << one_line(verdict.id) << "\nversion " << one_line(verdict.version) << "\nroles "
         << verdict.roles << "\ndevices " << verdict.devices << "\nreason " << one_line(verdict.reason) << "\nend\n";
    file.close();
    if (file.fail()) {
      unlink(aside.c_str());
      return;
    }
  }
  if (std::rename(aside.c_str(), target.c_str()) != 0) unlink(aside.c_str());
}

}  // namespace hal
