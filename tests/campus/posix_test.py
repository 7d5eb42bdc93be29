#!/usr/bin/env python3
"""Every POSIX operation on /grid behaves as on ext4. `posix_test.py DIR` runs the same on any directory."""
import ctypes
import errno
import fcntl
import mmap
import os
import stat
import subprocess
import sys
import threading
import time
import unittest

import labkit

LIBC = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE = 1, 2, 16
USER, GROUP = 12345, 23456


def renameat2(old, new, flags):
    if LIBC.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def fallocate(fd, mode, offset, length):
    if LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def as_user(work, uid=USER, gid=GROUP, groups=()):
    """Runs `work` in a child as that user; returns its errno, 0 for success."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            os.setgroups(list(groups))
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            work()
            code = 0
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def put(path, data=b"", mode=0o644):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def get(path):
    with open(path, "rb") as file:
        return file.read()


class Posix(unittest.TestCase):
    BASE = None  # Set by main: the directory to test in, or None for a lab of its own.
    LAB = None

    @classmethod
    def setUpClass(cls):
        if cls.BASE is None:
            cls.LAB = labkit.Lab("t-posix", "--nodes", "main=1,b=1")
            cls.BASE = cls.LAB.grid("b1")

    @classmethod
    def tearDownClass(cls):
        if cls.LAB:
            cls.LAB.down()

    def setUp(self):
        os.umask(0o022)
        self.dir = os.path.join(self.BASE, self.id().split(".")[-1])
        os.mkdir(self.dir)
        os.chmod(self.dir, 0o777)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def fails(self, code, work, *args):
        with self.assertRaises(OSError) as caught:
            work(*args)
        self.assertEqual(caught.exception.errno, code, os.strerror(caught.exception.errno))

    def test_create_write_read(self):
        put(self.path("f"), b"hello" * 1000)
        self.assertEqual(get(self.path("f")), b"hello" * 1000)
        got = os.stat(self.path("f"))
        self.assertEqual((got.st_size, got.st_nlink, stat.S_IMODE(got.st_mode)), (5000, 1, 0o644))
        self.fails(errno.ENOENT, os.stat, self.path("g"))
        self.fails(errno.ENOTDIR, os.stat, self.path("f", "x"))
        self.fails(errno.EISDIR, os.open, self.dir, os.O_WRONLY)

    def test_open_flags(self):
        put(self.path("f"), b"12345")
        self.fails(errno.EEXIST, os.open, self.path("f"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.close(os.open(self.path("f"), os.O_WRONLY | os.O_TRUNC))
        self.assertEqual(os.stat(self.path("f")).st_size, 0)
        one = os.open(self.path("f"), os.O_WRONLY | os.O_APPEND)
        two = os.open(self.path("f"), os.O_WRONLY | os.O_APPEND)
        for fd, text in ((one, b"a"), (two, b"b"), (one, b"c")):
            os.write(fd, text)
        os.close(one)
        os.close(two)
        self.assertEqual(get(self.path("f")), b"abc")
        self.fails(errno.ENOTDIR, os.open, self.path("f"), os.O_RDONLY | os.O_DIRECTORY)
        os.symlink("f", self.path("l"))
        self.fails(errno.ELOOP, os.open, self.path("l"), os.O_RDONLY | os.O_NOFOLLOW)

    def test_mkdir_rmdir_and_link_counts(self):
        base = os.stat(self.dir).st_nlink
        os.mkdir(self.path("d"))
        self.assertEqual(os.stat(self.dir).st_nlink, base + 1)
        self.assertEqual(os.stat(self.path("d")).st_nlink, 2)
        self.fails(errno.EEXIST, os.mkdir, self.path("d"))
        put(self.path("d", "f"))
        self.fails(errno.ENOTEMPTY, os.rmdir, self.path("d"))
        self.fails(errno.ENOTDIR, os.rmdir, self.path("d", "f"))
        os.remove(self.path("d", "f"))
        os.rmdir(self.path("d"))
        self.assertEqual(os.stat(self.dir).st_nlink, base)

    def test_mknod_fifo_and_socket(self):
        os.mkfifo(self.path("p"), 0o600)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("p")).st_mode))
        writer = threading.Thread(target=lambda: put(self.path("p"), b"through"))
        writer.start()
        self.assertEqual(get(self.path("p")), b"through")
        writer.join()
        os.mknod(self.path("s"), stat.S_IFSOCK | 0o644)
        self.assertTrue(stat.S_ISSOCK(os.stat(self.path("s")).st_mode))
        os.mknod(self.path("c"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        self.assertEqual(os.stat(self.path("c")).st_rdev, os.makedev(1, 3))

    def test_symlink_and_readlink(self):
        target = "x/" * 500 + "né"
        os.symlink(target, self.path("l"))
        self.assertEqual(os.readlink(self.path("l")), target)
        self.assertEqual(os.lstat(self.path("l")).st_size, len(os.fsencode(target)))
        self.fails(errno.EEXIST, os.symlink, "y", self.path("l"))
        os.symlink("loop", self.path("loop"))
        self.fails(errno.ELOOP, os.stat, self.path("loop"))

    def test_link_and_unlink(self):
        put(self.path("f"), b"shared")
        os.link(self.path("f"), self.path("g"))
        self.assertEqual(os.stat(self.path("f")).st_nlink, 2)
        self.assertTrue(os.path.samefile(self.path("f"), self.path("g")))
        put(self.path("g"), b"changed")
        self.assertEqual(get(self.path("f")), b"changed")
        os.remove(self.path("f"))
        self.assertEqual((os.stat(self.path("g")).st_nlink, get(self.path("g"))), (1, b"changed"))
        self.fails(errno.EEXIST, os.link, self.path("g"), self.path("g"))
        self.fails(errno.EPERM, os.link, self.dir, self.path("h"))
        self.fails(errno.EISDIR, os.unlink, self.dir)

    def test_rename_matrix(self):
        put(self.path("a"), b"a")
        put(self.path("b"), b"b")
        os.rename(self.path("a"), self.path("b"))
        self.assertEqual((os.listdir(self.dir), get(self.path("b"))), (["b"], b"a"))
        os.mkdir(self.path("d"))
        os.mkdir(self.path("e"))
        put(self.path("e", "x"))
        self.fails(errno.ENOTDIR, os.rename, self.path("d"), self.path("b"))
        self.fails(errno.EISDIR, os.rename, self.path("b"), self.path("d"))
        self.fails(errno.ENOTEMPTY, os.rename, self.path("d"), self.path("e"))
        self.fails(errno.EINVAL, os.rename, self.path("e"), self.path("e", "sub"))
        os.rename(self.path("e"), self.path("d"))
        self.assertEqual(os.listdir(self.path("d")), ["x"])
        os.link(self.path("b"), self.path("b2"))
        os.rename(self.path("b"), self.path("b2"))   # Two names of one inode: nothing happens.
        self.assertEqual(sorted(os.listdir(self.dir)), ["b", "b2", "d"])

    def test_rename_noreplace_and_exchange(self):
        put(self.path("a"), b"a")
        put(self.path("b"), b"b")
        self.fails(errno.EEXIST, renameat2, self.path("a"), self.path("b"), NOREPLACE)
        renameat2(self.path("a"), self.path("c"), NOREPLACE)
        renameat2(self.path("c"), self.path("b"), EXCHANGE)
        self.assertEqual((get(self.path("b")), get(self.path("c"))), (b"a", b"b"))
        self.fails(errno.ENOENT, renameat2, self.path("b"), self.path("none"), EXCHANGE)
        os.mkdir(self.path("d"))
        renameat2(self.path("d"), self.path("b"), EXCHANGE)
        self.assertTrue(os.path.isdir(self.path("b")))
        self.assertEqual(get(self.path("d")), b"a")

    def test_chmod_and_chown(self):
        put(self.path("f"))
        os.chmod(self.path("f"), 0o4751)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("f")).st_mode), 0o4751)
        os.chown(self.path("f"), USER, GROUP)
        got = os.stat(self.path("f"))
        self.assertEqual((got.st_uid, got.st_gid), (USER, GROUP))
        self.assertEqual(as_user(lambda: os.chmod(self.path("f"), 0o600)), 0)
        self.assertEqual(as_user(lambda: os.chmod(self.path("f"), 0o600), uid=USER + 1), errno.EPERM)
        self.assertEqual(as_user(lambda: os.chown(self.path("f"), USER + 1, -1)), errno.EPERM)
        self.assertEqual(as_user(lambda: os.chown(self.path("f"), -1, 777), groups=(777,)), 0)
        self.assertEqual(os.stat(self.path("f")).st_gid, 777)

    def test_permissions_are_enforced(self):
        put(self.path("secret"), b"x", 0o600)
        self.assertEqual(as_user(lambda: get(self.path("secret"))), errno.EACCES)
        os.mkdir(self.path("closed"), 0o700)
        self.assertEqual(as_user(lambda: os.listdir(self.path("closed"))), errno.EACCES)
        self.assertEqual(as_user(lambda: put(self.path("closed", "f"))), errno.EACCES)
        os.mkdir(self.path("group"))
        os.chown(self.path("group"), 0, 777)
        os.chmod(self.path("group"), 0o770)
        self.assertEqual(as_user(lambda: put(self.path("group", "f")), groups=(777,)), 0)
        self.assertEqual(as_user(lambda: put(self.path("group", "f"))), errno.EACCES)

    def test_new_files_belong_to_the_caller(self):
        self.assertEqual(as_user(lambda: (put(self.path("f")), os.mkdir(self.path("d")), os.symlink("x", self.path("l")),
                                          os.mkfifo(self.path("p")))), 0)
        for name in "fdlp":
            got = os.lstat(self.path(name))
            self.assertEqual((got.st_uid, got.st_gid), (USER, GROUP), name)

    def test_set_gid_directory_and_sticky_bit(self):
        os.chown(self.dir, 0, 777)
        os.chmod(self.dir, 0o3777)
        self.assertEqual(as_user(lambda: (put(self.path("f")), os.mkdir(self.path("d")))), 0)
        self.assertEqual(os.stat(self.path("f")).st_gid, 777)
        self.assertTrue(os.stat(self.path("d")).st_mode & stat.S_ISGID)
        self.assertEqual(as_user(lambda: os.remove(self.path("f")), uid=USER + 1), errno.EPERM)
        self.assertEqual(as_user(lambda: os.rename(self.path("f"), self.path("g")), uid=USER + 1), errno.EPERM)
        self.assertEqual(as_user(lambda: os.remove(self.path("f"))), 0)

    def test_set_id_bits_are_cleared_by_a_write(self):
        put(self.path("f"), b"x" * 10)
        os.chown(self.path("f"), USER, GROUP)
        for change in (lambda: self.write_at(b"y"), lambda: os.truncate(self.path("f"), 5),
                       lambda: os.chown(self.path("f"), USER, GROUP)):
            os.chmod(self.path("f"), 0o6777)
            self.assertEqual(as_user(change), 0)
            self.assertEqual(stat.S_IMODE(os.stat(self.path("f")).st_mode), 0o777)

    def write_at(self, data):
        fd = os.open(self.path("f"), os.O_WRONLY)
        os.write(fd, data)
        os.close(fd)

    def test_times_in_nanoseconds(self):
        put(self.path("f"), b"x")
        os.utime(self.path("f"), ns=(1_500_000_000_123_456_789, 1_600_000_000_987_654_321))
        got = os.stat(self.path("f"))
        self.assertEqual((got.st_atime_ns, got.st_mtime_ns), (1_500_000_000_123_456_789, 1_600_000_000_987_654_321))
        before = os.stat(self.path("f"))
        put(self.path("f"), b"yy")
        after = os.stat(self.path("f"))
        self.assertGreater(after.st_mtime_ns, before.st_mtime_ns)
        self.assertGreater(after.st_ctime_ns, before.st_ctime_ns)
        before = os.stat(self.dir)
        for change in (lambda: put(self.path("n")), lambda: os.link(self.path("n"), self.path("m")),
                       lambda: os.rename(self.path("m"), self.path("o")), lambda: os.remove(self.path("n")),
                       lambda: os.mkdir(self.path("d")), lambda: os.rmdir(self.path("d"))):
            change()
            after = os.stat(self.dir)
            self.assertGreater(after.st_mtime_ns, before.st_mtime_ns)
            before = after
        with open(self.path("f"), "wb") as file:    # A time set by hand survives close.
            file.write(b"data")
            file.flush()
            os.utime(file.fileno(), ns=(5, 7))
        self.assertEqual(os.stat(self.path("f")).st_mtime_ns, 7)
        self.assertEqual(as_user(lambda: os.utime(self.path("f"), ns=(1, 1))), errno.EPERM)
        os.chmod(self.path("f"), 0o666)
        self.assertEqual(as_user(lambda: os.utime(self.path("f"))), 0)

    def test_truncate(self):
        put(self.path("f"), b"x" * 3_000_000)
        os.truncate(self.path("f"), 1_000_001)
        self.assertEqual(get(self.path("f")), b"x" * 1_000_001)
        os.truncate(self.path("f"), 2_000_000)
        self.assertEqual(get(self.path("f")), b"x" * 1_000_001 + bytes(999_999))
        with open(self.path("f"), "r+b") as file:
            file.truncate(10)
            self.assertEqual(os.fstat(file.fileno()).st_size, 10)
        self.assertEqual(get(self.path("f")), b"x" * 10)
        self.fails(errno.EISDIR, os.truncate, self.dir, 0)

    def test_xattrs(self):
        for path in (self.dir, self.path("f")):
            if path != self.dir:
                put(path)
            os.setxattr(path, "user.a", b"1")
            self.fails(errno.EEXIST, os.setxattr, path, "user.a", b"2", os.XATTR_CREATE)
            self.fails(errno.ENODATA, os.setxattr, path, "user.b", b"2", os.XATTR_REPLACE)
            os.setxattr(path, "user.a", b"x" * 4000, os.XATTR_REPLACE)
            self.assertEqual(os.getxattr(path, "user.a"), b"x" * 4000)
            os.setxattr(path, "user.empty", b"")
            self.assertEqual(sorted(os.listxattr(path)), ["user.a", "user.empty"])
            os.removexattr(path, "user.a")
            self.fails(errno.ENODATA, os.getxattr, path, "user.a")
            self.fails(errno.ENODATA, os.removexattr, path, "user.a")
        self.assertEqual(as_user(lambda: os.setxattr(self.path("f"), "user.c", b"1")), errno.EACCES)

    def test_statfs(self):
        got = os.statvfs(self.dir)
        self.assertEqual(got.f_namemax, 255)
        self.assertGreater(got.f_blocks, 0)
        self.assertLessEqual(got.f_bavail, got.f_blocks)

    def test_open_unlinked_file_lives_on(self):
        fd = os.open(self.path("f"), os.O_RDWR | os.O_CREAT)
        os.write(fd, b"before")
        os.remove(self.path("f"))
        os.write(fd, b" after")
        self.assertEqual(os.pread(fd, 100, 0), b"before after")
        self.assertEqual(os.fstat(fd).st_nlink, 0)
        os.ftruncate(fd, 3)
        os.fchmod(fd, 0o600)
        os.fsync(fd)
        self.assertEqual((os.fstat(fd).st_size, stat.S_IMODE(os.fstat(fd).st_mode)), (3, 0o600))
        put(self.path("f"), b"new")
        self.assertNotEqual(os.stat(self.path("f")).st_ino, os.fstat(fd).st_ino)
        os.close(fd)
        self.assertEqual(get(self.path("f")), b"new")

    def test_mmap_read_and_shared_write(self):
        put(self.path("f"), bytes(3 << 20))
        with open(self.path("f"), "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
            view[(1 << 20) + 5:(1 << 20) + 9] = b"here"
            self.assertEqual(os.pread(file.fileno(), 4, (1 << 20) + 5), b"here")
            os.pwrite(file.fileno(), b"there", 100)
            self.assertEqual(view[100:105], b"there")
            view.flush()
        data = get(self.path("f"))
        self.assertEqual((data[100:105], data[(1 << 20) + 5:(1 << 20) + 9]), (b"there", b"here"))

    def test_holes_fallocate_and_seek(self):
        fd = os.open(self.path("f"), os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"end", 10 << 20)
        self.assertEqual(os.fstat(fd).st_size, (10 << 20) + 3)
        self.assertLess(os.fstat(fd).st_blocks * 512, 2 << 20)
        self.assertEqual(os.pread(fd, 10, 5 << 20), bytes(10))
        self.assertEqual(os.lseek(fd, 0, os.SEEK_DATA), 10 << 20)
        self.assertEqual(os.lseek(fd, 0, os.SEEK_HOLE), 0)
        fallocate(fd, 0, 0, 20 << 20)
        self.assertEqual(os.fstat(fd).st_size, 20 << 20)
        fallocate(fd, FALLOC_KEEP_SIZE, 20 << 20, 1 << 20)
        self.assertEqual(os.fstat(fd).st_size, 20 << 20)
        fallocate(fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 10 << 20, 1 << 20)
        self.assertEqual(os.pread(fd, 3, 10 << 20), bytes(3))
        os.pwrite(fd, b"zz", 0)
        fallocate(fd, FALLOC_ZERO_RANGE, 0, 4096)
        self.assertEqual(os.pread(fd, 2, 0), bytes(2))
        os.close(fd)
        self.assertEqual(os.stat(self.path("f")).st_size, 20 << 20)

    def test_direct_io(self):
        fd = os.open(self.path("f"), os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        page = mmap.mmap(-1, 8192)
        page[:] = b"d" * 8192
        self.assertEqual(os.writev(fd, [page]), 8192)
        back = mmap.mmap(-1, 8192)
        self.assertEqual(os.preadv(fd, [back], 0), 8192)
        self.assertEqual(back[:], b"d" * 8192)
        os.close(fd)
        self.assertEqual(get(self.path("f")), b"d" * 8192)

    def test_copy_file_range(self):
        put(self.path("f"), os.urandom(3_000_000))
        with open(self.path("f"), "rb") as source, open(self.path("g"), "wb") as target:
            left = 3_000_000
            while left:
                done = os.copy_file_range(source.fileno(), target.fileno(), left)
                self.assertGreater(done, 0)
                left -= done
        self.assertEqual(get(self.path("f")), get(self.path("g")))

    def test_flock_and_fcntl_locks(self):
        put(self.path("f"), b"x" * 100)
        probe = ("import fcntl,sys,os\nf=open(sys.argv[1],'r+b')\n"
                 "try:\n getattr(fcntl,sys.argv[2])(f,fcntl.LOCK_EX|fcntl.LOCK_NB)\nexcept BlockingIOError: sys.exit(9)")

        def other(kind):
            return subprocess.run([sys.executable, "-c", probe, self.path("f"), kind], timeout=60).returncode
        with open(self.path("f"), "r+b") as file:
            for kind in ("flock", "lockf"):
                lock = getattr(fcntl, kind)
                lock(file, fcntl.LOCK_EX)
                self.assertEqual(other(kind), 9)
                lock(file, fcntl.LOCK_UN)
                self.assertEqual(other(kind), 0)
            fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
            code = ("import fcntl,sys\nf=open(sys.argv[1],'r+b')\nfcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,10,50)")
            self.assertEqual(subprocess.run([sys.executable, "-c", code, self.path("f")], timeout=60).returncode, 0)
        self.assertEqual(other("lockf"), 0)   # Closing gives the lock back.

    def test_waiting_lock_is_granted_when_the_holder_lets_go(self):
        put(self.path("f"))
        holder = open(self.path("f"), "r+b")
        fcntl.flock(holder, fcntl.LOCK_EX)
        waiter = subprocess.Popen([sys.executable, "-c", "import fcntl,sys\nf=open(sys.argv[1],'r+b')\n"
                                   "print('waiting',flush=True)\nfcntl.flock(f,fcntl.LOCK_EX)\nprint('got',flush=True)",
                                   self.path("f")], stdout=subprocess.PIPE, text=True)
        self.assertEqual(waiter.stdout.readline(), "waiting\n")
        holder.close()
        self.assertEqual(waiter.communicate(timeout=60)[0], "got\n")

    def test_readdir_survives_concurrent_changes(self):
        stay = {f"stay{i:04}" for i in range(2000)}
        for name in stay:
            put(self.path(name))
        going = True

        def churn():
            i = 0
            while going:
                put(self.path(f"churn{i % 50}"))
                os.rename(self.path(f"churn{i % 50}"), self.path(f"moved{i % 50}"))
                os.remove(self.path(f"moved{i % 50}"))
                i += 1
        worker = threading.Thread(target=churn)
        worker.start()
        try:
            for _ in range(10):
                names = os.listdir(self.dir)
                self.assertEqual(sorted(n for n in names if n.startswith("stay")), sorted(stay))
        finally:
            going = False
            worker.join()
        with os.scandir(self.dir) as entries:
            for entry in entries:
                self.assertEqual(entry.inode(), os.stat(entry.path).st_ino)

    def test_inode_numbers_are_stable(self):
        put(self.path("f"), b"1")
        number = os.stat(self.path("f")).st_ino
        put(self.path("f"), b"22")
        os.rename(self.path("f"), self.path("g"))
        os.chmod(self.path("g"), 0o600)
        self.assertEqual(os.stat(self.path("g")).st_ino, number)

    def test_names_of_any_bytes(self):
        names = [b"\xff\xfe", "é".encode(), "e\u0301".encode(), b" lead", b"new\nline", b"back\\slash", b"x" * 255,
                 "文".encode() * 85, b"-rf", b"'\"$`*"]
        for name in names:
            put(os.path.join(os.fsencode(self.dir), name), name)
        self.assertEqual(sorted(os.listdir(os.fsencode(self.dir))), sorted(names))
        for name in names:
            self.assertEqual(get(os.path.join(os.fsencode(self.dir), name)), name)
        self.fails(errno.ENAMETOOLONG, put, self.path("x" * 256))
        self.fails(errno.ENAMETOOLONG, os.stat, self.path("x" * 256))

    def test_open_directory_handles_survive_a_rename(self):
        os.makedirs(self.path("old", "deep"))
        fd = os.open(self.path("old", "deep"), os.O_RDONLY)
        os.rename(self.path("old"), self.path("new"))
        inner = os.open("f", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
        os.write(inner, b"moved")
        os.close(inner)
        os.close(fd)
        self.assertEqual(get(self.path("new", "deep", "f")), b"moved")

    def test_close_of_one_handle_keeps_the_other_writing(self):
        one = os.open(self.path("f"), os.O_WRONLY | os.O_CREAT)
        two = os.dup(one)
        os.write(one, b"first")
        os.close(one)
        os.write(two, b"second")
        os.close(two)
        self.assertEqual(get(self.path("f")), b"firstsecond")

    def test_reader_sees_a_growing_file_on_the_same_node(self):
        with open(self.path("log"), "ab", buffering=0) as writer, open(self.path("log"), "rb", buffering=0) as reader:
            for i in range(100):
                writer.write(b"line %d\n" % i)
                self.assertEqual(reader.read(), b"line %d\n" % i)

    def test_programs_run_from_here(self):
        put(self.path("script"), b"#!/bin/sh\necho ran $1\n", 0o755)
        self.assertEqual(subprocess.run([self.path("script"), "x"], stdout=subprocess.PIPE, timeout=60).stdout, b"ran x\n")
        os.chmod(self.path("script"), 0o644)
        self.fails(errno.EACCES, subprocess.run, [self.path("script")])


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
        Posix.BASE = os.path.join(sys.argv.pop(1), f"posix-{os.getpid()}-{time.time_ns()}")
        os.mkdir(Posix.BASE)
        os.chmod(Posix.BASE, 0o755)
    labkit.main()
