/* tests/cross/absent.c - what a build that links libc alone has not: JSON texts (jansson) and the
 * embedded model.  Such a build opens GGUF files; the rest is refused here by name. */
#include "arena/base/json.h"
#include "model/embedded.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static enum err absent(void)
{
    return fail(ERR_UNSUPPORTED, "JSON is not in this build");
}

const struct embedded_file *embedded_at(u32 index) { return NULL; }

enum err json_open(const char *text, u64 bytes, struct json_limits limits, const char *name,
                   struct json_doc *doc, struct json_at *root_out)
{ return absent(); }
void json_close(struct json_doc *doc) { }
enum json_kind json_kind(const struct json_at *at) { return JSON_IS_ABSENT; }
u32 json_count(const struct json_at *at) { return 0; }
bool json_find(const struct json_at *object, const char *key, struct json_at *out) { return false; }
enum err json_item(const struct json_at *array, u32 index, struct json_at *out) { return absent(); }
enum err json_u64(const struct json_at *at, const char *key, u64 *out) { return absent(); }
enum err json_u32(const struct json_at *at, const char *key, u32 *out) { return absent(); }
enum err json_str(const struct json_at *at, const char *key, const char **out, u64 *bytes_out)
{ return absent(); }
enum err json_u64_or(const struct json_at *at, const char *key, u64 otherwise, u64 *out)
{ return absent(); }
enum err json_u32_or(const struct json_at *at, const char *key, u32 otherwise, u32 *out)
{ return absent(); }
enum err json_f64_or(const struct json_at *at, const char *key, f64 otherwise, f64 *out)
{ return absent(); }
enum err json_bool_or(const struct json_at *at, const char *key, bool otherwise, bool *out)
{ return absent(); }
enum err json_str_or(const struct json_at *at, const char *key, const char *otherwise,
                     const char **out)
{ return absent(); }
