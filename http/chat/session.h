/* http/chat/session.h - the session key of a request, in the order of http.md 4.
 *
 * A session id never changes an answer; requests under one id only share policies.  Every room that
 * hashes an id (the cache's `clear --session` too) takes session_hash. */
#ifndef CHAT_SESSION_H
#define CHAT_SESSION_H

#include "arena/base/text.h"

enum { SESSION_HEADER_COUNT = 6, SESSION_ID_BYTES = 256 };

/* x-session-id, x-session-affinity, ... in their order. */
extern const char *const session_header[SESSION_HEADER_COUNT];

struct session_source {                 /* what is absent is NULL or empty                       */
    const char *header[SESSION_HEADER_COUNT];
    struct text_span prompt_cache_key, prompt_cache_key_camel;
    struct text_span metadata_user_id;  /* JSON text with .session_id, else not used             */
    struct text_span user;
    struct text_span head;              /* rendered prompt up to the first user message's end    */
};

/* The id that counts, in `out` with a NUL: at most SESSION_ID_BYTES bytes; a longer one is the 32
 * hex digits of its hash, and without any the 16 hex digits of XXH3-64 of the head. */
void session_id(const struct session_source *s, char out[SESSION_ID_BYTES + 1]);

/* The key the engine knows: XXH3-128 of the id, a longer one first replaced as above. */
void session_hash(const char *id, u64 bytes, u64 out[2]);

#endif
