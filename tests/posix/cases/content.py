"""Content of files: reading, writing, sizes, holes, fallocate, copies, direct I/O, synchronisation."""
import ctypes
import errno
import mmap
import os

from calls import (BAD, COLLAPSE, INSERT, KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE, call, fallocate, ftruncate, syncfs,
                   truncate)
from kit import (KINDS, OTHER, case, expect, get, make, mode_of, opened, put, randomness, result_of, same, table, true)

MAXIMUM = 2**63 - 1


# ---- reading and writing

@case
def read_write_offsets():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        same(os.read(fd, 10), b"", "read of an empty file")
        same(os.write(fd, b"0123456789"), 10, "written")
        same(os.lseek(fd, 0, os.SEEK_CUR), 10, "offset")
        same(os.lseek(fd, 3, os.SEEK_SET), 3, "offset after SEEK_SET")
        same(os.read(fd, 4), b"3456", "read")
        same(os.lseek(fd, -2, os.SEEK_END), 8, "offset after SEEK_END")
        same(os.read(fd, 100), b"89", "short read at the end")
        same(os.pread(fd, 3, 0), b"012", "pread")
        same(os.lseek(fd, 0, os.SEEK_CUR), 10, "offset, which pread leaves alone")
        same(os.pread(fd, 3, 1000), b"", "read beyond the end")
        expect(errno.EINVAL, os.lseek, fd, -1, os.SEEK_SET)
        expect(errno.EINVAL, lambda: call("lseek", fd, 0, 99))
        same(os.lseek(fd, 1000, os.SEEK_SET), 1000, "offset beyond the end")
        same(os.fstat(fd).st_size, 10, "size, which lseek leaves alone")


@case
def writing_beyond_the_end_leaves_zeros():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        os.write(fd, b"start")
        os.pwrite(fd, b"end", 100_000)
        same(os.fstat(fd).st_size, 100_003, "size")
        same(os.pread(fd, 100_010, 0), b"start" + bytes(99_995) + b"end", "content")
    same(get("f"), b"start" + bytes(99_995) + b"end", "content after close")


@case
def scattered_vectors():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        same(os.writev(fd, [b"ab", b"", b"cde"]), 5, "writev")
        same(os.pwritev(fd, [b"XY", b"Z"], 1), 3, "pwritev")
        one, two = bytearray(2), bytearray(10)
        same((os.preadv(fd, [one, two], 0), bytes(one), bytes(two[:3])), (5, b"aX", b"YZe"), "preadv")
        same(os.pwritev(fd, [b"tail"], 5, os.RWF_DSYNC), 4, "pwritev with RWF_DSYNC")
        same(os.pwritev(fd, [b"!"], 0, os.RWF_APPEND), 1, "pwritev with RWF_APPEND")
    same(get("f"), b"aXYZetail!", "content")


@case
def bad_arguments():
    put("f", b"x" * 10)
    with opened("f") as fd:
        expect(errno.EINVAL, lambda: call("pread", fd, ctypes.create_string_buffer(9), 1, -1))
        expect(errno.EINVAL, lambda: call("pwrite", fd, ctypes.create_string_buffer(9), 1, -1))
        expect(errno.EFAULT, lambda: call("pread", fd, BAD, 5, 0))
        expect(errno.EFAULT, lambda: call("pwrite", fd, BAD, 5, 0))
        same(os.pwrite(fd, b"", 100), 0, "write of nothing")
        same(os.fstat(fd).st_size, 10, "size after a write of nothing")
        expect((errno.EINVAL, errno.EFBIG, errno.EOVERFLOW), os.pwrite, fd, b"x", MAXIMUM)
    for work in (lambda: os.read(999, 1), lambda: os.write(999, b"x"), lambda: os.fstat(999), lambda: os.fsync(999),
                 lambda: ftruncate(999, 0), lambda: fallocate(999, 0, 0, 1), lambda: os.lseek(999, 0, 0)):
        expect(errno.EBADF, work)


