/* tiers/nvme/fingerprint.c - the folder's name, its lock, and the folders of other models. */
#include "tiers/nvme/fingerprint.h"

#include "arena/base/crc32.h"
#include "arena/base/hash.h"
#include "arena/base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = "HFABOUT";
enum { ABOUT_VERSION = 1, HEX = 32, LOCK_BYTES = 16 };

static const char *cpu_of_build(void)
{
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "other";
#endif
}

static void add_u64(struct hash_state *state, u64 value)
{
    hash_add(state, &value, sizeof value);
}

/* A word in 16 bytes, zeros behind it. */
static void add_word(struct hash_state *state, const char *word)
{
    char text[16] = { 0 };
    for (u32 i = 0; i < sizeof text && word[i] != 0; i++) text[i] = word[i];
    hash_add(state, text, sizeof text);
}

void fingerprint_make(const struct state_shape *shape, const struct fingerprint_source *source,
                      u8 out[16])
{
    struct hash_state state;
    u64 hash[2];
    hash_open(&state);
    add_word(&state, "holdfast-nvme-1");
    add_u64(&state, source->weights[0]);
    add_u64(&state, source->weights[1]);
    add_u64(&state, FAULT(FAULT_ARITHMETIC_LEFT_OUT) ? 0 : source->arithmetic_id);
    add_word(&state, source->backend);
    add_word(&state, source->cpu != NULL ? source->cpu : cpu_of_build());
    add_u64(&state, shape->block_rows);
    add_u64(&state, shape->grid_rows);
    add_u64(&state, shape->section_count);
    for (u32 i = 0; i < shape->section_count; i++) {
        add_word(&state, shape->section[i].name);
        add_u64(&state, shape->section[i].offset_bytes);
        add_u64(&state, shape->section[i].bytes);
        add_u64(&state, shape->section[i].type);
    }
    add_u64(&state, shape->view_count);
    for (u32 i = 0; i < shape->view_count; i++) {
        add_word(&state, shape->view[i].name);
        add_u64(&state, shape->view[i].planes);
        add_u64(&state, shape->view[i].row_bytes);
        add_u64(&state, shape->view[i].offset_bytes);
        add_u64(&state, shape->view[i].strip_bytes);
        add_u64(&state, shape->view[i].type);
    }
    hash_close(&state, hash);
    hash_put(hash, out);
}

