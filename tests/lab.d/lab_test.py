#!/usr/bin/python3
"""The lab keeps its promises: delay, rate, loss, cuts, counters, daemons, and nothing left behind.

Runs alone or from CTest. Needs root, namespaces and /dev/net/tun; without them it is skipped (77).
QUADFS_LAB_FORWARDER names the forwarder; otherwise it is compiled for the test.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from lab import lab as labs  # noqa: E402
from lab import daemons, kernel, links, processes  # noqa: E402

PROGRAM = os.path.join(os.path.dirname(HERE), "lab")
NOBODY = 65534
PORT = 5001
TRIES = 5


class TestLab:
    """One lab, driven by its command line."""

    def __init__(self, name):
        self.name = f"{name}{os.getpid()}"

    def start(self, *arguments, **options):
        env = dict(os.environ, QUADFS_LAB=self.name)
        return subprocess.Popen([PROGRAM, *arguments], env=env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def run(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=50)
        return process.returncode, out, err

    def ok(self, *arguments):
        status, out, err = self.run(*arguments)
        if status != 0:
            raise AssertionError(f"lab {' '.join(arguments)}: exit status {status}: {err or out}")
        return out

    def up(self, *arguments):
        return self.ok("up", "--bin", BIN_DIR, *arguments)

    def status(self):
        return json.loads(self.ok("status", "--json"))

    # Asked often, and so without a process for each question.

    def direction(self, name):
        lab = labs.Lab.load(self.name)
        first, second = name.split("-")
        link, from_main = lab.spec.link(first, second)
        return links.status(lab, link)["ab" if from_main else "ba"]

    def host(self, name):
        return labs.Lab.load(self.name).spec.hosts[name]

    def is_running(self, name):
        return daemons.running_pid(labs.Lab.load(self.name), self.host(name)) is not None

    def is_mounted(self, name):
        return daemons.mounted(labs.Lab.load(self.name), self.host(name))

    def ping(self, source, target, count=3, interval=0.02):
        """(replies, best round trip in ms or None)"""
        command = ["ping", "-q", "-c", str(count), "-i", str(interval), "-W", "0.3", target]
        process = processes.spawn(labs.Lab.load(self.name), self.host(source), command,
                                  stdout=subprocess.PIPE, text=True)
        out, _ = process.communicate(timeout=30)
        replies = int(re.search(r"(\d+) received", out)[1])
        times = re.search(r"= ([\d.]+)/", out)
        return replies, float(times[1]) if times else None

    def transfer(self, source, target, size):
        """Sends `size` bytes between two hosts; bits per second until all has arrived."""
        address = self.host(target).ip
        with self.start("exec", target, "--", f"{HERE}/bulk.py", "receive", str(PORT)) as receiver:
            assert receiver.stdout.readline() == "listening\n", receiver.stderr.read()
            seconds = self.ok("exec", source, "--", f"{HERE}/bulk.py", "send", address, str(PORT),
                              str(size))
            got = receiver.stdout.read()
        assert int(got) == size, f"{got} of {size} bytes arrived"
        return size * 8 / float(seconds)

    def traces(self):
        """What is left of the lab on this machine."""
        return {
            "processes": list(processes.of_lab(self.name)),
            "mounts": [point for point, _, _ in kernel.mounts() if f"/{self.name}/" in point + "/"],
            "folders": [path for path in (f"{labs.RUN_ROOT}/{self.name}",
                                          f"{labs.RUN_ROOT}/{self.name}.lock",
                                          f"{labs.DIR_ROOT}/{self.name}") if os.path.exists(path)],
        }


NO_TRACES = {"processes": [], "mounts": [], "folders": []}


class NetworkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = TestLab("net")
        cls.addClassCleanup(cls.lab.run, "down")
        cls.lab.up("--no-daemons", "--nodes", "main=1,a=1,b=1")

    def setUp(self):
        for link in ("main-a", "main-b"):
            self.lab.ok("set", link, "rate:1gbit", "rtt:5ms", "loss:0")

    # The best of several pings: a busy machine makes some late, none can be early.
    def test_round_trip_takes_the_time_that_was_asked_for(self):
        for asked_ms in (5, 20, 0):
            self.lab.ok("set", "main-a", f"rtt:{asked_ms}ms")
            _, best_ms = self.lab.ping("a1", "hub-main", count=20, interval=0.02)
            self.assertGreater(best_ms, asked_ms - 0.1)
            self.assertLess(best_ms, asked_ms + 1.5)

    # The best of several: other work on the machine slows one down, and nothing speeds one up, for
    # the sender's clock starts before the first byte.
    def test_bulk_transfer_gets_the_rate_and_no_more(self):
        for rate, asked, size in (("1gbit", 1e9, 150_000_000), ("100mbit", 1e8, 12_000_000)):
            self.lab.ok("set", "main-a", f"rate:{rate}")
            best = 0
            for _ in range(TRIES):
                best = max(best, self.lab.transfer("main1", "a1", size))
                self.assertLess(best, asked * 1.03)
                if best >= asked * 0.85:
                    break
            self.assertGreaterEqual(best, asked * 0.85)

    # 20 % each way lets 64 % of the echoes back; 30 % to 90 % is ten standard deviations wide.
    def test_loss_drops_packets(self):
        self.lab.ok("set", "main-b", "loss:20%")
        before = self.lab.direction("b-main")["packets_lost"]
        replies, _ = self.lab.ping("b1", "hub-main", count=100, interval=0.01)
        self.assertGreater(replies, 30)
        self.assertLess(replies, 90)
        self.assertGreater(self.lab.direction("b-main")["packets_lost"], before)
        self.lab.ok("set", "main-b", "loss:0")
        self.assertEqual(self.lab.ping("b1", "hub-main", count=20)[0], 20)

    def test_cut_blocks_both_directions_and_heal_restores(self):
        self.lab.ok("cut", "a", "main")
        self.addCleanup(self.lab.ok, "heal", "main", "a")
        before = [self.lab.direction(name)["packets"] for name in ("main-a", "a-main")]
        self.assertEqual(self.lab.ping("a1", "hub-main")[0], 0)
        self.assertEqual(self.lab.ping("main1", "hub-a")[0], 0)
        after = [self.lab.direction(name)["packets"] for name in ("main-a", "a-main")]
        self.assertEqual(before, after)
        self.assertEqual(self.lab.status()["links"]["main-a"]["cut"],
                         {"main-a": True, "a-main": True})
        self.assertEqual(self.lab.ping("b1", "hub-main")[0], 3)  # The other line is not touched.
        self.lab.ok("heal", "a", "main")
        self.assertEqual(self.lab.ping("a1", "hub-main")[0], 3)

    # Seen by the counters: the echo requests still pass, the replies are dropped.
    def test_one_way_cut_blocks_that_way_only(self):
        self.lab.ok("cut", "a", "main", "--one-way")
        self.addCleanup(self.lab.ok, "heal", "main", "a")
        requests, replies = self.lab.direction("main-a"), self.lab.direction("a-main")
        self.assertEqual(self.lab.ping("main1", "hub-a", count=4)[0], 0)
        self.assertEqual(self.lab.direction("main-a")["packets"] - requests["packets"], 4)
        self.assertEqual(self.lab.direction("a-main")["packets"], replies["packets"])
        self.assertEqual(self.lab.direction("a-main")["packets_cut"] - replies["packets_cut"], 4)

    def test_cut_of_a_node_leaves_its_campus_alone(self):
        if shutil.which("nft") is None:
            self.skipTest("needs nft")
        self.lab.ok("cut", "a1", "a")
        self.addCleanup(self.lab.ok, "heal", "a1", "a")
        self.assertEqual(self.lab.ping("a1", "hub-a")[0], 0)
        self.assertEqual(self.lab.ping("a", "hub-main")[0], 3)
        self.assertEqual(self.lab.status()["hosts"]["a1"]["cut"], {"from": True, "to": True})
        self.lab.ok("heal", "a", "a1")
        # The kernel asks again for the hardware address once a second.
        self.assertGreater(self.lab.ping("a1", "hub-a", count=75)[0], 0)

    def test_counters_count_what_was_sent_and_branches_meet_through_main(self):
        names = ("a-main", "main-b", "main-a", "b-main")
        before = {name: self.lab.direction(name)["bytes"] for name in names}
        totals = {name: link["bytes"] for name, link in self.lab.status()["links"].items()}
        size = 30_000_000
        self.lab.transfer("a1", "b1", size)
        grown = {name: self.lab.direction(name)["bytes"] - before[name] for name in names}
        for name in ("a-main", "main-b"):
            self.assertGreaterEqual(grown[name], size)
            self.assertLess(grown[name], size * 1.03)
        for name in ("b-main", "main-a"):
            self.assertLess(grown[name], size * 0.03)
        for name, link in self.lab.status()["links"].items():
            self.assertGreaterEqual(link["bytes"] - totals[name], size)

    def test_exec_passes_the_exit_status_on(self):
        self.assertEqual(self.lab.run("exec", "a1", "--", "sh", "-c", "exit 7")[0], 7)
        self.assertEqual(self.lab.run("exec", "a1", "--", "no-such-program")[0], 127)
        self.assertEqual(self.lab.ok("exec", "a1", "--", "hostname"), "a1\n")

    def test_wrong_words_are_answered_in_one_line(self):
        for words in (("cut", "a", "b"), ("set", "main-a", "rtt:5"), ("kill", "c1"),
                      ("set", "main-a", "loss:2"), ("path", "main"), ("exec", "a1")):
            status, out, err = self.lab.run(*words)
            self.assertEqual((status, out), (1, ""), words)
            self.assertRegex(err, r"\Alab: [^\n]+\n\Z")

    def test_two_labs_do_not_touch_each_other(self):
        other = TestLab("two")
        self.addCleanup(other.run, "down")
        other.up("--no-daemons", "--nodes", "main=0,a=1")
        self.assertNotEqual(other.host("a1").ip, self.lab.host("a1").ip)
        other.ok("cut", "main", "a")
        self.assertEqual(other.ping("a1", "hub-main")[0], 0)
        self.assertEqual(self.lab.ping("a1", "hub-main")[0], 3)
        other.ok("down")
        self.assertEqual(other.traces(), NO_TRACES)
        self.assertEqual(self.lab.ping("a1", "hub-main")[0], 3)


class DaemonTest(unittest.TestCase):
    """With a stub in the place of quadfsd: what the lab does around it."""

    @classmethod
    def setUpClass(cls):
        cls.lab = TestLab("dmn")
        cls.addClassCleanup(cls.lab.run, "down")
        cls.lab.up("--nodes", "main=1,a=2", "--cache-fs-bytes", str(8 << 20), "--cache-bytes",
                   "4000000")

    def test_tree_is_seen_outside_also_by_others_than_root(self):
        self.lab.ok("exec", "a1", "--", "sh", "-c", "echo hello >/grid/f")
        path = self.lab.ok("path", "a1").strip()
        seen = subprocess.run(["cat", f"{path}/f"], capture_output=True, text=True, check=True,
                              user=NOBODY, group=NOBODY)
        self.assertEqual(seen.stdout, "hello\n")
        other = self.lab.ok("path", "a2").strip()
        self.assertEqual(os.listdir(other), [])

    def test_killed_daemon_is_started_again_on_one_mount(self):
        for name in ("a1", "a"):
            self.assertTrue(self.lab.is_running(name))
            self.lab.ok("kill", name)
            self.assertFalse(self.lab.is_running(name))
            self.assertEqual(self.lab.run("kill", name)[0], 1)
            self.lab.ok("start", name)
            self.assertTrue(self.lab.is_running(name))
        path = self.lab.ok("path", "a1").strip()
        self.assertEqual([point for point, _, _ in kernel.mounts()].count(path), 1)

    def test_stop_ends_the_daemon_in_order(self):
        self.lab.ok("stop", "a2")
        state = self.lab.status()["hosts"]["a2"]
        self.assertEqual((state["running"], state["mounted"]), (False, False))
        self.assertIn("ended in order", self.lab.ok("exec", "a2", "--", "cat",
                                                    "/var/log/quadfs/quadfsd.log"))
        self.lab.ok("start", "a2")
        self.assertTrue(self.lab.is_mounted("a2"))

    def test_failed_start_shows_the_end_of_the_log(self):
        self.lab.ok("stop", "main1")
        self.lab.ok("exec", "main1", "--", "touch", "/etc/quadfs/refuse")
        status, _, err = self.lab.run("start", "main1")
        self.assertEqual(status, 1)
        self.assertIn("told not to start", err)
        self.lab.ok("exec", "main1", "--", "rm", "/etc/quadfs/refuse")
        self.lab.ok("start", "main1")

    def test_store_is_shared_within_a_campus(self):
        self.lab.ok("exec", "a", "--", "touch", "/srv/quadfs/in-a")
        self.assertEqual(self.lab.ok("exec", "a2", "--", "ls", "/srv/quadfs"), "in-a\n")
        self.assertEqual(self.lab.ok("exec", "main", "--", "ls", "/srv/quadfs"), "")

    def test_hooks_do_what_their_names_say(self):
        exports = self.lab.ok("hooks", "main1", "a1")

        def run(hook, *arguments):
            script = f"{exports}\nexec bash -c \"$HOOK_{hook}\" hook \"$@\""
            done = subprocess.run(["bash", "-c", script, "test", *arguments], text=True,
                                  capture_output=True, check=False, timeout=30)
            self.assertEqual(done.returncode, 0, f"{hook}: {done.stderr}")
            return done.stdout.strip()

        path = self.lab.ok("path", "a1").strip() + "/some folder/f"
        run("CUT")
        self.assertEqual(self.lab.ping("a1", "hub-main")[0], 0)
        run("HEAL")
        self.assertEqual(self.lab.ping("a1", "hub-main")[0], 3)
        run("KILL")
        self.assertFalse(self.lab.is_running("main1"))
        run("START")
        self.assertTrue(self.lab.is_mounted("main1"))
        run("DRAIN")
        run("EVICT", path)
        self.assertEqual(self.lab.ok("exec", "a1", "--", "cat", "/run/quadfs/evicted"),
                         "/grid/some folder/f\n")
        self.assertGreater(int(run("RSS")), 1000)
        self.assertGreater(int(run("FDS")), 2)
        self.lab.ok("exec", "a1", "--", "sh", "-c",
                    "head -c 1000000 /dev/zero >/var/cache/quadfs/object")
        self.assertGreaterEqual(int(run("CACHEUSE")), 1_000_000)
        run("FLIP", path)
        self.assertEqual(self.lab.ok("exec", "a1", "--", "sh", "-c",
                                     "tr -d '\\0' </var/cache/quadfs/object | wc -c"), "1\n")
        self.lab.ok("exec", "a1", "--", "rm", "/var/cache/quadfs/object")
        run("FULL")
        self.assertNotEqual(self.lab.run("exec", "main1", "--", "sh", "-c",
                                         "echo x >/var/cache/quadfs/x")[0], 0)
        run("UNFULL")
        self.lab.ok("exec", "main1", "--", "sh", "-c", "echo x >/var/cache/quadfs/x")
        self.assertIn("CASE_CACHE_MAX=4000000", exports)
        archive = re.search("CASE_ARCHIVE=(.*)", exports)[1]
        self.lab.ok("exec", "main", "--", "touch", "/srv/quadfs/archived")
        self.addCleanup(os.unlink, f"{archive}/archived")
        self.assertTrue(os.path.exists(f"{archive}/archived"))


class CleanUpTest(unittest.TestCase):
    def setUp(self):
        self.lab = TestLab("end")
        self.addCleanup(self.lab.run, "down")

    def test_down_leaves_nothing_and_may_be_repeated(self):
        self.lab.up("--nodes", "main=1,a=1")
        left_running = self.lab.start("exec", "a1", "--", "sh", "-c", "echo on; exec cat /dev/zero")
        left_running.stdout.readline()
        self.lab.ok("kill", "a1")
        self.lab.ok("down")
        left_running.communicate()
        self.assertEqual(self.lab.traces(), NO_TRACES)
        self.lab.ok("down")
        self.assertEqual(self.lab.traces(), NO_TRACES)

    def test_up_cleans_what_a_crash_left(self):
        self.lab.up("--nodes", "main=1,a=1")
        held = list(processes.of_lab(self.lab.name))
        self.assertEqual(processes.end(held, signal.SIGKILL, 10), [])
        self.assertTrue(self.lab.traces()["mounts"])
        self.lab.up("--nodes", "main=0,a=1")
        self.assertTrue(self.lab.is_mounted("a1"))
        self.assertEqual(self.lab.ping("a1", "hub-main")[0], 3)
        self.lab.ok("down")
        self.assertEqual(self.lab.traces(), NO_TRACES)

    def test_up_does_not_take_a_folder_that_is_not_a_labs(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/precious", "w", encoding="ascii"):
                pass
            status, _, err = self.lab.run("up", "--no-daemons", "--bin", BIN_DIR, "--dir", folder)
            self.assertEqual(status, 1)
            self.assertIn("neither empty nor a lab's", err)
            self.lab.ok("down")
            self.assertEqual(os.listdir(folder), ["precious"])


def why_not_here():
    if os.geteuid() != 0:
        return "needs root"
    if not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun"
    probe = subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], capture_output=True,
                           text=True, check=False)
    return probe.stderr.strip() if probe.returncode else None


def make_bin_dir(folder):
    """A bin folder as the lab expects one: the real forwarder, and stubs for the rest."""
    forwarder = f"{folder}/{links.FORWARDER}"
    built = os.environ.get("QUADFS_LAB_FORWARDER")
    if built:
        os.symlink(os.path.abspath(built), forwarder)
    else:
        links.compile_forwarder(forwarder)
    for program in ("quadfs", "quadfsd"):
        os.symlink(f"{HERE}/stub_quadfs.py", f"{folder}/{program}")


if __name__ == "__main__":
    if reason := why_not_here():
        print(f"skipped: {reason}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as BIN_DIR:
        make_bin_dir(BIN_DIR)
        result = unittest.main(exit=False, verbosity=2).result
    sys.exit(not result.wasSuccessful())
