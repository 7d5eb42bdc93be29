#!/usr/bin/env python3
"""The programs researchers run work on /grid, and what they leave is the same at another campus."""
import mmap
import os
import subprocess
import sys

import labkit
from labkit import tree_sha256, until


def run(*command, cwd=None, env=None):
    done = subprocess.run(command, cwd=cwd, env=dict(os.environ, HOME="/root", **(env or {})), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout


class Tools(labkit.LabTest):
    OPTIONS = ("--nodes", "main=1,a=1,b=1")

    def source_tree(self):
        return os.path.join(labkit.ROOT, "metadata")

    def test_git_clone_status_gc(self):
        env = {"GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e@example.org",
               "GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "e@example.org",
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        origin = self.lab.grid("b1", "origin")
        run("git", "init", "-q", origin, env=env)
        run("cp", "-r", self.source_tree(), origin)
        run("git", "add", "-A", cwd=origin, env=env)
        run("git", "commit", "-qm", "one", cwd=origin, env=env)
        clone = self.lab.grid("b1", "clone")
        run("git", "clone", "-q", origin, clone, env=env)
        self.assertEqual(run("git", "status", "--porcelain", cwd=clone, env=env), "")
        run("git", "gc", "-q", cwd=clone, env=env)
        run("git", "fsck", "--strict", cwd=clone, env=env)
        self.assertEqual(run("git", "status", "--porcelain", cwd=clone, env=env), "")
        there = self.lab.grid("a1", "clone")
        until("the clone at a1", lambda: os.path.exists(os.path.join(there, ".git", "HEAD")))
        run("git", "fsck", "--strict", cwd=there, env=env)

    def test_tar_round_trip(self):
        folder = self.lab.grid("b1", "tar")
        os.mkdir(folder)
        run("tar", "cf", os.path.join(folder, "t.tar"), "-C", self.source_tree(), ".")
        os.mkdir(os.path.join(folder, "out"))
        run("tar", "xf", os.path.join(folder, "t.tar"), "-C", os.path.join(folder, "out"))
        self.assertEqual(tree_sha256(os.path.join(folder, "out")), tree_sha256(self.source_tree()))
        run("tar", "df", os.path.join(folder, "t.tar"), "-C", os.path.join(folder, "out"))

    def test_rsync_twice_sends_nothing_the_second_time(self):
        target = self.lab.grid("b1", "rsync")
        run("rsync", "-a", self.source_tree() + "/", target + "/")
        self.assertEqual(run("rsync", "-ai", self.source_tree() + "/", target + "/"), "")
        self.assertEqual(tree_sha256(target), tree_sha256(self.source_tree()))

    def test_sqlite3_keeps_its_transactions(self):
        base = self.lab.grid("b1", "base.db")
        for journal in ("delete", "wal"):
            script = (f"pragma journal_mode={journal}; create table t_{journal}(i integer primary key, s text);"
                      f"begin; with recursive c(i) as (select 1 union all select i+1 from c where i<5000)"
                      f" insert into t_{journal} select i, hex(randomblob(20)) from c; commit;"
                      f"delete from t_{journal} where i%2; pragma integrity_check; pragma journal_mode=delete;")
            self.assertIn("ok", run("sqlite3", base, script))
        there = self.lab.grid("a1", "base.db")
        until("the data base at a1", lambda: os.stat(there).st_size == os.stat(base).st_size)
        self.assertEqual(run("sqlite3", "-readonly", there, "select count(*) from t_wal"), "2500\n")

    def test_python_mmap_read_and_shared_write(self):
        path = self.lab.grid("b1", "map.bin")
        with open(path, "wb") as file:
            file.write(bytes(range(256)) * 8192)
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
            self.assertEqual(view[1 << 20:(1 << 20) + 256], bytes(range(256)))
            view[1000:1005] = b"HELLO"
            view.flush()
        with open(path, "rb") as file:
            self.assertEqual(file.read()[1000:1005], b"HELLO")
        there = self.lab.grid("a1", "map.bin")
        until("the mapped write at a1", lambda: open(there, "rb").read()[1000:1005] == b"HELLO")

    def test_virtual_attributes_are_readable_but_not_listed_or_copied(self):
        path = self.lab.grid("b1", "attr.bin")
        with open(path, "wb") as file:
            file.write(b"a" * 100_000)
        os.setxattr(path, "user.colour", b"red")
        self.assertEqual(os.listxattr(path), ["user.colour"])
        for name in ("locations", "campuses", "state", "version", "checksum"):
            self.assertTrue(os.getxattr(path, "user.quad." + name))
        run("cp", "-a", path, path + ".copy")
        run("rsync", "-aX", path, path + ".rsync")
        self.assertEqual(os.listxattr(path + ".rsync"), ["user.colour"])

    def test_python_venv_runs_from_the_grid(self):
        folder = self.lab.grid("b1", "venv")
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        self.assertEqual(run(os.path.join(folder, "bin", "python3"), "-c", "print(6*7)"), "42\n")


if __name__ == "__main__":
    labkit.main()
