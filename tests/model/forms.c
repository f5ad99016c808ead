/* forms.c - the same numbers in other files are the same model: types, shards, prefixes.
 *
 * tests/oracle/reform.py rewrites one checkpoint; logits, sections and rows are compared by memcmp,
 * the weights hash where types are equal. */
#include "arena/base/hash.h"
#include "tests/model/rig.h"

enum { ROWS = 40, VOCAB = 512 };

struct outcome { f32 logits[ROWS * VOCAB]; u64 sums[2], sections[2], hash[2]; };

static void run(const char *dir, struct outcome *out)
{
    u32 ids[ROWS], count;
    u64 rows;
    for (u32 i = 0; i < ROWS; i++) ids[i] = i * 37 % 480;
    rig_open(&(struct rig){ .dir = dir, .block_rows = 16, .grid_rows = 64 });
    struct forward_span span = { 0, ROWS, ids, ROWS };
    CHECK_EQ(forward_vocab(), VOCAB);
    CHECK_OK(slot_grow(0, ROWS));
    CHECK_OK(forward_rows(&span, 1, out->logits));
    const block_id *list = state_rows_out(0, &count, &rows);
    state_sums(list, rows, out->sums);
    hash_128(arena_slots_addr(state_sections_arena(), slot_row(0)->unit),
             state_shape()->section_bytes, out->sections);
    weights_hash(out->hash);
    rig_close();
}

static struct outcome base, other;

static void make(const char *name, const char *flags)
{
    char command[256];
    snprintf(command, sizeof command, "build/golden/form-%s %s", name, flags);
    rig_run("rm -rf build/golden/form-%s%s", name, "");
    rig_run("PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/oracle/reform.py %s %s",
            "build/golden/default", command);
}

static void compare(const char *name, const char *flags, bool same_hash)
{
    char dir[128];
    snprintf(dir, sizeof dir, "build/golden/form-%s", name);
    make(name, flags);
    run(dir, &other);
    CHECK(memcmp(base.logits, other.logits, sizeof base.logits) == 0);
    CHECK(memcmp(base.sums, other.sums, sizeof base.sums) == 0);
    CHECK(memcmp(base.sections, other.sections, sizeof base.sections) == 0);
    CHECK_EQ(memcmp(base.hash, other.hash, sizeof base.hash) == 0, same_hash);
}

TEST(shards_and_prefixes_are_the_same_model)
{
    rig_tiny("default", "");
    make("base", "");
    run("build/golden/form-base", &base);
    compare("shards", "--shards 5", true);
    compare("prefix", "--prefix model.", true);
}

TEST(exact_copies_in_other_types_give_the_same_bits)
{
    compare("f32", "--type F32", false);
    compare("f16", "--type F16 --shards 2", false);
}
