/* http/serve/auth.c - the rules of http.md 1: Host first, then the key, then what a page may read.
 *
 * Keys are compared in constant time over AUTH_KEY_BYTES, whatever their lengths, and all of them:
 * how long a refusal takes tells nothing of how near a guess was. */
#include "http/serve/auth.h"

#include "arena/base/file.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct key_row { u8 bytes[AUTH_KEY_BYTES]; };
struct key_table { struct key_row row[AUTH_KEY_CAP]; u32 count; };
struct name_table { char row[AUTH_NAME_CAP][AUTH_NAME_BYTES]; u32 count; };

static struct key_table keys, admin_keys;
static struct name_table names, origins;

enum { KEY_FILE_BYTES = AUTH_KEY_CAP * (AUTH_KEY_BYTES + 2) };

static enum err keys_read(const char *path, const char *flag, struct key_table *out)
{
    static char text[KEY_FILE_BYTES];
    u64 bytes = 0;
    out->count = 0;
    if (path == NULL || path[0] == 0) return OK;
    TRY(file_read(path, text, sizeof text, &bytes));
    for (u64 at = 0; at < bytes;) {
        u64 end = at;
        while (end < bytes && text[end] != '\n') end++;
        u64 lo = at, hi = end;
        at = end + 1;
        while (lo < hi && strchr(" \t\r", text[lo]) != NULL) lo++;
        while (hi > lo && strchr(" \t\r", text[hi - 1]) != NULL) hi--;
        if (lo == hi) continue;
        if (hi - lo >= AUTH_KEY_BYTES)
            return fail(ERR_CONFIG, "%s %s: a key of %llu bytes, at most %d", flag, path,
                        (ull)(hi - lo), AUTH_KEY_BYTES - 1);
        if (out->count == AUTH_KEY_CAP)
            return fail(ERR_CONFIG, "%s %s: more than %d keys", flag, path, AUTH_KEY_CAP);
        struct key_row *row = &out->row[out->count++];
        memset(row, 0, sizeof *row);
        memcpy(row->bytes, text + lo, hi - lo);
    }
    memset(text, 0, sizeof text);
    if (out->count == 0) return fail(ERR_CONFIG, "%s %s: no key in it", flag, path);
    return OK;
}

static enum err names_read(const char *list, const char *flag, struct name_table *out)
{
    out->count = 0;
    for (const char *at = list == NULL ? "" : list; *at != 0;) {
        u64 len = strcspn(at, ", ");
        if (len >= AUTH_NAME_BYTES || (len > 0 && out->count == AUTH_NAME_CAP))
            return fail(ERR_CONFIG, "%s: at most %d names of %d bytes", flag, AUTH_NAME_CAP,
                        AUTH_NAME_BYTES - 1);
        if (len > 0) {
            memcpy(out->row[out->count], at, len);
            out->row[out->count++][len] = 0;
        }
        at += len;
        at += strspn(at, ", ");
    }
    return OK;
}

