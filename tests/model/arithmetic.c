/* arithmetic.c - the arithmetic id is tied to bits.
 *
 * Four tiny models (fixed seeds; the last has a draft head) forward a fixed prompt; logits,
 * sections and rows are hashed and compared with the constants of the id that the backend reports.
 * A change of a bit without a new id fails here: files made under the old id would be taken for
 * valid.  When bits must change, the id in model/cpu/cpu.c gets a new number and a row is added
 * below. */
#include "arena/base/hash.h"
#include "arena/base/rng.h"
#include "model/cpu/cpu.h"
#include "model/tiny.h"
#include "tests/model/rig.h"

enum { MODELS = 4, ROWS = 75, CHUNK = 50, VOCAB = 288 };

static const struct { u32 id; bool reference; u64 hash[MODELS][2]; } known[] = {
    { 1, false, {
        { 0x28a56978e8293a2du, 0x42576d416f40d581u },
        { 0x1e825695a8b003d0u, 0xe7710a465b421497u },
        { 0xaa7153a2ba1fa916u, 0xfa0f1c0bffaff622u },
        { 0x5ab894fbf56de2bbu, 0x5e99baad54eb2157u } } },
    { 1001, true, {
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

static void check_level(const char *level, bool reference)
{
    for (u32 m = 0; m < MODELS; m++) {
        char dir[64];
        u64 hash[2];
        u32 k = 0;
        snprintf(dir, sizeof dir, "build/arithmetic/%u", m);
        CHECK_OK(tiny_write(dir, &choices[m]));
        rig_open(&(struct rig){ .dir = dir, .level = level, .block_rows = 16, .grid_rows = 64,
                                .reference = reference, .draft = MODEL_DRAFT_AUTO });
        CHECK_EQ(model_shape()->draft, choices[m].mtp);
        u32 id = model_ops()->arithmetic_id;
        hash_model(m, hash);
        rig_close();
        while (k < COUNT_OF(known) && known[k].id != id) k++;
        if (k == COUNT_OF(known)) test_failed(__FILE__, __LINE__, "id %u has no row here", id);
        CHECK_EQ(known[k].reference, reference);
        if (known[k].hash[m][0] != hash[0] || known[k].hash[m][1] != hash[1])
            test_failed(__FILE__, __LINE__,
                        "arithmetic id %u, level %s, model %u: { 0x%016llxu, 0x%016llxu }", id,
                        level, m, (ull)hash[0], (ull)hash[1]);
    }
}

static void check_all(bool reference)
{
    const char *level;
    for (u32 l = 0; (level = cpu_level_name(l)) != NULL; l++)
        if (cpu_has_level(level)) check_level(level, reference);
}

TEST(serving_bits_are_those_of_their_id) { check_all(false); }
TEST(reference_bits_are_those_of_their_id) { check_all(true); }
