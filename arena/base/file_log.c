/* arena/base/file_log.c - the log of file calls and the fault countdown. */
#include "arena/base/file_log.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

enum { LOG_FILES = 4096 };              /* files a log can tell apart by inode                */

static _Thread_local bool watched;
static _Atomic u64 waits;              /* calls of threads that watch themselves             */
static _Atomic u32 fail_left, fail_kind;
static _Atomic bool dead;               /* FILE_FAULT_KILL has fired: nothing reaches the disk */
static struct file_log *now;
static u64 file_count, inode_of[LOG_FILES];

void file_fail_as(u32 nth, enum file_fault kind)
{
    atomic_store(&dead, false);
    atomic_store(&fail_kind, kind);
    atomic_store(&fail_left, nth);
}

void file_fail(u32 nth) { file_fail_as(nth, FILE_FAULT_IO); }

u32 file_fail_left(void) { return atomic_load(&fail_left); }

bool file_log_watch(bool on)
{
    bool was = watched;
    watched = on;
    return was;
}

u64 file_log_waits(void) { return atomic_load(&waits); }

enum file_fault file_log_fault(void)
{
    if (watched) atomic_fetch_add(&waits, 1);
    if (atomic_load(&dead)) {
        errno = EIO;
        return FILE_FAULT_DEAD;
    }
    u32 left = atomic_load(&fail_left);
    if (left == 0) return FILE_FAULT_NONE;
    atomic_store(&fail_left, left - 1);
    if (left > 1) return FILE_FAULT_NONE;
    enum file_fault kind = (enum file_fault)atomic_load(&fail_kind);
    if (kind == FILE_FAULT_KILL) atomic_store(&dead, true);
    errno = kind == FILE_FAULT_FULL ? ENOSPC : EIO;
    return kind;
}

void file_log_open(struct file_log *log)
{
    now = log;
    file_count = 0;
}

/* Number of the file behind `fd`: the newest that got its inode.  0: made before the log. */
static u64 number_of(int fd, bool fresh)
{
    struct stat s;
    if (fd < 0 || fstat(fd, &s) != 0) return 0;
    if (fresh && file_count < LOG_FILES) inode_of[file_count++] = s.st_ino;
    for (u64 i = file_count; i > 0; i--)
        if (inode_of[i - 1] == s.st_ino) return i;
    return 0;
}

static void put_path(char to[128], const char *path)
{
    u64 bytes = path == NULL ? 0 : strlen(path);
    u64 skip = bytes > 127 ? bytes - 127 : 0;
    if (path != NULL) memcpy(to, path + skip, bytes - skip);
    to[bytes - skip] = 0;
}

void file_log_add(enum file_call call, int fd, const char *path, const char *to, u64 offset,
                  const void *from, u64 bytes)
{
    struct file_log *log = now;
    if (log == NULL) return;
    if (log->count == log->cap || bytes > log->byte_cap - log->byte_count ||
        file_count == LOG_FILES) {
        log->full = true;
        return;
    }
    struct file_log_row *row = &log->row[log->count++];
    *row = (struct file_log_row){ .call = call, .offset = offset, .bytes = bytes,
                                  .at = log->byte_count };
    row->file = number_of(fd, call == FILE_CALL_CREATE);
    put_path(row->path, path);
    put_path(row->to, to);
    if (bytes > 0) memcpy(log->bytes + log->byte_count, from, bytes);
    log->byte_count += bytes;
}
