"""Sizes of messages: the estimates of their datatypes, in terms of the scales and parameters of who sends them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xmml import formulas
from xmml.model import Coupling, Datatype, Instance
from xmml.scales import dimension_names
from xmml.units import UnitError, parse


def numeric(params: Mapping[str, str]) -> dict[str, float]:
    """Return the parameters that are quantities, as numbers in their base units."""
    found = {}
    for name, text in params.items():
        try:
            found[name] = float(parse(text))
        except UnitError:
            continue
    return found


def variables_of(instance: Instance) -> dict[str, float]:
    """Return what names in formulas mean for an instance: the steps of its scales, then its numeric parameters."""
    scales = dimension_names(instance.scales)
    steps = {name: _as_float(scale.steps) for name, scale in scales.items() if scale.steps is not None}
    return {**numeric(instance.params), **steps}


def _as_float(number: int) -> float:
    """Return a number as IEEE 754 has it: infinite if it is too large."""
    return float(number) if number.bit_length() < 1024 else math.inf


class SizeEstimates:
    """Works out the sizes of the messages of a model's couplings."""

    def __init__(
        self, instances: Mapping[str, Instance], couplings: Sequence[Coupling], datatypes: Mapping[str, Datatype]
    ) -> None:
        self._instances = instances
        self.datatypes = datatypes
        self._variables = {name: variables_of(instance) for name, instance in instances.items()}
        self._sizes: dict[tuple[str, str], float | None] = {}
        self._senders: dict[str, list[str]] = {}
        for coupling in couplings:
            self._senders.setdefault(coupling.receiver.instance, []).append(coupling.sender.instance)

    def sized(self, coupling: Coupling) -> Coupling:
        """Return the coupling with its size, unless it has one or none can be worked out."""
        if coupling.size_bytes is not None:
            return coupling
        sender = self._instances[coupling.sender.instance]
        datatype = self.datatypes.get(sender.ports[coupling.sender.port].datatype or "")
        if datatype is None:
            return coupling
        key = (datatype.id, sender.id)
        if key not in self._sizes:
            self._sizes[key] = self.size_bytes(datatype, sender)
        size = self._sizes[key]
        return coupling if size is None else replace(coupling, size_bytes=size)

    def size_bytes(self, datatype: Datatype, sender: Instance) -> float | None:
        """Return the size of a message of `datatype` sent by `sender`, or `None` if its estimate has no value there."""
        if datatype.size_estimate is None:
            return None
        try:
            formula = formulas.parse(datatype.size_estimate)
            known = {name: value for name in formula.variables() if (value := self._meaning(name, sender)) is not None}
            bits = formula.evaluate(known)
        except formulas.FormulaError:
            return None
        return bits / 8 if math.isfinite(bits) and bits >= 0 else None

    def unknown_names(self, datatype: Datatype, sender: Instance) -> list[str]:
        """Return the names in the estimate of a datatype that mean nothing where `sender` sends it."""
        if datatype.size_estimate is None:
            return []
        try:
            names = formulas.parse(datatype.size_estimate).variables()
        except formulas.FormulaError:
            return []  # the check of the formulas tells
        return sorted(name for name in names if self._meaning(name, sender) is None)

    def _meaning(self, name: str, sender: Instance) -> float | None:
        """Return what a name means at the sender; at a mapper also what it means at the nearest submodel upstream."""
        seen = {sender.id}
        waiting = deque([sender])
        while waiting:
            instance = waiting.popleft()
            if name in self._variables[instance.id]:
                return self._variables[instance.id][name]
            if instance.kind != "mapper":
                continue
            for upstream in self._senders.get(instance.id, []):
                if upstream not in seen:
                    seen.add(upstream)
                    waiting.append(self._instances[upstream])
        return None
