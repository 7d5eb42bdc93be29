"""Directories as streams: listings, places in them, changes meanwhile, many names, deep trees, names of any bytes."""
import errno
import os
import stat

from calls import DirectoryStream
from kit import (KINDS, alone, case, expect, get, make, opened, put, randomness, remove, result_of, same, same_names, table,
                 tick, touch, true)

TYPES = {"file": 8, "directory": 4, "symlink": 10, "fifo": 1, "socket": 12, "character device": 2, "block device": 6}


def names(stream_entries):
    return sorted(name for name, _, _ in stream_entries if name not in (b".", b".."))


@case
def empty_directory():
    os.mkdir("d")
    with DirectoryStream("d") as stream:
        same(sorted(name for name, _, _ in stream.rest()), [b".", b".."], "entries")
    same(os.listdir("d"), [], "names")


@table([(kind, kind) for kind in KINDS])
def types_and_inodes(kind):
    make(kind, "x")
    with DirectoryStream(".") as stream:
        entry = {name: (kind_, inode) for name, kind_, inode in stream.rest()}
    true(entry[b"x"][0] in (TYPES[kind], 0), f"d_type {entry[b'x'][0]} is the kind's, or not told")
    same(entry[b"x"][1], os.lstat("x").st_ino, "d_ino")
    same(entry[b"."][1], os.stat(".").st_ino, "d_ino of .")


@case
def dot_and_dotdot():
    os.makedirs("a/b")
    with DirectoryStream("a/b") as stream:
        entry = {name: (kind, inode) for name, kind, inode in stream.rest()}
    same((entry[b"."], entry[b".."]), ((4, os.stat("a/b").st_ino), (4, os.stat("a").st_ino)), "types and inodes of . and ..")


@case
def telldir_seekdir():
    for index in range(300):
        put(f"f{index:03}")
    with DirectoryStream(".") as stream:
        places, found = [], []
        while True:
            place = stream.tell()
            entry = stream.read()
            if entry is None:
                break
            places.append(place)
            found.append(entry)
        same(len(found), 302, "entries")
        true(len(set(places)) == len(places), "each place is another")
        for index in (0, 1, 5, 100, 150, 299, 301, 77):
            stream.seek(places[index])
            same(stream.read(), found[index], f"entry at place {index}")
        stream.seek(places[200])
        same([entry[0] for entry in stream.rest()], [entry[0] for entry in found[200:]], "entries from a place on")
        stream.rewind()
        same(len(stream.rest()), 302, "entries after rewinddir")


@case
def rewind_shows_what_is_new():
    put("a")
    with DirectoryStream(".") as stream:
        same(names(stream.rest()), [b"a"], "names")
        put("b")
        os.unlink("a")
        stream.rewind()
        same(names(stream.rest()), [b"b"], "names after changes and rewinddir")
        same(stream.read(), None, "at the end")


@case
def places_survive_changes():
    """An entry that stays is found after its neighbours went or came, from a place told before."""
    for index in range(200):
        put(f"f{index:03}")
    with DirectoryStream(".") as stream:
        seen = [stream.read()[0] for _ in range(50)]
        place = stream.tell()
        rest = [entry[0] for entry in stream.rest()]
        for name in seen[:25] + rest[:50]:
            if not name.startswith(b"."):
                os.unlink(name)
        for index in range(50):
            put(f"new{index}")
        stream.seek(place)
        later = [entry[0] for entry in stream.rest()]
        same([n for n in rest[50:] if n not in later], [], "names that stayed and are missing")
        same(len(later), len(set(later)), "names, each once")
        same([n for n in later if n in seen], [], "names from before the place")


@table([(f"seed {seed}", seed) for seed in range(3)])
def listing_while_names_come_and_go(seed):
    """Each name that stays is there exactly once; others at most once."""
    source = randomness(f"listing {seed}")
    stay = {b"stay%04d" % i for i in range(500)}
    for name in stay:
        put(name)
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(told, b".")
        for step in range(100_000):
            name = f"come{source.randrange(300)}"
            try:
                if os.path.exists(name):
                    if source.random() < 0.3:
                        os.rename(name, f"come{source.randrange(300)}")
                    else:
                        os.unlink(name)
                else:
                    put(name)
            except FileNotFoundError:
                pass
        os._exit(0)
    os.read(ready, 1)
    try:
        for _ in range(15):
            with DirectoryStream(".") as stream:
                found = names(stream.rest())
            same(len(found), len(set(found)), "names, each at most once")
            same(sorted(stay - set(found)), [], "names that stay and are missing")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@case
