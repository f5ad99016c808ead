/* budget/victims.c - records ranked in a heap, taken, counted, given back.
 *
 * The heap's keys are as of the push.  Taking a record can only raise what another one frees (its
 * units' last reference), which lowers that one's density: it is pushed once more, and an entry
 * whose key is not the record's any more is passed over. */
#include "budget/victims.h"

#include <string.h>

#define DENSITY_ANY 1e300

/* ------------------------------------------------------------------ units */

static u32 total_of(const struct holders *h) { return h->reserved; }

/* Holders, and who of the records given they are; once a plan, when the first victim is needed. */
static void open_units(struct victims *v)
{
    struct budget_scratch *s = v->scratch;
    if (v->opened) return;
    v->opened = true;
    u32 count = v->shares == NULL ? 0 : v->shares->unit_count;
    memset(s->gone, 0, v->record_count * sizeof s->gone[0]);
    if (count == 0) return;
    memset(s->who, 0, count * sizeof s->who[0]);
    memset(s->listed, 0, count * sizeof s->listed[0]);
    for (u32 u = 0; u < count; u++) {
        s->left[u] = v->shares->unit[u].holders;
        s->left[u].reserved = (u16)holders_total(&s->left[u]);
    }
    for (u32 i = 0; i < v->record_count; i++) {
        const struct budget_record *r = &v->records[i];
        for (u32 k = r->list_lo; k < r->list_hi; k++) {
            s->who[v->shares->list[k]] ^= i + 1;
            s->listed[v->shares->list[k]]++;
        }
    }
}

/* Bytes whose last reference it holds. */
static u64 freed_of(const struct victims *v, u32 record)
{
    const struct budget_record *r = &v->records[record];
    u64 bytes = r->freed_bytes;
    for (u32 k = r->list_lo; k < r->list_hi; k++) {
        u32 u = v->shares->list[k];
        if (total_of(&v->scratch->left[u]) == 1) bytes += v->shares->unit[u].bytes;
    }
    return bytes;
}

/* Bytes that would not be charged to its node any more. */
static u64 leaving_of(const struct victims *v, u32 record)
{
    const struct budget_record *r = &v->records[record];
    u64 bytes = r->freed_bytes;
    for (u32 k = r->list_lo; k < r->list_hi; k++) {
        const struct holders *h = &v->scratch->left[v->shares->list[k]];
        if (h->count[r->holder] == 1 && (u32)holders_charged(h) == r->holder)
            bytes += v->shares->unit[v->shares->list[k]].bytes;
    }
    return bytes;
}

/* Does it hold anything in that arena? */
static bool is_in(const struct victims *v, u32 record, u32 arena)
{
    const struct budget_record *r = &v->records[record];
    if (r->arena == arena && r->freed_bytes > 0) return true;
    for (u32 k = r->list_lo; k < r->list_hi; k++)
        if (v->shares->unit[v->shares->list[k]].arena == arena) return true;
    return false;
}

/* ------------------------------------------------------------------ the heap */

enum {
    HEAP_WIDE = 4,                  /* children of an entry: 64 bytes side by side           */
    BEST_FIRST = 64,                /* records before at_best asks whether they are enough   */
};

/* Bits of a density, none is under 0, are in its order. */
static struct budget_candidate candidate(u32 order, f64 density, u32 record)
{
    u64 bits;
    density += 0.0;                 /* -0 is 0                                               */
    memcpy(&bits, &density, sizeof bits);
    return (struct budget_candidate){ (u64)order << 32 | bits >> 32, bits << 32 | record };
}

static u32 record_of(const struct budget_candidate *c) { return (u32)c->low; }

static bool ranks_before(const struct budget_candidate *a, const struct budget_candidate *b)
{
    return (a->high < b->high) | ((a->high == b->high) & (a->low < b->low));
}

