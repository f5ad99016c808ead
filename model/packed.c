/* model/packed.c - a head page and the extent behind it. */
#include "model/packed.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "arena/base/file.h"
#include "arena/base/hash.h"
#include "arena/base/log.h"
#include "arena/space.h"

enum { PAGE = 4096, STEP = 16 * 1024 * 1024, VERSION = 1, FILES_MOST = 256 };

static const char magic[8] = "HFPACK1";

struct packed_head {                    /* first in the head page; the rest of it is 0        */
    char magic[8];
    u32  version, packing_id;
    u64  weights[2];
    u64  sources[2];
    u64  bytes;                         /* behind the head page                               */
    u64  sum[2];                        /* hash_128 of them                                   */
    u64  head_sum;                      /* hash_64 of what stands before                      */
};
static_assert(sizeof(struct packed_head) == 80, "a file format");

static enum err folder_of(const char *folder, char out[FILE_PATH_BYTES])
{
    return file_join(folder, "packed", out);
}

static bool is_packed(const char *name)
{
    u64 length = strlen(name), end = strlen(".packed");
    return length > end && name[0] != '.' && strcmp(name + length - end, ".packed") == 0;
}

static enum err head_read(const char *path, struct packed_head *out)
{
    int fd = -1;
    TRY(file_open(path, FILE_OPEN_READ, 0, &fd));
    enum err err = file_read_at(fd, 0, out, sizeof *out);
    file_close(fd);
    TRY(err);
    if (memcmp(out->magic, magic, sizeof magic) != 0 || out->version != VERSION ||
        out->head_sum != hash_64(out, offsetof(struct packed_head, head_sum)))
        return fail(ERR_FORMAT, "%s: not a file of packed weights", path);
    return OK;
}

/* The next packed file of a listing that can be read: its path and head; those that can't go. */
static bool next_file(struct file_list *list, const char *folder, char path[FILE_PATH_BYTES],
                      struct packed_head *head)
{
    for (u32 i = 0; i < FILES_MOST && file_list_next(list); i++) {
        if (!is_packed(list->name) || file_join(folder, list->name, path) != OK) continue;
        if (head_read(path, head) == OK) return true;
        log_line(LOG_LEVEL_WARN, "pack cache: %s: removed", err_last()->text);
        if (file_remove(path) != OK) log_line(LOG_LEVEL_WARN, "pack cache: %s", err_last()->text);
    }
    return false;
}

static enum err check_sum(const char *path, const struct packed_head *head, const u8 *at,
                          void (*done)(u64 bytes))
{
    struct hash_state state;
    u64 sum[2];
    hash_open(&state);
    for (u64 i = 0, count; i < head->bytes; i += count) {
        count = MIN((u64)STEP, head->bytes - i);
        hash_add(&state, at + i, count);
        done(count);
    }
    hash_close(&state, sum);
    if (memcmp(sum, head->sum, sizeof sum) != 0)
        return fail(ERR_CRC, "%s: bytes do not match their checksum", path);
    return OK;
}

/* The file of the key; ERR_NOT_FOUND. */
static enum err find(const char *folder, const struct packed_key *key, char path[FILE_PATH_BYTES],
                     struct packed_head *head)
{
    struct file_list list;
    bool found = false;
    if (!file_exists(folder)) return fail(ERR_NOT_FOUND, "%s: no packed weights", folder);
    TRY(file_private(folder));
    TRY(file_list_open(folder, &list));
    while (!found && next_file(&list, folder, path, head))
        found = memcmp(head->sources, key->sources, sizeof key->sources) == 0 &&
                head->packing_id == key->packing_id && head->bytes == key->bytes;
    file_list_close(&list);
    return found ? OK : fail(ERR_NOT_FOUND, "%s: no packed weights of this model", folder);
}

