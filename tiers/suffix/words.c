/* tiers/suffix/words.c - heads, records, and reading them back when anything may be wrong. */
#include "tiers/suffix/words.h"

#include "arena/base/crc32.h"

#include <string.h>

enum { HALF = 16 };
static const char magic[8] = "HFIDS";
#define HEAD_BIT 0x80000000u

void words_begin(u32 *to, const u8 tokenizer[16], u32 vocab, u64 number)
{
    struct words_file head = { .version = WORDS_VERSION, .vocab = vocab, .number = number };
    memcpy(head.magic, magic, sizeof head.magic);
    memcpy(head.tokenizer, tokenizer, sizeof head.tokenizer);
    head.crc = crc32_of(&head, offsetof(struct words_file, crc));
    memcpy(to, &head, sizeof head);
}

enum err words_check(const u32 *words, u64 bytes, const u8 tokenizer[16], u32 vocab,
                     u64 *number_out)
{
    struct words_file head;
    if (bytes < sizeof head) return fail(ERR_FORMAT, "%llu bytes hold no head", (ull)bytes);
    memcpy(&head, words, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.version != WORDS_VERSION)
        return fail(ERR_FORMAT, "no segment of version %d", WORDS_VERSION);
    if (head.crc != crc32_of(&head, offsetof(struct words_file, crc)))
        return fail(ERR_CRC, "the head's checksum is not its own");
    if (memcmp(head.tokenizer, tokenizer, sizeof head.tokenizer) != 0 || head.vocab != vocab)
        return fail(ERR_STALE, "ids of another tokenizer");
    *number_out = head.number;
    return OK;
}

/* ------------------------------------------------------------------ records */

static void session_words(const u64 session[2], u32 out[4])
{
    for (u32 i = 0; i < 4; i++) out[i] = HEAD_BIT | (u32)(session[i / 2] >> (i % 2 * 32));
}

static u32 record_crc(const struct words_record *r, const u32 *ids, u32 count)
{
    u32 crc = crc32_more(0, r, offsetof(struct words_record, crc));
    return crc32_more(crc, ids, count * sizeof *ids);
}

u64 words_put(u32 *to, const u64 session[2], const u32 *ids, u32 count)
{
    struct words_record r = { .mark = WORDS_MARK, .count = HEAD_BIT | count };
    ASSERT(count > 0 && count < HEAD_BIT);
    session_words(session, r.session);
    u32 crc = record_crc(&r, ids, count);
    r.crc[0] = HEAD_BIT | (crc & ((1u << HALF) - 1));
    r.crc[1] = HEAD_BIT | crc >> HALF;
    memcpy(to, &r, sizeof r);
    memcpy(to + WORDS_RECORD, ids, count * sizeof *ids);
    return (u64)WORDS_RECORD + count;
}

/* Words of the record that begins there, or 0: none does. */
static u64 record_words(const u32 *words, u64 left, struct words_record *r)
{
    if (left <= WORDS_RECORD) return 0;
    memcpy(r, words, sizeof *r);
    u64 count = r->count & ~HEAD_BIT;
    bool ours = r->mark == WORDS_MARK && (r->count & HEAD_BIT) != 0;
    return ours && count > 0 && count <= left - WORDS_RECORD ? WORDS_RECORD + count : 0;
}

/* Sound as a whole: every bit of its head, every id. */
static bool record_sound(const struct words_record *r, const u32 *ids, u64 count, u32 vocab)
{
    u32 crc = record_crc(r, ids, (u32)count), heads = HEAD_BIT, most = 0;
    if (r->crc[0] != (HEAD_BIT | (crc & ((1u << HALF) - 1)))) return false;
    if (r->crc[1] != (HEAD_BIT | crc >> HALF)) return false;
    for (u32 i = 0; i < 4; i++) heads &= r->session[i];
    for (u64 i = 0; i < count; i++) most = MAX(most, ids[i]);
    return heads != 0 && most < MIN(vocab, (u32)WORDS_ID_CAP);
}

u64 words_valid(const u32 *words, u64 count, u32 vocab, u64 *ids_out)
{
    struct words_record r;
    u64 at = WORDS_FILE, ids = 0, step;
    if (count < WORDS_FILE) return 0;
    while ((step = record_words(words + at, count - at, &r)) > 0) {     /* ends: at grows     */
        if (!record_sound(&r, words + at + WORDS_RECORD, step - WORDS_RECORD, vocab)) break;
        at += step;
        ids += step - WORDS_RECORD;
    }
    if (ids_out != NULL) *ids_out = ids;
    return at;
}

static bool of_session(const struct words_record *r, const u64 session[2])
{
    u32 words[4];
    session_words(session, words);
    return memcmp(r->session, words, sizeof words) == 0;
}

u64 words_without(const u32 *from, u64 count, const u64 session[2], u32 *to)
{
    struct words_record r;
    u64 at = WORDS_FILE, kept = WORDS_FILE, step;
    ASSERT(count >= WORDS_FILE);
    if (to != from) memcpy(to, from, WORDS_FILE * sizeof *to);
    while ((step = record_words(from + at, count - at, &r)) > 0) {      /* ends: at grows     */
        if (!of_session(&r, session)) {
            memmove(to + kept, from + at, step * sizeof *to);
            kept += step;
        }
        at += step;
    }
    return kept;
}

u64 words_of_session(const u32 *words, u64 count, const u64 session[2])
{
    struct words_record r;
    u64 at = WORDS_FILE, ids = 0, step;
    while (at < count && (step = record_words(words + at, count - at, &r)) > 0) {
        if (of_session(&r, session)) ids += step - WORDS_RECORD;
        at += step;                                             /* ends: at grows             */
    }
    return ids;
}
