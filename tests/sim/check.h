/* tests/sim/check.h - the clients and the counters of a run, and what a turn is held to: rows,
 * sections and logits of the cold run, the ids that may be served, the answer pushed out. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#define MICRO_IDS_CAP 512

#include "arena/base/vocab.h"
#include "http/turn/stop.h"
#include "tests/micro.h"
#include "tests/micromodel.h"
#include "tests/sim/script.h"
#include "tiers/anchors.h"

enum { SIM_CTX = 160, SIM_GUESTS = 2, SIM_ALL = SIM_CLIENTS + SIM_GUESTS, SIM_PASSES_MAX = 20000,
       SIM_HEAD_ROWS = 21, SIM_ROWS_CAP = 512, SIM_ANSWERS = 128, SIM_CALLS = 8, SIM_MODELS = 4,
       SIM_RECORDS = 512 };

/* Ids that mean something; none but ID_END is below the sampler's candidates (48 of 64). */
enum { ID_END = MICRO_EOS, ID_START = 48, ID_THINK, ID_CLOSE, ID_LINE, ID_BLANK, ID_HIDDEN,
       ID_CALL, ID_CALLED };

struct client {
    u32  ids[SIM_CTX + 64];         /* its copy: prompts and answers so far                       */
    u64  count;
    u64  user;                      /* where its last message begins                              */
    u64  session;
    u64  gap, reminder;             /* where in the prompt ids stand that it forgets, how many    */
    bool busy, keep, forgotten;     /* forgotten: cleared while its turn ran                      */
    u64  cancel_pass;               /* or UINT64_MAX                                              */
    u32  rows[SIM_CTX + 64];        /* ids of its slot's rows after its last turn that was kept   */
    u64  row_count;
    u64  awaited;                   /* of them, those that a planned restart left on disk         */
    u64  talk;                      /* rows of its entry on disk before the last stop             */
    u64  end;                       /* rows that its last turn with an answer ended at            */
    bool ended[SIM_CTX + 64];       /* one did at so many                                         */
    struct call_row call[SIM_CALLS];        /* in its copy                                        */
    u32  call_count;
    struct call_row asked[SIM_CALLS];       /* in its last prompt                                 */
    u32  style;                     /* how it writes its next call                                */
    struct micro_ask ask;
};

struct sim_sum {
    u64 turns, passes, cancelled, refused, by_memory, failed_commits, records_checked;
    u64 source[SOURCE_COUNT], cached, forwarded;
    u64 aligned, hidden;            /* prompts served as rows they stand for; ids never sent      */
    u64 bounded, clean;             /* skew: resumes held to the bound; from clean lines          */
    u64 drafted, accepted;          /* ids proposed to a turn; those that were right           */
    u64 calls, sampled;             /* calls told to the engine; sampled ids drawn again          */
    u64 restarts, kills, switches, files_found, files_back;     /* back: when a model came again  */
    u64 lost, io_faults, rotten, days, saved;   /* saved: conversations held whole on disk        */
    u64 hidden_back;                /* hidden ids in prompts that began from files                */
    u64 awaited, kept;              /* first turns after a planned restart; from where it ended   */
};

/* A record as a turn with an answer left it; where the first of them began, and how many since. */
struct turned { u64 number, session, rows, start, answers; };

/* Files of one model in the folder, as they were when it was closed last. */
struct left {
    u32  pieces, talks;
    bool known;                     /* closed with everything written, nothing happened since     */
    bool rotten;                    /* files may be bad or missing: calls failed, bits flipped    */
    bool flipped;                   /* bits flipped in some life: found when a file is read       */
};

