/* http/turn/command.c - control rows, answered by the engine thread between passes. */
#include "http/turn/command.h"

#include "arena/base/clock.h"
#include "arena/base/file_log.h"
#include "arena/base/json.h"
#include "arena/heap.h"
#include "arena/table.h"
#include "budget/dump.h"
#include "http/turn/ledger.h"
#include "http/turn/off.h"
#include "http/turn/pass.h"
#include "http/turn/submit.h"
#include "model/state.h"
#include "tiers/suffix/lookup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND_LEDGER_TAIL = 16, COMMAND_RECORDS = 32 };

static struct command_row *rows;
static _Atomic u32 pushed_count;
static const char *const slot_word[] = { "idle", "queued", "loading", "prefill",
                                         "decode", "done", "answer" };
static const char *const anchor_word[ANCHOR_KIND_COUNT] = { "free", "grid", "turn", "end" };

enum err command_open(u32 table_arena)
{
    pushed_count = 0;
    return arena_table_take(table_arena, "commands", sizeof *rows, COMMAND_CAP, &rows);
}

/* ------------------------------------------------------------------ asking; any thread */

u32 command_take(void)
{
    for (u32 i = 0; i < COMMAND_CAP; i++) {
        u32 state = COMMAND_FREE;
        if (!atomic_compare_exchange_strong(&rows[i].state, &state, COMMAND_TAKEN)) continue;
        struct command_row *row = &rows[i];
        memset(row->tier, 0, sizeof row->tier);
        memset(row->session, 0, sizeof row->session);
        row->error = OK;
        row->error_text[0] = 0;
        row->wake = NULL;
        row->answer = NULL;
        row->answer_bytes = 0;
        return i;
    }
    return NONE;
}

struct command_row *command_at(u32 command)
{
    ASSERT(command < COMMAND_CAP);
    return &rows[command];
}

void command_push(u32 command)
{
    command_at(command)->state = COMMAND_PUSHED;
    atomic_fetch_add(&pushed_count, 1);
    ring_wake_ring(submit_wake());
}

void command_release(u32 command)
{
    struct command_row *row = command_at(command);
    u32 state = row->state;
    ASSERT(state == COMMAND_DONE || state == COMMAND_TAKEN);
    arena_heap_free(row->answer);
    row->answer = NULL;
    row->state = COMMAND_FREE;
}

/* ------------------------------------------------------------------ answers; engine thread */

static void put_u64(struct json_out *out, const char *key, u64 value)
{
    json_put_key(out, key);
    json_put_u64(out, value);
}

static void put_session(struct json_out *out, u64 session)
{
    char text[20];
    snprintf(text, sizeof text, "%016llx", (ull)session);
    json_put_key(out, "session");
    json_put_cstr(out, text);
}

static void put_ledger_row(struct json_out *out, const struct ledger_row *r)
{
    json_put_object(out);
    put_u64(out, "turn", r->number);
    put_session(out, r->session);
    json_put_key(out, "source");
    json_put_cstr(out, turn_source_word[r->source]);
    json_put_key(out, "served");
    json_put_cstr(out, turn_served_word[r->served]);
    json_put_key(out, "guest");
    json_put_bool(out, r->guest);
    put_u64(out, "prompt", r->prompt);
    put_u64(out, "cached", r->cached);
    put_u64(out, "forwarded", r->forwarded);
    put_u64(out, "generated", r->generated);
    json_put_key(out, "queue_ms");
    json_put_f64(out, (f64)r->queue_us / 1e3);
    json_put_key(out, "restore_ms");
    json_put_f64(out, (f64)r->restore_us / 1e3);
    json_put_key(out, "prefill_ms");
    json_put_f64(out, (f64)r->prefill_us / 1e3);
    json_put_key(out, "ttft_ms");
    json_put_f64(out, (f64)r->ttft_us / 1e3);
    json_put_key(out, "decode_ms");
    json_put_f64(out, (f64)r->decode_us / 1e3);
    json_put_key(out, "drafts");
    json_put_object(out);
    for (u32 d = 0; d < DRAFTER_COUNT; d++) {
        if (r->drafts[d].blocks == 0) continue;
        json_put_key(out, turn_drafter_word[d]);
        json_put_object(out);
        put_u64(out, "blocks", r->drafts[d].blocks);
        put_u64(out, "drafted", r->drafts[d].drafted);
        put_u64(out, "accepted", r->drafts[d].accepted);
        json_put_object_end(out);
    }
    json_put_object_end(out);
    json_put_key(out, "finish");
    json_put_cstr(out, ledger_finish_word[r->finish]);
    json_put_key(out, "reason");
    json_put_cstr(out, r->by_memory ? "memory" : turn_reason_word[r->reason]);
    json_put_key(out, "part_pos");
    if (r->part_pos == UINT64_MAX) json_put_null(out);
    else json_put_u64(out, r->part_pos);
    json_put_object_end(out);
}

