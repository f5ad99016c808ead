/* tests/arena/file.c - whole transfers, commits that are old or new under every fault, locks. */
#include "tests/test.h"

#include "arena/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[FILE_PATH_BYTES];
    if (folder[0] == 0) {
        strcpy(folder, "/tmp/holdfast-file-XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
    }
    CHECK_OK(file_join(folder, name, path));
    return path;
}

static u32 names_in_folder(void)
{
    struct file_list list;
    u32 count = 0;
    CHECK_OK(file_list_open(folder, &list));
    while (file_list_next(&list)) count++;
    file_list_close(&list);
    return count;
}

TEST(what_was_written_is_read_back_and_a_short_file_is_an_error)
{
    int fd = -1;
    char text[16] = { 0 };
    const char *path = in_folder("plain");
    CHECK_OK(file_open(path, FILE_OPEN_CREATE, 0600, &fd));
    CHECK_OK(file_write_at(fd, 4, "tail", 4));
    CHECK_OK(file_write_at(fd, 0, "head", 4));
    CHECK_OK(file_sync(fd));
    CHECK_OK(file_read_at(fd, 2, text, 4));
    CHECK_STR(text, "adta");
    CHECK_EQ(file_read_at(fd, 4, text, 5), ERR_IO);
    CHECK(strstr(err_last()->text, "plain: it ends at byte 8") != NULL);
    file_close(fd);
    CHECK_OK(file_open(path, FILE_OPEN_APPEND, 0600, &fd));
    CHECK_OK(file_append(fd, "++", 2));
    file_close(fd);
    u64 bytes = 0;
    CHECK_EQ(file_read(path, text, 9, &bytes), ERR_LIMIT);
    CHECK_EQ(bytes, 0);
    CHECK_OK(file_read(path, text, 10, &bytes));
    CHECK(bytes == 10 && memcmp(text, "headtail++", 10) == 0);
    struct file_stat stat;
    CHECK_OK(file_stat(path, &stat));
    CHECK(stat.bytes == 10 && stat.regular && !stat.folder && stat.mode == 0600);
    CHECK(stat.owner == getuid() && stat.mtime_ns > 0);
    CHECK_OK(file_remove(path));
    CHECK_OK(file_remove(path));
}

TEST(errors_name_path_and_reason)
{
    int fd = -1;
    const char *path = in_folder("nobody/home");
    CHECK_EQ(file_open(path, FILE_OPEN_READ, 0, &fd), ERR_NOT_FOUND);
    char want[256];
    snprintf(want, sizeof want, "opening %s: No such file or directory", path);
    CHECK_STR(err_last()->text, want);
    CHECK_EQ(fd, -1);
    u64 bytes;
    CHECK_EQ(file_read(folder, want, sizeof want, &bytes), ERR_IO);
    CHECK(strstr(err_last()->text, "not a plain file") != NULL);
}

TEST(a_commit_is_old_or_new_under_every_fault_and_leaves_no_litter)
{
    char path[FILE_PATH_BYTES], text[16];
    strcpy(path, in_folder("kept"));
    CHECK_OK(file_commit(path, "old", 3, 0640));
    u32 fired = 0;
    for (u32 n = 1;; n++) {                             /* ends when no fault fires           */
        CHECK(n < 100);
        file_fail(n);
        enum err err = file_commit(path, "new one", 7, 0640);
        bool ended = file_fail_left() != 0;
        file_fail(0);
        u64 bytes = 0;
        CHECK_OK(file_read(path, text, sizeof text, &bytes));
        bool is_old = bytes == 3 && memcmp(text, "old", 3) == 0;
        bool is_new = bytes == 7 && memcmp(text, "new one", 7) == 0;
        CHECK(is_old || is_new);
        CHECK_EQ(names_in_folder(), 1);
        if (ended) {
            CHECK(err == OK && is_new);
            break;
        }
        CHECK_EQ(err, ERR_IO);
        CHECK_OK(file_commit(path, "old", 3, 0640));
        fired++;
    }
    CHECK(fired >= 5);                                  /* open, write, sync, rename, folder  */
    struct file_stat stat;
    CHECK_OK(file_stat(path, &stat));
    CHECK_EQ(stat.mode, 0640);
    CHECK_OK(file_remove(path));
}

TEST(folders_are_made_with_their_parents_and_mode)
{
    struct file_stat stat;
    CHECK_OK(file_make_folder(in_folder("a/b/c"), 0700));
    CHECK_OK(file_make_folder(in_folder("a/b/c"), 0700));
    CHECK_OK(file_stat(in_folder("a/b"), &stat));
    CHECK(stat.folder && stat.mode == 0700);
    CHECK_OK(file_commit(in_folder("a/f"), "", 0, 0600));
    CHECK_EQ(file_make_folder(in_folder("a/f"), 0700), ERR_IO);
    CHECK(file_make_folder(in_folder("a/f/g"), 0700) != OK);
    CHECK_OK(file_remove(in_folder("a/f")));
    rmdir(in_folder("a/b/c"));
    rmdir(in_folder("a/b"));
    rmdir(in_folder("a"));
}

TEST(a_lock_is_held_by_one)
{
    int first = -1, second = -1;
    const char *path = in_folder("lock");
    CHECK_OK(file_lock(path, &first));
    CHECK_EQ(file_lock(path, &second), ERR_FULL);
    CHECK_EQ(second, -1);
    file_close(first);
    CHECK_OK(file_lock(path, &second));
    file_close(second);
    CHECK_OK(file_remove(path));
    u64 free_bytes = 0, total_bytes = 0;
    CHECK_OK(file_space(folder, &free_bytes, &total_bytes));
    CHECK(total_bytes > 0 && free_bytes <= total_bytes);
    rmdir(folder);
}
