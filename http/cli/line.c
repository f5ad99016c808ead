/* http/cli/line.c - libedit on stdin and stderr; pieces of a continued line in one buffer. */
#include "http/cli/line.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "arena/base/text.h"
#include "http/chat/model.h"

enum { LINE_HISTORY = 1000 };

static struct {
    EditLine *edit;
    History  *history;
    const char *prompt;
    struct text text;
} line;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
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
    el_source(line.edit, NULL);                         /* ~/.editrc, when there is one       */
    return OK;
}

void line_close(void)
{
    if (line.history != NULL) history_end(line.history);
    if (line.edit != NULL) el_end(line.edit);
    text_close(&line.text);
    memset(&line, 0, sizeof line);
}

/* Pieces until one that does not end with `\`. */
static enum line_event read_pieces(void)
{
    for (;;) {                          /* ends: a cut text, the end of the input             */
        int count = 0;
        const char *got = el_gets(line.edit, &count);
        if (interrupted) return LINE_INTERRUPT;
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
    struct sigaction now = { .sa_handler = on_interrupt }, before;
    HistEvent event;
    line.prompt = prompt;
    text_close(&line.text);
    text_open_growing(&line.text, &chat_model_heap, bytes_max + 1);
    interrupted = 0;
    sigaction(SIGINT, &now, &before);                   /* no SA_RESTART: the read ends       */
    *event_out = read_pieces();
    sigaction(SIGINT, &before, NULL);
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
