/* arena/base/err.c - one note a thread: the last error's code, place and text. */
#include "arena/base/err.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local struct err_note note;

static const char *const words[ERR_COUNT] = {
    "ok", "usage", "config", "format", "unsupported", "io", "memory", "full", "limit", "stale",
    "crc", "device", "not_found", "cancelled",
};

enum err err_fail(const char *file, int line, enum err code, const char *format, ...)
{
    char text[ERR_NOTE_BYTES];          /* an argument may point into the note itself        */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    note = (struct err_note){ .code = code, .line = line, .file = file };
    for (u32 i = 0; i < ERR_NOTE_BYTES - 1 && text[i] != 0; i++) note.text[i] = text[i];
    return code;
}

const struct err_note *err_last(void)
{
    return &note;
}

const char *err_word(enum err code)
{
    return (u32)code < ERR_COUNT ? words[code] : "unknown";
}
