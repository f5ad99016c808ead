/* tests/bench/nvme_decode.c - tokens a second of a decoding slot with a saturated writer beside
 * without: one long answer, cut in stretches that take turns, the median of the pairs' ratios.
 *
 *   BENCH_MODEL=folder ./build.sh test bench/nvme_decode && cat build/logs/bench_nvme_decode.log
 *
 * Without BENCH_MODEL the tiny one.  Files go to NVME_DIR (default /tmp); the goal is 0.95.  The
 * writer needs a core: on a machine whose cores are all taken the figure says little. */
#define MICRO_IDS_CAP 4096
#include "tests/micro.h"

#include "arena/base/clock.h"
#include "tests/bench/median.h"

#include <unistd.h>

enum { G = 256, B = 64, PAIRS = 9, WARM = 8 };

static struct micro_ask ask;
static struct fingerprint place;
static u64 serial;

/* Chunks of the live rows, over and over, and the removal of each. */
static void keep_busy(const block_id *block, const u64 *keys)
{
    struct writer_ask piece = { .kind = WRITER_PIECE, .piece = FORMAT_CHUNK, .hi = G, .keys = keys,
                                .block = block, .always = true };
    while (writer_room() >= 2) {
        struct writer_ask gone = { .kind = WRITER_REMOVE };
        piece.hash[0] = ++serial;
        format_name(FORMAT_CHUNK, piece.hash, gone.name);
        CHECK(writer_submit(&piece) && writer_submit(&gone));
    }
}

static void answers(void)
{
    struct writer_answer answer;
    while (writer_done(&answer)) CHECK_OK(answer.err);
}

/* Tokens a second over so many tokens. */
static f64 stretch(u32 tokens, const block_id *block, const u64 *keys)
{
    u64 from_us = clock_us(), until = ask.out_count + tokens;
    while (ask.out_count < until) {     /* ends: a pass makes a token                         */
        if (keys != NULL) keep_busy(block, keys);
        engine_pass();
        answers();
        CHECK(!micro_poll(&ask));
    }
    f64 got = (f64)tokens * 1e6 / (f64)MAX(clock_us() - from_us, 1u);
    while (writer_pending() > 0 && writer_drain(UINT64_MAX)) answers();
    return got;
}

/* The tables have room for a writer, though the engine opens none: this one has a thread. */
static void room_for_a_writer(struct ops *ops)
{
    (void)ops;
    strcpy(micro.profile.cache_dir, "/");
}

TEST(decoding_beside_a_saturated_writer)
{
    const char *dir = getenv("NVME_DIR"), *model = getenv("BENCH_MODEL");
    u32 rounds = model == NULL ? 120 : 40, count;
    f64 alone[PAIRS], beside[PAIRS], ratio[PAIRS];
    u64 keys[G], rows, bytes = 0, us = 0;
    char folder[64];
    struct ring_wake wake = { .event_fd = -1 };
    struct fingerprint_source source = { .weights = { 1, 2 }, .backend = "cpu" };
    micro_open(&(struct micro_setup){ .dir = model, .ctx = 4096, .block_rows = B, .grid_rows = G,
                                      .pool_bytes = 4 * GIB, .wrap = room_for_a_writer });
    snprintf(folder, sizeof folder, "%s/holdfast-bench-XXXXXX", dir == NULL ? "/tmp" : dir);
    CHECK(mkdtemp(folder) != NULL);
    CHECK_OK(fingerprint_open(folder, state_shape(), &source, 1, &place));
    CHECK_OK(writer_open(&(struct writer_setup){ .table_arena = arena_find("tables"),
        .row_cap = 16, .remove_cap = 16, .place = &place, .wake = &wake, .thread = true,
        .day_cap_bytes = UINT64_MAX / 2 }));
    micro_prompt(&ask, G + 8, 7, 2 * PAIRS * (u64)rounds + 16 * WARM);
    micro_push(&ask);
    while (turn_count(TURN_DECODE) == 0) engine_pass();
    stretch(WARM, NULL, NULL);
    for (u64 i = 0; i < G; i++) keys[i] = ask.ids[i];
    const block_id *block = record_blocks(resident_record(0), &count, &rows);
    for (u32 i = 0; i < PAIRS; i++) {
        if (i % 2 == 0) alone[i] = stretch(rounds, block, NULL);
        u64 was = writer_counts().piece_bytes, was_us = writer_counts().piece_us;
        beside[i] = stretch(rounds, block, keys);
        bytes += writer_counts().piece_bytes - was;
        us += writer_counts().piece_us - was_us;
        if (i % 2 == 1) alone[i] = stretch(rounds, block, NULL);
        ratio[i] = beside[i] / alone[i];
    }
    CHECK_EQ(turn_count(TURN_DECODE), 1);
    CHECK(bytes > 0);
    printf("%u pairs of %u tokens: alone %.1f tokens/s, beside a writer of %.2f GB/s (%.0f MiB) "
           "%.1f; median of ratios %.3f (goal 0.95)\n", PAIRS, rounds, median(alone, PAIRS),
           (f64)bytes / (f64)MAX(us, 1u) / 1e3, (f64)bytes / (f64)MIB, median(beside, PAIRS),
           median(ratio, PAIRS));
    writer_close();
    fingerprint_close(&place, 1);
    micro_wait(&ask);
    micro_close();
    CHECK_OK(file_remove_folder(place.folder));
    CHECK_OK(file_remove_folder(folder));
}
