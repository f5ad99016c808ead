/* tests/arena/space.c - reserve, commit, decommit on the host; mapped files. */
#include "tests/test.h"

#include "arena/base/file.h"
#include "arena/space.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

TEST(committed_bytes_read_as_zero_again_after_a_decommit)
{
    const struct space_ops *ops = space_ops(SPACE_HOST);
    u64 granule = ops->granule_bytes;
    CHECK_EQ(granule, 64 * 1024);
    u8 *base = NULL;
    CHECK_OK(ops->reserve(64 * MIB, &base));
    CHECK((uintptr_t)base % granule == 0);
    CHECK_OK(ops->commit(base, 6 * MIB));               /* with whole 2 MiB inside            */
    for (u64 at = 0; at < 6 * MIB; at += 4096) CHECK_EQ(base[at], 0);
    CHECK_OK(ops->fill(base, 0xAB, 6 * MIB, 0));
    ops->decommit(base + granule, 4 * MIB);
    CHECK_EQ(base[granule - 1], 0xAB);
    CHECK_EQ(base[granule + 4 * MIB], 0xAB);
    CHECK_OK(ops->commit(base + granule, granule));
    CHECK_EQ(base[granule], 0);
    CHECK_OK(ops->copy(base + granule, base, 16, 1));
    CHECK_OK(ops->wait(ops->fence(1)));
    CHECK_EQ(base[granule + 15], 0xAB);
    ops->release(base, 64 * MIB);
    CHECK(ops->free_bytes() > 0);
}

TEST(a_commit_fails_when_told_and_a_reservation_too_large_is_refused)
{
    const struct space_ops *ops = space_ops(SPACE_HOST);
    u8 *base = NULL;
    CHECK_EQ(ops->reserve(1ull << 62, &base), ERR_MEMORY);
    CHECK(base == NULL);
    CHECK_OK(ops->reserve(MIB, &base));
    space_host_fail_commit(2);
    CHECK_OK(ops->commit(base, 65536));
    CHECK_EQ(space_host_fail_left(), 1);
    CHECK_EQ(ops->commit(base + 65536, 65536), ERR_MEMORY);
    CHECK_EQ(space_host_fail_left(), 0);
    CHECK_OK(ops->commit(base + 65536, 65536));
    ops->release(base, MIB);
    CHECK_EQ(space_real(SPACE_DEVICE), SPACE_HOST);
    CHECK(space_ops(SPACE_DEVICE) == ops);
}

TEST(files_are_mapped_whole_and_empty_ones_too)
{
    char path[64];
    const u8 *at = NULL;
    u64 bytes = 9;
    snprintf(path, sizeof path, "/tmp/holdfast-map-%d", (int)getpid());
    CHECK_OK(file_commit(path, "some bytes", 10, 0600));
    CHECK_OK(space_host_map_file(path, &at, &bytes));
    CHECK(bytes == 10 && memcmp(at, "some bytes", 10) == 0);
    space_host_drop_file(at, bytes);
    space_host_unmap_file(at, bytes);
    CHECK_OK(file_commit(path, "", 0, 0600));
    CHECK_OK(space_host_map_file(path, &at, &bytes));
    CHECK(bytes == 0 && at != NULL);
    space_host_unmap_file(at, bytes);
    CHECK_OK(file_remove(path));
    CHECK_EQ(space_host_map_file(path, &at, &bytes), ERR_NOT_FOUND);
    CHECK_EQ(space_host_map_file("/tmp", &at, &bytes), ERR_IO);
}
