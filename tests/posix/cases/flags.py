"""Inode flags (chattr): immutable, append only; honoured, or refused clearly."""
import contextlib
import errno
import os

from calls import FLAG_APPEND, FLAG_IMMUTABLE, FLAG_NODUMP, KEEP_SIZE, PUNCH_HOLE, fallocate, get_flags, set_flags
from kit import OTHER, OWNER, case, expect, get, give, make, opened, put, result_of, same, table, touch, true

REFUSALS = (errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, errno.EINVAL)


@contextlib.contextmanager
def flagged(path, flag):
    """Sets the flag; gives False if the file system refuses. Takes it away again."""
    fd = os.open(path, os.O_RDONLY)
    try:
        code, old = result_of(get_flags, fd)
        if code:
            true(code in REFUSALS, f"flags are refused clearly, not with {errno.errorcode[code]}")
            yield False
            return
        code, _ = result_of(set_flags, fd, old | flag)
        if code:
            true(code in REFUSALS, f"flags are refused clearly, not with {errno.errorcode[code]}")
            yield False
            return
        same(get_flags(fd) & flag, flag, "flag, read back")
        try:
            yield True
        finally:
            set_flags(fd, old)
    finally:
        os.close(fd)


CHANGES = {
    "open for writing": lambda: touch("x", os.O_WRONLY),
    "truncate": lambda: os.truncate("x", 0),
    "chmod": lambda: os.chmod("x", 0o600),
    "chown": lambda: os.chown("x", 1, 1),
    "utime": lambda: os.utime("x", ns=(1, 1)),
    "setxattr": lambda: os.setxattr("x", "user.a", b"1"),
    "link": lambda: os.link("x", "y"),
    "rename": lambda: os.rename("x", "y"),
    "rename over it": lambda: os.rename("other", "x"),
    "unlink": lambda: os.unlink("x"),
}


@table([(name, work) for name, work in CHANGES.items()])
def immutable_file(work):
    put("x", b"content")
    put("other")
    with flagged("x", FLAG_IMMUTABLE) as works:
        if not works:
            return
        expect((errno.EPERM, errno.EACCES), work)
        same(get("x"), b"content", "content")
    expect(0, work)


@table([(name, work) for name, work in CHANGES.items() if name not in ("open for writing",)])
def append_only_file(work):
    put("x", b"content")
    put("other")
    with flagged("x", FLAG_APPEND) as works:
        if not works:
            return
        expect((errno.EPERM, errno.EACCES), work)
        expect(errno.EPERM, touch, "x", os.O_WRONLY)
        expect(errno.EPERM, touch, "x", os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
        with opened("x", os.O_WRONLY | os.O_APPEND) as fd:
            os.write(fd, b"+")
            expect(errno.EPERM, os.ftruncate, fd, 1)
            expect(errno.EPERM, fallocate, fd, PUNCH_HOLE | KEEP_SIZE, 0, 1)
        same(get("x"), b"content+", "content")


@case
def immutable_directory():
    os.mkdir("d")
    put("d/f", b"x")
    with flagged("d", FLAG_IMMUTABLE) as works:
        if not works:
            return
        for work in (lambda: put("d/new"), lambda: os.unlink("d/f"), lambda: os.rename("d/f", "g"), lambda: os.mkdir("d/e")):
            expect((errno.EPERM, errno.EACCES), work)
        put("d/f", b"changed")
        same(get("d/f"), b"changed", "content of a file in it")


@case
def append_only_directory():
    os.mkdir("d")
    with flagged("d", FLAG_APPEND) as works:
        if not works:
            return
        put("d/f")
        expect(errno.EPERM, os.unlink, "d/f")
        expect(errno.EPERM, os.rename, "d/f", "d/g")


@case
def rights():
    put("x")
    give("x")
    with flagged("x", FLAG_NODUMP) as works:
        if not works:
            return
        with opened("x", os.O_RDONLY) as fd:
            expect((errno.EPERM, errno.EACCES), set_flags, fd, 0, user=OTHER)
            expect(errno.EPERM, set_flags, fd, FLAG_IMMUTABLE, user=OWNER)
            expect(0, set_flags, fd, 0, user=OWNER)


@table([(kind, kind) for kind in ("file", "directory")])
def asking_harms_nothing(kind):
    make(kind, "x")
    with opened("x", os.O_RDONLY) as fd:
        code, _ = result_of(get_flags, fd)
        true(code == 0 or code in REFUSALS, "flags are told or refused clearly")
