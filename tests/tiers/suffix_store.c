/* tests/tiers/suffix_store.c - what the log keeps, forgets and clears, and the lookup over it. */
#include "tests/suffix.h"

enum { IDS = 400, MOST = 12, SEGMENT = 64 * 4 };

static const u64 alice[2] = { 1, 11 }, bob[2] = { 2, 22 };
static u32 ids[STORE_CTX];

/* ------------------------------------------------------------------ the lookup, slowly */

struct slow { const u32 *next[4096]; u64 left[4096]; u32 count, longest; };

static u32 agree(const u32 *from, u64 place, const u32 *end, u64 most)
{
    u32 n = 0;
    while (n < most && n < place && from[place - 1 - n] == end[-1 - (i64)n]) n++;
    return n;
}

static void gather(struct slow *s, const u32 *from, u64 count, u64 place, const u32 *end, u64 most)
{
    u32 length = agree(from, place, end, most);
    if (length < LOOKUP_MIN || length < s->longest) return;
    if (length > s->longest) s->count = 0;
    s->longest = length;
    CHECK(s->count < 4096);
    s->next[s->count] = from + place;
    s->left[s->count++] = count - place;
}

/* Every place of the context and of every segment, in the order of the header. */
static u32 slow(const u32 *context, u64 count, u32 *out, u32 *match_out)
{
    static struct slow s;
    const struct segment_view *view;
    const u32 *end = context + count;
    u64 most = MIN(count, (u64)LOOKUP_MAX);
    s.count = s.longest = 0;
    for (u64 p = count - 1; p > 0; p--) gather(&s, context, count, p, end, most);
    u32 views = segment_views(&view), n = 0;
    for (u32 v = 0; v < views; v++) {
        u64 places = view[v].array != NULL ? view[v].places : view[v].count;
        for (u64 i = 0; i < places; i++) {
            u64 p = view[v].array != NULL ? view[v].array[i] : view[v].count - 1 - i;
            if (p > 0 && words_id(view[v].words[p]))
                gather(&s, view[v].words, view[v].count, p, end, most);
        }
    }
    *match_out = s.longest;
    for (; n < MOST; n++) {
        u32 best = NONE, best_votes = 0;
        for (u32 i = 0; i < s.count; i++) {
            u32 votes = 0;
            if (s.left[i] == 0 || !words_id(*s.next[i])) continue;
            for (u32 k = 0; k < s.count; k++) votes += s.left[k] > 0 && *s.next[k] == *s.next[i];
            if (votes > best_votes) best = *s.next[i];
            best_votes = MAX(votes, best_votes);
        }
        if (best == NONE) break;
        u32 kept = 0;
        for (u32 i = 0; i < s.count; i++) {
            if (s.left[i] == 0 || *s.next[i] != best) continue;
            s.next[kept] = s.next[i] + 1;
            s.left[kept++] = s.left[i] - 1;
        }
        s.count = kept;
        out[n] = best;
    }
    return n;
}

static u32 same_as_slow(const u32 *context, u64 count)
{
    u32 fast_ids[MOST], slow_ids[MOST], fast_match, slow_match;
    u32 want = slow(context, count, slow_ids, &slow_match);
    u32 got = lookup_propose(&(struct lookup_context){ context, count }, MOST, fast_ids,
                             &fast_match);
    CHECK_EQ(fast_match, slow_match);
    CHECK_EQ(got, want);
    CHECK(memcmp(fast_ids, slow_ids, got * sizeof *fast_ids) == 0);
    return fast_match;
}

TEST(random_stores_draft_what_a_search_of_every_place_drafts)
{
    u32 matched = 0, context[60];
    for (u64 seed = 0; seed < 60; seed++) {
        store_open(&(struct store_setup){ .cap_bytes = 48 * 100 * 4 });
        u32 alphabet = 6 + (u32)(seed % 9);
        for (u64 n = 0; n < 12; n++) {
            u64 count = 20 + rng_u64(seed, 900 + n) % 200;
            store_draw(ids, count, alphabet, seed * 50 + n);
            suffix_log_add(ids, count, n % 2 ? alice : bob);
            if (n == 5 || n == 8) store_settle();       /* some have arrays, some chains      */
            for (u64 k = 0; k < 6; k++) {
                store_draw(context, 60, alphabet, seed * 999 + k);
                if (k % 2 == 0) memcpy(context + 40, ids + k, 20 * sizeof *ids);
                matched += same_as_slow(context, 3 + rng_u64(seed, n * 8 + k) % 58) > 0;
                if (k % 2 == 0) matched += same_as_slow(context, 60) >= 20;
            }
        }
        store_close();
    }
    CHECK(matched > 3000);
}

