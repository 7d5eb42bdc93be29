"""The command line of the lab."""

import argparse
import json
import os
import sys
import time

from . import LabError, daemons, describe, hooks, hosts, kernel, lab as labs, links, network
from . import processes
from . import spec as specs
from . import status

EXAMPLES = """
examples:
  tests/lab up --link main-b=rate:200mbit,rtt:5ms
  tests/lab exec a1 -- dd if=/grid/file of=/dev/null bs=1M
  tests/lab cut main b; tests/lab heal main b; tests/lab set main-b rate:1gbit loss:0.1%
  eval "$(tests/lab hooks a1 b1)"; ls "$(tests/lab path a1)"

QUADFS_LAB names the lab (default: lab); labs of different names run beside each other.
QUADFS_BIN is the default of --bin. A hub is called like its campus: kill a, exec main -- CMD.
"""


def main(program, arguments):
    parser = _parser(program)
    command = []
    if arguments[:1] == ["exec"] and "--" in arguments:
        split = arguments.index("--")
        arguments, command = arguments[:split], arguments[split + 1:]
    options = parser.parse_args(arguments)
    options.program, options.command = program, command
    os.umask(0o022)  # Users other than root reach the trees.
    try:
        if os.geteuid() != 0:
            raise LabError("namespaces need root")
        options.name = specs.check_lab_name(os.environ.get("QUADFS_LAB") or "lab")
        return options.run(options) or 0
    except ConnectionError:
        print("lab: the link's forwarder is not running; run: tests/lab up", file=sys.stderr)
    except (LabError, OSError) as error:
        print(f"lab: {describe(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130
    return 1


def _parser(program):
    parser = argparse.ArgumentParser(
        prog="tests/lab", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Campuses and nodes as network and mount namespaces on this machine.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name, run, text):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    up = add("up", _up, "create the lab, after removing what a crash left of it")
    up.add_argument("--nodes", default=specs.DEFAULT_NODES, metavar="CAMPUS=COUNT,…",
                    help="default: %(default)s; each campus also gets a hub")
    up.add_argument("--link", action="append", default=[], metavar="main-X=KEY:VALUE,…",
                    help="rate:1gbit, rtt:5ms, loss:0.1%%, corrupt:0.1%%; these are the defaults but for "
                         "loss and corrupt, which are 0")
    up.add_argument("--bin", help="where quadfs and quadfsd are; default: build/release/bin, "
                                  "else build/dev/bin")
    up.add_argument("--dir", help="for caches and stores; default: /var/tmp/quadfs-lab/NAME")
    up.add_argument("--no-daemons", action="store_true", help="hosts and network only")
    up.add_argument("--cache-bytes", type=int, default=0, metavar="N",
                    help="the nodes' cache limit")
    up.add_argument("--cache-fs-bytes", type=int, default=0, metavar="N",
                    help="a file system of this size for each node's cache")
    up.add_argument("--store-on-nodes", action=argparse.BooleanOptionalAction, default=True,
                    help="nodes mount their campus's store")
    up.add_argument("--seed", type=int, default=1, help="of the packet loss; default: 1")

    add("down", _down, "remove the lab and all it left")
    shown = add("status", _status, "links, hosts and daemons")
    shown.add_argument("--json", action="store_true")
    run = add("exec", _exec, "run a command in a host: exec NODE -- CMD")
    run.add_argument("host", metavar="NODE|HUB")
    outside = add("outside", _outside, "print where a path of a host is outside the namespaces")
    outside.add_argument("host", metavar="NODE|HUB")
    outside.add_argument("inside", metavar="PATH")
    add("archive", _archive, "print where main's store, the archive, is outside the namespaces")
    where = add("path", _path, "print where a node's /grid is outside the namespaces")
    where.add_argument("node", metavar="NODE")

    cut = add("cut", _cut, "drop everything between two campuses, or a host and its campus")
    cut.add_argument("ends", nargs=2, metavar="END")
    cut.add_argument("--one-way", action="store_true", help="only from the first to the second")
    heal = add("heal", _heal, "undo cut, in both directions")
    heal.add_argument("ends", nargs=2, metavar="END")
    change = add("set", _set, "change a link while it runs: set main-a rate:1gbit rtt:5ms loss:0")
    change.add_argument("link", metavar="A-B")
    change.add_argument("settings", nargs="+", metavar="KEY:VALUE")

    for name, run, text in (("kill", daemons.kill, "kill -9 a daemon"),
                            ("stop", daemons.stop, "stop a daemon in order, wait until it ended"),
                            ("start", _start, "start a daemon, wait until it is ready")):
        daemon = add(name, _on_daemon, text)
        daemon.add_argument("host", metavar="NODE|HUB")
        daemon.set_defaults(action=run)

    hook = add("hooks", _hooks, "print exports for test suites that run on two mounts")
    hook.add_argument("nodes", nargs=2, metavar="NODE")
    flip = add("flip", _flip, "damage one byte of a node's cached copy of a file")
    flip.add_argument("node", metavar="NODE")
    flip.add_argument("path", metavar="PATH", help="as seen in the node: /grid/…")
    return parser


def _default_bin(program):
    if os.environ.get("QUADFS_BIN"):
        return os.environ["QUADFS_BIN"]
    build = os.path.join(os.path.dirname(os.path.dirname(program)), "build")
    choices = [f"{build}/{preset}/bin" for preset in ("release", "dev")]
    return next((choice for choice in choices if os.path.isdir(choice)), choices[0])


def _up(options):
    begun = time.monotonic()

    def say(what):
        print(f"lab {options.name}: {what} ({time.monotonic() - begun:.1f} s)", flush=True)

    counts = specs.parse_nodes(options.nodes)
    lines = specs.parse_links(options.link, counts)
    if options.cache_bytes < 0 or options.cache_fs_bytes < 0:
        raise LabError("--cache-bytes and --cache-fs-bytes cannot be negative")

    def make_spec(index):
        return specs.Spec(
            name=options.name, index=index, node_counts=counts, links=lines,
            bin_dir=os.path.abspath(options.bin or _default_bin(options.program)),
            dir=os.path.abspath(options.dir or f"{labs.DIR_ROOT}/{options.name}"),
            seed=options.seed, daemons=not options.no_daemons,
            store_on_nodes=options.store_on_nodes, cache_bytes=options.cache_bytes,
            cache_fs_bytes=options.cache_fs_bytes)

    if not options.no_daemons:
        daemons.check_programs(make_spec(0).bin_dir)
    with labs.lab_lock(options.name):
        labs.remove(options.name, orderly=False)
        lab = labs.create(make_spec, options.name)
        labs.claim_dir(lab)
        hosts.create_folders(lab)
        hosts.create(lab)
        network.create(lab)
        say(f"{len(lab.spec.campuses)} campuses, {len(lab.spec.with_role('node'))} nodes, "
            f"{len(lab.spec.links)} links")
        if lab.spec.daemons:
            daemons.set_up(lab, say)


def _down(options):
    with labs.lab_lock(options.name):
        labs.remove(options.name, orderly=True)
        labs.remove_lock(options.name)


def _status(options):
    state = status.collect(labs.Lab.load(options.name))
    if options.json:
        print(json.dumps(state, indent=1))
    else:
        status.show(state)


def _exec(options):
    lab = labs.Lab.load(options.name)
    host = lab.spec.host(options.host)
    if not options.command:
        raise LabError("exec: no command; usage: exec NODE -- CMD")
    try:
        folder = os.getcwd()
    except OSError:  # Removed, or on a dead mount.
        folder = "/"
    env = processes.environment(lab, host.label, "command", PATH=lab.path_variable())
    kernel.enter(processes.holder(lab, host), "net", "uts", "mnt")
    try:
        os.chdir(folder)
    except OSError:  # It does not exist there, or is a mount of the outside.
        os.chdir("/")
    try:
        os.execvpe(options.command[0], options.command, env)
    except OSError as error:
        print(f"lab: {host.name}: {options.command[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


def _path(options):
    lab = labs.Lab.load(options.name)
    print(lab.grid_path(lab.spec.host(options.node, "node")))


def _outside(options):
    lab = labs.Lab.load(options.name)
    holder = processes.holder(lab, lab.spec.host(options.host, "hub", "node"))
    print(f"/proc/{holder}/root{os.path.abspath(options.inside)}")


def _archive(options):
    print(labs.Lab.load(options.name).store_dir(specs.MAIN))


def _cut(options):
    lab = labs.Lab.load(options.name)
    first, second = options.ends
    if host := _host_of_lan(lab, first, second):
        from_host = not options.one_way or first == host.name
        to_host = not options.one_way or second == host.name
        network.cut_host(lab, host, from_host, to_host)
    else:
        link, from_main = lab.spec.link(first, second)
        links.cut(lab, link, "both" if not options.one_way else "ab" if from_main else "ba")


def _heal(options):
    lab = labs.Lab.load(options.name)
    if host := _host_of_lan(lab, *options.ends):
        network.heal_host(lab, host)
    else:
        links.heal(lab, lab.spec.link(*options.ends)[0])


def _host_of_lan(lab, *ends):
    """The node, if the ends are one and its campus (in either order), else None."""
    for end, other in (ends, ends[::-1]):
        host = lab.spec.hosts.get(end)
        if host and host.role == "node" and host.campus == other:
            return host
    return None


def _set(options):
    ends = options.link.split("-")
    if len(ends) != 2:
        raise LabError(f"{options.link!r} is not a link like main-a")
    settings = specs.parse_link_settings(options.settings)
    lab = labs.Lab.load(options.name)
    link, _ = lab.spec.link(*ends)
    for key, value in settings.items():
        setattr(link, key, value)
    links.change(lab, link)
    lab.save()


def _on_daemon(options):
    lab = labs.Lab.load(options.name)
    options.action(lab, lab.spec.host(options.host, "hub", "node"))


def _start(lab, host):
    daemons.start_all(lab, [host])


def _hooks(options):
    lab = labs.Lab.load(options.name)
    nodes = [lab.spec.host(name, "node") for name in options.nodes]
    print("\n".join(hooks.exports(lab, options.program, *nodes)))


def _flip(options):
    lab = labs.Lab.load(options.name)
    offset = hooks.flip(lab, lab.spec.host(options.node, "node"), options.path)
    print(f"flipped the byte at offset {offset}")
