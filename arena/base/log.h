/* arena/base/log.h - one line a call: to stderr, and into a fixed ring kept for dumps.
 *
 * Any thread.  A line is one write(2): `2026-01-31T12:00:00.123Z info text`.  Control characters
 * of the text become '?': what a client sent can't forge a line. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "arena/base/base.h"

enum log_level { LOG_LEVEL_OFF, LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

enum {
    LOG_LINE_BYTES = 512,               /* longer lines are cut                               */
    LOG_TAIL_LINES = 256,
};

/* Writes and keeps one line, unless `level` is above the level set. */
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

/* Lines above `level` are neither written nor kept.  Starts at LOG_LEVEL_INFO. */
void log_level_set(enum log_level level);
enum log_level log_level_now(void);

/* The level of a word ("off", "error", "warn", "info", "debug"); false leaves `out` untouched. */
bool log_level_find(const char *word, enum log_level *out);

/* The newest whole lines that fit in `cap_bytes`, oldest first, each with its newline, no NUL at
 * the end.  Returns bytes written. */
u64 log_tail(char *out, u64 cap_bytes);

#endif
