/* tests/model/ops_expand.c - the two texts of level avx512's expansion give one another's tiles.
 *
 * A machine with AVX512_BF16 runs only the one that rounds by it; this file opens avx512.c for the
 * other, so that machines without it are held to the same bits. */
#include "tests/model/ops.h"

#if defined(__x86_64__)
#include "model/cpu/avx512.c"
#include "model/cpu/quant.h"

typedef void expand_fn(const struct ops_matrix *w, const u8 *strip, u32 lo, u32 hi, u8 *out);

static void check_tiles(enum ops_source type, expand_fn *expand)
{
    enum { K = 1024, BLOCKS = K / 32 };
    static u8 strip[K * 64], got[BLOCKS * 1024], want[BLOCKS * 1024];
    struct ops_matrix w = { .packed = strip, .n = 16, .k = K, .format = type };
    u64 head = BLOCKS * (u64)format_rows[type].tile_bytes;
    for (u32 round = 0; round < 8; round++) {
        for (u32 i = 0; i < sizeof strip; i++) strip[i] = (u8)random_u32();
        for (u64 i = head; i + 1 < sizeof strip; i += 2)    /* scales of any size, no infinities */
            if ((strip[i + 1] & 0x7c) == 0x7c) strip[i + 1] ^= 0x40;
        memset(got, 0xee, sizeof got);
        expand(&w, strip, 0, BLOCKS, got);
        avx512bf16_expand(&w, 0, 0, BLOCKS, want);
        CHECK(memcmp(got, want, sizeof got) == 0);
    }
}

TEST(expansion_without_bf16_instructions_gives_the_same_tiles)
{
    if (!cpu_has_level("avx512") || !__builtin_cpu_supports("avx512bf16")) {
        printf("skipped: this machine has no AVX512_BF16 to compare with\n");
        return;
    }
    u32 before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);                            /* FTZ and DAZ, as a job has       */
    check_tiles(OPS_FP8_BLOCK, expand_fp8);
    check_tiles(OPS_Q8_0, expand_q8_0);
    check_tiles(OPS_Q4_0, expand_q4_0);
    check_tiles(OPS_Q4_K, expand_q4_k);
    check_tiles(OPS_Q5_K, expand_q5_k);
    check_tiles(OPS_Q6_K, expand_q6_k);
    _mm_setcsr(before);
}
#else
TEST(expansion_without_bf16_instructions_gives_the_same_tiles)
{
    printf("skipped: no x86-64\n");
}
#endif
