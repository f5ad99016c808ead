/* model/cpu/format.h - weights kept in the bits of their file, re-laid to stream by tiles.
 *
 * A strip is 16 columns of a matrix: a tile of codes a block of 32 terms, K ascending, then the
 * heads (scales) of the blocks; strips after one another, the size of the file's blocks.
 *
 *   FP8_BLOCK  512 B  [8 quads][4][4 terms][4 columns] e4m3       head, 4 blocks: f32
 *   Q8_0       512    [8 quads][16 columns][4] i8     head, a block:  d f16[16]
 *   Q4_0       256    low                             head, a block:  d f16[16]
 *   Q4_K       256    low                             head, 8 blocks: d, dmin f16[16], s u8[12][16]
 *   Q5_K       320    low, then one high bit          the same
 *   Q6_K       384    low, then two high bits         head, 8 blocks: sc i8[16][16], d f16[16]
 * low: [4 lines][16 columns] words of eight 4-bit codes, in byte i of line l term 8 l + i below and
 * term 8 l + 4 + i above.  High bits: words a column likewise, byte i has those of terms 4 j + i, a
 * bit each, j = 0..7 from below (one line), or two (two lines: j < 4, then the rest).  Q8_0's tile
 * is what VNNI and AMX read, and a masked or shifted line of the others is a quad of it.  Terms
 * past K and columns past N are code 0.
 *
 * Heads of a matrix that a file holds tiled (ops_heads): rows and blocks of columns lie in the
 * model's order; the heads of Q4_K, Q5_K, Q6_K span more than a head of columns may and stay in the
 * file's (format_head finds them).  Owns nothing. */
#ifndef MODEL_CPU_FORMAT_H
#define MODEL_CPU_FORMAT_H

#include "model/cpu/level.h"

struct format_row { u16 tile_bytes, head_bytes, head_blocks; };     /* tile_bytes 0: not kept  */
static const struct format_row format_rows[OPS_SOURCE_COUNT] = {
    [OPS_FP8_BLOCK] = { 512, 4, 4 },
    [OPS_Q8_0] = { 512, 32, 1 },
    [OPS_Q4_0] = { 256, 32, 1 },
    [OPS_Q4_K] = { 256, 256, 8 },
    [OPS_Q5_K] = { 320, 256, 8 },
    [OPS_Q6_K] = { 384, 288, 8 },
};

/* What a source is kept as: its own format; BF16 for BF16, F16, F32 and for blocks whose columns a
 * file moved by less than a block. */
enum ops_source format_of(const struct ops_pack_source *source);

/* Bytes of a strip of k terms, a multiple of 64. */
static inline u64 format_strip_bytes(enum ops_source format, u32 k)
{
    const struct format_row *f = &format_rows[format];
    u64 blocks = ((u64)k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
    u64 heads = (blocks + f->head_blocks - 1) / f->head_blocks;
    return ALIGN_UP(blocks * f->tile_bytes + heads * f->head_bytes, 64);
}

/* The codes of block `block` of a strip, and its head; `part` is the block's place in the head.
 * format_head_as is told w's format: a constant, where speed counts. */
static inline const u8 *format_tile(const struct ops_matrix *w, const u8 *strip, u32 block)
{
    return strip + (u64)block * format_rows[w->format].tile_bytes;
}

static inline const u8 *format_head_as(enum ops_source format, const struct ops_matrix *w,
                                       const u8 *strip, u32 block, u32 *part)
{
    const struct format_row *f = &format_rows[format];
    u64 blocks = ((u64)w->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
    u32 at = ops_heads_from(&w->cols, block * LEVEL_BLOCK) / LEVEL_BLOCK;
    *part = at % f->head_blocks;
    return strip + blocks * f->tile_bytes + (u64)(at / f->head_blocks) * f->head_bytes;
}

static inline const u8 *format_head(const struct ops_matrix *w, const u8 *strip, u32 block,
                                    u32 *part)
{
    return format_head_as(w->format, w, strip, block, part);
}

/* Where term t is: the bit of a line's low code, and of a line's high bits of this width. */
static inline u32 format_low_bit(u32 t) { return t % 4 * 8 + t / 4 % 2 * 4; }
static inline u32 format_high_bit(u32 t, u32 width) { return t % 4 * 8 + t / 4 * width % 8; }

/* The cols of the packed matrix: K formats keep the file's order of heads, the others none. */
struct ops_heads format_cols(const struct ops_pack_source *source, enum ops_source format);

/* Packs strip `tile` of a source that format_of keeps. */
void format_pack(const struct ops_pack_source *source, enum ops_source format, u8 *strip, u32 tile);

/* Scales of column c in a block: of its two halves, and what is taken off; f32, as values have
 * them.  Not of FP8_BLOCK. */
struct format_scales { f32 half[2], least; };
struct format_scales format_scales(const struct ops_matrix *w, const u8 *strip, u32 c, u32 block);

/* The number that term t of column c of a tile of GGUF's stands for, before its scale. */
i32 format_code(enum ops_source format, const u8 *tile, u32 c, u32 t);

/* The value of term t of column c of a strip, in f32 before R: the readable twin of expand.h. */
f32 format_value(const struct ops_matrix *w, const u8 *strip, u32 c, u32 t);

#endif
