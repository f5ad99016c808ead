/* tests/sim/check.h - the clients and the counters of a run, and what a turn is held to: rows,
 * sections and logits of the cold run, the ids that may be served, the answer pushed out. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "arena/base/vocab.h"
#include "http/turn/stop.h"
#include "tests/micro.h"
#include "tests/micromodel.h"
#include "tests/sim/script.h"
#include "tiers/anchors.h"

enum { SIM_CTX = 160, SIM_GUESTS = 2, SIM_ALL = SIM_CLIENTS + SIM_GUESTS, SIM_PASSES_MAX = 20000,
       SIM_HEAD_ROWS = 21, SIM_ROWS_CAP = 512, SIM_ANSWERS = 128 };

/* Ids that mean something; none but ID_END is below the sampler's candidates (48 of 64). */
enum { ID_END = MICRO_EOS, ID_START = 48, ID_THINK, ID_CLOSE, ID_LINE, ID_BLANK, ID_HIDDEN };

struct client {
    u32  ids[SIM_CTX + 64];         /* its copy: prompts and answers so far                       */
    u64  count;
    u64  user;                      /* where its last message begins                              */
    u64  session;
    u64  gap, reminder;             /* where in the prompt ids stand that it forgets, how many    */
    bool busy, keep, forgotten;     /* forgotten: cleared while its turn ran                      */
    u64  cancel_pass;               /* or UINT64_MAX                                              */
    struct micro_ask ask;
};

struct sim_sum {
    u64 turns, passes, cancelled, refused, by_memory, failed_commits, records_checked;
    u64 source[SOURCE_COUNT], cached, forwarded;
    u64 aligned, hidden;            /* prompts served as rows they stand for; ids never sent      */
    u64 bounded, clean;             /* skew: resumes held to the bound; from clean lines          */
};

static struct {
    struct client client[SIM_ALL];
    struct sim_sum sum;
    u64  pass, now_us;
    u32  next_record;               /* the next one whose rows and anchors are compared           */
    struct { u32 ids[SIM_CTX + 64]; u64 count; } rows[SIM_ROWS_CAP];    /* ever served: a ring   */
    u64  rows_count;
    struct micro_ask answered[SIM_ANSWERS];             /* turns that ended by themselves: a ring */
    u64  answered_count;
    u64  capped_number;             /* gates had been asked when a cap last changed               */
    bool pressed;                   /* a cap or a failing commit: turns may be refused            */
    f32  logits[64];
    f32  bound;                     /* skew: most that logits of a session resume may differ      */
} world;

static const struct micro_setup world_setups[] = {
    { .slot_count = 2 },
    { .slot_count = 1, .anchors = 6 },
    { .slot_count = 3, .anchors = 20 },
    { .slot_count = 2, .anchors = 3, .reserve_tokens = 1 },
    { .slot_count = 2, .anchors = UINT32_MAX },
    { .slot_count = 4, .anchors = 12 },
    { .slot_count = 3, .anchors = 12, .kv_rows = 140 },
    { .slot_count = 2, .anchors = 12, .kv_rows = 60, .reserve_tokens = 4 },
    { .slot_count = 1, .anchors = 12, .guest = true },
    { .slot_count = 2, .anchors = 12, .guest = true, .guest_fraction = 1, .stash_rows = 60 },
    { .slot_count = 1, .anchors = 12, .guest = true, .park_rows = 200, .pin_rows = 80,
      .store_rows = 60, .entry_rows = 40, .records = 12 },
    { .slot_count = 2, .anchors = 12, .guest = true, .response_bytes = 16384 },
    { .slot_count = 2, .anchors = 30, .block_rows = 4, .grid_rows = 4, .guest = true },
    { .slot_count = 2, .anchors = 12, .block_rows = 16, .grid_rows = 32 },
};

static const char *world_dir;       /* of the model, written by the parent                        */
static void (*world_wrap)(struct ops *);    /* the skew backend, or NULL                          */

/* ------------------------------------------------------------------ comparing */

/* The reference slot, one more than the engine knows. */
static u32 spare(void) { return micro.set.slot_count; }

/* The reference goes on to `pos`, on the lines of a cold prefill where bits depend on them; logits
 * of its last row when asked for. */
