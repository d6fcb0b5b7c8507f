"""What if: a model with other run times, cores, scales or numbers of copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from xmml.model import Implementation, Instance, Model, read_only
from xmml.problems import did_you_mean
from xmml.scales import Range, Scale
from xmml.units import Dimension, Quantity, UnitError, parse

#: More copies than this are refused: each is a process of the analysis.
MOST_COPIES = 100_000


class SettingError(Exception):
    """A setting that fits nothing in the model, or has an impossible value; the text says what to write instead."""


def with_settings(model: Model, settings: Mapping[str, str]) -> Model:
    """Return the model with some values replaced.

    Args:
        settings: `{"INSTANCE.FIELD": value}`; the fields are those of `FIELDS`, values are written as in a model.

    Raises:
        SettingError: an instance or field does not exist, or a value is impossible.
    """
    instances = dict(model.instances)
    for target, text in settings.items():
        name, _, field = target.rpartition(".")
        if name not in instances:
            raise SettingError(
                f'"{target}": there is no instance "{name}"; {did_you_mean(name, instances, "instances")}'
            )
        if field not in FIELDS:
            raise SettingError(f'"{target}": "{field}" cannot be set; {did_you_mean(field, FIELDS, "fields")}')
        try:
            instances[name] = FIELDS[field](instances[name], text)
        except (UnitError, ValueError) as error:
            raise SettingError(f'{target}="{text}": {error}') from None
    return replace(model, instances=read_only(instances))


def with_runtimes(model: Model, runtimes_s: Mapping[str, float]) -> Model:
    """Return the model with the run times of some instances [s per run] replaced."""
    instances = {
        name: _implemented(instance, runtime_s=runtimes_s[name]) if name in runtimes_s else instance
        for name, instance in model.instances.items()
    }
    return replace(model, instances=read_only(instances))


def _implemented(instance: Instance, **values: object) -> Instance:
    implementation = instance.definition.implementation or Implementation()
    changed = replace(implementation, **values)  # type: ignore[arg-type]
    return replace(instance, definition=replace(instance.definition, implementation=changed))


def _quantity(text: str, dimension: Dimension) -> Quantity:
    quantity = parse(text)
    if quantity.dimension not in (dimension, Dimension.NONE):
        raise ValueError(f"this is no {dimension.name.lower()}")
    return quantity


def _positive(text: str) -> int:
    number = int(text) if text.strip().isdecimal() and len(text) < 20 else 0
    if number < 1:
        raise ValueError("a whole number from 1 on is needed")
    return number


def _runtime(instance: Instance, text: str) -> Instance:
    seconds = float(_quantity(text, Dimension.TIME))
    if not 0 <= seconds < 1e12:
        raise ValueError("a run time cannot be negative, or endless")
    return _implemented(instance, runtime_s=seconds)


def _cores(instance: Instance, text: str) -> Instance:
    implementation = instance.definition.implementation or Implementation()
    run = replace(implementation.run, mpi=None, threads=None)
    return _implemented(instance, cores=_positive(text), run=run)


def _scale(delta: bool) -> Callable[[Instance, str], Instance]:
    def change(instance: Instance, text: str) -> Instance:
        if instance.kind != "submodel":
            raise ValueError(f"a {instance.kind} has no time scale")
        quantity = _quantity(text, Dimension.TIME)
        if float(quantity) <= 0:
            raise ValueError("a time scale is longer than nothing")
        scale = instance.timescale or Scale("t", "time")
        scale = replace(scale, delta=Range.of(quantity)) if delta else replace(scale, total=Range.of(quantity))
        values = [each.mean for each in (scale.delta, scale.total) if each is not None]
        delta_s, total_s = (
            float(each.mean) if each is not None and each.mean is not None else None
            for each in (scale.delta, scale.total)
        )
        if len(values) == 2 and delta_s is not None and total_s is not None and total_s < delta_s:
            raise ValueError("total would be smaller than delta")
        return replace(instance, timescale=scale, steps=max(1, scale.steps or 1), delta_s=delta_s, total_s=total_s)

    return change


def _multiplicity(instance: Instance, text: str) -> Instance:
    if instance.kind != "submodel":
        raise ValueError(f"a {instance.kind} has no copies")
    copies = _positive(text)
    if copies > MOST_COPIES:
        raise ValueError(f"more than {MOST_COPIES:,} copies are not analysed one by one")
    return replace(instance, multiplicity=copies)


#: What can be set, and how its value is read.
FIELDS: Mapping[str, Callable[[Instance, str], Instance]] = {
    "runtime": _runtime,
    "cores": _cores,
    "delta": _scale(delta=True),
    "total": _scale(delta=False),
    "multiplicity": _multiplicity,
}
