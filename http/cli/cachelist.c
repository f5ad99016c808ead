/* http/cli/cachelist.c - tables of a catalog, printed. */
#include "http/cli/cachelist.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TEXT_BYTES = 32 };
struct words { char text[TEXT_BYTES]; };

static const char *const anchor_words[] = { "free", "grid", "turn", "end" };
static const char *const end_words[] = { "free", "generation", "span", "call" };

static struct words amount(u64 bytes)
{
    struct words w;
    if (bytes >= GIB) snprintf(w.text, sizeof w.text, "%.2f GiB", (f64)bytes / 0x1p30);
    else if (bytes >= MIB) snprintf(w.text, sizeof w.text, "%.1f MiB", (f64)bytes / 0x1p20);
    else snprintf(w.text, sizeof w.text, "%.1f KiB", (f64)bytes / 0x1p10);
    return w;
}

static struct words date(u64 wall_s)
{
    struct words w = { "-" };
    time_t t = (time_t)wall_s;
    struct tm tm;
    if (wall_s > 0 && gmtime_r(&t, &tm) != NULL)
        strftime(w.text, sizeof w.text, "%Y-%m-%d %H:%M:%S", &tm);
    return w;
}

static void put_u64(struct json_out *out, const char *key, u64 value)
{
    json_put_key(out, key);
    json_put_u64(out, value);
}

static void put_word(struct json_out *out, const char *key, const char *text)
{
    json_put_key(out, key);
    json_put_cstr(out, text);
}

static void put_flag(struct json_out *out, const char *key, bool value)
{
    json_put_key(out, key);
    json_put_bool(out, value);
}

/* Names of files without their letter are ids. */
static struct words talk_id(const struct catalog_talk *t)
{
    char name[MANIFEST_NAME_BYTES];
    struct words w;
    manifest_name(t->manifest.session, name);
    memcpy(w.text, name + 2, sizeof w.text);
    return w;
}

/* ------------------------------------------------------------------ ls */

static void list_talk(const struct catalog *c, u32 at, struct json_out *json)
{
    const struct catalog_talk *t = &c->talk[at];
    struct words id = talk_id(t);
    u64 own = catalog_own_bytes(c, at);
    if (json == NULL) {
        printf("  %.32s %10llu  %s  %10s  %7u  %s\n", id.text, (ull)t->manifest.length,
               date(t->manifest.used_s).text, amount(own).text, t->manifest.anchor_count,
               t->bad ? "BAD" : t->whole ? "yes" : "NO");
        return;
    }
    json_put_object(json);
    json_put_key(json, "id");
    json_put_str(json, id.text, sizeof id.text);
    put_u64(json, "tokens", t->manifest.length);
    put_u64(json, "used_s", t->manifest.used_s);
    put_u64(json, "own_bytes", own);
    put_u64(json, "anchors", t->manifest.anchor_count);
    put_flag(json, "whole", t->whole && !t->bad);
    json_put_object_end(json);
}

static void list_anchor(const struct catalog *c, u32 at, struct json_out *json)
{
    const struct catalog_row *r = &c->row[at];
    char name[FORMAT_NAME_BYTES];
    format_name(FORMAT_ANCHOR, r->head.name, name);
    if (json == NULL) {
        printf("  %s %10llu  %s  %10s\n", name + 2, (ull)r->head.hi, date(r->used_s).text,
               amount(r->bytes).text);
        return;
    }
    json_put_object(json);
    put_word(json, "id", name + 2);
    put_u64(json, "tokens", r->head.hi);
    put_u64(json, "written_s", r->used_s);
    put_u64(json, "bytes", r->bytes);
    json_put_object_end(json);
}

static void list_head(const struct catalog *c, u64 bytes, struct json_out *json)
{
    const struct fingerprint_other *a = &c->about;
    if (json == NULL) {
        printf("%s  arithmetic %u, weights %016llx%016llx, last used %s, %s\n", a->name,
               a->arithmetic_id, (ull)a->weights[1], (ull)a->weights[0], date(a->used_s).text,
               amount(bytes).text);
        return;
    }
    char weights[40];
    snprintf(weights, sizeof weights, "%016llx%016llx", (ull)a->weights[1], (ull)a->weights[0]);
    put_word(json, "fingerprint", a->name);
    put_flag(json, "known", a->known);
    put_u64(json, "arithmetic", a->arithmetic_id);
    put_word(json, "weights", weights);
    put_u64(json, "used_s", a->used_s);
    put_u64(json, "bytes", bytes);
}

static void begin_list(struct json_out *json, const char *key, u32 count, const char *columns)
{
    if (json != NULL) {
        json_put_key(json, key);
        json_put_array(json);
    } else if (count > 0) printf("%s\n", columns);
}

void cachelist_model(const struct catalog *c, struct json_out *json, struct cachelist_sum *sum)
{
    u64 bytes = c->rest_bytes, chunk_bytes = 0;
    u32 anchors = 0, chunks = 0;
    for (u32 i = 0; i < c->talk_count; i++) bytes += c->talk[i].bytes;
    for (u32 i = 0; i < c->row_count; i++) {
        bool chunk = c->row[i].head.kind == FORMAT_CHUNK;
        bytes += c->row[i].bytes;
        anchors += catalog_on_line(c, i);
        chunks += chunk;
        chunk_bytes += chunk ? c->row[i].bytes : 0;
    }
    if (json != NULL) json_put_object(json);
    list_head(c, bytes, json);
    begin_list(json, "conversations", c->talk_count, "  conversation"
               "                       tokens  last used (UTC)           alone  anchors  whole");
    for (u32 i = 0; i < c->talk_count; i++) list_talk(c, i, json);
    if (json != NULL) json_put_array_end(json);
    begin_list(json, "disk_anchors", anchors, "  disk anchor"
               "                        tokens  written (UTC)             bytes");
    for (u32 i = 0; i < c->row_count; i++)
        if (catalog_on_line(c, i)) list_anchor(c, i, json);
    if (json != NULL) {
        json_put_array_end(json);
        put_u64(json, "chunks", chunks);
        put_u64(json, "chunk_bytes", chunk_bytes);
        json_put_object_end(json);
    } else {
        printf("  %u conversations, %u disk anchors, %u chunks of %s\n", c->talk_count, anchors,
               chunks, amount(chunk_bytes).text);
    }
    sum->bytes += bytes;
    sum->files += c->row_count + c->talk_count;
    sum->talks += c->talk_count;
    sum->anchors += anchors;
    sum->chunks += chunks;
    sum->models++;
}

