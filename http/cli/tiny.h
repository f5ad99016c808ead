/* http/cli/tiny.h - `holdfast tiny DIR`: a seeded random checkpoint for tests. */
#ifndef CLI_TINY_H
#define CLI_TINY_H

#include "http/options.h"

/* Writes the folder and prints one line.  ERR_USAGE, ERR_UNSUPPORTED, ERR_IO. */
MUST_USE enum err tiny_run(const struct options *o);

#endif
