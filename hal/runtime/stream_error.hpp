// Private to the runtime: turning a stream's poison into an Error.
#pragma once

#include "device.hpp"

namespace hal {

// "[op] text (on cpu:0)" from the plugin's get_error.
[[noreturn]] void throw_stream_error(Stream &stream, hal_status status);

}  // namespace hal
