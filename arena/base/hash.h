/* arena/base/hash.h - XXH3 over bytes, and a chained 128-bit hash over key ids.
 *
 * The only room that includes xxhash.  Values are the same on every machine and level; files store
 * them by hash_put (big-endian, xxHash's canonical form).  Not cryptographic. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "arena/base/base.h"

u64 hash_64(const void *bytes, u64 count);

/* out[0] is the low, out[1] the high 64 bits of XXH3-128. */
void hash_128(const void *bytes, u64 count, u64 out[2]);

/* Hash of `prev` (the hash of all ids before, {0, 0} at the start) and `count` ids: so that of the
 * ids [0, end).  It depends on where the ids were cut into calls: cut at block ends.  `out` may be
 * `prev`. */
void hash_chain(const u64 prev[2], const u64 *ids, u64 count, u64 out[2]);

/* A hash over pieces: open, add any number of times, close.  Equal bytes in any pieces give what
 * hash_128 gives.  The state is the caller's (64-byte aligned, 640 bytes). */
struct hash_state { _Alignas(64) u8 bytes[640]; };
void hash_open(struct hash_state *state);
void hash_add(struct hash_state *state, const void *bytes, u64 count);
void hash_close(const struct hash_state *state, u64 out[2]);

/* The 16 canonical bytes of a 128-bit hash (high half first, big-endian). */
void hash_put(const u64 hash[2], u8 out[16]);
void hash_get(const u8 from[16], u64 out[2]);

#endif
