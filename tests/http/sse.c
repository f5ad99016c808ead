/* tests/http/sse.c - what a comment says of a waiting turn. */
#include "http/serve/sse.h"
#include "tests/test.h"

static const char *said(struct sse_view view)
{
    static char text[128];
    sse_comment_text(&view, text, sizeof text);
    return text;
}

TEST(a_queued_turn_tells_its_place_and_the_time_before_it)
{
    CHECK_STR(said((struct sse_view){ .state = SUBMIT_QUEUED, .place = 2, .queued = 3 }),
              "queued 2 of 3");
    CHECK_STR(said((struct sse_view){ .state = SUBMIT_QUEUED, .place = 2, .queued = 3, .slots = 1,
                                      .turn_us = 20 * 1000 * 1000 }),
              "queued 2 of 3, about 40 s");
    CHECK_STR(said((struct sse_view){ .state = SUBMIT_QUEUED, .place = 2, .queued = 3, .slots = 2,
                                      .turn_us = 20 * 1000 * 1000 }),
              "queued 2 of 3, about 20 s");
    CHECK_STR(said((struct sse_view){ .state = SUBMIT_QUEUED, .place = 4, .queued = 3 }),
              "queued 4 of 4");
}

TEST(a_prefill_tells_rows_and_the_time_left_by_what_was_seen)
{
    CHECK_STR(said((struct sse_view){ .state = SUBMIT_PREFILL, .rows = 34816,
                                      .prompt_rows = 120102 }), "prefill 34816/120102");
    CHECK_STR(said((struct sse_view){ .state = SUBMIT_PREFILL, .rows = 34816,
                                      .prompt_rows = 120102, .rows_since = 4000,
                                      .since_us = 1000 * 1000 }),
              "prefill 34816/120102, about 22 s");
    CHECK_STR(said((struct sse_view){ .state = SUBMIT_PREFILL, .rows = 10, .prompt_rows = 10,
                                      .rows_since = 1, .since_us = 5 }),
              "prefill 10/10, about 0 s");
    CHECK_STR(said((struct sse_view){ .state = SUBMIT_DECODE }), "generating");
}
