"""Making files, directories and nodes: modes, owners, umask, open flags."""
import errno
import mmap
import os
import socket
import stat

from calls import BAD, O_TMPFILE, call, linkat
from kit import (KINDS, MEMBER, OTHER, OWNER, PLAIN_USERS, ROOT, USERS, being, case, expect, get, give, in_child, make,
                 opened, put, remove, same, same_mode, same_names, table, touch, true)

MAKERS = {
    "open": lambda path, mode: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode)),
    "creat": lambda path, mode: os.close(call("creat", path, mode)),
    "mkdir": os.mkdir,
    "mkfifo": os.mkfifo,
    "mknod file": lambda path, mode: os.mknod(path, stat.S_IFREG | mode),
    "mknod socket": lambda path, mode: os.mknod(path, stat.S_IFSOCK | mode),
}


@table([(f"{name}, {mask:03o}", name, mask) for name in MAKERS for mask in (0, 0o022, 0o077, 0o777, 0o137)])
def umask(name, mask):
    for mode in (0o777, 0o666, 0o640, 0o001, 0):
        os.umask(mask)
        expect(0, MAKERS[name], "x", mode)
        os.umask(0o022)
        same_mode("x", mode & ~mask, f"asked {mode:03o}")
        remove("x")


@table([(name, name) for name in MAKERS])
def special_bits(name):
    os.umask(0)
    expect(0, MAKERS[name], "x", 0o7777)
    # mkdir(2) ignores set-id bits, not the sticky one.
    same_mode("x", 0o1777 if name == "mkdir" else 0o7777)


@table([(f"{name}, {user}", name, user) for name in MAKERS for user in USERS])
def owner_is_the_caller(name, user):
    expect(0, MAKERS[name], "x", 0o640, user=user)
    made = os.lstat("x")
    same((made.st_uid, made.st_gid), (user.uid, user.gid), "owner and group")
    same(made.st_nlink, 2 if name == "mkdir" else 1, "links")
    same(made.st_size, made.st_size if name == "mkdir" else 0, "size")


@table([(str(user), user) for user in PLAIN_USERS])
def symlink_owner_and_mode(user):
    expect(0, os.symlink, "target", "l", user=user)
    made = os.lstat("l")
    same((made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode), made.st_size), (user.uid, user.gid, 0o777, 6),
         "owner, group, mode, size")


@table([(f"{name}, {user}", name, user) for name in (*MAKERS, "symlink") for user in USERS])
def set_gid_directory_gives_its_group(name, user):
    os.mkdir("d")
    os.chown("d", 0, 65200)
    os.chmod("d", 0o2777)
    work = (lambda path, mode: os.symlink("x", path)) if name == "symlink" else MAKERS[name]
    expect(0, work, "d/x", 0o770, user=user)
    made = os.lstat("d/x")
    same((made.st_uid, made.st_gid), (user.uid, 65200), "owner and group")
    if name == "mkdir":
        same_mode("d/x", 0o2750, "of a directory in a set-gid directory")


@table([(name, name) for name in MAKERS if name != "mkdir"])
def set_gid_of_a_stranger_is_dropped(name):
    """A file with group execution cannot become set-gid for a group its maker is not in."""
    os.umask(0)
    os.mkdir("d")
    os.chown("d", 0, 65200)
    os.chmod("d", 0o2777)
    expect(0, MAKERS[name], "d/x", 0o2771, user=OWNER)
    same_mode("d/x", 0o771 if name in ("open", "creat", "mknod file") else mode_of_node("d/x"))


def mode_of_node(path):
    """Nodes other than files: kernels differ in whether they drop the bit."""
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    true(mode in (0o771, 0o2771), f"mode {mode:04o} is 0771 or 2771")
    return mode


