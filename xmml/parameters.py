"""Parameters of instances and filters, from the model, from parameter files and from the command line.

Precedence, lowest first: definition, instance (or `apply`), then in parameter files: global, group of a domain (a
longer domain wins), group of a submodel, mapper or filter, group of an instance; then the command line for all copies,
and for one copy. Nested groups apply where all their selectors do. Among equals the later one wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xmml.document import Document
from xmml.late_dataclass import dataclass
from xmml.problems import Problem, Severity, did_you_mean
from xmml.tree import Element

#: How many inclusions of groups parameter files may make in all, so that they cannot multiply without end.
MAX_INCLUSIONS = 10_000
_SELECTORS = ("submodel", "mapper", "filter", "instance", "domain")


@dataclass(frozen=True)
class Target:
    """What a parameter may be for: an instance, by its own id, its definition and its domain."""

    instance: str
    kind: str
    definition: str
    domain: str | None
    declared: frozenset[str]

    def matches(self, selector: str, value: str) -> bool:
        """Say whether this is what one attribute of a group selects."""
        if selector == "instance":
            return value == self.instance
        if selector == "domain":
            return self.domain is not None and (self.domain == value or self.domain.startswith(value + "."))
        return selector == self.kind and value == self.definition


@dataclass(frozen=True)
class Rule:
    """One parameter of a parameter file and where it applies: all selectors must match.

    `groups` are the elements that the selectors stand on, one for each.
    """

    name: str
    value: str
    selectors: tuple[tuple[str, str], ...]
    element: Element
    groups: tuple[Element, ...] = ()

    @property
    def specificity(self) -> tuple[bool, bool, int]:
        """What decides between rules: instance over definition over domain, a longer domain over a shorter one."""
        names = {selector for selector, _ in self.selectors}
        depth = max((value.count(".") + 1 for selector, value in self.selectors if selector == "domain"), default=0)
        return "instance" in names, bool(names & {"submodel", "mapper", "filter"}), depth

    def applies_to(self, target: Target) -> bool:
        """Say whether the rule is for an instance."""
        return all(target.matches(selector, value) for selector, value in self.selectors)

    def applies_to_filter(self, filter_id: str, declared: Iterable[str], ends: Sequence[Target]) -> bool:
        """Say whether the rule is for a filter of a coupling between two instances.

        A global rule is for every filter that declares the parameter.
        """
        others = [(selector, value) for selector, value in self.selectors if selector != "filter"]
        named = [value for selector, value in self.selectors if selector == "filter"]
        if not self.selectors:
            return self.name in declared
        if not named or any(value != filter_id for value in named):
            return False
        return not others or any(all(end.matches(*other) for other in others) for end in ends)


class ParameterFiles:
    """The rules of all parameter files of a run; `problems` lists what is wrong with them."""

    def __init__(self, documents: Iterable[Document], model_id: str) -> None:
        self.problems: list[Problem] = []
        self._inclusions = 0
        rules: list[Rule] = []
        for document in documents:
            root = document.root
            if (given := root.get("id")) is not None and given != model_id:
                self.problems.append(
                    root.problem(
                        "E22",
                        f'these parameters are for the model "{given}", not for "{model_id}"',
                        f'write id="{model_id}" if they are meant for this model',
                        attribute="id",
                    )
                )
                continue
            groups: dict[str, Element] = {}
            for group in root.named("parameterGroup"):
                if (name := group.get("id")) is not None and groups.setdefault(name, group) is not group:
                    message = f'there are two parameter groups "{name}"'
                    self._report(group.problem("E04", message, "give one of them another id", "id"))
            rules.extend(self._rules(root, (), (), groups, ()))
        self._rules_in_order = sorted(rules, key=lambda rule: rule.specificity)

    def _rules(
        self,
        element: Element,
        selectors: tuple[tuple[str, str], ...],
        places: tuple[Element, ...],
        groups: Mapping[str, Element],
        including: tuple[str, ...],
    ) -> Iterator[Rule]:
        seen: set[str] = set()
        for child in element.children:
            if child.name == "param":
                name, value = child.get("id"), child.get("value")
                if name in seen:
                    message = f'there are two parameters "{name}" in this group'
                    self._report(child.problem("E04", message, "remove one of them", "id"))
                elif name is not None and value is not None:
                    seen.add(name)
                    yield Rule(name, value, selectors, child, places)
            elif child.name == "parameterGroup":
                own = tuple((name, value) for name in _SELECTORS if (value := child.get(name)) is not None)
                if own or not child.get("id"):
                    yield from self._rules(child, selectors + own, places + (child,) * len(own), groups, including)
            elif child.name == "include" and (wanted := child.get("parameterGroup")) is not None:
                if wanted not in groups:
                    help = did_you_mean(wanted, groups, "groups")
                    message = f'there is no parameter group "{wanted}" directly below the root'
                    self._report(child.problem("E05", message, help, "parameterGroup"))
                elif wanted in including or _inside(child, groups[wanted]):
                    message = f'the group "{wanted}" includes itself'
                    self._report(child.problem("E22", message, "", "parameterGroup"))
                elif self._inclusions >= MAX_INCLUSIONS:
                    if self._inclusions == MAX_INCLUSIONS:
                        message = f"these parameters make more than {MAX_INCLUSIONS} inclusions"
                        self._report(child.problem("E22", message, "", "parameterGroup"))
                    self._inclusions += 1
                else:
                    self._inclusions += 1
                    yield from self._rules(groups[wanted], selectors, places, groups, (*including, wanted))

    def _report(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def for_instance(self, target: Target) -> dict[str, str]:
        """Return what the files set for an instance."""
        return {rule.name: rule.value for rule in self._rules_in_order if rule.applies_to(target)}

    def origin(self, target: Target, name: str) -> Element | None:
        """Return the element by which the files set a parameter of an instance; `None` if they do not."""
        found = [rule.element for rule in self._rules_in_order if rule.name == name and rule.applies_to(target)]
        return found[-1] if found else None

    def for_filter(self, filter_id: str, declared: Iterable[str], ends: Sequence[Target]) -> dict[str, str]:
        """Return what the files set for a filter of a coupling."""
        names = frozenset(declared)
        return {
            rule.name: rule.value for rule in self._rules_in_order if rule.applies_to_filter(filter_id, names, ends)
        }

    def unmatched(self, targets: Sequence[Target], filters: Mapping[str, frozenset[str]]) -> Iterator[Problem]:
        """Yield a warning for every group that selects nothing, and every parameter that nothing it is for declares."""
        known = {
            "instance": {target.instance for target in targets},
            "submodel": {target.definition for target in targets if target.kind == "submodel"},
            "mapper": {target.definition for target in targets if target.kind == "mapper"},
            "filter": set(filters),
            "domain": {target.domain for target in targets if target.domain},
        }
        told: set[tuple[Element, str]] = set()
        for rule in self._rules_in_order:
            wrong = [
                (group, *pair)
                for pair, group in zip(rule.selectors, rule.groups, strict=True)
                if not _selects_something(*pair, targets, filters)
            ]
            for group, selector, value in wrong[:1]:
                if (group, selector) not in told:
                    told.add((group, selector))
                    help = did_you_mean(value, known[selector], f"{selector}s")
                    yield group.problem("W13", f'the model has no {selector} "{value}"', help, selector)
            if wrong:
                continue
            declared = {name for target in targets if rule.applies_to(target) for name in target.declared}
            named = [value for selector, value in rule.selectors if selector == "filter"]
            declared |= {name for each in named for name in filters.get(each, ())}
            if not rule.selectors:
                declared |= {name for names in filters.values() for name in names}
            if rule.name not in declared:
                help = did_you_mean(rule.name, declared, "parameters")
                yield rule.element.problem(
                    "W13", f'nothing that this is for declares a parameter "{rule.name}"', help, "id"
                )


def _selects_something(
    selector: str, value: str, targets: Sequence[Target], filters: Mapping[str, frozenset[str]]
) -> bool:
    if selector == "filter":
        return value in filters
    return any(target.matches(selector, value) for target in targets)


def _inside(element: Element, group: Element) -> bool:
    return any(each is element for each in group.walk())


@dataclass(frozen=True)
class Override:
    """One parameter given on the command line; `copy` is the index of a single copy, or `None` for all."""

    instance: str
    copy: int | None
    name: str
    value: str


_COPY = re.compile(r"(.+)\[([0-9]{1,9})\]")


def read_overrides(
    overrides: Mapping[str, str], targets: Mapping[str, Target], copies: Mapping[str, int | None]
) -> tuple[list[Override], list[Problem]]:
    """Read overrides such as `{"c.x": "1", "c[3].x": "2"}`.

    Parameters:
        targets: the instances of the model by id.
        copies: how many copies each instance has; `None` if that is not known before it runs.
    """
    found: list[Override] = []
    problems: list[Problem] = []

    def refuse(key: str, message: str, help: str, code: str = "E22") -> None:
        problems.append(Problem(Severity.ERROR, code, f"-p {key}: {message}", help=help))

    for key, value in overrides.items():
        split = _split_override(key, targets)
        if split is None:
            refuse(key, "expected INSTANCE.PARAMETER=VALUE", "write for example -p macro.D=1e-9 or -p c[3].x=2")
            continue
        instance, copy, name = split
        if instance not in targets:
            refuse(key, f'there is no instance "{instance}"', did_you_mean(instance, targets, "instances"), code="E05")
            continue
        count = copies[instance]
        if copy is not None and count is not None and copy >= count:
            what = f"copies 0 to {count - 1}" if count > 1 else "one copy, [0]"
            refuse(key, f'there is no copy {copy} of "{instance}"', f"it has {what}")
            continue
        declared = targets[instance].declared
        if name not in declared:
            help = did_you_mean(name, declared, "parameters")
            if not help.startswith("did you mean"):
                help = f'{help}{"; " if help else ""}declare it with <param id="{name}" value="..."/> in the model'
            refuse(key, f'"{instance}" declares no parameter "{name}"', help)
            continue
        found.append(Override(instance, copy, name, value))
    return found, problems


def _split_override(key: str, targets: Iterable[str]) -> tuple[str, int | None, str] | None:
    """Return instance, copy and parameter of an override.

    Ids may contain dots, so the split is at the dot behind a known instance, else at the first.
    """
    known = set(targets)
    dots = [place for place, character in enumerate(key) if character == "." and 0 < place < len(key) - 1]
    splits = [(*_without_copy(key[:place]), key[place + 1 :]) for place in dots]
    if not splits:
        return None
    return next((split for split in splits if split[0] in known), splits[0])


def _without_copy(text: str) -> tuple[str, int | None]:
    match = _COPY.fullmatch(text)
    return (match.group(1), int(match.group(2))) if match else (text, None)
