/* tests/http/turn_states.c - a turn's states: queue, cancel at each, pause, memory, drain, threads,
 * commands. */
#include "tests/micro.h"

#include "arena/base/hash.h"

#include <pthread.h>
#include <stdio.h>

static struct micro_ask ask, next, other[16];

static void passes_until(const struct micro_ask *a, enum submit_state state)
{
    for (u32 i = 0; submit_at(a->submit)->state != state; i++) {
        CHECK(i < 1000);
        engine_pass();
    }
}

/* ------------------------------------------------------------------ ends */

TEST(one_token_the_context_end_and_bad_prompts_end_as_they_should)
{
    micro_open(&(struct micro_setup){ .ctx = 64 });
    micro_prompt(&ask, 10, 1, 1);
    micro_run(&ask);
    CHECK(ask.result.finish == FINISH_LENGTH && ask.out_count == 1);
    CHECK_EQ(slot_row(0)->len, 10);
    micro_prompt(&ask, 60, 2, 0);                             /* to the context's end */
    micro_run(&ask);
    CHECK(ask.result.finish == FINISH_LENGTH && !ask.result.by_memory);
    CHECK_EQ(ask.out_count, 4);
    micro_equals_cold(&ask);
    micro_prompt(&ask, 63, 3, 100);
    micro_run(&ask);
    CHECK_EQ(ask.out_count, 1);
    micro_prompt(&ask, 64, 4, 1);
    micro_run(&ask);
    CHECK(ask.result.finish == FINISH_ERROR && ask.result.error == ERR_LIMIT);
    micro_prompt(&ask, 5, 5, 1);
    ask.ids[3] = micro.vocab;
    micro_run(&ask);
    CHECK(ask.result.finish == FINISH_ERROR && ask.result.error == ERR_LIMIT);
    CHECK(strstr(ask.result.error_text, "outside the vocabulary") != NULL);
    CHECK_EQ(ask.result.slot, NONE);
    micro_close();
}

TEST(an_eos_id_ends_a_turn_unless_it_is_ignored)
{
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 20, 6, 30);
    micro_run(&ask);
    CHECK_EQ(ask.result.finish, FINISH_LENGTH);
    micro.eos = ask.out[4];                             /* the engine reads it through */
    u64 first = 0;
    while (ask.out[first] != micro.eos) first++;
    next = ask;
    micro_run(&next);
    CHECK_EQ(next.result.finish, FINISH_STOP);
    CHECK_EQ(next.result.stop_id, micro.eos);
    CHECK_EQ(next.out_count, first);
    CHECK_EQ(next.result.generated, first + 1);
    micro_push(&next);
    submit_at(next.submit)->ignore_eos = true;
    micro_wait(&next);
    CHECK_EQ(next.out_count, 30);
    CHECK(memcmp(next.out, ask.out, 30 * sizeof ask.out[0]) == 0);
    micro_close();
}

TEST(a_stop_string_ends_the_turn_at_its_completing_id)
{
    static struct vocab vocab;
    void *memory = malloc(vocab_bytes(2048, 65536));
    micro_open(&(struct micro_setup){ 0 });
    vocab_open(&vocab, memory, micro.vocab, 65536);
    for (u32 i = 0; i < micro.vocab; i++) {
        char piece[12];
        int n = snprintf(piece, sizeof piece, "<%u>", i);
        CHECK_OK(vocab_put(&vocab, piece, (u64)n, VOCAB_TEXT));
    }
    stop_vocab(&vocab);
    micro_prompt(&ask, 30, 7, 12);
    micro_run(&ask);
    micro_push(&ask);
    struct submit_row *row = submit_at(ask.submit);     /* "5><6" over two ids */
    row->stop_count = 1;
    row->stop_bytes[0] = (u32)snprintf((char *)row->stop[0], TURN_STOP_BYTES, "%u><%u>",
                                       ask.out[6], ask.out[7]);
    u32 answer[12];
    memcpy(answer, ask.out, sizeof answer);
    micro_wait(&ask);
    CHECK(ask.result.finish == FINISH_STOP && ask.result.by_stop_string);
    CHECK(ask.out_count <= 8 && memcmp(answer, ask.out, ask.out_count * 4) == 0);
    CHECK(ask.out[ask.out_count - 1] == answer[7]);     /* the completing id was pushed */
    CHECK_EQ(ask.result.stop_id, NONE);
    micro_equals_cold(&ask);
    stop_vocab(NULL);
    free(memory);
    micro_close();
}

