/* arena/base/clock.h - monotonic microseconds and wall seconds, replaceable by tests and the
 * simulator.  Any thread may read; only one thread sets. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "arena/base/base.h"

/* Microseconds of CLOCK_MONOTONIC, or what clock_set put there. */
u64 clock_us(void);

/* Seconds since 1970 (UTC) with a fraction, or what clock_set put there. */
f64 clock_wall_s(void);

/* Stops both clocks at these values (call again to move them on) / lets them run again. */
void clock_set(u64 monotonic_us, f64 wall_s);
void clock_run(void);

#endif
