"""The checks of hostile.sh against build/holdfast serving the embedded model."""
import json
import random
import socket
import subprocess
import sys
import time

sys.path.insert(0, "tests")
from serving import BINARY, Report, Server  # noqa: E402

t = Report()
CHAT = "/v1/chat/completions"
HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
HI = '"messages":[{"role":"user","content":"hi"}]'


def raw(s, data, wait=10):
    """What the server answers to these bytes, until it closes or `wait` seconds have passed."""
    c = socket.create_connection((s.host, s.port), timeout=wait)
    out = b""
    try:
        c.sendall(data.encode() if isinstance(data, str) else data)
        while piece := c.recv(65536):
            out += piece
    except OSError:
        pass
    c.close()
    return out.decode("utf-8", "replace")


def body(s, text, path=CHAT):
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    head = HEAD.replace(CHAT, path) + f"Content-Length: {len(data)}\r\n\r\n"
    answer = raw(s, head.encode() + data)
    return int(answer[9:12] or 0), answer.partition("\r\n\r\n")[2]


def message(text):
    return json.loads(text)["error"]["message"]


def heap(s):
    run = subprocess.run([BINARY, "mem", "--url", s.url, "--format", "json"], capture_output=True, text=True, timeout=30)
    return json.loads(run.stdout)["heap"]["allocated_bytes"]


