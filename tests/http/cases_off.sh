#!/usr/bin/env bash
# tests/http/cases_off.sh - K48: a tier that can't serve is named at the start and in the stats, with
# what keeps it from serving; every answer and its ledger row say where the turn started and why.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 - <<'PYTHON'
import os, re, shutil, subprocess, sys, tempfile
sys.path.insert(0, "tests")
from serving import BINARY, Report, Server

t = Report()
work = tempfile.mkdtemp(prefix="holdfast-off-")
TIERS = ["resident", "stash", "pin", "park", "store", "spill", "disk", "response"]
NO_ANSWERS = {"response": r"--response-cache-mb is 0"}


def folder(name, mode=0o700):
    path = os.path.join(work, name)
    os.mkdir(path)
    os.chmod(path, mode)
    return path


def said(s):
    """Tiers that the start's lines call off, and those that they say serve."""
    log = s.log()
    off = dict(re.findall(r"info tier (\w+) is off: (.*)", log))
    return off, re.findall(r"info tiers that serve:(.*)", log)[-1].split()


def told(s):
    return {x["tier"]: x["why"] for x in s.get("/v1/cache/stats")[1]["off"]}


def turns(s, name):
    """Three turns, the last one edited: the answer's object and the ledger's row agree and say all."""
    messages = [{"role": "user", "content": "Who are you?"}]
    for text in ("What is the stash?", None, None):
        status, body = s.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 24})
        if not t.check(status == 200, f"{name}: a turn is served: {status} {body}"):
            return
        h, row = body["holdfast"], s.get("/v1/cache/stats")[1]["ledger"][-1]
        t.check(h["cached"] + h["forwarded"] == h["served_tokens"], f"{name}: {h}")
        t.check(all(h[k] == row[k] for k in ("source", "cached", "forwarded", "reason")), f"{name}: ledger {row}, answer {h}")
        t.check(h["reason"] is not None or h["cached"] > 0, f"{name}: a turn that found nothing says why: {h}")
        if text is not None:
            messages += [{"role": "assistant", "content": body["choices"][0]["message"].get("content") or ""},
                         {"role": "user", "content": text}]
        else:
            messages[0] = {"role": "user", "content": "Hello!"}


def case(name, flags, want):
    with Server(flags) as s:
        off, serve = said(s)
        want = {**NO_ANSWERS, **want}
        t.check(set(off) == set(want), f"{name}: the start calls {sorted(off)} off, not {sorted(want)}")
        t.check(serve == ([x for x in TIERS if x not in want] or ["none"]), f"{name}: the start says that {serve} serve")
        t.check(all(re.search(why, off.get(tier, "")) for tier, why in want.items()), f"{name}: the start says why: {off}")
        t.check(told(s) == off, f"{name}: stats {told(s)}, start {off}")
        turns(s, name)
        t.check(s.stop() == 0, f"{name}: SIGTERM ends with exit 0")


MEMORY = {x: r"node caches \(--cache-budget-gb\) has a cap of 0 bytes" for x in ("resident", "stash", "pin", "park", "store")}
case("by default", [], {})
case("no anchors", ["--resident-gb", "0"], {"resident": r"node anchors \(--resident-gb\) has a cap of 0 bytes, an anchor needs \d+"})
case("no stash", ["--resident-stash-gb", "0"], {"stash": r"node stash \(--resident-stash-gb\) has a cap of 0 bytes"})
case("no guest", ["--resident-guest-max", "0"], {"stash": r"no guest slot was made"})
case("no pin", ["--resident-pin-gb", "0"], {"pin": r"node pin \(--resident-pin-gb\) has a cap of 0 bytes, a head needs \d+"})
case("no park", ["--resident-park-gb", "0"], {"park": r"node park \(--resident-park-gb\)"})
case("no store", ["--store-gb", "0"], {"store": r"node store \(--store-gb\) has a cap of 0 bytes"})
case("no entry", ["--store-entry-gb", "0"], {"store": r"--store-entry-gb allows 0 bytes"})
case("a park too small", ["--resident-park-gb", "0.0001"], {"park": r"has a cap of 107374 bytes, a conversation needs \d+"})
case("no cache at all", ["--cache-budget-gb", "0"], {**MEMORY})
case("no disk", ["--disk-gb", "0"], {"disk": r"node disk \(--disk-gb\) has a cap of 0 bytes"})
case("no spill", ["--spill-gb", "0"], {"spill": r"node spill \(--spill-gb\) has a cap of 0 bytes"})
case("no folder", ["--cache-dir", "off"], {x: r"no folder: --cache-dir is off" for x in ("spill", "disk")})
shared = folder("open", 0o777)
case("a folder that others may write", ["--cache-dir", shared], {x: f"cache folder {shared}: .*" for x in ("spill", "disk")})
if os.geteuid() == 0:
    foreign = folder("foreign")
    os.chown(foreign, 65534, 65534)
    case("a folder of somebody else", ["--cache-dir", foreign], {x: f"cache folder {foreign}: .*" for x in ("spill", "disk")})
else:
    print("a folder of somebody else: not made without root; the one that others may write stands for it")
held = folder("held")
with Server(["--cache-dir", held]) as first:
    t.check(set(told(first)) == {"response"}, f"the first has the folder: {told(first)}")
    case("a folder that another server has", ["--cache-dir", held], {x: f"cache folder {held} is used by process {first.proc.pid}" for x in ("spill", "disk")})
with open(os.path.join(work, "file"), "w") as f:
    f.write("x")
case("a file in its place", ["--cache-dir", f.name], {x: f"cache folder {f.name}: .*" for x in ("spill", "disk")})

# a cap that changes while the server runs changes what is said
with Server(["--response-cache-mb", "1"]) as s:
    t.check(told(s) == {}, f"all serve: {told(s)}")
    for cap, want in (("0", {"pin"}), ("none", set())):
        run = subprocess.run([BINARY, "mem", "set", "pin", cap, "--url", s.url], capture_output=True, text=True, timeout=60)
        t.check(run.returncode == 0, f"mem set: {run.stderr}")
        t.check(set(told(s)) == want, f"pin {cap}: {told(s)}")
        t.check(("pin" in said(s)[1]) == (not want), f"pin {cap}: the log says that {said(s)[1]} serve")
shutil.rmtree(work)
sys.exit(t.close())
PYTHON
