"""A yMMSL file as one flat model: models inside models unfolded, custom implementations put in, conduits glued."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.convert.ymmsl_file import Component, Conduit, Ports, Program, YmmslFile, YmmslModel
from xmml.late_dataclass import dataclass
from xmml.problems import ModelError, Problem, did_you_mean, in_order

#: Names of components from the outermost model inwards.
Path = tuple[str, ...]
End = tuple[Path, str]

#: How many components and conduits a file may unfold to, and how deep models may stand in models.
MAX_COMPONENTS = 100_000
MAX_CONDUITS = 1_000_000
MAX_NESTING = 50

_SENDING, _RECEIVING = ("o_i", "o_f"), ("f_init", "s")
#: The port that every component of MUSCLE3 has without saying so.
SETTINGS_PORT = "muscle_settings_in"


@dataclass(frozen=True)
class Part:
    """A component that a program stands for, or nothing yet.

    Attributes:
        operators: of its ports.
        implementation: the name of its program; `None` if it has none.
    """

    path: Path
    component: Component
    operators: dict[str, str]
    implementation: str | None
    program: Program | None
    multiplicity: tuple[int, ...]


@dataclass(frozen=True)
class FlatConduit:
    """A conduit from part to part."""

    sender: End
    receiver: End
    filters: tuple[str, ...]


@dataclass(frozen=True)
class FlatModel:
    """A model without models inside."""

    model: YmmslModel
    parts: tuple[Part, ...]
    conduits: tuple[FlatConduit, ...]
    notes: tuple[str, ...]


def flatten(file: YmmslFile) -> FlatModel:
    """Return the one model of a file that no component is implemented by, with all that is inside it.

    Raises:
        ModelError: there is no such model, or several; conduits lead nowhere; models contain themselves.
    """
    unfolding = _Unfolding(file)
    root = _root(file)
    unfolding.unfold(root, (), (), (root.name,))
    conduits = tuple(unfolding.glued())
    if unfolding.problems:
        raise ModelError(in_order(unfolding.problems))
    return FlatModel(root, tuple(unfolding.parts.values()), conduits, tuple(unfolding.notes))


def _root(file: YmmslFile) -> YmmslModel:
    inside = {component.implementation for model in file.models.values() for component in model.components.values()}
    inside |= set(file.custom_implementations.values())
    roots = [model for name, model in file.models.items() if name not in inside]
    if len(roots) == 1:
        return roots[0]
    if not file.models:
        raise ModelError([file.place.problem("the file holds no model", "add a section model (v0.1) or models (v0.2)")])
    if not roots:
        raise ModelError([file.place.problem("every model is part of another one: there is none to begin with")])
    names = ", ".join(f'"{model.name}"' for model in roots)
    help = "leave one in the file; the others may be implementations of its components"
    raise ModelError([roots[1].place.problem(f"several models are no parts of others: {names}", help)])


class _Unfolding:
    def __init__(self, file: YmmslFile) -> None:
        self.file = file
        self.parts: dict[Path, Part] = {}
        self.models: dict[Path, YmmslModel] = {}
        self.gone: set[Path] = set()
        self.edges: dict[End, list[tuple[End, Conduit]]] = {}
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def unfold(self, model: YmmslModel, path: Path, copies: tuple[int, ...], inside: tuple[str, ...]) -> None:
        """Collect the parts and conduits of a model that stands at a path."""
        if len(path) > MAX_NESTING:
            raise ModelError([model.place.problem(f"models stand in models more than {MAX_NESTING} deep")])
        self.models[path] = model
        for component in model.components.values():
            here = (*path, component.name)
            full = ".".join((inside[0], *here))
            implementation = self.file.custom_implementations.get(full, component.implementation)
            if implementation is None and (component.optional or full in self.file.custom_implementations):
                self.gone.add(here)
                self.notes.append(f"{'.'.join(here)} has no implementation and is left out with its conduits")
            elif implementation is not None and implementation in self.file.models:
                inner = self.file.models[implementation]
                if inner.name in inside:
                    chain = " in ".join(f'"{name}"' for name in (inner.name, *reversed(inside)))
                    self.problems.append(component.place.problem(f"a model contains itself: {chain}"))
                    continue
                self.unfold(inner, here, (*copies, *component.multiplicity), (*inside, inner.name))
            else:
                self.parts[here] = self.part(here, component, implementation, (*copies, *component.multiplicity))
            if len(self.parts) > MAX_COMPONENTS:
                raise ModelError([model.place.problem(f"more than {MAX_COMPONENTS} components")])
        for conduit in model.conduits:
            self.add(model, path, conduit)

    def part(self, path: Path, component: Component, implementation: str | None, copies: tuple[int, ...]) -> Part:
        program = self.file.programs.get(implementation or "")
        ports = component.ports or (program.ports if program else None)
        if ports is not None and ports.on_timelines:
            self.notes.append(f"timelines of ports of {'.'.join(path)} are left out: {', '.join(ports.on_timelines)}")
        if ports is None:
            ports = self.assumed_ports(component)
        return Part(path, component, dict(ports.operators), implementation, program, copies)

    def assumed_ports(self, component: Component) -> Ports:
        """Return ports by the conduits, with the operators that MUSCLE3 itself assumes."""
        operators = {}
        for model in self.file.models.values():
            if model.components.get(component.name) is not component:
                continue
            for conduit in model.conduits:
                for end, operator in ((conduit.sender, "o_f"), (conduit.receiver, "f_init")):
                    owner, _, port = end.rpartition(".")
                    if owner == component.name and port != SETTINGS_PORT:
                        operators[port.partition("[")[0]] = operator
        if operators:
            self.notes.append(
                f"f_init and o_f are assumed for the ports of {component.name}: the file does not declare them"
            )
        return Ports(operators)

    # Conduits

    def add(self, model: YmmslModel, path: Path, conduit: Conduit) -> None:
        """Check the ends of a conduit and keep it."""
        sender, receiver = (self.end(model, path, text, conduit) for text in (conduit.sender, conduit.receiver))
        if sender is None or receiver is None:
            return
        if receiver[1] == SETTINGS_PORT:
            self.notes.append(f"the conduit from {conduit.sender} that carries settings is left out")
            return
        for end, own, of_component in ((sender, _RECEIVING, _SENDING), (receiver, _SENDING, _RECEIVING)):
            self.check_direction(end, own if end[0] == path else of_component, conduit)
        self.edges.setdefault(sender, []).append((receiver, conduit))

    def end(self, model: YmmslModel, path: Path, text: str, conduit: Conduit) -> End | None:
        owner, dot, port = text.rpartition(".")
        if "[" in port:
            self.notes.append(f"the slot of {text} is left out")
            port = port.partition("[")[0]
        if not dot:
            return path, port
        here = (*path, owner)
        if here in self.gone:
            return None
        if owner not in model.components:
            help = did_you_mean(owner, model.components, "components")
            self.problems.append(conduit.place.problem(f'there is no component "{owner}"', help))
            return None
        return here, port

    def check_direction(self, end: End, operators: tuple[str, ...], conduit: Conduit) -> None:
        path, port = end
        part = self.parts.get(path)
        known = part.operators if part else self.models[path].ports.operators if path in self.models else None
        if known is None or port == SETTINGS_PORT:
            return
        what = f'"{".".join(path)}"' if path else "the model"
        if port not in known:
            help = did_you_mean(port, known, "ports")
            self.problems.append(conduit.place.problem(f'{what} has no port "{port}"', help))
        elif known[port] not in operators:
            help = f"a conduit leads from a port of {' or '.join(_SENDING)} to one of {' or '.join(_RECEIVING)}"
            message = f'the port "{port}" of {what} belongs to {known[port]}, which cannot be at this end of a conduit'
            self.problems.append(conduit.place.problem(message, help))

    def glued(self) -> Iterator[FlatConduit]:
        """Yield the conduits from part to part, through the ports of models between."""
        walked = 0
        for sender, first in self.edges.items():
            if sender[0] not in self.parts:
                if not sender[0]:
                    self.notes.append(f"the port {sender[1]} of the model itself is left out: nothing is outside")
                continue
            open_edges = [(end, conduit.filters, frozenset([sender])) for end, conduit in reversed(first)]
            while open_edges:
                end, filters, seen = open_edges.pop()
                walked += 1
                if walked > MAX_CONDUITS:
                    raise ModelError([self.file.place.problem(f"more than {MAX_CONDUITS} conduits")])
                if end[0] in self.parts:
                    yield FlatConduit(sender, end, filters)
                elif not end[0]:
                    self.notes.append(f"the port {end[1]} of the model itself is left out: nothing is outside")
                elif end not in seen:
                    following = reversed(self.edges.get(end, []))
                    open_edges += [(to, (*filters, *then.filters), seen | {end}) for to, then in following]
