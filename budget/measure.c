/* budget/measure.c - reads /proc/meminfo, the control group and /proc/self/smaps with stdio: the
 * files are short, made by the kernel, and have no end to seek to. */
#include "budget/measure.h"

#include "arena/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEASURE_PATH_BYTES = 2048, MEASURE_LINE_BYTES = 1024 };

static u64 fixed_free = UINT64_MAX, fixed_total = UINT64_MAX;
static char root[256];

void budget_measure_fix(u64 free_bytes, u64 total_bytes)
{
    fixed_free = free_bytes;
    fixed_total = total_bytes;
}

void budget_measure_root(const char *folder)
{
    snprintf(root, sizeof root, "%s", folder);
}

static FILE *open_read(const char *path)
{
    char whole[2 * MEASURE_PATH_BYTES];
    int bytes = snprintf(whole, sizeof whole, "%s%s", root, path);
    if (bytes < 0 || bytes >= (int)sizeof whole) return NULL;
    return fopen(whole, "re");
}

/* The number after `key` at the start of a line, times `unit`; `otherwise` when there is none. */
static u64 read_field(const char *path, const char *key, u64 unit, u64 otherwise)
{
    FILE *file = open_read(path);
    if (file == NULL) return otherwise;
    char line[MEASURE_LINE_BYTES];
    u64 value = otherwise;
    size_t key_bytes = strlen(key);
    while (value == otherwise && fgets(line, sizeof line, file) != NULL) {
        char *end;
        if (strncmp(line, key, key_bytes) != 0) continue;
        ull number = strtoull(line + key_bytes, &end, 10);
        if (end != line + key_bytes) value = (u64)number * unit;
    }
    fclose(file);
    return value;
}

/* What one group leaves and its limit; "max" (no limit) gives UINT64_MAX. */
static u64 group_left(const char *group, u64 *limit_out)
{
    char path[MEASURE_PATH_BYTES];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
    u64 limit = read_field(path, "", 1, UINT64_MAX);
    *limit_out = limit;
    if (limit == UINT64_MAX) return UINT64_MAX;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
    u64 now = read_field(path, "", 1, 0);
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", group);
    u64 file = read_field(path, "active_file ", 1, 0) + read_field(path, "inactive_file ", 1, 0);
    now -= MIN(now, file);
    return limit - MIN(limit, now);
}

/* The tightest of the process's group and its parents. */
static void measure_group(u64 *left_out, u64 *limit_out)
{
    *left_out = *limit_out = UINT64_MAX;
    FILE *file = open_read("/proc/self/cgroup");
    if (file == NULL) return;
    char line[MEASURE_LINE_BYTES], group[MEASURE_LINE_BYTES] = "";
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::/", 4) != 0) continue;            /* the one line of cgroup v2 */
        line[strcspn(line, "\n")] = 0;
        snprintf(group, sizeof group, "%s", line + 3);
    }
    fclose(file);
    for (;;) {                          /* each round takes a part of the path away          */
        u64 limit, left = group_left(strcmp(group, "/") == 0 ? "" : group, &limit);
        *left_out = MIN(*left_out, left);
        *limit_out = MIN(*limit_out, limit);
        char *slash = strrchr(group, '/');
        if (slash == NULL || group[0] == 0) return;
        *slash = 0;
    }
}

void budget_measure(u64 mapped_bytes, struct budget_measured *out)
{
    u64 limit;
    out->available_bytes = read_field("/proc/meminfo", "MemAvailable:", KIB, UINT64_MAX);
    out->total_bytes = read_field("/proc/meminfo", "MemTotal:", KIB, UINT64_MAX);
    measure_group(&out->group_bytes, &limit);
    out->total_bytes = MIN(out->total_bytes, limit);
    u64 least = MIN(out->available_bytes, out->group_bytes);
    if (fixed_free != UINT64_MAX) least = fixed_free;
    if (fixed_total != UINT64_MAX) out->total_bytes = fixed_total;
    out->free_bytes = least == UINT64_MAX ? least : least - MIN(least, mapped_bytes);
}

/* 0 = ours, 1 = a mapped weights file, 2 = anything else. */
static u32 mapping_kind(u64 lo, u64 hi, const char *path)
{
    for (u32 i = 0; i < arena_count(); i++) {
        const struct arena_row *row = arena_row(i);
        u64 base = (u64)(uintptr_t)row->base;
        if (lo < base + row->range_bytes && base < hi) return 0;
    }
    size_t bytes = strlen(path);
    if (bytes > 12 && strcmp(path + bytes - 12, ".safetensors") == 0) return 1;
    if (bytes > 5 && strcmp(path + bytes - 5, ".gguf") == 0) return 1;
    return 2;
}

void budget_measure_process(struct budget_process *out)
{
    memset(out, 0, sizeof *out);
    FILE *file = fopen("/proc/self/smaps", "re");
    if (file == NULL) return;
    char line[MEASURE_LINE_BYTES];
    u32 kind = 2;
    while (fgets(line, sizeof line, file) != NULL) {
        ull lo, hi, kib;
        int path_at = 0;
        if (sscanf(line, "%llx-%llx %*s %*s %*s %*s %n", &lo, &hi, &path_at) == 2) {
            line[strcspn(line, "\n")] = 0;
            kind = mapping_kind((u64)lo, (u64)hi, path_at > 0 ? line + path_at : "");
        } else if (sscanf(line, "Rss: %llu kB", &kib) == 1) {
            u64 bytes = (u64)kib * KIB;
            out->rss_bytes += bytes;
            if (kind == 0) out->arena_bytes += bytes;
            else if (kind == 1) out->file_bytes += bytes;
            else out->other_bytes += bytes;
        }
    }
    fclose(file);
}
