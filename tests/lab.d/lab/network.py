"""The network: a LAN (bridge and veth) for each campus, lines between the routers, and cuts of a
single host from its LAN."""

import json
import shutil
import subprocess

from . import LabError, links, processes
from .spec import MAIN

# Jumbo frames, as lines between data centres carry; the kernel's own trains are longer still.
MTU = 9000
LINE_QUEUE_PACKETS = 2000
LAN_DEVICE = "lan0"
HOST_DEVICE = "eth0"


def port_device(host):
    return f"p-{host.name}"


def create(lab):
    """Builds the campus LANs, then the lines between them. The hosts' namespaces are there."""
    spec = lab.spec
    _configure(lab, {router: _lan_commands(lab, router) for router in spec.with_role("router")})
    lines = [links.StartingLine(lab, link) for link in spec.links]
    _configure(lab, {host: _host_commands(lab, host) for host in spec.hosts.values()
                     if host.role != "router"})
    for line in lines:
        line.wait()
    _configure(lab, {router: _line_commands(lab, router) for router in spec.with_role("router")})


def _configure(lab, commands):
    """Runs a batch of `ip` commands in each host, all hosts at once."""
    running = [
        (host, batch, processes.spawn(
            lab, host, ["ip", "-batch", "-"], kinds=("net",), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        for host, batch in commands.items() if batch]
    for host, batch, process in running:
        processes.finish(process, f"{host.name}: ip", given="\n".join(batch) + "\n")


def _lan_commands(lab, router):
    commands = [
        "link set lo up",
        f"link add {LAN_DEVICE} mtu {MTU} type bridge",
        f"addr add {router.ip}/24 dev {LAN_DEVICE}",
        f"link set {LAN_DEVICE} up",
    ]
    for host in lab.spec.hosts.values():
        if host.campus == router.campus and host.role != "router":
            port = port_device(host)
            commands += [
                f"link add {port} mtu {MTU} type veth "
                f"peer name {HOST_DEVICE} mtu {MTU} netns {processes.holder(lab, host)}",
                f"link set {port} master {LAN_DEVICE} up",
            ]
    return commands


def _host_commands(lab, host):
    return [
        "link set lo up",
        f"addr add {host.ip}/24 dev {HOST_DEVICE}",
        f"link set {HOST_DEVICE} up",
        f"route add default via {lab.spec.router(host.campus).ip}",
    ]


def _line_commands(lab, router):
    commands = []
    for link in lab.spec.links:
        main_ip, branch_ip = lab.spec.line_addresses(link)
        if router.campus not in (MAIN, link.branch):
            continue
        own_ip = main_ip if router.campus == MAIN else branch_ip
        device = link.device
        commands += [
            f"addr add {own_ip}/30 dev {device}",
            f"link set {device} mtu {MTU} txqueuelen {LINE_QUEUE_PACKETS} up",
            f"route add {lab.spec.lan(link.branch)} via {branch_ip}" if router.campus == MAIN
            else f"route add default via {main_ip}",
        ]
    return commands


def cut_host(lab, host, from_host, to_host):
    """Drops all packets that leave the host, that go to it, or both, at its port of the LAN."""
    heal_host(lab, host)
    chains = ""
    for wanted, chain, hook in ((from_host, "from_host", "ingress"),
                                (to_host, "to_host", "egress")):
        if wanted:
            chains += (f"chain {chain} {{ type filter hook {hook} device \"{port_device(host)}\" "
                       f"priority 0; policy drop; }}\n")
    _nft(lab, host.campus, f"table netdev cut_{host.name} {{\n{chains}}}\n")


def heal_host(lab, host):
    # Adding what is there already is no error, removing what is not there would be one.
    table = f"table netdev cut_{host.name}"
    _nft(lab, host.campus, f"{table} {{ }}\ndelete {table}\n")


def host_cuts(lab):
    """Host name -> {"from": bool, "to": bool} of the hosts that are cut from their LAN."""
    cuts = {}
    if shutil.which("nft") is None:
        return cuts
    running = [processes.spawn(lab, router, ["nft", "-j", "list", "chains"], kinds=("net",),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for router in lab.spec.with_role("router")]
    for process in running:
        for entry in json.loads(processes.finish(process, "nft"))["nftables"]:
            chain = entry.get("chain")
            if chain and chain["table"].startswith("cut_"):
                cut = cuts.setdefault(chain["table"][len("cut_"):], {"from": False, "to": False})
                cut[chain["name"].removesuffix("_host")] = True
    return cuts


def _nft(lab, campus, rules):
    if shutil.which("nft") is None:
        raise LabError("cutting a host from its LAN needs nft (Debian package nftables)")
    process = processes.spawn(lab, lab.spec.router(campus), ["nft", "-f", "-"], kinds=("net",),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    processes.finish(process, "nft", given=rules)
