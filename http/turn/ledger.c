/* http/turn/ledger.c - the ring of finished turns and their log lines. */
#include "http/turn/ledger.h"

#include "arena/base/log.h"
#include "arena/table.h"

#include <stdio.h>

static struct { struct ledger_row *row; u64 count; } ring;

const char *const ledger_finish_word[FINISH_ERROR + 1] = { "none", "stop", "length", "cancelled",
                                                           "error" };

u64 ledger_table_bytes(void) { return LEDGER_CAP * sizeof(struct ledger_row) + 64; }

enum err ledger_open(u32 table_arena)
{
    ring.count = 0;
    return arena_table_take(table_arena, "ledger", sizeof *ring.row, LEDGER_CAP, &ring.row);
}

void ledger_add(const struct ledger_row *row)
{
    ring.row[ring.count++ % LEDGER_CAP] = *row;
    const char *reason = turn_reason_word[row->reason];
    char part[32] = "";
    if (row->part_pos != UINT64_MAX)
        snprintf(part, sizeof part, " part_pos=%llu", (ull)row->part_pos);
    u32 drafted = 0, accepted = 0;
    for (u32 d = 0; d < DRAFTER_COUNT; d++) {
        drafted += row->drafts[d].drafted;
        accepted += row->drafts[d].accepted;
    }
    f64 rate = row->decode_us > 0 && row->generated > 1
        ? (f64)(row->generated - 1) * 1e6 / (f64)row->decode_us : 0.0;
    log_line(LOG_LEVEL_INFO,
             "turn %llu session=%016llx source=%s served=%s prompt=%llu cached=%llu "
             "forwarded=%llu generated=%llu queue_ms=%.1f restore_ms=%.1f prefill_ms=%.1f "
             "ttft_ms=%.1f decode_tok_s=%.1f drafted=%u accepted=%u finish=%s reason=%s%s%s%s",
             (ull)row->number, (ull)row->session, turn_source_word[row->source],
             turn_served_word[row->served], (ull)row->prompt,
             (ull)row->cached, (ull)row->forwarded, (ull)row->generated, (f64)row->queue_us / 1e3,
             (f64)row->restore_us / 1e3, (f64)row->prefill_us / 1e3, (f64)row->ttft_us / 1e3, rate,
             drafted, accepted,
             ledger_finish_word[row->finish], reason == NULL ? "-" : reason, part,
             row->by_memory ? " by=memory" : row->error != OK ? " error=" : "",
             row->error != OK ? err_word((enum err)row->error) : "");
}

u64 ledger_count(void) { return ring.count; }

const struct ledger_row *ledger_row(u32 back)
{
    if (back >= ring.count || back >= LEDGER_CAP) return NULL;
    return &ring.row[(ring.count - 1 - back) % LEDGER_CAP];
}
