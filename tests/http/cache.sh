#!/usr/bin/env bash
# tests/http/cache.sh - the word cache on a folder and on a server: what it lists, finds bad, clears.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 - <<'PYTHON'
import json, os, subprocess, sys, tempfile
sys.path.insert(0, "tests")
from serving import BINARY, Report, Server

t = Report()
SYSTEM = " ".join(f"Rule {i}: the river runs over stone number {i} and never back." for i in range(60))
FLAGS = ["--ctx", "8192", "--parallel", "2", "--test-hooks", "--grid", "64", "--block", "16", "--disk-min-tokens", "128",
         "--journal-idle-s", "0.05", "--disk-free-gb", "0", "--spill-free-gb", "0"]
home = tempfile.mkdtemp(prefix="holdfast-cache-")
ROOT = os.path.join(home, "holdfast")


def cache(*words, stdin=subprocess.DEVNULL):
    run = subprocess.run([BINARY, "cache", *words], capture_output=True, text=True, timeout=60, stdin=stdin,
                         env={**os.environ, "XDG_CACHE_HOME": home})
    return run.returncode, run.stdout, run.stderr


def parsed(*words):
    rc, out, err = cache(*words, "--json")
    t.check(rc == 0, f"{words}: {rc} {err}")
    return json.loads(out)


def ask(s, session, text):
    status, b = s.post("/v1/chat/completions", {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}],
                                                "temperature": 0, "max_tokens": 8}, headers={"x-session-id": session})
    t.check(status == 200, f"{session}: {status} {b}")
    return b["holdfast"]


def files():
    return sorted(os.path.join(d, f) for d, _, names in os.walk(ROOT) for f in names if f[1] == "-" and f[0] in "acmt")


def ids():
    return [f for d, _, names in os.walk(ROOT) for f in names if f[:2] == "s-"]


rc, out, err = cache("ls")
t.check(rc == 0 and "0 conversations" in out, f"ls of no folder: {rc} {out} {err}")
rc, out, err = cache("clear", "--yes")
t.check(rc == 1 and ROOT in err, f"clear of no folder: {rc} {err}")
for words, word in ((("put",), "nearest is"), (("export",), "not part of this version"), (("show",), "needs an ID"), ((), "needs ls"),
                    (("ls", "--yes"), "belong to cache clear"), (("ls", "x"), "flags only"), (("show", "xyz1"), "hex digits"),
                    (("clear", "--tier", "pin", "--yes"), "--url")):
    rc, out, err = cache(*words)
    t.check(rc == 2 and word in err, f"{words}: {rc} {err}")
rc, out, err = cache("--help")
t.check(rc == 0 and "verify" in out and "--session" in out, f"help: {out}")

with Server(FLAGS, home=home) as s:
    ask(s, "river", "Tell me of stone 7.")
    ask(s, "other", "Tell me of stone 9.")
    for _ in range(400):
        if s.get("/v1/cache/stats")[1]["nvme"]["spill_complete"] >= 2:
            break
        subprocess.run(["sleep", "0.05"])
    shown = parsed("ls", "--url", s.url)
    t.check(shown["folder"] == ROOT and len(shown["models"][0]["conversations"]) == 2, f"ls of a server: {shown}")
    rc, out, err = cache("verify")
    t.check(rc == 0 and " 0 bad" in out, f"verify beside a server: {rc} {out} {err}")
    rc, out, err = cache("clear", "--yes")
    t.check(rc == 1 and f"process {s.proc.pid}" in err and "--url" in err, f"a folder in use is not cleared: {rc} {err}")
    rc, out, err = cache("clear", "--session", "nobody", "--yes", "--url", s.url)
    t.check(rc == 1 and "nobody" in err, f"an unknown session of a server: {rc} {out} {err}")
    t.check(s.stop() == 0, "the server ends")

t.check(parsed("ls")["suffix_bytes"] > 0, "the suffix log is listed")
listed = parsed("ls")
model = listed["models"][0]
t.check(len(model["conversations"]) == 2 and all(c["whole"] for c in model["conversations"]), f"ls: {model}")
t.check(len(model["disk_anchors"]) > 0 and model["chunks"] > 0, f"ls: {model}")
t.check(listed["bytes"] == sum(os.path.getsize(os.path.join(d, f)) for d, _, n in os.walk(os.path.join(ROOT, model["fingerprint"])) for f in n),
        f"bytes are those of the files: {listed['bytes']}")
rc, out, err = cache("ls")
t.check(rc == 0 and model["conversations"][0]["id"] in out and "1 models, 2 conversations" in out, f"ls as text: {out}")