static void heap_sink(struct victims *v, u32 at)
{
    struct budget_candidate *heap = v->scratch->heap, moved = heap[at];
    u32 count = v->heap_count;
    for (u32 child = HEAP_WIDE * at + 1; child < count; child = HEAP_WIDE * at + 1) {
        u32 best = child, end = MIN(child + HEAP_WIDE, count);
        for (u32 i = child + 1; i < end; i++) best = ranks_before(&heap[i], &heap[best]) ? i : best;
        if (!ranks_before(&heap[best], &moved)) break;
        heap[at] = heap[best];
        at = best;
    }
    heap[at] = moved;
}

static void heap_rise(struct victims *v, u32 at)
{
    struct budget_candidate *heap = v->scratch->heap, moved = heap[at];
    while (at > 0 && ranks_before(&moved, &heap[(at - 1) / HEAP_WIDE])) {
        heap[at] = heap[(at - 1) / HEAP_WIDE];
        at = (at - 1) / HEAP_WIDE;
    }
    heap[at] = moved;
}

enum { ORDER_LAST = 1 << 30 };      /* added for a record that frees nothing alone           */

/* Its rank now; false when it is none for this heap. */
static bool candidate_of(const struct victims *v, u32 record, struct budget_candidate *out)
{
    const struct budget_record *r = &v->records[record];
    if (v->aim.order[r->node] == NONE || r->pinned || r->leaves ||
        v->scratch->gone[record] != RECORD_HERE) return false;
    if (v->aim.limit.why == WHY_CAP && !sums_under(v->g, r->node, v->aim.limit.limit)) return false;
    if (v->aim.limit.why == WHY_RANGE && !is_in(v, record, v->aim.arena)) return false;
    u64 freed = freed_of(v, record);
    if (freed == 0 && (!v->aim.whole || r->list_lo == r->list_hi)) return false;
    u32 arena = r->arena;
    if (arena == NONE && r->list_lo < r->list_hi)
        arena = v->shares->unit[v->shares->list[r->list_lo]].arena;
    u64 granule = arena == NONE ? 1 : v->t->arena[arena].cell_bytes;
    f64 density = r->value / (f64)MAX(freed, granule);
    *out = candidate(v->aim.order[r->node] + (freed == 0 ? (u32)ORDER_LAST : 0), density, record);
    return density < v->aim.below;
}

static void heap_fill(struct victims *v)
{
    open_units(v);
    v->heap_count = 0;
    for (u32 i = 0; i < v->record_count; i++)
        if (candidate_of(v, i, &v->scratch->heap[v->heap_count])) v->heap_count++;
    for (u32 i = (v->heap_count + 2) / HEAP_WIDE; i-- > 0; ) heap_sink(v, i);
    v->pushing = true;
}

/* The best record left that its node's reserve lets go, or NONE. */
static u32 heap_take(struct victims *v)
{
    while (v->heap_count > 0) {
        struct budget_candidate top = v->scratch->heap[0], now;
        v->scratch->heap[0] = v->scratch->heap[--v->heap_count];
        if (v->heap_count > 0) heap_sink(v, 0);
        u32 record = record_of(&top);
        if (!candidate_of(v, record, &now)) continue;
        if (ranks_before(&now, &top) || now.high >> 32 != top.high >> 32) continue;   /* anew */
        const struct budget_record *r = &v->records[record];
        u64 used = v->sums.used[r->node], reserve = v->g->node[r->node].reserve_bytes;
        u64 leaving = leaving_of(v, record);
        if (leaving == 0 || (used >= leaving && used - leaving >= reserve)) return record;
    }
    return NONE;
}

/* ------------------------------------------------------------------ take and give back */

struct change { u64 more[HOLD_COUNT], less[HOLD_COUNT]; u32 arenas; };

/* The unit's holder count falls or rises by one of `class`: its charge moves, or it comes free. */
static void count_unit(struct victims *v, u32 u, u32 class, bool back, struct change *c)
{
    const struct budget_unit *unit = &v->shares->unit[u];
    struct holders *h = &v->scratch->left[u];
    u32 before = (u32)holders_charged(h);
    ASSERT(back || h->count[class] > 0);
    h->count[class] = (u16)(back ? h->count[class] + 1 : h->count[class] - 1);
    h->reserved = (u16)(back ? h->reserved + 1 : h->reserved - 1);
    u32 after = (u32)holders_charged(h);
    if (before == after) return;
    if (before != HOLD_COUNT) c->less[before] += unit->bytes;
    else v->sums.freed[unit->arena] -= unit->bytes;
    if (after != HOLD_COUNT) c->more[after] += unit->bytes;
    else v->sums.freed[unit->arena] += unit->bytes;
    if (before == HOLD_COUNT || after == HOLD_COUNT) c->arenas |= 1u << unit->arena;
    else if (!back) v->lifted = true;
}

