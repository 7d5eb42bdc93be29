#!/usr/bin/env python3
"""What programs at two campuses see of each other's changes while the lines are up."""
import fcntl
import os
import subprocess
import sys

import labkit
from labkit import until


class Coherence(labkit.LabTest):
    OPTIONS = ("--nodes", "main=1,a=1,b=2", "--link", "main-a=rate:1gbit,rtt:5ms",
               "--link", "main-b=rate:1gbit,rtt:5ms")

    def test_names_appear_change_and_go_at_every_campus(self):
        nodes = ("main1", "a1", "b1", "b2")
        for maker in nodes:
            name = f"dir-{maker}"
            os.mkdir(self.lab.grid(maker, name))
            for seen in nodes:
                until(f"{name} at {seen}", lambda s=seen: os.path.isdir(self.lab.grid(s, name)))
            with open(self.lab.grid("b1", name, "f"), "w") as file:
                file.write(maker)
            for seen in nodes:
                until(f"content at {seen}",
                      lambda s=seen: open(self.lab.grid(s, name, "f")).read() == maker)
            os.rename(self.lab.grid("a1", name, "f"), self.lab.grid("a1", name, "g"))
            for seen in nodes:
                until(f"rename at {seen}", lambda s=seen: os.listdir(self.lab.grid(s, name)) == ["g"])
            os.remove(self.lab.grid("main1", name, "g"))
            os.rmdir(self.lab.grid("main1", name))
            for seen in nodes:
                until(f"removal at {seen}", lambda s=seen: not os.path.exists(self.lab.grid(s, name)))

    def test_same_campus_sees_a_file_within_a_second_of_close(self):
        def content():
            with open(self.lab.grid("b2", "now")) as file:
                return file.read()
        for i in range(200):
            with open(self.lab.grid("b1", "now"), "w") as file:
                file.write(f"{i:05}")
            until(f"version {i} at b2", lambda want=f"{i:05}": content() == want, 1, every=0)

    def test_exclusive_create_has_one_winner(self):
        code = ("import os,sys\nwon=0\nfor i in range(100):\n"
                " try:\n  os.close(os.open(f'{sys.argv[1]}/x{i}', os.O_CREAT|os.O_EXCL|os.O_WRONLY)); won+=1\n"
                " except FileExistsError: pass\nprint(won)")
        os.mkdir(self.lab.grid("main1", "excl"))
        for node in ("a1", "b1", "b2"):
            until("the directory", lambda n=node: os.path.isdir(self.lab.grid(n, "excl")))
        racers = [subprocess.Popen([sys.executable, "-c", code, self.lab.grid(node, "excl")],
                                   stdout=subprocess.PIPE, text=True) for node in ("main1", "a1", "b1", "b2")]
        won = [int(racer.communicate(timeout=120)[0]) for racer in racers]
        self.assertEqual(sum(won), 100, won)

    def test_locks_exclude_across_campuses(self):
        for lock, name in ((fcntl.flock, "flock"), (fcntl.lockf, "fcntl")):
            with open(self.lab.grid("a1", name), "w") as first:
                until("the file", lambda: os.path.exists(self.lab.grid("b1", name)))
                with open(self.lab.grid("b1", name), "r+") as second, \
                        open(self.lab.grid("b2", name), "r+") as third:
                    lock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for other in (second, third):
                        with self.assertRaises(BlockingIOError):
                            lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    lock(first, fcntl.LOCK_UN)
                    lock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    with self.assertRaises(BlockingIOError):
                        lock(third, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def test_open_file_keeps_its_version_while_it_is_replaced_elsewhere(self):
        with open(self.lab.grid("b1", "v"), "wb") as file:
            file.write(b"1" * 3_000_000)
        until("first version", lambda: os.stat(self.lab.grid("a1", "v")).st_size == 3_000_000)
        with open(self.lab.grid("a1", "v"), "rb") as reader:
            self.assertEqual(reader.read(10), b"1" * 10)
            with open(self.lab.grid("b1", "v.new"), "wb") as file:
                file.write(b"2" * 2_000_000)
            os.rename(self.lab.grid("b1", "v.new"), self.lab.grid("b1", "v"))
            until("second version", lambda: open(self.lab.grid("a1", "v"), "rb").read() == b"2" * 2_000_000)
            self.assertEqual(reader.read(), b"1" * 2_999_990)

    def test_subtree_totals_are_one_read_and_right(self):
        root = self.lab.grid("b1", "totals")
        os.mkdir(root)
        size = 0
        for folder in ("x", "x/y", "z"):
            os.mkdir(os.path.join(root, folder))
            for i in range(10):
                with open(os.path.join(root, folder, f"f{i}"), "wb") as file:
                    file.write(b"d" * (1000 * (i + 1)))
                size += 1000 * (i + 1)
        self.lab.sync("b1", "/grid/totals", "archived")
        for node in ("main1", "a1", "b1"):
            held = until(f"totals at {node}", lambda n=node: (
                lambda j: j if j["bytes"] == size and j["campuses"].get("main", {}).get("bytes") == size else None)(
                    labkit.locations(self.lab.grid(n, "totals"))))
            self.assertEqual(held["campuses"]["b"]["bytes"], size)
            self.assertEqual(os.getxattr(self.lab.grid(node, "totals"), "user.quad.campuses").split(b",")[0] in
                             (b"main", b"b"), True)


class Cut(labkit.LabTest):
    OPTIONS = ("--nodes", "main=1,a=1,b=1")

    def test_cut_line_gives_bounded_errors_and_heals_by_itself(self):
        with open(self.lab.grid("b1", "kept"), "wb") as file:
            file.write(b"k" * 100_000)
        until("the file at main1", lambda: os.path.exists(self.lab.grid("main1", "kept")))
        with open(self.lab.grid("a1", "far"), "wb") as file:
            file.write(b"f" * 5_000_000)
        until("the far file", lambda: os.stat(self.lab.grid("b1", "far")).st_size == 5_000_000)
        self.lab.run("cut", "main", "b")
        try:
            until("b knows that it is cut", lambda: not self.lab.quadfs("b1", "status")["main_connected"], 30)
            with open(self.lab.grid("b1", "kept"), "rb") as file:   # What is here stays readable.
                self.assertEqual(file.read(), b"k" * 100_000)
            with self.assertRaises(OSError):                        # What is not fails within a bound.
                open(self.lab.grid("b1", "far"), "rb").read()
            with self.assertRaises(OSError):
                os.mkdir(self.lab.grid("b1", "refused"))
            os.mkdir(self.lab.grid("a1", "meanwhile"))              # The others go on.
        finally:
            self.lab.run("heal", "main", "b")
        until("the other side's change", lambda: os.path.isdir(self.lab.grid("b1", "meanwhile")), 60)
        until("writing again", lambda: os.mkdir(self.lab.grid("b1", "again")) is None, 60)
        self.assertEqual(open(self.lab.grid("b1", "far"), "rb").read(), b"f" * 5_000_000)

    def test_what_both_sides_of_a_cut_wrote_is_kept(self):
        def write(node, name, byte, size):
            with open(self.lab.grid(node, name), "wb") as file:
                file.write(byte * size)
        names = ("both", "held")
        for name in names:
            write("b1", name, b"0", 100_000)
        self.lab.sync("b1", "/grid", "archived")
        for node in ("main1", "a1"):
            for name in names:
                until(f"{name} at {node}", lambda n=node, f=name: os.path.getsize(self.lab.grid(n, f)) == 100_000)
        held = open(self.lab.grid("b1", "held"), "r+b")
        self.lab.run("cut", "main", "b")
        try:
            for name in names:
                write("b1", name, b"b", 2_500_000)
            held.write(b"b" * 10)
            os.fsync(held.fileno())
            for name in names:   # main waits until b's lease is over.
                until(f"{name} written at main", lambda f=name: write("main1", f, b"m", 1_500_000) is None, 60)
                until(f"{name} of main at a", lambda f=name: os.path.getsize(self.lab.grid("a1", f)) == 1_500_000, 60)
        finally:
            self.lab.run("heal", "main", "b")
        def contents(node):
            found = {}
            for name in os.listdir(self.lab.grid(node)):
                if name.split(".")[0] in names:
                    with open(self.lab.grid(node, name), "rb") as file:
                        found[name] = file.read()
            return found
        def both_kept(node):
            kept = contents(node)
            return kept if all(
                {b"m" * 1_500_000, b"b" * 2_500_000} <= {c for n, c in kept.items() if n.split(".")[0] == name}
                for name in names if (node, name) != ("b1", "held")) else None   # Still being written.
        held.seek(2_499_990)   # Its version lost, but it goes on.
        for node in ("main1", "a1", "b1"):
            until(f"both contents at {node}", lambda n=node: both_kept(n), 60)
        held.write(b"e" * 10)
        held.close()
        last = b"b" * 2_499_990 + b"e" * 10
        for node in ("main1", "a1", "b1"):
            until(f"what was written after the cut at {node}", lambda n=node: last in contents(n).values(), 60)
            self.assertIn(b"m" * 1_500_000, [contents(node)[name] for name in names])
        self.lab.sync("b1", "/grid", "archived")
        archive = self.lab.run("archive").strip()
        until("both in the archive", lambda: {b"b" * 2_500_000, last} <= {
            open(os.path.join(archive, name), "rb").read() for name in os.listdir(archive)
            if name.split(".")[0] in names}, 60)


if __name__ == "__main__":
    labkit.main()
