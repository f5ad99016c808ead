/* arena/base/pack.h - msgpack: a writer, and a reader that trusts nothing.
 *
 * The only room that includes msgpack-c.  pack_open walks the whole message before anything is
 * used: every count and length within the bytes left, depth <= 16, frame within its cap, byte 0xC1
 * refused, nothing after the one value.  After that the getters can't run off the end; they
 * allocate nothing and point into the caller's bytes.  Maps are written with keys in a fixed
 * order, so that equal records give equal bytes. */
#ifndef BASE_PACK_H
#define BASE_PACK_H

#include "arena/base/err.h"

enum { PACK_DEPTH_MAX = 16 };

/* A message under construction; zeroed = empty.  A refused allocation sets `failed`: pack_out_check
 * once at the end. */
struct pack_out { u8 *bytes; u64 count, cap; bool failed; };

void pack_map(struct pack_out *out, u32 pairs);         /* then key, value, key, value, ...   */
void pack_array(struct pack_out *out, u32 items);
void pack_str(struct pack_out *out, const char *text, u32 bytes);
void pack_cstr(struct pack_out *out, const char *text); /* NULL: nil                          */
void pack_bin(struct pack_out *out, const void *from, u32 bytes);
void pack_u64(struct pack_out *out, u64 value);
void pack_i64(struct pack_out *out, i64 value);
void pack_f64(struct pack_out *out, f64 value);
void pack_bool(struct pack_out *out, bool value);
void pack_nil(struct pack_out *out);
MUST_USE enum err pack_out_check(const struct pack_out *out);   /* OK or ERR_MEMORY           */
void pack_out_clear(struct pack_out *out);
void pack_out_close(struct pack_out *out);

enum pack_kind {
    PACK_NIL, PACK_BOOL, PACK_UINT, PACK_INT, PACK_FLOAT, PACK_STR, PACK_BIN, PACK_ARRAY,
    PACK_MAP, PACK_EXT
};

/* A place in a checked message. */
struct pack_at { const u8 *at, *end; };

/* One value, taken apart. */
struct pack_item {
    enum pack_kind kind;
    u64 uint;                           /* UINT; BOOL as 0 or 1                               */
    i64 sint;                           /* INT (negative), and UINT when it fits              */
    f64 real;                           /* FLOAT                                              */
    const u8 *bytes;                    /* STR, BIN, EXT: not NUL-terminated                  */
    u32 count;                          /* bytes; ARRAY: items; MAP: pairs                    */
};

/* Checks the message; ERR_LIMIT (frame cap, depth), ERR_FORMAT with the offset. */
MUST_USE enum err pack_open(const void *bytes, u64 count, u64 cap_bytes, struct pack_at *out);

/* Takes the value at the place and moves past it; into an array or map it moves to its first
 * item or key.  False at the end of the message. */
bool pack_next(struct pack_at *at, struct pack_item *out);
/* Moves past one whole value, with all it holds. */
void pack_skip(struct pack_at *at);
/* The value of `key` in the map at the place (which stays); false when there is none or it is no
 * map.  The first of equal keys. */
bool pack_find(struct pack_at map, const char *key, struct pack_at *out);

/* Typed members of the map at the place; ERR_FORMAT names the key. */
MUST_USE enum err pack_get_u64(struct pack_at map, const char *key, u64 *out);
MUST_USE enum err pack_get_i64(struct pack_at map, const char *key, i64 *out);
MUST_USE enum err pack_get_f64(struct pack_at map, const char *key, f64 *out);
MUST_USE enum err pack_get_bool(struct pack_at map, const char *key, bool *out);
MUST_USE enum err pack_get_str(struct pack_at map, const char *key, const char **text,
                               u32 *bytes);

#endif
