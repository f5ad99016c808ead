/* tests/tiers/suffix_array.c - words and arrays against what a slow look at everything says. */
#include "tests/test.h"

#include "arena/base/rng.h"
#include "tiers/suffix/array.h"
#include "tiers/suffix/words.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 700, QUERY = 40, VOCAB = 300 };

static u32 words[WORDS + 64], array[WORDS];
static u64 work[WORDS * 2];
static const u8 tokenizer[16] = { 9 };

/* Records of some lengths over a small alphabet; words used. */
static u64 draw(u64 seed, u32 alphabet)
{
    u32 ids[128];
    u64 count = WORDS_FILE, drawn = 0;
    words_begin(words, tokenizer, VOCAB, seed);
    while (count + 128 < WORDS) {
        u32 length = 1 + (u32)(rng_u64(seed, drawn++) % 100);
        for (u32 i = 0; i < length; i++) ids[i] = (u32)(rng_u64(seed, drawn++) % alphabet);
        u64 session[2] = { rng_u64(seed, drawn++) % 3, ~0ull };
        count += words_put(words + count, session, ids, length);
    }
    return count;
}

static u32 slow_agree(const u32 *from, u64 place, const u32 *end, u32 most)
{
    u32 n = 0;
    while (n < most && n < place && words_id(from[place - 1 - n]) &&
           from[place - 1 - n] == end[-1 - (i64)n]) n++;
    return n;
}

TEST(the_longest_match_and_all_its_places_are_those_of_a_slow_search)
{
    for (u32 seed = 0; seed < 120; seed++) {
        u32 alphabet = 1 + seed % 7;
        u64 count = draw(seed, alphabet) - WORDS_FILE, places, lo, hi;
        const u32 *records = words + WORDS_FILE;
        CHECK_OK(array_build(records, count, work, array, &places));
        for (u32 round = 0; round < 20; round++) {
            u32 query[QUERY], longest = 0;
            for (u32 i = 0; i < QUERY; i++)
                query[i] = (u32)(rng_u64(seed * 100 + round, i) % (alphabet + round % 2));
            if (round % 3 == 0) memcpy(query, records + 30, sizeof query);
            for (u32 i = 0; i < QUERY; i++) query[i] = words_id(query[i]) ? query[i] : 0;
            u64 found = 0;
            for (u64 p = 1; p < count; p++)
                if (words_id(records[p]))
                    longest = MAX(longest, slow_agree(records, p, query + QUERY, 32));
            for (u64 p = 1; p < count; p++)
                found += words_id(records[p]) && words_id(records[p - 1]) &&
                         slow_agree(records, p, query + QUERY, 32) == longest;
            CHECK_EQ(array_find(records, count, array, places, query + QUERY, 32, &lo, &hi),
                     longest);
            if (longest == 0) continue;
            CHECK_EQ(hi - lo, found);
            for (u64 i = lo; i < hi; i++)
                CHECK_EQ(slow_agree(records, array[i], query + QUERY, longest), longest);
        }
    }
}

TEST(an_array_is_in_the_order_of_ids_not_of_bytes)
{
    u32 ids[6] = { 0x000100, 0x0000ff, 0x010000, 0x00ffff, 0x000100, 5 };
    u64 session[2] = { 0 }, places;
    u64 count = words_put(words, session, ids, 6);
    CHECK_OK(array_build(words, count, work, array, &places));
    CHECK_EQ(places, 5);                    /* the last id has none behind                        */
    CHECK_EQ(words[array[0] - 1], 0x0000ff);
    CHECK_EQ(words[array[1] - 1], 0x000100);
    CHECK_EQ(words[array[2] - 1], 0x000100);
    CHECK_EQ(words[array[3] - 1], 0x00ffff);
    CHECK_EQ(words[array[4] - 1], 0x010000);
    CHECK_EQ(array[1], WORDS_RECORD + 5);   /* ffff before it, not a head   */
    CHECK_OK(array_build(words, 0, work, array, &places));
    CHECK_EQ(places, 0);
}

