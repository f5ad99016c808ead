/* http/turn/gauges.h - figures of the engine's tables for threads that may not read them: /metrics.
 *
 * The engine thread puts them there at its start and at the end of a pass that changed a table; who
 * reads them never waits for it.  Each figure is whole, but two may be of two passes. */
#ifndef TURN_GAUGES_H
#define TURN_GAUGES_H

#include "arena/base/base.h"

struct gauges {
    u64 suffix_tokens, suffix_bytes;    /* ids in the suffix store; of its words              */
    u64 suffix_memory_bytes;            /* words, places and arrays, --corpus too             */
    u64 suffix_lookups, suffix_hits;    /* contexts looked up; those that stood there before  */
    u64 suffix_proposed;                /* ids proposed                                       */
};

/* Engine thread: as things stand. */
void gauges_put(void);
/* Any thread: as of the last gauges_put; zeros before. */
struct gauges gauges_get(void);

#endif
