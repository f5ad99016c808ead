/* tests/model/ops.h - what the tests of operations share: seeded values, every level and thread
 * count of this machine, rows cut into chunks.
 *
 * A test computes once at level scalar with one thread and all rows in one call, then at every
 * level, with 1 and 2 threads, with rows in chunks, and compares with memcmp. */
#ifndef TESTS_MODEL_OPS_H
#define TESTS_MODEL_OPS_H

#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model/cpu/cpu.h"
#include "model/maths.h"

static u64 seed = 1;

static inline u32 random_u32(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (u32)(seed >> 33);
}

/* Roughly normal, deviation `scale`. */
static inline f32 random_f32(f32 scale)
{
    f32 sum = 0.0f;
    for (u32 i = 0; i < 4; i++) sum += (f32)(random_u32() & 0xffffu) / 65536.0f - 0.5f;
    return sum * 1.732f * scale;
}

/* `count` values, rounded to BF16 unless the mode is the reference. */
static inline f32 *random_values(u64 count, f32 scale, bool reference)
{
    f32 *x = malloc(count * sizeof(f32) + 64);
    for (u64 i = 0; i < count; i++) {
        x[i] = random_f32(scale);
        if (!reference) x[i] = maths_round_bf16(x[i]);
    }
    return x;
}

/* Big pieces lie on huge pages where the system gives them, as arenas do. */
static inline void *zeroed(u64 bytes)
{
    u64 unit = bytes >= 2 * MIB ? 2 * MIB : 4096;
    void *at = aligned_alloc(unit, ALIGN_UP(bytes + 64, unit));
    if (bytes >= 2 * MIB) madvise(at, ALIGN_UP(bytes + 64, unit), MADV_HUGEPAGE);
    memset(at, 0, bytes);
    return at;
}

/* Calls `run` for every level of this machine with 1 and 2 threads. */
static inline void each_backend(enum ops_arithmetic arithmetic,
                                void (*run)(const struct ops *ops, void *owner), void *owner)
{
    const char *level;
    for (u32 i = 0; (level = cpu_level_name(i)) != NULL; i++)
        for (u32 threads = 1; threads <= 2; threads++) {
            struct ops ops;
            if (!cpu_has_level(level)) continue;
            CHECK_OK(cpu_open(&ops, threads, level, arithmetic));
            run(&ops, owner);
            cpu_close();
        }
}

/* The reference: level scalar, one thread. */
static inline void scalar_backend(enum ops_arithmetic arithmetic,
                                  void (*run)(const struct ops *ops, void *owner), void *owner)
{
    struct ops ops;
    CHECK_OK(cpu_open(&ops, 1, "scalar", arithmetic));
    run(&ops, owner);
    cpu_close();
}

static inline void check_same(const void *got, const void *want, u64 bytes, const char *what,
                              const struct ops *ops)
{
    if (memcmp(got, want, bytes) == 0) return;
    u64 at = 0;
    while (((const u8 *)got)[at] == ((const u8 *)want)[at]) at++;
    f32 a, b;
    at = at / 4 * 4;
    memcpy(&a, (const u8 *)got + at, 4);
    memcpy(&b, (const u8 *)want + at, 4);
    test_failed(__FILE__, __LINE__, "%s: %s, %u threads: byte %llu of %llu: %a, not %a", what,
                ops->level, ops->thread_count, (ull)at, (ull)bytes, (f64)a, (f64)b);
}

/* The size of the chunk that begins at row `row` under split `split`: constant, or mixed (0). */
static inline u32 chunk_rows(u32 split, u32 row, u32 rows)
{
    static const u32 mixed[] = { 1, 3, 16, 2, 64, 5, 7, 33 };
    u32 chunk = split ? split : mixed[row % COUNT_OF(mixed)];
    return MIN(chunk, rows - row);
}

#endif
