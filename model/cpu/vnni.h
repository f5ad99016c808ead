/* model/cpu/vnni.h - the integer arithmetic of level avx512 on machines with AVX-512 VNNI. */
#ifndef MODEL_CPU_VNNI_H
#define MODEL_CPU_VNNI_H

#include "model/cpu/level.h"

/* As level.h's int8_ready and int8_product. */
void vnni_ready(const struct ops_product *p, u32 lo, u32 hi);
void vnni_product(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi);

#endif
