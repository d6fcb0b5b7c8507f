"""The checks of a resolved model: what its instances and couplings, taken together, will do.

Like the checks of documents, each yields problems and says nothing about what another one reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from xmml.checks.model import counts, domains, scales, start
from xmml.checks.model.subject import Subject
from xmml.model import Model
from xmml.problems import MOST_PROBLEMS, Problem

#: The checks that need a model without errors.
MODEL_CHECKS: tuple[Callable[[Subject], Iterable[Problem]], ...] = (
    counts.iterations_can_be_made,
    counts.nobody_waits_for_ever,
    counts.messages_are_taken,
    counts.one_receiver_per_out_port,
    start.start_is_clear,
    scales.templates_fit_scales,
    domains.called_models_keep_their_state,
)


def model_problems(model: Model) -> list[Problem]:
    """Return what all checks of a model find."""
    subject = Subject(model)
    return [problem for check in MODEL_CHECKS for problem in islice(check(subject), MOST_PROBLEMS)]
