// HAL_VALIDATE=1: a checking layer between the runtime and a plugin.
#pragma once

#include "plugin_loader.hpp"

namespace hal {

bool validation_enabled();  // HAL_VALIDATE is set and neither "" nor "0"

// Replaces the plugin's table entries by ones that check arguments, ownership and lifetimes before they call the original. Breaches
// return HAL_ERROR_INVALID_ARGUMENT with a text "[validate] ...". At most 16 plugins can be wrapped; more throw Error.
void install_validation(Plugin &plugin);

// Writes what is still alive to stderr, a line per plugin and kind. Called when a plugin is deinitialised. Returns the number of leaks.
uint32_t report_leaks(const Plugin &plugin);

}  // namespace hal
