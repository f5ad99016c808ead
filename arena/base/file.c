/* arena/base/file.c - system calls with paths in their errors, whole transfers, commits by rename.
 *
 * Plain pread and pwrite.  One fault countdown covers every call that reaches the disk. */
#include "arena/base/file.h"

#include "arena/base/file_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { TRANSFER_BYTES_MAX = 1 << 30 };  /* Linux moves a little less than 2 GiB a call         */

/* True when the call about to be made is the one that fails; errno says why.  A short count is for
 * transfers alone: other calls go on. */
static bool fault(void)
{
    enum file_fault kind = file_log_fault();
    return kind != FILE_FAULT_NONE && kind != FILE_FAULT_SHORT;
}

static enum err fail_at(const char *doing, const char *path)
{
    i32 why = errno;
    char text[128];
    return fail(why == ENOENT || why == ENOTDIR ? ERR_NOT_FOUND : ERR_IO, "%s %s: %s", doing, path,
                strerror_r(why, text, sizeof text));
}

/* The path a descriptor was opened by, for errors. */
static const char *path_of(int fd, char path[FILE_PATH_BYTES])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, FILE_PATH_BYTES - 1);
    if (bytes < 0) return "a file";
    path[bytes] = 0;
    return path;
}

static enum err fail_fd(const char *doing, int fd)
{
    i32 why = errno;
    char path[FILE_PATH_BYTES], text[128];
    return fail(ERR_IO, "%s %s: %s", doing, path_of(fd, path), strerror_r(why, text, sizeof text));
}

enum err file_stat(const char *path, struct file_stat *out)
{
    struct stat s;
    if (fault() || stat(path, &s) != 0) return fail_at("looking at", path);
    *out = (struct file_stat){
        .bytes = (u64)s.st_size, .inode = s.st_ino, .mode = s.st_mode & 07777, .owner = s.st_uid,
        .mtime_ns = (u64)s.st_mtim.tv_sec * 1000000000u + (u64)s.st_mtim.tv_nsec,
        .ctime_ns = (u64)s.st_ctim.tv_sec * 1000000000u + (u64)s.st_ctim.tv_nsec,
        .folder = S_ISDIR(s.st_mode), .regular = S_ISREG(s.st_mode),
    };
    return OK;
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

enum err file_open(const char *path, enum file_open how, u32 mode, int *fd_out)
{
    static const int flags[] = {
        [FILE_OPEN_READ] = O_RDONLY, [FILE_OPEN_WRITE] = O_RDWR,
        [FILE_OPEN_CREATE] = O_RDWR | O_CREAT, [FILE_OPEN_APPEND] = O_RDWR | O_CREAT | O_APPEND,
    };
    ASSERT((u32)how < COUNT_OF(flags));
    bool made = how >= FILE_OPEN_CREATE && !file_exists(path);
    int fd = fault() ? -1 : open(path, flags[how] | O_CLOEXEC, (mode_t)mode);
    if (fd < 0) return fail_at("opening", path);
    if (made) file_log_add(FILE_CALL_CREATE, fd, path, NULL, 0, NULL, 0);
    *fd_out = fd;
    return OK;
}

enum err file_open_direct(const char *path, int *fd_out)
{
    int fd = fault() ? -1 : open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0 && errno == EINVAL) fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_at("opening", path);
    *fd_out = fd;
    return OK;
}

void file_close(int fd)
{
    if (fd >= 0) close(fd);
}

/* Half of a transfer that a fault cuts, in whole pages when it came in pages: direct I/O takes
 * nothing else. */
static u64 half_of(u64 bytes)
{
    if (bytes % FILE_PAGE_BYTES != 0) return bytes / 2;
    return MAX(ALIGN_DOWN(bytes / 2, FILE_PAGE_BYTES), FILE_PAGE_BYTES);
}

