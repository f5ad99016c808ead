/* tiers/suffix/folder.c - names, lists, and clearing without a server. */
#include "tiers/suffix/folder.h"

#include "arena/base/log.h"

#include <stdio.h>
#include <string.h>

enum { HEX = 32, NUMBER = 16 };
static const char prefix[] = "ids-", digits[] = "0123456789abcdef", used[] = "USED";

void suffix_folder_name(u64 number, char out[FOLDER_NAME_BYTES])
{
    snprintf(out, FOLDER_NAME_BYTES, "s-%016llx", (ull)number);
}

static bool parse_name(const char *name, u64 *number_out)
{
    u64 number = 0;
    if (strncmp(name, "s-", 2) != 0 || strlen(name) != 2 + NUMBER) return false;
    for (u32 i = 2; i < 2 + NUMBER; i++) {
        const char *digit = strchr(digits, name[i]);
        if (digit == NULL) return false;
        number = number << 4 | (u64)(digit - digits);
    }
    *number_out = number;
    return true;
}

static bool is_ours(const char *name)
{
    u64 lead = sizeof prefix - 1;
    return strncmp(name, prefix, lead) == 0 && strlen(name) == lead + HEX &&
           strspn(name + lead, digits) == HEX;
}

/* Bytes of a folder's files, and when one was last written. */
static enum err look(const char *folder, u64 *bytes_out, u64 *written_s_out)
{
    struct file_list list;
    struct file_stat stat;
    char path[FILE_PATH_BYTES];
    u64 bytes = 0, written_ns = 0;
    TRY(file_stat(folder, &stat));
    written_ns = stat.mtime_ns;
    TRY(file_list_open(folder, &list));
    while (file_list_next(&list)) {
        if (file_join(folder, list.name, path) != OK || file_stat(path, &stat) != OK) continue;
        bytes += stat.bytes;
        written_ns = MAX(written_ns, stat.mtime_ns);
    }
    file_list_close(&list);
    *bytes_out = bytes;
    *written_s_out = written_ns / 1000000000u;
    return OK;
}

/* One that can't be looked at or removed is logged and left. */
static void sweep(const char *cache_dir, const char *own_name, u64 now_s)
{
    struct file_list list;
    char folder[FILE_PATH_BYTES];
    enum err err = file_list_open(cache_dir, &list);
    while (err == OK && file_list_next(&list)) {
        u64 bytes, written_s;
        if (!is_ours(list.name) || strcmp(list.name, own_name) == 0) continue;
        if (file_join(cache_dir, list.name, folder) != OK) continue;
        enum err one = look(folder, &bytes, &written_s);
        if (one == OK && now_s > written_s + FOLDER_UNUSED_S) {
            one = file_remove_folder(folder);
            if (one == OK)
                log_line(LOG_LEVEL_INFO, "suffix store: %s was unused for 7 days: %llu bytes freed",
                         folder, (ull)bytes);
        }
        if (one != OK) log_line(LOG_LEVEL_WARN, "suffix store: %s", err_last()->text);
    }
    if (err == OK) file_list_close(&list);
}

