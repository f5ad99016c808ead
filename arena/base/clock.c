/* arena/base/clock.c - the two clocks, or the values a test put in their place. */
#include "arena/base/clock.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic bool stopped;
static _Atomic u64 stopped_us;
static _Atomic f64 stopped_wall_s;

u64 clock_us(void)
{
    if (atomic_load(&stopped)) return atomic_load(&stopped_us);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000u + (u64)now.tv_nsec / 1000u;
}

f64 clock_wall_s(void)
{
    if (atomic_load(&stopped)) return atomic_load(&stopped_wall_s);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (f64)now.tv_sec + (f64)now.tv_nsec * 1e-9;
}

void clock_set(u64 monotonic_us, f64 wall_s)
{
    atomic_store(&stopped_us, monotonic_us);
    atomic_store(&stopped_wall_s, wall_s);
    atomic_store(&stopped, true);
}

void clock_run(void)
{
    atomic_store(&stopped, false);
}
