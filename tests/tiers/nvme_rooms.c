/* tests/tiers/nvme_rooms.c - the pure parts: names, layouts, rates, plans, manifests. */
#include "tests/nvme.h"

TEST(names_are_the_hash_in_hex_and_nothing_else_is_a_name)
{
    char text[FORMAT_NAME_BYTES];
    u64 name[2] = { 0x0123456789abcdefu, 0xfedcba9876543210u }, back[2];
    enum format_kind kind;
    format_name(FORMAT_TAIL, name, text);
    CHECK_STR(text, "t-fedcba98765432100123456789abcdef");
    CHECK(format_name_parse(text, &kind, back));
    CHECK(kind == FORMAT_TAIL && back[0] == name[0] && back[1] == name[1]);
    static const char *const bad[] = { "", "t-", "x-fedcba98765432100123456789abcdef",
        "t-fedcba98765432100123456789abcdeF", "t-fedcba98765432100123456789abcde",
        "t-fedcba98765432100123456789abcdef0", "ABOUT", "t-fedcba98765432100123456789abcdeg" };
    for (u32 i = 0; i < COUNT_OF(bad); i++) CHECK(!format_name_parse(bad[i], &kind, back));
}

TEST(parts_cover_every_byte_of_a_block_and_of_a_unit)
{
    struct format_part part[FORMAT_PART_CAP];
    make_shape();
    for (u32 kind = FORMAT_CHUNK; kind <= FORMAT_ANCHOR; kind++) {
        u32 count = format_parts(&shape, (enum format_kind)kind, part);
        u64 at = 0;
        for (u32 i = 0; i < count; i++) {
            CHECK_EQ(part[i].offset, at);
            at += part[i].bytes;
        }
        CHECK_EQ(at, kind == FORMAT_ANCHOR ? 4096u : shape.block_bytes);
        struct format_head head;
        format_layout(&shape, (enum format_kind)kind, 32, 41, &head);
        CHECK(head.key_offset % 4096 == 0 && head.data_offset % 4096 == 0);
        CHECK(head.file_bytes % 4096 == 0);
        CHECK_EQ(head.data_bytes, kind == FORMAT_ANCHOR ? 4096u : 3 * shape.block_bytes);
    }
}

TEST(reading_is_worth_it_when_forwarding_takes_longer)
{
    struct rates r = { 0 };
    CHECK(!rates_worth(&r, 1, 0));
    CHECK(rates_worth(&r, UINT64_MAX, 1));              /* nothing is known yet              */
    rates_read(&r, 1000000, 1000000);
    rates_prefill(&r, 1000, 1000000);
    rates_read(&r, 5, 0);
    rates_prefill(&r, 0, 5);
    CHECK(rates_worth(&r, 999000, 1000) && !rates_worth(&r, 1001000, 1000));
    for (u32 i = 0; i < 100; i++) rates_read(&r, 4000000, 1000000);
    CHECK(rates_worth(&r, 3900000, 1000));
}

TEST(a_probe_seeds_the_rates_that_are_not_named)
{
    struct rates named = { .read_bytes_s = 7, .write_bytes_s = 9 }, half = { .write_bytes_s = 9 };
    struct rates none = { 0 };
    struct file_list list;
    bool direct = false;
    new_folder();
    CHECK_OK(file_probe_direct(folder, &direct));
    CHECK_OK(rates_probe("/nowhere", direct, &named));  /* nothing to find out               */
    CHECK(named.read_bytes_s == 7 && named.write_bytes_s == 9);
    CHECK_OK(rates_probe(folder, direct, &half));
    CHECK(half.write_bytes_s == 9 && (half.read_bytes_s > 0) == direct);
    CHECK_OK(rates_probe(folder, direct, &none));
    CHECK(none.write_bytes_s > 0 && (none.read_bytes_s > 0) == direct && none.prefill_s_token == 0);
    CHECK_EQ(rates_probe("/nowhere", direct, &half), direct ? OK : ERR_NOT_FOUND);
    struct rates before = none = (struct rates){ 0 };
    CHECK(rates_probe("/nowhere", direct, &none) != OK);
    CHECK(memcmp(&before, &none, sizeof none) == 0);
    CHECK_OK(file_list_open(folder, &list));            /* and nothing is left               */
    CHECK(!file_list_next(&list));
    file_list_close(&list);
    remove_all();
}

/* Lines of a made-up prompt: line i has hash {seed + i + 1, 1}. */
static u64 lines_of[16][2];
static struct count_prompt prompt_of(u64 seed, u64 count, u64 start)
{
    for (u64 i = 0; i < 16; i++) {
        lines_of[i][0] = seed + i + 1;
        lines_of[i][1] = 1;
    }
    return (struct count_prompt){ .lines = (const u64 (*)[2])lines_of, .line_count = count / G,
                                  .count = count, .start = start };
}

