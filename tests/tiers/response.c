/* tests/tiers/response.c - the response cache: equal questions, a ring that forgets the oldest. */
#include "tests/test.h"

#include "arena/base/rng.h"
#include "tiers/response.h"

#include <string.h>

static u32 ids[512], answer_ids[512], fields[4];

static void open_cache(u64 cap_bytes)
{
    CHECK_OK(arena_open(&(struct arena_decl){ .name = "responses", .kind = ARENA_TABLE,
                                              .cap_bytes = response_arena_bytes(cap_bytes) }, 1));
    CHECK_OK(response_open(cap_bytes));
}

static struct response_ask ask_of(u64 seed, u64 count)
{
    for (u64 i = 0; i < count; i++) ids[i] = (u32)rng_u64(seed, i);
    fields[0] = (u32)seed;
    return (struct response_ask){ .ids = ids, .id_count = count, .fields = fields,
                                  .field_count = 1 };
}

static void save(u64 seed, u64 count, u64 answers)
{
    struct response_ask ask = ask_of(seed, count);
    for (u64 i = 0; i < answers; i++) answer_ids[i] = (u32)rng_u64(seed + 1000000, i);
    response_save(&ask, &(struct response_answer){ .ids = answer_ids, .id_count = answers,
                                                   .finish = 1, .stop_id = (u32)seed });
}

static bool holds(u64 seed, u64 count, u64 answers)
{
    struct response_ask ask = ask_of(seed, count);
    struct response_answer got;
    u32 entry = response_find(&ask, &got);
    if (entry == NONE) return false;
    CHECK(got.id_count == answers && got.finish == 1 && got.stop_id == (u32)seed);
    for (u64 i = 0; i < answers; i++) CHECK_EQ(got.ids[i], (u32)rng_u64(seed + 1000000, i));
    response_drop(entry);
    return true;
}

TEST(an_equal_question_has_its_answer_and_any_other_has_none)
{
    open_cache(64 * KIB);
    save(1, 100, 40);
    CHECK(holds(1, 100, 40));
    CHECK(!holds(1, 99, 40) && !holds(2, 100, 40));
    struct response_ask ask = ask_of(1, 100);
    struct response_answer got;
    fields[0] ^= 1;                                     /* another field                      */
    CHECK_EQ(response_find(&ask, &got), NONE);
    fields[0] ^= 1;
    ids[50] ^= 1;
    CHECK_EQ(response_find(&ask, &got), NONE);
    save(1, 100, 40);                                   /* once is enough                     */
    CHECK(response_counts().kept == 1 && response_counts().entries == 1);
    CHECK_EQ(response_clear(), 1);
    CHECK(!holds(1, 100, 40));
    response_close();
    arena_close();
}

TEST(the_oldest_give_way_and_one_that_is_replayed_stays)
{
    open_cache(16 * KIB);                               /* 4,096 words, some 25 entries       */
    for (u64 i = 0; i < 500; i++) {
        u64 count = 60 + rng_u64(3, i) % 80;
        save(i, count, 40);
        CHECK(holds(i, count, 40));
        if (i > 40) CHECK(!holds(i - 40, 60 + rng_u64(3, i - 40) % 80, 40));
    }
    CHECK(response_counts().dropped > 400);
    u64 count = 60 + rng_u64(3, 499) % 80;
    struct response_ask ask = ask_of(499, count);
    struct response_answer got;
    u32 entry = response_find(&ask, &got);
    CHECK(entry != NONE);
    for (u64 i = 600; i < 700; i++) save(i, 100, 40);
    CHECK(response_counts().refused > 0);               /* it stood in the way                */
    for (u64 i = 0; i < 40; i++) CHECK_EQ(got.ids[i], (u32)rng_u64(1000499, i));
    response_drop(entry);
    for (u64 i = 700; i < 800; i++) save(i, 100, 40);
    CHECK(!holds(499, count, 40) && holds(799, 100, 40));
    response_close();
    arena_close();
}

TEST(off_it_holds_nothing_and_one_over_a_quarter_is_refused)
{
    CHECK_OK(response_open(0));
    CHECK(!response_on());
    save(1, 100, 40);
    CHECK(!holds(1, 100, 40) && response_arena_bytes(0) == 0);
    open_cache(1 * KIB);
    save(1, 60, 10);
    CHECK(response_counts().refused == 1 && !holds(1, 60, 10));
    save(2, 40, 10);
    CHECK(holds(2, 40, 10));
    response_close();
    arena_close();
}
