/* tests/fuzz/gguf.c - seeded mutations of a GGUF file: refused in words, or every row lies inside
 * the file, the sizes are within limits and the tokenizer opens.
 *
 * HOLDFAST_FUZZ_S=N runs N seconds instead of 3. */
#include "arena/base/log.h"
#include "arena/base/rng.h"
#include "model/gguf.h"
#include "model/shape_gguf.h"
#include "model/text/tokenizer.h"
#include "tests/model/rig.h"

#include <time.h>

static u8 *good;
static u64 good_bytes, meta_bytes, seed, drawn;
static struct files files;
static struct tensors tensors;
static struct model_shape shape;
static struct gguf g;

static u64 roll(u64 below) { return rng_u64(seed, drawn++) % below; }

/* Head and infos of a real file, with data bytes as they come. */
static void load(void)
{
    rig_tiny("default", "");
    rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
            "tests/oracle/to_gguf.py build/golden/default %s --type %s",
            "build/golden/fuzz.gguf", "Q4_0");
    FILE *f = fopen("build/golden/fuzz.gguf", "rb");
    CHECK(f != NULL);
    fseek(f, 0, SEEK_END);
    good_bytes = (u64)ftell(f);
    rewind(f);
    good = malloc(good_bytes);
    CHECK(fread(good, 1, good_bytes, f) == good_bytes);
    fclose(f);
}

static void as_file(const u8 *data, u64 bytes)
{
    files.embedded = true;
    files.count = 1;
    strcpy(files.gguf, "x.gguf");
    strcpy(files.row[0].name, "x.gguf");
    files.row[0].data = data;
    files.row[0].bytes = bytes;
}

/* Bytes, words of 4 or 8 and cuts, mostly in the head. */
static u64 mutate(u8 *data, u64 bytes)
{
    static const u64 words[] = { 0, 1, 2, 8, 9, 13, 255, 1ull << 31, 1ull << 32, 1ull << 60,
                                 UINT64_MAX, UINT64_MAX - 31, 0x7FFFFFFF, 0xFFFFFFFF };
    for (u64 n = 1 + roll(4); n > 0; n--) {
        u64 at = roll(roll(8) == 0 ? bytes : meta_bytes), value = words[roll(COUNT_OF(words))];
        u32 width = roll(2) == 0 ? 4 : 8;
        switch (roll(6)) {
        case 0: data[at] = (u8)roll(256); break;
        case 1: data[at] ^= (u8)(1u << roll(8)); break;
        case 2: if (roll(12) == 0) return 1 + at; break;
        case 3: value = roll(1 << 16); /* fall through */
        default:
            for (u32 i = 0; i < width && at + i < bytes; i++) data[at + i] = (u8)(value >> 8 * i);
        }
    }
    return bytes;
}

static void check_rows(void)
{
    const struct files_row *f = &files.row[0];
    for (u32 i = 0; i < tensors.count; i++) {
        const struct tensor_row *row = &tensors.row[i];
        CHECK(row->data >= f->data && row->data + row->bytes <= f->data + f->bytes);
        CHECK(row->name >= (const char *)f->data && row->name_bytes > 0);
    }
}

static f64 now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec + (f64)t.tv_nsec * 1e-9;
}

TEST(mutated_files_are_refused_or_are_what_they_say)
{
    const char *limit = getenv("HOLDFAST_FUZZ_S");
    u32 rounds = 0, opened = 0, scanned = 0, tokenizers = 0;
    static struct state_shape layout;
    load();
    as_file(good, good_bytes);
    CHECK_OK(gguf_open(&files, &g));
    CHECK_OK(gguf_tensors(&files, &tensors));
    meta_bytes = (u64)(tensors.row[0].data - good);
    log_level_set(LOG_LEVEL_WARN);
    f64 until = now() + (limit == NULL ? 3 : atof(limit));      /* making the file took its own */
    for (; now() < until; rounds++) {
        seed = rounds;
        drawn = 0;
        u8 *data = malloc(good_bytes);
        memcpy(data, good, good_bytes);
        u64 bytes = mutate(data, good_bytes);
        u8 *exact = malloc(bytes);                  /* its own block: ASan sees a byte too far */
        memcpy(exact, data, bytes);
        free(data);
        as_file(exact, bytes);
        if (gguf_tensors(&files, &tensors) == OK) {
            opened++;
            check_rows();
        }
        if (shape_gguf_load(&files, &shape) == OK) {
            CHECK(shape.layer_count == shape.gdn_count + shape.attention_count);
            CHECK(shape.hidden <= SHAPE_HIDDEN_MAX && shape.nh * shape.d <= SHAPE_HIDDEN_MAX);
            CHECK(shape.hv % shape.hk == 0 && shape.nh % shape.nkv == 0 && shape.dv > 0);
            shape.draft = shape.mtp_layers == 1;
            CHECK_OK(family_find(shape.model_type)->fill(&shape, 256, 1024, 2, &layout));
            if (weights_scan(&files, &shape, family_find(shape.model_type)) == OK) scanned++;
        }
        if (gguf_open(&files, &g) == OK) {
            struct tokenizer *t;
            if (tokenizer_open(&(struct tokenizer_source){ .gguf = &g }, &t) == OK) {
                tokenizers++;
                tokenizer_close(t);
            }
        }
        free(exact);
    }
    printf("%u files: %u with tensors, %u whole models, %u tokenizers\n", rounds, opened, scanned,
           tokenizers);
    CHECK(rounds > 20 && opened > 0 && opened < rounds && tokenizers > 0);
}