static void spare_to(const u32 *ids, u64 pos, f32 *logits)
{
    u64 at = slot_row(spare())->len, grid = state_shape()->grid_rows;
    while (at < pos) {
        u64 most = forward_row_invariant() ? forward_rows_max() : grid - at % grid;
        u32 n = (u32)MIN(pos - at, most);
        CHECK_OK(forward_chunk(spare(), ids + at, n, at + n == pos ? logits : NULL));
        at += n;
    }
}

static void spare_start(u64 rows)
{
    slot_drop(spare());
    CHECK_OK(slot_grow(spare(), rows));
}

/* Ids of rows [0, rows) as the blocks' labels have them. */
static void labels_of(const block_id *list, u64 rows, u32 *ids)
{
    u32 b = state_shape()->block_rows;
    for (u64 i = 0; i < rows; i++) {
        const u64 *label = arena_blocks_label(state_blocks_arena(), list[i / b]);
        ids[i] = (u32)label[i % b];
    }
}

/* Every row and every anchor of a record is what a cold run of its own ids gives. */
static void check_record(u32 record)
{
    u32 ids[SIM_CTX + 64], blocks, ours;
    u64 rows, length;
    const block_id *list = record_blocks(record, &blocks, &rows);
    struct anchor_list anchors = record_anchors(record);
    if (rows == 0) return;
    CHECK(rows <= SIM_CTX);
    labels_of(list, rows, ids);
    spare_start(rows);
    if (record_at(record)->class == HOLD_STORE && record_at(record)->prefix)
        CHECK(record_at(record)->taint >= rows);        /* no session resume's rows */
    rows = MIN(rows, record_at(record)->taint);
    for (u32 i = 0; i < anchors_count(&anchors); i++) {
        if (!forward_row_invariant() && anchors.row[i].kind != ANCHOR_GRID) continue;
        CHECK(anchors.row[i].pos <= rows);
        const u8 *unit = arena_slots_addr(state_sections_arena(), anchors.row[i].unit);
        spare_to(ids, anchors.row[i].pos, NULL);
        if (cold_sections_differ(unit, cold_sections(spare())) != 0)
            test_failed(__FILE__, __LINE__, "record %u of %llu rows: the anchor at %llu, kind %u, "
                        "is not that of a cold run", record, (ull)rows,
                        (ull)anchors.row[i].pos, anchors.row[i].kind);
    }
    spare_to(ids, rows, NULL);
    list = record_blocks(record, &blocks, &length);
    CHECK_EQ(cold_rows_differ(list, state_rows_out(spare(), &ours, &length), rows), 0);
    slot_drop(spare());
    world.sum.records_checked++;
}

/* Commits that must not fail under the checks. */
static u32 faults_off(void)
{
    u32 left = space_host_fail_left();
    space_host_fail_commit(0);
    return left;
}

static void check_records(bool all)
{
    u32 left = faults_off();
    u32 record = record_next(all ? 0 : world.next_record);
    if (record == NONE) record = record_next(0);
    for (; record != NONE; record = record_next(record + 1)) {
        check_record(record);
        world.next_record = record + 1;
        if (!all) break;
    }
    space_host_fail_commit(left);
}

/* A backend whose bits depend on rows (tiers.md 1.3): a cold prompt, and one from a line, has the
 * rows of a cold run on the same lines, and its logits; after a session resume the last logits lie
 * within the bound, the ids forced. */
static void check_skewed(const struct client *c, const u32 *ids, u64 rows)
{
    const struct turn_result *r = &c->ask.result;
    const f32 *kept = micro.logits + (u64)r->slot * micro.vocab;
    u32 blocks, sent = (u32)MIN(rows, r->cached + r->forwarded), record = resident_record(r->slot);
    u64 length, grid = state_shape()->grid_rows;
    bool exact = record != NONE && r->cached % grid == 0 &&     /* a clean line of any record */
                 record_at(record)->taint >= ALIGN_DOWN(sent, grid);
    if (r->source == SOURCE_COLD || r->source == SOURCE_GRID) CHECK(exact);
    const block_id *list = state_rows_out(r->slot, &blocks, &length);
    spare_start(rows);
    spare_to(ids, sent, world.logits);
    if (exact) CHECK_EQ(cold_rows_differ(list, state_rows_out(spare(), &blocks, &length), sent), 0);
    if (exact && rows == sent && r->generated == 1) {
        CHECK_EQ(cold_differences(r->slot, spare(), rows), 0);
        CHECK(memcmp(world.logits, kept, micro.vocab * sizeof *kept) == 0);
    }
    for (u64 at = sent; at < rows; at++)
        CHECK_OK(forward_chunk(spare(), ids + at, 1, world.logits));
    for (u32 i = 0; i < micro.vocab && r->finish != FINISH_CANCELLED; i++)
        CHECK(__builtin_fabsf(world.logits[i] - kept[i]) <= world.bound);
    world.sum.bounded += !exact;
    world.sum.clean += exact && r->cached > 0;
    slot_drop(spare());
}

