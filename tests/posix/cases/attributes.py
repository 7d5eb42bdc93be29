"""chmod, chown, set-id bits, statx, statfs."""
import errno
import os
import stat

from calls import (AT_FDCWD, AT_SYMLINK_NOFOLLOW, BAD, KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE, Statx, call, fallocate, statfs,
                   statx, system)
from kit import (JOINED, KINDS, MEMBER, OTHER, OWNER, PLAIN_USERS, ROOT, USERS, being, case, expect, give, make, mode_of,
                 opened, put, result_of, same, same_mode, table, tick, true)

CAPABILITY = bytes.fromhex("0100000200040000000000000000000000000000")[:20]   # cap_net_bind_service, revision 2


# ---- chmod

@table([(f"{kind}, {user}", kind, user) for kind in KINDS if kind != "symlink" for user in USERS])
def chmod_rights(kind, user):
    make(kind, "x")
    give("x")
    want = 0 if user in (OWNER, ROOT) else errno.EPERM
    expect(want, os.chmod, "x", 0o600, user=user)
    same(mode_of("x") == 0o600, want == 0, "whether the mode changed")


@table([(f"{kind}, {mode:04o}", kind, mode) for kind in ("file", "directory", "fifo", "socket")
        for mode in (0, 0o1777, 0o2755, 0o4755, 0o6711, 0o7777, 0o123)])
def chmod_modes(kind, mode):
    make(kind, "x")
    expect(0, os.chmod, "x", mode)
    same_mode("x", mode)


@case
def chmod_ignores_bits_of_the_kind():
    put("f")
    os.chmod("f", stat.S_IFDIR | 0o640)
    true(stat.S_ISREG(os.stat("f").st_mode), "it is still a file")
    same_mode("f", 0o640)


@table([(str(user), user) for user in PLAIN_USERS])
def fchmod_rights(user):
    put("f")
    give("f", mode=0o666)
    with opened("f") as fd:
        expect(0 if user is OWNER else errno.EPERM, os.fchmod, fd, 0o600, user=user)
    same_mode("f", 0o600 if user is OWNER else 0o666)


@case
def fchmod_of_bad_descriptors():
    expect(errno.EBADF, os.fchmod, 999, 0o600)
    expect(errno.EBADF, os.fchown, 999, 1, 1)


@case
def set_gid_only_in_ones_own_group():
    """A plain owner who is not in the file's group loses the set-gid bit, silently."""
    for kind in ("file", "directory"):
        make(kind, "x")
        os.chown("x", OWNER.uid, 65200)
        expect(0, os.chmod, "x", 0o2755, user=OWNER)
        same_mode("x", 0o755, f"of a {kind} in a group the owner is not in")
        os.chown("x", OWNER.uid, OWNER.gid)
        expect(0, os.chmod, "x", 0o2755, user=OWNER)
        same_mode("x", 0o2755, f"of a {kind} in the owner's group")
        os.chown("x", JOINED.uid, OWNER.gid)
        expect(0, os.chmod, "x", 0o2755, user=JOINED)
        same_mode("x", 0o2755, f"of a {kind} in a supplementary group")
        (os.rmdir if kind == "directory" else os.unlink)("x")


@case
def sticky_files():
    put("f")
    give("f")
    expect(0, os.chmod, "f", 0o1644, user=OWNER)
    same_mode("f", 0o1644, "Linux keeps the sticky bit of files")


@case
def chmod_through_a_symlink():
    put("f")
    os.symlink("f", "l")
    os.chmod("l", 0o600)
    same_mode("f", 0o600)
    same_mode("l", 0o777)


# ---- chown

@table([(f"{kind}, {user}", kind, user) for kind in KINDS for user in USERS])
def chown_rights(kind, user):
    """Only root gives away; the owner chooses among his own groups."""
    make(kind, "x")
    give("x", JOINED)
    os.chown("x", JOINED.uid, JOINED.gid, follow_symlinks=False)

    def chown(uid, gid):
        os.chown("x", uid, gid, follow_symlinks=False)

    expect(0 if user is ROOT else errno.EPERM, chown, OTHER.uid, -1, user=user)
    os.chown("x", JOINED.uid, JOINED.gid, follow_symlinks=False)
    expect(0 if user in (ROOT, JOINED) else errno.EPERM, chown, -1, 65101, user=user)
    os.chown("x", JOINED.uid, JOINED.gid, follow_symlinks=False)
    expect(0 if user in (ROOT, JOINED) else errno.EPERM, chown, JOINED.uid, 65999, user=user)
    os.chown("x", JOINED.uid, JOINED.gid, follow_symlinks=False)
    expect(0 if user is ROOT else errno.EPERM, chown, -1, 65200, user=user)
    os.chown("x", JOINED.uid, JOINED.gid, follow_symlinks=False)
    expect(0 if user in (ROOT, JOINED) else errno.EPERM, chown, JOINED.uid, JOINED.gid, user=user)


