/* http/serve/routes.c - one row a route; the functions are glue between rooms. */
#include "http/serve/routes.h"

#include "arena/heap.h"
#include "http/admin/protocol.h"
#include "http/admin/stats.h"
#include "http/chat/fields.h"
#include "http/chat/tokenize.h"
#include "http/serve/phase.h"
#include "http/turn/command.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

enum { ROUTES_METRICS_BYTES = 1 << 20 };

static void run_root(struct exchange *x)
{
    exchange_text(x, 200, "text/plain; charset=utf-8", "holdfast: an inference server; the API is "
                  "under /v1\n");
}

static void run_health(struct exchange *x) { exchange_json(x, phase_health(&x->answer)); }

static struct request_source source_of(const struct exchange *x)
{
    struct request_source s = { .body = x->body == NULL ? "" : x->body,
                                .body_bytes = x->body_bytes };
    for (u32 i = 0; i < SESSION_HEADER_COUNT; i++)
        s.session_header[i] = exchange_header(x, session_header[i]);
    s.force = exchange_header(x, "x-holdfast-force");
    return s;
}

typedef bool turn_parse(const struct chat_model *, const struct request_source *, struct request *,
                        struct refusal *);

static void run_turn(struct exchange *x, turn_parse *parse)
{
    struct request_source source = source_of(x);
    x->turn = arena_heap_alloc(sizeof *x->turn);
    if (x->turn == NULL) {
        fail(ERR_MEMORY, "no memory for the request");
        refusal_note(&x->refusal, ERR_MEMORY, NULL);
        exchange_refuse(x);
        return;
    }
    memset(x->turn, 0, sizeof *x->turn);
    if (parse(phase_model(), &source, &x->turn->request, &x->refusal)) exchange_submit(x);
    else exchange_refuse(x);
}

static void run_chat(struct exchange *x) { run_turn(x, request_chat); }
static void run_completion(struct exchange *x) { run_turn(x, request_completion); }

typedef bool body_answer(const struct chat_model *, const struct request_source *,
                         struct json_out *, struct refusal *);

static void run_body(struct exchange *x, body_answer *answer)
{
    struct request_source source = source_of(x);
    if (answer(phase_model(), &source, &x->answer, &x->refusal)) exchange_json(x, 200);
    else exchange_refuse(x);
}

static void run_tokenize(struct exchange *x) { run_body(x, tokenize_ids); }
static void run_detokenize(struct exchange *x) { run_body(x, tokenize_text); }
static void run_template(struct exchange *x) { run_body(x, tokenize_prompt); }

static void run_models(struct exchange *x)
{
    const char *at = strstr(x->path, "/models/");
    const char *id = at == NULL ? NULL : at + strlen("/models/");
    if (tokenize_models(phase_model(), id, &x->answer, &x->refusal)) exchange_json(x, 200);
    else exchange_refuse(x);
}

static void run_stats(struct exchange *x) { exchange_command(x, COMMAND_STATS, NULL, NULL); }
static void run_ledger(struct exchange *x) { exchange_command(x, COMMAND_LEDGER, NULL, NULL); }

/* A parameter of the query string, for what the body does not say; {0} without one. */
static struct text_span query_of(const struct exchange *x, const char *name)
{
    const char *value = MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
    if (value == NULL) return (struct text_span){0};
    return (struct text_span){ .bytes = value, .len = strlen(value) };
}

/* ?tier=T&session=S, or {"session":S?,"tier":T?}; neither: everything.  A session of any length:
 * hashed like a request's. */
static void run_clear(struct exchange *x)
{
    struct jsontext body = {0};
    struct text_pool pool;
    struct session_source source = {0};
    struct text_span tier = {0};
    char session_text[SESSION_ID_BYTES + 1] = "", tier_text[32];
    static_assert(sizeof session_text <= COMMAND_ARG_BYTES, "a kept id fits a command row");
    text_pool_open(&pool, &chat_model_heap, x->body_bytes + 4096);
    bool ok = x->body_bytes == 0 ||
              fields_open(x->body, x->body_bytes, phase_model()->json_depth, &body, &x->refusal);
    ok = ok && fields_text(body, "session", &pool, &source.user, &x->refusal) &&
         fields_text(body, "tier", &pool, &tier, &x->refusal);
    if (tier.len == 0) tier = query_of(x, "tier");
    if (source.user.len == 0) source.user = query_of(x, "session");
    if (ok && tier.len >= sizeof tier_text)
        ok = refusal_bad(&x->refusal, "tier", "tier: no tier has that name");
    if (ok && source.user.len > 0) session_id(&source, session_text);
    snprintf(tier_text, sizeof tier_text, "%.*s", (int)MIN(tier.len, 31u),
             tier.bytes == NULL ? "" : tier.bytes);
    text_pool_close(&pool);
    if (ok) exchange_command(x, COMMAND_CLEAR, tier_text, session_text);
    else exchange_refuse(x);
}

/* Whether asked or refused, an answer of the protocol: its errors are inside (200). */
static void answer_pack(struct exchange *x, struct pack_out *pack)
{
    if (pack_out_check(pack) == OK)
        json_put_plain(&x->answer, (const char *)pack->bytes, pack->count);
    else x->answer.failed = true;
    pack_out_close(pack);
    x->content_type = "application/msgpack";
    x->status = 200;
}

