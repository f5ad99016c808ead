/* tests/http/nvme_decode.c - a decoding slot waits for no file, whatever else goes to disk and back
 * meanwhile; bytes moved are the bytes needed. */
#include "tests/restarts.h"

#include "arena/base/file_log.h"

static struct micro_ask longer, other;

static u64 manifest_bytes(const u64 session[2])
{
    char name[MANIFEST_NAME_BYTES], path[FILE_PATH_BYTES];
    struct file_stat stat;
    manifest_name(session, name);
    CHECK_OK(file_join(nvme_folder(), name, path));
    CHECK_OK(file_stat(path, &stat));
    return stat.bytes;
}

/* All that a restore of the whole entry reads: its last start, anchors below it, its manifest. */
static u64 needed_bytes(u32 row)
{
    struct spill_hit end;
    const struct manifest *m = &spill_at(row)->talk;
    CHECK(spill_end(row, &end));
    u64 bytes = end.bytes + manifest_bytes(m->session);
    u32 more = 0;
    for (u32 i = m->anchor_count; i > 0 && more < NVME_UNITS - 1; i--) {
        u32 piece = pieces_find(FORMAT_ANCHOR, m->anchor[i - 1].name);
        if (m->anchor[i - 1].pos >= end.start || piece == NONE) continue;
        bytes += pieces_row(piece)->bytes;
        more++;
    }
    return bytes;
}

static void pass_until_complete(u64 count)
{
    for (u32 i = 0; spill_counts().complete < count; i++) {
        engine_pass();
        CHECK(i < 10000);
    }
}

TEST(a_file_call_of_a_thread_that_watches_itself_is_counted)
{
    struct file_stat stat;
    u64 before = file_log_waits();
    CHECK_OK(file_stat("/", &stat));
    CHECK_EQ(file_log_waits(), before);
    CHECK(!file_log_watch(true));
    CHECK_OK(file_stat("/", &stat));
    CHECK(file_log_watch(false));
    CHECK_EQ(file_log_waits(), before + 1);
}

TEST(a_decoding_slot_waits_for_no_file)
{
    u64 a[2] = { 51, 51 }, before = file_log_waits();
    first_up(&(struct micro_setup){ .slot_count = 2, .park_rows = UINT64_MAX, .ctx = 1024,
                                    .pin_rows = UINT64_MAX, .store_rows = UINT64_MAX });
    micro_prompt(&longer, 3 * G, 50, 900);
    micro_push(&longer);
    while (turn_count(TURN_DECODE) == 0) engine_pass();
    micro_prompt(&ask, 6 * G + 5, 51, 4);
    micro_run(&ask);
    micro_prompt(&other, 5 * G, 52, 4);
    micro_run(&other);                                  /* the first of them is spilled      */
    pass_until_complete(1);
    struct pieces_counts p = pieces_counts();
    CHECK_EQ(writer_counts().bytes, p.disk_bytes + p.spill_bytes + manifest_bytes(a));
    u64 read = reader_counts().bytes, needed = needed_bytes(spill_session(a));
    micro_continue(&again, &ask, 3, 9);
    micro_run(&again);                                  /* and restored                      */
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.forwarded, 4);
    CHECK_EQ(reader_counts().bytes - read, needed);
    pass_until_complete(2);
    struct budget_graph *g = &micro.graph;
    u32 node = budget_graph_find(g, "spill"), dropped = (u32)spill_counts().dropped;
    u64 cap = g->node[node].cap_bytes;
    CHECK_OK(budget_graph_cap(g, node, 1));
    engine_pass();                                      /* evicted                           */
    CHECK(spill_counts().dropped > dropped);
    CHECK_OK(budget_graph_cap(g, node, cap));
    free(micro_command(COMMAND_CLEAR, "", "spill"));    /* cleared                           */
    free(micro_command(COMMAND_CLEAR, "", "disk"));
    for (u32 i = 0; i < 4; i++) engine_pass();
    CHECK_EQ(pieces_counts().spill_bytes, 0);
    CHECK_EQ(turn_count(TURN_DECODE), 1);               /* all the while                     */
    micro_wait(&longer);
    CHECK_EQ(longer.result.generated, 900);
    micro_equals_cold(&longer);
    CHECK_EQ(file_log_waits(), before);
    last_down();
}
