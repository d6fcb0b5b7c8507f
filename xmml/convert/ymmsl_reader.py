"""Reading yMMSL 0.1 and 0.2 files: text to values, with every problem and its place."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from xmml.convert.yaml_text import MAX_BYTES, Yaml, is_null, scalar
from xmml.convert.ymmsl_file import Component, Conduit, Ports, Program, Resources, SettingValue, YmmslFile, YmmslModel
from xmml.files import FileUnreadable, read_bytes
from xmml.problems import ModelError, did_you_mean, in_order

_OPERATORS = ("f_init", "o_i", "s", "o_f")
FILTERS = ("last", "repeat", "pad")
_EXECUTION_MODELS = ("direct", "openmpi", "intelmpi", "srunmpi", "manual")
_KEEPS_STATE = ("necessary", "no", "helpful")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*|\[\d{1,9}\])*", re.ASCII)
_SECTIONS: Mapping[str, frozenset[str]] = {
    "0.1": frozenset(
        {"ymmsl_version", "description", "model", "settings", "implementations", "resources", "checkpoints", "resume"}
    ),
    "0.2": frozenset(
        {"ymmsl_version", "description", "imports", "models", "custom_implementations", "settings", "programs"}
        | {"resources", "checkpoints", "resume"}
    ),
}


def read_ymmsl(path: str | os.PathLike[str]) -> YmmslFile:
    """Read a yMMSL file.

    Raises:
        ModelError: it cannot be read, or is not valid; with every problem found.
    """
    file = os.fspath(path)
    text = ""
    reader = _Reader(Yaml(file, text))
    try:
        data = read_bytes(file)
        if len(data) > MAX_BYTES:
            raise reader.yaml.refusal(f"the file is larger than {MAX_BYTES // 2**20} MiB")
        text = data.decode("utf-8-sig")
    except FileUnreadable as error:
        raise reader.yaml.refusal(f"cannot read the file: {error}") from None
    except UnicodeDecodeError as error:
        raise reader.yaml.refusal(f"the file is not UTF-8 text (byte {error.start} cannot be decoded)") from None
    return parse_ymmsl(text, file)


def parse_ymmsl(text: str, file: str) -> YmmslFile:
    """Read yMMSL from a text; otherwise like `read_ymmsl`."""
    return _Reader(Yaml(file, text)).read()


class _Reader:
    def __init__(self, text: Yaml) -> None:
        self.yaml = text

    def read(self) -> YmmslFile:
        root = self.yaml.root()
        if root is None or not isinstance(root, yaml.MappingNode):
            raise self.yaml.refusal("this is no yMMSL file: it holds no sections")
        sections = {key: (key_node, value) for key, key_node, value in self.yaml.pairs(root, "the file")}
        version = self.version(sections, root)
        for key, (key_node, _) in sections.items():
            if key not in _SECTIONS[version]:
                self.yaml.wrong(
                    key_node,
                    f'yMMSL {version} has no section "{key}"',
                    did_you_mean(key, _SECTIONS[version], "sections"),
                )

        def section(name: str) -> Any:
            return sections[name][1] if name in sections else None

        programs = section("programs" if version == "0.2" else "implementations")
        found = YmmslFile(
            version=version,
            description=self.text(section("description"), "description"),
            models=self.models(section("models")) if version == "0.2" else self.only_model(section("model")),
            programs=self.named(programs, "programs", self.program),
            settings=self.settings(section("settings")),
            resources=self.named(section("resources"), "resources", self.resource),
            custom_implementations=self.custom(section("custom_implementations")),
            left_out=tuple(name for name in ("imports", "checkpoints", "resume") if not _is_empty(section(name))),
            place=self.yaml.place(root),
        )
        if self.yaml.problems:
            raise ModelError(in_order(self.yaml.problems))
        return found

    def version(self, sections: Mapping[str, tuple[Any, Any]], root: Any) -> str:
        if "ymmsl_version" not in sections:
            help = "begin the file with ymmsl_version: v0.2"
            raise ModelError([self.yaml.place(root).problem("this is no yMMSL file: it has no ymmsl_version", help)])
        node = sections["ymmsl_version"][1]
        text = self.yaml.string(node, "ymmsl_version")
        version = text.removeprefix("v")
        if version not in _SECTIONS:
            message = f'yMMSL version "{text}" is not known'
            raise ModelError([self.yaml.place(node).problem(message, "known are v0.1 and v0.2")])
        return version

    # Pieces that stand in several places

    def text(self, node: Any, what: str) -> str:
        return "" if node is None else self.yaml.string(node, what).strip()

    def named(self, node: Any, what: str, read: Callable[[str, Any, Any], Any]) -> dict[str, Any]:
        """Return what a mapping from names, or a list of mappings with a `name`, holds."""
        found: dict[str, Any] = {}
        if node is None or is_null(node):
            return found
        if isinstance(node, yaml.SequenceNode):
            for item in self.yaml.items(node, what):
                name_node = next((value for key, _, value in self.yaml.pairs(item, what) if key == "name"), None)
                if name_node is None:
                    self.yaml.wrong(item, f"an entry of {what} has no name")
                else:
                    found[self.reference(name_node, f"a name in {what}")] = read(name_node.value, name_node, item)
            return found
        for name, key, value in self.yaml.pairs(node, what):
            if not _REFERENCE.fullmatch(name):
                self.yaml.wrong(key, f'"{name}" is no name', _NAME_HELP)
            found[name] = read(name, key, value)
        return found

    def fields(self, node: Any, what: str, known: tuple[str, ...]) -> dict[str, Any]:
        """Return the value nodes of a mapping by key; unknown keys are problems."""
        found = {}
        for key, key_node, value in self.yaml.pairs(node, what):
            if key in known or key == "name":
                found[key] = value
            else:
                self.yaml.wrong(key_node, f'{what} has no "{key}"', did_you_mean(key, known, "keys"))
        return {key: value for key, value in found.items() if not is_null(value)}

    def reference(self, node: Any, what: str) -> str:
        text = self.yaml.string(node, what)
        if not _REFERENCE.fullmatch(text):
            self.yaml.wrong(node, f'{what}: "{text}" is no name', _NAME_HELP)
        return text

    def one_of(self, node: Any, what: str, known: tuple[str, ...]) -> str:
        word = self.yaml.string(node, what).lower()
        if word not in known:
            self.yaml.wrong(node, f'{what} cannot be "{word}"', did_you_mean(word, known, "values"))
            return known[0]
        return word

    def ports(self, node: Any, what: str) -> Ports:
        operators: dict[str, str] = {}
        on_timelines: list[str] = []

        def add(operator: str, value: Any) -> list[str]:
            names = []
            for name, place in [] if is_null(value) else self.yaml.words(value, f"{operator} of {what}"):
                if not _IDENTIFIER.fullmatch(name):
                    self.yaml.wrong(place, f'"{name}" is no name of a port', _NAME_HELP)
                elif name in operators:
                    self.yaml.wrong(
                        place, f'the port "{name}" of {what} is declared twice', "ports need names of their own"
                    )
                operators[name] = operator
                names.append(name)
            return names

        for key, key_node, value in self.yaml.pairs(node, f"ports of {what}"):
            if key in _OPERATORS:
                add(key, value)
            elif key.startswith("timeline "):
                for operator, operator_node, names in self.yaml.pairs(value, key):
                    if operator in ("o_i", "s"):
                        on_timelines += add(operator, names)
                    else:
                        self.yaml.wrong(
                            operator_node, f'"{operator}" cannot stand below a timeline', "only o_i and s can"
                        )
            else:
                self.yaml.wrong(key_node, f'"{key}" is no operator', did_you_mean(key, _OPERATORS, "operators"))
        return Ports(operators, tuple(on_timelines))

    # Models

    def only_model(self, node: Any) -> dict[str, YmmslModel]:
        if node is None or is_null(node):
            return {}
        fields = self.fields(node, "model", ("name", "components", "conduits", "description"))
        if "name" not in fields:
            self.yaml.wrong(node, "the model has no name")
            return {}
        name = self.reference(fields["name"], "name of the model")
        return {name: self.model_of(name, fields["name"], fields)}

    def models(self, node: Any) -> dict[str, YmmslModel]:
        return self.named(node, "models", self.model)

    def model(self, name: str, place: Any, node: Any) -> YmmslModel:
        known = ("ports", "description", "supported_settings", "components", "matching_timelines", "conduits")
        return self.model_of(name, place, self.fields(node, f'model "{name}"', known))

    def model_of(self, name: str, place: Any, fields: Mapping[str, Any]) -> YmmslModel:
        components = self.named(fields.get("components"), "components", self.component)
        return YmmslModel(
            name=name,
            place=self.yaml.place(place),
            description=self.text(fields.get("description"), "description"),
            ports=self.ports(fields["ports"], f'model "{name}"') if "ports" in fields else Ports(),
            components=components,
            conduits=tuple(self.conduits(fields["conduits"])) if "conduits" in fields else (),
            has_matching_timelines="matching_timelines" in fields,
        )

    def component(self, name: str, place: Any, node: Any) -> Component:
        if isinstance(node, yaml.ScalarNode) and not is_null(node):
            implementation = self.reference(node, f'implementation of "{name}"')
            return Component(name, self.yaml.place(place), None, "", implementation, False, ())
        known = ("ports", "description", "implementation", "optional", "multiplicity")
        fields = self.fields(node, f'component "{name}"', known)
        return Component(
            name=name,
            place=self.yaml.place(place),
            ports=self.ports(fields["ports"], f'"{name}"') if "ports" in fields else None,
            description=self.text(fields.get("description"), "description"),
            implementation=self.reference(fields["implementation"], f'implementation of "{name}"')
            if "implementation" in fields
            else None,
            optional=self.yaml.truth(fields["optional"], "optional") if "optional" in fields else False,
            multiplicity=self.multiplicity(fields.get("multiplicity")),
        )

    def multiplicity(self, node: Any) -> tuple[int, ...]:
        if node is None:
            return ()
        nodes = self.yaml.items(node, "multiplicity") if isinstance(node, yaml.SequenceNode) else [node]
        numbers = [self.yaml.number(each, "multiplicity") for each in nodes]
        return tuple(number for number in numbers if number is not None)

    def conduits(self, node: Any) -> list[Conduit]:
        found = []
        if isinstance(node, yaml.SequenceNode):
            for item in self.yaml.items(node, "conduits"):
                fields = self.fields(item, "a conduit", ("sender", "receiver", "filters"))
                if {"sender", "receiver"} <= set(fields):
                    sender = self.reference(fields["sender"], "sender")
                    found += self.receivers(sender, fields["sender"], fields["receiver"])
                else:
                    self.yaml.wrong(item, "a conduit needs a sender and a receiver")
            return found
        for sender, key, value in self.yaml.pairs(node, "conduits"):
            if not _REFERENCE.fullmatch(sender):
                self.yaml.wrong(key, f'"{sender}" is no port', "write COMPONENT.PORT")
            found += self.receivers(sender, key, value)
        return found

    def receivers(self, sender: str, key: Any, node: Any) -> list[Conduit]:
        nodes = self.yaml.items(node, "receivers") if isinstance(node, yaml.SequenceNode) else [node]
        return [self.conduit(sender, key, each) for each in nodes]

    def conduit(self, sender: str, key: Any, node: Any) -> Conduit:
        *filters, receiver = self.yaml.string(node, "receiver").split() or [""]
        for name in filters:
            if name not in FILTERS:
                self.yaml.wrong(node, f'there is no filter "{name}"', did_you_mean(name, FILTERS, "filters"))
        if not _REFERENCE.fullmatch(receiver):
            self.yaml.wrong(node, f'"{receiver}" is no port', "write COMPONENT.PORT, with filters before it")
        return Conduit(sender, receiver, tuple(filters), self.yaml.place(node))

    # The other sections

    def program(self, name: str, place: Any, node: Any) -> Program:
        at = self.yaml.place(place)
        if isinstance(node, yaml.ScalarNode) and not is_null(node):
            return Program(name, at, script=self.yaml.string(node, "script"))
        surroundings = ("base_env", "modules", "virtual_env")
        starting = ("env", "execution_model", "executable", "args", "script")
        hints = ("can_share_resources", "keeps_state_for_next_use")
        known = ("ports", "description", "supported_settings", *surroundings, *starting, *hints)
        what = f'program "{name}"'
        fields = self.fields(node, what, known)
        settings = fields.get("supported_settings")
        sharing, keeps = fields.get("can_share_resources"), fields.get("keeps_state_for_next_use")
        model = fields.get("execution_model")
        return Program(
            name=name,
            place=at,
            description=self.text(fields.get("description"), "description"),
            ports=self.ports(fields["ports"], what) if "ports" in fields else None,
            settings=None
            if settings is None
            else frozenset(key for key, _, _ in self.yaml.pairs(settings, "settings")),
            env=self.environment(fields.get("env"), what),
            execution_model="direct" if model is None else self.one_of(model, "execution_model", _EXECUTION_MODELS),
            executable=self.text(fields.get("executable"), "executable") or None,
            args=self.lines(fields.get("args"), "args"),
            script="\n".join(self.lines(fields.get("script"), "script")) or None,
            can_share_resources=True if sharing is None else self.yaml.truth(sharing, "can_share_resources"),
            keeps_state="necessary" if keeps is None else self.one_of(keeps, "keeps_state_for_next_use", _KEEPS_STATE),
            surroundings=tuple(key for key in surroundings if key in fields),
        )

    def environment(self, node: Any, what: str) -> dict[str, str]:
        pairs = [] if node is None else self.yaml.pairs(node, f"env of {what}")
        return {key: self.yaml.string(value, f"{key} of env") for key, _, value in pairs}

    def lines(self, node: Any, what: str) -> tuple[str, ...]:
        """Return a text, or the texts of a list."""
        if node is None:
            return ()
        nodes = self.yaml.items(node, what) if isinstance(node, yaml.SequenceNode) else [node]
        return tuple(self.yaml.string(each, what) for each in nodes)

    def resource(self, name: str, place: Any, node: Any) -> Resources:
        known = ("threads", "mpi_processes", "threads_per_mpi_process", "nodes", "mpi_processes_per_node")
        fields = self.fields(node, f'resources of "{name}"', known)
        counts = {key: self.yaml.number(value, key) for key, value in fields.items() if key != "name"}
        nodes, per_node = counts.get("nodes"), counts.get("mpi_processes_per_node")
        processes = nodes * per_node if nodes and per_node else counts.get("mpi_processes")
        return Resources(counts.get("threads"), processes, counts.get("threads_per_mpi_process") or 1)

    def custom(self, node: Any) -> dict[str, str | None]:
        pairs = [] if node is None else self.yaml.pairs(node, "custom_implementations")
        return {
            key: None if is_null(value) else self.reference(value, f"implementation of {key}")
            for key, _, value in pairs
        }

    def settings(self, node: Any) -> dict[str, SettingValue]:
        found = {}
        for key, key_node, value in [] if node is None else self.yaml.pairs(node, "settings"):
            if not _REFERENCE.fullmatch(key):
                self.yaml.wrong(key_node, f'"{key}" is no name of a setting', "write NAME or COMPONENT.NAME")
            read = self.setting(value)
            if read is None:
                help = "a text, true or false, a number, a list of numbers, or a list of such lists"
                self.yaml.wrong(value, f'the setting "{key}" has no value that a setting can have', help)
            else:
                found[key] = read
        return found

    def setting(self, node: Any, depth: int = 0) -> Any:
        self.yaml.visit()
        if isinstance(node, yaml.ScalarNode):
            value = scalar(node)
            return value if depth == 0 or type(value) in (int, float) else None
        if isinstance(node, yaml.SequenceNode) and depth < 2:
            values = [self.setting(each, depth + 1) for each in node.value]
            return None if any(each is None for each in values) else values
        return None


_NAME_HELP = "letters, digits and underscores, beginning with a letter"


def _is_empty(node: Any) -> bool:
    return node is None or is_null(node) or (not isinstance(node, yaml.ScalarNode) and not node.value)
