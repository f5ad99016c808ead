/* model/family/family.c - families by model_type, and the order of a state shape's sections. */
#include "model/family/family.h"

#include <string.h>

#include "model/family/qwen3_5.h"

const struct family *family_find(const char *model_type)
{
    static const struct family table[] = {
        { "qwen3_5", qwen3_5_tensor, qwen3_5_gguf, qwen3_5_fill },
        { "qwen3_5_text", qwen3_5_tensor, qwen3_5_gguf, qwen3_5_fill },
    };
    for (u32 i = 0; i < COUNT_OF(table); i++)
        if (strcmp(table[i].model_type, model_type) == 0) return &table[i];
    return NULL;
}

u32 family_section_s(u32 gdn_index) { return 2 * gdn_index; }

u32 family_section_tail(u32 gdn_index) { return 2 * gdn_index + 1; }

u32 family_section_draft(const struct model_shape *shape) { return 2 * shape->gdn_count; }

u32 family_draft_layer(const struct model_shape *shape) { return shape->layer_count + 1; }
