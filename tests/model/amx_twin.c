/* amx_twin.c - the kernels of level amx on a machine without AMX: tile registers in memory.
 *
 * The twin (model/cpu/tile.h) adds in the order the hardware documents; on a machine with AMX the
 * same tests, ops_product.c and ops_attn.c, run the real instructions.  Here they hold the level's
 * packing, edges, chunks of K and task cuts. */
#define TILE_TWIN
#include "model/cpu/amx.c"      /* NOLINT: opened up, and linked in place of the archive's */
#include "model/cpu/levels.c"

#include "tests/model/ops_product.c"