/* ------------------------------------------------------------------ show */

static void show_piece(const struct catalog *c, u32 at, struct json_out *json)
{
    const struct catalog_row *r = &c->row[at];
    char name[FORMAT_NAME_BYTES];
    format_name((enum format_kind)r->head.kind, r->head.name, name);
    if (json == NULL) {
        printf("  rows %8llu to %8llu  %s  %10s%s\n", (ull)r->head.lo, (ull)r->head.hi, name,
               amount(r->bytes).text, r->bad ? "  BAD" : "");
        return;
    }
    json_put_object(json);
    put_word(json, "file", name);
    put_u64(json, "lo", r->head.lo);
    put_u64(json, "hi", r->head.hi);
    put_u64(json, "bytes", r->bytes);
    put_flag(json, "bad", r->bad);
    json_put_object_end(json);
}

/* The chain from its top down. */
static void show_chain(const struct catalog *c, u32 top, struct json_out *json)
{
    u32 steps = 0;
    begin_list(json, "pieces", 1, " pieces, the newest first");
    for (u32 at = top; at != NONE && steps++ < c->row_count; at = catalog_below(c, at))
        show_piece(c, at, json);
    if (json != NULL) json_put_array_end(json);
}

static void show_anchors(const struct catalog *c, const struct manifest *m, struct json_out *json)
{
    begin_list(json, "anchors", m->anchor_count, " anchors");
    for (u32 i = 0; i < m->anchor_count; i++) {
        const struct manifest_anchor *a = &m->anchor[i];
        const char *kind = a->kind < COUNT_OF(anchor_words) ? anchor_words[a->kind] : "unknown";
        bool there = catalog_find(c, FORMAT_ANCHOR, a->name) != NONE;
        if (json == NULL) {
            printf("  at %8llu  %-5s%s%s\n", (ull)a->pos, kind, a->head ? " head" : "",
                   there ? "" : "  MISSING");
            continue;
        }
        json_put_object(json);
        put_u64(json, "pos", a->pos);
        put_word(json, "kind", kind);
        put_flag(json, "head", a->head);
        put_flag(json, "there", there);
        json_put_object_end(json);
    }
    if (json != NULL) json_put_array_end(json);
}

/* Generations, hidden spans and calls: positions alone, never text. */
static void show_spans(const struct catalog *c, u32 talk, struct json_out *json)
{
    struct generation_list list = { 0 };
    bool read = catalog_generations(c, talk, &list) == OK;
    begin_list(json, "spans", list.count, " spans");
    for (u32 row = read ? end_first(&list) : 0; row != 0; row = end_next(row)) {
        const struct end_row *r = end_at(row);
        const char *kind = r->kind < COUNT_OF(end_words) ? end_words[r->kind] : "unknown";
        if (json == NULL) {
            printf("  %-10s %8llu to %8llu\n", kind, (ull)r->lo, (ull)r->hi);
            continue;
        }
        json_put_object(json);
        put_word(json, "kind", kind);
        put_u64(json, "lo", r->lo);
        put_u64(json, "hi", r->hi);
        put_u64(json, "think_hi", r->think_hi);
        json_put_object_end(json);
    }
    if (json != NULL) json_put_array_end(json);
    end_cut(&list, 0);
}

static void show_talk(const struct catalog *c, u32 at, struct json_out *json)
{
    static const u64 none[2];
    const struct manifest *m = &c->talk[at].manifest;
    u32 top = NONE;
    if (json != NULL) {
        json_put_object(json);
        json_put_key(json, "conversation");
    }
    list_talk(c, at, json);
    if (memcmp(m->tail, none, sizeof none) != 0) top = catalog_find(c, FORMAT_TAIL, m->tail);
    else top = catalog_find(c, FORMAT_CHUNK, m->top);
    show_anchors(c, m, json);
    show_chain(c, top, json);
    show_spans(c, at, json);
    if (json != NULL) json_put_object_end(json);
}

u32 cachelist_show(const struct catalog *c, const char *id, struct json_out *json)
{
    u32 count = 0;
    size_t bytes = strlen(id);
    for (u32 i = 0; i < c->talk_count; i++) {
        struct words w = talk_id(&c->talk[i]);
        if (strncmp(w.text, id, bytes) != 0) continue;
        show_talk(c, i, json);
        count++;
    }
    for (u32 i = 0; i < c->row_count; i++) {
        char name[FORMAT_NAME_BYTES];
        format_name(FORMAT_ANCHOR, c->row[i].head.name, name);
        if (c->row[i].head.kind != FORMAT_ANCHOR || strncmp(name + 2, id, bytes) != 0) continue;
        if (json != NULL) {
            json_put_object(json);
            json_put_key(json, "anchor");
        }
        list_anchor(c, i, json);
        show_chain(c, i, json);
        if (json != NULL) json_put_object_end(json);
        count++;
    }
    return count;
}
