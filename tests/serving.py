"""Start and stop a holdfast server for script tests.  Python 3 standard library only.

    with Server(["--ctx", "8192"]) as s:  s.url, s.get(path), s.post(path, body), s.log()

A server has a cache home of its own, removed when it stops; `home` names one that outlives it.
"""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BINARY = os.environ.get("HOLDFAST", os.path.join(ROOT, "build", "holdfast"))


class Server:
    def __init__(self, flags, ready_s=120, home=None):
        self.home = home or tempfile.mkdtemp(prefix="holdfast-home-")
        self.kept = home is not None
        self.err = tempfile.NamedTemporaryFile(mode="w+", suffix=".log", delete=False)
        self.proc = subprocess.Popen([BINARY, "serve", "--port", "0"] + list(flags), stdout=subprocess.PIPE,
                                     stderr=self.err, stdin=subprocess.DEVNULL, text=True,
                                     env={**os.environ, "XDG_CACHE_HOME": self.home})
        timer = threading.Timer(ready_s, self.proc.kill)
        timer.start()
        self.ready = self.proc.stdout.readline().strip()
        timer.cancel()
        m = re.match(r"holdfast: listening on (http://([^ :]+):(\d+))", self.ready)
        if not m:
            self.proc.kill()
            self.proc.wait()
            raise RuntimeError(f"no ready line, got {self.ready!r}; log:\n{self.log()}")
        self.url, self.host, self.port = m.group(1), m.group(2), int(m.group(3))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def log(self):
        with open(self.err.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM, wait_s=60):
        """Sends `sig` once and waits; returns the exit code."""
        if self.proc.poll() is None:
            self.proc.send_signal(sig)
            try:
                self.proc.wait(wait_s)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        if not self.kept:
            shutil.rmtree(self.home, ignore_errors=True)
        return self.proc.returncode

    def request(self, method, path, body=None, headers=None, timeout=300):
        c = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            data = None if body is None else json.dumps(body)
            c.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            r = c.getresponse()
            raw = r.read()
            try:
                return r.status, json.loads(raw)
            except ValueError:
                return r.status, raw.decode("utf-8", "replace")
        finally:
            c.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body, **kw):
        return self.request("POST", path, body, **kw)


class Report:
    """Counts checks and prints the closing line."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, ok, what):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}", flush=True)
        return ok

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 0 if self.failed == 0 and self.passed > 0 else 1
