"""Extended attributes: name spaces, limits, flags, permissions."""
import ctypes
import errno
import os

from calls import BAD, call
from kit import (JOINED, MEMBER, OTHER, OWNER, PLAIN_USERS, ROOT, USERS, case, expect, give, make, opened, put,
                 randomness, result_of, same, table, true)

KINDS = ("file", "directory")


@table([(kind, kind) for kind in KINDS])
def life(kind):
    make(kind, "x")
    same(os.listxattr("x"), [], "attributes of a new thing")
    expect(errno.ENODATA, os.getxattr, "x", "user.a")
    expect(errno.ENODATA, os.removexattr, "x", "user.a")
    expect(errno.ENODATA, os.setxattr, "x", "user.a", b"1", os.XATTR_REPLACE)
    expect(0, os.setxattr, "x", "user.a", b"1", os.XATTR_CREATE)
    expect(errno.EEXIST, os.setxattr, "x", "user.a", b"2", os.XATTR_CREATE)
    same(os.getxattr("x", "user.a"), b"1", "value")
    expect(0, os.setxattr, "x", "user.a", b"longer value", os.XATTR_REPLACE)
    expect(0, os.setxattr, "x", "user.b", b"")
    same((os.getxattr("x", "user.a"), os.getxattr("x", "user.b")), (b"longer value", b""), "values")
    same(sorted(os.listxattr("x")), ["user.a", "user.b"], "names")
    expect(0, os.removexattr, "x", "user.a")
    same(os.listxattr("x"), ["user.b"], "names after removal")


@case
def odd_flags():
    put("f")
    expect(errno.EINVAL, os.setxattr, "f", "user.a", b"1", 4)
    expect((errno.EINVAL, errno.EEXIST, errno.ENODATA), os.setxattr, "f", "user.a", b"1", 3)
    same(os.listxattr("f"), [], "names")


@case
def sizes_asked_and_too_small():
    put("f")
    os.setxattr("f", "user.a", b"12345")
    buffer = ctypes.create_string_buffer(100)
    same(call("getxattr", "f", "user.a", None, 0), 5, "size of the value")
    same(call("listxattr", "f", None, 0), 7, "size of the names")
    expect(errno.ERANGE, lambda: call("getxattr", "f", "user.a", buffer, 4))
    expect(errno.ERANGE, lambda: call("listxattr", "f", buffer, 6))
    same((call("getxattr", "f", "user.a", buffer, 5), buffer.raw[:5]), (5, b"12345"), "value in a buffer that just fits")
    expect(errno.EFAULT, lambda: call("setxattr", "f", "user.a", BAD, 5, 0))
    expect(errno.EFAULT, lambda: call("setxattr", "f", BAD, buffer, 5, 0))


@case
def name_limits():
    put("f")
    longest = "user." + "n" * 250
    expect(0, os.setxattr, "f", longest, b"v")
    same((os.getxattr("f", longest), os.listxattr("f")), (b"v", [longest]), "value and name")
    expect(errno.ERANGE, os.setxattr, "f", longest + "n", b"v")
    expect(errno.ERANGE, os.getxattr, "f", longest + "n")
    expect(errno.ERANGE, os.setxattr, "f", "", b"v")
    expect((errno.EINVAL, errno.EOPNOTSUPP), os.setxattr, "f", "user.", b"v")


@case
def names_are_bytes_and_case_counts():
    put("f")
    names = [b"user.a", b"user.A", b"user.\xff\xfe", b"user.a.b.c", b"user. ", b"user.\xc3\xa9"]
    for index, name in enumerate(names):
        os.setxattr("f", name, b"%d" % index)
    for index, name in enumerate(names):
        same(os.getxattr("f", name), b"%d" % index, f"value of {name!r}")
    same(sorted(map(os.fsencode, os.listxattr("f"))), sorted(names), "names")


@table([(str(size), size) for size in (1, 100, 1024, 2000, 3000, 4000, 16384, 65536)])
def value_sizes(size):
    """Up to what the file system takes; beyond it ENOSPC or E2BIG, and nothing happened."""
    put("f")
    value = randomness(f"value {size}").randbytes(size)
    code, _ = result_of(os.setxattr, "f", "user.a", value)
    if size > 3000:
        true(code in (0, errno.ENOSPC, errno.E2BIG), f"error {code} for a large value is ENOSPC or E2BIG")
    else:
        same(code, 0, "setting the value")
    if code == 0:
        same(os.getxattr("f", "user.a"), value, "value")
    else:
        expect(errno.ENODATA, os.getxattr, "f", "user.a")


@case
def value_too_big_for_linux():
    put("f")
    expect(errno.E2BIG, os.setxattr, "f", "user.a", b"x" * 65537)


@case
def many_attributes():
    put("f")
    values = {}
    for index in range(100):
        if result_of(os.setxattr, "f", f"user.{index}", b"%d" % index)[0]:
            break
        values[f"user.{index}"] = b"%d" % index
    true(len(values) >= 30, f"at least 30 small attributes, {len(values)} went in")
    same({n: os.getxattr("f", n) for n in os.listxattr("f")}, values, "names and values")
    for name in sorted(values)[::2]:
        os.removexattr("f", name)
        del values[name]
    same(sorted(os.listxattr("f")), sorted(values), "names after removing every other")


