/* tests/tiers/end.c - generations, spans and calls of records: order, cut, copy, a full pool. */
#include "tests/test.h"

#include "arena/base/rng.h"
#include "tiers/end.h"
#include "arena/arena.h"

static void pool_open(u32 rows)
{
    struct arena_decl decl = { .name = "tables", .kind = ARENA_TABLE, .cap_bytes = MIB };
    CHECK_OK(arena_open(&decl, 1));
    CHECK_OK(end_open(arena_find("tables"), rows));
}

static struct call_row call_at(u64 lo, u64 hi)
{
    return (struct call_row){ .id_hash = lo, .value_hash = { hi, 1 }, .lo = lo, .hi = hi };
}

TEST(generations_are_found_from_the_newest_and_cut_by_position)
{
    struct generation_list g = { 0 };
    pool_open(100);
    for (u64 i = 1; i <= 67; i++) CHECK(end_record(&g, i * 10, i * 10 + 5, 0));
    CHECK_EQ(g.count, 67);
    CHECK_EQ(end_at(end_first(&g))->lo, 10);
    CHECK_EQ(end_at(end_find(&g, 79))->hi, 75);
    CHECK_EQ(end_at(end_find(&g, 75))->hi, 75);
    CHECK_EQ(end_at(end_find(&g, 74))->hi, 65);
    CHECK_EQ(end_find(&g, 14), 0);
    end_cut(&g, 74);
    CHECK_EQ(end_at(end_find(&g, UINT64_MAX))->hi, 65);
    CHECK_EQ(end_check(&g), 6);
    end_cut(&g, 0);
    CHECK_EQ(end_used(), 0);
    CHECK_EQ(end_first(&g), 0);
    arena_close();
}

TEST(spans_and_calls_stand_in_their_generation_by_position_and_go_with_it)
{
    struct generation_list g = { 0 }, copy = { 0 };
    struct call_row late = call_at(40, 45), early = call_at(22, 25), outside = call_at(30, 33);
    pool_open(100);
    CHECK(end_record(&g, 10, 30, 14));
    CHECK(end_record(&g, 38, 50, 0));
    CHECK(end_call(&g, &late));
    CHECK(end_call(&g, &early));
    CHECK(end_span(&g, 12, 14));
    CHECK(!end_call(&g, &outside));                     /* between two generations */
    CHECK(!end_span(&g, 49, 51));
    CHECK(!end_span(&g, 3, 5));
    static const u8 kinds[] = { END_GENERATION, END_SPAN, END_CALL, END_GENERATION, END_CALL };
    u32 i = 0;
    for (u32 r = end_first(&g); r != 0; r = end_next(r)) CHECK_EQ(end_at(r)->kind, kinds[i++]);
    CHECK_EQ(end_check(&g), 5);
    end_copy(&copy, &g, 49);
    CHECK_EQ(end_check(&copy), 3);
    CHECK_EQ(end_used(), 8);
    end_cut(&g, 30);
    CHECK_EQ(end_check(&g), 3);
    CHECK_EQ(end_at(end_first(&copy))->think_hi, 14);
    end_cut(&copy, 29);
    CHECK_EQ(end_check(&copy), 0);
    end_cut(&g, 0);
    CHECK_EQ(end_used(), 0);
    arena_close();
}

TEST(a_list_is_extended_by_what_another_knows_beyond_it)
{
    struct generation_list a = { 0 }, b = { 0 };
    struct call_row in = call_at(42, 45), out = call_at(47, 52);
    pool_open(100);
    for (u64 i = 1; i <= 6; i++) CHECK(end_record(&a, i * 10, i * 10 + 6, i * 10 + 2));
    CHECK(end_record(&b, 10, 16, 12));
    end_extend(&b, &a, 36);
    CHECK_EQ(end_check(&b), 3);
    CHECK_EQ(end_at(end_find(&b, 100))->hi, 36);
    CHECK(end_call(&a, &in));
    CHECK(!end_call(&a, &out));
    CHECK(end_span(&a, 41, 44));
    end_extend(&b, &a, 43);                         /* inside the fourth, behind its reasoning */
    CHECK_EQ(end_check(&b), 5);
    CHECK_EQ(end_at(end_find(&b, 100))->hi, 43);
    CHECK_EQ(end_at(b.last)->kind, END_SPAN);
    CHECK_EQ(end_at(b.last)->hi, 43);
    end_cut(&b, 36);
    end_extend(&b, &a, 41);                         /* inside its reasoning: nothing of it */
    CHECK_EQ(end_check(&b), 3);
    end_cut(&a, 0);
    end_cut(&b, 0);
    CHECK_EQ(end_used(), 0);
    arena_close();
}

TEST(a_full_pool_refuses_and_keeps_what_it_has)
{
    struct generation_list g = { 0 }, copy = { 0 };
    pool_open(5);
    for (u64 i = 0; i < 3; i++) CHECK(end_record(&g, i * 10, i * 10 + 5, 0));
    end_copy(&copy, &g, 100);
    CHECK_EQ(end_check(&copy), 2);                      /* the oldest: alignment goes by order */
    CHECK(!end_record(&g, 40, 45, 0));
    CHECK(!end_span(&g, 0, 1));
    CHECK_EQ(end_check(&g), 3);
    end_cut(&copy, 0);
    CHECK(end_record(&g, 40, 45, 0));
    end_cut(&g, 0);
    arena_close();
}

TEST(random_lists_stay_whole)
{
    struct generation_list g[4] = { { 0 } };
    pool_open(60);
    for (u64 i = 0; i < 4000; i++) {
        struct generation_list *x = &g[rng_u64(1, i) % 4], *y = &g[rng_u64(2, i) % 4];
        u32 last = end_find(x, UINT64_MAX);
        u64 lo = last == 0 ? 5 : end_at(last)->hi + 2, pick = rng_u64(3, i) % 6, pos = 0;
        struct call_row call = { 0 };
        if (last != 0) call = call_at(end_at(last)->lo + rng_u64(4, i) % 6, end_at(last)->hi);
        if (pick < 2) end_record(x, lo, lo + 8, 0);
        else if (pick == 2 && last != 0) end_call(x, &call);
        else if (pick == 3 && last != 0) end_span(x, call.lo, call.lo + 1);
        else if (pick == 4) end_cut(x, rng_u64(5, i) % 80);
        else if (pick == 5 && x != y) { end_cut(y, 0); end_copy(y, x, rng_u64(6, i) % 90); }
        for (u32 k = 0; k < 4; k++) pos += end_check(&g[k]);
        CHECK_EQ(pos, end_used());
    }
    arena_close();
}
