/* arena/base/file.h - files read and written whole or not at all, with errors that name the path.
 *
 * Every call that reaches the disk counts down the fault of file_fail (tests).  Paths are UTF-8
 * with NUL, < FILE_PATH_BYTES.  Any thread; a descriptor belongs to its caller.  Errors are ERR_IO
 * with path and the system's reason unless said otherwise; outputs are untouched then. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "arena/base/err.h"

enum { FILE_PATH_BYTES = 4096, FILE_NAME_BYTES = 256 };
enum { FILE_PAGE_BYTES = 4096 };        /* direct I/O: addresses, offsets and lengths             */

struct file_stat {
    u64  bytes;
    u64  inode;
    u64  mtime_ns, ctime_ns;
    u32  mode;                          /* permission bits                                    */
    u32  owner;                         /* user id                                            */
    bool folder, regular;               /* after following links                              */
};

/* ERR_NOT_FOUND when nothing is there. */
MUST_USE enum err file_stat(const char *path, struct file_stat *out);
bool file_exists(const char *path);

enum file_open { FILE_OPEN_READ, FILE_OPEN_WRITE, FILE_OPEN_CREATE, FILE_OPEN_APPEND };

/* Opens a file (CREATE: read and write, made with `mode` if absent, kept if there; APPEND: the
 * same, writes at its end).  ERR_NOT_FOUND, ERR_IO. */
MUST_USE enum err file_open(const char *path, enum file_open how, u32 mode, int *fd_out);
void file_close(int fd);                /* -1 is fine                                         */

/* The same for reading past the page cache (O_DIRECT: FILE_PAGE_BYTES); buffered where the file
 * system refuses it. */
MUST_USE enum err file_open_direct(const char *path, int *fd_out);

/* Exactly `bytes` bytes at `offset`; a file that ends before is ERR_IO ("ends at ..."). */
MUST_USE enum err file_read_at(int fd, u64 offset, void *to, u64 bytes);
MUST_USE enum err file_write_at(int fd, u64 offset, const void *from, u64 bytes);
MUST_USE enum err file_append(int fd, const void *from, u64 bytes);
MUST_USE enum err file_sync(int fd);

/* The whole file into caller's memory; *bytes_out its length.  ERR_LIMIT names length and cap when
 * it is longer than `cap_bytes`. */
MUST_USE enum err file_read(const char *path, void *to, u64 cap_bytes, u64 *bytes_out);

/* Old or new, never half: temporary name beside `path`, write, fsync, rename, fsync of the folder.
 * On error the old file stands and the temporary one is removed. */
MUST_USE enum err file_commit(const char *path, const void *from, u64 bytes, u32 mode);

/* The same for a file written in pieces: begin gives a descriptor of the temporary file, end
 * syncs, closes and renames it; drop closes and removes it.  begin and end may fail; after a
 * failed end the temporary file is gone. */
struct file_draft { int fd; char path[FILE_PATH_BYTES]; char name[FILE_PATH_BYTES]; };
MUST_USE enum err file_draft_begin(const char *path, u32 mode, struct file_draft *out);
MUST_USE enum err file_draft_direct(const char *path, u32 mode, bool direct,
                                    struct file_draft *out);    /* O_DIRECT if `direct`       */
MUST_USE enum err file_draft_end(struct file_draft *draft);
void file_draft_drop(struct file_draft *draft);

/* Removes a file; one that is not there is fine. */
MUST_USE enum err file_remove(const char *path);

/* Removes a folder and the files in it (no folders); stops at the first that can't be removed. */
MUST_USE enum err file_remove_folder(const char *path);

/* OK when the folder is ours and nobody else may look into it (owner; mode without 077); ERR_IO
 * says which is not so. */
MUST_USE enum err file_private(const char *path);

/* Whether the file system of a folder takes direct I/O, by trying it. */
MUST_USE enum err file_probe_direct(const char *folder, bool *direct_out);

/* Makes a folder and its missing parents, each with `mode` (0700 for conversations). */
MUST_USE enum err file_make_folder(const char *path, u32 mode);

/* Bytes an unprivileged process may still write there, and of the whole file system. */
MUST_USE enum err file_space(const char *path, u64 *free_out, u64 *total_out);

/* An exclusive lock (flock) on a file made if absent, held until file_close or the process ends.
 * ERR_FULL when another process (or descriptor) holds it. */
MUST_USE enum err file_lock(const char *path, int *fd_out);

/* Names in a folder, one a call, in no order, without "." and "..":
 *     TRY(file_list_open(path, &list));
 *     while (file_list_next(&list)) ... list.name ...
 *     file_list_close(&list); */
struct file_list { void *folder; char name[FILE_NAME_BYTES]; };
MUST_USE enum err file_list_open(const char *path, struct file_list *out);
bool file_list_next(struct file_list *list);
void file_list_close(struct file_list *list);

/* "FOLDER/NAME" into out; ERR_LIMIT when longer than FILE_PATH_BYTES. */
MUST_USE enum err file_join(const char *folder, const char *name, char out[FILE_PATH_BYTES]);

/* Tests: what goes wrong at the n-th call from now that reaches the disk (1 = next; 0 = none).
 * A failed write leaves half of its bytes.  file_fail_left is 0 once it has fired. */
enum file_fault {
    FILE_FAULT_NONE,
    FILE_FAULT_SHORT,                   /* a transfer moves half and has to go on             */
    FILE_FAULT_IO, FILE_FAULT_FULL,     /* EIO, ENOSPC                                        */
    FILE_FAULT_KILL,                    /* EIO, and no later call reaches the disk            */
    FILE_FAULT_DEAD,                    /* what those later calls see                         */
};
void file_fail_as(u32 nth, enum file_fault kind);
void file_fail(u32 nth);                /* FILE_FAULT_IO                                      */
u32  file_fail_left(void);

#endif
