#!/usr/bin/env bash
# tests/arena/house.sh - the house's own rules: tidy passes here, and finds each planted breach;
# build.sh's words answer as documented.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); printf 'FAILED: %s\n' "$*"; }

out=$(bash tests/tidy.sh 2>&1) && ok || bad "tests/tidy.sh:
$out"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# plant NAME FILE CONTENT [WHERE]: a tree with that one file must be refused, and for that file alone
# (or for WHERE alone)
plant() {
    local name=$1 file=$2 content=$3 where=${4:-$2}
    rm -rf "$work/t"; mkdir -p "$work/t/tests" "$work/t/$(dirname "$file")"
    cp tests/tidy.sh "$work/t/tests/"
    mkdir -p "$work/t/model" "$work/t/http/chat" "$work/t/arena/base"
    printf '#ifndef MODEL_FORWARD_H\n#define MODEL_FORWARD_H\n#endif\n' >"$work/t/model/forward.h"
    printf '#ifndef CHAT_REQUEST_H\n#define CHAT_REQUEST_H\n#endif\n' >"$work/t/http/chat/request.h"
    printf '%b' "$content" >"$work/t/$file"
    for folder in model http/chat arena/base "${bare:-$(dirname "$file")}"; do : >"$work/t/$folder/README.md"; done
    (cd "$work/t" && git init -q . && git add -A) >/dev/null 2>&1
    if out=$(bash "$work/t/tests/tidy.sh" 2>&1); then bad "$name: not found"
    elif ! grep -v -e "^$where:" -e ' breaches$' <<<"$out" | grep -q .; then ok
    else bad "$name: $out"; fi
}
long=$(printf 'x%.0s' $(seq 120))
body=$(for i in $(seq 80); do printf 'f();\\n'; done)
many=$(for i in $(seq 705); do printf 'int a%d;\\n' "$i"; done)
plant "malloc outside the arena" model/a.c 'void *model_a(void) { return malloc(4); }\n'
plant "printf in a room" tiers/a.c 'void a_b(void) { printf("x"); }\n'
plant "a long line" tiers/a.c "/* $long */\n"
plant "a long function" tiers/a.c "void a_b(void)\n{\n$body}\n"
plant "a long file" tiers/a.c "$many"
plant "a tab" tiers/a.c 'int a_b;\tint a_c;\n'
plant "a wrong guard" tiers/a.h '#ifndef WRONG_H\n#define WRONG_H\n#endif\n'
plant "tiers includes model" tiers/a.c '#include "model/forward.h"\n'
plant "turn includes chat" http/turn/a.c '#include "http/chat/request.h"\n'
plant "a kernel includes model" model/cpu/a.c '#include "model/forward.h"\n'
plant "jansson outside json" http/chat/a.c '#include <jansson.h>\n'
plant "libm in a kernel" model/cpu/a.c '#include <math.h>\n'
plant "a note to oneself" tiers/a.c "/* TO""DO later */\n"
plant "a folder at the top" utils/a.c 'int a;\n' utils
bare=model plant "a folder without README" tiers/a.c 'int a_b;\n' tiers/README.md
plant "a sleep" tiers/a.c 'void a_b(void) { sleep(1); }\n'

out=$(./build.sh nonsense 2>&1); [ $? -eq 2 ] && grep -q nonsense <<<"$out" && ok || bad "an unknown word: $out"
out=$(./build.sh deps --dry-run 2>&1) && ok || bad "deps --dry-run: $out"
out=$(./build.sh test nonsense 2>&1); [ $? -ne 0 ] && grep -q 'no tests named nonsense' <<<"$out" && ok || bad "an unknown group: $out"

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