@table([(str(size), size) for size in (1, 4095, 4096, 4097, 65536, 131072, 1_000_003, 4_194_305)])
def sizes_round_trip(size):
    data = randomness(f"round trip {size}").randbytes(size)
    put("f", data)
    same((os.stat("f").st_size, get("f") == data), (size, True), "size, and whether the content is the same")
    with opened("f") as fd:
        os.pwrite(fd, b"!", size // 2)
        os.pwrite(fd, b"?", size)
    want = data[:size // 2] + b"!" + data[size // 2 + 1:] + b"?"
    true(get("f") == want, "content after a change in the middle and at the end")


@table([(str(seed), seed) for seed in range(8)])
def random_operations_on_one_file(seed):
    """Reads, writes, truncates, fallocates, mappings, reopenings, against a bytearray."""
    source, model, limit = randomness(f"one file {seed}"), bytearray(), 300_000
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    for step in range(150):
        kind = source.choice(("write", "write", "read", "read", "truncate", "punch", "zero", "grow", "map", "append", "reopen"))
        offset, length = source.randrange(limit), source.randrange(1, 40_000)
        data = source.randbytes(length)
        if kind == "write":
            os.pwrite(fd, data, offset)
            model.extend(bytes(max(0, offset + length - len(model))))
            model[offset:offset + length] = data
        elif kind == "append":
            end = os.lseek(fd, 0, os.SEEK_END)
            same(end, len(model), f"end of file at step {step}")
            os.write(fd, data[:100])
            model.extend(data[:100])
        elif kind == "truncate":
            os.ftruncate(fd, offset)
            model[offset:] = bytes(max(0, offset - len(model)))
        elif kind == "punch":
            fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length)
            end = min(offset + length, len(model))
            if offset < end:
                model[offset:end] = bytes(end - offset)
        elif kind == "zero":
            fallocate(fd, ZERO_RANGE, offset, length)
            model.extend(bytes(max(0, offset + length - len(model))))
            model[offset:offset + length] = bytes(length)
        elif kind == "grow":
            fallocate(fd, 0, offset, length)
            model.extend(bytes(max(0, offset + length - len(model))))
        elif kind == "map" and model:
            with mmap.mmap(fd, len(model)) as view:
                at = source.randrange(len(model))
                true(view[at:at + 1000] == model[at:at + 1000], f"mapped content at step {step}")
                end = min(at + 500, len(model))
                view[at:end] = data[:1] * (end - at)
                model[at:end] = data[:1] * (end - at)
        elif kind == "reopen":
            os.close(fd)
            fd = os.open("f", os.O_RDWR)
        got = os.pread(fd, length, offset)
        true(got == model[offset:offset + length], f"content at {offset}, {length} bytes, after {kind} at step {step}")
        same(os.fstat(fd).st_size, len(model), f"size after {kind} at step {step}")
    os.close(fd)
    true(get("f") == model, "content at the end")


@case
def two_descriptors_see_each_other():
    one, two = os.open("f", os.O_RDWR | os.O_CREAT), os.open("f", os.O_RDWR)
    os.write(one, b"first")
    same((os.read(two, 99), os.fstat(two).st_size), (b"first", 5), "read and size by the other")
    os.pwrite(two, b"F", 0)
    os.ftruncate(two, 3)
    same((os.pread(one, 99, 0), os.fstat(one).st_size), (b"Fir", 3), "after write and truncate by the other")
    os.close(one)
    os.write(two, b"!!")
    same(os.pread(two, 99, 0), b"Fir\0\0!!", "after the first was closed")
    os.close(two)
    same(get("f"), b"Fir\0\0!!", "content")


# ---- truncate

@table([(f"{old} to {new}", old, new) for old in (0, 1, 4096, 100_000) for new in (0, 1, 4095, 4096, 50_000, 200_000)])
def truncation(old, new):
    for work in (lambda: os.truncate("f", new), lambda: with_fd(lambda fd: os.ftruncate(fd, new))):
        data = randomness("truncation").randbytes(old)
        put("f", data)
        expect(0, work)
        same(os.stat("f").st_size, new, "size")
        true(get("f") == data[:new] + bytes(max(0, new - old)), "content")


def with_fd(work):
    with opened("f") as fd:
        return work(fd)


@case
def shrinking_and_growing_gives_zeros():
    put("f", b"x" * 10_000)
    with opened("f") as fd:
        os.ftruncate(fd, 100)
        os.ftruncate(fd, 10_000)
        same(os.pread(fd, 20_000, 0), b"x" * 100 + bytes(9_900), "content")
    os.truncate("f", 50)
    os.truncate("f", 200)
    same(get("f"), b"x" * 50 + bytes(150), "content, by path")


@case
def truncate_errors():
    put("f", b"x")
    expect(errno.EINVAL, truncate, "f", -1)
    os.mkdir("d")
    expect(errno.EISDIR, truncate, "d", 0)
    expect(errno.EFBIG, truncate, "f", MAXIMUM)
    same(os.stat("f").st_size, 1, "size")
    os.mkfifo("p")
    expect(errno.EINVAL, truncate, "p", 0)
    os.symlink("f", "l")
    expect(0, truncate, "l", 0)
    same(os.stat("f").st_size, 0, "size of the target")
    with opened("f") as fd:
        expect(errno.EINVAL, ftruncate, fd, -1)
        expect(errno.EFBIG, ftruncate, fd, MAXIMUM)
    put("ro", b"x", 0o444)
    expect(errno.EACCES, truncate, "ro", 0, user=OTHER)


@case
def sparse_terabyte():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        code, _ = result_of(os.ftruncate, fd, 1 << 40)
        true(code in (0, errno.EFBIG), "a terabyte of hole is taken or refused with EFBIG")
        if code == 0:
            same((os.fstat(fd).st_size, os.pread(fd, 5, (1 << 40) - 5)), (1 << 40, bytes(5)), "size and end")
            os.ftruncate(fd, 0)
        same(os.pwrite(fd, b"x", 5 << 30), 1, "written beyond 4 GiB")
        same((os.pread(fd, 5, (5 << 30) - 2), os.fstat(fd).st_size), (b"\0\0x", (5 << 30) + 1), "content and size")
        os.ftruncate(fd, 0)


# ---- holes and fallocate

BLOCK = 65536


@case
def seek_hole_and_data():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        expect(errno.ENXIO, os.lseek, fd, 0, os.SEEK_DATA)
        expect(errno.ENXIO, os.lseek, fd, 0, os.SEEK_HOLE)
        os.pwrite(fd, b"d" * BLOCK, 4 * BLOCK)
        os.ftruncate(fd, 10 * BLOCK)
        data, hole = os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 4 * BLOCK, os.SEEK_HOLE)
        true(data in (0, 4 * BLOCK), f"data begins at the data, or holes are not told: {data}")
        true(hole in (5 * BLOCK, 10 * BLOCK), f"the hole begins after the data, or at the end: {hole}")
        same(os.lseek(fd, 4 * BLOCK + 5, os.SEEK_DATA), 4 * BLOCK + 5, "data from inside data")
        same(os.lseek(fd, 0, os.SEEK_HOLE), 0 if data else 10 * BLOCK, "hole from inside a hole")
        expect(errno.ENXIO, os.lseek, fd, 10 * BLOCK, os.SEEK_DATA)
        expect(errno.ENXIO, os.lseek, fd, 10 * BLOCK + 1, os.SEEK_HOLE)
        if data:
            expect(errno.ENXIO, os.lseek, fd, 6 * BLOCK, os.SEEK_DATA)
    with opened("f", os.O_RDONLY) as fd:
        same((os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 4 * BLOCK, os.SEEK_HOLE)), (data, hole), "the same after reopening")


