#!/usr/bin/env python3
"""A flipped byte in a cache, in a store or on the wire is never read."""
import os

import labkit
from labkit import until


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))


class Damage(labkit.LabTest):
    OPTIONS = ("--nodes", "main=1,a=1,b=1", "--no-store-on-nodes")

    def put(self, name, size, seed):
        want = labkit.random_file(self.lab.grid("a1", name), size, seed)
        self.lab.sync("a1", "/grid/" + name, "archived")
        there = self.lab.grid("b1", name)
        until("the file at b1", lambda: os.stat(there).st_size == size)
        return there, want

    def outside(self, host, path):
        """A path inside a host, as seen from here."""
        return self.lab.run("outside", host, path).strip()

    def test_flipped_byte_in_the_cache_is_not_read(self):
        for name, size in (("small", 50_000), ("large", 20 << 20)):
            there, want = self.put(name, size, 11)
            self.assertEqual(labkit.sha256(there), want)
            cached = self.lab.quadfs("b1", "where", "/grid/" + name)["cache_file"]
            flip(self.outside("b1", cached), size // 2)
            self.assertEqual(labkit.sha256(there), want)

    def test_flipped_byte_in_the_stores_is_not_read(self):
        there, want = self.put("stored", 20 << 20, 12)
        flip(self.outside("a", "/srv/quadfs/stored"), 5_000_000)   # The campus's store.
        self.assertEqual(labkit.sha256(there), want)               # Main's archive has a good one.

    def test_no_good_copy_left_is_an_error_not_wrong_bytes(self):
        there, _ = self.put("rotten", 3 << 20, 13)
        self.lab.exec("a1", "quadfs", "evict", "/grid/rotten")
        flip(self.outside("a", "/srv/quadfs/rotten"), 100)
        flip(self.outside("main", "/srv/quadfs/rotten"), 100)
        with self.assertRaises(OSError):
            labkit.sha256(there)

    def test_damage_on_the_wire_is_not_read(self):
        there, want = self.put("wire", 30 << 20, 14)
        self.lab.run("set", "main-b", "corrupt:0.002")
        try:
            self.assertEqual(labkit.sha256(there), want)
        finally:
            self.lab.run("set", "main-b", "corrupt:0")


if __name__ == "__main__":
    labkit.main()
