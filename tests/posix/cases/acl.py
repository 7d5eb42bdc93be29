"""POSIX access control lists through their attributes, system.posix_acl_access and _default."""
import errno
import os
import stat
import struct

from kit import (JOINED, MEMBER, OTHER, OWNER, ROOT, User, case as plain_case, expect, give, make, mode_of, put,
                 result_of, same, same_mode, table as plain_table, touch, true)

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
USER_OBJ, USER_TAG, GROUP_OBJ, GROUP_TAG, MASK, OTHERS = 1, 2, 4, 8, 16, 32
NOBODY = 0xffffffff
NAMED = User("named user", 65010, 65110)
IN_NAMED = User("of the named group", 65011, 65111, (65120,))
NAMED_GROUP = 65120


def without_lists():
    """True if lists are refused, and clearly: then there is nothing more to show."""
    put("probe")
    code, _ = result_of(os.setxattr, "probe", ACCESS, acl((USER_OBJ, 6), (GROUP_OBJ, 4), (OTHERS, 4)))
    os.unlink("probe")
    return code == errno.EOPNOTSUPP


def case(work):
    def wrapped():
        if not without_lists():
            work()
    wrapped.__name__, wrapped.__module__ = work.__name__, work.__module__
    return plain_case(wrapped)


def table(rows):
    def register(work):
        def wrapped(*args):
            if not without_lists():
                work(*args)
        wrapped.__name__, wrapped.__module__ = work.__name__, work.__module__
        return plain_table(rows)(wrapped)
    return register


