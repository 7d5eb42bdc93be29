"""flock, POSIX record locks, open file description locks: between processes, with ranges, with their ends."""
import errno
import fcntl
import os
import signal
import struct

from kit import case, child, expect, in_child, opened, put, result_of, same, table, true, until

OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
GETLK, SETLK, SETLKW = 5, 6, 7
READ, WRITE, UNLOCK = 0, 1, 2
FORM = struct.Struct("=hhiqqii")    # l_type, l_whence, pad, l_start, l_len, l_pid, pad


def lock(fd, command, kind, start=0, length=0, whence=0):
    """(kind, start, length, pid) that fcntl gives back."""
    answer = fcntl.fcntl(fd, command, FORM.pack(kind, whence, 0, start, length, 0, 0))
    kind, _, _, start, length, pid, _ = FORM.unpack(answer)
    return kind, start, length, pid


def other_gets(kind, start=0, length=0, name="f"):
    """Errno of another process that asks for a POSIX lock, 0 if it gets it."""
    def ask():
        fd = os.open(name, os.O_RDWR)
        lock(fd, SETLK, kind, start, length)
    return in_child(ask)


def is_free(start, length, kind=WRITE):
    code = other_gets(kind, start, length)
    true(code in (0, errno.EAGAIN, errno.EACCES), f"lock probe gave {code}")
    return code == 0


def free_map(upto, step=10):
    return [is_free(at, step) for at in range(0, upto, step)]


@table([(f"{held} against {asked}", held, asked) for held in ("read", "write") for asked in ("read", "write")])
def posix_conflicts(held, asked):
    put("f", b"x" * 100)
    kinds = {"read": READ, "write": WRITE}
    with opened("f") as fd:
        lock(fd, SETLK, kinds[held])
        want = 0 if held == asked == "read" else errno.EAGAIN
        same(other_gets(kinds[asked]), want, "what another process gets")
        lock(fd, SETLK, UNLOCK)
        same(other_gets(kinds[asked]), 0, "after the unlock")


@case
def posix_ranges_split_and_join():
    put("f")
    with opened("f") as fd:
        lock(fd, SETLK, WRITE, 0, 100)
        lock(fd, SETLK, UNLOCK, 40, 20)
        same(free_map(120), [False] * 4 + [True] * 2 + [False] * 4 + [True] * 2, "free tens after a hole")
        lock(fd, SETLK, WRITE, 30, 40)
        same(free_map(120), [False] * 10 + [True] * 2, "free tens after joining")
        lock(fd, SETLK, READ, 20, 10)
        same((is_free(20, 10, READ), is_free(20, 10), is_free(10, 10, READ)), (True, False, False), "a part turned to read")
        lock(fd, SETLK, UNLOCK, 0, 0)
        same(free_map(120), [True] * 12, "free tens after all was unlocked")


@case
def posix_own_locks_replace_each_other():
    put("f")
    with opened("f") as fd, opened("f") as again:
        lock(fd, SETLK, WRITE)
        expect(0, lock, again, SETLK, READ, note="by another descriptor of the process")
        same((other_gets(READ), other_gets(WRITE)), (0, errno.EAGAIN), "what others get")


@case
def posix_to_the_end_and_beyond():
    put("f", b"x" * 10)
    with opened("f") as fd:
        lock(fd, SETLK, WRITE, 50, 0)
        same((is_free(0, 50), is_free(1 << 40, 10), is_free(50, 1)), (True, False, False), "length 0 means to the end of all")
        lock(fd, SETLK, UNLOCK)
        lock(fd, SETLK, WRITE, -5, 5, 2)
        same((is_free(0, 5), is_free(5, 5), is_free(10, 5)), (True, False, True), "SEEK_END with a negative start")
        lock(fd, SETLK, UNLOCK)
        lock(fd, SETLK, WRITE, 50, -10)
        same((is_free(30, 10), is_free(40, 10), is_free(50, 10)), (True, False, True), "negative length")
        expect(errno.EINVAL, lock, fd, SETLK, WRITE, -1, 10)
        expect(errno.EINVAL, lock, fd, SETLK, WRITE, 5, -10)
        expect(errno.EINVAL, lock, fd, SETLK, 7)


