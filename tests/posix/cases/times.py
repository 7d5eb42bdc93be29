"""Which operation moves which time, and utimensat(2)."""
import errno
import os

from calls import AT_SYMLINK_NOFOLLOW, KEEP_SIZE, PUNCH_HOLE, UTIME_NOW, UTIME_OMIT, call, fallocate, linkat, renameat2, utimensat
from kit import (JOINED, KINDS, MEMBER, OTHER, OWNER, ROOT, USERS, case, expect, get, give, make, opened, put,
                 same, table, tick, true)

NOW, OMIT = (0, UTIME_NOW), (0, UTIME_OMIT)


def times(path):
    """(mtime, ctime); access times depend on mount options."""
    now = os.lstat(path)
    return now.st_mtime_ns, now.st_ctime_ns


def writes(name, data=b"more"):
    with opened(name, os.O_WRONLY) as fd:
        os.write(fd, data)


# name: (operation, {path: which of "mc" move}); names not listed keep both times. Before it: f, g (two links of h),
# directories d (with d/x) and e, symbolic link l to f.
OPERATIONS = {
    "stat": (lambda: os.stat("f"), {}),
    "read": (lambda: get("f"), {}),
    "list": (lambda: os.listdir("d"), {}),
    "open for writing": (lambda: os.close(os.open("f", os.O_WRONLY)), {}),
    "write": (lambda: writes("f"), {"f": "mc"}),
    "write of nothing": (lambda: writes("f", b""), {}),
    "truncate": (lambda: os.truncate("f", 2), {"f": "mc"}),
    "truncate to a larger size": (lambda: os.truncate("f", 2000), {"f": "mc"}),
    "truncate to the same size": (lambda: os.truncate("f", 7), {"f": "mc"}),
    "open with O_TRUNC": (lambda: os.close(os.open("f", os.O_WRONLY | os.O_TRUNC)), {"f": "mc"}),
    "open with O_TRUNC, empty": (lambda: os.close(os.open("empty", os.O_WRONLY | os.O_TRUNC)), {"empty": "mc"}),
    "chmod": (lambda: os.chmod("f", 0o600), {"f": "c"}),
    "chmod to the same": (lambda: os.chmod("f", 0o644), {"f": "c"}),
    "chmod of a directory": (lambda: os.chmod("d", 0o700), {"d": "c"}),
    "chown": (lambda: os.chown("f", 65001, 65101), {"f": "c"}),
    "lchown": (lambda: os.chown("l", 65001, 65101, follow_symlinks=False), {"l": "c"}),
    "link": (lambda: os.link("f", "e/new"), {"f": "c", "e": "mc"}),
    "unlink one of two": (lambda: os.unlink("g"), {"h": "c", ".": "mc"}),
    "unlink": (lambda: os.unlink("d/x"), {"d": "mc"}),
    "create": (lambda: put("d/new"), {"d": "mc"}),
    "create of what is there": (lambda: os.close(os.open("d/x", os.O_WRONLY | os.O_CREAT)), {}),
    "mkdir": (lambda: os.mkdir("e/new"), {"e": "mc"}),
    "rmdir": (lambda: os.rmdir("e"), {".": "mc"}),
    "symlink": (lambda: os.symlink("x", "e/new"), {"e": "mc"}),
    "mkfifo": (lambda: os.mkfifo("e/new"), {"e": "mc"}),
    "rename inside": (lambda: os.rename("d/x", "d/y"), {"d": "mc"}),
    "rename to another directory": (lambda: os.rename("d/x", "e/y"), {"d": "mc", "e": "mc"}),
    "rename over a link": (lambda: os.rename("f", "g"), {"h": "c", ".": "mc"}),
    "exchange": (lambda: renameat2("d/x", "e", 2), {"d": "mc", ".": "mc"}),
    "setxattr": (lambda: os.setxattr("f", "user.x", b"1"), {"f": "c"}),
    "setxattr of a directory": (lambda: os.setxattr("d", "user.x", b"1"), {"d": "c"}),
    "removexattr": (lambda: os.removexattr("g", "user.old"), {"g": "c", "h": "c"}),
    "getxattr": (lambda: os.getxattr("g", "user.old"), {}),
    "fallocate to a larger size": (lambda: with_file("f", lambda fd: fallocate(fd, 0, 0, 10000)), {"f": "mc"}),
    "punch hole": (lambda: with_file("f", lambda fd: fallocate(fd, KEEP_SIZE | PUNCH_HOLE, 0, 5)), {"f": "mc"}),
    "utimensat of both omitted": (lambda: utimensat("f", OMIT, OMIT), {}),
    "failing mkdir": (lambda: expect(errno.EEXIST, os.mkdir, "d"), {}),
    "failing rmdir": (lambda: expect((errno.ENOTEMPTY, errno.EEXIST), os.rmdir, "d"), {}),
    "failing unlink": (lambda: expect(errno.EISDIR, os.unlink, "d"), {}),
    "failing rename": (lambda: expect(errno.ENOTDIR, os.rename, "d", "f"), {}),
    "failing link": (lambda: expect(errno.EEXIST, os.link, "f", "d/x"), {}),
    "failing chmod": (lambda: expect(errno.EPERM, os.chmod, "f", 0o777, user=OTHER), {}),
    "failing chown": (lambda: expect(errno.EPERM, os.chown, "f", OTHER.uid, -1, user=OTHER), {}),
    "failing truncate": (lambda: expect(errno.EACCES, os.truncate, "f", 0, user=OTHER), {}),
    "readlink": (lambda: os.readlink("l"), {}),
    "fsync": (lambda: with_file("f", os.fsync), {}),
}


