"""Every code of the checks: a document with the mistake, where it is told and how, a correct twin, and a page."""

from __future__ import annotations

from pathlib import Path

import check_pages
import pytest

from xmml.explanations import has_page, page
from xmml.problems import CODES, render

DOCUMENTS = check_pages.DOCUMENTS

#: Where the mistake of each document is told (line, column), and what says how to mend it, in the message or the help.
TOLD: dict[str, list[tuple[int, int, str]]] = {
    "E01/wrong-namespace": [(2, 1, "the root of an xMML 0.4 model is <model")],
    "E01/wrong": [(9, 9, "<in> in line 8 is still open: close it with </in>")],
    "E02/wrong-element": [(6, 7, 'did you mean "ports"?')],
    "E02/wrong-missing": [(11, 5, 'add <timescale delta="1 s" total="1 min"/> (the length of a step, and')],
    "E02/wrong-order": [(16, 7, "the order in <submodel> is: <description>, <timescale>, <spacescale>,")],
    "E02/wrong-run": [(22, 51, "expected a whole number of at least 1")],
    "E02/wrong": [(7, 25, 'did you mean "Oi"?')],
    "E03/wrong": [(20, 5, 'add submodel="...", mapper="..." or terminal="..."')],
    "E04/wrong": [(21, 15, "give it another id")],
    "E05/wrong": [(22, 34, 'did you mean "start"?')],
    "E06/wrong": [(22, 5, 'swap the two ends: from="macro.state" to="micro.start"')],
    "E07/wrong": [(8, 26, "write <out ...>, or an operator for an in port: finit, S, B")],
    "E08/wrong": [(8, 13, '"S" or "B" (in every step)')],
    "E09/wrong": [(6, 24, "remove it: only submodels have operators")],
    "E10/wrong": [(4, 23, "change its ports, or its type: fan-in (n in, 1 out), fan-out (1 in, n")],
    "E11/wrong": [(4, 27, 'a source sends: give it <out id="..."/>')],
    "E12/wrong": [(26, 33, "or use a free in port of join: right")],
    "E13/wrong": [(4, 26, "remove one extends")],
    "E14/wrong": [(7, 19, "give one of them another id")],
    "E15/wrong-unit": [(5, 30, 'did you mean "hr"?')],
    "E15/wrong": [(5, 18, 'did you mean "1 min"? m is the metre')],
    "E16/wrong": [(12, 30, "delta is one step, total the whole: swap them, or look at their units")],
    "E17/wrong": [(22, 5, 'add <timescale id="t" total="..."/> to the instance')],
    "E18/wrong": [(21, 43, "only instances of submodels have copies; remove multiplicity")],
    "E19/wrong": [(16, 33, "put a mapper between them, built in (scatter, duplicate)")],
    "E20/wrong-factor": [(5, 53, "a formula has numbers, names, + - * / ^, sizeof(type), log(...),")],
    "E20/wrong": [(4, 25, "a formula has numbers, names, + - * / ^, sizeof(type), log(...),")],
    "E21/wrong-cycle": [(16, 33, "one of them has to begin without the other: receive at S what is now")],
    "E21/wrong-filter": [(20, 32, "use causal filters, which need no later message: repeat or extrapolate")],
    "E21/wrong-rates": [(16, 33, "give both the same number of steps (delta, total), or apply an")],
    "E22/wrong-option": [(0, 0, 'did you mean "D"?')],
    "E22/wrong-terminal": [(11, 14, "it has append, delimiter, file"), (12, 14, 'did you mean "delimiter"?')],
    "E22/wrong": [(2, 13, 'write id="reaction" if they are meant for this model')],
    "E23/wrong-filter": [(5, 23, "built in are: blockafter, checksum, chunk, compress, console, convert, dechunk,")],
    "E23/wrong": [(4, 40, 'did you mean "scatter" or "gather"?')],
    "E24/wrong": [(20, 57, 'write factor="..." here, or at the definition of the filter')],
    "E25/wrong": [(26, 34, 'give "spread" one port for each of them')],
    "E26/wrong": [(12, 11, "all lines of a <code> have the same margin; < and & are written &lt;")],
    "E27/wrong-iterations": [(14, 15, "look at the units of delta and total")],
    "E27/wrong-runtime": [(10, 23, "look at its unit; a bare number is in seconds")],
    "E27/wrong": [(22, 45, "make multiplicity smaller")],
    "E28/wrong-dimension": [(8, 46, 'known spacescales: "x", "y"')],
    "E28/wrong-filter": [(21, 14, "apply it in a mapper or submodel that has the whole array")],
    "E28/wrong": [(8, 46, 'cut it into 8 parts, or write run:mpi="16" on the implementation')],
    "E29/wrong-terminal": [(9, 30, "remove run:open")],
    "E29/wrong": [(23, 15, "remove this coupling, or run:open from the port")],
    "E30/wrong-source": [(5, 24, "copy the file into the folder of the model, or trust it with --allow-outside")],
    "E30/wrong": [(10, 61, "copy the file into the folder of the model, or trust it with --allow-outside")],
    "E31/wrong-extended": [(5, 45, "give it another name")],
    "E31/wrong": [(4, 63, "did you mean uint?")],
    "E32/wrong-queue": [(22, 121, "choose objects for all copies together")],
    "E32/wrong-type": [(22, 87, "a member of an enumeration and a whole number cannot be compared")],
    "E32/wrong-untyped": [(22, 15, 'give forecast.fields datatype="field", too')],
    "E32/wrong-variable": [(22, 94, 'did you mean "every"?')],
    "E32/wrong": [(22, 106, "did you mean step?")],
    "E33/wrong-archive": [(28, 35, 'add run:kind="pool"')],
    "E33/wrong-capacity": [(22, 75, "run:limit says how many bytes may wait for the reader")],
    "E33/wrong-latest": [(22, 77, "remove it")],
    "E33/wrong-latest-archive": [(28, 35, 'an archive is for every object: run:kind="pool"')],
    "E33/wrong-mixed": [(24, 38, "give the objects an in port of their own")],
    "E33/wrong-mixed-later": [(24, 37, "give the objects an in port of their own")],
    "E33/wrong-sent": [(24, 15, "give objects and messages an out port each, or make the attribute optional")],
    "E33/wrong-select": [(22, 59, 'add run:kind="pool", or remove it')],
    "E33/wrong-spread-latest": [(23, 59, "remove run:decomp from the port: rank 0 then has the whole array")],
    "E33/wrong-spread-loss": [(23, 75, "remove run:decomp from the port: rank 0 then has the whole array")],
    "E33/wrong-spread-queue": [(23, 75, "remove run:decomp from the port: rank 0 then has the whole array")],
    "E33/wrong-twice": [(23, 15, 'write one coupling: run:select="(...) or (...)"')],
    "E33/wrong": [(28, 35, 'objects are put and taken by submodels, and by terminals of class="archive"')],
    "E34/wrong-alone": [(27, 66, "remove run:on-death")],
    "E34/wrong-latest": [(27, 66, 'pool that may lose objects in line 29: run:kind="pool" run:loss="allowed"')],
    "E34/wrong-latest-out": [(27, 66, "the newest message of products.maps waits there for atlas.maps (line 30)")],
    "E34/wrong-messages": [
        (29, 49, "let pools lead to it that are queues or may lose objects, or remove run:on-death")
    ],
    "E34/wrong-queue": [(27, 66, "let atlas.maps get each object, without run:share, or remove run:on-death")],
    "E34/wrong-sent": [(27, 49, 'make a pool of the coupling in line 30: run:kind="pool"')],
    "E34/wrong-spread-reader": [(29, 49, "remove run:decomp from the port, or run:on-death")],
    "E34/wrong-spread": [(29, 49, "remove run:decomp from the port, or run:on-death")],
    "E34/wrong": [(27, 66, 'add run:share="queue" (or run:loss="allowed") in line 29')],
    "W01/wrong": [(21, 33, 'give both the same datatype, let "grid" extend "field" if it holds all')],
    "W02/wrong-call": [
        (16, 15, "submodels of overlapping time scales interact: from Oi to S or B, both"),
        (17, 15, "submodels of overlapping time scales interact: from Oi to S or B, both"),
    ],
    "W02/wrong-interact": [
        (16, 15, 'let the slow one, "slow", call the fast one (from Oi to finit), and'),
        (17, 15, 'let the slow one, "slow", call the fast one (from Oi to finit), and'),
    ],
    "W02/wrong-through-mapper": [
        (20, 15, "submodels of overlapping time scales interact: from Oi to S or B, both"),
        (22, 15, "submodels of overlapping time scales interact: from Oi to S or B, both"),
    ],
    "W03/wrong-unused": [(18, 15, "use it, or remove it")],
    "W03/wrong": [(20, 15, 'did you forget <coupling from="micro.end" to="macro.reacted"/>? Else')],
    "W04/wrong": [(18, 15, "each of them gets every message; a fan-out mapper (class duplicate)")],
    "W05/wrong-prefix": [(22, 59, "write run:kind"), (22, 71, "write run:select")],
    "W05/wrong": [(20, 47, 'did you mean "stateful"?')],
    "W06/wrong": [(15, 15, "all instances without coupled finit ports start at once; if that is")],
    "W07/wrong": [(12, 18, 'add the unit, such as delta="0.001 s"')],
    "W08/wrong": [(5, 53, 'known scales: "x"')],
    "W09/wrong": [(6, 9, "remove one of them")],
    "W10/wrong": [(22, 15, "use an id without dots")],
    "W11/wrong": [(16, 32, "if so meant, let a reduction filter with factor 6 (sum, mean, drop)")],
    "W12/wrong-stateful": [(15, 15, 'if its state goes on from call to call, add stateful="yes"; if it does')],
    "W13/wrong-target": [(3, 19, 'did you mean "macro" or "micro"?')],
    "W13/wrong": [(4, 14, 'did you mean "D"?')],
    "W14/wrong-file": [(5, 24, 'did you mean "levels.csv"?')],
    "W14/wrong-staged": [(7, 61, 'did you mean "levels.csv"?')],
    "W14/wrong-source": [(13, 15, 'add <param id="file" value="..."/>: the file whose contents it sends')],
    "W14/wrong": [(10, 41, 'did you mean "diffusion.py"?')],
    "W15/wrong": [(10, 23, 'did you mean "python"?')],
    "W16/wrong": [(5, 30, 'a total of "63 s" would be exactly that many')],
    "W17/wrong": [(4, 25, 'add <param id="n" value="..."/> to the submodel "Flow", or size="..."')],
    "W18/wrong": [(22, 75, "compare it with the attributes of the datatype: step:int[0..]! param:uint!")],
    "W19/wrong": [
        (22, 33, "if that can stop the run, let view receive with a time limit"),
        (23, 34, "if that can stop the run, let flow receive with a time limit"),
    ],
}


