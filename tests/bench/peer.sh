#!/usr/bin/env bash
# tests/bench/peer.sh - the speed scenarios on two OpenAI-style servers in turn, and their ratios.
#
#   tests/bench/peer.sh URL_A URL_B [ROUNDS]      e.g. http://127.0.0.1:8080 http://127.0.0.1:8081
#
# Every round runs A then B with a seed of its own, so that neither finds the other's cache and a
# busy minute falls on both; a figure is the median of the rounds, a ratio is A / B (tokens/s: more
# is better; seconds: less is).  PEER_TOKENS sets the length of the prompts (2048), PEER_ONLY the
# scenarios (cold,again,grow,longgen,aba).  tests/bench/llama.mjs is a peer to run.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
[ $# -gt 0 ] || [ -z "${HOLDFAST:-}" ] ||
    { echo "skipped: it compares two servers: tests/bench/peer.sh URL_A URL_B"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
[ $# -ge 2 ] && [ $# -le 3 ] || { sed -n '2,9s/^# \{0,1\}//p' tests/bench/peer.sh >&2; exit 2; }
exec /usr/bin/python3 - "$@" <<'PYTHON'
import json, os, statistics, subprocess, sys

a, b, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3
TOKENS = os.environ.get("PEER_TOKENS", "2048")
ONLY = os.environ.get("PEER_ONLY", "cold,again,grow,longgen,aba")


def run(url, seed):
    """scenario -> its line"""
    p = subprocess.run(["/usr/bin/python3", "tests/scenarios/scenarios.py", "--url", url, "--seed", str(seed),
                        "--prompt-tokens", TOKENS, "--only", ONLY, "--label", "peer"], capture_output=True, text=True)
    lines = [json.loads(x) for x in p.stdout.splitlines() if x.startswith("{")]
    if p.returncode != 0 or not lines:
        sys.exit(f"peer.sh: {url}: exit {p.returncode}: {p.stderr[-400:]}")
    for x in lines:
        if x.get("error"):
            sys.exit(f"peer.sh: {url}: {x['scenario']}: {x['error']}")
    return {x["scenario"]: x for x in lines}


def figures(found):
    """name -> (value, unit) of one run"""
    out = {}
    for name, x in found.items():
        if x.get("ttft_s"):
            out[f"{name}: first token"] = (x["ttft_s"], "s")
        if x.get("decode_tok_s"):
            out[f"{name}: decode"] = (x["decode_tok_s"], "tokens/s")
        if name == "cold" and x.get("prompt_tokens") and x.get("ttft_s"):
            out["cold: prefill"] = (x["prompt_tokens"] / x["ttft_s"], "tokens/s")
    return out


seen = {"A": [], "B": []}
for i in range(rounds):
    for key, url in (("A", a), ("B", b)):
        seen[key].append(figures(run(url, 1000 + i)))
        print(f"round {i + 1} of {rounds}: {key} {url} done", file=sys.stderr, flush=True)
print(f"A {a}\nB {b}\nmedian of {rounds} rounds, prompts of {TOKENS} tokens\n")
print(f"{'figure':<24} {'A':>10} {'B':>10} {'A / B':>8}")
for name, (_, unit) in seen["A"][0].items():
    values = [[f[name][0] for f in seen[k] if name in f] for k in ("A", "B")]
    if not values[1]:
        print(f"{name:<24} {statistics.median(values[0]):10.3f} {'-':>10}")
        continue
    x, y = statistics.median(values[0]), statistics.median(values[1])
    print(f"{name:<24} {x:10.3f} {y:10.3f} {x / y:8.2f}  {unit}")
PYTHON