@case
def getlk_tells_the_holder():
    put("f")
    ready, told = os.pipe()
    go, gone = os.pipe()

    def hold():
        fd = os.open("f", os.O_RDWR)
        lock(fd, SETLK, WRITE, 10, 20)
        os.write(told, b".")
        os.close(gone)
        os.read(go, 1)

    with child(hold) as pid, opened("f") as fd:
        os.read(ready, 1)
        same(lock(fd, GETLK, WRITE, 0, 0), (WRITE, 10, 20, pid), "kind, start, length, pid")
        same(lock(fd, GETLK, WRITE, 0, 10)[0], UNLOCK, "outside of it")
        same(lock(fd, GETLK, READ, 15, 1)[0], WRITE, "a reader is told too")
        lock(fd, SETLK, READ, 40, 5)
        same(lock(fd, GETLK, WRITE, 40, 5)[0], UNLOCK, "one's own lock is none")


@case
def posix_locks_end_with_any_close():
    put("f")
    with opened("f") as fd:
        lock(fd, SETLK, WRITE)
        same(other_gets(WRITE), errno.EAGAIN, "held")
        os.close(os.open("f", os.O_RDONLY))
        same(until("the lock is gone", lambda: other_gets(WRITE) == 0), True, "after another descriptor was closed")


@case
def posix_locks_end_with_the_process():
    put("f")
    ready, told = os.pipe()

    def hold():
        fd = os.open("f", os.O_RDWR)
        lock(fd, SETLK, WRITE)
        os.write(told, b".")
        signal.pause()

    with child(hold) as pid:
        os.read(ready, 1)
        same(other_gets(WRITE), errno.EAGAIN, "held")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        until("the lock is gone", lambda: other_gets(WRITE) == 0)


@case
def posix_locks_are_not_inherited():
    put("f")
    with opened("f") as fd:
        lock(fd, SETLK, WRITE)
        same(in_child(lambda: lock(fd, SETLK, WRITE) and 0), errno.EAGAIN, "the child, by the inherited descriptor")


@case
def posix_needs_the_right_mode():
    put("f")
    with opened("f", os.O_RDONLY) as fd:
        expect(errno.EBADF, lock, fd, SETLK, WRITE)
        expect(0, lock, fd, SETLK, READ)
    with opened("f", os.O_WRONLY) as fd:
        expect(errno.EBADF, lock, fd, SETLK, READ)
        expect(0, lock, fd, SETLK, WRITE)
    with opened("f", os.O_PATH) as fd:
        expect(errno.EBADF, lock, fd, SETLK, READ)


def waits_then_gets(ask, release):
    """A child that asks is blocked until `release`; its status."""
    ready, told = os.pipe()

    def work():
        fd = os.open("f", os.O_RDWR)
        os.write(told, b".")
        ask(fd)
        return 0

    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code)
    os.read(ready, 1)
    sleeping(pid)
    same(os.waitpid(pid, os.WNOHANG)[0], 0, "whether it ended already")
    release()
    got = until("the waiter ends", lambda: os.waitpid(pid, os.WNOHANG)[0] or None)
    return got == pid


def sleeping(pid):
    """Waits until the process is asleep in a call: twice in a row, as it may stop on the way."""
    def asleep():
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "SD"
    until("the process sleeps", lambda: asleep() and asleep() and asleep())


@table([("posix", lambda fd: lock(fd, SETLKW, WRITE), lambda fd: lock(fd, SETLK, WRITE), lambda fd: lock(fd, SETLK, UNLOCK)),
        ("ofd", lambda fd: lock(fd, OFD_SETLKW, WRITE), lambda fd: lock(fd, OFD_SETLK, WRITE),
         lambda fd: lock(fd, OFD_SETLK, UNLOCK)),
        ("flock", lambda fd: fcntl.flock(fd, fcntl.LOCK_EX), lambda fd: fcntl.flock(fd, fcntl.LOCK_EX),
         lambda fd: fcntl.flock(fd, fcntl.LOCK_UN))])
def blocking(wait, take, give_back):
    put("f")
    with opened("f") as fd:
        take(fd)
        true(waits_then_gets(wait, lambda: give_back(fd)), "the waiter got it")


@table([("posix", lambda fd: lock(fd, SETLKW, WRITE), lambda fd: lock(fd, SETLK, WRITE),
         lambda fd: lock(fd, OFD_SETLK, WRITE)),
        ("ofd", lambda fd: lock(fd, OFD_SETLKW, WRITE), lambda fd: lock(fd, OFD_SETLK, WRITE),
         lambda fd: lock(fd, OFD_SETLK, WRITE)),
        ("flock", lambda fd: fcntl.flock(fd, fcntl.LOCK_EX), lambda fd: fcntl.flock(fd, fcntl.LOCK_EX),
         lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))])
