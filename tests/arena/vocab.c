/* tests/arena/vocab.c - the piece table, and the digest that names a template. */
#include "tests/test.h"

#include "arena/base/sha256.h"
#include "arena/base/vocab.h"

#include <string.h>

TEST(pieces_and_kinds_come_back_by_id)
{
    _Alignas(8) u8 memory[256];
    struct vocab v;
    CHECK(vocab_bytes(3, 9) <= sizeof memory);
    vocab_open(&v, memory, 3, 9);
    CHECK_OK(vocab_put(&v, "ab", 2, VOCAB_TEXT));
    CHECK_OK(vocab_put(&v, "<think>", 7, VOCAB_THINK_OPEN));
    CHECK(vocab_put(&v, "x", 1, VOCAB_TEXT) == ERR_FULL);
    CHECK_OK(vocab_put(&v, NULL, 0, VOCAB_PADDING));
    CHECK(vocab_put(&v, NULL, 0, VOCAB_PADDING) == ERR_FULL);
    struct vocab_piece p = vocab_piece(&v, 1);
    CHECK(p.len == 7 && memcmp(p.bytes, "<think>", 7) == 0);
    CHECK(vocab_piece(&v, 2).len == 0);
    CHECK(vocab_kind(&v, 0) == VOCAB_TEXT && vocab_kind(&v, 1) == VOCAB_THINK_OPEN);
    CHECK(vocab_kind(&v, 2) == VOCAB_PADDING);
}

TEST(sha256_gives_the_standards_digests)
{
    char hex[65];
    sha256_hex("", 0, hex);
    CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_hex("abc", 3, hex);
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    CHECK_STR(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    static char as[1000];
    memset(as, 'a', sizeof as);
    sha256_hex(as, 1000, hex);
    CHECK_STR(hex, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}
