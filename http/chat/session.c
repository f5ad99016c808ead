/* http/chat/session.c - the first id that is present and not empty. */
#include "http/chat/session.h"

#include "arena/base/hash.h"
#include "arena/base/jsontext.h"

#include <stdio.h>
#include <string.h>

const char *const session_header[SESSION_HEADER_COUNT] = {
    "x-session-id", "x-session-affinity", "x-opencode-session", "x-claude-code-session-id",
    "x-openwebui-chat-id", "session-id",
};

enum { SESSION_JSON_DEPTH = 8 };

/* Claude Code's metadata.user_id is JSON text with a session_id; anything else is no session. */
static bool from_metadata(struct text_span text, char out[SESSION_ID_BYTES + 1])
{
    struct jsontext root;
    if (text.len == 0 || text.len > 4096) return false;
    if (jsontext_open(text.bytes, text.len, SESSION_JSON_DEPTH, &root) != OK) return false;
    struct jsontext id = jsontext_member(root, "session_id");
    if (id.kind != JSONTEXT_STRING || id.len <= 2 || id.len - 2 > SESSION_ID_BYTES) return false;
    out[jsontext_decode(id, out)] = 0;
    return out[0] != 0;
}

static void keep(const char *id, u64 bytes, char out[SESSION_ID_BYTES + 1])
{
    if (bytes > SESSION_ID_BYTES) {
        u64 hash[2];
        hash_128(id, bytes, hash);
        snprintf(out, SESSION_ID_BYTES + 1, "%016llx%016llx", (ull)hash[1], (ull)hash[0]);
        return;
    }
    memcpy(out, id, bytes);
    out[bytes] = 0;
}

void session_id(const struct session_source *s, char out[SESSION_ID_BYTES + 1])
{
    for (u32 i = 0; i < SESSION_HEADER_COUNT; i++)
        if (s->header[i] != NULL && s->header[i][0] != 0) {
            keep(s->header[i], strlen(s->header[i]), out);
            return;
        }
    const struct text_span keys[2] = { s->prompt_cache_key, s->prompt_cache_key_camel };
    for (u32 i = 0; i < 2; i++)
        if (keys[i].len > 0) { keep(keys[i].bytes, keys[i].len, out); return; }
    if (from_metadata(s->metadata_user_id, out)) return;
    if (s->user.len > 0) { keep(s->user.bytes, s->user.len, out); return; }
    snprintf(out, SESSION_ID_BYTES + 1, "%016llx", (ull)hash_64(s->head.bytes, s->head.len));
}

void session_hash(const char *id, u64 bytes, u64 out[2])
{
    char kept[SESSION_ID_BYTES + 1];
    keep(id, bytes, kept);
    hash_128(kept, strlen(kept), out);
}