@table([(str(user), user) for user in USERS])
def chown_of_nothing(user):
    """-1, -1 is for everybody."""
    put("f")
    give("f")
    expect(0, os.chown, "f", -1, -1, user=user)
    now = os.stat("f")
    same((now.st_uid, now.st_gid), (OWNER.uid, OWNER.gid), "owner and group")


@case
def chown_follows_or_not():
    put("f")
    os.symlink("f", "l")
    os.chown("l", 65001, 65101)
    same((os.stat("f").st_uid, os.lstat("l").st_uid), (65001, 0), "owners after chown")
    os.chown("l", 65002, 65102, follow_symlinks=False)
    same((os.stat("f").st_uid, os.lstat("l").st_uid), (65001, 65002), "owners after lchown")


@case
def chown_big_ids():
    put("f")
    for number in (65534, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 2):
        os.chown("f", number, number)
        same((os.stat("f").st_uid, os.stat("f").st_gid), (number, number), "owner and group")


def set_id_cases():
    for kind in ("file", "directory"):
        for mode in (0o4755, 0o2755, 0o6755, 0o2745, 0o6745):
            for user in (OWNER, ROOT):
                yield f"{kind}, {mode:04o}, {user}", kind, mode, user


@table(set_id_cases())
def chown_clears_set_id_bits(kind, mode, user):
    """Of files, also for root; set-gid without group execution stays; directories keep theirs."""
    make(kind, "x")
    for uid, gid in ((OWNER.uid, OWNER.gid), (-1, OWNER.gid), (OWNER.uid, -1)):
        give("x")
        os.chmod("x", mode)
        expect(0, os.chown, "x", uid, gid, user=user)
        want = mode
        if kind == "file":
            want = mode & ~0o4000 & ~(0o2000 if mode & 0o010 else 0)
        got = mode_of("x")
        # Newer kernels also drop set-gid of an unprivileged caller outside the group; OWNER is in it.
        same(oct(got), oct(want), f"mode after chown {uid}, {gid}")


@case
def chown_of_nothing_keeps_set_id_bits_or_not():
    """chown(-1, -1) clears the bits on Linux file systems that set them in the common code."""
    put("f")
    give("f", mode=0o6755)
    expect(0, os.chown, "f", -1, -1)
    true(mode_of("f") in (0o755, 0o6755), "mode is one of the two allowed")


# ---- set-id bits and capabilities against changes of content

def write(fd):
    os.pwrite(fd, b"x", 0)


CONTENT_CHANGES = {
    "write": write,
    "writev": lambda fd: os.pwritev(fd, [b"x"], 1),
    "ftruncate": lambda fd: os.ftruncate(fd, 5),
    "extend": lambda fd: os.ftruncate(fd, 100),
    "truncate": lambda fd: os.truncate("f", 4),
    "open truncate": lambda fd: os.close(os.open("f", os.O_WRONLY | os.O_TRUNC)),
    "fallocate": lambda fd: fallocate(fd, 0, 0, 10000),
    "keep size": lambda fd: fallocate(fd, KEEP_SIZE, 0, 10000),
    "punch hole": lambda fd: fallocate(fd, KEEP_SIZE | PUNCH_HOLE, 0, 4),
    "zero range": lambda fd: fallocate(fd, ZERO_RANGE, 0, 4),
    "copy_file_range": lambda fd: copy_into(fd),
    "sendfile": lambda fd: send_into(fd),
}


def copy_into(fd):
    with opened("source", os.O_RDONLY) as source:
        os.copy_file_range(source, fd, 5, 0, 0)


def send_into(fd):
    with opened("source", os.O_RDONLY) as source:
        os.sendfile(fd, source, 0, 5)


@table([(f"{name}, {mode:04o}, {user}", name, mode, user) for name in CONTENT_CHANGES
        for mode in (0o6777, 0o4777, 0o2777, 0o2767) for user in (OWNER, OTHER, ROOT)])
