#!/usr/bin/python3
"""Stands in for quadfs and quadfsd in the lab's own test: what the lab asks of them, without a
cluster. The daemon of a node mounts a tmpfs, which outlives a kill like a FUSE mount does."""

import ctypes
import json
import os
import signal
import socket
import sys

CONFIG = "/etc/quadfs/quadfs.toml"
CACHE_FILE = "/var/cache/quadfs/object"


def option(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def command():
    verb = sys.argv[1]
    if verb == "token":
        print(f"token-for-{option('--role')}-{option('--campus')}")
    elif verb in ("init", "join"):
        if verb == "join" and not sys.stdin.read().startswith("token-for-"):
            sys.exit("quadfs: no token on standard input")
        with open(CONFIG, "w", encoding="utf-8") as file:
            json.dump({"listen": option("--listen"), "mount": option("--mount")}, file)
    elif verb == "where":
        print(json.dumps({"cache_file": CACHE_FILE if os.path.exists(CACHE_FILE) else None}))
    elif verb == "evict":
        with open("/run/quadfs/evicted", "a", encoding="utf-8") as file:
            file.write(sys.argv[2] + "\n")


def daemon():
    with open(option("--config"), encoding="utf-8") as file:
        config = json.load(file)
    print("stub: starting", flush=True)
    if os.path.exists("/etc/quadfs/refuse"):
        sys.exit("stub: told not to start")
    libc = ctypes.CDLL(None)
    if config["mount"]:
        if libc.mount(b"stub", config["mount"].encode(), b"tmpfs", 0, b"mode=755") != 0:
            sys.exit("stub: cannot mount")
    else:
        address, port = config["listen"].split(":")
        server = socket.create_server((address, int(port)))
        server.listen()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.sendto(b"READY=1\nSTATUS=stub", os.environ["NOTIFY_SOCKET"])
    signal.sigwait({signal.SIGTERM})
    if config["mount"] and libc.umount2(config["mount"].encode(), 0) != 0:
        sys.exit("stub: cannot unmount")
    print("stub: ended in order", flush=True)


if __name__ == "__main__":
    daemon() if os.path.basename(sys.argv[0]) == "quadfsd" else command()
