/* http/cli/mem.c - POST /admin: a request of the protocol, and its answer printed. */
#include "http/cli/mem.h"

#include "http/admin/protocol.h"
#include "http/cli/client.h"
#include "http/cli/memdiff.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A status other than 200 without a msgpack body is the error. */
static enum err print_answer(const struct options *o, const struct client_answer *a)
{
    const char *text;
    u32 text_bytes;
    if (a->status == 404) return fail(ERR_UNSUPPORTED, "the server there has no /admin");
    enum err e = protocol_read_answer(a->body, a->body_bytes, &text, &text_bytes);
    if (e != OK && a->status != 200) return fail(e, "status %d: %s", a->status, err_last()->text);
    TRY(e);
    fwrite(text, 1, text_bytes, stdout);
    bool lines = o->action == MEM_SET || o->format != MEM_MSGPACK;
    if (lines && (text_bytes == 0 || text[text_bytes - 1] != '\n')) fputc('\n', stdout);
    return fflush(stdout) == 0 ? OK : fail(ERR_IO, "writing to stdout: %s", strerror(errno));
}

enum err mem_run(const struct options *o)
{
    static const enum protocol_op asked[] = {
        [MEM_TREE] = PROTOCOL_MEMORY_TREE, [MEM_JSON] = PROTOCOL_MEMORY_JSON,
        [MEM_MSGPACK] = PROTOCOL_MEMORY_MSGPACK, [MEM_DOT] = PROTOCOL_MEMORY_DOT,
        [MEM_FOLDED] = PROTOCOL_MEMORY_FOLDED,
    };
    struct pack_out request = { 0 };
    struct client_answer answer;
    char key[CLIENT_KEY_BYTES];
    bool admin = o->profile.admin_key_file[0] != 0;
    if (o->action == MEM_DIFF) return memdiff_run(o->path[0], o->path[1]);
    TRY(client_key(admin ? o->profile.admin_key_file : o->profile.api_key_file, key));
    if (o->action == MEM_SET) protocol_put_set(&request, o->path[0], o->cap_bytes);
    else protocol_put_request(&request, asked[o->format]);
    enum err e = pack_out_check(&request);
    if (e == OK) {
        e = client_send(&(struct client_ask){ .url = o->url, .key = key, .method = "POST",
            .path = "/admin", .type = "application/msgpack", .body = request.bytes,
            .body_bytes = request.count }, &answer);
        if (e == OK) e = print_answer(o, &answer);
        client_close(&answer);
    }
    pack_out_close(&request);
    return e;
}
