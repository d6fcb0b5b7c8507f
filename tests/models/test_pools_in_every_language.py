"""Objects of pools between all languages: every type of an attribute, absent ones, ends, time-outs and errors.

A writer in each language puts the same two objects (`pools/every_type.*`), and a reader in each prints all that it
takes. Programs in C, C++ and Fortran run with the sanitizers, and fail if they leak.
"""

from __future__ import annotations

import re
from pathlib import Path

import compiled
import fortran
import pytest
from every_language import EACH_LANGUAGE, LANGUAGES, java_program, parameters
from model_runs import Run, run_document
from needs import needs_java

POOLS = Path(__file__).parent / "pools"
#: Python gives values as they come.
TYPED_READS = parameters("c", "cpp", "fortran", "java")

ATTRIBUTES = (
    "truth:bool whole:int! natural:uint number:real text:str level:enum(sfc,pl,ml) moment:time wholes:int[] "
    "numbers:real[] raw:bytes absent:int"
)
OF_EVERY_OBJECT = "sys.t,sys.seq,sys.instance,sys.rank,sys.port,sys.size,sys.type,sys.shape,sys.node"
#: What a reader prints of the object that has an attribute of every type; reals and texts by their bytes.
COMPLETE = (
    f"truth,whole,natural,number,text,level,moment,wholes,numbers,raw,{OF_EVERY_OBJECT} truth true whole -3 "
    "natural 9007199254740993 number 3FB999999999999A text 7361792022C2B522 level ml "
    "moment 2026-11-27T12:30:00.250001Z "
    "wholes 1 -2 9007199254740993 numbers 3FB999999999999A C004000000000000 raw 72617720C2B5 elements 1 3"
)
#: The same of the object that has one attribute and no payload.
BARE = f"whole,{OF_EVERY_OBJECT} whole 4 kind 0"


def program(language: str) -> str:
    """The attributes of an implementation."""
    if language == "java":
        # What is printed is ASCII; a wrong use of Java's native interface is printed, too.
        return java_program(POOLS / "EveryType.java", "-Xcheck:jni")
    if language == "python":
        return f'language="python" path="{POOLS / "every_type.py"}"'
    if language == "fortran":
        return f'path="{fortran.compiled(POOLS / "every_type.f90", options=compiled.SANITIZED)}"'
    source = POOLS / f"every_type.{language}"
    return f'path="{compiled.compiled(source, *compiled.SANITIZED)}"'


