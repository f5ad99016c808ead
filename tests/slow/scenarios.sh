#!/usr/bin/env bash
# tests/slow/scenarios.sh - the scenario runner against the tiny model in the bench format: no turn
# reads again what an earlier one forwarded.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
models=build/models
[ -f $models/tiny/hf/model.safetensors ] ||
    OPENBLAS_NUM_THREADS=1 /usr/bin/python3 tests/scenarios/make_model.py $models/tiny --size tiny --only hf ||
    { echo "make_model.py failed"; echo "0 passed, 1 failed"; exit 1; }
exec /usr/bin/python3 - $models/tiny/hf <<'PYTHON'
import json, os, shutil, socket, subprocess, sys, tempfile, threading, time
sys.path.insert(0, "tests")
from serving import Report, Server

GRID, SLACK = 1024, 24
t = Report()
ALL = "cold,again,grow,longgen,fork,tail,aba,guest,rewind,compact,parallel"


def run(flags, only):
    with Server(["--model", sys.argv[1], "--template", "3.8", "--ctx", "16384", *flags]) as s:
        run = subprocess.run(["/usr/bin/python3", "tests/scenarios/scenarios.py", "--url", s.url, "--seed", "5",
                              "--only", only, "--label", "holdfast"], capture_output=True, text=True, timeout=900)
        lines = [json.loads(x) for x in run.stdout.splitlines() if x.startswith("{")]
        t.check(run.returncode == 0, f"scenarios.py exits 0: {run.returncode} {run.stderr[-500:]}")
        t.check({x["scenario"] for x in lines} >= set(only.split(",")),
                f"every scenario reported: {[x['scenario'] for x in lines]}")
        for x in lines:
            t.check(x.get("ok") and not x.get("error"), f"{x['scenario']} ran to its end: {x.get('error')}")
            bound = GRID + SLACK - 1 if x["scenario"] in ("tail", "rewind") else SLACK
            for i, turn in enumerate(x.get("turns", [])[1:], 1):
                t.check(turn["excess"] is not None and turn["excess"] <= bound,
                        f"{x['scenario']} turn {i} read {turn['excess']} tokens again, at most {bound}: {turn}")
            print({k: x.get(k) for k in ("scenario", "ttft_s", "prompt_tokens", "cached_tokens", "forwarded", "excess",
                                         "sum_excess", "decode_tok_s")}, flush=True)
        t.check(s.stop() == 0, "SIGTERM ends with exit 0")


def strip():
    """The runner counts reasoning that its client dropped as read again; the log says what was forwarded."""
    with Server(["--model", sys.argv[1], "--template", "3.8", "--ctx", "16384"]) as s:
        run = subprocess.run(["/usr/bin/python3", "tests/scenarios/scenarios.py", "--url", s.url, "--seed", "5", "--only",
                              "strip", "--label", "holdfast"], capture_output=True, text=True, timeout=900)
        x = [json.loads(l) for l in run.stdout.splitlines() if l.startswith("{")][-1]
        t.check(x.get("ok") and x["sum_excess"] <= 3 * SLACK, f"strip: {x}")
        turns = [l for l in s.log().splitlines() if "info turn " in l][-2:]
        t.check(all("source=end served=aligned" in l for l in turns), f"strip goes on at the end: {turns}")
        print({k: x.get(k) for k in ("scenario", "sum_excess")}, flush=True)


def restarts(model, head_chunks):
    """Over a cache folder: the runner's restart command asks for a stop by SIGTERM and a start."""
    home = tempfile.mkdtemp(prefix="holdfast-scenarios-")
    again, ended = os.path.join(home, "again"), threading.Event()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["--port", str(port), "--model", model, "--template", "3.8", "--ctx", "32768", "--disk-free-gb", "0", "--spill-free-gb", "0"]
    servers, log = [Server(flags, home=home)], []

    def restart():
        while not ended.is_set():
            if os.path.exists(again):
                log.append(servers[-1].log())
                t.check(servers[-1].stop() == 0, "a planned stop ends with exit 0")
                servers.append(Server(flags, home=home))
                os.unlink(again)
            time.sleep(0.02)

    hand = threading.Thread(target=restart)
    hand.start()
    only = "restart,stripboot,head,headboot"
    run = subprocess.run(["/usr/bin/python3", "tests/scenarios/scenarios.py", "--url", f"http://127.0.0.1:{port}", "--seed", "5", "--only",
                          only, "--head-chunks", str(head_chunks), "--label", "holdfast", "--restart-cmd",
                          f"touch {again}; while [ -e {again} ]; do sleep 0.05; done"], capture_output=True, text=True, timeout=900)
    ended.set()
    hand.join()
    lines = {x["scenario"]: x for x in (json.loads(l) for l in run.stdout.splitlines() if l.startswith("{"))}
    t.check(run.returncode == 0 and set(lines) >= set(only.split(",")), f"restarts: {run.returncode} {list(lines)} {run.stderr[-500:]}")
    t.check(len(servers) == 4, f"three restarts: {len(servers)}")
    turns = [l for l in (log + [servers[-1].log()])[2].splitlines() if "info turn " in l]
    for name in only.split(","):
        x = lines.get(name, {})
        t.check(x.get("ok") and not x.get("error"), f"{name} ran to its end: {x.get('error')}")
        bound = GRID + SLACK - 1 if name.startswith("head") else SLACK
        t.check(name == "stripboot" or (x.get("excess") is not None and x["excess"] <= bound),
                f"{name} read {x.get('excess')} tokens again, at most {bound}: {x}")
        print({k: x.get(k) for k in ("scenario", "ttft_s", "prompt_tokens", "cached_tokens", "forwarded", "excess", "restart_s")}, flush=True)
    most = lines["restart"]["forwarded"] + SLACK        # the runner counts dropped reasoning as read again
    t.check(lines["stripboot"]["forwarded"] <= most, f"stripboot forwarded {lines['stripboot']['forwarded']}, at most {most}")
    t.check("source=spill served=aligned" in turns[0], f"after the restart of stripboot: {turns[:1]}")
    t.check(servers[-1].stop() == 0, "SIGTERM ends with exit 0")
    shutil.rmtree(home)


if len(sys.argv) > 2:                               # another model: the restarts alone
    restarts(sys.argv[1], int(sys.argv[2]))
    sys.exit(t.close())
run([], ALL)
strip()
restarts(sys.argv[1], 6)
run(["--parallel", "1"], "aba,guest,fork,rewind,compact")
sys.exit(t.close())
PYTHON
