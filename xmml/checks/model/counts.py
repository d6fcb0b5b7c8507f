"""Numbers: E27 iterations, E21 somebody waits for ever, W11 messages that nobody takes, W04 several receivers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xmml.analysis.conflicts import without_total
from xmml.checks.extent import MOST_ITERATIONS
from xmml.checks.model.subject import Subject
from xmml.problems import Problem


def iterations_can_be_made(subject: Subject) -> Iterator[Problem]:
    """No instance makes more iterations, over all its runs, than anybody can wait for."""
    if subject.static is None:
        return
    for name, runs in subject.static.runs.items():
        steps = subject.static.steps[name]
        if runs.value is not None and steps.value is not None and runs.value * steps.value > MOST_ITERATIONS:
            message = (
                f'"{name}" would make more than 10^18 iterations: {_large(runs.value)} runs of {_large(steps.value)}'
            )
            yield subject.at_instance(name, "E27", message, "look at the units of delta and total")
            return


def _large(number: int) -> str:
    """Return a number; one with many digits by its size only, exactly enough and without writing the digits."""
    return str(number) if number < 10**9 else f"about 10^{round(math.log10(number))}"


def nobody_waits_for_ever(subject: Subject) -> Iterator[Problem]:
    """No instance waits for a message that is never sent."""
    for conflict in subject.conflicts:
        yield subject.at_coupling(conflict.couplings[0], "E21", conflict.words, conflict.help)


def messages_are_taken(subject: Subject) -> Iterator[Problem]:
    """Every message that is sent is received."""
    static = subject.static
    if static is None or subject.conflicts:
        return
    for number, left in enumerate(static.unconsumed):
        if not left:
            continue
        coupling = subject.model.couplings[number]
        sent, received = static.delivered[number].value, static.received[number].value
        message = f"{left} of {sent} messages from {coupling.sender} are never taken: {coupling.receiver} receives "
        message += "none" if received == 0 else f"only {received}"
        help = without_total(subject.model, coupling) or _what_to_do(sent, received)
        yield subject.at_coupling(number, "W11", message, help)


def _what_to_do(sent: int | None, received: int | None) -> str:
    if not sent or not received or sent % received:
        return (
            "give both the same number of steps, or send what is needed only: a reduction filter such as last or drop"
        )
    factor = sent // received
    return f"if so meant, let a reduction filter with factor {factor} (sum, mean, drop) make one of {factor} messages"


def one_receiver_per_out_port(subject: Subject) -> Iterator[Problem]:
    """An out port sends to one receiver: other tools allow no more."""
    receivers: dict[str, list[int]] = {}
    for number, coupling in enumerate(subject.model.couplings):
        receivers.setdefault(str(coupling.sender), []).append(number)
    for sender, numbers in receivers.items():
        if len(numbers) > 1:
            names = [str(subject.model.couplings[number].receiver) for number in numbers]
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            message = f"{sender} sends to {len(names)} receivers: {shown}"
            help = (
                "each of them gets every message; a fan-out mapper (class duplicate) would say so in the model, and "
                "tools that allow one receiver for each port need it"
            )
            yield subject.at_coupling(numbers[1], "W04", message, help, "from")
