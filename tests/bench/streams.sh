#!/usr/bin/env bash
# tests/bench/streams.sh - decode tokens/s of one stream and of four, and of one with every tier on
# and with every tier off, each pair in turn on the same machine.
#
#   BENCH_MODEL=DIR/hf ./build.sh test bench/streams && cat build/logs/bench_streams.log
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 - <<'PYTHON'
import json, os, sys, threading, time
sys.path.insert(0, "tests")
from serving import Report, Server

MODEL, TOKENS, ROUNDS = os.environ.get("BENCH_MODEL"), int(os.environ.get("BENCH_TOKENS", "256")), 5
OFF = ["--cache-dir", "off", "--resident-gb", "0", "--resident-stash-gb", "0", "--resident-pin-gb", "0",
       "--resident-park-gb", "0", "--store-gb", "0"]
flags = ["--ctx", "4096", "--parallel", "4", "--log-level", "warn"]
flags += ["--model", MODEL, "--template", "3.8"] if MODEL else []
t = Report()


def stream(s, seed, out):
    body = {"messages": [{"role": "user", "content": f"Stream {seed}: tell me of the river and its stones."}],
            "max_tokens": TOKENS, "temperature": 0.8, "seed": seed}
    status, b = s.post("/v1/chat/completions", body)
    if t.check(status == 200 and b["usage"]["completion_tokens"] > 0, f"stream {seed}: {status} {str(b)[:300]}"):
        out.append(b["usage"]["completion_tokens"])


def rate(s, count, seed):
    """Tokens/s of `count` streams together, from the first request to the last answer."""
    out, at = [], time.monotonic()
    threads = [threading.Thread(target=stream, args=(s, seed + i, out)) for i in range(count)]
    for x in threads: x.start()
    for x in threads: x.join()
    return sum(out) / (time.monotonic() - at)


with Server(flags) as on, Server(flags + OFF) as off:
    rate(on, 1, 1), rate(off, 1, 1)
    best = {"one": 0, "four": 0, "off": 0}
    for i in range(ROUNDS):
        best["one"] = max(best["one"], rate(on, 1, 100 * i))
        best["off"] = max(best["off"], rate(off, 1, 100 * i))
        best["four"] = max(best["four"], rate(on, 4, 100 * i + 50))
    print(f"best of {ROUNDS}, at most {TOKENS} tokens a stream, prefill and HTTP included, model {MODEL or 'embedded'}")
    print(f"one stream, every tier on    {best['one']:8.1f} tokens/s")
    print(f"one stream, every tier off   {best['off']:8.1f} tokens/s; on / off {best['one'] / best['off']:.3f}")
    print(f"four streams together        {best['four']:8.1f} tokens/s; four / one {best['four'] / best['one']:.2f}")
sys.exit(t.close())
PYTHON
