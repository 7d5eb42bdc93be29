"""Hosts: a holder process each, which keeps a network, a mount and a UTS namespace alive."""

import os
import time

from . import LabError, describe, kernel, processes
from .lab import GRID, HOST_FOLDERS, RUN_ROOT, STORE

# What a campus's machines get from the package: windows for long and fast lines.
REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
SYSCTL = os.path.join(REPOSITORY, "packaging", "sysctl", "60-quadfs.conf")


def create_folders(lab):
    """What the hosts mount, and the shared mount that makes each /grid visible from outside."""
    for host in lab.spec.hosts.values():
        if host.role != "router":
            for folder in HOST_FOLDERS.values():
                os.makedirs(f"{lab.host_dir(host)}/{folder}")
    for campus in lab.spec.campuses:
        os.makedirs(lab.store_dir(campus))
    for node in lab.spec.with_role("node"):
        os.makedirs(lab.grid_path(node))
    for folder in ("links", "notify", "pids"):
        os.makedirs(f"{lab.run_dir}/{folder}")
    kernel.bind(lab.grid_dir, lab.grid_dir)
    kernel.mount(None, lab.grid_dir, flags=kernel.MS_PRIVATE)  # Not in the peer group of /run.
    kernel.mount(None, lab.grid_dir, flags=kernel.MS_SHARED)
    with open("/etc/hosts", encoding="utf-8") as file:
        known = file.read().rstrip("\n")
    with open(f"{lab.run_dir}/hosts", "w", encoding="utf-8") as file:
        file.write(known + "\n\n# The hosts of this lab\n")
        for host in lab.spec.hosts.values():
            file.write(f"{host.ip}\t{host.label}\n")


def create(lab):
    """Creates the namespaces of all hosts at once; the network in them is still to be made."""
    started = [(host, *_fork_holder(lab, host)) for host in lab.spec.hosts.values()]
    failures = []
    for host, pid, report in started:
        with os.fdopen(report, encoding="utf-8") as file:
            if trouble := file.read():
                failures.append(f"{host.name}: {trouble}")
        processes.remember(lab, host.label, "holder", pid)
    if failures:
        raise LabError(failures[0])
    _wait_for_marks(lab)


def _wait_for_marks(lab, seconds=10):
    # The report ends when exec closes it, an instant before the new environment can be read.
    deadline = time.monotonic() + seconds
    for host in lab.spec.hosts.values():
        while processes.recall(lab, host.label, "holder") is None:
            if time.monotonic() > deadline:
                raise LabError(f"{host.name}: the holder of its namespaces has gone")
            time.sleep(0.001)


def _fork_holder(lab, host):
    """Returns the pid and a pipe that ends empty when all is made, or with the trouble in it."""
    report, report_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(report_end)
        return pid, report
    try:
        _become_holder(lab, host)
    except BaseException as error:  # Whatever it is, the parent has to be told.
        os.write(report_end, describe(error).encode())
    os._exit(1)


def _become_holder(lab, host):
    os.setsid()
    os.chdir("/")
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS)
    kernel.set_hostname(host.label)
    _set_up_kernel(host)
    _set_up_mounts(lab, host)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.execve("/bin/sleep", [f"quadfs-lab {lab.name} {host.label}", "infinity"],
              processes.environment(lab, host.label, "holder"))


def _set_up_kernel(host):
    settings = {
        "ipv6/conf/all/disable_ipv6": "1",
        "ipv6/conf/default/disable_ipv6": "1",
        "ipv4/tcp_no_metrics_save": "1",  # One run does not teach the next.
    }
    with open(SYSCTL, encoding="ascii") as file:
        for line in file:
            key, _, value = line.partition("=")
            if key.startswith("net.ipv4."):  # net.core's are the machine's, not a namespace's.
                settings[key.strip().removeprefix("net.").replace(".", "/")] = value.strip()
    if host.role == "router":
        settings |= {"ipv4/ip_forward": "1", "ipv4/conf/all/send_redirects": "0"}
    for key, value in settings.items():
        if os.path.exists(path := f"/proc/sys/net/{key}"):
            with open(path, "w", encoding="ascii") as file:
                file.write(value)


def _set_up_mounts(lab, host):
    kernel.mount(None, "/", flags=kernel.MS_PRIVATE)  # What follows must not show outside.
    kernel.bind(f"{lab.run_dir}/hosts", "/etc/hosts")
    if host.role == "node":
        # Still in the peer group of the mount outside: what is mounted here appears there.
        kernel.bind(lab.grid_path(host), GRID)
    inherited = [mount for mount in kernel.mounts() if mount[0] not in ("/", GRID, "/etc/hosts")]
    # What is mounted or unmounted outside is so here too, and nothing done here shows outside.
    for point, _, _ in inherited:
        kernel.mount(None, point, flags=kernel.MS_SLAVE)
    # The lab keeps no file system alive that someone else wants to be rid of.
    for point, kind, source in reversed(inherited):
        if (kind.startswith("fuse") or source.startswith("/dev/loop") or
                point.startswith((RUN_ROOT + "/", "/run/netns"))):
            kernel.detach(point)
    if host.role == "router":
        return
    for point, folder in HOST_FOLDERS.items():
        kernel.bind(f"{lab.host_dir(host)}/{folder}", point)
    if host.role == "node" and lab.spec.cache_fs_bytes:
        kernel.mount("quadfs-lab", "/var/cache/quadfs", "tmpfs",
                     options=f"size={lab.spec.cache_fs_bytes},mode=755")
    if host.role == "hub" or lab.spec.store_on_nodes:
        kernel.bind(lab.store_dir(host.campus), STORE)
