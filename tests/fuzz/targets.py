"""What is fed with random inputs, and what must hold whatever the input is.

A target makes cases (files by name, as bytes) and tries them. Trying a case returns the codes of the problems it gave;
any exception, a broken promise included, is a finding.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import inputs
from random_networks import random_text
from small_models import model as small_model

from xmml import formulas, units
from xmml.analysis.analyse import analyse
from xmml.analysis.capacity import capacities
from xmml.analysis.critical_path import critical_path
from xmml.analysis.deadlock import witness
from xmml.analysis.grouping import jobs
from xmml.analysis.network import Network, network
from xmml.analysis.outcome import outcome
from xmml.analysis.run_time import estimate
from xmml.analysis.self_timed import simulate
from xmml.analysis.static import static_analysis
from xmml.analysis.unrolling import Unrolling, unroll
from xmml.analysis.what_if import FIELDS, with_settings
from xmml.analysis.what_if import SettingError as WhatIfError
from xmml.check import check
from xmml.convert.cxa import to_cxa
from xmml.convert.rewrite import rewrite
from xmml.convert.ymmsl_export import to_ymmsl
from xmml.convert.ymmsl_import import ymmsl_to_xmml
from xmml.convert.ymmsl_reader import parse_ymmsl
from xmml.document import Document, read
from xmml.files import FileUnreadable
from xmml.graphs.views import VIEWS, ViewOptions, picture
from xmml.include import Expansion
from xmml.model import Model
from xmml.problems import CODES, ModelError, Problem, render, render_all
from xmml.reach import reach_of
from xmml.resolve import resolve
from xmml.run_options import SETTINGS, SettingError
from xmml.serialise import to_json, to_xml
from xmml.tree import decode, parse

#: The file of a case that is tried; others stand beside it.
MAIN = "model.xml"
PARAMETERS = "parameters.xml"
OVERRIDES = "overrides.json"
#: Longest text of one problem, in characters.
MOST_CHARACTERS = 4000
NODE_LIMIT = 5_000
EVENT_LIMIT = 20_000

Case = Mapping[str, bytes]


class BrokenPromise(AssertionError):
    """Something that must hold for every input does not."""


@dataclass(frozen=True)
class Target:
    """Something that reads inputs.

    Attributes:
        weight: its share of the inputs of a campaign.
        make: returns a case.
        attempt: tries a case whose files lie in a folder; returns the codes of the problems, or `()`.
    """

    weight: int
    make: Callable[[random.Random], Case]
    attempt: Callable[[Case, Path], Iterable[str]]


def write(case: Case, folder: Path) -> None:
    """Write the files of a case."""
    for name, data in case.items():
        (folder / name).write_bytes(data)


def promise(holds: object, what: str) -> None:
    """Say that something must hold.

    Raises:
        BrokenPromise: it does not.
    """
    if not holds:
        raise BrokenPromise(what)


def told_well(problems: Sequence[Problem], case: Case, folder: Path) -> list[str]:
    """Return the codes of problems, each known, at a place in a file of the case, and readable as text and JSON."""
    for problem in problems:
        promise(problem.code in CODES or re.fullmatch("Y0[0-9]", problem.code), f"unknown code {problem.code}")
        promise(problem.message, f"{problem.code} without a message")
        promise(len(render(problem)) < MOST_CHARACTERS, f"{problem.code} in {len(render(problem))} characters")
        promise("\x1b" not in render(problem), f"{problem.code} steers the terminal")
        if problem.position is None:
            promise(problem.code in ("E22", "E05", "W13"), f"{problem.code} stands nowhere: {problem.message}")
        else:
            _stands_inside(problem, case, folder)
    json.dumps([problem.as_json() for problem in problems], allow_nan=False)
    render_all(problems, colour=True).encode()
    return [problem.code for problem in problems]


def _stands_inside(problem: Problem, case: Case, folder: Path) -> None:
    place = problem.position
    assert place is not None
    name = str(Path(place.file).relative_to(folder)) if Path(place.file).is_relative_to(folder) else place.file
    promise(place.line >= 1 and place.column >= 1, f"{problem.code} at {place.line}:{place.column}")
    if name not in case:
        promise((place.line, place.column) == (1, 1), f"{problem.code} stands in {name}")
        return
    try:
        text = decode(case[name], name)
    except ModelError:
        promise((place.line, place.column) == (1, 1), f"{problem.code} inside a file that is no text")
        return
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    promise(place.line <= len(lines), f"{problem.code} in line {place.line} of {len(lines)}")
    width = len(lines[place.line - 1])
    promise(place.column <= width + 1, f"{problem.code} in column {place.column} of {width}: {problem.message}")


# -- texts


def _text(choose: random.Random, text: str) -> Case:
    return {"text.txt": text.encode("utf-8", "replace")}


def _try_quantity(case: Case, folder: Path) -> Iterable[str]:
    text = case["text.txt"].decode("utf-8", "replace")
    try:
        found = units.parse(text)
    except units.UnitError as error:
        promise(len(str(error)) < 300, "a long message")
        return ()
    promise(units.parse(str(found)) == found or "/" in text or _is_rounded(found), f"{found} reads as something else")
    float(found)
    if found.value > 0:
        found.log10()
    return ()


def _is_rounded(quantity: units.Quantity) -> bool:
    return abs(units.parse(str(quantity)).value - quantity.value) <= abs(quantity.value) / 10**12


def _try_formula(case: Case, folder: Path) -> Iterable[str]:
    text = case["text.txt"].decode("utf-8", "replace")
    try:
        found = formulas.parse(text)
        again = formulas.parse(str(found))
        promise(str(again) == str(found), f"{found} reads as {again}")
        known = dict.fromkeys(found.variables(), 2.5)
        one, other = found.evaluate(known), again.evaluate(known)
        promise(one == other or (one != one and other != other), f"{found} is {one} and {other}")
        found.evaluate()
    except formulas.FormulaError as error:
        promise(len(str(error)) < 300 or len(text) > 200, "a long message")
    return ()


def _make_setting(choose: random.Random) -> Case:
    name = choose.choice(list(SETTINGS))
    text = choose.choice([inputs.noise(choose), *choose.choices([*inputs.WORDS, *inputs.NUMBERS, *inputs.NAMES], k=3)])
    return {"setting.txt": f"{name}={text}".encode("utf-8", "replace")}


def _try_setting(case: Case, folder: Path) -> Iterable[str]:
    name, _, text = case["setting.txt"].decode("utf-8", "replace").partition("=")
    try:
        SETTINGS[name].read(text)
    except SettingError as error:
        promise(str(error), "no word of what is expected")
    return ()


# -- XML


def _make_xml(choose: random.Random) -> Case:
    data = choose.choice(list(inputs.corpus().values()))
    if len(data) > 1500:
        start = choose.randrange(len(data) - 1000)
        data = inputs.HEAD.encode() + data[start : start + choose.randint(10, 1000)] + b"</model>"
    return {MAIN: inputs.flipped(choose, data)}


def _try_xml(case: Case, folder: Path) -> Iterable[str]:
    try:
        root = parse(decode(case[MAIN], MAIN), MAIN)
    except ModelError as error:
        return told_well(error.problems, case, folder)
    for element in root.walk():
        element.mark()
        promise(element.position.line >= 1, "an element that stands nowhere")
    return ()


def _make_included(choose: random.Random) -> Case:
    names = [MAIN, "part.xml", "other.xml"]
    return {name: _including(choose, names).encode("utf-8", "replace") for name in names[: choose.randint(1, 3)]}


def _including(choose: random.Random, names: Sequence[str]) -> str:
    def one() -> str:
        href = choose.choice(
            [*names, *names, "no.xml", inputs.noise(choose), "a#b", "part.xml#xpointer(/a/b)", "http://a"]
        )
        attributes = f' href="{inputs.quoted(href)}"'
        if choose.random() < 0.4:
            pointer = choose.choice(
                ["xpointer(/a/*)", "xpointer(/a/b)", "xpointer(/*)", "element(/1)", inputs.noise(choose)]
            )
            attributes += f' xpointer="{inputs.quoted(pointer)}"'
        if choose.random() < 0.2:
            attributes += f' parse="{choose.choice(["text", "xml", "html"])}"'
        inner = (
            f"<xi:fallback>{'<b/>' if choose.random() < 0.5 else one()}</xi:fallback>" if choose.random() < 0.2 else ""
        )
        return f"<xi:include{attributes}>{inner}</xi:include>"

    texts = ["<b>text</b>", "<b/>"]
    parts = [one() if choose.random() < 0.5 else choose.choice(texts) for _ in range(choose.randint(0, 4))]
    return f'<a xmlns:xi="{inputs.XINCLUDE}">{"".join(parts)}</a>'


def _try_included(case: Case, folder: Path) -> Iterable[str]:
    write(case, folder)
    main = str(folder / MAIN)
    expansion = Expansion(reach_of(main, allow_outside=False))
    try:
        expansion.read(main)
    except FileUnreadable:
        return ()
    except ModelError as error:
        return told_well(error.problems, case, folder)
    return told_well(expansion.problems, case, folder)


# -- documents


def _make_tree(choose: random.Random) -> Case:
    case = {MAIN: inputs.tree(choose).encode("utf-8", "replace")}
    if choose.random() < 0.2:
        case["part.xml"] = inputs.tree(choose, choose.choice(["definitions", "submodel", "model"])).encode()
    return case


def _make_mutated(choose: random.Random) -> Case:
    data = choose.choice(list(inputs.model_documents().values()))
    return {MAIN: inputs.mutated(choose, data.decode()).encode("utf-8", "replace")}


def _make_restructured(choose: random.Random) -> Case:
    return {MAIN: inputs.restructured(choose, choose.choice(list(inputs.model_documents().values())))}


def _make_flipped(choose: random.Random) -> Case:
    return {MAIN: inputs.flipped(choose, choose.choice(list(inputs.model_documents().values())))}


def _make_small(choose: random.Random) -> Case:
    return {MAIN: inputs.small_model(choose).encode("utf-8", "replace")}


def _make_parameters(choose: random.Random) -> Case:
    files = inputs.corpus()
    text = files["tests/data/documents/restenosis_parameters.xml"].decode()
    text = inputs.mutated(choose, text) if choose.random() < 0.5 else inputs.tree(choose, "parameters")
    model = files["tests/data/documents/reaction.xml"]
    if choose.random() < 0.8:
        name = parse(decode(model, MAIN), MAIN).get("id") or ""
        text = text.replace(' id="', f' id="{name}" was="', 1)
    return {MAIN: model, PARAMETERS: text.encode("utf-8", "replace")}


def _try_document(case: Case, folder: Path) -> Iterable[str]:
    write(case, folder)
    parameters = [folder / PARAMETERS] if PARAMETERS in case else []
    given = json.loads(case[OVERRIDES]) if OVERRIDES in case else {}
    result = check(folder / MAIN, parameters, given)
    codes = told_well(result.problems, case, folder)
    promise((result.model is None) == bool(result.errors), "neither a model nor errors, or both")
    if result.model is not None:
        _usable(result.model, folder)
    return codes


def _usable(model: Model, folder: Path) -> None:
    """See that a model without errors can be written, read again as the same one, and analysed."""
    json.dumps(to_json(model), allow_nan=False)
    text = to_xml(model)
    again = folder / "again.xml"
    again.write_text(text, encoding="utf-8")
    result = check(again)
    promise(result.model is not None, f"what was written cannot be read: {[str(each) for each in result.errors[:1]]}")
    if result.model is not None:
        promise(replace(result.model, path=model.path) == model, "what was written reads as another model")
    _analysed(model)
    json.dumps(analyse(model).as_json(), allow_nan=False)
    options = ViewOptions(node_limit=NODE_LIMIT // 10)
    for view in VIEWS:
        for form in ("dot", "graphml", "json"):
            promise(picture(model, view, form, options).decode(), f"an empty {form} of the {view} view")


@cache
def _documents() -> Sequence[Document]:
    return [read(inputs.ROOT / "tests/data/documents" / name) for name in ("reaction.xml", "restenosis.xml")]


def _make_overrides(choose: random.Random) -> Case:
    return {OVERRIDES: json.dumps(inputs.overrides(choose, ["macro", "micro", "bf", "dd"])).encode()}


def _try_overrides(case: Case, folder: Path) -> Iterable[str]:
    given = json.loads(case[OVERRIDES])
    for document in _documents()[:1]:
        model, problems = resolve(document, (), given)
        to_json(model)
        yield from told_well([each for each in problems if each.position is None], case, folder)


# -- analyses


def _make_network(choose: random.Random) -> Case:
    text = random_text(choose.randrange(2**32))
    lines = [_with_large_numbers(choose, line) for line in text.splitlines()]
    return {"model.txt": "\n".join(lines).encode()}


def _with_large_numbers(choose: random.Random, line: str) -> str:
    if "->" in line:
        return line + choose.choice([""] * 8 + [" capacity=1", " size=1e300", " size=0", " capacity=2147483647"])
    words = line.split()
    if len(words) > 1 and words[1].isdigit() and choose.random() < 0.2:
        words[1] = choose.choice(["1000", "100000", "1000000000", "1000000000000000"])
    more = ["runtime=1", "runtime=1e-12", "runtime=1e10", "cores=999999999", "x3", "until", "stateful", "delta=1e-9s"]
    return " ".join(words + choose.sample(more, choose.choice([0, 0, 0, 1, 2])))


def _try_network(case: Case, folder: Path) -> Iterable[str]:
    _analysed(small_model(case["model.txt"].decode()))
    return ()


def _analysed(model: Model) -> None:
    found = network(model)
    static = static_analysis(found)
    promise(len(static.sent) == len(model.couplings), "a coupling without a count")
    for start in ("spontaneous", "external"):
        unrolling = unroll(found, start=start, node_limit=NODE_LIMIT)  # type: ignore[arg-type]
        _unrolled(found, unrolling)
        if start == "spontaneous" and static.is_conclusive and unrolling.is_exact:
            promise(outcome(found, unrolling.final).finished, "said to finish, and does not")
    chosen = capacities(found, event_limit=EVENT_LIMIT)
    run = simulate(found, chosen.chosen, event_limit=EVENT_LIMIT)
    promise(run.makespan_ns >= 0, "a run that ends before it begins")
    times = estimate(found, static, chosen, event_limit=EVENT_LIMIT)
    promise(times.makespan_at_most_ns is None or times.makespan_ns <= times.makespan_at_most_ns, "bounds that cross")
    promise({name for job in jobs(found, run.begin_ns) for name in job.instances} == set(model.instances), "no job")
    promise(all(part.process >= 0 for part in critical_path(found, run.history, run.end_ns)), "a part of nobody")


def _make_what_if(choose: random.Random) -> Case:
    names = ["i0", "i1", "i2", "m0", *inputs.NAMES]
    settings = {
        f"{choose.choice(names)}.{choose.choice([*FIELDS, *FIELDS, 'x', ''])}": choose.choice(
            [inputs.quantity(choose), inputs.noise(choose), choose.choice(inputs.NUMBERS)]
        )
        for _ in range(choose.randint(1, 3))
    }
    return {**_make_network(choose), "settings.json": json.dumps(settings).encode()}


def _try_what_if(case: Case, folder: Path) -> Iterable[str]:
    model = small_model(case["model.txt"].decode())
    try:
        changed = with_settings(model, json.loads(case["settings.json"]))
    except WhatIfError as error:
        promise(str(error), "no word of what is wrong")
        return ()
    static_analysis(network(changed))
    return ()


def _unrolled(found: Network, unrolling: Unrolling) -> None:
    ended = outcome(found, unrolling.final)
    if not unrolling.truncated:
        promise(len(unrolling.task_graph) <= NODE_LIMIT, "more nodes than allowed")
        if ended.is_deadlock:
            promise(witness(found, ended), "a deadlock without a witness")
    for node in range(min(len(unrolling.task_graph), 50)):
        unrolling.task_graph.label(node)


# -- other formats


@cache
def _ymmsl_texts() -> Sequence[str]:
    """Return yMMSL files of both versions, of the models that have no errors."""
    texts = []
    for path in sorted((inputs.ROOT / "tests").glob("**/*.ymmsl")):
        texts.append(path.read_text(encoding="utf-8"))
    for name in inputs.model_documents():
        model = check(inputs.ROOT / name).model
        if model is not None:
            texts += [to_ymmsl(model, "0.1").text, to_ymmsl(model, "0.2").text]
    return texts


def _make_ymmsl(choose: random.Random) -> Case:
    text = inputs.mutated_yaml(choose, choose.choice(_ymmsl_texts()))
    data = text.encode("utf-8", "replace")
    return {MAIN: inputs.flipped(choose, data) if choose.random() < 0.1 else data}


def _try_ymmsl(case: Case, folder: Path) -> Iterable[str]:
    write(case, folder)
    try:
        converted = ymmsl_to_xmml(folder / MAIN)
    except ModelError as error:
        return told_well(error.problems, case, folder)
    parse(converted.text, MAIN)
    (folder / "again.xml").write_text(converted.text, encoding="utf-8")
    codes = {problem.code for problem in check(folder / "again.xml").errors}
    promise(not codes & {"E01", "E02", "E04"}, f"an imported model has the errors {sorted(codes)}")
    return ()


def _make_converted(choose: random.Random) -> Case:
    return _make_small(choose) if choose.random() < 0.5 else _make_restructured(choose)


def _try_converted(case: Case, folder: Path) -> Iterable[str]:
    write(case, folder)
    model = check(folder / MAIN).model
    if model is None:
        return ()
    promise(to_cxa(model).text, "an empty script")
    for version in ("0.1", "0.2"):
        parse_ymmsl(to_ymmsl(model, version).text, MAIN)  # type: ignore[arg-type]
    for expand in (False, True):
        (folder / "again.xml").write_text(rewrite(folder / MAIN, expand).text, encoding="utf-8")
        again = check(folder / "again.xml").model
        promise(again is not None and replace(again, path=model.path) == model, "rewritten, it is another model")
    return ()


#: By name, in the order of a campaign.
TARGETS: Mapping[str, Target] = {
    "units": Target(330, lambda choose: _text(choose, inputs.quantity(choose)), _try_quantity),
    "formulas": Target(260, lambda choose: _text(choose, inputs.formula(choose)), _try_formula),
    "settings": Target(230, _make_setting, _try_setting),
    "xml": Target(110, _make_xml, _try_xml),
    "includes": Target(30, _make_included, _try_included),
    "overrides": Target(10, _make_overrides, _try_overrides),
    "parameters": Target(4, _make_parameters, _try_document),
    "bytes": Target(8, _make_flipped, _try_document),
    "tokens": Target(6, _make_mutated, _try_document),
    "elements": Target(4, _make_restructured, _try_document),
    "trees": Target(4, _make_tree, _try_document),
    "models": Target(3, _make_small, _try_document),
    "what-if": Target(5, _make_what_if, _try_what_if),
    "ymmsl": Target(10, _make_ymmsl, _try_ymmsl),
    "converted": Target(3, _make_converted, _try_converted),
    "networks": Target(1, _make_network, _try_network),
}
