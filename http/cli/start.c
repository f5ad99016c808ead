/* http/cli/start.c - sizes, arenas and graph of a serving process, in order. */
#include "http/cli/start.h"

#include <stdio.h>
#include <string.h>

#include "arena/base/clock.h"
#include "arena/base/hash.h"
#include "arena/base/log.h"
#include "arena/heap.h"
#include "budget/gate.h"
#include "http/cli/corpus.h"
#include "http/turn/command.h"
#include "http/turn/drafters.h"
#include "http/turn/engine.h"
#include "http/turn/stop.h"
#include "http/turn/turn.h"
#include "model/forward.h"
#include "model/gguf.h"
#include "model/model.h"
#include "model/slot.h"
#include "model/weights.h"
#include "tiers/response.h"
#include "tiers/suffix/segment.h"

enum { EXTRA_DECLS = 4, CTX_LEAST = 256 };

static struct {
    struct profile_row profile;
    struct model_room room;
    struct budget_graph graph;
    struct tokenizer *tokenizer;
    enum template_id template_id;
    struct tokenizer_ids close;         /* the phrase that closes a think block, and </think> */
    struct tokenizer_ids note;          /* the hidden note inside one                         */
    u32 close_hidden;
    u64 table_bytes;
    bool heap, engine, arenas;
} start;

static u32 turn_rows(void) { return MIN(start.profile.turns, start.profile.submits); }

/* Rows of one conversation, of what the board has left after everything fixed, one section set a
 * slot and the anchors' reserve. */
static enum err plan_ctx(void)
{
    const struct state_shape *layout = model_layout();
    const struct profile_row *p = &start.profile;
    u32 slots = p->parallel + engine_guest_slots(p);
    u64 fixed = model_fixed_bytes(drafters_rows(p, slots)) + p->heap_cap_bytes +
                p->tables_cap_bytes;
    u64 unit = ALIGN_UP(layout->section_bytes, 64 * KIB);
    u64 reserve = MIN((5ull + p->parallel - 1) * unit, p->resident_bytes);
    u64 work = engine_suffix_arena(p) > 0 ? segment_work_bytes(engine_suffix_cap(p)) : 0;
    u64 taken = fixed + (u64)p->parallel * unit + reserve + work;
    u64 most = model_shape()->ctx_max;
    if (taken >= p->board_bytes)
        return fail(ERR_CONFIG, "profile %s: board-gb pays for %llu MiB, but weights, buffers and "
                    "the reserve of %s need %llu MiB", p->profile, (ull)(p->board_bytes / MIB),
                    model_name(), (ull)(taken / MIB));
    u64 block = ALIGN_UP(layout->block_bytes, 4 * KIB);
    u64 rows = (p->board_bytes - taken) / block * layout->block_rows;
    /* every further slot appends to a block of its own */
    u64 others = (u64)p->parallel * layout->block_rows;
    rows = rows > others ? rows - others : 0;
    u64 paid = MIN(rows, most);
    if (p->ctx > most)
        return fail(ERR_CONFIG, "--ctx %llu: %s was made for at most %llu tokens", (ull)p->ctx,
                    model_name(), (ull)most);
    if (p->ctx > paid)
        return fail(ERR_CONFIG, "--ctx %llu: board-gb pays for %llu rows of %s at most",
                    (ull)p->ctx, (ull)paid, model_name());
    u64 ctx = p->ctx > 0 ? p->ctx : paid;
    if (ctx < CTX_LEAST && ctx < most)
        return fail(ERR_CONFIG, "ctx would be %llu: at least %d rows are needed; raise board-gb "
                    "or --ctx", (ull)ctx, CTX_LEAST);
    start.room = (struct model_room){ .slot_count = slots, .ctx_rows = ctx,
                                      .pool_bytes = p->board_bytes,
                                      .pack_folder = p->pack_cache && p->cache_dir[0] != 0
                                                     ? p->cache_dir : NULL,
                                      .verify_rows = drafters_rows(p, slots) };
    return OK;
}

