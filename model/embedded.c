/* model/embedded.c - the default model's files as read-only bytes of the program.
 *
 * The assembler includes each file; a label before and one after give address and length.  The
 * paths are relative to the root of the tree, where build.sh runs the compiler. */
#include "model/embedded.h"

#define EMBED(label, path)                                                                      \
    __asm__(".pushsection .rodata\n"                                                            \
            ".balign 4096\n"                                                                    \
            ".global embedded_" #label "\n"                                                     \
            ".global embedded_" #label "_end\n"                                                 \
            ".hidden embedded_" #label "\n"                                                     \
            ".hidden embedded_" #label "_end\n"                                                 \
            "embedded_" #label ":\n"                                                            \
            ".incbin \"profiles/default-model/" path "\"\n"                                     \
            "embedded_" #label "_end:\n"                                                        \
            ".byte 0\n"                                                                         \
            ".popsection\n");                                                                   \
    extern const u8 embedded_##label[];                                                         \
    extern const u8 embedded_##label##_end[];

EMBED(config, "config.json")
EMBED(generation, "generation_config.json")
EMBED(weights, "model.safetensors")
EMBED(tokenizer, "tokenizer.json")
EMBED(tokenizer_config, "tokenizer_config.json")

const struct embedded_file *embedded_at(u32 index)
{
    static struct embedded_file file[5];        /* lengths are differences of labels: at run time */
    static const struct { const char *name; const u8 *lo, *hi; } source[] = {
        { "config.json", embedded_config, embedded_config_end },
        { "generation_config.json", embedded_generation, embedded_generation_end },
        { "model.safetensors", embedded_weights, embedded_weights_end },
        { "tokenizer.json", embedded_tokenizer, embedded_tokenizer_end },
        { "tokenizer_config.json", embedded_tokenizer_config, embedded_tokenizer_config_end },
    };
    static_assert(COUNT_OF(file) == COUNT_OF(source), "one row a file");
    if (index >= COUNT_OF(source)) return NULL;
    file[index] = (struct embedded_file){
        .name = source[index].name,
        .data = source[index].lo,
        .bytes = (u64)(source[index].hi - source[index].lo),
    };
    return &file[index];
}
