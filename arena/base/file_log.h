/* arena/base/file_log.h - what file.c did to the disk, and what shall go wrong: for crash tests.
 *
 * While a log is open every call that changes the disk leaves a row and its bytes, so that a test
 * may replay them with un-synced writes, creates and renames dropped, as a power cut does.  The
 * fault countdown covers every call that reaches the disk, logged or not.  The log's memory is the
 * test's; it is of one thread, the countdown of all. */
#ifndef BASE_FILE_LOG_H
#define BASE_FILE_LOG_H

#include "arena/base/file.h"

enum file_call {
    FILE_CALL_CREATE,                   /* path came to be as file `file`                     */
    FILE_CALL_WRITE,                    /* bytes of `file` at `offset`                        */
    FILE_CALL_SYNC,                     /* `file` is on the disk                              */
    FILE_CALL_RENAME,                   /* path is what `to` was called                       */
    FILE_CALL_REMOVE,                   /* path is gone                                       */
    FILE_CALL_FOLDER,                   /* folder `path` was made                             */
    FILE_CALL_SYNC_FOLDER,              /* names in folder `path` are on the disk             */
};

struct file_log_row {
    enum file_call call;
    u64  file;                          /* number of the file, 1, 2, ... in order of making   */
    u64  offset, bytes;
    u64  at;                            /* place of its bytes in the log's byte memory        */
    char path[128], to[128];            /* cut at the front                                   */
};

struct file_log {
    struct file_log_row *row;
    u32 count, cap;
    u8 *bytes;
    u64 byte_count, byte_cap;
    bool full;                          /* something did not fit: the log is of no use        */
};

/* Calls go to `log` from now on; NULL: to none. */
void file_log_open(struct file_log *log);

/* For file.c: adds a row when a log is open; `fd` >= 0 names the file. */
void file_log_add(enum file_call call, int fd, const char *path, const char *to, u64 offset,
                  const void *from, u64 bytes);

/* For file.c: what the call about to be made shall do.  FILE_FAULT_NONE: nothing. */
enum file_fault file_log_fault(void);

/* Every call that reaches the disk, made by a thread while it watches itself, is counted: there it
 * waits for nothing.  Returns whether it did before. */
bool file_log_watch(bool on);
u64  file_log_waits(void);              /* of all threads so far                              */

#endif
