"""The start: W06 instances that start at once although nothing says so."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.analysis.start import ambiguous_starts
from xmml.checks.model.subject import Subject
from xmml.problems import Problem


def start_is_clear(subject: Subject) -> Iterator[Problem]:
    """Of instances that wait for each other, those that begin are marked."""
    if subject.network is None:
        return
    for name, other in ambiguous_starts(subject.network):
        message = (
            f'it is not clear who begins: "{name}" and "{other}" depend on each other, and nothing is coupled to a '
            f'finit port of "{name}", which is not marked init'
        )
        help = (
            'all instances without coupled finit ports start at once; if that is meant, add init="yes"; if the first '
            "message is its initial state, receive that at finit"
        )
        yield subject.at_instance(name, "W06", message, help)
