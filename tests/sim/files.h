/* tests/sim/files.h - the cache folder seen from outside, by plain system calls: what is in it,
 * bits of it flipped; and the tables of tiers/nvme counted anew.
 *
 * Not through arena/base/file.h, whose calls count down the faults of a script. */
#ifndef SIM_FILES_H
#define SIM_FILES_H

#include "tests/sim/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_CAP = 4096, FOLDER_NAME = 96 };

static char files_name[FOLDER_CAP][FOLDER_NAME];      /* "FOLDER/NAME" below the root, sorted    */
static u32  files_count;

static void files_path(const char *name, char out[512])
{
    snprintf(out, 512, "%s/%.95s", world_files, name);
}

/* Of a model, or of a tokenizer's log. */
static bool files_folder(const char *name)
{
    return strlen(name) == 32 || strncmp(name, "ids-", 4) == 0;
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

/* Fills files_name. */
static void files_list(void)
{
    DIR *root = opendir(world_files), *sub;
    struct dirent *folder, *file;
    char path[512];
    files_count = 0;
    CHECK(root != NULL);
    while ((folder = readdir(root)) != NULL) {
        if (!files_folder(folder->d_name)) continue;
        files_path(folder->d_name, path);
        CHECK((sub = opendir(path)) != NULL);
        while ((file = readdir(sub)) != NULL) {
            if (file->d_name[0] == '.') continue;
            CHECK(files_count < FOLDER_CAP);
            i32 n = snprintf(files_name[files_count++], FOLDER_NAME, "%.36s/%.56s", folder->d_name,
                             file->d_name);
            CHECK(n < FOLDER_NAME);
        }
        closedir(sub);
    }
    closedir(root);
    qsort(files_name, files_count, FOLDER_NAME, by_name);
}

/* A folder of this script alone, and away with it. */
static const char *files_make(void)
{
    static char folder[64];
    snprintf(folder, sizeof folder, "%s/holdfast-sim-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(folder) != NULL);
    return folder;
}

static void files_remove(void)
{
    char path[512];
    files_list();
    for (u32 i = 0; i < files_count; i++) {
        files_path(files_name[i], path);
        CHECK(unlink(path) == 0);
    }
    for (u32 i = 0; i < files_count; i++) {             /* the same folder again: gone already    */
        *strchr(files_name[i], '/') = 0;
        files_path(files_name[i], path);
        rmdir(path);
    }
    files_path("LOCK", path);
    unlink(path);
    DIR *root = opendir(world_files);                   /* folders without a file                 */
    struct dirent *folder;
    while (root != NULL && (folder = readdir(root)) != NULL) {
        if (!files_folder(folder->d_name)) continue;
        files_path(folder->d_name, path);
        rmdir(path);
    }
    if (root != NULL) closedir(root);
    CHECK(rmdir(world_files) == 0);
}

/* Files of this model whose name begins or (`ends`) ends so. */
static u32 files_of(const char *what, bool ends)
{
    struct fingerprint_source source = {
        .weights = { micro.set.weights, 1 }, .backend = "cpu",
        .arithmetic_id = model_ops()->arithmetic_id + micro.set.arithmetic };
    u8 id[16];
    char hex[33];
    u32 count = 0;
    fingerprint_make(state_shape(), &source, id);
    for (u32 i = 0; i < 16; i++) snprintf(hex + 2 * i, 3, "%02x", id[i]);
    files_list();
    for (u32 i = 0; i < files_count; i++) {
        const char *name = strchr(files_name[i], '/') + 1;
        u64 bytes = strlen(what), skip = strlen(name) > bytes ? strlen(name) - bytes : 0;
        if (strncmp(files_name[i], hex, 32) != 0) continue;
        count += strncmp(ends ? name + skip : name, what, bytes) == 0;
    }
    return count;
}

/* ------------------------------------------------------------------ damage */

/* Place of a byte that isn't zero, from a drawn one on; most of a small file is padding. */
static u64 full_byte(const u8 *bytes, u64 count, u64 from)
{
    for (u64 i = 0; i < count; i++)
        if (bytes[(from + i) % count] != 0) return (from + i) % count;
    return from % count;
}

/* One file: a bit flips, it is cut, or it is gone. */
static void spoil(const char *name, u64 salt)
{
    static u8 bytes[1 << 20];
    char path[512];
    files_path(name, path);
    int fd = open(path, O_RDWR);
    if (fd < 0) return;                                 /* spoilt before: gone                    */
    ssize_t count = read(fd, bytes, sizeof bytes);
    CHECK(count >= 0);
    u64 kind = rng_u64(salt, 1) % 12, at = rng_u64(salt, 2);
    world.sum.rotten++;
    if (kind == 0 || count == 0) {
        CHECK(unlink(path) == 0);
    } else if (kind == 1) {
        CHECK(ftruncate(fd, (off_t)(at % (u64)count)) == 0);
    } else {
        u64 place = kind < 4 ? at % (u64)count : full_byte(bytes, (u64)count, at % (u64)count);
        u8 byte = (u8)(bytes[place] ^ 1u << salt % 8);
        CHECK(pwrite(fd, &byte, 1, (off_t)place) == 1);
    }
    close(fd);
}

static void files_spoil(const struct sim_op *op)
{
    files_list();
    u32 count = files_count, each = op->count % 3 == 0;         /* every one, or a few            */
    for (u32 i = 0; i < (each ? count : MIN(count, 1 + op->at % 4u)); i++)
        spoil(files_name[each ? i : rng_u64(op->salt, i) % count], op->salt * 4096u + i);
    for (u32 m = 0; m < SIM_MODELS && count > 0; m++)
        world.left[m].rotten = world.left[m].flipped = true;
}

/* ------------------------------------------------------------------ tables */

/* Conversations that use a piece. */
static u32 talks_of(u32 piece)
{
    u32 count = 0;
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1)) {
        const struct spill_row *r = spill_at(i);
        count += (u32)(r->top == piece) + (r->tail == piece);
        for (u32 k = 0; k < r->talk.anchor_count; k++) count += r->anchor[k] == piece;
    }
    return count;
}

/* Folders of other models went for want of room, or are on their way: what was left there is not
 * known any more. */
static void note_removed(void)
{
    struct pool_counts now = pool_counts();
    if (now.others_removed == world.removed && now.others == world.others) return;
    world.removed = now.others_removed;
    world.others = now.others;
    for (u32 m = 0; m < SIM_MODELS; m++)
        if (m != world.model) world.left[m].known = false;
}

/* Every use of a file is one somebody knows of, and no manifest names what isn't written. */
static void files_check(void)
{
    if (!nvme_on()) return;
    note_removed();
    pieces_check();
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
        u32 users = talks_of(i);
        for (u32 j = pieces_next(0); j != NONE; j = pieces_next(j + 1)) {
            const struct piece_row *above = pieces_row(j);
            bool line = above->kind == FORMAT_ANCHOR && above->hi % state_shape()->grid_rows == 0;
            users += j != i && (above->kind == FORMAT_CHUNK || line) && pieces_below(j) == i;
        }
        CHECK_EQ(pieces_row(i)->users, users);
    }
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1)) {
        const struct spill_row *r = spill_at(i);
        if (r->state < SPILL_MANIFEST) continue;
        if (r->top != NONE) CHECK(pieces_row(r->top)->state == PIECE_READY);
        if (r->tail != NONE) CHECK(pieces_row(r->tail)->state == PIECE_READY);
    }
}

#endif
