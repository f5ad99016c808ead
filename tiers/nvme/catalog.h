/* tiers/nvme/catalog.h - a cache folder as somebody without a model sees it: what lies in it,
 * whether it is whole, and clearing it.
 *
 * One catalog a fingerprint: rows of its files' heads, one row a manifest.  Reading changes nothing
 * and takes no lock; catalog_clear wants the folder's lock held by the caller (fingerprint_lock).
 * Memory of the heap, from catalog_open to catalog_close.  Any one thread. */
#ifndef NVME_CATALOG_H
#define NVME_CATALOG_H

#include "tiers/nvme/format.h"
#include "tiers/nvme/manifest.h"

enum catalog_mark { CATALOG_ITS = 1, CATALOG_OTHERS = 2, CATALOG_NEEDED = 4 };
enum { CATALOG_ROWS_MAX = 1 << 17, CATALOG_TALKS_MAX = 1 << 12 };

struct catalog_row {
    struct format_head head;            /* zeros when bad, but for its kind and name          */
    u64 bytes, used_s;
    u32 next;                           /* in its bucket                                      */
    u8  marks;
    bool bad;                           /* its head can't be read                             */
};
struct catalog_talk {
    struct manifest manifest;           /* session alone when bad                             */
    u64  bytes;                         /* of the manifest's file                             */
    bool bad, whole;                    /* whole: every file of one start is there            */
};
struct catalog {
    struct fingerprint place;           /* id, root, folder                                   */
    struct fingerprint_other about;
    struct catalog_row *row;
    struct catalog_talk *talk;
    u32 *bucket;
    u32 row_count, talk_count, row_cap, talk_cap;
    u64 block_rows;                     /* of names; 0: not yet known                         */
    u64 rest_bytes;                     /* COUNTS, ABOUT, what a crash left                   */
};

/* The fingerprint folder `name` of a cache folder.  ERR_NOT_FOUND, ERR_IO, ERR_MEMORY,
 * ERR_LIMIT. */
MUST_USE enum err catalog_open(const char *root, const char *name, struct catalog *out);
void catalog_close(struct catalog *c);
bool catalog_is_name(const char *name);         /* of a fingerprint folder                    */

u32  catalog_find(const struct catalog *c, enum format_kind kind, const u64 name[2]);
/* The chunk that a file stands on, or NONE. */
u32  catalog_below(const struct catalog *c, u32 row);
bool catalog_on_line(const struct catalog *c, u32 row);
/* Bytes that only this conversation holds: manifest, tail, anchors off lines. */
u64  catalog_own_bytes(const struct catalog *c, u32 talk);
/* The manifest's generations, into an empty list (end_open). */
MUST_USE enum err catalog_generations(const struct catalog *c, u32 talk,
                                      struct generation_list *list);

/* Every byte of a file against its checksums, its key ids against its name, what it stands on.
 * Any error says what is wrong. */
MUST_USE enum err catalog_verify_row(struct catalog *c, u32 row);
MUST_USE enum err catalog_verify_talk(const struct catalog *c, u32 talk);

struct catalog_cleared { u64 disk_bytes, spill_bytes; u32 entries, files; };
/* What a session (NULL: everybody) has in the tiers named goes, as tiers/nvme/forget does it.  The
 * first file that can't be removed ends it. */
MUST_USE enum err catalog_clear(struct catalog *c, bool disk, bool spill, const u64 session[2],
                                struct catalog_cleared *out);

#endif
