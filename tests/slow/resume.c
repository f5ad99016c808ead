/* tests/slow/resume.c - 300 random conversations, every turn held to a cold run of its served ids:
 * memcmp of logits, sections and rows.  Lengths around every line, edits at random places, cancels
 * and retries, exact repeats, forks of a session by another; one to three slots, several caps of
 * anchors, blocks and lines.  The seed is in the test. */
#include "tests/micro.h"

#include <stdio.h>

enum { CONVERSATIONS = 300, BATCH = 25, OPEN = 4, SEED = 20261 };

static struct micro_ask talk[OPEN];
static struct { u64 turns, cancelled, source[SOURCE_COUNT], cached, forwarded; } sum;

static const struct micro_setup setups[] = {
    { .slot_count = 2, .ctx = 400 },
    { .slot_count = 1, .ctx = 400, .anchors = 6 },
    { .slot_count = 3, .ctx = 400, .anchors = 20, .block_rows = 4, .grid_rows = 16 },
    { .slot_count = 2, .ctx = 400, .block_rows = 16, .grid_rows = 64, .reserve_tokens = 1 },
    { .slot_count = 2, .ctx = 400, .anchors = 3 },
    { .slot_count = 2, .ctx = 400, .anchors = UINT32_MAX },
};

static u64 draw(u64 index, u64 below)
{
    static u64 count;
    return rng_u64(SEED + index, count++) % below;
}

/* k * G - 3 .. k * G + 3, or anything. */
static u64 some_length(u64 most)
{
    u64 grid = micro.set.grid_rows;
    if (draw(1, 2) == 0) return 1 + draw(2, MIN(most, 140));
    u64 line = grid * (1 + draw(3, MAX(most / grid, 2) - 1));
    return MIN(MAX(line + draw(4, 7), 4) - 3, most);
}

static void change(struct micro_ask *t, u64 number)
{
    u64 most = micro.set.ctx - 60, way = draw(5, 10);
    if (t->id_count + t->out_count + 10 > most || t->id_count == 0) {
        micro_prompt(t, some_length(most / 2), number, 0);
    } else if (way < 4) {                               /* grows, often to a line            */
        u64 have = t->id_count + t->out_count, want = some_length(most);
        micro_continue(t, t, want > have ? want - have : 1 + draw(6, 9), number);
    } else if (way < 6) {                               /* an edit                           */
        u64 at = draw(7, t->id_count);
        t->ids[at] = 4 + (t->ids[at] + 1) % (micro.vocab - 24);
    } else if (way == 6) {                              /* another session forks it          */
        t->session += 1000;
        t->id_count = 1 + draw(8, t->id_count);
    }                                                   /* else: exactly the same again      */
    t->max_tokens = 1 + draw(9, 12);
    t->mark_count = (u32)draw(10, 4);
    for (u32 i = 0; i < t->mark_count; i++)
        t->mark[i] = (struct turn_mark){ .pos = draw(11, t->id_count + 2),
                                         .kind = i == 0 ? MARK_HEAD : MARK_USER };
}

/* Pushes some conversations at once, may cancel the first, compares what ended by itself. */
static void round_of(u32 first, u32 count, u64 number)
{
    u64 cancel_at = draw(12, 5) == 0 ? draw(13, 9) : UINT64_MAX;
    bool done[OPEN] = { false };
    u32 left = count;
    for (u32 i = 0; i < count; i++) {
        change(&talk[(first + i) % OPEN], number * OPEN + i);
        micro_push(&talk[(first + i) % OPEN]);
    }
    for (u64 pass = 0; left > 0; pass++) {
        CHECK(pass < 3000);
        if (pass == cancel_at && !done[0]) submit_cancel(talk[first].submit);
        engine_pass();
        for (u32 i = 0; i < count; i++) {
            struct micro_ask *t = &talk[(first + i) % OPEN];
            if (done[i] || !micro_poll(t)) continue;
            done[i] = true;
            left--;
            sum.turns++;
            sum.source[t->result.source]++;
            sum.cached += t->result.cached;
            sum.forwarded += t->result.forwarded;
            if (t->result.finish == FINISH_CANCELLED) {
                sum.cancelled++;
                continue;
            }
            CHECK_EQ(t->result.cached + t->result.forwarded, t->id_count);
            micro_equals_cold(t);
        }
    }
}

TEST(three_hundred_random_conversations_equal_their_cold_runs)
{
    for (u32 conversation = 0; conversation < CONVERSATIONS; conversation += BATCH) {
        micro_open(&setups[conversation / BATCH % COUNT_OF(setups)]);
        for (u32 i = 0; i < BATCH; i++) {
            memset(&talk[i % OPEN], 0, sizeof talk[0]);
            for (u32 turns = 0; turns < 5; turns++)
                round_of((i + (u32)draw(14, 2)) % OPEN, 1 + (u32)draw(15, 2), conversation + i);
        }
        micro_close();
    }
    /* files, the response cache and the store need settings that the simulator has */
    for (u32 i = SOURCE_COLD; i <= SOURCE_PARK; i++) CHECK(sum.source[i] > 20);
    CHECK(sum.turns > 5 * CONVERSATIONS && sum.cancelled > 20);
    const u64 *from = sum.source;
    fprintf(stderr, "turns %llu, cancelled %llu, cold %llu grid %llu turn %llu end %llu "
            "pin %llu park %llu, cached %llu, forwarded %llu\n", (ull)sum.turns,
            (ull)sum.cancelled, (ull)from[SOURCE_COLD], (ull)from[SOURCE_GRID],
            (ull)from[SOURCE_TURN], (ull)from[SOURCE_END], (ull)from[SOURCE_PIN],
            (ull)from[SOURCE_PARK], (ull)sum.cached, (ull)sum.forwarded);
}
