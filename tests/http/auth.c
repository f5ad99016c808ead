/* tests/http/auth.c - Host names, keys, loopback, origins. */
#include "http/serve/auth.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char key_path[64];

static const char *key_file(const char *text)
{
    snprintf(key_path, sizeof key_path, "/tmp/holdfast-auth-%d", (int)getpid());
    FILE *f = fopen(key_path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
    return key_path;
}

static bool host(const char *name)
{
    struct refusal r = {0};
    struct auth_request q = { .host = name, .host_count = 1, .local_address = "192.0.2.7" };
    bool ok = auth_host(&q, &r);
    if (!ok) CHECK(r.status == 403 || r.status == 400);
    return ok;
}

TEST(loopback_names_the_address_and_listed_names_pass_the_host_check)
{
    struct auth_setup setup = { .host = "127.0.0.1", .host_names = "board.lan, dgx" };
    CHECK_OK(auth_open(&setup));
    CHECK(host("localhost"));
    CHECK(host("LOCALHOST:8080"));
    CHECK(host("127.0.0.1:1"));
    CHECK(host("[::1]"));
    CHECK(host("[::1]:8080"));
    CHECK(host("192.0.2.7:8080"));
    CHECK(host("[::ffff:192.0.2.7]:8080"));
    CHECK(host("board.lan:8080"));
    CHECK(host("DGX"));
    CHECK(!host("192.0.2.8"));
    CHECK(!host("evil.example"));
    CHECK(!host("localhost.evil.example"));
    CHECK(!host("localhost:80x"));
    CHECK(!host("[::1"));
    CHECK(!host("[::1]x"));
    CHECK(!host(""));
    auth_close();
}

TEST(a_missing_or_doubled_host_is_400_and_an_unknown_one_403_with_the_flag)
{
    struct auth_setup setup = { .host = "127.0.0.1" };
    struct refusal r = {0};
    CHECK_OK(auth_open(&setup));
    CHECK(!auth_host(&(struct auth_request){ .host = NULL }, &r));
    CHECK_EQ(r.status, 400);
    CHECK(!auth_host(&(struct auth_request){ .host = "localhost", .host_count = 2 }, &r));
    CHECK_EQ(r.status, 400);
    CHECK(!auth_host(&(struct auth_request){ .host = "a.b", .host_count = 1 }, &r));
    CHECK_EQ(r.status, 403);
    CHECK_STR(r.message, "host \"a.b\" is not served here; add it with --host-names");
    CHECK_STR(r.code, "host_not_allowed");
    CHECK_STR(refusal_type(r.status), "permission_error");
    auth_close();
}

TEST(an_address_that_is_not_loopback_needs_a_key_or_no_auth)
{
    struct auth_setup setup = { .host = "0.0.0.0" };
    CHECK_EQ(auth_open(&setup), ERR_USAGE);
    CHECK(strstr(err_last()->text, "--api-key-file") != NULL);
    setup.no_auth = true;
    CHECK_OK(auth_open(&setup));
    setup = (struct auth_setup){ .host = "0.0.0.0", .api_key_file = key_file("k\n") };
    CHECK_OK(auth_open(&setup));
    unlink(key_path);
    setup = (struct auth_setup){ .host = "127.0.0.53" };
    CHECK_OK(auth_open(&setup));
    auth_close();
}

TEST(any_key_of_the_file_opens_and_nothing_else_does)
{
    struct auth_setup setup = { .host = "127.0.0.1",
                                .api_key_file = key_file("  first-key \r\n\nsecond\n") };
    struct refusal r = {0};
    CHECK_OK(auth_open(&setup));
    unlink(key_path);
    CHECK(auth_check(&(struct auth_request){ .authorization = "Bearer first-key" }, AUTH_KEY, &r));
    CHECK(auth_check(&(struct auth_request){ .authorization = "bearer second" }, AUTH_KEY, &r));
    CHECK(auth_check(&(struct auth_request){ .api_key = "second" }, AUTH_KEY, &r));
    CHECK(auth_check(&(struct auth_request){0}, AUTH_OPEN, &r));
    static const char *const wrong[] = { "Bearer ", "Bearer first-ke", "Bearer first-keys",
                                         "Bearer secon", "Basic second", "second", "" };
    for (u32 i = 0; i < COUNT_OF(wrong); i++) {
        CHECK(!auth_check(&(struct auth_request){ .authorization = wrong[i] }, AUTH_KEY, &r));
        CHECK_EQ(r.status, 401);
        CHECK_STR(r.code, "invalid_api_key");
    }
    CHECK(!auth_check(&(struct auth_request){0}, AUTH_KEY, &r));
    auth_close();
}

TEST(admin_routes_want_the_admin_key_or_loopback_when_there_is_none)
{
    struct refusal r = {0};
    struct auth_setup setup = { .host = "127.0.0.1" };
    CHECK_OK(auth_open(&setup));
    CHECK(auth_check(&(struct auth_request){ .loopback = true }, AUTH_ADMIN, &r));
    CHECK(!auth_check(&(struct auth_request){ .loopback = false }, AUTH_ADMIN, &r));
    CHECK_EQ(r.status, 403);
    setup.admin_key_file = key_file("root");
    CHECK_OK(auth_open(&setup));
    unlink(key_path);
    CHECK(!auth_check(&(struct auth_request){ .loopback = true }, AUTH_ADMIN, &r));
    CHECK_EQ(r.status, 401);
    CHECK(auth_check(&(struct auth_request){ .authorization = "Bearer root" }, AUTH_ADMIN, &r));
    CHECK(auth_check(&(struct auth_request){0}, AUTH_KEY, &r));
    auth_close();
}

TEST(an_empty_key_file_a_missing_one_and_a_long_key_are_errors_that_name_it)
{
    struct auth_setup setup = { .host = "127.0.0.1", .api_key_file = key_file("\n \n") };
    CHECK_EQ(auth_open(&setup), ERR_CONFIG);
    CHECK(strstr(err_last()->text, key_path) != NULL);
    char key[AUTH_KEY_BYTES + 2];
    memset(key, 'x', sizeof key);
    key[AUTH_KEY_BYTES - 1] = 0;
    setup.api_key_file = key_file(key);
    CHECK_OK(auth_open(&setup));
    key[AUTH_KEY_BYTES - 1] = 'x';
    key[AUTH_KEY_BYTES] = 0;
    setup.api_key_file = key_file(key);
    CHECK_EQ(auth_open(&setup), ERR_CONFIG);
    unlink(key_path);
    CHECK_EQ(auth_open(&setup), ERR_NOT_FOUND);
    auth_close();
}

TEST(pages_of_localhost_and_listed_origins_may_read_answers)
{
    struct auth_setup setup = { .host = "127.0.0.1", .cors_origins = "https://ui.example" };
    CHECK_OK(auth_open(&setup));
    CHECK(auth_origin("http://localhost:3000"));
    CHECK(auth_origin("https://127.0.0.1"));
    CHECK(auth_origin("http://[::1]:5173"));
    CHECK(auth_origin("https://ui.example"));
    CHECK(!auth_origin("https://ui.example.evil"));
    CHECK(!auth_origin("http://localhost.evil:80"));
    CHECK(!auth_origin("null"));
    CHECK(!auth_origin("file://localhost"));
    auth_close();
}
