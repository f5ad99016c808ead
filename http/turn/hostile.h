/* http/turn/hostile.h - a drafter for tests (--draft-seed): proposals of its seed that are random,
 * right, right up to a place, or wrong at one.  What comes next it knows from a forced answer or
 * from conversations it was told of; else it takes lookup's word. */
#ifndef TURN_HOSTILE_H
#define TURN_HOSTILE_H

#include "arena/base/base.h"

struct engine;
struct turn_row;

/* Proposals are a function of the seed and of how many were made since. */
void hostile_open(u64 seed);
/* `count` ids of a conversation, answer included, that some turn will give; kept by the caller.
 * The newest HOSTILE_KNOWN are remembered. */
enum { HOSTILE_KNOWN = 16 };
void hostile_know(const u32 *ids, u64 count);
/* 1 to `most` ids behind the turn's next one. */
u32 hostile_propose(struct engine *e, const struct turn_row *turn, u32 most, u32 *ids_out);

#endif
