/* tiers/nvme/nvme.c - records to files and back, for the engine. */
#include "tiers/nvme/nvme.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "arena/table.h"
#include "tiers/key.h"
#include "tiers/nvme/kept.h"

#include <stdio.h>
#include <string.h>

enum { NVME_PIECES = 16384, NVME_LINES = 65536, NVME_TALKS = 256, NVME_WRITES = 256,
       NVME_READS = 1024, NVME_SMALL = 1024, NVME_WHY_BYTES = 512, NVME_COUNTS_US = 60000000,
       NVME_PLAN_US = 50000,            /* the write-behind is planned at most so often       */
       NVME_REFUSED_US = 60000000 };    /* a save without room is said at most so often       */

static struct {
    struct nvme_setup set;
    struct fingerprint place;
    struct rates rates;
    struct journal_talk *talk;          /* [record_cap]                                       */
    u32 *record, *order;                /* [record_cap] of talk i; the plan                   */
    u64 idle_since_us, counts_us;
    u64 plan_us, due_us;                /* when the write-behind is planned next; may save next */
    bool fresh;                         /* a turn ended, or idling began, since the last plan */
    u64 seen_bytes, seen_us;            /* pieces written, as of the last rate                */
    u64 tail_tokens;                    /* of displaced conversations, not yet on disk        */
    struct nvme_tails tails;
    u64 refused_us, refused;            /* when that was said; saves without room since then  */
    bool on;
    char why[NVME_WHY_BYTES];           /* off, though it was asked for                       */
} own;

/* Small caches (tests, small boards) have small tables. */
static u32 pieces_of(u64 ctx) { return ctx <= NVME_SMALL ? 1024 : NVME_PIECES; }
static u32 lines_of(u64 ctx) { return ctx <= NVME_SMALL ? 1024 : NVME_LINES; }
static u32 talks_of(u64 ctx) { return ctx <= NVME_SMALL ? 32 : NVME_TALKS; }
static u32 files_of(u64 ctx) { return pieces_of(ctx) + talks_of(ctx); }

u64 nvme_table_bytes(const struct state_shape *shape, u64 ctx, u32 record_cap)
{
    u64 record = sizeof(struct journal_talk) + 2 * sizeof(u32);
    return writer_table_bytes(shape, NVME_WRITES, files_of(ctx)) +
           reader_table_bytes(shape, NVME_READS) +
           pieces_table_bytes(pieces_of(ctx)) + transfer_table_bytes(shape, ctx) +
           count_table_bytes(lines_of(ctx)) + disk_table_bytes(lines_of(ctx)) +
           spill_table_bytes(talks_of(ctx)) + nvme_load_table_bytes(shape, ctx) +
           kept_table_bytes(record_cap) + record * record_cap + 16 * 64;
}

/* ------------------------------------------------------------------ open and close */

static enum err open_tables(void)
{
    const struct nvme_setup *s = &own.set;
    u32 t = s->table_arena;
    TRY(kept_open(t, s->record_cap));
    TRY(arena_table_take(t, "nvme talks", sizeof *own.talk, s->record_cap, &own.talk));
    TRY(arena_table_take(t, "nvme order", sizeof *own.order, s->record_cap, &own.order));
    TRY(arena_table_take(t, "nvme saves", sizeof *own.record, s->record_cap, &own.record));
    TRY(nvme_load_open(t, s->ctx, s->threads, &own.rates));
    TRY(pieces_open(t, pieces_of(s->ctx), &own.place));
    TRY(transfer_open(t, s->ctx));
    TRY(count_open(t, lines_of(s->ctx)));
    return spill_open(t, talks_of(s->ctx), &own.place, 0);      /* its cap: pool_settle       */
}

