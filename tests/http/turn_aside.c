/* tests/http/turn_aside.c - what stands aside, over the real passes: two conversations in turn, a
 * guest between turns, abandoned tails, caps; every turn held to its cold run. */
#include "tests/micro.h"

static struct micro_ask a, b, g;

static struct tier_stats stats(void)
{
    struct tier_stats s;
    tier_stats(&s);
    return s;
}

/* Every holder of every block and unit is a reference that the walk finds. */
static void check_all(void)
{
    engine_pass();
    tier_check(slot_count(), NULL, 0);
    budget_graph_verify(&micro.graph);
}

TEST(a_b_a_comes_back_from_the_park_and_copies_no_row)
{
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&a, 150, 1, 6);
    micro_run(&a);
    micro_prompt(&b, 140, 2, 6);
    for (u32 round = 0; round < 4; round++) {
        u64 copied = slot_copied_bytes(), rows = a.id_count + a.result.generated - 1;
        if (round == 0) {
            micro_run(&b);
            CHECK_EQ(b.result.source, SOURCE_COLD);
        } else {
            u64 before = b.id_count + b.result.generated - 1;
            micro_continue(&b, &b, 7, 30 + round);
            micro_run(&b);
            CHECK_EQ(b.result.source, SOURCE_PARK);
            CHECK_EQ(b.result.cached, before);
            CHECK_EQ(b.result.forwarded, b.id_count - before);
        }
        micro_equals_cold(&b);
        check_all();
        micro_continue(&a, &a, 5, 20 + round);
        micro_run(&a);
        CHECK_EQ(a.result.source, SOURCE_PARK);
        CHECK_EQ(a.result.cached, rows);
        CHECK_EQ(a.result.forwarded, a.id_count - rows);
        CHECK_EQ(slot_copied_bytes(), copied);
        micro_equals_cold(&a);
        check_all();
    }
    CHECK_EQ(stats().turns[TIER_PARK], 7);
    micro_close();
}

TEST(a_new_conversation_with_the_same_head_starts_from_the_pin_or_the_park)
{
    micro_open(&(struct micro_setup){ .store_rows = UINT64_MAX });
    micro_prompt(&a, 150, 3, 6);
    a.mark[a.mark_count++] = (struct turn_mark){ .pos = 70, .kind = MARK_HEAD };
    micro_run(&a);
    micro_prompt(&b, 200, 4, 6);                        /* shares nothing: A is displaced     */
    micro_run(&b);
    g = a;                                              /* the head, then something else      */
    g.session = 5;
    micro_random_ids(g.ids + 70, 90, 77, 0);
    g.id_count = 160;
    micro_run(&g);
    CHECK_EQ(g.result.source, SOURCE_PIN);
    CHECK_EQ(g.result.cached, 70);
    micro_equals_cold(&g);
    check_all();
    micro_close();
}

TEST(a_guest_between_turns_changes_nothing)
{
    micro_open(&(struct micro_setup){ .guest = true });
    micro_prompt(&a, 200, 6, 6);
    micro_run(&a);
    for (u32 round = 0; round < 3; round++) {
        u64 rows = a.id_count + a.result.generated - 1;
        micro_prompt(&g, 30, 600 + round, 8);
        micro_run(&g);
        CHECK(g.result.guest && g.result.slot == 1);
        CHECK_EQ(g.result.finish, FINISH_LENGTH);
        CHECK_EQ(record_rows(resident_record(0)), rows);
        check_all();
        micro_continue(&a, &a, 5, 60 + round);
        micro_run(&a);
        CHECK_EQ(a.result.source, SOURCE_END);
        CHECK_EQ(a.result.cached, rows);
        micro_equals_cold(&a);
    }
    CHECK_EQ(stats().guests, 3);
    u64 rows = g.id_count + g.result.generated - 1;     /* the guest's chat goes on            */
    micro_continue(&g, &g, 4, 65);
    micro_run(&g);
    CHECK_EQ(g.result.source, SOURCE_STORE);
    CHECK_EQ(g.result.cached, rows);
    check_all();
    micro_close();
}

