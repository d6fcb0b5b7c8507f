"""What a queue gives a job at most, where a job asks for more, and what would do instead.

Batch systems name a reason (`PartitionTimeLimit`), not the value that is wrong. Here the values of a job are compared
with the limits that its queue tells of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from xmml.late_dataclass import dataclass
from xmml_sites.batch.scheduler import JobScript

PARTITION, QOS, ACCOUNT = "partition", "QOS", "account"

#: Reasons that concern the limits of one kind of owner only.
_KIND_OF_REASON = ((re.compile(r"^QOS"), QOS), (re.compile(r"^Assoc"), ACCOUNT))
#: How a queue says that no node has what options ask for.
_CONSTRAINTS = re.compile(r"BadConstraints|feature|constraint|node configuration", re.IGNORECASE)
#: How PBS says of a resource that there will never be enough.
_INSUFFICIENT = re.compile(
    r"Can Never Run: Insufficient amount of \S*\s?resource: (?P<resource>\w+) "
    r"\(R: (?P<asked>\S+) A: \S+ T: (?P<total>\S+)\)"
)
#: What PBS calls a resource: the key of the file of sites, and the word for people.
_RESOURCES = {"ncpus": ("cores", "cores"), "mem": ("memory", "of memory"), "ngpus": ("gpus", "GPUs")}


@dataclass(frozen=True)
class Limits:
    """What one job can have of a partition (PBS: a queue), a QOS or an account. `None`: not known, or any amount.

    Attributes:
        kind: `PARTITION`, `QOS` or `ACCOUNT`.
        name: as the queue knows it.
        word: what people call it, if not by its kind.
        default_s: the time limit of a job that names none.
        longest_s: the longest time limit.
        nodes: of one job.
        node_cores, node_memory_bytes, node_gpus: of the largest node.
        cores, memory_bytes, gpus: of one job on all its nodes.
        accounts, qos: those that may use it; empty: all.
        working_nodes: how many of its nodes are not down or drained.
    """

    kind: str
    name: str
    word: str = ""
    default_s: float | None = None
    longest_s: float | None = None
    nodes: int | None = None
    node_cores: int | None = None
    node_memory_bytes: int | None = None
    node_gpus: int | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    working_nodes: int | None = None

    def __str__(self) -> str:
        return f"the {self.word or self.kind} {self.name}"


@dataclass(frozen=True)
class QueueLimits:
    """The limits of a batch system, as far as its users may know them.

    Attributes:
        partitions: all of them.
        default: the name of the partition of jobs that name none.
        others: of QOSs, and of the accounts of this user.
        default_account, default_qos: of jobs that name none; empty: not known.
    """

    partitions: tuple[Limits, ...] = ()
    default: str = ""
    others: tuple[Limits, ...] = ()
    default_account: str = ""
    default_qos: str = ""

    def partition(self, name: str) -> Limits | None:
        """Return the limits of a partition, or of the default one; `None`: there is no such one, or nothing is
        known."""
        return _named(self.partitions, name or self.default)

    def exceeded(self, job: JobScript, given: Mapping[str, str], reason: str = "") -> list[str]:
        """Return in words what a job asks for beyond its limits: the value, whose it is, the limit, and what would do.

        Args:
            given: where a value of the job comes from, by the key of the file of sites: `walltime in sites.toml:12`.
            reason: why the job waits, in the queue's words; it may say whose limits to compare with.
        """
        kind = next((kind for pattern, kind in _KIND_OF_REASON if pattern.match(reason)), "")
        found = [
            f"the job asks for {asked.words(asked.wanted)}{_origin(given, asked.key)}, "
            f"{owner} allows {asked.words(limit)}: {self._remedy(job, owner, asked, limit)}"
            for owner in self._owners(job)
            if not kind or owner.kind == kind
            for asked in _asked(job)
            if (limit := asked.limit(owner)) is not None and asked.wanted > limit
        ]
        return list(dict.fromkeys(found)) or self._unknown_names(job, given, reason)

    def broken_nodes(self, job: JobScript, given: Mapping[str, str]) -> str:
        """Return in words that a job asks for more nodes than work now; empty: it does not."""
        own = self.partition(job.partition)
        if own is None or own.working_nodes is None or job.nodes <= own.working_nodes:
            return ""
        words = f"{own.working_nodes} nodes work" if own.working_nodes != 1 else "1 node works"
        less = f"set nodes = {own.working_nodes}, " if own.working_nodes else ""
        others = [
            f"{each.name} has {each.working_nodes}"
            for each in self._that_would_do(job, own)
            if (each.working_nodes or 0) >= job.nodes
        ]
        another = f"use another partition ({', '.join(others)}), " if others else ""
        return (
            f"the job asks for {_count('node')(job.nodes)}{_origin(given, 'nodes')}, and only {words} in {own}: "
            f"{less}{another}or wait until the site has repaired the others"
        )

    def _owners(self, job: JobScript) -> Iterator[Limits]:
        for kind, name in (
            (PARTITION, job.partition or self.default),
            (ACCOUNT, job.account or self.default_account),
            (QOS, job.qos or self.default_qos),
        ):
            owner = _named([each for each in (*self.partitions, *self.others) if each.kind == kind], name)
            if owner is not None:
                yield owner

    def _remedy(self, job: JobScript, owner: Limits, asked: _Asked, limit: float) -> str:
        words = [f"set {asked.remedy(job, limit)}"] if limit > 0 else []
        if owner.kind == PARTITION:
            others = [(each.name, asked.limit(each)) for each in self._that_would_do(job, owner)]
            allow = [f"{name} allows {'any' if most is None else asked.words(most)}" for name, most in others]
            words += [f"another {owner.word or 'partition'} ({', '.join(allow)})"] if allow else []
        return " or ".join(words or [f"use another {owner.word or owner.kind}"])

    def _that_would_do(self, job: JobScript, than: Limits) -> list[Limits]:
        """Return the other partitions that give a job all it asks for."""
        account = job.account or self.default_account
        return [
            each
            for each in self.partitions
            if each.name != than.name
            and all((most := asked.limit(each)) is None or asked.wanted <= most for asked in _asked(job))
            and (not each.accounts or not account or account in each.accounts)
        ]

    def _unknown_names(self, job: JobScript, given: Mapping[str, str], reason: str) -> list[str]:
        """Return what is wrong with the partition, the account, the QOS or the options of a job, if that is known."""
        own = self.partition(job.partition)
        if self.partitions and own is None and job.partition:
            names = ", ".join(each.name for each in self.partitions)
            word = self.partitions[0].word or "partition"
            return [f"there is no {word} {job.partition}{_origin(given, 'partition')}: set partition to one of {names}"]
        accounts = [each.name for each in self.others if each.kind == ACCOUNT]
        found = []
        if short := _INSUFFICIENT.search(reason):
            key, word = _RESOURCES.get(short["resource"], ("", short["resource"]))
            found.append(
                f"the job asks for {short['asked']} {word}{_origin(given, key)}, there are {short['total']} in all: "
                f"set {' or '.join(dict.fromkeys(['nodes', key or 'options']))} to less"
            )
        if job.account and accounts and job.account not in accounts:
            found.append(
                f"the account {job.account}{_origin(given, 'account')} is none of yours: set account to one of "
                f"{', '.join(dict.fromkeys(accounts))}"
            )
        elif own is not None and own.accounts and job.account and job.account not in own.accounts:
            found.append(
                f"{own} does not take the account {job.account}{_origin(given, 'account')}: set account to one of "
                f"{', '.join(own.accounts)}, or use another partition"
            )
        association = _named([each for each in self.others if each.kind == ACCOUNT], job.account)
        for owner in (own, association):
            if job.qos and owner is not None and owner.qos and job.qos not in owner.qos:
                found.append(
                    f"{owner} does not take the QOS {job.qos}{_origin(given, 'qos')}: set qos to one of "
                    f"{', '.join(owner.qos)}"
                )
        if not found and job.options and _CONSTRAINTS.search(reason):
            options = " ".join(job.options)
            found.append(f"no node has what its options ask for: change {options}{_origin(given, 'options')}")
        if not found and job.reservation and "eservation" in reason:
            found.append(
                f"there is no reservation {job.reservation}{_origin(given, 'reservation')} that it can use: "
                "name another one, or leave it out"
            )
        return found


@dataclass(frozen=True)
class _Asked:
    """One amount that a job asks for.

    Attributes:
        key: of the file of sites.
        limit: what an owner of limits gives.
        words: how an amount is written.
        remedy: what to write in the file of sites instead, from the job and the limit.
    """

    key: str
    wanted: float
    limit: Callable[[Limits], float | None]
    words: Callable[[float], str]
    remedy: Callable[[JobScript, float], str]


def _asked(job: JobScript) -> Sequence[_Asked]:
    def for_each_node(key: str, have: int, words: Callable[[float], str]) -> Callable[[JobScript, float], str]:
        """Fewer nodes, as long as one has a place in the limit, else one with less of it."""

        def remedy(job: JobScript, limit: float) -> str:
            if job.nodes > 1 and limit >= have:
                return f"nodes = {int(limit // have)}"
            return f"{'nodes = 1 and ' if job.nodes > 1 else ''}{key} = {words(limit)}"

        return remedy

    def on_a_node(words: Callable[[float], str]) -> Callable[[float], str]:
        return lambda amount: f"{words(amount)} on a node"

    def whole(amount: float) -> str:
        return f"{amount:.0f}"

    def in_quotes(amount: float) -> str:
        return f'"{_memory(amount)}"'

    cores, gpus = _count("core"), _count("GPU")
    return (
        _Asked(
            "walltime",
            job.walltime_s,
            lambda each: each.longest_s,
            _time,
            lambda _, most: f'walltime = "{_time(most)}"',
        ),
        _Asked("nodes", job.nodes, lambda each: each.nodes, _count("node"), lambda _, most: f"nodes = {most:.0f}"),
        _Asked(
            "cores", job.cores, lambda each: each.node_cores, on_a_node(cores), lambda _, most: f"cores = {most:.0f}"
        ),
        _Asked(
            "memory",
            job.memory,
            lambda each: each.node_memory_bytes,
            on_a_node(_memory),
            lambda _, most: f"memory = {in_quotes(most)}",
        ),
        _Asked("gpus", job.gpus, lambda each: each.node_gpus, on_a_node(gpus), lambda _, most: f"gpus = {most:.0f}"),
        _Asked(
            "cores", job.nodes * job.cores, lambda each: each.cores, cores, for_each_node("cores", job.cores, whole)
        ),
        _Asked(
            "memory",
            job.nodes * job.memory,
            lambda each: each.memory_bytes,
            _memory,
            for_each_node("memory", job.memory, in_quotes),
        ),
        _Asked("gpus", job.nodes * job.gpus, lambda each: each.gpus, gpus, for_each_node("gpus", job.gpus, whole)),
    )


def _named(limits: Sequence[Limits], name: str) -> Limits | None:
    return next((each for each in limits if each.name == name), None)


def _origin(given: Mapping[str, str], key: str) -> str:
    return f" ({given[key]})" if given.get(key) else ""


def _count(what: str) -> Callable[[float], str]:
    return lambda amount: f"{amount:.0f} {what}{'' if amount == 1 else 's'}"


def _time(seconds: float) -> str:
    """Return a time in the largest unit that shows it exactly, as a file of sites takes it."""
    for factor, word in ((86_400, "day"), (3_600, "hr"), (60, "min")):
        if seconds >= factor and seconds % factor == 0:
            return f"{seconds // factor:.0f} {word}"
    return f"{seconds:g} s"


def _memory(amount: float) -> str:
    if amount >= 2**30 and amount % 2**30 == 0:
        return f"{amount / 2**30:.0f} GiB"
    return f"{amount // 2**20:.0f} MiB"
