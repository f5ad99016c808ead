/* tests/golden.h - reading tests/golden/chat_golden.json in tests. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "arena/base/jsontext.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *golden_take(u64 bytes) { return malloc(bytes); }
static const struct text_source golden_source = { golden_take, free };
static struct text_pool golden_pool;

static inline struct text_span golden_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) test_failed(__FILE__, __LINE__, "cannot read %s", path);
    fseek(f, 0, SEEK_END);
    long len = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)len + 1);
    CHECK(fread(bytes, 1, (size_t)len, f) == (size_t)len);
    bytes[len] = 0;
    fclose(f);
    return (struct text_span){ bytes, (u64)len };
}

/* The golden file's member; read once. */
static inline struct jsontext golden(const char *name)
{
    static struct jsontext root;
    if (root.kind == JSONTEXT_ABSENT) {
        struct text_span file = golden_file("tests/golden/chat_golden.json");
        CHECK_OK(jsontext_open(file.bytes, file.len, 64, &root));
        text_pool_open(&golden_pool, &golden_source, 256 * MIB);
    }
    return jsontext_member(root, name);
}

/* A decoded string, 0-terminated. */
static inline const char *golden_string(struct jsontext v)
{
    CHECK(v.kind == JSONTEXT_STRING);
    char *s = text_pool_take(&golden_pool, v.len);
    s[jsontext_decode(v, s)] = 0;
    return s;
}

#endif
