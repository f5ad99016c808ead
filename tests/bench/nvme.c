/* tests/bench/nvme.c - chunks to files and back beside raw direct I/O of the same sizes.
 *
 * Interleaved pairs, medians, printed; asserts only that bytes moved are the bytes needed.  Figures
 * are of whatever disk NVME_DIR (default /tmp) lies on; NVME_MIB (256) is what one round moves,
 * NVME_PAIRS (3) how many rounds: `NVME_MIB=1024 NVME_PAIRS=9 ./build.sh test bench/nvme`. */
#include "tests/test.h"

#include "arena/base/clock.h"
#include "arena/base/rng.h"
#include "tests/bench/median.h"
#include "tiers/nvme/nvme.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 256, G = 1024, PLANES = 16, ROW_BYTES = 4096, PAIRS_MAX = 32, CHUNKS_MAX = 64 };

static struct state_shape shape;
static struct fingerprint place;
static char folder[64];
static block_id block[CHUNKS_MAX * G / B];
static u64 keys[CHUNKS_MAX * G];

static void memory_open(u32 chunks)
{
    memset(&shape, 0, sizeof shape);
    shape.block_rows = B;
    shape.grid_rows = G;
    shape.section_count = shape.view_count = 1;
    shape.section[0] = (struct state_section){ .name = "S", .bytes = 4 * MIB };
    shape.section_bytes = 4 * MIB;
    shape.view[0] = (struct state_view){ .name = "K", .planes = PLANES, .row_bytes = ROW_BYTES,
                                         .strip_bytes = (u64)B * ROW_BYTES };
    shape.block_bytes = PLANES * shape.view[0].strip_bytes;
    struct arena_decl decl[3];
    state_declare(&shape, (chunks + 2) * (u64)(G / B) * shape.block_bytes, decl);
    decl[2] = (struct arena_decl){ .name = "tables", .kind = ARENA_TABLE, .cap_bytes = 64 * MIB };
    CHECK_OK(arena_open(decl, 3));
    CHECK_OK(state_open(&shape));
    for (u32 i = 0; i < chunks * G / B; i++) {
        CHECK_OK(arena_blocks_take(state_blocks_arena(), HOLD_PARK, &block[i]));
        u64 *at = (u64 *)(void *)arena_blocks_addr(state_blocks_arena(), block[i]);
        for (u64 k = 0; k < shape.block_bytes / sizeof *at; k++)
            at[k] = i * 0x9e3779b97f4a7c15u + k;
        u64 *label = arena_blocks_label(state_blocks_arena(), block[i]);
        for (u32 k = 0; k < B; k++) label[k] = keys[i * B + k] = rng_u64(i, k);
    }
}

static void rooms_open(void)
{
    u32 t = arena_find("tables");
    struct fingerprint_source source = { .weights = { 1, 2 }, .backend = "cpu" };
    CHECK_OK(fingerprint_open(folder, &shape, &source, 1, &place));
    CHECK_OK(writer_open(&(struct writer_setup){ .table_arena = t, .row_cap = 64,
        .remove_cap = CHUNKS_MAX, .place = &place, .day_cap_bytes = UINT64_MAX / 2 }));
    CHECK_OK(reader_open(&(struct reader_setup){ .table_arena = t, .row_cap = 64,
                                                 .place = &place }));
    CHECK_OK(pieces_open(t, 256, &place));
    CHECK_OK(transfer_open(t, (u64)CHUNKS_MAX * G));
}

static f64 rate(u64 bytes, u64 from_us)
{
    return (f64)bytes / (f64)MAX(clock_us() - from_us, 1u) / 1e3;       /* GB/s              */
}

static f64 write_chunks(u32 chunks, u64 bytes)
{
    struct transfer_rows rows = { .block = block, .rows = (u64)chunks * G };
    struct writer_answer answer;
    u64 count, from_us = clock_us();
    u32 top;
    CHECK_OK(transfer_chunks(&rows, transfer_lines(&rows, &count), 0, rows.rows, true, 1, &top));
    while (writer_step()) continue;
    f64 got = rate(bytes, from_us);
    while (writer_done(&answer)) {
        CHECK_OK(answer.err);
        pieces_written(answer.owner, OK);
    }
    return got;
}

