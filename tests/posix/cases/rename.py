"""rename(2) and renameat2(2): every kind upon every kind, flags, permissions, loops."""
import errno
import os
import stat

from calls import EXCHANGE, NOREPLACE, WHITEOUT, renameat2
from kit import (JOINED, KINDS, MEMBER, OTHER, OWNER, PLAIN_USERS, ROOT, being, case, expect, get, give, make, opened,
                 put, remove, result_of, same, same_names, table, true)

TARGETS = ("nothing", *KINDS, "full directory")


def make_target(kind, path):
    if kind == "full directory":
        os.mkdir(path)
        put(f"{path}/inside")
    elif kind != "nothing":
        make(kind, path)


def verdict(old, new):
    """What rename of one kind upon another says."""
    if new == "nothing":
        return 0
    if old.endswith("directory"):
        return {"directory": 0, "full directory": errno.ENOTEMPTY}.get(new, errno.ENOTDIR)
    return errno.EISDIR if new.endswith("directory") else 0


@table([(f"{old} to {new}{', elsewhere' if away else ''}", old, new, away)
        for old in (*KINDS, "full directory") for new in TARGETS for away in (False, True)])
def matrix(old, new, away):
    os.mkdir("d")
    to = "d/b" if away else "b"
    make_target(old, "a")
    make_target(new, to)
    before = os.lstat("a")
    target = os.lstat(to) if new != "nothing" else None
    want = verdict(old, new)
    expect((errno.ENOTEMPTY, errno.EEXIST) if want == errno.ENOTEMPTY else want, os.rename, "a", to)
    if want == 0:
        expect(errno.ENOENT, os.lstat, "a")
        now = os.lstat(to)
        same((now.st_ino, now.st_mode, now.st_nlink), (before.st_ino, before.st_mode, before.st_nlink),
             "inode, mode, links under the new name")
        same(os.path.exists(to + "/inside"), old == "full directory", "content of the directory moved along")
    else:
        same((os.lstat("a").st_ino, os.lstat(to).st_ino), (before.st_ino, target.st_ino), "both inodes, unchanged")
    same_names("d", ["b"] if away else [])


@table([(f"{old} to {new}, flags {flags}", old, new, flags) for flags in (NOREPLACE, EXCHANGE)
        for old in (*KINDS, "full directory") for new in TARGETS])
def flags_matrix(old, new, flags):
    os.mkdir("d")
    make_target(old, "a")
    make_target(new, "d/b")
    before = os.lstat("a")
    target = os.lstat("d/b") if new != "nothing" else None
    if flags == NOREPLACE:
        want = 0 if target is None else errno.EEXIST
    else:
        want = errno.ENOENT if target is None else 0
    expect(want, renameat2, "a", "d/b", flags)
    if flags == EXCHANGE and want == 0:
        same((os.lstat("a").st_ino, os.lstat("d/b").st_ino), (target.st_ino, before.st_ino), "inodes, exchanged")
        same(os.stat(".").st_nlink, 3 + stat.S_ISDIR(target.st_mode), "links of the directory")
        same(os.stat("d").st_nlink, 2 + stat.S_ISDIR(before.st_mode), "links of the other directory")
    elif want == 0:
        same(os.lstat("d/b").st_ino, before.st_ino, "inode")
        expect(errno.ENOENT, os.lstat, "a")
    else:
        same(os.lstat("a").st_ino, before.st_ino, "inode, unchanged")


@case
def missing_source():
    put("f")
    for flags in (0, NOREPLACE, EXCHANGE):
        expect(errno.ENOENT, renameat2, "missing", "f", flags)
        expect(errno.ENOENT, renameat2, "missing", "new", flags)


@case
def onto_itself():
    put("f", b"x")
    os.mkdir("d")
    for name in ("f", "d"):
        expect(0, os.rename, name, name)
        expect(errno.EEXIST, renameat2, name, name, NOREPLACE)
        expect(0, renameat2, name, name, EXCHANGE)
    same_names(".", ["d", "f"])