static void push_last(struct victims *v, u32 u)
{
    u32 who = v->scratch->who[u];
    if (!v->pushing || who == 0 || total_of(&v->scratch->left[u]) != 1) return;
    if (v->heap_count == BUDGET_HEAP_CAP) return;
    if (candidate_of(v, who - 1, &v->scratch->heap[v->heap_count]))
        heap_rise(v, v->heap_count++);
}

/* The record goes (or stays after all). */
static void take(struct victims *v, u32 record, bool back)
{
    const struct budget_record *r = &v->records[record];
    struct sums *d = &v->sums;
    struct change c = { .arenas = 0 };
    u64 own = r->freed_bytes;
    v->scratch->gone[record] = back ? RECORD_HERE : RECORD_GONE;
    sums_move(v->g, d, r->node, back ? own : 0, back ? 0 : own);
    if (r->arena != NONE) {
        d->freed[r->arena] = back ? d->freed[r->arena] - own : d->freed[r->arena] + own;
        if (own > 0) c.arenas |= 1u << r->arena;
    } else if (v->g->node[r->node].pool == POOL_BOARD) {
        d->uncounted = back ? d->uncounted - own : d->uncounted + own;
    }
    for (u32 k = r->list_lo; k < r->list_hi; k++) {
        u32 u = v->shares->list[k];
        v->scratch->who[u] ^= record + 1;
        count_unit(v, u, r->holder, back, &c);
        if (!back) push_last(v, u);
    }
    for (u32 class = 0; r->list_lo < r->list_hi && class < HOLD_COUNT; class++) {
        if (c.more[class] == 0 && c.less[class] == 0) continue;
        ASSERT(v->t->class_node[class] < v->g->node_count);
        sums_move(v->g, d, v->t->class_node[class], c.more[class], c.less[class]);
    }
    for (u32 a = 0; c.arenas != 0; a++, c.arenas >>= 1)
        if ((c.arenas & 1) != 0) sums_arena(v->t, d, a);
}

static void add_victim(struct victims *v, u32 record)
{
    v->out->victim[v->out->victim_count++] = record;
    take(v, record, false);
}

/* A node of the record, or one that it recharges to, or one above them is over its cap. */
static bool any_over(const struct victims *v, u32 record)
{
    const struct budget_record *r = &v->records[record];
    for (u32 n = r->node; n != NONE; n = v->g->node[n].parent)
        if (sums_over(v->g, &v->sums, n)) return true;
    for (u32 class = 0; r->list_lo < r->list_hi && class < HOLD_COUNT; class++)
        for (u32 n = v->t->class_node[class]; n != NONE; n = v->g->node[n].parent)
            if (sums_over(v->g, &v->sums, n)) return true;
    return false;
}

/* The record takes units back up from lower classes' nodes: one of them is under its reserve then,
 * since its own victims were chosen while it had them. */
static bool any_bare(const struct victims *v, u32 record)
{
    const struct budget_record *r = &v->records[record];
    if (r->list_lo == r->list_hi) return false;
    for (u32 class = r->holder + 1; class < HOLD_COUNT; class++) {
        u32 n = v->t->class_node[class];
        if (n == NONE || v->sums.used[n] >= v->g->node[n].reserve_bytes) continue;
        if (v->sums.used[n] < v->g->node[n].used_bytes) return true;
    }
    return false;
}

