/* tests/embed.h - a backend whose n-th embedding from now on fails: the first chunk of a prefill.
 *
 * micro_setup.wrap = wrap_embed; fail_embed = n, 0: none fails. */
#ifndef TESTS_EMBED_H
#define TESTS_EMBED_H

#include "model/backend.h"

static u32 fail_embed;
static enum err (*real_embed)(const u8 *, enum ops_source, const u32 *, u32, u32, void *);

static enum err embed(const u8 *table, enum ops_source type, const u32 *ids, u32 rows, u32 h,
                      void *x)
{
    if (fail_embed > 0 && --fail_embed == 0) return fail(ERR_DEVICE, "the test says so");
    return real_embed(table, type, ids, rows, h, x);
}

static void wrap_embed(struct ops *ops)
{
    real_embed = ops->embed;
    ops->embed = embed;
}

#endif