/* Of one format, or of all where `format` is OPS_SOURCE_COUNT; false: it has no such arithmetic. */
static bool arithmetic_word(struct text_span word, u32 format, u32 *bits)
{
    bool whole = format == OPS_SOURCE_COUNT, plain = text_span_is(word, "auto");
    bool narrow = text_span_is(word, "bf16"), integers = text_span_is(word, "int8");
    u32 own = whole ? OPS_EXPANDED | OPS_INTEGERS : format < OPS_Q8_0 ? 0 : 1u << format;
    if (!plain && !narrow && !(integers && own != 0)) return false;
    *bits &= ~own;
    if (narrow) *bits |= own & OPS_EXPANDED;
    if (integers) *bits |= own & OPS_INTEGERS;
    return true;
}

/* A word, or FORMAT=WORD for formats of weight files, parted by commas; a later word of a format
 * holds.  bf16 and int8 are the two that GGUF's block formats have; `f32` is the whole model's. */
static enum err arithmetic_of(const char *text, enum ops_arithmetic *out)
{
    static const char *const formats[OPS_SOURCE_COUNT] = {
        [OPS_BF16] = "bf16", [OPS_F16] = "f16", [OPS_F32] = "f32", [OPS_FP8_BLOCK] = "fp8",
        [OPS_Q8_0] = "q8_0", [OPS_Q4_0] = "q4_0", [OPS_Q4_K] = "q4_k", [OPS_Q5_K] = "q5_k",
        [OPS_Q6_K] = "q6_k",
    };
    u32 bits = OPS_AUTO;
    *out = OPS_REFERENCE;
    if (strcmp(text, "f32") == 0) return OK;
    for (const char *at = text, *end; ; at = end + 1) {
        end = strchrnul(at, ',');
        struct text_span word = { at, (u64)(end - at) }, format = { at, 0 };
        const char *equal = memchr(at, '=', word.len);
        u32 k = OPS_SOURCE_COUNT;
        if (equal != NULL) {
            format.len = (u64)(equal - at);
            word = (struct text_span){ equal + 1, (u64)(end - equal - 1) };
            for (k = 0; k < OPS_SOURCE_COUNT && !text_span_is(format, formats[k]); k++) {}
        }
        if ((equal != NULL && k == OPS_SOURCE_COUNT) || !arithmetic_word(word, k, &bits))
            return fail(ERR_USAGE, "--arithmetic %s: \"%.*s\" is not auto, bf16, int8, f32 "
                        "(alone), or FORMAT=WORD: bf16 or int8 of q8_0, q4_0, q4_k, q5_k, q6_k, "
                        "bf16 of bf16, f16, f32, fp8", text, (int)(end - at), at);
        if (*end == 0) break;
    }
    *out = (enum ops_arithmetic)bits;
    return OK;
}

enum err start_setup(const struct profile_row *p, struct model_setup *out)
{
    *out = (struct model_setup){
        .dir = p->model[0] == 0 ? NULL : p->model,
        .backend = { .name = p->backend == BACKEND_CUDA ? "cuda" : "cpu",
                     .level = p->level[0] == 0 ? NULL : p->level, .threads = p->threads },
        .block_rows = p->block, .grid_rows = p->grid,
        .draft = p->draft == DRAFT_MTP || p->draft == DRAFT_AUTO ? MODEL_DRAFT_AUTO
                                                                 : MODEL_DRAFT_OFF,
    };
    return arithmetic_of(p->arithmetic, &out->backend.arithmetic);
}

enum err start_plan(const struct profile_row *profile)
{
    start.profile = *profile;
    struct model_setup setup;
    TRY(start_setup(&start.profile, &setup));
    if (profile->corpus[0] != 0) TRY(corpus_size(profile->corpus, &start.profile.corpus_bytes));
    TRY(model_open(&setup));
    if (start.profile.draft == DRAFT_MTP && !model_shape()->draft)
        return fail(ERR_USAGE, "--draft mtp: %s has no draft head%s; off, lookup and auto need "
                    "none", model_name(), model_shape()->mtp_layers > 0 ? " of a make that can be "
                    "loaded" : "");
    TRY(plan_ctx());
    start.table_bytes = engine_table_bytes(&start.profile, start.room.ctx_rows,
                                           start.room.slot_count, turn_rows(),
                                           model_shape()->vocab, model_layout()->block_rows,
                                           model_layout()->grid_rows);
    if (start.table_bytes > start.profile.tables_cap_bytes)
        return fail(ERR_CONFIG, "tables-cap-mb: the tables of ctx %llu need %llu MiB, the cap is "
                    "%llu", (ull)start.room.ctx_rows, (ull)(start.table_bytes / MIB + 1),
                    (ull)(start.profile.tables_cap_bytes / MIB));
    return OK;
}