TEST(a_match_longer_in_a_segment_goes_before_a_shorter_one_in_the_context)
{
    u32 out[4], match;
    u32 kept[] = { 50, 51, 52, 53, 54, 60, 61 };
    u32 context[] = { 52, 53, 54, 70, 9, 50, 51, 52, 53, 54 };
    store_open(&(struct store_setup){ .cap_bytes = 0 });
    suffix_log_add(kept, COUNT_OF(kept), alice);
    struct lookup_context c = { context, COUNT_OF(context) };
    CHECK_EQ(lookup_propose(&c, 4, out, &match), 2);
    CHECK_EQ(match, 5);
    CHECK_EQ(out[0], 60);
    CHECK_EQ(out[1], 61);                   /* and not beyond the record                      */
    struct lookup_counts was = lookup_counts();
    c.count = 3;
    CHECK_EQ(lookup_propose(&c, 4, out, &match), 2);
    CHECK_EQ(match, 3);
    CHECK_EQ(lookup_counts().stored, was.stored + 1);
    store_close();
}

TEST(a_very_frequent_match_votes_by_a_sample)
{
    u32 out[1], match, context[] = { 1, 2, 3 };
    store_open(&(struct store_setup){ .cap_bytes = 48 * 4000 * 4 });
    for (u32 n = 0; n < 900; n++) {         /* 1 2 3 is followed by 9, one time in four by 8  */
        u32 one[5] = { 1, 2, 3, n % 4 == 0 ? 8 : 9, 100 + n };
        memcpy(ids + 5 * n, one, sizeof one);
    }
    suffix_log_add(ids, 4000, alice);
    for (u32 round = 0; round < 2; round++) {
        CHECK_EQ(lookup_propose(&(struct lookup_context){ context, 3 }, 1, out, &match), 1);
        CHECK_EQ(match, 3);
        CHECK_EQ(out[0], 9);
        store_settle();                     /* then from the array                            */
    }
    CHECK(suffix_log_counts().sorted > 0);
    store_close();
}

/* ------------------------------------------------------------------ what is added */

static u64 added(const u32 *from, u64 count, const u64 session[2])
{
    u64 was = suffix_log_counts().added;
    suffix_log_add(from, count, session);
    return suffix_log_counts().added - was;
}

TEST(a_request_adds_what_none_of_the_last_four_added)
{
    static u32 other[5][IDS], more[IDS];
    store_open(&(struct store_setup){ .cap_bytes = 48 * 4000 * 4 });
    for (u64 i = 0; i < 5; i++) store_draw(other[i], IDS, 1000, 100 + i);
    CHECK_EQ(added(other[0], 200, alice), 200);
    CHECK_EQ(added(other[0], 200, alice), 0);           /* the same again                     */
    CHECK_EQ(added(other[0], 150, bob), 0);             /* less of it                         */
    CHECK_EQ(added(other[0], 300, alice), 100);         /* it goes on                         */
    memcpy(more, other[0], sizeof more);
    store_draw(more + 250, 150, 1000, 7);
    CHECK_EQ(added(more, IDS, alice), 150);             /* it parts at 250                    */
    CHECK_EQ(added(more, IDS - 2, alice), 0);
    for (u64 i = 1; i < 4; i++) CHECK_EQ(added(other[i], IDS, bob), IDS);
    CHECK_EQ(added(more, IDS, alice), 0);               /* three requests ago                 */
    for (u64 i = 1; i < 5; i++) added(other[i], IDS, bob);
    CHECK_EQ(added(more, IDS, alice), IDS);             /* four others came in between        */
    CHECK_EQ(added(more, 3, alice), 0);
    CHECK_EQ(added(other[1] + 7, 3, alice), 0);         /* no match fits in three ids         */
    CHECK(suffix_log_counts().repeated > 0);
    store_close();
}

TEST(conversations_in_turn_are_remembered_by_their_newest_request)
{
    static u32 talk[4][2000];
    store_open(&(struct store_setup){ .cap_bytes = 48 * 4000 * 4 });
    for (u64 i = 0; i < 4; i++) store_draw(talk[i], 2000, 1000, i);
    for (u64 turn = 1; turn <= 10; turn++)
        for (u64 i = 0; i < 4; i++) CHECK_EQ(added(talk[i], 200 * turn, alice), 200);
    CHECK_EQ(suffix_log_counts().ids, 8000);
    store_close();
}