def protocol():
    ask = "{" + HI + ',"max_tokens":1}'
    pieces = "".join(f"{len(ask[i:i + 7]):x}\r\n{ask[i:i + 7]}\r\n" for i in range(0, len(ask), 7)) + "0\r\n\r\n"
    with Server(["--ctx", "2048", "--body-mb", "1", "--connections", "16"]) as s:
        for what, status, data in (
            ("a chunked body", 200, HEAD + "Transfer-Encoding: chunked\r\n\r\n" + pieces),
            ("a chunk without a length", 400, HEAD + "Transfer-Encoding: chunked\r\n\r\nZZ\r\nfoo"),
            ("a chunked body over the cap", 413, HEAD + "Transfer-Encoding: chunked\r\n\r\n200000\r\n" + "x" * 0x200000 + "\r\n0\r\n\r\n"),
            ("a length below zero", 400, HEAD + "Content-Length: -1\r\n\r\n"),
            ("a length that is no number", 400, HEAD + "Content-Length: ten\r\n\r\n"),
            ("a length over 64 bits", 413, HEAD + "Content-Length: 99999999999999999999999\r\n\r\n"),
            ("a length far over the cap", 413, HEAD + "Content-Length: 2147483648\r\n\r\n"),
            ("a length short of the body", 400, HEAD + f"Content-Length: {len(ask) - 3}\r\n\r\n" + ask),
            ("two lengths", 400, HEAD + f"Content-Length: {len(ask)}\r\nContent-Length: 3\r\n\r\n" + ask),
            ("no body", 400, HEAD + "\r\n"),
            ("another protocol", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            ("a header over the room", 431, "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 40000 + "\r\n\r\n"),
            ("a path over the room", 404, "GET /" + "a" * 600 + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        ):
            answer = raw(s, data)
            t.check(answer.startswith(f"HTTP/1.1 {status} "), f"{what}: {answer[:100]!r}")
        answer = raw(s, "GET /x%0a2026%1b[31m HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        t.check(" 404 " in answer and "\x1b" not in s.log() and "/x?2026" in s.log(), "a path cannot write log lines")
        before = heap(s)
        for start in ("POST /v1/chat", HEAD + "Content-Length: 90000\r\n\r\n" + "x" * 50000, ""):
            for _ in range(40):         # more than the connections allowed: each must be let go
                c = socket.create_connection((s.host, s.port), timeout=10)
                c.sendall(start.encode())
                c.close()
        t.check(s.get("/health", timeout=10)[0] == 200, "clients gone in the middle of a request hold no connection")
        t.check(heap(s) - before < 2 << 20, "nor memory")


def numbers(s):
    fields = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
              "seed", "max_tokens", "max_completion_tokens", "n")
    for name in fields:
        for value in ("-1", "1e400", "-1e400", "1e18", "99999999999999999999999999", "-0", "1.5", '"1"', "true", "[]", "null"):
            tokens = "" if name.startswith("max_") else ',"max_tokens":1'
            status, text = body(s, f'{{{HI}{tokens},"stop":"e","{name}":{value}}}')
            t.check(status == 200 or status == 400 and name in message(text), f"{name} {value}: {status} {text[:200]}")


def texts(s):
    big = "a" * 1000000
    for what, status, text in (
        ("100,000 brackets", 400, '{"x":' + "[" * 100000 + "]" * 100000 + "," + HI + "}"),
        ("a lone surrogate", 200, '{"max_tokens":1,"messages":[{"role":"user","content":"a\\ud800b"}]}'),
        ("a raw surrogate", 400, '{"messages":[{"role":"user","content":"a\ud800b"}]}'),
        ("an escaped NUL", 200, '{"max_tokens":1,"messages":[{"role":"user","content":"a\\u0000b"}]}'),
        ("a raw NUL", 400, '{"messages":[{"role":"user","content":"a\0b"}]}'),
        ("bytes that are no UTF-8", 400, b'{"messages":[{"role":"user","content":"\xff\xfe"}]}'),
        ("a long text", 400, json.dumps({"messages": [{"role": "user", "content": big}]})),
        ("a million blanks", 200, json.dumps({"max_tokens": 1, "messages": [{"role": "user", "content": " " * 1000000}]})),
        ("many marks on one letter", 400, json.dumps({"messages": [{"role": "user", "content": "a" + "\u0301" * 300000}]})),
        ("a long model", 400, '{"model":"' + big + '",' + HI + "}"),
        ("a long user", 200, '{"max_tokens":1,"user":"' + big + '",' + HI + "}"),
        ("a long field name", 200, '{"max_tokens":1,"' + big + '":1,' + HI + "}"),
        ("a long role", 400, '{"messages":[{"role":"' + big + '"}]}'),
        ("a long effort", 400, '{"reasoning_effort":"' + big + '",' + HI + "}"),
        ("a long stop", 400, '{"stop":"' + big + '",' + HI + "}"),
        ("a long tool name", 400, '{"tools":[{"type":"function","function":{"name":"' + big + '"}}],' + HI + "}"),
        ("1,025 tools", 400, json.dumps({"messages": [], "tools": [{"type": "function", "function": {"name": "t"}}] * 1025})),
        ("100,000 messages", 400, json.dumps({"messages": [{"role": "user", "content": "hi"}] * 100000})),
    ):
        t0 = time.monotonic()
        got, answer = body(s, text)
        t.check(got == status and time.monotonic() - t0 < 10, f"{what}: {got} in {time.monotonic() - t0:.1f} s: {answer[:200]}")
        t.check(got != 400 or len(message(answer)) > 10, f"{what}: words")


def gone(s):
    """Bad, refused and cancelled requests by the hundred leave the heap as it was."""
    chance = random.Random(3)

    def some(count):
        for i in range(count):
            if i % 3 == 0:
                body(s, chance.choice(("{", '{"messages":[]}', "{" + HI + ',"top_p":7}', '{"messages":[{"role":"user","content":"' + "x" * 9000 + '"}]}')))
                continue
            ask = json.dumps({"messages": [{"role": "user", "content": f"{i} " + "z " * chance.randrange(400)}], "stream": i % 3 == 1})
            c = socket.create_connection((s.host, s.port), timeout=10)
            c.sendall((HEAD + f"Content-Length: {len(ask)}\r\n\r\n" + ask).encode())
            time.sleep(chance.random() * 0.01)
            c.close()
        end = time.monotonic() + 20
        while any(x["state"] != "idle" for x in s.get("/v1/cache/stats")[1]["slots"]) and time.monotonic() < end:
            time.sleep(0.02)
        s.post("/v1/cache/clear", {})
        return heap(s)

    levels = [some(120) for _ in range(4)]
    t.check(levels[3] - levels[0] < 1 << 20, f"the heap returns to its level: {levels}")


protocol()
with Server(["--ctx", "2048", "--test-hooks"]) as s:
    for part in (numbers, texts, gone):
        t0 = time.monotonic()
        part(s)
        print(f"{part.__name__}: {time.monotonic() - t0:.1f} s", flush=True)
    t.check(s.get("/health")[0] == 200, "the server lives on")
    t.check(s.stop() == 0, "and ends with exit 0")
sys.exit(t.close())
