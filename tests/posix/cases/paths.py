"""Errors of path walking, the same for every call that takes a path."""
import ctypes
import errno
import os
import stat

from calls import AT_FDCWD, AT_SYMLINK_NOFOLLOW, BAD, call, faccessat2, statx, system, utimensat
from kit import (OTHER, PLAIN_USERS, ROOT, case, expect, give, make, put, same, table)

NOW = (0, (1 << 30) - 1)
BUFFER = ctypes.create_string_buffer(4096)
VALUE = ctypes.c_char_p(b"v")


def opens(path, flags, mode=0o644):
    os.close(call("open", path, flags, mode))


# name: (call, what the path must be, whether a final symbolic link is followed)
EXISTING = {
    "open read": (lambda p: opens(p, os.O_RDONLY), "file", True),
    "open write": (lambda p: opens(p, os.O_WRONLY), "file", True),
    "open truncate": (lambda p: opens(p, os.O_WRONLY | os.O_TRUNC), "file", True),
    "open path": (lambda p: opens(p, os.O_PATH), "file", True),
    "open directory": (lambda p: opens(p, os.O_RDONLY | os.O_DIRECTORY), "directory", True),
    "stat": (lambda p: statx(p, 0), "file", True),
    "lstat": (lambda p: statx(p, AT_SYMLINK_NOFOLLOW), "file", False),
    "access": (lambda p: call("access", p, os.R_OK), "file", True),
    "faccessat2": (lambda p: faccessat2(p, os.R_OK), "file", True),
    "chmod": (lambda p: call("chmod", p, 0o600), "file", True),
    "chown": (lambda p: call("chown", p, 65001, 65101), "file", True),
    "lchown": (lambda p: call("lchown", p, 65001, 65101), "file", False),
    "utimensat": (lambda p: utimensat(p, NOW, NOW) if not isinstance(p, ctypes.c_void_p)
                  else call("utimensat", AT_FDCWD, p, None, 0), "file", True),
    "truncate": (lambda p: call("truncate", p, 3), "file", True),
    "statfs": (lambda p: call("statfs", p, BUFFER), "file", True),
    "getxattr": (lambda p: call("getxattr", p, "user.x", BUFFER, 100), "file", True),
    "lgetxattr": (lambda p: call("lgetxattr", p, "user.x", BUFFER, 100), "file", False),
    "setxattr": (lambda p: call("setxattr", p, "user.x", VALUE, 1, 0), "file", True),
    "listxattr": (lambda p: call("listxattr", p, BUFFER, 4096), "file", True),
    "llistxattr": (lambda p: call("llistxattr", p, BUFFER, 4096), "file", False),
    "removexattr": (lambda p: call("removexattr", p, "user.x"), "file", True),
    "readlink": (lambda p: call("readlink", p, BUFFER, 4096), "symlink", False),
    "unlink": (lambda p: call("unlink", p), "file", False),
    "rmdir": (lambda p: call("rmdir", p), "directory", False),
    "chdir": (lambda p: call("chdir", p), "directory", True),
    "rename from": (lambda p: call("rename", p, "/proc/self/cwd/renamed"), "file", False),
    "link from": (lambda p: call("link", p, "/proc/self/cwd/linked"), "file", False),
}
NEW = {
    "open create": lambda p: opens(p, os.O_CREAT | os.O_WRONLY),
    "open exclusive": lambda p: opens(p, os.O_CREAT | os.O_EXCL | os.O_WRONLY),
    "creat": lambda p: os.close(call("creat", p, 0o644)),
    "mkdir": lambda p: call("mkdir", p, 0o755),
    "mknod": lambda p: system("mknodat", AT_FDCWD, p, stat.S_IFREG | 0o644, 0),
    "mkfifo": lambda p: call("mkfifo", p, 0o644),
    "symlink": lambda p: call("symlink", "target", p),
    "link to": lambda p: call("link", "spare", p),
    "rename to": lambda p: call("rename", "spare", p),
}
ALL = {**{name: row[0] for name, row in EXISTING.items()}, **NEW}
FOLLOWING = {name: row[0] for name, row in EXISTING.items() if row[2]}
CHANGING = ("unlink", "rmdir", "rename from", *NEW)


def rows(names):
    return [(name, ALL[name]) for name in names]


def target(name, path):
    """What the call finds, or room for what it makes."""
    put("spare")
    if name in EXISTING:
        make({"file": "file", "directory": "directory", "symlink": "symlink"}[EXISTING[name][1]], path, 0o666)
        if EXISTING[name][1] == "file":
            os.setxattr(path, "user.x", b"x")


@table([(name, name) for name in ALL])
def works(name):
    """Otherwise the errors below would prove nothing."""
    os.mkdir("d")
    target(name, "d/x")
    expect(0, ALL[name], "d/../d/./x")


@table(rows(ALL))
def empty_path(work):
    put("spare")
    expect(errno.ENOENT, work, "")