enum err suffix_folder_open(const char *cache_dir, const u8 tokenizer[16], u64 now_s,
                            char out[FILE_PATH_BYTES])
{
    char name[sizeof prefix + HEX], path[FILE_PATH_BYTES], mark[FILE_PATH_BYTES];
    memcpy(name, prefix, sizeof prefix);
    for (u32 i = 0; i < HEX; i++)
        name[sizeof prefix - 1 + i] = digits[tokenizer[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    name[sizeof prefix - 1 + HEX] = 0;
    TRY(file_join(cache_dir, name, path));
    TRY(file_make_folder(path, 0700));
    TRY(file_private(path));
    TRY(file_join(path, used, mark));
    TRY(file_commit(mark, used, sizeof used - 1, 0600));
    sweep(cache_dir, name, now_s);
    memcpy(out, path, sizeof path);
    return OK;
}

static enum err remove_in(const char *folder, const char *name, u32 *removed)
{
    char path[FILE_PATH_BYTES];
    struct file_stat stat;
    TRY(file_join(folder, name, path));
    TRY(file_stat(path, &stat));
    if (stat.folder) return OK;         /* not ours, and in nobody's way                      */
    TRY(file_remove(path));
    ++*removed;
    return OK;
}

/* Into a list that is ascending; the oldest goes when it is full, into *over. */
static bool insert(struct folder_file *out, u32 cap, u32 *count, struct folder_file file,
                   struct folder_file *over)
{
    bool full = *count == cap;
    *over = full ? out[0] : file;
    if (full && file.number < out[0].number) {
        *over = file;
        return false;
    }
    if (full) memmove(out, out + 1, --*count * sizeof *out);
    u32 at = (*count)++;
    for (; at > 0 && out[at - 1].number > file.number; at--) out[at] = out[at - 1];
    out[at] = file;
    return !full;
}

enum err suffix_folder_list(const char *folder, struct folder_file *out, u32 cap, u32 *count_out,
                            u32 *removed_out)
{
    struct file_list list;
    struct file_stat stat;
    struct folder_file over;
    char path[FILE_PATH_BYTES], old[FOLDER_NAME_BYTES];
    u32 count = 0, removed = 0;
    TRY(file_list_open(folder, &list));
    enum err err = OK;
    while (err == OK && file_list_next(&list)) {
        u64 number;
        if (strcmp(list.name, used) == 0) continue;
        if (!parse_name(list.name, &number)) {
            err = remove_in(folder, list.name, &removed);
            continue;
        }
        err = file_join(folder, list.name, path);
        if (err == OK) err = file_stat(path, &stat);
        if (err != OK || insert(out, cap, &count, (struct folder_file){ number, stat.bytes },
                                &over)) continue;
        suffix_folder_name(over.number, old);
        err = remove_in(folder, old, &removed);
    }
    file_list_close(&list);
    if (err != OK) return err;
    *count_out = count;
    if (removed_out != NULL) *removed_out = removed;
    return OK;
}

/* ------------------------------------------------------------------ without a server */

/* The words of a file that are sound and what they are of; 0: none, it goes. */
static u64 read_words(const char *path, u32 *work)
{
    struct words_file head;
    u64 bytes = 0, number, ids;
    if (file_read(path, work, FOLDER_WORK_BYTES, &bytes) != OK || bytes < sizeof head) return 0;
    memcpy(&head, work, sizeof head);
    if (words_check(work, bytes, head.tokenizer, head.vocab, &number) != OK) return 0;
    return words_valid(work, bytes / sizeof *work, head.vocab, &ids);
}

static enum err clear_file(const char *folder, const struct folder_file *file,
                           const u64 session[2], u32 *work, struct folder_cleared *out)
{
    char name[FOLDER_NAME_BYTES], path[FILE_PATH_BYTES];
    suffix_folder_name(file->number, name);
    TRY(file_join(folder, name, path));
    u64 count = read_words(path, work);
    u64 ids = count == 0 ? 0 : words_of_session(work, count, session);
    if (ids == 0 && count > 0 && count * sizeof *work == file->bytes) return OK;
    u64 kept = count == 0 ? WORDS_FILE : words_without(work, count, session, work);
    if (kept == WORDS_FILE) TRY(file_remove(path));
    else TRY(file_commit(path, work, kept * sizeof *work, 0600));
    out->ids += ids;
    out->bytes += file->bytes - (kept == WORDS_FILE ? 0 : MIN(file->bytes, kept * sizeof *work));
    return OK;
}

static enum err clear_folder(const char *folder, const u64 session[2], u32 *work,
                             struct folder_cleared *out)
{
    struct folder_file file[FOLDER_CAP];
    u64 bytes, written_s;
    u32 count;
    if (session == NULL) {
        TRY(look(folder, &bytes, &written_s));
        TRY(file_remove_folder(folder));
        out->bytes += bytes;
        return OK;
    }
    TRY(suffix_folder_list(folder, file, FOLDER_CAP, &count, NULL));
    for (u32 i = 0; i < count; i++) TRY(clear_file(folder, &file[i], session, work, out));
    return OK;
}

/* Every tokenizer's folder.  The list is read anew after a folder went. */
static enum err each(const char *cache_dir, const u64 session[2], u32 *work, bool clear,
                     struct folder_cleared *out)
{
    struct file_list list;
    char folder[FILE_PATH_BYTES];
    u64 bytes, written_s;
    *out = (struct folder_cleared){ 0 };
    TRY(file_list_open(cache_dir, &list));
    enum err err = OK;
    while (err == OK && file_list_next(&list)) {
        if (!is_ours(list.name)) continue;
        err = file_join(cache_dir, list.name, folder);
        if (err == OK && clear) err = clear_folder(folder, session, work, out);
        else if (err == OK && (err = look(folder, &bytes, &written_s)) == OK) out->bytes += bytes;
    }
    file_list_close(&list);
    return err;
}

enum err suffix_folder_clear(const char *cache_dir, const u64 session[2], u32 *work,
                             struct folder_cleared *out)
{
    return each(cache_dir, session, work, true, out);
}

enum err suffix_folder_bytes(const char *cache_dir, u64 *bytes_out)
{
    struct folder_cleared found;
    TRY(each(cache_dir, NULL, NULL, false, &found));
    *bytes_out = found.bytes;
    return OK;
}