TEST(a_line_read_twice_a_branch_and_a_first_long_request_get_anchors)
{
    struct count_knobs knobs = { .admit_after = 2, .min_tokens = 3 * G };
    struct count_plan plan;
    memory_open();
    CHECK_OK(count_open(arena_find("tables"), 64));
    struct count_prompt p = prompt_of(100, 5 * G + 3, 0);
    count_plan(&p, &knobs, &plan);
    CHECK_EQ(plan.count, 0);
    p.first_long = true;
    p.last_user_pos = 4 * G + 1;
    count_plan(&p, &knobs, &plan);
    CHECK(plan.count == 4 && plan.line[0] == G && plan.line[3] == 4 * G);
    p.last_user_pos = 0;
    count_plan(&p, &knobs, &plan);
    CHECK(plan.count == 4 && plan.line[0] == 2 * G && plan.line[3] == 5 * G);
    p.start = 4 * G;
    count_plan(&p, &knobs, &plan);
    CHECK(plan.count == 1 && plan.line[0] == 5 * G);    /* lines in place are not read       */
    p.start = 0;
    p.first_long = false;
    count_add(&p, now_s);
    CHECK_EQ(count_rows(), 5);
    p = prompt_of(100, 3 * G, 0);
    count_plan(&p, &knobs, &plan);
    CHECK(plan.count == 1 && plan.line[0] == 3 * G);
    p.count = 3 * G - 1;
    count_plan(&p, &knobs, &plan);
    CHECK_EQ(plan.count, 0);                            /* under --disk-min-tokens           */
    knobs.admit_after = 9;
    p = prompt_of(100, 5 * G, 0);
    lines_of[2][0] = 7;                                 /* parts behind line 2               */
    lines_of[3][0] = 8;
    lines_of[4][0] = 9;
    count_plan(&p, &knobs, &plan);
    CHECK(plan.count == 1 && plan.line[0] == 2 * G);
    count_clear();
    for (u64 i = 0; i < 100; i++) {                     /* the table never grows             */
        p = prompt_of(1000 * i, 2 * G, 0);
        count_add(&p, now_s + i * DAY);
    }
    CHECK_EQ(count_rows(), 64);
    CHECK_EQ(count_times(lines_of[1]), 1);
    memory_close();
}

TEST(the_write_behind_waits_for_idle_or_rows_or_time_and_a_finished_turn)
{
    struct journal_knobs knobs = { .idle_us = 5, .every_us = 60, .rows_min = 100 };
    struct journal_talk t[3] = { { .rows = 50, .turn_us = 1000 } };
    u32 out[3];
    CHECK_EQ(journal_plan(t, 1, &knobs, 1004, 1000, out), 0);
    CHECK_EQ(journal_plan(t, 1, &knobs, 1005, 1000, out), 1);
    CHECK_EQ(journal_plan(t, 1, &knobs, 1059, 0, out), 0);
    CHECK_EQ(journal_plan(t, 1, &knobs, 1060, 0, out), 1);
    CHECK_EQ(journal_due_us(t, 1, &knobs, 0), 1060);
    CHECK_EQ(journal_due_us(t, 1, &knobs, 1000), 1005);
    t[0].saved_us = 1050;
    CHECK_EQ(journal_plan(t, 1, &knobs, 1109, 0, out), 0);
    t[0].rows = 100;
    CHECK_EQ(journal_plan(t, 1, &knobs, 1054, 0, out), 0);
    CHECK_EQ(journal_plan(t, 1, &knobs, 1055, 0, out), 1);
    t[0].saved_us = 0;
    CHECK_EQ(journal_plan(t, 1, &knobs, 1000, 0, out), 1);
    t[0].written = 1;
    CHECK_EQ(journal_plan(t, 1, &knobs, 1000, 0, out), 0);
    t[0].parked = true;
    CHECK_EQ(journal_plan(t, 1, &knobs, 1000, 0, out), 1);
    for (u32 i = 0; i < 4; i++) {
        struct journal_talk never = t[0];
        never.busy = i == 0;
        never.guest = i == 1;
        never.saving = i == 2;
        if (i == 3) never.turn_us = 0;
        CHECK_EQ(journal_plan(&never, 1, &knobs, 5000, 1, out), 0);
        CHECK(journal_due_us(&never, 1, &knobs, 1) == UINT64_MAX);
    }
    t[1] = (struct journal_talk){ .rows = 400, .turn_us = 2000 };
    t[2] = (struct journal_talk){ .rows = 500, .turn_us = 1500 };
    CHECK_EQ(journal_plan(t, 3, &knobs, 3000, 0, out), 3);
    CHECK(out[0] == 1 && out[1] == 2 && out[2] == 0);   /* used last first                   */
}