TEST(a_large_array_finds_by_its_directory_what_a_slow_search_finds)
{
    enum { LARGE = 70000, ALL = LARGE + 200 };
    u32 *many = calloc(ALL, sizeof *many), *out = calloc(array_words(ALL), sizeof *out);
    u32 *ids = calloc(LARGE, sizeof *ids);
    void *room = calloc(ALL, ARRAY_WORK_BYTES);
    u64 session[2] = { 1, 2 }, places, lo, hi;
    CHECK(many != NULL && out != NULL && ids != NULL && room != NULL);
    for (u32 i = 0; i < LARGE; i++) {       /* few ids and many, beyond the directory's last  */
        u64 draw = rng_u64(3, i);
        ids[i] = (u32)(draw >> 8) % (draw % 3 == 0 ? 60u : draw % 3 == 1 ? 3000u : 0xFFFFFEu);
        if (i > 5000 && draw % 11 == 0) ids[i] = ids[i - 4000];
    }
    u64 count = words_put(many, session, ids, LARGE);
    count += words_put(many + count, session, ids + 100, 60);
    CHECK_EQ(array_words(count), count + ARRAY_DIR + 1);
    CHECK_OK(array_build(many, count, room, out, &places));
    CHECK_EQ(places, LARGE - 1 + 59);
    for (u32 round = 0; round < 300; round++) {
        u32 query[QUERY], longest = 0;
        u64 from = rng_u64(4, round) % (LARGE - QUERY), found = 0;
        memcpy(query, ids + from, sizeof query);
        if (round % 2 == 0) query[QUERY - 2 - round % 5] = (u32)rng_u64(5, round) % 60;
        if (round % 7 == 0) query[QUERY - 1] = (u32)rng_u64(6, round) % 0xFFFFFFu;
        for (u64 p = 1; p < count; p++) {
            if (!words_id(many[p]) || !words_id(many[p - 1])) continue;
            u32 same = slow_agree(many, p, query + QUERY, 32);
            found = same > longest ? 1 : found + (same == longest);
            longest = MAX(longest, same);
        }
        CHECK_EQ(array_find(many, count, out, places, query + QUERY, 32, &lo, &hi), longest);
        if (longest > 0) CHECK_EQ(hi - lo, found);
    }
    free(many);
    free(out);
    free(ids);
    free(room);
}

TEST(what_was_put_is_valid_and_a_cut_of_any_length_ends_before_a_record)
{
    u64 count = draw(3, 50), ids, at = WORDS_FILE, whole[32], wholes = 0;
    CHECK_EQ(words_valid(words, count, VOCAB, &ids), count);
    for (u64 i = WORDS_FILE; i < count; i++)
        if (words[i] == WORDS_MARK) whole[wholes++] = i;
    whole[wholes] = count;
    for (u64 cut = 0; cut < count; cut++) {
        at = 0;
        for (u64 i = 0; i <= wholes; i++)
            if (whole[i] <= cut) at = whole[i];
        if (cut < WORDS_FILE) at = 0;
        CHECK_EQ(words_valid(words, cut, VOCAB, NULL), at);
    }
}

TEST(every_bit_of_a_record_is_under_its_checksum)
{
    u32 ids[5] = { 1, 2, 3, 4, 299 };
    u64 session[2] = { 7, 8 }, number;
    words_begin(words, tokenizer, VOCAB, 12);
    u64 count = WORDS_FILE + words_put(words + WORDS_FILE, session, ids, 5);
    CHECK_EQ(words_valid(words, count, VOCAB, NULL), count);
    CHECK_EQ(words_valid(words, count, 299, NULL), WORDS_FILE);     /* an id outside            */
    for (u64 bit = 32 * WORDS_FILE; bit < 32 * count; bit++) {
        words[bit / 32] ^= 1u << bit % 32;
        CHECK_EQ(words_valid(words, count, VOCAB, NULL), WORDS_FILE);
        words[bit / 32] ^= 1u << bit % 32;
    }
    CHECK_OK(words_check(words, 4 * count, tokenizer, VOCAB, &number));
    CHECK_EQ(number, 12);
    for (u64 bit = 0; bit < 32 * WORDS_FILE; bit++) {
        words[bit / 32] ^= 1u << bit % 32;
        CHECK(words_check(words, 4 * count, tokenizer, VOCAB, &number) != OK);
        words[bit / 32] ^= 1u << bit % 32;
    }
    CHECK_EQ(words_check(words, 4 * count, tokenizer, VOCAB + 1, &number), ERR_STALE);
    CHECK_EQ(words_check(words, 63, tokenizer, VOCAB, &number), ERR_FORMAT);
}

TEST(a_session_is_cut_out_and_nothing_else_is)
{
    static u32 left[WORDS];
    u64 count = draw(5, 50), sum = 0, session[2] = { 0, ~0ull }, ids;
    CHECK_EQ(words_valid(words, count, VOCAB, &ids), count);
    for (u64 i = 0; i < 3; i++) {
        session[0] = i;
        u64 of = words_of_session(words, count, session);
        u64 kept = words_without(words, count, session, left), kept_ids;
        sum += of;
        CHECK(of > 0);
        CHECK_EQ(words_valid(left, kept, VOCAB, &kept_ids), kept);
        CHECK_EQ(kept_ids, ids - of);
        CHECK_EQ(words_of_session(left, kept, session), 0);
    }
    CHECK_EQ(sum, ids);
    session[0] = 99;
    CHECK_EQ(words_without(words, count, session, left), count);
    CHECK(memcmp(left, words, count * sizeof *left) == 0);
}
