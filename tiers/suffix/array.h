/* tiers/suffix/array.h - all places of a segment in the order of what stands before them.
 *
 * A place is the number of the word that follows some id: the place's ids are read backwards from
 * it.  Sorted so, the places before which a context's last ids stood are neighbours, and one
 * binary search finds the longest match.  Built by libdivsufsort over the segment read backwards,
 * three bytes an id, high byte first, so that the order of bytes is the order of ids.  The words
 * must not change meanwhile; they are a segment's records, without the file's head.  Any thread;
 * owns nothing. */
#ifndef SUFFIX_ARRAY_H
#define SUFFIX_ARRAY_H

#include "arena/base/err.h"

enum { ARRAY_WORK_BYTES = 15,           /* of work memory a word                              */
       ARRAY_DIR = 4096,                /* a large array knows where ids begin, 64 by 64      */
       ARRAY_DIR_LEAST = 65536 };       /* words of a large one                               */

/* Words of the array of so many: places, and behind them the directory of a large one. */
u64 array_words(u64 count);
/* Places of `words` [count] that have an id before and an id behind, into `out` [array_words],
 * *count_out of them.  `work`: ARRAY_WORK_BYTES * count bytes, on a line of 4.  ERR_MEMORY (the
 * library's own tables), ERR_LIMIT: too many words for it. */
MUST_USE enum err array_build(const u32 *words, u64 count, void *work, u32 *out, u64 *count_out);

/* Ids that agree, backwards from `context` (behind the last id) and from a place, at most `most`;
 * there are as many before the context's end.  A head's word agrees with nothing, and one stands
 * before every record. */
u32 array_agree(const u32 *words, u32 place, const u32 *context, u32 most);

/* The longest match, of at most `most` ids, and the neighbours [*lo_out, *hi_out) that have it, in
 * the array with `places` of `words` [count]. */
u32 array_find(const u32 *words, u64 count, const u32 *array, u64 places, const u32 *context,
               u32 most, u64 *lo_out, u64 *hi_out);

#endif
