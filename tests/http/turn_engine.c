/* tests/http/turn_engine.c - a resumed turn equals the cold run of its served ids: rows, sections
 * and logits by memcmp, after every way to resume, cancel and fail. */
#include "tests/micro.h"

static struct micro_ask ask, next, side;

TEST(a_cold_turn_then_the_next_forwards_only_what_is_new)
{
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 70, 1, 6);
    micro_run(&ask);
    CHECK_EQ(ask.result.finish, FINISH_LENGTH);
    CHECK_EQ(ask.result.source, SOURCE_COLD);
    CHECK_EQ(ask.result.reason, REASON_NEVER_SEEN);
    CHECK_EQ(ask.result.cached, 0);
    CHECK_EQ(ask.result.forwarded, 70);
    CHECK_EQ(ask.out_count, 6);
    micro_equals_cold(&ask);

    micro_continue(&next, &ask, 9, 2);
    micro_run(&next);
    CHECK_EQ(next.result.source, SOURCE_END);
    CHECK_EQ(next.result.cached, 75);           /* the last sampled id was never forwarded */
    CHECK_EQ(next.result.forwarded, 10);
    CHECK_EQ(next.result.reason, REASON_NONE);
    CHECK(next.result.part_pos == UINT64_MAX);
    micro_equals_cold(&next);
    micro_close();
}

TEST(the_same_prompt_again_forwards_one_token_with_one_slot_or_two)
{
    for (u32 slots = 1; slots <= 2; slots++) {
        micro_open(&(struct micro_setup){ .slot_count = slots });
        micro_prompt(&ask, 70, 3, 5);
        next = ask;
        micro_run(&ask);
        for (u32 i = 0; i < 3; i++) {
            micro_run(&next);
            CHECK_EQ(next.result.source, SOURCE_TURN);
            CHECK_EQ(next.result.cached, 69);
            CHECK_EQ(next.result.forwarded, 1);
            CHECK_EQ(next.result.reason, REASON_NONE);
            CHECK(memcmp(ask.out, next.out, sizeof ask.out[0] * 5) == 0);
            micro_equals_cold(&next);
        }
        micro_close();
    }
}

TEST(an_edit_in_the_prompt_starts_at_the_last_line_or_mark_below_it)
{
    micro_open(&(struct micro_setup){ .slot_count = 2 });
    micro_prompt(&ask, 120, 4, 4);
    ask.mark[0] = (struct turn_mark){ .pos = 17, .kind = MARK_HEAD };
    ask.mark[1] = (struct turn_mark){ .pos = 77, .kind = MARK_USER };
    ask.mark_count = 2;
    next = ask;
    micro_run(&ask);
    static const struct { u64 edit, start; enum turn_source source; } row[] = {
        { 119, 119, SOURCE_TURN }, { 118, 96, SOURCE_GRID }, { 96, 96, SOURCE_GRID },
        { 90, 77, SOURCE_TURN }, { 76, 64, SOURCE_GRID }, { 31, 17, SOURCE_TURN },
        { 17, 17, SOURCE_TURN }, { 16, 0, SOURCE_COLD },
    };
    for (u32 i = 0; i < COUNT_OF(row); i++) {
        next.ids[row[i].edit] ^= 1;
        micro_run(&next);
        CHECK_EQ(next.result.cached, row[i].start);
        CHECK_EQ(next.result.source, row[i].source);
        if (row[i].start > 0) CHECK_EQ(next.result.reason, REASON_PARTED);
        else CHECK_EQ(next.result.reason, REASON_SHORT);
        CHECK_EQ(next.result.part_pos, row[i].edit);
        micro_equals_cold(&next);
        next.ids[row[i].edit] ^= 1;
    }
    micro_close();
}

TEST(going_back_two_turns_resumes_at_the_end_before)
{
    micro_open(&(struct micro_setup){ .slot_count = 2 });
    micro_prompt(&ask, 40, 5, 6);
    micro_run(&ask);
    micro_continue(&next, &ask, 20, 6);
    micro_run(&next);
    micro_continue(&side, &ask, 25, 7);
    micro_run(&side);
    CHECK_EQ(side.result.source, SOURCE_END);
    CHECK_EQ(side.result.cached, 45);
    CHECK_EQ(side.result.reason, REASON_PARTED);
    micro_equals_cold(&side);
    micro_close();
}

TEST(two_slots_run_together_and_each_equals_its_cold_run)
{
    micro_open(&(struct micro_setup){ .slot_count = 2 });
    micro_prompt(&ask, 90, 8, 12);
    micro_prompt(&side, 61, 9, 17);
    micro_push(&ask);
    micro_push(&side);
    bool a = false, b = false;
    for (u32 i = 0; i < 500 && !(a && b); i++) {
        engine_pass();
        if (!a) a = micro_poll(&ask);
        if (!b) b = micro_poll(&side);
    }
    CHECK(a && b);
    CHECK_EQ(ask.result.finish, FINISH_LENGTH);
    CHECK_EQ(side.result.finish, FINISH_LENGTH);
    micro_equals_cold(&ask);
    micro_equals_cold(&side);
    micro_close();
}

TEST(forced_ids_are_the_answer_and_the_rows_are_real)
{
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 50, 10, 0);
    ask.forced_count = 20;
    micro_random_ids(ask.forced, 20, 11, 0);
    ask.forced[19] = micro.eos;
    micro_run(&ask);
    CHECK_EQ(ask.result.finish, FINISH_STOP);
    CHECK_EQ(ask.result.stop_id, micro.eos);
    CHECK_EQ(ask.result.generated, 20);
    CHECK_EQ(ask.out_count, 19);
    CHECK(memcmp(ask.out, ask.forced, 19 * sizeof ask.out[0]) == 0);
    micro_equals_cold(&ask);
    micro_continue(&next, &ask, 5, 12);          /* all of the answer was forwarded but its eos */
    next.ids[69] = micro.eos;
    micro_run(&next);
    CHECK_EQ(next.result.cached, 69);
    micro_equals_cold(&next);
    micro_close();
}

