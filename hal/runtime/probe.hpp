// Trying out a library in a child process before it may enter ours, and remembering the verdict.
#pragma once

#include <cstdint>
#include <string>

namespace hal {

struct ProbeVerdict {
  bool ok = false;
  bool polite = false;  // not ok, but the plugin said so itself: safe to ask again
  bool cached = false;
  std::string reason;  // if not ok
  std::string id;      // as the plugin's table says, "" if it didn't come that far
  std::string version;
  uint32_t roles = 0;
  uint32_t devices = 0;
};

// Loads `path` (absolute) in a child process: entry, init, device.count, deinit. Never throws. Takes at most HAL_PROBE_TIMEOUT seconds
// (default 10). Verdicts are kept in the user's cache directory by path, size and mtime, those of crashes and timeouts for a day;
// HAL_PROBE_CACHE=0 neither reads nor writes it, HAL_PROBE_CACHE=refresh only writes.
ProbeVerdict probe(const std::string &path);

}  // namespace hal
