/* tests/http/nvme_draft.c - the draft head's views and last hidden row through the NVMe tiers.
 *
 * They are views and sections like others: what a restart gives back equals the cold run by memcmp,
 * and a conversation that goes on from files drafts what it would have drafted. */
#include "model/draft.h"
#include "tests/micromodel.h"
#include "tests/restarts.h"

enum { K = 3, NEW = 64 };

static const struct micro_setup with_head = { .slot_count = 2, .ctx = 640 };
static const struct micro_setup drafting = { .slot_count = 2, .ctx = 640, .draft = DRAFT_MTP,
                                             .draft_max = K };

static void head_up(const struct micro_setup *with)
{
    struct micro_setup s = *with;
    s.dir = micromodel_draft_dir();
    first_up(&s);
    CHECK(draft_present());
}

/* One round for every entry: what was drafted and how much of it came true. */
struct round { u32 drafts[K], accepted; };

static u32 best_of(const f32 *row)
{
    u32 best = 0;
    for (u32 i = 1; i < micro.vocab - 16; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

/* NEW greedy tokens behind what stands in the slot, in rounds of K drafts: row by row, so that a
 * cut is where the walk stops.  The tokens do not depend on the drafts; the rounds do. */
static u32 go_on(u32 slot, u32 token, struct round *round)
{
    u32 count = 0, made = 0, rounds = 0;
    f32 *logits = malloc(micro.vocab * sizeof *logits);
    CHECK_OK(slot_grow(slot, slot_row(slot)->len + NEW + K + 1));
    for (; made < NEW; rounds++) {
        struct round *r = &round[rounds];
        *r = (struct round){ .accepted = 0 };
        CHECK_OK(draft_propose(slot, token, K, r->drafts, &count));
        CHECK_EQ(count, K);
        for (bool same = true; same; made++) {
            CHECK_OK(forward_chunk(slot, &token, 1, logits));
            token = best_of(logits);
            same = r->accepted < K && r->drafts[r->accepted] == token;
            r->accepted += same;
        }
    }
    free(logits);
    return rounds;
}

/* Two turns, a stop between them or not; then rounds behind the second. */
static u32 two_turns(u64 seed, bool stopped, bool forget, struct round *round)
{
    memset(round, 0, NEW * sizeof *round);
    head_up(&with_head);
    micro_prompt(&ask, 6 * G + 5, seed, 9);
    micro_run(&ask);
    if (stopped) restart();
    micro_continue(&again, &ask, 7, 4);
    again.max_tokens = 1;
    micro_run(&again);
    CHECK_EQ(again.result.source, stopped ? SOURCE_SPILL : SOURCE_END);
    CHECK_EQ(again.result.cached, ask.id_count + ask.result.generated - 1);
    micro_equals_cold(&again);
    u32 slot = again.result.slot;
    if (forget) {                       /* the fault of the case: the row is left out         */
        const struct state_section *s =
            &state_shape()->section[state_shape()->section_count - 1];
        CHECK_STR(s->name, "mtp.h_last");
        memset(arena_slots_addr(state_sections_arena(), slot_row(slot)->unit) + s->offset_bytes, 0,
               s->bytes);
    }
    u32 rounds = go_on(slot, again.out[0], round);
    slot_drop(slot);
    last_down();
    return rounds;
}

TEST(K12_after_a_restart_the_acceptance_sequence_is_that_of_an_unrestarted_run)
{
    static struct round never[NEW], after[NEW], forgot[NEW];
    u32 all = 0, accepted = 0, told = 0;
    for (u64 seed = 3; seed < 8; seed++) {
        u32 rounds = two_turns(seed, false, false, never);
        CHECK_EQ(two_turns(seed, true, false, after), rounds);
        CHECK(memcmp(never, after, sizeof never) == 0);
        two_turns(seed, true, true, forgot);
        told += memcmp(never, forgot, sizeof never) != 0;
        for (u32 i = 0; i < rounds; i++) accepted += never[i].accepted;
        all += rounds;
    }
    printf("%u rounds, %u of %u drafts accepted, %u times the row was missed\n", all, accepted,
           all * K, told);
    CHECK(accepted > 0 && accepted < all * K && told > 0);
}

/* Proposals of the last turn, oldest first. */
static u32 proposals(struct drafters_row *out)
{
    u32 count = 0;
    u64 turn = drafters_row(0) != NULL ? drafters_row(0)->turn : 0;
    while (drafters_row(count) != NULL && drafters_row(count)->turn == turn) count++;
    CHECK(count <= NEW);
    for (u32 i = 0; i < count; i++) out[i] = *drafters_row(count - 1 - i);
    for (u32 i = 0; i < count; i++) out[i].turn = 0;
    return count;
}

/* The same with the engine's own rounds: a drafted turn, a stop or none, 64 ids with drafts. */
TEST(K12_a_conversation_that_drafts_goes_on_with_the_same_rounds_after_a_restart)
{
    static struct drafters_row kept[2][NEW];
    static u32 out[NEW];
    u32 count[2], accepted = 0;
    for (u32 stopped = 0; stopped < 2; stopped++) {
        head_up(&drafting);
        micro_prompt(&ask, 6 * G + 5, 12, 21);
        micro_run(&ask);
        micro_equals_cold(&ask);
        if (stopped) restart();
        micro_continue(&again, &ask, 7, 4);
        again.max_tokens = NEW;
        micro_run(&again);
        CHECK_EQ(again.result.source, stopped ? SOURCE_SPILL : SOURCE_END);
        CHECK_EQ(again.result.cached, ask.id_count + ask.result.generated - 1);
        micro_equals_cold(&again);
        CHECK_EQ(again.out_count, NEW);
        count[stopped] = proposals(kept[stopped]);
        if (stopped) CHECK(memcmp(out, again.out, sizeof out) == 0);
        memcpy(out, again.out, sizeof out);
        last_down();
    }
    CHECK_EQ(count[0], count[1]);
    CHECK(memcmp(kept[0], kept[1], count[0] * sizeof *kept[0]) == 0);
    for (u32 i = 0; i < count[0]; i++) accepted += kept[0][i].accepted;
    printf("%u rounds, %u drafts accepted\n", count[0], accepted);
    CHECK(count[0] > 4 && accepted > 0);
}

/* Views and sections are in the fingerprint: with another list these files are another model's. */
TEST(a_model_without_its_head_does_not_read_the_files_of_the_one_with_it)
{
    head_up(&with_head);
    micro_prompt(&ask, 4 * G, 9, 4);
    micro_run(&ask);
    stop();
    setup.no_draft = true;
    up(folder);
    CHECK(!draft_present());
    again = ask;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_COLD);
    CHECK_EQ(pieces_counts().found_at_start, 0);
    micro_equals_cold(&again);
    CHECK(again.out_count == ask.out_count);
    CHECK(memcmp(again.out, ask.out, ask.out_count * sizeof *ask.out) == 0);
    stop();
    setup.no_draft = false;
    up(folder);
    again = ask;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    micro_equals_cold(&again);
    last_down();
}

/* Ten conversations over two slots: park, pin, store and disk carry the head's rows unknowing. */
TEST(conversations_with_a_head_come_back_from_every_tier)
{
    static struct micro_ask asks[10];
    head_up(&(struct micro_setup){ .slot_count = 2, .ctx = 640, .park_rows = 1024 });
    for (u32 i = 0; i < 10; i++) {
        micro_prompt(&asks[i], (3 + i) * G + 3, 20 + i, 5);
        micro_run(&asks[i]);
        micro_equals_cold(&asks[i]);
    }
    for (u32 round = 0; round < 2; round++) {
        restart();
        for (u32 i = 0; i < 10; i++) {
            u32 who = (i * 7 + round) % 10;
            micro_continue(&asks[who], &asks[who], 3, 50 + i);
            micro_run(&asks[who]);
            CHECK(asks[who].result.cached > 0 && asks[who].result.source != SOURCE_COLD);
            micro_equals_cold(&asks[who]);
        }
    }
    last_down();
}
