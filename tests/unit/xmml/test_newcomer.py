"""Mistakes that everybody makes at first: the text alone says what to mend.

Each document is `good.xmml` with one mistake, named after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from xmml.check import check
from xmml.problems import render

DOCUMENTS = Path(__file__).parents[2] / "data" / "documents" / "newcomer"

#: What is told of each mistake: the code, the line, and the phrase by which one can mend it.
MISTAKES: dict[str, list[tuple[str, int, str]]] = {
    "attribute_without_quotes": [("E01", 24, 'values of attributes stand in quotes: id="macro"')],
    "both_wait_for_each_other": [
        ("E21", 26, "one of them has to begin without the other: receive at S what is now received")
    ],
    "comment_with_two_dashes": [("E01", 23, "-- may not stand in a comment: write a single -")],
    "copies_without_a_mapper": [
        ("E19", 26, "put a mapper between them, built in (scatter, duplicate)"),
        ("E19", 27, "put a mapper between them, built in (gather, concatenate)"),
    ],
    "coupling_typed_twice": [("E12", 27, "remove one of the two")],
    "decimal_comma": [("E15", 15, 'write the number with a point: "0.001 s"')],
    "definition_instead_of_instance": [
        ("E05", 26, '"Diffusion" is a definition; its instances are macro: write from="macro.state"')
    ],
    "element_left_open": [("E01", 19, "<out> in line 18 is still open: close it with </out>, or end its tag with />")],
    "forgotten_coupling": [
        ("W03", 24, 'did you forget <coupling from="micro.end" to="macro.reacted"/>? Else remove the')
    ],
    "forgotten_instance": [
        ("E05", 25, 'the submodel "Reaction" has a port "start": did you forget <instance id="micro"')
    ],
    "forgotten_namespace": [("E01", 2, "the root of an xMML 0.4 model is <model")],
    "forgotten_namespace_of_run": [
        ("E01", 20, 'declare the prefix on the root element, such as xmlns:run="urn:xmml:run:1"')
    ],
    "forgotten_operator": [
        ("E08", 17, 'operator="finit" (once, before the first step), or "S" or "B" (in every step)')
    ],
    "forgotten_time_scale": [("E02", 14, 'add <timescale delta="1 s" total="1 min"/> (the length of a step, and of a')],
    "forgotten_unit": [("W07", 15, 'add the unit, such as delta="0.001 s"')],
    "metre_in_a_time_scale": [("E15", 5, 'did you mean "1 min"? m is the metre')],
    "misspelt_language": [("W15", 20, 'did you mean "python"?')],
    "misspelt_run_setting": [("E02", 20, 'did you mean "run:args"?')],
    "name_instead_of_id": [("E05", 25, 'the instance has no id, and there is no instance "micro"')],
    "operator_as_in_the_papers": [("E02", 17, 'did you mean "finit"?')],
    "port_forgotten_in_a_coupling": [
        ("E02", 26, 'write INSTANCE.PORT with exactly one dot, such as from="macro.state"')
    ],
    "port_outside_of_ports": [("E02", 16, "put <ports> ... </ports> around it and its like")],
    "sending_operator_on_an_in_port": [("E07", 10, "write <out ...>, or an operator for an in port: finit, S, B")],
    "steps_that_do_not_agree": [
        ("E21", 26, "give both the same number of steps (delta, total), or apply an interpolation")
    ],
    "swapped_delta_and_total": [("E16", 15, "delta is one step, total the whole: swap them, or look at their units")],
    "swapped_ends": [("E06", 26, 'swap the two ends: from="macro.state" to="micro.start"')],
    "total_forgotten": [("E21", 26, 'the <timescale> of "macro" has delta but no total, which is one step: add total')],
    "two_couplings_into_one_port": [("E12", 28, "join them with a fan-in mapper before it")],
    "typo_in_a_port": [("E05", 26, 'did you mean "start"?')],
    "typo_in_a_submodel": [("E05", 25, 'did you mean "Reaction"?')],
    "typo_in_an_attribute": [("E08", 9, 'it has "operater": did you mean "operator"?')],
    "typo_in_an_element": [("E02", 7, 'did you mean "param"?')],
    "typo_in_an_instance": [("E05", 26, 'did you mean "macro"?')],
    "unknown_operator": [("E02", 17, 'known values: "B", "S", "finit"')],
    "unit_that_xmml_does_not_know": [("E15", 5, 'did you mean "hr"?')],
    "wrong_file_name": [("W14", 20, 'did you mean "reaction.py"?')],
    "wrong_namespace_of_run": [("E02", 20, 'write xmlns:run="urn:xmml:run:1", not xmlns:run="urn:xmml:run"')],
    "wrong_order_of_elements": [("E02", 19, "the order in <submodel> is: <description>, <timescale>, <spacescale>,")],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_so_that_one_can_mend_it(name: str) -> None:
    problems = check(DOCUMENTS / f"{name}.xmml").problems
    told = [(problem.code, problem.position.line) for problem in problems if problem.position]
    assert told == [(code, line) for code, line, _ in MISTAKES[name]]
    for problem, (_, _, phrase) in zip(problems, MISTAKES[name], strict=True):
        assert phrase in render(problem)


def test_every_document_is_a_mistake_or_the_good_one() -> None:
    assert {path.stem for path in DOCUMENTS.glob("*.xmml")} == {*MISTAKES, "good"}


def test_nothing_is_told_of_the_good_document() -> None:
    assert check(DOCUMENTS / "good.xmml").problems == ()


def slip(word: str) -> str:
    """Return a word with its last two letters swapped."""
    return f"{word[:-2]}{word[-1]}{word[-2]}" if len(word) > 2 and word[-1] != word[-2] else f"{word}q"


def slips(text: str) -> Iterator[tuple[str, str]]:
    """Yield a document with every single slip: values and names misspelt, attributes and elements left out or twice."""
    for found in re.finditer(r'(?<=\s)((?:run:)?\w+)="([^"]*)"', text):
        name, value = found.groups()
        before, after = text[: found.start()], text[found.end() :]
        if name in ("version", "encoding", "xmlns"):
            continue
        line = before.count("\n") + 1
        yield f'line {line}: {name}="{slip(value)}"', f'{before}{name}="{slip(value)}"{after}'
        yield f'line {line}: {slip(name)}="{value}"', f'{before}{slip(name)}="{value}"{after}'
        yield f"line {line}: no {name}", f"{before}{after}"
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.rstrip().endswith("/>"):
            if 'from="macro.state"' not in line:  # the two are then not coupled (W03), and one is not called (E21)
                yield f"line {number + 1} left out", "".join(lines[:number] + lines[number + 1 :])
            yield f"line {number + 1} twice", "".join(lines[: number + 1] + lines[number:])


def test_one_slip_is_told_as_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "model.xmml"
    for name in ("diffusion.py", "reaction.py"):
        (tmp_path / name).touch()
    for what, text in slips((DOCUMENTS / "good.xmml").read_text(encoding="utf-8")):
        path.write_text(text, encoding="utf-8")
        problems = check(path).problems
        assert len(problems) <= 1, (what, [str(problem) for problem in problems])
