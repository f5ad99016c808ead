/* verify.c - looking at rows and keeping some of them: any cut equals plain steps, by memcmp. */
#include "arena/base/rng.h"
#include "tests/cold.h"
#include "tests/micromodel.h"
#include "tests/model/rig.h"

enum { B = 8, ROWS = 24, SPARE = 3, IDS = 160 };

static u32 ids[SPARE + 1][IDS];

static void open_model(const char *dir, const char *level, u32 threads, bool reference)
{
    space_host_granule(4096);
    rig_open(&(struct rig){ .dir = dir, .level = level, .threads = threads, .block_rows = B,
                            .grid_rows = 32, .slots = SPARE + 1, .ctx_rows = IDS,
                            .verify_rows = ROWS, .reference = reference,
                            .draft = MODEL_DRAFT_AUTO });
    for (u32 slot = 0; slot <= SPARE; slot++)
        for (u32 i = 0; i < IDS; i++)
            ids[slot][i] = (u32)(rng_u64(slot + 7, i) % forward_vocab());
}

static void close_model(void)
{
    rig_close();
    space_host_granule(0);
}

/* The slot holds rows [0, rows) of its ids. */
static void start(u32 slot, u32 rows)
{
    slot_drop(slot);
    CHECK_OK(slot_grow(slot, IDS));
    CHECK_OK(forward_chunk(slot, ids[slot], rows, NULL));
}

/* Its state is the cold run's of its first rows; `logits` those of the last one. */
static void check_slot(u32 slot, const f32 *logits)
{
    u64 rows = slot_row(slot)->len;
    cold_compare(SPARE, slot, ids[slot], rows, logits);
}

/* One verification of `count` rows of `slot` whose last `wrong` ids are not its own. */
static void look(u32 slot, u32 count, u32 wrong, f32 *logits)
{
    u32 given[ROWS];
    u64 at = slot_row(slot)->len;
    for (u32 i = 0; i < count; i++)
        given[i] = i + wrong < count ? ids[slot][at + i]
                                     : (ids[slot][at + i] + 1) % forward_vocab();
    struct forward_span span = { slot, count, given, count };
    CHECK_OK(forward_verify(&span, 1, logits));
    CHECK_EQ(slot_row(slot)->len, at + (count == 1 ? 1 : 0));
}

static void every_cut(void)
{
    f32 *logits = malloc((u64)ROWS * forward_vocab() * sizeof *logits);
    for (u32 rows = 1; rows < 16; rows += 7)
        for (u32 count = 1; count <= 9; count += count > 3 ? 5u : 1u)
            for (u32 kept = 1; kept <= count; kept++) {
                start(0, rows);
                look(0, count, count - kept, logits);
                CHECK_OK(forward_accept(0, kept));
                check_slot(0, logits + (u64)(kept - 1) * forward_vocab());
                CHECK_OK(forward_chunk(0, ids[0] + rows + kept, 3, logits));
                check_slot(0, logits);
            }
    free(logits);
}

TEST(a_cut_at_any_row_is_the_state_of_as_many_steps)
{
    open_model(NULL, NULL, 2, false);
    every_cut();
    close_model();
}

TEST(a_cut_at_any_row_with_scalar_code_and_in_the_reference_mode)
{
    open_model(micromodel_draft_dir(), "scalar", 1, false);
    every_cut();
    close_model();
    open_model(micromodel_draft_dir(), NULL, 1, true);
    every_cut();
    close_model();
}

TEST(what_was_only_looked_at_leaves_no_trace)
{
    open_model(micromodel_draft_dir(), NULL, 1, false);
    f32 *logits = malloc((u64)ROWS * forward_vocab() * sizeof *logits);
    start(0, 13);
    for (u32 i = 0; i < 3; i++) {
        look(0, 5 + i, 4, logits);
        check_slot(0, NULL);
    }
    CHECK_OK(forward_accept(0, 2));
    CHECK_EQ(slot_row(0)->len, 15);
    free(logits);
    close_model();
}

/* Spans of one row, of many and of none beside each other, cut where they will. */
TEST(slots_are_verified_together_and_cut_apart)
{
    open_model(micromodel_draft_dir(), NULL, 2, false);
    f32 *logits = malloc((u64)ROWS * forward_vocab() * sizeof *logits);
    u64 draw = 0;
    for (u32 slot = 0; slot < SPARE; slot++) start(slot, 5 + 9 * slot);
    for (u32 round = 0; round < 12; round++) {
        struct forward_span span[SPARE];
        u32 count = 0, kept[SPARE], lo[SPARE], rows = 0;
        for (u32 slot = 0; slot < SPARE; slot++) {
            u32 n = 1 + (u32)(rng_u64(41, draw++) % 7);
            if (rng_u64(41, draw++) % 4 == 0) continue;
            if (rng_u64(41, draw++) % 3 == 0) n = 1;
            span[count] = (struct forward_span){ slot, n, ids[slot] + slot_row(slot)->len, n };
            kept[count] = 1 + (u32)(rng_u64(41, draw++) % n);
            lo[count++] = rows;
            rows += n;
        }
        if (count == 0) continue;
        CHECK_OK(forward_verify(span, count, logits));
        for (u32 i = count; i > 0; i--) CHECK_OK(forward_accept(span[i - 1].slot, kept[i - 1]));
        for (u32 i = 0; i < count; i++)
            check_slot(span[i].slot, logits + (u64)(lo[i] + kept[i] - 1) * forward_vocab());
    }
    free(logits);
    close_model();
}
