#!/usr/bin/env bash
# tests/http/clients.sh - the openai client and the AI SDK's openai-compatible provider complete a
# streamed chat with a tool call under forced tokens, and its second turn from the end anchor.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
command -v node >/dev/null && command -v npm >/dev/null || { echo "skipped: no node and npm"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
bash tests/npm/clients/make.sh || { echo "0 passed, 1 failed"; exit 1; }
cp tests/npm/clients/*.mjs build/npm/clients/
exec /usr/bin/python3 - <<'PYTHON'
import re, subprocess, sys
sys.path.insert(0, "tests")
from serving import Report, Server

t = Report()
for script in ("openai.mjs", "aisdk.mjs"):
    with Server(["--ctx", "4096", "--test-hooks", "--force-file", "tests/npm/clients/force.jsonl"]) as s:
        run = subprocess.run(["node", f"build/npm/clients/{script}", s.url], capture_output=True, text=True, timeout=120)
        print(run.stdout + run.stderr, flush=True)
        m = re.search(r"^(\d+) passed, (\d+) failed$", run.stdout, re.M)
        t.check(run.returncode == 0, f"{script} exits 0")
        if m:
            t.passed += int(m.group(1))
            t.failed += int(m.group(2))
        t.check(s.stop() == 0, f"{script}: SIGTERM ends with exit 0")
sys.exit(t.close())
PYTHON
