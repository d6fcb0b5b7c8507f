"""A resolved model with its analyses and the elements it was read from: what the checks of models look at."""

from __future__ import annotations

from functools import cached_property

from xmml.analysis.conflicts import Conflict
from xmml.analysis.filter_counts import FilterCountError
from xmml.analysis.network import Network, network
from xmml.analysis.source_data import source_data
from xmml.analysis.static import StaticAnalysis, static_analysis
from xmml.analysis.templates import Way, ways
from xmml.analysis.verdict import certain_conflicts
from xmml.checks.index import instance_id
from xmml.model import Model
from xmml.problems import Problem, Severity
from xmml.tree import Element


class Subject:
    """A model without errors, and what several checks want to know of it, worked out once."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @cached_property
    def _network(self) -> tuple[Network | None, frozenset[str]]:
        sources = source_data(self.model)
        try:
            return network(self.model, sources.fires), sources.uncertain
        except FilterCountError:  # told where the filter is checked
            return None, frozenset()

    @property
    def network(self) -> Network | None:
        """The network of the model; `None` if a filter cannot be used, which another check tells."""
        return self._network[0]

    @property
    def uncertain(self) -> frozenset[str]:
        """The sources of which nobody knows how many messages they send."""
        return self._network[1]

    @cached_property
    def static(self) -> StaticAnalysis | None:
        """What follows without walking through the steps; `None` without a network."""
        return None if self.network is None else static_analysis(self.network, self.uncertain)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Why the model surely does not finish."""
        if self.network is None or self.static is None:
            return ()
        return certain_conflicts(self.network, self.static, self.uncertain)

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """The ways of messages between submodels, through mappers."""
        return tuple(ways(self.model))

    @cached_property
    def _couplings(self) -> list[Element]:
        topology = self.model.document.root.first("topology") if self.model.document else None
        return topology.named("coupling") if topology else []

    @cached_property
    def _instances(self) -> dict[str | None, Element]:
        topology = self.model.document.root.first("topology") if self.model.document else None
        return {instance_id(element): element for element in topology.named("instance")} if topology else {}

    def at_coupling(
        self, number: int, code: str, message: str, help: str = "", attribute: str = "to", note: str = ""
    ) -> Problem:
        """Return a problem about a coupling of the model, by its place; the carets point at the attribute."""
        if number < len(self._couplings):
            return self._couplings[number].problem(code, message, help, attribute, note=note)
        return _without_text(code, message, help)

    def at_instance(self, name: str, code: str, message: str, help: str = "", note: str = "") -> Problem:
        """Return a problem about an instance of the model."""
        element = self._instances.get(name)
        if element is None:
            return _without_text(code, message, help)
        attribute = "id" if element.get("id") is not None else self.model.instances[name].kind
        return element.problem(code, message, help, attribute, note=note)


def _without_text(code: str, message: str, help: str) -> Problem:
    return Problem(Severity.WARNING if code.startswith("W") else Severity.ERROR, code, message, help=help)
