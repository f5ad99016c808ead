/* http/turn/engine.h - the loop, the wait and the wiring of the engine thread. */
#ifndef TURN_ENGINE_H
#define TURN_ENGINE_H

#include "arena/base/err.h"

struct profile_row;                 /* budget/profile.h                                       */
struct budget_graph;                /* budget/graph.h                                         */

struct engine_setup {
    const struct profile_row *profile;
    struct budget_graph      *graph;
    u64 ctx;                        /* rows a sequence may have                               */
    u32 slot_count;                 /* all                                                    */
    u32 guest_slots;                /* 0 or 1 of them, the last: the stash pays for its rows  */
    u32 table_arena;
    u32 candidates;                 /* ids a sampler may choose: [0, candidates)              */
    const u32 *eos; u32 eos_count;
    const char *cache_dir;          /* of the NVMe tiers; NULL or "": off                     */
    const u64  *weights;            /* [2] hash, for the files' fingerprint                   */
    const u64  *tokenizer;          /* [2] hash of what the ids stand for; NULL: zeros        */
    const char *backend;
    u32 arithmetic_id, arithmetic_least;    /* ops.h                                          */
    bool io_threads;                /* false: passes read and write files (tests)             */
};

/* After model_open.  Bytes of a table arena that
 * turn_open(turn_rows), command_open and engine_open take together. */
u64 engine_table_bytes(const struct profile_row *profile, u64 ctx, u32 slot_count, u32 turn_rows,
                       u32 vocab, u32 block_rows, u32 grid_rows);
/* Bytes of arena `suffix` and of the store's cap that a profile asks for: none unless lookup may
 * draft.  What the corpus file has must be in the profile. */
u64 engine_suffix_arena(const struct profile_row *profile);
u64 engine_suffix_cap(const struct profile_row *profile);
/* Slots of the guests' that a profile asks for: 0 or 1. */
u32 engine_guest_slots(const struct profile_row *profile);

/* Nodes kv, anchors, aside{stash, pin, park} and store and the edges between them; before
 * budget_graph_check.  `block_bytes` and
 * `section_bytes` are the units of the arenas.  ERR_CONFIG. */
MUST_USE enum err engine_declare(struct budget_graph *g, const struct profile_row *profile,
                                 u64 block_bytes, u64 section_bytes, u32 slot_count);

/* Tables and tiers.  After turn_open, command_open, engine_declare and the model rooms; on the
 * thread that will run it.  `profile` and `graph` outlive it.  ERR_MEMORY, ERR_FULL,
 * ERR_NOT_FOUND: engine_declare was not called. */
MUST_USE enum err engine_open(const struct engine_setup *setup);
/* Before the first pass: the conversation used last comes back from disk, within
 * --restore-wait-s. */
void engine_restore(void);
/* One round of all passes, without a wait; false once a stop has been carried out.  engine_moved:
 * whether the last round did anything. */
bool engine_pass(void);
bool engine_moved(void);
/* Passes over the turn table until engine_stop was called and every turn is done or drain_s is
 * over.  Nothing else in the program moves a turn on. */
void engine_run(void);
/* Any thread or signal handler: refuse new turns, end the running ones within drain_s (again: at
 * once), then engine_run returns. */
void engine_stop(void);
/* Signal handler: the engine writes a memory dump into --dump-dir (the folder `.` without one). */
void engine_dump(void);
/* Tests: [slot_count][vocab] that gets each slot's last logits as they were before sampling. */
void engine_keep_logits(f32 *rows);
void engine_close(void);

#endif
