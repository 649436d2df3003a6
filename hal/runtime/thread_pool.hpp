// The process's one thread pool for host kernels.
#pragma once

#include <hal/plugin.h>

#include "error.hpp"

namespace hal {

// See hal_host_api.parallel_for. Workers spin briefly before they sleep, so that back-to-back loops start in about a microsecond.
// A body that throws is a programming error of a plugin (terminate is avoided: the first exception is rethrown in the caller).
HAL_API void parallel_for(int64_t n, int64_t grain, hal_loop_body body, void *context);
HAL_API int32_t num_threads();
// n >= 1. Waits for running loops. Default: HAL_NUM_THREADS, else the CPUs this process may use.
HAL_API void set_num_threads(int32_t n);

}  // namespace hal
