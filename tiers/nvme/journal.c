/* tiers/nvme/journal.c - the plan of the write-behind, answers, the drain. */
#include "tiers/nvme/journal.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "tiers/nvme/pool.h"
#include "tiers/suffix/log.h"

/* When a talk is due, or UINT64_MAX. */
static u64 due_us(const struct journal_talk *t, const struct journal_knobs *knobs,
                  u64 idle_since_us)
{
    bool never = t->guest || t->busy || t->saving || t->rows <= t->written || t->turn_us == 0;
    if (never) return UINT64_MAX;
    u64 last_us = t->saved_us == 0 ? 0 : t->saved_us + knobs->idle_us;  /* also one refused   */
    if (t->parked || t->rows - t->written >= knobs->rows_min) return MAX(t->turn_us, last_us);
    u64 idle = idle_since_us == 0 ? UINT64_MAX
                                  : MAX(MAX(idle_since_us, t->turn_us) + knobs->idle_us, last_us);
    return MIN(idle, MAX(t->saved_us, t->turn_us) + knobs->every_us);
}

u32 journal_plan(const struct journal_talk *talk, u32 count, const struct journal_knobs *knobs,
                 u64 now_us, u64 idle_us, u32 *out)
{
    u32 n = 0;
    for (u32 i = 0; i < count; i++) {
        if (due_us(&talk[i], knobs, idle_us) > now_us) continue;
        u32 at = n++;
        for (; at > 0 && talk[out[at - 1]].turn_us < talk[i].turn_us; at--) out[at] = out[at - 1];
        out[at] = i;
    }
    return n;
}

u64 journal_due_us(const struct journal_talk *talk, u32 count, const struct journal_knobs *knobs,
                   u64 idle_since_us)
{
    u64 first = UINT64_MAX;
    for (u32 i = 0; i < count; i++) first = MIN(first, due_us(&talk[i], knobs, idle_since_us));
    return first;
}

bool journal_answers(void)
{
    struct writer_answer answer;
    bool any = false;
    while (writer_done(&answer)) {
        any = true;
        if (answer.folder != NULL) suffix_log_written(&answer);
        else if (answer.kind == WRITER_PIECE) pieces_written(answer.owner, answer.err);
        else if (answer.kind == WRITER_BLOB && answer.owner == DISK_COUNTS_OWNER)
            disk_counts_saved();
        else if (answer.kind == WRITER_BLOB) spill_written(answer.owner, answer.err);
        else if (answer.kind == WRITER_FOLDER) pool_answer(answer.owner, answer.err);
    }
    if (any) spill_check();             /* walks every chain: not on each round of a decode   */
    if (any || spill_busy()) spill_pass();
    return any;
}

void journal_drain(const struct spill_source *source, u32 count, u64 deadline_us, u64 now_s,
                   struct journal_drained *out)
{
    *out = (struct journal_drained){ 0 };
    for (u32 i = 0; i < count; i++) {
        u32 row = NONE;
        enum err err = spill_save(&source[i], now_s, &row);
        if (err != OK) log_line(LOG_LEVEL_WARN, "spill: %s", err_last()->text);
        bool written = err == OK;
        while (written && spill_busy()) {       /* ends: each round writes what is queued     */
            written = writer_drain(deadline_us);
            journal_answers();
        }
        bool saved = written && spill_session(source[i].session) != NONE &&
                     spill_at(spill_session(source[i].session))->talk.length ==
                     source[i].rows.rows;
        out->saved += saved;
        out->missed += !saved;
        if (err == OK && !written) {            /* the deadline: what is left is not reached  */
            out->missed += count - i - 1;
            return;
        }
    }
}
