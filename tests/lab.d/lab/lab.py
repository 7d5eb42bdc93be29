"""A lab on disk: its state folder, its locks, and what is removed when it goes."""

import contextlib
import fcntl
import json
import os
import shutil

from . import LabError, kernel, processes
from .spec import Spec

RUN_ROOT = "/run/quadfs-lab"
DIR_ROOT = "/var/tmp/quadfs-lab"
MAX_INDEX = 250

# The default paths of quadfs, which every host gets for itself: mount point -> folder of the host.
HOST_FOLDERS = {
    "/etc/quadfs": "etc",
    "/var/lib/quadfs": "lib",
    "/var/cache/quadfs": "cache",
    "/var/log/quadfs": "log",
    "/run/quadfs": "run",
}
GRID = "/grid"
STORE = "/srv/quadfs"


class Lab:
    def __init__(self, spec):
        self.spec = spec
        self.name = spec.name
        self.run_dir = f"{RUN_ROOT}/{spec.name}"

    @classmethod
    def load(cls, name):
        try:
            with open(f"{RUN_ROOT}/{name}/lab.json", encoding="utf-8") as file:
                return cls(Spec(**json.load(file)))
        except (FileNotFoundError, NotADirectoryError):
            raise LabError(f"{name} is not up; run: tests/lab up") from None
        except (OSError, ValueError, TypeError) as error:
            raise LabError(f"{name}: unreadable state: {error}; run: tests/lab down") from None

    def save(self):
        os.makedirs(self.run_dir, exist_ok=True)
        path = f"{self.run_dir}/lab.json"
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.spec.to_json(), file, indent=1)
        os.rename(path + ".new", path)

    @property
    def grid_dir(self):
        return f"{self.run_dir}/grid"

    def grid_path(self, node):
        """Where the node's /grid is seen from outside its namespaces."""
        return f"{self.grid_dir}/{node.name}"

    def host_dir(self, host):
        return f"{self.spec.dir}/hosts/{host.label}"

    def store_dir(self, campus):
        return f"{self.spec.dir}/stores/{campus}"

    def log_file(self, host):
        return f"{self.host_dir(host)}/log/quadfsd.log"

    def pid_file(self, host_label, kind):
        return f"{self.run_dir}/pids/{kind}.{host_label}"

    def link_file(self, link, suffix):
        return f"{self.run_dir}/links/{link.name}.{suffix}"

    def path_variable(self):
        return f"{self.spec.bin_dir}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"


@contextlib.contextmanager
def locked(path):
    """Holds a lock file that its last user removes: after waiting, it must still be the same."""
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        except FileNotFoundError:
            continue
        fcntl.flock(fd, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(fd).st_ino == os.stat(path).st_ino:
                break
        os.close(fd)
    try:
        yield
    finally:
        os.close(fd)


def global_lock():
    return locked(f"{RUN_ROOT}/.lock")


def lab_lock(name):
    return locked(f"{RUN_ROOT}/{name}.lock")


def _other_specs(name):
    for entry in sorted(os.listdir(RUN_ROOT)):
        if entry != name:
            with contextlib.suppress(LabError):  # A lock file, or the remains of a crash.
                yield Lab.load(entry).spec


def create(make_spec, name):
    """Takes a free index and writes the lab's state; `make_spec(index)` gives the spec."""
    with global_lock():
        used = {spec.index for spec in _other_specs(name)}
        index = next((i for i in range(1, MAX_INDEX + 1) if i not in used), None)
        if index is None:
            raise LabError(f"{MAX_INDEX} labs are up already")
        spec = make_spec(index)
        for other in _other_specs(name):
            if other.dir == spec.dir:
                raise LabError(f"{spec.dir} belongs to lab {other.name}")
        lab = Lab(spec)
        lab.save()
        _make_mount_points()
    return lab


def claim_dir(lab):
    """Marks the folder for caches and stores as the lab's, so that removing it is safe."""
    path = lab.spec.dir
    owner = _owner(path)
    if owner not in (None, lab.name):
        raise LabError(f"--dir {path} belongs to lab {owner}")
    if owner is None and os.path.isdir(path) and os.listdir(path):
        raise LabError(f"--dir {path} is neither empty nor a lab's")
    _remove_dir(path, lab.name)
    os.makedirs(path, exist_ok=True)
    with open(f"{path}/.quadfs-lab", "w", encoding="utf-8") as file:
        file.write(lab.name + "\n")


def _owner(path):
    try:
        with open(f"{path}/.quadfs-lab", encoding="utf-8") as file:
            return file.read().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _remove_dir(path, name):
    if _owner(path) == name:
        kernel.detach_below(path)
        shutil.rmtree(path)


def _mount_points_file():
    return f"{RUN_ROOT}/.mount-points"


def _make_mount_points():
    """Creates the folders that hosts mount over, empty, and notes which were not there before."""
    made = []
    with contextlib.suppress(FileNotFoundError), open(_mount_points_file(), encoding="utf-8") as f:
        made = f.read().splitlines()
    for path in [*HOST_FOLDERS, GRID, STORE]:
        if not os.path.isdir(path):
            os.makedirs(path)
            made.append(path)
    with open(_mount_points_file(), "w", encoding="utf-8") as file:
        file.writelines(path + "\n" for path in made)


def remove(name, orderly):
    """Removes all that a lab of this name has, whatever state it is in. The lab's lock is held."""
    dirs = {f"{DIR_ROOT}/{name}"}
    with contextlib.suppress(LabError):
        dirs.add(Lab.load(name).spec.dir)
    processes.kill_all(name, orderly)
    kernel.detach_below(f"{RUN_ROOT}/{name}")
    for path in dirs:
        _remove_dir(path, name)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(f"{RUN_ROOT}/{name}")


def remove_lock(name):
    """The last step of `down`: with no lab left, the lab's traces on the host go too."""
    os.unlink(f"{RUN_ROOT}/{name}.lock")
    with global_lock():
        if set(os.listdir(RUN_ROOT)) <= {".lock", ".mount-points"}:
            with contextlib.suppress(FileNotFoundError):
                with open(_mount_points_file(), encoding="utf-8") as file:
                    for path in file.read().splitlines():
                        with contextlib.suppress(OSError):  # Used by someone else by now.
                            os.rmdir(path)
                os.unlink(_mount_points_file())
            os.unlink(f"{RUN_ROOT}/.lock")
            for path in (RUN_ROOT, DIR_ROOT):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
