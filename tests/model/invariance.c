/* invariance.c - a row's bits do not depend on what is computed with it.
 *
 * With the draft head where the model has one: its rows and section are compared like the trunk's.
 * The same prompt in chunks of 1, 3, 16, 64 and 1,024 rows, alone or beside another sequence, with
 * 1 and 2 threads, on every level of this machine, for B = 4, 16 and 256: memcmp of the logits of
 * every row, of all sections and of every stored row. */
#include "arena/base/rng.h"
#include "model/cpu/cpu.h"
#include "tests/model/rig.h"

enum { PROMPT = 1100, OTHER = 300 };

static u32 prompt[PROMPT], other[OTHER];

struct result { f32 *logits; u8 *sections; u8 *rows; u64 logit_bytes, section_bytes, row_bytes; };

/* Logits of every `stride`-th row would do; all are kept for short prompts. */
static void forward_in(u32 chunk, u32 rows, bool beside, f32 *logits)
{
    u32 vocab = forward_vocab(), done = 0, there = 0;
    slot_drop(0);
    slot_drop(1);
    while (done < rows) {
        u32 n = MIN(chunk, rows - done);
        struct forward_span span[2] = { { 0, n, prompt + done, n } };
        u32 spans = 1;
        CHECK_OK(slot_grow(0, done + n));
        if (beside && there < OTHER) {
            u32 m = MIN(1 + done % 7, OTHER - there);
            CHECK_OK(slot_grow(1, there + m));
            span[1] = (struct forward_span){ 1, m, other + there, 0 };
            if (n + m <= forward_rows_max()) { spans = 2; there += m; }
        }
        if (spans == 2 && done % 2 == 1) {              /* the other one first */
            struct forward_span swap = span[0];
            span[0] = span[1];
            span[1] = swap;
        }
        CHECK_OK(forward_rows(span, spans, logits + (u64)done * vocab));
        done += n;
    }
    CHECK_EQ(slot_row(0)->len, rows);
}

/* All rows of all views, one after another. */
static u64 gather_rows(u32 rows, u8 *out)
{
    const struct state_shape *shape = state_shape();
    u32 count;
    u64 len, at = 0;
    const block_id *block = state_rows_out(0, &count, &len);
    for (u32 v = 0; v < shape->view_count; v++)
        for (u32 p = 0; p < shape->view[v].planes; p++)
            for (u32 r = 0; r < rows; r++) {
                u64 bytes = shape->view[v].row_bytes;
                if (out != NULL)
                    memcpy(out + at, state_strip(block[r / shape->block_rows], v, p) +
                                     r % shape->block_rows * bytes, bytes);
                at += bytes;
            }
    return at;
}

static struct result run(u32 chunk, u32 rows, bool beside)
{
    struct result out = { .logit_bytes = 4ull * rows * forward_vocab(),
                          .section_bytes = state_shape()->section_bytes };
    out.logits = malloc(out.logit_bytes);
    forward_in(chunk, rows, beside, out.logits);
    out.sections = malloc(out.section_bytes);
    memcpy(out.sections, arena_slots_addr(state_sections_arena(), slot_row(0)->unit),
           out.section_bytes);
    out.row_bytes = gather_rows(rows, NULL);
    out.rows = malloc(out.row_bytes);
    gather_rows(rows, out.rows);
    return out;
}

static void free_result(struct result *r)
{
    free(r->logits);
    free(r->sections);
    free(r->rows);
}

static void same(const struct result *a, const struct result *b, const char *what, u32 chunk)
{
    const char *part = memcmp(a->logits, b->logits, a->logit_bytes) != 0 ? "logits"
                     : memcmp(a->sections, b->sections, a->section_bytes) != 0 ? "sections"
                     : memcmp(a->rows, b->rows, a->row_bytes) != 0 ? "rows" : NULL;
    if (part != NULL)
        test_failed(__FILE__, __LINE__, "%s differ: %s, chunks of %u", part, what, chunk);
}

static void fill_prompts(void)
{
    for (u32 i = 0; i < PROMPT; i++) prompt[i] = (u32)(rng_u64(11, i) % 480);
    for (u32 i = 0; i < OTHER; i++) other[i] = (u32)(rng_u64(12, i) % 480);
}

static void open_with(const char *dir, const char *level, u32 threads, u32 block)
{
    rig_open(&(struct rig){ .dir = dir, .level = level, .threads = threads, .block_rows = block,
                            .grid_rows = MAX(block, 64), .ctx_rows = 2048,
                            .draft = MODEL_DRAFT_AUTO });
}

static void check_chunks(const char *dir, u32 rows, u32 block)
{
    const char *level;
    static const u32 chunks[] = { 1, 3, 16, 64, 1024 };
    struct result first = { 0 };
    for (u32 l = 0; (level = cpu_level_name(l)) != NULL; l++) {
        if (!cpu_has_level(level)) continue;
        for (u32 threads = 1; threads <= 2; threads++) {
            open_with(dir, level, threads, block);
            for (u32 c = 0; c < COUNT_OF(chunks); c++) {
                /* a level's own chunks are compared once; the other thread count by three */
                if (threads == 2 && c != 0 && c != 2 && c != 4) continue;
                struct result now = run(chunks[c], rows, (c + threads) % 2 == 0);
                if (first.logits == NULL) {
                    first = now;
                    continue;
                }
                same(&first, &now, level, chunks[c]);
                free_result(&now);
            }
            rig_close();
        }
    }
    free_result(&first);
}

TEST(chunks_neighbours_threads_and_levels_give_the_same_bits)
{
    fill_prompts();
    open_with(rig_tiny("default", ""), NULL, 1, 16);
    CHECK(model_shape()->draft);
    CHECK_STR(state_shape()->view[3].name, "mtp.V");
    rig_close();
    check_chunks(rig_tiny("default", ""), 150, 16);
}

TEST(the_smallest_block_and_the_largest_agree_with_themselves)
{
    fill_prompts();
    check_chunks(rig_tiny("default", ""), 70, 4);
    check_chunks(rig_tiny("default", ""), 70, 256);
}

TEST(a_long_prompt_over_several_blocks_of_256)
{
    struct result a, b, c;
    fill_prompts();
    open_with(NULL, NULL, 2, 256);
    a = run(1024, PROMPT, false);
    b = run(64, PROMPT, true);
    c = run(1, PROMPT, false);
    same(&a, &b, "embedded model", 64);
    same(&a, &c, "embedded model", 1);
    rig_close();
    free_result(&a);
    free_result(&b);
    free_result(&c);
}

TEST(scratch_is_exactly_what_was_declared)
{
    static f32 logits[16 * 1792];
    fill_prompts();
    open_with(NULL, NULL, 1, 16);
    u32 arena = arena_find("scratch");
    for (u32 rows = 1; rows <= 16; rows += 5) {
        u64 before = arena_row(arena)->high_water_bytes;
        struct forward_span span = { 0, rows, prompt, rows };
        CHECK_EQ(before, forward_scratch_bytes(forward_rows_max(), forward_rows_max()));
        slot_drop(0);
        CHECK_OK(slot_grow(0, rows));
        u64 ungated = arena_row(arena)->commit_count;
        CHECK_OK(forward_rows(&span, 1, logits));
        CHECK_EQ(arena_row(arena)->commit_count, ungated);
        CHECK_EQ(arena_row(arena)->high_water_bytes, before);
    }
    rig_close();
}