@table([(kind, kind) for kind in ("symlink", "fifo", "socket", "character device", "block device")])
def user_attributes_are_for_files_and_directories(kind):
    make(kind, "x", 0o666)
    expect(errno.EPERM, os.setxattr, "x", "user.a", b"1", follow_symlinks=False)
    expect((errno.ENODATA, errno.EPERM), os.getxattr, "x", "user.a", follow_symlinks=False)
    same(os.listxattr("x", follow_symlinks=False), [], "names")


@table([(kind, kind) for kind in ("file", "directory", "symlink", "fifo")])
def trusted(kind):
    """For root only; others do not even see it."""
    make(kind, "x", 0o777)
    code, _ = result_of(os.setxattr, "x", "trusted.a", b"1", follow_symlinks=False)
    if code == errno.EOPNOTSUPP:
        return
    same(code, 0, "root sets trusted.a")
    same(os.getxattr("x", "trusted.a", follow_symlinks=False), b"1", "value")
    same(os.listxattr("x", follow_symlinks=False), ["trusted.a"], "names for root")
    expect(errno.EPERM, os.setxattr, "x", "trusted.b", b"1", follow_symlinks=False, user=OTHER)
    expect(errno.ENODATA, os.getxattr, "x", "trusted.a", follow_symlinks=False, user=OTHER)
    expect(errno.EPERM, os.removexattr, "x", "trusted.a", follow_symlinks=False, user=OTHER)
    same(expect(0, os.listxattr, "x", follow_symlinks=False, user=OTHER), [], "names for others")


@case
def security():
    """Readable by all, written with a privilege; may be refused clearly."""
    put("f", b"", 0o666)
    code, _ = result_of(os.setxattr, "f", "security.test", b"1")
    if code == errno.EOPNOTSUPP:
        return
    same(code, 0, "root sets security.test")
    same(expect(0, os.getxattr, "f", "security.test", user=OTHER), b"1", "value read by others")
    expect((errno.EPERM, errno.EACCES), os.setxattr, "f", "security.test", b"2", user=OTHER)
    true("security.test" in os.listxattr("f"), "it is listed")


@table([(name, name) for name in ("other.a", "nonamespace", "system.unknown", "users.a", "User.a")])
def unknown_name_spaces(name):
    put("f")
    expect((errno.EOPNOTSUPP,), os.setxattr, "f", name, b"1")
    expect((errno.EOPNOTSUPP, errno.ENODATA), os.getxattr, "f", name)
    expect((errno.EOPNOTSUPP, errno.ENODATA), os.removexattr, "f", name)


@table([(f"{kind}, {user}, {mode:03o}", kind, user, mode) for kind in KINDS for user in USERS
        for mode in (0o000, 0o444, 0o222, 0o777)])
def rights(kind, user, mode):
    """r to read, w to change a value; listing needs neither."""
    make(kind, "x")
    os.setxattr("x", "user.a", b"1")
    give("x")
    os.chmod("x", mode)
    reads, writes = user is ROOT or mode & 0o444, user is ROOT or mode & 0o222
    expect(0 if reads else errno.EACCES, os.getxattr, "x", "user.a", user=user)
    expect(0 if writes else errno.EACCES, os.setxattr, "x", "user.a", b"2", user=user)
    expect(0 if writes else errno.EACCES, os.setxattr, "x", "user.new", b"2", user=user)
    same(sorted(expect(0, os.listxattr, "x", user=user)), ["user.a"] + ["user.new"] * bool(writes), "names")
    expect(0 if writes else errno.EACCES, os.removexattr, "x", "user.a", user=user)


@case
def sticky_directories_are_for_their_owner():
    os.mkdir("d")
    give("d", OWNER, 0o1777)
    for user in PLAIN_USERS:
        expect(0 if user is OWNER else errno.EPERM, os.setxattr, "d", "user.a", b"1", user=user)


@case
def by_descriptor_and_through_symlinks():
    put("f")
    os.symlink("f", "l")
    with opened("f", os.O_RDONLY) as fd:
        os.setxattr(fd, "user.a", b"1")
        same((os.getxattr("l", "user.a"), os.listxattr(fd)), (b"1", ["user.a"]), "value through the link, names")
        os.removexattr(fd, "user.a")
    expect(errno.ENODATA, os.getxattr, "f", "user.a")
    with opened("f", os.O_PATH) as fd:
        expect(errno.EBADF, os.getxattr, fd, "user.a")


@case
def they_go_with_the_inode():
    put("f")
    os.setxattr("f", "user.a", b"1")
    os.link("f", "g")
    os.rename("f", "h")
    put("h", b"new content")
    same((os.getxattr("g", "user.a"), os.getxattr("h", "user.a")), (b"1", b"1"), "after link, rename, rewrite")
    os.unlink("g")
    os.unlink("h")
    put("h")
    same(os.listxattr("h"), [], "names of a new file of that name")


@table([(str(user), user) for user in (MEMBER, JOINED, OTHER)])
def acl_attributes_are_for_the_owner(user):
    put("f")
    give("f", OWNER, 0o666)
    value = bytes.fromhex("02000000") + b"".join(
        bytes.fromhex(f"{tag:02x}00{bits:02x}00ffffffff") for tag, bits in ((1, 6), (4, 4), (32, 4)))
    expect((errno.EPERM, errno.EOPNOTSUPP), os.setxattr, "f", "system.posix_acl_access", value, user=user)