def set_id_bits_go_with_a_change_of_content(name, mode, user):
    put("source", b"source")
    put("f", b"content")
    give("f")
    os.chmod("f", mode)
    with being(user):
        with opened("f", os.O_RDWR) as fd:
            expect(0, CONTENT_CHANGES[name], fd)
            after = stat.S_IMODE(os.fstat(fd).st_mode)
    want = mode if user is ROOT else mode & ~0o4000 & ~(0o2000 if mode & 0o010 else 0)
    if user is OTHER and after == want & ~0o2000:
        want = after    # Since Linux 6.0, set-gid without group execution goes too if a stranger writes; not over FUSE.
    same(oct(after), oct(want), "mode by the descriptor")
    same_mode("f", want, "by the path")


@table([(name, name) for name in CONTENT_CHANGES])
def capability_goes_with_a_change_of_content(name):
    put("source", b"source")
    put("f", b"content", 0o777)
    code, _ = result_of(os.setxattr, "f", "security.capability", CAPABILITY)
    if code in (errno.EOPNOTSUPP,):
        return
    same(code, 0, "setting security.capability")
    with opened("f", os.O_RDWR) as fd:
        expect(0, CONTENT_CHANGES[name], fd)
    expect(errno.ENODATA, os.getxattr, "f", "security.capability")


@case
def capability_goes_with_a_change_of_owner():
    put("f", b"content", 0o755)
    if result_of(os.setxattr, "f", "security.capability", CAPABILITY)[0] == errno.EOPNOTSUPP:
        return
    os.chown("f", 65001, 65101)
    expect(errno.ENODATA, os.getxattr, "f", "security.capability")


@case
def capability_stays_otherwise():
    put("f", b"content", 0o755)
    if result_of(os.setxattr, "f", "security.capability", CAPABILITY)[0] == errno.EOPNOTSUPP:
        return
    os.chmod("f", 0o700)
    os.rename("f", "g")
    os.utime("g")
    os.link("g", "h")
    with open("g", "rb") as file:
        file.read()
    same(os.getxattr("h", "security.capability"), CAPABILITY, "capability")
    expect(errno.EPERM, os.setxattr, "h", "security.capability", CAPABILITY, user=OTHER)
    expect(errno.EPERM, os.removexattr, "h", "security.capability", user=OTHER)


@case
def set_id_program_runs_as_its_owner():
    true(os.path.exists("/usr/bin/id"), "/usr/bin/id")
    with open("/usr/bin/id", "rb") as file:
        put("id", file.read(), 0o755)
    give("id")
    os.chmod("id", 0o6755)
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        here = os.stat(".").st_dev
        options = [line.split()[5] for line in file if line.split()[2] == f"{os.major(here)}:{os.minor(here)}"]
    if not options or any("nosuid" in text for text in options):
        return
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(OTHER.gid, OTHER.gid, OTHER.gid)
        os.setresuid(OTHER.uid, OTHER.uid, OTHER.uid)
        os.dup2(theirs, 1)
        os.execv("./id", ["id", "-u"])
    os.close(theirs)
    same(os.read(ours, 100), b"%d\n" % OWNER.uid, "effective user of the program")
    os.waitpid(pid, 0)


# ---- stat, statx, statfs

@table([(kind, kind) for kind in KINDS])
def stat_fields(kind):
    make(kind, "x", 0o640)
    give("x")
    one, two = os.lstat("x"), statx("x")
    same((one.st_ino, one.st_nlink, one.st_uid, one.st_gid, one.st_mode, one.st_size, one.st_blocks),
         (two.ino, two.nlink, two.uid, two.gid, two.mode, two.size, two.blocks), "fields of stat and statx")
    same((one.st_atime_ns, one.st_mtime_ns, one.st_ctime_ns), (two.atime_ns, two.mtime_ns, two.ctime_ns), "times")
    same((os.major(one.st_dev), os.minor(one.st_dev)), (two.dev_major, two.dev_minor), "device")
    true(one.st_blksize >= 512, "st_blksize is of use")
    same(two.mask & 0x7ff, 0x7ff, "basic fields in the mask")


