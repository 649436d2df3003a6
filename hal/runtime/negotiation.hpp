// Reading a plugin's tables: versions, sizes, required slots. Private to the loader.
#pragma once

#include "plugin_loader.hpp"

namespace hal {

// Fills `plugin` (except origin) with checked, zero-extended copies of what `api` points to. Throws Error: HAL_ERROR_ABI_MISMATCH for a
// major version that this host doesn't speak, HAL_ERROR_UNAVAILABLE for a table that breaks the ABI's rules. `known_as`, the id that
// discovery gave, names the plugin in errors until its own id has been read. Calls no plugin code.
void negotiate(const hal_plugin_api *api, const std::string &known_as, Plugin &plugin);

bool valid_id(const std::string &id);

}  // namespace hal
