/* tiers/nvme/rates.c - averages of reads and prefills. */
#include "tiers/nvme/rates.h"

enum { RATES_MEMORY = 8 };

static void join(f64 *average, f64 value)
{
    if (!(value > 0)) return;
    *average = *average > 0 ? *average + (value - *average) / RATES_MEMORY : value;
}

void rates_read(struct rates *r, u64 bytes, u64 us)
{
    if (us > 0) join(&r->read_bytes_s, (f64)bytes * 1e6 / (f64)us);
}

void rates_prefill(struct rates *r, u64 tokens, u64 us)
{
    if (tokens > 0) join(&r->prefill_s_token, (f64)us / 1e6 / (f64)tokens);
}

bool rates_worth(const struct rates *r, u64 bytes, u64 tokens)
{
    if (tokens == 0) return false;
    if (!(r->read_bytes_s > 0) || !(r->prefill_s_token > 0)) return true;
    return (f64)bytes / r->read_bytes_s < (f64)tokens * r->prefill_s_token;
}
