/* tiers/nvme/manifest.h - a spilled conversation on paper: what it is and which files hold it.
 *
 * File "m-HEX" (its session): struct manifest_head, then a msgpack map, keys in a fixed order.
 * Written last, old or new but never half.  Everything in it is untrusted. */
#ifndef NVME_MANIFEST_H
#define NVME_MANIFEST_H

#include "arena/base/pack.h"
#include "tiers/end.h"
#include "tiers/nvme/fingerprint.h"

enum {
    MANIFEST_ANCHORS = 16, MANIFEST_IMAGES = 64, MANIFEST_GRID_MAX = 65535,
    MANIFEST_BYTES_MAX = 4 << 20, MANIFEST_ROWS_MAX = 1 << 24,
    MANIFEST_END_ROWS_MAX = 1 << 16, MANIFEST_NAME_BYTES = 40,
};

struct manifest_head {
    char magic[8];                      /* "HFTALK"                                           */
    u32  version, crc;                  /* crc of the msgpack                                 */
    u8   fingerprint[16];
    u64  bytes;                         /* of the msgpack                                     */
};
static_assert(sizeof(struct manifest_head) == 40, "files depend on it");

struct manifest_anchor { u64 pos; u64 name[2]; u32 kind; bool head; };

/* An image's rows: positions of what follows are computed from them anew (tiers.md 13). */
struct manifest_image { u64 first; u32 t, gh, gw; u64 digest[2]; };

struct manifest {
    u64 session[2];
    u64 length;                         /* rows                                               */
    u64 head_pos, taint;
    u64 used_s;                         /* wall seconds of its last turn                      */
    u64 hits;
    u64 top[2];                         /* the chunk below its last line; length < G: zeros   */
    u64 tail[2];                        /* the tail; length on a line: zeros                  */
    u32 anchor_count;
    struct manifest_anchor anchor[MANIFEST_ANCHORS];    /* ascending positions                */
    i64 rope_delta;
    u32 image_count;
    struct manifest_image image[MANIFEST_IMAGES];       /* ascending first rows               */
};

void manifest_name(const u64 session[2], char out[MANIFEST_NAME_BYTES]);
bool manifest_name_parse(const char *text, u64 session_out[2]);

/* The file's bytes into `out`, which is cleared first.  ERR_MEMORY, ERR_LIMIT. */
MUST_USE enum err manifest_put(const struct manifest *m, const struct generation_list *list,
                               const struct fingerprint *place, struct pack_out *out);
/* Reads the bytes of a file.  `list` (empty, or NULL: not wanted) gets its generations as far as
 * the pool has rows.  ERR_FORMAT, ERR_CRC, ERR_LIMIT; the list is empty then. */
MUST_USE enum err manifest_get(const u8 *bytes, u64 count, const struct fingerprint *place,
                               struct manifest *out, struct generation_list *list);

#endif
