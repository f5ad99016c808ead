/* tests/http/cases_copies.c - K37-K40, K43: how a past answer comes back, what the client adds. */
#include "tests/http/talk.h"

/* A turn with reasoning, then its answer as `message`; the rows it left are in `before`. */
static void one_turn(const char *message, u32 *before, u64 *rows)
{
    house_open(&(struct micro_setup){ .ctx = TALK_CTX, .anchors = 200 }, "\n\nEnough.\n");
    add_message("user", "\"What is a river?\"");
    say("Water that runs downhill.\n</think>\n\nA long stream.");
    ask("", true);
    memcpy(before, talk.served, talk.rows * sizeof *before);
    *rows = talk.rows;
    strcat(talk.messages, message);
    add_message("user", "\"Tell me more.\"");
}

TEST(K37_reasoning_that_comes_back_dropped_empty_or_whole_resumes_at_the_end)
{
    static const char *const copies[] = {
        ",{\"role\":\"assistant\",\"content\":\"A long stream.\","
            "\"reasoning_content\":\"Water that runs downhill.\"}",
        ",{\"role\":\"assistant\",\"content\":\"A long stream.\"}",
        ",{\"role\":\"assistant\",\"content\":\"A long stream.\",\"reasoning_content\":\"\"}",
        ",{\"role\":\"assistant\",\"content\":\"\\nA long stream. \",\"reasoning\":\"\"}",
    };
    static u32 before[TALK_IDS];
    u64 rows;
    for (u32 i = 0; i < COUNT_OF(copies); i++) {
        one_turn(copies[i], before, &rows);
        ask("", true);
        check_goes_on(before, rows, i == 0 ? "sent" : "aligned");
        house_close();
    }
    /* thinking off: the effort line in the head is gone, so the copy parts there */
    one_turn(copies[1], before, &rows);
    ask(",\"enable_thinking\":false", true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    CHECK(talk.result.cached <= talk.result.part_pos && talk.result.part_pos < 4);
    house_close();
}

/* The call of one turn comes back as `arguments`; part_pos in rows, or U64_MAX. */
static void call_turn(const char *arguments, u32 *before, u64 *rows)
{
    char message[1024];
    house_open(&(struct micro_setup){ .ctx = TALK_CTX, .anchors = 200 }, "\n\nEnough.\n");
    add_message("user", "\"Read it.\"");
    say("I read.\n</think>\n\n<tool_call>\n<function=f>\n<parameter=s>\nsrc/a.c\n</parameter>\n"
        "<parameter=n>\n2.0\n</parameter>\n<parameter=10>\n7\n</parameter>\n</function>\n"
        "</tool_call>");
    ask(TOOLS, true);
    CHECK_EQ(talk.call_count, 1);
    CHECK_STR(talk.call[0].sent, "{\"s\": \"src/a.c\", \"n\": 2.0, \"10\": 7}");
    memcpy(before, talk.served, talk.rows * sizeof *before);
    *rows = talk.rows;
    snprintf(message, sizeof message, ",{\"role\":\"assistant\",\"content\":null,"
             "\"reasoning_content\":\"I read.\",\"tool_calls\":[{\"id\":\"%s\",\"type\":"
             "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"%s\"}}]},{\"role\":"
             "\"tool\",\"tool_call_id\":\"%s\",\"content\":\"int x;\"}", talk.call[0].id, arguments,
             talk.call[0].id);
    strcat(talk.messages, message);
}

TEST(K43_a_call_inside_the_think_block_is_a_call_and_rows_and_copy_agree)
{
    static u32 before[TALK_IDS];
    for (u32 strip = 0; strip < 2; strip++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX, .anchors = 200 }, "\n\nEnough.\n");
        add_message("user", "\"Read it.\"");
        for (u32 turn = 0; turn < 3; turn++) {
            u64 rows = talk.rows;
            memcpy(before, talk.served, sizeof before);
            say("I read it\nnow.\n<tool_call>\n<function=f>\n<parameter=s>\na.c\n</parameter>\n"
                "</function>\n</tool_call>");
            ask(TOOLS, true);
            CHECK_STR(talk.reasoning, "I read it\nnow.");
            CHECK_STR(talk.content, "");
            CHECK_EQ(talk.call_count, 1);
            CHECK_STR(talk.call[0].sent, "{\"s\": \"a.c\"}");
            if (turn > 0) check_goes_on(before, rows, "aligned");
            keep_answer(strip == 0);
        }
        house_close();
    }
}