def name_of(path: Path) -> str:
    """Return `E06/wrong-ends` of the file of that name."""
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", check_pages.wrong_documents(), ids=name_of)
def test_a_mistake_is_told_with_its_code_its_place_and_a_way_out(path: Path) -> None:
    problems = check_pages.problems_of(path)
    assert {problem.code for problem in problems} == {path.parent.name}
    expected = TOLD[name_of(path)]
    for problem, (line, column, words) in zip(problems, expected, strict=True):
        place = problem.position
        assert (place.line, place.column) == (line, column) if place else (line, column) == (0, 0)
        assert words in f"{problem.message} / {problem.help}"


@pytest.mark.parametrize("path", check_pages.wrong_documents(), ids=name_of)
def test_the_line_of_a_mistake_is_quoted_with_carets_under_what_is_meant(path: Path) -> None:
    for problem in check_pages.problems_of(path):
        if problem.position is None:
            continue
        mark = problem.mark
        assert mark is not None
        source = Path(mark.position.file).read_text(encoding="utf-8").splitlines()
        line = source[mark.position.line - 1]
        assert problem.quote == line
        assert len(line) >= mark.position.column - 1 + mark.length
        _, quoted, carets, *_ = render(problem).splitlines()
        start = carets.index("^")
        assert quoted[start : start + mark.length] == line[mark.position.column - 1 :][: mark.length]


@pytest.mark.parametrize("path", check_pages.right_documents(), ids=name_of)
def test_nothing_is_told_of_a_correct_document(path: Path) -> None:
    assert [str(problem) for problem in check_pages.problems_of(path)] == []


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_documents_and_a_page(code: str) -> None:
    assert list((DOCUMENTS / code).glob("wrong*.xmml"))
    assert list((DOCUMENTS / code).glob("right*.xmml"))
    assert has_page(code)
    assert page(code).startswith(f"# {code}: {CODES[code]}\n")


def test_every_document_is_of_a_code_and_every_page_too() -> None:
    assert {path.name for path in DOCUMENTS.iterdir()} == set(CODES)
    assert {path.stem for path in check_pages.PAGES.glob("*.md")} == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_the_examples_of_a_page_are_the_documents_as_they_are_told_now(code: str) -> None:
    assert page(code) == check_pages.page_of(code), "run: python tests/support/check_pages.py"


def test_the_index_names_every_code() -> None:
    assert check_pages.INDEX.read_text(encoding="utf-8") == check_pages.index()


def test_a_page_is_only_of_a_code() -> None:
    assert not has_page("../pages/E06")
    with pytest.raises(KeyError):
        page("E99")
