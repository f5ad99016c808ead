#!/usr/bin/env bash
# load.sh - what of its fair share a model keeps with two busy processes beside it on two cores.
#
#   BENCH_MODEL=folder [BENCH_CPUS=0,1] ./build.sh test bench/load && cat build/logs/bench_load.log
#
# `holdfast bench` alone, then beside two loops pinned to the same cores; the fair share is half.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
cpus=${BENCH_CPUS:-0,1}
rates() {       # prefill of 512 and decode, tokens a second
    taskset -c "$cpus" "${HOLDFAST:-build/holdfast}" bench ${BENCH_MODEL:+-m "$BENCH_MODEL"} \
        --threads 2 --quick --json 2>/dev/null | python3 -c '
import json, sys
f = json.load(sys.stdin)
print(f["level"], f["prefill_tokens_per_s"]["512"], f["decode_tokens_per_s"])'
}
read -r level prefill decode < <(rates)
busy=()
for _ in 1 2; do
    taskset -c "$cpus" sh -c 'while :; do :; done' &
    busy+=($!)
done
read -r _ prefill_busy decode_busy < <(rates)
kill "${busy[@]}"
wait "${busy[@]}" 2>/dev/null
awk -v level="$level" -v p="$prefill" -v q="$prefill_busy" -v d="$decode" -v e="$decode_busy" 'BEGIN {
    printf "level %s, 2 threads on 2 cores: prefill %.0f, beside two busy processes %.0f: %.2f of the fair half\n", level, p, q, q / (p / 2)
    printf "decode %.1f, beside two busy processes %.1f: %.2f of the fair half\n", d, e, e / (d / 2)
    print (p > 0 && q > 0 ? "1 passed, 0 failed" : "0 passed, 1 failed")
}'
