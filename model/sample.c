/* model/sample.c - penalties, the order of candidates, cuts, one draw.
 *
 * Order: ids by falling logit, ties to the lower id; p_i = exp((l_i - l_0) / T); every sum runs
 * left to right in that order.  Cuts shorten the list in turn: top_k, top_p (smallest prefix whose
 * sum reaches top_p of the sum), min_p (p_i >= min_p, as p_0 = 1). */
#include "model/sample.h"

#include <string.h>

#include "arena/base/rng.h"
#include "model/maths.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, DIGIT_PASSES = 3 };

/* Smaller keys are larger logits; NaN counts as the smallest logit, -0 as +0. */
static u32 key_of(f32 logit)
{
    union { f32 f; u32 u; } x = { .f = logit == logit ? logit + 0.0f : -__builtin_inff() };
    return x.u & 0x80000000u ? x.u : ~(x.u | 0x80000000u);
}

static u32 count_of(const struct sample_input *in)
{
    return MIN(in->candidates, in->vocab);
}

/* Penalties, in this order: repetition over all served ids, frequency, presence. */
static void penalise(const struct sample_settings *s, const struct sample_input *in, u32 *count)
{
    u32 n = count_of(in);
    bool repeats = s->repetition_penalty != 1.0f;
    bool tokens = s->frequency_penalty != 0.0f || s->presence_penalty != 0.0f;
    if (!repeats && !tokens) return;
    memset(count, 0, n * sizeof *count);
    const u32 *generated = in->ids + in->prompt_count;
    for (u64 i = 0; i < in->generated_count; i++)
        if (generated[i] < n) count[generated[i]]++;
    for (u64 i = 0; repeats && i < in->prompt_count; i++)       /* served, not generated      */
        if (in->ids[i] < n) count[in->ids[i]] |= 0x80000000u;
    for (u32 id = 0; id < n; id++) {
        u32 times = count[id] & 0x7fffffffu;
        f32 l = in->logits[id];
        if (count[id] == 0) continue;
        if (repeats) l = l > 0.0f ? l / s->repetition_penalty : l * s->repetition_penalty;
        if (times > 0) {
            l = l - s->frequency_penalty * (f32)times;
            l = l - s->presence_penalty;
        }
        in->logits[id] = l;
    }
}

static u32 greedy(const struct sample_input *in)
{
    u32 best = 0, best_key = key_of(in->logits[0]);
    for (u32 id = 1; id < count_of(in); id++) {
        u32 key = key_of(in->logits[id]);
        if (key < best_key) { best_key = key; best = id; }
    }
    return best;
}

/* Ids whose leading digit is at most that of the k-th best, ascending; at least min(k, n). */
static u32 collect(const struct sample_input *in, u32 k, u32 *out)
{
    u32 histogram[DIGITS] = { 0 }, n = count_of(in), last = 0, count = 0;
    for (u32 id = 0; id < n; id++) histogram[key_of(in->logits[id]) >> (32 - DIGIT_BITS)]++;
    for (u32 sum = histogram[0]; sum < k && last + 1 < DIGITS; sum += histogram[++last]) {}
    for (u32 id = 0; id < n; id++)
        if (key_of(in->logits[id]) >> (32 - DIGIT_BITS) <= last) out[count++] = id;
    return count;
}

/* Stable radix sort of ids by key; DIGIT_PASSES is odd, so the result lies in `other`. */
static void sort_ids(const f32 *logits, u32 *ids, u32 *other, u32 count)
{
    for (u32 pass = 0; pass < DIGIT_PASSES; pass++) {
        u32 start[DIGITS + 1] = { 0 }, shift = pass * DIGIT_BITS;
        for (u32 i = 0; i < count; i++)
            start[(key_of(logits[ids[i]]) >> shift & (DIGITS - 1)) + 1]++;
        for (u32 d = 0; d < DIGITS; d++) start[d + 1] += start[d];
        for (u32 i = 0; i < count; i++)
            other[start[key_of(logits[ids[i]]) >> shift & (DIGITS - 1)]++] = ids[i];
        u32 *swap = ids;
        ids = other;
        other = swap;
    }
}

/* p_i of the ordered ids, then the length after all cuts. */
static u32 cut(const struct sample_settings *s, const f32 *logits, const u32 *ids, u32 count,
               f32 *p)
{
    f32 first = logits[ids[0]], sum = 0.0f;
    for (u32 i = 0; i < count; i++) {
        f32 below = (logits[ids[i]] - first) / s->temperature;
        p[i] = below <= 0.0f ? maths_exp(below) : 0.0f;         /* NaN: never chosen          */
        sum = sum + p[i];
    }
    if (s->top_p < 1.0f) {
        f32 want = s->top_p * sum, so_far = 0.0f;
        u32 keep = 0;
        while (keep < count) {
            so_far = so_far + p[keep++];
            if (so_far >= want) break;
        }
        count = keep;
    }
    while (count > 1 && p[count - 1] < s->min_p) count--;
    return count;
}

u32 sample_row(const struct sample_settings *s, const struct sample_input *in, void *work)
{
    u32 n = count_of(in);
    u32 *ids = work, *other = ids + in->vocab;
    ASSERT(n > 0);
    penalise(s, in, ids);
    u32 best = greedy(in);
    if (!(s->temperature > 0.0f) || !__builtin_isfinite(in->logits[best])) return best;
    u32 k = s->top_k == 0 || s->top_k > n ? n : s->top_k;
    u32 count = collect(in, k, ids);
    sort_ids(in->logits, ids, other, count);
    f32 *p = (f32 *)work;                       /* the sorted ids lie in `other`              */
    count = cut(s, in->logits, other, MIN(count, k), p);
    f32 sum = 0.0f, so_far = 0.0f;
    for (u32 i = 0; i < count; i++) sum = sum + p[i];
    f32 draw = rng_f32(s->seed, in->generated_count) * sum;
    for (u32 i = 0; i < count; i++) {
        so_far = so_far + p[i];
        if (so_far > draw) return other[i];
    }
    return other[0];
}
