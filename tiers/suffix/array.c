/* tiers/suffix/array.c - libdivsufsort over ids read backwards, and the search. */
#include "tiers/suffix/array.h"

#include "tiers/suffix/words.h"

#include <divsufsort.h>

enum { ID_BYTES = 3, DIR_SHIFT = 6 };

u64 array_words(u64 count) { return count + (count >= ARRAY_DIR_LEAST ? ARRAY_DIR + 1 : 0); }

static u32 entry_of(u32 id) { return MIN(id >> DIR_SHIFT, (u32)ARRAY_DIR - 1); }

/* dir[e]: the first place before which an id of entry e or a later one stands. */
static void fill_dir(const u32 *words, const u32 *array, u64 places, u32 *dir)
{
    u32 next = 0;
    for (u64 i = 0; i < places; i++)
        while (next <= entry_of(words[array[i] - 1])) dir[next++] = (u32)i;     /* next grows */
    while (next <= ARRAY_DIR) dir[next++] = (u32)places;
}

enum err array_build(const u32 *words, u64 count, void *work, u32 *out, u64 *count_out)
{
    saidx_t *sorted = work;
    u8 *text = (u8 *)work + count * ID_BYTES * sizeof *sorted;
    u64 bytes = count * ID_BYTES, places = 0;
    static_assert(sizeof *sorted == 4, "work memory counts on it");
    if (count > WORDS_CAP) return fail(ERR_LIMIT, "a segment of %llu words", (ull)count);
    for (u64 i = 0; i < count; i++) {
        u32 word = words[count - 1 - i], id = words_id(word) ? word : WORDS_ID_CAP;
        text[ID_BYTES * i] = (u8)(id >> 16);
        text[ID_BYTES * i + 1] = (u8)(id >> 8);
        text[ID_BYTES * i + 2] = (u8)id;
    }
    if (bytes > 0 && divsufsort(text, sorted, (saidx_t)bytes) != 0)
        return fail(ERR_MEMORY, "no memory to sort %llu words", (ull)count);
    for (u64 i = 0; i < bytes; i++) {
        if (sorted[i] % ID_BYTES != 0) continue;
        u64 place = count - (u64)sorted[i] / ID_BYTES;
        if (place < count && words_id(words[place - 1]) && words_id(words[place]))
            out[places++] = (u32)place;
    }
    if (count >= ARRAY_DIR_LEAST) fill_dir(words, out, places, out + count);
    *count_out = places;
    return OK;
}

u32 array_agree(const u32 *words, u32 place, const u32 *context, u32 most)
{
    u32 n = 0;
    while (n < most && words[place - 1 - n] == context[-1 - (i64)n]) n++;
    return n;
}

/* Whether a place stands before the context, when they agree in `same` < most ids. */
static bool before(const u32 *words, u32 place, const u32 *context, u32 same)
{
    u32 word = words[place - 1 - same];
    return words_id(word) && word < context[-1 - (i64)same];
}

u32 array_find(const u32 *words, u64 count, const u32 *array, u64 places, const u32 *context,
               u32 most, u64 *lo_out, u64 *hi_out)
{
    u64 lo = 0, hi = places;
    u32 best = 0;
    if (count >= ARRAY_DIR_LEAST && most > 0) {     /* half of the steps, the ones far apart  */
        const u32 *dir = array + count + entry_of(context[-1]);
        lo = dir[0];
        hi = dir[1];
    }
    while (lo < hi) {                   /* the first place that does not stand before         */
        u64 at = lo + (hi - lo) / 2;
        u32 same = array_agree(words, array[at], context, most);
        best = MAX(best, same);
        if (same < most && before(words, array[at], context, same)) lo = at + 1;
        else hi = at;
    }
    *lo_out = *hi_out = lo;
    if (lo > 0) best = MAX(best, array_agree(words, array[lo - 1], context, most));
    if (best == 0) return 0;
    u64 step = 1, edge = lo;            /* neighbours on both sides: wider and wider, then back */
    while (edge > 0 && array_agree(words, array[edge - MIN(edge, step)], context, best) == best) {
        edge -= MIN(edge, step);
        step *= 2;
    }
    for (; step > 0; step /= 2)
        while (edge >= step && array_agree(words, array[edge - step], context, best) == best)
            edge -= step;
    *lo_out = edge;
    for (step = 1, edge = lo; places - edge >= step &&
         array_agree(words, array[edge + step - 1], context, best) == best; step *= 2) edge += step;
    for (; step > 0; step /= 2)
        while (places - edge >= step &&
               array_agree(words, array[edge + step - 1], context, best) == best) edge += step;
    *hi_out = edge;
    return best;
}
