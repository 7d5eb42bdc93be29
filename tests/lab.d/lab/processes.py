"""Processes of a lab. Each carries LAB/HOST/KIND in its environment, which outlives a crash of
whoever started it and tells it from an unrelated process that got the same id."""

import errno
import os
import select
import signal
import subprocess
import time

from . import LabError, kernel

MARK = "QUADFS_LAB_PROCESS"


def environment(lab, host_label, kind, **more):
    env = {key: value for key, value in os.environ.items() if key != "NOTIFY_SOCKET"}
    env[MARK] = f"{lab.name}/{host_label}/{kind}"
    env.update(more)
    return env


def mark_of(pid):
    """The mark of a live process; None if it has none or is gone (a zombie's is empty)."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(MARK.encode() + b"="):
                    return entry.partition(b"=")[2].decode(errors="replace")
    except OSError:
        pass
    return None


def remember(lab, host_label, kind, pid):
    """Writes the pid file in one step, so that no reader sees half of it."""
    path = lab.pid_file(host_label, kind)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(f"{pid}\n")
    os.rename(path + ".new", path)


def recall(lab, host_label, kind):
    """The pid of that process if it is alive, else None."""
    try:
        with open(lab.pid_file(host_label, kind), encoding="ascii") as file:
            pid = int(file.read())
    except (OSError, ValueError):
        return None
    return pid if mark_of(pid) == f"{lab.name}/{host_label}/{kind}" else None


def holder(lab, host):
    pid = recall(lab, host.label, "holder")
    if pid is None:
        raise LabError(f"the namespaces of {host.name} are gone; run: tests/lab up")
    return pid


def spawn(lab, host, argv, kinds=("net", "mnt", "uts"), kind="command", env=None, **options):
    """Starts a command in the namespaces of a host, in a session of its own."""
    target = holder(lab, host)
    try:
        return subprocess.Popen(
            argv, preexec_fn=lambda: kernel.enter(target, *kinds), start_new_session=True,
            env=environment(lab, host.label, kind, PATH=lab.path_variable(), **(env or {})),
            **options)
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"{host.name}: cannot run {argv[0]}: {error}") from None


def finish(process, what, seconds=60, given=None):
    """Waits for a command started with pipes; its standard output, or an error naming `what`."""
    try:
        out, err = process.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise LabError(f"{what}: no end after {seconds} s") from None
    if process.returncode != 0:
        lines = (err or out or "").strip().splitlines()
        reason = lines[-1] if lines else f"exit status {process.returncode}"
        raise LabError(f"{what}: {reason}")
    return out


def of_lab(name, also_in_namespaces=True):
    """Ids and kinds of the lab's processes, our own ancestors left out.

    Found by their mark, or by running in a namespace that a holder of the lab keeps.
    """
    spared = _self_and_ancestors()
    found, netns = {}, set()
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    for pid in pids:
        mark = mark_of(pid)
        if mark and mark.startswith(name + "/") and pid not in spared:
            found[pid] = mark.rpartition("/")[2]
            if found[pid] == "holder":
                netns.add(_netns(pid))
    netns -= {None, _netns(os.getpid())}
    if also_in_namespaces and netns:
        for pid in pids:
            if pid not in found and pid not in spared and _netns(pid) in netns:
                found[pid] = "command"
    return found


def end(pids, signal_number, seconds):
    """Signals processes and waits until they are gone; those that are not, after `seconds`."""
    fds = {}
    for pid in pids:
        try:
            fds[os.pidfd_open(pid)] = pid
            os.kill(pid, signal_number)
        except ProcessLookupError:
            pass
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    deadline = time.monotonic() + seconds
    left = dict(fds)
    while left and (remaining := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(remaining * 1000):
            poll.unregister(fd)
            del left[fd]
    for fd in fds:
        os.close(fd)
    return list(left.values())


def kill_all(name, orderly):
    """Ends every process of the lab, daemons first and if `orderly` with SIGTERM."""
    if orderly:
        daemons = [pid for pid, kind in of_lab(name).items() if kind == "daemon"]
        end(daemons, signal.SIGTERM, 5)
    # Again, until none is left: one may have been starting another.
    for _ in range(10):
        pids = of_lab(name)
        if not pids:
            return
        others = [pid for pid, kind in pids.items() if kind != "holder"]
        end(others or list(pids), signal.SIGKILL, 10)
    raise LabError(f"processes of lab {name} cannot be killed: {sorted(of_lab(name))}")


def _netns(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.EACCES):
            return None
        raise


def _self_and_ancestors():
    pids, pid = set(), os.getpid()
    while pid > 1:
        pids.add(pid)
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
    return pids