static enum err open_all(u64 now_s)
{
    const struct nvme_setup *s = &own.set;
    TRY(open_tables());
    TRY(writer_open(&(struct writer_setup){
        .table_arena = s->table_arena, .row_cap = NVME_WRITES, .place = &own.place,
        .remove_cap = files_of(s->ctx),
        .wake = s->wake, .thread = s->threads, .day_cap_bytes = s->knobs.day_cap_bytes }));
    TRY(reader_open(&(struct reader_setup){
        .table_arena = s->table_arena, .row_cap = NVME_READS, .place = &own.place,
        .wake = s->wake, .thread = s->threads }));
    TRY(pieces_scan(now_s));
    TRY(disk_open(s->table_arena, &own.place, &s->knobs.disk));
    TRY(spill_scan());
    pieces_sweep();
    TRY(pool_open(s->graph, &own.place, &s->knobs.disk, now_s));
    pool_set("spill-free-gb", s->knobs.spill_floor_bytes);
    pool_settle(now_s, false);
    return OK;
}

/* Rates of files that the profile does not name are probed; all are measured from here on. */
static void seed_rates(void)
{
    const struct rates *named = &own.set.knobs.rates;
    own.rates = *named;
    if (own.set.threads &&
        rates_probe(own.place.folder, own.place.direct, &own.rates) != OK)
        log_line(LOG_LEVEL_WARN, "cache rates are not probed: %s", err_last()->text);
    log_line(LOG_LEVEL_INFO, "cache rates: read %.0f MB/s (%s), write %.0f MB/s (%s), prefill "
             "%.6f s a token (%s)", own.rates.read_bytes_s / 1e6,
             named->read_bytes_s > 0 ? "profile" : own.rates.read_bytes_s > 0 ? "probe" : "unknown",
             own.rates.write_bytes_s / 1e6, named->write_bytes_s > 0 ? "profile" :
             own.rates.write_bytes_s > 0 ? "probe" : "unknown", own.rates.prefill_s_token,
             named->prefill_s_token > 0 ? "profile" : "unknown");
}

bool nvme_open(const struct nvme_setup *setup)
{
    u64 now_s = (u64)clock_wall_s();
    memset(&own, 0, sizeof own);
    own.set = *setup;
    own.place.lock_fd = -1;
    if (setup->cache_dir[0] == 0) return false;
    enum err err = fingerprint_open(setup->cache_dir, state_shape(), &setup->source, now_s,
                                    &own.place);
    if (err == OK) err = open_all(now_s);
    if (err != OK) {
        const char *text = err_last()->text;
        bool named = strncmp(text, "cache folder ", strlen("cache folder ")) == 0;
        snprintf(own.why, sizeof own.why, "%s%.200s%s%.200s: disk, spill and suffix tiers are off",
                 named ? "" : "cache folder ", named ? "" : setup->cache_dir, named ? "" : ": ",
                 text);
        log_line(LOG_LEVEL_WARN, "%s", own.why);
        pool_close();
        writer_close();
        reader_close();
        spill_close();
        fingerprint_close(&own.place, now_s);
        return false;
    }
    own.on = true;
    own.due_us = UINT64_MAX;
    struct pieces_counts found = pieces_counts();
    log_line(LOG_LEVEL_INFO, "cache folder %s: %u files, %llu MiB, %u conversations",
             own.place.folder, found.rows,
             (ull)((found.disk_bytes + found.spill_bytes) / MIB), spill_counts().rows);
    seed_rates();
    return true;
}

void nvme_close(void)
{
    if (!own.on) return;
    while (!own.set.threads && reader_step()) continue;
    while (writer_pending() > 0 && writer_drain(UINT64_MAX)) journal_answers();
    writer_close();
    reader_close();
    nvme_load_close();                  /* reads that were under way                          */
    spill_close();
    pool_close();
    fingerprint_close(&own.place, (u64)clock_wall_s());
    own.on = false;
}

bool nvme_on(void) { return own.on; }
const char *nvme_why(void) { return own.why; }
static bool spilling(void) { return own.on && spill_cap_bytes() > 0; }