@case
def full_file_has_one_hole_at_the_end():
    put("f", b"x" * 100_000)
    with opened("f", os.O_RDONLY) as fd:
        same((os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 0, os.SEEK_HOLE), os.lseek(fd, 99_999, os.SEEK_HOLE)),
             (0, 100_000, 100_000), "data, hole")


@table([(f"mode {mode}, offset {offset}, length {length}", mode, offset, length)
        for mode in (0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE)
        for offset, length in ((0, 100), (10, 5000), (4096, 4096), (60_000, 100_000), (150_000, 10), (0, 200_000))])
def fallocate_modes(mode, offset, length):
    data = randomness("fallocate").randbytes(100_000)
    put("f", data)
    with opened("f") as fd:
        expect(0, fallocate, fd, mode, offset, length)
        size = 100_000 if mode & KEEP_SIZE else max(100_000, offset + length)
        want = bytearray(data + bytes(size - 100_000))
        if mode & (PUNCH_HOLE | ZERO_RANGE):
            end = min(offset + length, size)
            want[offset:end] = bytes(max(0, end - offset))
        same(os.fstat(fd).st_size, size, "size")
        true(os.pread(fd, 400_000, 0) == want, "content by the descriptor")
    same(os.stat("f").st_size, size, "size after close")
    true(get("f") == want, "content after close")


