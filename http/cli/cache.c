/* http/cli/cache.c - the word: which folder, which models in it, what is asked of a server. */
#include "http/cli/cache.h"

#include "arena/arena.h"
#include "arena/base/jsontext.h"
#include "arena/heap.h"
#include "http/chat/session.h"
#include "http/cli/cachelist.h"
#include "http/cli/client.h"
#include "tiers/suffix/folder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MODELS_MAX = 256, SPAN_ROWS = 65536, JSON_DEPTH = 16 };

struct models { char name[MODELS_MAX][40]; u32 count; };

/* Folders of models in a cache folder, by name.  One that is not there holds nothing. */
static enum err list_models(const char *root, struct models *out)
{
    struct file_list list;
    out->count = 0;
    if (root[0] == 0)
        return fail(ERR_USAGE, "no cache folder: say --cache-dir DIR, or set HOME");
    if (!file_exists(root)) return OK;
    TRY(file_list_open(root, &list));
    while (file_list_next(&list) && out->count < MODELS_MAX) {
        u32 at = out->count;
        if (!catalog_is_name(list.name)) continue;
        for (; at > 0 && strcmp(out->name[at - 1], list.name) > 0; at--)
            memcpy(out->name[at], out->name[at - 1], sizeof out->name[at]);
        snprintf(out->name[at], sizeof out->name[at], "%.32s", list.name);
        out->count++;
    }
    file_list_close(&list);
    return OK;
}

static enum err print_json(struct json_out *json)
{
    enum err err = json_out_check(json);
    if (err == OK) printf("%.*s\n", (int)json->bytes, json->text);
    json_out_close(json);
    return err;
}

/* ------------------------------------------------------------------ reading */

static enum err list(const char *root, const struct models *m, bool as_json)
{
    struct json_out json = { 0 };
    struct cachelist_sum sum = { 0 };
    u64 log_bytes = 0;
    if (file_exists(root)) TRY(suffix_folder_bytes(root, &log_bytes));
    if (as_json) {
        json_put_object(&json);
        json_put_key(&json, "folder");
        json_put_cstr(&json, root);
        json_put_key(&json, "models");
        json_put_array(&json);
    } else printf("cache folder %s\n", root);
    for (u32 i = 0; i < m->count; i++) {
        struct catalog c;
        TRY(catalog_open(root, m->name[i], &c));
        cachelist_model(&c, as_json ? &json : NULL, &sum);
        catalog_close(&c);
    }
    if (!as_json) {
        printf("%u models, %u conversations, %u disk anchors, %u chunks, %.1f MiB; suffix log %.1f"
               " MiB\n", sum.models, sum.talks, sum.anchors, sum.chunks,
               (f64)sum.bytes / 0x1p20, (f64)log_bytes / 0x1p20);
        return OK;
    }
    json_put_array_end(&json);
    json_put_key(&json, "bytes");
    json_put_u64(&json, sum.bytes);
    json_put_key(&json, "suffix_bytes");
    json_put_u64(&json, log_bytes);
    json_put_object_end(&json);
    return print_json(&json);
}

/* A pool for the spans of one conversation. */
static enum err open_spans(void)
{
    struct arena_decl decl = { .name = "tables", .kind = ARENA_TABLE,
                               .cap_bytes = end_table_bytes(SPAN_ROWS) + 64 };
    TRY(arena_open(&decl, 1));
    return end_open(arena_find("tables"), SPAN_ROWS);
}

static enum err show(const char *root, const struct models *m, const struct options *o)
{
    struct json_out json = { 0 };
    const char *id = o->path[0];
    u32 found = 0;
    if (strlen(id) < CACHELIST_ID_MIN || strspn(id, "0123456789abcdef") != strlen(id))
        return fail(ERR_USAGE, "cache show: an ID has %d hex digits or more", CACHELIST_ID_MIN);
    TRY(open_spans());
    if (o->json) json_put_array(&json);
    for (u32 i = 0; i < m->count; i++) {
        struct catalog c;
        TRY(catalog_open(root, m->name[i], &c));
        found += cachelist_show(&c, id, o->json ? &json : NULL);
        catalog_close(&c);
    }
    arena_close();
    if (o->json) {
        json_put_array_end(&json);
        TRY(print_json(&json));
    }
    return found > 0 ? OK : fail(ERR_NOT_FOUND, "no conversation or anchor %s in %s", id, root);
}

