/* http/cli/run.c - the engine without HTTP: this thread asks, and moves the engine's passes itself.
 *
 * A turn is the chat request a client would send, so templates, sampling and caching are the
 * server's: the second turn of a chat forwards only what is new.  Ctrl-C cancels the answer that is
 * under way, as a client that hangs up would; a second one before it ends kills the program.  A
 * terminal gets the answer by `screen`: what would act on it is shown. */
#include "http/cli/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "arena/heap.h"
#include "http/chat/reply.h"
#include "http/cli/line.h"
#include "http/cli/screen.h"
#include "http/cli/start.h"
#include "http/turn/engine.h"

enum { STDIN_BYTES = 16 << 20, ANSWER_BYTES = 64 << 20 };

static struct {
    const struct options *o;
    struct chat_model chat;
    struct json_out history;            /* messages so far, without the closing bracket       */
    u64  turns;
    bool progress;                      /* a line about the prefill stands on stderr          */
    bool cancelled;                     /* the last answer was                                */
} run;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---------------------------------------------------------------- asking */
static void put_message(const char *role, const char *text, u64 bytes, const char *reasoning,
                        u64 reasoning_bytes)
{
    json_put_object(&run.history);
    json_put_key(&run.history, "role");
    json_put_cstr(&run.history, role);
    json_put_key(&run.history, "content");
    json_put_str(&run.history, text, bytes);
    if (reasoning_bytes > 0) {
        json_put_key(&run.history, "reasoning_content");
        json_put_str(&run.history, reasoning, reasoning_bytes);
    }
    json_put_object_end(&run.history);
}

static void put_real(struct json_out *out, const char *key, f64 value, bool given)
{
    if (!given) return;
    json_put_key(out, key);
    json_put_f64(out, value);
}

static void put_count(struct json_out *out, const char *key, u64 value, bool given)
{
    if (!given) return;
    json_put_key(out, key);
    json_put_u64(out, value);
}

/* The chat request of the messages so far. */
static void put_body(struct json_out *out)
{
    const struct options *o = run.o;
    json_put_object(out);
    json_put_key(out, "messages");
    json_put_array(out);
    json_put_raw(out, run.history.text, run.history.bytes);
    json_put_array_end(out);
    put_real(out, "temperature", o->temperature, o->temperature >= 0);
    put_real(out, "top_p", o->top_p, o->top_p >= 0);
    put_real(out, "min_p", o->min_p, o->min_p >= 0);
    put_real(out, "repetition_penalty", o->repetition_penalty, o->repetition_penalty >= -2);
    put_real(out, "presence_penalty", o->presence_penalty, o->presence_penalty >= -2);
    put_real(out, "frequency_penalty", o->frequency_penalty, o->frequency_penalty >= -2);
    put_count(out, "top_k", o->top_k, o->top_k != NONE);
    put_count(out, "seed", o->seed + run.turns, o->seed != UINT64_MAX);
    put_count(out, "max_tokens", o->max_tokens, o->max_tokens > 0);
    if (o->think || o->no_think) {
        json_put_key(out, "chat_template_kwargs");
        json_put_object(out);
        json_put_key(out, "enable_thinking");
        json_put_bool(out, o->think);
        json_put_object_end(out);
    }
    json_put_object_end(out);
}

/* ---------------------------------------------------------------- one turn */
struct answer {
    struct request request;
    struct submit_row *row;
    struct reply reply;                 /* --json                                             */
    struct tools *tools;                /* text                                               */
    struct tools_events events;
    struct text content, reasoning;
    u32 submit;
};

static void clear_progress(void)
{
    if (run.progress) fputs("\r\033[K", stderr);
    run.progress = false;
}

static void show_progress(const struct submit_row *row)
{
    if (!isatty(STDERR_FILENO) || atomic_load(&row->state) != SUBMIT_PREFILL) return;
    u64 done = atomic_load(&row->progress), all = MAX(row->id_count, 1u);
    fprintf(stderr, "\rreading %llu of %llu tokens, %llu %%", (ull)done, (ull)all,
            (ull)(100 * done / all));
    run.progress = true;
}

/* Events of the parser to the terminal and into the history. */
static void show_events(struct answer *a)
{
    for (u32 i = 0; i < a->events.count; i++) {
        const struct tools_event *e = &a->events.rows[i];
        const char *text = a->events.text.data + e->start;
        if (e->len == 0) continue;
        if (e->kind == TOOLS_REASONING) {
            text_put(&a->reasoning, text, e->len);
            screen_put(stderr, text, e->len);
        } else if (e->kind == TOOLS_CONTENT) {
            if (a->content.len == 0 && a->reasoning.len > 0) fputs("\n\n", stderr);
            text_put(&a->content, text, e->len);
            screen_put(stdout, text, e->len);
        }
    }
    if (a->events.count > 0) fflush(stdout);
    tools_events_clear(&a->events);
}

static enum err take_ids(struct answer *a)
{
    u32 id;
    const struct vocab *vocab = tokenizer_vocab(run.chat.tokenizer);
    while (ring_pop(&a->row->out, &id)) {
        clear_progress();
        if (run.o->json) {
            reply_ids(&a->reply, &id, 1);
            continue;
        }
        struct vocab_piece piece = vocab_piece(vocab, id);
        TRY(tools_feed(a->tools, piece.bytes, piece.len, vocab_kind(vocab, id), &a->events));
        show_events(a);
    }
    submit_drained();
    return OK;
}

