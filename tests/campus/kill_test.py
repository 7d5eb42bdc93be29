#!/usr/bin/env python3
"""kill -9 of each daemon in the middle of the work: everything that was acknowledged is there."""
import os
import threading

import labkit
from labkit import until


class Writer(threading.Thread):
    """Creates, fsyncs and renames files until stopped; `done` are the acknowledged ones."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.done, self.going, self.errors = folder, {}, True, 0

    def run(self):
        step = 0
        while self.going and step < 5000:
            step += 1
            data = (b"%08d" % step) * (1 + step % 4000)
            name = f"f{step:05}"
            try:
                with open(os.path.join(self.folder, name + ".tmp"), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(os.path.join(self.folder, name + ".tmp"), os.path.join(self.folder, name))
                self.done[name] = data
            except OSError:
                self.errors += 1
                if not os.path.exists(self.folder):  # The mount is gone: its daemon was killed.
                    return

    def progress(self, files):
        until(f"{files} more files written",
              lambda target=len(self.done) + files: len(self.done) >= target or not self.is_alive(), 60)


class Kill(labkit.LabTest):
    OPTIONS = ("--nodes", "main=1,a=1,b=1")

    def check(self, name, done, nodes=("b1", "a1")):
        self.assertGreater(len(done), 20)
        for node in nodes:
            folder = self.lab.grid(node, name)
            for file_name, data in done.items():
                path = os.path.join(folder, file_name)
                until(f"{file_name} at {node}", lambda p=path: os.path.exists(p), 60)
                until(f"content of {file_name} at {node}",
                      lambda p=path, d=data: open(p, "rb").read() == d, 60)

    def victim(self, host, name, writer_node="b1"):
        os.mkdir(self.lab.grid(writer_node, name))
        writer = Writer(self.lab.grid(writer_node, name))
        writer.start()
        writer.progress(30)
        self.lab.run("kill", host)
        if host == writer_node:
            writer.join(60)
        self.lab.run("start", host)
        if host != writer_node:
            writer.progress(10)
        writer.going = False
        writer.join(60)
        self.assertFalse(writer.is_alive())
        self.check(name, writer.done)
        self.lab.sync("b1", "/grid/" + name, "archived", timeout=120)

    def test_kill_the_writing_node(self):
        self.victim("b1", "k-node")

    def test_kill_the_campus_hub(self):
        self.victim("b", "k-hub")

    def test_kill_main(self):
        self.victim("main", "k-main")

    def test_kill_the_reading_node_while_it_fetches(self):
        path = self.lab.grid("b1", "big.bin")
        want = labkit.random_file(path, 200 << 20, seed=5)
        self.lab.sync("b1", "/grid/big.bin", "campus")
        there = self.lab.grid("a1", "big.bin")
        until("the file at a1", lambda: os.stat(there).st_size == 200 << 20)
        fd = os.open(there, os.O_RDONLY)
        os.pread(fd, 20 << 20, 0)
        self.lab.run("kill", "a1")
        try:
            os.close(fd)
        except OSError:
            pass  # The daemon that would answer is gone.
        self.lab.run("start", "a1")
        self.assertEqual(labkit.sha256(there), want)

    def test_kill_a_hub_while_it_relays(self):
        path = self.lab.grid("b1", "relay.bin")
        want = labkit.random_file(path, 200 << 20, seed=6)
        self.lab.sync("b1", "/grid/relay.bin", "campus")
        there = self.lab.grid("a1", "relay.bin")
        until("the file at a1", lambda: os.stat(there).st_size == 200 << 20)
        with open(there, "rb") as file:
            file.read(20 << 20)
            for host in ("a", "main", "b"):
                self.lab.run("kill", host)
                self.lab.run("start", host)
        until("the whole file at a1", lambda: labkit.sha256(there) == want, 60)


if __name__ == "__main__":
    labkit.main()