/* One bad file, named; in JSON as a row of `bad`. */
static void name_bad(const struct catalog *c, const char *name, struct json_out *json)
{
    if (json == NULL) {
        printf("BAD %s/%s: %s\n", c->place.folder, name, err_last()->text);
        return;
    }
    json_put_object(json);
    json_put_key(json, "folder");
    json_put_cstr(json, c->place.folder);
    json_put_key(json, "file");
    json_put_cstr(json, name);
    json_put_key(json, "why");
    json_put_cstr(json, err_last()->text);
    json_put_object_end(json);
}

/* A file that a server removed while it was looked for is not bad. */
static bool gone(const struct catalog *c, const char *name)
{
    char path[FILE_PATH_BYTES];
    return file_join(c->place.folder, name, path) == OK && !file_exists(path);
}

static u32 verify_model(struct catalog *c, struct json_out *json)
{
    char name[FORMAT_NAME_BYTES];
    u32 bad = 0;
    for (u32 i = 0; i < c->row_count; i++) {
        format_name((enum format_kind)c->row[i].head.kind, c->row[i].head.name, name);
        if (catalog_verify_row(c, i) == OK || gone(c, name)) continue;
        name_bad(c, name, json);
        bad++;
    }
    for (u32 i = 0; i < c->talk_count; i++) {
        manifest_name(c->talk[i].manifest.session, name);
        if (catalog_verify_talk(c, i) == OK || gone(c, name)) continue;
        name_bad(c, name, json);
        bad++;
    }
    return bad;
}

static enum err verify(const char *root, const struct models *m, bool as_json)
{
    struct json_out json = { 0 };
    u64 files = 0;
    u32 bad = 0;
    if (as_json) {
        json_put_object(&json);
        json_put_key(&json, "bad");
        json_put_array(&json);
    }
    for (u32 i = 0; i < m->count; i++) {
        struct catalog c;
        TRY(catalog_open(root, m->name[i], &c));
        bad += verify_model(&c, as_json ? &json : NULL);
        files += c.row_count + c.talk_count;
        catalog_close(&c);
    }
    if (as_json) {
        json_put_array_end(&json);
        json_put_key(&json, "files");
        json_put_u64(&json, files);
        json_put_object_end(&json);
        TRY(print_json(&json));
    } else printf("%llu files, %u bad\n", (ull)files, bad);
    return bad == 0 ? OK : fail(ERR_CRC, "%u of %llu files are bad: a server drops them when it "
                                "reads them", bad, (ull)files);
}

/* ------------------------------------------------------------------ clear */

/* Asks whoever sits there.  ERR_USAGE where nobody does. */
static enum err confirm(const struct options *o, const char *where)
{
    char line[16] = "";
    if (o->yes) return OK;
    if (isatty(STDIN_FILENO) == 0) return fail(ERR_USAGE, "clear: say --yes, or ask at a terminal");
    fprintf(stderr, "forget %s%.200s in tier %s of %s? [y/N] ",
            o->session[0] != 0 ? "session " : "everything", o->session, o->tier, where);
    if (fgets(line, sizeof line, stdin) == NULL || (line[0] != 'y' && line[0] != 'Y'))
        return fail(ERR_CANCELLED, "clear: nothing was cleared");
    return OK;
}

/* Hashes a session's text may stand for: of the id its client sends, or the id that ls prints. */
static u32 hashes_of(const char *text, u64 hash[2][2])
{
    char name[MANIFEST_NAME_BYTES];
    session_hash(text, strlen(text), hash[0]);
    snprintf(name, sizeof name, "m-%.32s", text);
    return 1u + (strlen(text) == 32 && manifest_name_parse(name, hash[1]));
}

static bool known_session(const struct catalog *c, const char *text, u64 out[2])
{
    u64 hash[2][2];
    for (u32 k = 0, count = hashes_of(text, hash); k < count; k++) {
        memcpy(out, hash[k], sizeof hash[k]);
        for (u32 i = 0; i < c->talk_count; i++)
            if (memcmp(c->talk[i].manifest.session, out, sizeof hash[k]) == 0) return true;
        for (u32 i = 0; i < c->row_count; i++)
            if (memcmp(c->row[i].head.session, out, sizeof hash[k]) == 0) return true;
    }
    return false;
}

