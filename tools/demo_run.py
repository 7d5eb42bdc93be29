#!/usr/bin/env python3
"""The demo itself; tools/demo has installed and built what it needs."""
import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import time

BEGUN = time.monotonic()
CHECKPOINT_BYTES = 64 << 20


def say(text=""):
    print(text, flush=True)


def step(text):
    say(f"\n== {text}  ({time.monotonic() - BEGUN:.0f} s)")


class Demo:
    def __init__(self, root, options):
        self.root, self.options = root, options
        self.lab = os.path.join(root, "tests", "lab")
        self.grid = {}

    def run(self, *words, check=True, show=False):
        done = subprocess.run([self.lab, *words], text=True, stdin=subprocess.DEVNULL,
                              stdout=None if show else subprocess.PIPE, stderr=None if show else subprocess.STDOUT)
        if check and done.returncode != 0:
            sys.exit(f"tools/demo: tests/lab {' '.join(words)} failed: {(done.stdout or '').strip()[-2000:]}")
        return done.stdout

    def inside(self, host, *command, **how):
        """Runs a command inside a host, as its user would."""
        return self.run("exec", host, "--", *command, **how)

    def shown(self, host, *command):
        say(f"{host}$ {' '.join(command)}")
        self.inside(host, *command, show=True)

    def path(self, node, *parts):
        if node not in self.grid:
            self.grid[node] = self.run("path", node).strip()
        return os.path.join(self.grid[node], *parts)

    def link_bytes(self):
        return {name: link["bytes"] for name, link in json.loads(self.run("status", "--json"))["links"].items()}

    def up(self):
        line = f"rate:{self.options.rate},rtt:{self.options.rtt}"
        self.run("up", "--nodes", "main=1,a=1,b=1", "--link", f"main-a={line}", "--link", f"main-b={line}",
                 "--bin", os.environ.get("QUADFS_BIN") or os.path.join(self.root, "build", "release", "bin"), show=True)

    def make_data(self):
        """The data set at a, in a directory that is not archived: its only copy stays at a."""
        folder = self.path("a1", "datasets", "faces")
        os.makedirs(folder)
        self.inside("a1", "setfattr", "-n", "user.quad.policy.archive", "-v", "off", "/grid/datasets")
        source = random.Random(7)
        total, start, digests = 0, time.monotonic(), {}
        sizes = [(f"{i:04d}.jpg", source.randrange(20_000, 200_000)) for i in range(self.options.files)]
        for name, size in [*sizes, ("packed.bin", self.options.big_bytes)]:
            digest = hashlib.blake2b(digest_size=16)
            with open(os.path.join(folder, name), "wb") as file:
                left = size
                while left > 0:
                    chunk = source.randbytes(min(left, 1 << 20))
                    digest.update(chunk)
                    file.write(chunk)
                    left -= len(chunk)
            digests[name] = digest.digest()
            total += size
        self.written = hashlib.blake2b(b"".join(digests[name] for name in sorted(digests)), digest_size=16).hexdigest()
        say(f"{len(digests)} files, {total / 1e6:.0f} MB, made in {time.monotonic() - start:.1f} s")
        self.shown("a1", "quadfs", "sync", "/grid/datasets", "--until", "campus", "--timeout", "300s")

    def locations(self, node):
        self.shown(node, "getfattr", "--absolute-names", "--only-values", "-n", "user.quad.locations", "/grid/datasets")
        say()
        self.shown(node, "quadfs", "where", "/grid/datasets")

    def measured(self, what, *command):
        before = self.link_bytes()
        out = self.inside("b1", "python3", os.path.join(self.root, "tools", "demo_reader.py"), *command)
        after = self.link_bytes()
        result = json.loads(out.strip().splitlines()[-1])
        result["what"] = what
        result["links"] = {name: after[name] - before[name] for name in after}
        say(f"{what}: {result['bytes'] / 1e6:.0f} MB in {result['seconds']:.2f} s, "
            f"{result['bytes'] / 1e6 / result['seconds']:.0f} MB/s")
        if result.get("checksum", self.written) != self.written:
            sys.exit("tools/demo: what b read is not what a wrote")
        return result

    def train(self):
        """Cold epoch, warm epoch from the disk, warm epoch from memory, checkpoint."""
        results = [self.measured("cold epoch", "epoch", "/grid/datasets/faces", "1")]
        subprocess.run(["sync"], check=True)
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3")  # So that the warm epoch is the disk's, not the memory's.
        results.append(self.measured("warm epoch", "epoch", "/grid/datasets/faces", "2"))
        results.append(self.measured("again, in memory", "epoch", "/grid/datasets/faces", "3"))
        self.inside("b1", "mkdir", "-p", "/grid/runs/7")
        results.append(self.measured("checkpoint", "checkpoint", "/grid/runs/7/model.ckpt", str(CHECKPOINT_BYTES)))
        return results

    def table(self, results):
        names = sorted(results[0]["links"])
        say(f"{'':20}{'seconds':>9}{'MB/s':>8}" + "".join(f"{'MB over ' + name:>18}" for name in names))
        for one in results:
            say(f"{one['what']:20}{one['seconds']:9.2f}{one['bytes'] / 1e6 / one['seconds']:8.0f}" +
                "".join(f"{one['links'][name] / 1e6:18.2f}" for name in names))
        say("Every byte that b read was compared with what a wrote: identical.")


HINTS = """
The three campuses stay up. Try:
  export QUADFS_LAB=demo
  tests/lab exec b1 -- bash                      # a shell on a node of b; the tree is /grid
  tests/lab exec b1 -- quadfs status
  tests/lab cut main b                           # cut the line; then read what b has, and what it has not
  tests/lab heal main b
  tests/lab exec b1 -- quadfs evict /grid/datasets
  tests/lab exec b1 -- quadfs prefetch /grid/datasets
  tests/lab set main-b rate:200mbit rtt:20ms
  tests/lab status
Remove them with: tools/demo --down"""


def main():
    parser = argparse.ArgumentParser(prog="tools/demo")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--big-bytes", type=int, default=256 << 20)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rtt", default="5ms")
    demo = Demo(sys.argv[1], parser.parse_args(sys.argv[2:]))
    step("Three campuses: main, a, b; a hub and a node each; real daemons, real TLS")
    demo.up()
    step("A data set is made at a; it is not to be archived, so its only copy is there")
    demo.make_data()
    step("Where it is")
    demo.locations("b1")
    step("A job at b reads it twice, and writes a checkpoint")
    results = demo.train()
    step("Where it is now")
    demo.locations("b1")
    step("The checkpoint goes home by itself")
    demo.shown("b1", "quadfs", "sync", "/grid/runs", "--until", "archived", "--timeout", "300s")
    step("The archive at main is a plain tree")
    demo.shown("main", "ls", "-lR", "--hide=.quadfs", "/srv/quadfs")
    step("Where the time went")
    demo.table(results)
    say(HINTS)


if __name__ == "__main__":
    main()
