/* http/turn/clear.c - /cache/clear: a session or everybody, one tier or all, and what it freed. */
#include "http/turn/pass.h"

#include "arena/base/hash.h"
#include "arena/base/json.h"
#include "http/turn/command.h"
#include "tiers/suffix/lookup.h"

#include <stdio.h>
#include <string.h>

static void put_u64(struct json_out *out, const char *key, u64 value)
{
    json_put_key(out, key);
    json_put_u64(out, value);
}

/* Bytes that memory holds for a tier: what its classes are charged. */
static u64 memory_bytes(u32 classes)
{
    u64 bytes = 0;
    for (u32 c = 0; c < HOLD_COUNT; c++)
        if ((classes >> c & 1) != 0) bytes += aside_used((enum holder)c);
    return bytes;
}

static const struct { const char *name; u32 classes; } memory_tier[] = {
    { "resident", TIER_CLEAR_RESIDENT | 1 << HOLD_ANCHOR }, { "pin", TIER_CLEAR_PIN },
    { "park", TIER_CLEAR_PARK }, { "store", TIER_CLEAR_STORE },
};
enum { MEMORY_TIERS = COUNT_OF(memory_tier) };

/* What was freed, a tier at a time; a conversation that was in none of them: all zeros. */
static void put_cleared(u32 records, const u64 was[MEMORY_TIERS], const struct forget_counts *files,
                        u64 suffix_bytes, struct json_out *out)
{
    json_put_object(out);
    put_u64(out, "records", records);
    if (nvme_on()) {
        put_u64(out, "conversations", files->entries);
        put_u64(out, "disk_anchors", files->anchors);
        put_u64(out, "file_bytes", files->disk_bytes + files->spill_bytes);
    }
    json_put_key(out, "bytes");
    json_put_object(out);
    for (u32 i = 0; i < MEMORY_TIERS; i++) {
        u64 is = memory_bytes(memory_tier[i].classes);
        put_u64(out, memory_tier[i].name, was[i] - MIN(was[i], is));
    }
    put_u64(out, "disk", files->disk_bytes);
    put_u64(out, "spill", files->spill_bytes);
    put_u64(out, "suffix", suffix_bytes);
    json_put_object_end(out);
    json_put_object_end(out);
}

enum err clear_tiers(struct engine *e, const struct command_row *row, struct json_out *out)
{
    static const struct { const char *name; u32 classes; bool disk, spill, response, suffix; }
    tiers[] = {
        { "", TIER_CLEAR_ALL, true, true, true, true },
        { "all", TIER_CLEAR_ALL, true, true, true, true },
        { "resident", .classes = TIER_CLEAR_RESIDENT }, { "pin", .classes = TIER_CLEAR_PIN },
        { "park", .classes = TIER_CLEAR_PARK }, { "store", .classes = TIER_CLEAR_STORE },
        { "disk", .disk = true }, { "spill", .spill = true }, { "response", .response = true },
        { "suffix", .suffix = true },
    };
    struct forget_counts files;
    u64 session[2], was[MEMORY_TIERS];
    u32 at = 0;
    while (at < COUNT_OF(tiers) && strcmp(row->tier, tiers[at].name) != 0) at++;
    if (at == COUNT_OF(tiers))
        return fail(ERR_NOT_FOUND, "clear: no tier \"%s\"; all, resident, pin, park, store, disk, "
                    "spill, response or suffix", row->tier);
    hash_128(row->session, strlen(row->session), session);
    char name[MANIFEST_NAME_BYTES];
    u64 id[2];                          /* as `holdfast cache ls` prints it, if that is one   */
    snprintf(name, sizeof name, "m-%.32s", row->session);
    if (nvme_on() && strlen(row->session) == 32 && manifest_name_parse(name, id) &&
        spill_session(id) != NONE) memcpy(session, id, sizeof session);
    const u64 *which = row->session[0] == 0 ? NULL : session;
    for (u32 i = 0; i < MEMORY_TIERS; i++) was[i] = memory_bytes(memory_tier[i].classes);
    nvme_clear(tiers[at].disk, tiers[at].spill, which, &files);
    u32 cleared = tier_clear_of(tiers[at].classes, which);
    if (tiers[at].response) cleared += response_clear();        /* no session in it           */
    for (u32 slot = 0; slot < e->slot_count; slot++)
        if (e->slot_turn[slot] == NONE && resident_record(slot) == NONE) slot_drop(slot);
    u64 suffix_bytes = tiers[at].suffix ? suffix_log_clear(which) : 0;
    put_cleared(cleared, was, &files, suffix_bytes, out);
    e->check = true;
    return OK;
}
