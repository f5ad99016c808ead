#!/usr/bin/env bash
# tests/slow/scenarios.sh - the scenario runner against the tiny model in the bench format: no turn
# reads again what an earlier one forwarded.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
models=build/models
[ -f $models/tiny/hf/model.safetensors ] ||
    OPENBLAS_NUM_THREADS=1 /usr/bin/python3 tests/scenarios/make_model.py $models/tiny --size tiny --only hf ||
    { echo "make_model.py failed"; echo "0 passed, 1 failed"; exit 1; }
exec /usr/bin/python3 - $models/tiny/hf <<'PYTHON'
import json, subprocess, sys
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


run([], ALL)
strip()
run(["--parallel", "1"], "aba,guest,fork,rewind,compact")
sys.exit(t.close())
PYTHON
