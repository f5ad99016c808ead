/* http/cli/memdiff.c - two dumps side by side, row by row of the same name. */
#include "http/cli/memdiff.h"

#include "arena/base/json.h"

#include <stdio.h>
#include <string.h>

#define DIFF_FILE_BYTES (256 * MIB)

struct sides { struct json_at a, b; u32 changed; };

static enum err open_dump(const char *path, struct json_doc *doc, struct json_at *root)
{
    u64 version;
    struct json_limits limits = { .bytes_max = DIFF_FILE_BYTES, .depth_max = 16 };
    TRY(json_open_file(path, limits, doc, root));
    enum err e = json_u64(root, "version", &version);
    if (e == OK && version == 1) return OK;
    json_close(doc);
    if (e == OK)
        return fail(ERR_FORMAT, "%s: a dump of version %llu; 1 is known", path, (ull)version);
    return fail(ERR_FORMAT, "%s: no memory dump (mem --format json writes one)", path);
}

/* "-" for no limit; bytes else, in the largest unit that leaves two digits or more. */
static void put_amount(char *out, u64 cap, f64 bytes, bool sign)
{
    static const char *const units[] = { "", " KiB", " MiB", " GiB" };
    u32 unit = 0;
    f64 size = bytes < 0 ? -bytes : bytes;
    while (unit < 3 && size >= 1024) {
        size /= 1024;
        unit++;
    }
    snprintf(out, cap, "%s%.*f%s", bytes < 0 ? "-" : sign ? "+" : "", unit == 0 ? 0 : 1, size,
             units[unit]);
}

/* One figure of both sides; absent or null counts as no value. */
static void put_change(struct sides *s, const char *what, const char *name, const char *key,
                       const struct json_at *a, const struct json_at *b, bool bytes)
{
    char text_a[32] = "-", text_b[32] = "-", change[32] = "";
    struct json_at at;
    i64 x = 0, y = 0;
    bool has_a = a != NULL && json_find(a, key, &at) && json_i64(&at, NULL, &x) == OK;
    bool has_b = b != NULL && json_find(b, key, &at) && json_i64(&at, NULL, &y) == OK;
    if (has_a == has_b && x == y) return;
    if (has_a && bytes) put_amount(text_a, sizeof text_a, (f64)x, false);
    else if (has_a) snprintf(text_a, sizeof text_a, "%lld", (long long)x);
    if (has_b && bytes) put_amount(text_b, sizeof text_b, (f64)y, false);
    else if (has_b) snprintf(text_b, sizeof text_b, "%lld", (long long)y);
    if (has_a && has_b && bytes) put_amount(change, sizeof change, (f64)(y - x), true);
    else if (has_a && has_b) snprintf(change, sizeof change, "%+lld", (long long)(y - x));
    if (s->changed++ == 0)
        printf("%-7s %-14s %-16s %12s %12s %12s\n", "", "name", "figure", "A", "B", "B - A");
    printf("%-7s %-14s %-16s %12s %12s %12s\n", what, name, key, text_a, text_b, change);
}

/* Item of `list` whose member `key` is `name`, or false. */
static bool find_row(const struct json_at *list, const char *key, const char *name,
                     struct json_at *out)
{
    u32 count = json_count(list);
    for (u32 i = 0; i < count; i++) {
        const char *here;
        u64 bytes;
        if (json_item(list, i, out) != OK || json_str(out, key, &here, &bytes) != OK) continue;
        if (strcmp(here, name) == 0) return true;
    }
    return false;
}

/* Rows of one list of both dumps, those of A first, then those that only B has. */
static enum err put_rows(struct sides *s, const char *list, const char *what, const char *key,
                         const char *const *figures, u32 count, bool bytes)
{
    struct json_at a, b, row, other;
    TRY(json_get(&s->a, list, &a));
    TRY(json_get(&s->b, list, &b));
    for (u32 side = 0; side < 2; side++) {
        const struct json_at *mine = side == 0 ? &a : &b, *theirs = side == 0 ? &b : &a;
        for (u32 i = 0; i < json_count(mine); i++) {
            const char *name;
            u64 name_bytes;
            TRY(json_item(mine, i, &row));
            TRY(json_str(&row, key, &name, &name_bytes));
            bool both = find_row(theirs, key, name, &other);
            if (side == 1 && both) continue;
            for (u32 f = 0; f < count; f++)
                put_change(s, what, name, figures[f], side == 0 ? &row : NULL,
                           side == 1 ? &row : both ? &other : NULL, bytes);
        }
    }
    return OK;
}

static enum err put_part(struct sides *s, const char *part, const char *const *figures, u32 count)
{
    struct json_at a, b;
    TRY(json_get(&s->a, part, &a));
    TRY(json_get(&s->b, part, &b));
    for (u32 f = 0; f < count; f++) put_change(s, part, "", figures[f], &a, &b, true);
    return OK;
}

static enum err put_all(struct sides *s)
{
    static const char *const node[] = { "used_bytes", "cap_bytes", "reserve_bytes",
                                        "yielded_bytes" };
    static const char *const counts[] = { "wants", "short" };
    static const char *const arena[] = { "committed_bytes", "used_bytes" };
    static const char *const commits[] = { "commits", "decommits", "ungated_commits" };
    static const char *const record[] = { "records", "rows" };
    static const char *const memory[] = { "free_bytes", "rss_bytes", "committed_bytes",
                                          "unexplained_bytes", "floor_bytes" };
    static const char *const heap[] = { "allocated_bytes", "committed_bytes" };
    TRY(put_rows(s, "nodes", "node", "name", node, COUNT_OF(node), true));
    TRY(put_rows(s, "nodes", "node", "name", counts, COUNT_OF(counts), false));
    TRY(put_rows(s, "arenas", "arena", "name", arena, COUNT_OF(arena), true));
    TRY(put_rows(s, "arenas", "arena", "name", commits, COUNT_OF(commits), false));
    TRY(put_rows(s, "records", "records", "class", record, COUNT_OF(record), false));
    TRY(put_part(s, "memory", memory, COUNT_OF(memory)));
    return put_part(s, "heap", heap, COUNT_OF(heap));
}

enum err memdiff_run(const char *path_a, const char *path_b)
{
    struct json_doc doc_a, doc_b;
    struct sides s = { .changed = 0 };
    TRY(open_dump(path_a, &doc_a, &s.a));
    enum err e = open_dump(path_b, &doc_b, &s.b);
    if (e != OK) {
        json_close(&doc_a);
        return e;
    }
    e = put_all(&s);
    if (e == OK && s.changed == 0) printf("nothing differs\n");
    json_close(&doc_a);
    json_close(&doc_b);
    return e;
}
