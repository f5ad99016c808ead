#!/usr/bin/env bash
# tests/http/strip.sh - a client that never sends reasoning back and respells what JavaScript
# respells: from its second follow-up on at least 97 % of each prompt is in place.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 - <<'PYTHON'
import json, os, sys, tempfile
sys.path.insert(0, "tests")
from serving import Report, Server

t = Report()
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {
    "path": {"type": "string"}, "limit": {"type": "number"}, "where": {"type": "object"}}}}}]
SYSTEM = " ".join(f"Rule {i}: the river runs over stone number {i} and never back." for i in range(60))
ANSWERS = []
for i in range(8):
    a = {"reasoning": f"Step {i}: I weigh what to read next, and how much of it is of use here.\nThen I choose.",
         "content": "" if i % 3 == 1 else f"I look at file {i}."}
    if i % 2 == 1:
        a["tool_calls"] = [{"name": "read", "arguments": {"path": f"src/{i}.c", "where": {"b": 2.0, "10": 1, "2": [1.5]}}},
                           {"name": "read", "arguments": {"path": "x", "limit": 100.0}}]
    ANSWERS.append(a)


def js(v):
    """JSON.parse, then JSON.stringify"""
    if isinstance(v, dict):
        index = sorted((k for k in v if k.isdigit() and str(int(k)) == k), key=int)
        return {k: js(v[k]) for k in index + [k for k in v if k not in index]}
    if isinstance(v, list):
        return [js(x) for x in v]
    return int(v) if isinstance(v, float) and v == int(v) else v


def talk(s, session, more, keep=False, turns=8):
    """(usage, holdfast, message) of each turn"""
    messages, out = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Begin."}], []
    for i in range(turns):
        status, b = s.post("/v1/chat/completions", {"messages": messages, "tools": TOOLS, "temperature": 0, **more},
                           headers={"x-session-id": session, "x-holdfast-force": str(i)})
        t.check(status == 200, f"{session} {i}: {status} {b}")
        m = b["choices"][0]["message"]
        out.append((b["usage"], b["holdfast"], m))
        kept = {"role": "assistant", "content": m["content"]}
        if keep:
            kept["reasoning_content"] = m.get("reasoning_content")
        if m.get("tool_calls"):
            kept["tool_calls"] = [{**c, "function": {"name": c["function"]["name"], "arguments": json.dumps(
                js(json.loads(c["function"]["arguments"])), separators=(",", ":"))}} for c in m["tool_calls"]]
        messages.append(kept)
        for c in m.get("tool_calls") or []:
            messages.append({"role": "tool", "tool_call_id": c["id"], "content": "int main"})
        if not m.get("tool_calls"):
            messages.append({"role": "user", "content": "Go on."})
    return out


