/* http/cli/screen.c - runs of harmless bytes as they are, the rest one by one. */
#include "http/cli/screen.h"

#include <unistd.h>

#include "arena/base/text.h"

static bool acts(u32 code)
{
    if (code < 0x20) return code != '\n' && code != '\t';
    return (code >= 0x7f && code <= 0x9f) || code == 0x061c || code == 0x200e || code == 0x200f ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

void screen_escape(FILE *to, const char *bytes, u64 len)
{
    u64 at = 0;
    while (at < len) {
        u64 end = at + text_utf8_valid(bytes + at, len - at), from = at;
        for (u32 size; at < end; at += size) {
            u32 code = text_utf8_at(bytes + at, end - at, &size);
            if (!acts(code)) continue;
            fwrite(bytes + from, 1, at - from, to);
            fprintf(to, "\\u%04x", code);
            from = at + size;
        }
        fwrite(bytes + from, 1, at - from, to);
        if (at < len) fprintf(to, "\\x%02x", (u8)bytes[at++]);
    }
}

void screen_put(FILE *to, const char *bytes, u64 len)
{
    if (isatty(fileno(to))) screen_escape(to, bytes, len);
    else fwrite(bytes, 1, len, to);
}
