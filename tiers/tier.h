/* tiers/tier.h - the tiers as the engine sees them, in plain calls: find, place, load, rows, lines,
 * commit, clear.  This room holds the order of the tiers and what all of them count.
 *
 * A turn goes through: tier_find (pure), the gate, inside it tier_place and the slot's growth, then
 * tier_load; tier_rows after every chunk and round, tier_line at lines and marks, and one of
 * tier_commit and tier_lost.  Engine thread only. */
#ifndef TIERS_TIER_H
#define TIERS_TIER_H

#include "tiers/aside/aside.h"
#include "tiers/aside/guest.h"
#include "tiers/resident.h"

extern const char *const tier_source_word[TIER_SOURCE_COUNT];
extern const char *const tier_reason_word[TIER_REASON_COUNT];       /* NULL: none             */

struct tier_setup {
    u32 table_arena, slot_count, record_cap;
    u32 guest_slots;                        /* 0 or 1, the last of the slots                  */
    u64 ctx;
    u64 half_life_us;                       /* of a record's value                            */
    u64 store_entry_bytes;
    struct guest_setup guest;
};

/* Rows of an anchor list for this context and grid; bytes of all tables of the tiers. */
u32 tier_anchor_cap(u64 ctx, u32 grid_rows);
u64 tier_table_bytes(const struct tier_setup *setup, u32 block_rows, u32 grid_rows);

/* Nodes and edges.  ERR_CONFIG. */
MUST_USE enum err tier_declare(struct budget_graph *g, u64 resident_bytes,
                               const struct aside_caps *caps, u64 unit_bytes, u32 slot_count);
/* After state_open and the node's declaration.  ERR_MEMORY, ERR_FULL. */
MUST_USE enum err tier_open(const struct tier_setup *setup, struct budget_graph *g);
/* Drops every record. */
void tier_close(void);

void tier_find(const struct tier_prompt *prompt, struct tier_hit *hit);
/* Before the gate: what is displaced stands aside or goes, and the slot's list becomes what the hit
 * says; takes no memory.  The matched record is protected meanwhile.  As resident_place,
 * resident_unplace, resident_load; load counts the hit.  What was displaced stays
 * so after tier_unplace. */
MUST_USE enum err tier_place(struct tier_hit *hit, const struct tier_prompt *prompt, u64 now_us);
void tier_unplace(struct tier_hit *hit);
MUST_USE enum err tier_load(struct tier_hit *hit, const struct tier_prompt *prompt);

/* A prompt of `count` ids was answered by the response cache. */
void tier_answered(u64 count);

void tier_rows(u32 slot, u64 pos, const u64 *keys, u64 count);
bool tier_line(u32 slot, enum anchor_kind kind, bool head, struct resident_pool *pool);

struct tier_answer {            /* what a turn left in its slot                               */
    u64  start;                 /* where its prefill began                                    */
    u64  prompt_count;          /* served ids of the prompt                                   */
    u64  think_hi;              /* position behind the end of its reasoning, or 0             */
    bool generated;             /* it decoded: an end anchor at the last position forwarded   */
    bool anchor;                /* it was stopped before: an anchor where it stands           */
};
/* The turn in `slot` is over; its record stays there, idle. */
void tier_commit(u32 slot, const struct tier_answer *answer, struct resident_pool *pool,
                 u64 now_us);
/* The slot's rows are undefined (device error): its record goes. */
void tier_lost(u32 slot, struct resident_pool *pool);

/* Charges have moved outside of these calls (a slot that grew let go of a shared block): every node
 * within its cap again, from the highest class down. */
void tier_settle(void);
/* The idle record of a slot goes; or stands aside, as far as caps pay. */
void tier_drop(u32 slot);
void tier_displace(u32 slot);

enum { TIER_CLEAR_RESIDENT = 1 << HOLD_LIVE | 1 << HOLD_STASH, TIER_CLEAR_PIN = 1 << HOLD_PIN,
       TIER_CLEAR_PARK = 1 << HOLD_PARK, TIER_CLEAR_STORE = 1 << HOLD_STORE,
       TIER_CLEAR_ALL = (1 << HOLD_COUNT) - 1 };
/* Drops records of one session, or all (session NULL), in every tier or in those named; busy ones
 * go when their turn ends.  Returns how many were dropped or will be. */
u32 tier_clear(const u64 session[2]);
u32 tier_clear_of(u32 classes, const u64 session[2]);

/* Everything a gate may take, as its records: at most `cap` rows of `out`, units in `shares`. */
u32 tier_victims(struct budget_record *out, u32 cap, struct budget_shares *shares);

struct tier_class { u32 records; u64 rows, bytes; };    /* bytes: charged to its node         */

struct tier_stats {
    u64 turns[TIER_SOURCE_COUNT];           /* by source                                      */
    u64 reasons[TIER_REASON_COUNT];
    u64 cached_tokens, prompt_tokens;       /* of prompts: found in place; all                */
    u32 records, busy;
    u32 anchors[ANCHOR_KIND_COUNT];         /* rows held now, by kind                         */
    u64 resident_rows;
    u64 cleared, guests, false_hits;
    struct tier_class classes[HOLD_COUNT];
    struct resident_counts resident;
    struct aside_counts aside;
};
void tier_stats(struct tier_stats *out);

/* record_check over `slots` slots, units in the turns' pools included. */
void tier_check(u32 slots, const unit_id *extra, u32 extra_count);

#endif