@case
def two_names_of_one_inode():
    """Nothing happens: both names stay."""
    os.mkdir("d")
    for kind in KINDS:
        if kind == "directory":
            continue
        make(kind, "a")
        os.link("a", "b", follow_symlinks=False)
        os.link("a", "d/c", follow_symlinks=False)
        expect(0, os.rename, "a", "b", note=kind)
        expect(0, os.rename, "a", "d/c", note=kind)
        same((sorted(os.listdir(".")), os.listdir("d"), os.lstat("a").st_nlink), (["a", "b", "d"], ["c"], 3),
             f"names and links of a {kind}")
        for name in ("a", "b", "d/c"):
            os.unlink(name)


@table([(str(flags), flags) for flags in (0, NOREPLACE, EXCHANGE)])
def into_itself(flags):
    os.makedirs("a/b/c")
    os.mkdir("a/x")
    os.mkdir("a/b/c/y")
    for new in ("a/new", "a/b/new", "a/b/c/new") if flags != EXCHANGE else ("a/x", "a/b/c/y"):
        expect(errno.EINVAL, renameat2, "a", new, flags, note="into its own subtree")
    same(sorted(os.listdir("a")), ["b", "x"], "names")


@case
def onto_an_ancestor():
    os.makedirs("a/b/c")
    put("a/b/f")
    for old in ("a/b", "a/b/c", "a/b/f"):
        expect((errno.ENOTEMPTY, errno.EEXIST) if old != "a/b/f" else (errno.ENOTEMPTY, errno.EISDIR), os.rename, old, "a")
    expect(errno.EINVAL, renameat2, "a/b/c", "a", EXCHANGE)
    same(os.path.isdir("a/b/c"), True, "the tree is whole")


@table([(name, name) for name in ("a/.", "a/..", ".", "..")])
def dots(name):
    os.mkdir("a")
    put("f")
    expect((errno.EBUSY, errno.EINVAL), os.rename, name, "new")
    expect((errno.EBUSY, errno.EINVAL, errno.ENOTEMPTY, errno.EEXIST), os.rename, "f", name)


@case
def trailing_slashes():
    os.mkdir("d")
    put("f")
    expect(0, os.rename, "d/", "e")
    expect(0, os.rename, "e", "d/")
    expect(0, os.rename, "d/", "e/")
    expect(errno.ENOTDIR, os.rename, "f/", "g")
    expect(errno.ENOTDIR, os.rename, "f", "g/")
    expect(errno.ENOTDIR, os.rename, "f/", "g/")
    os.mkdir("d")
    expect((errno.ENOTDIR, errno.EISDIR), os.rename, "f", "d/")
    same_names(".", ["d", "e", "f"])


@case
def odd_flags():
    put("a")
    put("b")
    for flags in (NOREPLACE | EXCHANGE, WHITEOUT | EXCHANGE, 8, 1 << 31):
        expect(errno.EINVAL, renameat2, "a", "b", flags, note=f"flags {flags}")
    same_names(".", ["a", "b"])


@case
def whiteout():
    """Leaves a character device 0:0 behind, or is refused without any effect."""
    put("a", b"x")
    code, _ = result_of(renameat2, "a", "b", WHITEOUT)
    if code:
        true(code == errno.EINVAL, f"refused with EINVAL, not {errno.errorcode[code]}")
        same_names(".", ["a"])
        return
    left = os.lstat("a")
    same((stat.S_ISCHR(left.st_mode), left.st_rdev, get("b")), (True, 0, b"x"), "whiteout and the moved file")


@case
def symlinks_are_not_followed():
    put("f", b"f")
    os.symlink("f", "l")
    os.symlink("f", "m")
    os.rename("l", "n")
    same((os.readlink("n"), get("f")), ("f", b"f"), "moved link and its target")
    put("g", b"g")
    os.rename("g", "m")
    same((get("m"), get("f"), os.path.islink("m")), (b"g", b"f", False), "a link is replaced, not its target")