TEST(forced_ids_cut_as_if_the_client_had_gone)
{
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 20, 8, 0);
    ask.forced_count = 9;
    micro_random_ids(ask.forced, 9, 9, 0);
    micro_push(&ask);
    submit_at(ask.submit)->forced_cut = 4;
    micro_wait(&ask);
    CHECK_EQ(ask.result.finish, FINISH_CANCELLED);
    CHECK_EQ(ask.out_count, 4);
    micro_run(&ask);                                    /* never cut: the last one ends it */
    CHECK_EQ(ask.result.finish, FINISH_STOP);
    CHECK(ask.out_count == 9 && ask.result.stop_id == NONE);
    micro_close();
}

/* ------------------------------------------------------------------ cancel */

TEST(a_cancel_while_queued_never_touches_a_slot)
{
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 60, 10, 20);
    micro_prompt(&next, 60, 11, 20);
    micro_push(&ask);
    micro_push(&next);
    passes_until(&ask, SUBMIT_DECODE);
    CHECK_EQ(submit_at(next.submit)->state, SUBMIT_QUEUED);
    CHECK_EQ(submit_at(next.submit)->queue_place, 1);
    CHECK_EQ(submit_queued(), 1);
    submit_cancel(next.submit);
    micro_wait(&next);
    CHECK(next.result.finish == FINISH_CANCELLED && next.result.slot == NONE);
    CHECK_EQ(submit_queued(), 0);
    micro_wait(&ask);
    micro_equals_cold(&ask);
    micro_close();
}

TEST(a_cancelled_prefill_keeps_what_it_read_and_the_retry_starts_there)
{
    micro_open(&(struct micro_setup){ .ctx = 400, .slot_count = 1 });
    u64 before = 0;
    for (u32 tries = 0; tries < 8; tries++) {
        micro_prompt(&ask, 300, 12, 3);
        micro_push(&ask);
        engine_pass();
        submit_cancel(ask.submit);
        engine_pass();                                  /* one round at most */
        CHECK(micro_poll(&ask));
        CHECK_EQ(ask.result.finish, FINISH_CANCELLED);
        CHECK_EQ(ask.result.cached, before);
        CHECK_EQ(ask.result.forwarded, 32);
        before = ask.result.cached + ask.result.forwarded;
    }
    micro_run(&ask);
    CHECK_EQ(ask.result.finish, FINISH_LENGTH);
    CHECK_EQ(ask.result.cached, 256);
    micro_equals_cold(&ask);
    micro_close();
}

TEST(a_cancel_before_any_line_leaves_an_anchor_where_it_stopped)
{
    micro_open(&(struct micro_setup){ .slot_count = 2, .grid_rows = 256, .ctx = 500 });
    micro_prompt(&ask, 200, 13, 3);
    micro_push(&ask);
    engine_pass();                                      /* chunks of 64 rows, no line before 256 */
    engine_pass();
    submit_cancel(ask.submit);
    engine_pass();
    CHECK(micro_poll(&ask));
    CHECK_EQ(ask.result.forwarded, 128);
    struct tier_stats stats;
    tier_stats(&stats);
    CHECK_EQ(stats.anchors[ANCHOR_TURN], 1);
    next = ask;
    next.ids[150] ^= 1;
    micro_run(&next);
    CHECK_EQ(next.result.cached, 128);
    micro_equals_cold(&next);
    micro_close();
}

