#!/usr/bin/env bash
# tests/tidy.sh - the rules of the house that a script can see.  Prints each breach, exit 1 if any.
#
# Checked: who may allocate; who may print or exit; lengths of lines, functions and files; names of
# files' exports (with nm, when objects are built); header guards; who may include what (floors,
# foreign headers); include circles; words that do not belong in the tree.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
/usr/bin/python3 - "$@" <<'PYTHON'
import glob, os, re, subprocess, sys

ROOMS = ("arena", "budget", "model", "tiers", "http", "tests")
LINE_COLUMNS, FUNCTION_LINES, FILE_LINES, README_LINES = 100, 70, 700, 40

# folder -> folders or headers it may include (first match of the longest folder wins)
FLOORS = {
    "arena/base": ["arena/base/"],
    "arena": ["arena/"],
    "budget": ["arena/", "budget/"],
    "model/cpu": ["arena/base/", "model/ops.h", "model/maths.h", "model/cpu/"],
    "model/cuda": ["arena/base/", "arena/", "model/ops.h", "model/maths.h", "model/cuda/"],
    "model": ["arena/", "budget/", "model/"],
    "tiers": ["arena/", "budget/", "tiers/", "model/state.h"],
    "http/turn": ["arena/", "budget/", "model/", "tiers/", "http/turn/"],
    "http": ["arena/", "budget/", "model/", "tiers/", "http/"],
    "tests": [""],
}
NOT_HERE = {"http/turn": ["model/text/"]}

# foreign header (pattern) -> files that may include it
FOREIGN = {
    r"^jemalloc/": ["arena/heap.c"],
    r"^xxh": ["arena/base/hash.c"],
    r"^msgpack": ["arena/base/pack.c"],
    r"^jansson": ["arena/base/json.c"],
    r"^isa-l": ["arena/base/crc32.c"],
    r"^liburing": ["arena/base/file.c"],
    r"^ini\.h": ["budget/profile.c"],
    r"^pcre2|^utf8proc": ["model/text/tokenizer.c", "model/text/tokenizer_split.c"],
    r"^microhttpd": ["http/serve/"],
    r"^histedit": ["http/cli/line.c"],
    r"^math\.h|^tgmath\.h|^complex\.h": ["model/weights.c", "arena/", "budget/", "http/", "tests/", "tiers/"],
    r"^omp\.h": [],
    r"^cmocka|^setjmp": ["tests/test.c"],
    r"^divsufsort": ["tiers/suffix/array.c"],
    r"^cuda|^cublas|^cub/": ["model/cuda/", "arena/space_cuda.c"],
}
breaches = []


def breach(path, line, text):
    breaches.append(f"{path}:{line}: {text}" if line else f"{path}: {text}")


def strip(text):
    """the same text with comments and string contents blanked, lines kept"""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def folder_rule(path, table):
    best = ""
    for folder in table:
        if path.startswith(folder + "/") and len(folder) > len(best):
            best = folder
    return best


def functions(lines):
    """(name line, length) of every function body that starts with { in column 0"""
    start = None
    for i, line in enumerate(lines):
        if line.startswith("{"):
            start = i
        elif line.startswith("}") and start is not None:
            yield start, i - start + 1
            start = None


