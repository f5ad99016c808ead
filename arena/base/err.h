/* arena/base/err.h - results: a code, and one note a thread that says what, where and why.
 *
 * A function that can fail returns `enum err`; its outputs are untouched on error.  The place that
 * knows the cause calls `fail(code, "text")` once; callers pass the code up with TRY. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "arena/base/base.h"

enum err {
    OK = 0,
    ERR_USAGE,          /* bad flag or word of a command line                                */
    ERR_CONFIG,         /* a profile, config.json or key with a bad value                    */
    ERR_FORMAT,         /* a file or body that is not what it should be                      */
    ERR_UNSUPPORTED,    /* well-formed, but not served here (named)                          */
    ERR_IO,             /* open, read, write, rename, mmap                                   */
    ERR_MEMORY,         /* a commit or the budget refused bytes                              */
    ERR_FULL,           /* a table or ring of fixed capacity is full                         */
    ERR_LIMIT,          /* a named limit (length, depth, count) is exceeded                  */
    ERR_STALE,          /* a handle whose row was freed                                      */
    ERR_CRC,            /* bytes that do not match their checksum                            */
    ERR_DEVICE,         /* the backend failed                                                */
    ERR_NOT_FOUND,      /* what was asked for by name is not there                           */
    ERR_CANCELLED,      /* the caller went away                                              */
    ERR_COUNT
};

enum { ERR_NOTE_BYTES = 512 };
struct err_note {
    enum err    code;
    int         line;
    const char *file;
    char        text[ERR_NOTE_BYTES];   /* one sentence, no newline, cut at the end          */
};

/* Records code, place and text in this thread's note and returns `code`. */
enum err err_fail(const char *file, int line, enum err code, const char *format, ...)
    PRINTF_LIKE(4, 5);
#define fail(code, ...) err_fail(__FILE__, __LINE__, (code), __VA_ARGS__)

/* This thread's last note; its text is "" before the first fail.  Valid until the next fail. */
const struct err_note *err_last(void);

/* A word for a code: "io", "memory", ...; never NULL. */
const char *err_word(enum err code);

#define TRY(call) \
    do { enum err try_err_ = (call); if (try_err_ != OK) return try_err_; } while (0)

#endif
