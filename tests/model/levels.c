/* levels.c - every level of this machine has the same bits: prompts in every format, and products.
 *
 * 300 random prompts, 25 of each arithmetic and format, in random chunks with 1 and 2 threads:
 * logits of every row, sections and stored rows by hash.  Level scalar takes every eighth, short
 * ones.  Products: every number of rows that changes a kernel's path, over values of many decades,
 * subnormals, -0, blocks of zeros, and sums within an ulp of 2^-126.
 *
 * tests/golden/levels.txt holds the first hashes of a machine of x86: other architectures run this
 * file, too (tests/model/cross.sh).  `LEVELS_WRITE=1 ./build.sh test model/levels` writes it. */
#include "tests/model/madefile.h"
#include "tests/model/ops.h"
#include "tests/model/rig.h"

enum { PROMPTS = 25, PROMPT_ROWS = 48, SCALAR_EACH = 8, GOLDEN_ROWS = 12, GOLDEN_PROMPTS = 3 };
static const char golden_path[] = "tests/golden/levels.txt";

struct sums { u64 logits[2], sections[2], rows[2]; };

static const struct {
    const char *name;
    enum ops_source type;
    enum ops_arithmetic arithmetic;
} kinds[] = {
    { "bf16", OPS_BF16, OPS_AUTO },         { "fp8", OPS_FP8_BLOCK, OPS_AUTO },
    { "q8_0-int8", OPS_Q8_0, OPS_AUTO },    { "q8_0-bf16", OPS_Q8_0, OPS_EXPANDED },
    { "q4_0", OPS_Q4_0, OPS_AUTO },         { "q4_k", OPS_Q4_K, OPS_AUTO },
    { "q5_k", OPS_Q5_K, OPS_AUTO },         { "q6_k", OPS_Q6_K, OPS_AUTO },
    { "q4_0-int8", OPS_Q4_0, OPS_INTEGERS },    { "q4_k-int8", OPS_Q4_K, OPS_INTEGERS },
    { "q5_k-int8", OPS_Q5_K, OPS_INTEGERS },    { "q6_k-int8", OPS_Q6_K, OPS_INTEGERS },
};

/* ---- golden ---------------------------------------------------------------------------------- */

static bool golden_same(const char *name, const u64 hash[2])
{
    char line[128], word[32], found = 0;
    ull a, b;
    if (getenv("LEVELS_WRITE") != NULL) {
        static bool begun;
        FILE *out = fopen(golden_path, begun ? "a" : "w");
        CHECK(out != NULL);
        begun = true;
        fprintf(out, "%s %016llx %016llx\n", name, (ull)hash[0], (ull)hash[1]);
        CHECK(fclose(out) == 0);
    }
    FILE *f = fopen(golden_path, "r");
    CHECK(f != NULL);
    while (!found && fgets(line, sizeof line, f) != NULL)
        found = sscanf(line, "%31s %llx %llx", word, &a, &b) == 3 && strcmp(word, name) == 0;
    fclose(f);
    if (!found) test_failed(__FILE__, __LINE__, "%s: no line %s", golden_path, name);
    bool same = a == hash[0] && b == hash[1];
    printf("%s: %s of %s\n", name, same ? "the bits" : "OTHER BITS than those", golden_path);
    return same;
}

/* ---- prompts --------------------------------------------------------------------------------- */

static u32 prompt_rows(u32 kind, u32 prompt)
{
    if (prompt < GOLDEN_PROMPTS) return 1 + prompt * (GOLDEN_ROWS - 1) / (GOLDEN_PROMPTS - 1);
    return 1 + (u32)(rng_u64(kind + 40, prompt) % (prompt % SCALAR_EACH == 0 ? 8 : PROMPT_ROWS));
}

static void run_prompt(u32 kind, u32 prompt, u32 level, struct sums *out)
{
    static f32 logits[PROMPT_ROWS * 512];
    u32 rows = prompt_rows(kind, prompt), ids[PROMPT_ROWS], count, n;
    u64 stored, vocab = forward_vocab();
    slot_drop(0);
    CHECK_OK(slot_grow(0, rows));
    for (u32 i = 0; i < rows; i++) ids[i] = (u32)(rng_u64(kind * 1000 + prompt, i) % 280);
    for (u32 done = 0; done < rows; done += n) {
        n = MIN(1 + (u32)(rng_u64(level * 77 + prompt, done) % 40), rows - done);
        struct forward_span span = { 0, n, ids + done, n };
        CHECK_OK(forward_rows(&span, 1, logits + done * vocab));
    }
    for (u32 i = 0; i < rows * vocab; i++) CHECK(maths_abs(logits[i]) < 1e6f);
    hash_128(logits, rows * vocab * sizeof *logits, out->logits);
    hash_128(arena_slots_addr(state_sections_arena(), slot_row(0)->unit),
             state_shape()->section_bytes, out->sections);
    const block_id *list = state_rows_out(0, &count, &stored);
    CHECK_EQ(stored, rows);
    state_sums(list, stored, out->rows);
}