@case
def birth_time():
    """If it is told at all, it stays what it was at creation."""
    before = statx(".", 0)
    put("f")
    born = statx("f")
    if not born.mask & Statx.BTIME:
        return
    true(born.btime_ns <= born.ctime_ns, "born before the last change")
    tick()
    put("f", b"more")
    os.chmod("f", 0o600)
    os.utime("f", ns=(1, 1))
    os.rename("f", "g")
    same(statx("g").btime_ns, born.btime_ns, "birth time after changes")
    true(before.mask & Statx.BTIME, "told of directories too")


@case
def statx_of_descriptors_and_odd_flags():
    put("f", b"abc")
    with opened("f") as fd:
        same(statx("", 0x1000, dirfd=fd).size, 3, "size by AT_EMPTY_PATH")
    for sync in (0x2000, 0x4000):
        same(statx("f", sync).size, 3, "size with a synchronisation flag")
    expect(errno.EINVAL, statx, "f", 0x6000)
    expect(errno.EINVAL, statx, "f", 1)
    expect(errno.EFAULT, lambda: system("statx", AT_FDCWD, "f", 0, 0x7ff, BAD))
    os.symlink("f", "l")
    true(stat.S_ISLNK(statx("l", AT_SYMLINK_NOFOLLOW).mode), "not followed")
    true(stat.S_ISREG(statx("l", 0).mode), "followed")


@case
def inode_numbers_are_stable():
    put("f")
    os.mkdir("d")
    number = os.stat("f").st_ino
    os.rename("f", "d/g")
    os.chmod("d/g", 0o600)
    put("d/g", b"x")
    same(os.stat("d/g").st_ino, number, "inode after rename, chmod, write")
    with os.scandir("d") as entries:
        same([e.inode() for e in entries], [number], "inode in the listing")
    true(len({os.stat(n).st_ino for n in (".", "d", "d/g")}) == 3, "different things have different inodes")
    same(os.stat("d/..").st_ino, os.stat(".").st_ino, "inode of the parent")


@case
def block_counts():
    put("f", b"x" * 100_000)
    with opened("f") as fd:
        os.fsync(fd)
        full = os.fstat(fd).st_blocks
        true(100_000 / 512 <= full + 8 and full <= 4000, f"blocks of 100,000 bytes: {full}")
        os.ftruncate(fd, 0)
        os.fsync(fd)
        true(os.fstat(fd).st_blocks <= 16, f"blocks of an empty file: {os.fstat(fd).st_blocks}")
        os.ftruncate(fd, 10 << 20)
        os.fsync(fd)
        true(os.fstat(fd).st_blocks <= 64, f"blocks of 10 MiB of hole: {os.fstat(fd).st_blocks}")


@case
def statfs_fields():
    kind, bsize, blocks, bfree, bavail, files, ffree, _, namelen, frsize = statfs(".")
    true(kind != 0, "a type")
    same(namelen, 255, "longest name")
    true(bsize >= 512 and frsize >= 512, f"block sizes {bsize}, {frsize}")
    true(blocks >= bfree >= bavail > 0, f"blocks {blocks}, free {bfree}, available {bavail}")
    true(files >= ffree > 0, f"files {files}, free {ffree}")
    put("f")
    with opened("f") as fd:
        same(os.fstatvfs(fd).f_namemax, 255, "by a descriptor")
    same(os.statvfs("f").f_frsize, os.statvfs(".").f_frsize, "by a file")


@case
def pathconf():
    same(os.pathconf(".", "PC_NAME_MAX"), 255, "_PC_NAME_MAX")
    same(os.pathconf(".", "PC_PATH_MAX"), 4096, "_PC_PATH_MAX")
    true(os.pathconf(".", "PC_LINK_MAX") >= 8, "_PC_LINK_MAX")
    same(os.pathconf(".", "PC_NO_TRUNC"), 1, "_PC_NO_TRUNC")


@case
def fchmodat_of_descriptors_without_a_name():
    put("f")
    with opened("f", os.O_PATH) as fd:
        code, _ = result_of(system, "fchmodat2", fd, "", 0o600, 0x1000)
        if code == errno.ENOSYS:
            return
        same(code, 0, "fchmodat2 with an empty path")
    same_mode("f", 0o600)
    expect(errno.EFAULT, lambda: call("chmod", BAD, 0o600))


@case
def group_member_may_not_chmod_though_the_file_is_his_group_s():
    put("f")
    give("f", OWNER, 0o770)
    for user in (MEMBER, JOINED):
        expect(errno.EPERM, os.chmod, "f", 0o777, user=user)
        expect(errno.EPERM, os.chown, "f", -1, user.gid, user=user)
