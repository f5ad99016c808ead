#!/usr/bin/env bash
# tests/slow/turns.sh - 200 turns against the default model: the accounting identity holds at every
# gate (--test-hooks verifies each), what the kernel says and the graph does not explain stays under
# 64 MiB, and memory does not grow from turn 100 to turn 200.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 - <<'PYTHON'
import json, subprocess, sys
sys.path.insert(0, "tests")
from serving import BINARY, Report, Server

TURNS, RESTART_EVERY, MIB = 200, 12, 1 << 20
QUESTIONS = ["What is the end anchor?", "Who are you?", "What is the stash?", "Explain a guest", "Hello!",
             "What does the budget graph do?", "Thanks!", "What is the disk tier?", "count to 8"]
t = Report()


def memory(s):
    out = subprocess.run([BINARY, "mem", "--url", s.url, "--format", "json"], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


with Server(["--test-hooks", "--ctx", "8192"]) as s:
    talks, at, gates = {}, {}, 0
    for i in range(1, TURNS + 1):
        who = f"talk-{i % 3}-{i // (3 * RESTART_EVERY)}"
        msgs = talks.setdefault(who, [])
        msgs.append({"role": "user", "content": QUESTIONS[i % len(QUESTIONS)]})
        status, r = s.post("/v1/chat/completions", {"messages": msgs, "temperature": 0, "max_tokens": 80,
                           "chat_template_kwargs": {"enable_thinking": i % 2 == 0}}, headers={"x-session-id": who})
        if not t.check(status == 200, f"turn {i}: {status} {str(r)[:300]}"):
            print(s.log()[-2000:])
            break
        m = r["choices"][0]["message"]
        msgs.append({k: m[k] for k in ("role", "content", "reasoning_content") if m.get(k)} | {"content": m.get("content") or ""})
        h = r["holdfast"]
        t.check(h["cached"] + h["forwarded"] == h["served_tokens"], f"turn {i}: cached + forwarded = served: {h}")
        if i % 50 == 0:
            d = memory(s)
            at[i] = d
            mem = d["memory"]
            t.check(mem["committed_bytes"] == mem["used_bytes"] + mem["committed_free_bytes"],
                    f"turn {i}: committed = used + free: {mem}")
            t.check(mem["unexplained_bytes"] <= 64 * MIB, f"turn {i}: unexplained {mem['unexplained_bytes'] / MIB:.1f} MiB")
            print(f"turn {i}: rss {mem['rss_bytes'] / MIB:.1f} MiB, committed {mem['committed_bytes'] / MIB:.1f}, "
                  f"unexplained {mem['unexplained_bytes'] / MIB:.1f}, gates {max((g['number'] for g in d['gates']), default=0)}", flush=True)
    t.check(set(at) == {50, 100, 150, 200}, f"all dumps were read: {sorted(at)}")
    if 200 in at:
        grown = at[200]["memory"]["unexplained_bytes"] - at[100]["memory"]["unexplained_bytes"]
        t.check(grown <= 2 * MIB, f"unexplained memory grew by {grown / MIB:.2f} MiB from turn 100 to 200")
        heap = at[200]["heap"]["allocated_bytes"] - at[100]["heap"]["allocated_bytes"]
        t.check(heap <= MIB, f"the heap grew by {heap / MIB:.2f} MiB from turn 100 to 200")
        t.check(max(g["number"] for g in at[200]["gates"]) >= TURNS, "every turn passed the gate")
    t.check(s.stop() == 0, "SIGTERM ends with exit 0 (an assertion would have ended the server)")
sys.exit(t.close())
PYTHON