@case
def a_moved_directory_keeps_what_is_below():
    os.makedirs("a/b/c")
    put("a/b/c/f", b"deep")
    fd = os.open("a/b/c/f", os.O_RDWR)
    os.mkdir("z")
    os.rename("a/b", "z/moved")
    same(get("z/moved/c/f"), b"deep", "content")
    os.write(fd, b"DEEP")
    same(get("z/moved/c/f"), b"DEEP", "content written through the old descriptor")
    expect(errno.ENOENT, os.stat, "a/b/c/f")
    same(os.listdir("a"), [], "names left")
    os.close(fd)


@case
def replaced_file_loses_a_link():
    put("a")
    put("b")
    os.link("b", "c")
    os.rename("a", "b")
    same(os.stat("c").st_nlink, 1, "links of the replaced file")


@case
def readers_never_miss_the_name():
    put("f", b"0")
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        missed = 0
        os.write(told, b".")
        for _ in range(400):
            try:
                missed += get("f") not in (b"0", b"1")
            except FileNotFoundError:
                missed += 1
        os._exit(min(missed, 100))
    os.read(ready, 1)
    for _ in range(150):
        put("new", b"1")
        os.rename("new", "f")
    same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "opens that missed the name or saw other content")


# ---- permissions

@table([(f"{user}, {place}", user, place) for user in PLAIN_USERS for place in ("source", "target")])
def needs_w_and_x_on_both_directories(user, place):
    shift = {"owner": 6, "group": 3, "supplementary": 3, "other": 0}[user.name]
    os.mkdir("source")
    os.mkdir("target")
    for name in ("source", "target"):
        put(f"{name}/f")
        give(f"{name}/f", user)
        give(name, OWNER, 0o777)
    for lacking in (1, 2):
        os.chmod(place, 0o777 & ~(lacking << shift))
        for flags in (0, EXCHANGE):
            expect(errno.EACCES, renameat2, "source/f", "target/f", flags, user=user)
    for name in ("source", "target"):
        os.chmod(name, 3 << shift)
    expect(0, renameat2, "source/f", "target/f", EXCHANGE, user=user)
    expect(0, os.rename, "source/f", "target/f", user=user)


@case
def moving_a_directory_needs_w_on_it():
    """Because its entry .. changes; inside one directory it does not."""
    os.mkdir("d")
    os.mkdir("e")
    for name in ("d", "e"):
        os.chmod(name, 0o777)
    os.mkdir("d/sub", 0o755)
    give("d/sub")
    os.mkdir("e/other", 0o777)
    give("e/other", OTHER)
    expect(errno.EACCES, os.rename, "d/sub", "e/sub", user=OTHER)
    expect(errno.EACCES, renameat2, "d/sub", "e/other", EXCHANGE, user=OTHER)
    expect(errno.EACCES, renameat2, "e/other", "d/sub", EXCHANGE, user=OTHER)
    expect(0, os.rename, "d/sub", "d/sub2", user=OTHER)
    expect(0, os.rename, "d/sub2", "e/sub", user=OWNER)
    os.chmod("e/sub", 0o555)
    expect(errno.EACCES, os.rename, "e/sub", "d/sub", user=OWNER)
    expect(0, os.rename, "e/sub", "d/sub")


def sticky_wants(user, directory_owner, file_owner):
    return 0 if user in (ROOT, directory_owner, file_owner) else (errno.EPERM, errno.EACCES)


STICKY = [(f"{user}, directory of {d}, file of {f}", user, d, f) for user in (OWNER, MEMBER, JOINED, OTHER, ROOT)
          for d in (OWNER, OTHER, ROOT) for f in (OWNER, OTHER)]


