/* model/packed.h - the weights extent as a file, so that a start maps it instead of packing again.
 *
 * FOLDER/packed/HASH-ID.packed: HASH of every weight byte in use, ID of the backend's layouts; mode
 * 0600, written under another name and renamed.  A head page, then the extent as it lies in memory.
 * It is found by `sources` (the model's files by path, size, times and inode, and the tensors taken
 * from them), so that the weights need not be read; trusted only after its own hash was checked.
 * Owns nothing in memory. */
#ifndef MODEL_PACKED_H
#define MODEL_PACKED_H

#include "arena/base/err.h"

struct packed_key {
    u64 sources[2];
    u32 packing_id;
    u64 bytes;                          /* of the extent                                      */
};

/* The file of this key mapped over committed pages `at`, and the weights hash it was made of.
 * `done` is told of bytes that were checked.  ERR_NOT_FOUND: there is none; ERR_CRC, ERR_FORMAT,
 * ERR_IO: there is one that is not to be used; it was removed, and the pages are zero. */
MUST_USE enum err packed_map(const char *folder, const struct packed_key *key, u8 *at,
                             u64 weights[2], void (*done)(u64 bytes));
void packed_unmap(u8 *at, u64 bytes);

/* Writes the extent; files of the same weights under another id or of other sources go.  ERR_IO,
 * ERR_FULL (the disk would keep less than PACKED_FREE_LEAST): nothing of it stays. */
#define PACKED_FREE_LEAST (1 * GIB)
MUST_USE enum err packed_write(const char *folder, const struct packed_key *key, const u8 *at,
                               const u64 weights[2]);

#endif
