#!/usr/bin/python3
"""A bulk transfer over TCP, for the lab's test.

bulk.py receive PORT            prints "listening", then the bytes of one transfer
bulk.py send HOST PORT BYTES    prints the seconds from before the first byte until all has arrived
"""

import socket
import sys
import time

CHUNK_BYTES = 1 << 20


def receive(port):
    with socket.create_server(("0.0.0.0", port)) as server:
        print("listening", flush=True)
        server.settimeout(20)
        peer, _ = server.accept()
    with peer:
        peer.settimeout(20)
        buffer = bytearray(CHUNK_BYTES)
        total = 0
        while size := peer.recv_into(buffer):
            total += size
        print(total, flush=True)


def send(host, port, size):
    chunk = memoryview(bytes(CHUNK_BYTES))
    with socket.create_connection((host, port), timeout=20) as peer:
        begun = time.monotonic()
        while size > 0:
            size -= peer.send(chunk[:min(size, CHUNK_BYTES)])
        peer.shutdown(socket.SHUT_WR)
        peer.recv(1)  # Returns when the receiver has read all and closes.
        print(time.monotonic() - begun)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
