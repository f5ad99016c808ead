/* arena/base/log.c - stderr and the last 256 lines.
 *
 * The ring is the one table with a lock: every thread logs, rarely, and no decision reads it. */
#include "arena/base/log.h"

#include "arena/base/clock.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const words[] = { "off", "error", "warn", "info", "debug" };

static _Atomic u32 level_now = LOG_LEVEL_INFO;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char tail[LOG_TAIL_LINES][LOG_LINE_BYTES];
static u16 tail_bytes[LOG_TAIL_LINES];
static u64 tail_count;                                  /* lines ever kept                    */

/* `2026-01-31T12:00:00.123Z info `; returns its length. */
static u32 put_head(char *line, enum log_level level)
{
    f64 wall_s = clock_wall_s();
    time_t seconds = (time_t)wall_s;
    i32 millis = (i32)((wall_s - (f64)seconds) * 1000.0);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    u32 at = (u32)strftime(line, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    i32 more = snprintf(line + at, 16, ".%03dZ %s ", MAX(0, MIN(millis, 999)), words[level]);
    return at + (u32)more;
}

void log_line(enum log_level level, const char *format, ...)
{
    ASSERT(level > LOG_LEVEL_OFF && level < COUNT_OF(words));
    if (level > atomic_load(&level_now)) return;
    char line[LOG_LINE_BYTES];
    u32 head = put_head(line, level);
    va_list args;
    va_start(args, format);
    i32 text = vsnprintf(line + head, LOG_LINE_BYTES - head, format, args);
    va_end(args);
    u32 bytes = head + (text < 0 ? 0 : MIN((u32)text, LOG_LINE_BYTES - 2 - head));
    for (u32 i = head; i < bytes; i++)
        if ((u8)line[i] < 0x20 || line[i] == 0x7f) line[i] = '?';
    line[bytes++] = '\n';

    pthread_mutex_lock(&lock);
    u32 row = (u32)(tail_count++ % LOG_TAIL_LINES);
    memcpy(tail[row], line, bytes);
    tail_bytes[row] = (u16)bytes;
    pthread_mutex_unlock(&lock);
    if (write(STDERR_FILENO, line, bytes) < 0) return;  /* nobody left to tell                */
}

void log_level_set(enum log_level level)
{
    atomic_store(&level_now, level);
}

enum log_level log_level_now(void)
{
    return (enum log_level)atomic_load(&level_now);
}

bool log_level_find(const char *word, enum log_level *out)
{
    for (u32 i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(word, words[i]) != 0) continue;
        *out = (enum log_level)i;
        return true;
    }
    return false;
}

u64 log_tail(char *out, u64 cap_bytes)
{
    pthread_mutex_lock(&lock);
    u64 kept = MIN(tail_count, LOG_TAIL_LINES), lines = 0, bytes = 0;
    while (lines < kept) {
        u64 more = tail_bytes[(tail_count - lines - 1) % LOG_TAIL_LINES];
        if (bytes + more > cap_bytes) break;
        bytes += more;
        lines++;
    }
    u64 at = 0;
    for (; lines > 0; lines--) {
        u64 row = (tail_count - lines) % LOG_TAIL_LINES;
        memcpy(out + at, tail[row], tail_bytes[row]);
        at += tail_bytes[row];
    }
    pthread_mutex_unlock(&lock);
    return bytes;
}
