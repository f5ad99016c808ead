/* arithmetic.c - the arithmetic id is tied to bits.
 *
 * Four tiny models (fixed seeds; the last has a draft head) forward a fixed prompt, as BF16 folders
 * and as Q8_0 files (id 2: integer products), and one small file in each format of codes by
 * integers (ids 5, 9, 17, 33: a bit a format); logits, sections and rows are hashed and compared
 * with the constants of the id that the backend reports.  A change of a bit without a new id fails
 * here: files made under the old id would be taken for valid.  When bits must change, the id in
 * model/cpu/cpu.c gets a new number and a row is added below. */
#include "arena/base/hash.h"
#include "arena/base/rng.h"
#include "model/cpu/cpu.h"
#include "model/tiny.h"
#include "tests/model/madefile.h"
#include "tests/model/rig.h"

enum { MODELS = 4, ROWS = 75, CHUNK = 50, VOCAB = 288 };

static const struct { u32 id; u64 hash[MODELS][2]; } known[] = {
    { 1, {
        { 0x28a56978e8293a2du, 0x42576d416f40d581u },
        { 0x1e825695a8b003d0u, 0xe7710a465b421497u },
        { 0xaa7153a2ba1fa916u, 0xfa0f1c0bffaff622u },
        { 0x5ab894fbf56de2bbu, 0x5e99baad54eb2157u } } },
    { 2, {
        { 0x3b1e159de6987daau, 0x349872f3842493beu },
        { 0x0b16da7248e98e97u, 0x919ce3eb6d5a6b40u },
        { 0xd7398746cded94c5u, 0xf51590d952b8e765u },
        { 0xd113d100ed8be1f4u, 0x731138859af0dc87u } } },
    { 5, { { 0x252b1e1977349ca6u, 0x146d67acc6164c9au } } },
    { 9, { { 0x925f3b19c694a3ecu, 0x6acadb49d16fbe39u } } },
    { 17, { { 0xc9516efb686dbe28u, 0x755b4c972b715d3au } } },
    { 33, { { 0xe32585bf752e125fu, 0x917085fb7df8f0c3u } } },
    { 1001, {
        { 0xc2a3cae942cb88a7u, 0x43b60f7ffb97819eu },
        { 0xc18d3417c1f0f3d5u, 0x0ec0862fe7c0eb5au },
        { 0x9d5a6a9e2d107ecau, 0x57c1ddb955e595ecu },
        { 0x3c374a766556bfebu, 0xbbe951f837ba532au } } },
};

static const struct tiny_choice choices[MODELS] = {
    { .layers = 4, .hidden = 64, .seed = 101 },
    { .layers = 8, .hidden = 128, .seed = 202, .tied = true },
    { .layers = 5, .hidden = 192, .seed = 303 },
    { .layers = 4, .hidden = 64, .seed = 101, .mtp = true },
};

static void hash_model(u32 model, u64 out[2])
{
    static f32 logits[ROWS * VOCAB];
    u32 ids[ROWS], count;
    u64 rows, sums[2];
    struct hash_state hash;
    for (u32 i = 0; i < ROWS; i++) ids[i] = (u32)(rng_u64(model, i) % 256);
    struct forward_span first = { 0, CHUNK, ids, CHUNK };
    struct forward_span second = { 0, ROWS - CHUNK, ids + CHUNK, ROWS - CHUNK };
    CHECK_OK(slot_grow(0, ROWS));
    CHECK_OK(forward_rows(&first, 1, logits));
    CHECK_OK(forward_rows(&second, 1, logits + CHUNK * VOCAB));
    const block_id *list = state_rows_out(0, &count, &rows);
    CHECK_EQ(rows, ROWS);
    state_sums(list, rows, sums);
    hash_open(&hash);
    hash_add(&hash, logits, sizeof logits);
    hash_add(&hash, arena_slots_addr(state_sections_arena(), slot_row(0)->unit),
             state_shape()->section_bytes);
    hash_add(&hash, sums, sizeof sums);
    hash_close(&hash, out);
}

/* What a model's files hold: BF16 in a folder, or Q8_0 in the GGUF file made of it. */
enum kind { KIND_BF16, KIND_REFERENCE, KIND_Q8_0, KIND_CODES };

static const u32 kind_ids[] = { [KIND_BF16] = 1, [KIND_REFERENCE] = 1001, [KIND_Q8_0] = 2,
                                [KIND_CODES] = 5, 9, 17, 33 };

