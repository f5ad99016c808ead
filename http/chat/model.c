/* http/chat/model.c - where the text side's memory comes from. */
#include "http/chat/model.h"

#include "arena/heap.h"

const struct text_source chat_model_heap = { .take = arena_heap_alloc, .give = arena_heap_free };
