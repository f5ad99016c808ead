/* tests/model/packed.c - a file of packed weights: written once, mapped at the next start with the
 * same bits, and distrusted: whatever is wrong with it, the weights are packed again. */
#include "arena/base/file.h"
#include "arena/base/rng.h"
#include "model/tiny.h"
#include "tests/model/rig.h"

#include <sys/stat.h>

enum { ROWS = 40, VOCAB = 288, PAGE = 4096 };
#define FOLDER "build/packed"
#define MODEL "build/packed/model"

struct outcome { f32 logits[ROWS * VOCAB]; u64 hash[2], mapped; };
static struct outcome base, now;
static char file[512];

static void run(const char *dir, const char *folder, bool reference, struct outcome *out)
{
    u32 ids[ROWS];
    for (u32 i = 0; i < ROWS; i++) ids[i] = (u32)(rng_u64(9, i) % 256);
    rig_open(&(struct rig){ .dir = dir, .block_rows = 16, .grid_rows = 64, .threads = 2,
                            .reference = reference, .pack_folder = folder });
    struct forward_span span = { 0, ROWS, ids, ROWS };
    CHECK_OK(slot_grow(0, ROWS));
    CHECK_OK(forward_rows(&span, 1, out->logits));
    weights_hash(out->hash);
    out->mapped = weights_mapped_bytes();
    rig_close();
}

static void same(const struct outcome *a, const struct outcome *b)
{
    CHECK(memcmp(a->logits, b->logits, sizeof a->logits) == 0);
    CHECK(memcmp(a->hash, b->hash, sizeof a->hash) == 0);
}

/* Files in FOLDER/packed; the last packed one's path to `file`. */
static u32 files(void)
{
    struct file_list list;
    u32 count = 0;
    CHECK_OK(file_list_open(FOLDER "/packed", &list));
    while (file_list_next(&list)) {
        if (list.name[0] == '.') continue;
        count++;
        snprintf(file, sizeof file, FOLDER "/packed/%s", list.name);
    }
    file_list_close(&list);
    return count;
}

static void open_folder(void)
{
    rig_run("rm -rf %s && mkdir -p -m 700 %s", FOLDER, FOLDER);
    CHECK_OK(tiny_write(MODEL, &(struct tiny_choice){ .layers = 4, .hidden = 64, .seed = 31 }));
    run(MODEL, NULL, false, &base);
    run(MODEL, FOLDER, false, &now);            /* packs, and writes                           */
    same(&base, &now);
    CHECK_EQ(now.mapped, base.mapped);
    CHECK_EQ(files(), 1);
}

static void check_mapped(void)
{
    struct file_stat stat;
    run(MODEL, FOLDER, false, &now);
    same(&base, &now);
    CHECK_EQ(files(), 1);
    CHECK_OK(file_stat(file, &stat));
    CHECK_EQ(stat.mode, 0600);
    CHECK_EQ(now.mapped, base.mapped + stat.bytes - PAGE);
}

/* The next start packs again with the same bits, and the one after maps. */
static void check_rewritten(void)
{
    run(MODEL, FOLDER, false, &now);
    same(&base, &now);
    CHECK_EQ(now.mapped, base.mapped);
    CHECK_EQ(files(), 1);
    check_mapped();
}

static void flip(u64 at)
{
    int fd;
    u8 byte;
    CHECK_OK(file_open(file, FILE_OPEN_WRITE, 0, &fd));
    CHECK_OK(file_read_at(fd, at, &byte, 1));
    byte ^= 1;
    CHECK_OK(file_write_at(fd, at, &byte, 1));
    file_close(fd);
}

TEST(the_second_start_maps_what_the_first_wrote)
{
    open_folder();
    check_mapped();
    check_mapped();
}

TEST(q8_0_files_are_mapped_too)
{
    struct outcome *first = &now, *second = &base;
    open_folder();
    rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
            "tests/oracle/to_gguf.py %s %s --type Q8_0", MODEL, FOLDER "/q8_0.gguf");
    run(FOLDER "/q8_0.gguf", FOLDER, false, first);
    CHECK_EQ(files(), 2);                       /* two models: both stay                       */
    u64 before = first->mapped;
    run(FOLDER "/q8_0.gguf", FOLDER, false, second);
    same(first, second);
    CHECK(second->mapped > before);
}

TEST(a_wrong_byte_anywhere_is_found_and_the_file_rewritten)
{
    struct file_stat stat;
    open_folder();
    CHECK_OK(file_stat(file, &stat));
    u64 at[] = { 0, 8, 12, 20, 40, 50, 60, 75, PAGE, PAGE + 12345, stat.bytes - 1 };
    for (u32 i = 0; i < COUNT_OF(at); i++) {
        files();
        flip(at[i]);
        check_rewritten();
    }
}

TEST(a_short_or_foreign_file_is_rewritten)
{
    struct file_stat stat;
    u8 text[] = "not a file of packed weights";
    open_folder();
    CHECK_OK(file_stat(file, &stat));
    u64 sizes[] = { 0, 50, PAGE, stat.bytes - 1 };
    for (u32 i = 0; i < COUNT_OF(sizes); i++) {
        files();
        CHECK(truncate(file, (off_t)sizes[i]) == 0);
        check_rewritten();
    }
    files();
    CHECK_OK(file_commit(file, text, sizeof text, 0600));
    check_rewritten();
}

TEST(another_layout_or_changed_sources_are_packed_again)
{
    open_folder();
    run(MODEL, FOLDER, true, &now);             /* f32: another id, the first goes */
    CHECK_EQ(files(), 1);
    check_rewritten();
    rig_run("touch %s/model.safetensors%s", MODEL, "");
    check_rewritten();
    CHECK_OK(tiny_write(MODEL, &(struct tiny_choice){ .layers = 4, .hidden = 64, .seed = 32 }));
    run(MODEL, NULL, false, &base);
    run(MODEL, FOLDER, false, &now);
    same(&base, &now);
}

TEST(a_folder_others_may_read_is_left_alone)
{
    open_folder();
    CHECK(chmod(FOLDER "/packed", 0755) == 0);
    run(MODEL, FOLDER, false, &now);
    same(&base, &now);
    CHECK_EQ(now.mapped, base.mapped);
    CHECK(chmod(FOLDER "/packed", 0700) == 0);
    check_mapped();
}

TEST(a_half_written_file_of_a_dead_process_goes)
{
    u8 half[100] = { 0 };
    open_folder();
    CHECK_OK(file_remove(file));
    CHECK_OK(file_commit(FOLDER "/packed/0-1.packed.999999999-0.tmp", half, sizeof half, 0600));
    check_rewritten();
}

/* Every call that reaches the disk fails once: the model opens with its bits, no draft is left. */
TEST(a_failing_disk_costs_the_file_and_nothing_else)
{
    for (u32 n = 1, fired = 1; fired; n++) {
        open_folder();
        CHECK_OK(file_remove(file));
        CHECK(n < 200);
        struct rig r = { .dir = MODEL, .block_rows = 16, .grid_rows = 64, .pack_folder = FOLDER };
        file_fail(n);
        enum err err = rig_try(&r);
        fired = file_fail_left() == 0;
        file_fail(0);
        if (err != OK) continue;                /* a call of the model's own files              */
        rig_close();
        run(MODEL, FOLDER, false, &now);
        same(&base, &now);
        CHECK_EQ(files(), 1);
    }
}
