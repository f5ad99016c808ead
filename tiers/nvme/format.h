/* tiers/nvme/format.h - files of rows and sections: fixed-width little-endian structs.
 *
 *   page 0          struct format_head, zeros to 4,096
 *   part_offset     struct format_part [part_count], zeros to a page: a view or a section each
 *   key_offset      u64 key ids of positions [lo, hi), zeros to a page
 *   data_offset     rows: blocks of B rows as they stand in memory, zeros past hi;
 *                   anchor: the section set, zeros to a page
 *
 * A chunk holds rows [b - G, b), a tail the rows above a conversation's last line, an anchor all
 * sections at hi.  A file is named by the hash of key ids [0, hi) (blocks of B chained, then the
 * rest) and names the one its rows stand on, `below`: the hash of [0, lo).  lo is a line.  Every
 * byte is under a checksum: the head's, the parts', the keys', and one a part that runs to the next
 * part, so that padding counts too.  Owns nothing; pure. */
#ifndef NVME_FORMAT_H
#define NVME_FORMAT_H

#include "arena/base/err.h"
#include "arena/base/file.h"
#include "model/state.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files hold structs as they are");

enum format_kind { FORMAT_NONE, FORMAT_CHUNK, FORMAT_TAIL, FORMAT_ANCHOR, FORMAT_KIND_COUNT };
enum { FORMAT_VERSION = 2, FORMAT_NAME_BYTES = 40 };

struct format_head {
    char magic[8];                      /* "HFPIECE"                                          */
    u32  version;                       /* FORMAT_VERSION                                     */
    u32  kind;                          /* enum format_kind                                   */
    u8   fingerprint[16];               /* of the folder                                      */
    u64  name[2];                       /* hash of key ids [0, hi)                            */
    u64  below[2];                      /* hash of key ids [0, lo); lo 0: zeros               */
    u64  lo, hi;
    u64  sums[2];                       /* two sums of the rows (state_sums); anchors: 0      */
    u64  session[2];                    /* whose turn wrote it first                          */
    u32  part_count, key_count;
    u64  part_offset, key_offset, data_offset, data_bytes, file_bytes;
    u32  part_crc, key_crc;             /* of the areas with their zeros                      */
    u32  reserved;                      /* 0                                                  */
    u32  head_crc;                      /* of the page with this field 0                      */
};
static_assert(sizeof(struct format_head) == 176, "files depend on it");
static_assert(offsetof(struct format_head, lo) == 64, "files depend on it");
static_assert(offsetof(struct format_head, head_crc) == 172, "files depend on it");

struct format_part {                    /* a view of a block, or a section of a unit          */
    char name[16];
    u64  offset, bytes;                 /* in a block or unit: [offset, the next one's)       */
    u32  type, planes, row_bytes;
    u32  crc;                           /* of these bytes, block after block                  */
};
static_assert(sizeof(struct format_part) == 48, "files depend on it");

enum { FORMAT_PART_CAP = STATE_SECTION_CAP };

/* Bytes of the part area: what a caller of format_parts provides, whole pages. */
enum { FORMAT_PART_AREA = (FORMAT_PART_CAP * 48 + 4095) / 4096 * 4096 };

/* Hash of key ids [0, pos) for names, one step on: `hash` is that of [0, at), at a multiple of B,
 * becomes that of [0, at + count); count is B, or less at the end. */
void format_chain(u64 hash[2], const u64 *keys, u64 count);
/* Hash of [lo, hi) on top of `below`, lo a multiple of B. */
void format_name_hash(const struct state_shape *shape, const u64 below[2], const u64 *keys,
                      u64 count, u64 out[2]);

/* "c-HEX", "t-HEX", "a-HEX": the file's name in its folder, and back; false: not such a name. */
void format_name(enum format_kind kind, const u64 name[2], char out[FORMAT_NAME_BYTES]);
bool format_name_parse(const char *text, enum format_kind *kind_out, u64 name_out[2]);

/* Parts of the shape for a kind, crc 0; their count. */
u32 format_parts(const struct state_shape *shape, enum format_kind kind,
                 struct format_part out[FORMAT_PART_CAP]);
/* Offsets and sizes of a file of kind, lo, hi; crcs, sums, names and fingerprint are left 0. */
void format_layout(const struct state_shape *shape, enum format_kind kind, u64 lo, u64 hi,
                   struct format_head *out);
/* Bytes of such a file. */
u64 format_bytes(const struct state_shape *shape, enum format_kind kind, u64 lo, u64 hi);

/* Crcs over bytes [at, at + bytes) of a block or unit, added to those in `part`: in order. */
void format_crc(struct format_part *part, u32 count, const u8 *from, u64 at, u64 bytes);

/* The head's crc into its page. */
void format_seal(u8 page[FILE_PAGE_BYTES]);

/* A head page by itself, for somebody without the model: magic, version, crc, kind, sizes that fit
 * each other.  ERR_FORMAT, ERR_CRC. */
MUST_USE enum err format_look(const u8 page[FILE_PAGE_BYTES], u64 file_bytes,
                              struct format_head *out);
/* A head page against the shape and the fingerprint: magic, version, crc, every size.  ERR_FORMAT,
 * ERR_CRC say which.  `file_bytes` is the file's length. */
MUST_USE enum err format_check(const struct state_shape *shape, const u8 fingerprint[16],
                               const u8 page[FILE_PAGE_BYTES], u64 file_bytes,
                               struct format_head *out);
/* The part area against head and shape: exactly the shape's parts, all of them, in its order. */
MUST_USE enum err format_check_parts(const struct state_shape *shape,
                                     const struct format_head *head, const u8 *area);

#endif
