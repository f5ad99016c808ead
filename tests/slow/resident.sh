#!/usr/bin/env bash
# tests/slow/resident.sh - a model lies in memory once: while it loads, at most its packed size, the
# largest tensor and 64 MiB; served, what the memory graph explains and 64 MiB more.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
dir=build/models/resident
case ${OUT:-build} in */asan | */tsan) echo "skipped: sanitizers keep memory of their own"; echo "0 passed, 0 failed, 1 skipped"; exit 0 ;; esac
mkdir -p $dir
build/holdfast tiny $dir/bf16 --layers 4 --hidden 1536 --seed 5 >/dev/null &&
    /usr/bin/python3 tests/oracle/to_gguf.py $dir/bf16 $dir/q8_0.gguf --type Q8_0 >/dev/null &&
    /usr/bin/python3 tests/oracle/gguf_cases.py $dir/bf16 $dir/q4_k RANDOM-Q4_K ||
    { echo "no models"; echo "0 passed, 1 failed"; exit 1; }
/usr/bin/python3 - $dir <<'PYTHON'
import json, os, re, subprocess, sys
sys.path.insert(0, "tests")
from serving import BINARY, Report, Server

MIB = 1 << 20
t = Report()
LARGEST = 1536 * 1536 * 3 * 2          # no matrix of this model has more values than its MLP's, in BF16


def peak(path):
    with Server(["--model", path, "--template", "3.8", "--ctx", "2048"]) as s:
        status = open(f"/proc/{s.proc.pid}/status").read()
        hwm = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024
        code, answer = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "What?"}], "max_tokens": 8})
        t.check(code == 200, f"{path} answers: {code} {answer}")
        dump = json.loads(subprocess.run([BINARY, "mem", "--url", s.url, "--format", "json"], capture_output=True, text=True).stdout)
        packed = int(re.search(r"weights (\d+) MiB", s.log())[1]) * MIB
        mem = dump["memory"]
        t.check(s.stop() == 0, f"{path}: SIGTERM ends with exit 0")
    print(f"{path}: packed {packed / MIB:.0f} MiB, peak {hwm / MIB:.0f}, unexplained {mem['unexplained_bytes'] / MIB:.1f}", flush=True)
    t.check(hwm <= packed + LARGEST + 64 * MIB, f"{path}: peak {hwm / MIB:.0f} MiB, packed {packed / MIB:.0f}")
    t.check(mem["unexplained_bytes"] <= 64 * MIB, f"{path}: unexplained {mem['unexplained_bytes'] / MIB:.1f} MiB")
    return packed


bf16 = peak(sys.argv[1] + "/bf16")
q8_0 = peak(sys.argv[1] + "/q8_0.gguf")
q4_k = peak(sys.argv[1] + "/q4_k.gguf")
t.check(bf16 > 240 * MIB, f"the bound would see a second copy: {bf16 / MIB:.0f} MiB")
t.check(abs(q8_0 / bf16 - 34 / 64) < 0.02, f"Q8_0 keeps its size: {q8_0 / bf16:.3f} of BF16")
t.check(abs(q4_k / bf16 - 144 / 512) < 0.02, f"Q4_K keeps its size: {q4_k / bf16:.3f} of BF16")
sys.exit(t.close())
PYTHON
rc=$?
rm -rf $dir
exit $rc