def sums(who, u, h):
    t.check(h["cached"] + h["forwarded"] == h["served_tokens"], f"{who} sums: {h}")
    t.check(u["prompt_tokens_details"]["cached_tokens"] == max(0, u["prompt_tokens"] - h["forwarded"]), f"{who}: {u} {h}")
    t.check(u["total_tokens"] == u["prompt_tokens"] + u["completion_tokens"], f"{who} total: {u}")


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "force.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(a) + "\n" for a in ANSWERS)
    flags = ["--ctx", "8192", "--parallel", "2", "--test-hooks", "--force-file", path, "--template", "3.8"]
    with Server(flags) as s:
        plain = talk(s, "strip", {})
        for i, (u, h, m) in enumerate(plain):
            sums(f"strip {i}", u, h)
            t.check(m["reasoning_content"] == ANSWERS[i]["reasoning"], f"strip {i} reasoning: {m}")
            if i > 0:
                t.check((h["source"], h["served"]) == ("end", "aligned"), f"strip {i}: {h}")
                t.check(h["forwarded"] < 40, f"strip {i} reads only what is new: {h}")
            if i > 1:
                share = u["prompt_tokens_details"]["cached_tokens"] / u["prompt_tokens"]
                t.check(share >= 0.97, f"strip {i}: {share:.4f} cached {u}")
        for budget in (0, 3):
            for i, (u, h, m) in enumerate(talk(s, f"budget-{budget}", {"thinking_budget": budget}, keep=budget == 3)):
                sums(f"budget {budget} {i}", u, h)
                why = m.get("reasoning_content") or ""
                t.check("used up the budget" not in json.dumps(m), f"budget {budget} {i} shows the phrase: {m}")
                t.check(len(why) < 40 and ANSWERS[i]["reasoning"].startswith(why), f"budget {budget} {i}: {why!r}")
                t.check((m["content"] or "") == ANSWERS[i]["content"], f"budget {budget} {i}: {m}")
                t.check(u["completion_tokens_details"]["reasoning_tokens"] == budget, f"budget {budget} {i}: {u}")
                if i > 0:
                    t.check((h["source"], h["served"]) == ("end", "aligned"), f"budget {budget} {i}: {h}")
                    t.check(h["forwarded"] < 40, f"budget {budget} {i} reads only what is new: {h}")
        _, stats = s.get("/v1/cache/stats")
        turns = stats["turns"]
        t.check(turns["aligned"] == 21 and turns["aligned_tokens"] > 0 and turns["hidden_tokens"] > 0, f"stats: {turns}")
        _, metrics = s.get("/metrics")
        t.check('holdfast_turns_by_served_total{served="aligned"} 21' in metrics, f"metrics: {metrics}")
        t.check(any("served=aligned" in x for x in s.log().splitlines()), "the log line says aligned")
    with Server(flags[:2] + ["--parallel", "1"] + flags[4:]) as s:
        talks = {x: [{"role": "system", "content": f"{SYSTEM} {x}"}, {"role": "user", "content": "Begin."}] for x in "AB"}
        for i in range(0, 8, 2):
            for x, messages in talks.items():       # in turn: each comes back from where it was put aside
                status, b = s.post("/v1/chat/completions", {"messages": messages, "temperature": 0},
                                   headers={"x-session-id": x, "x-holdfast-force": str(i)})
                t.check(status == 200, f"in turn {x} {i}: {status} {b}")
                h, m = b["holdfast"], b["choices"][0]["message"]
                sums(f"in turn {x} {i}", b["usage"], h)
                if i > 0:
                    t.check(h["served"] == "aligned" and h["source"] in ("end", "park"), f"in turn {x} {i}: {h}")
                    t.check(h["forwarded"] < 40, f"in turn {x} {i} reads only what is new: {h}")
                messages += [{"role": "assistant", "content": m["content"]}, {"role": "user", "content": "Go on."}]
    # the server is told to end at once after the last answer: its calls stand on disk all the same
    boot = flags[:2] + ["--parallel", "1"] + flags[4:] + ["--cache-dir", os.path.join(folder, "cache"), "--spill-min-tokens",
                                                         "64", "--grid", "64", "--block", "16"]
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Begin."}]
    for i in (1, 3, 5):
        with Server(boot) as s:
            status, b = s.post("/v1/chat/completions", {"messages": messages, "tools": TOOLS, "temperature": 0},
                               headers={"x-session-id": "boot", "x-holdfast-force": str(i)})
        t.check(status == 200, f"restart {i}: {status} {b}")
        h, m = b["holdfast"], b["choices"][0]["message"]
        sums(f"restart {i}", b["usage"], h)
        if i > 1:
            t.check((h["source"], h["served"]) in (("spill", "aligned"), ("end", "aligned")), f"restart {i}: {h}")
            t.check(h["forwarded"] < 60, f"restart {i} reads only what is new: {h}")
        messages.append({"role": "assistant", "content": m["content"], "tool_calls": [
            {**c, "function": {"name": c["function"]["name"], "arguments": json.dumps(js(json.loads(c["function"]["arguments"])))}}
            for c in m["tool_calls"]]})
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": "int main"} for c in m["tool_calls"]]
    with Server(flags + ["--end-align-reasoning", "off"]) as s:
        for i, (u, h, m) in enumerate(talk(s, "off", {})):
            sums(f"off {i}", u, h)
            t.check(h["served_tokens"] == u["prompt_tokens"] and h["served"] == "sent", f"off {i}: {h} {u}")
            if i > 0:
                t.check(h["reason"] == "parted" and h["part_pos"]["role"] == "assistant", f"off {i}: {h}")
    with Server(flags + ["--end-align", "off"]) as s:
        out = talk(s, "keep", {"thinking_budget": 3}, keep=True, turns=3)
        t.check([h["served"] for _, h, _ in out] == ["sent"] * 3, f"all off: {out}")
sys.exit(t.close())
PYTHON