/* One walk; true when a record stays. */
static bool walk_back(struct victims *v, const struct budget_want *want, u64 bytes, u32 first,
                      bool all)
{
    struct budget_plan *out = v->out;
    bool stays = false, caps = v->capped || (v->shares != NULL && v->shares->list_count > 0);
    for (u32 i = out->victim_count; i-- > first; ) {
        u32 record = out->victim[i];
        take(v, record, true);
        bool fits = all || want == NULL || sums_fits(v->t, &v->sums, want->node, want->arena,
                                                     bytes, want->must).fits;
        if (!fits || (!all && caps && (any_over(v, record) || any_bare(v, record)))) {
            take(v, record, false);
            continue;
        }
        stays = true;
        memmove(&out->victim[i], &out->victim[i + 1],
                (out->victim_count - i - 1) * sizeof out->victim[0]);
        out->victim_count--;
    }
    return stays;
}

/* One that stays takes what it shares back up to its own node, and another one below may stay that
 * could not: with units the walk is made again while any stays, at most once a victim. */
void victims_give_back(struct victims *v, const struct budget_want *want, u64 bytes, u32 first,
                       bool all)
{
    v->pushing = false;
    while (walk_back(v, want, bytes, first, all) && v->shares != NULL && !all) { }
    v->lifted = false;
}

/* ------------------------------------------------------------------ caps */

/* Depth of a node: leaves are looked at first, higher classes before lower ones, then what stands
 * above them. */
static u32 depth_of(const struct budget_graph *g, u32 node)
{
    u32 depth = 0;
    for (u32 n = g->node[node].parent; n != NONE; n = g->node[n].parent) depth++;
    return depth;
}

/* The node over its cap that is to be brought down next, or NONE; `tried` are left out. */
static u32 next_over(const struct victims *v, const bool *tried)
{
    u32 best = NONE, best_key = 0;
    for (u32 n = 0; n < v->g->node_count; n++) {
        if (tried[n] || !sums_over(v->g, &v->sums, n)) continue;
        const struct budget_node *node = &v->g->node[n];
        u32 key = node->used_kind != USED_CHILDREN
                ? (node->used_kind == USED_HOLDER ? node->holder : HOLD_COUNT)
                : 1000 - depth_of(v->g, n);
        if (best == NONE || key < best_key) {
            best = n;
            best_key = key;
        }
    }
    return best;
}

/* Takes the least valuable records of what stands below `node` until it is not over its cap. */
static void squeeze_node(struct victims *v, u32 node)
{
    for (u32 n = 0; n < v->g->node_count; n++)
        v->aim.order[n] = sums_under(v->g, n, node) && v->g->node[n].yield != NULL
                    ? (u32)CLASS_FREE - v->g->node[n].node_class : NONE;
    v->aim.below = DENSITY_ANY;
    v->aim.whole = true;
    v->aim.limit = (struct verdict){ .why = WHY_CAP, .limit = node };
    heap_fill(v);
    while (sums_over(v->g, &v->sums, node)) {
        u32 record = heap_take(v);
        if (record == NONE) break;
        add_victim(v, record);
        v->capped = true;
    }
    v->pushing = false;
}

/* Each node is brought down at most twice: its leaves' recharges may lift those of lower classes
 * only, and what an inner node loses lifts no leaf above its class. */
void victims_squeeze(struct victims *v)
{
    bool tried[BUDGET_NODE_CAP];
    for (u32 pass = 0; pass < 2; pass++) {
        memset(tried, 0, sizeof tried);
        for (u32 n = next_over(v, tried); n != NONE; n = next_over(v, tried)) {
            tried[n] = true;
            if (v->record_count > 0) squeeze_node(v, n);
        }
    }
    v->lifted = false;
}

/* ------------------------------------------------------------------ for a want */

static void allow(struct victims *v, u32 node, u32 order)
{
    if (v->g->node[node].yield != NULL) v->aim.order[node] = MIN(v->aim.order[node], order);
}