sources = sorted(p for r in ROOMS for p in glob.glob(r + "/**/*.[ch]", recursive=True))
includes = {}
for path in sources:
    raw = open(path, encoding="utf-8").read()
    code = strip(raw)
    lines = raw.split("\n")
    bare = code.split("\n")
    test = path.startswith("tests/")
    if raw.count("\n") > FILE_LINES:
        breach(path, 0, f"{raw.count(chr(10))} lines, at most {FILE_LINES}: split it by its tables")
    for n, line in enumerate(lines, 1):
        if len(line) > LINE_COLUMNS:
            breach(path, n, f"{len(line)} columns, at most {LINE_COLUMNS}")
        if "\t" in line:
            breach(path, n, "a tab")
        if line.rstrip() != line:
            breach(path, n, "blanks at the end of the line")
        if re.search(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b", line):
            breach(path, n, "a note to oneself: finish it or say it in an issue")
    for start, length in functions(bare):
        if length > FUNCTION_LINES and not test:
            breach(path, start, f"a function of {length} lines, at most {FUNCTION_LINES}")
    if path.endswith(".h"):
        parts = path[:-2].split("/")
        guards = ["_".join(p).upper() + "_H" for p in (parts[-2:], parts)]
        if not any(f"#ifndef {g}\n#define {g}\n" in raw for g in guards):
            breach(path, 0, f"the guard is not {guards[0]}")
    for n, line in enumerate(bare, 1):
        if not test:
            if re.search(r"\b(malloc|calloc|realloc|mmap|munmap|aligned_alloc|posix_memalign|strdup|strndup|asprintf|vasprintf|cudaMalloc)\s*\(", line):
                if not re.match(r"arena/(space_\w+|heap)\.c$", path):
                    breach(path, n, "memory of its own: only arena/space_*.c and arena/heap.c allocate")
            if re.search(r"(?<![\w.>])(exit|_exit|abort|printf|puts|putchar|vprintf|fprintf|vfprintf|perror)\s*\(", line):
                if path not in ("http/main.c", "arena/base/log.c", "arena/base/base.c") and not path.startswith("http/cli/"):
                    breach(path, n, "prints or exits: only main.c, http/cli and base/log.c do")
            if re.search(r"\bsleep\s*\(", line):
                breach(path, n, "sleeps")
        if "#pragma omp" in line or "<<<" in line:
            breach(path, n, "OpenMP and <<<>>> have no place here")
    includes[path] = []
    for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', raw, flags=re.M):
        n = raw.count("\n", 0, m.start()) + 1
        name = m.group(2)
        if m.group(1) == "<":
            for pattern, allowed in FOREIGN.items():
                if re.search(pattern, name) and not any(path == a or (a.endswith("/") and path.startswith(a)) for a in allowed):
                    breach(path, n, f"<{name}> may be included by {', '.join(allowed) or 'nobody'} only")
            continue
        if not os.path.exists(name):
            if not (test and os.path.exists(os.path.join(os.path.dirname(path), name))):
                breach(path, n, f'"{name}" is not a path from the root')
            continue
        includes[path].append(name)
        rule = folder_rule(path, FLOORS)
        if not any(name.startswith(a) for a in FLOORS[rule]):
            breach(path, n, f'{rule} may not include "{name}" (floors: tests/tidy.sh)')
        ban = folder_rule(path, NOT_HERE)
        if ban and any(name.startswith(b) for b in NOT_HERE[ban]):
            breach(path, n, f'{ban} may not include "{name}"')
        if rule == "http/turn" and re.match(r"http/(chat|serve|admin|cli)/", name):
            breach(path, n, f'http/turn is text-free and may not include "{name}"')

# circles between headers
state = {}


def walk(path, trail):
    if state.get(path) == 2:
        return
    if state.get(path) == 1:
        breach(path, 0, "include circle: " + " -> ".join(trail[trail.index(path):] + [path]))
        return
    state[path] = 1
    for name in includes.get(path, ()):
        walk(name, trail + [path])
    state[path] = 2


for path in sources:
    if path.endswith(".h"):
        walk(path, [])

# exports begin with the file's stem, or folder and stem
objects = "build/obj"
for path in sources:
    if path.startswith("tests/") or not path.endswith(".c") or path == "http/main.c":
        continue
    obj = os.path.join(objects, path[:-2].replace("/", "_") + ".o")
    if not os.path.exists(obj):
        continue
    parts = path[:-2].split("/")
    stems = [parts[-1], parts[-1].split("_")[0], "_".join(parts[-2:])]
    out = subprocess.run(["nm", "-g", "--defined-only", obj], capture_output=True, text=True).stdout
    for line in out.splitlines():
        name = line.split()[-1]
        if not any(name == s or name.startswith(s + "_") for s in stems):
            breach(path, 0, f"exports {name}: a name begins with {parts[-1]}_ or {stems[-1]}_")

# folders have a README of at most 40 lines, one for every folder with rooms
for folder in sorted({os.path.dirname(p) for p in sources if not p.startswith("tests/")}):
    readme = folder + "/README.md"
    if not os.path.exists(readme):
        breach(readme, 0, "missing: what the folder owns, its tables, one line a room")
    else:
        count = open(readme, encoding="utf-8").read().count("\n")
        if count > README_LINES:
            breach(readme, 0, f"{count} lines, at most {README_LINES}")

top = {"build.sh", "arena", "budget", "model", "tiers", "http", "tests", "profiles", "README.md",
       "LICENSE", ".gitignore", ".ci"}
tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True).stdout.split("\n")
for name in sorted({t.split("/")[0] for t in tracked if t}):
    if name not in top:
        breach(name, 0, "does not belong at the top level")

for line in breaches:
    print(line)
print(f"{len(sources)} files, {len(breaches)} breaches")
sys.exit(1 if breaches else 0)
PYTHON
