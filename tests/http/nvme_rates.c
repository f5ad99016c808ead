/* tests/http/nvme_rates.c - the profile's rates decide until measured ones do. */
#include "tests/restarts.h"

static f64 prefill_s_token;
static u64 read_bytes_s;

static void name_rates(void)
{
    micro.profile.nvme_read_bytes_s = read_bytes_s;
    micro.profile.nvme_write_bytes_s = 5 * MIB;
    micro.profile.prefill_s_token = prefill_s_token;
}

static void named_up(u64 bytes_s, f64 s_token)
{
    read_bytes_s = bytes_s;
    prefill_s_token = s_token;
    stop();
    up(folder);
    struct rates r = nvme_rates();
    CHECK(r.read_bytes_s == (f64)bytes_s && r.write_bytes_s == 5.0 * MIB);
    CHECK(r.prefill_s_token == s_token);
}

TEST(a_slow_disk_of_the_profile_is_not_read_and_a_fast_one_is)
{
    read_bytes_s = MIB;
    first_up(&(struct micro_setup){ .opening = name_rates });
    micro_prompt(&ask, 6 * G + 5, 3, 9);
    micro_run(&ask);
    named_up(1, 1e-9);                                  /* reading takes for ever            */
    micro_continue(&again, &ask, 7, 4);
    struct micro_ask cold = again;
    micro_run(&cold);
    CHECK_EQ(cold.result.source, SOURCE_COLD);
    CHECK_EQ(cold.result.reason, REASON_SLOW_READ);
    CHECK(nvme_rates().prefill_s_token > 1e-9);         /* measured: it moves                */
    micro_equals_cold(&cold);
    named_up(1024 * GIB, 100);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    struct rates r = nvme_rates();
    CHECK(r.read_bytes_s > 0 && r.read_bytes_s < 1024.0 * (f64)GIB && r.prefill_s_token < 100);
    micro_equals_cold(&again);
    char *stats = micro_command(COMMAND_STATS, "", "");
    CHECK(stats != NULL && strstr(stats, "\"rates\":{\"read_bytes_s\":") != NULL);
    free(stats);
    last_down();
}

TEST(writing_moves_its_rate)
{
    read_bytes_s = MIB;
    first_up(&(struct micro_setup){ .opening = name_rates, .journal_idle_us = 1 });
    micro_prompt(&ask, 6 * G + 5, 3, 9);
    micro_run(&ask);
    u64 until_us = clock_us() + 10000;
    while (spill_counts().complete < 1 || clock_us() < until_us) settle();
    CHECK(writer_counts().piece_bytes > 0 && writer_counts().piece_us > 0);
    CHECK(nvme_rates().write_bytes_s != 5.0 * MIB);
    last_down();
}