TEST(a_guest_gives_the_tokens_of_a_run_alone)
{
    static u32 alone[16];
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&g, 40, 7, 12);
    micro_run(&g);
    memcpy(alone, g.out, sizeof alone[0] * g.out_count);
    micro_close();
    micro_open(&(struct micro_setup){ .guest = true });
    micro_prompt(&a, 220, 8, 60);
    micro_push(&a);
    for (u32 i = 0; i < 12; i++) engine_pass();         /* A decodes                          */
    micro_prompt(&g, 40, 7, 12);
    micro_run(&g);
    CHECK(g.result.guest);
    CHECK(memcmp(alone, g.out, sizeof alone[0] * g.out_count) == 0);
    micro_wait(&a);
    micro_equals_cold(&a);
    check_all();
    micro_close();
}

TEST(what_is_no_guest_displaces_and_so_does_one_that_the_stash_refuses)
{
    static const struct { u64 count; struct micro_setup set; } row[] = {
        { 60, { .guest = true } },                              /* over a quarter of 206      */
        { 30, { .guest = true, .guest_max = 29 } },             /* too long                   */
        { 30, { .guest = true, .guest_fraction = 0.1 } },
        { 30, { .guest = true, .stash_rows = UINT64_MAX } },    /* a cap of nothing           */
    };
    for (u32 i = 0; i < COUNT_OF(row); i++) {
        micro_open(&row[i].set);
        micro_prompt(&a, 200, 9, 6);
        micro_run(&a);
        u64 rows = a.id_count + a.result.generated - 1;
        micro_prompt(&g, row[i].count, 10, 4);
        micro_run(&g);
        CHECK(!g.result.guest && g.result.slot == 0);
        micro_equals_cold(&g);
        micro_continue(&a, &a, 5, 11);
        micro_run(&a);
        CHECK_EQ(a.result.source, SOURCE_PARK);
        CHECK_EQ(a.result.cached, rows);
        micro_equals_cold(&a);
        check_all();
        micro_close();
    }
}

TEST(k_sessions_beyond_the_parks_cap_the_least_valuable_go)
{
    static struct micro_ask talk[6];
    micro_open(&(struct micro_setup){ .park_rows = 330, .pin_rows = UINT64_MAX,
                                      .store_rows = UINT64_MAX, .records = 40 });
    for (u32 i = 0; i < 6; i++) {
        micro_prompt(&talk[i], 100, 100 + i, 4);
        micro_run(&talk[i]);
        check_all();
    }
    CHECK(stats().aside.dropped[HOLD_PARK] > 0);
    CHECK(aside_used(HOLD_PARK) <= aside_cap(HOLD_PARK));
    micro_continue(&talk[4], &talk[4], 5, 1);           /* the newest parked is there         */
    micro_run(&talk[4]);
    CHECK_EQ(talk[4].result.source, SOURCE_PARK);
    micro_equals_cold(&talk[4]);
    micro_continue(&talk[0], &talk[0], 5, 1);           /* the oldest is not                  */
    micro_run(&talk[0]);
    CHECK_EQ(talk[0].result.source, SOURCE_COLD);
    micro_equals_cold(&talk[0]);
    check_all();
    micro_close();
}

TEST(caps_of_nothing_keep_nothing_and_serve_all_the_same)
{
    micro_open(&(struct micro_setup){ .park_rows = UINT64_MAX, .pin_rows = UINT64_MAX,
                                      .store_rows = UINT64_MAX, .anchors = UINT32_MAX });
    for (u32 round = 0; round < 6; round++) {
        micro_prompt(&a, 90, 12 + round % 2, 5);
        micro_run(&a);
        CHECK_EQ(a.result.finish, FINISH_LENGTH);
        micro_equals_cold(&a);
        for (u32 c = HOLD_ANCHOR; c < HOLD_COUNT; c++) CHECK_EQ(aside_used((enum holder)c), 0);
        CHECK_EQ(record_count(), 1);
        check_all();
    }
    micro_close();
}