TEST(a_cancelled_answer_resumes_at_the_last_row_forwarded)
{
    micro_open(&(struct micro_setup){ .slot_count = 2 });
    micro_prompt(&ask, 50, 14, 100);
    micro_push(&ask);
    passes_until(&ask, SUBMIT_DECODE);
    for (u32 i = 0; i < 7; i++) engine_pass();
    submit_cancel(ask.submit);
    engine_pass();
    CHECK(micro_poll(&ask));
    CHECK_EQ(ask.result.finish, FINISH_CANCELLED);
    CHECK_EQ(ask.out_count, ask.result.generated);
    u64 rows = 50 + ask.out_count - 1;
    next = ask;
    memcpy(next.ids + 50, ask.out, ask.out_count * sizeof *next.ids);
    next.id_count = 50 + ask.out_count + 3;
    micro_random_ids(next.ids + 50 + ask.out_count, 3, 15, 0);
    next.max_tokens = 3;
    micro_run(&next);
    CHECK_EQ(next.result.source, SOURCE_END);
    CHECK_EQ(next.result.cached, rows);
    micro_equals_cold(&next);
    micro_close();
}

/* ------------------------------------------------------------------ queue, pause, order */

TEST(the_queue_is_bounded_and_served_in_order)
{
    micro_open(&(struct micro_setup){ .rows = 8, .queue = 3 });
    for (u32 i = 0; i < 4; i++) {                       /* one runs, three wait */
        micro_prompt(&other[i], 40, 20 + i, 3);
        micro_push(&other[i]);
    }
    u32 refused = submit_take();
    submit_at(refused)->ids = other[0].ids;
    submit_at(refused)->id_count = 4;
    CHECK_EQ(submit_push(refused), ERR_FULL);
    CHECK_EQ(submit_at(refused)->state, SUBMIT_TAKEN);
    submit_release(refused);
    u32 done[4], count = 0;
    engine_pass();
    engine_pass();                                      /* places are told at the next pass */
    for (u32 i = 1; i < 4; i++) CHECK_EQ(submit_at(other[i].submit)->queue_place, i);
    for (u32 pass = 0; count < 4; pass++) {
        CHECK(pass < 500);
        engine_pass();
        for (u32 i = 0; i < 4; i++)
            if (submit_at(other[i].submit)->state == SUBMIT_DONE && micro_poll(&other[i]))
                done[count++] = i;
    }
    for (u32 i = 0; i < 4; i++) CHECK_EQ(done[i], i);
    micro_prompt(&ask, 40, 30, 3);
    micro_run(&ask);                                    /* and the place is free again */
    micro_equals_cold(&ask);
    micro_close();
}

TEST(a_full_out_ring_pauses_the_turn_and_not_its_neighbour)
{
    micro_open(&(struct micro_setup){ .ctx = 1200, .slot_count = 2 });
    micro_prompt(&ask, 10, 31, 1100);
    micro_push(&ask);
    for (u32 i = 0; i < TURN_OUT_IDS + 50; i++) engine_pass();
    CHECK_EQ(ring_count(&submit_at(ask.submit)->out), TURN_OUT_IDS);
    CHECK_EQ(slot_row(0)->len, 10 + TURN_OUT_IDS - 1);
    CHECK(!engine_moved());                             /* it would sleep, with a deadline */
    micro_prompt(&next, 30, 32, 20);
    micro_run(&next);
    CHECK_EQ(next.out_count, 20);
    CHECK_EQ(slot_row(0)->len, 10 + TURN_OUT_IDS - 1);
    u32 id;
    for (u32 i = 0; i < 10; i++) {
        CHECK(ring_pop(&submit_at(ask.submit)->out, &id));
        ask.out[ask.out_count++] = id;
    }
    for (u32 i = 0; i < 50; i++) engine_pass();
    CHECK_EQ(slot_row(0)->len, 10 + TURN_OUT_IDS + 10 - 1);
    submit_cancel(ask.submit);
    engine_pass();
    CHECK(submit_at(ask.submit)->state == SUBMIT_DONE);
    micro_close();
}

