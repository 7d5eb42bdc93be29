"""The bridge to test suites that know mounts and shell hooks only, and damage done on purpose."""

import json
import os
import shlex
import subprocess

from . import LabError, processes
from .spec import MAIN

CACHE = "/var/cache/quadfs"
FILL = f"{CACHE}/lab-fill"


def exports(lab, program, node1, node2):
    """Lines for a shell: the hooks and settings for suites that run on the mounts of two nodes."""
    lab_command = f"QUADFS_LAB={shlex.quote(lab.name)} {shlex.quote(program)}"
    inside = f'"/grid${{1#{lab.grid_path(node2)}}}"'  # Hooks get paths of node 2 from outside.
    cut_ends = _cut_ends(lab, node1, node2)
    pid = f"$(cat {shlex.quote(lab.pid_file(node1.label, 'daemon'))})"
    settings = {
        "HOOK_CUT": f"{lab_command} cut {cut_ends}",
        "HOOK_HEAL": f"{lab_command} heal {cut_ends}",
        "HOOK_KILL": f"{lab_command} kill {node1.name}",
        "HOOK_START": f"{lab_command} start {node1.name}",
        "HOOK_STOP": f"{lab_command} stop {node1.name}",
        "HOOK_DRAIN": f"{lab_command} exec {node1.name} -- quadfs sync",
        "HOOK_EVICT": f"{lab_command} exec {node2.name} -- quadfs evict {inside}",
        "HOOK_FLIP": f"{lab_command} flip {node2.name} {inside}",
        "HOOK_CACHEUSE": f"{lab_command} exec {node2.name} -- du -s -B1 {CACHE} | cut -f1",
        "HOOK_RSS": f"awk '/^VmRSS:/ {{print $2}}' /proc/{pid}/status",
        "HOOK_FDS": f"ls /proc/{pid}/fd | wc -l",
        "CASE_ARCHIVE": lab.store_dir(MAIN),
        "CASE_XATTR": "user.quad.locations",
        "CASE_NODE2": node2.name,
    }
    if lab.spec.cache_bytes:
        settings["CASE_CACHE_MAX"] = str(lab.spec.cache_bytes)
    if lab.spec.cache_fs_bytes:
        # Both block sizes run into the end of the space: nothing is left.
        fill = (f"for size in 1M 4k; do dd if=/dev/zero bs=$size >>{FILL} 2>/dev/null; done; "
                f"test -s {FILL}")
        settings["HOOK_FULL"] = f"{lab_command} exec {node1.name} -- sh -c {shlex.quote(fill)}"
        settings["HOOK_UNFULL"] = f"{lab_command} exec {node1.name} -- rm -f {FILL}"
    return [f"export {key}={shlex.quote(value)}" for key, value in settings.items()]


def _cut_ends(lab, node1, node2):
    """What to cut so that node 2 loses node 1: a line, or its own port within one campus."""
    if node1.campus == node2.campus:
        return f"{node2.name} {node2.campus}"
    branch = node2.campus if node2.campus != MAIN else node1.campus
    link, _ = lab.spec.link(MAIN, branch)
    return f"{MAIN} {link.branch}"


def flip(lab, node, path):
    """Changes one byte, in the middle of the data, of the node's cached copy of a file."""
    process = processes.spawn(lab, node, ["quadfs", "where", "--json", path],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    try:
        cache_file = json.loads(processes.finish(process, f"{node.name}: quadfs where"))
        cache_file = cache_file.get("cache_file")
    except (ValueError, AttributeError):
        raise LabError(f"{node.name}: quadfs where --json does not print a JSON object") from None
    if not cache_file:
        raise LabError(f"{node.name} holds no cached copy of {path}")
    outside = f"/proc/{processes.holder(lab, node)}/root{cache_file}"
    try:
        fd = os.open(outside, os.O_RDWR)
    except OSError as error:
        raise LabError(f"{node.name}: {cache_file}: {error.strerror}") from None
    try:
        start = os.lseek(fd, 0, os.SEEK_DATA)  # Absent blocks are holes.
        offset = start + (os.lseek(fd, start, os.SEEK_HOLE) - start) // 2
        (byte,) = os.pread(fd, 1, offset)
        os.pwrite(fd, bytes([byte ^ 0xFF]), offset)
        os.fsync(fd)
    except OSError as error:
        raise LabError(f"{node.name}: {cache_file}: {error.strerror}") from None
    finally:
        os.close(fd)
    return offset
