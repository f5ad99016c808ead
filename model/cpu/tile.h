/* model/cpu/tile.h - the eight tile registers of AMX, each 16 rows of 64 bytes.
 *
 * Register numbers are literals: a tile instruction names its registers.  TILE_TWIN puts the same
 * words over an array of memory, in the order the hardware adds (spec: dependencies 3), so that a
 * machine without AMX tests the kernels that use them. */
#ifndef MODEL_CPU_TILE_H
#define MODEL_CPU_TILE_H

#include "model/cpu/level.h"
#include "model/cpu/vec.h"

enum { TILE_ROWS = 16, TILE_LINE = 64, TILE_BYTES = TILE_ROWS * TILE_LINE, TILE_COUNT = 8 };

#ifdef TILE_TWIN
static _Thread_local u8 tile_twin[TILE_COUNT][TILE_BYTES];

static void tile_open(void) {}
static void tile_close(void) {}

static void tile_twin_load(u32 t, const u8 *at, u64 stride)
{
    for (u32 r = 0; r < TILE_ROWS; r++)
        __builtin_memcpy(tile_twin[t] + r * TILE_LINE, at + r * stride, TILE_LINE);
}
static void tile_twin_store(u32 t, u8 *at)
{
    __builtin_memcpy(at, tile_twin[t], TILE_BYTES);
}
static void tile_twin_dot(u32 c, u32 a, u32 b)
{
    for (u32 r = 0; r < TILE_ROWS; r++) {
        vec e = vec_zero(), o = vec_zero();
        f32 *to = (f32 *)(void *)(tile_twin[c] + r * TILE_LINE);
        for (u32 i = 0; i < LEVEL_BLOCK / 2; i++) {
            bf16 pair[2];
            __builtin_memcpy(pair, tile_twin[a] + r * TILE_LINE + 4 * i, sizeof pair);
            const u8 *line = tile_twin[b] + i * TILE_LINE;
            e = vec_fma(vec_all(maths_from_bf16(pair[0])), vec_even(line), e);
            o = vec_fma(vec_all(maths_from_bf16(pair[1])), vec_odd(line), o);
        }
        vec_store(to, vec_add(vec_load(to), vec_add(e, o)));
    }
}
#define TILE_ZERO(t) __builtin_memset(tile_twin[t], 0, TILE_BYTES)
#define TILE_LOAD(t, at) tile_twin_load(t, at, TILE_LINE)
#define TILE_STORE(t, at) tile_twin_store(t, at)
#define TILE_DOT(c, a, b) tile_twin_dot(c, a, b)

#else
struct tile_config {                    /* what LDTILECFG reads                                */
    u8  palette, start_row, reserved[14];
    u16 line_bytes[16];
    u8  rows[16];
};
static_assert(sizeof(struct tile_config) == 64, "LDTILECFG reads 64 bytes");

/* gcc 12's intrinsic declares 8 of the 64 bytes as read: without the barrier the stores that fill
 * the rest may be dropped. */
static void tile_open(void)
{
    struct tile_config config = { .palette = 1 };
    for (u32 i = 0; i < TILE_COUNT; i++) {
        config.line_bytes[i] = TILE_LINE;
        config.rows[i] = TILE_ROWS;
    }
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

static void tile_close(void)
{
    __asm__ volatile("" : : : "memory");
    _tile_release();
}

/* The compilers' loads do not say that they read memory. */
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, at)                                                                       \
    do {                                                                                       \
        __asm__ volatile("" : : : "memory");                                                   \
        _tile_loadd(t, at, TILE_LINE);                                                         \
    } while (0)
#define TILE_STORE(t, at)                                                                      \
    do {                                                                                       \
        _tile_stored(t, at, TILE_LINE);                                                        \
        __asm__ volatile("" : : : "memory");                                                   \
    } while (0)
#define TILE_DOT(c, a, b) _tile_dpbf16ps(c, a, b)
#endif

#endif
