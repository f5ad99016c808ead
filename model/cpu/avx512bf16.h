/* model/cpu/avx512bf16.h - level avx512's expansion of block formats where AVX512_BF16 rounds. */
#ifndef MODEL_CPU_AVX512BF16_H
#define MODEL_CPU_AVX512BF16_H

#include "model/ops.h"

/* As level.h's expand. */
void avx512bf16_expand(const struct ops_matrix *w, u32 tile, u32 lo, u32 hi, u8 *out);

#endif