enum err packed_map(const char *folder, const struct packed_key *key, u8 *at,
                    u64 weights[2], void (*done)(u64 bytes))
{
    char inside[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    struct packed_head head;
    struct err_note why;
    TRY(folder_of(folder, inside));
    TRY(find(inside, key, path, &head));
    enum err err = space_host_place_file(path, PAGE, at, key->bytes);
    if (err == OK) {
        err = check_sum(path, &head, at, done);
        if (err != OK) space_host_unplace(at, key->bytes);
    }
    if (err == OK) {
        memcpy(weights, head.weights, sizeof head.weights);
        return OK;
    }
    why = *err_last();
    if (file_remove(path) != OK) log_line(LOG_LEVEL_WARN, "pack cache: %s", err_last()->text);
    return fail(err, "%s", why.text);
}

void packed_unmap(u8 *at, u64 bytes) { space_host_unplace(at, bytes); }

/* A half-written file whose writer is gone: NAME.packed.PID-N.tmp. */
static bool is_left_over(const char *name)
{
    const char *part = strstr(name, ".packed.");
    u64 length = strlen(name);
    char proc[64];
    if (part == NULL || strcmp(name + length - 4, ".tmp") != 0) return false;
    snprintf(proc, sizeof proc, "/proc/%.*s", (int)strspn(part + 8, "0123456789"), part + 8);
    return !file_exists(proc);
}

static void drop_left_over(const char *folder)
{
    struct file_list list;
    char path[FILE_PATH_BYTES];
    if (file_list_open(folder, &list) != OK) return;
    while (file_list_next(&list))
        if (is_left_over(list.name) && file_join(folder, list.name, path) == OK &&
            file_remove(path) != OK)
            log_line(LOG_LEVEL_WARN, "pack cache: %s", err_last()->text);
    file_list_close(&list);
}

/* Files of the same weights, or of the same sources as they were packed before. */
static void drop_others(const char *folder, const struct packed_head *own, const char *own_path)
{
    struct file_list list;
    struct packed_head head;
    char path[FILE_PATH_BYTES];
    if (file_list_open(folder, &list) != OK) return;
    while (next_file(&list, folder, path, &head)) {
        bool same = memcmp(head.weights, own->weights, sizeof head.weights) == 0 ||
                    memcmp(head.sources, own->sources, sizeof head.sources) == 0;
        if (!same || strcmp(path, own_path) == 0) continue;
        if (file_remove(path) != OK) log_line(LOG_LEVEL_WARN, "pack cache: %s", err_last()->text);
    }
    file_list_close(&list);
}

static enum err write_all(struct file_draft *draft, struct packed_head *head, const u8 *at)
{
    static const u8 rest[PAGE];
    TRY(file_write_at(draft->fd, 0, head, sizeof *head));
    TRY(file_write_at(draft->fd, sizeof *head, rest, PAGE - sizeof *head));
    for (u64 i = 0, count; i < head->bytes; i += count) {
        count = MIN((u64)STEP, head->bytes - i);
        TRY(file_write_at(draft->fd, PAGE + i, at + i, count));
    }
    return OK;
}

enum err packed_write(const char *folder, const struct packed_key *key, const u8 *at,
                      const u64 weights[2])
{
    char inside[FILE_PATH_BYTES], path[FILE_PATH_BYTES], name[64];
    static struct file_draft draft;     /* 8 KiB of paths; the loading thread's alone         */
    u64 free_bytes, total_bytes;
    struct packed_head head = { .version = VERSION, .packing_id = key->packing_id,
                                .bytes = key->bytes };
    TRY(folder_of(folder, inside));
    TRY(file_make_folder(inside, 0700));
    TRY(file_private(inside));
    TRY(file_space(inside, &free_bytes, &total_bytes));
    if (free_bytes < key->bytes + PACKED_FREE_LEAST)
        return fail(ERR_FULL, "%s: %llu MiB of packed weights would leave less than %llu MiB free",
                    inside, (ull)(key->bytes / MIB), (ull)(PACKED_FREE_LEAST / MIB));
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.weights, weights, sizeof head.weights);
    memcpy(head.sources, key->sources, sizeof head.sources);
    hash_128(at, key->bytes, head.sum);
    head.head_sum = hash_64(&head, offsetof(struct packed_head, head_sum));
    snprintf(name, sizeof name, "%016llx%016llx-%u.packed", (ull)weights[1], (ull)weights[0],
             key->packing_id);
    TRY(file_join(inside, name, path));
    drop_left_over(inside);
    TRY(file_draft_begin(path, 0600, &draft));
    enum err err = write_all(&draft, &head, at);
    if (err != OK) {
        file_draft_drop(&draft);
        return err;
    }
    TRY(file_draft_end(&draft));
    drop_others(inside, &head, path);
    return OK;
}
