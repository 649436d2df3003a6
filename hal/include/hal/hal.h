/* The whole ABI between the runtime and a device plugin. Read in this order:
 *   base.h (versions, errors, dtypes, conventions), plugin.h (the entry point), device.h, memory.h,
 *   stream.h, event.h, kernel.h, optional.h. The ops themselves are in <hal/ops.h>, generated from the
 *   op table, and their shared functions in <hal/numerics/numerics.h>. */
#ifndef HAL_HAL_H
#define HAL_HAL_H

#include <hal/base.h>
#include <hal/device.h>
#include <hal/event.h>
#include <hal/kernel.h>
#include <hal/memory.h>
#include <hal/optional.h>
#include <hal/plugin.h>
#include <hal/stream.h>

#endif