static f64 read_chunks(u32 chunks, u64 bytes)
{
    struct reader_answer answer;
    u64 from_us = clock_us();
    for (u32 piece = pieces_next(0), n = 0; n < chunks; piece = pieces_next(piece + 1), n++) {
        const struct piece_row *r = pieces_row(piece);
        CHECK(reader_submit(&(struct reader_ask){ .kind = FORMAT_CHUNK,
            .hash = { r->name[0], r->name[1] }, .lo = r->lo, .hi = r->hi, .rows_hi = r->hi,
            .keys = keys + r->lo, .block = block + r->lo / B }));
        while (reader_step()) continue;
        while (reader_done(&answer)) CHECK_OK(answer.err);
    }
    return rate(bytes, from_us);
}

static f64 raw(u32 chunks, u64 bytes, bool write)
{
    char name[32], path[FILE_PATH_BYTES];
    u64 from_us = clock_us();
    for (u32 n = 0; n < chunks; n++) {
        struct file_draft draft;
        int fd = -1;
        snprintf(name, sizeof name, "raw-%u", n);
        CHECK_OK(file_join(folder, name, path));
        if (write) CHECK_OK(file_draft_direct(path, 0600, place.direct, &draft));
        else CHECK_OK(file_open_direct(path, &fd));
        for (u32 i = 0; i < G / B; i++) {
            u8 *at = arena_blocks_addr(state_blocks_arena(), block[n * G / B + i]);
            if (write) CHECK_OK(file_write_at(draft.fd, i * shape.block_bytes, at,
                                              shape.block_bytes));
            else CHECK_OK(file_read_at(fd, i * shape.block_bytes, at, shape.block_bytes));
        }
        if (write) CHECK_OK(file_draft_end(&draft));
        file_close(fd);
    }
    return rate(bytes, from_us);
}

TEST(restores_and_spills_beside_raw_direct_io)
{
    const char *mib = getenv("NVME_MIB"), *pairs_text = getenv("NVME_PAIRS");
    const char *dir = getenv("NVME_DIR");
    u64 chunk_bytes = (u64)G * PLANES * ROW_BYTES;
    u64 asked = mib == NULL ? 256 : strtoull(mib, NULL, 10);
    u32 chunks = (u32)MIN(asked * MIB / chunk_bytes, (u64)CHUNKS_MAX);
    u32 pairs = pairs_text == NULL ? 3 : (u32)MIN(strtoull(pairs_text, NULL, 10), PAIRS_MAX + 0ull);
    f64 rates[4][PAIRS_MAX];
    u64 bytes = chunks * chunk_bytes;
    snprintf(folder, sizeof folder, "%s/holdfast-bench-XXXXXX", dir == NULL ? "/tmp" : dir);
    CHECK(mkdtemp(folder) != NULL && chunks > 0 && pairs > 0);
    memory_open(chunks);
    rooms_open();
    for (u32 i = 0; i < pairs; i++) {
        rates[0][i] = raw(chunks, bytes, true);
        rates[1][i] = write_chunks(chunks, bytes);
        rates[2][i] = raw(chunks, bytes, false);
        rates[3][i] = read_chunks(chunks, bytes);
        CHECK_EQ(writer_counts().files, (u64)chunks * (i + 1));
        CHECK_EQ(reader_counts().files, (u64)chunks * (i + 1));
        pieces_sweep();
        while (writer_step()) continue;
        struct writer_answer answer;
        while (writer_done(&answer)) CHECK_OK(answer.err);
        CHECK_EQ(pieces_counts().rows, 0);
    }
    f64 m[4];
    for (u32 i = 0; i < 4; i++) m[i] = median(rates[i], pairs);
    printf("%u MiB, %u pairs, direct %d: write raw %.2f GB/s, spill %.2f (%.2f of raw); read raw "
           "%.2f, restore %.2f (%.2f of raw)\n", (u32)(bytes / MIB), pairs, place.direct, m[0],
           m[1], m[1] / m[0], m[2], m[3], m[3] / m[2]);
    writer_close();
    reader_close();
    fingerprint_close(&place, 1);
    for (u32 i = 0; i < chunks * G / B; i++)
        arena_blocks_drop(state_blocks_arena(), block[i], HOLD_PARK);
    CHECK_OK(file_remove_folder(place.folder));
    CHECK_OK(file_remove_folder(folder));
    arena_close();
}
