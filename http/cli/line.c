/* http/cli/line.c - libedit on stdin and stderr; pieces of a continued line in one buffer.
 *
 * SIGINT is counted in an eventfd from line_open to line_close, whichever thread it comes to, and
 * each character waits for it and for input in one poll: none comes between a check and a read. */
#include "http/cli/line.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <wchar.h>

#include "arena/base/text.h"
#include "http/chat/model.h"

enum { LINE_HISTORY = 1000 };

static struct {
    EditLine *edit;
    History  *history;
    const char *prompt;
    struct text text;
    bool interrupted;                   /* the line that is read                              */
    struct sigaction before;
} line;

static int interrupt_fd = -1;           /* of line_open; the handler may run at any time      */

static void on_interrupt(int number)
{
    int saved = errno;
    (void)number;
    ssize_t put = write(interrupt_fd, &(u64){ 1 }, sizeof(u64));
    (void)put;                          /* the counter is full: it says so already            */
    errno = saved;
}

bool line_interrupted(void)
{
    u64 count;
    return interrupt_fd >= 0 && read(interrupt_fd, &count, sizeof count) == (ssize_t)sizeof count;
}

/* A Ctrl-C empties the terminal's queue: what poll saw may be gone, so this read does not wait. */
static ssize_t read_now(char *out)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    fcntl(STDIN_FILENO, F_SETFL, flags | O_NONBLOCK);
    ssize_t got = read(STDIN_FILENO, out, 1);
    int error = errno;
    fcntl(STDIN_FILENO, F_SETFL, flags);    /* other programs read this terminal, too         */
    errno = error;
    return got;
}

/* One byte of input; 0: its end, -1: Ctrl-C or an error. */
static ssize_t get_byte(char *out)
{
    struct pollfd wait[2] = { { .fd = interrupt_fd, .events = POLLIN },
                              { .fd = STDIN_FILENO, .events = POLLIN } };
    for (;;) {                          /* ends: input, its end, Ctrl-C                       */
        int ready = poll(wait, 2, -1);
        if (ready < 0 && errno != EINTR) return -1;
        if (ready <= 0) continue;
        if (wait[0].revents != 0 && line_interrupted()) {
            line.interrupted = true;
            errno = EINTR;
            return -1;
        }
        if (wait[1].revents == 0) continue;
        ssize_t got = read_now(out);
        if (got >= 0 || (errno != EINTR && errno != EAGAIN)) return got;
    }
}

/* libedit's own, but for the wait: a character of the locale; bytes that are none are dropped. */
static int get_char(EditLine *edit, wchar_t *out)
{
    char bytes[MB_LEN_MAX];
    size_t count = 0;
    (void)edit;
    for (;;) {                          /* ends: a character, the end of the input            */
        ssize_t got = get_byte(&bytes[count]);
        *out = 0;
        if (got <= 0) return (int)got;
        count++;
        size_t used = mbrtowc(out, bytes, count, &(mbstate_t){ 0 });
        if (used == (size_t)-2 && count < sizeof bytes) continue;
        if (used != (size_t)-1 && used != (size_t)-2) return 1;
        bytes[0] = bytes[count - 1];    /* the last one may begin a character                 */
        bool alone = count == 1;
        count = 0;
        if (alone) continue;
        used = mbrtowc(out, bytes, 1, &(mbstate_t){ 0 });
        if (used == (size_t)-2) count = 1;
        else if (used != (size_t)-1) return 1;
    }
}

static char *prompt_of(EditLine *edit)
{
    (void)edit;
    return (char *)(uintptr_t)line.prompt;
}

enum err line_open(void)
{
    HistEvent event;
    memset(&line, 0, sizeof line);
    interrupt_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (interrupt_fd < 0) return fail(ERR_IO, "eventfd: %s", strerror(errno));
    sigaction(SIGINT, &(struct sigaction){ .sa_handler = on_interrupt }, &line.before);
    setlocale(LC_CTYPE, "");
    if (strstr(setlocale(LC_CTYPE, NULL), "UTF-8") == NULL) setlocale(LC_CTYPE, "C.UTF-8");
    line.edit = el_init("holdfast", stdin, stderr, stderr);
    line.history = history_init();
    if (line.edit == NULL || line.history == NULL) {
        line_close();
        return fail(ERR_MEMORY, "no memory for the line editor");
    }
    history(line.history, &event, H_SETSIZE, LINE_HISTORY);
    history(line.history, &event, H_SETUNIQUE, 1);
    el_set(line.edit, EL_PROMPT, prompt_of);
    el_set(line.edit, EL_EDITOR, "emacs");
    el_set(line.edit, EL_HIST, history, line.history);
    el_set(line.edit, EL_GETCFN, get_char);
    el_source(line.edit, NULL);                         /* ~/.editrc, when there is one       */
    return OK;
}

void line_close(void)
{
    if (line.history != NULL) history_end(line.history);
    if (line.edit != NULL) el_end(line.edit);
    text_close(&line.text);
    if (interrupt_fd >= 0) {
        sigaction(SIGINT, &line.before, NULL);
        close(interrupt_fd);
        interrupt_fd = -1;
    }
    memset(&line, 0, sizeof line);
}

/* Pieces until one that does not end with `\`.  The terminal is the editor's before the prompt is
 * written: left to itself libedit takes it after, and a Ctrl-D typed in between is lost. */
static enum line_event read_pieces(void)
{
    for (;;) {                          /* ends: a cut text, the end of the input             */
        int count = 0;
        if (isatty(STDERR_FILENO)) el_set(line.edit, EL_PREP_TERM, 1);
        const char *got = el_gets(line.edit, &count);
        if (line.interrupted) return LINE_INTERRUPT;
        if (got == NULL || count <= 0) return line.text.len > 0 ? LINE_TEXT : LINE_END;
        u64 bytes = (u64)count;
        bool whole = got[bytes - 1] == '\n' || got[bytes - 1] == '\r';
        while (bytes > 0 && (got[bytes - 1] == '\n' || got[bytes - 1] == '\r')) bytes--;
        bool more = whole && bytes > 0 && got[bytes - 1] == '\\';
        text_put(&line.text, got, bytes - more);
        if (!more || line.text.cut) return LINE_TEXT;
        text_char(&line.text, '\n');
        line.prompt = ". ";
    }
}

enum err line_read(const char *prompt, u64 bytes_max, enum line_event *event_out,
                   const char **text_out, u64 *bytes_out)
{
    HistEvent event;
    line.prompt = prompt;
    text_close(&line.text);
    text_open_growing(&line.text, &chat_model_heap, bytes_max + 1);
    (void)line_interrupted();                           /* meant what was before the prompt   */
    line.interrupted = false;
    *event_out = read_pieces();
    if (line.text.cut) return fail(ERR_LIMIT, "a line of at most %llu bytes", (ull)bytes_max);
    if (*event_out == LINE_INTERRUPT) {
        el_reset(line.edit);
        fputc('\n', stderr);
    }
    if (*event_out == LINE_TEXT && line.text.len > 0)
        history(line.history, &event, H_ENTER, line.text.data);
    *text_out = line.text.data;
    *bytes_out = line.text.len;
    return OK;
}