static void check_prompt(const char *name, const char *level, u32 prompt, const struct sums *got,
                         const struct sums *want)
{
    const char *part = memcmp(got->logits, want->logits, 16) != 0 ? "logits"
                     : memcmp(got->sections, want->sections, 16) != 0 ? "sections"
                     : memcmp(got->rows, want->rows, 16) != 0 ? "rows" : NULL;
    if (part != NULL)
        test_failed(__FILE__, __LINE__, "%s, level %s, prompt %u: %s differ", name, level, prompt,
                    part);
}

/* The file or folder of a kind; NULL: this build cannot make it. */
static const char *model_of(u32 kind)
{
    static char path[64];
#ifdef TEST_CROSS
    if (kinds[kind].type == OPS_FP8_BLOCK) return NULL;     /* a folder needs python and jansson */
#else
    if (kinds[kind].type == OPS_FP8_BLOCK) return rig_tiny("fp8", "--fp8");
#endif
    snprintf(path, sizeof path, "%s/levels-%u.gguf", getenv("TMPDIR") ? getenv("TMPDIR") : "build",
             kind);
    made_write(path, kinds[kind].type, 900 + kind);
    return path;
}

static void check_kind(u32 kind)
{
    struct sums want[PROMPTS], got;
    bool have[PROMPTS] = { false };
    const char *path = model_of(kind), *level;
    struct hash_state all;
    u64 hash[2];
    u32 most = getenv("LEVELS_PROMPTS") ? (u32)atoi(getenv("LEVELS_PROMPTS")) : PROMPTS;
    if (path == NULL) return;
    for (u32 l = 0; (level = cpu_level_name(l)) != NULL; l++) {
        if (!cpu_has_level(level)) continue;
        rig_open(&(struct rig){ .dir = path, .level = level, .threads = 1 + l % 2,
                                .block_rows = 16, .grid_rows = 64, .ctx_rows = 64,
                                .arithmetic = kinds[kind].arithmetic });
        for (u32 p = 0; p < MIN(most, (u32)PROMPTS); p++) {
            if (strcmp(level, "scalar") == 0 && p % SCALAR_EACH != 0) continue;
            run_prompt(kind, p, l, &got);
            if (!have[p]) want[p] = got;
            have[p] = true;
            check_prompt(kinds[kind].name, level, p, &got, &want[p]);
        }
        rig_close();
    }
    hash_open(&all);
    hash_add(&all, want, GOLDEN_PROMPTS * sizeof *want);
    hash_close(&all, hash);
    if (kinds[kind].type != OPS_FP8_BLOCK) CHECK(golden_same(kinds[kind].name, hash));
}

TEST(levels_agree_on_prompts_of_every_format)
{
    for (u32 kind = 0; kind < COUNT_OF(kinds); kind++) check_kind(kind);
}

/* ---- products -------------------------------------------------------------------------------- */

enum { ROWS = 1000, TINY_ROWS = 512 };

struct products {
    u32 n, k, rows;
    bf16 *w;
    f32 *x, *want, *got;
};

static void product_of(const struct ops *ops, const struct products *c, u32 rows, f32 *y)
{
    struct ops_matrix m;
    struct ops_pack_source source = { .data = (u8 *)c->w, .type = OPS_BF16, .n = c->n, .k = c->k };
    u8 *to = zeroed(ops->pack_bytes(&source));
    void *work = zeroed(ops->product_work_bytes(rows, c->k));
    CHECK_OK(ops->pack(&source, to, &m));
    CHECK_OK(ops->product(&(struct ops_product){ .w = &m, .x = c->x, .y = y, .rows = rows,
                                                 .y_f32 = true, .work = work }));
    free(to), free(work);
}

static void want_products(const struct ops *ops, void *owner)
{
    struct products *c = owner;
    product_of(ops, c, c->rows, c->want);
}

static void same_products(const struct ops *ops, void *owner)
{
    static const u32 more[] = { 128, 512, 513, 1000 };
    struct products *c = owner;
    if (strcmp(ops->level, "scalar") == 0) return;
    for (u32 i = 1; i < 34 + COUNT_OF(more); i++) {
        u32 rows = i < 34 ? i : more[i - 34];
        if (rows > c->rows) continue;
        memset(c->got, 0xee, (u64)rows * c->n * sizeof *c->got);
        product_of(ops, c, rows, c->got);
        check_same(c->got, c->want, (u64)rows * c->n * sizeof *c->got, "products", ops);
    }
}