TEST(an_abandoned_tail_stays_one_a_session)
{
    micro_open(&(struct micro_setup){ .pin_rows = UINT64_MAX, .store_rows = UINT64_MAX });
    micro_prompt(&a, 100, 14, 5);
    micro_run(&a);
    micro_continue(&a, &a, 60, 15);                     /* a second turn of more than a line  */
    micro_run(&a);
    for (u32 round = 0; round < 3; round++) {
        b = a;                                          /* the second message is edited       */
        b.ids[110 + round] ^= 1;
        micro_run(&b);
        CHECK_EQ(b.result.source, SOURCE_END);
        micro_equals_cold(&b);
        u32 tails = 0;
        for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) tails += record_at(r)->tail;
        CHECK_EQ(tails, 1);
        check_all();
    }
    u64 rows = b.id_count + b.result.generated - 1;
    b.id_count = 110;                                   /* back to where the turns parted     */
    micro_random_ids(b.ids + 110, 20, 16, 0);
    b.id_count = 130;
    micro_run(&b);
    micro_equals_cold(&b);
    CHECK(rows > 150);
    check_all();
    micro_close();
}

TEST(a_clear_by_session_reaches_what_stands_aside)
{
    u64 one[2] = { 17, 17 };
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&a, 100, 17, 5);
    micro_run(&a);
    micro_prompt(&b, 100, 18, 5);
    micro_run(&b);
    CHECK(tier_clear_of(TIER_CLEAR_PARK, one) == 1 && tier_clear_of(TIER_CLEAR_PARK, one) == 0);
    CHECK(tier_clear(one) >= 1);
    check_all();
    micro_continue(&a, &a, 5, 1);
    micro_run(&a);
    CHECK_EQ(a.result.source, SOURCE_COLD);
    CHECK(tier_clear(NULL) > 0);
    CHECK_EQ(record_count(), 0);
    check_all();
    micro_close();
}

TEST(random_caps_each_turn_cost_rows_and_never_a_token)
{
    static struct micro_ask talk[4];
    static const char *const names[] = { "anchors", "stash", "pin", "park", "store", "caches" };
    for (u64 seed = 0; seed < 3; seed++) {
        micro_open(&(struct micro_setup){ .guest = true, .slot_count = 1 + (u32)(seed % 2) });
        for (u32 i = 0; i < 4; i++) micro_prompt(&talk[i], i == 3 ? 20 : 60 + 20 * i, 40 + i, 4);
        u32 slots = micro.set.slot_count;
        for (u64 round = 0; round < 40; round++) {
            struct micro_ask *t = &talk[rng_u64(seed, 3 * round) % 4];
            u32 node = budget_graph_find(&micro.graph, names[rng_u64(seed, 3 * round + 1) % 6]);
            u64 pick = rng_u64(seed, 3 * round + 2) % 4;
            u64 cap = pick == 0 ? 0 : pick == 1 ? 20000 : pick << 18;
            if (budget_graph_cap(&micro.graph, node, cap) != OK) continue;  /* under reserves */
            if (t->id_count > 300) micro_prompt(t, 50, 80 + round, 4);
            micro_run(t);
            CHECK_EQ(t->result.finish, FINISH_LENGTH);
            if (t->result.slot + 1 < slots) micro_equals_cold(t);
            engine_pass();
            tier_check(slot_count(), NULL, 0);
            micro_continue(t, t, 6, round);
        }
        micro_close();
    }
}