@table([("collapse", COLLAPSE), ("insert", INSERT)])
def fallocate_that_moves(mode):
    """May be refused, without effect."""
    data = b"a" * 65536 + b"b" * 65536 + b"c" * 65536
    put("f", data)
    with opened("f") as fd:
        code, _ = result_of(fallocate, fd, mode, 65536, 65536)
        if code:
            same(code, errno.EOPNOTSUPP, "error of the refusal")
            true(os.pread(fd, 400_000, 0) == data, "content, unchanged")
        else:
            want = data[:65536] + (data[131072:] if mode == COLLAPSE else bytes(65536) + data[65536:])
            true(os.pread(fd, 400_000, 0) == want, "content, moved")


@case
def fallocate_errors():
    put("f", b"x")
    with opened("f") as fd:
        for offset, length in ((-1, 10), (0, 0), (0, -1), (10, -5)):
            expect(errno.EINVAL, fallocate, fd, 0, offset, length)
        expect(errno.EFBIG, fallocate, fd, 0, MAXIMUM - 10, 100)
        expect(errno.EOPNOTSUPP, fallocate, fd, PUNCH_HOLE, 0, 10)
        expect(errno.EOPNOTSUPP, fallocate, fd, 1 << 20, 0, 10)
        expect((errno.EINVAL, errno.EOPNOTSUPP), fallocate, fd, PUNCH_HOLE | KEEP_SIZE | ZERO_RANGE, 0, 10)
    with opened("f", os.O_RDONLY) as fd:
        expect(errno.EBADF, fallocate, fd, 0, 0, 10)
    ours, theirs = os.pipe()
    expect(errno.ESPIPE, fallocate, theirs, 0, 0, 10)
    with opened(".", os.O_RDONLY) as fd:
        expect((errno.EBADF, errno.EISDIR), fallocate, fd, 0, 0, 10)
    os.close(ours)


@case
def punched_hole_gives_space_back():
    put("f", b"x" * (4 << 20))
    with opened("f") as fd:
        os.fsync(fd)
        before = os.fstat(fd).st_blocks
        fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4 << 20)
        os.fsync(fd)
        true(os.fstat(fd).st_blocks < before / 4, f"blocks before {before}, after {os.fstat(fd).st_blocks}")


# ---- copies