enum err file_read_at(int fd, u64 offset, void *to, u64 bytes)
{
    u8 *at = to;
    u64 done = 0;
    while (done < bytes) {              /* each round reads, ends the file or fails           */
        u64 want = MIN(bytes - done, TRANSFER_BYTES_MAX);
        enum file_fault kind = file_log_fault();
        if (kind == FILE_FAULT_SHORT && want > 1) want = half_of(want);
        bool broken = kind != FILE_FAULT_NONE && kind != FILE_FAULT_SHORT;
        ssize_t got = broken ? -1 : pread(fd, at + done, want, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_fd("reading", fd);
        if (got == 0) {
            char path[FILE_PATH_BYTES];
            return fail(ERR_IO, "reading %s: it ends at byte %llu, expected %llu bytes at %llu",
                        path_of(fd, path), (ull)(offset + done), (ull)bytes, (ull)offset);
        }
        done += (u64)got;
    }
    return OK;
}

/* Writes all bytes, at `offset` or (append) at the end. */
static enum err write_all(int fd, bool append, u64 offset, const void *from, u64 bytes)
{
    const u8 *at = from;
    u64 done = 0;
    while (done < bytes) {              /* each round writes or fails                         */
        u64 want = MIN(bytes - done, TRANSFER_BYTES_MAX);
        enum file_fault kind = file_log_fault();
        bool broken = kind != FILE_FAULT_NONE && kind != FILE_FAULT_SHORT;
        i32 why = errno;
        if (kind != FILE_FAULT_NONE) want = kind == FILE_FAULT_DEAD ? 0 : half_of(want);
        ssize_t got = append ? write(fd, at + done, want)
                             : pwrite(fd, at + done, want, (off_t)(offset + done));
        if (!broken && got < 0 && errno == EINTR) continue;
        if (got < 0) why = errno;
        if (got > 0)
            file_log_add(FILE_CALL_WRITE, fd, NULL, NULL, offset + done, at + done, (u64)got);
        errno = why;
        if (broken || got < 0) return fail_fd("writing", fd);
        done += (u64)got;
    }
    return OK;
}

enum err file_write_at(int fd, u64 offset, const void *from, u64 bytes)
{
    return write_all(fd, false, offset, from, bytes);
}

enum err file_append(int fd, const void *from, u64 bytes)
{
    return write_all(fd, true, 0, from, bytes);
}

enum err file_sync(int fd)
{
    if (fault() || fsync(fd) != 0) return fail_fd("syncing", fd);
    file_log_add(FILE_CALL_SYNC, fd, NULL, NULL, 0, NULL, 0);
    return OK;
}

enum err file_read(const char *path, void *to, u64 cap_bytes, u64 *bytes_out)
{
    int fd = -1;
    struct stat s;
    TRY(file_open(path, FILE_OPEN_READ, 0, &fd));
    enum err err = OK;
    if (fault() || fstat(fd, &s) != 0) err = fail_at("looking at", path);
    else if (!S_ISREG(s.st_mode)) err = fail(ERR_IO, "reading %s: not a plain file", path);
    else if ((u64)s.st_size > cap_bytes)
        err = fail(ERR_LIMIT, "%s is %llu bytes long, at most %llu are read", path,
                   (ull)s.st_size, (ull)cap_bytes);
    else err = file_read_at(fd, 0, to, (u64)s.st_size);
    if (err == OK) *bytes_out = (u64)s.st_size;
    file_close(fd);
    return err;
}

/* The folder a path lies in. */
static enum err folder_of(const char *path, char out[FILE_PATH_BYTES])
{
    u64 bytes = strlen(path);
    if (bytes >= FILE_PATH_BYTES - 32) return fail(ERR_LIMIT, "path of %llu bytes", (ull)bytes);
    const char *slash = strrchr(path, '/');
    if (slash == NULL) strcpy(out, ".");
    else if (slash == path) strcpy(out, "/");
    else {
        memcpy(out, path, (u64)(slash - path));
        out[slash - path] = 0;
    }
    return OK;
}

static enum err sync_folder(const char *path)
{
    char folder[FILE_PATH_BYTES];
    TRY(folder_of(path, folder));
    int fd = fault() ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_at("opening", folder);
    enum err err = fault() || fsync(fd) != 0 ? fail_at("syncing", folder) : OK;
    if (err == OK) file_log_add(FILE_CALL_SYNC_FOLDER, -1, folder, NULL, 0, NULL, 0);
    file_close(fd);
    return err;
}

static enum err draft_begin(const char *path, u32 mode, i32 flags, struct file_draft *out)
{
    static _Atomic u32 serial;
    char folder[FILE_PATH_BYTES];
    TRY(folder_of(path, folder));       /* also: room for the suffix                          */
    snprintf(out->path, sizeof out->path, "%s", path);
    i32 bytes = snprintf(out->name, sizeof out->name, "%s.%d-%u.tmp", path, (int)getpid(),
                         atomic_fetch_add(&serial, 1));
    ASSERT(bytes > 0 && bytes < FILE_PATH_BYTES);
    out->fd = fault() ? -1 : open(out->name, flags | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
    if (out->fd < 0) return fail_at("creating", out->name);
    file_log_add(FILE_CALL_CREATE, out->fd, out->name, NULL, 0, NULL, 0);
    return OK;
}

enum err file_draft_begin(const char *path, u32 mode, struct file_draft *out)
{
    return draft_begin(path, mode, O_RDWR, out);
}

enum err file_draft_direct(const char *path, u32 mode, bool direct, struct file_draft *out)
{
    return draft_begin(path, mode, direct ? O_RDWR | O_DIRECT : O_RDWR, out);
}

enum err file_draft_end(struct file_draft *draft)
{
    enum err err = file_sync(draft->fd);
    if (err == OK && (fault() || rename(draft->name, draft->path) != 0))
        err = fail_at("renaming to", draft->path);
    if (err != OK) {
        file_draft_drop(draft);
        return err;
    }
    file_log_add(FILE_CALL_RENAME, draft->fd, draft->path, draft->name, 0, NULL, 0);
    file_close(draft->fd);
    draft->fd = -1;
    return sync_folder(draft->path);
}

void file_draft_drop(struct file_draft *draft)
{
    if (draft->fd < 0) return;
    file_close(draft->fd);
    draft->fd = -1;
    if (file_log_fault() >= FILE_FAULT_KILL || unlink(draft->name) != 0) return;
    file_log_add(FILE_CALL_REMOVE, -1, draft->name, NULL, 0, NULL, 0);
}

enum err file_commit(const char *path, const void *from, u64 bytes, u32 mode)
{
    struct file_draft draft;
    TRY(file_draft_begin(path, mode, &draft));
    enum err err = file_write_at(draft.fd, 0, from, bytes);
    if (err != OK) {
        file_draft_drop(&draft);
        return err;
    }
    return file_draft_end(&draft);
}

enum err file_remove(const char *path)
{
    if (fault()) return fail_at("removing", path);
    if (unlink(path) != 0) return errno == ENOENT ? OK : fail_at("removing", path);
    file_log_add(FILE_CALL_REMOVE, -1, path, NULL, 0, NULL, 0);
    return OK;
}

enum err file_remove_folder(const char *path)
{
    struct file_list list;
    char name[FILE_PATH_BYTES];
    TRY(file_list_open(path, &list));
    enum err err = OK;
    while (err == OK && file_list_next(&list)) {
        err = file_join(path, list.name, name);
        if (err == OK) err = file_remove(name);
    }
    file_list_close(&list);
    if (err == OK && (fault() || rmdir(path) != 0)) err = fail_at("removing folder", path);
    return err;
}

enum err file_private(const char *path)
{
    struct file_stat s;
    TRY(file_stat(path, &s));
    if (!s.folder) return fail(ERR_IO, "%s is not a folder", path);
    if (s.owner != geteuid())
        return fail(ERR_IO, "%s belongs to user %u, not to us (%u)", path, s.owner, geteuid());
    if ((s.mode & 077) != 0)
        return fail(ERR_IO, "%s has mode %04o, others may look into it: expected 0700", path,
                    s.mode);
    return OK;
}

enum err file_probe_direct(const char *folder, bool *direct_out)
{
    static _Alignas(FILE_PAGE_BYTES) u8 page[FILE_PAGE_BYTES];
    char path[FILE_PATH_BYTES];
    TRY(file_join(folder, "probe.tmp", path));
    int fd = fault() ? -1 : open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    bool refused = fd < 0 && errno == EINVAL;
    if (fd < 0 && !refused) return fail_at("creating", path);
    bool direct = fd >= 0 && pwrite(fd, page, sizeof page, 0) == (ssize_t)sizeof page &&
                  pread(fd, page, sizeof page, 0) == (ssize_t)sizeof page;
    file_close(fd);
    unlink(path);
    *direct_out = direct;
    return OK;
}

enum err file_make_folder(const char *path, u32 mode)
{
    char part[FILE_PATH_BYTES];
    u64 bytes = strlen(path);
    if (bytes == 0 || bytes >= sizeof part)
        return fail(ERR_LIMIT, "path of %llu bytes", (ull)bytes);
    for (u64 i = 1; i <= bytes; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        bool broken = fault();
        if (!broken && mkdir(part, (mode_t)mode) == 0) {
            file_log_add(FILE_CALL_FOLDER, -1, part, NULL, 0, NULL, 0);
            TRY(sync_folder(part));
        } else if (broken || errno != EEXIST) return fail_at("making folder", part);
    }
    struct file_stat s;
    TRY(file_stat(path, &s));
    return s.folder ? OK : fail(ERR_IO, "making folder %s: a file of that name is there", path);
}

enum err file_space(const char *path, u64 *free_out, u64 *total_out)
{
    struct statvfs s;
    if (fault() || statvfs(path, &s) != 0) return fail_at("looking at the file system of", path);
    *free_out = (u64)s.f_bavail * s.f_frsize;
    *total_out = (u64)s.f_blocks * s.f_frsize;
    return OK;
}

enum err file_lock(const char *path, int *fd_out)
{
    int fd = -1;
    TRY(file_open(path, FILE_OPEN_CREATE, 0600, &fd));
    if (fault() || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        enum err err = errno == EWOULDBLOCK
            ? fail(ERR_FULL, "%s is locked by another process", path) : fail_at("locking", path);
        file_close(fd);
        return err;
    }
    *fd_out = fd;
    return OK;
}

enum err file_list_open(const char *path, struct file_list *out)
{
    DIR *folder = fault() ? NULL : opendir(path);
    if (folder == NULL) return fail_at("listing", path);
    *out = (struct file_list){ .folder = folder };
    return OK;
}

bool file_list_next(struct file_list *list)
{
    struct dirent *entry;
    while ((entry = readdir(list->folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(list->name, sizeof list->name, "%s", entry->d_name);
        return true;
    }
    return false;
}

void file_list_close(struct file_list *list)
{
    if (list->folder != NULL) closedir(list->folder);
    list->folder = NULL;
}

enum err file_join(const char *folder, const char *name, char out[FILE_PATH_BYTES])
{
    u64 bytes = strlen(folder), more = strlen(name);
    bool slash = bytes > 0 && folder[bytes - 1] != '/';
    if (bytes + slash + more >= FILE_PATH_BYTES)
        return fail(ERR_LIMIT, "path of %llu bytes", (ull)(bytes + slash + more));
    memmove(out, folder, bytes);
    if (slash) out[bytes] = '/';
    memcpy(out + bytes + slash, name, more + 1);
    return OK;
}
