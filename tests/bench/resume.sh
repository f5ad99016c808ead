#!/usr/bin/env bash
# tests/bench/resume.sh - what a resumed turn costs beside the forward of its new tokens alone:
# lookup, gate and restore, and the first token as the client sees it, over HTTP.
#
#   BENCH_MODEL=DIR/hf ./build.sh test bench/resume && cat build/logs/bench_resume.log
#
# BENCH_TOKENS (8192) is the length of the conversation, with the embedded model a quarter of it.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 - <<'PYTHON'
import http.client, json, os, re, statistics, sys, time
sys.path.insert(0, "tests")
from serving import Report, Server

MODEL, TURNS = os.environ.get("BENCH_MODEL"), 7
ROWS = int(os.environ.get("BENCH_TOKENS", "8192" if MODEL else "2048"))
flags = ["--ctx", str(ROWS + 6144), "--parallel", "1", "--cache-dir", "off", "--draft", "off"]
flags += ["--model", MODEL, "--template", "3.8"] if MODEL else []
t = Report()


def words(n, seed):
    return " ".join(f"w{(i * 7919 + seed * 104729) % 997}" for i in range(n))


def first_token_s(s, messages):
    """Seconds from the request to the first event with text, and the answer."""
    c = http.client.HTTPConnection(s.host, s.port, timeout=600)
    at = time.monotonic()
    c.request("POST", "/v1/chat/completions", json.dumps({
        "messages": messages, "max_tokens": 8, "temperature": 0, "stream": True,
        "chat_template_kwargs": {"enable_thinking": False}}), {"Content-Type": "application/json"})
    r, first, text, prompt = c.getresponse(), None, "", 0
    t.check(r.status == 200, f"status {r.status}")
    for line in r:
        if not line.startswith(b"data: {"):
            continue
        e = json.loads(line[6:])
        for choice in e["choices"]:
            piece = choice["delta"].get("content") or choice["delta"].get("reasoning_content") or ""
            if piece and first is None:
                first = time.monotonic() - at
            text += piece
    c.close()
    return first, text


with Server(flags) as s:
    messages, seen = [{"role": "user", "content": words(ROWS // 3, 1)}], []
    for i in range(TURNS + 1):
        first, text = first_token_s(s, messages)
        seen.append(first or 0)
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": words(80, 10 + i)}]
    lines = [dict(re.findall(r"(\w+)=([\w.-]+)", l)) for l in s.log().splitlines() if "info turn " in l]
    t.check(len(lines) == TURNS + 1, f"{len(lines)} turns in the log")
    print(f"model {MODEL or 'embedded'}, {lines[0]['prompt']} tokens, then {TURNS} turns")
    print("source  cached  forwarded  queue + restore ms  forward ms  first token ms  first / forward")
    ratios, costs = [], []
    for x, first in list(zip(lines, seen))[1:]:
        cost, prefill = float(x["queue_ms"]) + float(x["restore_ms"]), float(x["prefill_ms"])
        ratios.append(1e3 * first / prefill)
        costs.append(float(x["restore_ms"]))
        t.check(x["source"] == "end", f"a turn resumes at the end: {x}")
        print(f"{x['source']:<7} {x['cached']:>6} {x['forwarded']:>10} {cost:19.2f} {prefill:11.1f} {1e3 * first:15.1f} "
              f"{ratios[-1]:16.3f}")
    print(f"median: lookup, gate and restore {statistics.median(costs):.2f} ms; first token / forward of the new tokens "
          f"{statistics.median(ratios):.3f}")
sys.exit(t.close())
PYTHON
