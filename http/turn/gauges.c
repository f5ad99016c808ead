/* http/turn/gauges.c - one atomic a figure. */
#include "http/turn/gauges.h"

#include "tiers/suffix/log.h"
#include "tiers/suffix/lookup.h"

#include <stdatomic.h>

static struct {
    _Atomic u64 suffix_tokens, suffix_bytes, suffix_memory_bytes;
    _Atomic u64 suffix_lookups, suffix_hits, suffix_proposed;
} row;

void gauges_put(void)
{
    struct suffix_log_counts log = suffix_log_counts();
    struct lookup_counts lookup = lookup_counts();
    atomic_store(&row.suffix_tokens, log.ids);
    atomic_store(&row.suffix_bytes, log.bytes);
    atomic_store(&row.suffix_memory_bytes, log.memory_bytes);
    atomic_store(&row.suffix_lookups, lookup.lookups);
    atomic_store(&row.suffix_hits, lookup.hits);
    atomic_store(&row.suffix_proposed, lookup.ids);
}

struct gauges gauges_get(void)
{
    return (struct gauges){
        .suffix_tokens = atomic_load(&row.suffix_tokens),
        .suffix_bytes = atomic_load(&row.suffix_bytes),
        .suffix_memory_bytes = atomic_load(&row.suffix_memory_bytes),
        .suffix_lookups = atomic_load(&row.suffix_lookups),
        .suffix_hits = atomic_load(&row.suffix_hits),
        .suffix_proposed = atomic_load(&row.suffix_proposed),
    };
}