TEST(a_short_prompt_goes_before_a_long_one_but_not_for_ever)
{
    micro_open(&(struct micro_setup){ .ctx = 1000, .slot_count = 2, .grid_rows = 32 });
    micro_prompt(&ask, 900, 33, 1);
    micro_push(&ask);
    engine_pass();
    for (u32 i = 0; i < 10; i++) {
        micro_prompt(&next, 200, 40 + i, 1);
        u64 before = slot_row(0)->len;
        micro_push(&next);
        u32 passes = 0;
        while (!micro_poll(&next)) {
            engine_pass();
            passes++;
        }
        CHECK(passes <= 12);                            /* 7 lines, n - 1, n; one in five theirs */
        CHECK(slot_row(0)->len > before);
    }
    submit_cancel(ask.submit);
    engine_pass();
    CHECK(micro_poll(&ask));
    micro_close();
}

/* ------------------------------------------------------------------ memory */

TEST(a_refused_must_is_an_error_and_leaves_the_tiers_as_they_were)
{
    micro_open(&(struct micro_setup){ .slot_count = 2, .kv_rows = 120, .ctx = 400,
                                      .store_rows = UINT64_MAX });
    micro_prompt(&ask, 60, 50, 3);
    micro_run(&ask);
    micro_prompt(&next, 300, 51, 3);                          /* could not be paid by all of it */
    micro_run(&next);
    CHECK_EQ(next.result.finish, FINISH_ERROR);
    CHECK_EQ(next.result.error, ERR_MEMORY);
    CHECK(next.result.error_text[0] != 0);
    CHECK_EQ(record_count(), 1);
    next = ask;
    micro_run(&next);
    CHECK_EQ(next.result.cached, 59);
    micro_equals_cold(&next);
    micro_close();
}

TEST(idle_conversations_give_their_rows_to_a_prompt_that_needs_them)
{
    micro_open(&(struct micro_setup){ .slot_count = 3, .kv_rows = 200, .ctx = 400,
                                      .store_rows = UINT64_MAX });
    micro_prompt(&ask, 60, 52, 3);
    micro_run(&ask);
    micro_prompt(&next, 60, 53, 3);
    micro_run(&next);
    CHECK_EQ(record_count(), 2);
    micro_prompt(&other[0], 150, 54, 3);                      /* slot 2; the oldest goes */
    micro_run(&other[0]);
    CHECK_EQ(other[0].result.finish, FINISH_LENGTH);
    CHECK_EQ(resident_record(0), NONE);
    micro_equals_cold(&other[0]);
    micro_prompt(&other[1], 180, 55, 3);
    micro_run(&other[1]);
    CHECK_EQ(other[1].result.finish, FINISH_LENGTH);
    CHECK_EQ(record_count(), 1);
    micro_equals_cold(&other[1]);
    micro_close();
}

TEST(live_rows_take_anchors_above_the_reserve_when_the_board_is_full)
{
    struct tier_stats stats;
    u64 committed = 0;
    micro_open(&(struct micro_setup){ .store_rows = UINT64_MAX, .slot_count = 2, .ctx = 500 });
    micro_prompt(&ask, 300, 58, 3);
    micro_run(&ask);
    tier_stats(&stats);
    u32 held = stats.anchors[ANCHOR_GRID];
    CHECK_EQ(held, 9);
    for (u32 i = 0; i < arena_count(); i++) committed += arena_row(i)->committed_bytes;
    CHECK_OK(budget_graph_cap(&micro.graph, budget_graph_find(&micro.graph, "board"),
                              committed + 4096));
    micro_prompt(&next, 150, 59, 3);
    micro_run(&next);
    CHECK_EQ(next.result.finish, FINISH_LENGTH);
    tier_stats(&stats);
    CHECK_OK(budget_graph_cap(&micro.graph, budget_graph_find(&micro.graph, "board"), GIB));
    micro_equals_cold(&next);                           /* commits outside of gates */
    CHECK(stats.resident.yielded > 0 && stats.anchors[ANCHOR_GRID] < held);
    micro_run(&ask);                                    /* its newest and n - 1 are still there */
    CHECK_EQ(ask.result.cached, 299);
    micro_close();
}