static void put_ledger(struct json_out *out, u32 most)
{
    json_put_array(out);
    u32 count = (u32)MIN(MIN(ledger_count(), (u64)LEDGER_CAP), (u64)most);
    for (u32 back = count; back-- > 0;) put_ledger_row(out, ledger_row(back));
    json_put_array_end(out);
}

/* What stands aside, a tier at a time. */
static void put_aside(const struct tier_stats *s, struct json_out *out)
{
    static const struct { const char *name; enum holder class; enum tier_source source; } tier[] = {
        { "stash", HOLD_STASH, TIER_SOURCE_COUNT }, { "pin", HOLD_PIN, TIER_PIN },
        { "park", HOLD_PARK, TIER_PARK }, { "store", HOLD_STORE, TIER_STORE },
    };
    for (u32 i = 0; i < COUNT_OF(tier); i++) {
        enum holder class = tier[i].class;
        json_put_key(out, tier[i].name);
        json_put_object(out);
        if (tier[i].source < TIER_SOURCE_COUNT) put_u64(out, "hits", s->turns[tier[i].source]);
        put_u64(out, "records", s->classes[class].records);
        put_u64(out, "rows", s->classes[class].rows);
        put_u64(out, "bytes", s->classes[class].bytes);
        put_u64(out, "cap_bytes", aside_cap(class));
        put_u64(out, "kept", s->aside.kept[class]);
        put_u64(out, "dropped", s->aside.dropped[class]);
        put_u64(out, "yielded", s->aside.yielded[class]);
        put_u64(out, "refused", s->aside.refused[class]);
        json_put_object_end(out);
    }
    struct response_counts r = response_counts();
    json_put_key(out, "response");
    json_put_object(out);
    put_u64(out, "hits", r.hits);
    put_u64(out, "misses", r.misses);
    put_u64(out, "entries", r.entries);
    put_u64(out, "kept", r.kept);
    put_u64(out, "dropped", r.dropped);
    put_u64(out, "yielded", r.yielded);
    put_u64(out, "refused", r.refused);
    json_put_object_end(out);
}

static void put_record(u32 record, struct json_out *out)
{
    const struct record_row *r = record_at(record);
    struct anchor_list list = record_anchors(record);
    json_put_object(out);
    put_session(out, r->session[0]);
    json_put_key(out, "held_as");
    json_put_cstr(out, holders_word[r->class]);
    put_u64(out, "rows", record_rows(record));
    put_u64(out, "hits", r->hits);
    json_put_key(out, "anchors");
    json_put_array(out);
    for (u32 i = 0; i < anchors_count(&list); i++) {
        const struct anchor_row *anchor = &list.row[i];
        json_put_object(out);
        put_u64(out, "pos", anchor->pos);
        json_put_key(out, "kind");
        json_put_cstr(out, anchor_word[anchor->kind]);
        json_put_key(out, "head");
        json_put_bool(out, anchor->head);
        put_u64(out, "hits", anchor->hits);
        json_put_object_end(out);
    }
    json_put_array_end(out);
    json_put_object_end(out);
}

/* The records used last, newest first, with their anchors in order. */
static void put_records(struct json_out *out)
{
    u32 newest[COMMAND_RECORDS], count = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        u64 used_us = record_at(r)->used_us;
        u32 at = count;
        while (at > 0 && record_at(newest[at - 1])->used_us < used_us) at--;
        if (at == COMMAND_RECORDS) continue;
        if (count < COMMAND_RECORDS) count++;
        memmove(newest + at + 1, newest + at, (count - 1 - at) * sizeof *newest);
        newest[at] = r;
    }
    json_put_key(out, "conversations");
    json_put_array(out);
    for (u32 i = 0; i < count; i++) put_record(newest[i], out);
    json_put_array_end(out);
}