void nvme_caps(void)
{
    if (own.on) pool_settle((u64)clock_wall_s(), true);
}

const char *nvme_folder(void) { return own.on ? own.place.folder : ""; }

/* ------------------------------------------------------------------ find */

/* A record in memory holds as much of that session. */
static bool in_memory(const u64 session[2], u64 rows)
{
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1))
        if (record_session(r, session) && record_rows(r) >= rows) return true;
    return false;
}

/* The session's own entry at its last anchor, when the prompt begins with its first line. */
static bool find_whole(const struct tier_prompt *prompt, const u64 (*lines)[2], u64 line_count,
                       struct nvme_hit *out)
{
    u32 row = spill_session(prompt->session);
    if (row == NONE || line_count == 0) return false;
    const struct spill_row *r = spill_at(row);
    if (r->top == NONE || in_memory(prompt->session, r->talk.length)) return false;
    u32 first = r->top;
    while (pieces_row(first)->lo > 0) first = pieces_below(first);      /* ends: lo falls     */
    if (memcmp(pieces_row(first)->name, lines[0], sizeof lines[0]) != 0) return false;
    struct spill_hit end;
    if (!spill_end(row, &end) || end.start >= own.set.ctx) return false;
    *out = (struct nvme_hit){ .anchor = end.anchor, .cover = end.cover, .row = row,
                              .start = end.start, .whole = true };
    return rates_worth(&own.rates, end.bytes, end.start);
}

static bool find(const struct tier_prompt *prompt, u64 best_start, u32 tries,
                 struct nvme_hit *out)
{
    u64 line_count, limit = prompt->count - 1, slower = disk_counts().slower;
    struct disk_hit disk;
    struct spill_hit spill;
    if (!own.on || tries >= NVME_TRIES) return false;
    const u64 (*lines)[2] = transfer_prompt(prompt->keys, prompt->count, &line_count);
    spill_find(lines, prompt->keys, limit, best_start, &own.rates, &spill);
    disk_find(lines, limit, MAX(best_start, spill.start), &own.rates, &disk);
    bool whole = tries == 0 && find_whole(prompt, lines, line_count, out);
    u64 exact = disk.anchor != NONE ? disk.start : spill.start;
    if (whole && out->start > exact) return true;
    if (disk.anchor != NONE) {
        *out = (struct nvme_hit){ .anchor = disk.anchor, .cover = NONE, .row = NONE,
                                  .start = disk.start };
        return true;
    }
    if (spill.row == NONE) {
        out->slow = spill.slow || disk_counts().slower > slower;
        return false;
    }
    *out = (struct nvme_hit){ .anchor = spill.anchor, .cover = spill.cover, .row = spill.row,
                              .start = spill.start };
    return true;
}

/* Anchors of the same entry below the start come along, the newest ones. */
static void add_units(struct nvme_hit *hit)
{
    hit->units = 1;
    if (hit->row == NONE) return;
    const struct manifest *m = &spill_at(hit->row)->talk;
    u32 found[NVME_UNITS], count = 0;
    for (u32 i = m->anchor_count; i > 0 && count < NVME_UNITS - 1; i--) {
        u32 piece = pieces_find(FORMAT_ANCHOR, m->anchor[i - 1].name);
        if (m->anchor[i - 1].pos >= hit->start || piece == NONE) continue;
        if (pieces_complete(piece)) found[count++] = piece;
    }
    for (u32 i = 0; i < count; i++) hit->more[i] = found[count - 1 - i];
    hit->units = count + 1;
}

bool nvme_find(const struct tier_prompt *prompt, u64 best_start, u32 tries, struct nvme_hit *out)
{
    if (!find(prompt, best_start, tries, out)) return false;
    add_units(out);
    return true;
}

