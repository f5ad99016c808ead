/* tests/bench/suffix.c - the suffix store with 4 million ids: lookup, open, build, add, memory.
 *
 *   ./build.sh test bench/suffix && cat build/logs/bench_suffix.log
 *
 * Ids as an agent has them in a day: half of a request is copied from what was said before, in runs
 * of 20 to 400; the rest is drawn so that few ids are frequent and most are rare.  Bounds asked of
 * it: a lookup under 100 us, an open under 1 s, memory as node `suffix` says.  BENCH_SUFFIX_MB=192
 * fills the default cap instead (48 million ids; a minute of sorting). */
#define STORE_VOCAB_COUNT 200000
#include "tests/suffix.h"

#include <time.h>

enum { REQUEST = 8000, LIVE = 100000, CALLS = 4000, MOST = 16 };

static u32 *day;                            /* every id that was added                         */
static u64 day_count, drawn;
static u32 live[LIVE];

static u64 roll(u64 below) { return rng_u64(17, drawn++) % below; }

/* Frequent ids are small: a uniform exponent, then uniform below. */
static u32 one_id(void) { return (u32)(roll(1u << (1 + roll(17))) + 10) % STORE_VOCAB; }

static void draw(u32 *to, u64 count)
{
    for (u64 at = 0; at < count;) {
        u64 run = 20 + roll(380);
        run = MIN(run, count - at);
        if (roll(2) == 0 && day_count > 1000) {
            u64 from = roll(day_count - MIN(run, day_count - 1));
            memcpy(to + at, day + from, run * sizeof *to);
        } else {
            for (u64 i = 0; i < run; i++) to[at + i] = one_id();
        }
        at += run;
    }
}

static f64 ms_since(u64 from_us) { return (f64)(clock_us() - from_us) / 1e3; }

static void sort_all(void)
{
    while (suffix_log_counts().sorted + 1 < suffix_log_counts().segments) {     /* ends: builds */
        struct writer_answer answer;
        u32 seen = ring_word(&store_wake);
        while (writer_done(&answer)) suffix_log_written(&answer);
        if (!suffix_log_pass(clock_us())) ring_wait(&store_wake, seen, clock_us() + 1000000);
    }
}

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return x < y ? -1 : x > y;
}

/* Contexts that end in something said before (with another head), or in nothing of the kind. */
static void measure(const char *what, bool said, u64 count)
{
    static f64 us[CALLS];
    u32 out[MOST], match;
    u64 matched = 0, proposed = 0;
    draw(live, count);
    for (u32 i = 0; i < CALLS; i++) {
        u64 at = roll(day_count - 100);
        if (said) memcpy(live + count - 8 - roll(24), day + at, 8 * sizeof *live);
        for (u64 k = 0; k < 8; k++) live[count - 8 + k] = said ? day[at + k] : one_id();
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        proposed += lookup_propose(&(struct lookup_context){ live, count }, MOST, out, &match);
        clock_gettime(CLOCK_MONOTONIC, &b);
        us[i] = 1e6 * (f64)(b.tv_sec - a.tv_sec) + 1e-3 * (f64)(b.tv_nsec - a.tv_nsec);
        matched += match;
    }
    qsort(us, CALLS, sizeof *us, by_value);
    printf("lookup, %s, %llu ids live: best %.1f, median %.1f us, 99 of 100 under %.1f us, "
           "worst %.1f us; match %.1f ids, proposed %.1f\n", what, (ull)count, us[0],
           us[CALLS / 2], us[CALLS - CALLS / 100], us[CALLS - 1], (f64)matched / CALLS,
           (f64)proposed / CALLS);
}

TEST(bench_the_store_with_four_million_ids)
{
    const char *mb = getenv("BENCH_SUFFIX_MB");
    u64 cap = 192 * MIB, ids = mb != NULL ? strtoull(mb, NULL, 10) * MIB / 4 * 15 / 16 : 4000000;
    static u32 request[REQUEST];
    struct store_setup setup = { .cap_bytes = cap, .files = true, .thread = true, .ctx = LIVE };
    day = malloc((ids + REQUEST) * sizeof *day);
    CHECK(day != NULL);
    store_new_folder();
    store_open(&setup);
    u64 from_us = clock_us();
    while (day_count < ids) {
        u64 session[2] = { day_count, 1 };
        draw(request, REQUEST);
        suffix_log_add(request, REQUEST, session);
        memcpy(day + day_count, request, sizeof request);
        day_count += REQUEST;
        suffix_log_pass(clock_us());
    }
    printf("added %llu ids by %u: %.0f ms with drawing them\n", (ull)day_count, REQUEST,
           ms_since(from_us));
    measure("arrays still being built", true, 4000);
    sort_all();
    struct suffix_log_counts c = suffix_log_counts();
    printf("%llu segments sorted by %llu builds: %.0f ms on average, %.0f ms the longest\n",
           (ull)c.sorted, (ull)c.builds, (f64)c.build_us / 1e3 / (f64)MAX(c.builds, 1),
           (f64)c.build_us_max / 1e3);
    printf("memory: %.1f MiB = %.2f bytes an id; the log %.1f MiB, in files %.1f MiB\n",
           (f64)c.memory_bytes / (f64)MIB, (f64)c.memory_bytes / (f64)c.ids,
           (f64)c.bytes / (f64)MIB, (f64)c.file_bytes / (f64)MIB);
    for (u32 i = 0; i < 2; i++) {
        measure("said before", true, i ? LIVE : 200);
        measure("never said", false, i ? LIVE : 200);
    }
    from_us = clock_us();
    draw(live, LIVE);
    u64 session[2] = { 9, 9 };
    f64 drawing = ms_since(from_us);
    from_us = clock_us();
    suffix_log_add(live, LIVE, session);
    printf("a request of %d new ids is added in %.1f ms (drawn in %.1f)\n", LIVE,
           ms_since(from_us), drawing);
    suffix_log_flush();
    store_close();
    from_us = clock_us();
    store_open(&setup);
    printf("open: %.0f ms for %llu ids, nothing sorted yet\n", ms_since(from_us),
           (ull)suffix_log_counts().ids);
    CHECK(suffix_log_counts().ids >= day_count);
    sort_all();
    u32 node = budget_graph_find(&store_graph, "suffix");
    budget_graph_refresh(&store_graph);
    printf("all searched %.0f ms later; node suffix %.1f MiB\n", ms_since(from_us),
           (f64)store_graph.node[node].used_bytes / (f64)MIB);
    store_close();
    store_remove_folder();
    free(day);
}