static void put_tiers(struct json_out *out)
{
    struct tier_stats s;
    tier_stats(&s);
    json_put_key(out, "resident");
    json_put_object(out);
    json_put_key(out, "turns");
    json_put_object(out);
    for (u32 i = 0; i < TIER_SOURCE_COUNT; i++) put_u64(out, tier_source_word[i], s.turns[i]);
    json_put_object_end(out);
    json_put_key(out, "reasons");
    json_put_object(out);
    for (u32 i = 1; i < TIER_REASON_COUNT; i++) put_u64(out, tier_reason_word[i], s.reasons[i]);
    json_put_object_end(out);
    put_u64(out, "prompt_tokens", s.prompt_tokens);
    put_u64(out, "cached_tokens", s.cached_tokens);
    put_u64(out, "records", s.records);
    put_u64(out, "records_busy", s.busy);
    put_u64(out, "rows", s.resident_rows);
    json_put_key(out, "anchors");
    json_put_object(out);
    for (u32 i = 1; i < ANCHOR_KIND_COUNT; i++) put_u64(out, anchor_word[i], s.anchors[i]);
    json_put_object_end(out);
    json_put_key(out, "anchors_taken");
    json_put_object(out);
    for (u32 i = 1; i < ANCHOR_KIND_COUNT; i++)
        put_u64(out, anchor_word[i], s.resident.taken[i]);
    json_put_object_end(out);
    put_u64(out, "anchors_refused", s.resident.refused);
    put_u64(out, "anchors_replaced", s.resident.replaced);
    put_u64(out, "anchors_yielded", s.resident.yielded);
    put_u64(out, "cleared", s.cleared);
    put_u64(out, "guests", s.guests);
    put_u64(out, "false_hits", s.false_hits);
    json_put_object_end(out);
    put_aside(&s, out);
}

/* The suffix store and the lookup over it. */
static void put_suffix(struct json_out *out)
{
    struct suffix_log_counts c = suffix_log_counts();
    struct lookup_counts l = lookup_counts();
    const struct { const char *name; u64 value; } row[] = {
        { "segments", c.segments }, { "sorted", c.sorted }, { "stored", c.stored },
        { "tokens", c.ids }, { "bytes", c.bytes }, { "file_bytes", c.file_bytes },
        { "memory_bytes", c.memory_bytes }, { "corpus_tokens", c.corpus },
        { "requests", c.requests }, { "added", c.added }, { "repeated", c.repeated },
        { "refused", c.refused }, { "forgotten", c.forgotten }, { "cleared", c.cleared },
        { "yielded", c.yielded }, { "memory_refused", c.memory_refused }, { "builds", c.builds },
        { "build_failed", c.build_failed }, { "found_at_start", c.found },
        { "repaired_at_start", c.repaired }, { "bad_files", c.bad_files },
        { "removed_at_start", c.removed }, { "write_failed", c.write_failed },
        { "lookups", l.lookups }, { "hits", l.hits }, { "hits_live", l.live },
        { "hits_stored", l.stored }, { "proposed", l.ids },
    };
    json_put_key(out, "suffix");
    json_put_object(out);
    json_put_key(out, "files");
    json_put_bool(out, c.files);
    for (u32 i = 0; i < COUNT_OF(row); i++) put_u64(out, row[i].name, row[i].value);
    json_put_key(out, "build_ms");
    json_put_f64(out, (f64)c.build_us / 1e3);
    json_put_key(out, "build_ms_max");
    json_put_f64(out, (f64)c.build_us_max / 1e3);
    json_put_object_end(out);
}

static void put_rates(struct json_out *out)
{
    struct rates r = nvme_rates();
    json_put_key(out, "rates");
    json_put_object(out);
    json_put_key(out, "read_bytes_s");
    json_put_f64(out, r.read_bytes_s);
    json_put_key(out, "write_bytes_s");
    json_put_f64(out, r.write_bytes_s);
    json_put_key(out, "prefill_s_token");
    json_put_f64(out, r.prefill_s_token);
    json_put_object_end(out);
}

