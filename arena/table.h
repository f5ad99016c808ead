/* arena/table.h - memory for flat tables: cut once at start from an arena of kind ARENA_TABLE.
 *
 * A table is an array of rows of fixed capacity owned by one file; this room hands out its memory
 * (zeroed, 64-byte aligned) and never takes it back before arena_close. */
#ifndef ARENA_TABLE_H
#define ARENA_TABLE_H

#include "arena/arena.h"

/* Zeroed memory for `rows` rows of `row_bytes`.  ERR_MEMORY, ERR_FULL names the table. */
MUST_USE enum err arena_table_take(u32 arena, const char *name, u64 row_bytes, u64 rows, void *out);

#endif
