"""mmap(2): shared and private, with reads, writes, truncation, beyond the end."""
import errno
import mmap
import os
import signal

from kit import case, expect, get, in_child, opened, put, same, table, true

PAGE = mmap.PAGESIZE


def mapped(fd, size=0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE):
    return mmap.mmap(fd, size, flags=flags, prot=prot)


@case
def shared_is_coherent_with_read_and_write():
    put("f", bytes(5 * PAGE))
    with opened("f") as fd, mapped(fd, 5 * PAGE) as view:
        view[PAGE + 5:PAGE + 9] = b"here"
        same(os.pread(fd, 4, PAGE + 5), b"here", "read of what was stored")
        os.pwrite(fd, b"there", 100)
        same(view[100:105], b"there", "mapped view of what was written")
        with opened("f") as other:
            same(os.pread(other, 4, PAGE + 5), b"here", "read by another descriptor")
            os.pwrite(other, b"other", 2 * PAGE)
        same(view[2 * PAGE:2 * PAGE + 5], b"other", "mapped view of another descriptor's write")
    data = get("f")
    same((data[100:105], data[PAGE + 5:PAGE + 9], data[2 * PAGE:2 * PAGE + 5]), (b"there", b"here", b"other"), "content")


@case
def shared_between_processes():
    put("f", bytes(PAGE))
    with opened("f") as fd, mapped(fd) as view:
        def store():
            with opened("f") as mine, mapped(mine) as theirs:
                theirs[0:5] = b"child"
        same(in_child(store), 0, "status of the child")
        same(view[0:5], b"child", "what the child stored")
    same(get("f")[:5], b"child", "content")


@case
def private_changes_stay_private():
    put("f", b"a" * PAGE)
    with opened("f", os.O_RDONLY) as fd, mapped(fd, flags=mmap.MAP_PRIVATE) as view:
        view[0:3] = b"xyz"
        same((view[0:3], os.pread(fd, 3, 0)), (b"xyz", b"aaa"), "mapped and read")
    same(get("f"), b"a" * PAGE, "content")


@case
def lives_on_after_close_and_unlink():
    put("f", b"a" * PAGE)
    fd = os.open("f", os.O_RDWR)
    view = mapped(fd)
    os.close(fd)
    view[0:1] = b"b"
    same(get("f")[:2], b"ba", "content after a store behind close")
    os.unlink("f")
    view[1:2] = b"c"
    same(view[0:3], b"bca", "mapped view after unlink")
    view.flush()
    view.close()


@case
def stores_without_flush_are_kept():
    put("f", bytes(3 * PAGE))
    with opened("f") as fd:
        view = mapped(fd)
    view[PAGE:PAGE + 4] = b"kept"
    view.close()
    same(get("f")[PAGE:PAGE + 4], b"kept", "content after munmap")
    with opened("f", os.O_RDONLY) as fd:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        same(os.pread(fd, 4, PAGE), b"kept", "content from below the page cache")


def touches(size, at, write=False, before=None):
    """How a child ends that touches byte `at` of a mapping of `size`."""
    def work():
        with opened("f") as fd:
            view = mapped(fd, size)
            if before:
                before(fd)
            if write:
                view[at] = 1
            else:
                view[at]    # pylint: disable=pointless-statement
    return in_child(work)


@table([("read", False), ("write", True)])
def beyond_the_end_is_sigbus(write):
    put("f", b"x" * 100)
    grow = lambda fd: os.ftruncate(fd, 100)     # noqa: E731
    # Python refuses to map beyond the end, so the file is cut after mapping.
    put("f", b"x" * (3 * PAGE))
    same(touches(3 * PAGE, 50, write, grow), 0, "inside")
    put("f", b"x" * (3 * PAGE))
    same(touches(3 * PAGE, PAGE - 1, write, grow), 0, "behind the end, on the last page")
    put("f", b"x" * (3 * PAGE))
    same(touches(3 * PAGE, PAGE + 1, write, grow), -signal.SIGBUS, "on a page behind the end")