@table(rows(EXISTING))
def missing(work):
    expect(errno.ENOENT, work, "missing")
    os.mkdir("d")
    expect(errno.ENOENT, work, "d/missing")
    expect(errno.ENOENT, work, "d/missing")     # Again: from a cache of what is not there.


@table(rows(ALL))
def missing_directory(work):
    put("spare")
    expect(errno.ENOENT, work, "missing/x")
    expect(errno.ENOENT, work, "missing/x/y")
    os.symlink("missing", "dangling")
    expect(errno.ENOENT, work, "dangling/x")


@table(rows(ALL))
def not_a_directory(work):
    put("spare")
    for kind in ("file", "fifo", "socket", "character device"):
        make(kind, "thing")
        expect(errno.ENOTDIR, work, "thing/x", note=f"below a {kind}")
        expect(errno.ENOTDIR, work, "thing/x/y", note=f"below a {kind}")
        expect(errno.ENOTDIR, work, "thing/../spare", note=f"below a {kind}")
        os.unlink("thing")


@table(rows(ALL))
def name_too_long(work):
    put("spare")
    os.mkdir("d")
    expect(errno.ENAMETOOLONG, work, "n" * 256)
    expect(errno.ENAMETOOLONG, work, "d/" + "n" * 256)
    expect(errno.ENAMETOOLONG, work, "n" * 256 + "/x")
    expect(errno.ENAMETOOLONG, work, "é" * 128)


@table([(name, name) for name in ALL])
def name_of_255_bytes(name):
    target(name, "n" * 255)
    expect(0, ALL[name], "n" * 255)


@table([(name, name) for name in ALL])
def path_length(name):
    target(name, "x")
    expect(errno.ENAMETOOLONG, ALL[name], "./" * 2047 + "xx")
    expect(0, ALL[name], "./" * 2047 + "x")


@table(rows(ALL))
def loop_in_the_path(work):
    put("spare")
    os.symlink("loop", "loop")
    os.symlink("two", "one")
    os.symlink("one", "two")
    expect(errno.ELOOP, work, "loop/x")
    expect(errno.ELOOP, work, "one/x")


@table(rows(FOLLOWING))
def loop_at_the_end(work):
    os.symlink("two", "one")
    os.symlink("one", "two")
    expect(errno.ELOOP, work, "one")


@table(rows(FOLLOWING))
def dangling_symlink(work):
    os.symlink("missing", "dangling")
    expect(errno.ENOENT, work, "dangling")


@table([(name, name) for name in FOLLOWING])
def symlink_is_followed(name):
    target(name, "x")
    os.symlink("x", "l1")
    os.symlink("l1", "l2")
    expect(0, ALL[name], "l2")


@table([(name, name) for name in ALL])
def symlink_to_a_directory_in_the_path(name):
    os.mkdir("d")
    os.symlink("d", "l")
    target(name, "d/x")
    expect(0, ALL[name], "l/x")


@table([(name, name) for name in FOLLOWING])
def forty_symlinks(name):
    """Forty are followed, one more is a loop."""
    target(name, "l0")
    for index in range(41):
        os.symlink(f"l{index}", f"l{index + 1}")
    expect(errno.ELOOP, ALL[name], "l41")
    expect(0, ALL[name], "l40")


@table(rows([name for name in ALL if name != "utimensat"]))
def bad_address(work):
    put("spare")
    expect(errno.EFAULT, work, BAD)


@table([(name, name) for name in ALL])
def search_permission(name):
    """Without x on a directory nobody but root gets below it."""
    os.mkdir("closed")
    os.mkdir("closed/d")
    target(name, "closed/d/x")
    give("closed", mode=0o666)
    os.chmod("closed/d", 0o777)
    for user in PLAIN_USERS:
        expect(errno.EACCES, ALL[name], "closed/d/x", user=user)
        expect(errno.EACCES, ALL[name], "closed/missing", user=user)
    expect(0, ALL[name], "closed/d/x")


@table([(f"{name}, {user}", name, user) for name in CHANGING for user in PLAIN_USERS + (ROOT,)])
def write_permission_of_the_directory(name, user):
    """Changing a directory's names needs w and x on it, by the class the caller is in."""
    shift = {"owner": 6, "group": 3, "supplementary": 3, "other": 0, "root": None}[user.name]
    os.mkdir("d")
    target(name, "d/x")
    give("spare", user)     # Linking somebody else's file may be forbidden (protected_hardlinks).
    if name in EXISTING:
        give("d/x", user)
    give("d")
    if shift is not None:
        for lacking in (2, 1):
            os.chmod("d", 0o777 & ~(lacking << shift))
            expect(errno.EACCES, ALL[name], "d/x", user=user, note=f"lacking {lacking}")
        os.chmod("d", 3 << shift)       # Only this class may.
    else:
        os.chmod("d", 0)
    expect(0, ALL[name], "d/x", user=user)


TRAILING = {
    "open create": errno.EISDIR, "open exclusive": errno.EISDIR, "creat": errno.EISDIR, "mkdir": 0,
    "mknod": errno.ENOENT, "mkfifo": errno.ENOENT, "symlink": errno.ENOENT, "link to": errno.ENOENT,
    "rename to": errno.ENOTDIR,
}