TEST(a_main_request_overtakes_a_decoding_guest_once)
{
    static u32 alone[64];
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&g, 40, 19, 40);
    micro_run(&g);
    memcpy(alone, g.out, sizeof alone[0] * g.out_count);
    micro_close();
    micro_open(&(struct micro_setup){ .guest = true });
    micro_prompt(&a, 300, 20, 4);
    micro_run(&a);
    micro_prompt(&g, 40, 19, 40);
    micro_push(&g);
    for (u32 i = 0; i < 8; i++) engine_pass();          /* the guest decodes                  */
    for (u32 round = 0; round < 2; round++) {
        micro_prompt(&b, 300, 21 + round, 2);
        micro_push(&b);
        engine_pass();
        u64 out = slot_row(1)->len;
        while (submit_at(b.submit)->state == SUBMIT_PREFILL) engine_pass();
        if (round == 0) CHECK(slot_row(1)->len <= out + 1);     /* it stood still             */
        else CHECK(slot_row(1)->len > out + 1);                 /* but only once              */
        micro_wait(&b);
        micro_equals_cold(&b);
    }
    micro_wait(&g);
    CHECK(g.result.guest && g.out_count == 40);
    CHECK(memcmp(alone, g.out, sizeof alone[0] * g.out_count) == 0);
    check_all();
    micro_close();
}

TEST(four_streams_are_four_runs_alone)
{
    static struct micro_ask alone[4], together[4];
    bool done[4] = { false };
    micro_open(&(struct micro_setup){ 0 });
    for (u32 i = 0; i < 4; i++) {
        micro_prompt(&alone[i], 60 + 31 * i, 50 + i, 30 + 5 * i);
        micro_run(&alone[i]);
    }
    micro_close();
    micro_open(&(struct micro_setup){ .slot_count = 4 });
    for (u32 i = 0; i < 4; i++) {
        micro_prompt(&together[i], 60 + 31 * i, 50 + i, 30 + 5 * i);
        micro_push(&together[i]);
    }
    for (u32 pass = 0; !(done[0] && done[1] && done[2] && done[3]); pass++) {
        CHECK(pass < 2000);
        engine_pass();
        for (u32 i = 0; i < 4; i++) done[i] = done[i] || micro_poll(&together[i]);
    }
    for (u32 i = 0; i < 4; i++) {
        CHECK_EQ(together[i].out_count, alone[i].out_count);
        CHECK(memcmp(together[i].out, alone[i].out, alone[i].out_count * sizeof alone[i].out[0]) ==
              0);
        micro_equals_cold(&together[i]);
    }
    check_all();
    micro_close();
}

/* A slot that decodes gets a row in every pass while another one's prompt is read. */
TEST(a_decoding_slot_waits_for_one_short_chunk_at_most)
{
    micro_open(&(struct micro_setup){ .slot_count = 2, .ctx = 1024 });
    micro_prompt(&a, 40, 60, 100);
    micro_push(&a);
    for (u32 i = 0; i < 4; i++) engine_pass();
    micro_prompt(&b, 700, 61, 4);
    micro_push(&b);
    while (submit_at(b.submit)->state != SUBMIT_DECODE) {
        u64 rows = slot_row(0)->len, read = slot_row(1)->len;
        engine_pass();
        CHECK(slot_row(0)->len == rows + 1 && slot_row(1)->len <= read + PASS_SHORT_ROWS);
    }
    micro_wait(&b);
    micro_wait(&a);
    micro_equals_cold(&a);
    micro_equals_cold(&b);
    micro_close();
}

TEST(an_equal_greedy_request_is_answered_without_a_slot)
{
    micro_open(&(struct micro_setup){ .response_bytes = 64 * KIB });
    micro_prompt(&a, 100, 70, 12);
    micro_run(&a);
    b = a;
    u64 forwarded = a.result.forwarded;
    CHECK(forwarded == 100);
    micro_run(&b);
    CHECK_EQ(b.result.source, SOURCE_RESPONSE);
    CHECK(b.result.slot == NONE && b.result.forwarded == 0 && b.result.cached == 100);
    CHECK(b.result.finish == a.result.finish && b.result.generated == a.result.generated);
    CHECK(b.out_count == a.out_count && memcmp(a.out, b.out, a.out_count * sizeof a.out[0]) == 0);
    b.max_tokens = 11;                                  /* another question                   */
    micro_run(&b);
    CHECK_EQ(b.result.source, SOURCE_TURN);
    CHECK_EQ(b.result.cached, 99);
    micro_equals_cold(&b);
    CHECK_EQ(stats().turns[TIER_RESPONSE], 1);
    check_all();
    micro_close();
}
