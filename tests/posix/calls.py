"""System calls that Python does not offer, or not with every argument: thin, raising OSError."""
import ctypes
import os
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_EACCESS, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = (
    -100, 0x100, 0x200, 0x200, 0x400, 0x1000)
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO_RANGE, INSERT, UNSHARE = 1, 2, 8, 16, 32, 64
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
O_TMPFILE = 0o20200000
FLAG_APPEND, FLAG_IMMUTABLE, FLAG_NODUMP, FLAG_NOATIME = 0x20, 0x10, 0x40, 0x80
BAD = ctypes.c_void_p(1)    # An address that is never mapped.

SYSCALLS = {"x86_64": {"statx": 332, "faccessat2": 439, "openat2": 437, "fchmodat2": 452, "getdents64": 217,
                       "renameat2": 316, "mknodat": 259},
            "aarch64": {"statx": 291, "faccessat2": 439, "openat2": 437, "fchmodat2": 452, "getdents64": 61,
                        "renameat2": 276, "mknodat": 33}}[os.uname().machine]


def checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def text(path):
    """A path as C takes it; addresses and buffers stay what they are."""
    return os.fsencode(path) if isinstance(path, (str, bytes)) else path


def call(name, *args):
    """A C function by name; integers are passed as longs."""
    return checked(getattr(LIBC, name)(*[ctypes.c_long(a) if isinstance(a, int) else text(a) for a in args]))


def system(name, *args):
    return checked(LIBC.syscall(ctypes.c_long(SYSCALLS[name]),
                                *[ctypes.c_long(a) if isinstance(a, int) else text(a) for a in args]))


def renameat2(old, new, flags):
    system("renameat2", AT_FDCWD, old, AT_FDCWD, new, flags)


def fallocate(fd, mode, offset, length):
    call("fallocate", fd, mode, offset, length)


def utimensat(path, atime, mtime, flags=0, dirfd=AT_FDCWD):
    """Times as (seconds, nanoseconds)."""
    buffer = struct.pack("=qqqq", *atime, *mtime)
    call("utimensat", dirfd, path, ctypes.c_char_p(buffer), flags)


def linkat(old, new, flags=0, old_fd=AT_FDCWD):
    call("linkat", old_fd, old, AT_FDCWD, new, flags)


def truncate(path, size):
    call("truncate", path, size)


def ftruncate(fd, size):
    call("ftruncate", fd, size)


def creat(path, mode=0o644):
    os.close(call("creat", path, mode))


def faccessat2(path, mode, flags=0, dirfd=AT_FDCWD):
    system("faccessat2", dirfd, path, mode, flags)


def syncfs(fd):
    call("syncfs", fd)


def statfs(path):
    buffer = ctypes.create_string_buffer(256)
    call("statfs", path, buffer)
    return struct.unpack_from("=qqQQQQQqqq", buffer.raw)


class Statx:
    """The fields of statx(2) under their own names."""
    BTIME = 0x800
    FIELDS = struct.Struct("=IIQIIIHxxQQQQ qIxxxx qIxxxx qIxxxx qIxxxx IIII")

    def __init__(self, raw):
        (self.mask, self.blksize, self.attributes, self.nlink, self.uid, self.gid, self.mode, self.ino, self.size,
         self.blocks, self.attributes_mask, a_s, a_n, b_s, b_n, c_s, c_n, m_s, m_n,
         self.rdev_major, self.rdev_minor, self.dev_major, self.dev_minor) = self.FIELDS.unpack_from(raw)
        self.atime_ns, self.btime_ns = a_s * 10**9 + a_n, b_s * 10**9 + b_n
        self.ctime_ns, self.mtime_ns = c_s * 10**9 + c_n, m_s * 10**9 + m_n


def statx(path, flags=AT_SYMLINK_NOFOLLOW, mask=0xfff, dirfd=AT_FDCWD):
    buffer = ctypes.create_string_buffer(256)
    system("statx", dirfd, path, flags, mask, buffer)
    return Statx(buffer.raw)


def get_flags(fd):
    value = ctypes.c_int(0)
    checked(LIBC.ioctl(fd, ctypes.c_ulong(0x80086601), ctypes.byref(value)))
    return value.value


def set_flags(fd, flags):
    checked(LIBC.ioctl(fd, ctypes.c_ulong(0x40086602), ctypes.byref(ctypes.c_int(flags))))


class DirectoryStream:
    """opendir(3) and what belongs to it; entries as (name, type, inode)."""

    def __init__(self, path):
        for name, result, arguments in (("opendir", ctypes.c_void_p, [ctypes.c_char_p]),
                                        ("readdir", ctypes.c_void_p, [ctypes.c_void_p]),
                                        ("telldir", ctypes.c_long, [ctypes.c_void_p]),
                                        ("seekdir", None, [ctypes.c_void_p, ctypes.c_long]),
                                        ("rewinddir", None, [ctypes.c_void_p]),
                                        ("closedir", ctypes.c_int, [ctypes.c_void_p])):
            function = getattr(LIBC, name)
            function.restype, function.argtypes = result, arguments
        self.stream = LIBC.opendir(os.fsencode(path))
        if not self.stream:
            checked(-1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        LIBC.closedir(self.stream)

    def read(self):
        ctypes.set_errno(0)
        entry = LIBC.readdir(self.stream)
        if not entry:
            if ctypes.get_errno():
                checked(-1)
            return None
        inode, _, length, kind = struct.unpack("=QqHB", ctypes.string_at(entry, 19))
        return ctypes.string_at(entry + 19), kind, inode

    def rest(self):
        found = []
        while (entry := self.read()) is not None:
            found.append(entry)
        return found

    def tell(self):
        return LIBC.telldir(self.stream)

    def seek(self, place):
        LIBC.seekdir(self.stream, place)

    def rewind(self):
        LIBC.rewinddir(self.stream)