/* Sign, seven bits of mantissa, an exponent in [lo, hi). */
static u32 random_half(u32 lo, u32 hi)
{
    return (random_u32() & 0x8000u) | (lo + random_u32() % (hi - lo)) << 7 | (random_u32() & 0x7fu);
}

static void open_products(struct products *c, u32 n, u32 k, u32 rows, u32 lo, u32 hi)
{
    *c = (struct products){ .n = n, .k = k, .rows = rows };
    c->w = zeroed((u64)n * k * sizeof *c->w);
    c->x = zeroed((u64)rows * k * sizeof *c->x);
    c->want = zeroed((u64)rows * n * sizeof *c->want);
    c->got = zeroed((u64)rows * n * sizeof *c->got);
    for (u64 i = 0; i < (u64)n * k; i++) c->w[i] = (bf16)random_half(lo, hi);
    for (u64 i = 0; i < (u64)rows * k; i++) c->x[i] = maths_from_bf16((bf16)random_half(lo, hi));
}

static void close_products(struct products *c)
{
    scalar_backend(OPS_AUTO, want_products, c);
    each_backend(OPS_AUTO, same_products, c);
    free(c->w), free(c->x), free(c->want), free(c->got);
}

TEST(products_agree_for_every_number_of_rows)
{
    static const u32 shapes[][2] = { { 48, 160 }, { 33, 96 }, { 17, 31 }, { 100, 288 } };
    struct products c;
    for (u32 i = 0; i < COUNT_OF(shapes); i++) {
        open_products(&c, shapes[i][0], shapes[i][1], i == 0 ? ROWS : 64, 115, 131);
        close_products(&c);
    }
}

TEST(products_agree_over_thirty_decades)
{
    struct products c;
    open_products(&c, 40, 320, 128, 77, 177);
    close_products(&c);
}

TEST(products_agree_on_subnormals_minus_zero_and_blocks_of_zeros)
{
    struct products c;
    open_products(&c, 48, 160, 64, 0, 3);               /* subnormal and tiny weights          */
    for (u32 i = 0; i < 64 * 160; i++) c.x[i] *= 0x1p+124f;
    close_products(&c);
    open_products(&c, 48, 160, 64, 58, 70);             /* sums that flush to -0, then zeros   */
    for (u32 r = 0; r < 64; r++)
        for (u32 i = r * 4 % 160; i < 160; i++) c.x[r * 160 + i] = r % 2 ? 0.0f : -0.0f;
    close_products(&c);
}

/* 204,800 sums whose exact values lie within some ulps of 2^-126: x86 rounds, then flushes; ARM
 * flushes what is under 2^-126 before it is rounded.  When ARM's are found equal, its architecture
 * need not stand in the fingerprint of files (tiers/nvme/fingerprint.c). */
TEST(sums_near_the_smallest_normal_number_agree)
{
    enum { N = 400, K = 96 };
    struct products c;
    u64 hash[2], flushed = 0, least = 0;
    open_products(&c, N, K, TINY_ROWS, 44, 52);         /* products about 2^-158               */
    for (u32 r = 0; r < TINY_ROWS; r++)
        for (u32 b = 0; b < K; b += 32) c.x[r * K + b] = r % 2 ? 0x1p-60f : -0x1p-60f;
    for (u32 j = 0; j < N; j++)
        for (u32 b = 0; b < K; b += 32)
            c.w[j * K + b] = maths_to_bf16(b == 0 ? 0x1p-66f : j % 3 == 0 ? -0x1p-66f : 0.0f);
    scalar_backend(OPS_AUTO, want_products, &c);
    each_backend(OPS_AUTO, same_products, &c);
    for (u32 i = 0; i < TINY_ROWS * N; i++) {
        flushed += c.want[i] == 0.0f;
        least += maths_abs(c.want[i]) == 0x1p-126f;
    }
    hash_128(c.want, TINY_ROWS * N * sizeof *c.want, hash);
    printf("near 2^-126: %llu of %u sums are 0, %llu are 2^-126\n", (ull)flushed, TINY_ROWS * N,
           (ull)least);
    free(c.w), free(c.x), free(c.want), free(c.got);
#if defined(__aarch64__)
    CHECK(flushed > TINY_ROWS * N / 2 && !golden_same("near", hash));
#else
    CHECK(flushed > 1000 && least > 1000 && golden_same("near", hash));
#endif
}