def removing_while_reading():
    """What rm -r does: unlink each entry as it comes."""
    for index in range(1000):
        put(f"f{index}")
    with DirectoryStream(".") as stream:
        while (entry := stream.read()) is not None:
            if entry[0] not in (b".", b".."):
                os.unlink(entry[0])
    same_names(".", [])


@case
def removed_directory_lists_nothing():
    os.mkdir("d")
    put("d/f")
    with opened("d", os.O_RDONLY) as fd:
        same(os.listdir(fd), ["f"], "names")
        os.unlink("d/f")
        os.rmdir("d")
        code, found = result_of(os.listdir, fd)
        true(code == errno.ENOENT or found == [], "nothing, or ENOENT")
        same(os.fstat(fd).st_nlink, 0, "links")


@case
def listing_is_in_step():
    """After each change the next listing shows it."""
    want = set()
    source = randomness("in step")
    for step in range(120):
        name = f"f{source.randrange(30)}"
        if name in want:
            os.unlink(name)
            want.discard(name)
        else:
            put(name)
            want.add(name)
        same(sorted(os.listdir(".")), sorted(want), f"names at step {step}")


@case
def descriptors_of_directories():
    put("f")
    expect(errno.ENOTDIR, os.listdir, "f")
    expect(errno.ENOENT, os.listdir, "missing")
    with opened("f") as fd:
        expect(errno.ENOTDIR, os.listdir, fd)
        expect(errno.ENOTDIR, os.fchdir, fd)
    with opened(".", os.O_RDONLY) as fd:
        same(os.listdir(fd), ["f"], "names by a descriptor")
        expect(0, os.fchdir, fd)
        expect((0, errno.EINVAL), os.lseek, fd, 0, os.SEEK_END)


@case
def two_streams_are_apart():
    for index in range(50):
        put(f"f{index}")
    with DirectoryStream(".") as one, DirectoryStream(".") as two:
        for _ in range(10):
            one.read()
        same(len(two.rest()), 52, "entries of the second")
        same(len(one.rest()), 42, "entries left of the first")


@alone
def twenty_thousand_names():
    os.mkdir("d")
    os.chdir("d")
    for index in range(20_000):
        os.close(os.open(f"a-name-of-some-length-{index:06}", os.O_CREAT | os.O_WRONLY, 0o644))
    found = os.listdir(".")
    same((len(found), len(set(found))), (20_000, 20_000), "names, different names")
    true(os.path.exists("a-name-of-some-length-012345"), "one of them")
    expect(errno.ENOENT, os.stat, "a-name-of-some-length-020000")
    same(os.stat(".").st_nlink, 2, "links of the directory")
    for name in found[::2]:
        os.unlink(name)
    same(sorted(os.listdir(".")), sorted(found[1::2]), "names after removing every other")
    for name in found[1::2]:
        os.unlink(name)
    os.chdir("..")
    expect(0, os.rmdir, "d")


@case
def deep_tree():
    """Deeper than a path can be: 300 levels of 30 bytes."""
    name = "d" * 30
    for level in range(300):
        os.mkdir(name)
        os.chdir(name)
    put("bottom", b"deep")
    same(get("bottom"), b"deep", "content at the bottom")
    expect(errno.ENAMETOOLONG, os.stat, "./" * 2100)
    for _ in range(300):
        os.chdir("..")
    path = "/".join([name] * 100)
    true(stat.S_ISDIR(os.stat(path).st_mode), "a hundred levels by path")
    expect(errno.ENAMETOOLONG, os.stat, "/".join([name] * 150))


# ---- names

@table([(repr(name)[1:], name) for name in (b"\xff", b"\xc3\xa9", b"\xc3(", b"\x01\x7f\x80", b" ", b"  lead", b"trail ", b"a\nb",
                                             b"\t", b"\\", b"*?[", b"-rf", b"...", b"....", b".hidden", b"a.", b"~", b"$x`y`",
                                             b"CON", b"a:b", b"\"'", b"%s%n", b"#x#", b"x\xe2\x80\xae", b"\xed\xa0\x80",
                                             b"n" * 255, b"\xff" * 255, b".fuse_hidden1", b"lost+found", b".nfs0001")])