def model() -> str:
    """A pool from a writer in each language to a reader in each; readers tell `idle` that they have had a time-out."""
    definitions = [
        f'<datatype id="described" run:attributes="{ATTRIBUTES}"/><datatype id="bare" run:attributes="number:int"/>',
        '<submodel id="Idle"><timescale delta="1 s" total="1 s"/>'
        f'<param id="readers" value="{len(LANGUAGES)}"/>'
        '<ports><in id="go" datatype="bare"/><out id="later" datatype="bare"/></ports>'
        f"<implementation {program('python')}/></submodel>",
    ]
    topology = ['<instance id="idle" submodel="Idle"/>']
    ports = {
        "writer": '<out id="objects" datatype="described"/><out id="nowhere" datatype="bare"/>',
        "reader": '<in id="objects" datatype="described"/><in id="later" datatype="bare"/>'
        '<out id="go" datatype="bare"/><in id="nowhere" datatype="bare"/>',
    }
    for language in LANGUAGES:
        implementation = program(language)
        for role in ("writer", "reader"):
            definitions.append(
                f'<submodel id="{role}_{language}"><timescale delta="1 s" total="1 s"/><ports>{ports[role]}</ports>'
                f"<implementation {implementation}/></submodel>"
            )
            topology.append(f'<instance id="{role}_{language}" submodel="{role}_{language}"/>')
    couplings = [(f"writer_{writer}.objects", f"reader_{each}.objects") for writer in LANGUAGES for each in LANGUAGES]
    for language in LANGUAGES:
        couplings += [(f"reader_{language}.go", "idle.go"), ("idle.later", f"reader_{language}.later")]
    topology += [f'<coupling from="{sender}" to="{receiver}" run:kind="pool"/>' for sender, receiver in couplings]
    return (
        '<model id="every_language" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" '
        f'xmlns:run="urn:xmml:run:1"><definitions>{"".join(definitions)}</definitions>'
        f"<topology>{''.join(topology)}</topology></model>"
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    document = tmp_path_factory.mktemp("pools") / "model.xmml"
    document.write_text(model())
    return run_document(document)


def said(run: Run, role: str, language: str, what: str) -> set[str]:
    """What an instance printed of this."""
    lines = run.lines(f"{role}_{language}")
    return {line.partition(": ")[2] for line in lines if line.startswith(f"{what}: ")}


@pytest.mark.parametrize("reader", EACH_LANGUAGE)
@pytest.mark.parametrize("writer", EACH_LANGUAGE)
def test_attributes_of_every_type_read_as_they_were_written(run: Run, writer: str, reader: str) -> None:
    lines = [line for line in run.lines(f"reader_{reader}") if line.startswith(f"writer_{writer} ")]
    assert lines == [f"writer_{writer} {COMPLETE}", f"writer_{writer} {BARE}"]


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_put_says_how_many_readers_choose_the_object(run: Run, language: str) -> None:
    lines = run.lines(f"writer_{language}")
    assert f"readers {len(LANGUAGES)}" in lines
    assert "nowhere 0" in lines


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_put_refuses_an_attribute_that_does_not_exist(run: Run, language: str) -> None:
    problem = f"usage: writer_{language}.objects: there is no attribute 'whloe'; did you mean whole?"
    (found,) = said(run, "writer", language, "unknown")
    assert found.startswith(problem)


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_put_refuses_a_value_of_another_type(run: Run, language: str) -> None:
    (problem,) = said(run, "writer", language, "mistyped")
    assert re.fullmatch(rf"usage: writer_{language}\.objects: whole.* 'x' is .*\bint\b.*", problem)


@needs_java
def test_java_refuses_an_object_that_is_no_value_of_an_attribute(run: Run) -> None:
    (problem,) = said(run, "writer", "java", "no value")
    assert problem.startswith("type: whole: an attribute cannot be a java.lang.Thread; it can be ")


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_take_tells_a_time_out_from_the_end(run: Run, language: str) -> None:
    assert run.lines(f"reader_{language}")[:2] == ["timed out", "ended"]


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_take_on_a_port_that_is_not_coupled_is_an_error(run: Run, language: str) -> None:
    (problem,) = said(run, "reader", language, "nowhere")
    assert problem.startswith(f"port: reader_{language}.nowhere is not coupled")


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_an_attribute_that_no_object_can_have_is_an_error(run: Run, language: str) -> None:
    (problem,) = said(run, "reader", language, "unknown")
    assert problem.startswith("usage: ")
    assert "there is no attribute 'truht'; did you mean truth?" in problem


@pytest.mark.parametrize("language", TYPED_READS)
def test_an_attribute_that_is_read_as_another_type_is_an_error(run: Run, language: str) -> None:
    (problem,) = said(run, "reader", language, "mistyped")
    assert problem.startswith("type: ")
    assert "expected an integer" in problem


@pytest.mark.parametrize("language", parameters("fortran", "java"))
def test_an_attribute_that_a_reader_needs_and_the_object_does_not_have_is_an_error(run: Run, language: str) -> None:
    (problem,) = said(run, "reader", language, "absent")
    kind = {"fortran": "type", "java": "usage"}[language]
    assert problem == f"{kind}: reader_{language}.objects: this object has no text"


@needs_java
@pytest.mark.parametrize("role", ["writer", "reader"])
def test_java_finds_nothing_wrong_with_the_use_of_its_native_interface(run: Run, role: str) -> None:
    assert "WARNING" not in run.output(f"{role}_java")
