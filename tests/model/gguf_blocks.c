/* gguf_blocks.c - the block formats bit for bit as tests/oracle/gguf_io.py decodes them. */
#include "model/cpu/quant.h"
#include "tests/model/rig.h"

enum { BLOCKS = 4000 };

static void *read_file(const char *type, const char *end, u64 bytes)
{
    char path[128];
    snprintf(path, sizeof path, "build/golden/blocks/%s.%s", type, end);
    FILE *f = fopen(path, "rb");
    void *data = malloc(bytes);
    CHECK(f != NULL && fread(data, 1, bytes, f) == bytes && fgetc(f) == EOF);
    fclose(f);
    return data;
}

static const struct { const char *word; enum ops_source type; } TYPES[] = {
    { "Q8_0", OPS_Q8_0 }, { "Q4_0", OPS_Q4_0 }, { "Q4_K", OPS_Q4_K }, { "Q5_K", OPS_Q5_K },
    { "Q6_K", OPS_Q6_K },
};

TEST(random_blocks_of_every_type_decode_to_the_oracles_bits)
{
    rig_run("mkdir -p build/golden && OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 "
            "/usr/bin/python3 tests/oracle/gguf_cases.py --blocks build/golden/blocks%s%s", "", "");
    for (u32 i = 0; i < COUNT_OF(TYPES); i++) {
        enum ops_source type = TYPES[i].type;
        u32 count = BLOCKS * quant_block_values(type);
        u8 *data = read_file(TYPES[i].word, "bin", (u64)BLOCKS * quant_block_bytes(type));
        f32 *want = read_file(TYPES[i].word, "f32", 4ull * count), *have = malloc(4ull * count);
        quant_expand(type, data, count, 0, 0, count, have);
        for (u32 k = 0; k < count; k++)
            if (memcmp(&have[k], &want[k], 4) != 0)
                test_failed(__FILE__, __LINE__, "%s: value %u is %a, not %a", TYPES[i].word, k,
                            (f64)have[k], (f64)want[k]);
        free(data);
        free(want);
        free(have);
    }
}

TEST(any_run_of_a_row_is_that_part_of_the_row)
{
    u8 data[4 * 210];
    f32 row[1024], part[1024];
    for (u32 i = 0; i < sizeof data; i++) data[i] = (u8)(i * 29 % 60);
    for (u32 i = 0; i < COUNT_OF(TYPES); i++) {
        enum ops_source type = TYPES[i].type;
        u32 k = 2 * quant_block_values(type);
        for (u32 j = 0; j < 2; j++) quant_expand(type, data, k, j, 0, k, row + j * k);
        for (u32 t = 0; t < k; t += 7)
            for (u32 count = 1; t + count <= k; count += 23) {
                quant_expand(type, data, k, 1, t, count, part);
                CHECK(memcmp(part, row + k + t, 4 * count) == 0);
            }
    }
}
