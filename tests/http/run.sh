#!/usr/bin/env bash
# tests/http/run.sh - `holdfast run` in a terminal: a line is edited, continued, taken from history;
# Ctrl-C drops a line or cancels an answer and the chat goes on; Ctrl-D ends it.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 - <<'PYTHON'
import json, os, pty, re, select, shutil, signal, subprocess, sys, tempfile, time, tty
sys.path.insert(0, "tests")
from serving import BINARY, Report

t = Report()
ENV = {**os.environ, "TERM": "xterm", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}


class Terminal:
    """A chat whose input, output and errors are one terminal; `seen` is all that came."""

    def __init__(self, *flags):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BINARY, [BINARY, "run", *flags], ENV)
        self.seen, self.at = "", 0

    def read(self, wait_s):
        if not select.select([self.fd], [], [], wait_s)[0]:
            return True
        try:
            got = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += got.decode("utf-8", "replace")
        return bool(got)

    def expect(self, pattern, wait_s=20):
        """Waits for the pattern behind what was expected last; its match, or None."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            m = re.compile(pattern, re.S).search(self.seen, self.at)
            if m:
                self.at = m.end()
                return m
            if not self.read(0.2):
                break
        t.check(False, f"{pattern!r} in {self.seen[self.at:]!r}")
        return None

    def settle(self):
        """Waits until nothing has come for a while: what is typed next is not mixed with a Ctrl-C."""
        before = -1
        while before != len(self.seen):
            before = len(self.seen)
            self.read(0.5)
        self.at = len(self.seen)

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self, wait_s=30):
        """The exit code, or None when it does not end."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            self.read(0.1)
        os.kill(self.pid, signal.SIGKILL)
        return None


# the embedded model, which repeats a sentence when it is asked to
c = Terminal("--no-think", "--temperature", "0")
c.expect("> ")
c.type("What is the end anchr?\x1b[D\x1b[Do\r")                 # two left, the letter that lacks
ANSWER = r"\x1b\[K([^\r\n]{20,})\r\n"
first = c.expect(ANSWER)
t.check(first, "an answer came")
c.expect("> ")
c.type("\x1b[A\r")                                              # the line before
t.check(c.expect(r"What is the end anchor\?"), "the history gives the line as it was edited")
again = c.expect(ANSWER)
t.check(again and again.group(1) == first.group(1), f"and it is answered as before: {again and again.group(1)!r}")
c.expect("> ")
c.type("never sent\x03")
t.check(c.expect(r"\r\n> "), "Ctrl-C drops the line and prompts anew")
c.type("one line \\\r")
t.check(c.expect(r"\. "), "a backslash goes on in the next line")
c.type("and another\r")
c.expect(ANSWER)
c.expect("> ")
c.type("\x04")
code = c.end()
t.check(code == 0, f"Ctrl-D ends with exit 0: {code}")

# a random model that would go on for long
folder = tempfile.mkdtemp(prefix="holdfast-run-")
made = subprocess.run([BINARY, "tiny", folder, "--seed", "3", "--hidden", "512", "--layers", "8"], capture_output=True, text=True)
t.check(made.returncode == 0, f"tiny: {made.stderr}")
LONG = ["-m", folder, "--ctx", "32768", "--max-tokens", "30000", "--seed", "1"]
c = Terminal(*LONG)
c.expect("> ")


def cancelled(stop):
    """The model ends some answers by itself at once: one of five is cut."""
    for i in range(5):
        c.type(f"number {i}\r")
        if not c.expect(r"\x1b\[K"):                              # the answer begins
            return False
        stop()
        m = c.expect(r"(\(cancelled\))?\r\n> ")
        c.settle()
        if m and m.group(1):
            return True
    return False


t.check(cancelled(lambda: c.type("\x03")), "Ctrl-C cancels an answer and prompts anew")
t.check(cancelled(lambda: os.kill(c.pid, signal.SIGINT)), "so does SIGINT")
c.type("\x04")
code = c.end()
t.check(code == 0, f"the chat ends with exit 0: {code}")

p = subprocess.Popen([BINARY, "run", *LONG, "-p", "hello"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
select.select([p.stdout, p.stderr], [], [], 60)
os.read(p.stdout.fileno() if select.select([p.stdout], [], [], 0)[0] else p.stderr.fileno(), 10)
p.send_signal(signal.SIGINT)
out, err = p.communicate(timeout=60)
t.check(p.returncode == 1 and b"cancelled" in err, f"-p: exit 1 and the reason: {p.returncode} {err[-200:]!r}")
shutil.rmtree(folder)

# a random model that writes control characters: a pipe gets them, a terminal sees them named
folder = tempfile.mkdtemp(prefix="holdfast-run-")
made = subprocess.run([BINARY, "tiny", folder, "--seed", "3", "--hidden", "64"], capture_output=True, text=True)
t.check(made.returncode == 0, f"tiny: {made.stderr}")


def acts(c):
    return c < " " and c not in "\n\t" or "\x7f" <= c <= "\x9f" or c in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def escaped(text):
    return "".join(f"\\u{ord(c):04x}" if acts(c) else c for c in text)


def answer(seed, where, more=()):
    """Standard output and errors of one answer, `where` of the two on terminals of their own."""
    ends, fds = [], []
    for name in ("stdout", "stderr"):
        back, front = pty.openpty() if name in where else os.pipe()
        if name in where:
            tty.setraw(front)                                   # else \n becomes \r\n
        ends.append(front)
        fds.append(back)
    p = subprocess.Popen([BINARY, "run", "-m", folder, "--ctx", "2048", "--max-tokens", "600", "--seed", str(seed), "-p", "hello", *more],
                         stdout=ends[0], stderr=ends[1], stdin=subprocess.DEVNULL, env=ENV)
    for fd in ends:
        os.close(fd)
    got, open_fds = {fd: b"" for fd in fds}, set(fds)
    while open_fds:
        for fd in select.select(list(open_fds), [], [], 60)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:                                     # the other end of a terminal closed
                data = b""
            got[fd] += data
            if not data:
                open_fds.discard(fd)
    t.check(p.wait(60) == 0, f"exit {p.returncode}")
    for fd in fds:
        os.close(fd)
    return [got[fd].decode() for fd in fds]


for seed in range(1, 40):                                       # one that writes ESC, and some thought
    plain = answer(seed, ())
    if "\x1b" in plain[0] and any(map(acts, plain[1])):
        break
t.check("\x1b" in plain[0], "a pipe gets ESC as the model wrote it")
both = answer(seed, ("stdout", "stderr"))
t.check(both[0] == escaped(plain[0]), f"a terminal gets the answer escaped: {both[0]!r}")
thought = re.sub(r"\rreading [^\r]*|\r\x1b\[K", "", both[1])      # the program's own
t.check(thought == escaped(plain[1]), f"and the reasoning: {thought!r} {plain[1]!r}")
half = answer(seed, ("stderr",))
t.check(half[0] == plain[0], "an answer into a pipe is whole though errors go to a terminal")
json_text = answer(seed, ("stdout",), ["--json"])[0]
t.check(not any(map(acts, json_text)), f"--json on a terminal: {json_text!r}")
t.check(json.loads(json_text)["choices"][0]["message"]["content"] is not None, "is still JSON")
t.check(json.loads(json_text)["choices"] == json.loads(answer(seed, (), ["--json"])[0])["choices"], "with the same strings")
shutil.rmtree(folder)
sys.exit(t.close())
PYTHON