/* Order in which `want` may take from each node, NONE where it may not. */
static void edge_orders(struct victims *v, const struct budget_want *want,
                        enum victims_from from)
{
    const struct budget_graph *g = v->g;
    u8 own = g->node[want->node].node_class;
    for (u32 n = 0; n < g->node_count; n++) v->aim.order[n] = NONE;
    for (u32 i = 0; i < g->edge_count; i++) {
        const struct budget_edge *e = &g->edge[i];
        if (!sums_under(g, want->node, e->taker)) continue;
        bool leaf = g->node[e->victim].used_kind != USED_CHILDREN;
        for (u32 n = leaf ? e->victim : 0; n < (leaf ? e->victim + 1 : g->node_count); n++) {
            if (n == want->node || !sums_under(g, n, e->victim)) continue;
            bool lower = g->node[n].node_class > own;
            if (want->must || lower == (from == VICTIMS_EDGES)) allow(v, n, e->order);
        }
    }
    if (!want->must && from == VICTIMS_EDGES) return;
    for (u32 n = 0; own == CLASS_ASIDE && n < g->node_count; n++)
        if (g->node[n].node_class == CLASS_ASIDE) allow(v, n, ORDER_LAST / 2);
    allow(v, want->node, ORDER_LAST / 2);
}

static bool passes(const struct budget_tables *t, const struct sums *d,
                   const struct budget_want *want, u64 bytes, const struct verdict *past)
{
    struct verdict v = sums_fits(t, d, want->node, want->arena, bytes, want->must);
    return v.fits || (past != NULL && (v.why != past->why || v.limit != past->limit));
}

/* Halves at most 50 times: grants are under 2^50 bytes.  Monotone in bytes when `past` is what
 * stops the most: limits are looked at in one order. */
u64 victims_largest(const struct budget_tables *t, const struct sums *d,
                    const struct budget_want *want, u64 lo, u64 hi, const struct verdict *past)
{
    u64 unit = want->unit_bytes > 0 ? want->unit_bytes : t->graph->node[want->node].unit_bytes;
    u64 from = 0, to = (hi - lo + unit - 1) / unit;             /* the last step may be short */
    if (!passes(t, d, want, lo, past)) return UINT64_MAX;
    if (passes(t, d, want, hi, past)) return hi;
    while (from < to) {                 /* lo + from units pass; above `to` nothing does     */
        u64 middle = from + (to - from + 1) / 2;
        if (passes(t, d, want, MIN(lo + middle * unit, hi), past)) from = middle;
        else to = middle - 1;
    }
    return MIN(lo + from * unit, hi);
}

/* `freed` bytes of each node come free, those of arenas are in `d`: what stops `lo` bytes then? */
static struct verdict were_freed(const struct victims *v, const struct budget_want *want, u64 lo,
                                 struct sums d, const u64 *freed)
{
    const struct budget_graph *g = v->g;
    for (u32 a = 0; a < v->t->arena_count; a++) sums_arena(v->t, &d, a);
    for (u32 n = 0; n < g->node_count; n++) {
        u64 over = d.used[n] - MIN(d.used[n], g->node[n].reserve_bytes);
        if (freed[n] > 0) sums_move(g, &d, n, 0, MIN(freed[n], over));
    }
    return sums_fits(v->t, &d, want->node, want->arena, lo, want->must);
}

/* What stops `lo` bytes of the want even were every record taken that its edges and the nodes'
 * reserves allow, and every unit that only records hold: if that does not fit, no victims do.
 * Asked at every power of two of records: most often a few are enough. */
static struct verdict at_best(const struct victims *v, const struct budget_want *want, u64 lo)
{
    struct sums d = v->sums;
    u64 freed[BUDGET_NODE_CAP] = { 0 };
    for (u32 i = 0; i < v->record_count; i++) {
        const struct budget_record *r = &v->records[i];
        if (i >= BEST_FIRST && (i & (i - 1)) == 0) {
            struct verdict now = were_freed(v, want, lo, d, freed);
            if (now.fits) return now;
        }
        if (v->aim.order[r->node] == NONE || r->pinned || r->leaves) continue;
        if (v->scratch->gone[i] != RECORD_HERE) continue;
        freed[r->node] += r->freed_bytes;
        if (r->arena != NONE) d.freed[r->arena] += r->freed_bytes;
        else if (v->g->node[r->node].pool == POOL_BOARD) d.uncounted += r->freed_bytes;
    }
    for (u32 u = 0; v->shares != NULL && u < v->shares->unit_count; u++) {
        const struct budget_unit *unit = &v->shares->unit[u];
        u32 class = (u32)holders_charged(&v->scratch->left[u]);
        if (class == HOLD_COUNT || v->scratch->listed[u] < total_of(&unit->holders)) continue;
        freed[v->t->class_node[class]] += unit->bytes;
        d.freed[unit->arena] += unit->bytes;
    }
    return were_freed(v, want, lo, d, freed);
}

