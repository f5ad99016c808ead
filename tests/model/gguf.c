/* gguf.c - a GGUF file is the model it was made of: the bits of the safetensors folder.
 *
 * tests/oracle/to_gguf.py converts tiny checkpoints (norms + 1, heads tiled, -exp(A_log)); logits,
 * sections and rows are compared by memcmp.  Of rounded types tests/oracle/gguf_cases.py writes a
 * folder of what the blocks decode to, and the oracle's logits on it; tolerances are golden.c's. */
#include <math.h>

#include "arena/base/hash.h"
#include "model/draft.h"
#include "tests/model/rig.h"

enum { ROWS = 40, VOCAB = 512, DRAFTS = 6 };

struct outcome {
    f32 logits[ROWS * VOCAB];
    u64 sums[2], sections[2];
    u32 draft[DRAFTS], draft_count;
};

static struct outcome base, other;

static void run(const char *path, enum ops_arithmetic arithmetic, struct outcome *out)
{
    u32 ids[ROWS], count;
    u64 rows;
    for (u32 i = 0; i < ROWS; i++) ids[i] = i * 37 % 480;
    rig_open(&(struct rig){ .dir = path, .block_rows = 16, .grid_rows = 64, .threads = 2,
                            .reference = arithmetic == OPS_REFERENCE, .arithmetic = arithmetic,
                            .draft = MODEL_DRAFT_AUTO });
    struct forward_span span = { 0, ROWS, ids, ROWS };
    CHECK_EQ(forward_vocab(), VOCAB);
    CHECK_OK(slot_grow(0, ROWS));
    CHECK_OK(forward_rows(&span, 1, out->logits));
    const block_id *list = state_rows_out(0, &count, &rows);
    state_sums(list, rows, out->sums);
    hash_128(arena_slots_addr(state_sections_arena(), slot_row(0)->unit),
             state_shape()->section_bytes, out->sections);
    out->draft_count = 0;
    CHECK_OK(slot_grow(0, ROWS + DRAFTS));
    if (draft_present()) CHECK_OK(draft_propose(0, 7, DRAFTS, out->draft, &out->draft_count));
    rig_close();
}

static void same(const char *a, const char *b, bool reference)
{
    run(a, reference ? OPS_REFERENCE : OPS_EXPANDED, &base);
    run(b, reference ? OPS_REFERENCE : OPS_EXPANDED, &other);
    CHECK(memcmp(base.logits, other.logits, sizeof base.logits) == 0);
    CHECK(memcmp(base.sums, other.sums, sizeof base.sums) == 0);
    CHECK(memcmp(base.sections, other.sections, sizeof base.sections) == 0);
    CHECK_EQ(base.draft_count, other.draft_count);
    CHECK(memcmp(base.draft, other.draft, 4 * base.draft_count) == 0);
}

/* build/golden/gguf-NAME, made by gguf_cases.py of `source` when it isn't there. */
static const char *make_case(const char *name, const char *source, const char *kind)
{
    static char out[96];
    char done[128], flags[192];
    snprintf(out, sizeof out, "build/golden/gguf-%s", name);
    snprintf(done, sizeof done, "%s/done", out);
    snprintf(flags, sizeof flags, "%s %s", out, kind);
    if (access(done, F_OK) == 0) return out;
    rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
            "tests/oracle/gguf_cases.py %s %s", source, flags);
    rig_run("touch %s%s", done, "");
    return out;
}

static f64 oracle_apart(const char *folder, const f32 *logits, f64 *own_noise)
{
    static f32 want[ROWS * VOCAB + 1];
    char path[128];
    f64 apart = 0;
    snprintf(path, sizeof path, "%s/logits.f32", folder);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL && fread(want, 4, COUNT_OF(want), f) == COUNT_OF(want));
    fclose(f);
    *own_noise = (f64)want[ROWS * VOCAB];
    for (u32 i = 0; i < ROWS * VOCAB; i++) {
        f64 d = fabs((f64)logits[i] - (f64)want[i]);
        if (!(d <= apart)) apart = d;
    }
    return apart;
}

