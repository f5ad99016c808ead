/* model/cpu/format.c - blocks of a file into strips, and single values of them. */
#include "model/cpu/format.h"

#include <string.h>

#include "model/cpu/quant.h"
#include "model/maths.h"

enum {
    LINE = 64, LOW_BYTES = 256,             /* of a tile's low codes                           */
    K_SCALES = 64, K_SCALE_BYTES = 12,      /* in a head of Q4_K and Q5_K, after d and dmin    */
    Q6_SCALES = 16, Q6_D = 256,             /* in a head of Q6_K: scales a column, then d      */
    FP8_EDGE = 128,
};

enum ops_source format_of(const struct ops_pack_source *source)
{
    const struct ops_heads *cols = &source->cols;
    bool whole = cols->keys == 0 ||
                 (cols->first % LEVEL_BLOCK == 0 && cols->dim % LEVEL_BLOCK == 0);
    return format_rows[source->type].tile_bytes > 0 && whole ? source->type : OPS_BF16;
}

struct ops_heads format_cols(const struct ops_pack_source *source, enum ops_source format)
{
    if (format_rows[format].head_blocks > 1) return source->cols;
    return (struct ops_heads){ 0 };
}

static u16 half_bits(const u8 *at)
{
    return (u16)(at[0] | at[1] << 8);
}

/* ---- pack ------------------------------------------------------------------------------------ */

/* The 4 to 6 bit codes of block `part` of 32 terms inside the file's block `b`. */
static void codes_of(enum ops_source type, const u8 *b, u32 part, u8 code[LEVEL_BLOCK])
{
    const u8 *q = b + (type == OPS_Q4_K ? 16 : 48) + part / 2 * LEVEL_BLOCK, *high = b + 16;
    const u8 *ql = b + part / 4 * 64 + part % 2 * LEVEL_BLOCK;
    const u8 *qh = b + 128 + part / 4 * LEVEL_BLOCK;
    for (u32 i = 0; i < LEVEL_BLOCK; i++) {
        if (type == OPS_Q4_0)
            code[i] = (u8)(b[2 + i % 16] >> (i / 16 * 4) & 15);
        else if (type == OPS_Q6_K)
            code[i] = (u8)((ql[i] >> (part % 4 / 2 * 4) & 15) | (qh[i] >> (part % 4 * 2) & 3) << 4);
        else
            code[i] = (u8)(q[i] >> (part % 2 * 4) & 15);
        if (type == OPS_Q5_K) code[i] |= (u8)((high[i] >> part & 1) << 4);
    }
}

/* Term t of column c in a tile of FP8. */
static u32 fp8_at(u32 c, u32 t) { return t / 4 * LINE + c / 4 * 16 + t % 4 * 4 + c % 4; }

/* Codes of column c to their places in a tile. */
static void place_codes(enum ops_source type, const u8 code[LEVEL_BLOCK], u32 c, u8 *tile)
{
    u32 high[2] = { 0, 0 }, width = type == OPS_Q5_K ? 1 : type == OPS_Q6_K ? 2 : 0;
    for (u32 t = 0; t < LEVEL_BLOCK; t++) {
        tile[t / 8 * LINE + c * 4 + t % 4] |= (u8)((code[t] & 15) << format_low_bit(t) % 8);
        if (width > 0)
            high[t * width / LEVEL_BLOCK] |= (u32)(code[t] >> 4) << format_high_bit(t, width);
    }
    for (u32 i = 0; i < width; i++) memcpy(tile + LOW_BYTES + i * LINE + c * 4, &high[i], 4);
}

/* Scales of column c of the file's block `b` to their places in a head. */
static void place_head(enum ops_source type, const u8 *b, u32 c, u8 *head)
{
    if (type == OPS_Q6_K) {
        for (u32 i = 0; i < Q6_SCALES; i++) head[i * LEVEL_COLUMNS + c] = b[192 + i];
        memcpy(head + Q6_D + 2 * c, b + 208, 2);
        return;
    }
    memcpy(head + 2 * c, b, 2);
    if (type != OPS_Q4_K && type != OPS_Q5_K) return;
    memcpy(head + 32 + 2 * c, b + 2, 2);
    for (u32 i = 0; i < K_SCALE_BYTES; i++) head[K_SCALES + i * LEVEL_COLUMNS + c] = b[4 + i];
}

/* Column c of a strip from a row of GGUF blocks. */
static void pack_blocks(const struct ops_pack_source *s, const struct ops_matrix *w, const u8 *row,
                        u8 *strip, u32 c)
{
    u32 each = quant_block_values(s->type) / LEVEL_BLOCK, bytes = quant_block_bytes(s->type);
    u8 code[LEVEL_BLOCK];
    for (u32 block = 0; block < s->k / LEVEL_BLOCK; block++) {
        u32 from = ops_heads_from(&s->cols, block * LEVEL_BLOCK) / LEVEL_BLOCK, part;
        const u8 *b = row + (u64)(from / each) * bytes;
        u8 *tile = strip + (u64)block * format_rows[s->type].tile_bytes;
        u8 *head = strip + (format_head(w, strip, block, &part) - strip);
        if (part == 0) place_head(s->type, b, c, head);
        if (s->type == OPS_Q8_0) {
            for (u32 t = 0; t < LEVEL_BLOCK; t += 4) memcpy(tile + t * LEVEL_COLUMNS + c * 4,
                                                            b + 2 + t, 4);
            continue;
        }
        codes_of(s->type, b, from % each, code);
        place_codes(s->type, code, c, tile);
    }
}

