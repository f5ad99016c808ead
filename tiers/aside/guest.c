/* tiers/aside/guest.c - who is a guest, and where it runs. */
#include "tiers/aside/guest.h"

#include "model/state.h"
#include "tiers/aside/aside.h"

bool guest_rule(const struct guest_setup *setup, u64 count, u64 common, u64 rows, u32 grid_rows)
{
    return count <= setup->rows_max && (f64)count < setup->fraction * (f64)rows &&
           common < grid_rows;
}

/* The guest slot is idle and the stash could pay for the prompt and one block more. */
static bool slot_free(const struct tier_prompt *prompt)
{
    u32 slot = resident_guest_slot();
    if (slot == NONE || resident_record(slot) != NONE) return false;
    u64 blocks = prompt->count / state_shape()->block_rows + 2;
    u64 bytes = blocks * arena_row(state_blocks_arena())->unit_bytes +
                arena_row(state_sections_arena())->unit_bytes;
    return bytes <= aside_cap(HOLD_STASH);
}

void guest_place(const struct guest_setup *setup, const struct tier_prompt *prompt,
                 struct tier_hit *hit)
{
    u32 resident = hit->way == WAY_CUT ? hit->record : hit->victim;
    if (hit->slot == NONE) resident = resident_record(0);
    if (resident == NONE || hit->way == WAY_TAKE) return;
    if (!guest_rule(setup, prompt->count, match_common(resident, prompt), record_rows(resident),
                    state_shape()->grid_rows)) return;
    u32 side = resident_side(hit, prompt);
    if (side == NONE && slot_free(prompt)) side = resident_guest_slot();
    if (side == NONE) return;
    if (hit->way == WAY_CUT) hit->way = WAY_FORK;
    hit->slot = side;
    hit->victim = resident_record(side);
    hit->guest = true;
}