static struct {
    struct micro_setup set;         /* as the next start shall be                                 */
    u32  setup, model;              /* its number; which weights, G and arithmetic                */
    struct left left[SIM_MODELS];
    u32  removed, others;           /* folders of other models by this process; that are there    */
    bool running, stopping;         /* the last pass said so; a stop was asked for                */
    u32  io_left, io_kind;          /* file calls that shall still fail, and how                  */
    u64  io_salt;
    struct client client[SIM_ALL];
    struct sim_sum sum;
    u64  pass, now_us;
    u32  next_record;               /* the next one whose rows and anchors are compared           */
    struct { u32 ids[SIM_CTX + 64]; u64 count; } rows[SIM_ROWS_CAP];    /* ever served: a ring   */
    u64  rows_count;
    struct turned turned[SIM_RECORDS];                  /* records as a turn left them            */
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
    { .slot_count = 2, .anchors = 12, .guest = true, .response_bytes = 16384,
      .draft = DRAFT_LOOKUP, .suffix_bytes = 48 * 64 * sizeof(u32) },
    { .slot_count = 2, .anchors = 30, .block_rows = 4, .grid_rows = 4, .guest = true },
    { .slot_count = 2, .anchors = 12, .block_rows = 16, .grid_rows = 32 },
    { .slot_count = 1, .anchors = 12, .cache_dir = "", .journal_rows = 16 },
    { .slot_count = 2, .anchors = 20, .cache_dir = "", .guest = true, .draft = DRAFT_LOOKUP,
      .suffix_bytes = 48 * 64 * sizeof(u32) },
    { .slot_count = 2, .anchors = 12, .cache_dir = "", .park_rows = 60, .pin_rows = UINT64_MAX,
      .store_rows = UINT64_MAX },
    { .slot_count = 1, .anchors = 12, .cache_dir = "", .guest = true, .block_rows = 4,
      .grid_rows = 4, .response_bytes = 16384, .journal_rows = 32 },
    { .slot_count = 3, .anchors = 12, .cache_dir = "", .kv_rows = 200, .park_rows = 200,
      .disk_bytes = 600 * KIB, .spill_bytes = 900 * KIB },
    { .slot_count = 1, .anchors = 6, .cache_dir = "", .pin_rows = UINT64_MAX,
      .store_rows = UINT64_MAX, .park_rows = 160, .journal_rows = 8 },
};

/* Whoever proposes: a script's setup is a row above, and one of these every COUNT_OF of them. */
static const struct { u32 draft; u64 seed; } world_drafters[] = {
    { DRAFT_OFF, 0 }, { DRAFT_OFF, 1 }, { DRAFT_MTP, 0 }, { DRAFT_LOOKUP, 0 }, { DRAFT_AUTO, 0 },
    { DRAFT_OFF, 2 },
};
enum { WORLD_SETUPS = COUNT_OF(world_setups) * COUNT_OF(world_drafters) };

static const char *world_dir;       /* of the model, written by the parent                        */
static const char *world_files;     /* the cache folder of this script, the parent's              */
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

/* One answer that began below half of a longer conversation of its session: a request beside it. */
static bool beside(u32 record, u64 rows)
{
    return world.turned[record].answers == 1 && 2 * world.turned[record].start < rows &&
           record_rows(record) < rows;
}

/* What a turn with an answer left: a record, and rows of its session that may be on disk. */
static void keep_turned(const struct client *c, u64 rows)
{
    const struct turn_result *r = &c->ask.result;
    u32 record = resident_record(r->slot);
    if (r->generated == 0) return;
    for (u32 i = 0; i < SIM_CLIENTS; i++) {             /* a side request may be of its session   */
        if (world.client[i].session != c->session) continue;
        world.client[i].end = rows;
        world.client[i].ended[rows] = true;
    }
    if (record == NONE) return;
    CHECK(record < SIM_RECORDS);
    struct turned *t = &world.turned[record], was = *t;
    *t = (struct turned){ record_at(record)->number, c->session, rows, r->cached, 1 };
    if (was.number != t->number || was.session != t->session || 2 * r->cached < was.rows) return;
    t->start = was.start;
    t->answers = was.answers + 1;
}

/* Another request of the session took the place of an entry that is awaited. */
static void keep_awaited(const struct client *c)
{
    const struct turn_result *r = &c->ask.result;
    u32 record = r->slot == NONE || r->slot == resident_guest_slot() ? NONE
                                                                     : resident_record(r->slot);
    for (u32 i = 0; i < SIM_CLIENTS && record != NONE; i++) {
        struct client *o = &world.client[i];
        u64 rows = o->awaited;
        if (o == c || o->session != c->session || rows == 0) continue;
        if (r->generated > 0 ? !beside(record, rows) : record_rows(record) >= rows) o->awaited = 0;
    }
}

