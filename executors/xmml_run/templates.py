"""The models that `xmml new` writes: which submodels, which ports, and one line of a program for each operator."""

from __future__ import annotations

from collections.abc import Mapping

from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class Sketch:
    """A submodel of a template.

    Attributes:
        delta, total: its time scale.
        ports: name of each port and its operator.
        about: what it stands for, one line.
    """

    id: str
    instance: str
    delta: str
    total: str
    ports: Mapping[str, str]
    about: str


@dataclass(frozen=True)
class Template:
    """A model: its submodels and couplings."""

    sketches: tuple[Sketch, ...]
    couplings: tuple[tuple[str, str], ...]
    about: str


IN_OPERATORS = ("finit", "S", "B")

_MACRO = Sketch(
    "Macro", "macro", "1 s", "10 s", {"state": "Oi", "answer": "S"}, "slow: calls the micro model in every step"
)
_MICRO = Sketch(
    "Micro",
    "micro",
    "1 ms",
    "5 ms",
    {"start": "finit", "result": "Of"},
    "fast: runs once for each call of the macro model",
)
_LEFT = Sketch(
    "Left",
    "left",
    "1 s",
    "10 s",
    {"edge": "Oi", "other_edge": "S"},
    "exchanges its edge with its neighbour in every step",
)
_RIGHT = Sketch(
    "Right", "right", "1 s", "10 s", {"edge": "Oi", "other_edge": "S"}, "exchanges its edge with its neighbour, too"
)
_FIRST = Sketch("First", "first", "1 s", "5 s", {"final": "Of"}, "makes the initial state of the next")
_SECOND = Sketch("Second", "second", "1 s", "5 s", {"initial": "finit", "final": "Of"}, "goes on from the first")
_THIRD = Sketch("Third", "third", "1 s", "5 s", {"initial": "finit"}, "goes on from the second, and ends")

TEMPLATES: Mapping[str, Template] = {
    "macro-micro": Template(
        (_MACRO, _MICRO),
        (("macro.state", "micro.start"), ("micro.result", "macro.answer")),
        "A slow model calls a fast one in every step and takes its result (call and release).",
    ),
    "interact": Template(
        (_LEFT, _RIGHT),
        (("left.edge", "right.other_edge"), ("right.edge", "left.other_edge")),
        "Two models with equal time steps exchange boundary values in every step (interact).",
    ),
    "pipeline": Template(
        (_FIRST, _SECOND, _THIRD),
        (("first.final", "second.initial"), ("second.final", "third.initial")),
        "Each model starts from the final state of the one before (dispatch).",
    ),
}
