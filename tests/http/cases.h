/* tests/http/cases.h - the setting of the case tests and their sizes: the smallest model with B = 4
 * and G = 16, or with CASES_BIG (tests/slow/cases_*.c) the bench model with B = 256 and G = 1,024.
 * Every case asks where a turn started, what it read, and that it equals its cold run.
 *
 * One row a size, both columns beside each other: a case is written once.  Sizes of the second
 * column are the smallest at which the case can still fail, for a cold run of a line takes a
 * second there.  Cases are numbered K01 ... as in the table of tests/README.md. */
#ifndef TESTS_HTTP_CASES_H
#define TESTS_HTTP_CASES_H

#include "tests/micro.h"

#ifdef CASES_BIG
#include "tests/benchmodel.h"
#define SIZE(small, big) (big)
#else
#include "tests/micromodel.h"
#define SIZE(small, big) (small)
#endif

enum { B = SIZE(4, 256), G = SIZE(16, 1024) };

enum {
    K01_PROMPT  = 40,                   /* as it was reported                                 */
    K02_PROMPT  = SIZE(9, 100),      K02_MORE  = SIZE(11, 150),
    K02_GRID    = SIZE(128, G),         /* no turn crosses a line                             */
    K03_LINES   = SIZE(3, 2),
    K04_SIZES   = SIZE(3, 1),        K04_ANCHORS = SIZE(17, 11),
    K05_LINES   = SIZE(5, 3),
    K06_PROMPT  = SIZE(130, 2 * G - 60),
    K07_LINES   = SIZE(2, 1),        K07_ROUNDS = SIZE(9, 2),    /* of a line each             */
    K08_TURNS   = SIZE(60, 16),      K08_PROMPT = SIZE(50, G - 500),
    K08_MORE    = SIZE(9, 70),       K08_ASIDE = SIZE(20, 5),
    K09_LINES   = SIZE(4, 1),
    K13_LINES   = SIZE(5, 2),        K13_SIZES = SIZE(4, 1),
    K14_LINES   = SIZE(8, 1),
    K19_LINES   = SIZE(3, 2),
    K30_LINES   = SIZE(20, 2),
    K31_LINES   = SIZE(20, 2),       K31_OTHER = SIZE(4, 1), K31_ROUNDS = SIZE(18, 3),
    K33_LINES   = SIZE(12, 2),       K33_CHILD = SIZE(4, 1), K33_TURNS  = SIZE(6, 2),
    K34_LINES   = SIZE(3, 2),
    K36_ROOM    = B * SIZE(19, 5),      /* rows that the budget pays for                      */
    K41_PROMPT  = SIZE(40, G - 20),  K41_TURNS = SIZE(8, 4),
    K44_LINES   = SIZE(40, 4),       K44_STOP  = SIZE(12, 1),
    K46_LINES   = SIZE(10, 2),       K46_TALKS = SIZE(30, 2),    K46_UNITS = SIZE(9, 2),
    K47_LINES   = SIZE(100, 4),
    K48_LINES   = SIZE(5, 2),
    EACH        = SIZE(1, 4),           /* turns of a growing talk from one comparison on     */
};

static __attribute__((unused)) struct micro_ask a, b, c;

static void cases_open(struct micro_setup s)
{
#ifdef CASES_BIG
    if (s.dir == NULL) s.dir = benchmodel_dir();
    s.threads = BENCHMODEL_THREADS;
#else
    if (s.dir == NULL) s.dir = micromodel_dir();
#endif
    s.block_rows = B;
    if (s.grid_rows == 0) s.grid_rows = G;
    if (s.slot_count == 0) s.slot_count = 2;
    s.pool_bytes = SIZE(64, 2048) * MIB;
    if (s.park_rows == 0) s.park_rows = SIZE(4096, 16384);
    if (s.pin_rows == 0) s.pin_rows = SIZE(4096, 16384);
    s.ctx = MAX(s.ctx, (u64)SIZE(512, 8192));
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
