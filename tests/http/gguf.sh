#!/usr/bin/env bash
# tests/http/gguf.sh - the binary on a GGUF file: the answers of the folder it was made of, the same
# tokens, errors in words.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
models=build/models/tiny
[ -f $models/rand-qwen35-tiny-q4_0.gguf ] && [ -f $models/hf/model.safetensors ] ||
    /usr/bin/python3 tests/scenarios/make_model.py $models --size tiny --only hf,bf16,q8_0,q4_0 ||
    { echo "make_model.py failed"; echo "0 passed, 1 failed"; exit 1; }
exec /usr/bin/python3 - $models <<'PYTHON'
import concurrent.futures, os, shutil, subprocess, sys, tempfile
sys.path.insert(0, "tests")
from serving import BINARY, Report, Server

models = sys.argv[1]
t = Report()
PROMPTS = ["What is the end anchor?", "caf\u00e9 na\u00efve 12345  tabs\tand\n\nlines \u4f60\u597d \U0001f642", "cafe\u0301", "<|im_end|> is text here"]


def answers(path, *flags):
    """answers and token counts of every prompt, greedy"""
    out = []
    with Server(["--model", path, "--template", "3.8", "--ctx", "2048", *flags]) as s:
        for p in PROMPTS:
            code, a = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": p}], "temperature": 0, "max_tokens": 48})
            t.check(code == 200, f"{path}: {code} {a}")
            m = a["choices"][0]["message"]
            out.append((m.get("content"), m.get("reasoning_content"), a["usage"]["prompt_tokens"], a["usage"]["completion_tokens"]))
        code, list_ = s.get("/v1/models")
        log = s.log()
        t.check(s.stop() == 0, f"{path}: SIGTERM ends with exit 0")
    return out, s.ready, list_, log


folder, ready, _, _ = answers(models + "/hf")
file, ready, names, _ = answers(models + "/rand-qwen35-tiny-bf16.gguf")
t.check(file == folder, f"a BF16 file answers as its folder: {file} {folder}")
t.check(any(a[0] or a[1] for a in folder), f"they say something: {folder}")
t.check("model rand-qwen35-tiny-bf16," in ready, f"the ready line names the file: {ready}")
t.check(names["data"][0]["id"] == "rand-qwen35-tiny-bf16", f"so does /v1/models: {names}")
q8, _, _, _ = answers(models + "/rand-qwen35-tiny-q8_0.gguf", "--arithmetic", "q8_0=bf16")
t.check([a[2] for a in q8] == [a[2] for a in folder], f"a Q8_0 file cuts the same tokens: {q8}")
t.check(all(a[3] > 0 for a in q8), f"a Q8_0 file answers: {q8}")


def ask(s, prompt):
    code, a = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": 48})
    m = a["choices"][0]["message"] if code == 200 else {}
    return m.get("content"), m.get("reasoning_content")


# integers: two clients at once get what each gets alone; a second start maps the packed weights
home = tempfile.mkdtemp(prefix="holdfast-gguf-")
flags = ["--model", models + "/rand-qwen35-tiny-q8_0.gguf", "--template", "3.8", "--ctx", "2048", "--pack-cache"]
with Server(flags, home=home) as s:
    t.check("arithmetic 2," in s.log(), f"the start names the arithmetic: {s.log()}")
    t.check("packed weights written" in s.log(), f"the packed weights are kept: {s.log()}")
    alone = [ask(s, p) for p in PROMPTS]
with Server(flags, home=home) as s:
    t.check("packed weights mapped" in s.log(), f"the second start maps them: {s.log()}")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda p: ask(s, p), PROMPTS))
    t.check(together == alone, f"two clients at once: {together} {alone}")
    t.check(all(a[0] or a[1] for a in alone), f"they say something: {alone}")
for word in "bf16", "auto":             # packed alike; each word's conversations wait for it
    with Server([*flags, "--arithmetic", word], home=home) as s:
        t.check("packed weights mapped" in s.log(), f"--arithmetic {word} maps the same: {s.log()}")
        t.check(ask(s, PROMPTS[0]) != (None, None), f"--arithmetic {word} answers")
kept = [name for name in os.listdir(home + "/holdfast") if len(name) == 32]
t.check(len(kept) == 2, f"a folder an arithmetic: {kept}")
shutil.rmtree(home)

# codes of 4 bits: the start names the other arithmetic; by integers two clients at once get their own
path = models + "/rand-qwen35-tiny-q4_0.gguf"
_, _, _, log = answers(path)
t.check("arithmetic 1," in log and "--arithmetic int8" in log, f"the start names both: {log}")
flags = ["--model", path, "--template", "3.8", "--ctx", "2048", "--arithmetic", "int8"]
with Server(flags) as s:
    t.check("arithmetic 5," in s.log() and "--arithmetic int8" not in s.log(), f"the start names it: {s.log()}")
    alone = [ask(s, p) for p in PROMPTS]
with Server(flags) as s:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda p: ask(s, p), PROMPTS))
    t.check(together == alone, f"two clients at once, codes by integers: {together} {alone}")
    t.check(all(a[0] or a[1] for a in alone), f"they say something: {alone}")


def refused(what, code, word, *flags):
    run = subprocess.run([BINARY, "serve", "--port", "0", *flags], capture_output=True, text=True, timeout=60)
    t.check(run.returncode == code and word in run.stderr, f"{what}: {run.returncode} {run.stderr[-300:]}")


refused("an unknown template is named", 1, "--template", "--model", models + "/rand-qwen35-tiny-q8_0.gguf", "--ctx", "2048")
refused("bf16 files have no int8", 2, "bf16=int8", "--model", models + "/rand-qwen35-tiny-q8_0.gguf", "--arithmetic", "bf16=int8")
refused("another file is refused", 1, ".gguf", "--model", "README.md")
data = open(models + "/rand-qwen35-tiny-bf16.gguf", "rb").read()
cut = "build/models/cut.gguf"
open(cut, "wb").write(data[: len(data) // 2])
refused("half a file is refused", 1, "cut short", "--model", cut)
run = subprocess.run([BINARY, "run", "-m", models + "/rand-qwen35-tiny-bf16.gguf", "--template", "3.8", "--ctx", "2048", "-p", PROMPTS[0],
                      "--temperature", "0", "--max-tokens", "400"], capture_output=True, text=True, timeout=120)
t.check(run.returncode == 0 and run.stdout.strip() != "", f"run answers from a file: {run.returncode} {run.stderr[-300:]}")
sys.exit(t.close())
PYTHON