@table([(name, name) for name in NEW])
def trailing_slash_on_a_new_name(name):
    put("spare")
    expect(TRAILING[name], NEW[name], "new/")
    same(os.path.lexists("new"), TRAILING[name] == 0, "whether it was made")


@table([(name, name) for name, row in EXISTING.items() if row[1] == "file"])
def trailing_slash_on_a_file(name):
    target(name, "x")
    expect(errno.ENOTDIR, ALL[name], "x/")
    expect(errno.ENOTDIR, ALL[name], "x//")
    expect(errno.ENOTDIR, ALL[name], "x/.")
    expect(errno.ENOTDIR, ALL[name], "x/..")


@table([(name, name) for name, row in EXISTING.items() if row[1] == "directory"])
def trailing_slash_on_a_directory(name):
    os.mkdir("x")
    expect(0, ALL[name], "x//")


@table([(name, name) for name in NEW])
def existing_name(name):
    """Making what is there: EEXIST, whatever it is; only open and rename take it."""
    for kind in ("file", "directory", "symlink", "fifo"):
        put("spare")
        make(kind, kind)
        if name in ("open create", "creat"):
            want = {"file": 0, "directory": errno.EISDIR, "symlink": 0}.get(kind)
        elif name == "rename to":
            want = errno.EISDIR if kind == "directory" else 0
        else:
            want = errno.EEXIST
        if want is not None:
            expect(want, NEW[name], kind, note=f"over a {kind}")


@table([(f"{name}, {path}", NEW[name], path) for name in NEW for path in (".", "..", "d/.", "d/..", "/")])
def dots_exist(work, path):
    """They are there already; which of two complaints comes is Linux's choice."""
    put("spare")
    os.mkdir("d")
    expect((errno.EEXIST, errno.EISDIR, errno.EBUSY, errno.EXDEV), work, path)


@case
def dots_in_the_middle():
    os.makedirs("a/b")
    put("f", b"x")
    same(os.stat("a/./b/.././../f").st_ino, os.stat("f").st_ino, "inode by a crooked path")
    same(os.stat("a/..").st_ino, os.stat(".").st_ino, "inode of a/..")
    same(os.stat("a/b/..").st_ino, os.stat("a").st_ino, "inode of a/b/..")
    os.symlink("a/b", "l")
    same(os.stat("l/..").st_ino, os.stat("a").st_ino, "inode of .. behind a symlink")


@case
def dotdot_follows_a_rename():
    os.makedirs("a/b")
    os.mkdir("c")
    fd = os.open("a/b", os.O_RDONLY)
    os.rename("a/b", "c/b")
    same(os.stat("..", dir_fd=fd).st_ino, os.stat("c").st_ino, "inode of .. after the rename")


@case
def search_needs_x_not_r():
    os.mkdir("d")
    put("d/f", b"x")
    os.chmod("d", 0o711)
    expect(0, os.stat, "d/f", user=OTHER)
    expect(errno.EACCES, os.listdir, "d", user=OTHER)
    os.chmod("d", 0o744)
    expect(0, os.listdir, "d", user=OTHER)
    expect(errno.EACCES, os.stat, "d/f", user=OTHER)


@case
def calls_through_a_directory_descriptor():
    os.mkdir("d")
    put("f")
    fd = os.open("d", os.O_RDONLY)
    file_fd = os.open("f", os.O_RDONLY)
    for label, work in (("open", lambda n, d: os.close(os.open(n, os.O_CREAT | os.O_WRONLY, dir_fd=d))),
                        ("mkdir", lambda n, d: os.mkdir(n, dir_fd=d)),
                        ("symlink", lambda n, d: os.symlink("x", n, dir_fd=d)),
                        ("mkfifo", lambda n, d: os.mkfifo(n, dir_fd=d)),
                        ("link", lambda n, d: os.link("f", n, dst_dir_fd=d)),
                        ("lstat", lambda n, d: os.stat("open", dir_fd=d, follow_symlinks=False)),
                        ("chmod", lambda n, d: os.chmod("open", 0o600, dir_fd=d)),
                        ("chown", lambda n, d: os.chown("open", 1, 1, dir_fd=d)),
                        ("rename", lambda n, d: os.rename("open", n, src_dir_fd=d, dst_dir_fd=d)),
                        ("unlink", lambda n, d: os.unlink("rename", dir_fd=d))):
        expect(0, work, label, fd, note=label)
        expect(errno.ENOTDIR, work, label, file_fd, note=f"{label} at a file")
        expect(errno.EBADF, work, label, 999, note=f"{label} at no descriptor")
    os.rmdir("d/mkdir")
    for name in os.listdir("d"):
        os.unlink(f"d/{name}")
    os.rmdir("d")
    expect(errno.ENOENT, lambda: os.mkdir("x", dir_fd=fd), note="in a removed directory")
    same(os.fstat(fd).st_nlink, 0, "links of a removed directory")