@table([(kind, kind) for kind in KINDS])
def kinds(kind):
    make(kind, "x", 0o600)
    test = {"file": stat.S_ISREG, "directory": stat.S_ISDIR, "symlink": stat.S_ISLNK, "fifo": stat.S_ISFIFO,
            "socket": stat.S_ISSOCK, "character device": stat.S_ISCHR, "block device": stat.S_ISBLK}[kind]
    true(test(os.lstat("x").st_mode), f"it is a {kind}")
    with os.scandir(".") as entries:
        same([(e.name, stat.S_IFMT(e.stat(follow_symlinks=False).st_mode)) for e in entries],
             [("x", stat.S_IFMT(os.lstat("x").st_mode))], "listing")
    remove("x")
    expect(errno.ENOENT, os.lstat, "x")


@table([(kind, kind) for kind in ("character device", "block device")])
def device_numbers(kind):
    for major, minor in ((1, 3), (0, 0), (255, 255), (4095, 1048575), (7, 256)):
        form = stat.S_IFCHR if kind == "character device" else stat.S_IFBLK
        os.mknod("x", form | 0o600, os.makedev(major, minor))
        found = os.lstat("x").st_rdev
        same((os.major(found), os.minor(found)), (major, minor), "device")
        os.unlink("x")


@table([(f"{kind}, {user}", kind, user) for kind in ("character device", "block device") for user in PLAIN_USERS])
def devices_are_for_root(kind, user):
    expect(errno.EPERM, make, kind, "x", user=user)
    expect(errno.ENOENT, os.lstat, "x")


@table([(kind, kind) for kind in ("file", "fifo", "socket")])
def nodes_are_for_everybody(kind):
    for user in PLAIN_USERS:
        expect(0, make, kind, str(user), user=user)


@case
def mknod_of_odd_kinds():
    expect(errno.EPERM, os.mknod, "x", stat.S_IFDIR | 0o755)
    expect(errno.EINVAL, os.mknod, "x", stat.S_IFLNK | 0o755)
    expect(errno.EINVAL, os.mknod, "x", 0o150000 | 0o755)
    os.mknod("x", 0o644)    # No kind means a file.
    true(stat.S_ISREG(os.lstat("x").st_mode), "kind 0 makes a file")


