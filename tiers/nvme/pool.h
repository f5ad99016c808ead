/* tiers/nvme/pool.h - pool nvme of the budget: nodes disk, spill and others, their caps, and the
 * folders of other models.
 *
 *   nvme ─ disk     line anchors and what they stand on
 *        ─ spill    what conversations alone hold
 *        ─ others   folders of another fingerprint, as they were found at start
 * Others have what disk and spill leave of their two caps: when own files need it, or the file
 * system's floor does, the folder unused longest goes, by the writer.  A cap that is lowered takes
 * effect at once: least valuable first.  Engine thread. */
#ifndef NVME_POOL_H
#define NVME_POOL_H

#include "budget/graph.h"
#include "tiers/nvme/disk.h"
#include "tiers/nvme/spill.h"

/* Before budget_graph_check.  ERR_CONFIG, ERR_FULL. */
MUST_USE enum err pool_declare(struct budget_graph *g, u64 disk_bytes, u64 spill_bytes);
/* After the tables were scanned and disk_open: other folders are looked at, those that go by age,
 * arithmetic or room are removed.  ERR_IO. */
MUST_USE enum err pool_open(struct budget_graph *g, const struct fingerprint *place,
                            const struct disk_knobs *knobs, u64 now_s);
void pool_close(void);

/* Tiers within their caps and ages again, others within what is left, nodes' bytes counted.  After
 * files came or went, after a cap or knob changed; `aged`: look at ages too. */
void pool_settle(u64 now_s, bool aged);
/* The writer has removed the folder of row `owner`, or not. */
void pool_answer(u32 owner, enum err err);
/* A knob by its flag's name: disk-free-gb, spill-free-gb, nvme-write-gb-day (bytes), disk-unused-s
 * (microseconds).  False: none of these, or the tiers are off. */
bool pool_set(const char *name, u64 value);
/* A cap of node `nvme` itself is none: it is what its nodes have. */
bool pool_is_sum(const char *name);

struct pool_counts { u32 others, others_removed; u64 others_bytes; };
struct pool_counts pool_counts(void);

#endif
