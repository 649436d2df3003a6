// What the host's hardware can do, measured by loops that no kernel shares: the 100 % of `hal bench` on the host device.
#pragma once

#include <cstdint>
#include <string>

// See the docstrings in loader.cpp.
double host_bandwidth(const std::string &pattern, uint64_t bytes, int repeats);
double host_flops(const std::string &dtype, int repeats);
