/* http/cli/run.h - `holdfast run`: one prompt, or a chat in the terminal. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "http/options.h"

/* -p, or standard input, is one prompt; a terminal as standard input is a chat, a line a turn.
 * The answer goes to stdout, reasoning and progress to stderr; --json prints the answer's JSON
 * object.  Errors of the step that failed. */
MUST_USE enum err run_run(const struct options *o);

#endif
