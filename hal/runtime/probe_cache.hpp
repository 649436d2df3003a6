// Verdicts of earlier probes, one small text file per library in the user's cache directory.
#pragma once

#include <string>

#include "probe.hpp"

namespace hal {

// True if a valid verdict for the library as it is now was found. A missing, corrupt or outdated file is simply not found.
bool read_cached_verdict(const std::string &path, ProbeVerdict &verdict);
// A mark that this process is about to load the library, taken away when that went well. A mark whose process has died means that the
// library took it along: the cached verdict then doesn't count, and the library is probed again.
void mark_loading(const std::string &path);
void clear_loading(const std::string &path);
// Best effort: an unwritable or full cache is no error.
void write_cached_verdict(const std::string &path, const ProbeVerdict &verdict);

}  // namespace hal
