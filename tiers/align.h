/* tiers/align.h - the client's copy of a conversation against the rows that hold it (tiers.md 7,
 * chat.md 9): which of a record's rows the prompt stands for, though its ids are others.
 *
 * Pure.  Ids outside generations must be equal.  Inside a generation, and only in turns the prompt
 * closes again, these match: ids of a hidden span with nothing; blanks beside a hidden span, beside
 * <think> </think>, before <tool_call> and before the end of the turn with other blanks there; a
 * think block that is empty (or not there) with the recorded reasoning; a call with the recorded
 * one of the same id and arguments; a </think> before a call that the rows have inside unclosed
 * reasoning with nothing; anything else between two tags by its bytes.
 * The result is a prefix: ids [0, sent) of the prompt stand as rows [0, rows).  Served ids are
 * those rows' ids and the rest of the prompt: every id taken in stands in the record at that place,
 * in or before a generation of this engine.  Time and rows looked at: linear in ids and rows. */
#ifndef TIERS_ALIGN_H
#define TIERS_ALIGN_H

#include "arena/base/vocab.h"
#include "tiers/end.h"

struct align_setup {
    const struct vocab *vocab;          /* pieces; NULL: nothing is aligned                       */
    bool reasoning;                     /* empty think blocks stand for the recorded reasoning    */
};
struct align_prompt {
    const u64 *key; u64 count;          /* the client's ids as key ids                            */
    const struct call_row *call; u32 call_count;        /* past calls, ascending, spans in ids    */
    const u64 *mark; u32 mark_count;    /* ascending positions                                    */
};
struct align_record {
    const u64 *key; u64 count;          /* key ids of its rows                                    */
    const struct generation_list *list;
};
struct align_result {
    u64  sent, rows;                    /* prompt ids [0, sent) stand as rows [0, rows)           */
    bool changed;                       /* those ids differ: something was aligned                */
    u32  reasonings, spans, calls;      /* put back                                               */
};

/* `mark_out` [mark_count]: the marks in served positions; may be prompt->mark. */
void align_replay(const struct align_setup *setup, const struct align_prompt *prompt,
                  const struct align_record *record, u64 *mark_out, struct align_result *out);

#endif
