/* http/cli/line.h - lines from a terminal, edited: keys of emacs and arrows, history of this run
 * (nothing of it is written to disk), a `\` at the end goes on in the next line. */
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include "arena/base/err.h"

enum line_event { LINE_TEXT, LINE_INTERRUPT, LINE_END };

/* Standard input is a terminal.  The prompt goes to stderr.  SIGINT is noted from here on until
 * line_close, unless the caller handles it for a while.  ERR_MEMORY, ERR_IO. */
MUST_USE enum err line_open(void);
void line_close(void);
/* Ctrl-C came since the last line_read, or since this was last asked. */
bool line_interrupted(void);
/* Waits for a line: its text without the end, valid until the next call.  LINE_INTERRUPT: Ctrl-C,
 * what was typed is dropped.  LINE_END: Ctrl-D or the terminal is gone.  ERR_LIMIT past
 * `bytes_max` (or memory for it). */
MUST_USE enum err line_read(const char *prompt, u64 bytes_max, enum line_event *event_out,
                            const char **text_out, u64 *bytes_out);

#endif