bool nvme_newest(struct nvme_hit *out, u64 session_out[2])
{
    u32 newest = NONE;
    struct spill_hit end;
    if (!own.on) return false;
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1))
        if (newest == NONE || spill_at(i)->talk.used_s > spill_at(newest)->talk.used_s) newest = i;
    if (newest == NONE || !spill_end(newest, &end) || end.start >= own.set.ctx) return false;
    *out = (struct nvme_hit){ .anchor = end.anchor, .cover = end.cover, .row = newest,
                              .start = end.start, .whole = true };
    add_units(out);
    memcpy(session_out, spill_at(newest)->talk.session, 2 * sizeof *session_out);
    return true;
}

enum tier_source nvme_source(u32 record, enum tier_source source)
{
    if (!own.on || record == NONE || !kept_of(record)->boot) return source;
    kept_of(record)->boot = false;
    return TIER_SPILL;
}

enum nvme_state nvme_loaded(u32 load, u64 now_us, struct nvme_record *out)
{
    enum nvme_state state = nvme_load_done(load, now_us, out);
    if (state != NVME_LOADED) return state;
    kept_of(out->record)->saved_rows = out->saved_rows;
    kept_of(out->record)->boot = out->boot;
    return state;
}

void nvme_distrust(const u64 name[2])
{
    if (!own.on) return;
    u32 anchor = pieces_find(FORMAT_ANCHOR, name), chunk = pieces_find(FORMAT_CHUNK, name);
    if (anchor != NONE) pieces_doom(anchor);
    if (chunk != NONE && !pieces_row(chunk)->doomed) pieces_doom(chunk);
    spill_check();
}

/* ------------------------------------------------------------------ write */

void nvme_plan(const struct tier_prompt *prompt, u64 start, u64 last_user_pos,
               struct count_plan *out)
{
    u64 line_count;
    *out = (struct count_plan){ .count = 0 };
    if (!own.on) return;
    struct count_prompt p = { .count = prompt->count, .start = start,
                              .last_user_pos = last_user_pos };
    p.lines = transfer_prompt(prompt->keys, prompt->count, &line_count);
    p.line_count = line_count;
    p.first_long = start < state_shape()->grid_rows && spill_session(prompt->session) == NONE;
    disk_plan(&p, (u64)clock_wall_s(), out);
}

void nvme_line(u32 record, u64 pos, u64 turn)
{
    u32 count;
    u64 rows;
    struct anchor_list list = record_anchors(record);
    u32 at = anchors_at(&list, pos);
    bool lost = at == NONE || record_at(record)->taint < pos;
    if (own.on && lost) disk_line_lost();
    if (!own.on || lost) return;
    if (record_at(record)->slot != NONE) state_freeze(record_at(record)->slot, pos);
    const u64 *session = record_at(record)->session;
    struct transfer_rows from = { record_blocks(record, &count, &rows), pos,
                                  { session[0], session[1] }, (u32)turn };
    ASSERT(pos <= rows);
    disk_line(&from, list.row[at].unit, (u64)clock_wall_s());
}

void nvme_doubt(u64 turn)
{
    if (!own.on) return;
    pieces_doubt((u32)turn);
    spill_check();
}

void nvme_turn_over(u32 record, u64 start, bool answered, u64 now_us)
{
    if (!own.on || record == NONE) return;
    kept_turn_over(record, start, answered, now_us);
    own.fresh = true;
}

void nvme_prefilled(u64 tokens, u64 us)
{
    if (own.on) rates_prefill(&own.rates, tokens, us);
}

struct rates nvme_rates(void) { return own.rates; }

static void write_rate(void)
{
    struct writer_counts w = writer_counts();
    rates_write(&own.rates, w.piece_bytes - own.seen_bytes, w.piece_us - own.seen_us);
    own.seen_bytes = w.piece_bytes;
    own.seen_us = w.piece_us;
}