/* Ids the client never saw are known as such wherever the generation they stand in is. */
static void check_hidden(u32 record, const u32 *ids, u64 rows)
{
    u64 lo = 0, hi = 0;                     /* of the generation at hand; hidden: below `known` */
    for (u32 i = end_first(record_generations(record)); i != 0; i = end_next(i)) {
        const struct end_row *r = end_at(i);
        if (r->kind == END_CALL) continue;
        u64 to = r->kind == END_GENERATION ? hi : r->lo;
        for (u64 p = lo; p < MIN(to, rows); p++)
            if (ids[p] == ID_HIDDEN)
                test_failed(__FILE__, __LINE__, "record %u: row %llu was hidden and isn't known "
                            "to be", record, (ull)p);
        lo = r->kind == END_GENERATION ? r->lo : r->hi;
        if (r->kind == END_GENERATION) hi = r->hi;
    }
    for (u64 p = lo; p < MIN(hi, rows); p++) CHECK(ids[p] != ID_HIDDEN);
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
    check_hidden(record, ids, rows);
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

/* The answer's ids, drawn again from the logits of a cold run: all but what the conductor said. */
static void check_sampled(const struct client *c, const u32 *ids, u64 served, u64 rows)
{
    const struct turn_result *r = &c->ask.result;
    u64 conducted = UINT64_MAX, hidden = 0; /* index of the first hidden id; so many so far       */
    u8 work[8 * 64];
    spare_start(rows);
    spare_to(ids, served, world.logits);
    for (u64 i = 0; i < r->generated; i++) {
        bool in_rows = served + i < rows, out = r->stop_id == NONE;
        u32 id = in_rows ? ids[served + i] : out ? c->ask.out[c->ask.out_count - 1] : r->stop_id;
        hidden += id == ID_HIDDEN;
        if (!in_rows && hidden < r->hidden) break;      /* the last one was hidden too            */
        if (id == ID_HIDDEN && conducted == UINT64_MAX) conducted = i;
        struct sample_input in = { .logits = world.logits, .vocab = micro.vocab,
            .candidates = micro.vocab - 16, .ids = ids, .prompt_count = served,
            .generated_count = i };
        if (i < conducted || i >= conducted + c->ask.closing_count) {
            CHECK_EQ(sample_row(&c->ask.sampling, &in, work), id);
            world.sum.sampled++;
        }
        if (in_rows) CHECK_OK(forward_chunk(spare(), &ids[served + i], 1, world.logits));
    }
    slot_drop(spare());
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
            a->out_count == b->out_count && b->sampling.temperature <= 0 &&
            memcmp(a->ids, b->ids, a->id_count * sizeof *a->ids) == 0 &&
            memcmp(a->out, b->out, a->out_count * sizeof *a->out) == 0) return;
    }
    if (world.answered_count <= SIM_ANSWERS)
        test_failed(__FILE__, __LINE__, "an answer of the response cache was never given");
}

/* The slot of a turn that ended holds its served ids and nothing else. */
static void check_turn(struct client *c)
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
        keep_turned(c, rows);
        c->row_count = c->keep ? rows : 0;
        memcpy(c->rows, ids, rows * sizeof *ids);
        if (resident_record(r->slot) != NONE) check_hidden(resident_record(r->slot), ids, rows);
        if (r->source == SOURCE_SPILL || r->source == SOURCE_DISK)
            for (u64 i = 0; i < MIN(served, rows); i++)
                world.sum.hidden_back += ids[i] == ID_HIDDEN;
        if (forward_row_invariant()) check_slot(c, ids, rows, whole);
        else check_skewed(c, ids, rows);
        if (forward_row_invariant() && whole && c->ask.forced_count == 0 &&
            c->ask.sampling.temperature > 0)
            check_sampled(c, ids, served, rows);
    }
    space_host_fail_commit(left);
}

#endif
