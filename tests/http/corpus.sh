#!/usr/bin/env bash
# tests/http/corpus.sh - --corpus and --suffix-store-mb from the outside: an answer is the same with
# and without, files of the store stand where they should, and what is wrong is named.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
H=${HOLDFAST:-build/holdfast}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); printf 'FAILED: %s\n' "$1"; cat "$T/out" "$T/err"; }
ask="What is the end anchor?"
run() { timeout 100 "$H" run -p "$ask" --no-think --temperature 0 "$@" >"$T/out" 2>"$T/err" </dev/null; }
# check NAME RC WORD-IN-STDERR flags...
check() {
    local name=$1 rc=$2 err=$3
    shift 3
    run "$@"
    if [ $? -eq "$rc" ] && grep -q -- "$err" "$T/err"; then ok; else bad "$name"; fi
}

run --draft off && cp "$T/out" "$T/plain" || bad "run without drafts"
cp "$T/plain" "$T/answer.txt"
run --draft lookup --corpus "$T/answer.txt"
if cmp -s "$T/out" "$T/plain"; then ok; else bad "a corpus that holds the answer changes none of it"; fi
seq -s ' ' 10 900 >"$T/numbers.ids"
run --draft lookup --corpus "$T/numbers.ids"
if cmp -s "$T/out" "$T/plain"; then ok; else bad "a corpus of ids changes none of it"; fi
run --draft auto --suffix-store-mb 0
if cmp -s "$T/out" "$T/plain"; then ok; else bad "without a store"; fi

check "a corpus that isn't there" 2 "--corpus $T/none: no file" --draft lookup --corpus "$T/none"
check "a folder is no corpus" 2 "no file of that name" --draft lookup --corpus "$T"
: >"$T/empty"
check "an empty one" 2 "1 byte to 64 MiB" --draft lookup --corpus "$T/empty"
printf 'good \xff\xfe bad' >"$T/bytes"
check "bytes that are no text name the place" 1 "byte 5 is not UTF-8" --draft lookup --corpus "$T/bytes"
printf '1 2 3 99999999 4' >"$T/far.ids"
check "an id outside the vocabulary names the place" 1 "byte 6: expected ids below" \
    --draft lookup --corpus "$T/far.ids"
printf '1 2 three' >"$T/word.ids"
check "a word among ids names the place" 1 "byte 4: expected ids" --draft lookup --corpus "$T/word.ids"
check "nobody reads it with --draft off" 2 "only --draft lookup and auto" --draft off \
    --corpus "$T/answer.txt"
check "a store too small to be one" 2 "suffix-store-mb" --draft lookup --suffix-store-mb 100KB \
    --suffix-store-mb 0.001
truncate -s 70M "$T/long"
check "one that is too long" 2 "1 byte to 64 MiB" --draft lookup --corpus "$T/long"
"$H" serve --help >"$T/out" 2>"$T/err"
if grep -q -- "--suffix-store-mb MiB .*(192)" "$T/out" && grep -q -- "--corpus FILE" "$T/out"; then ok
else bad "serve's help tells both"; fi

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