/* Strip `tile` from block FP8: its columns share a row of scales. */
static void pack_fp8(const struct ops_pack_source *s, u8 *strip, u32 tile)
{
    u32 across = (s->k + FP8_EDGE - 1) / FP8_EDGE, j0 = tile * LEVEL_COLUMNS;
    u64 blocks = ((u64)s->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
    for (u32 c = 0; c < MIN(s->n - j0, (u32)LEVEL_COLUMNS); c++)
        for (u32 t = 0; t < s->k; t++)
            strip[fp8_at(c, t)] = s->data[(u64)(j0 + c) * s->k + t];
    for (u32 i = 0; i < across; i++) {
        u64 at = (u64)(j0 / FP8_EDGE) * across + i;
        f32 scale;
        if (s->scale_type == OPS_F32) memcpy(&scale, s->scale + 4 * at, 4);
        else scale = maths_from_bf16(half_bits(s->scale + 2 * at));
        memcpy(strip + blocks * LEVEL_TILE + i * sizeof scale, &scale, sizeof scale);
    }
}

void format_pack(const struct ops_pack_source *source, enum ops_source format, u8 *strip, u32 tile)
{
    struct ops_matrix w = { .format = format, .n = source->n, .k = source->k,
                            .cols = format_cols(source, format) };
    u32 j0 = tile * LEVEL_COLUMNS;
    ASSERT(format == source->type);
    memset(strip, 0, format_strip_bytes(format, source->k));
    if (format == OPS_FP8_BLOCK) {
        pack_fp8(source, strip, tile);
        return;
    }
    u64 row_bytes = source->k / quant_block_values(format) * (u64)quant_block_bytes(format);
    for (u32 j = j0; j < MIN(j0 + LEVEL_COLUMNS, source->n); j++)
        pack_blocks(source, &w, source->data + ops_heads_from(&source->rows, j) * row_bytes, strip,
                    j - j0);
}

/* ---- values ---------------------------------------------------------------------------------- */

i32 format_code(enum ops_source format, const u8 *tile, u32 c, u32 t)
{
    u32 low = (u32)tile[t / 8 * LINE + c * 4 + t % 4] >> format_low_bit(t) % 8 & 15u, word;
    if (format == OPS_Q8_0) return (i8)tile[t / 4 * LINE + c * 4 + t % 4];
    if (format == OPS_Q4_0) return (i32)low - 8;
    if (format == OPS_Q4_K) return (i32)low;
    u32 width = format == OPS_Q6_K ? 2 : 1, line = t * width / LEVEL_BLOCK;
    memcpy(&word, tile + LOW_BYTES + line * LINE + c * 4, 4);
    u32 high = word >> format_high_bit(t, width) & (width == 2 ? 3u : 1u);
    return (i32)(low | high << 4) - (format == OPS_Q6_K ? 32 : 0);
}

struct format_scales format_scales(const struct ops_matrix *w, const u8 *strip, u32 c, u32 block)
{
    u32 part, scale, least;
    const u8 *head = format_head(w, strip, block, &part);
    f32 d = maths_from_f16(half_bits(head + (w->format == OPS_Q6_K ? Q6_D : 0) + 2 * c));
    struct format_scales s = { { d, d }, 0.0f };
    if (w->format == OPS_Q6_K)
        for (u32 i = 0; i < 2; i++)
            s.half[i] = d * (f32)(i8)head[(part * 2 + i) * LEVEL_COLUMNS + c];
    if (w->format == OPS_Q4_K || w->format == OPS_Q5_K) {
        quant_scale(head + K_SCALES + c, LEVEL_COLUMNS, part, &scale, &least);
        s.half[0] = s.half[1] = d * (f32)scale;
        s.least = maths_from_f16(half_bits(head + 32 + 2 * c)) * (f32)least;
    }
    return s;
}

f32 format_value(const struct ops_matrix *w, const u8 *strip, u32 c, u32 t)
{
    u32 part, block = t / LEVEL_BLOCK, at = t % LEVEL_BLOCK;
    const u8 *tile = format_tile(w, strip, block);
    if (w->format == OPS_FP8_BLOCK) {
        f32 edge;
        memcpy(&edge, format_head(w, strip, block, &part), sizeof edge);
        return maths_from_e4m3(tile[fp8_at(c, at)]) * edge;
    }
    struct format_scales s = format_scales(w, strip, c, block);
    f32 value = s.half[at / 16] * (f32)format_code(w->format, tile, c, at);
    return w->format == OPS_Q4_K || w->format == OPS_Q5_K ? value - s.least : value;
}