static const enum command_op admin_ops[PROTOCOL_OP_COUNT] = {
    [PROTOCOL_STATS] = COMMAND_STATS, [PROTOCOL_MEMORY_TREE] = COMMAND_MEMORY_TREE,
    [PROTOCOL_MEMORY_JSON] = COMMAND_MEMORY_JSON, [PROTOCOL_SET] = COMMAND_SET,
    [PROTOCOL_MEMORY_MSGPACK] = COMMAND_MEMORY_MSGPACK,
    [PROTOCOL_MEMORY_DOT] = COMMAND_MEMORY_DOT, [PROTOCOL_MEMORY_FOLDED] = COMMAND_MEMORY_FOLDED,
};

static void run_admin(struct exchange *x)
{
    enum protocol_op op;
    struct protocol_set set = {{0}, UINT64_MAX};
    char cap[24] = "";
    enum err code = protocol_read(x->body, x->body_bytes, &op);
    if (code == OK && op == PROTOCOL_SET) {
        code = protocol_read_set(x->body, x->body_bytes, &set);
        if (set.cap_bytes == UINT64_MAX) snprintf(cap, sizeof cap, "none");
        else snprintf(cap, sizeof cap, "%llu", (ull)set.cap_bytes);
    }
    if (code == OK) { exchange_command(x, admin_ops[op], set.node, cap); return; }
    struct pack_out pack = {0};
    protocol_put_err(&pack, code, err_last()->text);
    answer_pack(x, &pack);
}

static void done_admin(struct exchange *x)
{
    const struct command_row *row = command_at(x->command);
    struct pack_out pack = {0};
    enum protocol_op op = PROTOCOL_STATS;
    while (admin_ops[op] != row->op) op++;          /* it was asked by one of them           */
    if (row->error != OK) protocol_put_err(&pack, row->error, row->error_text);
    else protocol_put_ok(&pack, op, row->answer == NULL ? "" : row->answer, row->answer_bytes);
    answer_pack(x, &pack);
}

static void run_metrics(struct exchange *x)
{
    struct text text;
    text_open_growing(&text, &chat_model_heap, ROUTES_METRICS_BYTES);
    stats_metrics(&text);
    exchange_text(x, 200, "text/plain; version=0.0.4; charset=utf-8",
                  text.data == NULL ? "" : text.data);
    text_close(&text);
}

static const struct route routes[] = {
    /* method  path                 door        early  body   run              done              */
    { "GET",  "/",                  AUTH_KEY,   true,  false, run_root,        NULL },
    { "GET",  "/health",            AUTH_OPEN,  true,  false, run_health,      NULL },
    { "GET",  "/metrics",           AUTH_KEY,   false, false, run_metrics,     NULL },
    { "GET",  "/models",            AUTH_KEY,   false, false, run_models,      NULL },
    { "GET",  "/models/*",          AUTH_KEY,   false, false, run_models,      NULL },
    { "POST", "/chat/completions",  AUTH_KEY,   false, true,  run_chat,        NULL },
    { "POST", "/completions",       AUTH_KEY,   false, true,  run_completion,  NULL },
    { "POST", "/tokenize",          AUTH_KEY,   false, true,  run_tokenize,    NULL },
    { "POST", "/detokenize",        AUTH_KEY,   false, true,  run_detokenize,  NULL },
    { "POST", "/apply-template",    AUTH_KEY,   false, true,  run_template,    NULL },
    { "GET",  "/cache/stats",       AUTH_KEY,   false, false, run_stats,       NULL },
    { "GET",  "/cache/ledger",      AUTH_KEY,   false, false, run_ledger,      NULL },
    { "POST", "/admin",             AUTH_ADMIN, false, true,  run_admin,       done_admin },
    { "POST", "/cache/clear",       AUTH_ADMIN, false, true,  run_clear,       NULL },
};

/* Endpoints clients ask for that no text model serves: a 404 that says what to do. */
static const struct { const char *path, *word; } unserved[] = {
    { "/embeddings", "embeddings" }, { "/rerank", "rerank" }, { "/audio/*", "audio" },
    { "/images/*", "images" },
};

static bool matches(const char *pattern, const char *path)
{
    u64 len = strlen(pattern);
    if (pattern[len - 1] != '*') return strcmp(pattern, path) == 0;
    return strncmp(pattern, path, len - 1) == 0 && path[len - 1] != 0;
}

const struct route *routes_find(struct exchange *x, const char *method, const char *path)
{
    const char *bare = strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
    const char *asked = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (u32 i = 0; i < COUNT_OF(routes); i++) {
        if (!matches(routes[i].path, bare)) continue;
        if (strcmp(routes[i].method, asked) == 0) return &routes[i];
        x->allow = routes[i].method;
    }
    if (x->allow != NULL) {
        refusal_set(&x->refusal, 405, NULL, NULL, "%s is not for this route: use %s", method,
                    x->allow);
        return NULL;
    }
    for (u32 i = 0; i < COUNT_OF(unserved); i++)
        if (matches(unserved[i].path, bare)) {
            refusal_set(&x->refusal, 404, "not_supported", NULL, "holdfast serves chat and "
                        "completions only; there is no %s endpoint here: choose another %s engine "
                        "in the client", unserved[i].word,
                        i == 0 ? "embedding" : unserved[i].word);
            return NULL;
        }
    refusal_set(&x->refusal, 404, "model_not_found", NULL, "there is no route %s", path);
    return NULL;
}
