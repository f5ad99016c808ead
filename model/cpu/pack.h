/* model/cpu/pack.h - packed matrices: 16 columns x 32 terms a tile, all tiles of 16 columns after
 * one another, K ascending; columns and terms past the matrix are +0.
 *
 *   serving     BF16 [n/16][k/32][16 pairs][16 columns][2]: a 64-byte line is 16 columns of the
 *               terms (2i, 2i+1), split into the even and the odd chain by a shift and a mask
 *   reference   F32  [n/16][k/32][16 pairs][2][16 columns]
 * Owns nothing. */
#ifndef MODEL_CPU_PACK_H
#define MODEL_CPU_PACK_H

#include "model/ops.h"

/* Bytes of a packed [n, k]. */
u64 pack_bytes(u32 n, u32 k, bool reference);

/* Packs columns of tile `tile` (16 rows of the source).  Expansion of other formats: the value in
 * f32 (FP8: e4m3(code) * scale; GGUF blocks: quant.h), then R. */
void pack_tile_row(const struct ops_pack_source *source, u8 *to, u32 tile, bool reference);

/* ERR_UNSUPPORTED: a source type or scale type this backend does not read. */
MUST_USE enum err pack_check(const struct ops_pack_source *source);

#endif
