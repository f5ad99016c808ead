#!/usr/bin/env bash
# tests/http/draft_modes.sh - the built server with every --draft: the same answers, streamed or not,
# and the same numbers of drafts in stats, ledger, log line and /metrics; what is refused.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 - <<'PYTHON'
import os, re, subprocess, sys, tempfile
sys.path.insert(0, "tests")
from serving import BINARY, Report, Server

t = Report()
FILE = "\n".join(f"int row_{i}(int x) {{ return x + {i}; }}" for i in range(12))
ASKS = [{"messages": [{"role": "user", "content": "What is the end anchor?"}], "temperature": 0},
        {"messages": [{"role": "user", "content": f"Copy this file:\n{FILE}"}], "temperature": 0, "max_tokens": 60},
        {"messages": [{"role": "user", "content": "What is the stash?"}], "temperature": 1.1, "top_p": 0.9,
         "presence_penalty": 0.5, "seed": 7, "max_tokens": 50, "logprobs": True, "top_logprobs": 2},
        {"messages": [{"role": "user", "content": "What is a line?"}], "temperature": 0.8, "seed": 3,
         "stop": [" is", "the "], "max_tokens": 40}]


def answers(s):
    out = []
    for i, a in enumerate(ASKS * 2):                    # the second time resumed
        status, b = s.post("/v1/chat/completions", a, headers={"x-session-id": f"s{i % len(ASKS)}"})
        t.check(status == 200, f"{i}: {status} {b}")
        c = b["choices"][0]
        out.append((c["message"], c["finish_reason"], c.get("logprobs"), b["usage"]["completion_tokens"]))
    return out


def numbers(s, mode, drafter):
    _, stats = s.get("/v1/cache/stats")
    d, ledger = stats["drafts"], stats["ledger"]
    t.check(d["mode"] == mode, f"{mode}: {d}")
    if not drafter:
        t.check(all(not r["drafts"] for r in ledger), f"{mode}: {ledger}")
        return
    n = d[drafter]
    t.check(n["blocks"] > 0 and 0 <= n["accepted"] <= n["drafted"], f"{mode}: {n}")
    t.check(sum(d["blocks_by_accepted"]) == n["blocks"], f"{mode}: {d}")
    for key in ("blocks", "drafted", "accepted"):
        t.check(sum(r["drafts"].get(drafter, {}).get(key, 0) for r in ledger) == n[key], f"{mode} {key} of the ledger")
    t.check(d["last"][-1][0] == drafter, f"{mode}: {d['last']}")
    _, metrics = s.get("/metrics")
    for name, key in (("draft_blocks", "blocks"), ("drafted_tokens", "drafted"), ("accepted_tokens", "accepted")):
        t.check(f'holdfast_{name}_total{{drafter="{drafter}"}} {n[key]}\n' in metrics, f"{mode} {name}: {metrics}")
    suffix, store = stats["suffix"], {k: int(v) for k, v in re.findall(r"^holdfast_(suffix_\w+) (\d+)$", metrics, re.M)}
    for name, key in (("tokens", "tokens"), ("bytes", "bytes"), ("memory_bytes", "memory_bytes"), ("lookups_total", "lookups"),
                      ("hits_total", "hits"), ("proposed_tokens_total", "proposed")):
        t.check(store.get(f"suffix_{name}") == suffix[key], f"{mode} suffix_{name}: {store} {suffix}")
        t.check(drafter != "lookup" or suffix[key] > 0, f"{mode}: suffix {key} {suffix}")
    lines = [re.search(r"drafted=(\d+) accepted=(\d+)", x) for x in s.log().splitlines() if " finish=" in x]
    t.check(sum(int(m.group(1)) for m in lines) == n["drafted"], f"{mode}: log lines")


base = ["--ctx", "4096", "--parallel", "2"]
with Server(base + ["--draft", "off"]) as s:
    plain = answers(s)
    numbers(s, "off", None)
for flags, mode, drafter in ((["--draft", "lookup", "--draft-max", "5"], "lookup", "lookup"),
                             (["--draft", "auto"], "auto", None),
                             (["--test-hooks", "--draft-seed", "4"], "hostile", "hostile")):
    with Server(base + flags) as s:
        for i, (a, b) in enumerate(zip(plain, answers(s))):
            t.check(a == b, f"{mode} {i}: {a} {b}")
        if mode != "auto":
            numbers(s, mode, drafter)

with tempfile.TemporaryDirectory() as folder:
    def refused(name, flags, rc, word):
        p = subprocess.run([BINARY, "serve", "--port", "0"] + flags, capture_output=True, text=True, timeout=60)
        t.check(p.returncode == rc and word in p.stderr, f"{name}: {p.returncode} {p.stderr}")
    refused("mtp without a head", ["--draft", "mtp"], 2, "has no draft head")
    refused("no such drafter", ["--draft", "tree"], 2, "off|mtp|lookup|auto")
    refused("too many ids", ["--draft-max", "32"], 2, "draft-max")
    refused("hostile outside tests", ["--draft-seed", "1"], 2, "--test-hooks")
sys.exit(t.close())
PYTHON