/* Ten times the largest difference that two row counts give. */
static f32 skew_bound(void)
{
    u32 ids[SIM_CTX];
    f32 single[64], most = 0.0f;
    for (u32 k = 0; k < 4; k++) {
        for (u32 i = 0; i < SIM_CTX; i++) ids[i] = 4 + (u32)(rng_u64(900 + k, i) % 40);
        spare_start(SIM_CTX);
        for (u32 i = 0; i < SIM_CTX; i++) CHECK_OK(forward_chunk(spare(), ids + i, 1, single));
        spare_start(SIM_CTX);
        spare_to(ids, SIM_CTX, world.logits);
        for (u32 i = 0; i < micro.vocab; i++)
            most = MAX(most, __builtin_fabsf(single[i] - world.logits[i]));
    }
    slot_drop(spare());
    CHECK(most > 0.0f);
    return 10.0f * most;
}

/* What is left of ids without hidden ones, blanks and whole think blocks: the same for a client's
 * copy and for the rows it stands for. */
static u64 plain_ids(const u32 *ids, u64 count, u32 *out)
{
    u64 n = 0, open = UINT64_MAX;           /* where the last <think> stands in `out` */
    for (u64 i = 0; i < count; i++) {
        if (ids[i] == ID_LINE || ids[i] == ID_BLANK || ids[i] == ID_HIDDEN) continue;
        if (ids[i] == ID_CLOSE && open != UINT64_MAX) {
            n = open;
            open = UINT64_MAX;
            continue;
        }
        if (ids[i] == ID_THINK) open = n;
        if (ids[i] == ID_START || ids[i] == ID_END) open = UINT64_MAX;
        out[n++] = ids[i];
    }
    return n;
}

static u64 common_front(const u32 *x, u64 x_count, const u32 *y, u64 y_count)
{
    u64 n = 0;
    while (n < MIN(x_count, y_count) && x[n] == y[n]) n++;
    return n;
}

/* The served prompt is the front of rows that this engine served before and the rest of what was
 * sent, and says the same: nothing was put back twice, nothing of another place. */
static void check_aligned(const struct client *c, const u32 *served, u64 count)
{
    u32 x[SIM_CTX + 64], y[SIM_CTX + 64];
    u64 sent = c->ask.id_count, same = 0, most = 0;
    CHECK(count <= SIM_CTX);
    while (same < MIN(sent, count) && served[count - 1 - same] == c->ask.ids[sent - 1 - same])
        same++;
    for (u64 i = 0; i < MIN(world.rows_count, (u64)SIM_ROWS_CAP); i++)
        most = MAX(most, common_front(served, count, world.rows[i].ids, world.rows[i].count));
    CHECK(most + same >= count);
    u64 n = plain_ids(served, count, x);
    CHECK_EQ(n, plain_ids(c->ask.ids, sent, y));
    CHECK(memcmp(x, y, n * sizeof *x) == 0);
    world.sum.aligned++;
}

/* The rows behind the served prompt are the ids pushed out, and the hidden ones between them. */
static void check_answer(const struct client *c, const u32 *ids, u64 served, u64 rows)
{
    u64 at = 0;
    for (u64 i = served; i < rows; i++) {
        if (ids[i] == ID_HIDDEN) {
            world.sum.hidden++;
            continue;
        }
        CHECK(at < c->ask.out_count && ids[i] == c->ask.out[at]);
        at++;
    }
}

static void keep_rows(const u32 *ids, u64 rows)
{
    u64 at = world.rows_count++ % SIM_ROWS_CAP;
    memcpy(world.rows[at].ids, ids, rows * sizeof *ids);
    world.rows[at].count = rows;
}

