/* tiers/nvme/load.h - restores under way: from what was found on disk to a record aside.
 *
 * A restore holds its blocks and units as something on its way (HOLD_WRITING) until its last read
 * is answered.  nvme.c keeps what the record has on disk.  Engine thread. */
#ifndef NVME_LOAD_H
#define NVME_LOAD_H

#include "model/state.h"
#include "tiers/match.h"
#include "tiers/nvme/rates.h"
#include "tiers/record.h"
#include "tiers/resident.h"

enum { NVME_LOADS = 2, NVME_UNITS = 4 };        /* section sets of one restore                */

struct nvme_hit {
    u32 anchor, cover;                  /* pieces                                             */
    u32 row;                            /* spill entry, or NONE: the disk tier's              */
    u64 start;                          /* rows of the record to be                           */
    u32 units;                          /* section sets: the start's and anchors below it     */
    u32 more[NVME_UNITS];               /* [units - 1] pieces of those, ascending             */
    bool whole;                         /* its own ids, to be aligned with the prompt later   */
    bool slow;                          /* nothing found, but for reads being slower          */
};

u64  nvme_load_table_bytes(const struct state_shape *shape, u64 ctx);
MUST_USE enum err nvme_load_open(u32 table_arena, u64 ctx, bool threads, struct rates *rates);
void nvme_load_close(void);             /* after the reader's                                 */
/* ERR_FULL: as many restores are under way as may be, or the I/O thread has no rows for its reads.
 * To ask before memory is made for it. */
MUST_USE enum err nvme_load_room(const struct nvme_hit *hit);
/* Takes blocks and a unit and queues the reads; inside a gate.  *load_out names it from now on.
 * ERR_FULL, ERR_MEMORY: nothing is held. */
MUST_USE enum err nvme_load(const struct nvme_hit *hit, const struct tier_prompt *prompt,
                            u32 *load_out);

enum nvme_state { NVME_LOADING, NVME_LOADED, NVME_FAILED };
struct nvme_record {                    /* what came of it                                    */
    u32 record;
    enum tier_source source;
    u64 name[2];                        /* its anchor's                                       */
    u64 saved_rows;                     /* below are on disk as a conversation of its session */
    bool boot;                          /* of the start                                       */
};
/* What nvme_loaded says, before the record's row of nvme.c. */
enum nvme_state nvme_load_done(u32 load, u64 now_us, struct nvme_record *out);
void nvme_load_abandon(u32 load);       /* its turn is gone: what comes is let go             */
bool nvme_load_answers(u64 now_us);     /* of the I/O thread; true: there were some           */

#endif
