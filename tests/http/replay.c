/* tests/http/replay.c - reasoning dropped, arguments respelled, blanks and splits that no fresh
 * tokenisation gives, budgets, cuts: served ids are the rows', state equals their cold run. */
#include "tests/http/talk.h"

TEST(a_client_that_drops_reasoning_goes_on_at_the_end_of_every_answer)
{
    static u32 before[TALK_IDS];
    house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough.\n");
    add_message("system", "\"You are brief.\"");
    add_message("user", "\"What is a river?\"");
    for (u32 turn = 0; turn < 5; turn++) {
        u64 rows = talk.rows;
        memcpy(before, talk.served, sizeof before);
        say("I think of water that runs downhill, and of banks.\n</think>\n\nA long stream.");
        ask("", true);
        CHECK_STR(talk.content, "A long stream.");
        if (turn > 0) {
            check_goes_on(before, rows, "aligned");
            CHECK(talk.result.forwarded < 24);
            CHECK_EQ(talk.cached_tokens, talk.prompt_count > talk.result.forwarded
                     ? talk.prompt_count - talk.result.forwarded : 0);
        }
        keep_answer(false);
        add_message("user", "\"Tell me more.\"");
    }
    /* switched off, or for reasoning only: the prompt as sent */
    micro.profile.end_align_reasoning = ALIGN_OFF;
    say("Hm.\n</think>\n\nNo.");
    ask("", true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    CHECK_EQ(talk.result.cached + talk.result.forwarded, talk.prompt_count);
    CHECK_EQ(talk.result.reason, REASON_PARTED);
    CHECK(talk.result.part_pos != UINT64_MAX && talk.result.part_sent == talk.result.part_pos);
    micro.profile.end_align_reasoning = ALIGN_ON;
    micro.profile.end_align = false;
    ask("", true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    house_close();
}

TEST(an_aligned_prompt_that_would_not_fit_is_served_as_sent_and_says_so)
{
    house_open(&(struct micro_setup){ .ctx = 320, .reserve_tokens = 40 }, "\n\nEnough.\n");
    add_message("user", "\"Go\"");
    for (u32 i = 0; i < 22; i++) say("I think and think and think.");
    say("\n</think>\n\nYes.");
    ask("", true);
    keep_answer(false);
    add_message("user", "\"Go on\"");
    u64 rows = talk.rows;
    say("Now.\n</think>\n\nNo.");
    micro.profile.reserve_tokens = 320 - rows;
    ask("", true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    CHECK_STR(turn_reason_word[talk.result.reason], "context");
    CHECK_EQ(talk.result.cached + talk.result.forwarded, talk.prompt_count);
    house_close();
}

TEST(a_used_up_budget_closes_the_block_with_words_the_client_never_sees)
{
    static const u64 budgets[] = { 0, 1, 2, 64 };
    static u32 before[TALK_IDS];
    char more[64];
    for (u32 i = 0; i < COUNT_OF(budgets); i++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough of it.\n");
        add_message("user", "\"What is a river?\"");
        for (u32 turn = 0; turn < 4; turn++) {
            bool strip = turn % 2 == 0;
            u64 rows = talk.rows, spans = 0;
            memcpy(before, talk.served, sizeof before);
            for (u32 k = 0; k < 30; k++) say(" I think");
            say("\n</think>\n\nA long stream.");
            snprintf(more, sizeof more, ",\"thinking_budget\":%llu", (ull)budgets[i]);
            ask(more, true);
            CHECK_STR(talk.content, "A long stream.");
            CHECK(strstr(talk.reasoning, "Enough") == NULL);
            CHECK_EQ(talk.result.hidden, budgets[i] < 60 ? chat.close_hidden : 0);
            CHECK_EQ(talk.completion_tokens, talk.result.generated - talk.result.hidden);
            if (talk.result.hidden > 0) {
                u64 at = talk.result.cached + talk.result.forwarded + budgets[i];
                CHECK(memcmp(talk.served + at, closing.id, closing.count * sizeof(u32)) == 0);
            }
            const struct generation_list *list =
                record_generations(resident_record(talk.result.slot));
            for (u32 r = end_first(list); r != 0; r = end_next(r))
                spans += end_at(r)->kind == END_SPAN;
            CHECK_EQ(spans, talk.result.hidden > 0 ? turn + 1 : 0);
            if (turn > 0) {
                check_goes_on(before, rows, talk.result.hidden > 0 || turn % 2 == 1
                              ? "aligned" : turn_served_word[talk.result.served]);
                CHECK(talk.result.forwarded < 24);
            }
            keep_answer(!strip);
            add_message("user", "\"Tell me more.\"");
        }
        house_close();
    }
}

TEST(a_note_at_half_of_the_budget_and_the_phrase_are_both_put_back)
{
    static u32 before[TALK_IDS];
    for (u32 thoughts = 20; thoughts <= 40; thoughts += 10) {   /* two ids each; of 64        */
        house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough of it.\n");
        struct tokenizer_ids note = { 0 };
        CHECK_OK(tokenizer_encode(tokenizer, &(struct tokenizer_text){
            .bytes = "\n\nHalf is used.\n\n", .len = 17 }, &note));
        chat.note_ids = note.id;
        chat.note_count = (u32)note.count;
        add_message("user", "\"What is a river?\"");
        for (u32 turn = 0; turn < 4; turn++) {
            u64 rows = talk.rows, spans = 0, both = thoughts > 32 ? 2 : 1;
            memcpy(before, talk.served, sizeof before);
            for (u32 k = 0; k < thoughts; k++) say(" I think");
            say("\n</think>\n\nA long stream.");
            ask(",\"thinking_budget\":64", true);
            CHECK_STR(talk.content, "A long stream.");
            CHECK(strstr(talk.reasoning, "Half") == NULL);
            CHECK(strstr(talk.reasoning, "Enough") == NULL);
            CHECK_EQ(talk.result.hidden, note.count + (both == 2 ? chat.close_hidden : 0));
            u64 at = talk.result.cached + talk.result.forwarded + 32;
            CHECK(memcmp(talk.served + at, note.id, note.count * sizeof(u32)) == 0);
            const struct generation_list *list =
                record_generations(resident_record(talk.result.slot));
            for (u32 r = end_first(list); r != 0; r = end_next(r))
                spans += end_at(r)->kind == END_SPAN;
            CHECK_EQ(spans, both * (turn + 1));
            if (turn > 0) {
                check_goes_on(before, rows, "aligned");
                CHECK(talk.result.forwarded < 24);
            }
            keep_answer(turn % 2 == 1);
            add_message("user", "\"Tell me more.\"");
        }
        tokenizer_ids_close(&note);
        house_close();
    }
}

TEST(other_names_of_the_budget_and_no_budget)
{
    static const struct { const char *more; bool closed; } rows[] = {
        { ",\"reasoning_budget\":3", true },
        { ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":3}", true },
        { ",\"thinking_budget\":-1", false }, { ",\"thinking_budget\":null", false }, { "", false },
        { ",\"thinking_budget\":3,\"enable_thinking\":false", false },
    };
    for (u32 i = 0; i < COUNT_OF(rows); i++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough.\n");
        add_message("user", "\"Go\"");
        say("one two three four five six seven eight nine ten\n</think>\n\nYes.");
        ask(rows[i].more, true);
        CHECK_EQ(talk.result.hidden > 0, rows[i].closed);
        house_close();
    }
}

TEST(a_limit_inside_the_hidden_phrase_counts_what_the_client_sees)
{
    house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough of it by now.\n");
    add_message("user", "\"Go\"");
    say("one two three four five\n</think>\n\nYes and no.");
    ask(",\"thinking_budget\":2,\"max_tokens\":4", true);
    CHECK_EQ(talk.result.finish, FINISH_LENGTH);
    CHECK_EQ(talk.completion_tokens, 4);                /* two of reasoning, </think>, blanks */
    CHECK_EQ(talk.result.hidden, chat.close_hidden);
    CHECK_STR(talk.content, "");
    house_close();
}

/* One random answer: reasoning, content, calls; blanks and splits no template would write. */
static void random_answer(u64 seed, bool think)
{
    static const char *const blanks[] = { "\n\n", "\n", " ", " \n\n", "\n\n\n" };
    static const char *const texts[] = { "The river runs.", "Two  blanks, then\n\na line.",
                                         "caf\303\251", "1. one\n2. two", "x = [1, 2];" };
    static const char *const values[] = { "n>\n2.0", "n>\n1e2", "n>\n-0.50", "s>\nplain text\n",
        "s>\n<b>a</b>", "o>\n{\"b\": 1e2, \"1\": {\"x\": [1.50, 2]}, \"0\": true}", "2>\n7",
        "10>\n8",
        "n>\n9007199254740993", "o>\n{}" };
    u64 at = 0;
    char text[512];
    if (think) {
        const char *first = rng_u64(seed, at++) % 4 == 0 ? "\n" : "";
        const char *why = texts[rng_u64(seed, at++) % COUNT_OF(texts)];
        snprintf(text, sizeof text, "%s%s%s", first, why,
                 blanks[rng_u64(seed, at++) % COUNT_OF(blanks)]);
        if (rng_u64(seed, at++) % 2 == 0) say_split(text, seed);
        else say(text);
        say("</think>");
        say(blanks[rng_u64(seed, at++) % COUNT_OF(blanks)]);
    }
    u64 calls = rng_u64(seed, at++) % 4;
    calls = calls > 2 ? 0 : calls;
    if (calls == 0 || rng_u64(seed, at++) % 2 == 0) {
        const char *content = texts[rng_u64(seed, at++) % COUNT_OF(texts)];
        if (rng_u64(seed, at++) % 2 == 0) say_split(content, seed + 1);
        else say(content);
        if (calls > 0 || rng_u64(seed, at++) % 3 == 0)
            say(blanks[rng_u64(seed, at++) % COUNT_OF(blanks)]);
    }
    for (u64 i = 0; i < calls; i++) {
        u64 used = 0;
        if (i > 0) say(blanks[rng_u64(seed, at++) % COUNT_OF(blanks)]);
        say("<tool_call>\n<function=f>\n");
        for (u64 k = rng_u64(seed, at++) % 4; k > 0; k--) {
            u64 v = rng_u64(seed, at++) % COUNT_OF(values), key = (u64)1 << (values[v][0] % 64);
            if (used & key) continue;
            used |= key;
            snprintf(text, sizeof text, "<parameter=%s\n</parameter>\n", values[v]);
            say(text);
        }
        say("</function>\n</tool_call>");
    }
}

/* An anchor stands at the start of the newest user message and before the last id of the prompt. */
static void check_marks(u64 prompt_rows)
{
    u32 start = tokenizer_added(tokenizer, "<|im_start|>");
    struct anchor_list list = record_anchors(resident_record(talk.result.slot));
    u64 user = 0;
    for (u64 i = 0; i + 1 < prompt_rows; i++) {
        char bytes[64];
        struct text text;
        text_open(&text, bytes, sizeof bytes);
        tokenizer_decode(tokenizer, talk.served + i, MIN(prompt_rows - i, (u64)8), &text);
        if (talk.served[i] == start && strncmp(bytes, "<|im_start|>user\n", 17) == 0 &&
            strncmp(bytes, "<|im_start|>user\n<tool", 22) != 0) user = i;
    }
    if (user > talk.result.cached) CHECK(anchors_at(&list, user) != NONE);
    CHECK(anchors_at(&list, prompt_rows - 1) != NONE);
}

TEST(random_conversations_go_on_at_the_end_whatever_a_client_respells)
{
    static u32 before[TALK_IDS];
    u64 aligned = 0, turns = 0;
    for (u64 seed = 1; seed <= 12; seed++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX, .slot_count = 1 + seed % 2,
                                          .anchors = 200 }, "\n\nEnough.\n");
        u64 at = 0;
        bool think = rng_u64(seed, 1000) % 4 != 0, strip = rng_u64(seed, 1001) % 2 == 0;
        if (seed % 3 == 0) add_message("system", "\"Use f.\"");
        add_message("user", "\"Begin the work.\"");
        for (u32 turn = 0; turn < 6 && talk.rows < TALK_CTX - 700; turn++) {
            u64 rows = talk.rows;
            memcpy(before, talk.served, sizeof before);
            random_answer(seed * 100 + turn, think);
            ask(think ? TOOLS : TOOLS ",\"enable_thinking\":false", true);
            if (turn > 0 && talk.result.cached != rows)
                printf("seed %llu turn %u: %llu of %llu rows\n", (ull)seed, turn,
                       (ull)talk.result.cached, (ull)rows);
            if (turn > 0) check_goes_on(before, rows, turn_served_word[talk.result.served]);
            check_marks(talk.result.cached + talk.result.forwarded);
            aligned += talk.result.served == SERVED_ALIGNED;
            turns++;
            keep_answer(!strip);
            if (talk.call_count == 0 || rng_u64(seed, at++) % 4 == 0)
                add_message("user", "\"And then?\"");
        }
        house_close();
    }
    printf("%llu of %llu turns were aligned\n", (ull)aligned, (ull)turns);
    CHECK(aligned * 2 > turns);
}

TEST(edited_answers_and_other_calls_are_exact_too)
{
    for (u64 seed = 1; seed <= 12; seed++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX, .slot_count = 1 + seed % 2 },
                   "\n\nEnough.\n");
        add_message("user", "\"Begin the work.\"");
        for (u32 turn = 0; turn < 4; turn++) {
            random_answer(seed * 77 + turn, true);
            ask(TOOLS, true);               /* compares with the cold run */
            if (rng_u64(seed, turn) % 2 == 0) snprintf(talk.content, 64, "edited %u", turn);
            if (rng_u64(seed, 10 + turn) % 3 == 0 && talk.call_count > 0)
                snprintf(talk.call[0].sent, 64, "{\"s\": \"other\"}");
            if (rng_u64(seed, 20 + turn) % 3 == 0 && talk.call_count > 0) talk.call[0].id[7] ^= 1;
            keep_answer(rng_u64(seed, 30 + turn) % 2 == 0);
            add_message("user", "\"And then?\"");
        }
        house_close();
    }
}