@case
def opening_devices():
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod("zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        found = [line.split() for line in file]
    here = os.stat(".").st_dev
    options = [line[5] for line in found if line[2] == f"{os.major(here)}:{os.minor(here)}"]
    if any("nodev" in text for text in options) or not options:
        expect((0, errno.EACCES), touch, "null")
        return
    with opened("zero") as fd:
        same(os.read(fd, 5), bytes(5), "read from zero")
    put("null", b"gone")
    same(get("null"), b"", "read from null")


@case
def device_without_driver():
    os.mknod("x", stat.S_IFCHR | 0o666, os.makedev(4090, 77))
    expect((errno.ENXIO, errno.EACCES), touch, "x")    # EACCES: mounted nodev.
    os.mknod("b", stat.S_IFBLK | 0o666, os.makedev(4090, 77))
    expect((errno.ENXIO, errno.EACCES), touch, "b")


# ---- open(2)

@case
def exclusive():
    expect(0, touch, "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    expect(errno.EEXIST, touch, "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.symlink("missing", "l")
    expect(errno.EEXIST, touch, "l", os.O_CREAT | os.O_EXCL | os.O_WRONLY, note="a dangling symlink")
    expect(errno.ENOENT, os.stat, "missing")
    os.mkdir("d")
    expect(errno.EEXIST, touch, "d", os.O_CREAT | os.O_EXCL | os.O_WRONLY)


@case
def create_through_a_dangling_symlink():
    os.symlink("target", "l")
    expect(0, touch, "l", os.O_CREAT | os.O_WRONLY)
    same_names(".", ["l", "target"])


@case
def create_race_has_one_winner():
    ready, go = os.pipe()
    pids = []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            os.close(go)
            os.read(ready, 1)
            won = 0
            for index in range(30):
                try:
                    touch(f"f{index}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                    won += 1
                except FileExistsError:
                    pass
            os._exit(won)
        pids.append(pid)
    os.close(go)
    same(sum(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids), 30, "exclusive creates that succeeded")


@case
def directories_cannot_be_written():
    os.mkdir("d")
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_RDONLY | os.O_CREAT):
        expect(errno.EISDIR, touch, "d", flags, note=f"flags {flags:o}")
    with opened("d", os.O_RDONLY) as fd:
        expect(errno.EISDIR, os.read, fd, 1)
        expect(errno.EBADF, os.write, fd, b"x")
        expect(errno.EINVAL, os.ftruncate, fd, 0)


@table([(kind, kind) for kind in KINDS])
def o_directory(kind):
    make(kind, "x")
    want = 0 if kind == "directory" else errno.ENOENT if kind == "symlink" else errno.ENOTDIR
    expect(want, touch, "x", os.O_RDONLY | os.O_DIRECTORY)


@case
def o_directory_behind_a_symlink():
    os.mkdir("d")
    os.symlink("d", "l")
    expect(0, touch, "l", os.O_RDONLY | os.O_DIRECTORY)
    expect(errno.ENOTDIR, touch, "l", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    put("f")
    os.symlink("f", "m")
    expect(errno.ENOTDIR, touch, "m", os.O_RDONLY | os.O_DIRECTORY)
    expect(errno.EINVAL, touch, "new", os.O_RDONLY | os.O_DIRECTORY | os.O_CREAT)


@case
def o_nofollow():
    put("f")
    os.symlink("f", "l")
    os.mkdir("d")
    put("d/g")
    os.symlink("d", "e")
    expect(errno.ELOOP, touch, "l", os.O_RDONLY | os.O_NOFOLLOW)
    expect(errno.ELOOP, touch, "l", os.O_WRONLY | os.O_NOFOLLOW | os.O_CREAT)
    expect(0, touch, "e/g", os.O_RDONLY | os.O_NOFOLLOW)
    expect(0, touch, "f", os.O_RDONLY | os.O_NOFOLLOW)
    with opened("l", os.O_PATH | os.O_NOFOLLOW) as fd:
        true(stat.S_ISLNK(os.fstat(fd).st_mode), "O_PATH with O_NOFOLLOW opens the link itself")
        same(os.readlink("", dir_fd=fd), "f", "readlink of the descriptor")


@case
def o_path():
    put("f", b"x")
    os.chmod("f", 0)
    with opened("f", os.O_PATH) as fd:
        expect(errno.EBADF, os.read, fd, 1)
        expect(errno.EBADF, os.fchmod, fd, 0o600)
        expect(errno.EBADF, os.ftruncate, fd, 0)
        same(os.fstat(fd).st_size, 1, "size")
        os.chmod(f"/proc/self/fd/{fd}", 0o644)
        same_mode("f", 0o644)
        same(get(f"/proc/self/fd/{fd}"), b"x", "content by way of /proc")
        os.unlink("f")
        same(os.fstat(fd).st_nlink, 0, "links after unlink")


@case
def o_trunc():
    put("f", b"0123456789")
    with opened("f", os.O_RDWR | os.O_TRUNC) as fd:
        same(os.fstat(fd).st_size, 0, "size")
    os.chmod("f", 0o444)
    give("f")
    expect(errno.EACCES, touch, "f", os.O_WRONLY | os.O_TRUNC, user=OWNER)
    put("f", b"abc")
    with opened("f", os.O_RDONLY) as fd:
        put("f", b"")
        same(os.pread(fd, 10, 0), b"", "read by an older descriptor after O_TRUNC")


@case
def o_append():
    put("f", b"0")
    one, two = os.open("f", os.O_RDWR | os.O_APPEND), os.open("f", os.O_WRONLY)
    os.write(one, b"1")
    os.pwrite(two, b"22", 2)
    os.lseek(one, 0, os.SEEK_SET)
    os.write(one, b"3")
    same(os.lseek(one, 0, os.SEEK_CUR), 5, "offset after an append")
    os.pwrite(one, b"4", 0)     # Linux appends here too.
    same(get("f"), b"012234", "content")


@case
def appends_of_many_processes_do_not_overlap():
    put("f")
    pids = []
    for index in range(4):
        pid = os.fork()
        if pid == 0:
            with opened("f", os.O_WRONLY | os.O_APPEND) as fd:
                for number in range(100):
                    os.write(fd, b"%d %03d\n" % (index, number))
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "status of a writer")
    lines = get("f").splitlines()
    same(sorted(lines), sorted(b"%d %03d" % (i, n) for i in range(4) for n in range(100)), "lines")
    for index in range(4):
        mine = [line for line in lines if line.startswith(b"%d " % index)]
        same(mine, sorted(mine), "order of one writer's lines")


@case
def access_mode_rules():
    put("f", b"abc")
    with opened("f", os.O_RDONLY) as fd:
        expect(errno.EBADF, os.write, fd, b"x")
        expect(errno.EINVAL, os.ftruncate, fd, 0)
        expect(errno.EBADF, lambda: call("fallocate", fd, 0, 0, 10))
    with opened("f", os.O_WRONLY) as fd:
        expect(errno.EBADF, os.read, fd, 1)
        expect(errno.EACCES, mmap.mmap, fd, 3, prot=mmap.PROT_READ)
    with opened("f", os.O_RDONLY) as fd:
        expect(errno.EACCES, mmap.mmap, fd, 3, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)


@case
def text_file_busy():
    with open("/bin/sleep", "rb") as file:
        put("program", file.read(), 0o755)
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.set_inheritable(told, False)
        try:
            os.execv("./program", ["program", "60"])
        except OSError as error:
            os._exit(error.errno)
    os.close(told)
    try:
        same(os.read(ready, 1), b"", "close on exec")
        expect(errno.ETXTBSY, touch, "program", os.O_WRONLY)
        expect(errno.ETXTBSY, os.truncate, "program", 0)
        expect(0, touch, "program", os.O_RDONLY)
        expect(0, os.chmod, "program", 0o700)
        expect(0, os.rename, "program", "renamed")
        expect(0, os.unlink, "renamed")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@case
def file_open_for_writing_is_not_executed():
    put("program", b"#!/bin/true\n", 0o755)

    def run():
        try:
            os.execv("./program", ["program"])
        except OSError as error:
            return error.errno
    with opened("program", os.O_WRONLY):
        same(in_child(run), errno.ETXTBSY, "execution while it is open for writing")
    same(in_child(run), 0, "execution after it was closed")


@case
def sockets_and_fifos_cannot_be_opened_at_will():
    make("socket", "s")
    expect(errno.ENXIO, touch, "s")
    expect(errno.ENXIO, touch, "s", os.O_RDWR)
    make("fifo", "p")
    expect(errno.ENXIO, touch, "p", os.O_WRONLY | os.O_NONBLOCK)
    expect(0, touch, "p", os.O_RDONLY | os.O_NONBLOCK)
    expect(0, touch, "p", os.O_RDWR)


@case
def odd_flags():
    put("f", b"x")
    expect(0, touch, "f", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | os.O_SYNC | os.O_DSYNC)
    expect(0, touch, "f", 0o40000000)       # A bit without meaning is ignored by open(2).
    expect(errno.EINVAL, lambda: call("open", "x", O_TMPFILE | os.O_RDONLY, 0o600))
    expect(errno.EFAULT, lambda: call("open", BAD, os.O_RDONLY))


# ---- O_TMPFILE

def temporary(flags=os.O_RDWR, mode=0o640):
    try:
        return os.open(".", O_TMPFILE | flags, mode)
    except OSError as error:
        # Allowed to be missing, but then said so: programs fall back on these.
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):
            return None
        raise


@case
def temporary_file_has_no_name_until_linked():
    fd = temporary()
    if fd is None:
        return
    os.write(fd, b"content")
    same((os.fstat(fd).st_nlink, os.listdir(".")), (0, []), "links and names")
    linkat(f"/proc/self/fd/{fd}", "f", 0x400)
    same((os.fstat(fd).st_nlink, get("f"), os.stat("f").st_ino), (1, b"content", os.fstat(fd).st_ino), "after linkat")
    same_mode("f", 0o640)
    expect(errno.EEXIST, linkat, f"/proc/self/fd/{fd}", "f", 0x400)
    os.unlink("f")
    os.close(fd)


@case
def temporary_file_by_empty_path():
    fd = temporary()
    if fd is None:
        return
    os.write(fd, b"x")
    expect(0, linkat, "", "f", 0x1000, fd)
    os.close(fd)
    same(get("f"), b"x", "content")


@case
def exclusive_temporary_file_stays_nameless():
    fd = temporary(os.O_RDWR | os.O_EXCL)
    if fd is None:
        return
    expect(errno.ENOENT, linkat, f"/proc/self/fd/{fd}", "f", 0x400)
    os.close(fd)
    same(os.listdir("."), [], "names")


@case
def temporary_file_belongs_to_the_caller():
    os.umask(0o027)
    with being(OWNER):
        fd = temporary(mode=0o666)
    if fd is None:
        return
    made = os.fstat(fd)
    same((made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)), (OWNER.uid, OWNER.gid, 0o640), "owner, group, mode")
    os.close(fd)