static void make_model(u32 m, enum kind kind, char path[64])
{
    char flags[96];
    if (kind >= KIND_CODES) {
        enum ops_source type = OPS_Q4_0 + (kind - KIND_CODES);
        snprintf(path, 64, "build/arithmetic-%u.gguf", type);
        made_write(path, type, 50 + type);
        return;
    }
    snprintf(path, 64, "build/arithmetic/%u", m);
    CHECK_OK(tiny_write(path, &choices[m]));
    if (kind != KIND_Q8_0) return;
    snprintf(flags, sizeof flags, "%s.gguf --type Q8_0", path);
    rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
            "tests/oracle/to_gguf.py %s %s", path, flags);
    snprintf(path, 64, "build/arithmetic/%u.gguf", m);
}

static void check_level(u32 m, const char *path, const char *level, enum kind kind)
{
    u64 hash[2];
    u32 k = 0, id = kind_ids[kind];
    bool codes = kind >= KIND_CODES;
    rig_open(&(struct rig){ .dir = path, .level = level, .block_rows = 16, .grid_rows = 64,
                            .reference = kind == KIND_REFERENCE, .draft = MODEL_DRAFT_AUTO,
                            .arithmetic = codes ? OPS_INTEGERS : OPS_AUTO });
    CHECK_EQ(model_shape()->draft, !codes && choices[m].mtp);
    CHECK_EQ(model_ops()->arithmetic_id, id);
    hash_model(m, hash);
    rig_close();
    while (k < COUNT_OF(known) && known[k].id != id) k++;
    if (k == COUNT_OF(known)) test_failed(__FILE__, __LINE__, "id %u has no row here", id);
    if (known[k].hash[m][0] != hash[0] || known[k].hash[m][1] != hash[1])
        test_failed(__FILE__, __LINE__,
                    "arithmetic id %u, level %s, model %u: { 0x%016llxu, 0x%016llxu }", id, level,
                    m, (ull)hash[0], (ull)hash[1]);
}

static void check_all(enum kind kind)
{
    const char *level;
    char path[64];
    for (u32 m = 0; m < (kind < KIND_CODES ? MODELS : 1u); m++) {
        make_model(m, kind, path);
        for (u32 l = 0; (level = cpu_level_name(l)) != NULL; l++)
            if (cpu_has_level(level)) check_level(m, path, level, kind);
    }
}

TEST(serving_bits_are_those_of_their_id) { check_all(KIND_BF16); }
TEST(reference_bits_are_those_of_their_id) { check_all(KIND_REFERENCE); }
TEST(integer_bits_are_those_of_their_id) { check_all(KIND_Q8_0); }

TEST(bits_of_codes_by_integers_are_those_of_their_ids)
{
    for (enum kind kind = KIND_CODES; kind < COUNT_OF(kind_ids); kind++) check_all(kind);
}

/* A file of several formats: every one of them that goes by integers is in the id. */
TEST(the_id_of_a_mixed_file_names_every_format_by_integers)
{
    CHECK_EQ(ops_arithmetic_both(1, 2), 2);
    CHECK_EQ(ops_arithmetic_both(2, 5), 6);
    CHECK_EQ(ops_arithmetic_both(ops_arithmetic_both(9, 1), 33), 41);
    CHECK_EQ(ops_arithmetic_both(1001, 1001), 1001);
    struct ops ops;
    CHECK_OK(cpu_open(&ops, 1, "scalar", OPS_AUTO));
    CHECK_EQ(ops.arithmetic_of(OPS_Q4_K), 1);
    CHECK_EQ(ops.arithmetic_of(OPS_Q8_0), 2);
    cpu_close();
    CHECK_OK(cpu_open(&ops, 1, "scalar", (enum ops_arithmetic)(OPS_EXPANDED | 1 << OPS_Q4_K)));
    CHECK_EQ(ops.arithmetic_of(OPS_Q4_K), 9);
    CHECK_EQ(ops.arithmetic_of(OPS_Q6_K), 1);
    CHECK_EQ(ops.arithmetic_of(OPS_Q8_0), 1);
    cpu_close();
}

TEST(q8_0_expanded_keeps_the_id_of_bf16)
{
    char path[64];
    make_model(0, KIND_Q8_0, path);
    rig_open(&(struct rig){ .dir = path, .arithmetic = OPS_EXPANDED });
    CHECK_EQ(model_ops()->arithmetic_id, 1);
    rig_close();
}
