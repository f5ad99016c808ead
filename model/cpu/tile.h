/* model/cpu/tile.h - the eight tile registers of AMX, each up to 16 rows of 64 bytes.
 *
 * Register numbers are literals: a tile instruction names its registers.  TILE_TWIN puts the same
 * words over an array of memory, in the order the hardware adds (spec: dependencies 3), and asserts
 * what the hardware would refuse, so that a machine without AMX tests the kernels that use them. */
#ifndef MODEL_CPU_TILE_H
#define MODEL_CPU_TILE_H

#include "model/cpu/level.h"
#include "model/cpu/vec.h"

enum { TILE_ROWS = 16, TILE_LINE = 64, TILE_BYTES = TILE_ROWS * TILE_LINE, TILE_COUNT = 8 };

struct tile_config {                    /* what LDTILECFG reads                                */
    u8  palette, start_row, reserved[14];
    u16 line_bytes[16];                 /* of a register's rows                                */
    u8  rows[16];
};
static_assert(sizeof(struct tile_config) == 64, "LDTILECFG reads 64 bytes");

#ifdef TILE_TWIN
static _Thread_local u8 tile_twin[TILE_COUNT][TILE_BYTES];
static _Thread_local struct tile_config tile_twin_config;       /* palette 0: closed           */

static void tile_open(const struct tile_config *config)
{
    ASSERT(config->palette == 1 && config->start_row == 0);
    for (u32 i = 0; i < TILE_COUNT; i++) {
        ASSERT(config->rows[i] <= TILE_ROWS && config->line_bytes[i] <= TILE_LINE);
        ASSERT((config->rows[i] == 0) == (config->line_bytes[i] == 0));
    }
    tile_twin_config = *config;
    __builtin_memset(tile_twin, 0, sizeof tile_twin);
}
static void tile_close(void)
{
    tile_twin_config = (struct tile_config){ 0 };
}

static void tile_twin_load(u32 t, const u8 *at, u64 stride)
{
    ASSERT(tile_twin_config.rows[t] > 0);
    __builtin_memset(tile_twin[t], 0, TILE_BYTES);
    for (u32 r = 0; r < tile_twin_config.rows[t]; r++)
        __builtin_memcpy(tile_twin[t] + r * TILE_LINE, at + r * stride,
                         tile_twin_config.line_bytes[t]);
}
static void tile_twin_store(u32 t, u8 *at)
{
    ASSERT(tile_twin_config.rows[t] > 0);
    for (u32 r = 0; r < tile_twin_config.rows[t]; r++)
        __builtin_memcpy(at + r * TILE_LINE, tile_twin[t] + r * TILE_LINE,
                         tile_twin_config.line_bytes[t]);
}
/* Words of a row of A, as many as B has rows; C has A's rows and B's columns, here sixteen. */
static u32 tile_twin_words(u32 c, u32 a, u32 b)
{
    const struct tile_config *f = &tile_twin_config;
    ASSERT(f->rows[a] > 0 && f->rows[a] == f->rows[c] && f->line_bytes[a] == 4 * f->rows[b]);
    ASSERT(f->line_bytes[b] == TILE_LINE && f->line_bytes[c] == TILE_LINE);
    return f->rows[b];
}
static void tile_twin_dot(u32 c, u32 a, u32 b)
{
    u32 words = tile_twin_words(c, a, b);
    for (u32 r = 0; r < tile_twin_config.rows[c]; r++) {
        vec e = vec_zero(), o = vec_zero();
        f32 *to = (f32 *)(void *)(tile_twin[c] + r * TILE_LINE);
        for (u32 i = 0; i < words; i++) {
            bf16 pair[2];
            __builtin_memcpy(pair, tile_twin[a] + r * TILE_LINE + 4 * i, sizeof pair);
            const u8 *line = tile_twin[b] + i * TILE_LINE;
            e = vec_fma(vec_all(maths_from_bf16(pair[0])), vec_even(line), e);
            o = vec_fma(vec_all(maths_from_bf16(pair[1])), vec_odd(line), o);
        }
        vec_store(to, vec_add(vec_load(to), vec_add(e, o)));
    }
}
static void tile_twin_dot_i8(u32 c, u32 a, u32 b)
{
    u32 words = tile_twin_words(c, a, b);
    for (u32 r = 0; r < tile_twin_config.rows[c]; r++) {
        i32 *to = (i32 *)(void *)(tile_twin[c] + r * TILE_LINE);
        const i8 *x = (const i8 *)tile_twin[a] + r * TILE_LINE;
        for (u32 i = 0; i < words; i++)
            for (u32 n = 0; n < LEVEL_COLUMNS; n++)
                for (u32 t = 0; t < 4; t++)
                    to[n] += x[4 * i + t] * (i8)tile_twin[b][i * TILE_LINE + 4 * n + t];
    }
}
#define TILE_ZERO(t) __builtin_memset(tile_twin[t], 0, TILE_BYTES)
#define TILE_LOAD_FROM(t, at, stride) tile_twin_load(t, at, stride)
#define TILE_STORE(t, at) tile_twin_store(t, at)
#define TILE_DOT(c, a, b) tile_twin_dot(c, a, b)
#define TILE_DOT_I8(c, a, b) tile_twin_dot_i8(c, a, b)

#else
/* gcc 12's intrinsic declares 8 of the 64 bytes as read: without the barrier the stores that fill
 * the rest may be dropped. */
static void tile_open(const struct tile_config *config)
{
    __asm__ volatile("" : : "r"(config) : "memory");
    _tile_loadconfig(config);
}

static void tile_close(void)
{
    __asm__ volatile("" : : : "memory");
    _tile_release();
}

/* The compilers' loads do not say that they read memory. */
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD_FROM(t, at, stride)                                                          \
    do {                                                                                       \
        __asm__ volatile("" : : : "memory");                                                   \
        _tile_loadd(t, at, stride);                                                            \
    } while (0)
#define TILE_STORE(t, at)                                                                      \
    do {                                                                                       \
        _tile_stored(t, at, TILE_LINE);                                                        \
        __asm__ volatile("" : : : "memory");                                                   \
    } while (0)
#define TILE_DOT(c, a, b) _tile_dpbf16ps(c, a, b)
#define TILE_DOT_I8(c, a, b) _tile_dpbssd(c, a, b)
#endif

/* Rows that lie one after another. */
#define TILE_LOAD(t, at) TILE_LOAD_FROM(t, at, TILE_LINE)

/* Registers as order32 takes them: each of 16 rows of 64 bytes. */
static void tile_open_whole(void)
{
    struct tile_config config = { .palette = 1 };
    for (u32 i = 0; i < TILE_COUNT; i++) {
        config.line_bytes[i] = TILE_LINE;
        config.rows[i] = TILE_ROWS;
    }
    tile_open(&config);
}

#endif