def waiting_is_interrupted_by_a_signal(wait, take, probe):
    put("f")
    ready, told = os.pipe()

    class Rang(Exception):
        pass

    def ring(*_):
        raise Rang

    def work():
        fd = os.open("f", os.O_RDWR)
        signal.signal(signal.SIGUSR1, ring)
        os.write(told, b".")
        try:
            wait(fd)
        except Rang:
            return 42
        return 0

    with opened("f") as fd:
        take(fd)
        pid = os.fork()
        if pid == 0:
            os._exit(work())
        os.read(ready, 1)
        sleeping(pid)
        os.kill(pid, signal.SIGUSR1)
        status = until("the waiter ends", lambda: (lambda r: r if r[0] else None)(os.waitpid(pid, os.WNOHANG)))
        same(os.waitstatus_to_exitcode(status[1]), 42, "how the waiter ended")
        with opened("f") as other:
            expect(errno.EAGAIN, probe, other, note="the lock is still held")


@case
def a_killed_waiter_takes_nothing():
    put("f")
    ready, told = os.pipe()

    def wait():
        fd = os.open("f", os.O_RDWR)
        os.write(told, b".")
        lock(fd, SETLKW, WRITE)
        signal.pause()

    with opened("f") as fd:
        lock(fd, SETLK, WRITE)
        with child(wait) as pid:
            os.read(ready, 1)
            sleeping(pid)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        lock(fd, SETLK, UNLOCK)
        until("the lock is free", lambda: other_gets(WRITE) == 0)


@case
def deadlock_is_noticed():
    """Two processes that wait for each other: one gets EDEADLK. A file system may instead let them wait, if signals work."""
    put("f")
    ready, told = os.pipe()

    def first():
        fd = os.open("f", os.O_RDWR)
        lock(fd, SETLK, WRITE, 0, 1)
        os.write(told, b".")
        signal.alarm(3)
        lock(fd, SETLKW, WRITE, 1, 1)

    with opened("f") as fd:
        lock(fd, SETLK, WRITE, 1, 1)
        with child(first) as pid:
            os.read(ready, 1)
            sleeping(pid)
            code, _ = result_of(lock, fd, SETLKW, WRITE, 0, 1)
            true(code in (0, errno.EDEADLK), f"EDEADLK, or the lock once the other gave up, not {code}")


# ---- flock

@table([(f"{held} against {asked}", held, asked) for held in (fcntl.LOCK_SH, fcntl.LOCK_EX)
        for asked in (fcntl.LOCK_SH, fcntl.LOCK_EX)])
def flock_conflicts(held, asked):
    put("f")
    with opened("f", os.O_RDONLY) as one, opened("f", os.O_RDONLY) as two:
        fcntl.flock(one, held)
        want = 0 if held == asked == fcntl.LOCK_SH else errno.EWOULDBLOCK
        expect(want, fcntl.flock, two, asked | fcntl.LOCK_NB)
        fcntl.flock(two, fcntl.LOCK_UN)
        fcntl.flock(one, fcntl.LOCK_UN)
        expect(0, fcntl.flock, two, asked | fcntl.LOCK_NB)


@case
def flock_belongs_to_the_open_file():
    put("f")
    one = os.open("f", os.O_RDONLY)
    two = os.open("f", os.O_RDONLY)
    fcntl.flock(one, fcntl.LOCK_EX)
    copy = os.dup(one)
    expect(0, fcntl.flock, copy, fcntl.LOCK_EX | fcntl.LOCK_NB, note="by a copy of the descriptor")
    same(in_child(lambda: fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)), 0, "in a child by the inherited descriptor")
    os.close(one)
    expect(errno.EWOULDBLOCK, fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB, note="while a copy is open")
    os.close(copy)
    until("the lock is free", lambda: result_of(fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)[0] == 0)


