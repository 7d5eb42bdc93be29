#!/usr/bin/env python3
"""A training-like reader, run inside a node: reads every file of a data set in shuffled order with a
few workers, as a data loader does, or writes a checkpoint. Prints one line of JSON.

usage: demo_reader.py epoch DIRECTORY SEED | demo_reader.py checkpoint FILE BYTES
"""
import concurrent.futures
import hashlib
import json
import os
import random
import sys
import time

WORKERS = 4


def read(path):
    """Bytes, checksum, seconds to the first byte."""
    start = time.monotonic()
    first = None
    digest = hashlib.blake2b(digest_size=16)
    total = 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            first = first if first is not None else time.monotonic() - start
            digest.update(chunk)
            total += len(chunk)
    return total, digest.digest(), first or 0.0


def epoch(folder, seed):
    paths = sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)
    order = paths[:]
    random.Random(int(seed)).shuffle(order)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        done = dict(zip(order, pool.map(read, order)))
    seconds = time.monotonic() - start
    whole = hashlib.blake2b(b"".join(done[path][1] for path in paths), digest_size=16).hexdigest()
    return {"files": len(paths), "bytes": sum(one[0] for one in done.values()), "seconds": seconds,
            "first_byte_ms": 1000 * max(one[2] for one in done.values()), "checksum": whole}


def checkpoint(path, size):
    block = os.urandom(1 << 20)
    start = time.monotonic()
    with open(path + ".tmp", "wb", buffering=0) as file:
        for _ in range(int(size) >> 20):
            file.write(block)
        os.fsync(file.fileno())
    os.rename(path + ".tmp", path)
    return {"bytes": int(size) >> 20 << 20, "seconds": time.monotonic() - start}


if __name__ == "__main__":
    print(json.dumps({"epoch": epoch, "checkpoint": checkpoint}[sys.argv[1]](*sys.argv[2:])))
