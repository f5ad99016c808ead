/* tiers/nvme/nvme.h - the NVMe tiers as the engine sees them: open, find, load, lines,
 * write-behind, drain, clear.
 *
 * What comes from files becomes a record aside (class park), which the turn that asked for it then
 * takes or forks like any other.  While it is read its blocks and its unit are held as something on
 * its way (HOLD_WRITING, node `staging`) and its turn waits in LOADING; other slots go on.  Off
 * (no folder, locked, not private, not row-invariant): nothing is found and nothing written.
 * Engine thread. */
#ifndef NVME_NVME_H
#define NVME_NVME_H

#include "tiers/nvme/forget.h"
#include "tiers/nvme/journal.h"
#include "tiers/nvme/load.h"
#include "tiers/nvme/pool.h"
#include "tiers/record.h"
#include "tiers/resident.h"

enum { NVME_TRIES = 3 };

struct nvme_knobs {
    struct disk_knobs disk;
    struct journal_knobs journal;
    u64 day_cap_bytes;                  /* --nvme-write-gb-day 200                            */
    u64 spill_floor_bytes;              /* free on the file system at least, for the spill    */
    u64 spill_rows_min;                 /* a displaced conversation has at least so many      */
    u64 spill_wait_us;                  /* a must waits so long for its writes                */
    struct rates rates;                 /* as the profile names them; 0: probed, or measured  */
};
struct nvme_setup {
    struct budget_graph *graph;         /* nodes of pool nvme: pool_declare                   */
    u32 table_arena, record_cap;
    u64 ctx;
    const char *cache_dir;              /* "": off                                            */
    struct fingerprint_source source;
    struct nvme_knobs knobs;
    struct ring_wake *wake;             /* the engine's                                       */
    bool threads;                       /* false: nvme_pass does the work, no probe (tests)   */
};

u64  nvme_table_bytes(const struct state_shape *shape, u64 ctx, u32 record_cap);
/* After record_open.  False: off, and the log and nvme_why say why. */
bool nvme_open(const struct nvme_setup *setup);
void nvme_close(void);
bool nvme_on(void);
/* Caps of nodes disk, spill and others changed: what is over goes at once. */
void nvme_caps(void);
/* Why the tiers are off though a folder was named, as a line for people; "" when they are on or
 * were not asked for.  A turn that finds nothing says `off` then. */
const char *nvme_why(void);
/* Folder of this model's files; "" when off. */
const char *nvme_folder(void);

/* What starts above `best_start`; `tries` loads were made for this turn.  First of all the whole
 * conversation of this session, when it begins like the prompt and no record holds it.  False:
 * nothing worth it. */
bool nvme_find(const struct tier_prompt *prompt, u64 best_start, u32 tries, struct nvme_hit *out);
/* The conversation used last, whole, for a start: false: there is none. */
bool nvme_newest(struct nvme_hit *out, u64 session_out[2]);
/* A record came from disk at the start and no turn began there yet: its source, once; else
 * `source`. */
enum tier_source nvme_source(u32 record, enum tier_source source);
/* How a load stands.  LOADED: *out is what came; LOADED and FAILED: its row is free. */
enum nvme_state nvme_loaded(u32 load, u64 now_us, struct nvme_record *out);
/* The first forward on what a load of that name brought failed: its files are not trusted. */
void nvme_distrust(const u64 name[2]);

/* The prompt goes on from `start`: counted, and the lines that get an anchor. */
void nvme_plan(const struct tier_prompt *prompt, u64 start, u64 last_user_pos,
               struct count_plan *out);
/* The slot's record has passed a planned line and has an anchor there; `turn` is the number of the
 * turn on whose way that was. */
void nvme_line(u32 record, u64 pos, u64 turn);
/* What that turn computed is not to be trusted: all that went to disk on its way goes, with what
 * stands on it. */
void nvme_doubt(u64 turn);
/* A turn that began at `start` is over: what it wrote is not on disk yet.  `answered`: it wrote at
 * least one token of an answer. */
void nvme_turn_over(u32 record, u64 start, bool answered, u64 now_us);
/* A conversation leaves its slot and only `kept_rows` of it stay in memory. */
void nvme_displaced(u32 record, u64 kept_rows);
/* How long a must that found no memory may wait for the tail of a displaced conversation that is
 * being written: the knob, at most what forwarding those tokens again takes; 0: nothing is. */
u64  nvme_wait_us(void);
/* Files that came to their end so far: whether it is worth asking for memory again. */
u64  nvme_written(void);
/* The tail's writes not yet begun are given up and counted; false: there were none. */
bool nvme_drop_tail(void);
struct nvme_tails { u64 waits, dropped, dropped_tokens; };
struct nvme_tails *nvme_tails(void);            /* waits: counted by who waits                */
void nvme_prefilled(u64 tokens, u64 us);        /* for the rate                               */
struct rates nvme_rates(void);

/* Answers of both threads, and the write-behind; `busy`: some turn runs.  True: something moved. */
bool nvme_pass(u64 now_us, bool busy);
u64  nvme_due_us(void);                 /* when nvme_pass may have more to do                 */
/* Everything that may be kept, by last use, live before parked, until the deadline. */
void nvme_drain(u64 deadline_us, struct journal_drained *out);
/* Forgets what a session left in these tiers, or with NULL everything of them; before the session's
 * records go, as what they stand on is its own too. */
void nvme_clear(bool disk, bool spill, const u64 session[2], struct forget_counts *out);

#endif
