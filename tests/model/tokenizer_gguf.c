/* tokenizer_gguf.c - the tokenizer of a GGUF file is that of the folder it was made of. */
#include "model/gguf.h"
#include "model/text/tokenizer.h"
#include "tests/model/rig.h"

#define HF "build/models/tiny/hf/"

static struct tokenizer *folder, *file;
static struct files files;
static struct gguf g;

static struct text_span read_whole(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) test_failed(__FILE__, __LINE__, "cannot read %s", path);
    fseek(f, 0, SEEK_END);
    long len = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)len);
    CHECK(fread(bytes, 1, (size_t)len, f) == (size_t)len);
    fclose(f);
    return (struct text_span){ bytes, (u64)len };
}

static void open_both(void)
{
    if (folder != NULL) return;
    if (access(HF "config.json", F_OK) != 0 ||
        access("build/models/tiny/rand-qwen35-tiny-bf16.gguf", F_OK) != 0)
        rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
                "tests/scenarios/make_model.py %s --size tiny --only %s", "build/models/tiny",
                "hf,bf16,q8_0");
    struct tokenizer_source source = {
        .tokenizer_json = read_whole(HF "tokenizer.json"),
        .tokenizer_config = read_whole(HF "tokenizer_config.json"),
        .generation_config = read_whole(HF "generation_config.json"), .rows = 2048 };
    CHECK_OK(tokenizer_open(&source, &folder));
    free((void *)source.tokenizer_json.bytes);
    free((void *)source.tokenizer_config.bytes);
    free((void *)source.generation_config.bytes);
    CHECK_OK(files_open(&files, "build/models/tiny/rand-qwen35-tiny-bf16.gguf"));
    CHECK_OK(gguf_open(&files, &g));
    CHECK_OK(tokenizer_open(&(struct tokenizer_source){ .gguf = &g }, &file));
}

TEST(every_id_has_the_same_bytes_and_kind)
{
    open_both();
    u32 a_count, b_count;
    const struct vocab *a = tokenizer_vocab(folder), *b = tokenizer_vocab(file);
    CHECK_EQ(a->count, b->count);
    CHECK_EQ(tokenizer_count(folder), tokenizer_count(file));
    for (u32 id = 0; id < a->count; id++) {
        struct vocab_piece p = vocab_piece(a, id), q = vocab_piece(b, id);
        if (p.len != q.len || memcmp(p.bytes, q.bytes, p.len) != 0 ||
            vocab_kind(a, id) != vocab_kind(b, id))
            test_failed(__FILE__, __LINE__, "id %u: \"%.*s\" %d, not \"%.*s\" %d", id, (int)q.len,
                        q.bytes, vocab_kind(b, id), (int)p.len, p.bytes, vocab_kind(a, id));
    }
    const u32 *x = tokenizer_eos(folder, &a_count), *y = tokenizer_eos(file, &b_count);
    CHECK_EQ(a_count, b_count);
    CHECK(a_count == 2 && memcmp(x, y, 2 * sizeof *x) == 0);
    CHECK_EQ(tokenizer_added(folder, "<think>"), tokenizer_added(file, "<think>"));
    CHECK(tokenizer_added(file, "<think>") != NONE);
}

TEST(random_texts_give_the_same_ids)
{
    static const char *const pieces[] = {
        "the ", "water", " child's", "\n\n", "  ", "7", "2048", "e\xCC\x81", "\xE4\xBD\xA0", "_x(",
        "<|im_end|>", "<think>", "\t", "\r\n", "\xF0\x9F\x99\x82",
        "don't", "WORLD", ".", "\xC2\xA0",
    };
    open_both();
    u32 state = 5;
    for (u32 n = 0; n < 3000; n++) {
        char text[512];
        u64 len = 0;
        struct tokenizer_ids a = { 0 }, b = { 0 };
        for (u32 i = 0; i < 20; i++) {
            state = state * 1664525u + 1013904223u;
            const char *word = pieces[(state >> 8) % COUNT_OF(pieces)];
            memcpy(text + len, word, strlen(word));
            len += strlen(word);
        }
        struct tokenizer_text what = { .bytes = text, .len = len };
        CHECK_OK(tokenizer_encode(folder, &what, &a));
        CHECK_OK(tokenizer_encode(file, &what, &b));
        if (a.count != b.count || memcmp(a.id, b.id, a.count * sizeof *a.id) != 0)
            test_failed(__FILE__, __LINE__, "text %u: %.*s", n, (int)len, text);
        tokenizer_ids_close(&a);
        tokenizer_ids_close(&b);
    }
}