static void put_nvme(struct json_out *out)
{
    json_put_key(out, "nvme");
    json_put_object(out);
    json_put_key(out, "on");
    json_put_bool(out, nvme_on());
    json_put_key(out, "reason");
    if (nvme_why()[0] == 0) json_put_null(out);
    else json_put_cstr(out, nvme_why());
    json_put_key(out, "folder");
    json_put_cstr(out, nvme_folder());
    if (nvme_on()) {
        struct pieces_counts p = pieces_counts();
        struct disk_counts d = disk_counts();
        struct spill_counts s = spill_counts();
        struct writer_counts w = writer_counts();
        struct reader_counts r = reader_counts();
        struct pool_counts o = pool_counts();
        struct nvme_tails tails = *nvme_tails();
        const struct { const char *name; u64 value; } row[] = {
            { "files", p.rows }, { "line_anchors", p.anchors }, { "disk_bytes", p.disk_bytes },
            { "spill_bytes", p.spill_bytes }, { "bad_files", p.bad }, { "evicted", p.evicted },
            { "aged", p.aged }, { "found_at_start", p.found_at_start },
            { "removed_at_start", p.removed_at_start }, { "disk_hits", d.hits },
            { "disk_misses", d.misses }, { "disk_slower", d.slower },
            { "lines_written", d.lines_written }, { "lines_refused", d.lines_refused },
            { "lines_refused_cap", d.refused_cap }, { "lines_refused_space", d.refused_space },
            { "lines_refused_writer", d.refused_writer },
            { "lines_refused_anchor", d.refused_anchor },
            { "disk_read_failed", d.read_failed }, { "conversations", s.rows },
            { "spill_saves", s.saves }, { "spill_complete", s.complete },
            { "spill_failed", s.failed }, { "spill_refused", s.refused },
            { "spill_dropped", s.dropped }, { "spill_hits", s.restored },
            { "spill_read_failed", s.read_failed }, { "spill_bad_at_start", s.bad_at_start },
            { "written_bytes", w.bytes }, { "written_files", w.files },
            { "write_failed", w.failed }, { "write_refused_full", w.refused_full },
            { "write_refused_day", w.refused_day }, { "day_bytes", w.day_bytes },
            { "read_bytes", r.bytes }, { "read_files", r.files }, { "read_refused", r.refused },
            { "decode_waits", file_log_waits() },
            { "spill_waits", tails.waits }, { "spill_tails_dropped", tails.dropped },
            { "spill_tokens_dropped", tails.dropped_tokens }, { "writes_cancelled", w.cancelled },
            { "other_folders", o.others }, { "other_folders_bytes", o.others_bytes },
            { "other_folders_removed", o.others_removed },
            { "file_system_free_bytes", writer_space() },
        };
        for (u32 i = 0; i < COUNT_OF(row); i++) put_u64(out, row[i].name, row[i].value);
        put_rates(out);
    }
    json_put_object_end(out);
}

static void put_turns(const struct engine *e, struct json_out *out)
{
    const struct engine_counts *c = &e->counts;
    json_put_key(out, "turns");
    json_put_object(out);
    put_u64(out, "done", c->turns);
    put_u64(out, "queued", turn_count(TURN_QUEUED));
    put_u64(out, "cancelled", c->cancelled);
    put_u64(out, "refused_memory", c->refused);
    put_u64(out, "failed", c->failed);
    put_u64(out, "not_numbers", c->nan);
    put_u64(out, "ended_by_memory", c->by_memory);
    put_u64(out, "records_given_up", c->evicted);
    put_u64(out, "aligned", c->aligned);
    put_u64(out, "aligned_tokens", c->aligned_tokens);
    put_u64(out, "aligned_no_room", c->aligned_no_room);
    put_u64(out, "hidden_tokens", c->hidden);
    put_u64(out, "forwarded_tokens", c->forwarded);
    put_u64(out, "generated_tokens", c->generated);
    put_u64(out, "decode_rounds", c->rounds);
    put_u64(out, "row_bytes_copied", slot_copied_bytes());
    json_put_key(out, "prefill_s");
    json_put_f64(out, (f64)c->prefill_us / 1e6);
    json_put_key(out, "decode_s");
    json_put_f64(out, (f64)c->decode_us / 1e6);
    json_put_object_end(out);
    json_put_key(out, "slots");
    json_put_array(out);
    for (u32 slot = 0; slot < e->slot_count; slot++) {
        u32 turn = e->slot_turn[slot];
        json_put_object(out);
        put_u64(out, "slot", slot);
        json_put_key(out, "state");
        json_put_cstr(out, slot_word[turn == NONE ? TURN_FREE : turn_at(turn)->state]);
        put_u64(out, "rows", slot_row(slot)->len);
        put_u64(out, "rows_cap", slot_row(slot)->row_cap);
        json_put_object_end(out);
    }
    json_put_array_end(out);
}

