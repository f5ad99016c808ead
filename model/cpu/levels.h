/* model/cpu/levels.h - which levels this build has and this machine runs, the best first. */
#ifndef MODEL_CPU_LEVELS_H
#define MODEL_CPU_LEVELS_H

#include "model/cpu/level.h"

/* Level `i` of the build, whether or not the machine runs it; NULL past the last. */
const struct cpu_level *levels_at(u32 i);
/* Whether the machine, and the system under it, run the level of that name. */
bool levels_here(const char *name);
/* Whether the tiles of level amx multiply bytes, too. */
bool levels_amx_int8(void);
/* The level of that name, or the best (NULL, "auto"); NULL: none that the machine runs. */
const struct cpu_level *levels_find(const char *name);

#endif