/* One victim of the heap for the limit it was filled for; false when it holds none.  What a
 * recharge lifted over its cap goes at once, and the heap is filled anew. */
static bool take_next(struct victims *v)
{
    u32 record = heap_take(v);
    if (record == NONE) return false;
    u32 first = v->out->victim_count;
    add_victim(v, record);
    if (!v->lifted) return true;
    struct victims_aim kept = v->aim;
    victims_squeeze(v);
    if (v->out->victim_count == first + 1 && v->pushing) return true;
    if (any_over(v, record)) {          /* nobody can pay for what it recharges              */
        victims_give_back(v, NULL, 0, first, true);
        v->scratch->gone[record] = RECORD_BARRED;
    }
    v->aim = kept;
    heap_fill(v);
    return true;
}

struct verdict victims_take(struct victims *v, const struct budget_want *want,
                            enum victims_from from, u64 lo, u64 hi)
{
    const struct budget_tables *t = v->t;
    struct sums *d = &v->sums;
    struct verdict now = sums_fits(t, d, want->node, want->arena, hi, want->must);
    if (now.fits || v->record_count == 0)
        return sums_fits(t, d, want->node, want->arena, lo, want->must);
    open_units(v);
    edge_orders(v, want, from);
    v->aim.below = want->must || from == VICTIMS_EDGES ? DENSITY_ANY : want->value;
    v->aim.whole = want->must;
    v->aim.arena = want->arena;
    struct verdict best = at_best(v, want, lo);
    while (!now.fits && best.fits) {
        struct verdict before = now;
        v->aim.limit = now;
        heap_fill(v);
        while (!now.fits && now.why == before.why && now.limit == before.limit) {
            if (!take_next(v)) {
                hi = victims_largest(t, d, want, lo, hi, &now);
                if (hi == UINT64_MAX)
                    return sums_fits(t, d, want->node, want->arena, lo, want->must);
            }
            now = sums_fits(t, d, want->node, want->arena, hi, want->must);
        }
    }
    v->pushing = false;
    return best;
}

/* ------------------------------------------------------------------ open, leave, close */

void victims_open(struct victims *v)
{
    sums_open(v->t, &v->sums);
    v->heap_count = 0;
    v->opened = v->lifted = v->pushing = v->capped = false;
}

void victims_leave(struct victims *v)
{
    for (u32 i = 0; i < v->record_count; i++) {
        if (!v->records[i].leaves) continue;
        open_units(v);
        take(v, i, false);
    }
}

void victims_close(struct victims *v)
{
    struct budget_plan *out = v->out;
    u64 moved[HOLD_COUNT][HOLD_COUNT];
    out->freed_bytes = v->sums.uncounted;
    for (u32 a = 0; a < v->t->arena_count; a++) out->freed_bytes += v->sums.freed[a];
    if (!v->opened || v->shares == NULL) return;
    memset(moved, 0, sizeof moved);
    for (u32 u = 0; u < v->shares->unit_count; u++) {
        const struct budget_unit *unit = &v->shares->unit[u];
        u32 before = (u32)holders_charged(&unit->holders);
        u32 after = (u32)holders_charged(&v->scratch->left[u]);
        if (before != after && after != HOLD_COUNT) moved[before][after] += unit->bytes;
    }
    for (u32 from = 0; from < HOLD_COUNT; from++)
        for (u32 to = from + 1; to < HOLD_COUNT; to++)
            if (moved[from][to] > 0)
                out->recharge[out->recharge_count++] = (struct budget_recharge){
                    v->t->class_node[from], v->t->class_node[to], moved[from][to],
                };
}
