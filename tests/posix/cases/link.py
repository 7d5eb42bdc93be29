"""Hard links, symbolic links, unlink, mkdir and rmdir."""
import errno
import os
import stat

from calls import AT_REMOVEDIR, AT_SYMLINK_FOLLOW, call, linkat
from kit import (JOINED, KINDS, MEMBER, OTHER, OWNER, PLAIN_USERS, ROOT, Skip, being, case, expect, get, give, make, opened,
                 put, remove, same, same_names, system_setting, table, touch, true)


# ---- link

@table([(kind, kind) for kind in KINDS if kind != "directory"])
def link_kinds(kind):
    make(kind, "a", 0o640)
    before = os.lstat("a")
    expect(0, os.link, "a", "b", follow_symlinks=False)
    for name in ("a", "b"):
        now = os.lstat(name)
        same((now.st_ino, now.st_nlink, now.st_mode), (before.st_ino, 2, before.st_mode), f"inode, links, mode of {name}")
    os.chown("b", 65001, 65101, follow_symlinks=False)
    same(os.lstat("a").st_uid, 65001, "owner by the other name")
    os.unlink("a")
    same(os.lstat("b").st_nlink, 1, "links after unlink")
    expect(errno.ENOENT, os.lstat, "a")
    os.unlink("b")
    expect(errno.ENOENT, os.lstat, "b")


@table([(str(user), user) for user in PLAIN_USERS + (ROOT,)])
def directories_have_no_hard_links(user):
    os.mkdir("d")
    give("d", user)
    expect(errno.EPERM, os.link, "d", "e", user=user)
    same(os.stat("d").st_nlink, 2, "links")


@case
def link_content_is_shared():
    put("a", b"one")
    os.mkdir("d")
    os.link("a", "d/b")
    put("d/b", b"two!")
    same((get("a"), os.stat("a").st_size), (b"two!", 4), "content and size by the first name")
    with opened("a") as fd:
        os.pwrite(fd, b"T", 0)
        same(get("d/b"), b"Two!", "read by the second name while the first is open")
    os.chmod("a", 0o600)
    same(stat.S_IMODE(os.stat("d/b").st_mode), 0o600, "mode by the second name")
    os.truncate("d/b", 1)
    same(get("a"), b"T", "content by the first name after truncate")
    os.setxattr("a", "user.x", b"1")
    same(os.getxattr("d/b", "user.x"), b"1", "xattr by the second name")


@case
def link_of_a_symlink():
    put("f")
    os.symlink("f", "l")
    linkat("l", "m")
    true(stat.S_ISLNK(os.lstat("m").st_mode), "linkat without flags links the link")
    linkat("l", "n", AT_SYMLINK_FOLLOW)
    same(os.lstat("n").st_ino, os.stat("f").st_ino, "linkat with AT_SYMLINK_FOLLOW")
    same(os.lstat("l").st_nlink, 2, "links of the symlink")


@case
def linkat_flags():
    put("f")
    expect(errno.EINVAL, linkat, "f", "g", 1)
    expect(errno.ENOENT, linkat, "", "g")
    with opened("f") as fd:
        expect(0, linkat, "", "g", 0x1000, fd)
    same(os.stat("f").st_nlink, 2, "links")


@case
def many_links():
    put("f")
    for index in range(300):
        os.link("f", f"l{index}")
    same(os.stat("f").st_nlink, 301, "links")
    for index in range(300):
        os.unlink(f"l{index}")
    same(os.stat("f").st_nlink, 1, "links after all went")


@case
def link_does_not_take_a_name():
    for kind in KINDS:
        put("f")
        make(kind, "x")
        expect(errno.EEXIST, os.link, "f", "x", note=f"over a {kind}")
        remove("x")
    same(os.stat("f").st_nlink, 1, "links")


@case
def link_of_foreign_files():
    """protected_hardlinks: only what one may read and write, or owns, and no set-id programs."""
    if not system_setting("protected_hardlinks"):
        raise Skip("fs.protected_hardlinks is off")
    put("f", b"", 0o644)
    expect(errno.EPERM, os.link, "f", "g", user=OTHER)
    os.chmod("f", 0o666)
    expect(0, os.link, "f", "g", user=OTHER)
    os.chmod("f", 0o4777)
    expect(errno.EPERM, os.link, "f", "h", user=OTHER)
    expect(0, os.link, "f", "h")


@case
def link_across_file_systems():
    put("f")
    if os.stat("/dev/shm").st_dev == os.stat(".").st_dev:
        raise Skip("no other file system")
    away = f"/dev/shm/posix-{os.getpid()}"
    expect(errno.EXDEV, os.link, "f", away)
    expect(errno.EXDEV, os.rename, "f", away)
    put(away)
    try:
        expect(errno.EXDEV, os.link, away, "g")
        expect(errno.EXDEV, os.rename, away, "g")
    finally:
        os.unlink(away)


# ---- unlink

