#!/usr/bin/env python3
"""Real daemons on this machine: a single-process pilot with a mount, and a campus and a node that join."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.environ["QUADFS_BIN"]
ENV = dict(os.environ, PATH=BIN + ":" + os.environ["PATH"])


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def until(what, test, seconds=30):
    limit = time.monotonic() + seconds
    while not test():
        if time.monotonic() > limit:
            raise AssertionError(f"after {seconds} s still not: {what}")
        time.sleep(0.01)


class Machine:
    """What one host would have: directories, a configuration, a daemon."""

    def __init__(self, root, name):
        self.dir = os.path.join(root, name)
        os.mkdir(self.dir)
        self.name, self.port, self.process = name, free_port(), None
        self.grid = self.at("grid")

    def at(self, name):
        return os.path.join(self.dir, name)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def quadfs(self, *args, given="", check=True):
        done = subprocess.run(["quadfs", *args, "--config", self.at("quadfs.toml"), "--state-dir", self.at("state"),
                               "--run-dir", self.at("run")], env=ENV, input=given, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if check and done.returncode != 0:
            raise AssertionError(f"{self.name}: quadfs {' '.join(args)}: {done.returncode}: {done.stdout}{done.stderr}{self.log()}")
        return done

    def ask(self, *args):
        return json.loads(self.quadfs(*args, "--json").stdout)

    def log(self):
        try:
            with open(self.at("log"), encoding="utf-8", errors="replace") as file:
                return "\n" + "".join(file.readlines()[-15:])
        except FileNotFoundError:
            return ""

    def start(self):
        """Starts quadfsd and waits for READY=1, as a service manager does."""
        notify = self.at("notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(notify)
            ready.settimeout(60)
            with open(self.at("log"), "ab") as log:
                self.process = subprocess.Popen(["quadfsd", "--config", self.at("quadfs.toml")], stdout=log, stderr=log,
                                                env=dict(ENV, NOTIFY_SOCKET=notify))
            try:
                ready.settimeout(1)
                limit = time.monotonic() + 60
                while True:
                    try:
                        if b"READY=1" in ready.recv(4096):
                            break
                    except TimeoutError:
                        pass
                    if self.process.poll() is not None or time.monotonic() > limit:
                        raise AssertionError(f"{self.name}: not ready: {self.log()}")
            finally:
                os.unlink(notify)

    def stop(self, number=signal.SIGTERM):
        if self.process is None:
            return 0
        self.process.send_signal(number)
        status = self.process.wait(60)
        self.process = None
        return status

    def clean(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        subprocess.run(["umount", "-l", self.grid], stderr=subprocess.DEVNULL)


class DaemonTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="quadfs-test-daemon-")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.machines = []

    def machine(self, name):
        machine = Machine(self.root, name)
        self.machines.append(machine)
        self.addCleanup(machine.clean)
        return machine


class Single(DaemonTest):
    def setUp(self):
        super().setUp()
        self.one = self.machine("one")
        self.one.quadfs("init", "--single", "--listen", self.one.address, "--store", self.one.at("store"), "--cache",
                        self.one.at("cache"), "--mount", self.one.grid, "--node-name", "n1", "--cache-bytes", "1GiB")

    def test_pilot_end_to_end(self):
        one = self.one
        one.start()
        self.assertTrue(os.path.ismount(one.grid))
        content = os.urandom(3_000_000)
        os.mkdir(os.path.join(one.grid, "run"))
        path = os.path.join(one.grid, "run", "räume 100 %")
        with open(path, "wb") as file:
            file.write(content)
        done = one.ask("sync", os.path.join(one.grid, "run"), "--until", "archived", "--timeout", "60s")
        self.assertEqual(done["total_files"], 1)
        with open(one.at("store/run/räume 100 %"), "rb") as file:  # The archive is a plain tree.
            self.assertEqual(file.read(), content)
        where = one.ask("where", path)
        self.assertEqual((where["type"], where["bytes"], where["cached"]), ("file", 3_000_000, True))
        self.assertTrue(os.path.exists(where["cache_file"]))
        self.assertIn("main", where["campuses"])
        status = one.ask("status")
        self.assertTrue(status["ready"] and status["main_connected"] and status["mount"]["mounted"])

        evicted = one.quadfs("evict", path, "--json")
        self.assertEqual((evicted.returncode, json.loads(evicted.stdout)["evicted_files"]), (0, 1), evicted.stderr)
        self.assertNotIn("cache_file", one.ask("where", path))
        self.assertEqual(one.ask("prefetch", os.path.join(one.grid, "run"))["done_files"], 1)
        self.assertTrue(one.ask("where", path)["cached"])
        one.quadfs("pin", path)
        self.assertEqual(one.quadfs("evict", path, check=False).returncode, 4)  # Pinned stays.
        one.quadfs("unpin", path)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), content)

        self.assertEqual(one.stop(), 0)
        self.assertFalse(os.path.ismount(one.grid))
        one.start()  # And comes back as it was.
        with open(path, "rb") as file:
            self.assertEqual(file.read(), content)
        self.assertEqual(one.stop(), 0)

    def test_runs_once_per_state(self):
        self.one.start()
        second = subprocess.run(["quadfsd", "--config", self.one.at("quadfs.toml")], env=ENV, text=True, timeout=60,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"pid {self.one.process.pid}", second.stdout)
        self.assertTrue(os.path.ismount(self.one.grid))  # The first is not disturbed.

    def test_umount_and_mount_again(self):
        one = self.one
        one.start()
        with open(os.path.join(one.grid, "busy"), "w", encoding="utf-8") as file:
            file.write("x")
            file.flush()
            busy = one.quadfs("umount", check=False)
            self.assertEqual(busy.returncode, 1)
            self.assertIn("in use", busy.stderr)
        one.quadfs("umount")
        self.assertFalse(os.path.ismount(one.grid))
        one.quadfs("mount")
        with open(os.path.join(one.grid, "busy"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "x")
        subprocess.run(["umount", one.grid], check=True)  # As for any file system.
        until("the daemon noticed", lambda: not one.ask("status")["mount"]["mounted"])
        subprocess.run(["mount.quadfs", "quadfs", one.grid, "-o", "_netdev,nofail,config=" + one.at("quadfs.toml")],
                       env=ENV, check=True, timeout=60)
        self.assertTrue(os.path.ismount(one.grid))

    def test_reload_takes_over_what_it_can_and_says_what_not(self):
        one = self.one
        one.start()
        path = one.at("quadfs.toml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"200MB"', '"5MB"').replace("deadline_ms = 5000", "deadline_ms = 7000"))
        one.process.send_signal(signal.SIGHUP)
        until("the reload", lambda: "needs a restart key=node.deadline_ms" in one.log())
        self.assertIn("reloaded key=writeback.limit_bytes_per_second was=200MB is=5MB", one.log())
        with open(path, "w", encoding="utf-8") as file:
            file.write("nonsense = 1\n")
        one.process.send_signal(signal.SIGHUP)
        until("the refusal", lambda: "not reloaded, everything stays as it was" in one.log())
        self.assertTrue(os.path.ismount(one.grid))

    def test_verbs_for_root_and_paths_with_the_askers_rights(self):
        one = self.one
        one.start()
        secret = os.path.join(one.grid, "secret")
        os.mkdir(secret, 0o700)
        with open(os.path.join(secret, "f"), "w", encoding="utf-8") as file:
            file.write("x")
        os.chmod(self.root, 0o755)
        request = {"verb": "where", "paths": [os.path.join(secret, "f")]}
        ask = ("import json,socket,sys\n"
               "s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);s.sendall(sys.argv[2].encode()+b'\\n')\n"
               "print(s.makefile().readline())\n")

        def as_nobody(body):
            done = subprocess.run(["/usr/bin/python3", "-c", ask, one.at("run/quadfsd.sock"), json.dumps(body)], text=True,
                                  user=65534, group=65534, extra_groups=[], stdout=subprocess.PIPE, timeout=30, check=True)
            return json.loads(done.stdout)
        self.assertEqual(as_nobody(request)["code"], "access-denied")
        self.assertEqual(as_nobody({"verb": "token", "role": "hub", "campus": "x"})["code"], "not-permitted")
        self.assertEqual(as_nobody({"verb": "umount"})["code"], "not-permitted")
        self.assertTrue(as_nobody({"verb": "status"})["ok"])
        for bad in ({"verb": "frob"}, {}, {"verb": 7}, {"verb": "where", "paths": "x"}):
            self.assertEqual(as_nobody(bad)["code"], "invalid-argument")


class Joining(DaemonTest):
    def test_campus_and_node_join_and_share_the_tree(self):
        main, hub, node = self.machine("main"), self.machine("hub-a"), self.machine("a1")
        main.quadfs("init", "--listen", main.address, "--advertise", main.address, "--store", main.at("store"),
                    "--cache", main.at("cache"))
        main.start()
        token = main.quadfs("token", "--role", "hub", "--campus", "a").stdout
        hub.quadfs("join", "--hub", main.address, "--listen", hub.address, "--advertise", hub.address, "--store",
                   hub.at("store"), "--cache", hub.at("cache"), given=token)
        hub.start()
        token = main.quadfs("token", "--role", "node", "--campus", "a", "--name", "a1").stdout
        node.quadfs("join", "--hub", hub.address, "--mount", node.grid, "--cache", node.at("cache"), "--cache-bytes",
                    "1GiB", given=token)
        again = self.machine("a1-again").quadfs("join", "--hub", hub.address, given=token, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn("used already", again.stderr)
        node.start()
        with open(os.path.join(node.grid, "result"), "wb") as file:
            file.write(b"r" * 2_000_000)
        node.quadfs("sync", os.path.join(node.grid, "result"), "--until", "archived", "--timeout", "60s")
        with open(main.at("store/result"), "rb") as file:
            self.assertEqual(file.read(), b"r" * 2_000_000)
        self.assertEqual([node.stop(), hub.stop(), main.stop()], [0, 0, 0])


if __name__ == "__main__":
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: needs root and /dev/fuse")
        sys.exit(77)
    unittest.main(verbosity=2)
