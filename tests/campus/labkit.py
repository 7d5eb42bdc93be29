"""What the multi-campus tests share: one lab for a test program, and ways to look at it.

A program calls `main(TestClass…)` once; each class gets the lab it declares in `LAB`.
Nothing here waits by the clock: `until` polls the thing itself, with a bound.
"""
import hashlib
import json
import os
import subprocess
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAB = os.path.join(ROOT, "tests", "lab")


class Lab:
    """A running lab. Paths given to `grid` are below /grid of a node, seen from outside."""

    def __init__(self, name, *options):
        self.env = dict(os.environ, QUADFS_LAB=name)
        self.run("up", *options, timeout=180)
        self.paths = {}

    def run(self, *args, timeout=120, check=True):
        done = subprocess.run([LAB, *args], env=self.env, timeout=timeout, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"lab {' '.join(args)}: exit {done.returncode}: "
                                 f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def down(self):
        self.run("down", timeout=120)

    def grid(self, node, *parts):
        if node not in self.paths:
            self.paths[node] = self.run("path", node).strip()
        return os.path.join(self.paths[node], *parts)

    def exec(self, host, *command, timeout=120, check=True):
        """Runs a command inside a host; returns its output."""
        return self.run("exec", host, "--", *command, timeout=timeout, check=check)

    def quadfs(self, host, *args, timeout=120):
        """A quadfs command inside a host, with --json, decoded."""
        out = self.exec(host, "quadfs", *args, "--json", timeout=timeout)
        return json.loads(out.strip().splitlines()[-1])

    def status(self):
        return json.loads(self.run("status", "--json"))

    def link_bytes(self, link):
        return self.status()["links"][link]["bytes"]

    def sync(self, node, path, until="campus", timeout=120):
        self.exec(node, "quadfs", "sync", path, "--until", until, "--timeout", str(timeout),
                  timeout=timeout + 20)


def until(what, test, seconds=60, every=0.02):
    """Waits for the thing itself: returns its first true value."""
    limit = time.monotonic() + seconds
    last = None
    while True:
        try:
            value = test()
            if value:
                return value
        except OSError as error:
            last = error
        if time.monotonic() > limit:
            raise AssertionError(f"after {seconds} s still not: {what}" + (f" ({last})" if last else ""))
        time.sleep(every)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def tree_sha256(root):
    """{relative path: sha256} of every regular file below root."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = sha256(path)
    return found


def random_file(path, size, seed=0):
    """A file of pseudo-random bytes, the same for a seed; returns its sha256."""
    import random
    source = random.Random(seed)
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        while size > 0:
            chunk = source.randbytes(min(size, 1 << 20))
            file.write(chunk)
            digest.update(chunk)
            size -= len(chunk)
    return digest.hexdigest()


def locations(path):
    return json.loads(os.getxattr(path, "user.quad.locations"))


class LabTest(unittest.TestCase):
    """A test class with a lab of its own, up once for all its tests."""
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab("t-" + cls.__name__.lower()[:10], *cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()


def main():
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: needs root and /dev/fuse")
        sys.exit(77)
    unittest.main(verbosity=2, warnings="ignore")
