/* tests/skew.c - products whose bits depend on the number of rows. */
#include "tests/skew.h"

#include "model/backend.h"
#include "model/maths.h"

#include <stdlib.h>
#include <string.h>

enum { SKEW_STRIDE = 7 };

static enum err (*straight)(const struct ops_product *p);

/* Columns [lo, hi) of x, the others zero; the product's own sums, f32 [rows, n]. */
static enum err part(const struct ops_product *p, u32 lo, u32 hi, f32 *x, f32 *y)
{
    const f32 *from = p->x;
    u32 k = p->w->k;
    for (u32 r = 0; r < p->rows; r++)
        for (u32 i = 0; i < k; i++)
            x[(u64)r * k + i] = i >= lo && i < hi ? from[(u64)r * k + i] : 0.0f;
    return straight(&(struct ops_product){ .w = p->w, .x = x, .y = y, .rows = p->rows,
                                           .y_f32 = true, .work = p->work });
}

static enum err skew_product(const struct ops_product *p)
{
    u32 k = p->w->k, cut = 1 + p->rows * SKEW_STRIDE % MAX(k - 1, 1u);
    u64 count = (u64)p->rows * p->w->n;
    if (p->rows < 2 || k < 2) return straight(p);
    f32 *x = malloc((u64)p->rows * k * sizeof *x), *low = malloc(2 * count * sizeof *low);
    f32 *high = low + count, *y = p->y;
    enum err err = part(p, 0, cut, x, low);
    if (err == OK) err = part(p, cut, k, x, high);
    for (u64 i = 0; err == OK && i < count; i++) {
        f32 sum = maths_round_bf16(low[i]) + high[i];
        y[i] = p->y_f32 ? sum : maths_round_bf16(sum);
    }
    free(x);
    free(low);
    return err;
}

void skew_wrap(struct ops *ops)
{
    ASSERT(ops->act_bytes == sizeof(f32) && ops->product != skew_product);
    straight = ops->product;
    ops->product = skew_product;
    ops->name = "skew";
    ops->row_invariant = false;
}
