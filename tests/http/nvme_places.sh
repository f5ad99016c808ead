#!/usr/bin/env bash
# tests/http/nvme_places.sh - cache folders that can't be written, are full, or take no direct I/O: the server serves and says why.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
if [ "$(id -u)" != 0 ] || ! command -v setpriv > /dev/null; then
    echo "skipped: needs root and setpriv to mount file systems and to be somebody else"
    exit 0
fi
exec /usr/bin/python3 - <<'PYTHON'
import os, shutil, subprocess, sys, tempfile, time
sys.path.insert(0, "tests")
import serving
from serving import BINARY, Report, Server

t = Report()
SYSTEM = " ".join(f"Rule {i}: the river runs over stone number {i} and never back." for i in range(60))
FLAGS = ["--ctx", "4096", "--parallel", "1", "--test-hooks", "--grid", "64", "--block", "16", "--disk-gb", "0", "--journal-idle-s", "0.05",
         "--disk-free-gb", "0", "--spill-free-gb", "0", "--suffix-store-mb", "0"]
top = tempfile.mkdtemp(prefix="holdfast-places-")
os.chmod(top, 0o755)


def ask(s, session, text):
    status, b = s.post("/v1/chat/completions", {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}],
                                                "temperature": 0, "max_tokens": 8}, headers={"x-session-id": session})
    t.check(status == 200, f"{session}: {status} {b}")
    return b["holdfast"]


def nvme(s):
    return s.get("/v1/cache/stats")[1]["nvme"]


def until(s, good, what):
    for _ in range(400):
        if good(nvme(s)):
            return
        time.sleep(0.05)
    t.check(False, f"never {what}: {nvme(s)}")


def litter(folder):
    return [f for d, _, names in os.walk(folder) for f in names if f.endswith(".tmp")]


def mounted(kind, options):
    folder = os.path.join(top, kind)
    os.mkdir(folder, 0o700)
    made = subprocess.run(["mount", "-t", kind, "-o", options, "none", folder], capture_output=True, text=True)
    if made.returncode != 0:
        print(f"skipped: {kind} can't be mounted: {made.stderr.strip()}")
        return None
    os.chmod(folder, 0o700)
    return folder


def read_only():
    folder, home = os.path.join(top, "closed"), os.path.join(top, "home")
    binary, wrapper = os.path.join(top, "holdfast"), os.path.join(top, "nobody")
    shutil.copy(BINARY, binary)
    for path, mode in ((folder, 0o500), (home, 0o700)):
        os.mkdir(path, mode)
        os.chown(path, 65534, 65534)
    with open(wrapper, "w") as f:
        f.write(f'#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups {binary} "$@"\n')
    os.chmod(wrapper, 0o755)
    serving.BINARY = wrapper
    try:
        with Server(FLAGS + ["--cache-dir", folder], home=home) as s:
            ask(s, "river", "Tell me of stone 7.")
            ask(s, "river", "Tell me of stone 8.")
            n = nvme(s)
            t.check(not n["on"] and folder in n["reason"] and "ermission denied" in n["reason"], f"read-only: {n}")
            t.check(n["reason"] in s.log(), "read-only: its reason is not in the log")
        t.check(s.proc.returncode == 0, f"read-only: exit {s.proc.returncode}")
        t.check(os.listdir(folder) == [], f"read-only: {os.listdir(folder)}")
    finally:
        serving.BINARY = BINARY


def full():
    folder = mounted("tmpfs", "size=24m")
    if folder is None:
        return
    try:
        with Server(FLAGS + ["--cache-dir", folder]) as s:
            t.check(nvme(s)["on"], f"full: off: {nvme(s)['reason']}")
            filler = os.path.join(folder, "filler")
            free = os.statvfs(folder)
            with open(filler, "wb") as f:
                f.write(bytes(max(free.f_bavail * free.f_frsize - 64 * 1024, 0)))
            ask(s, "river", "Tell me of stone 7.")
            until(s, lambda n: n["spill_refused"] > 0, "full")
            ask(s, "other", "Tell me of stone 8.")
            n = nvme(s)
            # a write met ENOSPC, or the free space was seen to be gone before one was tried
            t.check(n["write_failed"] == 0 or "No space left" in s.log(), f"full: {n} {s.log()[-500:]}")
            t.check(n["spill_refused"] > 0, f"full: {n}")
            t.check(n["spill_complete"] == 0 and n["conversations"] == 0, f"full: {n}")
            t.check(litter(folder) == [], f"full: {litter(folder)}")
            os.remove(filler)
            ask(s, "third", "Tell me of stone 9.")
            until(s, lambda n: n["spill_complete"] > 0, "written once there is room again")
        t.check(litter(folder) == [] and s.proc.returncode == 0, f"full: {litter(folder)}, exit {s.proc.returncode}")
    finally:
        subprocess.run(["umount", folder], check=True)


def not_direct():
    folder = mounted("ramfs", "mode=0700")
    if folder is None:
        return
    try:
        with Server(FLAGS + ["--cache-dir", folder]) as s:
            t.check(nvme(s)["on"] and "no direct I/O" in s.log(), f"not direct: {nvme(s)} {s.log()}")
            t.check(nvme(s)["rates"]["write_bytes_s"] > 0 and nvme(s)["rates"]["read_bytes_s"] == 0, f"rates: {nvme(s)['rates']}")
            first = ask(s, "river", "Tell me of stone 7.")
        with Server(FLAGS + ["--cache-dir", folder]) as s:
            again = ask(s, "river", "Tell me of stone 7.")
            t.check(again["source"] == "spill" and again["forwarded"] == 1, f"not direct: {first} {again}")
        t.check(litter(folder) == [], f"not direct: {litter(folder)}")
    finally:
        subprocess.run(["umount", folder], check=True)


read_only()
full()
not_direct()
shutil.rmtree(top)
sys.exit(t.close())
PYTHON