static void put_arenas(struct json_out *out)
{
    json_put_key(out, "arenas");
    json_put_array(out);
    for (u32 i = 0; i < arena_count(); i++) {
        const struct arena_row *r = arena_row(i);
        json_put_object(out);
        json_put_key(out, "name");
        json_put_cstr(out, r->name);
        put_u64(out, "committed_bytes", r->committed_bytes);
        put_u64(out, "used_bytes", r->used_bytes);
        put_u64(out, "high_water_bytes", r->high_water_bytes);
        put_u64(out, "commits_outside_gates", r->ungated_count);
        json_put_object_end(out);
    }
    json_put_array_end(out);
}

static void put_stats(const struct engine *e, struct json_out *out)
{
    json_put_object(out);
    put_tiers(out);
    put_nvme(out);
    put_suffix(out);
    off_put(e, out);
    put_records(out);
    put_turns(e, out);
    drafters_dump(out);
    json_put_key(out, "ledger");
    put_ledger(out, COMMAND_LEDGER_TAIL);
    put_arenas(out);
    json_put_object_end(out);
}

/* ------------------------------------------------------------------ caps */

/* Whatever ends may let go of what a cap was short of. */
static u64 ends(const struct engine *e) { return e->counts.turns + segment_released(); }

/* Brings `node` under its cap: caches by a gate, units that turns were granted and have not used,
 * then idle conversations, the longest unused first, when live rows are over.  Each round of the
 * loop drops a record. */
static enum err take_over(struct engine *e, u32 node, struct budget_plan *plan)
{
    struct budget_record *records;
    struct budget_shares *shares;
    struct budget_graph *g = e->set.graph;
    if (g->node[node].over)
        for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1))
            resident_pool_drop(&turn_at(i)->pool);
    u32 count = wants_victims(&records, &shares);
    TRY(budget_gate_set(g, node, g->node[node].cap_bytes, &(struct budget_ask){
        .records = records, .record_count = count, .shares = shares }, plan));
    while (g->node[node].over && wants_relieve(e, NONE) > 0) {
        arena_trim(state_blocks_arena(), 0);
        arena_trim(state_sections_arena(), 0);
        budget_graph_refresh(g);
    }
    e->over = e->over || g->node[node].over;
    e->over_ends = ends(e);
    e->check = true;
    return OK;
}

/* What running turns, or threads of the suffix store, had when a cap was lowered goes once they are
 * done. */
static void settle_caps(struct engine *e)
{
    static struct budget_plan plan;
    struct budget_graph *g = e->set.graph;
    if (!e->over || e->over_ends == ends(e)) return;
    e->over = false;
    budget_graph_refresh(g);
    for (u32 n = 0; n < g->node_count; n++)
        if (g->node[n].over && take_over(e, n, &plan) != OK) e->over = true;
    e->over_ends = ends(e);
}