@case
def flock_upgrade_and_downgrade():
    put("f")
    with opened("f") as one, opened("f") as two:
        fcntl.flock(one, fcntl.LOCK_SH)
        fcntl.flock(two, fcntl.LOCK_SH)
        expect(errno.EWOULDBLOCK, fcntl.flock, one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(two, fcntl.LOCK_UN)
        expect(0, fcntl.flock, one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        expect(errno.EWOULDBLOCK, fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(one, fcntl.LOCK_SH)
        expect(0, fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB)


@case
def flock_ends_with_the_process():
    put("f")
    ready, told = os.pipe()

    def hold():
        fd = os.open("f", os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(told, b".")
        signal.pause()

    with opened("f") as fd, child(hold) as pid:
        os.read(ready, 1)
        expect(errno.EWOULDBLOCK, fcntl.flock, fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        until("the lock is free", lambda: result_of(fcntl.flock, fd, fcntl.LOCK_SH | fcntl.LOCK_NB)[0] == 0)


@case
def flock_and_posix_locks_are_apart():
    put("f")
    with opened("f") as one, opened("f") as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        same(other_gets(WRITE), 0, "a POSIX lock of another process")
        expect(0, lock, two, SETLK, WRITE)
        expect(errno.EWOULDBLOCK, fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB)


@case
def flock_of_directories_and_odd_arguments():
    os.mkdir("d")
    one, two = os.open("d", os.O_RDONLY), os.open("d", os.O_RDONLY)
    expect(0, fcntl.flock, one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    expect(errno.EWOULDBLOCK, fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)
    expect(errno.EINVAL, fcntl.flock, one, 0)
    expect(errno.EBADF, fcntl.flock, 999, fcntl.LOCK_EX)
    expect(errno.EBADF, fcntl.flock, os.open("d", os.O_PATH), fcntl.LOCK_EX)


# ---- open file description locks

@case
def ofd_locks_belong_to_the_open_file():
    put("f")
    one, two = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
    lock(one, OFD_SETLK, WRITE, 0, 10)
    expect(errno.EAGAIN, lock, two, OFD_SETLK, WRITE, 5, 10, note="by another descriptor of this process")
    expect(0, lock, two, OFD_SETLK, WRITE, 10, 10)
    same(lock(two, OFD_GETLK, WRITE, 0, 10)[:3], (WRITE, 0, 10), "who is in the way")
    same(lock(two, OFD_GETLK, WRITE, 0, 10)[3], -1, "its pid, as there is none")
    same(in_child(lambda: lock(one, OFD_SETLK, WRITE, 0, 10) and 0), 0, "in a child by the inherited descriptor")
    os.close(os.open("f", os.O_RDONLY))
    expect(errno.EAGAIN, lock, two, OFD_SETLK, WRITE, 0, 10, note="after the close of another descriptor")
    copy = os.dup(one)
    os.close(one)
    expect(errno.EAGAIN, lock, two, OFD_SETLK, WRITE, 0, 10, note="while a copy is open")
    os.close(copy)
    until("the lock is free", lambda: result_of(lock, two, OFD_SETLK, WRITE, 0, 10)[0] == 0)


@case
def ofd_and_posix_locks_exclude_each_other():
    put("f")
    with opened("f") as fd:
        lock(fd, OFD_SETLK, WRITE, 0, 10)
        same(other_gets(WRITE, 0, 10), errno.EAGAIN, "a POSIX lock against an OFD lock")
        same(other_gets(WRITE, 10, 10), 0, "beside it")
        with opened("f") as mine:
            expect(errno.EAGAIN, lock, mine, SETLK, WRITE, 0, 10)


@case
def lockf():
    put("f", b"x" * 100)
    with opened("f") as fd:
        os.lseek(fd, 10, os.SEEK_SET)
        os.lockf(fd, os.F_LOCK, 20)
        same((is_free(0, 10), is_free(10, 20), is_free(30, 10)), (True, False, True), "from the offset on")
        os.lockf(fd, os.F_ULOCK, 0)
        same(is_free(10, 20), True, "after F_ULOCK")
        os.lockf(fd, os.F_TLOCK, 5)

        def test():
            with opened("f") as mine:
                os.lseek(mine, 10, os.SEEK_SET)
                os.lockf(mine, os.F_TEST, 5)
        true(in_child(test) in (errno.EACCES, errno.EAGAIN), "F_TEST by another process says that it is locked")


@case
def many_ranges():
    put("f")
    with opened("f") as fd:
        for index in range(0, 400, 2):
            lock(fd, SETLK, WRITE, index * 10, 10)
        same([is_free(index * 10, 10) for index in range(0, 40)], [bool(i % 2) for i in range(40)], "free tens")
        lock(fd, SETLK, UNLOCK)
        same(is_free(0, 4000), True, "whether all is free")


@case
def lock_of_an_unlinked_file():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd, opened("f") as other:
        os.unlink("f")
        expect(0, fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        expect(errno.EWOULDBLOCK, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        expect(0, lock, fd, SETLK, WRITE)


@case
def counter_under_a_lock():
    """Four processes count in a file under fcntl locks: none is lost."""
    put("f", b"0")

    def count():
        for _ in range(25):
            fd = os.open("f", os.O_RDWR)
            lock(fd, SETLKW, WRITE)
            number = int(os.pread(fd, 20, 0) or b"0")
            os.pwrite(fd, b"%d" % (number + 1), 0)
            lock(fd, SETLK, UNLOCK)
            os.close(fd)

    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            count()
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "status of a counter")
    with opened("f") as fd:
        same(os.pread(fd, 20, 0), b"100", "count")