def with_file(name, work):
    with opened(name) as fd:
        work(fd)


# Paths that stand for something else afterwards are not compared.
REPLACED = {"exchange": ("e", "d/x"), "rename over a link": ("g", "f"), "rename to another directory": ("d/x",)}


@table([(name, *row, REPLACED.get(name, ())) for name, row in OPERATIONS.items()])
def moved_by(work, moves, replaced):
    put("f", b"content")
    put("empty")
    put("h", b"x")
    os.link("h", "g")
    os.setxattr("h", "user.old", b"1")
    os.mkdir("d")
    put("d/x", b"x")
    os.mkdir("e")
    os.symlink("f", "l")
    names = [name for name in ("f", "empty", "g", "h", "d", "d/x", "e", "l", ".") if name not in replaced]
    before = {name: times(name) for name in names}
    tick()
    work()
    for name in names:
        if not os.path.lexists(name):
            continue
        for letter, old, new in zip("mc", before[name], times(name)):
            want = letter in moves.get(name, "")
            true((new > old) == want,
                 f"{letter}time of {name} {'moves' if want else 'stays'}, it moved by {new - old} ns")


@case
def new_things_have_new_times():
    for kind in KINDS:
        old = os.stat(".").st_mtime_ns
        tick()
        make(kind, kind)
        now = os.lstat(kind)
        true(now.st_mtime_ns > old and now.st_ctime_ns > old and now.st_atime_ns > old, f"times of a new {kind} are new")
        parent = os.stat(".")
        true(parent.st_mtime_ns > old, "and its directory's")


@case
def rename_may_move_the_ctime_of_what_is_renamed():
    put("f")
    before = os.stat("f")
    tick()
    os.rename("f", "g")
    after = os.stat("g")
    same((after.st_mtime_ns, after.st_atime_ns), (before.st_mtime_ns, before.st_atime_ns), "mtime and atime")
    true(after.st_ctime_ns >= before.st_ctime_ns, "ctime does not go back")


@case
def write_through_a_mapping_moves_times():
    import mmap
    put("f", b"x" * 5000)
    before = times("f")
    tick()
    with opened("f") as fd:
        with mmap.mmap(fd, 5000) as view:
            view[100] = 65
            view.flush()
        os.fsync(fd)
    after = times("f")
    true(after[0] > before[0] and after[1] > before[1], "mtime and ctime moved")


@case
def times_of_an_open_file_move_as_it_is_written():
    put("f")
    with opened("f") as fd:
        last = os.fstat(fd)
        for index in range(5):
            tick()
            os.pwrite(fd, b"x", index)
            now = os.fstat(fd)
            true(now.st_mtime_ns > last.st_mtime_ns, "mtime by fstat moves")
            true(os.stat("f").st_mtime_ns == now.st_mtime_ns, "stat and fstat agree")
            last = now
    same(os.stat("f").st_mtime_ns, last.st_mtime_ns, "mtime after close: that of the last write")


@case
def close_alone_moves_nothing():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        os.write(fd, b"x")
        before = os.fstat(fd)
        tick()
    after = os.stat("f")
    same((after.st_mtime_ns, after.st_size), (before.st_mtime_ns, 1), "mtime and size")


# ---- utimensat

INSTANTS = ((0, 0), (1, 1), (1_500_000_000, 123_456_789), (2**31 - 1, 999_999_999), (2**31 + 10, 5), (2**32 + 7, 1),
            (-1, 0), (-1000, 500_000_000))


@table([(f"{kind}, {seconds}.{nano:09}", kind, seconds, nano) for kind in ("file", "directory", "symlink", "fifo")
        for seconds, nano in INSTANTS])
def instants(kind, seconds, nano):
    """To the nanosecond, from before 1970 to beyond 2106."""
    make(kind, "x")
    utimensat("x", (seconds, nano), (seconds + 1, nano), AT_SYMLINK_NOFOLLOW)
    now = os.lstat("x")
    same((now.st_atime_ns, now.st_mtime_ns), (seconds * 10**9 + nano, (seconds + 1) * 10**9 + nano), "atime and mtime")


