/* tiers/nvme/rates.c - averages of reads and prefills. */
#include "tiers/nvme/rates.h"

#include "arena/base/clock.h"
#include "arena/base/file.h"
#include "arena/heap.h"

#include <string.h>

enum { RATES_MEMORY = 8, PROBE_BYTES = 1 << 20, PROBE_COUNT = 4 };

static void join(f64 *average, f64 value)
{
    if (!(value > 0)) return;
    *average = *average > 0 ? *average + (value - *average) / RATES_MEMORY : value;
}

void rates_read(struct rates *r, u64 bytes, u64 us)
{
    if (us > 0) join(&r->read_bytes_s, (f64)bytes * 1e6 / (f64)us);
}

void rates_write(struct rates *r, u64 bytes, u64 us)
{
    if (us > 0) join(&r->write_bytes_s, (f64)bytes * 1e6 / (f64)us);
}

void rates_prefill(struct rates *r, u64 tokens, u64 us)
{
    if (tokens > 0) join(&r->prefill_s_token, (f64)us / 1e6 / (f64)tokens);
}

static enum err write_and_read(int fd, u8 *bytes, bool direct, struct rates *found)
{
    u64 from_us = clock_us();
    for (u32 i = 0; i < PROBE_COUNT; i++)
        TRY(file_write_at(fd, (u64)i * PROBE_BYTES, bytes, PROBE_BYTES));
    TRY(file_sync(fd));
    rates_write(found, (u64)PROBE_COUNT * PROBE_BYTES, MAX(clock_us() - from_us, 1u));
    from_us = clock_us();
    for (u32 i = 0; direct && i < PROBE_COUNT; i++)
        TRY(file_read_at(fd, (u64)i * PROBE_BYTES, bytes, PROBE_BYTES));
    if (direct) rates_read(found, (u64)PROBE_COUNT * PROBE_BYTES, MAX(clock_us() - from_us, 1u));
    return OK;
}

enum err rates_probe(const char *folder, bool direct, struct rates *r)
{
    struct file_draft draft;
    struct rates found = { 0 };
    char path[FILE_PATH_BYTES];
    if (r->read_bytes_s > 0 && r->write_bytes_s > 0) return OK;
    TRY(file_join(folder, "rates", path));
    u8 *memory = arena_heap_alloc(PROBE_BYTES + FILE_PAGE_BYTES);
    if (memory == NULL) return fail(ERR_MEMORY, "no memory to probe %s", folder);
    u8 *bytes = memory + (FILE_PAGE_BYTES - (uintptr_t)memory % FILE_PAGE_BYTES) % FILE_PAGE_BYTES;
    memset(bytes, 0x5a, PROBE_BYTES);
    enum err err = file_draft_direct(path, 0600, direct, &draft);
    if (err == OK) {
        err = write_and_read(draft.fd, bytes, direct, &found);
        file_draft_drop(&draft);
    }
    arena_heap_free(memory);
    if (err != OK) return err;
    if (!(r->read_bytes_s > 0)) r->read_bytes_s = found.read_bytes_s;
    if (!(r->write_bytes_s > 0)) r->write_bytes_s = found.write_bytes_s;
    return OK;
}

bool rates_worth(const struct rates *r, u64 bytes, u64 tokens)
{
    if (tokens == 0) return false;
    if (!(r->read_bytes_s > 0) || !(r->prefill_s_token > 0)) return true;
    return (f64)bytes / r->read_bytes_s < (f64)tokens * r->prefill_s_token;
}