static enum err declare_nodes(struct budget_graph *g)
{
    const struct profile_row *p = &start.profile;
    u32 tables;
    TRY(budget_graph_board(g, p));
    g->verify = p->test_hooks;
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "weights", .parent = "fixed", .node_class = CLASS_FIXED, .used = USED_ARENA,
        .arena = "weights", .cap_bytes = UINT64_MAX }, NULL));
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "scratch", .parent = "fixed", .node_class = CLASS_FIXED, .used = USED_ARENA,
        .arena = "scratch", .cap_bytes = p->scratch_cap_bytes }, NULL));
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "heap", .parent = "fixed", .node_class = CLASS_FIXED, .used = USED_ARENA,
        .arena = "heap", .reserve_bytes = p->heap_reserve_bytes,
        .cap_bytes = p->heap_cap_bytes }, NULL));
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "tables", .parent = "fixed", .node_class = CLASS_FIXED, .used = USED_ARENA,
        .arena = "tables", .cap_bytes = UINT64_MAX }, &tables));
    TRY(budget_graph_charge(g, tables, "lists"));
    return engine_declare(g, p, model_layout()->block_bytes, model_layout()->section_bytes,
                          start.room.slot_count);
}

enum err start_arenas(void)
{
    const struct profile_row *p = &start.profile;
    struct arena_decl decl[MODEL_DECL_CAP + EXTRA_DECLS];
    u32 count = model_declare(&start.room, decl);
    for (u32 i = 0; i < count; i++)
        if (decl[i].kind == ARENA_SCRATCH && decl[i].cap_bytes > p->scratch_cap_bytes)
            return fail(ERR_CONFIG, "scratch-cap-mb: activations of %s need %llu MiB, the cap is "
                        "%llu", model_name(), (ull)(decl[i].cap_bytes / MIB + 1),
                        (ull)(p->scratch_cap_bytes / MIB));
    decl[count++] = (struct arena_decl){ .name = "tables", .space = SPACE_HOST,
                                         .kind = ARENA_TABLE, .cap_bytes = start.table_bytes };
    decl[count++] = (struct arena_decl){ .name = "heap", .space = SPACE_HOST, .kind = ARENA_HEAP,
                                         .cap_bytes = p->heap_cap_bytes,
                                         .reserve_bytes = p->heap_reserve_bytes };
    if (p->response_bytes > 0)
        decl[count++] = (struct arena_decl){
            .name = "responses", .space = SPACE_HOST, .kind = ARENA_EXTENTS,
            .cap_bytes = response_arena_bytes(p->response_bytes) };
    if (engine_suffix_arena(p) > 0)
        decl[count++] = (struct arena_decl){
            .name = "suffix", .space = SPACE_HOST, .kind = ARENA_EXTENTS,
            .cap_bytes = engine_suffix_arena(p) };
    TRY(arena_open(decl, count));
    start.arenas = true;
    TRY(arena_heap_open(arena_find("heap")));
    start.heap = true;
    arena_heap_bind();
    TRY(turn_open(arena_find("tables"), turn_rows(), p->queue));
    TRY(command_open(arena_find("tables")));
    TRY(declare_nodes(&start.graph));
    return budget_graph_check(&start.graph);
}

static struct text_span span_of(const struct files_row *row)
{
    if (row == NULL) return (struct text_span){ 0 };
    return (struct text_span){ .bytes = (const char *)row->data, .len = row->bytes };
}

/* The keys of a GGUF file: its tokens, and its chat template by the digest of the text. */
static enum err open_text_gguf(struct files *files)
{
    struct gguf g;
    struct template_source source = { .name = start.profile.template_name };
    TRY(gguf_open(files, &g));
    if (strcmp(source.name, "auto") == 0) source.name = NULL;
    if (gguf_find(&g, "tokenizer.chat_template") != NULL)
        TRY(gguf_string(&g, "tokenizer.chat_template", &source.jinja));
    TRY(template_choose(&source, &start.template_id));
    return tokenizer_open(&(struct tokenizer_source){ .gguf = &g }, &start.tokenizer);
}

