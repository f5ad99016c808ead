/* tests/http/turn_engine.c - engine passes over the embedded model, held to the cold run. */
#include "tests/micro.h"
#include "tests/cold.h"

static struct micro_ask ask, next;

/* What stands in the slot of the last turn equals a cold run: prompt and forwarded answer, and the
 * logits its last id was sampled from. */
static void equals_cold(const struct micro_ask *a, u32 slot)
{
    u32 ids[2 * MICRO_IDS];
    u64 count = a->id_count + (a->out_count > 0 ? a->out_count - 1 : 0);
    if (a->result.stop_id != NONE) count = a->id_count + a->out_count;
    memcpy(ids, a->ids, a->id_count * sizeof *ids);
    memcpy(ids + a->id_count, a->out, a->out_count * sizeof *ids);
    cold_compare(micro.set.slot_count, slot, ids, count, micro.logits + (u64)slot * micro.vocab);
}

static u32 slot_of_last(void) { return ledger_row(0)->slot; }

/* The next prompt: the last one, its answer and `more` new ids. */
static void continue_talk(struct micro_ask *to, const struct micro_ask *from, u64 more, u64 seed)
{
    u64 count = from->id_count;
    memmove(to->ids, from->ids, count * sizeof *to->ids);
    memmove(to->ids + count, from->out, from->out_count * sizeof *to->ids);
    count += from->out_count;
    micro_random_ids(to->ids + count, more, seed, 0);
    to->id_count = count + more;
}

TEST(a_cold_turn_then_the_next_forwards_only_what_is_new)
{
    micro_open(&(struct micro_setup){ 0 });
    memset(&ask, 0, sizeof ask);
    ask.id_count = 70;
    ask.max_tokens = 6;
    micro_random_ids(ask.ids, 70, 1, 0);
    micro_run(&ask);
    CHECK_EQ(ask.result.finish, FINISH_LENGTH);
    CHECK_EQ(ask.result.source, SOURCE_COLD);
    CHECK_EQ(ask.result.reason, REASON_NEVER_SEEN);
    CHECK_EQ(ask.result.cached, 0);
    CHECK_EQ(ask.result.forwarded, 70);
    CHECK_EQ(ask.out_count, 6);
    equals_cold(&ask, slot_of_last());

    continue_talk(&next, &ask, 9, 2);
    next.max_tokens = 4;
    micro_run(&next);
    CHECK_EQ(next.result.source, SOURCE_END);
    CHECK_EQ(next.result.cached, 75);           /* the last sampled id was never forwarded */
    CHECK_EQ(next.result.forwarded, 10);
    CHECK_EQ(next.result.reason, REASON_NONE);
    CHECK(next.result.part_pos == UINT64_MAX);
    equals_cold(&next, slot_of_last());
    micro_close();
}