@case
def rest_of_the_last_page_is_zero_and_not_kept():
    put("f", b"x" * 10)
    with opened("f") as fd:
        view = mapped(fd, 10)
        same(view[:], b"x" * 10, "content")
        view.close()
        os.ftruncate(fd, PAGE)
        view = mapped(fd, PAGE)
        same(view[10:20], bytes(10), "behind the old end")
        os.ftruncate(fd, 10)
        view[20:25] = b"stray"
        os.ftruncate(fd, PAGE)
        same(os.pread(fd, 100, 0), b"x" * 10 + bytes(90), "after growing: what was stored behind the end is gone")
        view.close()


@case
def truncation_is_seen():
    put("f", b"x" * (2 * PAGE))
    with opened("f") as fd, mapped(fd, 2 * PAGE) as view:
        os.ftruncate(fd, PAGE)
        os.ftruncate(fd, 2 * PAGE)
        same((view[PAGE - 1:PAGE + 3]), b"x\0\0\0", "mapped view after shrinking and growing")
        os.pwrite(fd, b"new", PAGE)
        same(view[PAGE:PAGE + 3], b"new", "mapped view of a write behind it")


@case
def growth_is_seen_by_a_new_mapping():
    put("f", b"a" * PAGE)
    with opened("f") as fd:
        with mapped(fd) as view:
            os.pwrite(fd, b"b" * PAGE, PAGE)
            same(view[0], 97, "old mapping")
        with mapped(fd, 2 * PAGE) as view:
            same(view[PAGE], 98, "new mapping")


@case
def punched_hole_is_seen():
    from calls import KEEP_SIZE, PUNCH_HOLE, fallocate
    put("f", b"x" * (4 * PAGE))
    with opened("f") as fd, mapped(fd) as view:
        same(view[PAGE], 120, "before")
        fallocate(fd, PUNCH_HOLE | KEEP_SIZE, PAGE, PAGE)
        same((view[PAGE - 1], view[PAGE], view[2 * PAGE - 1], view[2 * PAGE]), (120, 0, 0, 120), "after")


@case
def rights():
    put("f", b"x" * PAGE)
    with opened("f", os.O_RDONLY) as fd:
        expect(errno.EACCES, mapped, fd, PAGE)
        expect(0, lambda: mapped(fd, PAGE, prot=mmap.PROT_READ).close())
        expect(0, lambda: mapped(fd, PAGE, flags=mmap.MAP_PRIVATE).close())
    with opened("f", os.O_WRONLY) as fd:
        expect(errno.EACCES, mapped, fd, PAGE)
    with opened("f", os.O_RDWR | os.O_APPEND) as fd:
        expect(0, lambda: mapped(fd, PAGE).close())
    with opened(".", os.O_RDONLY) as fd:
        expect((errno.ENODEV, errno.EACCES), mapped, fd, PAGE, prot=mmap.PROT_READ)


@case
def offset_mappings():
    put("f", b"".join(bytes([i]) * PAGE for i in range(5)))
    with opened("f") as fd:
        with mmap.mmap(fd, PAGE, offset=3 * PAGE) as view:
            same((view[0], view[PAGE - 1]), (3, 3), "content at an offset")
            view[0] = 77
        same(os.pread(fd, 1, 3 * PAGE), b"M", "store at an offset")


@case
def mapping_and_direct_io():
    put("f", b"o" * (2 * PAGE))
    try:
        fd = os.open("f", os.O_RDWR | os.O_DIRECT)
    except OSError as error:
        same(error.errno, errno.EINVAL, "refusal of O_DIRECT")
        return
    with opened("f") as other, mapped(other) as view:
        same(view[0], 111, "before")
        buffer = mmap.mmap(-1, PAGE)
        buffer[:] = b"n" * PAGE
        os.pwritev(fd, [buffer], 0)
        same(view[0], 110, "mapped view of a direct write")
        view[PAGE] = 65
        os.preadv(fd, [buffer], PAGE)
        same(buffer[0], 65, "direct read of a store")
    os.close(fd)


@case
def big_mapping_written_backwards():
    size = 2 << 20
    with opened("f", os.O_RDWR | os.O_CREAT) as fd:
        os.ftruncate(fd, size)
        with mapped(fd, size) as view:
            for offset in range(size - PAGE, -1, -PAGE):
                view[offset] = offset // PAGE % 251 + 1
    data = get("f")
    true(all(data[o] == o // PAGE % 251 + 1 for o in range(0, size, PAGE)), "each page's mark")
    same(len(data), size, "size")
