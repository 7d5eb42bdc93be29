"""Who may do what: owner, group, supplementary group, others, root, against every mode."""
import errno
import os

from calls import AT_EACCESS, call, faccessat2
from kit import (JOINED, MEMBER, OTHER, OWNER, PLAIN_USERS, ROOT, USERS, being, case, expect, give, put, result_of, same,
                 table, touch)

SHIFT = {OWNER: 6, MEMBER: 3, JOINED: 3, OTHER: 0}


def granted(user, bits, mode):
    """Whether `bits` of rwx are all there for the user's class; only that class counts."""
    return user is ROOT or ((mode >> SHIFT[user]) & bits) == bits


@table([(f"{user}, {bits}", user, bits) for user in USERS for bits in range(8)])
def open_modes(user, bits):
    """rwx of one class against open for reading, writing, both; other classes have the opposite."""
    put("f", b"x")
    give("f")
    shift = SHIFT.get(user, 0)
    for others in (0, 7):
        mode = sum((bits if s == shift else others) << s for s in (6, 3, 0))
        os.chmod("f", mode)
        for flags, need in ((os.O_RDONLY, 4), (os.O_WRONLY, 2), (os.O_RDWR, 6), (os.O_RDONLY | os.O_TRUNC, 6),
                            (os.O_WRONLY | os.O_APPEND, 2), (os.O_PATH, 0)):
            want = 0 if granted(user, need, mode) else errno.EACCES
            expect(want, touch, "f", flags, user=user, note=f"mode {mode:03o}")


@table([(f"{user}, {bits}", user, bits) for user in USERS for bits in range(8)])
def access(user, bits):
    put("f", b"x")
    give("f")
    mode = bits << SHIFT.get(user, 0) | (0o111 if user is ROOT and bits & 1 else 0)
    os.chmod("f", mode)
    for asked in range(8):
        if user is ROOT:
            want = 0 if not asked & 1 or mode & 0o111 else errno.EACCES
        else:
            want = 0 if asked & ~bits == 0 else errno.EACCES
        for work in (lambda: call("access", "f", asked), lambda: faccessat2("f", asked, AT_EACCESS)):
            expect(want, work, user=user, note=f"asked {asked}, mode {mode:03o}")


@case
def access_uses_the_real_user():
    put("f", b"", 0o600)
    os.setresuid(OWNER.uid, 0, 0)
    expect(errno.EACCES, lambda: call("access", "f", os.R_OK))
    expect(0, lambda: faccessat2("f", os.R_OK, AT_EACCESS))
    os.setresuid(0, 0, 0)


@case
def access_of_odd_modes():
    put("f")
    expect(errno.EINVAL, lambda: call("access", "f", 8))
    expect(0, lambda: call("access", "f", os.F_OK))


@table([(f"{user}, {bits}", user, bits) for user in USERS for bits in range(8)])
def directory_modes(user, bits):
    """r lists, x reaches, wx changes."""
    os.mkdir("d")
    put("d/f", b"x")
    give("d/f", user)
    give("d")
    os.chmod("d", bits << SHIFT.get(user, 0))
    for need, label, work in ((4, "list", lambda: os.listdir("d")), (1, "stat", lambda: os.stat("d/f")),
                              (1, "open", lambda: touch("d/f")), (1, "chdir", lambda: os.chdir("d") or os.chdir("..")),
                              (3, "mkdir", lambda: os.mkdir("d/new") or os.rmdir("d/new")),
                              (3, "rename", lambda: os.rename("d/f", "d/g") or os.rename("d/g", "d/f")),
                              (3, "unlink", lambda: os.unlink("d/f"))):
        if label == "chdir" and user is not ROOT and bits & 1:
            continue    # The way back is not this test's business.
        want = 0 if user is ROOT or bits & need == need else errno.EACCES
        expect(want, work, user=user, note=f"{label}, bits {bits}")


@table([(str(user), user) for user in PLAIN_USERS])
def execution(user):
    put("script", b"#!/bin/true\n", 0o755)
    give("script", mode=0o777 & ~(1 << SHIFT[user]))

    def run():
        pid = os.fork()
        if pid == 0:
            try:
                os.execv("./script", ["script"])
            except OSError as error:
                os._exit(error.errno)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    same(expect(0, run, user=user), errno.EACCES, "execution without x")
    os.chmod("script", 5 << SHIFT[user])
    same(expect(0, run, user=user), 0, "execution with r-x")


@case
def root_needs_one_x_to_execute():
    put("script", b"#!/bin/true\n", 0o644)

    def run():
        pid = os.fork()
        if pid == 0:
            try:
                os.execv("./script", ["script"])
            except OSError as error:
                os._exit(error.errno)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    same(run(), errno.EACCES, "execution without any x")
    for mode in (0o100, 0o010, 0o001):
        os.chmod("script", mode)
        same(run(), 0, f"execution with mode {mode:03o}")


@case
def permission_is_checked_at_open_only():
    put("f", b"x" * 10)
    give("f")
    with being(OWNER):
        reader, writer = os.open("f", os.O_RDONLY), os.open("f", os.O_WRONLY)
    os.chmod("f", 0)
    with being(OTHER):
        same(os.pread(reader, 10, 0), b"x" * 10, "read through an old descriptor")
        same(os.pwrite(writer, b"y", 0), 1, "written through an old descriptor")
        expect(0, os.ftruncate, writer, 5)
        expect(errno.EPERM, os.fchmod, writer, 0o777)
    expect(errno.EACCES, touch, "f", user=OTHER)


@case
def change_of_mode_is_felt_at_once():
    """Also by those whose kernel has the old one in its cache."""
    os.mkdir("d")
    put("d/f", b"x")
    for _ in range(20):
        os.chmod("d", 0o700)
        expect(errno.EACCES, os.stat, "d/f", user=OTHER)
        os.chmod("d", 0o755)
        expect(0, os.stat, "d/f", user=OTHER)
        os.chmod("d/f", 0o600)
        expect(errno.EACCES, touch, "d/f", user=OTHER)
        os.chmod("d/f", 0o604)
        expect(0, touch, "d/f", user=OTHER)


@case
def creator_of_a_read_only_file_may_write():
    def work():
        fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o000)
        same(os.write(fd, b"mine"), 4, "written")
        same(os.pread(fd, 4, 0), b"mine", "read back")
        os.close(fd)
    expect(0, work, user=OWNER)
    expect(errno.EACCES, touch, "f", user=OWNER)


@table([(str(user), user) for user in PLAIN_USERS])
def truncate_needs_w(user):
    put("f", b"x")
    give("f", mode=0o777 & ~(2 << SHIFT[user]))
    expect(errno.EACCES, os.truncate, "f", 0, user=user)
    os.chmod("f", 2 << SHIFT[user])
    expect(0, os.truncate, "f", 0, user=user)


@table([(str(user), user) for user in USERS])
def noatime_needs_ownership(user):
    put("f", b"x")
    give("f", mode=0o666)
    expect(0 if user in (OWNER, ROOT) else errno.EPERM, touch, "f", os.O_RDONLY | os.O_NOATIME, user=user)


@case
def class_is_that_of_the_file_not_the_best():
    put("f")
    give("f", OWNER, 0o077)
    same(result_of(touch, "f", user=OWNER)[0], errno.EACCES, "owner without bits")
    os.chmod("f", 0o707)
    same(result_of(touch, "f", user=MEMBER)[0], errno.EACCES, "group without bits")
    same(result_of(touch, "f", user=JOINED)[0], errno.EACCES, "supplementary group without bits")
    same(result_of(touch, "f", user=OTHER)[0], 0, "others with bits")