/* ------------------------------------------------------------------ random conversations */

enum { TALKS = 3 };
static struct micro_ask talk[TALKS];

/* One change to a conversation: again, grow, edit at a random place, cut back. */
static void change(struct micro_ask *t, u64 pick, u64 seed)
{
    u64 ways = pick % 10, room = micro.set.ctx - 40;
    if (t->id_count == 0 || t->id_count + t->out_count > room) {
        micro_prompt(t, 1 + rng_u64(seed, 1) % 130, seed, 0);
    } else if (ways < 5) {
        micro_continue(t, t, 1 + rng_u64(seed, 2) % 40, seed);
    } else if (ways < 7) {
        u64 at = rng_u64(seed, 3) % t->id_count;
        t->ids[at] = 4 + (t->ids[at] + 1) % (micro.vocab - 24);
    } else if (ways == 8) {
        t->id_count = 1 + rng_u64(seed, 4) % t->id_count;
        micro_random_ids(t->ids + t->id_count, 10, seed, 5);
        t->id_count += 10;
    }
    t->max_tokens = 1 + rng_u64(seed, 6) % 9;
    t->forced_count = 0;
    t->mark_count = (u32)(rng_u64(seed, 7) % 4);
    for (u32 i = 0; i < t->mark_count; i++)
        t->mark[i] = (struct turn_mark){ .pos = rng_u64(seed, 8 + i) % (t->id_count + 3),
                                         .kind = i == 0 ? MARK_HEAD : MARK_USER };
}

static void random_talks(const struct micro_setup *setup, u64 seed, u32 rounds, u64 *cached)
{
    micro_open(setup);
    memset(talk, 0, sizeof talk);
    for (u64 round = 0; round < rounds; round++) {
        u64 draw = rng_u64(seed, round), cancel_after = UINT64_MAX;
        u32 first = (u32)(draw % TALKS), count = 1 + (u32)(draw >> 8) % 2, left = count;
        bool done[TALKS] = { false };
        if ((draw >> 16) % 5 == 0) cancel_after = (draw >> 24) % 8;
        for (u32 i = 0; i < count; i++) {
            struct micro_ask *t = &talk[(first + i) % TALKS];
            change(t, rng_u64(seed + 1, round * 4 + i), rng_u64(seed + 2, round * 4 + i));
            micro_push(t);
        }
        for (u64 pass = 0; left > 0; pass++) {
            CHECK(pass < 3000);
            if (pass == cancel_after) submit_cancel(talk[first].submit);
            engine_pass();
            for (u32 i = 0; i < count; i++) {
                struct micro_ask *t = &talk[(first + i) % TALKS];
                if (done[i] || !micro_poll(t)) continue;
                done[i] = true;
                left--;
                *cached += t->result.cached;
                CHECK(t->result.finish == FINISH_LENGTH || t->result.finish == FINISH_STOP ||
                      t->result.finish == FINISH_CANCELLED);
                if (t->result.finish == FINISH_CANCELLED) continue;
                micro_equals_cold(t);
            }
        }
    }
    micro_close();
}

TEST(random_conversations_equal_their_cold_runs_under_any_cap_of_anchors)
{
    static const u32 caps[] = { UINT32_MAX, 1, 2, 3, 5, 9, 64 };
    u64 cached[COUNT_OF(caps)] = { 0 };
    for (u32 i = 0; i < COUNT_OF(caps); i++)
        random_talks(&(struct micro_setup){ .slot_count = 1 + i % 2, .ctx = 400,
                                            .anchors = caps[i] }, 100 + i, 20, &cached[i]);
    CHECK(cached[COUNT_OF(caps) - 1] > 0);
}

TEST(random_conversations_of_other_blocks_and_lines)
{
    u64 cached = 0;
    random_talks(&(struct micro_setup){ .slot_count = 2, .ctx = 400, .block_rows = 4,
                                        .grid_rows = 4 }, 31, 25, &cached);
    random_talks(&(struct micro_setup){ .slot_count = 2, .ctx = 400, .block_rows = 16,
                                        .grid_rows = 64, .reserve_tokens = 1 }, 32, 25, &cached);
    CHECK(cached > 0);
}

/* ------------------------------------------------------------------ faults */

/* The n-th commit from now on fails: the turn is refused or served, and whatever follows is exact.
 * Every n until none fires. */
TEST(a_failing_commit_is_a_refusal_or_a_shorter_cache_never_another_token)
{
    bool fired = true;
    for (u32 n = 1; fired; n++) {
        CHECK(n < 400);
        micro_open(&(struct micro_setup){ .slot_count = 2, .reserve_tokens = 4 });
        micro_prompt(&ask, 80, 20, 10);
        micro_run(&ask);
        micro_continue(&next, &ask, 30, 21);
        side = next;
        side.ids[60] ^= 1;
        space_host_fail_commit(n);
        micro_run(&next);
        micro_run(&side);
        fired = space_host_fail_left() == 0;
        space_host_fail_commit(0);
        if (next.result.finish == FINISH_ERROR) CHECK_EQ(next.result.error, ERR_MEMORY);
        if (side.result.finish != FINISH_ERROR) micro_equals_cold(&side);
        micro_run(&next);
        CHECK_EQ(next.result.finish, FINISH_LENGTH);
        micro_equals_cold(&next);
        micro_run(&side);
        CHECK_EQ(side.result.finish, FINISH_LENGTH);
        micro_equals_cold(&side);
        micro_close();
    }
}
