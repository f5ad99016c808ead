/* tests/fuzz/suffix.c - seeded mutations of the log's files: a start that is clean and holds only
 * ids of the vocabulary, or no segment; the words' reader alone on anything.
 *
 * HOLDFAST_FUZZ_S=N runs N seconds a test instead of 2. */
#include "tests/suffix.h"

enum { WORDS = 4096, FILE_BYTES = 1 << 15 };

static u64 seed, drawn;
static u32 words[WORDS], cut[WORDS];
static u8 file[FILE_BYTES];

static u64 roll(u64 below) { return rng_u64(seed, drawn++) % below; }

static u64 until_us(void)
{
    const char *text = getenv("HOLDFAST_FUZZ_S");
    return clock_us() + 1000000 * (text != NULL ? strtoull(text, NULL, 10) : 2);
}

/* Whole records of a few sessions. */
static u64 draw_records(void)
{
    u32 ids[300];
    u64 count = WORDS_FILE, most = 400 + roll(2000);
    words_begin(words, store_tokenizer, STORE_VOCAB, 1);
    while (count + 320 < most) {
        u64 session[2] = { roll(3), 5 }, length = 1 + roll(300);
        for (u64 i = 0; i < length; i++) ids[i] = (u32)roll(STORE_VOCAB);
        count += words_put(words + count, session, ids, (u32)length);
    }
    return count;
}

/* Words changed, heads copied about, parts moved, cut. */
static u64 mutate(u64 count)
{
    for (u64 n = 1 + roll(5); n > 0; n--) {
        u64 at = roll(count), run = 1 + roll(30), from = roll(count);
        switch (roll(6)) {
        case 0: words[at] ^= 1u << roll(32); break;
        case 1: words[at] = (u32)roll(1ull << 32); break;
        case 2: words[at] = WORDS_MARK; break;
        case 3: words[at] = 0x80000000u | (u32)roll(WORDS); break;
        case 4:
            run = MIN(run, count - MAX(at, from));
            memmove(words + at, words + from, run * sizeof *words);
            break;
        default: count = roll(4) == 0 ? at : count;
        }
        if (count == 0) return 0;
    }
    return count;
}

TEST(the_reader_takes_anything_and_gives_whole_records_of_the_vocabulary)
{
    u64 end_us = until_us(), rounds = 0, kept = 0;
    for (seed = 1; clock_us() < end_us; seed++, rounds++) {
        drawn = 0;
        u64 count = mutate(draw_records()), ids = 0, number, session[2] = { roll(3), 5 };
        bool head = words_check(words, count * 4, store_tokenizer, STORE_VOCAB, &number) == OK;
        CHECK(!head || number == 1);
        u64 valid = words_valid(words, count, STORE_VOCAB, &ids), seen = 0;
        CHECK(valid <= count && ids <= valid);
        for (u64 i = WORDS_FILE; i < valid; i++) {
            CHECK(words_id(words[i]) ? words[i] < STORE_VOCAB : words[i] >= 0x80000000u);
            seen += words_id(words[i]);
        }
        CHECK_EQ(seen, ids);
        if (valid < WORDS_FILE) continue;
        u64 of = words_of_session(words, valid, session), left_ids = 0;
        u64 left = words_without(words, valid, session, cut);
        CHECK_EQ(words_valid(cut, left, STORE_VOCAB, &left_ids), left);
        CHECK_EQ(left_ids, ids - of);
        kept += ids;
    }
    CHECK(rounds > 100 && kept > 0);
}

TEST(a_start_over_mutated_files_is_sound)
{
    u64 end_us = until_us(), rounds = 0, found = 0;
    char path[FILE_PATH_BYTES];
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = 48 * 3000 * 4, .files = true });
    store_close();                          /* the folder is there                            */
    for (seed = 1; clock_us() < end_us; seed++, rounds++) {
        u32 out[8], match, context[40];
        drawn = 0;
        for (u64 number = 1; number < 4; number++) {
            char name[FOLDER_NAME_BYTES];
            u64 count = draw_records();
            words_begin(words, store_tokenizer, STORE_VOCAB, number);
            count = mutate(count);
            u64 bytes = count * 4 + roll(4);
            memcpy(file, words, MIN(bytes, sizeof words));
            suffix_folder_name(number, name);
            store_path(name, path);
            CHECK_OK(file_commit(path, file, bytes, 0600));
        }
        store_open(&(struct store_setup){ .cap_bytes = 48 * 3000 * 4, .files = true });
        CHECK(suffix_log_counts().files);
        store_settle();
        segment_check();
        found += suffix_log_counts().found;
        store_draw(context, 40, 60, seed);
        for (u32 i = 0; i < 20; i++) context[20 + i] = words[WORDS_FILE + WORDS_RECORD + i];
        for (u32 i = 0; i < 40; i++) context[i] &= 0xffff;
        u32 count = lookup_propose(&(struct lookup_context){ context, 40 }, 8, out, &match);
        for (u32 i = 0; i < count; i++) CHECK(out[i] < 0x10000);
        store_close();
    }
    CHECK(rounds > 10 && found > 0);
    store_remove_folder();
}