TEST(over_the_cap_the_oldest_half_is_forgotten_and_the_cap_holds)
{
    u32 out[2], match;
    u64 cap = 48 * 64 * 4, times = 0;
    store_open(&(struct store_setup){ .cap_bytes = cap });
    for (u64 n = 0; n < 100; n++) {
        u64 was = suffix_log_counts().forgotten;
        store_draw(ids, 150, 4000, n);
        suffix_log_add(ids, 150, alice);
        if (n % 7 == 0) store_settle();
        struct suffix_log_counts c = suffix_log_counts();
        CHECK(c.bytes <= cap && c.segments <= SEGMENT_STORE);
        if (c.forgotten == was) continue;
        times++;
        CHECK(c.bytes <= cap / 2 + 150 * 4 + SEGMENT);
        CHECK(c.bytes + SEGMENT >= cap / 2);
    }
    CHECK(times >= 8);
    store_draw(ids, 150, 4000, 99);         /* the newest is there, the first is not          */
    CHECK_EQ(lookup_propose(&(struct lookup_context){ ids + 90, 20 }, 2, out, &match), 2);
    CHECK(match == 20 && out[0] == ids[110] && out[1] == ids[111]);
    store_draw(ids, 150, 4000, 0);
    lookup_propose(&(struct lookup_context){ ids + 90, 20 }, 2, out, &match);
    CHECK(match < 20);
    store_close();
}

TEST(a_request_longer_than_a_segment_or_half_the_cap_is_kept_in_pieces)
{
    store_open(&(struct store_setup){ .cap_bytes = 48 * 64 * 4 });
    store_draw(ids, STORE_CTX, 4000, 1);
    suffix_log_add(ids, STORE_CTX, alice);
    store_settle();
    struct suffix_log_counts c = suffix_log_counts();
    CHECK_EQ(c.added + c.refused, STORE_CTX);
    CHECK_EQ(c.added, c.ids + c.forgotten);
    CHECK(c.bytes <= 48 * 64 * 4 && c.ids > 700);
    store_close();
}

TEST(a_cap_of_nothing_keeps_nothing_but_a_corpus_is_searched)
{
    u32 out[2], match;
    store_open(&(struct store_setup){ .cap_bytes = 0, .corpus_bytes = 4000 });
    store_set.cap_bytes = 0;
    store_close();
    store_set = (struct store_setup){ .corpus_bytes = 4000, .ctx = STORE_CTX };
    store_arenas();
    CHECK_OK(suffix_log_open(&(struct suffix_log_setup){
        .table_arena = arena_find("tables"), .ctx = STORE_CTX, .vocab = STORE_VOCAB,
        .cache_dir = "", .graph = &store_graph }));
    store_draw(ids, 1000, 4000, 5);
    suffix_log_add(ids, 500, alice);
    CHECK_EQ(suffix_log_counts().segments, 0);
    CHECK_OK(suffix_log_corpus(ids, 1000));
    for (u32 i = 0; i < 3; i++) suffix_log_pass(1);
    CHECK_EQ(lookup_propose(&(struct lookup_context){ ids + 700, 10 }, 2, out, &match), 2);
    CHECK(match == 10 && out[1] == ids[711]);
    CHECK_EQ(suffix_log_clear(NULL), 0);                /* a file given stays                 */
    CHECK_EQ(lookup_propose(&(struct lookup_context){ ids + 700, 10 }, 2, out, &match), 2);
    CHECK_EQ(suffix_log_corpus(ids, (u64)SEGMENT_CORPUS * SEGMENT_WORDS_MAX), ERR_LIMIT);
    suffix_log_close();
    arena_check();
    arena_close();
}

/* ------------------------------------------------------------------ clear */

/* The longest match of these ids. */
static u32 match_of(const u32 *from, u64 count)
{
    u32 out[1], match;
    lookup_propose(&(struct lookup_context){ from, count }, 1, out, &match);
    return match;
}

/* Alice's and Bob's requests in turn, many to a segment and over several. */
static void two_sessions(void)
{
    for (u64 n = 0; n < 20; n++) {
        store_draw(ids, 60, 4000, n);
        suffix_log_add(ids, 60, n % 2 == 0 ? alice : bob);
    }
}

static void only_bob_is_left(void)
{
    for (u64 n = 0; n < 20; n++) {
        store_draw(ids, 60, 4000, n);
        u32 match = match_of(ids + 20, 8);
        CHECK(n % 2 == 0 ? match < LOOKUP_MIN : match == 8);
    }
    for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1)) {
        const struct segment_row *r = segment_at(row);
        if (r->state != SEGMENT_GONE)
            CHECK_EQ(words_of_session(segment_memory(row), r->count, alice), 0);
    }
}

