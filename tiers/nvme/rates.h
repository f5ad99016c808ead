/* tiers/nvme/rates.h - is reading from the NVMe faster than forwarding?  Running averages. */
#ifndef NVME_RATES_H
#define NVME_RATES_H

#include "arena/base/base.h"

struct rates { f64 read_bytes_s, prefill_s_token; };

/* One measurement joins the average with weight 1/8; nonsense (0 of anything) does not. */
void rates_read(struct rates *r, u64 bytes, u64 us);
void rates_prefill(struct rates *r, u64 tokens, u64 us);

/* bytes / read rate < tokens * prefill time; 0 tokens: false.  An unknown rate says yes. */
bool rates_worth(const struct rates *r, u64 bytes, u64 tokens);

#endif
