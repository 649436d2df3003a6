/* All shared elementary functions. See README.md in this folder for the measured error of each. */
#ifndef HAL_NUMERICS_NUMERICS_H
#define HAL_NUMERICS_NUMERICS_H
#include "hal/numerics/composite.h"
#include "hal/numerics/convert.h"
#include "hal/numerics/exp_log.h"
#include "hal/numerics/float16.h"
#include "hal/numerics/gradients.h"
#include "hal/numerics/hyperbolic.h"
#include "hal/numerics/integer.h"
#include "hal/numerics/inverse_trig.h"
#include "hal/numerics/philox.h"
#include "hal/numerics/pow.h"
#include "hal/numerics/prelude.h"
#include "hal/numerics/rounding.h"
#include "hal/numerics/special.h"
#include "hal/numerics/trig.h"
#include "hal/numerics/trig_pi.h"
#endif
