/* amx_twin_int8.c - the integer arithmetic of level amx on a machine without AMX: tile registers in
 * memory.
 *
 * See amx_twin.c. */
#define TILE_TWIN
#include "model/cpu/amx.c"      /* NOLINT: opened up, and linked in place of the archive's */
#include "model/cpu/levels.c"

#include "tests/model/ops_int8.c"
