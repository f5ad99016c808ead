/* tiers/store.h - policy of class store: short conversations after their turn (session entries) and
 * heads of prefills (prefix entries), each at most the entry cap in gross bytes (tiers.md 8). */
#ifndef TIERS_STORE_H
#define TIERS_STORE_H

#include "tiers/aside/aside.h"

/* The longest line at or below `limit` where the record has an anchor and whose rows and section
 * set fit the entry cap, or 0.  Pure. */
u64  store_line(u32 record, u64 limit);
/* A prefix entry at the longest line of a prefill of `prompt_count` ids that started at `start`;
 * nothing when no line was passed or an entry holds it already.  It replaces the entries of its
 * session that it covers. */
void store_prefix(u32 record, u64 start, u64 prompt_count);

#endif