/* What a clear of a folder is of, and what it freed. */
struct clearing {
    bool disk, spill, suffix;
    bool known;                         /* something was there                                */
    u64  disk_bytes, spill_bytes, suffix_bytes, entries;
};

static enum err clear_log(const char *root, const struct options *o, struct clearing *sum)
{
    struct folder_cleared one;
    bool all = o->session[0] == 0;
    u64 hash[2][2];
    u32 *work = arena_heap_alloc(FOLDER_WORK_BYTES);
    if (work == NULL) return fail(ERR_MEMORY, "no memory to clear the suffix log");
    enum err err = OK;
    for (u32 k = 0, count = all ? 1 : hashes_of(o->session, hash); err == OK && k < count; k++) {
        err = suffix_folder_clear(root, all ? NULL : hash[k], work, &one);
        if (err != OK) break;
        sum->suffix_bytes += one.bytes;
        sum->known = sum->known || one.ids > 0;
    }
    arena_heap_free(work);
    return err;
}

static void print_cleared(const struct options *o, const struct clearing *s)
{
    if (o->json)
        printf("{\"conversations\":%llu,\"bytes\":{\"disk\":%llu,\"spill\":%llu,"
               "\"suffix\":%llu}}\n",
               (ull)s->entries, (ull)s->disk_bytes, (ull)s->spill_bytes, (ull)s->suffix_bytes);
    else printf("disk   %llu bytes freed\nspill  %llu bytes freed, %llu conversations\n"
                "suffix %llu bytes freed\n", (ull)s->disk_bytes, (ull)s->spill_bytes,
                (ull)s->entries, (ull)s->suffix_bytes);
}

static enum err clear_models(const char *root, const struct models *m, const struct options *o,
                             struct clearing *sum)
{
    struct catalog_cleared one;
    bool all = o->session[0] == 0, disk = sum->disk, spill = sum->spill;
    for (u32 i = 0; i < m->count; i++) {
        struct catalog c;
        char folder[FILE_PATH_BYTES];
        u64 session[2];
        TRY(catalog_open(root, m->name[i], &c));
        bool here = all || known_session(&c, o->session, session);
        enum err err = here ? catalog_clear(&c, disk, spill, all ? NULL : session, &one) : OK;
        u64 left = c.rest_bytes;
        catalog_close(&c);
        TRY(err);
        sum->known = sum->known || here;
        if (!here) continue;
        sum->disk_bytes += one.disk_bytes;
        sum->spill_bytes += one.spill_bytes;
        sum->entries += one.entries;
        if (!all || !disk || !spill) continue;          /* nothing is left to stand there     */
        TRY(file_join(root, m->name[i], folder));
        TRY(file_remove_folder(folder));
        sum->disk_bytes += left;
    }
    return OK;
}

static enum err clear_folder(const char *root, const struct models *m, const struct options *o)
{
    bool all = strcmp(o->tier, "all") == 0;
    struct clearing s = { .disk = all || strcmp(o->tier, "disk") == 0,
                          .spill = all || strcmp(o->tier, "spill") == 0,
                          .suffix = all || strcmp(o->tier, "suffix") == 0,
                          .known = o->session[0] == 0 };
    int lock = -1;
    if (!s.disk && !s.spill && !s.suffix)
        return fail(ERR_USAGE, "clear --tier %s: a folder has disk, spill, suffix and all; other "
                    "tiers are a server's: say --url", o->tier);
    if (!file_exists(root)) return fail(ERR_NOT_FOUND, "there is no cache folder %s", root);
    TRY(confirm(o, root));
    enum err err = fingerprint_lock(root, &lock);
    if (err == ERR_FULL) return fail(err, "%s: say --url to clear it there", err_last()->text);
    TRY(err);
    if (s.disk || s.spill) err = clear_models(root, m, o, &s);
    if (err == OK && s.suffix) err = clear_log(root, o, &s);
    file_close(lock);
    TRY(err);
    if (!s.known)
        return fail(ERR_NOT_FOUND, "nothing is known of session %.200s in %s", o->session, root);
    print_cleared(o, &s);
    return OK;
}

/* ------------------------------------------------------------------ a server */