/* The file's bits are those of the folder of its decoded numbers, and near the oracle's. */
static void check_case(const char *name, const char *source, const char *kind)
{
    const char *folder = make_case(name, source, kind);
    char file[128];
    snprintf(file, sizeof file, "%s.gguf", folder);
    same(folder, file, false);
    f64 noise, serving = oracle_apart(folder, other.logits, &noise);
    same(folder, file, true);
    f64 reference = oracle_apart(folder, other.logits, &noise);
    printf("%s: serving max %.3g (the oracle's own %.3g), reference max %.3g\n", name, serving,
           noise, reference);
    CHECK(serving <= fmax(0.1, 1.2 * noise));
    CHECK(reference <= 5e-5);
}

static void convert(const char *source, const char *type, const char *out)
{
    char flags[192];
    snprintf(flags, sizeof flags, "%s --type %s", out, type);
    rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
            "tests/oracle/to_gguf.py %s %s", source, flags);
}

TEST(a_bf16_file_gives_the_bits_of_its_folder)
{
    const char *dir = rig_tiny("default", "");
    convert(dir, "BF16", "build/golden/default-bf16.gguf");
    same(dir, "build/golden/default-bf16.gguf", false);
    CHECK_EQ(base.draft_count, DRAFTS);         /* both have their draft head                 */
    CHECK_STR(model_name(), "default-bf16");
}

TEST(a_bf16_file_without_a_head_gives_the_bits_of_its_tied_folder)
{
    const char *dir = rig_tiny("tie", "--tie");
    convert(dir, "BF16", "build/golden/tie-bf16.gguf");
    same(dir, "build/golden/tie-bf16.gguf", false);
}

TEST(an_f32_file_of_bf16_numbers_gives_the_same_bits_in_both_arithmetics)
{
    const char *dir = rig_tiny("default", "");
    convert(dir, "F32", "build/golden/default-f32.gguf");
    same(dir, "build/golden/default-f32.gguf", false);
    same(dir, "build/golden/default-f32.gguf", true);
}

TEST(split_files_are_one_model)
{
    const char *dir = rig_tiny("default", "");
    rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
            "tests/oracle/gguf_cases.py %s %s", dir, "build/golden/split SPLIT");
    same(dir, "build/golden/split-00001-of-00003.gguf", false);
    CHECK_STR(model_name(), "split");
}

/* Activations of eight bits a block: further from the numbers than BF16, by this much. */
static void check_integers(const char *name, const char *source, const char *kind)
{
    const char *folder = make_case(name, source, kind);
    char file[128];
    snprintf(file, sizeof file, "%s.gguf", folder);
    run(file, OPS_EXPANDED, &base);
    run(file, OPS_INTEGERS, &other);
    f64 noise, apart = oracle_apart(folder, other.logits, &noise);
    printf("%s as integers: max %.3g (the oracle's own in BF16 %.3g)\n", name, apart, noise);
    CHECK(memcmp(base.logits, other.logits, sizeof base.logits) != 0);
    CHECK(apart > 0 && apart <= fmax(0.2, 3 * noise));
}

TEST(integer_products_stay_near_the_oracle)
{
    check_integers("q8_0", "build/golden/default", "Q8_0");
    check_integers("q4_0", "build/golden/default", "Q4_0");
    check_integers("mix", "build/golden/gguf-wide", "MIX --wide");
}

TEST(f16_files_are_their_decoded_numbers) { check_case("f16", "build/golden/default", "F16"); }
TEST(q8_0_files_are_their_decoded_numbers) { check_case("q8_0", "build/golden/default", "Q8_0"); }
TEST(q4_0_files_are_their_decoded_numbers) { check_case("q4_0", "build/golden/default", "Q4_0"); }
TEST(files_of_all_types_are_their_decoded_numbers)
{
    check_case("mix", "build/golden/gguf-wide", "MIX --wide");
}
