/* tiers/nvme/forget.h - what one session, or everybody, left on disk goes at once.
 *
 * A session has its entry of the spill with the files that only it names, and in the disk tier the
 * line anchors that its turns wrote first or that its conversation stands on, as far as no other
 * conversation, on disk or in memory, stands on them too; chunks go with their last user.  Files
 * are removed by the writer, in order.  Engine thread. */
#ifndef NVME_FORGET_H
#define NVME_FORGET_H

#include "arena/base/base.h"

struct forget_counts {
    u64 disk_bytes, spill_bytes;        /* freed, by what they were charged to                */
    u32 entries, anchors;               /* of the spill; line anchors                         */
};

/* `session` NULL: everything of the tiers named, line counts too. */
void forget_files(bool disk, bool spill, const u64 session[2], struct forget_counts *out);

#endif