static enum err ask_server(const struct options *o, const char *method, const char *path,
                           const struct json_out *body, struct client_answer *answer)
{
    char key[CLIENT_KEY_BYTES];
    bool admin = o->profile.admin_key_file[0] != 0;
    TRY(client_key(admin ? o->profile.admin_key_file : o->profile.api_key_file, key));
    TRY(client_send(&(struct client_ask){ .url = o->server, .key = key, .method = method,
        .path = path, .type = "application/json", .body = body == NULL ? "" : body->text,
        .body_bytes = body == NULL ? 0 : body->bytes }, answer));
    if (answer->status == 200) return OK;
    enum err err = fail(ERR_IO, "status %d: %.300s", answer->status, answer->body);
    client_close(answer);
    return err;
}

/* The server's cache folder: it must lie on this machine to be read. */
static enum err server_folder(const struct options *o, char out[FILE_PATH_BYTES])
{
    struct client_answer answer;
    struct jsontext root;
    TRY(ask_server(o, "GET", "/v1/cache/stats", NULL, &answer));
    enum err err = jsontext_open(answer.body, answer.body_bytes, JSON_DEPTH, &root);
    struct jsontext nvme = jsontext_member(root, "nvme"), folder = jsontext_member(nvme, "folder");
    out[0] = 0;
    if (err == OK && folder.kind == JSONTEXT_STRING && folder.len < FILE_PATH_BYTES)
        out[jsontext_decode(folder, out)] = 0;
    client_close(&answer);
    TRY(err);
    char *slash = strrchr(out, '/');
    if (slash == NULL) return fail(ERR_UNSUPPORTED, "that server keeps nothing on disk: ask its "
                                   "/v1/cache/stats for the reason");
    *slash = 0;
    if (!file_exists(out))
        return fail(ERR_NOT_FOUND, "its folder %s is not on this machine: run this there", out);
    return OK;
}

static enum err clear_server(const struct options *o)
{
    struct client_answer answer;
    struct json_out body = { 0 };
    struct jsontext root, value, key, bytes;
    u64 number, found = 0;
    TRY(confirm(o, o->server));
    json_put_object(&body);
    json_put_key(&body, "tier");
    json_put_cstr(&body, o->tier);
    json_put_key(&body, "session");
    json_put_cstr(&body, o->session);
    json_put_object_end(&body);
    enum err err = json_out_check(&body);
    if (err == OK) err = ask_server(o, "POST", "/v1/cache/clear", &body, &answer);
    json_out_close(&body);
    TRY(err);
    err = jsontext_open(answer.body, answer.body_bytes, JSON_DEPTH, &root);
    if (err == OK && o->json) printf("%s\n", answer.body);
    bytes = jsontext_member(root, "bytes");
    struct jsontext_walk w;
    if (err == OK && bytes.kind == JSONTEXT_OBJECT) {
        jsontext_walk(&w, bytes);
        while (jsontext_next(&w, &key, &value))
            if (!o->json && jsontext_u64(value, &number))
                printf("%-9.*s %llu bytes freed\n", (int)key.len - 2, key.bytes + 1, (ull)number);
    }
    static const char *const counts[] = { "records", "conversations", "disk_anchors" };
    for (u32 i = 0; err == OK && i < COUNT_OF(counts); i++)
        if (jsontext_u64(jsontext_member(root, counts[i]), &number)) found += number;
    client_close(&answer);
    if (err == OK && o->session[0] != 0 && found == 0)
        return fail(ERR_NOT_FOUND, "nothing is known of session %.200s there", o->session);
    return err;
}

/* ------------------------------------------------------------------ the word */

enum err cache_run(const struct options *o)
{
    static struct models models;
    char root[FILE_PATH_BYTES];
    if (o->server[0] != 0 && o->cache_action == CACHE_CLEAR) return clear_server(o);
    if (o->server[0] != 0) TRY(server_folder(o, root));
    else snprintf(root, sizeof root, "%s", o->profile.cache_dir);
    TRY(list_models(root, &models));
    switch (o->cache_action) {
    case CACHE_LS:     return list(root, &models, o->json);
    case CACHE_SHOW:   return show(root, &models, o);
    case CACHE_VERIFY: return verify(root, &models, o->json);
    default:           return clear_folder(root, &models, o);
    }
}