# ---- sockets and pipes through their nodes

@case
def unix_socket():
    server = socket.socket(socket.AF_UNIX)
    server.bind("s")
    true(stat.S_ISSOCK(os.lstat("s").st_mode), "bind makes a socket node")
    server.listen(1)
    client = socket.socket(socket.AF_UNIX)
    client.connect("s")
    peer, _ = server.accept()
    client.send(b"hello")
    same(peer.recv(10), b"hello", "received")
    again = socket.socket(socket.AF_UNIX)
    expect(errno.EADDRINUSE, again.bind, "s")
    server.close()
    other = socket.socket(socket.AF_UNIX)
    expect(errno.ECONNREFUSED, other.connect, "s")
    os.unlink("s")
    expect(errno.ENOENT, other.connect, "s")


@case
def unix_socket_needs_w():
    server = socket.socket(socket.AF_UNIX)
    server.bind("s")
    server.listen(5)
    os.chmod("s", 0o755)
    expect(errno.EACCES, lambda: socket.socket(socket.AF_UNIX).connect("s"), user=OTHER)
    os.chmod("s", 0o777)
    expect(0, lambda: socket.socket(socket.AF_UNIX).connect("s"), user=OTHER)
    os.mkdir("d", 0o755)
    expect(errno.EACCES, lambda: socket.socket(socket.AF_UNIX).bind("d/s"), user=OTHER)


