"""Lines between campuses: the forwarder processes and their control sockets."""

import json
import os
import shutil
import socket
import subprocess
import time
import zlib

from . import LabError, processes
from .spec import MAIN

FORWARDER = "quadfs_lab_forwarder"
SOURCE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
READY_SECONDS = 10


def find_forwarder(lab):
    """The forwarder of the build, or one compiled into the lab's state folder."""
    built = f"{lab.spec.bin_dir}/{FORWARDER}"
    if os.access(built, os.X_OK):
        return built
    compiled = f"{lab.run_dir}/{FORWARDER}"
    if not os.path.exists(compiled):
        compile_forwarder(compiled)
    return compiled


def compile_forwarder(target):
    if shutil.which("g++") is None:
        raise LabError(f"{FORWARDER} is not built and there is no g++ to compile it")
    sources = sorted(f"{SOURCE_DIR}/{name}" for name in os.listdir(SOURCE_DIR)
                     if name.endswith(".cc"))
    command = ["g++", "-std=c++20", "-O2", "-pthread", "-o", target, *sources]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    processes.finish(process, f"compiling {FORWARDER}", seconds=300)


class StartingLine:
    """Starts the forwarder of a link; `wait` returns when it answers, with its settings made."""

    def __init__(self, lab, link):
        self._lab, self._link = lab, link
        netns = [f"/proc/{processes.holder(lab, lab.spec.router(campus))}/ns/net"
                 for campus in (MAIN, link.branch)]
        device = link.device
        seed = lab.spec.seed + zlib.crc32(link.branch.encode())
        label = f"link-{link.name}"
        with open(lab.link_file(link, "log"), "wb") as log:
            self._process = subprocess.Popen(
                [find_forwarder(lab), netns[0], device, netns[1], device,
                 lab.link_file(link, "sock"), str(seed)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
                env=processes.environment(lab, label, "forwarder"))
        processes.remember(lab, label, "forwarder", self._process.pid)

    def wait(self):
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                change(self._lab, self._link)
                return
            except ConnectionError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    break
            time.sleep(0.002)
        with open(self._lab.link_file(self._link, "log"), encoding="utf-8") as log:
            lines = log.read().strip().splitlines() or ["its forwarder does not answer"]
        raise LabError(f"link {self._link.name}: {lines[-1]}")


def change(lab, link):
    """Makes the forwarder adopt the settings that `link` holds."""
    _ask(lab, link, f"set rate_bits_per_s={link.rate_bits_per_s} rtt_ns={link.rtt_ns} "
                    f"loss={link.loss:.9f} corrupt={link.corrupt:.9f}")


def cut(lab, link, direction):
    """`direction`: ab (from main to the branch), ba or both."""
    _ask(lab, link, f"cut {direction}")


def heal(lab, link):
    _ask(lab, link, "heal")


def status(lab, link):
    return json.loads(_ask(lab, link, "status"))


def _ask(lab, link, request):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(READY_SECONDS)
        try:
            client.connect(lab.link_file(link, "sock"))
        except FileNotFoundError as error:
            raise ConnectionRefusedError(str(error)) from None
        client.sendall(request.encode() + b"\n")
        with client.makefile(encoding="ascii") as file:
            answer = file.readline().strip()
    if not answer:
        raise ConnectionResetError("no answer")
    if answer.startswith("error: "):
        raise LabError(f"link {link.name}: {answer[len('error: '):]}")
    return answer
