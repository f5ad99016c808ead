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
    u32 slot_count;
    u32 table_arena, extents_arena, scratch_arena;
    u32 candidates;                 /* ids a sampler may choose: [0, candidates)              */
    const u32 *eos; u32 eos_count;
};

/* Tables, tiers, nodes.  After the model rooms are open; on the thread that will run it. */
MUST_USE enum err engine_open(const struct engine_setup *setup);
/* Passes over the turn table until engine_stop was called and every turn is done or drain_s is
 * over.  Nothing else in the program moves a turn on. */
void engine_run(void);
/* Any thread or signal handler: refuse new turns, end the running ones within drain_s (again: at
 * once), then engine_run returns. */
void engine_stop(void);
void engine_close(void);

#endif
