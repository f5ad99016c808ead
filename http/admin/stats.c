/* http/admin/stats.c - one row of atomics. */
#include "http/admin/stats.h"

#include "arena/base/file_log.h"
#include "http/turn/gauges.h"

#include <stdatomic.h>
#include <string.h>

enum { STATS_CLASS_COUNT = 6, STATS_WEIGHT = 8 };

static struct {
    _Atomic u64 turns, cancelled, errors, nan, by_memory;
    _Atomic u64 status[STATS_CLASS_COUNT];              /* by hundreds; [0] = 429 and 503        */
    _Atomic u64 prompt_tokens, cached_tokens, forwarded_tokens, generated_tokens;
    _Atomic u64 source_turns[SOURCE_COUNT], source_tokens[SOURCE_COUNT];
    _Atomic u64 served_turns[SERVED_COUNT];
    _Atomic u64 draft_blocks[DRAFTER_COUNT], drafted[DRAFTER_COUNT], accepted[DRAFTER_COUNT];
    _Atomic u64 restore_us, prefill_us, decode_us, queue_us, ttft_us;
    _Atomic u64 turn_us, row_us;                        /* running averages                      */
} row;

void stats_reset(void) { memset(&row, 0, sizeof row); }

/* new = old + (value - old) / 8; a lost update between two threads is of no account. */
static void average(_Atomic u64 *at, u64 value)
{
    u64 old = atomic_load(at);
    u64 next = old == 0 ? value : (old * (STATS_WEIGHT - 1) + value) / STATS_WEIGHT;
    atomic_store(at, MAX(next, (u64)1));
}

void stats_turn(const struct turn_result *result, u64 prompt_tokens, u64 total_us)
{
    atomic_fetch_add(&row.turns, 1);
    if (result->finish == FINISH_CANCELLED) atomic_fetch_add(&row.cancelled, 1);
    if (result->nan) atomic_fetch_add(&row.nan, 1);
    if (result->finish == FINISH_ERROR) { atomic_fetch_add(&row.errors, 1); return; }
    if (result->by_memory) atomic_fetch_add(&row.by_memory, 1);
    atomic_fetch_add(&row.prompt_tokens, prompt_tokens);
    atomic_fetch_add(&row.cached_tokens, result->cached);
    atomic_fetch_add(&row.forwarded_tokens, result->forwarded);
    atomic_fetch_add(&row.generated_tokens, result->generated);
    if (result->served < SERVED_COUNT) atomic_fetch_add(&row.served_turns[result->served], 1);
    if (result->source < SOURCE_COUNT) {
        atomic_fetch_add(&row.source_turns[result->source], 1);
        atomic_fetch_add(&row.source_tokens[result->source], result->cached);
    }
    for (u32 d = 0; d < DRAFTER_COUNT; d++) {
        atomic_fetch_add(&row.draft_blocks[d], result->drafts[d].blocks);
        atomic_fetch_add(&row.drafted[d], result->drafts[d].drafted);
        atomic_fetch_add(&row.accepted[d], result->drafts[d].accepted);
    }
    atomic_fetch_add(&row.restore_us, result->restore_us);
    atomic_fetch_add(&row.prefill_us, result->prefill_us);
    atomic_fetch_add(&row.decode_us, result->decode_us);
    atomic_fetch_add(&row.queue_us, result->queue_us);
    atomic_fetch_add(&row.ttft_us, result->ttft_us);
    average(&row.turn_us, total_us);
    if (result->forwarded >= 64) average(&row.row_us, result->prefill_us / result->forwarded);
}

void stats_cancelled(void) { atomic_fetch_add(&row.cancelled, 1); }

void stats_status(u32 status)
{
    u32 hundreds = status / 100;
    atomic_fetch_add(&row.status[hundreds < STATS_CLASS_COUNT ? hundreds : 0], 1);
}

u64 stats_turn_us(void) { return atomic_load(&row.turn_us); }
u64 stats_row_us(void) { return atomic_load(&row.row_us); }

static void counter(struct text *out, const char *name, const char *help, u64 value)
{
    text_f(out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s counter\nholdfast_%s %llu\n", name, help,
           name, name, (ull)value);
}

static void gauge(struct text *out, const char *name, const char *help, u64 value)
{
    text_f(out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s gauge\nholdfast_%s %llu\n", name, help,
           name, name, (ull)value);
}

static void seconds(struct text *out, const char *name, const char *help, u64 us)
{
    text_f(out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s counter\nholdfast_%s %.6f\n", name, help,
           name, name, (f64)us / 1e6);
}

