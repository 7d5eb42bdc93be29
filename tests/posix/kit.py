"""What every case uses: registering, users, expectations, waiting.

A case is a function without arguments that runs as root, in a child process of its own, inside an empty directory of
mode 0777 with umask 022; it raises to fail. Nothing of a case can reach another one.
"""
import contextlib
import ctypes
import dataclasses
import errno
import os
import random
import stat
import time

CASES = []      # Case, in the order of their files.
SEED = [1]      # Set by the runner.


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    work: object
    args: tuple
    alone: bool     # Measures or floods: not beside others.


class Mismatch(AssertionError):
    """What came is not what was expected."""


class Skip(Exception):
    """This directory or machine cannot show it; the text says why."""


def subject_of(work):
    return work.__module__.rsplit(".", 1)[-1]


def case(work):
    CASES.append(Case(f"{subject_of(work)}.{work.__name__}", work, (), False))
    return work


def alone(work):
    CASES.append(Case(f"{subject_of(work)}.{work.__name__}", work, (), True))
    return work


def table(rows):
    """One case for each row (label, *arguments)."""
    def register(work):
        for label, *args in rows:
            CASES.append(Case(f"{subject_of(work)}.{work.__name__}[{label}]", work, tuple(args), False))
        return work
    return register


# ---- users

@dataclasses.dataclass(frozen=True)
class User:
    name: str
    uid: int
    gid: int
    groups: tuple = ()

    def __str__(self):
        return self.name


ROOT = User("root", 0, 0)
OWNER = User("owner", 65001, 65101)
MEMBER = User("group", 65002, 65101)                    # The owner's group is its own group.
JOINED = User("supplementary", 65003, 65103, (65999, 65101))  # ... is one of its further groups.
OTHER = User("other", 65004, 65104)
USERS = (OWNER, MEMBER, JOINED, OTHER, ROOT)
PLAIN_USERS = USERS[:-1]


@contextlib.contextmanager
def being(user):
    """Real, effective and file-system ids are the user's; the saved id stays root's, to come back."""
    if user is ROOT:
        yield
        return
    os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, 0)
    os.setresuid(user.uid, user.uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups([])


def give(path, user=OWNER, mode=None):
    """The path belongs to the user and his group."""
    os.chown(path, user.uid, user.gid, follow_symlinks=False)
    if mode is not None:
        os.chmod(path, mode)


# ---- expectations

def name_of(code):
    return "success" if code == 0 else errno.errorcode.get(code, str(code))


def result_of(work, *args, user=ROOT, **keywords):
    """(0, value) or (errno, None)."""
    with being(user):
        try:
            return 0, work(*args, **keywords)
        except OSError as error:
            if error.errno is None:
                raise
            return error.errno, None


def describe(work, args, user):
    shown = ", ".join(repr(a if not isinstance(a, (str, bytes)) or len(a) < 60 else a[:40]) for a in args)
    return f"{getattr(work, '__name__', work)}({shown})" + ("" if user is ROOT else f" as {user}")


def expect(want, work, *args, user=ROOT, note="", **keywords):
    """`want`: 0 for success, an errno, or several of which any will do. Gives back what the work gave."""
    wanted = want if isinstance(want, tuple) else (want,)
    code, value = result_of(work, *args, user=user, **keywords)
    if code not in wanted:
        raise Mismatch(f"{describe(work, args, user)}{' ' + note if note else ''}: "
                       f"expected {' or '.join(map(name_of, wanted))}, got {name_of(code)}")
    return value


def same(got, want, what):
    if got != want:
        raise Mismatch(f"{what}: expected {shorten(want)}, got {shorten(got)}")


def true(condition, what):
    if not condition:
        raise Mismatch(f"{what}: it is not so")


def shorten(value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:160]}... ({len(text)} characters)"


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def same_mode(path, want, what=""):
    got = mode_of(path)
    if got != want:
        raise Mismatch(f"mode of {path!r} {what}: expected {want:04o}, got {got:04o}")


def same_names(path, want, what="names"):
    same(sorted(os.listdir(path)), sorted(want), f"{what} in {path!r}")


# ---- files

def put(path, data=b"", mode=0o644):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view):]
    finally:
        os.close(fd)
    return path


def get(path):
    with open(path, "rb", buffering=0) as file:
        return file.readall()


@contextlib.contextmanager
def opened(path, flags=os.O_RDWR, mode=0o644):
    fd = os.open(path, flags, mode)
    try:
        yield fd
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)


def touch(path, flags=os.O_RDONLY, mode=0o644):
    """open(2) and close(2) again."""
    os.close(os.open(path, flags, mode))


KINDS = ("file", "directory", "symlink", "fifo", "socket", "character device", "block device")


def make(kind, path, mode=0o644):
    """A new thing of that kind; symbolic links dangle."""
    if kind == "file":
        put(path, b"content", mode)
    elif kind == "directory":
        os.mkdir(path, mode | 0o111)
    elif kind == "symlink":
        os.symlink("nowhere", path)
    elif kind == "fifo":
        os.mkfifo(path, mode)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | mode)
    elif kind == "character device":
        os.mknod(path, stat.S_IFCHR | mode, os.makedev(1, 3))
    elif kind == "block device":
        os.mknod(path, stat.S_IFBLK | mode, os.makedev(7, 250))
    else:
        raise ValueError(kind)
    return path


def remove(path):
    if stat.S_ISDIR(os.lstat(path).st_mode):
        os.rmdir(path)
    else:
        os.unlink(path)


# ---- processes, waiting

@contextlib.contextmanager
def child(work, *args):
    """Runs `work(*args)` in a child; gives its pid. The child is ended and collected at the end."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            code = work(*args) or 0
        except OSError as error:
            code = error.errno or 254
        finally:
            os._exit(code)
    try:
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                os.kill(pid, 9)
                os.waitpid(pid, 0)


def in_child(work, *args):
    """Exit status of the work in a child: 0, an errno, or minus a signal."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            code = work(*args) or 0
        except OSError as error:
            code = error.errno or 254
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def until(what, test, seconds=20):
    """Waits for the thing itself, with a bound; its first true value."""
    limit = time.monotonic() + seconds
    while True:
        value = test()
        if value:
            return value
        if time.monotonic() > limit:
            raise Mismatch(f"after {seconds} s still not: {what}")
        time.sleep(0.001)


def tick():
    """Returns once the kernel's coarse clock, which stamps files, has moved on."""
    start = time.clock_gettime_ns(time.CLOCK_REALTIME_COARSE if hasattr(time, "CLOCK_REALTIME_COARSE") else 5)
    while time.clock_gettime_ns(5) <= start:
        pass


def randomness(name):
    return random.Random(f"{SEED[0]}/{name}")


def system_setting(name):
    """An integer below /proc/sys/fs, 0 if it is not there."""
    try:
        return int(get(f"/proc/sys/fs/{name}"))
    except OSError:
        return 0


LIBC = ctypes.CDLL(None, use_errno=True)
