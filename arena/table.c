/* arena/table.c - flat tables one after another. */
#include "arena/table.h"

#include "arena/inside.h"

#include <string.h>

enum { TABLE_ALIGN = 64 };

enum err arena_table_take(u32 arena, const char *name, u64 row_bytes, u64 rows, void *out)
{
    if (row_bytes > 0 && rows > INT64_MAX / row_bytes)
        return fail(ERR_FULL, "table %s: %llu rows of %llu bytes", name, (ull)rows,
                    (ull)row_bytes);
    u8 *at = NULL;
    TRY(arena_inside_push(arena, ARENA_TABLE, name, rows * row_bytes, TABLE_ALIGN, &at));
    memcpy(out, &at, sizeof at);        /* `out` is a pointer to the caller's row pointer     */
    return OK;
}