TEST(clear_of_a_session_takes_its_ids_and_no_other)
{
    for (u32 way = 0; way < 4; way++) {
        store_open(&(struct store_setup){ .cap_bytes = 48 * 300 * 4 });
        two_sessions();
        if (way == 1) store_settle();                   /* arrays                             */
        if (way >= 2) suffix_log_pass(clock_us());      /* a build is under way               */
        CHECK_EQ(suffix_log_clear(bob) > 0, true);
        for (u64 n = 1; n < 20; n += 2) {               /* Bob again, then Alice goes         */
            store_draw(ids, 60, 4000, n);
            suffix_log_add(ids, 60, bob);
        }
        if (way == 3) suffix_log_pass(clock_us());
        u64 bytes = suffix_log_clear(alice);
        CHECK(bytes >= 600 * 4 && bytes <= 600 * 4 + 20 * 64);
        store_settle();
        only_bob_is_left();
        CHECK_EQ(suffix_log_clear(alice), 0);
        segment_check();
        store_draw(ids, 60, 4000, 18);                  /* and may be added again             */
        suffix_log_add(ids, 60, alice);
        CHECK_EQ(match_of(ids + 20, 8), 8);
        CHECK(suffix_log_clear(NULL) > 0);
        CHECK_EQ(suffix_log_counts().ids, 0);
        store_close();
    }
}

/* ------------------------------------------------------------------ memory */

TEST(without_memory_ids_are_not_kept_and_nothing_else_happens)
{
    store_open(&(struct store_setup){ .cap_bytes = 48 * 2000 * 4, .node_bytes = 4096 });
    store_draw(ids, 900, 4000, 1);
    suffix_log_add(ids, 900, alice);
    CHECK_EQ(suffix_log_counts().refused, 900);
    CHECK_EQ(suffix_log_counts().ids, 0);
    CHECK(suffix_log_counts().memory_refused > 0);
    CHECK_EQ(match_of(ids + 20, 8), 0);
    store_close();
    store_open(&(struct store_setup){ .cap_bytes = 48 * 64 * 4, .node_bytes = 9 * 4096 });
    suffix_log_add(ids, 900, alice);        /* room for some segments, none for a build       */
    store_settle();
    CHECK(suffix_log_counts().ids > 60 && suffix_log_counts().refused > 0);
    store_close();
}

TEST(segments_are_yielded_and_what_no_file_has_is_forgotten)
{
    static struct budget_record record[SEGMENT_ROWS];
    static struct budget_plan plan;
    store_open(&(struct store_setup){ .cap_bytes = 48 * 2000 * 4 });
    store_draw(ids, 7000, 4000, 1);
    suffix_log_add(ids, 7000, alice);
    CHECK(segment_victims(record, SEGMENT_ROWS) >= 3);
    suffix_log_pass(clock_us());            /* one is being sorted: it is no victim           */
    u32 victims = segment_victims(record, SEGMENT_ROWS), node;
    CHECK_EQ(victims, 3);                   /* two closed ones and the one written to         */
    node = budget_graph_find(&store_graph, "suffix");
    u64 used = store_graph.node[node].used_bytes;
    CHECK_OK(budget_gate_set(&store_graph, node, used - 4096, &(struct budget_ask){
        .records = record, .record_count = victims }, &plan));
    CHECK_EQ(suffix_log_counts().yielded, 1);
    CHECK(suffix_log_counts().ids < 7000);
    store_settle();
    segment_check();
    store_close();
}

TEST(threads_sort_while_the_engine_adds_and_looks)
{
    store_open(&(struct store_setup){ .cap_bytes = 48 * 800 * 4, .thread = true });
    for (u64 n = 0; n < 150; n++) {
        store_draw(ids, 300, 50, n);
        suffix_log_add(ids, 300, n % 3 ? alice : bob);
        suffix_log_pass(clock_us());
        CHECK(match_of(ids + 100, 50) >= LOOKUP_MIN);
        if (n % 50 == 49) suffix_log_clear(bob);
    }
    u64 deadline_us = clock_us() + 20000000;
    while (clock_us() < deadline_us) {      /* ends: all are sorted, or the time              */
        u32 seen = ring_word(&store_wake);
        suffix_log_pass(clock_us());
        struct suffix_log_counts c = suffix_log_counts();
        if (c.sorted + 1 >= c.segments) break;
        ring_wait(&store_wake, seen, deadline_us);
    }
    CHECK(suffix_log_counts().sorted + 1 >= suffix_log_counts().segments);
    CHECK(suffix_log_counts().builds > 20);
    store_close();
}
