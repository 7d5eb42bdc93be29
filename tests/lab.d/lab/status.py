"""What `lab status` shows."""

from . import daemons, kernel, links, network


def collect(lab):
    return {
        "lab": lab.name,
        "dir": lab.spec.dir,
        "bin": lab.spec.bin_dir,
        "links": {link.name: _link(lab, link) for link in lab.spec.links},
        "hosts": _hosts(lab),
    }


def _link(lab, link):
    names = {"ab": link.name, "ba": f"{link.branch}-main"}
    try:
        state = links.status(lab, link)
    except ConnectionError:
        return {"running": False, "rate_bits_per_s": link.rate_bits_per_s,
                "rtt_ms": link.rtt_ns / 1e6, "loss": link.loss, "corrupt": link.corrupt}
    return {
        "running": True,
        "rate_bits_per_s": state["rate_bits_per_s"],
        "rtt_ms": state["rtt_ns"] / 1e6,
        "loss": state["loss"], "corrupt": state["corrupt"],
        "cut": {name: state[key]["cut"] for key, name in names.items()},
        "bytes": sum(state[key]["bytes"] for key in names),
        "directions": {name: {what: count for what, count in state[key].items() if what != "cut"}
                       for key, name in names.items()},
    }


def _hosts(lab):
    cuts = network.host_cuts(lab)
    mount_points = {point for point, _, _ in kernel.mounts()}
    hosts = {}
    for host in lab.spec.hosts.values():
        if host.role == "router":
            continue
        pid = daemons.running_pid(lab, host)
        hosts[host.name] = {"role": host.role, "campus": host.campus, "ip": host.ip, "pid": pid,
                            "running": pid is not None}
        if host.role == "node":
            path = lab.grid_path(host)
            hosts[host.name] |= {"path": path, "mounted": path in mount_points}
        if host.name in cuts:
            hosts[host.name]["cut"] = cuts[host.name]
    return hosts


def show(state):
    """The same for people."""
    rows = [("link", "rate", "rtt", "loss", "cut", "bytes out of main", "bytes to main")]
    for name, link in state["links"].items():
        if link["running"]:
            out, back = link["directions"].values()
            cut = ", ".join(way.replace("-", "→") for way, off in link["cut"].items() if off)
            traffic = (cut or "no", f"{out['bytes']:,}", f"{back['bytes']:,}")
        else:
            traffic = ("its forwarder is gone", "", "")
        rows.append((name, rate_text(link["rate_bits_per_s"]), f"{link['rtt_ms']:g} ms",
                     f"{link['loss']:.4g}", *traffic))
    _table(rows)
    print()
    rows = [("host", "role", "campus", "ip", "daemon", "mount")]
    for name, host in state["hosts"].items():
        role = "hub" if host["role"] == "hub" else "node"
        cut = ", cut off" if "cut" in host else ""
        mount = "" if role == "hub" else host["path"] if host["mounted"] else "not mounted"
        daemon = f"pid {host['pid']}" if host["running"] else "not running"
        rows.append((name, role, host["campus"], host["ip"], daemon + cut, mount))
    _table(rows)


def rate_text(bits_per_s):
    if bits_per_s == 0:
        return "unlimited"
    for unit, size in (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3)):
        if bits_per_s >= size:
            return f"{bits_per_s / size:g} {unit}"
    return f"{bits_per_s} bit/s"


def _table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
