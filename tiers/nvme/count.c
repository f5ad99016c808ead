/* tiers/nvme/count.c - rows of lines by hash, the plan, the file. */
#include "tiers/nvme/count.h"

#include "arena/base/crc32.h"
#include "arena/base/log.h"
#include "arena/table.h"
#include "model/state.h"

#include <string.h>

static const char magic[8] = "HFCOUNT";
enum { COUNT_VERSION = 1, DAY_S = 86400 };

static struct {
    struct line_count_row *row;
    u32 *bucket;
    u32 cap, count, hand;               /* rows [0, count) are in use; where ageing looks next */
} own;

u64 count_table_bytes(u32 row_cap)
{
    return (sizeof(struct line_count_row) + sizeof(u32)) * row_cap + 2 * 64;
}

enum err count_open(u32 table_arena, u32 row_cap)
{
    memset(&own, 0, sizeof own);
    TRY(arena_table_take(table_arena, "line counts", sizeof *own.row, row_cap, &own.row));
    TRY(arena_table_take(table_arena, "line buckets", sizeof *own.bucket, row_cap, &own.bucket));
    own.cap = row_cap;
    count_clear();
    return OK;
}

void count_clear(void)
{
    for (u32 i = 0; i < own.cap; i++) own.bucket[i] = NONE;
    own.count = own.hand = 0;
}

u32 count_rows(void) { return own.count; }
u32 count_cap(void) { return own.cap; }

static u32 *bucket_of(const u64 hash[2]) { return &own.bucket[hash[0] % own.cap]; }

static struct line_count_row *find(const u64 hash[2])
{
    for (u32 i = *bucket_of(hash); i != NONE; i = own.row[i].next)
        if (memcmp(own.row[i].hash, hash, sizeof own.row[i].hash) == 0) return &own.row[i];
    return NULL;
}

u32 count_times(const u64 hash[2])
{
    const struct line_count_row *r = find(hash);
    return r == NULL ? 0 : r->times;
}

/* ------------------------------------------------------------------ plan */

static void plan_put(struct count_plan *plan, u64 line)
{
    u32 at = 0;
    while (at < plan->count && plan->line[at] < line) at++;
    if (plan->count == COUNT_PLAN_CAP || (at < plan->count && plan->line[at] == line)) return;
    memmove(&plan->line[at + 1], &plan->line[at], (plan->count - at) * sizeof plan->line[0]);
    plan->line[at] = line;
    plan->count++;
}

/* True when an earlier prompt read to line i and went on otherwise than this one. */
static bool branches(const struct count_prompt *prompt, u64 i)
{
    const struct line_count_row *r = find(prompt->lines[i]);
    if (r == NULL) return false;
    bool known = i + 1 < prompt->line_count && r->after != 0;
    return r->branch != 0 || (known && r->after != prompt->lines[i + 1][0]);
}

void count_plan(const struct count_prompt *prompt, const struct count_knobs *knobs,
                struct count_plan *out)
{
    u64 g = state_shape()->grid_rows, first = prompt->start / g, branch_count = 0;
    *out = (struct count_plan){ .count = 0 };
    if (prompt->count < knobs->min_tokens) return;
    for (u64 i = prompt->line_count; i > first; i--) {
        if (count_times(prompt->lines[i - 1]) + 1 < knobs->admit_after) continue;
        plan_put(out, i * g);
        break;
    }
    for (u64 i = prompt->line_count; i > first && branch_count < 3; i--) {
        if (!branches(prompt, i - 1)) continue;
        plan_put(out, i * g);
        branch_count++;
    }
    if (!prompt->first_long) return;
    u64 top = prompt->last_user_pos > 0 ? MIN(prompt->last_user_pos / g, prompt->line_count)
                                        : prompt->line_count;
    for (u64 i = top, n = 0; i > first && n < COUNT_LAST_LINES; i--, n++) plan_put(out, i * g);
}

/* ------------------------------------------------------------------ add */

