/* http/cli/memdiff.h - `holdfast mem diff A B`: what changed between two JSON dumps. */
#ifndef CLI_MEMDIFF_H
#define CLI_MEMDIFF_H

#include "arena/base/err.h"

/* Prints nodes, arenas, records and figures that differ, A, B and B - A, or that nothing does.
 * ERR_NOT_FOUND, ERR_IO, ERR_FORMAT: a file is no dump. */
MUST_USE enum err memdiff_run(const char *path_a, const char *path_b);

#endif
