/* tiers/nvme/forget.c - whose files they are, and that they go. */
#include "tiers/nvme/forget.h"

#include "tiers/nvme/count.h"
#include "tiers/nvme/spill.h"
#include "tiers/record.h"

#include <string.h>

static enum piece_mark mark_of(const u64 of[2], const u64 session[2])
{
    return memcmp(of, session, 2 * sizeof *session) == 0 ? PIECE_ITS : PIECE_OTHERS;
}

/* Chunks on disk that hold the first rows of a record. */
static void mark_record(u32 record, const u64 session[2])
{
    const struct record_row *r = record_at(record);
    u32 count, top = NONE;
    u64 rows, line_count;
    struct transfer_rows from = { .block = record_blocks(record, &count, &rows) };
    from.rows = rows;
    const u64 (*lines)[2] = transfer_lines(&from, &line_count);
    for (u64 i = 0; i < line_count; i++) {
        u32 chunk = pieces_find(FORMAT_CHUNK, lines[i]);
        if (chunk == NONE) break;
        top = chunk;
    }
    pieces_mark(top, mark_of(r->session, session));
}

static void forget_lines(const u64 session[2], struct forget_counts *out)
{
    pieces_unmark();
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1))
        pieces_mark(spill_at(i)->top, mark_of(spill_at(i)->talk.session, session));
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) mark_record(r, session);
    out->anchors = pieces_forget(session);
}

static u64 less(u64 was, u64 is) { return was - MIN(was, is); }

void forget_files(bool disk, bool spill, const u64 session[2], struct forget_counts *out)
{
    struct pieces_counts was = pieces_counts();
    *out = (struct forget_counts){ 0 };
    if (disk && session != NULL) forget_lines(session, out);
    if (disk && session == NULL) {
        out->anchors = was.anchors;
        pieces_clear();
        count_clear();
    }
    if (spill) out->entries = spill_clear(session);
    pieces_reap();
    spill_check();
    struct pieces_counts is = pieces_counts();
    u64 all = less(was.disk_bytes + was.spill_bytes, is.disk_bytes + is.spill_bytes);
    out->disk_bytes = MIN(less(was.disk_bytes, is.disk_bytes), all);    /* some became spill's */
    out->spill_bytes = all - out->disk_bytes;
}
