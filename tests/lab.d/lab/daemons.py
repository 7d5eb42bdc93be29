"""The daemons under test: setting a cluster up, starting, stopping and killing them."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import time

from . import LabError, kernel, processes
from .lab import GRID, STORE
from .spec import MAIN, PORT

CONFIG = "/etc/quadfs/quadfs.toml"
READY_SECONDS = 30
STOP_SECONDS = 60
KILL_SECONDS = 10
LOG_LINES = 5


def check_programs(bin_dir):
    for program in ("quadfs", "quadfsd"):
        if not os.access(f"{bin_dir}/{program}", os.X_OK):
            raise LabError(f"no {program} in {bin_dir}; build it, or give --bin or --no-daemons")


def set_up(lab, say):
    """Makes a cluster of the lab's hosts: main's hub, then the other hubs, then the nodes."""
    spec = lab.spec
    main = spec.host(MAIN, "hub")
    _run_all(lab, {main: ["quadfs", "init", "--cluster", "lab", "--campus", MAIN,
                          *_hub_arguments(main)]})
    start_all(lab, [main])
    say(f"hub {MAIN} is up")

    hubs = [hub for hub in spec.with_role("hub") if hub is not main]
    if hubs:
        tokens = _tokens(lab, hubs)
        _run_all(lab, {hub: ["quadfs", "join", "--hub", f"{main.ip}:{PORT}", *_hub_arguments(hub)]
                       for hub in hubs}, given=tokens)
        start_all(lab, hubs)
        say(f"hubs {' '.join(hub.name for hub in hubs)} are up")

    nodes = spec.with_role("node")
    if nodes:
        tokens = _tokens(lab, nodes)
        _run_all(lab, {node: _node_join(lab, node) for node in nodes}, given=tokens)
        start_all(lab, nodes)
        say(f"nodes {' '.join(node.name for node in nodes)} have mounted {GRID}")


def _hub_arguments(hub):
    return ["--listen", f"0.0.0.0:{PORT}", "--advertise", f"{hub.ip}:{PORT}", "--store", STORE]


def _node_join(lab, node):
    hub = lab.spec.host(node.campus, "hub")
    command = ["quadfs", "join", "--hub", f"{hub.ip}:{PORT}", "--mount", GRID,
               "--cache", "/var/cache/quadfs"]
    if lab.spec.cache_bytes:
        command += ["--cache-bytes", str(lab.spec.cache_bytes)]
    if lab.spec.store_on_nodes:
        command += ["--store-path", STORE]
    return command


def _tokens(lab, hosts):
    main = lab.spec.host(MAIN, "hub")
    running = {}
    for host in hosts:
        command = ["quadfs", "token", "--role", host.role, "--campus", host.campus]
        if host.role == "node":
            command += ["--name", host.name]
        running[host.name] = processes.spawn(lab, main, command, stdin=subprocess.DEVNULL,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             text=True)
    return {name: processes.finish(process, f"{MAIN}: quadfs token for {name}")
            for name, process in running.items()}


def _run_all(lab, commands, given=None):
    """Runs a command in each host, all at once; `given`: host name -> its standard input."""
    running = {host: processes.spawn(lab, host, command, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for host, command in commands.items()}
    # Every command gets its input before one is waited for.
    for host, process in running.items():
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write((given or {}).get(host.name, ""))
            process.stdin.close()
        process.stdin = None
    for host, process in running.items():
        command = " ".join(commands[host][:2])
        processes.finish(process, f"{host.name}: {command}")


def running_pid(lab, host):
    return processes.recall(lab, host.label, "daemon")


def mounted(lab, node):
    """Whether a file system is mounted at the node's /grid, dead or alive."""
    path = lab.grid_path(node)
    return any(point == path for point, _, _ in kernel.mounts())


def start_all(lab, hosts):
    starting = [_Starting(lab, host) for host in hosts if running_pid(lab, host) is None]
    try:
        for start in starting:
            start.wait()
    finally:
        for start in starting:
            start.close()


class _Starting:
    """A daemon between its start and its READY=1."""

    def __init__(self, lab, host):
        self._lab, self._host = lab, host
        self._deadline = time.monotonic() + READY_SECONDS
        if host.role == "node":
            # What a killed daemon left; unmounting outside unmounts inside as well.
            kernel.detach_below(lab.grid_path(host))
        self._notify_path = f"{lab.run_dir}/notify/{host.label}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._notify_path)
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(self._notify_path)
        os.chmod(self._notify_path, 0o666)
        with open(lab.log_file(host), "ab") as log:
            self._log_start = log.tell()
            self._process = processes.spawn(
                lab, host, [f"{lab.spec.bin_dir}/quadfsd", "--config", CONFIG], kind="daemon",
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"NOTIFY_SOCKET": self._notify_path})
        processes.remember(lab, host.label, "daemon", self._process.pid)

    def wait(self):
        self._wait_for_notice()
        seen = self._port_answers if self._host.role == "hub" else (
            lambda: mounted(self._lab, self._host))
        while not seen():
            if self._process.poll() is not None:
                raise self._failure(f"quadfsd ended with {_ending(self._process.returncode)}")
            if time.monotonic() > self._deadline:
                what = f"port {PORT} does not answer" if self._host.role == "hub" else (
                    f"{GRID} is not mounted")
                raise self._failure(f"quadfsd says it is ready, but {what}")
            time.sleep(0.005)

    def close(self):
        self._notify.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._notify_path)

    def _wait_for_notice(self):
        ended = os.pidfd_open(self._process.pid)
        try:
            while (seconds := self._deadline - time.monotonic()) > 0:
                readable, _, _ = select.select([self._notify, ended], [], [], seconds)
                if self._notify in readable:
                    if b"READY=1" in self._notify.recv(4096).splitlines():
                        return
                elif ended in readable:
                    self._process.wait()
                    raise self._failure(
                        f"quadfsd ended with {_ending(self._process.returncode)}")
        finally:
            os.close(ended)
        raise self._failure(f"quadfsd is not ready after {READY_SECONDS} s")

    def _port_answers(self):
        # Asked from inside, by a short-lived child: the port does not exist outside.
        probe = f"import socket; socket.create_connection(({self._host.ip!r}, {PORT}), 2)"
        process = processes.spawn(self._lab, self._host, ["/usr/bin/python3", "-ISc", probe],
                                  kinds=("net",), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return process.wait() == 0

    def _failure(self, what):
        with open(self._lab.log_file(self._host), "rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").strip().splitlines()[-LOG_LINES:]
        said = "".join(f"\n  {line}" for line in lines) or " (its log is empty)"
        return LabError(f"{self._host.name}: {what}; log {self._lab.log_file(self._host)}:{said}")


def _ending(returncode):
    if returncode < 0:
        return signal.Signals(-returncode).name
    return f"exit status {returncode}"


def stop(lab, host):
    """Ends the daemon in order, as its service manager would."""
    pid = running_pid(lab, host)
    if pid is not None and processes.end([pid], signal.SIGTERM, STOP_SECONDS):
        raise LabError(f"{host.name}: quadfsd {pid} did not stop within {STOP_SECONDS} s")


def kill(lab, host):
    """Ends the daemon at once. A node's mount stays, dead, until the next start."""
    pid = running_pid(lab, host)
    if pid is None:
        raise LabError(f"{host.name}: quadfsd is not running")
    if processes.end([pid], signal.SIGKILL, KILL_SECONDS):
        raise LabError(f"{host.name}: quadfsd {pid} is still there {KILL_SECONDS} s after SIGKILL")
