/* tests/model/ops_expand.c - the two texts of level avx512's block formats give one another's bits.
 *
 * A machine with AVX512_BF16 and AVX512_VBMI runs only the one that uses them; this file opens
 * avx512.c for the other, so that machines without them are held to the same bits. */
#include "tests/model/ops.h"

#if defined(__x86_64__)
#include "model/cpu/avx512bf16.h"
#define avx512bf16_here() false
#include "model/cpu/avx512.c"
#undef avx512bf16_here
#include "model/cpu/quant.h"

enum { BLOCKS_MOST = 32, STRIPS = 3, STRIP_BYTES = BLOCKS_MOST * 32 * 32, X_VALUES = 8 * 1024 };

/* Strips of any bytes, with scales of any size that are no infinities. */
static void random_strips(u8 *strip, const struct ops_matrix *w)
{
    u64 bytes = format_strip_bytes(w->format, w->k);
    u64 head = (u64)(w->k / LEVEL_BLOCK) * format_rows[w->format].tile_bytes;
    for (u32 s = 0; s < STRIPS; s++, strip += bytes) {
        for (u64 i = 0; i < bytes; i++) strip[i] = (u8)random_u32();
        for (u64 i = head; i + 1 < bytes; i += 2)
            if ((strip[i + 1] & 0x7c) == 0x7c) strip[i + 1] ^= 0x40;
    }
}

static void check_tiles(enum ops_source type)
{
    static u8 strip[STRIPS * STRIP_BYTES], got[BLOCKS_MOST * 1024], want[BLOCKS_MOST * 1024];
    struct ops_matrix w = { .packed = strip, .n = 48, .k = BLOCKS_MOST * 32, .format = type };
    for (u32 round = 0; round < 8; round++) {
        random_strips(strip, &w);
        memset(got, 0xee, sizeof got);
        level_expand(&w, round % STRIPS, 0, BLOCKS_MOST, got);
        avx512bf16_expand(&w, round % STRIPS, 0, BLOCKS_MOST, want);
        CHECK(memcmp(got, want, sizeof got) == 0);
    }
}

/* Numbers only: which NaN of two a step gives is the compiler's choice. */
static void no_nan(u8 *strip, const struct ops_matrix *w)
{
    u64 bytes = format_strip_bytes(w->format, w->k), head = (u64)w->k * LEVEL_COLUMNS;
    if (w->format != OPS_FP8_BLOCK) return;
    for (u32 s = 0; s < STRIPS; s++, strip += bytes) {
        for (u64 i = 0; i < head; i++)
            if ((strip[i] & 0x7f) == 0x7f) strip[i] ^= 1;
        for (u64 i = head; i + 4 <= bytes; i += 4) {
            f32 scale = random_f32(0.05f);
            memcpy(strip + i, &scale, 4);
        }
    }
}

static void check_stream(enum ops_source type, u32 blocks)
{
    static u8 strip[STRIPS * STRIP_BYTES];
    static f32 got[8 * 40], want[8 * 40];
    struct ops_matrix w = { .packed = strip, .n = 40, .k = blocks * 32, .format = type };
    f32 *x = random_values(X_VALUES, 1.0f, false);
    random_strips(strip, &w);
    no_nan(strip, &w);
    for (u32 rows = 1; rows <= STREAM_ROWS; rows++) {
        struct ops_product p = { .w = &w, .x = x, .y = got, .rows = rows, .y_f32 = rows % 2 };
        memset(got, 0xee, sizeof got);
        memset(want, 0xee, sizeof want);
        level_stream(&p, 0, rows, 0, STRIPS);
        p.y = want;
        avx512bf16_stream(&p, 0, rows, 0, STRIPS);
        CHECK(memcmp(got, want, sizeof got) == 0);
    }
    free(x);
}

static bool both_here(void)
{
    bool here = cpu_has_level("avx512") && avx512bf16_here();
    if (!here) printf("skipped: this machine has no AVX512_BF16 and _VBMI to compare with\n");
    return here;
}

TEST(expansion_without_bf16_instructions_gives_the_same_tiles)
{
    if (!both_here()) return;
    u32 before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);                            /* FTZ and DAZ, as a job has       */
    for (u32 type = OPS_FP8_BLOCK; type <= OPS_Q6_K; type++) check_tiles(type);
    _mm_setcsr(before);
}

TEST(few_rows_without_bf16_instructions_have_the_same_bits)
{
    if (!both_here()) return;
    u32 before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    for (u32 type = OPS_FP8_BLOCK; type <= OPS_Q6_K; type++) {
        check_stream(type, 8);
        check_stream(type, BLOCKS_MOST);
        if (format_rows[type].head_blocks < 8) check_stream(type, 1);
    }
    _mm_setcsr(before);
}
#else
TEST(expansion_without_bf16_instructions_gives_the_same_tiles)
{
    printf("skipped: no x86-64\n");
}
#endif
