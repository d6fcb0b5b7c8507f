"""From the document as written to the effective model: defaults, inheritance, parameters, steps, factors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

from xmml import formulas
from xmml.builtins import TERMINAL_PARAMETERS, TERMINALS
from xmml.checks import document_problems
from xmml.checks.attributes import unknown_attributes_below
from xmml.checks.classes import filter_problem, is_built_in_source
from xmml.checks.index import InstanceEntry, instance_id, instance_kind, parameter
from xmml.checks.outside import source_problem
from xmml.checks.pools import is_pool
from xmml.checks.scales import scale_problems
from xmml.checks.selectors import selector_problems
from xmml.checks.sizes import size_problems
from xmml.definitions import (
    KINDS,
    choice,
    definition_elements,
    description_of,
    positive_integer,
    quantity,
    read_datatypes,
    read_definitions,
    read_filters,
    read_params,
    read_scales,
)
from xmml.document import Document, load_parameters
from xmml.late_dataclass import dataclass
from xmml.model import (
    DEFAULT_LIMIT_BYTES,
    AppliedFilter,
    Coupling,
    Definition,
    Endpoint,
    Filter,
    Instance,
    Kind,
    Model,
    PoolCoupling,
    read_only,
)
from xmml.parameters import Override, ParameterFiles, Target, read_overrides
from xmml.patterns import MOST_ENTRIES, Search
from xmml.problems import Problem, errors_in, in_order
from xmml.run_options import settings_of
from xmml.scales import Scale, merge, name_unnamed
from xmml.selectors import attributes_of
from xmml.sizes import SizeEstimates, numeric, variables_of
from xmml.tree import RUN, Element
from xmml.units import Dimension


def resolve(
    document: Document,
    parameter_files: Iterable[str | os.PathLike[str]] = (),
    overrides: Mapping[str, str] | None = None,
) -> tuple[Model, list[Problem]]:
    """Return the effective model of a document, and every problem that its text, parameters and overrides have.

    If there is an error among the problems, the model lacks what could not be understood, and must not be run.

    Parameters:
        parameter_files: xMML parameter files, in order of increasing precedence.
        overrides: `{"INSTANCE.PARAMETER": value}`; `c.x` is x of all copies of c, `c[3].x` of one.
    """
    problems = document_problems(document)
    parameter_documents = []
    for path in parameter_files:
        parameters, found = load_parameters(path, document)
        problems.extend(found)
        if parameters is not None and not errors_in(found):
            parameter_documents.append(parameters)
            problems.extend(unknown_attributes_below(parameters.root))
    resolution = _Resolution(document, parameter_documents)
    model = resolution.model(overrides or {})
    problems.extend(resolution.problems)
    return model, in_order(problems)


@dataclass(frozen=True)
class _Draft:
    """An instance before its parameters are known."""

    id: str
    element: Element
    definition: Definition
    definition_element: Element
    target: Target
    multiplicity: int | Literal["dynamic"]


class _Resolution:
    def __init__(self, document: Document, parameter_documents: Sequence[Document]) -> None:
        root = document.root
        self.document = document
        self.problems: list[Problem] = []
        definitions = root.first("definitions")
        self.datatypes = read_datatypes(definitions) if definitions else {}
        self.datatype_elements = definitions.named("datatype") if definitions else []
        self.filters = read_filters(definitions) if definitions else {}
        self.filter_elements: dict[str, Element] = {}
        for element in definitions.named("filter") if definitions else []:
            self.filter_elements.setdefault(element.get("id") or "", element)
        self.definitions = read_definitions(definitions) if definitions else {}
        self.elements = definition_elements(definitions) if definitions else {}
        self.topology = root.first("topology")
        self.search = Search(document.reach, MOST_ENTRIES)
        self.files = ParameterFiles(parameter_documents, root.get("id") or "")

    def model(self, overrides: Mapping[str, str]) -> Model:
        drafts: dict[str, _Draft] = {}
        for draft in self.drafts():
            drafts.setdefault(draft.id, draft)
        targets = {name: draft.target for name, draft in drafts.items()}
        copies = {
            name: draft.multiplicity if draft.multiplicity != "dynamic" else None for name, draft in drafts.items()
        }
        given, problems = read_overrides(overrides, targets, copies)
        self.problems.extend([*self.files.problems, *problems])
        self.problems.extend(
            self.files.unmatched(
                list(targets.values()), {name: frozenset(each.params) for name, each in self.filters.items()}
            )
        )
        instances = {name: self.instance(draft, given) for name, draft in drafts.items()}
        root = self.document.root
        return Model(
            id=root.get("id") or "",
            path=self.document.path,
            name=root.get("name"),
            version=root.get("version"),
            xmml_version=root.get("xmml_version"),
            description=description_of(root),
            datatypes=self.datatypes,
            filters=self.filters,
            definitions=read_only(self.definitions_by_id()),
            instances=read_only(instances),
            couplings=self.couplings(instances, targets),
            pools=self.pools(instances),
            document=self.document,
        )

    def definitions_by_id(self) -> dict[str, Definition]:
        """Return the definitions by id; if a mapper or terminal shares the id of another, its key is `kind id`."""
        found: dict[str, Definition] = {}
        for (kind, name), definition in sorted(
            self.definitions.items(), key=lambda item: KINDS.index(cast(Kind, item[0][0]))
        ):
            found[f"{kind} {name}" if name in found else name] = definition
        return found

    def drafts(self) -> list[_Draft]:
        drafts = []
        for element in self.topology.named("instance") if self.topology else []:
            named, name = instance_kind(element), instance_id(element)
            definition = self.definitions.get(named) if named else None
            if named is None or definition is None or name is None:
                continue
            declared = frozenset(definition.params) | frozenset(read_params(element))
            if definition.kind == "terminal" and definition.class_ in TERMINALS:
                declared |= TERMINAL_PARAMETERS.get(definition.type or "", frozenset())
            target = Target(name, definition.kind, definition.id, element.get("domain"), declared)
            drafts.append(_Draft(name, element, definition, self.elements[named], target, _multiplicity(element)))
        return drafts

    def instance(self, draft: _Draft, overrides: Iterable[Override]) -> Instance:
        element, definition = draft.element, draft.definition
        mine = [override for override in overrides if override.instance == draft.id]
        for_all = {override.name: override.value for override in mine if override.copy is None}
        params = {**definition.params, **read_params(element), **self.files.for_instance(draft.target), **for_all}
        copy_params = {
            copy: {name: value for name, value in single.items() if name not in for_all}
            for copy, single in read_copy_params(element).items()
        }
        for override in mine:
            if override.copy is not None:
                copy_params.setdefault(override.copy, {})[override.name] = override.value
        times = [replace(scale, id="") for scale in read_scales(element, "time", names=False)]
        time = _merged([definition.timescale] if definition.timescale else [], times)
        timescale = time[0] if time else None
        settings = {**settings_of(draft.definition_element), **settings_of(element)}
        until = settings.get("steps") == "until"
        steps = (timescale.steps if timescale else None) or 0
        instance = Instance(
            id=draft.id,
            kind=definition.kind,
            definition=definition,
            timescale=timescale,
            spacescales=_merged(definition.spacescales, read_scales(element, "space", names=False)),
            otherscales=_merged(definition.otherscales, read_scales(element, "other", names=False)),
            params=read_only(params),
            copy_params=read_only({copy: read_only(single) for copy, single in sorted(copy_params.items()) if single}),
            init=_starts(element.get("init"), definition),
            stateful=choice(element.get("stateful"), ("yes", "no", "optional"), definition.stateful),
            interactive=choice(element.get("interactive"), ("yes", "no", "optional"), definition.interactive),
            domain=element.get("domain"),
            multiplicity=draft.multiplicity,
            steps=steps if until else max(steps, 1),
            delta_s=_seconds(timescale, "delta"),
            total_s=_seconds(timescale, "total"),
            until=until,
            check_order=settings.get("order") != "free",
            may_die=settings.get("on-death") == "continue",
            host=settings.get("host"),
            bind=settings.get("bind"),
            position=element.position,
        )
        self.problems.extend(scale_problems(element, definition, instance.scales))
        if is_built_in_source(instance) and "file" not in for_all:  # what the command line says may lie anywhere
            self.problems.extend(self.source_problems(draft, instance))
        return instance

    def source_problems(self, draft: _Draft, instance: Instance) -> Iterable[Problem]:
        entry = InstanceEntry(draft.id, draft.element, definition=draft.definition_element, kind=instance.kind)
        param = self.files.origin(draft.target, "file") or parameter(entry, "file")
        element, attribute = (draft.element, None) if param is None else (param, "value")
        folder = os.path.dirname(os.path.abspath(self.document.path))
        found = source_problem(element, instance.params.get("file", ""), attribute, folder, self.search)
        return [] if found is None else [found]

    def coupled(self, instances: Mapping[str, Instance]) -> Iterator[tuple[Element, Endpoint, Endpoint]]:
        """Yield the couplings whose two ends exist, with these."""
        for element in self.topology.named("coupling") if self.topology else []:
            sender, receiver = endpoint(element.get("from"), instances), endpoint(element.get("to"), instances)
            if sender is not None and receiver is not None:
                yield element, sender, receiver

    def couplings(self, instances: Mapping[str, Instance], targets: Mapping[str, Target]) -> tuple[Coupling, ...]:
        found = []
        for element, sender, receiver in self.coupled(instances):
            if is_pool(element):
                continue
            settings = {} if element.is_plain else settings_of(element)
            size = quantity(element, "size", Dimension.DATA)
            ends = [targets[sender.instance], targets[receiver.instance]]
            found.append(
                Coupling(
                    name=element.get("name"),
                    sender=sender,
                    receiver=receiver,
                    size_bytes=None if size is None else float(size),
                    interactive=choice(element.get("interactive"), ("yes", "no", "optional"), "no"),
                    filters=tuple(self.applied_filters(element, instances[sender.instance], ends))
                    if element.content
                    else (),
                    capacity=settings.get("capacity"),
                    methods=settings.get("methods", ()),
                    compress=settings.get("compress"),
                    traffic_class=settings.get("class"),
                    protect=settings.get("protect"),
                    position=element.position,
                )
            )
        sizes = SizeEstimates(instances, found, self.datatypes)
        elements = {name: element for element in self.datatype_elements if (name := element.get("id"))}
        self.problems.extend(size_problems(sizes, found, instances, elements))
        return tuple(sizes.sized(coupling) for coupling in found) if self.datatypes else tuple(found)

    def pools(self, instances: Mapping[str, Instance]) -> tuple[PoolCoupling, ...]:
        found, untyped = [], set[Endpoint]()
        for element, sender, receiver in self.coupled(instances):
            if not is_pool(element):
                continue
            settings = settings_of(element)
            size = quantity(element, "size", Dimension.DATA)
            pool = PoolCoupling(
                name=element.get("name"),
                sender=sender,
                receiver=receiver,
                attributes=attributes_of(self.datatypes, instances[sender.instance].ports[sender.port].datatype),
                select=element.get("select", RUN) or "",
                is_queue=settings.get("share") == "queue",
                may_lose=settings.get("loss") == "allowed",
                is_latest=settings.get("kind") == "latest",
                limit_bytes=settings.get("limit", DEFAULT_LIMIT_BYTES),
                size_bytes=None if size is None else float(size),
                methods=settings.get("methods", ()),
                protect=settings.get("protect"),
                position=element.position,
            )
            ends = (instances[sender.instance], instances[receiver.instance])
            self.problems.extend(selector_problems(pool, element, *ends, untyped))
            found.append(pool)
        return tuple(found)

    def applied_filters(self, coupling: Element, sender: Instance, ends: Sequence[Target]) -> Iterable[AppliedFilter]:
        for element in coupling.named("apply"):
            definition = self.filters.get(element.get("filter") or "")
            if definition is None:
                continue
            own = {**definition.params, **read_params(element)}
            params = {**own, **self.files.for_filter(definition.id, own, ends)}
            told = len(self.problems)
            applied = AppliedFilter(
                definition=definition,
                factor=self.factor(element, definition, params, sender),
                params=read_only(params),
                position=element.position,
            )
            if len(self.problems) == told and _is_formula(element.get("factor") or definition.factor):
                wrong = filter_problem(applied, element, self.filter_elements[definition.id])
                self.problems.extend([wrong] if wrong is not None else [])
            yield applied

    def factor(self, apply: Element, definition: Filter, params: Mapping[str, str], sender: Instance) -> float | None:
        """Return the value of a filter's factor.

        Names in it mean parameters of the filter, else scales (their steps) and parameters of the sender.
        """
        text = apply.get("factor") or definition.factor
        if text is None:
            return None
        try:
            formula = formulas.parse(text)
        except formulas.FormulaError:
            return None  # the check of the formulas tells
        try:
            return formula.evaluate({**variables_of(sender), **numeric(params)})
        except formulas.FormulaError as error:
            help = f'give the filter or "{sender.id}" a parameter of that name, or write a number'
            message = f'the factor "{text}" of the filter "{definition.id}" has no value here: {error}'
            self.problems.append(apply.problem("E20", message, help, "factor" if apply.get("factor") else "filter"))
            return None


def _is_formula(text: str | None) -> bool:
    try:
        return text is None or bool(formulas.parse(text))
    except formulas.FormulaError:
        return False


def endpoint(text: str | None, instances: Mapping[str, Instance]) -> Endpoint | None:
    """Return the port that `INSTANCE.PORT` names, or `None` if there is none."""
    instance, dot, port = (text or "").partition(".")
    if not dot or instance not in instances or port not in instances[instance].ports:
        return None
    return Endpoint(instance, port)


def _multiplicity(element: Element) -> int | Literal["dynamic"]:
    text = (element.get("multiplicity") or "").strip()
    return "dynamic" if text == "dynamic" else positive_integer(text) or 1


def read_copy_params(instance: Element) -> dict[int, dict[str, str]]:
    """Return the parameters of single copies, by index.

    They stand in the `extra` of an instance: `<run:copy index="3" param="x" value="2"/>`.
    """
    found: dict[int, dict[str, str]] = {}
    for extra in instance.named("extra"):
        for element in extra.children:
            index, name, value = element.get("index"), element.get("param"), element.get("value")
            if (element.namespace, element.name) != (RUN, "copy") or name is None or value is None:
                continue
            if index is not None and re.fullmatch(r"[0-9]{1,9}", index):
                found.setdefault(int(index), {})[name] = value
    return found


def _merged(definition: Sequence[Scale], override: Sequence[Scale]) -> tuple[Scale, ...]:
    """Return the definition's scales with those of the instance merged in: by id, the unnamed ones by place."""
    if not override:
        return tuple(definition)
    merged = list(definition)
    ids = [scale.id for scale in definition]
    for place, scale in enumerate(override):
        if scale.id in ids:
            at = ids.index(scale.id)
            merged[at] = merge(merged[at], scale)
        elif not scale.id and place < len(ids):
            merged[place] = merge(merged[place], scale)
        else:
            merged.append(scale)
    unnamed = name_unnamed(merged[0].kind, [scale.id or None for scale in merged], set()) if merged else []
    return tuple(replace(scale, id=name) for scale, name in zip(merged, unnamed, strict=True))


def _starts(given: str | None, definition: Definition) -> bool:
    """Return whether an instance starts at initialisation: as it says, else as its definition says or implies."""
    if given in ("yes", "no"):
        return given == "yes"
    if definition.kind == "terminal":
        return False
    return definition.init or not any(port.direction == "in" for port in definition.ports.values())


def _seconds(scale: Scale | None, end: Literal["delta", "total"]) -> float | None:
    range_ = getattr(scale, end) if scale is not None else None
    mean = range_.mean if range_ is not None else None
    return None if mean is None else float(mean)