/* One number a drafter. */
static void by_drafter(struct text *out, const char *name, const char *help, _Atomic u64 *values)
{
    text_f(out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s counter\n", name, help, name);
    for (u32 d = 0; d < DRAFTER_COUNT; d++)
        text_f(out, "holdfast_%s{drafter=\"%s\"} %llu\n", name, turn_drafter_word[d],
               (ull)atomic_load(&values[d]));
}

/* What the lookup drafter finds things in; what came of its proposals is by_drafter's. */
static void suffix_store(struct text *out)
{
    struct gauges g = gauges_get();
    gauge(out, "suffix_tokens", "Token ids held by the suffix store.", g.suffix_tokens);
    gauge(out, "suffix_bytes", "Bytes of the suffix store's log.", g.suffix_bytes);
    gauge(out, "suffix_memory_bytes", "Memory of the suffix store, its indexes and the corpus.",
          g.suffix_memory_bytes);
    counter(out, "suffix_lookups_total", "Contexts looked up in what was read and written before.",
            g.suffix_lookups);
    counter(out, "suffix_hits_total", "Lookups whose context had stood there before.",
            g.suffix_hits);
    counter(out, "suffix_proposed_tokens_total", "Tokens that lookups proposed, verified or not.",
            g.suffix_proposed);
}

void stats_metrics(struct text *out)
{
    counter(out, "turns_total", "Turns that came to an end.", atomic_load(&row.turns));
    counter(out, "turns_cancelled_total", "Turns ended by their client or a drain.",
            atomic_load(&row.cancelled));
    counter(out, "turns_failed_total", "Turns refused by the gate or ended by a fault.",
            atomic_load(&row.errors));
    counter(out, "turns_not_numbers_total", "Turns that failed because a logit was NaN.",
            atomic_load(&row.nan));
    counter(out, "turns_cut_by_memory_total", "Turns that could not grow.",
            atomic_load(&row.by_memory));
    counter(out, "prompt_tokens_total", "Tokens of prompts, cached or not.",
            atomic_load(&row.prompt_tokens));
    counter(out, "cached_tokens_total", "Prompt tokens found in place.",
            atomic_load(&row.cached_tokens));
    counter(out, "forwarded_tokens_total", "Prompt tokens put through the model.",
            atomic_load(&row.forwarded_tokens));
    counter(out, "decode_file_waits_total", "File calls made where a decoding slot waits for them.",
            file_log_waits());
    counter(out, "generated_tokens_total", "Tokens sampled.", atomic_load(&row.generated_tokens));
    text_str(out, "# HELP holdfast_prompt_tokens_by_source_total Cached prompt tokens by source.\n"
             "# TYPE holdfast_prompt_tokens_by_source_total counter\n");
    for (u32 i = 0; i < SOURCE_COUNT; i++)
        text_f(out, "holdfast_prompt_tokens_by_source_total{source=\"%s\"} %llu\n",
               turn_source_word[i], (ull)atomic_load(&row.source_tokens[i]));
    text_str(out, "# HELP holdfast_turns_by_source_total Turns by source of their start.\n"
             "# TYPE holdfast_turns_by_source_total counter\n");
    for (u32 i = 0; i < SOURCE_COUNT; i++)
        text_f(out, "holdfast_turns_by_source_total{source=\"%s\"} %llu\n", turn_source_word[i],
               (ull)atomic_load(&row.source_turns[i]));
    text_str(out, "# HELP holdfast_turns_by_served_total Turns by whose ids their prompt was.\n"
             "# TYPE holdfast_turns_by_served_total counter\n");
    for (u32 i = 0; i < SERVED_COUNT; i++)
        text_f(out, "holdfast_turns_by_served_total{served=\"%s\"} %llu\n", turn_served_word[i],
               (ull)atomic_load(&row.served_turns[i]));
    by_drafter(out, "draft_blocks_total", "Proposals verified.", row.draft_blocks);
    by_drafter(out, "drafted_tokens_total", "Tokens proposed.", row.drafted);
    by_drafter(out, "accepted_tokens_total", "Proposed tokens that were right.", row.accepted);
    text_str(out, "# HELP holdfast_responses_total Answers by class of status.\n"
             "# TYPE holdfast_responses_total counter\n");
    for (u32 i = 1; i < STATS_CLASS_COUNT; i++)
        text_f(out, "holdfast_responses_total{class=\"%uxx\"} %llu\n", i,
               (ull)atomic_load(&row.status[i]));
    seconds(out, "restore_seconds_total", "Restoring state.", atomic_load(&row.restore_us));
    seconds(out, "prefill_seconds_total", "Forwarding prompts.", atomic_load(&row.prefill_us));
    seconds(out, "decode_seconds_total", "Generating.", atomic_load(&row.decode_us));
    seconds(out, "queue_seconds_total", "Waiting for a slot.", atomic_load(&row.queue_us));
    gauge(out, "queue_depth", "Turns waiting.", submit_queued());
    suffix_store(out);
}
