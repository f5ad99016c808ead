/* tests/http/screen.c - what a terminal gets of a model's text, and what a file gets. */
#include "http/cli/screen.h"
#include "tests/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char out[4096];
static u64 out_bytes;

/* Into a file by the function under test, and back. */
static const char *shown(void (*put)(FILE *, const char *, u64), const char *bytes, u64 len)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    put(file, bytes, len);
    rewind(file);
    out_bytes = fread(out, 1, sizeof out - 1, file);
    out[out_bytes] = 0;
    fclose(file);
    return out;
}

static const char *escaped(const char *text)
{
    return shown(screen_escape, text, strlen(text));
}

TEST(control_characters_but_newline_and_tab_are_shown)
{
    CHECK_STR(escaped("a\tb\nc"), "a\tb\nc");
    CHECK_STR(escaped("\x1b]0;title\x07\x1b[2J"), "\\u001b]0;title\\u0007\\u001b[2J");
    CHECK_STR(escaped("line\rover\b\b\x7f"), "line\\u000dover\\u0008\\u0008\\u007f");
    CHECK_STR(shown(screen_escape, "a\0b", 3), "a\\u0000b");
    CHECK_STR(escaped(""), "");
    for (u32 c = 0; c < 0x80; c++) {
        char byte = (char)c, want[8] = { (char)c, 0 };
        bool plain = c == '\n' || c == '\t' || (c >= ' ' && c < 0x7f);
        if (!plain) snprintf(want, sizeof want, "\\u%04x", c);
        CHECK_STR(shown(screen_escape, &byte, 1), want);
    }
}

TEST(so_are_those_above_ascii_and_what_turns_text_around)
{
    CHECK_STR(escaped("\xc2\x9b" "2J\xc2\x80\xc2\x9f\xc2\xa0"), "\\u009b2J\\u0080\\u009f\xc2\xa0");
    CHECK_STR(escaped("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x8d"),
              "\\u061c\\u200e\\u200f\xe2\x80\x8d");
    CHECK_STR(escaped("\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9"),
              "\\u202a\\u202e\xe2\x80\xaf\xe2\x81\xa5\\u2066\\u2069");
    CHECK_STR(escaped("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82"),
              "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82");
}

TEST(bytes_that_are_no_utf8_are_shown_one_by_one)
{
    CHECK_STR(escaped("\x9b" "2J"), "\\x9b2J");
    CHECK_STR(escaped("a\xe2\x82"), "a\\xe2\\x82");     /* cut short                          */
    CHECK_STR(escaped("\xc0\x9b\x1b"), "\\xc0\\x9b\\u001b");
    CHECK_STR(escaped("\xed\xa0\x80z"), "\\xed\\xa0\\x80z");
}

TEST(a_file_gets_all_bytes_unchanged_and_a_terminal_none_that_acts)
{
    char all[256], got[2048];
    for (u32 i = 0; i < sizeof all; i++) all[i] = (char)i;
    shown(screen_put, all, sizeof all);
    CHECK_EQ(out_bytes, sizeof all);
    CHECK(memcmp(out, all, sizeof all) == 0);

    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) test_skip("no terminals here");
    FILE *terminal = fopen(ptsname(master), "w");
    CHECK(terminal != NULL && isatty(fileno(terminal)));
    screen_put(terminal, "\x1b[31mred\xc2\x9bm\n", 12);
    fflush(terminal);
    ssize_t bytes = read(master, got, sizeof got - 1);
    CHECK(bytes > 0);
    got[bytes] = 0;
    CHECK_STR(got, "\\u001b[31mred\\u009bm\r\n");       /* the line end is the terminal's own */
    fclose(terminal);
    close(master);
}
