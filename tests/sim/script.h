/* tests/sim/script.h - what random clients do, as data: a script is a setup and rows of operations.
 *
 * A seed makes a script before anything runs; running, shrinking, printing and replaying see only
 * rows.  Every number of a row is taken modulo what there is when its turn comes, so that any
 * subset of a script is a script. */
#ifndef SIM_SCRIPT_H
#define SIM_SCRIPT_H

#include "arena/base/rng.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sim_kind {
    SIM_GROW,           /* the conversation so far and `count` new ids                            */
    SIM_EDIT,           /* one id of the history changed, what follows stays, `count` new ones    */
    SIM_UNDO,           /* back to a position, `count` new ones from there                        */
    SIM_AGAIN,          /* the last prompt once more                                              */
    SIM_GUEST,          /* a short request of its own, an instruction before or a head shared     */
    SIM_RECAP,          /* all of it and a question, then forgotten                               */
    SIM_PLAN,           /* `count` new ids and a reminder that is gone in the next turn           */
    SIM_STRIP,          /* the front of the last answer is gone from the client's copy            */
    SIM_FORK,           /* goes on from a position of another client's conversation               */
    SIM_CALL,           /* the answer ends in a tool call, which the client writes otherwise      */
    SIM_CAP,            /* a node's cap: 0, one entry, or something                               */
    SIM_FAIL,           /* a commit from now on fails                                             */
    SIM_CLEAR,          /* one session is forgotten, or all                                       */
    SIM_IDLE,           /* time passes: a second, a minute, hours, days                           */
    SIM_RESTART,        /* drained, closed and opened again over the same files                   */
    SIM_KILL,           /* closed without a drain, or in the middle of one, or of a start         */
    SIM_MODEL,          /* a restart with other weights, another G or arithmetic, or back         */
    SIM_IO,             /* file calls from now on fail, `count` of them: short, EIO, ENOSPC, dead */
    SIM_ROT,            /* a restart; in between bits of files flip, files are cut or gone        */
    SIM_ROOM,           /* a cap of the files: nothing, a few, none                               */
    SIM_KIND_COUNT
};

enum { SIM_CLIENTS = 4, SIM_OPS = 4096, SIM_WAIT = 99, SIM_TEXT_BYTES = 1 << 18 };

struct sim_op {
    u8  kind, client;
    u16 at;             /* a position, a node, a client: whatever the kind chooses from           */
    u16 count;          /* ids that are new; a cap's size                                         */
    u16 answer;         /* most ids generated                                                     */
    u16 passes;         /* engine passes before the next row; SIM_WAIT: until all turns ended     */
    u16 abort;          /* passes until the client goes away; 0: it stays                         */
    u16 salt;           /* which ids the new ones are                                             */
};

struct sim_script { u32 setup, count; struct sim_op op[SIM_OPS]; };

static const char *const sim_word[SIM_KIND_COUNT] = {
    "grow", "edit", "undo", "again", "guest", "recap", "plan", "strip", "fork", "call", "cap",
    "fail", "clear", "idle", "restart", "kill", "model", "io", "rot", "room",
};
/* How often each kind is drawn. */
static const u32 sim_weight[SIM_KIND_COUNT] = { 24, 8, 8, 6, 9, 6, 6, 6, 6, 7, 4, 3, 2,
                                                  7, 6, 4, 6, 4, 3, 2 };

static enum sim_kind draw_kind(u64 bits)
{
    u32 sum = 0;
    for (u32 k = 0; k < SIM_KIND_COUNT; k++) sum += sim_weight[k];
    u32 left = (u32)(bits % sum);
    for (u32 k = 0; k < SIM_KIND_COUNT; k++) {
        if (left < sim_weight[k]) return (enum sim_kind)k;
        left -= sim_weight[k];
    }
    return SIM_GROW;
}

static bool sim_is_turn(const struct sim_op *op) { return op->kind < SIM_CAP; }

/* `turns` turns and the rows between them that are none. */
static void script_draw(struct sim_script *s, u64 seed, u32 setups, u32 turns)
{
    u64 index = 0, bits, client = 0;
    u32 had = 0;
#define DRAW(below) (bits = rng_u64(seed, index++), bits % (below))
    s->count = 0;
    s->setup = (u32)DRAW(setups);
    bool parallel = DRAW(2) == 0, squeezed = DRAW(8) == 0;
    while (had < turns && s->count < SIM_OPS) {
        struct sim_op *op = &s->op[s->count++];
        memset(op, 0, sizeof *op);
        op->kind = (u8)draw_kind(rng_u64(seed, index++));
        if (squeezed && s->count % 2 == 0) op->kind = SIM_CAP;      /* before every turn */
        client = DRAW(2) == 0 ? client : DRAW(SIM_CLIENTS);     /* most go on with the same one */
        op->client = (u8)client;
        op->at = (u16)DRAW(1000);
        op->count = (u16)(DRAW(3) == 0 ? 1 + DRAW(40) : 1 + DRAW(12));
        op->answer = (u16)(1 + DRAW(12));
        op->passes = (u16)(parallel && DRAW(2) == 0 ? DRAW(6) : SIM_WAIT);
        op->abort = (u16)(DRAW(8) == 0 ? 1 + DRAW(12) : 0);
        op->salt = (u16)DRAW(1000);
        if (op->kind >= SIM_CAP) op->passes = op->abort = 0;
        had += sim_is_turn(op);
    }
#undef DRAW
}

static u32 script_turns(const struct sim_script *s)
{
    u32 turns = 0;
    for (u32 i = 0; i < s->count; i++) turns += sim_is_turn(&s->op[i]);
    return turns;
}

/* `setup 2; grow 0 at 3 new 5 gen 4 wait 99 abort 0 salt 17; ...`: what SIM_REPLAY takes. */
static u64 script_print(const struct sim_script *s, char *out, u64 cap)
{
    u64 at = (u64)snprintf(out, cap, "setup %u", s->setup);
    for (u32 i = 0; i < s->count && at + 128 < cap; i++) {
        const struct sim_op *op = &s->op[i];
        at += (u64)snprintf(out + at, cap - at, "; %s %u at %u new %u gen %u wait %u abort %u "
                            "salt %u", sim_word[op->kind], op->client, op->at, op->count,
                            op->answer, op->passes, op->abort, op->salt);
    }
    return at;
}

static bool read_op(const char *text, struct sim_op *op)
{
    char word[16];
    u32 n[7];
    if (sscanf(text, " %15[a-z] %u at %u new %u gen %u wait %u abort %u salt %u", word, &n[0],
               &n[1], &n[2], &n[3], &n[4], &n[5], &n[6]) != 8) return false;
    for (u32 k = 0; k < SIM_KIND_COUNT; k++) {
        if (strcmp(word, sim_word[k]) != 0) continue;
        *op = (struct sim_op){ .kind = (u8)k, .client = (u8)(n[0] % SIM_CLIENTS),
                               .at = (u16)n[1], .count = (u16)n[2], .answer = (u16)n[3],
                               .passes = (u16)n[4], .abort = (u16)n[5], .salt = (u16)n[6] };
        return true;
    }
    return false;
}

/* False when a row isn't one. */
static __attribute__((unused)) bool script_read(const char *text, struct sim_script *s)
{
    s->count = 0;
    if (sscanf(text, " setup %u", &s->setup) != 1) return false;
    for (const char *at = strchr(text, ';'); at != NULL; at = strchr(at + 1, ';')) {
        if (s->count == SIM_OPS || !read_op(at + 1, &s->op[s->count])) return false;
        s->count++;
    }
    return true;
}

#endif
