/* tiers/suffix/segment.h - the table of segments: words in memory, and what finds places in them.
 *
 * A segment that is written to has a chain (the newest place by the hash of three ids, and before
 * each place the one before it), a closed one gets an array from the builder and keeps its chain
 * until then.  Memory is extents of arena `suffix`, taken inside a gate of its own as a may-want of
 * node `suffix`: refused is a segment that is not searched, or ids that are not kept.  Under
 * pressure segments are yielded: their file stays.  What a thread still reads or writes is
 * held; a segment that goes meanwhile is GONE until the last hold is dropped.  Engine thread. */
#ifndef SUFFIX_SEGMENT_H
#define SUFFIX_SEGMENT_H

#include "arena/extents.h"
#include "budget/gate.h"
#include "tiers/suffix/words.h"

enum {
    SEGMENT_STORE = 64,                 /* of the log                                         */
    SEGMENT_CORPUS = 16,                /* of --corpus                                        */
    SEGMENT_ROWS = 96,                  /* those, and some that are GONE                      */
    SEGMENT_WORDS_MAX = 1u << 20,       /* of one                                             */
    SEGMENT_WORDS_MIN = 64,
};

enum segment_state {
    SEGMENT_FREE,
    SEGMENT_OPEN,                       /* is written to                                      */
    SEGMENT_CLOSED,
    SEGMENT_STORED,                     /* its file alone: no memory                          */
    SEGMENT_GONE,                       /* forgotten; some thread still has it                */
};

struct segment_row {
    u64 number;                         /* later ones are newer                               */
    u64 count, cap;                     /* words in use, and room for                         */
    u64 ids;                            /* of those                                           */
    u64 places;                         /* in its array                                       */
    u64 written, writing;               /* words in the file; once the write under way is done */
    u64 used_us;                        /* last hit                                           */
    extent_id words, chain, array;      /* index NONE: not there                              */
    u32 state;                          /* enum segment_state                                 */
    u32 holds, hits;
    bool corpus;                        /* --corpus: never forgotten, no file                 */
    bool building;                      /* the builder reads it                               */
    bool filed;                         /* a file of its number may be there, whatever is in it */
};

/* What the lookup reads: newest first, the corpus last.  Records only, without a file's head. */
struct segment_view {
    const u32 *words; u64 count;
    const u32 *array; u64 places;       /* or NULL                                            */
    const u32 *heads, *prev;            /* or NULL: newest place by hash, the one before      */
    u32 mask, row;
};

/* Words of a segment of a log of so many bytes; bytes of the arena, of the tables. */
u64 segment_words(u64 cap_bytes);
u64 segment_arena_bytes(u64 cap_bytes, u64 corpus_bytes);
u64 segment_table_bytes(void);
/* What a build takes for a moment; all else of the node may be yielded. */
u64 segment_work_bytes(u64 cap_bytes);
/* Node `suffix` under `caches`, arena `suffix`; live rows may take closed segments.  ERR_CONFIG. */
MUST_USE enum err segment_declare(struct budget_graph *g, u64 arena_bytes);

/* After arena_open and budget_graph_check. */
MUST_USE enum err segment_open(u32 table_arena, struct budget_graph *g);
void segment_close(void);
struct segment_row *segment_at(u32 row);
u32  segment_next(u32 from);            /* next used row at or after `from`, or NONE          */

/* Extents by a gate of their own, all or none.  False: refused. */
struct segment_piece { u64 bytes; extent_id *out; };
bool segment_gate(const struct segment_piece *piece, u32 count);
void segment_give(extent_id *extent);   /* back to the arena; none is fine                    */
void *segment_address(extent_id extent);

/* A row with room for `cap` words and, for one that is written to, a chain.  NONE: no row is free
 * or the gate refused. */
u32  segment_take(u64 cap, bool chain);
/* A row that is a file alone.  ERR_FULL. */
MUST_USE enum err segment_stored(u64 number, u64 count);
u32 *segment_memory(u32 row);           /* its words, the file's head first                   */
/* Adds a record to an OPEN segment, which has room for it. */
void segment_put(u32 row, const u64 session[2], const u32 *ids, u32 count);
/* The words were set otherwise: the chain anew. */
void segment_rechain(u32 row);
/* Without a session's records: another row when some thread has this one, or NONE: no memory for
 * that, or nothing is left; the segment is GONE then. */
u32  segment_cut(u32 row, const u64 session[2]);
void segment_forget(u32 row);
void segment_release(u32 row);          /* drops a hold                                       */
/* Its array came: the chain goes.  Its memory goes, its file stays. */
void segment_sorted(u32 row, extent_id array, u64 places);

/* Valid until a function above changes something. */
u32  segment_views(const struct segment_view **out);
void segment_hit(u32 row, u64 now_us);
u32  segment_hash(const u32 *end);      /* of the three ids before `end`                      */

/* What a gate may take of node `suffix`: segments that no thread has.  Words that could not be
 * written go too; the rest of its file is STORED. */
u32  segment_victims(struct budget_record *out, u32 cap);
u64  segment_yielded(void);             /* segments so far                                    */
u64  segment_refused(void);             /* gates that refused memory                          */
u64  segment_released(void);            /* threads' uses of one that are over                 */
void segment_check(void);               /* debug and tests: asserts the table                 */

#endif