/* Hash of the ids that the messages render to. */
static u64 rendered(const char *more)
{
    static char body[TALK_BYTES + 4096];
    static struct request q;
    struct refusal refusal = { 0 };
    snprintf(body, sizeof body, "{\"messages\":[%s]%s}", talk.messages, more);
    CHECK(request_chat(&chat, &(struct request_source){ .body = body,
                                                        .body_bytes = strlen(body) },
                       &q, &refusal));
    u64 hash = hash_64(q.ids.id, q.ids.count * sizeof *q.ids.id);
    request_close(&q);
    return hash;
}

TEST(K38_a_call_comes_back_respelled_at_the_end_and_reordered_at_the_line_before_it)
{
    static const char *const same[] = {
        "{\\\"s\\\": \\\"src/a.c\\\", \\\"n\\\": 2.0, \\\"10\\\": 7}",
        "{\\\"10\\\":7,\\\"s\\\":\\\"src/a.c\\\",\\\"n\\\":2}",
    };
    static u32 before[TALK_IDS];
    u64 rows;
    for (u32 i = 0; i < COUNT_OF(same); i++) {
        call_turn(same[i], before, &rows);
        ask(TOOLS, true);
        check_goes_on(before, rows, i == 0 ? "sent" : "aligned");
        u64 first = rendered(TOOLS);            /* the same request, the same ids */
        for (u32 k = 0; k < 100; k++) CHECK_EQ(rendered(TOOLS), first);
        house_close();
    }
    call_turn("{\\\"n\\\": 2.0, \\\"s\\\": \\\"src/a.c\\\", \\\"10\\\": 7}", before, &rows);
    u64 last = talk.result.cached + talk.result.forwarded - 1;
    ask(TOOLS, true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    CHECK_EQ(talk.result.cached, last);         /* the anchor before the answer */
    CHECK_EQ(talk.result.cached + talk.result.forwarded, talk.prompt_count);
    u32 open = tokenizer_added(tokenizer, "<tool_call>"), close = tokenizer_added(tokenizer,
                                                                                 "</tool_call>");
    u64 lo = last, hi = 0;
    while (lo < rows && before[lo] != open) lo++;
    for (hi = lo; hi < rows && before[hi] != close;) hi++;
    CHECK(talk.result.part_pos > lo && talk.result.part_pos < hi);
    CHECK_EQ(talk.result.part_sent, talk.result.part_pos);
    house_close();
}

/* The system text behind a first block that holds what changes from request to request. */
static void system_billed(const char *nonce)
{
    static char all[2 * TALK_BYTES];
    static const char before[] = "{\"role\":\"system\",\"content\":";
    const char *text = TALK_SYSTEM > 0 ? talk.messages + strlen(before) : "\"Be brief.\"}";
    snprintf(all, sizeof all, "%s[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: cc=1; "
             "cch=%s;\"},{\"type\":\"text\",\"text\":%s]}", before, nonce, text);
    CHECK(strlen(all) < sizeof talk.messages);
    strcpy(talk.messages, all);
}

TEST(K39_a_session_with_another_billing_line_forwards_one_token_of_the_same_prompt)
{
    static const char *const nonce[] = { "0a1b2", "ff003" };
    static char head[TALK_BYTES];
    u64 count = 0;
    house_open(&(struct micro_setup){ .ctx = TALK_CTX, .anchors = 200 }, "\n\nEnough.\n");
    strcpy(head, talk.messages);
    for (u32 i = 0; i < COUNT_OF(nonce); i++) {
        strcpy(talk.messages, head);
        system_billed(nonce[i]);
        add_message("user", "\"What is a river?\"");
        say("Water.\n</think>\n\nA long stream.");
        ask("", true);
        CHECK_EQ(talk.result.served, SERVED_SENT);
        CHECK_EQ(talk.result.cached, i == 0 ? 0 : count - 1);
        CHECK(i == 0 || talk.prompt_count == count);
        count = talk.prompt_count;
        session++;
    }
    add_message("user", "\"x-anthropic-billing-header: cc=1; cch=0a1b2;\"");
    u64 one = rendered("");
    talk.messages[strlen(talk.messages) - strlen("2;\"}")] = '3';
    CHECK(rendered("") != one);                 /* in any other place it is text              */
    house_close();
}

TEST(K40_a_system_message_after_the_third_turn_keeps_its_place_and_reuses_all_before_it)
{
    static u32 before[TALK_IDS];
    u64 rows = 0;
    house_open(&(struct micro_setup){ .ctx = TALK_CTX, .anchors = 200 }, "\n\nEnough.\n");
    for (u32 turn = 0; turn < 4; turn++) {
        if (turn == 3) add_message("system", "\"Note: the file has changed.\"");
        add_message("user", "\"Tell me more.\"");
        say("Water.\n</think>\n\nA long stream.");
        ask("", true);
        if (turn > 0) check_goes_on(before, rows, "sent");
        memcpy(before, talk.served, sizeof before);
        rows = talk.rows;
        keep_answer(true);
    }
    house_close();
}