/* A row for a new hash: the next free one, or the one unread longest among the next 64. */
static struct line_count_row *take(const u64 hash[2])
{
    enum { LOOK = 64 };
    u32 at = own.count;
    if (own.count < own.cap) own.count++;
    else {
        at = own.hand;
        for (u32 n = 1; n < MIN(LOOK, own.cap); n++) {
            u32 other = (own.hand + n) % own.cap;
            if (own.row[other].day < own.row[at].day) at = other;
        }
        own.hand = (own.hand + LOOK) % own.cap;
        u32 *link = bucket_of(own.row[at].hash);
        while (*link != at) link = &own.row[*link].next;
        *link = own.row[at].next;
    }
    own.row[at] = (struct line_count_row){ .hash = { hash[0], hash[1] },
                                           .next = *bucket_of(hash) };
    *bucket_of(hash) = at;
    return &own.row[at];
}

void count_add(const struct count_prompt *prompt, u64 now_s)
{
    u64 g = state_shape()->grid_rows;
    for (u64 i = prompt->start / g; i < prompt->line_count; i++) {
        struct line_count_row *r = find(prompt->lines[i]);
        if (r == NULL) r = take(prompt->lines[i]);
        r->times += r->times < UINT32_MAX;
        r->day = (u32)(now_s / DAY_S);
        if (i + 1 == prompt->line_count) continue;
        u64 after = prompt->lines[i + 1][0];
        if (r->after == 0) r->after = after;
        else if (r->after != after) r->branch = 1;
    }
}

/* ------------------------------------------------------------------ file */

u64 count_bytes(void)
{
    return sizeof(struct count_head) + (u64)own.count * sizeof(struct line_count_row);
}

void count_put(u8 *to, const struct fingerprint *place, u64 day, u64 day_bytes)
{
    struct count_head head = { .version = COUNT_VERSION, .row_count = own.count, .day = day,
                               .day_bytes = day_bytes };
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.fingerprint, place->id, sizeof head.fingerprint);
    u64 bytes = (u64)own.count * sizeof *own.row;
    memcpy(to + sizeof head, own.row, bytes);
    head.row_crc = crc32_of(to + sizeof head, bytes);
    head.crc = crc32_of(&head, offsetof(struct count_head, crc));
    memcpy(to, &head, sizeof head);
}

static enum err load(int fd, u64 file_bytes, const struct fingerprint *place,
                     struct count_head *head)
{
    TRY(file_read_at(fd, 0, head, sizeof *head));
    if (memcmp(head->magic, magic, sizeof magic) != 0 || head->version != COUNT_VERSION ||
        memcmp(head->fingerprint, place->id, sizeof head->fingerprint) != 0)
        return fail(ERR_FORMAT, "COUNTS is not this model's");
    if (head->crc != crc32_of(head, offsetof(struct count_head, crc)))
        return fail(ERR_CRC, "COUNTS: bad head");
    u64 bytes = (u64)head->row_count * sizeof *own.row;
    if (head->row_count > own.cap || file_bytes != sizeof *head + bytes)
        return fail(ERR_FORMAT, "COUNTS: %u rows in %llu bytes", head->row_count,
                    (ull)file_bytes);
    TRY(file_read_at(fd, sizeof *head, own.row, bytes));
    if (crc32_of(own.row, bytes) != head->row_crc) return fail(ERR_CRC, "COUNTS: bad rows");
    return OK;
}

void count_load(const struct fingerprint *place, u64 *day_out, u64 *day_bytes_out)
{
    char path[FILE_PATH_BYTES];
    struct file_stat stat;
    struct count_head head = { .row_count = 0 };
    int fd = -1;
    *day_out = *day_bytes_out = 0;
    if (file_join(place->folder, "COUNTS", path) != OK || file_stat(path, &stat) != OK) return;
    enum err err = file_open(path, FILE_OPEN_READ, 0, &fd);
    if (err == OK) err = load(fd, stat.bytes, place, &head);
    file_close(fd);
    if (err != OK) {
        log_line(LOG_LEVEL_WARN, "line counts begin anew: %s", err_last()->text);
        count_clear();
        return;
    }
    own.count = head.row_count;
    for (u32 i = 0; i < own.count; i++) {
        own.row[i].next = *bucket_of(own.row[i].hash);
        *bucket_of(own.row[i].hash) = i;
    }
    *day_out = head.day;
    *day_bytes_out = head.day_bytes;
}
