/* arena/arena.h - the table of typed arenas: every byte of the process that is ours.
 *
 * One range of addresses a space is reserved at start; typed arenas are consecutive ranges of it,
 * each declared once with what it holds.  Commit and decommit, in granules, are the only ways
 * memory enters or leaves.  One process has one set of arenas (file-static table); tests open and
 * close it as often as they like.  The table belongs to the thread that opened it, except the heap
 * arena (jemalloc calls its hooks from any thread) and read-only extents.
 *
 * Start: arena_open(declarations) once; then rooms find theirs by name.  Accounting identity, for
 * each space: committed = used (what takers hold, in the units' bytes) + free (free units in
 * committed granules and ends of granules); arena_check asserts it. */
#ifndef ARENA_ARENA_H
#define ARENA_ARENA_H

#include "arena/base/err.h"
#include "arena/holders.h"
#include "arena/space.h"

enum arena_kind {
    ARENA_BLOCKS,       /* equal units with holders and a label beside each: arena/blocks.h   */
    ARENA_SLOTS,        /* equal units with holders: arena/slots.h                            */
    ARENA_EXTENTS,      /* runs of granules: arena/extents.h                                  */
    ARENA_TABLE,        /* flat tables, committed at declaration of each: arena/table.h       */
    ARENA_SCRATCH,      /* a stack with marks: arena/scratch.h                                */
    ARENA_HEAP,         /* jemalloc's extents: arena/heap.h                                   */
    ARENA_KIND_COUNT
};

enum { ARENA_NAME_BYTES = 24, ARENA_CAP = 32 };     /* `books` is one of them             */

struct arena_decl {
    const char     *name;               /* unique, < ARENA_NAME_BYTES                         */
    enum space      space;
    enum arena_kind kind;
    u64 unit_bytes;                     /* blocks, slots: bytes of a unit; others 0           */
    u32 unit_cap;                       /* blocks, slots: most units there can ever be        */
    u32 label_bytes;                    /* blocks: bytes of label beside each, on the host    */
    u64 cap_bytes;                      /* extents, table, scratch, heap: bytes of the range  */
    u64 reserve_bytes;                  /* committed at open (heap)                           */
};

struct arena_row {
    char            name[ARENA_NAME_BYTES];
    enum space      space;              /* the real one (space_real)                          */
    enum arena_kind kind;
    u8             *base;               /* granule-aligned                                    */
    u64             range_bytes;
    u64             unit_bytes;         /* as rounded: units of a granule or more to granules */
    u32             unit_cap;
    u64             committed_bytes;    /* whole granules                                     */
    u64             used_bytes;         /* held by someone                                    */
    u64             high_water_bytes;   /* most `used_bytes` so far                           */
    u64             commit_count, decommit_count;
    u64             ungated_count;      /* commits while no gate was open (see arena_gate)    */
    struct holders_bytes held;          /* blocks, slots: bytes by charged class              */
};

/* Reserves a range a space and lays the arenas out in it, behind one more arena `books` of the
 * host: rows, labels and free lists of the others (all of it `used`; index = count).  ERR_MEMORY,
 * ERR_CONFIG (name twice; cap 0 units are fine: such an arena holds nothing).  On error nothing
 * stays reserved. */
MUST_USE enum err arena_open(const struct arena_decl *decl, u32 count);

/* Releases everything; all handles and addresses are dead.  Safe when not open. */
void arena_close(void);

/* Index of the arena of that name, or NONE. */
u32 arena_find(const char *name);
/* Row by index; valid until arena_close.  Read only. */
const struct arena_row *arena_row(u32 arena);
u32 arena_count(void);

/* Free bytes inside committed granules: committed - used.  The heap's change under other threads'
 * hands: these are of the figures arena_row took last, so that the three agree. */
u64 arena_free_bytes(u32 arena);

/* Gives whole free granules back until at most `keep_free_bytes` stay committed and unused.
 * Returns bytes decommitted. */
u64 arena_trim(u32 arena, u64 keep_free_bytes);

/* Bytes the next `count` units (or `bytes` of extents) would add to committed, in granules, given
 * the free units there are.  Pure; what a want costs the board. */
u64 arena_cost_units(u32 arena, u32 count);
/* The same for one extent, table or scratch piece of `bytes`. */
u64 arena_cost_bytes(u32 arena, u64 bytes);

/* Marks that a gate is being applied: commits outside are counted in `ungated_count`. */
void arena_gate(bool open);

/* Debug and tests: walks every arena's invariants and asserts them (identity included). */
void arena_check(void);

#endif
