/* http/cli/serve.h - the word `serve`: the server, from its flags to its last line. */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "http/options.h"

/* Serves until SIGTERM or SIGINT and a drain.  Errors are those of the step that failed; nothing
 * is left open then. */
MUST_USE enum err serve_run(const struct options *o);

#endif
