#!/usr/bin/env bash
# tests/http/words.sh - run, bench and tiny from the outside: output, exit codes, errors by name.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
H=${HOLDFAST:-build/holdfast}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); printf 'FAILED: %s\n' "$1"; cat "$T/out" "$T/err"; }
# check NAME RC WORD-IN-STDOUT WORD-IN-STDERR command...
check() {
    local name=$1 rc=$2 out=$3 err=$4
    shift 4
    timeout 60 "$@" >"$T/out" 2>"$T/err" </dev/null
    if [ $? -eq "$rc" ] && { [ -z "$out" ] || grep -q -- "$out" "$T/out"; } &&
        { [ -z "$err" ] || grep -q -- "$err" "$T/err"; }; then ok
    else bad "$name"; fi
}

check "run answers what the default model was taught" 0 "end anchor is taken" "" \
    "$H" run -p "What is the end anchor?" --no-think --temperature 0
check "run --json is a chat completion" 0 '"object":"chat.completion"' "" \
    "$H" run -p "What is the end anchor?" --json --temperature 0 --seed 1
check "reasoning goes to stderr" 0 "stash is" "stash" \
    "$H" run -p "What is the stash?" --think --temperature 0
printf 'What is the end anchor?\n' | timeout 60 "$H" run --no-think --temperature 0 >"$T/out" 2>"$T/err"
if grep -q "end anchor is taken" "$T/out"; then ok; else bad "run reads standard input"; fi
check "a limit of tokens cuts the answer" 0 "The" "" \
    "$H" run -p "What is the end anchor?" --no-think --temperature 0 --max-tokens 2
timeout 60 "$H" run --temperature 0 --think -p "What is the stash?" >"$T/out" 2>"$T/err"
if cat "$T/err" "$T/out" | grep -q '^The stash'; then ok; else bad "reasoning ends with its line"; fi
check "run without any prompt is bad usage" 2 "" "standard input is empty" "$H" run
check "the version is one line" 0 "^holdfast [0-9]" "" "$H" --version
check "bench names an arithmetic that isn't here" 2 "" "arithmetic foo" "$H" bench --arithmetic foo
for words in "q8_0=int4" "fp8=int8" "f32,q8_0=bf16" "q9=bf16" "bf16,," "q8_0="; do
    check "--arithmetic $words is refused by name" 2 "" "arithmetic $words" "$H" bench --arithmetic "$words"
done
for words in auto int8 bf16 q8_0=bf16 bf16,q8_0=int8 q4_k=bf16,q8_0=auto q4_k=int8,q6_k=int8 int8,q4_0=bf16; do
    check "--arithmetic $words is taken" 1 "" "nowhere" "$H" run -m "$T/nowhere" -p x --arithmetic "$words"
done
check "run on a missing folder names it" 1 "" "nowhere" "$H" run -m "$T/nowhere" -p x
check "an unknown flag names the nearest" 2 "" "--temperature" "$H" run --temprature 1 -p x

check "tiny writes a checkpoint" 0 "$T/tiny" "" "$H" tiny "$T/tiny" --layers 4 --hidden 64 --seed 5
check "the same seed, the same bytes" 0 "$T/twin" "" "$H" tiny "$T/twin" --layers 4 --hidden 64 --seed 5
if cmp -s "$T/tiny/model.safetensors" "$T/twin/model.safetensors" &&
    cmp -s "$T/tiny/tokenizer.json" "$T/twin/tokenizer.json"; then ok; else bad "twins differ"; fi
check "another seed, other bytes" 0 "" "" "$H" tiny "$T/twin" --layers 4 --hidden 64 --seed 6
if cmp -s "$T/tiny/model.safetensors" "$T/twin/model.safetensors"; then bad "seeds"; else ok; fi
check "a tiny model answers" 0 '"completion_tokens":8' "" \
    "$H" run -m "$T/tiny" -p "hello" --json --max-tokens 8 --seed 3
check "tiny without a folder is bad usage" 2 "" "tiny needs a folder" "$H" tiny
check "a family that isn't here is named" 1 "" "qwen4_exp" "$H" tiny "$T/x" --family qwen4_exp
check "a size that can't be is bad usage" 2 "" "multiple of 64" "$H" tiny "$T/x" --hidden 100

check "bench prints its figures as JSON" 0 '"decode_tokens_per_s":' "" \
    "$H" bench -m "$T/tiny" --quick --json
if /usr/bin/python3 - "$T/out" <<'PY'
import json, sys
o = json.load(open(sys.argv[1]))
assert set(o["prefill_tokens_per_s"]) == {"512", "2048"}
for k in ("decode_tokens_per_s", "resume_ms", "peak_gflops", "read_gb_per_s", "threads"):
    assert o[k] > 0, k
assert "scalar" in o["levels"]
assert set(o["decode_tokens_per_s_after"]) == {"512", "2048"}
roof = o["roofline"]
for k in ("probe_gflops", "probe_read_gb_per_s", "products_share"):
    assert roof[k] > 0, k
assert set(roof["prefill_share"]) == {"512", "2048"} and all(0 < x for x in roof["prefill_share"].values())
assert set(roof["decode_share"]) == {"512", "2048"} and all(0 < x for x in roof["decode_share"].values())
PY
then ok; else bad "bench's object"; fi
for word in run bench tiny; do
    check "$word --help" 0 "holdfast $word" "" "$H" "$word" --help
done
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
