/* tests/http/model.c - defaults of a model: what generation_config.json and a profile say. */
#include "http/chat/model.h"
#include "tests/test.h"

#include <string.h>

static struct profile_row profile;

static enum err fill(const char *config, struct chat_model *out)
{
    profile_defaults(&profile);
    return chat_model_fill(&profile, (struct text_span){ config, strlen(config) }, out);
}

TEST(sampling_defaults_come_from_the_generation_config)
{
    struct chat_model m;
    CHECK_OK(fill("{\"temperature\":0.2,\"top_k\":20,\"top_p\":0.9,\"do_sample\":true}", &m));
    CHECK(m.sampling.temperature == 0.2f && m.sampling.top_p == 0.9f && m.sampling.top_k == 20);
    CHECK(m.sampling.repetition_penalty == 1.0f && m.sampling.min_p == 0.0f);
    CHECK_OK(fill("", &m));
    CHECK(m.sampling.temperature == 1.0f && m.sampling.top_k == 0 && m.sampling.top_p == 1.0f);
    CHECK_OK(fill("{\"do_sample\":false,\"temperature\":0.7}", &m));
    CHECK(m.sampling.temperature == 0.0f);
    CHECK_EQ(fill("{\"temperature\":\"hot\"}", &m), ERR_FORMAT);
    CHECK(strstr(err_last()->text, "temperature") != NULL);
    CHECK_EQ(fill("{", &m), ERR_FORMAT);
}

TEST(effort_none_of_a_profile_is_thinking_off)
{
    struct chat_model m;
    CHECK_OK(fill("", &m));
    CHECK_EQ(m.normal.thinking, TEMPLATE_UNSET);
    CHECK_EQ(m.normal.effort, TEMPLATE_EFFORT_XHIGH);
    CHECK_EQ(m.stop_cap, 16);
    CHECK_EQ(m.json_depth, 64);
    profile.reasoning_effort = EFFORT_NONE;
    CHECK_OK(chat_model_fill(&profile, (struct text_span){ 0 }, &m));
    CHECK_EQ(m.normal.thinking, TEMPLATE_OFF);
}
