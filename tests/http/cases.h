/* tests/http/cases.h - the setting of the case tests: the smallest model, B = 4, G = 16, and what
 * every case asks: where a turn started, what it read, and that it equals its cold run.
 *
 * With CASES_BIG (tests/slow/cases_*.c) B = 256, G = 1,024, some counts smaller; CASES_MODEL names
 * a folder to run on another model.
 * Cases are numbered K01 ... as in the table of tests/README.md. */
#ifndef TESTS_HTTP_CASES_H
#define TESTS_HTTP_CASES_H

#include "tests/micro.h"
#include "tests/micromodel.h"

#ifdef CASES_BIG
enum { B = 256, G = 1024 };
#define BIG(small, big) (big)
#else
enum { B = 4, G = 16 };
#define BIG(small, big) (small)
#endif

static __attribute__((unused)) struct micro_ask a, b, c;

static void cases_open(struct micro_setup s)
{
    if (getenv("CASES_MODEL") != NULL) s.dir = getenv("CASES_MODEL");
    if (s.dir == NULL) s.dir = micromodel_dir();
    s.block_rows = B;
    if (s.grid_rows == 0) s.grid_rows = G;
    if (s.slot_count == 0) s.slot_count = 2;
    s.pool_bytes = BIG(64, 1024) * MIB;
    if (s.park_rows == 0) s.park_rows = BIG(4096, 65536);
    if (s.pin_rows == 0) s.pin_rows = BIG(4096, 65536);
    if (s.ctx == 0) s.ctx = BIG(512, 16384);
    s.ctx = MAX(s.ctx, (u64)BIG(0, 16384));
    micro_open(&s);
}

static __attribute__((unused)) void mark(struct micro_ask *t, u64 pos, enum turn_mark_kind kind)
{
    ASSERT(t->mark_count < TURN_MARK_CAP);
    t->mark[t->mark_count++] = (struct turn_mark){ .pos = pos, .kind = (u32)kind };
}

/* Runs the turn: it starts there, forwards the rest of its prompt, and equals its cold run. */
#define CASE_RUN(t, from, start)                                                               \
    do { micro_run(t);                                                                         \
         CHECK_EQ((t)->result.source, from);                                                   \
         CHECK_EQ((t)->result.cached, start);                                                  \
         CHECK_EQ((t)->result.cached + (t)->result.forwarded, (t)->id_count);                  \
         micro_equals_cold(t); } while (0)

/* An anchor of the record in `slot` stands at exactly `pos`. */
static __attribute__((unused)) bool anchor_at(u32 slot, u64 pos)
{
    struct anchor_list list = record_anchors(resident_record(slot));
    return anchors_at(&list, pos) != NONE;
}

/* Another id at that place. */
static __attribute__((unused)) void alter(struct micro_ask *t, u64 pos)
{
    t->ids[pos] = 4 + (t->ids[pos] - 3) % (micro.vocab - 24);
}

#endif
