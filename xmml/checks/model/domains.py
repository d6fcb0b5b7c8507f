"""Domains: W12 called submodels of another domain that forget their state."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.analysis.domains import kind_of_coupling
from xmml.checks.model.subject import Subject
from xmml.problems import Problem


def called_models_keep_their_state(subject: Subject) -> Iterator[Problem]:
    """What is called again and again with boundary values of another domain keeps its own state between the calls."""
    instances = subject.model.instances
    releases = {(way.sender.instance, way.receiver.instance) for way in subject.ways if way.template == "release"}
    own_state = {
        way.sender.instance
        for way in subject.ways
        if way.template == "dispatch" and way.sender.instance == way.receiver.instance
    }
    told = set()
    for way in subject.ways:
        caller, called = instances[way.sender.instance], instances[way.receiver.instance]
        if way.template != "call" or (called.id, caller.id) not in releases or called.id in told:
            continue
        if called.stateful != "no" or called.id in own_state:
            continue
        if kind_of_coupling(caller, called) == "multi-domain":
            told.add(called.id)
            message = (
                f'"{called.id}" starts from nothing each time that "{caller.id}" calls it, though it computes another '
                f'domain ("{called.domain}", not "{caller.domain}")'
            )
            help = 'if its state goes on from call to call, add stateful="yes"; if it does not matter, "optional"'
            yield subject.at_instance(called.id, "W12", message, help)
