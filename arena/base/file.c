/* arena/base/file.c - system calls with paths in their errors, whole transfers, commits by rename.
 *
 * Plain pread and pwrite.  One fault countdown covers every call that reaches the disk. */
#include "arena/base/file.h"

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

static _Atomic u32 fail_left;

void file_fail(u32 nth)
{
    atomic_store(&fail_left, nth);
}

u32 file_fail_left(void)
{
    return atomic_load(&fail_left);
}

/* True when the call about to be made is the one that fails; errno is then EIO. */
static bool fault(void)
{
    u32 left = atomic_load(&fail_left);
    if (left == 0) return false;
    atomic_store(&fail_left, left - 1);
    if (left > 1) return false;
    errno = EIO;
    return true;
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
    int fd = fault() ? -1 : open(path, flags[how] | O_CLOEXEC, (mode_t)mode);
    if (fd < 0) return fail_at("opening", path);
    *fd_out = fd;
    return OK;
}

void file_close(int fd)
{
    if (fd >= 0) close(fd);
}

enum err file_read_at(int fd, u64 offset, void *to, u64 bytes)
{
    u8 *at = to;
    u64 done = 0;
    while (done < bytes) {              /* each round reads, ends the file or fails           */
        u64 want = MIN(bytes - done, TRANSFER_BYTES_MAX);
        ssize_t got = fault() ? -1 : pread(fd, at + done, want, (off_t)(offset + done));
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
        bool broken = fault();
        if (broken) want /= 2;          /* a fault leaves half of its bytes                   */
        ssize_t got = append ? write(fd, at + done, want)
                             : pwrite(fd, at + done, want, (off_t)(offset + done));
        if (broken) errno = EIO;
        if (!broken && got < 0 && errno == EINTR) continue;
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
    enum err err = file_sync(fd);
    file_close(fd);
    return err;
}

enum err file_draft_begin(const char *path, u32 mode, struct file_draft *out)
{
    static _Atomic u32 serial;
    char folder[FILE_PATH_BYTES];
    TRY(folder_of(path, folder));       /* also: room for the suffix                          */
    snprintf(out->path, sizeof out->path, "%s", path);
    i32 bytes = snprintf(out->name, sizeof out->name, "%s.%d-%u.tmp", path, (int)getpid(),
                         atomic_fetch_add(&serial, 1));
    ASSERT(bytes > 0 && bytes < FILE_PATH_BYTES);
    out->fd = fault() ? -1 : open(out->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
    if (out->fd < 0) return fail_at("creating", out->name);
    return OK;
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
    file_close(draft->fd);
    draft->fd = -1;
    return sync_folder(draft->path);
}

void file_draft_drop(struct file_draft *draft)
{
    if (draft->fd < 0) return;
    file_close(draft->fd);
    draft->fd = -1;
    unlink(draft->name);
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
    if (fault() || (unlink(path) != 0 && errno != ENOENT)) return fail_at("removing", path);
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
        if (fault() || (mkdir(part, (mode_t)mode) != 0 && errno != EEXIST))
            return fail_at("making folder", part);
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
