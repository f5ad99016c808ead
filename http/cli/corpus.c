/* http/cli/corpus.c - a file to ids. */
#include "http/cli/corpus.h"

#include "arena/base/clock.h"
#include "arena/base/file.h"
#include "arena/base/log.h"
#include "arena/heap.h"
#include "tiers/suffix/log.h"

#include <stdio.h>
#include <string.h>

enum err corpus_size(const char *path, u64 *bytes_out)
{
    struct file_stat stat;
    if (file_stat(path, &stat) != OK || !stat.regular)
        return fail(ERR_USAGE, "--corpus %s: no file of that name can be read", path);
    if (stat.bytes == 0 || stat.bytes > CORPUS_MIB_MAX * MIB)
        return fail(ERR_USAGE, "--corpus %s: %llu bytes; a corpus has 1 byte to %d MiB", path,
                    (ull)stat.bytes, CORPUS_MIB_MAX);
    *bytes_out = stat.bytes;
    return OK;
}

static bool is_ids(const char *path)
{
    size_t bytes = strlen(path);
    return bytes > 4 && strcmp(path + bytes - 4, ".ids") == 0;
}

static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/* Ids into the text's own memory: one takes at least two bytes of it but for the last, so `id` has
 * its own. */
static enum err read_ids(const char *path, const char *text, u64 bytes, u32 vocab, u32 *id,
                         u64 *count_out)
{
    u64 at = 0, count = 0;
    for (;;) {                          /* ends: `at` grows                                   */
        while (at < bytes && is_blank(text[at])) at++;
        if (at == bytes) break;
        u64 value = 0, from = at;
        while (at < bytes && text[at] >= '0' && text[at] <= '9' && value < vocab)
            value = 10 * value + (u64)(text[at++] - '0');
        if (at == from || value >= vocab || (at < bytes && !is_blank(text[at])))
            return fail(ERR_FORMAT, "--corpus %s: byte %llu: expected ids below %u, parted by "
                        "blanks", path, (ull)from, vocab);
        id[count++] = (u32)value;
    }
    *count_out = count;
    return OK;
}

static enum err ids_of(const char *path, const char *text, u64 bytes, u32 vocab)
{
    u64 count = 0;
    u32 *id = arena_heap_alloc((bytes / 2 + 1) * sizeof *id);
    if (id == NULL) return fail(ERR_MEMORY, "--corpus %s: the heap has no room for it", path);
    enum err err = read_ids(path, text, bytes, vocab, id, &count);
    if (err == OK) err = suffix_log_corpus(id, count);
    arena_heap_free(id);
    return err;
}

static enum err text_of(const char *path, const char *text, u64 bytes,
                        const struct tokenizer *tokenizer)
{
    struct tokenizer_ids ids = { 0 };
    struct tokenizer_segment all = { bytes, TOKENIZER_MESSAGE };
    u64 valid = text_utf8_valid(text, bytes);
    if (valid < bytes)
        return fail(ERR_FORMAT, "--corpus %s: byte %llu is not UTF-8", path, (ull)valid);
    enum err err = tokenizer_encode(tokenizer, &(struct tokenizer_text){
        .bytes = text, .len = bytes, .segments = &all, .segment_count = 1 }, &ids);
    if (err == OK) err = suffix_log_corpus(ids.id, ids.count);
    tokenizer_ids_close(&ids);
    return err;
}

enum err corpus_open(const char *path, u64 bytes, const struct tokenizer *tokenizer, u32 vocab)
{
    char why[ERR_NOTE_BYTES];
    u64 read = 0, from_us = clock_us();
    char *text = arena_heap_alloc(bytes);
    if (text == NULL) return fail(ERR_MEMORY, "--corpus %s: the heap has no room for it", path);
    enum err err = file_read(path, text, bytes, &read);
    if (err == OK) err = is_ids(path) ? ids_of(path, text, read, vocab)
                                      : text_of(path, text, read, tokenizer);
    arena_heap_free(text);
    if (err != OK && strncmp(err_last()->text, "--corpus", 8) != 0) {
        snprintf(why, sizeof why, "%s", err_last()->text);
        return fail(err, "--corpus %s: %s", path, why);
    }
    if (err == OK)
        log_line(LOG_LEVEL_INFO, "corpus %s: %llu ids in %.1f s", path,
                 (ull)suffix_log_counts().corpus, (f64)(clock_us() - from_us) / 1e6);
    return err;
}
