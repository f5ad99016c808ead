/* model/cpu/pack.c - rows of a weight file into the tiles the products read. */
#include "model/cpu/pack.h"

#include <string.h>

#include "model/cpu/level.h"
#include "model/cpu/quant.h"
#include "model/maths.h"

enum { PACK_FP8_BLOCK = 128, PACK_STEP = 256 };

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
    if (source->type > OPS_Q6_K)
        return fail(ERR_UNSUPPORTED, "pack: source type %d", (int)source->type);
    if (source->type == OPS_FP8_BLOCK &&
        (!source->scale || (source->scale_type != OPS_BF16 && source->scale_type != OPS_F32)))
        return fail(ERR_UNSUPPORTED, "pack: block FP8 needs scales of BF16 or F32");
    if (source->type == OPS_FP8_BLOCK && (source->rows.keys > 0 || source->cols.keys > 0))
        return fail(ERR_UNSUPPORTED, "pack: block FP8 with reordered heads");
    if (source->type > OPS_FP8_BLOCK && source->k % quant_block_values(source->type) != 0)
        return fail(ERR_UNSUPPORTED, "pack: rows of %u values are no whole blocks", source->k);
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
    default: quant_expand(s->type, s->data, s->k, j, t, count, out); return;
    }
    u64 across = ((u64)s->k + PACK_FP8_BLOCK - 1) / PACK_FP8_BLOCK;
    u64 block = (u64)(j / PACK_FP8_BLOCK) * across + t / PACK_FP8_BLOCK;
    f32 scale = s->scale_type == OPS_F32 ? read_f32(s->scale + 4 * block)
                                         : maths_from_bf16(read_u16(s->scale + 2 * block));
    for (u32 i = 0; i < count; i++) out[i] = maths_from_e4m3(s->data[at + i]) * scale;
}

/* The same for row j and columns of the model, wherever the file has them: one run of columns at a
 * time lies together in the file. */
static void expand_from(const struct ops_pack_source *s, u32 j, u32 t, u32 count, f32 *out)
{
    u32 row = ops_heads_from(&s->rows, j), run;
    for (u32 done = 0; done < count; done += run) {
        u32 at = t + done;
        run = count - done;
        if (s->cols.keys > 0)
            run = MIN(run, at < s->cols.first ? s->cols.first - at
                                              : s->cols.dim - (at - s->cols.first) % s->cols.dim);
        expand(s, row, ops_heads_from(&s->cols, at), run, out + done);
    }
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
    if (s->type == OPS_BF16 && !reference && s->rows.keys == 0 && s->cols.keys == 0) {
        copy_bf16(s, out, tile);
        return;
    }
    u32 step = s->type == OPS_FP8_BLOCK ? PACK_FP8_BLOCK : PACK_STEP;
    for (u32 t = 0; t < s->k; t += step)
        for (u32 j = j0; j < MIN(j0 + LEVEL_COLUMNS, s->n); j++) {
            f32 value[PACK_STEP];
            u32 count = MIN(s->k - t, step);
            expand_from(s, j, t, count, value);
            place(value, j - j0, t, count, out, reference);
        }
}