@table(STICKY)
def sticky_source(user, directory_owner, file_owner):
    os.mkdir("d")
    os.mkdir("e")
    os.chmod("e", 0o777)
    for kind in ("file", "symlink", "fifo"):
        make(kind, "d/x")
        give("d/x", file_owner)
        give("d", directory_owner, 0o1777)
        want = sticky_wants(user, directory_owner, file_owner)
        expect(want, os.rename, "d/x", "d/y", user=user, note=kind)
        expect(want, os.rename, "d/x" if want else "d/y", "e/x", user=user, note=kind)
        remove("d/x" if want else "e/x")


@table(STICKY)
def sticky_target(user, directory_owner, file_owner):
    os.mkdir("d")
    give("d", directory_owner, 0o1777)
    for kind in ("file", "directory"):
        make(kind, "x", 0o777)
        give("x", user)
        make(kind, "d/x")
        give("d/x", file_owner)
        want = sticky_wants(user, directory_owner, file_owner)
        expect(want, os.rename, "x", "d/x", user=user, note=kind)
        expect(0, os.rename, "x" if want else "d/x", "d/new", user=user, note=f"{kind} to a new name")
        remove("d/new")
        if want:
            remove("d/x")


@table(STICKY)
def sticky_removal(user, directory_owner, file_owner):
    for kind, work in (("file", os.unlink), ("symlink", os.unlink), ("fifo", os.unlink), ("directory", os.rmdir)):
        os.mkdir("d")
        make(kind, "d/x")
        give("d/x", file_owner)
        give("d", directory_owner, 0o1777)
        want = sticky_wants(user, directory_owner, file_owner)
        expect(want, work, "d/x", user=user, note=kind)
        if want:
            work("d/x")
        os.rmdir("d")


@case
def without_sticky_bit_anybody_with_w_may():
    with being(OWNER):
        put("f")
        os.mkdir("d")
    expect(0, os.rename, "f", "g", user=OTHER)
    expect(0, os.unlink, "g", user=OTHER)
    expect(0, os.rmdir, "d", user=OTHER)


@case
def current_directory_may_be_renamed():
    os.mkdir("d")
    os.chdir("d")
    os.rename("../d", "../e")
    same(os.path.basename(os.getcwd()), "e", "getcwd")
    put("f")
    same(os.listdir("../e"), ["f"], "names")


@case
def deep_moves_there_and_back():
    os.makedirs("a/b/c/d/e")
    os.makedirs("x/y")
    for _ in range(10):
        os.rename("a/b/c", "x/y/c")
        true(os.path.isdir("x/y/c/d/e"), "moved there")
        os.rename("x", "a/b/x")
        true(os.path.isdir("a/b/x/y/c/d/e"), "moved below")
        os.rename("a/b/x/y/c", "a/b/c")
        os.rename("a/b/x", "x")
    same_names(".", ["a", "x"])


@case
def crossing_moves_do_not_make_a_loop():
    """a below b and b below a at the same time: one of them fails."""
    for round_ in range(20):
        os.mkdir("a")
        os.mkdir("b")
        pids = []
        for old, new in (("a", "b/a"), ("b", "a/b")):
            pid = os.fork()
            if pid == 0:
                os._exit(result_of(os.rename, old, new)[0])
            pids.append(pid)
        codes = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
        true(codes in ([0, errno.ENOENT], [0, errno.EINVAL]), f"round {round_}: exactly one succeeded, {codes}")
        top = os.listdir(".")[0]
        os.rmdir(f"{top}/{os.listdir(top)[0]}")
        os.rmdir(top)


@case
def a_file_moves_with_its_open_descriptor():
    put("f", b"abc")
    with opened("f") as fd:
        os.rename("f", "g")
        os.pwrite(fd, b"X", 0)
        same((get("g"), os.fstat(fd).st_nlink), (b"Xbc", 1), "content and links")
        put("f", b"new")
        same(os.pread(fd, 9, 0), b"Xbc", "content by the descriptor")
    same(get("f"), b"new", "content of the old name")


@case
def into_a_file_or_nothing():
    put("f")
    put("g")
    expect(errno.ENOTDIR, os.rename, "f", "g/x")
    expect(errno.ENOENT, os.rename, "f", "missing/x")
