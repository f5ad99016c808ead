#!/usr/bin/env bash
# tests/http/restart.sh - K20 to K22 on the built server, over one cache folder: SIGTERM, SIGKILL in
# the middle of turn 5, one bit of one tensor.  What the next turn forwards, and that its answer is
# that of a server which keeps nothing on disk.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 - <<'PYTHON'
import http.client, json, os, shutil, signal, subprocess, sys, tempfile, threading, time
sys.path.insert(0, "tests")
from serving import Report, Server

t = Report()
work = tempfile.mkdtemp(prefix="holdfast-restart-")
home, model = os.path.join(work, "home"), os.path.join(work, "model")
os.mkdir(home, 0o700)
shutil.copytree("profiles/default-model", model)
RULES = " ".join(f"Rule {i}: the river runs over stone number {i} and never back." for i in range(40))
FLAGS = ["--model", model, "--test-hooks", "--ctx", "8192", "--grid", "64", "--block", "16", "--journal-idle-s", "0.05",
         "--disk-free-gb", "0", "--spill-free-gb", "0", "--log-level", "info"]
GLUE = 8                                                # ids between an answer and the next message


def turn(s, messages, text, tokens=12):
    """One turn; the answer is added to the messages."""
    messages.append({"role": "user", "content": text})
    status, b = s.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": tokens,
                                                "logprobs": True, "top_logprobs": 2}, headers={"x-session-id": "river"})
    if not t.check(status == 200, f"{text}: {status} {b}"):
        return None
    m = b["choices"][0]["message"]
    messages.append({k: m[k] for k in ("role", "content", "reasoning_content") if m.get(k) is not None})
    return {**b["holdfast"], "answer": m, "logprobs": b["choices"][0]["logprobs"], "total": b["usage"]["total_tokens"],
            "prompt": b["usage"]["prompt_tokens"]}


def cold(messages, tokens=12):
    """The same last turn on a server that keeps nothing on disk."""
    with Server([*FLAGS, "--cache-dir", "off"]) as s:
        return turn(s, messages[:-2], messages[-2]["content"], tokens)


def equals_cold(name, got, messages):
    want = cold(messages)
    t.check(got["answer"] == want["answer"], f"{name}: the answer is the cold one: {got['answer']} {want['answer']}")
    t.check(got["logprobs"] == want["logprobs"], f"{name}: so are its logprobs")


def new_tokens(name, got, before):
    """It forwards its new tokens, and the last of the answer before it."""
    new = got["prompt"] - before["total"]
    t.check(got["source"] in ("spill", "end"), f"{name}: {got}")
    t.check(got["forwarded"] <= new + GLUE and got["cached"] >= before["total"] - GLUE, f"{name}: {new} new, {got['forwarded']} forwarded")


def written(s, saves):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        n = s.get("/v1/cache/stats")[1]["nvme"]
        if n["spill_complete"] >= saves:
            return
        time.sleep(0.02)
    t.check(False, f"the write-behind wrote {saves} turns: {n}")


def cut_off(s, messages, text):
    """A long turn that is killed in the middle."""
    c = http.client.HTTPConnection(s.host, s.port, timeout=60)
    body = {"messages": messages + [{"role": "user", "content": text}], "max_tokens": 2000, "stream": True, "ignore_eos": True}
    c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json", "x-session-id": "river"})
    r = c.getresponse()
    for _ in range(8):
        r.readline()
    s.stop(signal.SIGKILL)
    c.close()


messages = [{"role": "system", "content": RULES}]
s = Server(FLAGS, home=home)
before = turn(s, messages, "Tell me of stone 7.")
t.check(before["source"] == "cold", f"the first turn is cold: {before}")

# K20: SIGTERM, start, next turn
t.check(s.stop() == 0, "SIGTERM ends with exit 0")
s = Server(FLAGS, home=home)
got = turn(s, messages, "And of stone 9?")
new_tokens("after SIGTERM", got, before)
equals_cold("after SIGTERM", got, messages)

# K21: kill -9 in the middle of turn 5, after the write-behind had its interval
for i in range(2):
    got = turn(s, messages, f"And of stone {i}?")
written(s, 1)
saves = s.get("/v1/cache/stats")[1]["nvme"]["spill_complete"]
time.sleep(0.3)
before = got
cut_off(s, messages, "And of all of them?")
s = Server(FLAGS, home=home)
n = s.get("/v1/cache/stats")[1]["nvme"]
t.check(n["bad_files"] == 0 and n["spill_bad_at_start"] == 0, f"a clean start: {n}")
got = turn(s, messages, "And of the last one?")
new_tokens("after SIGKILL in turn 5", got, before)
equals_cold("after SIGKILL in turn 5", got, messages)
before = got
t.check(s.stop() == 0, "SIGTERM ends with exit 0")

# K22: one bit of one tensor, the same name, path and size; and back
weights = os.path.join(model, "model.safetensors")
was = os.stat(weights)
with open(weights, "r+b") as f:
    at = was.st_size - 64
    f.seek(at)
    byte = f.read(1)[0]
    for now, name in ((byte ^ 1, "other weights"), (byte, "the old weights")):
        f.seek(at)
        f.write(bytes([now]))
        f.flush()
        os.utime(weights, ns=(was.st_atime_ns, was.st_mtime_ns))
        s = Server(FLAGS, home=home)
        n = s.get("/v1/cache/stats")[1]["nvme"]
        talk = list(messages)
        got = turn(s, talk, "And once more?")
        if now != byte:
            t.check(got["source"] == "cold" and n["found_at_start"] == 0, f"{name}: {got} {n}")
            t.check(n["other_folders"] == 1 and s.get("/v1/cache/stats")[1]["nvme"]["read_files"] == 0, f"{name}: counted, not read: {n}")
        else:
            new_tokens(name, got, before)
        equals_cold(name, got, talk)
        t.check(s.stop() == 0, "SIGTERM ends with exit 0")

# without a park the conversation stands in its slot before the first request
s = Server([*FLAGS, "--resident-park-gb", "0"], home=home)
read = s.get("/v1/cache/stats")[1]["nvme"]["read_files"]
t.check(read > 0 and "used last are back" in s.log(), f"it was read at the start: {read}")
before, got = got, turn(s, talk, "And without a park?")
new_tokens("without a park", got, before)
t.check(got["source"] == "spill" and s.get("/v1/cache/stats")[1]["nvme"]["read_files"] == read, f"without a park: {got}")
equals_cold("without a park", got, talk)
t.check(s.stop() == 0, "SIGTERM ends with exit 0")
shutil.rmtree(work)
sys.exit(t.close())
PYTHON
