/* tests/bench/drafts.c - decoding with drafts beside decoding without, on forced text.
 *
 *   BENCH_MODEL=folder ./build.sh test bench/drafts && cat build/logs/bench_drafts.log
 *
 * A repetitive turn: the prompt holds two files as an agent's tool results, the answer writes the
 * first again with a name changed and quotes the second.  One where nothing repeats: prose behind
 * other prose.  Texts are files of this repository; the answer is forced, the model computes as
 * ever.  Modes take turns, the best of ROUNDS runs of each counts. */
#define MICRO_IDS_CAP 8192
#include "tests/micro.h"

#include "arena/base/file.h"
#include "model/text/tokenizer.h"

enum { ANSWER = 320, ROUNDS = 3, TEXT = 1 << 17 };

static struct tokenizer *tokenizer;
static struct micro_ask ask;

static struct text_span whole(const char *path)
{
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    char *bytes = malloc(TEXT);
    u64 len = fread(bytes, 1, TEXT, f);
    fclose(f);
    return (struct text_span){ bytes, len };
}

static void open_tokenizer(void)
{
    static const char *const parts[] = { "tokenizer.json", "tokenizer_config.json",
                                         "generation_config.json" };
    struct text_span span[3];
    for (u32 i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "profiles/default-model/%s", parts[i]);
        span[i] = whole(path);
    }
    CHECK_OK(tokenizer_open(&(struct tokenizer_source){ .tokenizer_json = span[0],
        .tokenizer_config = span[1], .generation_config = span[2], .rows = 1792 }, &tokenizer));
}

/* Appends up to `most` ids of a file's text, `from` bytes in, `old` written as `new_`. */
static u64 put_file(u32 *ids, u64 most, const char *path, const char *old, const char *new_)
{
    struct text_span file = whole(path);
    char *text = malloc(2 * TEXT);
    u64 len = 0;
    for (u64 i = 0; i < file.len && len + 64 < 2 * TEXT;) {
        bool hit = old != NULL && i + strlen(old) <= file.len &&
                   memcmp(file.bytes + i, old, strlen(old)) == 0;
        const char *from = hit ? new_ : file.bytes + i;
        u64 bytes = hit ? strlen(new_) : 1;
        memcpy(text + len, from, bytes);
        len += bytes;
        i += hit ? strlen(old) : 1;
    }
    struct tokenizer_ids out = { 0 };
    CHECK_OK(tokenizer_encode(tokenizer, &(struct tokenizer_text){ .bytes = text, .len = len },
                              &out));
    u64 count = MIN(out.count, most);
    memcpy(ids, out.id, count * sizeof *ids);
    tokenizer_ids_close(&out);
    free(text);
    return count;
}

struct figure { f64 us_an_id; u64 blocks, drafted, accepted, rounds; };

static void decode(u32 mode, struct figure *best)
{
    micro.profile.draft = mode;
    drafters_open(&micro.profile, micro.vocab);
    micro_run(&ask);
    CHECK_EQ(ask.result.generated, ask.forced_count);
    f64 us = (f64)ask.result.decode_us / (f64)(ask.result.generated - 1);
    if (best->us_an_id > 0 && best->us_an_id <= us) return;
    *best = (struct figure){ .us_an_id = us };
    for (u32 d = 0; d < DRAFTER_COUNT; d++) {
        best->blocks += ask.result.drafts[d].blocks;
        best->drafted += ask.result.drafts[d].drafted;
        best->accepted += ask.result.drafts[d].accepted;
    }
    best->rounds = ask.result.generated - 1 - best->accepted;
}

static void compare(const char *what)
{
    static const char *const word[] = { "off", "mtp", "lookup", "auto" };
    static const u32 modes[] = { DRAFT_OFF, DRAFT_AUTO, DRAFT_LOOKUP };
    struct figure f[COUNT_OF(modes)] = { 0 };
    for (u32 r = 0; r < ROUNDS; r++)
        for (u32 m = 0; m < COUNT_OF(modes); m++) decode(modes[m], &f[m]);
    for (u32 m = 0; m < COUNT_OF(modes); m++)
        printf("%s, %s: %.1f tokens/s, %.3f of off; rounds %llu, with drafts %llu, proposed %llu, "
               "accepted %llu: %.2f a round\n", what, word[modes[m]], 1e6 / f[m].us_an_id,
               f[0].us_an_id / f[m].us_an_id, (ull)f[m].rounds, (ull)f[m].blocks,
               (ull)f[m].drafted, (ull)f[m].accepted, (f64)f[m].accepted / (f64)f[m].rounds);
    printf("    round by rows 1 2 3 5 9 16, us: %.0f %.0f %.0f %.0f %.0f %.0f; a lookup %.0f us\n",
           drafters_cost_us(1), drafters_cost_us(2), drafters_cost_us(3), drafters_cost_us(5),
           drafters_cost_us(9), drafters_cost_us(16),
           (f64)drafters_counted(DRAFTER_LOOKUP)->ask_us /
           (f64)MAX(drafters_counted(DRAFTER_LOOKUP)->asked, 1u));
}

static void start(u64 session)
{
    memset(&ask, 0, sizeof ask);
    ask.session = session;
    ask.max_tokens = 4096;
}

TEST(an_agent_that_repeats_files_and_one_text_that_never_does)
{
    const char *threads = getenv("BENCH_THREADS");
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_tokenizer();
    micro_open(&(struct micro_setup){
        .dir = getenv("BENCH_MODEL"), .block_rows = 256, .grid_rows = 1024, .ctx = 8192,
        .pool_bytes = 2 * GIB, .draft = DRAFT_AUTO, .draft_max = 15, .anchors = 16,
        .threads = threads != NULL ? (u32)atoi(threads) : UINT32_MAX });
    start(1);
    ask.id_count = put_file(ask.ids, 3000, "http/turn/decode.c", NULL, NULL);
    ask.id_count += put_file(ask.ids + ask.id_count, 1000, "http/turn/README.md", NULL, NULL);
    ask.forced_count = put_file(ask.forced, ANSWER, "http/turn/decode.c", "turn->", "row->");
    ask.forced_count += put_file(ask.forced + ask.forced_count, 100, "http/turn/README.md", NULL,
                                 NULL);
    compare("repetitive");
    start(2);
    ask.id_count = put_file(ask.ids, 3000, "tests/README.md", NULL, NULL);
    ask.forced_count = put_file(ask.forced, ANSWER, "budget/README.md", NULL, NULL);
    compare("nothing repeats");
    micro_close();
}
