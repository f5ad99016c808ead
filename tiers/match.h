/* tiers/match.h - what every record shares with a prompt: where each class would let it start.
 *
 * The prompt's chained hashes, block by block, are compared with those beside the records' blocks;
 * the place where a record parts is found by halving, and only its last block by ids.  Hashes are a
 * hint: what is chosen is compared id by id, and should that fail once, everything is.  Pure but
 * for the table of the prompt's hashes, which a scan fills.  Engine thread only. */
#ifndef TIERS_MATCH_H
#define TIERS_MATCH_H

#include "tiers/record.h"

struct tier_prompt {
    const u64 *keys;            /* key ids of the served ids                                  */
    u64        count;           /* >= 1                                                       */
    u64        session[2];
    bool       no_guest;        /* the guest rule is not asked                                */
};

enum match_way { MATCH_NONE, MATCH_END,     /* all of the record, at its end                  */
                 MATCH_ANCHOR };            /* at an anchor of it                             */

struct match_row {              /* one record's best                                          */
    u32  record;                /* or NONE                                                    */
    enum match_way way;
    u64  start;                 /* <= count - 1                                               */
    enum anchor_kind kind;      /* of the anchor there; END without one                       */
    unit_id unit;               /* that anchor's, or NONE                                     */
};

struct match {
    struct match_row best[HOLD_COUNT];      /* by class of the record: latest start           */
    u64 common;                 /* longest common prefix with any record                      */
    u64 part_pos;               /* first id that differs from that record's, or U64_MAX       */
    bool whole;                 /* all of a conversation is in common: it does not part       */
};

u64 match_table_bytes(u64 ctx_blocks);
MUST_USE enum err match_open(u32 table_arena, u64 ctx_blocks);
void match_scan(const struct tier_prompt *prompt, struct match *out);
/* Common prefix of the prompt of the last scan and a record. */
u64  match_common(u32 record, const struct tier_prompt *prompt);
/* Hits whose ids turned out to differ, so far. */
u64  match_false(void);

#endif
