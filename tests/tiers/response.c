/* tests/tiers/response.c - the response cache: equal questions, entries the gate pays for. */
#include "tests/test.h"

#include "arena/base/rng.h"
#include "budget/gate.h"
#include "budget/measure.h"
#include "tiers/response.h"

#include <string.h>

enum { HOUR_S = 3600, PAGE = 4096 };

static u32 ids[4096], answer_ids[4096], fields[4];
static struct budget_graph g;
static u64 now_us;

static void open_cache(u64 cap_bytes)
{
    struct profile_row profile;
    profile_defaults(&profile);
    profile.board_bytes = 1 * GIB;
    profile.board_floor_bytes = 0;
    space_host_granule(PAGE);
    budget_measure_fix(64 * GIB, 64 * GIB);
    CHECK_OK(budget_graph_board(&g, &profile));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "tables", .parent = "fixed", .node_class = CLASS_FIXED, .used = USED_ARENA,
        .arena = "tables", .cap_bytes = UINT64_MAX }, NULL));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "kv", .parent = "live", .node_class = CLASS_LIVE, .used = USED_COUNT,
        .cap_bytes = UINT64_MAX }, NULL));
    CHECK_OK(response_declare(&g, cap_bytes));
    CHECK_OK(arena_open((struct arena_decl[]){
        { .name = "tables", .kind = ARENA_TABLE, .cap_bytes = response_table_bytes(cap_bytes) },
        { .name = "responses", .kind = ARENA_EXTENTS,
          .cap_bytes = response_arena_bytes(cap_bytes) } }, 2));
    CHECK_OK(budget_graph_check(&g));
    CHECK_OK(response_open(&g, arena_find("tables"), cap_bytes, HOUR_S * 1000000ull));
}

static void close_cache(void)
{
    budget_graph_verify(&g);
    response_close();
    arena_close();
    space_host_granule(0);
}

static struct response_ask ask_of(u64 seed, u64 count)
{
    for (u64 i = 0; i < count; i++) ids[i] = (u32)rng_u64(seed, i);
    fields[0] = (u32)seed;
    return (struct response_ask){ .ids = ids, .id_count = count, .fields = fields,
                                  .field_count = 1 };
}

struct kept { struct response_ask ask; struct response_answer answer; };

static enum err commit(void *owner, u64 bytes)
{
    const struct kept *k = owner;
    CHECK(bytes > 0);
    return response_save(&k->ask, &k->answer, now_us);
}

/* Through the gate, over what may be taken; true when it was kept. */
static bool save(u64 seed, u64 count, u64 answers)
{
    static struct budget_record records[BUDGET_RECORD_CAP];
    static struct budget_plan plan;
    struct budget_want want;
    struct kept k = { .ask = ask_of(seed, count), .answer = {
        .ids = answer_ids, .id_count = answers, .finish = 1, .stop_id = (u32)seed } };
    for (u64 i = 0; i < answers; i++) answer_ids[i] = (u32)rng_u64(seed + 1000000, i);
    now_us += 1000000;
    if (!response_want(&k.ask, answers, &want)) return false;
    want.commit = commit;
    want.owner = &k;
    CHECK_OK(budget_gate(&g, &(struct budget_ask){
        .kind = GATE_KEEP, .wants = &want, .want_count = 1, .records = records,
        .record_count = response_victims(records, COUNT_OF(records), now_us) }, &plan));
    budget_graph_verify(&g);
    if (plan.grant[0].bytes == 0) response_refused();
    return plan.grant[0].bytes > 0;
}

static bool holds(u64 seed, u64 count, u64 answers)
{
    struct response_ask ask = ask_of(seed, count);
    struct response_answer got;
    u32 entry = response_find(&ask, &got, now_us);
    if (entry == NONE) return false;
    CHECK(got.id_count == answers && got.finish == 1 && got.stop_id == (u32)seed);
    for (u64 i = 0; i < answers; i++) CHECK_EQ(got.ids[i], (u32)rng_u64(seed + 1000000, i));
    response_drop(entry);
    return true;
}

