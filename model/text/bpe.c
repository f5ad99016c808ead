/* model/text/bpe.c - hash tables of merges and pieces; merging by scan and by heap. */
#include "model/text/bpe.h"

#include <string.h>

#include "arena/heap.h"

enum { BPE_SCAN_MAX = 64 };

static u64 mix(u64 h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

static u64 bytes_hash(const char *bytes, u64 len)
{
    u64 h = len;
    for (; len >= 8; len -= 8, bytes += 8) {
        u64 word;
        memcpy(&word, bytes, 8);
        h = mix(h ^ word);
    }
    u64 word = 0;
    if (len > 0) memcpy(&word, bytes, len);
    return mix(h ^ word);
}

static u64 slots_for(u64 rows)
{
    u64 slots = 16;
    while (slots < 2 * rows) slots *= 2;
    return slots;
}

u32 bpe_find(const struct bpe *b, const char *bytes, u64 len)
{
    u64 at = bytes_hash(bytes, len) & (b->piece_slots - 1);
    for (; b->pieces[at] != 0; at = (at + 1) & (b->piece_slots - 1)) {
        struct vocab_piece p = vocab_piece(b->vocab, b->pieces[at] - 1);
        if (p.len == len && memcmp(p.bytes, bytes, len) == 0) return b->pieces[at] - 1;
    }
    return NONE;
}

static void pieces_fill(struct bpe *b, const u8 *skip)
{
    memset(b->pieces, 0, b->piece_slots * sizeof *b->pieces);
    for (u32 id = 0; id < b->vocab->filled; id++) {
        struct vocab_piece p = vocab_piece(b->vocab, id);
        if (skip[id] != 0 || p.len == 0 || bpe_find(b, p.bytes, p.len) != NONE) continue;
        u64 at = bytes_hash(p.bytes, p.len) & (b->piece_slots - 1);
        while (b->pieces[at] != 0) at = (at + 1) & (b->piece_slots - 1);
        b->pieces[at] = id + 1;
    }
}

enum err bpe_open(struct bpe *b, const struct vocab *vocab, const u8 *skip, u64 merge_cap)
{
    *b = (struct bpe){ .vocab = vocab, .merge_slots = slots_for(merge_cap),
                       .piece_slots = slots_for(vocab->filled) };
    b->merges = arena_heap_alloc(b->merge_slots * sizeof *b->merges);
    b->pieces = arena_heap_alloc(b->piece_slots * sizeof *b->pieces);
    if (b->merges == NULL || b->pieces == NULL) {
        bpe_close(b);
        return fail(ERR_MEMORY, "no memory for the tokenizer's tables");
    }
    for (u64 i = 0; i < b->merge_slots; i++) b->merges[i].left = NONE;
    pieces_fill(b, skip);
    for (u32 byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        b->byte_id[byte] = bpe_find(b, &c, 1);
        if (b->byte_id[byte] == NONE) {
            bpe_close(b);
            return fail(ERR_FORMAT, "tokenizer.json: model.vocab has no token for byte 0x%02X",
                        byte);
        }
    }
    return OK;
}

void bpe_close(struct bpe *b)
{
    arena_heap_free(b->merges);
    arena_heap_free(b->pieces);
    b->merges = NULL;
    b->pieces = NULL;
}

static struct bpe_merge *merge_slot(const struct bpe *b, u32 left, u32 right)
{
    u64 at = mix((u64)left << 32 | right) & (b->merge_slots - 1);
    struct bpe_merge *m = &b->merges[at];
    while (m->left != NONE && (m->left != left || m->right != right)) {
        at = (at + 1) & (b->merge_slots - 1);
        m = &b->merges[at];
    }
    return m;
}

static u32 rank_of(const struct bpe *b, u32 left, u32 right)
{
    const struct bpe_merge *m = merge_slot(b, left, right);
    return m->left == NONE ? NONE : m->rank;
}

enum err bpe_merge_put(struct bpe *b, u32 rank, struct text_span left, struct text_span right)
{
    char joined[1024];
    if (left.len + right.len > sizeof joined)
        return fail(ERR_LIMIT, "tokenizer.json: model.merges[%u] is longer than %zu bytes", rank,
                    sizeof joined);
    memcpy(joined, left.bytes, left.len);
    memcpy(joined + left.len, right.bytes, right.len);
    u32 l = bpe_find(b, left.bytes, left.len), r = bpe_find(b, right.bytes, right.len);
    u32 result = bpe_find(b, joined, left.len + right.len);
    if (l == NONE || r == NONE || result == NONE)
        return fail(ERR_FORMAT, "tokenizer.json: model.merges[%u] joins what is not in model.vocab",
                    rank);
    *merge_slot(b, l, r) = (struct bpe_merge){ l, r, rank, result };
    return OK;
}

/* ------------------------------------------------------------------ merging */

static u64 merge_by_scan(const struct bpe *b, u32 *id, u64 count)
{
    u32 rank[BPE_SCAN_MAX];
    for (u64 i = 0; i + 1 < count; i++) rank[i] = rank_of(b, id[i], id[i + 1]);
    while (count > 1) {
        u64 best = 0;
        for (u64 i = 1; i + 1 < count; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == NONE) break;
        id[best] = merge_slot(b, id[best], id[best + 1])->result;
        count--;
        memmove(id + best + 1, id + best + 2, (count - best - 1) * sizeof *id);
        if (best + 1 < count)
            memmove(rank + best + 1, rank + best + 2, (count - best - 2) * sizeof *rank);
        if (best + 1 < count) rank[best] = rank_of(b, id[best], id[best + 1]);
        if (best > 0) rank[best - 1] = rank_of(b, id[best - 1], id[best]);
    }
    return count;
}

/* A linked list of symbols and a heap of (rank << 32 | place); a heap entry counts only while the
 * pair at its place still has that rank, which makes stale entries harmless. */
struct long_piece {
    const struct bpe *b;
    u32 *id, *before, *after, *rank;        /* [count]                                           */
    u64 *heap;                              /* [3 * count]: one a pair, two more a merge         */
    u64 heap_count;
};

static void heap_push(struct long_piece *p, u64 key)
{
    u64 at = p->heap_count++;
    for (; at > 0 && p->heap[(at - 1) / 2] > key; at = (at - 1) / 2)
        p->heap[at] = p->heap[(at - 1) / 2];
    p->heap[at] = key;
}

static u64 heap_pop(struct long_piece *p)
{
    u64 top = p->heap[0], key = p->heap[--p->heap_count], at = 0;
    for (;;) {
        u64 child = 2 * at + 1;
        if (child >= p->heap_count) break;
        if (child + 1 < p->heap_count && p->heap[child + 1] < p->heap[child]) child++;
        if (p->heap[child] >= key) break;
        p->heap[at] = p->heap[child];
        at = child;
    }
    p->heap[at] = key;
    return top;
}

static void pair_rank(struct long_piece *p, u32 at)
{
    p->rank[at] = p->after[at] == NONE ? NONE : rank_of(p->b, p->id[at], p->id[p->after[at]]);
    if (p->rank[at] != NONE) heap_push(p, (u64)p->rank[at] << 32 | at);
}

static void merge_by_heap(struct long_piece *p, u32 count)
{
    for (u32 i = 0; i < count; i++) {
        p->before[i] = i == 0 ? NONE : i - 1;
        p->after[i] = i + 1 == count ? NONE : i + 1;
    }
    for (u32 i = 0; i < count; i++) pair_rank(p, i);
    while (p->heap_count > 0) {             /* ends: a merge removes a symbol */
        u64 key = heap_pop(p);
        u32 at = (u32)key;
        if (p->rank[at] != (u32)(key >> 32)) continue;
        u32 gone = p->after[at];
        p->id[at] = merge_slot(p->b, p->id[at], p->id[gone])->result;
        p->rank[gone] = NONE;
        p->after[at] = p->after[gone];
        if (p->after[at] != NONE) p->before[p->after[at]] = at;
        pair_rank(p, at);
        if (p->before[at] != NONE) pair_rank(p, p->before[at]);
    }
}

static enum err scratch_room(struct bpe_scratch *s, u64 bytes)
{
    if (bytes <= s->cap) return OK;
    arena_heap_free(s->bytes);
    s->cap = 0;
    s->bytes = arena_heap_alloc(bytes);
    if (s->bytes == NULL) return fail(ERR_MEMORY, "no memory to tokenize one long word");
    s->cap = bytes;
    return OK;
}

void bpe_scratch_close(struct bpe_scratch *s)
{
    arena_heap_free(s->bytes);
    *s = (struct bpe_scratch){ 0 };
}

enum err bpe_piece(const struct bpe *b, const char *bytes, u64 len, struct bpe_scratch *scratch,
                   u32 *out, u64 *count_out)
{
    if (b->ignore_merges) {
        out[0] = bpe_find(b, bytes, len);
        *count_out = 1;
        if (out[0] != NONE) return OK;
    }
    for (u64 i = 0; i < len; i++) out[i] = b->byte_id[(u8)bytes[i]];
    if (len <= BPE_SCAN_MAX) {
        *count_out = merge_by_scan(b, out, len);
        return OK;
    }
    if (len > INT32_MAX) return fail(ERR_LIMIT, "one word of the prompt is over 2^31 bytes");
    TRY(scratch_room(scratch, len * (3 * sizeof(u32) + 3 * sizeof(u64))));
    u64 *heap = scratch->bytes;
    u32 *words = (u32 *)(heap + 3 * len);
    struct long_piece p = { .b = b, .id = out, .before = words, .after = words + len,
                            .rank = words + 2 * len, .heap = heap };
    merge_by_heap(&p, (u32)len);
    u64 count = 0;
    for (u32 at = 0; at != NONE; at = p.after[at]) out[count++] = out[at];
    *count_out = count;
    return OK;
}
