/* tests/http/line.c - the line editor on a terminal of its own: an interrupt is seen wherever it
 * comes, and takes no input along that was typed for the next line. */
#include "http/cli/line.c"

#include <stdlib.h>
#include <termios.h>

#include "tests/test.h"

static int far_end, own_stderr;

static void type(const char *text)
{
    CHECK(write(far_end, text, strlen(text)) == (ssize_t)strlen(text));
}

/* libedit edits when what it writes to is a terminal as well; reports of checks go elsewhere. */
static void terminal(bool yes)
{
    fflush(stderr);
    CHECK(dup2(yes ? STDIN_FILENO : own_stderr, STDERR_FILENO) == STDERR_FILENO);
}

/* At most four times: libtinfo keeps so many terminals, and a fifth is a leak to asan. */
static void up(void)
{
    struct termios modes;
    far_end = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(far_end >= 0 && grantpt(far_end) == 0 && unlockpt(far_end) == 0);
    int near_end = open(ptsname(far_end), O_RDWR | O_NOCTTY);
    CHECK(near_end >= 0 && dup2(near_end, STDIN_FILENO) == STDIN_FILENO);
    close(near_end);
    CHECK(tcgetattr(STDIN_FILENO, &modes) == 0);
    modes.c_lflag &= ~(tcflag_t)ECHO;
    CHECK(tcsetattr(STDIN_FILENO, TCSANOW, &modes) == 0);
    setenv("TERM", "xterm", 1);
    own_stderr = dup(STDERR_FILENO);
    terminal(true);
    enum err err = line_open();
    terminal(false);
    CHECK_OK(err);
}

static void down(void)
{
    line_close();
    if (far_end >= 0) close(far_end);
    close(own_stderr);
}

static u32 prompts;

/* A prompt at whose writing Ctrl-C is pressed, the first time: the wait for input comes next. */
static char *prompt_interrupted(EditLine *edit)
{
    (void)edit;
    if (prompts++ == 0) raise(SIGINT);
    return (char *)(uintptr_t)"> ";
}

static enum line_event next(const char **text)
{
    enum line_event event;
    u64 bytes;
    terminal(true);
    enum err err = line_read("> ", 1000, &event, text, &bytes);
    terminal(false);
    CHECK_OK(err);
    return event;
}

TEST(an_interrupt_between_the_prompt_and_the_wait_ends_the_wait_and_takes_no_line_along)
{
    const char *text;
    up();
    prompts = 0;
    el_set(line.edit, EL_PROMPT, prompt_interrupted);
    type("one\ntwo\n");
    CHECK_EQ(next(&text), LINE_INTERRUPT);
    CHECK_EQ(next(&text), LINE_TEXT);
    CHECK_STR(text, "one");
    CHECK_EQ(next(&text), LINE_TEXT);
    CHECK_STR(text, "two");
    CHECK(!line_interrupted());
    down();
}

TEST(an_interrupt_between_two_lines_is_told_once_and_is_none_of_the_next_prompt)
{
    const char *text;
    up();
    type("one\n");
    CHECK_EQ(next(&text), LINE_TEXT);
    raise(SIGINT);
    CHECK(line_interrupted());
    CHECK(!line_interrupted());
    raise(SIGINT);
    type("two\n");
    CHECK_EQ(next(&text), LINE_TEXT);
    CHECK_STR(text, "two");
    down();
}

TEST(characters_of_several_bytes_come_whole_bytes_that_are_none_not_and_no_terminal_is_the_end)
{
    const char *text;
    up();
    type("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z\n");
    CHECK_EQ(next(&text), LINE_TEXT);
    CHECK_STR(text, "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z");
    type("b\xff\xc3" "c\xe2\x82\xc3\xa4\n");
    CHECK_EQ(next(&text), LINE_TEXT);
    CHECK_STR(text, "bc\xc3\xa4");
    close(far_end);
    far_end = -1;
    CHECK_EQ(next(&text), LINE_END);
    down();
}

/* As the prompt is seen: the end, and, where that is lost, a line. */
static char *prompt_ended(EditLine *edit)
{
    (void)edit;
    if (prompts++ == 0) type("\4one\n");
    return (char *)(uintptr_t)"> ";
}

TEST(a_key_typed_as_soon_as_the_prompt_is_seen_is_the_editors)
{
    const char *text;
    up();
    prompts = 0;
    el_set(line.edit, EL_PROMPT, prompt_ended);
    CHECK_EQ(next(&text), LINE_END);
    down();
}
