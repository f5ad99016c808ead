/* model/logprob.c - log softmax of the chosen id and of the most likely ones. */
#include "model/logprob.h"

#include "model/maths.h"

/* Puts `id` behind all that are at least as likely; the list is as long as it may be or grows. */
static void rank(struct logprob_row *out, u32 top_count, u32 id, f32 logit)
{
    u32 at = out->top_count < top_count ? out->top_count++ : top_count - 1;
    for (; at > 0 && out->top[at - 1] < logit; at--) {
        out->top_id[at] = out->top_id[at - 1];
        out->top[at] = out->top[at - 1];
    }
    out->top_id[at] = id;
    out->top[at] = logit;
}

void logprob_of(const f32 *logits, u32 candidates, u32 id, u32 top_count, struct logprob_row *out)
{
    f32 most = -__builtin_inff();
    f64 sum = 0;
    ASSERT(top_count <= LOGPROB_TOP);
    *out = (struct logprob_row){0};
    for (u32 i = 0; i < candidates; i++) {
        f32 logit = logits[i];
        if (logit > most) most = logit;
        if (top_count == 0 || logit != logit) continue;
        if (out->top_count < top_count || logit > out->top[top_count - 1])
            rank(out, top_count, i, logit);
    }
    for (u32 i = 0; i < candidates; i++)
        if (logits[i] == logits[i]) sum += (f64)maths_exp(logits[i] - most);
    f32 scale = maths_log((f32)sum);
    out->chosen = id < candidates ? logits[id] - most - scale : -__builtin_inff();
    for (u32 i = 0; i < out->top_count; i++) out->top[i] = out->top[i] - most - scale;
}
