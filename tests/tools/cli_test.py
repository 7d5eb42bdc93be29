#!/usr/bin/env python3
"""The command line without a daemon: usage, errors, exit status, what init writes."""
import json
import os
import stat
import subprocess
import tempfile
import unittest

BIN = os.environ["QUADFS_BIN"]


def quadfs(*args, given=""):
    return subprocess.run([os.path.join(BIN, "quadfs"), *args], input=given, text=True, timeout=30,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quadfs-test-cli-")
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def at(self, name):
        return os.path.join(self.dir, name)

    def options(self):
        return ["--config", self.at("quadfs.toml"), "--state-dir", self.at("state"), "--run-dir", self.at("run")]

    def init(self, *more):
        return quadfs("init", "--single", "--listen", "127.0.0.1:17999", "--store", self.at("store"),
                      "--cache", self.at("cache"), "--mount", self.at("grid"), *self.options(), *more)

    def assertOneLine(self, done, status, *words):
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_wrong_usage_is_one_line_and_status_2(self):
        for args in (["frobnicate"], ["where"], ["token"], ["sync", "--until", "never"], ["init", "--colour"],
                     ["token", "--role", "king", "--campus", "a"], ["prefetch", "/x", "--timeout"],
                     ["token", "--role", "hub", "--campus", "a", "--valid", "soon"]):
            with self.subTest(args=args):
                self.assertOneLine(quadfs(*args), 2)

    def test_help_and_version_are_no_errors(self):
        for args in (["--help"], ["--version"], ["where", "--help"]):
            done = quadfs(*args)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout)
        self.assertIn("Exit status: 0 done", quadfs("--help").stdout)

    def test_no_daemon_is_status_3(self):
        self.assertEqual(self.init().returncode, 0)
        for args in (["status"], ["where", "/grid"], ["token", "--role", "hub", "--campus", "a"], ["umount"]):
            self.assertOneLine(quadfs(*args, *self.options()), 3, "quadfsd does not run here")

    def test_errors_are_json_too(self):
        done = quadfs("status", "--json", "--run-dir", self.at("none"))
        answer = json.loads(done.stdout)
        self.assertEqual((answer["ok"], answer["code"]), (False, "unavailable"))

    def test_no_configuration_says_how_to_make_one(self):
        self.assertOneLine(quadfs("status", "--config", self.at("none.toml")), 1, "quadfs init or quadfs join")

    def test_config_may_be_a_directory(self):
        self.init()
        self.assertOneLine(quadfs("status", "--config", self.dir), 3)

    def test_init_keeps_its_secrets_private(self):
        done = self.init("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["ok"])
        keys = []
        for folder, _, names in os.walk(self.at("state")):
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700, folder)
            keys += [os.path.join(folder, name) for name in names if name.endswith(".key")]
        self.assertEqual(len(keys), 2)
        for key in keys:
            self.assertEqual(stat.S_IMODE(os.stat(key).st_mode), 0o600, key)

    def test_init_twice_is_refused_and_changes_nothing(self):
        self.init()
        with open(self.at("quadfs.toml"), encoding="utf-8") as file:
            before = file.read()
        self.assertOneLine(self.init(), 1, "is there already")
        with open(self.at("quadfs.toml"), encoding="utf-8") as file:
            self.assertEqual(file.read(), before)

    def test_a_wrong_option_of_init_leaves_nothing_behind(self):
        self.assertEqual(self.init("--campus", "not a name").returncode, 1)
        self.assertEqual(os.listdir(self.dir), [])

    def test_join_refuses_what_is_no_token(self):
        for given, words in (("", "no token"), ("hello\n", "not a join token"), ("main@quadfs1:zzzz\n", "damaged")):
            done = quadfs("join", "--hub", "127.0.0.1:1", *self.options(), given=given)
            self.assertOneLine(done, 1, words)
        self.assertFalse(os.path.exists(self.at("quadfs.toml")))

    def test_join_refuses_a_token_file_that_others_can_read(self):
        with open(self.at("token"), "w", encoding="utf-8") as file:
            file.write("main@quadfs1:abc\n")
        os.chmod(self.at("token"), 0o644)
        done = quadfs("join", "--hub", "127.0.0.1:1", "--token-file", self.at("token"), *self.options())
        self.assertOneLine(done, 1, "chmod 600")

    def test_daemon_says_what_is_wrong_with_its_configuration(self):
        self.init()
        path = self.at("quadfs.toml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("when_cut", "when_cat"))
        done = subprocess.run([os.path.join(BIN, "quadfsd"), "--config", path], text=True, timeout=30,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertOneLine(done, 1, ": node.when_cat: unknown key; allowed: ")
        self.assertRegex(done.stderr, r"quadfs\.toml:\d+: ")

    def test_mount_helper_exits_as_mount_documents(self):
        self.init()
        helper = os.path.join(BIN, "mount.quadfs")

        def status(*args):
            return subprocess.run([helper, *args], timeout=30, stderr=subprocess.PIPE).returncode
        self.assertEqual(status("quadfs"), 1)
        self.assertEqual(status("quadfs", "/grid", "-o", "config=" + self.at("none")), 32 if os.geteuid() == 0 else 1)
        self.assertEqual(status("quadfs", "/elsewhere", "-o", "config=" + self.at("quadfs.toml")),
                         32 if os.geteuid() == 0 else 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
