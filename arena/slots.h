/* arena/slots.h - equal units with a free list, generations and holders (section sets, staging).
 *
 * Units of a granule or more are rounded up to granules; smaller ones are taken from the fullest
 * granule first, so that whole granules come free. */
#ifndef ARENA_SLOTS_H
#define ARENA_SLOTS_H

#include "arena/arena.h"

HANDLE(unit);

/* As arena_blocks_*; bytes of a fresh unit are undefined. */
MUST_USE enum err arena_slots_take(u32 arena, enum holder class, unit_id *out);
void arena_slots_hold(u32 arena, unit_id unit, enum holder class);
void arena_slots_drop(u32 arena, unit_id unit, enum holder class);
void arena_slots_recharge(u32 arena, unit_id unit, enum holder from, enum holder to);
bool arena_slots_valid(u32 arena, unit_id unit);
u8  *arena_slots_addr(u32 arena, unit_id unit);
const struct holders *arena_slots_holders(u32 arena, unit_id unit);
u32 arena_slots_used(u32 arena);

#endif