@table([(kind, kind) for kind in KINDS])
def unlink_kinds(kind):
    make(kind, "x")
    expect(errno.EISDIR if kind == "directory" else 0, os.unlink, "x")
    same(os.path.lexists("x"), kind == "directory", "whether it is there")


@table([(kind, kind) for kind in KINDS])
def rmdir_kinds(kind):
    make(kind, "x")
    expect(0 if kind == "directory" else errno.ENOTDIR, os.rmdir, "x")
    same(os.path.lexists("x"), kind != "directory", "whether it is there")


@case
def unlinkat_flags():
    os.mkdir("d")
    put("f")
    expect(errno.EINVAL, lambda: call("unlinkat", -100, "f", 1))
    expect(errno.EISDIR, lambda: call("unlinkat", -100, "d", 0))
    expect(errno.ENOTDIR, lambda: call("unlinkat", -100, "f", AT_REMOVEDIR))
    expect(0, lambda: call("unlinkat", -100, "d", AT_REMOVEDIR))
    expect(0, lambda: call("unlinkat", -100, "f", 0))


@case
def unlink_of_a_read_only_file():
    """The file's own mode does not matter."""
    put("f", b"", 0)
    expect(0, os.unlink, "f", user=OTHER)


@case
def unlink_removes_the_symlink_not_the_target():
    put("f")
    os.symlink("f", "l")
    os.unlink("l")
    same_names(".", ["f"])
    os.mkdir("d")
    os.symlink("d", "l")
    expect(errno.ENOTDIR, os.rmdir, "l")
    expect(errno.ENOTDIR, os.rmdir, "l/")
    os.unlink("l")
    same_names(".", ["d", "f"])


@case
def open_unlinked_file_lives():
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(fd, b"before")
    os.unlink("f")
    expect(errno.ENOENT, os.stat, "f")
    os.write(fd, b" after")
    same((os.pread(fd, 100, 0), os.fstat(fd).st_nlink, os.fstat(fd).st_size), (b"before after", 0, 12), "content, links, size")
    os.ftruncate(fd, 3)
    os.fchmod(fd, 0o600)
    os.fchown(fd, 65001, 65101)
    os.utime(fd, ns=(10**18, 2 * 10**18))
    os.fsync(fd)
    now = os.fstat(fd)
    same((now.st_size, stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid, now.st_atime_ns, now.st_mtime_ns),
         (3, 0o600, 65001, 65101, 10**18, 2 * 10**18), "attributes set after unlink")
    put("f", b"new")
    true(os.stat("f").st_ino != now.st_ino, "the new file has another inode")
    expect(errno.ENOENT, linkat, f"/proc/self/fd/{fd}", "g", AT_SYMLINK_FOLLOW)
    same(os.pread(fd, 100, 0), b"bef", "content at last")
    os.close(fd)
    same(get("f"), b"new", "content of the new file")


@case
def xattrs_of_an_open_unlinked_file():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        os.setxattr(fd, "user.before", b"1")
        os.unlink("f")
        same(os.getxattr(fd, "user.before"), b"1", "attribute set before")
        os.setxattr(fd, "user.after", b"2")
        same((os.getxattr(fd, "user.after"), sorted(os.listxattr(fd))), (b"2", ["user.after", "user.before"]), "attributes")
        os.removexattr(fd, "user.before")
        expect(errno.ENODATA, os.getxattr, fd, "user.before")


@case
def open_replaced_file_lives():
    put("f", b"old")
    put("g", b"new")
    with opened("f") as fd:
        os.rename("g", "f")
        same((os.pread(fd, 9, 0), os.fstat(fd).st_nlink, get("f")), (b"old", 0, b"new"), "old content, links, new content")
        os.pwrite(fd, b"OLD", 0)
        same((os.pread(fd, 9, 0), get("f")), (b"OLD", b"new"), "after a write to the old one")


@case
def removed_current_directory():
    os.mkdir("d")
    os.chdir("d")
    os.rmdir("../d")
    for label, work in (("create", lambda: touch("x", os.O_CREAT | os.O_WRONLY)), ("mkdir", lambda: os.mkdir("x")),
                        ("symlink", lambda: os.symlink("t", "x")), ("stat", lambda: os.stat("x")),
                        ("getcwd", os.getcwd)):
        expect(errno.ENOENT, work, note=label)
    same((os.listdir("."), os.stat(".").st_nlink), ([], 0), "names and links")
    os.chdir("/")


# ---- rmdir, mkdir

@table([(kind, kind) for kind in KINDS])
def rmdir_of_a_directory_with(kind):
    os.mkdir("d")
    make(kind, "d/x")
    expect((errno.ENOTEMPTY, errno.EEXIST), os.rmdir, "d")
    remove("d/x")
    expect(0, os.rmdir, "d")


@case
def rmdir_of_dots():
    os.makedirs("a/b")
    expect(errno.EINVAL, os.rmdir, "a/.")
    expect((errno.ENOTEMPTY, errno.EEXIST), os.rmdir, "a/b/..")
    expect(0, os.rmdir, "a/b")


