/* tests/http/turn_stop.c - stop strings over pieces: any split, content only. */
#include "tests/test.h"

#include "arena/base/rng.h"
#include "http/turn/stop.h"

#include <stdlib.h>
#include <string.h>

enum { ID_THINK = 256, ID_THINK_END, ID_CALL, ID_CALL_END, ID_END, ID_FIRST };
static struct vocab vocab;
static void *memory;
static struct submit_row row;
static u32 ids;                         /* filled so far                                      */

static u32 piece(const char *bytes, u64 len, enum vocab_kind kind)
{
    CHECK_OK(vocab_put(&vocab, bytes, len, kind));
    return ids++;
}

/* Ids 0..255 are the bytes, then the tags, then what a test adds. */
static void open_vocab(void)
{
    memory = malloc(vocab_bytes(4096, 65536));
    vocab_open(&vocab, memory, 4096, 65536);
    ids = 0;
    for (u32 i = 0; i < 256; i++) piece((const char[]){ (char)i }, 1, VOCAB_TEXT);
    piece("<think>", 7, VOCAB_THINK_OPEN);
    piece("</think>", 8, VOCAB_THINK_CLOSE);
    piece("<tool_call>", 11, VOCAB_CALL_OPEN);
    piece("</tool_call>", 12, VOCAB_CALL_CLOSE);
    piece("<|im_end|>", 10, VOCAB_TURN_END);
    stop_vocab(&vocab);
    memset(&row, 0, sizeof row);
}

static void close_vocab(void)
{
    stop_vocab(NULL);
    free(memory);
}

static void stop_on(const char *text)
{
    row.stop_bytes[row.stop_count] = (u32)strlen(text);
    memcpy(row.stop[row.stop_count++], text, strlen(text));
}

/* Feeds `text` as pieces of the given cuts; offset of the byte at which the answer is cut, or -1.
 * New vocabulary rows are made for the pieces. */
static i64 feed(const char *text, u64 cut_bits, u64 *fed_out)
{
    struct stop_state s;
    u64 len = strlen(text), from = 0;
    stop_start(&s, &row);
    for (u64 i = 0; i < len; i++) {
        if (i + 1 < len && !(cut_bits >> i & 1)) continue;
        u32 cut, back, id = piece(text + from, i + 1 - from, VOCAB_TEXT);
        if (stop_feed(&s, &row, id, &cut, &back)) {
            *fed_out = i + 1;
            return (i64)(from + cut) - (i64)back;
        }
        u64 held = stop_held(&s);
        CHECK(held <= i + 1);
        for (u32 k = 0; held > 0 && k < row.stop_count; k++)
            if (row.stop_bytes[k] > held && memcmp(row.stop[k], text + i + 1 - held, held) == 0)
                held = 0;                               /* what is held begins a stop string */
        CHECK_EQ(held, 0);
        from = i + 1;
    }
    *fed_out = len;
    return -1;
}

TEST(a_stop_string_is_found_in_every_split_of_its_bytes)
{
    u64 fed;
    for (u64 cuts = 0; cuts < 256; cuts++) {
        open_vocab();
        stop_on("END");
        stop_on("aab");
        CHECK_EQ(feed("xENENDyz", cuts, &fed), 3);
        CHECK_EQ(feed("aaaab", cuts, &fed), 2);
        CHECK_EQ(feed("EN aa b", cuts, &fed), -1);
        close_vocab();
    }
}

TEST(the_earliest_end_wins_and_of_equal_ends_the_longest)
{
    u64 fed;
    open_vocab();
    stop_on("ab");
    stop_on("xxab");
    CHECK_EQ(feed("wxxab", UINT64_MAX, &fed), 1);
    close_vocab();
    open_vocab();
    stop_on("abcdef");
    stop_on("cd");
    CHECK_EQ(feed("abcdef", 0, &fed), 2);
    close_vocab();
}

