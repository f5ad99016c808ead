/* tests/http/session.c - the order of session ids. */
#include "http/chat/session.h"
#include "tests/test.h"

#include <string.h>

#define SPAN(text) { (text), sizeof(text) - 1 }

TEST(the_first_id_that_is_present_and_not_empty_counts)
{
    char id[SESSION_ID_BYTES + 1];
    struct session_source s = {
        .prompt_cache_key = SPAN("cache"), .prompt_cache_key_camel = SPAN("camel"),
        .metadata_user_id = SPAN("{\"session_id\":\"meta\"}"), .user = SPAN("u"),
        .head = SPAN("head"),
    };
    for (u32 i = SESSION_HEADER_COUNT; i > 0; i--) {
        s.header[i - 1] = session_header[i - 1];
        session_id(&s, id);
        CHECK_STR(id, session_header[i - 1]);
    }
    for (u32 i = 0; i < SESSION_HEADER_COUNT; i++) s.header[i] = "";
    session_id(&s, id);
    CHECK_STR(id, "cache");
    s.prompt_cache_key.len = 0;
    session_id(&s, id);
    CHECK_STR(id, "camel");
    s.prompt_cache_key_camel.len = 0;
    session_id(&s, id);
    CHECK_STR(id, "meta");
    s.metadata_user_id = (struct text_span)SPAN("user_1234_not_json");
    session_id(&s, id);
    CHECK_STR(id, "u");
    s.user.len = 0;
    session_id(&s, id);
    CHECK_EQ(strlen(id), 16);
    char other[SESSION_ID_BYTES + 1];
    s.head = (struct text_span)SPAN("heae");
    session_id(&s, other);
    CHECK(strcmp(id, other) != 0);
}

TEST(ids_longer_than_the_limit_are_hashed_and_hash_alike_either_way)
{
    char longer[SESSION_ID_BYTES + 2], id[SESSION_ID_BYTES + 1];
    u64 a[2], b[2];
    memset(longer, 'a', sizeof longer);
    longer[SESSION_ID_BYTES] = 0;
    struct session_source s = { .header[0] = longer };
    session_id(&s, id);
    CHECK_STR(id, longer);
    longer[SESSION_ID_BYTES] = 'a';
    longer[SESSION_ID_BYTES + 1] = 0;
    session_id(&s, id);
    CHECK_EQ(strlen(id), 32);
    session_hash(longer, strlen(longer), a);
    session_hash(id, strlen(id), b);
    CHECK(a[0] == b[0] && a[1] == b[1]);
}
