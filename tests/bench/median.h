/* tests/bench/median.h - the middle of some figures.  Static, for benchmarks to include. */
#ifndef BENCH_MEDIAN_H
#define BENCH_MEDIAN_H

#include "arena/base/base.h"

/* Sorts them. */
static f64 median(f64 *values, u32 count)
{
    for (u32 i = 1; i < count; i++)
        for (u32 j = i; j > 0 && values[j - 1] > values[j]; j--) {
            f64 t = values[j];
            values[j] = values[j - 1];
            values[j - 1] = t;
        }
    return values[count / 2];
}

#endif
