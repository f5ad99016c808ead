/* tests/arena/err.c - notes of errors. */
#include "tests/test.h"

TEST(a_note_keeps_code_place_and_text)
{
    enum err code = fail(ERR_IO, "file %s: line %d", "a", 7);
    CHECK(code == ERR_IO);
    CHECK_STR(err_last()->text, "file a: line 7");
    CHECK(err_last()->code == ERR_IO);
}

TEST(a_note_may_quote_the_note_before_it)
{
    fail(ERR_IO, "inner");
    fail(ERR_FORMAT, "outer: %s", err_last()->text);
    CHECK_STR(err_last()->text, "outer: inner");
}

TEST(every_code_has_a_word)
{
    for (int code = OK; code < ERR_COUNT; code++) CHECK(err_word((enum err)code) != NULL);
    CHECK_STR(err_word(ERR_NOT_FOUND), "not_found");
    CHECK_STR(err_word((enum err)999), "unknown");
}