/* Logits, sections and rows of a slot against the reference. */
static void check_slot(const struct client *c, const u32 *ids, u64 rows, bool whole)
{
    const struct turn_result *r = &c->ask.result;
    const f32 *kept = micro.logits + (u64)r->slot * micro.vocab;
    spare_start(rows);
    spare_to(ids, rows, world.logits);
    CHECK_EQ(cold_differences(r->slot, spare(), rows), 0);
    if (whole) CHECK(memcmp(world.logits, kept, micro.vocab * sizeof *kept) == 0);
    slot_drop(spare());
}

/* The rows of sessions that stand in the store. */
static void keep_stored(void)
{
    u32 ids[SIM_CTX + 64], count;
    u64 rows;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (record_at(r)->class != HOLD_STORE || record_at(r)->prefix) continue;
        const block_id *list = record_blocks(r, &count, &rows);
        labels_of(list, rows, ids);
        keep_rows(ids, rows);
    }
}

/* A guest has left its slot: its last logits are those of a cold run. */
static void check_guest(const struct client *c)
{
    const struct turn_result *r = &c->ask.result;
    u32 ids[2 * SIM_CTX];
    u32 left = faults_off();
    u64 rows = c->ask.id_count + r->generated - 1;
    bool whole = r->finish == FINISH_STOP || r->finish == FINISH_LENGTH;
    CHECK(r->guest && slot_row(r->slot)->len == 0 && resident_record(r->slot) == NONE);
    keep_stored();
    if (whole && r->served == SERVED_SENT && c->ask.out_count + 1 >= r->generated &&
        forward_row_invariant()) {
        memcpy(ids, c->ask.ids, c->ask.id_count * sizeof *ids);
        memcpy(ids + c->ask.id_count, c->ask.out, (r->generated - 1) * sizeof *ids);
        spare_start(rows);
        spare_to(ids, rows, world.logits);
        CHECK(memcmp(world.logits, micro.logits + (u64)r->slot * micro.vocab,
                     micro.vocab * sizeof *world.logits) == 0);
        slot_drop(spare());
    }
    space_host_fail_commit(left);
}

/* What came from the response cache is what the engine answered to the same request before. */
static void check_response(const struct micro_ask *a)
{
    for (u64 i = 0; i < MIN(world.answered_count, (u64)SIM_ANSWERS); i++) {
        const struct micro_ask *b = &world.answered[i];
        if (a->id_count == b->id_count && a->max_tokens == b->max_tokens &&
            a->think_open == b->think_open && a->closing_count == b->closing_count &&
            (a->closing_count == 0 || a->think_budget == b->think_budget) &&
            a->out_count == b->out_count &&
            memcmp(a->ids, b->ids, a->id_count * sizeof *a->ids) == 0 &&
            memcmp(a->out, b->out, a->out_count * sizeof *a->out) == 0) return;
    }
    if (world.answered_count <= SIM_ANSWERS)
        test_failed(__FILE__, __LINE__, "an answer of the response cache was never given");
}

/* The slot of a turn that ended holds its served ids and nothing else. */
static void check_turn(const struct client *c)
{
    const struct turn_result *r = &c->ask.result;
    if (r->slot == resident_guest_slot()) {
        check_guest(c);
        return;
    }
    u32 ids[SIM_CTX + 64], blocks, left = faults_off();
    u64 rows, sent = c->ask.id_count, served = sent;
    bool whole = r->finish == FINISH_STOP || r->finish == FINISH_LENGTH;
    const block_id *list = state_rows_out(r->slot, &blocks, &rows);
    labels_of(list, rows, ids);
    if (whole && !(c->forgotten && rows == 0)) {    /* else the record went when the turn ended */
        served = r->cached + r->forwarded;
        CHECK_EQ(rows, served + r->generated - 1);
        if (r->served == SERVED_ALIGNED) check_aligned(c, ids, served);
        else CHECK_EQ(served, sent);
    }
    if (r->served == SERVED_SENT)
        CHECK(memcmp(ids, c->ask.ids, MIN(rows, sent) * sizeof *ids) == 0);
    if (whole && rows > 0) check_answer(c, ids, served, rows);
    if (rows > 0) {
        keep_rows(ids, rows);
        if (forward_row_invariant()) check_slot(c, ids, rows, whole);
        else check_skewed(c, ids, rows);
    }
    space_host_fail_commit(left);
}

#endif
