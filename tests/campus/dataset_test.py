#!/usr/bin/env python3
"""The main job: a data set whose only copy is at campus a is read at b, then again from b's cache."""
import os
import random

import labkit
from labkit import locations, random_file, tree_sha256, until

BIG_BYTES = 1 << 30
SMALL_FILES = 5000


class Dataset(labkit.LabTest):
    OPTIONS = ("--nodes", "main=1,a=1,b=2", "--link", "main-a=rate:1gbit,rtt:5ms",
               "--link", "main-b=rate:1gbit,rtt:5ms")

    def make_set(self, name):
        folder = self.lab.grid("a1", name)
        os.mkdir(folder)
        os.setxattr(folder, "user.quad.policy.archive", b"off")
        return folder

    def test_big_file_is_identical_and_read_twice_without_a_byte_on_the_link(self):
        folder = self.make_set("big")
        want = random_file(os.path.join(folder, "weights.bin"), BIG_BYTES, seed=1)
        self.lab.sync("a1", "/grid/big", "campus")
        there = self.lab.grid("b1", "big", "weights.bin")
        until("the file at b1", lambda: os.stat(there).st_size == BIG_BYTES)
        self.assertEqual(os.getxattr(there, "user.quad.campuses"), b"a")
        before = self.lab.link_bytes("main-b")
        self.assertEqual(labkit.sha256(there), want)
        first = self.lab.link_bytes("main-b") - before
        self.assertGreater(first, BIG_BYTES * 0.98)
        self.assertLess(first, BIG_BYTES * 1.10)
        until("b1's cache holds all of it",
              lambda: locations(there)["nodes"].get("b1", {}).get("bytes") == BIG_BYTES)
        opens = self.lab.quadfs("b1", "status")["mount"]["passthrough_opens"]
        before = self.lab.link_bytes("main-b")
        self.assertEqual(labkit.sha256(there), want)
        # Heartbeats and metadata go on; not a block of data does.
        self.assertLess(self.lab.link_bytes("main-b") - before, 1 << 20)
        self.assertGreater(self.lab.quadfs("b1", "status")["mount"]["passthrough_opens"], opens)

    def test_second_node_of_the_campus_reads_without_the_wide_link(self):
        folder = self.make_set("shared")
        want = random_file(os.path.join(folder, "x.bin"), 64 << 20, seed=2)
        self.lab.sync("a1", "/grid/shared", "campus")
        first, second = (self.lab.grid(node, "shared", "x.bin") for node in ("b1", "b2"))
        until("the file at b2", lambda: os.stat(second).st_size == 64 << 20)
        self.assertEqual(labkit.sha256(first), want)
        before = self.lab.link_bytes("main-b")
        self.assertEqual(labkit.sha256(second), want)
        self.assertLess(self.lab.link_bytes("main-b") - before, 2 << 20)

    def test_small_files_are_identical_and_read_twice_without_a_byte_on_the_link(self):
        folder = self.make_set("small")
        source = random.Random(3)
        total = 0
        for i in range(SMALL_FILES):
            if i % 500 == 0:
                os.mkdir(os.path.join(folder, f"shard{i // 500}"))
            size = source.randrange(20_000, 200_000)
            total += size
            with open(os.path.join(folder, f"shard{i // 500}", f"{i:05}.jpg"), "wb") as file:
                file.write(source.randbytes(size))
        want = tree_sha256(folder)
        self.assertEqual(len(want), SMALL_FILES)
        self.lab.sync("a1", "/grid/small", "campus", timeout=300)
        there = self.lab.grid("b1", "small")
        until("all names at b1", lambda: sum(len(f) for _, _, f in os.walk(there)) == SMALL_FILES)
        self.assertEqual(tree_sha256(there), want)
        before = self.lab.link_bytes("main-b")
        self.assertEqual(tree_sha256(there), want)
        self.assertLess(self.lab.link_bytes("main-b") - before, 2 << 20)
        held = locations(there)
        self.assertEqual(held["bytes"], total)
        self.assertEqual(held["campuses"]["a"]["bytes"], total)


if __name__ == "__main__":
    labkit.main()
