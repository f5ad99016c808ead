/* tests/model/nfc.c - what the tokenizer leaves to utf8proc, and what it may skip. */
#include "model/text/tokenizer.c"
#include "tests/test.h"

#include <stdlib.h>

static bool one_is_skipped(u32 c)
{
    char bytes[4];
    return !nfc_may_change(bytes, text_utf8_encode(c, bytes));
}

TEST(skipped_code_points_stand_alone_and_never_come_second_in_a_composition)
{
    u32 skipped = 0;
    for (i32 c = 0; c <= 0x10FFFF; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        const utf8proc_property_t *p = utf8proc_get_property(c);
        i32 parts[8], last = 0;
        i32 count = (i32)utf8proc_decompose_char(c, parts, 8, UTF8PROC_DECOMPOSE, &last);
        CHECK(count >= 1 && count <= 8);
        for (i32 i = 1; i < count; i++)         /* Hangul is composed from jamo, none of them in */
            if (one_is_skipped((u32)parts[i])) test_failed(__FILE__, __LINE__, "U+%04X", c);
        if (!one_is_skipped((u32)c)) continue;
        skipped++;
        char bytes[5] = { 0 };
        u32 len = text_utf8_encode((u32)c, bytes);
        u8 *made = NULL;
        i64 made_len = utf8proc_map((const u8 *)bytes, len, &made,
                                    UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (p->combining_class != 0 || made_len != len || memcmp(made, bytes, len) != 0)
            test_failed(__FILE__, __LINE__, "U+%04X is changed", c);
        free(made);
    }
    CHECK(skipped > 30000);
}

TEST(white_space_is_written_out_in_the_pattern)
{
    char bytes[512];
    struct text t;
    text_open(&t, bytes, sizeof bytes);
    pattern_for_pcre2("[^\\s\\p{L}]|\\s+(?!\\S)|\\\\s", &t);
    CHECK_STR(t.data, "[^" WHITE_SPACE "\\p{L}]|[" WHITE_SPACE "]+(?![^" WHITE_SPACE "])|\\\\s");
}