static bool loopback_name(const char *host)
{
    struct in_addr v4;
    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "::1") == 0) return true;
    return inet_pton(AF_INET, host, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

enum err auth_open(const struct auth_setup *setup)
{
    TRY(keys_read(setup->api_key_file, "--api-key-file", &keys));
    TRY(keys_read(setup->admin_key_file, "--admin-key-file", &admin_keys));
    TRY(names_read(setup->host_names, "--host-names", &names));
    TRY(names_read(setup->cors_origins, "--cors-origins", &origins));
    if (keys.count == 0 && !setup->no_auth && !loopback_name(setup->host))
        return fail(ERR_USAGE, "--host %s is not loopback: it needs --api-key-file FILE, or "
                    "--no-auth to serve without a key", setup->host);
    if (names.count < AUTH_NAME_CAP && strlen(setup->host) < AUTH_NAME_BYTES)
        snprintf(names.row[names.count++], AUTH_NAME_BYTES, "%s", setup->host);
    return OK;
}

void auth_close(void)
{
    memset(&keys, 0, sizeof keys);
    memset(&admin_keys, 0, sizeof admin_keys);
    memset(&names, 0, sizeof names);
    memset(&origins, 0, sizeof origins);
}

/* "name:port", "[v6]:port" or either alone -> the name without brackets; false when malformed. */
static bool name_of(const char *host, char out[AUTH_NAME_BYTES])
{
    bool bracket = host[0] == '[';
    const char *lo = bracket ? host + 1 : host;
    u64 len = strcspn(lo, bracket ? "]" : ":");
    const char *rest = lo + len;
    if (len == 0 || len >= AUTH_NAME_BYTES) return false;
    if (bracket && *rest++ != ']') return false;
    if (*rest == ':') rest += 1 + strspn(rest + 1, "0123456789");
    if (*rest != 0) return false;
    memcpy(out, lo, len);
    out[len] = 0;
    return true;
}

/* Equal as addresses: both literals, a v4 address mapped into v6 counted as the v4 one. */
static bool same_address(const char *a, const char *b)
{
    struct in6_addr six[2];
    const char *text[2] = { a, b };
    for (u32 i = 0; i < 2; i++) {
        struct in_addr four;
        if (inet_pton(AF_INET, text[i], &four) == 1) {
            memset(&six[i], 0, sizeof six[i]);
            six[i].s6_addr[10] = six[i].s6_addr[11] = 0xff;
            memcpy(&six[i].s6_addr[12], &four, 4);
        } else if (inet_pton(AF_INET6, text[i], &six[i]) != 1) {
            return false;
        }
    }
    return memcmp(&six[0], &six[1], sizeof six[0]) == 0;
}

bool auth_host(const struct auth_request *q, struct refusal *r)
{
    char name[AUTH_NAME_BYTES];
    if (q->host == NULL || q->host_count == 0 || q->host[0] == 0)
        return refusal_bad(r, NULL, "the request has no Host header");
    if (q->host_count > 1) return refusal_bad(r, NULL, "the request has two Host headers");
    bool known = name_of(q->host, name);
    if (known) {
        known = strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 ||
                strcmp(name, "::1") == 0 ||
                (q->local_address != NULL && same_address(name, q->local_address));
        for (u32 i = 0; i < names.count && !known; i++)
            known = strcasecmp(name, names.row[i]) == 0;
    }
    if (known) return true;
    refusal_set(r, 403, "host_not_allowed", NULL,
                "host \"%.255s\" is not served here; add it with --host-names", q->host);
    return false;
}

/* Every key is looked at, every byte of it. */
static bool key_known(const struct key_table *table, const char *given)
{
    u8 padded[AUTH_KEY_BYTES] = {0};
    u64 len = strlen(given);
    u32 found = 0;
    memcpy(padded, given, MIN(len, (u64)AUTH_KEY_BYTES - 1));
    for (u32 i = 0; i < table->count; i++) {
        u32 apart = len >= AUTH_KEY_BYTES;
        for (u32 b = 0; b < AUTH_KEY_BYTES; b++)
            apart |= (u32)(padded[b] ^ table->row[i].bytes[b]);
        found |= apart == 0;
    }
    return found != 0;
}

static const char *key_given(const struct auth_request *q)
{
    if (q->authorization != NULL && strncasecmp(q->authorization, "bearer ", 7) == 0) {
        const char *at = q->authorization + 7;
        return at + strspn(at, " ");
    }
    return q->api_key;
}

bool auth_check(const struct auth_request *q, enum auth_door door, struct refusal *r)
{
    if (door == AUTH_OPEN) return true;
    const struct key_table *table = door == AUTH_ADMIN ? &admin_keys : &keys;
    if (door == AUTH_ADMIN && table->count == 0) {
        if (q->loopback) return true;
        refusal_set(r, 403, NULL, NULL, "this route is served to loopback only; --admin-key-file "
                    "opens it to others");
        return false;
    }
    if (table->count == 0) return true;
    const char *given = key_given(q);
    if (given != NULL && key_known(table, given)) return true;
    refusal_set(r, 401, "invalid_api_key", NULL, given == NULL
                ? "no API key: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`"
                : "the API key is not known here");
    return false;
}

bool auth_origin(const char *origin)
{
    char name[AUTH_NAME_BYTES];
    const char *host = NULL;
    if (strncmp(origin, "http://", 7) == 0) host = origin + 7;
    else if (strncmp(origin, "https://", 8) == 0) host = origin + 8;
    if (host != NULL && name_of(host, name) &&
        (strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 ||
         strcmp(name, "::1") == 0)) return true;
    for (u32 i = 0; i < origins.count; i++)
        if (strcmp(origin, origins.row[i]) == 0) return true;
    return false;
}
