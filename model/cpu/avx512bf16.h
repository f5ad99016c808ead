/* model/cpu/avx512bf16.h - level avx512's expansion of block formats where AVX512_BF16 rounds. */
#ifndef MODEL_CPU_AVX512BF16_H
#define MODEL_CPU_AVX512BF16_H

#include "model/ops.h"

enum { AVX512BF16_ROWS = 8 };          /* avx512bf16_stream's most                            */

/* Whether this machine has the instructions (AVX512_BF16 and AVX512_VBMI). */
bool avx512bf16_here(void);

/* As level.h's expand; and level_stream of stream.h. */
void avx512bf16_expand(const struct ops_matrix *w, u32 tile, u32 lo, u32 hi, u8 *out);
void avx512bf16_stream(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi);

#endif
