/* tests/model/formats.c - two sequences at once, on every format, give the bits of each alone.
 *
 * The same prompts are forwarded alone, a row at a time in decode, and then together: chunks of
 * both in one batch, decode rounds of two rows.  Logits and sections are compared by memcmp. */
#include "arena/base/hash.h"
#include "arena/base/rng.h"
#include "tests/model/rig.h"

enum { ROWS = 70, STEPS = 12, VOCAB_MOST = 1024, SLOTS = 2 };

struct outcome { f32 first[VOCAB_MOST], step[STEPS][VOCAB_MOST]; u64 sections[2]; };

static struct outcome alone[SLOTS], beside[SLOTS];

static void prompt(u32 slot, u32 ids[ROWS])
{
    for (u32 i = 0; i < ROWS; i++) ids[i] = (u32)(rng_u64(slot + 7, i) % 250);
}

static u32 likeliest(const f32 *logits)
{
    u32 best = 0;
    for (u32 i = 1; i < 250; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static void open_model(const char *path, enum ops_arithmetic arithmetic, u32 threads)
{
    rig_open(&(struct rig){ .dir = path, .block_rows = 16, .grid_rows = 64, .threads = threads,
                            .arithmetic = arithmetic });
    CHECK(forward_vocab() <= VOCAB_MOST);
    for (u32 s = 0; s < SLOTS; s++) CHECK_OK(slot_grow(s, ROWS + STEPS));
}

static void hash_sections(u32 slot, struct outcome *o)
{
    hash_128(arena_slots_addr(state_sections_arena(), slot_row(slot)->unit),
             state_shape()->section_bytes, o->sections);
}

static void run_alone(u32 slot, struct outcome *o)
{
    u32 ids[ROWS];
    u64 bytes = forward_vocab() * sizeof(f32);
    memset(o, 0, sizeof *o);
    prompt(slot, ids);
    CHECK_OK(forward_chunk(slot, ids, ROWS, o->first));
    u32 id = likeliest(o->first);
    for (u32 i = 0; i < STEPS; i++) {
        CHECK_OK(forward_step(&slot, &id, 1, o->step[i]));
        id = likeliest(o->step[i]);
    }
    hash_sections(slot, o);
    ASSERT(bytes <= sizeof o->first);
}

static void run_together(void)
{
    static f32 logits[SLOTS * VOCAB_MOST];
    u32 ids[SLOTS][ROWS], id[SLOTS], slots[SLOTS] = { 0, 1 }, vocab = forward_vocab();
    u64 bytes = vocab * sizeof(f32);
    memset(beside, 0, sizeof beside);
    for (u32 s = 0; s < SLOTS; s++) prompt(s, ids[s]);
    for (u32 lo = 0, count; lo < ROWS; lo += count) {       /* chunks of any size, side by side */
        count = MIN(lo == 0 ? 33u : 19u, ROWS - lo);
        u32 last = lo + count == ROWS;
        struct forward_span span[SLOTS] = { { 0, count, ids[0] + lo, last },
                                            { 1, count, ids[1] + lo, last } };
        CHECK_OK(forward_rows(span, SLOTS, logits));
    }
    for (u32 s = 0; s < SLOTS; s++) {
        memcpy(beside[s].first, logits + (u64)s * vocab, bytes);
        id[s] = likeliest(beside[s].first);
    }
    for (u32 i = 0; i < STEPS; i++) {
        CHECK_OK(forward_step(slots, id, SLOTS, logits));
        for (u32 s = 0; s < SLOTS; s++) {
            memcpy(beside[s].step[i], logits + (u64)s * vocab, bytes);
            id[s] = likeliest(beside[s].step[i]);
        }
    }
    for (u32 s = 0; s < SLOTS; s++) hash_sections(s, &beside[s]);
}

static void check(const char *path, enum ops_arithmetic arithmetic)
{
    open_model(path, arithmetic, 1);
    for (u32 s = 0; s < SLOTS; s++) run_alone(s, &alone[s]);
    rig_close();
    open_model(path, arithmetic, 2);
    run_together();
    rig_close();
    CHECK(memcmp(alone, beside, sizeof alone) == 0);
    CHECK(memcmp(alone[0].first, alone[1].first, sizeof alone[0].first) != 0);
}

/* FILE of gguf_cases.py in build/golden, made when it isn't there (see gguf.c). */
static const char *file_of(const char *name, const char *source, const char *kind)
{
    static char path[128];
    char flags[192];
    snprintf(path, sizeof path, "build/golden/gguf-%s.gguf", name);
    if (access(path, F_OK) == 0) return path;
    rig_tiny("default", "");
    snprintf(flags, sizeof flags, "build/golden/gguf-%s %s", name, kind);
    rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
            "tests/oracle/gguf_cases.py %s %s", source, flags);
    return path;
}

TEST(bf16_folders) { check(rig_tiny("default", ""), OPS_AUTO); }
TEST(f16_files) { check(file_of("f16", "build/golden/default", "F16"), OPS_AUTO); }
TEST(q8_0_files_as_integers) { check(file_of("q8_0", "build/golden/default", "Q8_0"), OPS_AUTO); }
TEST(q8_0_files_expanded)
{
    check(file_of("q8_0", "build/golden/default", "Q8_0"), OPS_EXPANDED);
}
TEST(q4_0_files_as_integers)
{
    check(file_of("q4_0", "build/golden/default", "Q4_0"), OPS_INTEGERS);
}
TEST(files_of_q4_k_q5_k_q6_k_as_integers)
{
    check(file_of("mix", "build/golden/gguf-wide", "MIX --wide"), OPS_INTEGERS);
}
TEST(q4_0_files) { check(file_of("q4_0", "build/golden/default", "Q4_0"), OPS_AUTO); }
TEST(files_of_q4_k_q5_k_q6_k)
{
    check(file_of("mix", "build/golden/gguf-wide", "MIX --wide"), OPS_AUTO);
}