@case
def rmdir_of_a_mount_point():
    expect((errno.EBUSY, errno.EACCES), os.rmdir, "/proc")


@case
def rmdir_of_the_current_directory():
    os.mkdir("d")
    os.chdir("d")
    expect(errno.EINVAL, os.rmdir, ".")
    expect(0, os.rmdir, os.path.join(os.path.dirname(os.getcwd()), "d"))


@case
def link_counts_of_directories():
    os.mkdir("d")
    same(os.stat("d").st_nlink, 2, "links of an empty directory")
    base = os.stat(".").st_nlink
    for index in range(5):
        os.mkdir(f"d/{index}")
        same(os.stat("d").st_nlink, 3 + index, f"links with {index + 1} directories")
    put("d/file")
    os.symlink("0", "d/link")
    same(os.stat("d").st_nlink, 7, "links: files do not count")
    os.rmdir("d/0")
    same(os.stat("d").st_nlink, 6, "links after rmdir")
    os.rename("d/1", "e")
    same((os.stat("d").st_nlink, os.stat(".").st_nlink), (5, base + 1), "links after a directory moved away")
    os.rename("e", "d/2")
    same((os.stat("d").st_nlink, os.stat(".").st_nlink), (5, base), "links after it took another's name")
    os.rename("d/2", "d/3")
    same(os.stat("d").st_nlink, 4, "links after a replacement inside")


@case
def mkdir_over_things():
    for kind in KINDS:
        make(kind, "x")
        expect(errno.EEXIST, os.mkdir, "x", note=f"over a {kind}")
        remove("x")
    os.mkdir("d")
    os.symlink("d", "l")
    expect(errno.EEXIST, os.mkdir, "l")
    os.symlink("missing", "m")
    expect(errno.EEXIST, os.mkdir, "m")
    expect(errno.EEXIST, os.mkdir, "m/")


@case
def entries_go_with_their_directory():
    """A new directory of an old name is empty, a file of an old name is new."""
    for round_ in range(5):
        os.mkdir("d")
        put("d/f", b"%d" % round_)
        same(os.listdir("d"), ["f"], "names")
        same(get("d/f"), b"%d" % round_, "content")
        os.unlink("d/f")
        os.rmdir("d")
        expect(errno.ENOENT, os.stat, "d/f")


# ---- symlink, readlink

@table([(str(length), length) for length in (1, 59, 60, 61, 255, 1000, 4000, 4095)])
def symlink_lengths(length):
    target = ("t" * 200 + "/") * 21
    os.symlink(target[:length], "l")
    same((os.readlink("l"), os.lstat("l").st_size), (target[:length], length), "target and size")


@case
def symlink_too_long():
    expect(errno.ENAMETOOLONG, os.symlink, "t" * 4096, "l")
    expect(errno.ENOENT, os.symlink, "", "l")


@case
def symlink_targets_are_bytes():
    for index, target in enumerate((b"\xff\xfe", b"a b\nc", b"//x//", b"..", b"/", b"\xc3\xa9", b"%s%n")):
        os.symlink(target, b"l%d" % index)
        same(os.readlink(b"l%d" % index), target, "target")


@table([(kind, kind) for kind in KINDS if kind != "symlink"])
def readlink_of_other_things(kind):
    make(kind, "x")
    expect(errno.EINVAL, os.readlink, "x")


@case
def readlink_cuts_and_needs_room():
    import ctypes
    os.symlink("abcdef", "l")
    buffer = ctypes.create_string_buffer(b"\0" * 10)
    same((call("readlink", "l", buffer, 3), buffer.raw[:4]), (3, b"abc\0"), "cut target")
    expect(errno.EINVAL, lambda: call("readlink", "l", buffer, 0))


@case
def symlink_mode_means_nothing():
    put("f", b"x")
    with being(OWNER):
        os.symlink("f", "l")
    for user in (OWNER, MEMBER, JOINED, OTHER):
        expect(0, os.readlink, "l", user=user)
        expect(0, touch, "l", user=user)
    expect((errno.EOPNOTSUPP, errno.EINVAL), lambda: call("fchmodat", -100, "l", 0o600, 0x100))


@case
def symlinks_in_sticky_directories():
    """protected_symlinks: only one's own, or the directory owner's."""
    if not system_setting("protected_symlinks"):
        raise Skip("fs.protected_symlinks is off")
    os.mkdir("d")
    os.chmod("d", 0o1777)
    put("f", b"x")
    with being(OWNER):
        os.symlink("../f", "d/l")
    expect(errno.EACCES, touch, "d/l", user=OTHER)
    expect(0, touch, "d/l", user=OWNER)
    expect(0, os.readlink, "d/l", user=OTHER)


@case
def magic_targets():
    os.symlink("/proc/self/cwd/f", "l")
    put("f", b"here")
    same(get("l"), b"here", "content through an absolute link")
    os.mkdir("d")
    os.symlink("../f", "d/l")
    same(get("d/l"), b"here", "content through a relative link, which starts at its directory")