TEST(a_side_turn_that_cannot_grow_ends_with_length_and_slot_0_goes_on)
{
    micro_open(&(struct micro_setup){ .slot_count = 2, .kv_rows = 160, .ctx = 400,
                                      .reserve_tokens = 8 });
    micro_prompt(&ask, 40, 56, 100);
    micro_prompt(&next, 40, 57, 100);
    micro_push(&ask);
    micro_push(&next);
    micro_wait(&next);
    CHECK(next.result.slot == 1 && next.result.finish == FINISH_LENGTH && next.result.by_memory);
    CHECK(next.out_count < 100);
    micro_wait(&ask);
    CHECK(ask.result.slot == 0 && ask.result.finish == FINISH_LENGTH && !ask.result.by_memory);
    CHECK_EQ(ask.out_count, 100);
    micro_equals_cold(&ask);
    micro_close();
}

/* ------------------------------------------------------------------ commands */

TEST(commands_are_answered_between_passes)
{
    micro_open(&(struct micro_setup){ .store_rows = UINT64_MAX, .slot_count = 2 });
    micro_prompt(&ask, 40, 60, 3);
    u64 session[2];
    hash_128("chat a", 6, session);                     /* as the HTTP side does */
    micro_push(&ask);
    submit_at(ask.submit)->session[0] = session[0];
    submit_at(ask.submit)->session[1] = session[1];
    micro_wait(&ask);
    char *text = micro_command(COMMAND_STATS, "", "");
    CHECK(strstr(text, "\"cold\":1") != NULL && strstr(text, "\"ledger\":[{") != NULL);
    CHECK(strstr(text, "\"end\":1") != NULL && strstr(text, "\"slots\":[") != NULL);
    free(text);
    text = micro_command(COMMAND_LEDGER, "", "");
    CHECK(text[0] == '[' && strstr(text, "\"forwarded\":40") != NULL);
    free(text);
    text = micro_command(COMMAND_MEMORY_TREE, "", "");
    CHECK(strstr(text, "anchors") != NULL);
    free(text);
    text = micro_command(COMMAND_CLEAR, "chat b", "");
    CHECK_STR(text, "{\"records\":0,\"bytes\":{\"resident\":0,\"pin\":0,\"park\":0,\"store\":0,"
              "\"disk\":0,\"spill\":0,\"suffix\":0}}");
    free(text);
    text = micro_command(COMMAND_CLEAR, "chat a", "all");
    CHECK(strstr(text, "{\"records\":1,\"bytes\":{\"resident\":") == text);
    CHECK(strstr(text, "\"resident\":0") == NULL);
    free(text);
    CHECK_EQ(record_count(), 0);
    CHECK_EQ(arena_blocks_used(state_blocks_arena()), 0);
    CHECK(micro_command(COMMAND_CLEAR, "", "disc") == NULL);
    micro_run(&ask);
    CHECK_EQ(ask.result.source, SOURCE_COLD);
    micro_close();
}

/* ------------------------------------------------------------------ stop */

TEST(a_stop_refuses_new_turns_ends_waiting_ones_and_lets_running_ones_finish)
{
    micro_open(&(struct micro_setup){ .drain_us = 60000000 });
    micro_prompt(&ask, 40, 61, 5);
    micro_prompt(&next, 40, 62, 5);
    micro_push(&ask);
    micro_push(&next);
    passes_until(&ask, SUBMIT_DECODE);
    engine_stop();
    engine_run();                                       /* returns when all is done */
    CHECK(micro_poll(&ask) && micro_poll(&next));
    CHECK_EQ(ask.result.finish, FINISH_LENGTH);
    CHECK_EQ(next.result.finish, FINISH_ERROR);
    CHECK_EQ(next.result.error, ERR_CANCELLED);
    CHECK(submit_draining());
    u32 late = submit_take();
    CHECK_EQ(submit_push(late), ERR_CANCELLED);
    submit_release(late);
    micro_equals_cold(&ask);
    micro_close();
}