static enum err open_answer(struct answer *a)
{
    text_open_growing(&a->content, &chat_model_heap, ANSWER_BYTES);
    text_open_growing(&a->reasoning, &chat_model_heap, ANSWER_BYTES);
    tools_events_open(&a->events, &chat_model_heap);
    if (run.o->json) return reply_open(&a->reply, &run.chat, &a->request, a->row);
    struct tools_options options = { .think_open = a->request.think_open, .id_prefix = "call_" };
    return tools_open(&options, &chat_model_heap, &a->tools);
}

static void close_answer(struct answer *a)
{
    if (a->submit != NONE) submit_release(a->submit);
    reply_close(&a->reply);
    tools_close(a->tools);
    tools_events_close(&a->events);
    text_close(&a->content);
    text_close(&a->reasoning);
    request_close(&a->request);
}

static enum err finish(struct answer *a)
{
    const struct turn_result *result = &a->row->result;
    clear_progress();
    if (result->finish == FINISH_ERROR) return fail(result->error, "%s", result->error_text);
    if (run.o->json) {
        reply_end(&a->reply, result);
        screen_put(stdout, a->reply.out.data, a->reply.out.len);
        fputc('\n', stdout);
        return a->reply.error;
    }
    TRY(tools_finish(a->tools, &a->events));
    show_events(a);
    if (a->reasoning.len > 0 && a->content.len == 0) fputc('\n', stderr);
    fputc('\n', stdout);
    fflush(stdout);
    run.cancelled = result->finish == FINISH_CANCELLED;
    if (run.cancelled) fputs("(cancelled)\n", stderr);
    put_message("assistant", a->content.data, a->content.len, a->reasoning.data,
                a->reasoning.len);
    return OK;
}

static enum err drive(struct answer *a)
{
    a->submit = submit_take();
    if (a->submit == NONE) return fail(ERR_FULL, "no free row for the turn");
    a->row = submit_at(a->submit);
    request_fill(&a->request, a->row);
    a->row->arrival_us = clock_us();
    TRY(open_answer(a));
    TRY(submit_push(a->submit));
    /* The first Ctrl-C is noted, the next one has its default way; one since the line was read
     * counts. */
    struct sigaction note = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND }, before;
    interrupted = 0;
    sigaction(SIGINT, &note, &before);
    if (line_interrupted()) raise(SIGINT);
    enum err err = OK;
    while (atomic_load(&a->row->state) != SUBMIT_DONE) {
        engine_pass();
        if (err == OK) err = take_ids(a);
        if (err != OK || interrupted) submit_cancel(a->submit);
        if (err == OK) show_progress(a->row);
    }
    sigaction(SIGINT, &before, NULL);
    if (err == OK) err = take_ids(a);
    return err == OK ? finish(a) : err;
}

static enum err ask(void)
{
    static struct answer a;
    struct json_out body = { 0 };
    struct refusal refusal = { 0 };
    put_body(&body);
    TRY(json_out_check(&body));
    struct request_source source = { .body = body.text, .body_bytes = body.bytes };
    memset(&a, 0, sizeof a);
    a.submit = NONE;
    enum err err = OK;
    if (!request_chat(&run.chat, &source, &a.request, &refusal))
        err = fail(ERR_FORMAT, "%s", refusal.message);
    else {
        err = drive(&a);
        close_answer(&a);
    }
    json_out_close(&body);
    run.turns++;
    return err;
}

/* ---------------------------------------------------------------- prompts */
static enum err ask_text(const char *text, u64 bytes)
{
    put_message("user", text, bytes, NULL, 0);
    return ask();
}

/* All of standard input, without the line ends behind it. */
static enum err ask_stdin(void)
{
    char *text = arena_heap_alloc(STDIN_BYTES);
    if (text == NULL) return fail(ERR_MEMORY, "no memory for the prompt");
    u64 bytes = fread(text, 1, STDIN_BYTES, stdin);
    enum err err = OK;
    if (ferror(stdin)) err = fail(ERR_IO, "standard input: %s", strerror(errno));
    else if (bytes == STDIN_BYTES)
        err = fail(ERR_LIMIT, "standard input: a prompt of at most %d bytes", STDIN_BYTES - 1);
    while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r')) bytes--;
    if (err == OK && bytes == 0)
        err = fail(ERR_USAGE, "standard input is empty: give a prompt there or with -p TEXT");
    if (err == OK) err = ask_text(text, bytes);
    arena_heap_free(text);
    return err;
}

static enum err converse(void)
{
    enum line_event event = LINE_TEXT;
    const char *text;
    u64 bytes;
    enum err err = line_open();
    while (err == OK && event != LINE_END) {            /* ends: the terminal's end of input  */
        err = line_read("> ", STDIN_BYTES, &event, &text, &bytes);
        if (err == OK && event == LINE_TEXT && bytes > 0) err = ask_text(text, bytes);
    }
    line_close();
    fputc('\n', stderr);
    return err;
}

static enum err work(const struct options *o)
{
    TRY(start_plan(&o->profile));
    TRY(start_arenas());
    TRY(start_load());
    TRY(start_engine());
    start_chat(&run.chat);
    if (o->system[0] != 0) put_message("system", o->system, strlen(o->system), NULL, 0);
    if (!o->prompt_given && isatty(STDIN_FILENO)) return converse();
    TRY(o->prompt_given ? ask_text(o->prompt, strlen(o->prompt)) : ask_stdin());
    return run.cancelled ? fail(ERR_CANCELLED, "the answer was cancelled") : OK;
}

enum err run_run(const struct options *o)
{
    run.o = o;
    u32 level = o->profile.log_level;
    log_level_set(level == LOG_LEVEL_INFO ? LOG_LEVEL_WARN : (enum log_level)level);
    enum err err = work(o);
    json_out_close(&run.history);
    start_close();
    return err;
}
