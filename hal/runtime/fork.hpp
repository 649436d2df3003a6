// Private to the runtime.
#pragma once

namespace hal {

// From now on fork() takes the runtime's locks first. Called once.
void hold_locks_at_fork();

}  // namespace hal