TEST(a_second_stop_or_the_end_of_the_drain_cancels_what_runs)
{
    for (u32 twice = 0; twice < 2; twice++) {
        micro_open(&(struct micro_setup){ .drain_us = twice ? 60000000 : 0 });
        micro_prompt(&ask, 40, 63, 400);
        micro_push(&ask);
        passes_until(&ask, SUBMIT_DECODE);
        engine_stop();
        if (twice) engine_stop();
        engine_run();
        CHECK(micro_poll(&ask));
        CHECK_EQ(ask.result.finish, FINISH_CANCELLED);
        micro_close();
    }
}

/* ------------------------------------------------------------------ threads */

enum { CLIENTS = 3, CLIENT_TURNS = 25 };
static struct { u64 turns, ids, full; bool bad; } client_sum[CLIENTS];

/* A client with its own wake word: pushes, pops as ids come, sometimes goes away. */
static void *client_run(void *owner)
{
    u64 which = *(u64 *)owner, seed = 1000 + which;
    static struct micro_ask asks[CLIENTS];
    struct micro_ask *a = &asks[which];
    struct ring_wake wake = { .event_fd = -1 };
    for (u64 i = 0; i < CLIENT_TURNS; i++) {
        memset(a, 0, sizeof *a);
        a->id_count = 20 + rng_u64(seed, i) % 100;
        micro_random_ids(a->ids, a->id_count, which + i / 4, 0);
        u32 submit = submit_take();
        if (submit == NONE) { client_sum[which].bad = true; break; }
        struct submit_row *row = submit_at(submit);
        row->ids = a->ids;
        row->id_count = a->id_count;
        row->max_tokens = 1 + rng_u64(seed, 100 + i) % 20;
        row->sampling = (struct sample_settings){ .top_p = 1, .repetition_penalty = 1 };
        row->forced_cut = UINT64_MAX;
        row->wake = &wake;
        row->arrival_us = clock_us();
        if (submit_push(submit) != OK) {
            client_sum[which].full++;
            submit_release(submit);
            continue;
        }
        u64 leave = rng_u64(seed, 200 + i) % 4 == 0 ? rng_u64(seed, 300 + i) % 10 : UINT64_MAX;
        for (u64 got = 0;;) {
            u32 seen = ring_word(&wake), id;
            bool done = row->state == SUBMIT_DONE;
            while (ring_pop(&row->out, &id)) got++;
            if (got >= leave) submit_cancel(submit);
            if (done) {
                client_sum[which].turns++;
                client_sum[which].ids += got;
                bool ids = row->result.finish == FINISH_CANCELLED ||
                           got + (row->result.stop_id != NONE) == row->result.generated;
                if (!ids || row->result.finish == FINISH_ERROR) client_sum[which].bad = true;
                break;
            }
            ring_wait(&wake, seen, UINT64_MAX);
        }
        submit_release(submit);
    }
    return NULL;
}

static void *stop_when_done(void *clients)
{
    for (u32 i = 0; i < CLIENTS; i++) pthread_join(((pthread_t *)clients)[i], NULL);
    engine_stop();
    return NULL;
}

TEST(clients_on_their_own_threads_get_their_answers_and_the_engine_sleeps_between)
{
    static u64 which[CLIENTS] = { 0, 1, 2 };
    pthread_t clients[CLIENTS], closer;
    micro_open(&(struct micro_setup){ .slot_count = 2, .drain_us = 1000000 });
    memset(client_sum, 0, sizeof client_sum);
    for (u32 i = 0; i < CLIENTS; i++)
        CHECK(pthread_create(&clients[i], NULL, client_run, &which[i]) == 0);
    CHECK(pthread_create(&closer, NULL, stop_when_done, clients) == 0);
    engine_run();
    pthread_join(closer, NULL);
    for (u32 i = 0; i < CLIENTS; i++) {
        CHECK(!client_sum[i].bad);
        CHECK_EQ(client_sum[i].turns + client_sum[i].full, CLIENT_TURNS);
        CHECK(client_sum[i].ids > 0);
    }
    CHECK_EQ(ledger_count(), client_sum[0].turns + client_sum[1].turns + client_sum[2].turns);
    micro_close();
}