@case
def copy_file_range_between_files():
    data = randomness("copy").randbytes(500_000)
    put("a", data)
    put("b", b"y" * 1000)
    with opened("a", os.O_RDONLY) as source, opened("b") as target:
        done = 0
        while done < 300_000:
            step = os.copy_file_range(source, target, 300_000 - done, 1000 + done, 500 + done)
            true(step > 0, "progress")
            done += step
        same(os.lseek(source, 0, os.SEEK_CUR), 0, "offset, which given offsets leave alone")
        same(os.pread(target, 400_000, 0) == b"y" * 500 + data[1000:301_000], True, "whether the content is right")
        same(os.copy_file_range(source, target, 10, 600_000), 0, "copied from beyond the end")
        same(os.copy_file_range(source, target, 5), 5, "copied at the descriptors' offsets")
        same((os.lseek(source, 0, os.SEEK_CUR), os.lseek(target, 0, os.SEEK_CUR)), (5, 5), "offsets")


@case
def copy_file_range_errors():
    put("a", b"x" * 100)
    put("b")
    with opened("a", os.O_RDONLY) as ro, opened("b", os.O_WRONLY) as wo, opened("b", os.O_WRONLY | os.O_APPEND) as append:
        expect(errno.EBADF, os.copy_file_range, wo, wo, 10)
        expect(errno.EBADF, os.copy_file_range, ro, ro, 10, 0, 50)
        expect(errno.EBADF, os.copy_file_range, ro, append, 10)
        with opened("a") as both:
            expect(errno.EINVAL, os.copy_file_range, both, both, 50, 0, 10)
        with opened(".", os.O_RDONLY) as folder:
            expect(errno.EISDIR, os.copy_file_range, folder, wo, 10)


@case
def copy_file_range_in_one_file():
    put("f", bytes(range(200)))
    with opened("f") as fd:
        same(os.copy_file_range(fd, fd, 50, 0, 100), 50, "copied")
    same(get("f"), bytes(range(100)) + bytes(range(50)) + bytes(range(150, 200)), "content")


@case
def sendfile_and_splice():
    data = randomness("send").randbytes(200_000)
    put("a", data)
    with opened("a", os.O_RDONLY) as source, opened("b", os.O_RDWR | os.O_CREAT) as target:
        done = 0
        while done < 200_000:
            step = os.sendfile(target, source, done, 200_000 - done)
            true(step > 0, "progress")
            done += step
    true(get("b") == data, "content after sendfile")
    ours, theirs = os.pipe()
    with opened("a", os.O_RDONLY) as source, opened("c", os.O_RDWR | os.O_CREAT) as target:
        moved = os.splice(source, theirs, 30_000, offset_src=1000)
        written = 0
        while written < moved:
            written += os.splice(ours, target, moved - written)
    true(get("c") == data[1000:1000 + moved], "content after splice")


# ---- direct I/O

def page_buffer(size, fill=b"\0"):
    view = mmap.mmap(-1, size)
    view[:] = fill * size
    return view


def direct(path, flags):
    """A descriptor with O_DIRECT, or None where it is refused as documented."""
    try:
        return os.open(path, flags | os.O_DIRECT, 0o644)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


@case
def direct_io_round_trip():
    fd = direct("f", os.O_RDWR | os.O_CREAT)
    if fd is None:
        return
    same(os.writev(fd, [page_buffer(8192, b"d")]), 8192, "written")
    back = page_buffer(8192)
    same((os.preadv(fd, [back], 0), back[:]), (8192, b"d" * 8192), "read back")
    same(os.preadv(fd, [back], 8192), 0, "read at the end")
    os.close(fd)
    same(get("f"), b"d" * 8192, "content")


@case
def direct_and_buffered_are_coherent():
    put("f", b"o" * 16384)
    fd = direct("f", os.O_RDWR)
    if fd is None:
        return
    with opened("f") as other:
        same(os.pread(other, 4, 4096), b"oooo", "buffered read before")
        os.pwritev(fd, [page_buffer(4096, b"n")], 4096)
        same(os.pread(other, 4, 4096), b"nnnn", "buffered read after a direct write")
        os.pwrite(other, b"buf", 0)
        back = page_buffer(4096)
        os.preadv(fd, [back], 0)
        same(back[:3], b"buf", "direct read after a buffered write")
        os.ftruncate(other, 4096)
        same(os.preadv(fd, [back], 4096), 0, "direct read beyond a truncated end")
    os.close(fd)


