/* model/cpu/neon.c - the level for 64-bit ARM: sixteen lanes in four registers.
 *
 * The operations' text stands in vector.h, once for all vector levels.  Every ARMv8-A processor has
 * these instructions.  FPCR.FZ flushes before rounding, x86 after (spec: dependencies 3): near
 * 2^-126 the bits differ from x86's, not from level scalar's on the same machine. */
#include "model/cpu/level.h"

#if defined(__aarch64__)
#include <string.h>

#include "model/cpu/format.h"
#include "model/cpu/pack.h"
#include "model/cpu/quant.h"
#include "model/maths.h"

#include "model/cpu/codes.h"
#include "model/cpu/vector.h"

const struct cpu_level neon_level = {
    .name = "neon", VECTOR_LEVEL, .product = level_product, .probe = level_probe,
    .int8_ready = level_int8_ready, .int8_product = codes_or_int8,
};
#endif
