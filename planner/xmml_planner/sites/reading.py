"""Reading a `sites.toml`: every mistake in it is told at once, with its place, the line, and what to write instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from xmml.files import similar_name
from xmml.positions import Mark, Position, Source
from xmml.problems import ModelError, Problem, Severity, did_you_mean, in_order
from xmml_planner.sites.catalogue import Link, RelaySite, Site, SiteCatalogue, cores_of_this_machine
from xmml_planner.sites.fields import (
    LINK_FIELDS,
    RELAY_FIELDS,
    SITE_FIELDS,
    SYNONYMS,
    Field,
    FieldError,
    is_site_name,
)
from xmml_planner.sites.toml_positions import Node, Span, TomlError, parse_toml

#: Far more than any catalogue needs; a larger file is something else.
MOST_BYTES = 10_000_000
#: So many times a site can be a part of a part: a partition of a partition of a cluster is two.
MOST_LIKE = 16

#: The codes of what can be wrong with a file of sites.
CODES: Mapping[str, str] = {
    "S01": "the file cannot be read, or is not TOML",
    "S02": "an unknown key or table",
    "S03": "a value that the key cannot have",
    "S04": "something is missing",
    "S05": "a reference to a site that there is not",
    "S06": "two statements that contradict each other",
}

#: Keys that say something to a batch system only.
_QUEUE_KEYS = ("partition", "account", "qos", "reservation", "can_reserve", "options")
#: Keys that hold for a cluster as a whole: a run logs in, keeps its files, submits and relays once for all its parts.
_CLUSTER_KEYS = ("ssh", "transport", "scheduler", "dialect", "can_reserve", "work", "relay")


class SitesError(ModelError):
    """A file of sites that cannot be used; `problems` says why, its text is what to show to a person."""


def read_sites(path: str | os.PathLike[str]) -> SiteCatalogue:
    """Return the catalogue that a `sites.toml` holds.

    Raises:
        SitesError: the file cannot be read, or something in it is wrong; with every problem found.
    """
    file = os.fspath(path)
    try:
        with Path(file).open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        help = ""
        if isinstance(error, FileNotFoundError):
            help = similar_name(file, (".toml",)) or "name the file that describes your sites"
        raise _unreadable(file, f"cannot read the sites: {error.strerror or error}", help) from None
    except UnicodeDecodeError as error:
        raise _unreadable(file, f"cannot read the sites: byte {error.start} is not UTF-8") from None
    if len(raw) > MOST_BYTES:
        raise _unreadable(file, f"cannot read the sites: the file has more than {MOST_BYTES} bytes")
    return sites_from_text(text, file)


def sites_from_text(text: str, file: str = "sites.toml") -> SiteCatalogue:
    """Return the catalogue that the text of a `sites.toml` holds; `file` is its name in messages.

    Raises:
        SitesError: something in it is wrong; with every problem found.
    """
    return _Reader(text, file).catalogue()


def _unreadable(file: str, message: str, help: str = "") -> SitesError:
    return SitesError([Problem(Severity.ERROR, "S01", message, Position(file, 1, 1), help=help)])


class _Reader:
    """The problems found so far in one file."""

    def __init__(self, text: str, file: str) -> None:
        self._source = Source(file, text)
        self._file = file
        self._problems: list[Problem] = []
        self._is_too_deep = False

    def catalogue(self) -> SiteCatalogue:
        try:
            root = parse_toml(self._source.text)
        except TomlError as error:
            raise SitesError([self._not_toml(error)]) from None
        self._unknown_tables(root)
        nodes = self._site_tables(root)
        sites = self._sites(nodes)
        links = self._links(root, nodes)
        if self._problems:
            raise SitesError(in_order(self._problems))
        return SiteCatalogue(sites, links, self._file)

    def _problem(self, code: str, message: str, span: Span, help: str = "", note: str = "") -> None:
        self._problems.append(self._made(code, message, span, help, note))

    def _made(self, code: str, message: str, span: Span, help: str = "", note: str = "") -> Problem:
        position = self._source.position(span[0])
        mark = Mark(position, max(1, span[1] - span[0]), note)
        quote, column = self._source.quote(mark)
        return Problem(Severity.ERROR, code, message, position, quote, mark, help, column)

    def _not_toml(self, error: TomlError) -> Problem:
        text = self._source.text
        at = self._source.offset(error.line, error.column) if error.line else len(text.rstrip())
        at = min(at, max(0, len(text) - 1))
        helps = {
            "Invalid value": 'texts stand in quotes: ssh = "alpha"; true and false are written small',
            "Unclosed array": "close the list with ]",
            "Cannot overwrite a value": "this key has been given before; keep one of the two",
            "Cannot declare": "this table has been given before; join the two",
            "Expected '=' after a key": "a line is [site.NAME], [[link]] or KEY = VALUE",
            "Invalid statement": "a line is [site.NAME], [[link]] or KEY = VALUE",
            "Illegal character": "a text ends with a quote on the same line",
            "Unterminated string": "a text ends with a quote on the same line",
            "Expected newline": "one KEY = VALUE a line; a text of several words stands in quotes",
        }
        help = next((help for start, help in helps.items() if error.message.startswith(start)), "")
        message = error.message[:1].lower() + error.message[1:]
        return self._made("S01", f"this is not TOML: {message}", (at, at + 1), help)

    def _unknown_tables(self, root: Node) -> None:
        for key, node in root.children.items():
            if key in ("site", "link"):
                continue
            help = {"sites": 'write [site.NAME]: "site", without s', "links": "write [[link]], without s"}.get(key)
            if help is None and key in SITE_FIELDS:
                help = f"put {key} under a line [site.NAME]"
            self._problem(
                "S02",
                f'"{key}" is not known here: a file of sites has tables [site.NAME] and [[link]]',
                node.key_span,
                help or did_you_mean(key, ("site", "link"), "tables"),
            )

    # Sites

    def _site_tables(self, root: Node) -> dict[str, Node]:
        """Return the tables of the sites by name."""
        sites = root.children.get("site")
        if sites is None:
            if "sites" not in root.children:
                self._problem("S04", "no site is described", (0, 0), "begin with a line [site.NAME]")
            return {}
        if sites.elements or not isinstance(sites.value, dict):
            self._problem("S03", "a site needs a name", sites.key_span, "write [site.NAME], with single brackets")
            return {}
        if not sites.children:
            self._problem("S04", "no site is described", sites.key_span, "write [site.NAME]")
        found = {}
        for name, node in sites.children.items():
            if not isinstance(node.value, dict) or node.elements:
                if name in SITE_FIELDS:
                    self._problem(
                        "S03", f'"{name}" stands outside of a site', node.key_span, "write [site.NAME] before it"
                    )
                else:
                    self._problem("S03", f'the site "{name}" is not a table', node.key_span, f"write [site.{name}]")
                continue
            if not is_site_name(name):
                self._problem(
                    "S03",
                    f'"{name}" cannot name a site',
                    node.key_span,
                    "begin with a letter or digit; letters, digits, -, _ and . may follow, 63 in all",
                )
            found[name] = node
        return found

    def _sites(self, nodes: Mapping[str, Node]) -> dict[str, Site]:
        own = {name: self._values(node, SITE_FIELDS, f"site {name}", {"relay"}) for name, node in nodes.items()}
        for name, node in nodes.items():
            relay = node.children.get("relay")
            if relay is not None:
                own[name]["relay"] = self._relay(relay, name)
        sites = {}
        unread = {}
        for name, node in nodes.items():
            values = self._with_inherited(name, nodes, own)
            if values is None:
                continue
            written = _written(name, nodes, own)
            unread[name] = written - values.keys()
            self._fits_together(name, node, values, written)
            values.setdefault("mpi", "srun" if values.get("scheduler") == "slurm" else "mpirun")
            if values.get("scheduler") == "pbs":
                values.setdefault("dialect", "openpbs")
            if values.get("ssh") is None:
                values.setdefault("python", sys.executable)
                if values.get("scheduler", "local") == "local":
                    values.setdefault("cores", cores_of_this_machine())
            sites[name] = Site(name=name, origin=self._origin(name, nodes, own), **values)
        self._one_cluster_here(nodes, sites)
        self._parts_of_clusters(nodes, sites, unread)
        return sites

    def _origin(self, name: str, nodes: Mapping[str, Node], own: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Return the file and line of each key of a site, or of the one that it is `like`."""
        found: dict[str, str] = {}
        at: str | None = name
        while at is not None:
            for key, child in nodes[at].children.items():
                line = self._source.position(child.key_span[0]).line
                found.setdefault(key, f"{self._file}:{line}")
            at = own[at].get("like")
        return found

    def _relay(self, node: Node, name: str) -> RelaySite | None:
        if node.value is False:
            return None
        if not isinstance(node.value, dict):
            self._problem(
                "S03",
                "expected a table that says where the relay runs, or false",
                node.value_span,
                f"write a line [site.{name}.relay], or relay = false if none can run there",
            )
            return RelaySite()
        values = self._values(node, RELAY_FIELDS, f"the relay of {name}")
        made = RelaySite(**values)
        if not made.through_ssh and made.listen is None and made.host is None:
            self._problem(
                "S06",
                f"the relay of {name} can be reached in no way",
                node.children["through_ssh"].value_span,
                "say where it listens (listen) or runs (host), or let it be reached through ssh",
            )
        return made

    def _values(
        self, node: Node, known: Mapping[str, Field], where: str, others: set[str] | frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """Return the values of a table by attribute; what cannot be read becomes a problem."""
        values = {}
        for key, child in node.children.items():
            if key in others:
                continue
            if key not in known:
                self._unknown_key(key, child, known, where)
                continue
            try:
                values[known[key].attribute] = known[key].read(child)
            except FieldError as error:
                self._problem("S03", f"{where}: {key}: {error.message}", (error.node or child).value_span, error.help)
        return values

    def _unknown_key(self, key: str, node: Node, known: Mapping[str, Field], where: str) -> None:
        meant = SYNONYMS.get(key)
        if key == "password":
            help = "no password is ever stored: use keys, an agent, or answer when you are asked"
        elif key in RELAY_FIELDS and known is SITE_FIELDS and key != "host":
            help = f"it belongs to the relay: put it under a line [{where.replace(' ', '.')}.relay]"
        elif meant in known:
            help = f'did you mean "{meant}"?'
        else:
            help = did_you_mean(key, known, "keys") or "known keys: " + ", ".join(sorted(known))
        self._problem("S02", f'{where}: there is no key "{key}"', node.key_span, help)

    def _with_inherited(
        self, name: str, nodes: Mapping[str, Node], own: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any] | None:
        """Return the values of a site and those that it takes from the site it is `like`; `None`: that cannot be."""
        values = dict(own[name])
        seen = [name]
        while (parent := own[seen[-1]].get("like")) is not None:
            span = nodes[seen[-1]]["like"].value_span
            if parent not in own:
                if seen == [name]:
                    self._problem(
                        "S05", f'site {name}: there is no site "{parent}"', span, did_you_mean(parent, own, "sites")
                    )
                return None
            if parent in seen:
                if parent == name:
                    self._problem("S06", f"site {name} is, in the end, like itself", span, "leave out one of them")
                return None
            if len(seen) > MOST_LIKE:
                self._too_deep(name, nodes[name]["like"].value_span)
                return None
            seen.append(parent)
            values = {**{key: value for key, value in own[parent].items() if key != "like"}, **values}
        return values

    def _too_deep(self, name: str, span: Span) -> None:
        """Tell once that sites are parts of parts without end."""
        if not self._is_too_deep:
            self._is_too_deep = True
            message = f"site {name} is a part of a part of a part ..., more than {MOST_LIKE} deep"
            self._problem("S06", message, span, "let it be like the cluster itself, and say how it differs")

    def _fits_together(self, name: str, node: Node, values: Mapping[str, Any], written: Collection[str]) -> None:
        """Look at one site as a whole.

        Args:
            written: keys that are there, also those whose values could not be read: what that leads to is no mistake of
                its own.
        """
        scheduler = values.get("scheduler", "local")
        if "scheduler" not in written:
            given = next((key for key in _QUEUE_KEYS if key in node.children), None)
            if given is not None:
                self._problem(
                    "S04",
                    f"site {name}: {given} is for a batch system, and none is named",
                    node[given].key_span,
                    'add scheduler = "slurm" or scheduler = "pbs"',
                )
        elif values.get("scheduler") == "local":
            for key in _QUEUE_KEYS:
                if key in node.children:
                    self._problem(
                        "S06",
                        f'site {name}: {key} means nothing to scheduler = "local", which starts programs at once',
                        node[key].key_span,
                        f'leave {key} out, or write scheduler = "slurm" or "pbs"',
                    )
        if "dialect" in node.children and scheduler != "pbs" and ("scheduler" not in written or "scheduler" in values):
            self._problem("S06", f"site {name}: only pbs has dialects", node["dialect"].key_span, "leave it out")
        if "transport" in node.children and values.get("ssh") is None and "ssh" not in written:
            self._problem(
                "S06",
                f"site {name}: transport says how ssh is spoken, and there is no ssh",
                node["transport"].key_span,
                'add ssh = "user@host", or leave transport out if the site is this machine',
            )
        if "cores" not in written and (values.get("ssh") is not None or scheduler != "local"):
            ask = {"slurm": "; sinfo -o %c tells", "pbs": "; pbsnodes -a tells"}.get(scheduler, "; nproc tells")
            self._problem(
                "S04", f"site {name}: cores is missing: how many cores a node has", node.key_span, f"add cores = 4{ask}"
            )

    def _one_cluster_here(self, nodes: Mapping[str, Node], sites: Mapping[str, Site]) -> None:
        """This machine is the login node of one cluster at most: a second one lacks its ssh."""
        first: str | None = None
        for name, site in sites.items():
            if not site.is_here or not site.has_queue:
                continue
            top = name
            while (parent := sites[top].like) is not None and parent in sites:
                top = parent
            if first is None:
                first = top
            elif top != first:
                self._problem(
                    "S04",
                    f"site {name}: ssh is missing: without it the cluster is the one this machine belongs to, "
                    f"and that is {first} already",
                    nodes[name].key_span,
                    'add ssh = "user@login.example.org", or a host of your ~/.ssh/config',
                )

    def _parts_of_clusters(
        self, nodes: Mapping[str, Node], sites: Mapping[str, Site], unread: Mapping[str, Collection[str]]
    ) -> None:
        """What is `like` another site is a part of its cluster, so it says nothing else of the cluster.

        Args:
            unread: the keys of each site whose values could not be read.
        """
        for name, site in sites.items():
            whole = sites.get(site.like or "")
            if whole is None:
                continue
            others = [
                key
                for key in nodes[name].children
                if key in _CLUSTER_KEYS and key not in unread[whole.name] and getattr(site, key) != getattr(whole, key)
            ]
            if others:
                keys = " and ".join(others)
                self._problem(
                    "S06",
                    f"site {name}: {keys} cannot differ from {whole.name}, which it is like: "
                    "the two are parts of one cluster",
                    nodes[name][others[0]].key_span,
                    f"leave {keys} out if {name} is a part of that cluster; for another cluster or machine leave like "
                    f"out, and write here what it has in common with {whole.name}",
                )

    # Links

    def _links(self, root: Node, sites: Mapping[str, Node]) -> tuple[Link, ...]:
        tables = root.children.get("link")
        if tables is None:
            return ()
        if not isinstance(tables.value, list) or not all(isinstance(each, dict) for each in tables.value):
            self._problem("S03", "links are tables of their own", tables.key_span, "write [[link]], in double brackets")
            return ()
        links: list[Link] = []
        first: dict[frozenset[str], Span] = {}
        for node in tables.elements:
            values = self._values(node, LINK_FIELDS, "link")
            between = node.children.get("between")
            if between is None:
                self._problem(
                    "S04",
                    "this link does not say which sites it joins",
                    node.key_span,
                    'add between = ["alpha", "beta"]',
                )
            if "between" not in values or between is None:
                continue
            if not self._known_ends(between, sites):
                continue
            pair = frozenset(values["between"])
            if pair in first:
                line = self._source.position(first[pair][0]).line
                names = " and ".join(values["between"])
                self._problem(
                    "S06",
                    f"a second link between {names}",
                    between.value_span,
                    f"the first is in line {line}; keep one",
                )
                continue
            first[pair] = between.value_span
            links.append(Link(**values))
        return tuple(links)

    def _known_ends(self, between: Node, sites: Mapping[str, Node]) -> bool:
        unknown = [element for element in between.elements if element.value not in sites]
        for element in unknown:
            self._problem(
                "S05",
                f'link: there is no site "{element.value}"',
                element.value_span,
                did_you_mean(element.value, sites, "sites"),
            )
        return not unknown


def _written(name: str, nodes: Mapping[str, Node], own: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The keys of a site and of those that it is `like`, whether or not their values could be read."""
    keys: set[str] = set()
    seen: set[str] = set()
    at: str | None = name
    while at is not None and at in own and at not in seen:
        seen.add(at)
        keys |= set(nodes[at].children)
        at = own[at].get("like")
    return keys
