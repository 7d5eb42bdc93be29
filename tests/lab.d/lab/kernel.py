"""The few system calls that Python 3.11 has no function for, and the mount table."""

import ctypes
import errno
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
MS_BIND = 4096
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _call(what, function, *args):
    if function(*args) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def unshare(flags):
    _call("unshare", _libc.unshare, flags)


def enter(pid, *kinds):
    """Moves the calling process into the namespaces of `pid`: some of net, mnt, uts."""
    fds = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in kinds]
    for kind, fd in zip(kinds, fds):
        _call(f"entering {kind} namespace", _libc.setns, fd, 0)
        os.close(fd)


def set_hostname(name):
    _call("sethostname", _libc.sethostname, name.encode(), len(name))


def mount(source, target, kind=None, flags=0, options=None):
    encode = lambda text: None if text is None else str(text).encode()
    _call(f"mounting {target}", _libc.mount, encode(source), encode(target), encode(kind),
          ctypes.c_ulong(flags), encode(options))


def bind(source, target):
    mount(source, target, flags=MS_BIND)


def detach(target):
    """Lazy unmount: works with a dead daemon and with files open."""
    _call(f"unmounting {target}", _libc.umount2, str(target).encode(), MNT_DETACH)


def mounts(pid="self"):
    """(mount point, type, source) of each mount, oldest first."""
    table = []
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            point = before.split()[4].encode("utf-8", "surrogateescape")
            point = point.decode("unicode_escape").encode("latin-1")
            kind, source = after.split()[:2]
            table.append((point.decode("utf-8", "surrogateescape"), kind, source))
    return table


def detach_below(path):
    """Unmounts what is mounted at or below `path`, also several deep."""
    for point, _, _ in reversed(mounts()):
        if point == path or point.startswith(path + "/"):
            try:
                detach(point)
            except OSError as error:
                if error.errno != errno.EINVAL:  # It went with the mount that it was below.
                    raise
    left = [point for point, _, _ in mounts() if point == path or point.startswith(path + "/")]
    if left:
        raise OSError(errno.EBUSY, f"still mounted: {left[0]}")
