"""How the scales of two submodels lie to each other, and which coupling templates fit that.

A scale reaches from its grain (delta) to its extent (total). Of two scales along one dimension, either one ends before
the other's grain begins (separated), or just there (contiguous), or they share a part (overlapping). With ranges
instead of values the relation may be undecided.
"""

from __future__ import annotations

from typing import Literal

from xmml.analysis.templates import Template
from xmml.model import Instance
from xmml.scales import Range, Scale
from xmml.units import Quantity

Relation = Literal["separated", "contiguous", "overlapping"]


def relation(one: Scale | None, other: Scale | None) -> Relation | None:
    """Return how two scales lie to each other; `None` if that is undecided or one of them is not known."""
    if one is None or other is None or not _comparable(one, other):
        return None
    if _ends_before(one, other) or _ends_before(other, one):
        return "separated"
    if _ends_at_grain(one, other) or _ends_at_grain(other, one):
        return "contiguous"
    if _less(_most(one.delta), _least(other.total)) and _less(_most(other.delta), _least(one.total)):
        return "overlapping"
    return None


def is_same(one: Scale | None, other: Scale | None) -> bool:
    """Whether two scales have equal grain and extent."""
    return (
        one is not None
        and other is not None
        and (_values(one) == _values(other))
        and None not in (_most(one.delta), _most(one.total))
    )


def spatial_relations(one: Instance, other: Instance) -> dict[str, Relation | None]:
    """Return the relation along each spatial dimension that both instances have, by the id of the scale."""
    others = {scale.id: scale for scale in other.spacescales}
    return {scale.id: relation(scale, others[scale.id]) for scale in one.spacescales if scale.id in others}


def is_slower(sender: Scale, receiver: Scale) -> bool | None:
    """Whether the sender's extent is not less than the receiver's; `None` if they are not known."""
    first, second = _most(sender.total), _most(receiver.total)
    return None if first is None or second is None else first >= second


def fitting_templates(sender: Scale | None, receiver: Scale | None) -> frozenset[Template] | None:
    """Return the templates that fit a coupling between two time scales; `None` if any may.

    Of two separated or contiguous scales, the slow one calls the fast one and the fast one releases the slow one;
    overlapping ones interact; one may always run after the other. Equal scales may interact, also where each makes a
    single step, so that they are contiguous by definition.
    """
    lie = relation(sender, receiver)
    if lie is None or sender is None or receiver is None:
        return None
    fitting: set[Template]
    if lie == "overlapping":
        fitting = {"interact", "dispatch"}
    else:
        slower = is_slower(sender, receiver)
        if slower is None:
            return None
        fitting = {"call", "dispatch"} if slower else {"release", "dispatch"}
    if is_same(sender, receiver):
        fitting.add("interact")
    return frozenset(fitting)


def _least(range_: Range | None) -> Quantity | None:
    return None if range_ is None else range_.min


def _most(range_: Range | None) -> Quantity | None:
    return None if range_ is None else range_.max


def _values(scale: Scale) -> tuple[Quantity | None, ...]:
    return _least(scale.delta), _most(scale.delta), _least(scale.total), _most(scale.total)


def _comparable(one: Scale, other: Scale) -> bool:
    return len({value.dimension for value in (*_values(one), *_values(other)) if value is not None}) == 1


def _less(one: Quantity | None, other: Quantity | None) -> bool:
    return one is not None and other is not None and one < other


def _at_most(one: Quantity | None, other: Quantity | None) -> bool:
    return one is not None and other is not None and one <= other


def _ends_before(one: Scale, other: Scale) -> bool:
    return _less(_most(one.total), _least(other.delta))


def _ends_at_grain(one: Scale, other: Scale) -> bool:
    return (
        _at_most(_least(one.total), _least(other.delta))
        and _at_most(_least(other.delta), _most(one.total))
        and _at_most(_most(one.total), _most(other.delta))
    )
