"""Sizes: W17 for estimates of the size of messages that have no value where the messages are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xmml.model import Coupling, Instance
from xmml.problems import Problem, did_you_mean
from xmml.sizes import SizeEstimates
from xmml.tree import Element


def size_problems(
    sizes: SizeEstimates,
    couplings: Sequence[Coupling],
    instances: Mapping[str, Instance],
    datatypes: Mapping[str, Element],
) -> Iterator[Problem]:
    """Yield the datatypes whose estimate names something that a sender has not, each with one such sender."""
    if not datatypes:
        return
    told: set[str] = set()
    for coupling in couplings:
        sender = instances[coupling.sender.instance]
        datatype = sizes.datatypes.get(sender.ports[coupling.sender.port].datatype or "")
        if coupling.size_bytes is not None or datatype is None or datatype.id in told:
            continue
        unknown = sizes.unknown_names(datatype, sender)
        element = datatypes.get(datatype.id)
        if not unknown or element is None:
            continue
        told.add(datatype.id)
        known = {scale.id for scale in sender.scales} | set(sender.params)
        names = " and ".join(f'"{name}"' for name in unknown)
        message = (
            f'the size of "{datatype.id}" is not known when {coupling.sender} sends it: "{sender.id}" has no scale '
            f"and no numeric parameter {names}"
        )
        suggestion = did_you_mean(unknown[0], known)
        help = suggestion if suggestion.startswith("did you mean") else _how_to_mend(sender, unknown[0])
        yield element.problem("W17", message, help, "size_estimate")


def _how_to_mend(sender: Instance, name: str) -> str:
    place = f'the {sender.kind} "{sender.definition.id}"'
    return f'add <param id="{name}" value="..."/> to {place}, or size="..." to the coupling'