@case
def direct_read_of_an_odd_end():
    put("f", b"x" * 5000)
    fd = direct("f", os.O_RDONLY)
    if fd is None:
        return
    back = page_buffer(8192)
    same((os.preadv(fd, [back], 0), back[:5000]), (5000, b"x" * 5000), "read")
    os.close(fd)


@case
def direct_io_of_odd_alignment():
    """Refused with EINVAL, or done right."""
    put("f", b"x" * 8192)
    fd = direct("f", os.O_RDWR)
    if fd is None:
        return
    back = page_buffer(8192)
    code, got = result_of(os.preadv, fd, [memoryview(back)[1:101]], 3)
    true(code == errno.EINVAL or code == 0 and got == 100, "refused or right")
    os.close(fd)


# ---- synchronisation, advice

@table([(kind, kind) for kind in ("file", "directory")])
def synchronisation(kind):
    make(kind, "x")
    with opened("x", os.O_RDONLY) as fd:
        for work in (os.fsync, os.fdatasync, syncfs):
            expect(0, work, fd)
    with opened("x", os.O_PATH) as fd:
        expect(errno.EBADF, os.fsync, fd)


@case
def synchronisation_after_changes():
    os.mkdir("d")
    with opened("d", os.O_RDONLY) as folder:
        put("d/f", b"x")
        expect(0, os.fsync, folder)
        os.rename("d/f", "d/g")
        expect(0, os.fsync, folder)
        os.unlink("d/g")
        expect(0, os.fsync, folder)
    with opened("f", os.O_WRONLY | os.O_CREAT | os.O_SYNC) as fd:
        same(os.write(fd, b"sync"), 4, "written with O_SYNC")
    with opened("f", os.O_WRONLY | os.O_DSYNC) as fd:
        same(os.pwrite(fd, b"S", 0), 1, "written with O_DSYNC")
    with opened("f") as fd:
        os.unlink("f")
        os.write(fd, b"gone")
        expect(0, os.fsync, fd)
        expect(0, lambda: call("sync_file_range", fd, 0, 100, 7))


@case
def advice():
    put("f", b"x" * 100_000)
    with opened("f", os.O_RDONLY) as fd:
        for kind in (os.POSIX_FADV_NORMAL, os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_RANDOM, os.POSIX_FADV_WILLNEED,
                     os.POSIX_FADV_DONTNEED, os.POSIX_FADV_NOREUSE):
            expect(0, os.posix_fadvise, fd, 0, 50_000, kind)
        expect(errno.EINVAL, os.posix_fadvise, fd, 0, 0, 99)
        expect(0, lambda: call("readahead", fd, 0, 100_000))
        same(os.pread(fd, 5, 99_990), b"xxxxx", "read after advice")
    with opened(".", os.O_RDONLY) as fd:
        expect((0, errno.EINVAL), os.posix_fadvise, fd, 0, 0, os.POSIX_FADV_NORMAL)


@table([(kind, kind) for kind in KINDS if kind != "file"])
def truncate_of_other_things(kind):
    make(kind, "x")
    want = {"directory": errno.EISDIR, "symlink": errno.ENOENT}.get(kind, errno.EINVAL)
    expect(want, os.truncate, "x", 0)


@case
def content_survives_a_chmod_while_open():
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        os.write(fd, b"one")
        os.chmod("f", 0o400)
        os.rename("f", "g")
        os.write(fd, b"two")
        os.setxattr("g", "user.a", b"1")
        os.chown("g", 65001, 65101)
    same((get("g"), mode_of("g"), os.getxattr("g", "user.a"), os.stat("g").st_uid), (b"onetwo", 0o400, b"1", 65001),
         "content, mode, attribute, owner")
