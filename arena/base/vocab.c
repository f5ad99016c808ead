/* arena/base/vocab.c - three columns over the caller's memory: starts, bytes, kinds. */
#include "arena/base/vocab.h"

#include <string.h>

u64 vocab_bytes(u32 count, u64 piece_bytes)
{
    return ((u64)count + 1) * sizeof(u64) + count + piece_bytes;
}

void vocab_open(struct vocab *v, void *memory, u32 count, u64 piece_bytes)
{
    u64 *start = memory;
    u8 *kind = (u8 *)(start + count + 1);
    *v = (struct vocab){ .count = count, .bytes_cap = piece_bytes, .start = start,
                         .kind = kind, .bytes = (char *)(kind + count) };
    start[0] = 0;
}

enum err vocab_put(struct vocab *v, const char *bytes, u64 len, enum vocab_kind kind)
{
    if (v->filled == v->count) return fail(ERR_FULL, "vocabulary: more than %u ids", v->count);
    u64 at = v->start[v->filled];
    if (len > v->bytes_cap - at)
        return fail(ERR_FULL, "vocabulary: pieces longer than the table's %llu bytes",
                    (ull)v->bytes_cap);
    if (len > 0) memcpy(v->bytes + at, bytes, len);
    v->kind[v->filled] = (u8)kind;
    v->filled++;
    v->start[v->filled] = at + len;
    return OK;
}

struct vocab_piece vocab_piece(const struct vocab *v, u32 id)
{
    ASSERT(id < v->filled);
    return (struct vocab_piece){ v->bytes + v->start[id],
                                 (u32)(v->start[id + 1] - v->start[id]) };
}

enum vocab_kind vocab_kind(const struct vocab *v, u32 id)
{
    ASSERT(id < v->filled);
    return (enum vocab_kind)v->kind[id];
}
