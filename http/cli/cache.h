/* http/cli/cache.h - `holdfast cache`: what lies in a cache folder, or in a running server's. */
#ifndef CLI_CACHE_H
#define CLI_CACHE_H

#include "http/options.h"

/* ls, show ID and verify read the folder, also while a server uses it; clear takes its lock, or
 * asks the server.  ERR_USAGE: bad words, or clear without --yes where nobody can be asked. */
MUST_USE enum err cache_run(const struct options *o);

#endif