@case
def pipe_through_a_node():
    os.mkfifo("p")
    pid = os.fork()
    if pid == 0:
        put_through = os.open("p", os.O_WRONLY)
        os.write(put_through, b"through")
        os._exit(0)
    same(get("p"), b"through", "read")
    os.waitpid(pid, 0)
    same(os.stat("p").st_size, 0, "size of the node")


@case
def pipe_node_permissions():
    os.mkfifo("p", 0o600)
    give("p")
    expect(errno.EACCES, touch, "p", os.O_RDONLY | os.O_NONBLOCK, user=OTHER)
    expect(errno.EACCES, touch, "p", os.O_RDWR | os.O_NONBLOCK, user=MEMBER)
    expect(0, touch, "p", os.O_RDWR | os.O_NONBLOCK, user=OWNER)
    expect(0, touch, "p", os.O_RDWR | os.O_NONBLOCK, user=ROOT)


@case
def file_size_limit():
    import resource
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        same(os.pwrite(fd, b"x" * 600, 600), 400, "written up to the limit")
        expect(errno.EFBIG, os.pwrite, fd, b"x", 1000)
        expect(errno.EFBIG, os.ftruncate, fd, 1001)
        expect(errno.EFBIG, lambda: call("fallocate", fd, 0, 0, 2000))
        expect(0, os.ftruncate, fd, 1000)