static struct spill_source source_of(u32 record, struct anchor_list *anchors, bool always)
{
    const struct record_row *r = record_at(record);
    u32 count;
    u64 rows;
    const block_id *block = record_blocks(record, &count, &rows);
    u64 idle_us = clock_us() - MIN(clock_us(), r->used_us), now_s = (u64)clock_wall_s();
    if (r->slot != NONE) state_freeze(r->slot, rows);
    *anchors = record_anchors(record);
    return (struct spill_source){
        .session = { r->session[0], r->session[1] },
        .rows = { block, rows, { r->session[0], r->session[1] }, 0 }, .anchors = anchors,
        .generations = record_generations(record), .head_pos = r->head_pos, .taint = r->taint,
        .hits = r->hits, .always = always, .used_us = r->used_us,
        .used_s = now_s - MIN(now_s, idle_us / 1000000u),
        .from = MIN(kept_of(record)->saved_rows, rows),
    };
}

/* It is tried again at every turn and pause: one line a minute says so, the last error's. */
static void say_refused(u64 now_us)
{
    own.refused++;
    if (own.refused_us > 0 && now_us - own.refused_us < NVME_REFUSED_US) return;
    log_line(LOG_LEVEL_WARN, "spill: %s (%llu refused since the last such line)",
             err_last()->text, (ull)own.refused);
    own.refused_us = MAX(now_us, 1u);
    own.refused = 0;
}

static bool save(u32 record, u64 now_us, bool always)
{
    struct anchor_list anchors;
    u32 row;
    struct spill_source source = source_of(record, &anchors, always);
    enum err err = spill_save(&source, (u64)clock_wall_s(), &row);
    if (err == ERR_LIMIT) say_refused(now_us);
    if (err != OK) return false;
    kept_of(record)->saved_rows = source.rows.rows;
    kept_of(record)->saved_us = now_us;
    return true;
}

void nvme_displaced(u32 record, u64 kept_rows)
{
    u64 rows = record_rows(record);
    if (!own.on || !spilling() || kept_rows >= rows || !kept_writable(record)) return;
    if (rows < own.set.knobs.spill_rows_min || kept_of(record)->saved_rows >= rows) return;
    u64 tokens = rows - MIN(rows, kept_of(record)->saved_rows);
    if (kept_newest(record) && save(record, clock_us(), true)) own.tail_tokens += tokens;
}

u64 nvme_wait_us(void)
{
    if (!own.on || own.tail_tokens == 0 || writer_pending() == 0) return 0;
    f64 us = (f64)own.tail_tokens * own.rates.prefill_s_token * 1e6;   /* 0: not known         */
    return us > 0 ? (u64)MIN(us, (f64)own.set.knobs.spill_wait_us) : own.set.knobs.spill_wait_us;
}

u64 nvme_written(void)
{
    struct writer_counts w = writer_counts();
    return w.files + w.failed + w.cancelled;
}

bool nvme_drop_tail(void)
{
    if (!own.on || own.tail_tokens == 0 || writer_cancel() == 0) return false;
    own.tails.dropped++, own.tails.dropped_tokens += own.tail_tokens;
    log_line(LOG_LEVEL_WARN, "spill: %llu tokens are not written: their memory is needed",
             (ull)own.tail_tokens);
    own.tail_tokens = 0;
    return true;
}

struct nvme_tails *nvme_tails(void) { return &own.tails; }

static u32 list_talks(void)
{
    u32 count = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct kept_row *k = kept_of(r);
        if (!kept_writable(r)) continue;
        bool saving = spill_saving(record_at(r)->session);
        kept_check(r, saving);
        if (k->saved_rows >= record_rows(r) || !kept_newest(r)) continue;
        own.record[count] = r;
        own.talk[count++] = (struct journal_talk){
            .rows = record_rows(r), .written = MIN(k->saved_rows, record_rows(r)),
            .saved_us = k->saved_us, .turn_us = k->turn_us, .saving = saving,
            .parked = record_at(r)->class == HOLD_PARK,
        };
    }
    return count;
}