static enum err open_text(void)
{
    struct files *files = model_files();
    if (files->gguf[0] != 0) return open_text_gguf(files);
    const struct files_row *json, *config, *generation, *jinja;
    TRY(files_get(files, "tokenizer.json", &json));
    TRY(files_try(files, "tokenizer_config.json", &config));
    TRY(files_try(files, "generation_config.json", &generation));
    TRY(files_try(files, "chat_template.jinja", &jinja));
    const char *name = start.profile.template_name;
    TRY(template_choose(&(struct template_source){
        .name = strcmp(name, "auto") == 0 ? NULL : name, .jinja = span_of(jinja),
        .tokenizer_config = span_of(config) }, &start.template_id));
    return tokenizer_open(&(struct tokenizer_source){
        .tokenizer_json = span_of(json), .tokenizer_config = span_of(config),
        .generation_config = span_of(generation), .rows = model_shape()->vocab,
    }, &start.tokenizer);
}

/* The ids of --think-close as an answer would hold them: the phrase on its own lines, </think>; and
 * those of --think-note. */
static enum err open_close(void)
{
    char text[PROFILE_TEXT_BYTES + 32];
    u32 tag = tokenizer_added(start.tokenizer, "</think>");
    u64 phrase = strlen(start.profile.think_close);
    if (tag == NONE) return OK;                 /* budgets are ignored */
    u64 len = (u64)snprintf(text, sizeof text, "%s%s\n</think>\n\n", phrase > 0 ? "\n\n" : "",
                            start.profile.think_close);
    struct tokenizer_segment segment[2] = {
        { len - strlen("\n</think>\n\n"), TOKENIZER_MESSAGE }, { len, TOKENIZER_TEMPLATE } };
    TRY(tokenizer_encode(start.tokenizer, &(struct tokenizer_text){
        .bytes = text, .len = len, .segments = segment, .segment_count = 2 }, &start.close));
    while (start.close_hidden < start.close.count &&
           start.close.id[start.close_hidden] != tag) start.close_hidden++;
    if (start.profile.think_note[0] == 0) return OK;
    len = (u64)snprintf(text, sizeof text, "\n\n%s\n\n", start.profile.think_note);
    return tokenizer_encode(start.tokenizer, &(struct tokenizer_text){
        .bytes = text, .len = len, .segment_count = 1,
        .segments = &(struct tokenizer_segment){ len, TOKENIZER_MESSAGE } }, &start.note);
}

enum err start_load(void)
{
    TRY(open_text());                           /* seconds at most: fails before the weights  */
    TRY(open_close());
    if (start.profile.end_align_reasoning == ALIGN_AUTO)
        start.profile.end_align_reasoning = start.template_id == TEMPLATE_38 ? ALIGN_ON : ALIGN_OFF;
    u64 began_us = clock_us();
    TRY(model_load(&start.room));
    budget_graph_mapped(&start.graph, weights_mapped_bytes());
    const struct ops *ops = model_ops();
    log_line(LOG_LEVEL_INFO, "model %s: arithmetic %u, level %s, %u threads, weights %llu MiB, "
             "loaded in %.2f s", model_name(), ops->arithmetic_id, ops->level, ops->thread_count,
             (ull)(arena_row(arena_find("weights"))->used_bytes / MIB),
             (f64)(clock_us() - began_us) / 1e6);
    return OK;
}

/* The longest conversation must fit when everything that can yield has yielded. */
static enum err check_room(void)
{
    u64 blocks, sections, node = budget_graph_find(&start.graph, "kv");
    slot_cost(0, start.room.ctx_rows, &blocks, &sections);
    u64 room = budget_gate_room(&start.graph, (u32)node);
    if (blocks + sections > room)
        return fail(ERR_CONFIG, "ctx %llu needs %llu MiB of rows and state, the board pays for "
                    "%llu MiB now: lower --ctx, or raise board-gb or free memory",
                    (ull)start.room.ctx_rows, (ull)((blocks + sections) / MIB), (ull)(room / MIB));
    return OK;
}

/* What the ids stand for: every piece and its kind. */
static void hash_pieces(const struct vocab *v, u64 out[2])
{
    struct hash_state state;
    hash_open(&state);
    for (u32 id = 0; id < v->count; id++) {
        struct vocab_piece piece = vocab_piece(v, id);
        u32 head[2] = { piece.len, vocab_kind(v, id) };
        hash_add(&state, head, sizeof head);
        hash_add(&state, piece.bytes, piece.len);
    }
    hash_close(&state, out);
}

