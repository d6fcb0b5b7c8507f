"""Objects of pools between all languages: every type of an attribute, absent ones, ends, time-outs and errors.

A writer in each language puts the same two objects and the same groups (`pools/every_type.*`), and a reader in each
prints all that it takes. Programs in C, C++ and Fortran run with the sanitizers, and fail if they leak.
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
from pool_models import model_of, pool

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
#: The same of a group, the second that the writer begins: it has forgotten the first.
GROUP = [f"whole,{OF_EVERY_OBJECT},sys.group,sys.follow whole {6 + i} kind 0 group 1 follow {1 - i}" for i in range(2)]
#: What is wrong with the use of a group that has ended; C and Fortran know only its port.
OVER = {
    "c": "{place}: no group was begun here",
    "cpp": "this group has ended",
    "python": "{place}: this group has not begun, or has ended",
    "fortran": "{place}: no group was begun here",
    "java": "{place}: this group has ended",
}

#: Takes an object, sees none in a while of the group that follows, and none when the writer has died.
READER = """
import time, xmml
with xmml.Instance() as me:
    while me.reuse():
        print(me.take("fields")["step"])
        time.sleep(0.3)
        try:
            print(me.take("fields", timeout=0)["step"])
        except xmml.ReceiveTimeoutError:
            print("nothing more")
        me.put("later", step=0)
        for field in me.objects("fields"):
            print(field["step"])
"""


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
    """A pool from a writer in each language to a reader in each; readers tell `idle` that they have had a time-out, and
    that they tell it nothing more."""
    definitions = [
        f'<datatype id="described" run:attributes="{ATTRIBUTES}"/><datatype id="bare" run:attributes="number:int"/>',
        '<submodel id="Idle"><timescale delta="1 s" total="1 s"/>'
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


def taken_from(run: Run, writer: str, reader: str) -> list[str]:
    """What a reader printed of each object of a writer."""
    name = f"writer_{writer} "
    return [line.removeprefix(name) for line in run.lines(f"reader_{reader}") if line.startswith(name)]


def said(run: Run, role: str, language: str, what: str) -> set[str]:
    """What an instance printed of this."""
    lines = run.lines(f"{role}_{language}")
    return {line.partition(": ")[2] for line in lines if line.startswith(f"{what}: ")}


@pytest.mark.parametrize("reader", EACH_LANGUAGE)
@pytest.mark.parametrize("writer", EACH_LANGUAGE)
def test_attributes_of_every_type_read_as_they_were_written(run: Run, writer: str, reader: str) -> None:
    assert taken_from(run, writer, reader)[:2] == [COMPLETE, BARE]


@pytest.mark.parametrize("reader", EACH_LANGUAGE)
@pytest.mark.parametrize("writer", EACH_LANGUAGE)
def test_groups_that_ended_are_read_whole_and_others_never(run: Run, writer: str, reader: str) -> None:
    assert taken_from(run, writer, reader)[2:] == GROUP


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_put_says_how_many_readers_choose_the_object(run: Run, language: str) -> None:
    lines = run.lines(f"writer_{language}")
    assert f"readers {len(LANGUAGES)}" in lines
    assert "nowhere 0" in lines


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_writer_asks_how_many_readers_would_choose_an_object(run: Run, language: str) -> None:
    assert f"wanted {len(LANGUAGES)} {len(LANGUAGES)}" in run.lines(f"writer_{language}")
    (problem,) = said(run, "writer", language, "unwanted")
    assert problem.startswith(f"usage: writer_{language}.objects: there is no attribute 'whloe'; did you mean whole?")


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_put_refuses_an_attribute_that_does_not_exist(run: Run, language: str) -> None:
    problem = f"usage: writer_{language}.objects: there is no attribute 'whloe'; did you mean whole?"
    (found,) = said(run, "writer", language, "unknown")
    assert found.startswith(problem)


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_put_refuses_a_value_of_another_type(run: Run, language: str) -> None:
    (problem,) = said(run, "writer", language, "mistyped")
    assert re.fullmatch(rf"usage: writer_{language}\.objects: whole.* 'x' is .*\bint\b.*", problem)


@pytest.mark.parametrize("language", parameters("c", "cpp", "fortran", "java"))
def test_the_end_of_a_group_says_how_many_readers_get_some_of_it(run: Run, language: str) -> None:
    assert f"group {len(LANGUAGES)}" in run.lines(f"writer_{language}")


def test_a_reader_sees_the_end_of_writers_in_each_language_that_go_on(run: Run) -> None:
    # They wait for its own end, so that none of them has left.
    assert run.lines("idle") == [f"readers that go {len(LANGUAGES)}"]


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_after_its_end_nothing_is_put(run: Run, language: str) -> None:
    (problem,) = said(run, "reader", language, "late")
    assert problem.startswith(f"usage: reader_{language}.go: nothing can be put here after end()")


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_group_is_refused_where_another_has_not_ended(run: Run, language: str) -> None:
    (problem,) = said(run, "writer", language, "second")
    assert problem.startswith(f"usage: writer_{language}.objects: a group was begun here and has not ended")


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_group_refuses_an_attribute_that_does_not_exist(run: Run, language: str) -> None:
    (problem,) = said(run, "writer", language, "common")
    assert problem.startswith(f"usage: writer_{language}.objects: there is no attribute 'whloe'; did you mean whole?")


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_group_that_has_ended_cannot_be_used(run: Run, language: str) -> None:
    (problem,) = said(run, "writer", language, "over")
    assert problem.startswith(f"usage: {OVER[language].format(place=f'writer_{language}.objects')}")


@pytest.mark.parametrize("language", parameters("c", "fortran", "java"))
def test_a_group_that_is_open_at_the_end_is_forgotten_and_told(run: Run, language: str) -> None:
    warning = "a group that was begun at objects has not ended: its 1 objects were not put"
    assert any(f"writer_{language}" in line and warning in line for line in run.stderr.splitlines())


@pytest.mark.parametrize("language", parameters("fortran", "java"))
def test_nothing_is_seen_of_a_group_in_whose_middle_its_program_dies(tmp_path: Path, language: str) -> None:
    source = POOLS / {"fortran": "dying.f90", "java": "Dying.java"}[language]
    dying = java_program(source) if language == "java" else f'path="{fortran.compiled(source)}"'
    document = model_of(
        tmp_path,
        {"Reader": READER},
        '<instance id="writer" submodel="Dying"/><instance id="reader" submodel="Reader"/>',
        pool("writer", "reader") + '<coupling from="reader.later" to="writer.later" run:kind="pool"/>',
        ports={
            "Dying": '<out id="fields" datatype="field"/><in id="later" datatype="field"/>',
            "Reader": '<in id="fields" datatype="field"/><out id="later" datatype="field"/>',
        },
        writers={"Dying": dying},
    )
    run = run_document(document, status=4)
    assert run.lines("reader") == ["1", "nothing more"]
    assert "writer failed" in run.stderr


@needs_java
def test_java_refuses_an_object_that_is_no_value_of_an_attribute(run: Run) -> None:
    (problem,) = said(run, "writer", "java", "no value")
    assert problem.startswith("type: whole: an attribute cannot be a java.lang.Thread; it can be ")


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_a_take_tells_a_time_out_from_the_end(run: Run, language: str) -> None:
    lines = [line for line in run.lines(f"reader_{language}") if not line.startswith("late: ")]
    assert lines[:2] == ["timed out", "ended"]


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