/* Saves what is due.  Looking at every record on every round of a decode would cost it time. */
static bool write_behind(u64 now_us)
{
    bool moved = false;
    if (!own.fresh && now_us < own.plan_us) return false;
    own.fresh = false;
    u32 count = list_talks();
    u32 due = journal_plan(own.talk, count, &own.set.knobs.journal, now_us, own.idle_since_us,
                           own.order);
    for (u32 i = 0; i < due; i++) {
        u32 record = own.record[own.order[i]];
        moved = save(record, now_us, false) || moved;
        own.talk[own.order[i]].saved_us = now_us;
        own.talk[own.order[i]].saving = true;
        kept_of(record)->saved_us = now_us;     /* refused: again some time later             */
    }
    own.due_us = journal_due_us(own.talk, count, &own.set.knobs.journal, own.idle_since_us);
    own.plan_us = MAX(now_us + NVME_PLAN_US, MIN(own.due_us, now_us + 20 * NVME_PLAN_US));
    return moved;
}

bool nvme_pass(u64 now_us, bool busy)
{
    if (!own.on) return false;
    bool moved = nvme_load_answers(now_us);
    while (!own.set.threads && writer_step()) continue;
    moved = journal_answers() || moved;
    write_rate();
    if (writer_pending() == 0) own.tail_tokens = 0;
    if (busy) own.idle_since_us = 0;
    else if (own.idle_since_us == 0) {
        own.idle_since_us = MAX(now_us, 1u);
        own.fresh = true;
    }
    if (spilling()) moved = write_behind(now_us) || moved;
    bool minute = now_us - own.counts_us >= NVME_COUNTS_US;
    if (minute && (count_rows() == 0 || disk_counts_save())) own.counts_us = now_us;
    pool_settle((u64)clock_wall_s(), minute);
    return moved;
}

u64 nvme_due_us(void)
{
    if (!own.on || !spilling() || own.due_us == UINT64_MAX) return UINT64_MAX;
    return MAX(own.due_us, own.plan_us);
}

/* ------------------------------------------------------------------ drain and clear */

/* Live before parked, then by last use. */
static bool before(u32 a, u32 b)
{
    const struct record_row *x = record_at(a), *y = record_at(b);
    return x->class != y->class ? x->class == HOLD_LIVE : x->used_us > y->used_us;
}

void nvme_drain(u64 deadline_us, struct journal_drained *out)
{
    u32 count = 0;
    *out = (struct journal_drained){ 0 };
    if (!own.on) return;
    do {                                        /* saves under way first; ends: no answer is  */
        writer_drain(deadline_us);              /* left, or the deadline                      */
    } while (journal_answers() && spill_busy() && clock_us() < deadline_us);
    for (u32 r = record_next(0); r != NONE && spilling(); r = record_next(r + 1)) {
        if (!kept_writable(r) || !kept_newest(r)) continue;
        kept_check(r, false);
        if (kept_of(r)->saved_rows >= record_rows(r)) continue;
        u32 at = count++;
        for (; at > 0 && before(r, own.order[at - 1]); at--) own.order[at] = own.order[at - 1];
        own.order[at] = r;
    }
    for (u32 i = 0; i < count; i++) {
        struct anchor_list anchors;
        struct journal_drained one;
        struct spill_source source = source_of(own.order[i], &anchors, true);
        journal_drain(&source, 1, deadline_us, (u64)clock_wall_s(), &one);
        out->saved += one.saved;
        out->missed += one.missed;
    }
    if (disk_counts_save()) writer_drain(deadline_us);
    journal_answers();
}

void nvme_clear(bool disk, bool spill, const u64 session[2], struct forget_counts *out)
{
    *out = (struct forget_counts){ 0 };
    if (own.on) forget_files(disk, spill, session, out);
}
