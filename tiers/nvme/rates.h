/* tiers/nvme/rates.h - is reading from the NVMe faster than forwarding?  Running averages, seeded
 * by the profile's keys or a short probe. */
#ifndef NVME_RATES_H
#define NVME_RATES_H

#include "arena/base/err.h"

struct rates { f64 read_bytes_s, write_bytes_s, prefill_s_token; };     /* 0: not known           */

/* One measurement joins the average with weight 1/8; nonsense (0 of anything) does not. */
void rates_read(struct rates *r, u64 bytes, u64 us);
void rates_write(struct rates *r, u64 bytes, u64 us);
void rates_prefill(struct rates *r, u64 tokens, u64 us);

/* Writes and reads 4 MiB in the folder for the rates of files that are not known; nothing is left
 * there.  Without direct I/O only the write rate: reads would come from the page cache.  ERR_IO,
 * ERR_MEMORY: *r is as it was. */
MUST_USE enum err rates_probe(const char *folder, bool direct, struct rates *r);

/* bytes / read rate < tokens * prefill time; 0 tokens: false.  An unknown rate says yes. */
bool rates_worth(const struct rates *r, u64 bytes, u64 tokens);

#endif
