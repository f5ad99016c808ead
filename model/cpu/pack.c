/* model/cpu/pack.c - rows of a weight file into the tiles the products read. */
#include "model/cpu/pack.h"

#include <string.h>

#include "model/cpu/level.h"
#include "model/maths.h"

enum { PACK_FP8_BLOCK = 128 };

static u64 blocks_of(u32 k)
{
    return ((u64)k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
}

u64 pack_bytes(u32 n, u32 k, bool reference)
{
    u64 tiles = ((u64)n + LEVEL_COLUMNS - 1) / LEVEL_COLUMNS * blocks_of(k);
    return tiles * LEVEL_TILE * (reference ? sizeof(f32) : sizeof(bf16));
}

enum err pack_check(const struct ops_pack_source *source)
{
    if (source->type > OPS_FP8_BLOCK)
        return fail(ERR_UNSUPPORTED, "pack: source type %d", (int)source->type);
    if (source->type == OPS_FP8_BLOCK &&
        (!source->scale || (source->scale_type != OPS_BF16 && source->scale_type != OPS_F32)))
        return fail(ERR_UNSUPPORTED, "pack: block FP8 needs scales of BF16 or F32");
    return OK;
}

static f32 read_f32(const u8 *at)
{
    f32 value;
    memcpy(&value, at, sizeof value);
    return value;
}

static u16 read_u16(const u8 *at)
{
    u16 value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Values (j, [t, t + count)) of the source in f32, before R; t and count within one FP8 block. */
static void expand(const struct ops_pack_source *s, u32 j, u32 t, u32 count, f32 *out)
{
    u64 at = (u64)j * s->k + t;
    switch (s->type) {
    case OPS_BF16:
        for (u32 i = 0; i < count; i++) out[i] = maths_from_bf16(read_u16(s->data + 2 * (at + i)));
        return;
    case OPS_F16:
        for (u32 i = 0; i < count; i++) out[i] = maths_from_f16(read_u16(s->data + 2 * (at + i)));
        return;
    case OPS_F32: memcpy(out, s->data + 4 * at, count * sizeof(f32)); return;
    case OPS_FP8_BLOCK: break;
    }
    u64 across = ((u64)s->k + PACK_FP8_BLOCK - 1) / PACK_FP8_BLOCK;
    u64 block = (u64)(j / PACK_FP8_BLOCK) * across + t / PACK_FP8_BLOCK;
    f32 scale = s->scale_type == OPS_F32 ? read_f32(s->scale + 4 * block)
                                         : maths_from_bf16(read_u16(s->scale + 2 * block));
    for (u32 i = 0; i < count; i++) out[i] = maths_from_e4m3(s->data[at + i]) * scale;
}

/* Column c of a tile row: values of terms [t, t + count) to their places. */
static void place(const f32 *value, u32 c, u32 t, u32 count, u8 *out, bool reference)
{
    for (u32 i = 0; i < count; i++) {
        u64 line = (u64)((t + i) / 2) * LEVEL_BLOCK;
        u32 odd = (t + i) % 2;
        bf16 rounded = maths_to_bf16(value[i]);
        if (reference) memcpy(out + (line + odd * LEVEL_COLUMNS + c) * 4, &value[i], 4);
        else memcpy(out + (line + c * 2 + odd) * 2, &rounded, 2);
    }
}

/* BF16 to BF16: lines of 16 columns, two terms each, moved as 32-bit words. */
static void copy_bf16(const struct ops_pack_source *s, u8 *to, u32 tile)
{
    u64 row_bytes = (u64)s->k * 2;
    u32 columns = MIN(s->n - tile * LEVEL_COLUMNS, (u32)LEVEL_COLUMNS);
    const u8 *from = s->data + (u64)tile * LEVEL_COLUMNS * row_bytes;
    u32 pairs = s->k / 2;
    for (u32 pair = 0; pair < pairs; pair++)
        for (u32 c = 0; c < columns; c++)
            memcpy(to + ((u64)pair * LEVEL_COLUMNS + c) * 4, from + c * row_bytes + pair * 4ull, 4);
    if (s->k % 2 == 0) return;
    for (u32 c = 0; c < columns; c++)
        memcpy(to + ((u64)pairs * LEVEL_COLUMNS + c) * 4, from + c * row_bytes + pairs * 4ull, 2);
}

void pack_tile_row(const struct ops_pack_source *s, u8 *to, u32 tile, bool reference)
{
    u64 row_bytes = pack_bytes(LEVEL_COLUMNS, s->k, reference);
    u8 *out = to + tile * row_bytes;
    u32 j0 = tile * LEVEL_COLUMNS;
    if (s->k % LEVEL_BLOCK != 0 || j0 + LEVEL_COLUMNS > s->n) memset(out, 0, row_bytes);
    if (s->type == OPS_BF16 && !reference) {
        copy_bf16(s, out, tile);
        return;
    }
    for (u32 t = 0; t < s->k; t += PACK_FP8_BLOCK)
        for (u32 j = j0; j < MIN(j0 + LEVEL_COLUMNS, s->n); j++) {
            f32 value[PACK_FP8_BLOCK];
            u32 count = MIN(s->k - t, (u32)PACK_FP8_BLOCK);
            expand(s, j, t, count, value);
            place(value, j - j0, t, count, out, reference);
        }
}
