/* arena/base/text.h - bounded building of text, a pool for parsed pieces, and UTF-8.
 *
 * Owns no memory: a `text` writes into the caller's bytes, or takes its bytes from a source the
 * caller names (arena_heap_alloc and arena_heap_free of arena/heap.h; base is the floor below it).
 * Nothing here fails on the way: what does not fit sets `cut`, which its user asks once. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "arena/base/base.h"
#include "arena/base/err.h"

/* Where growing text takes its bytes.  `take` gives NULL when refused; `give` takes NULL. */
struct text_source {
    void *(*take)(u64 bytes);
    void  (*give)(void *bytes);
};

struct text {
    char *data;                     /* len bytes and a 0 behind them; NULL until the first byte  */
    u64   len;
    u64   cap;                      /* bytes at `data`, the 0 included                           */
    u64   cap_max;                  /* growing text never takes more; 0: fixed, caller's bytes   */
    const struct text_source *source;
    bool  cut;                      /* something did not fit or was refused                      */
};

/* A span of somebody else's bytes, not 0-terminated. */
struct text_span { const char *bytes; u64 len; };

/* Text into the caller's `cap` >= 1 bytes, always 0-terminated; the end is cut. */
void text_open(struct text *t, char *bytes, u64 cap);

/* Growing text, at most `cap_max` bytes; text_close gives its bytes back. */
void text_open_growing(struct text *t, const struct text_source *source, u64 cap_max);
void text_close(struct text *t);
void text_clear(struct text *t);    /* empty again, bytes kept, `cut` false                      */

/* Room for `more` bytes behind len; false (and cut) when there is none. */
bool text_reserve(struct text *t, u64 more);

void text_put(struct text *t, const char *bytes, u64 len);
void text_str(struct text *t, const char *zero_terminated);
void text_char(struct text *t, char c);
void text_f(struct text *t, const char *format, ...) PRINTF_LIKE(2, 3);

/* The JSON string of `len` bytes of UTF-8 with its quotes, as Python's json.dumps with
 * ensure_ascii=False writes it: " \ and bytes below 0x20 are escaped, everything else is raw. */
void text_json(struct text *t, const char *bytes, u64 len);
void text_json_inner(struct text *t, const char *bytes, u64 len);       /* without the quotes    */

bool text_span_is(struct text_span s, const char *zero_terminated);

/* ------------------------------------------------------------------ UTF-8 */

/* Bytes of the longest valid prefix (well-formed by Unicode table 3-7); == len: all valid. */
u64 text_utf8_valid(const char *bytes, u64 len);

/* The code point at bytes[0], its length in *len_out; of valid UTF-8 only, len > 0. */
u32 text_utf8_at(const char *bytes, u64 len, u32 *len_out);

/* Writes a code point's 1 to 4 bytes; surrogates and values over 0x10FFFF become U+FFFD. */
u32 text_utf8_encode(u32 code_point, char out[4]);

/* True for what Python's str.strip() removes (chat.md 3): U+0009-000D, 001C-0020, 0085, 00A0,
 * 1680, 2000-200A, 2028, 2029, 202F, 205F, 3000. */
bool text_is_space(u32 code_point);

/* `s` without such characters at either end; of valid UTF-8 only. */
struct text_span text_trim(struct text_span s);

/* Streaming: bytes in any cuts -> valid UTF-8.  An incomplete sequence is held until its rest
 * comes; an invalid one gives U+FFFD (one for each maximal part, as Python's errors="replace"). */
struct text_utf8 { u8 held[4]; u32 held_len; };
void text_utf8_feed(struct text_utf8 *u, const char *bytes, u64 len, struct text *out);
void text_utf8_end(struct text_utf8 *u, struct text *out);      /* what is held becomes U+FFFD   */

/* ------------------------------------------------------------------ pool */

/* A bump pool in chunks from a source, given back at once: what a request is parsed into. */
struct text_pool {
    const struct text_source *source;
    struct text_chunk *chunk;       /* newest first                                              */
    u64 left_bytes;                 /* of the newest chunk                                       */
    u64 used_bytes;                 /* taken from the source so far                              */
    u64 cap_bytes;                  /* never more than this                                      */
};

void text_pool_open(struct text_pool *pool, const struct text_source *source, u64 cap_bytes);
void text_pool_close(struct text_pool *pool);

/* `bytes` zeroed bytes on a 16-byte line, valid until text_pool_close; NULL when refused. */
void *text_pool_take(struct text_pool *pool, u64 bytes);

#endif