TEST(random_texts_agree_with_a_plain_search)
{
    for (u64 round = 0; round < 300; round++) {
        char text[41], stop[4];
        u64 fed, want = UINT64_MAX;
        open_vocab();
        u64 n = 1 + rng_u64(3, round) % 3;
        for (u64 i = 0; i < n; i++) stop[i] = (char)('a' + rng_u64(4 + i, round) % 2);
        stop[n] = 0;
        for (u64 i = 0; i < 40; i++) text[i] = (char)('a' + rng_u64(100 + round, i) % 3);
        text[40] = 0;
        stop_on(stop);
        const char *at = strstr(text, stop);
        if (at != NULL) want = (u64)(at - text);
        i64 got = feed(text, rng_u64(5, round), &fed);
        CHECK_EQ(got, (i64)want);
        close_vocab();
    }
}

TEST(reasoning_and_calls_are_not_searched)
{
    struct stop_state s;
    u32 cut, back;
    open_vocab();
    stop_on("S");
    row.think_open = true;
    row.tools = true;
    stop_start(&s, &row);
    CHECK(!stop_feed(&s, &row, 'S', &cut, &back));
    CHECK(!stop_feed(&s, &row, ID_THINK_END, &cut, &back));
    CHECK(!stop_feed(&s, &row, 'a', &cut, &back));
    CHECK(!stop_feed(&s, &row, ID_CALL, &cut, &back));
    CHECK(!stop_feed(&s, &row, 'S', &cut, &back));
    CHECK(!stop_feed(&s, &row, ID_CALL_END, &cut, &back));
    CHECK(!stop_feed(&s, &row, ID_THINK, &cut, &back));
    CHECK(!stop_feed(&s, &row, 'S', &cut, &back));
    CHECK(!stop_feed(&s, &row, ID_THINK_END, &cut, &back));
    CHECK(stop_feed(&s, &row, 'S', &cut, &back));
    CHECK(cut == 0 && back == 0);
    close_vocab();
}

TEST(a_stop_text_does_not_reach_across_a_tag_and_tags_have_no_bytes)
{
    struct stop_state s;
    u32 cut, back;
    open_vocab();
    stop_on("ab");
    stop_on("think");
    row.tools = true;
    stop_start(&s, &row);
    CHECK(!stop_feed(&s, &row, 'a', &cut, &back));
    CHECK_EQ(stop_held(&s), 1);
    CHECK(!stop_feed(&s, &row, ID_CALL, &cut, &back));
    CHECK_EQ(stop_held(&s), 0);
    CHECK(!stop_feed(&s, &row, ID_CALL_END, &cut, &back));
    CHECK(!stop_feed(&s, &row, 'b', &cut, &back));
    CHECK(!stop_feed(&s, &row, ID_THINK, &cut, &back));
    CHECK(!stop_feed(&s, &row, ID_END, &cut, &back));
    CHECK(!stop_feed(&s, &row, 100000, &cut, &back));   /* not an id at all */
    row.tools = false;                                  /* calls are text then */
    row.stop_count = 0;
    stop_on("_call>");
    stop_start(&s, &row);
    CHECK(stop_feed(&s, &row, ID_CALL, &cut, &back));
    CHECK(cut == 5 && back == 0);
    close_vocab();
}

TEST(a_stop_string_of_the_longest_length_is_found)
{
    struct stop_state s;
    u32 cut, back;
    open_vocab();
    row.stop_count = 1;
    row.stop_bytes[0] = TURN_STOP_BYTES;
    memset(row.stop[0], 'q', TURN_STOP_BYTES);
    stop_start(&s, &row);
    for (u32 i = 0; i + 1 < TURN_STOP_BYTES; i++) {
        CHECK(!stop_feed(&s, &row, 'q', &cut, &back));
        CHECK_EQ(stop_held(&s), i + 1);
    }
    CHECK(stop_feed(&s, &row, 'q', &cut, &back));
    CHECK(cut == 0 && back == TURN_STOP_BYTES - 1);
    close_vocab();
}
