/* http/serve/phase.c - one row: phase, bytes, when it began. */
#include "http/serve/phase.h"

#include "arena/base/clock.h"

#include <stdatomic.h>
#include <stdio.h>

static const char *const phase_word[PHASE_COUNT] = { "weights", "restore", "warmup" };

static _Atomic u32 now_phase;
static _Atomic u64 done, total, begun_us;
static _Atomic bool draining;
static const struct chat_model *_Atomic model_row;

enum { PHASE_RETRY_MAX_S = 30, PHASE_TELLING = 50 };

void phase_open(void)
{
    atomic_store(&now_phase, PHASE_WEIGHTS);
    atomic_store(&done, 0);
    atomic_store(&total, 0);
    atomic_store(&begun_us, clock_us());
    atomic_store(&draining, false);
    atomic_store(&model_row, NULL);
}

void phase_loading(enum phase phase, u64 done_bytes, u64 total_bytes)
{
    if (atomic_exchange(&now_phase, (u32)phase) != (u32)phase) atomic_store(&begun_us, clock_us());
    atomic_store(&total, total_bytes);
    atomic_store(&done, MIN(done_bytes, total_bytes));
}

void phase_ready(const struct chat_model *model) { atomic_store(&model_row, model); }
void phase_drain(void) { atomic_store(&draining, true); }
const struct chat_model *phase_model(void) { return atomic_load(&model_row); }
bool phase_draining(void) { return atomic_load(&draining); }

static f64 elapsed_s(void) { return (f64)(clock_us() - atomic_load(&begun_us)) / 1e6; }

/* Seconds left by what was read so far; below zero while that is too little to tell. */
static f64 eta_s(void)
{
    u64 have = atomic_load(&done), all = atomic_load(&total);
    if (have == 0 || have < all / PHASE_TELLING) return -1.0;
    return elapsed_s() * (f64)(all - MIN(have, all)) / (f64)have;
}

static f64 tenths(f64 s) { return (f64)(u64)(s * 10.0) / 10.0; }

u32 phase_line(char *out, u64 cap)
{
    static const struct { u64 bytes; const char *word; } units[] = {
        { 1ull << 30, "GiB" }, { 1ull << 20, "MiB" }, { 1ull << 10, "KiB" }, { 1, "bytes" },
    };
    u64 have = atomic_load(&done), all = atomic_load(&total);
    const char *word = phase_word[atomic_load(&now_phase) % PHASE_COUNT];
    u32 unit = 0;
    while (unit + 1 < COUNT_OF(units) && all < 10 * units[unit].bytes) unit++;
    f64 left = eta_s();
    if (all == 0) snprintf(out, cap, "loading %s", word);
    else if (left < 0)
        snprintf(out, cap, "loading %s: 0 of %llu %s", word, (ull)(all / units[unit].bytes),
                 units[unit].word);
    else
        snprintf(out, cap, "loading %s: %llu of %llu %s, about %.0f s left", word,
                 (ull)(have / units[unit].bytes), (ull)(all / units[unit].bytes),
                 units[unit].word, left);
    return left < 0 ? 0 : (u32)MIN(left + 1, (f64)UINT32_MAX / 2);
}

bool phase_check(struct refusal *r)
{
    if (phase_draining()) {
        refusal_set(r, 503, NULL, NULL, "the server is shutting down");
        r->retry_after_s = 5;
        return false;
    }
    if (phase_model() != NULL) return true;
    char line[128];
    u32 left = phase_line(line, sizeof line);
    refusal_set(r, 503, NULL, NULL, "%s", line);
    r->retry_after_s = MIN(MAX(left, 1u), (u32)PHASE_RETRY_MAX_S);
    return false;
}

u32 phase_health(struct json_out *out)
{
    bool ready = phase_model() != NULL, ending = phase_draining();
    json_put_object(out);
    json_put_key(out, "status");
    json_put_cstr(out, ending ? "draining" : ready ? "ok" : "loading");
    if (!ready && !ending) {
        f64 left = eta_s();
        json_put_key(out, "phase");
        json_put_cstr(out, phase_word[atomic_load(&now_phase) % PHASE_COUNT]);
        json_put_key(out, "done_bytes");
        json_put_u64(out, atomic_load(&done));
        json_put_key(out, "total_bytes");
        json_put_u64(out, atomic_load(&total));
        json_put_key(out, "elapsed_s");
        json_put_f64(out, tenths(elapsed_s()));
        json_put_key(out, "eta_s");
        if (left < 0) json_put_null(out);
        else json_put_f64(out, tenths(left));
    }
    json_put_object_end(out);
    return ending || !ready ? 503 : 200;
}