def acl(*entries):
    """Bytes of a list; an entry is (tag, bits) or (tag, bits, id)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", e[0], e[1], e[2] if len(e) > 2 else NOBODY) for e in entries)


def entries(path, name=ACCESS):
    data = os.getxattr(path, name)
    true(struct.unpack_from("<I", data)[0] == 2, "version 2")
    return [struct.unpack_from("<HHI", data, 4 + 8 * i) for i in range((len(data) - 4) // 8)]


def bits_of(path, tag, name=ACCESS):
    return [bits for t, bits, _ in entries(path, name) if t == tag]


def full(user=6, named=6, group=4, named_group=4, mask=7, others=0):
    return acl((USER_OBJ, user), (USER_TAG, named, NAMED.uid), (GROUP_OBJ, group), (GROUP_TAG, named_group, NAMED_GROUP),
               (MASK, mask), (OTHERS, others))


@case
def set_and_get():
    put("f")
    expect(errno.ENODATA, os.getxattr, "f", ACCESS)
    expect(0, os.setxattr, "f", ACCESS, full())
    same(os.getxattr("f", ACCESS), full(), "the list")
    true(ACCESS in os.listxattr("f"), "it is listed")
    expect(0, os.removexattr, "f", ACCESS)
    expect(errno.ENODATA, os.getxattr, "f", ACCESS)
    true(ACCESS not in os.listxattr("f"), "it is not listed any more")


@case
def minimal_list_is_the_mode():
    put("f")
    os.setxattr("f", ACCESS, acl((USER_OBJ, 7), (GROUP_OBJ, 5), (OTHERS, 1)))
    same_mode("f", 0o751)
    expect(errno.ENODATA, os.getxattr, "f", ACCESS)


@case
def mode_shows_the_mask():
    put("f")
    os.setxattr("f", ACCESS, full(user=7, group=1, mask=6, others=3))
    same_mode("f", 0o763)


@case
def chmod_changes_the_mask():
    put("f")
    os.setxattr("f", ACCESS, full(group=4, mask=7))
    os.chmod("f", 0o521)
    same((bits_of("f", USER_OBJ), bits_of("f", GROUP_OBJ), bits_of("f", MASK), bits_of("f", OTHERS)),
         ([5], [4], [2], [1]), "owner, group, mask, others")


@case
def chmod_without_a_mask_changes_the_group():
    put("f")
    os.setxattr("f", ACCESS, acl((USER_OBJ, 6), (GROUP_OBJ, 4), (OTHERS, 4)))
    os.chmod("f", 0o670)
    same_mode("f", 0o670)


WRONG = {
    "version": struct.pack("<I", 1) + acl((USER_OBJ, 6), (GROUP_OBJ, 4), (OTHERS, 4))[4:],
    "cut": full()[:-1],
    "no owner": acl((GROUP_OBJ, 4), (OTHERS, 4)),
    "no group": acl((USER_OBJ, 6), (OTHERS, 4)),
    "no others": acl((USER_OBJ, 6), (GROUP_OBJ, 4)),
    "named without mask": acl((USER_OBJ, 6), (USER_TAG, 6, 1), (GROUP_OBJ, 4), (OTHERS, 4)),
    "two owners": acl((USER_OBJ, 6), (USER_OBJ, 6), (GROUP_OBJ, 4), (OTHERS, 4)),
    "wrong order": acl((GROUP_OBJ, 4), (USER_OBJ, 6), (OTHERS, 4)),
    "unknown tag": acl((USER_OBJ, 6), (GROUP_OBJ, 4), (64, 4), (OTHERS, 4)),
    "bits": acl((USER_OBJ, 15), (GROUP_OBJ, 4), (OTHERS, 4)),
}


@table([(name, value) for name, value in WRONG.items()])
def malformed(value):
    put("f")
    os.mkdir("d")
    for path, name in (("f", ACCESS), ("d", ACCESS), ("d", DEFAULT)):
        expect((errno.EINVAL, errno.EOPNOTSUPP) if value is WRONG["version"] else errno.EINVAL,
               os.setxattr, path, name, value, note=name)
    same_mode("f", 0o644)


@case
def default_lists_are_for_directories():
    put("f")
    expect(errno.EACCES, os.setxattr, "f", DEFAULT, full())
    os.mkdir("d")
    expect(errno.ENODATA, os.getxattr, "d", DEFAULT)
    expect(0, os.setxattr, "d", DEFAULT, full())
    same(os.getxattr("d", DEFAULT), full(), "default list")
    same_mode("d", 0o755, "which it does not change")
    expect(errno.ENODATA, os.getxattr, "d", ACCESS)
    expect(0, os.removexattr, "d", DEFAULT)
    expect(errno.ENODATA, os.getxattr, "d", DEFAULT)


@case
def symlinks_have_none():
    os.symlink("f", "l")
    expect(errno.EOPNOTSUPP, os.setxattr, "l", ACCESS, full(), follow_symlinks=False)


# Who, with the list of `full` and these changes, may do what: r = 4, w = 2.
CHECKS = [
    ("named user", NAMED, {}, 6),
    ("named user, masked", NAMED, {"mask": 4}, 4),
    ("named user, nothing", NAMED, {"named": 0, "others": 6}, 0),
    ("named group", IN_NAMED, {}, 4),
    ("named group, masked", IN_NAMED, {"named_group": 6, "mask": 2}, 2),
    ("owning group", MEMBER, {}, 4),
    ("owning group, masked", MEMBER, {"group": 6, "mask": 2}, 2),
    ("owning group by supplementary group", JOINED, {"group": 6}, 6),
    ("group without bits does not fall to others", MEMBER, {"group": 0, "others": 6}, 0),
    ("owner is not masked", OWNER, {"mask": 0}, 6),
    ("owner without bits", OWNER, {"user": 0, "others": 6, "group": 6}, 0),
    ("others", OTHER, {"others": 4}, 4),
    ("others are not masked", OTHER, {"others": 6, "mask": 0}, 6),
    ("others without bits", OTHER, {}, 0),
    ("root", ROOT, {"user": 0, "mask": 0}, 6),
]


@table(CHECKS)
def access(user, changes, bits):
    put("f", b"x")
    give("f")
    os.setxattr("f", ACCESS, full(**changes))
    for flags, need in ((os.O_RDONLY, 4), (os.O_WRONLY, 2), (os.O_RDWR, 6)):
        expect(0 if bits & need == need else errno.EACCES, touch, "f", flags, user=user)
    expect(0 if bits & 4 else errno.EACCES, lambda: os.access("f", os.R_OK) or refuse(), user=user)


def refuse():
    raise PermissionError(errno.EACCES, "access says no")


@table(CHECKS)
def access_to_a_directory(user, changes, bits):
    os.mkdir("d")
    put("d/f", b"x")
    give("d")
    changed = {key: value | 1 if value else 0 for key, value in
               {"user": 6, "named": 6, "group": 4, "named_group": 4, "mask": 7, "others": 0, **changes}.items()}
    os.setxattr("d", ACCESS, full(**changed))
    may = 7 if user is ROOT else bits | (1 if bits else 0)
    expect(0 if may & 4 else errno.EACCES, os.listdir, "d", user=user)
    expect(0 if may & 1 else errno.EACCES, os.stat, "d/f", user=user)
    expect(0 if may & 3 == 3 else errno.EACCES, os.mkdir, "d/new", user=user)


@case
def two_groups_are_joined_only_if_one_grants_all():
    """A caller in two listed groups: one entry must grant everything asked."""
    put("f")
    give("f")
    os.setxattr("f", ACCESS, acl((USER_OBJ, 6), (GROUP_OBJ, 4), (GROUP_TAG, 2, NAMED_GROUP), (MASK, 7), (OTHERS, 0)))
    both = User("in both groups", 65012, 65101, (65120,))
    expect(0, touch, "f", os.O_RDONLY, user=both)
    expect(0, touch, "f", os.O_WRONLY, user=both)
    expect(errno.EACCES, touch, "f", os.O_RDWR, user=both)


@case
def list_is_felt_at_once():
    put("f", b"x", 0o600)
    for _ in range(10):
        os.setxattr("f", ACCESS, full(named=4))
        expect(0, touch, "f", os.O_RDONLY, user=NAMED)
        os.removexattr("f", ACCESS)
        os.chmod("f", 0o600)
        expect(errno.EACCES, touch, "f", os.O_RDONLY, user=NAMED)


MAKERS = {"file": lambda path, mode: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode)), "directory": os.mkdir,
          "fifo": os.mkfifo, "node": lambda path, mode: os.mknod(path, stat.S_IFREG | mode)}


@table([(f"{kind}, mode {mode:03o}, umask {mask:03o}", kind, mode, mask) for kind in MAKERS
        for mode in (0o777, 0o666, 0o640, 0o000) for mask in (0o022, 0o077, 0)])
def inheritance(kind, mode, mask):
    """A default list replaces the umask; the asked mode limits owner, mask and others."""
    os.mkdir("d")
    os.setxattr("d", DEFAULT, full(user=7, named=7, group=5, named_group=5, mask=7, others=5))
    os.umask(mask)
    expect(0, MAKERS[kind], "d/x", mode)
    os.umask(0o022)
    same((bits_of("d/x", USER_OBJ), bits_of("d/x", USER_TAG), bits_of("d/x", GROUP_OBJ), bits_of("d/x", GROUP_TAG),
          bits_of("d/x", MASK), bits_of("d/x", OTHERS)),
         ([7 & mode >> 6], [7], [5], [5], [7 & mode >> 3], [5 & mode]), "owner, named, group, named group, mask, others")
    same_mode("d/x", mode & 0o775)
    if kind == "directory":
        same(os.getxattr("d/x", DEFAULT), os.getxattr("d", DEFAULT), "default list, handed down")
    else:
        expect((errno.ENODATA, errno.EACCES, errno.EOPNOTSUPP), os.getxattr, "d/x", DEFAULT)


@case
def minimal_default_list():
    """Gives modes without the umask, and no list."""
    os.mkdir("d")
    os.setxattr("d", DEFAULT, acl((USER_OBJ, 7), (GROUP_OBJ, 7), (OTHERS, 5)))
    os.umask(0o077)
    put("d/f", mode=0o666)
    os.umask(0o022)
    same_mode("d/f", 0o664)
    expect(errno.ENODATA, os.getxattr, "d/f", ACCESS)


@case
def symlinks_do_not_inherit():
    os.mkdir("d")
    os.setxattr("d", DEFAULT, full())
    os.symlink("x", "d/l")
    same(mode_of("d/l"), 0o777, "mode of a symlink")
    same(os.listxattr("d/l", follow_symlinks=False), [], "its attributes")


@case
def renamed_and_linked_files_keep_theirs():
    put("f")
    os.mkdir("d")
    os.setxattr("d", DEFAULT, full())
    os.rename("f", "d/f")
    expect(errno.ENODATA, os.getxattr, "d/f", ACCESS)
    os.setxattr("d/f", ACCESS, full())
    os.link("d/f", "g")
    same(os.getxattr("g", ACCESS), full(), "by the other name")


@case
def lists_are_set_by_the_owner():
    put("f")
    give("f")
    for user in (MEMBER, JOINED, OTHER, NAMED):
        expect(errno.EPERM, os.setxattr, "f", ACCESS, full(), user=user)
    expect(0, os.setxattr, "f", ACCESS, full(), user=OWNER)
    for user in (MEMBER, OTHER):
        expect(errno.EPERM, os.removexattr, "f", ACCESS, user=user)
    same(expect(0, os.getxattr, "f", ACCESS, user=OTHER), full(), "others may read it")
    expect(0, os.removexattr, "f", ACCESS, user=OWNER)


@case
def set_gid_goes_if_the_owner_is_not_in_the_group():
    put("f")
    os.chown("f", OWNER.uid, 65200)
    os.chmod("f", 0o2755)
    expect(0, os.setxattr, "f", ACCESS, full(), user=OWNER)
    true(not os.stat("f").st_mode & stat.S_ISGID, "set-gid is gone")


@case
def chown_keeps_the_list():
    put("f")
    os.setxattr("f", ACCESS, full())
    os.chown("f", 65001, 65101)
    same(os.getxattr("f", ACCESS), full(), "list")


@table([(kind, kind) for kind in ("fifo", "socket")])
def lists_of_nodes(kind):
    make(kind, "x")
    os.setxattr("x", ACCESS, full())
    same_mode("x", 0o670)


@plain_case
def refused_clearly():
    """Either lists work, or every way to set and see one says so."""
    put("f")
    if result_of(os.setxattr, "f", ACCESS, full())[0] == 0:
        return
    os.mkdir("d")
    for path, name in (("f", ACCESS), ("d", ACCESS), ("d", DEFAULT)):
        expect(errno.EOPNOTSUPP, os.setxattr, path, name, full())
        expect((errno.EOPNOTSUPP, errno.ENODATA), os.getxattr, path, name)
        true(name not in os.listxattr(path), "not listed")