/* ------------------------------------------------------------------ manifests */

static struct manifest talk_of(u64 seed)
{
    struct manifest m = { .session = { seed, ~seed }, .length = 70, .head_pos = 9,
                          .taint = UINT64_MAX, .used_s = now_s, .hits = 3, .top = { 5, seed },
                          .tail = { 6, seed }, .anchor_count = 3 };
    for (u32 i = 0; i < 3; i++)
        m.anchor[i] = (struct manifest_anchor){ .pos = 40 + 10 * i, .name = { i, seed },
                                                .kind = 1 + i, .head = i == 0 };
    m.rope_delta = -17;
    m.image_count = 2;
    m.image[0] = (struct manifest_image){ .first = 3, .t = 1, .gh = 4, .gw = 6,
                                          .digest = { seed, ~seed } };
    m.image[1] = (struct manifest_image){ .first = 40, .t = 2, .gh = 65535, .gw = 1,
                                          .digest = { 9, seed } };
    return m;
}

static void generations_of(struct generation_list *list)
{
    struct call_row call = { .id_hash = 77, .value_hash = { 88, 99 }, .lo = 30, .hi = 34 };
    CHECK(end_record(list, 20, 35, 25));
    CHECK(end_span(list, 21, 24));
    CHECK(end_call(list, &call));
    CHECK(end_record(list, 60, 60, 0));
    CHECK(end_record(list, 60, 70, 66));
}

TEST(a_manifest_comes_back_with_its_generations_spans_and_calls)
{
    struct manifest m = talk_of(4), back;
    struct generation_list list = { 0 }, got = { 0 };
    struct pack_out file = { 0 }, twice = { 0 };
    memory_open();
    generations_of(&list);
    CHECK_OK(manifest_put(&m, &list, &place, &file));
    CHECK_OK(manifest_get(file.bytes, file.count, &place, &back, &got));
    CHECK(memcmp(&m, &back, sizeof m) == 0);
    CHECK_EQ(got.count, list.count);
    for (u32 i = end_first(&list), j = end_first(&got); i != 0; i = end_next(i), j = end_next(j)) {
        struct end_row x = *end_at(i), y = *end_at(j);
        x.next = y.next = 0;
        CHECK(memcmp(&x, &y, sizeof x) == 0);
    }
    CHECK_OK(manifest_put(&back, &got, &place, &twice));
    CHECK(twice.count == file.count && memcmp(twice.bytes, file.bytes, file.count) == 0);
    pack_out_close(&file);
    pack_out_close(&twice);
    end_cut(&list, 0);
    end_cut(&got, 0);
    memory_close();
}

TEST(no_damaged_manifest_is_read_and_no_made_up_one_harms)
{
    struct manifest m = talk_of(4), back;
    struct generation_list list = { 0 }, got = { 0 };
    struct pack_out file = { 0 };
    static u8 copy[2048];
    memory_open();
    generations_of(&list);
    CHECK_OK(manifest_put(&m, &list, &place, &file));
    CHECK(file.count < sizeof copy);
    u64 count = file.count;
    for (u64 cut = 0; cut < count; cut++)
        CHECK(manifest_get(file.bytes, cut, &place, &back, &got) != OK);
    for (u64 bit = 0; bit < 8 * count; bit++) {
        memcpy(copy, file.bytes, count);
        copy[bit / 8] ^= (u8)(1u << bit % 8);
        CHECK(manifest_get(copy, count, &place, &back, &got) != OK);
    }
    for (u64 n = 0; n < 20000; n++) {                   /* with a good crc: no harm          */
        struct manifest_head head;
        memcpy(copy, file.bytes, count);
        for (u32 k = 0; k < 1 + n % 3; k++)
            copy[sizeof head + rng_u64(n, k) % (count - sizeof head)] = (u8)rng_u64(n, 10 + k);
        memcpy(&head, copy, sizeof head);
        head.crc = crc32_of(copy + sizeof head, count - sizeof head);
        memcpy(copy, &head, sizeof head);
        if (manifest_get(copy, count, &place, &back, &got) == OK) {
            CHECK(back.image_count <= MANIFEST_IMAGES);
            for (u32 k = 0; k < back.image_count; k++) CHECK(back.image[k].first < back.length);
            CHECK(back.anchor_count <= MANIFEST_ANCHORS && back.head_pos <= back.length);
            end_check(&got);
        }
        end_cut(&got, 0);
    }
    pack_out_close(&file);
    end_cut(&list, 0);
    CHECK_EQ(end_used(), 0);
    memory_close();
}
