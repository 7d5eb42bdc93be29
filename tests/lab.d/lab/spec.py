"""What a lab consists of: campuses, hosts, links and their addresses. No effects."""

import re
from dataclasses import asdict, dataclass, field

from . import LabError

MAIN = "main"
PORT = 7440
DEFAULT_NODES = "main=1,a=1,b=2"
MAX_NODES_PER_CAMPUS = 200

_RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_TIME_UNITS = {"us": 10**3, "ms": 10**6, "s": 10**9}


@dataclass
class Link:
    """A line from main to a branch. `rate_bits_per_s` 0: as fast as it goes; `loss` from 0 to 1."""

    branch: str
    rate_bits_per_s: int = 10**9
    rtt_ns: int = 5 * 10**6
    loss: float = 0.0
    corrupt: float = 0.0  # Share of packets with a flipped bit that no checksum below TLS sees.

    @property
    def name(self):
        return f"{MAIN}-{self.branch}"

    @property
    def device(self):
        return f"line-{self.branch}"


@dataclass(frozen=True)
class Host:
    """A hub (named like its campus), a node (campus and number) or a router (router-CAMPUS)."""

    name: str
    role: str
    campus: str
    ip: str

    @property
    def label(self):
        return f"hub-{self.name}" if self.role == "hub" else self.name


@dataclass
class Spec:
    name: str
    index: int
    node_counts: dict
    links: list
    bin_dir: str
    dir: str
    seed: int = 1
    daemons: bool = True
    store_on_nodes: bool = True
    cache_bytes: int = 0
    cache_fs_bytes: int = 0
    hosts: dict = field(init=False)

    def __post_init__(self):
        self.links = [link if isinstance(link, Link) else Link(**link) for link in self.links]
        self.hosts = {}
        for number, (campus, count) in enumerate(self.node_counts.items(), start=1):
            lan = f"10.{self.index}.{number}"
            self._add(Host(f"router-{campus}", "router", campus, f"{lan}.1"))
            self._add(Host(campus, "hub", campus, f"{lan}.2"))
            for node in range(1, count + 1):
                self._add(Host(f"{campus}{node}", "node", campus, f"{lan}.{10 + node}"))

    def _add(self, host):
        self.hosts[host.name] = host

    def to_json(self):
        kept = asdict(self)
        del kept["hosts"]
        return kept

    @property
    def campuses(self):
        return list(self.node_counts)

    def with_role(self, role):
        return [host for host in self.hosts.values() if host.role == role]

    def router(self, campus):
        return self.hosts[f"router-{campus}"]

    def host(self, name, *roles):
        host = self.hosts.get(name)
        if host is None or host.role not in (roles or ("hub", "node", "router")):
            known = [h.name for h in self.hosts.values() if h.role in (roles or ("hub", "node"))]
            raise LabError(f"no {' or '.join(roles) or 'host'} {name}; there are: {' '.join(known)}")
        return host

    def link(self, end, other_end):
        """The link between two campuses, and whether `end` is its main end."""
        for link in self.links:
            if {end, other_end} == {MAIN, link.branch}:
                return link, end == MAIN
        known = " ".join(link.name for link in self.links) or "none"
        raise LabError(f"no link {end}-{other_end}; there are: {known}")

    def line_addresses(self, link):
        """The addresses of a link's ends, main's first."""
        prefix = f"10.{self.index}.{200 + self.campuses.index(link.branch)}"
        return f"{prefix}.1", f"{prefix}.2"

    def lan(self, campus):
        return f"10.{self.index}.{self.campuses.index(campus) + 1}.0/24"


def check_lab_name(name):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}", name):
        raise LabError(f"lab name {name!r}: letters, digits, - and _ only, at most 31")
    return name


def parse_nodes(text):
    """`main=1,a=1,b=2` to a dict. main is always there, first, if only as a hub without nodes."""
    counts = {MAIN: 0}
    for part in text.split(","):
        match = re.fullmatch(r"([a-z]{1,9})=(\d+)", part.strip())
        if not match or int(match[2]) > MAX_NODES_PER_CAMPUS:
            raise LabError(f"--nodes: {part!r} is not CAMPUS=COUNT (lower case letters, at most "
                           f"{MAX_NODES_PER_CAMPUS} nodes)")
        counts[match[1]] = int(match[2])
    if len(counts) > 50:
        raise LabError("--nodes: at most 50 campuses")
    return counts


def parse_links(texts, campuses):
    """`main-a=rate:1gbit,rtt:5ms,loss:0` for some branches; the others get the defaults."""
    links = {campus: Link(campus) for campus in campuses if campus != MAIN}
    for text in texts:
        name, _, settings = text.partition("=")
        ends = name.split("-")
        branch = next((end for end in ends if end != MAIN), None)
        if len(ends) != 2 or MAIN not in ends or branch not in links:
            known = " ".join(f"{MAIN}-{campus}" for campus in links)
            raise LabError(f"--link: no link {name}; there are: {known}")
        for key, value in parse_link_settings(settings.split(",")).items():
            setattr(links[branch], key, value)
    return list(links.values())


def parse_link_settings(words):
    parsed = {}
    for word in words:
        key, _, value = word.partition(":")
        if key == "rate":
            parsed["rate_bits_per_s"] = _quantity(word, value, _RATE_UNITS, {"0", "none"})
        elif key == "rtt":
            parsed["rtt_ns"] = _quantity(word, value, _TIME_UNITS, {"0"})
        elif key in ("loss", "corrupt"):
            match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", value)
            share = float(match[1]) / (100 if match[2] else 1) if match else 2
            if share > 1:
                raise LabError(f"{word!r}: {key} is a share from 0 to 1, or a percentage like 1%")
            parsed[key] = share
        else:
            raise LabError(f"{word!r} is not rate:…, rtt:…, loss:… or corrupt:…")
    return parsed


def _quantity(word, value, units, zeros):
    if value in zeros:
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]+)", value)
    if not match or match[2] not in units:
        raise LabError(f"{word!r}: a number with one of the units {' '.join(units)} is needed")
    return round(float(match[1]) * units[match[2]])