/* --corpus, when something reads it. */
static enum err open_corpus(void)
{
    const struct profile_row *p = &start.profile;
    if (p->corpus[0] == 0) return OK;
    if (p->draft != DRAFT_LOOKUP && p->draft != DRAFT_AUTO)
        return fail(ERR_USAGE, "--corpus %s: only --draft lookup and auto read it", p->corpus);
    return corpus_open(p->corpus, p->corpus_bytes, start.tokenizer, forward_vocab());
}

enum err start_engine(void)
{
    u32 eos_count;
    u64 weights[2], tokenizer[2];
    const struct ops *ops = model_ops();
    const u32 *eos = tokenizer_eos(start.tokenizer, &eos_count);
    weights_hash(weights);
    hash_pieces(tokenizer_vocab(start.tokenizer), tokenizer);
    TRY(engine_open(&(struct engine_setup){
        .profile = &start.profile, .graph = &start.graph, .ctx = start.room.ctx_rows,
        .slot_count = start.room.slot_count,
        .guest_slots = engine_guest_slots(&start.profile), .table_arena = arena_find("tables"),
        .candidates = MIN(tokenizer_count(start.tokenizer), forward_vocab()),
        .eos = eos, .eos_count = eos_count, .cache_dir = start.profile.cache_dir,
        .weights = weights, .tokenizer = tokenizer, .backend = ops->name,
        .arithmetic_id = ops->arithmetic_id, .arithmetic_least = ops->arithmetic_least,
        .io_threads = true,
    }));
    start.engine = true;
    stop_vocab(tokenizer_vocab(start.tokenizer));
    TRY(open_corpus());
    return check_room();
}

static u8 effort_of(u32 effort)
{
    static const u8 of[] = { [EFFORT_XHIGH] = TEMPLATE_EFFORT_XHIGH,
                             [EFFORT_MEDIUM] = TEMPLATE_EFFORT_MEDIUM,
                             [EFFORT_LOW] = TEMPLATE_EFFORT_LOW,
                             [EFFORT_NONE] = TEMPLATE_EFFORT_UNSET };
    return of[effort];
}

void start_chat(struct chat_model *out)
{
    const struct profile_row *p = &start.profile;
    const struct shape_sampling *s = &model_shape()->sampling;
    static const enum chat_reasoning_field field[] = {
        [REASONING_CONTENT] = CHAT_REASONING_CONTENT, [REASONING_PLAIN] = CHAT_REASONING_PLAIN,
        [REASONING_BOTH] = CHAT_REASONING_BOTH };
    *out = (struct chat_model){
        .name = model_name(), .tokenizer = start.tokenizer, .template_id = start.template_id,
        .ctx = start.room.ctx_rows, .created_s = (u64)clock_wall_s(),
        .sampling = { .temperature = s->temperature, .top_p = s->top_p, .min_p = s->min_p,
                      .repetition_penalty = s->repetition_penalty, .top_k = s->top_k },
        .normal = { .late_system_refuse = p->late_system == LATE_REFUSE,
                    .thinking = p->reasoning_effort == EFFORT_NONE ? TEMPLATE_OFF : TEMPLATE_UNSET,
                    .effort = effort_of(p->reasoning_effort) },
        .reference_specials = p->reference_specials, .strict_model = p->strict_model,
        .close_ids = start.close.id, .close_count = (u32)start.close.count,
        .close_hidden = start.close_hidden, .test_hooks = p->test_hooks,
        .note_ids = start.note.id, .note_count = (u32)start.note.count,
        .reasoning_field = field[p->reasoning_field],
        .json_depth = p->json_depth, .stop_cap = MIN(p->stop_strings, (u32)TURN_STOP_CAP),
        .tools_cap = p->tools, .slots = p->parallel,
    };
}

void start_close(void)
{
    if (start.engine) engine_close();
    stop_vocab(NULL);
    model_close();
    if (start.arenas) turn_close();
    tokenizer_ids_close(&start.close);
    tokenizer_ids_close(&start.note);
    tokenizer_close(start.tokenizer);
    if (start.heap) arena_heap_close();
    arena_close();
    memset(&start, 0, sizeof start);
}

u64 start_ctx(void) { return start.room.ctx_rows; }
struct budget_graph *start_graph(void) { return &start.graph; }
const struct tokenizer *start_tokenizer(void) { return start.tokenizer; }
enum template_id start_template(void) { return start.template_id; }