@case
def omitting():
    put("f")
    utimensat("f", (10, 1), (20, 2))
    utimensat("f", OMIT, (30, 3))
    same((os.stat("f").st_atime_ns, os.stat("f").st_mtime_ns), (10 * 10**9 + 1, 30 * 10**9 + 3), "atime omitted")
    utimensat("f", (40, 4), OMIT)
    same((os.stat("f").st_atime_ns, os.stat("f").st_mtime_ns), (40 * 10**9 + 4, 30 * 10**9 + 3), "mtime omitted")
    before = os.stat("f")
    tick()
    utimensat("f", OMIT, OMIT)
    same(os.stat("f").st_ctime_ns, before.st_ctime_ns, "ctime with both omitted")


@case
def now():
    put("f")
    utimensat("f", (10, 1), (20, 2))
    before = os.stat(put("mark")).st_mtime_ns
    tick()
    utimensat("f", NOW, OMIT)
    same((os.stat("f").st_atime_ns > before, os.stat("f").st_mtime_ns), (True, 20 * 10**9 + 2), "atime now, mtime omitted")
    utimensat("f", OMIT, NOW)
    true(os.stat("f").st_mtime_ns > before, "mtime now")


@case
def bad_nanoseconds():
    put("f")
    for bad in (10**9, -1, UTIME_NOW + 1):
        expect(errno.EINVAL, utimensat, "f", (0, bad), (0, 0))
        expect(errno.EINVAL, utimensat, "f", (0, 0), (0, bad))
    expect(errno.EINVAL, utimensat, "f", NOW, NOW, 1)


@table([(f"{user}, mode {mode:03o}", user, mode) for user in USERS for mode in (0o000, 0o222, 0o444, 0o666)])
def rights(user, mode):
    """Now: who owns it or may write it. A chosen time, or one of the two: only who owns it."""
    put("f")
    give("f")
    os.chmod("f", mode)
    owns = user in (OWNER, ROOT)
    writes_it = mode & 0o222 != 0
    expect(0 if owns or writes_it else errno.EACCES, utimensat, "f", NOW, NOW, user=user)
    expect(0 if owns or writes_it else errno.EACCES, lambda: call("utimensat", -100, "f", None, 0), user=user)
    for atime, mtime in (((1, 1), (1, 1)), (NOW, OMIT), (OMIT, NOW), (NOW, (1, 1)), ((1, 1), OMIT)):
        expect(0 if owns else errno.EPERM, utimensat, "f", atime, mtime, user=user)
    expect(0, utimensat, "f", OMIT, OMIT, user=user)


@case
def a_chosen_time_survives_close():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        os.write(fd, b"data")
        os.utime(fd, ns=(5, 7))
        same(os.fstat(fd).st_mtime_ns, 7, "mtime while open")
    same((os.stat("f").st_mtime_ns, os.stat("f").st_atime_ns), (7, 5), "mtime and atime after close")
    with opened("f") as fd:
        os.utime(fd, ns=(5, 7))
        tick()
        os.write(fd, b"more")
    true(os.stat("f").st_mtime_ns > 7, "a write after it counts")


@case
def futimens_and_symlinks():
    put("f")
    os.symlink("f", "l")
    os.utime("l", ns=(1, 2))
    same(os.stat("f").st_mtime_ns, 2, "followed")
    os.utime("l", ns=(3, 4), follow_symlinks=False)
    same((os.stat("f").st_mtime_ns, os.lstat("l").st_mtime_ns), (2, 4), "not followed")
    with opened("f", os.O_RDONLY) as fd:
        os.utime(fd, ns=(5, 6))
    same(os.stat("f").st_mtime_ns, 6, "by a read-only descriptor")


@case
def directory_times_do_not_lag():
    """One after the other, each change is seen at once."""
    last = os.stat(".").st_mtime_ns
    for index in range(10):
        tick()
        put(f"f{index}")
        now = os.stat(".").st_mtime_ns
        true(now > last, "mtime of the directory moved")
        last = now
    linkat("f0", "g")
    true(os.stat(".").st_mtime_ns >= last, "and does not go back")


@case
def times_are_near_the_clock():
    import time
    before = time.time_ns() - 10**9
    put("f", b"x")
    for stamp in (os.stat("f").st_mtime_ns, os.stat("f").st_ctime_ns, os.stat(".").st_mtime_ns):
        true(before <= stamp <= time.time_ns() + 10**9, "a time stamp within a second of the clock")


@table([(str(user), user) for user in (MEMBER, JOINED, OTHER)])
def directory_rights(user):
    os.mkdir("d")
    give("d", OWNER, 0o755)
    expect(errno.EACCES, utimensat, "d", NOW, NOW, user=user)
    expect(errno.EPERM, utimensat, "d", (1, 1), (1, 1), user=user)
    expect(0, utimensat, "d", (1, 1), (1, 1), user=OWNER)

