/* tests/fuzz/model.c - mutated safetensors headers, indices and configs: refused in words, or every
 * row lies inside its file. */
#include "arena/base/rng.h"
#include "model/embedded.h"
#include "model/family/family.h"
#include "model/tensors.h"
#include "model/weights.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 2500, TEXT_CAP = 64 << 10 };

static u64 seed = 1, drawn;
static char text[TEXT_CAP + 64];
static struct files files;
static struct tensors tensors;
static struct model_shape shape;

static u64 roll(u64 below) { return rng_u64(seed, drawn++) % below; }

static u64 mutate(u64 bytes)
{
    static const char *const pieces[] = {
        "18446744073709551615", "-1", "[", "]", "{", "}", "\"", ",", ":", "1e9", "null", "\\u0000",
        "\xff", "0", "\"BF16\"", "\"I64\"", "[0,0]", "\"dtype\":1,", "\"a\":{},", " ", "9",
    };
    for (u64 n = 1 + roll(4); n > 0 && bytes > 0; n--) {
        u64 at = roll(bytes);
        const char *piece = pieces[roll(COUNT_OF(pieces))];
        switch (roll(5)) {
        case 0: text[at] = (char)roll(256); break;
        case 1: text[at] = (char)('0' + roll(10)); break;
        case 2: bytes = roll(10) == 0 ? at : bytes; break;
        case 3:
            memmove(text + at, text + at + 1, bytes - at - 1);
            bytes--;
            break;
        default:
            if (bytes + strlen(piece) >= TEXT_CAP) break;
            memmove(text + at + strlen(piece), text + at, bytes - at);
            memcpy(text + at, piece, strlen(piece));
            bytes += strlen(piece);
        }
    }
    return bytes;
}

static const struct embedded_file *embedded(const char *name)
{
    const struct embedded_file *f = NULL;
    for (u32 i = 0; (f = embedded_at(i)) != NULL; i++)
        if (strcmp(f->name, name) == 0) break;
    return f;
}

static void put_row(u32 index, const char *name, const u8 *data, u64 bytes)
{
    memset(&files.row[index], 0, sizeof files.row[index]);
    strcpy(files.row[index].name, name);
    files.row[index].data = data;
    files.row[index].bytes = bytes;
}

/* Rows lie in their files; nobody's bytes are somebody else's. */
static void check_rows(void)
{
    for (u32 i = 0; i < tensors.count; i++) {
        const struct tensor_row *row = &tensors.row[i];
        const struct files_row *f = &files.row[row->file];
        CHECK(row->data >= f->data && row->data + row->bytes <= f->data + f->bytes);
        CHECK(row->name >= (const char *)f->data && row->name_bytes > 0);
    }
}

TEST(mutated_headers_are_refused_or_lie_inside_the_file)
{
    const struct embedded_file *weights = embedded("model.safetensors");
    u64 header = 0;
    u32 refused = 0, opened = 0;
    for (u32 i = 0; i < 8; i++) header |= (u64)weights->data[i] << 8 * i;
    CHECK(header < TEXT_CAP);
    CHECK_OK(shape_parse((const char *)embedded("config.json")->data,
                         embedded("config.json")->bytes, NULL, 0, &shape));
    for (u32 round = 0; round < ROUNDS; round++) {
        seed = round;
        drawn = 0;
        memcpy(text, weights->data + 8, header);
        u64 bytes = mutate(header), data = weights->bytes - 8 - header;
        u64 said = roll(20) == 0 ? roll(UINT64_MAX) : bytes;
        u8 *file = malloc(8 + bytes + data);        /* its own block: ASan sees a byte too far */
        for (u32 i = 0; i < 8; i++) file[i] = (u8)(said >> 8 * i);
        memcpy(file + 8, text, bytes);
        memset(file + 8 + bytes, 1, data);
        files.embedded = true;
        files.count = 1;
        put_row(0, "model.safetensors", file, 8 + bytes + data);
        if (weights_scan(&files, &shape, family_find(shape.model_type)) == OK) opened++;
        else refused++;
        if (tensors_open(&tensors, &files) == OK) check_rows();
        free(file);
    }
    CHECK(refused > ROUNDS / 4 && opened > 0);
}

TEST(mutated_indices_are_refused_or_name_what_is_there)
{
    static const char index[] =
        "{\"metadata\":{\"total_size\":5064296},\"weight_map\":{"
        "\"model.norm.weight\":\"part-1.safetensors\",\"model.embed_tokens.weight\":"
        "\"part-1.safetensors\",\"model.layers.0.input_layernorm.weight\":"
        "\"part-1.safetensors\"}}";
    const struct embedded_file *weights = embedded("model.safetensors");
    u32 opened = 0;
    for (u32 round = 0; round < ROUNDS; round++) {
        seed = 100000 + round;
        drawn = 0;
        memcpy(text, index, sizeof index - 1);
        u64 bytes = mutate(sizeof index - 1);
        char *file = malloc(bytes);
        memcpy(file, text, bytes);
        files.embedded = true;
        files.count = 2;
        put_row(0, "model.safetensors.index.json", (const u8 *)file, bytes);
        put_row(1, "part-1.safetensors", weights->data, weights->bytes);
        if (tensors_open(&tensors, &files) == OK) {
            opened++;
            check_rows();
        } else {
            CHECK(err_last()->text[0] != 0);
        }
        free(file);
    }
    CHECK(opened > 0 && opened < ROUNDS);
}

TEST(mutated_configs_are_refused_or_give_sizes_within_limits)
{
    const struct embedded_file *config = embedded("config.json");
    static struct state_shape layout;
    u32 opened = 0;
    for (u32 round = 0; round < ROUNDS; round++) {
        seed = 200000 + round;
        drawn = 0;
        memcpy(text, config->data, config->bytes);
        u64 bytes = mutate(config->bytes);
        char *file = malloc(bytes);
        memcpy(file, text, bytes);
        if (shape_parse(file, bytes, NULL, 0, &shape) == OK) {
            opened++;
            CHECK(shape.layer_count == shape.gdn_count + shape.attention_count);
            CHECK(shape.hidden <= SHAPE_HIDDEN_MAX && shape.nh * shape.d <= SHAPE_HIDDEN_MAX);
            CHECK(shape.hv % shape.hk == 0 && shape.nh % shape.nkv == 0);
            shape.draft = round % 2 == 1;
            CHECK_OK(family_find(shape.model_type)->fill(&shape, 256, 1024, 2, &layout));
            CHECK(layout.block_bytes > 0 && layout.section_bytes > 0);
        }
        free(file);
    }
    CHECK(opened > 0 && opened < ROUNDS);
}