/* A client that left keeps the text it got: cut in the content, the next turn goes on at the end,
 * reasoning sent back or not; cut in the reasoning, it goes on at the start of the answer. */
TEST(an_answer_that_its_client_left_goes_on_where_it_stands)
{
    static u32 before[TALK_IDS];
    for (u32 cut = 1; cut < 28; cut++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough.\n");
        add_message("user", "\"What is a river?\"");
        say("I think of water that runs downhill.\n</think>\n\n");
        u64 head = talk.answer.count;
        say("A long stream of water and of stones, with banks.");
        talk.cut = cut;
        ask("", true);
        u64 rows = talk.rows, prompt = talk.result.cached + talk.result.forwarded;
        memcpy(before, talk.served, sizeof before);
        CHECK_EQ(rows, prompt + cut - 1);
        keep_answer(cut % 2 == 0);
        add_message("user", "\"Go on.\"");
        say("Hm.\n</think>\n\nNo.");
        ask("", true);
        if (cut > head + 1) check_goes_on(before, rows, cut % 2 == 1 ? "aligned" : "sent");
        else CHECK(talk.result.cached + 1 >= prompt);
        house_close();
    }
}

/* An edit inside the newest answer: its reasoning was put back above the start, and is again. */
TEST(what_was_put_back_above_the_start_is_known_to_the_new_rows_too)
{
    static u32 before[TALK_IDS];
    house_open(&(struct micro_setup){ .ctx = TALK_CTX, .slot_count = 2 }, "\n\nEnough.\n");
    add_message("user", "\"What is a river?\"");
    for (u32 turn = 0; turn < 5; turn++) {
        u64 rows = talk.rows;
        memcpy(before, talk.served, sizeof before);
        say("I think of water and of banks.\n</think>\n\nA long stream of it.");
        ask("", true);
        if (turn == 2) {
            CHECK_EQ(talk.result.served, SERVED_ALIGNED);
            CHECK(talk.result.cached < rows);           /* it starts before the edited answer */
        } else if (turn > 0) {
            check_goes_on(before, rows, "aligned");
        }
        if (turn == 1) strcpy(talk.content, "A long stream, edited.");
        keep_answer(false);
        add_message("user", "\"Go on.\"");
    }
    house_close();
}

/* Templates that take the reasoning of past answers out on purpose: off unless asked for. */
TEST(a_template_that_strips_aligns_when_it_is_told_to)
{
    static u32 before[TALK_IDS];
    static const enum template_id ids[] = { TEMPLATE_36, TEMPLATE_35, TEMPLATE_35_SMALL };
    for (u32 i = 0; i < COUNT_OF(ids); i++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough.\n");
        chat.template_id = ids[i];
        add_message("user", "\"What is a river?\"");
        for (u32 turn = 0; turn < 4; turn++) {
            u64 rows = talk.rows;
            memcpy(before, talk.served, sizeof before);
            say("I think of water.\n</think>\n\nA long stream.");
            ask(",\"enable_thinking\":true", true);
            if (turn > 0) check_goes_on(before, rows, "aligned");
            keep_answer(true);
            add_message("user", "\"Go on.\"");
        }
        house_close();
    }
}
