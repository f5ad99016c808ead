"""The checks of binary.sh against build/holdfast serving the embedded model."""
import http.client
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, "tests")
from serving import BINARY, Report, Server  # noqa: E402

t = Report()
CHAT = "/v1/chat/completions"
work = tempfile.mkdtemp(prefix="holdfast-http-")


def write(name, text):
    path = os.path.join(work, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


long_answer = " ".join(f"word{i % 10}" for i in range(1500))
force = write("force.jsonl", "".join(json.dumps(e) + "\n" for e in (
    {"reasoning": "r", "content": "Short."},
    {"reasoning": "r", "content": long_answer},
)))
HOOKS = ["--ctx", "16384", "--test-hooks", "--force-file", force]
LONG = " ".join(f"item {i} costs {i * 7 % 101} coins;" for i in range(360))


def ask(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}


class Stream:
    """A request whose answer is read line by line from a raw socket."""

    def __init__(self, s, body, headers=None, path=CHAT):
        self.sock = socket.create_connection((s.host, s.port), timeout=60)
        data = json.dumps(body).encode()
        lines = {"Host": "localhost", "Content-Length": len(data), **(headers or {})}
        head = f"POST {path} HTTP/1.0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
        self.sock.sendall(head.encode() + b"\r\n" + data)
        self.text = ""
        self.times = []

    def until(self, needle, seconds=30):
        """Reads until `needle` is there; False when the stream or the time ended first."""
        end = time.monotonic() + seconds
        while needle not in self.text:
            self.sock.settimeout(max(0.01, end - time.monotonic()))
            try:
                piece = self.sock.recv(65536)
            except TimeoutError:
                return False
            if not piece:
                return False
            self.times.append(time.monotonic())
            self.text += piece.decode("utf-8", "replace")
        return True

    def rest(self, seconds=60):
        self.until("\0", seconds)
        return self.text

    def close(self):
        self.sock.close()


def stats(s):
    return s.get("/v1/cache/stats")[1]


def eventually(what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return what()


def idle(s):
    return all(x["state"] == "idle" for x in stats(s)["slots"])


def turns_and_seeds():
    with Server(HOOKS) as s:
        t.check("model holdfast-default, ctx 16384, backend cpu" in s.ready, f"ready line: {s.ready}")
        body = ask("Tell me about the stash.", max_tokens=24, temperature=1.2, top_k=0, top_p=1)
        texts = [s.post(CHAT, {**body, "seed": seed})[1]["choices"][0]["message"] for seed in (7, 7, 8)]
        t.check(texts[0] == texts[1], f"one seed, one answer: {texts[:2]}")
        t.check(texts[0] != texts[2], f"another seed, another answer: {texts}")
        greedy = [s.post(CHAT, ask("What is the end anchor?", temperature=0, max_tokens=60))[1] for _ in range(2)]
        t.check(greedy[0]["choices"] == greedy[1]["choices"], "greedy twice is the same")
        h = greedy[1]["holdfast"]
        t.check(h["forwarded"] == 1, f"the same prompt again forwards one token: {h}")
        m = [{"role": "user", "content": "What is the stash?"}]
        first = s.post(CHAT, {"messages": m, "temperature": 0}, headers={"x-session-id": "one"})[1]
        m += [{k: v for k, v in first["choices"][0]["message"].items() if v}, {"role": "user", "content": "Thanks!"}]
        c = http.client.HTTPConnection(s.host, s.port)
        c.request("POST", CHAT, json.dumps({"messages": m, "temperature": 0}), {"x-session-id": "one"})
        r = c.getresponse()
        second = json.loads(r.read())
        t.check(r.headers["x-cache-source"] == "end", f"x-cache-source: {r.headers['x-cache-source']}")
        usage = second["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        t.check(cached >= first["usage"]["total_tokens"] - 1, f"the second turn forwards what is new: {usage}")
        t.check(second["holdfast"]["cached"] + second["holdfast"]["forwarded"] == second["holdfast"]["served_tokens"], "cached + forwarded")
        edited = [m[0], m[1], {"role": "user", "content": "Thank you!"}]
        third = s.post(CHAT, {"messages": edited, "temperature": 0, "max_tokens": 4}, headers={"x-session-id": "one"})[1]["holdfast"]
        t.check(third["part_pos"] and third["part_pos"]["role"] == "user", f"where an edit parted: {third}")
        status, cleared = s.post("/v1/cache/clear", {"session": "one"})
        t.check(status == 200, f"clear of a session: {status} {cleared}")
        status, body = s.request("POST", "/v1/cache/clear?tier=nonsense")
        t.check(status != 200 and "nonsense" in str(body), f"a tier of the query is named when unknown: {status} {body}")
        status, body = s.request("POST", "/v1/cache/clear?session=nobody&tier=all")
        t.check(status == 200 and body.get("records") == 0, f"the query names the session: {status} {body}")
        status, body = s.post("/v1/cache/clear", {"session": "never-seen"})
        t.check(status == 200 and body["records"] == 0, f"clear of an unknown session: {status} {body}")
        c.close()
        status, whole = s.post("/v1/completions", {"prompt": "Holdfast is", "max_tokens": 5, "temperature": 0})
        ids = s.post("/tokenize", {"content": "Holdfast is"})[1]["tokens"]
        status, same = s.post("/v1/completions", {"prompt": ids, "max_tokens": 5, "temperature": 0})
        t.check(whole["choices"] == same["choices"], "completion of text and of its ids")
        status, text = s.get("/metrics")
        t.check("holdfast_turns_by_source_total{source=\"end\"} " in text, "metrics by source")
        run = subprocess.run([BINARY, "mem", "--url", s.url], capture_output=True, text=True, timeout=30)
        t.check(run.returncode == 0 and "anchors" in run.stdout, f"mem speaks to /admin: {run.stdout[:200]} {run.stderr}")


def many_at_once():
    with Server(HOOKS + ["--parallel", "2"]) as s:
        out = []

        def one(i):
            q = Stream(s, ask(f"count {i}", stream=True), {"x-holdfast-force": "0"})
            out.append(q.rest())
            q.close()

        threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
        for x in threads:
            x.start()
        for x in threads:
            x.join()
        done = sum("data: [DONE]" in x and "\"content\":\"" in x for x in out)
        t.check(done == 12, f"12 streams over 2 slots complete: {done}")


def cancel():
    with Server(HOOKS + ["--threads", "1"]) as s:
        for stream in (True, False):
            before = stats(s)["turns"]["cancelled"]
            q = Stream(s, ask(LONG, stream=stream, max_tokens=50))
            busy = eventually(lambda: not idle(s))
            t.check(busy, "the long prompt is being read")
            q.close()
            t0 = time.monotonic()
            t.check(eventually(lambda: stats(s)["turns"]["cancelled"] == before + 1), f"closing cancels a prefill, stream {stream}")
            t.check(time.monotonic() - t0 < 5, f"within one chunk: {time.monotonic() - t0:.1f} s")
            before += 1
            q = Stream(s, ask("go", stream=stream), {"x-holdfast-force": "1"})
            t.check(not stream or q.until("\"content\":\"w"), "the answer began")
            if not stream:
                eventually(lambda: not idle(s))
            q.close()
            t.check(eventually(lambda: stats(s)["turns"]["cancelled"] == before + 1), f"closing cancels a decode, stream {stream}")
            t.check(eventually(lambda: idle(s)), "the slot is idle again")


def comments():
    with Server(HOOKS + ["--threads", "1", "--parallel", "1", "--queue", "1", "--keepalive-s", "0.1",
                         "--resident-stash-gb", "0"]) as s:
        first = Stream(s, ask(LONG, stream=True, max_tokens=4))
        t.check(first.until(": prefill "), f"a comment tells of the prefill: {first.text[-300:]}")
        second = Stream(s, ask("next", stream=True, max_tokens=4))
        t.check(second.until(": queued 1 of 1"), f"a comment tells the place: {second.text[-300:]}")
        t.check("200 OK" in second.text, "its headers are out after the hold")
        status, body = s.post(CHAT, ask("third"))
        t.check(status == 429 and body["error"]["type"] == "rate_limit_error", f"a third is one too many: {status} {body}")
        rest = first.rest()
        t.check("data: [DONE]" in rest, "the first completes")
        gaps = [b - a for a, b in zip(first.times, first.times[1:])]
        t.check(len(gaps) > 3 and max(gaps) < 1.0, f"no silence in between: {max(gaps):.2f} s")
        t.check("data: [DONE]" in second.rest(), "and the second after it")
        eta = [x for x in rest.split("\n") if x.startswith(": prefill ") and "about" in x]
        t.check(len(eta) > 0, f"an estimate is in it: {[x for x in rest.splitlines() if x.startswith(':')][:4]}")


def drain():
    s = Server(HOOKS)
    q = Stream(s, ask("go", stream=True), {"x-holdfast-force": "1"})
    t.check(q.until("\"content\":\"w"), "a stream runs")
    s.proc.send_signal(signal.SIGTERM)
    status, body = 0, None
    try:
        status, body = s.post(CHAT, ask("new"), timeout=5)
    except OSError:
        pass
    t.check(status in (0, 503), f"a new request is refused while draining: {status} {body}")
    rest = q.rest()
    t.check("data: [DONE]" in rest, f"the stream ends whole: {rest[-200:]}")
    t.check(s.proc.wait(30) == 0, "exit 0")
    q.close()
    s.stop()

    s = Server(HOOKS + ["--threads", "1"])
    q = Stream(s, ask(LONG, stream=True, max_tokens=2000), {"x-holdfast-force": "1"})
    t.check(eventually(lambda: not idle(s)), "a long turn runs")
    s.proc.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    s.proc.send_signal(signal.SIGTERM)
    t0 = time.monotonic()
    rest = q.rest()
    t.check("data: [DONE]" not in rest and ("unavailable_error" in rest or " 503 " in rest), f"a second signal ends it: {rest[-200:]}")
    t.check(s.proc.wait(30) == 0 and time.monotonic() - t0 < 10, "at once, exit 0")
    q.close()
    s.stop()


def doors():
    keys, admin = write("keys", "alpha\nbeta\n"), write("admin", "root\n")
    with Server(["--ctx", "2048", "--api-key-file", keys, "--admin-key-file", admin, "--host-names", "board.lan"]) as s:
        t.check(s.get("/health")[0] == 200, "health is open")
        t.check(s.get("/v1/models")[0] == 401, "the rest needs a key")
        t.check(s.get("/v1/models", headers={"Authorization": "Bearer beta"})[0] == 200, "any key of the file")
        t.check(s.post("/v1/cache/clear", {}, headers={"x-api-key": "alpha"})[0] == 401, "clear needs the admin key")
        t.check(s.post("/v1/cache/clear", {}, headers={"x-api-key": "root"})[0] == 200, "and has it")
        t.check(s.get("/health", headers={"Host": "board.lan:80"})[0] == 200, "a listed host name")
        t.check(s.get("/health", headers={"Host": "evil.example"})[0] == 403, "another host name")
        status, body = s.post(CHAT, ask("x"), headers={"Authorization": "Bearer alpha", "x-holdfast-force": "9"})
        t.check(status == 200, f"without --test-hooks the force header is ignored: {status}")
    run = subprocess.run([BINARY, "serve", "--port", "0", "--host", "0.0.0.0"], capture_output=True, text=True, timeout=30)
    t.check(run.returncode in (1, 2) and "--api-key-file" in run.stderr, f"an open address needs a key: {run.returncode} {run.stderr}")
    run = subprocess.run([BINARY, "serve", "--port", "0", "--force-file", force], capture_output=True, text=True, timeout=30)
    t.check(run.returncode == 2 and "test-hooks" in run.stderr, f"hooks need their switch: {run.returncode} {run.stderr}")
    with Server(["--ctx", "2048"]) as s:
        run = subprocess.run([BINARY, "serve", "--port", str(s.port)], capture_output=True, text=True, timeout=30)
        t.check(run.returncode == 1 and str(s.port) in run.stderr, f"a taken port is named: {run.returncode} {run.stderr}")


def logprobs():
    """Shapes, sums and counts, streamed and not; a resumed answer's numbers are a cold one's."""
    with Server(HOOKS) as s:
        body = ask("What is the end anchor?", temperature=0, max_tokens=40, logprobs=True, top_logprobs=20)
        first = s.post(CHAT, body)[1]
        again = s.post(CHAT, body)[1]
        s.post("/v1/cache/clear", {})
        cold = s.post(CHAT, body)[1]
        t.check(again["holdfast"]["cached"] > 0 and cold["holdfast"]["cached"] == 0, f"resumed and cold: {again['holdfast']} {cold['holdfast']}")
        t.check(first["choices"] == again["choices"] == cold["choices"], "equal numbers, resumed and cold")
        rows = cold["choices"][0]["logprobs"]["content"]
        tokens = cold["usage"]["completion_tokens"] - (cold["choices"][0]["finish_reason"] == "stop")
        t.check(len(rows) == tokens, f"{len(rows)} entries, {tokens} tokens")
        t.check(all(len(r["top_logprobs"]) == 20 for r in rows), "20 of the most likely")
        t.check(all(sum(math.exp(x["logprob"]) for x in r["top_logprobs"]) <= 1 + 1e-5 for r in rows), "their sum is at most 1")
        t.check(all(r["top_logprobs"][0] == {k: r[k] for k in ("token", "bytes", "logprob")} for r in rows), "greedy takes the first")
        said = cold["choices"][0]["message"]
        text = bytes(b for r in rows for b in r["bytes"]).decode()
        t.check(all((said.get(k) or "").strip() in text for k in ("content", "reasoning_content")), f"the bytes are the answer: {text}")
        q = Stream(s, {**body, "stream": True})
        events = [json.loads(line[6:]) for line in q.rest().splitlines() if line.startswith("data: {")]
        q.close()
        streamed = [e for x in events for c in x["choices"] for e in (c.get("logprobs") or {}).get("content", ())]
        t.check(streamed == rows, f"streamed: {len(streamed)} entries of {len(rows)}")
        q = Stream(s, {**ask("go", stream=True, logprobs=True, top_logprobs=1)}, {"x-holdfast-force": "1"})
        text = q.rest()
        q.close()
        t.check(text.count('"top_logprobs"') > 1500 and "data: [DONE]" in text, "a long forced answer passes the bounded rows")
        plain = s.post(CHAT, ask("What is the end anchor?", temperature=0, max_tokens=40))[1]["choices"][0]
        t.check(plain["logprobs"] is None and plain["message"] == said, "not asked: null, and the same answer")


for part in (turns_and_seeds, logprobs, many_at_once, cancel, comments, drain, doors):
    t0 = time.monotonic()
    part()
    print(f"{part.__name__}: {time.monotonic() - t0:.1f} s", flush=True)
sys.exit(t.close())