static void hex_of(const u8 id[16], char out[HEX + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (u32 i = 0; i < 16; i++) {
        out[2 * i] = digits[id[i] >> 4];
        out[2 * i + 1] = digits[id[i] & 15];
    }
    out[HEX] = 0;
}

static bool is_hex_name(const char *name)
{
    return strlen(name) == HEX && strspn(name, "0123456789abcdef") == HEX;
}

static enum err write_about(struct fingerprint *f, u64 now_s)
{
    char path[FILE_PATH_BYTES];
    f->about.used_s = now_s;
    f->about.crc = crc32_of(&f->about, offsetof(struct fingerprint_about, crc));
    TRY(file_join(f->folder, "ABOUT", path));
    return file_commit(path, &f->about, sizeof f->about, 0600);
}

/* "123            \n": who holds the lock; written over in place, whatever stood there. */
static enum err write_lock(int fd)
{
    char text[LOCK_BYTES + 1];
    snprintf(text, sizeof text, "%-*d\n", LOCK_BYTES - 1, (int)getpid());
    return file_write_at(fd, 0, text, LOCK_BYTES);
}

static enum err fail_locked(const char *cache_dir, const char *lock)
{
    char text[LOCK_BYTES + 1] = "";
    u64 bytes = 0;
    if (file_read(lock, text, LOCK_BYTES, &bytes) != OK) bytes = 0;
    text[bytes] = 0;
    text[strspn(text, "0123456789")] = 0;
    return fail(ERR_FULL, "cache folder %s is used by %s%s", cache_dir,
                text[0] != 0 ? "process " : "another process", text);
}

enum err fingerprint_lock(const char *cache_dir, int *fd_out)
{
    char lock[FILE_PATH_BYTES];
    int fd = -1;
    TRY(file_join(cache_dir, "LOCK", lock));
    enum err err = file_lock(lock, &fd);
    if (err == ERR_FULL) return fail_locked(cache_dir, lock);
    TRY(err);
    err = write_lock(fd);
    if (err != OK) file_close(fd);
    else *fd_out = fd;
    return err;
}

static enum err open_locked(struct fingerprint *f, u64 now_s)
{
    char name[HEX + 1];
    hex_of(f->id, name);
    TRY(file_join(f->root, name, f->folder));
    TRY(file_make_folder(f->folder, 0700));
    TRY(file_private(f->folder));
    TRY(file_probe_direct(f->folder, &f->direct));
    if (!f->direct)
        log_line(LOG_LEVEL_WARN, "cache folder %s: no direct I/O there; files are written through "
                 "the page cache and synced", f->root);
    return write_about(f, now_s);
}

enum err fingerprint_open(const char *cache_dir, const struct state_shape *shape,
                          const struct fingerprint_source *source, u64 now_s,
                          struct fingerprint *out)
{
    *out = (struct fingerprint){ .lock_fd = -1 };
    fingerprint_make(shape, source, out->id);
    TRY(file_join(cache_dir, "", out->root));
    TRY(file_make_folder(cache_dir, 0700));
    TRY(file_private(cache_dir));
    int fd = -1;
    TRY(fingerprint_lock(cache_dir, &fd));
    out->about = (struct fingerprint_about){
        .version = ABOUT_VERSION, .arithmetic_id = source->arithmetic_id,
        .weights = { source->weights[0], source->weights[1] },
    };
    out->arithmetic_least = source->arithmetic_least;
    memcpy(out->about.magic, magic, sizeof magic);
    memcpy(out->about.fingerprint, out->id, sizeof out->id);
    enum err err = open_locked(out, now_s);
    if (err != OK) {
        file_close(fd);
        return err;
    }
    out->lock_fd = fd;
    return OK;
}

void fingerprint_close(struct fingerprint *f, u64 now_s)
{
    if (f->lock_fd < 0) return;
    if (write_about(f, now_s) != OK)
        log_line(LOG_LEVEL_WARN, "cache folder: %s", err_last()->text);
    file_close(f->lock_fd);
    f->lock_fd = -1;
}

/* ------------------------------------------------------------------ other folders */

bool fingerprint_goes(const struct fingerprint_other *other, const struct fingerprint *f,
                      u64 now_s, u64 need_bytes)
{
    if (need_bytes > 0) return true;
    if (!other->known) return true;                     /* never finished, or not readable    */
    bool same = memcmp(other->weights, f->about.weights, sizeof other->weights) == 0;
    if (same && other->arithmetic_id < f->arithmetic_least) return true;
    return now_s > other->used_s && now_s - other->used_s > FINGERPRINT_UNUSED_S;
}

static enum err bytes_in(const char *folder, u64 *out)
{
    struct file_list list;
    struct file_stat stat;
    char path[FILE_PATH_BYTES];
    u64 bytes = 0;
    TRY(file_list_open(folder, &list));
    while (file_list_next(&list))
        if (file_join(folder, list.name, path) == OK && file_stat(path, &stat) == OK)
            bytes += stat.bytes;
    file_list_close(&list);
    *out = bytes;
    return OK;
}

enum err fingerprint_look(const char *root, const char *name, struct fingerprint_other *out)
{
    struct fingerprint_about about;
    char folder[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    u64 bytes = 0;
    *out = (struct fingerprint_other){ 0 };
    memcpy(out->name, name, HEX + 1);
    TRY(file_join(root, name, folder));
    TRY(bytes_in(folder, &out->bytes));
    TRY(file_join(folder, "ABOUT", path));
    bool read = file_read(path, &about, sizeof about, &bytes) == OK && bytes == sizeof about;
    u32 crc = crc32_of(&about, read ? offsetof(struct fingerprint_about, crc) : 0);
    if (!read || about.crc != crc || memcmp(about.magic, magic, sizeof magic) != 0) return OK;
    memcpy(out->weights, about.weights, sizeof out->weights);
    out->arithmetic_id = about.arithmetic_id;
    out->used_s = about.used_s;
    out->known = true;
    return OK;
}

/* Other folders, the one unused longest first; at most FINGERPRINT_OTHERS. */
static enum err list_others(const struct fingerprint *f, struct fingerprint_other *out, u32 *count)
{
    struct file_list list;
    char own_name[HEX + 1];
    hex_of(f->id, own_name);
    TRY(file_list_open(f->root, &list));
    while (*count < FINGERPRINT_OTHERS && file_list_next(&list)) {
        struct fingerprint_other other;
        if (!is_hex_name(list.name) || strcmp(list.name, own_name) == 0) continue;
        if (fingerprint_look(f->root, list.name, &other) != OK) continue;
        u32 at = (*count)++;
        for (; at > 0 && out[at - 1].used_s > other.used_s; at--) out[at] = out[at - 1];
        out[at] = other;
    }
    file_list_close(&list);
    return OK;
}

enum err fingerprint_sweep(const struct fingerprint *f, u64 now_s, u64 need_bytes,
                           struct fingerprint_swept *out)
{
    struct fingerprint_other *other = out->other;
    char folder[FILE_PATH_BYTES];
    u32 count = 0;
    *out = (struct fingerprint_swept){ 0 };
    TRY(list_others(f, other, &count));
    for (u32 i = 0; i < count; i++) {
        bool goes = fingerprint_goes(&other[i], f, now_s, need_bytes);
        enum err err = goes ? file_join(f->root, other[i].name, folder) : OK;
        if (goes && err == OK) err = file_remove_folder(folder);
        if (err != OK) log_line(LOG_LEVEL_WARN, "cache folder: %s", err_last()->text);
        if (goes && err == OK) {
            out->folders++;
            out->bytes += other[i].bytes;
            need_bytes -= MIN(need_bytes, other[i].bytes);
        } else {
            out->kept_bytes += other[i].bytes;
            other[out->count++] = other[i];
        }
    }
    return OK;
}