static enum err set(struct engine *e, const struct command_row *row, struct json_out *out)
{
    static struct budget_plan plan;
    struct budget_graph *g = e->set.graph;
    u32 node = budget_graph_find(g, row->tier);
    char line[256], *end;
    if (node == NONE && row->session[0] >= '0' && row->session[0] <= '9' &&
        pool_set(row->tier, strtoull(row->session, NULL, 10))) {
        nvme_caps();
        int set_bytes = snprintf(line, sizeof line, "%s: %s\n", row->tier, row->session);
        json_put_plain(out, line, (u64)set_bytes);
        return OK;
    }
    if (node == NONE)
        return fail(ERR_NOT_FOUND, "set: no node \"%s\"; the nearest is %s", row->tier,
                    budget_graph_nearest(g, row->tier));
    bool any = strcmp(row->session, "none") == 0;
    u64 cap = any ? UINT64_MAX : strtoull(row->session, &end, 10);
    if (!any && (row->session[0] < '0' || row->session[0] > '9' || *end != 0))
        return fail(ERR_USAGE, "set %s: a cap in bytes, or none, not \"%.40s\"", row->tier,
                    row->session);
    u64 evicted = e->counts.evicted;
    if (pool_is_sum(row->tier))
        return fail(ERR_CONFIG, "set nvme: its cap is those of disk, spill and others: set these");
    TRY(budget_graph_cap(g, node, cap));
    if (g->node[node].pool == POOL_NVME) nvme_caps();
    suffix_log_caps();
    TRY(take_over(e, node, &plan));
    u64 used = g->node[node].used_bytes;
    int bytes = snprintf(line, sizeof line, "%s: cap %s%s, %llu bytes used%s; given up: %u records,"
                         " %llu conversations\n", row->tier, any ? "none" : row->session,
                         any ? "" : " bytes", (ull)used,
                         g->node[node].over ? " by what runs: over until it ends" : "",
                         plan.victim_count, (ull)(e->counts.evicted - evicted));
    json_put_plain(out, line, (u64)bytes);
    off_log(e);
    return OK;
}

void command_count_records(struct engine *e)
{
    struct budget_graph *g = e->set.graph;
    memset(g->kept, 0, sizeof g->kept);
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        u32 count;
        u64 length;
        record_blocks(r, &count, &length);
        g->kept[record_at(r)->class].records++;
        g->kept[record_at(r)->class].rows += length;
    }
}

static enum err dump(struct engine *e, enum budget_dump_format format, struct json_out *out)
{
    command_count_records(e);
    return budget_dump(e->set.graph, format, out);
}

static enum err answer(struct engine *e, const struct command_row *row, struct json_out *out)
{
    switch (row->op) {
    case COMMAND_STATS: put_stats(e, out); break;
    case COMMAND_MEMORY_JSON: TRY(dump(e, DUMP_JSON, out)); break;
    case COMMAND_MEMORY_TREE: TRY(dump(e, DUMP_TREE, out)); break;
    case COMMAND_MEMORY_MSGPACK: TRY(dump(e, DUMP_MSGPACK, out)); break;
    case COMMAND_MEMORY_DOT: TRY(dump(e, DUMP_DOT, out)); break;
    case COMMAND_MEMORY_FOLDED: TRY(dump(e, DUMP_FOLDED, out)); break;
    case COMMAND_SET: TRY(set(e, row, out)); break;
    case COMMAND_LEDGER: put_ledger(out, LEDGER_CAP); break;
    case COMMAND_CLEAR:
        TRY(clear_tiers(e, row, out));
        break;
    default: return fail(ERR_USAGE, "command: no operation %d", (int)row->op);
    }
    return json_out_check(out);
}

static void serve_row(struct engine *e, struct command_row *row)
{
    struct json_out out = { 0 };
    enum err err = answer(e, row, &out);
    if (err == OK) {
        row->answer = arena_heap_alloc(out.bytes + 1);
        if (row->answer == NULL) err = fail(ERR_MEMORY, "command: no heap for its answer");
    }
    if (err == OK) {
        memcpy(row->answer, out.text, out.bytes);
        row->answer[out.bytes] = 0;
        row->answer_bytes = out.bytes;
    } else {
        snprintf(row->error_text, sizeof row->error_text, "%.*s", COMMAND_ERROR_BYTES - 1,
                 err_last()->text);
    }
    row->error = err;
    json_out_close(&out);
    struct ring_wake *wake = row->wake;     /* after DONE the row is its taker's */
    row->state = COMMAND_DONE;
    if (wake != NULL) ring_wake_ring(wake);
}

void command_pass(struct engine *e)
{
    settle_caps(e);
    if (pushed_count == 0) return;
    for (u32 i = 0; i < COMMAND_CAP; i++) {
        if (rows[i].state != COMMAND_PUSHED) continue;
        atomic_fetch_sub(&pushed_count, 1);
        serve_row(e, &rows[i]);
        e->moved = true;
    }
}