TEST(an_equal_question_has_its_answer_and_any_other_has_none)
{
    open_cache(64 * KIB);
    CHECK(save(1, 100, 40));
    CHECK(holds(1, 100, 40));
    CHECK(!holds(1, 99, 40) && !holds(2, 100, 40));
    struct response_ask ask = ask_of(1, 100);
    struct response_answer got;
    fields[0] ^= 1;                                     /* another field                      */
    CHECK_EQ(response_find(&ask, &got, now_us), NONE);
    fields[0] ^= 1;
    ids[50] ^= 1;
    CHECK_EQ(response_find(&ask, &got, now_us), NONE);
    CHECK(!save(1, 100, 40));                           /* once is enough                     */
    CHECK(response_counts().kept == 1 && response_counts().entries == 1);
    CHECK_EQ(response_clear(), 1);
    CHECK(!holds(1, 100, 40) && arena_row(arena_find("responses"))->used_bytes == 0);
    close_cache();
}

TEST(the_least_valuable_give_way_within_the_cap_and_one_that_is_replayed_stays)
{
    open_cache(16 * PAGE);                              /* entries of one page                */
    u32 node = budget_graph_find(&g, "response");
    for (u64 i = 0; i < 200; i++) {
        CHECK(save(i, 60 + i, 40));                     /* each is worth more than the last   */
        CHECK(g.node[node].used_bytes <= 16 * PAGE);
        if (i >= 16) CHECK(!holds(i - 16, 60 + i - 16, 40));
    }
    CHECK(response_counts().entries == 16 && response_counts().yielded == 184);
    CHECK(!save(1000, 1, 1) && response_counts().refused > 0);      /* worth less than all    */
    struct response_ask ask = ask_of(190, 250);
    struct response_answer got;
    u32 entry = response_find(&ask, &got, now_us);
    CHECK(entry != NONE);
    for (u64 i = 300; i < 400; i++) CHECK(save(i, 500 + i, 40));
    for (u64 i = 0; i < 40; i++) CHECK_EQ(got.ids[i], (u32)rng_u64(1000190, i));
    response_drop(entry);
    for (u64 i = 400; i < 440; i++) CHECK(save(i, 500 + i, 40));
    CHECK(!holds(190, 250, 40) && holds(439, 939, 40));
    close_cache();
}

TEST(live_rows_take_answers_and_a_lowered_cap_does)
{
    static struct budget_record records[BUDGET_RECORD_CAP];
    static struct budget_plan plan;
    open_cache(16 * PAGE);
    u32 node = budget_graph_find(&g, "response");
    for (u64 i = 0; i < 16; i++) CHECK(save(i, 60 + i, 40));
    CHECK_OK(budget_gate_set(&g, node, 4 * PAGE, &(struct budget_ask){
        .records = records,
        .record_count = response_victims(records, COUNT_OF(records), now_us) }, &plan));
    CHECK(response_counts().entries == 4 && holds(15, 75, 40) && !holds(3, 63, 40));
    budget_graph_refresh(&g);
    u64 root = 0;
    while (g.node[root].parent != NONE || g.node[root].pool != POOL_BOARD) root++;
    CHECK_OK(budget_graph_cap(&g, (u32)root, g.node[root].used_bytes));
    struct budget_want must = { .node = budget_graph_find(&g, "kv"), .arena = NONE, .must = true,
                                .min_bytes = 2 * PAGE, .max_bytes = 2 * PAGE, .unit_bytes = 1 };
    CHECK_OK(budget_gate(&g, &(struct budget_ask){
        .wants = &must, .want_count = 1, .records = records,
        .record_count = response_victims(records, COUNT_OF(records), now_us) }, &plan));
    CHECK(plan.victim_count == 2 && response_counts().entries == 2);
    close_cache();
}

TEST(off_it_holds_nothing_and_one_over_a_quarter_is_refused)
{
    CHECK_OK(response_open(&g, NONE, 0, 1));
    CHECK(!response_on());
    struct response_ask ask = ask_of(1, 100);
    struct budget_want want;
    CHECK(!response_want(&ask, 40, &want) && !holds(1, 100, 40));
    CHECK(response_arena_bytes(0) == 0 && response_table_bytes(0) == 0);
    open_cache(16 * PAGE);
    CHECK(!save(1, 4000, 200) && response_counts().refused == 1);       /* 17 KiB             */
    CHECK(save(2, 3900, 100));
    close_cache();
}
