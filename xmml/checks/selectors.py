"""Selectors of pools: E32 for those that cannot be read, W18 for those that nothing satisfies.

Their variables are the final parameters of the readers, so they are checked when a model is resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from xmml.model import Endpoint, Instance, PoolCoupling
from xmml.problems import Problem, did_you_mean
from xmml.selectors import READER_VARIABLES, SelectorError, compiled, schema, values_of, variables
from xmml.tree import RUN, Element

#: Of so many copies of a reader each is tried.
_MOST_COPIES = 1_000


def selector_problems(
    pool: PoolCoupling, coupling: Element, sender: Instance, reader: Instance, untyped: set[Endpoint]
) -> Iterator[Problem]:
    """Yield what is wrong with the selector of a pool, once, for whichever copy of the reader it is wrong first.

    Args:
        untyped: the out ports of which is told that they have no datatype; this one is added if that is why.
    """
    if not pool.select:
        return
    try:
        attributes = schema(pool.attributes)
    except SelectorError:
        return  # E31 tells
    copy = 0
    try:
        names = variables(pool.select)
        copies = reader.multiplicity if names and isinstance(reader.multiplicity, int) else 1
        known = {*reader.params, *(name for each in reader.copy_params.values() for name in each), *READER_VARIABLES}
        for name in names:
            if name not in known:
                yield _unknown(pool, coupling, reader, name)
                return
        if pool.is_queue and "index" in names:
            message = f"the selector of {pool.receiver} asks for $index, and its copies share the objects of a queue"
            help = 'remove run:share="queue", or choose objects for all copies together'
            yield coupling.problem("E32", message, help, "select", RUN, within=_place_of("index", pool.select))
            return
        can_match = copies > _MOST_COPIES  # nobody knows of those that are not tried
        for copy in range(min(copies, _MOST_COPIES)):
            selector = compiled(pool.select, attributes, values_of(pool.select, reader, copy))
            can_match = can_match or selector.can_match(attributes)
    except SelectorError as error:
        given, taken = sender.ports[pool.sender.port].datatype, reader.ports[pool.receiver.port].datatype
        if given is None and taken is not None and str(error).startswith("there is no attribute"):
            if pool.sender not in untyped:
                untyped.add(pool.sender)
                message = f'{pool.receiver} has the datatype "{taken}", {pool.sender} has none'
                help = (
                    f'give {pool.sender} datatype="{taken}", too: the attributes of an object are those of its writer'
                )
                yield coupling.problem("E32", message, help, "from")
            return
        message = f"the selector of {pool.receiver} cannot be used: {error}"
        name = pool.select[error.first : error.end].removeprefix("$")
        help = _zero(reader, name, copy) if "remainder by zero" in str(error) else ""
        help = help or _help(pool, given)
        yield coupling.problem("E32", message, help, "select", RUN, within=(error.first, error.end))
        return
    if not can_match:
        message = f"no object can satisfy the selector of {pool.receiver}"
        help = "compare it with the attributes of the datatype: " + (pool.attributes or "it declares none")
        yield coupling.problem("W18", message, help, "select", RUN)


def _unknown(pool: PoolCoupling, coupling: Element, reader: Instance, name: str) -> Problem:
    message = f'the selector of {pool.receiver} asks for ${name}, and "{reader.id}" has no parameter "{name}"'
    help = did_you_mean(name, (*reader.params, *READER_VARIABLES), "parameters")
    return coupling.problem("E32", message, help, "select", RUN, within=_place_of(name, pool.select))


def _zero(reader: Instance, name: str, copy: int) -> str:
    """Return which variable of a selector is zero; empty: none, the selector says so itself."""
    of = reader.id if reader.multiplicity == 1 else f"{reader.id}[{copy}]"
    if name in reader.params or name in reader.copy_params.get(copy, {}):
        return f'the parameter "{name}" of {of} is 0'
    return f"${name} of {of} is 0" if name in READER_VARIABLES else ""


def _place_of(variable: str, select: str) -> tuple[int, int]:
    """Return where a variable stands in a selector."""
    found = re.search(rf"\${variable}(?![A-Za-z0-9_])", select)
    return found.span() if found is not None else (0, len(select))


def _help(pool: PoolCoupling, datatype: str | None) -> str:
    if not pool.attributes and datatype is None:
        return f'give {pool.sender} a datatype that declares attributes: run:attributes="step:int param:uint"'
    if not pool.attributes:
        return f'declare attributes on the datatype "{datatype}": run:attributes="step:int param:uint"'
    return f"the attributes are {pool.attributes}, and sys.t, sys.seq, sys.instance, sys.index, sys.size and others"