def any_bytes(name):
    put(name, b"x")
    same(os.listdir(b"."), [name], "names")
    same(get(name), b"x", "content")
    os.rename(name, b"other")
    os.mkdir(name)
    put(name + b"/" + name, b"y")
    same(os.listdir(name), [name], "names inside")
    os.link(b"other", name + b"/l")
    os.symlink(name, b"link")
    same(os.readlink(b"link"), name, "target")
    os.unlink(name + b"/" + name)
    os.unlink(name + b"/l")
    os.rmdir(name)
    expect(errno.ENOENT, os.lstat, name)


@case
def case_counts():
    put("Name", b"1")
    put("name", b"2")
    put("NAME", b"3")
    same((get("Name"), get("name"), get("NAME")), (b"1", b"2", b"3"), "contents")
    same_names(".", ["NAME", "Name", "name"])


@case
def composed_and_decomposed_are_different():
    put(b"\xc3\xa9", b"1")
    put(b"e\xcc\x81", b"2")
    same((get(b"\xc3\xa9"), get(b"e\xcc\x81")), (b"1", b"2"), "contents")


@case
def every_byte_but_two():
    for byte in range(1, 256):
        if byte not in (0x2f,):
            put(b"x" + bytes([byte]))
    same(sorted(os.listdir(b".")), sorted(b"x" + bytes([b]) for b in range(1, 256) if b != 0x2f), "names")


@case
def names_that_begin_alike():
    wanted = ["a" * n for n in range(1, 256, 7)] + ["a", "ab", "a.b", "a b"]
    for name in wanted:
        put(name, name.encode())
    same_names(".", set(wanted))
    for name in wanted:
        same(get(name), name.encode(), f"content of a name of {len(name)}")


@case
def negative_names_do_not_stick():
    """A name that was asked for and did not exist is there once it is made, however."""
    os.mkdir("d")
    put("d/source", b"x")
    for label, work in (("create", lambda: put("x")), ("mkdir", lambda: os.mkdir("x")), ("link", lambda: os.link("d/source", "x")),
                        ("symlink", lambda: os.symlink("d", "x")), ("rename", lambda: os.rename("d/source", "x")),
                        ("mkfifo", lambda: os.mkfifo("x"))):
        for _ in range(2):
            expect(errno.ENOENT, os.lstat, "x")
        work()
        expect(0, os.lstat, "x", note=f"after {label}")
        remove("x")
        expect(errno.ENOENT, os.lstat, "x", note=f"after {label} and removal")


@case
def directory_size_and_emptiness():
    os.mkdir("d")
    for kind in KINDS:
        make(kind, f"d/{kind}")
    same(len(os.listdir("d")), len(KINDS), "names")
    expect((errno.ENOTEMPTY, errno.EEXIST), os.rmdir, "d")
    for kind in KINDS:
        remove(f"d/{kind}")
    expect(0, os.rmdir, "d")


@case
def concurrent_makers_in_one_directory():
    pids = []
    for worker in range(4):
        pid = os.fork()
        if pid == 0:
            for index in range(50):
                touch(f"{worker}-{index}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                if index % 5 == 0:
                    os.mkdir(f"d{worker}-{index}")
                if index % 3 == 0:
                    os.unlink(f"{worker}-{index}")
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "status of a maker")
    want = [f"{w}-{i}" for w in range(4) for i in range(50) if i % 3] + [f"d{w}-{i}" for w in range(4) for i in range(0, 50, 5)]
    same_names(".", want)
    same(os.stat(".").st_nlink, 2 + 40, "links of the directory")


@case
def mtime_of_a_directory_tells_of_changes():
    last = os.stat(".").st_mtime_ns
    for work in (lambda: put("f"), lambda: os.rename("f", "g"), lambda: os.unlink("g"), lambda: os.mkdir("d"),
                 lambda: os.rmdir("d"), lambda: os.symlink("x", "l")):
        tick()
        work()
        now = os.stat(".").st_mtime_ns
        true(now > last, "mtime moved")
        last = now