one = model["conversations"][0]["id"]
shown = parsed("show", one[:12])[0]
t.check(shown["conversation"]["id"] == one, f"show finds by the first digits: {shown}")
t.check(shown["pieces"][-1]["lo"] == 0 and shown["pieces"][0]["hi"] == shown["conversation"]["tokens"], f"its pieces reach row 0: {shown}")
t.check(all(a["hi"] == b["lo"] or a["lo"] == b["hi"] for a, b in zip(shown["pieces"], shown["pieces"][1:])), f"in a chain: {shown}")
t.check(any(x["kind"] == "generation" for x in shown["spans"]) and all(a["there"] for a in shown["anchors"]), f"spans, anchors: {shown}")
rc, out, err = cache("show", one)
t.check(rc == 0 and " spans" in out and "generation" in out, f"show as text: {out}")
shown = parsed("show", model["disk_anchors"][0]["id"])
t.check(len(shown) == 1 and shown[0]["pieces"][-1]["lo"] == 0, f"show of an anchor: {shown}")
rc, out, err = cache("show", "0123456789")
t.check(rc == 1 and "0123456789" in err, f"show of nothing: {rc} {err}")

# one flipped bit anywhere, a file cut short, a file that is gone: named, exit 1
whole = {f: open(f, "rb").read() for f in files()}
for n, path in enumerate(files()):
    data = bytearray(whole[path])
    data[(n * 7919 + 61) % len(data)] ^= 1 << n % 8
    open(path, "wb").write(data)
    rc, out, err = cache("verify")
    t.check(rc == 1 and os.path.basename(path) in out, f"a bit of {path}: {rc} {out} {err}")
    open(path, "wb").write(whole[path])
path = [f for f in files() if os.path.basename(f)[0] == "c"][0]
open(path, "wb").write(whole[path][:-4096])
rc, out, err = cache("verify")
t.check(rc == 1 and os.path.basename(path) in out, f"a cut file: {out}")
os.unlink(path)
rc, out, err = cache("verify")
t.check(rc == 1 and out.count("BAD") > 1, f"what stands on a missing chunk is bad: {out}")
open(path, "wb").write(whole[path])
os.chmod(path, 0o600)
got = parsed("verify")
t.check(got == {"bad": [], "files": len(files())}, f"whole again: {got}")

# clear: asks, refuses, names; one session, then all
rc, out, err = cache("clear")
t.check(rc == 2 and "--yes" in err, f"clear asks: {rc} {err}")
rc, out, err = cache("clear", "--session", "nobody", "--yes")
t.check(rc == 1 and "nobody" in err, f"an unknown session: {rc} {err}")
before = len(files())
rc, out, err = cache("clear", "--session", "river", "--yes")
t.check(rc == 0 and "bytes freed" in out and 0 < len(files()) < before, f"clear of one: {rc} {out} {err} {before} {len(files())}")
got = parsed("verify")
t.check(got["bad"] == [], f"the rest is whole: {got}")
listed = parsed("ls")
t.check(len(listed["models"][0]["conversations"]) == 1, f"one is left: {listed}")
with Server(FLAGS, home=home) as s:
    t.check(s.get("/v1/cache/stats")[1]["nvme"]["removed_at_start"] == 0, "a start finds nothing to remove")
    again = ask(s, "other", "Tell me of stone 9.")
    t.check(again["source"] == "spill" and again["forwarded"] == 1, f"the other is there: {again}")
    rc, out, err = cache("clear", "--session", listed["models"][0]["conversations"][0]["id"], "--yes", "--url", s.url)
    t.check(rc == 0 and "spill" in out, f"clear by id on a server: {rc} {out} {err}")
    again = ask(s, "other", "Tell me of stone 9.")
    t.check(again["source"] == "cold", f"it is gone: {again}")
rc, out, err = cache("clear", "--tier", "spill", "--yes")
t.check(rc == 0 and not any(os.path.basename(f)[0] in "mt" for f in files()), f"the spill alone: {rc} {out} {err} {files()}")
rc, out, err = cache("clear", "--yes", "--json")
t.check(rc == 0 and json.loads(out)["bytes"]["disk"] > 0 and files() == [], f"all of it: {rc} {out} {err} {files()}")
t.check(ids() == [], f"ids are text: the suffix log is empty too: {ids()}")
t.check(all(f == "LOCK" or f[:4] == "ids-" for f in os.listdir(ROOT)), f"a tidy folder: {os.listdir(ROOT)}")
subprocess.run(["rm", "-rf", home])
sys.exit(t.close())
PYTHON
