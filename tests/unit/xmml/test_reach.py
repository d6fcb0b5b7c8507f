"""Files that documents name: those below the folder of the model and the working folder, and no other."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from xmml_run.xmml_command import xmml_command

from xmml.check import check
from xmml.document import load
from xmml.patterns import OutsideError, Search
from xmml.problems import Problem
from xmml.reach import reach_of

MODEL = """<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1"
    xmlns:xi="http://www.w3.org/2001/XInclude">
<definitions>
{definition}
</definitions>
<topology>{instance}</topology>
</model>"""
INCLUDED = '<datatype id="field" xmlns="http://www.mapper-project.eu/xmml"/>'
#: How a model names a file.
WAYS = {
    "xi:include": ('<xi:include href="{path}"/>', ""),
    "run:stage-in": (
        '<submodel id="A"><timescale delta="1 s" total="1 s"/><ports/>\n'
        '<implementation path="program" run:stage-in="{path}"/></submodel>',
        '<instance id="a" submodel="A"/>',
    ),
    "source": (
        '<terminal id="S" type="source" class="csv">\n<param id="file" value="{path}"/><ports><out id="o"/></ports>'
        "</terminal>",
        '<instance id="s" terminal="S"/>',
    ),
}
OUTSIDE = ["../../outside/file", "sub/../../../outside/file", "link", "links/file"]

Told = Callable[..., list[Problem]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a project with a model and files beside it. Beside it is what is nobody's business."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for file in ("project/model/sub/file", "project/model/file", "project/common/file", "outside/file"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(INCLUDED)
    model = tmp_path / "project/model"
    (model / "link").symlink_to(tmp_path / "outside/file")
    (model / "links").symlink_to(tmp_path / "outside")
    (model / "program").write_text("#!/bin/sh\n")
    (model / "program").chmod(0o755)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def written(way: str, path: str) -> str:
    """Write a model that names a path; return its own."""
    definition, instance = WAYS[way]
    Path("model/model.xmml").write_text(MODEL.format(definition=definition.format(path=path), instance=instance))
    return "model/model.xmml"


@pytest.fixture
def told(project: Path) -> Told:
    """Check a model that names a path; return the errors."""

    def run(way: str, path: str, **options: object) -> list[Problem]:
        return list(check(written(way, path), **options).errors)  # type: ignore[arg-type]

    return run


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", OUTSIDE)
def test_a_file_elsewhere_is_refused_at_its_place(told: Told, way: str, path: str) -> None:
    (problem,) = told(way, path)
    assert problem.code == "E30"
    assert problem.quote[problem.mark.position.column - 1 :].startswith(("href", "run:stage-in", "value"))  # type: ignore[union-attr]
    assert f'"{path}" leads out' in problem.message
    assert "--allow-outside" in problem.help


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", ["link", "links/file"])
def test_where_a_link_leads_is_said(told: Told, project: Path, way: str, path: str) -> None:
    assert f'leads to "{project.parent / "outside/file"}"' in told(way, path)[0].message


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", ["file", "sub/file", "sub/../file", "../common/file"])
def test_a_file_of_the_project_is_used_when_one_works_there(told: Told, way: str, path: str) -> None:
    assert told(way, path) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_is_named_in_which_one_could_work(
    told: Told, project: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    path = written(way, "../common/file")
    monkeypatch.chdir(project / "common/..")
    assert check(project / path).errors == ()
    monkeypatch.chdir(project.parent / "outside")
    (problem,) = check(project / path).errors
    assert f"or work in {project}," in problem.help


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", OUTSIDE)
def test_who_trusts_a_model_says_so(told: Told, way: str, path: str) -> None:
    assert told(way, path, allow_outside=True) == []


@pytest.mark.parametrize("home", ["home", "."])
def test_a_working_folder_that_holds_the_home_folder_does_not_count(
    told: Told, project: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", str(project / home))
    (problem,) = told("xi:include", "../common/file")
    assert problem.help == "copy the file into the folder of the model, or trust it with --allow-outside"


def test_a_working_folder_that_was_removed_does_not_count(
    told: Told, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written("xi:include", "../common/file")
    (project / "gone").mkdir()
    monkeypatch.chdir(project / "gone")
    (project / "gone").rmdir()
    assert [problem.code for problem in check(project / path).errors] == ["E30"]


@pytest.mark.parametrize(
    "path",
    ["..%2F..%2foutside/file", "%2e%2e/../outside/file", "lin%6B", "./links//file", "none/../../../outside/file"],
)
def test_a_path_that_is_written_otherwise_is_the_same_path(told: Told, path: str) -> None:
    assert [problem.code for problem in told("xi:include", path)] == ["E30"]


def test_a_fallback_does_not_hide_that_a_file_is_elsewhere(told: Told) -> None:
    definition = '<xi:include href="link"><xi:fallback/></xi:include>'
    Path("model/model.xmml").write_text(MODEL.format(definition=definition, instance=""))
    assert [problem.code for problem in check("model/model.xmml").errors] == ["E30"]


def test_an_included_file_reaches_no_further_than_the_model(told: Told, project: Path) -> None:
    inner = '<datatypes xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="{path}"/></datatypes>'
    (project / "common/file").write_text(inner.format(path="../model/file"))
    assert [problem.code for problem in told("xi:include", "../common/file#xpointer(/datatypes/*)")] == []
    (project / "common/file").write_text(inner.format(path="../../outside/file"))
    (problem,) = told("xi:include", "../common/file#xpointer(/datatypes/*)")
    assert problem.code == "E30"
    assert str(problem.position).startswith("model/../common/file:1:")


@pytest.mark.parametrize("way", WAYS)
def test_a_link_that_leads_round_in_a_circle_is_no_file(told: Told, project: Path, way: str) -> None:
    (project / "model/loop").symlink_to("loop")
    result = check(written(way, "loop"))
    assert [problem.code for problem in result.problems if problem.code != "W03"] in (["E01"], ["W14"])


# --- patterns


@pytest.mark.parametrize(
    "pattern", ["*", "l*", "sub/../link*", "links/*", "**/file", "li[n]ks/**", "/*", "../../*/file"]
)
def test_a_pattern_that_leads_elsewhere_is_refused(told: Told, pattern: str) -> None:
    assert [problem.code for problem in told("run:stage-in", pattern)] == ["E30"]


@pytest.mark.parametrize("pattern", ["sub/*", "f*", "sub/**", "s*b", "prog[r]am"])
def test_a_pattern_is_not_refused_for_links_that_it_does_not_name(told: Told, pattern: str) -> None:
    assert told("run:stage-in", pattern) == []


def test_a_link_at_any_depth_of_a_folder_to_stage_is_refused(told: Told, project: Path) -> None:
    (project / "model/sub/deep/.hidden").mkdir(parents=True)
    assert told("run:stage-in", "sub") == []
    (project / "model/sub/deep/.hidden/link").symlink_to("/etc/hostname")
    (problem,) = told("run:stage-in", "sub")
    assert 'model/sub/deep/.hidden/link" leads to "/' in problem.message


def test_links_that_lead_back_up_are_followed_once(told: Told, project: Path) -> None:
    for name in ("link", "links"):
        (project / "model" / name).unlink()
    for name in "ab":
        (project / "model/sub" / name).symlink_to("..")
    found = Search().matches(str(project / "model/sub"), "**/file")
    assert [os.path.relpath(path, project / "model/sub") for path in found] == ["a/file", "b/file", "file"]
    assert told("run:stage-in", "sub") == []


def test_folders_on_the_way_are_looked_at_once(project: Path) -> None:
    for number in range(40):
        (project / "model/sub" / str(number)).mkdir()
    assert len(Search(most=500).matches(str(project / "model/sub"), "**/" * 9 + "*")) == 41


def test_no_more_is_looked_at_than_can_be(told: Told, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (project / "model/sub" / name).symlink_to(".")
    monkeypatch.setattr("xmml.checks.outside.MOST_ENTRIES", 1000)
    monkeypatch.setattr("xmml.checks.programs.MOST_ENTRIES", 1000)
    (problem,) = told("run:stage-in", "sub/" + "*/" * 35)
    assert "leads to more than 1,000 files" in problem.message
    assert "--allow-outside" in problem.help


def test_a_pipe_to_stage_is_told(told: Told, project: Path) -> None:
    os.mkfifo(project / "model/pipe")
    (problem,) = check(written("run:stage-in", "p*e")).problems
    assert (problem.code, problem.message.endswith('model/pipe", which is neither a file nor a folder')) == (
        "W14",
        True,
    )


# --- what people say themselves


def test_a_file_of_parameters_may_lie_anywhere_and_what_it_includes_may_not(told: Told, project: Path) -> None:
    path = written("source", "file")
    elsewhere = project.parent / "outside/values.xml"

    def errors(inside: str) -> list[str]:
        elsewhere.write_text(
            '<parameters id="m" xmlns="http://www.mapper-project.eu/xmml/param" '
            f'xmlns:m="http://www.mapper-project.eu/xmml" xmlns:xi="http://www.w3.org/2001/XInclude">{inside}</parameters>'
        )
        return [f"{problem.code} {problem.position}" for problem in check(path, [elsewhere]).errors]

    (project.parent / "outside/more").write_text(
        '<m:param xmlns:m="http://www.mapper-project.eu/xmml" id="file" value="sub/file"/>'
    )
    assert errors('<xi:include href="more"/>') == []
    assert errors('<xi:include href="../project/model/file"/>')[0].startswith("E02")
    (project.parent / "secret").write_text("")
    assert errors('<xi:include href="../secret"/>')[0].startswith(f"E30 {elsewhere}:1:")


def test_what_a_file_of_parameters_says_of_a_source_is_refused_at_its_place(told: Told, project: Path) -> None:
    values = project / "values.xml"
    values.write_text(
        '<parameters id="m" xmlns="http://www.mapper-project.eu/xmml/param" xmlns:m="http://www.mapper-project.eu/xmml">\n'
        '<m:param id="file" value="links/file"/></parameters>'
    )
    (problem,) = check(written("source", "file"), [values]).errors
    assert (problem.code, str(problem.position)) == ("E30", f"{values}:2:20")


def test_what_the_command_line_says_of_a_source_may_lie_anywhere(told: Told, project: Path) -> None:
    path = written("source", "file")
    assert check(path, overrides={"s.file": str(project.parent / "outside/file")}).errors == ()
    wrong = [problem.code for problem in check(path, overrides={"s.file": "/outside/none"}).problems]
    assert wrong == ["W14", "W03"]


@pytest.mark.parametrize(
    "command", [["check"], ["graph", "-o", "-"], ["analyse"], ["plan"], ["convert", "--to", "ymmsl"]]
)
@pytest.mark.parametrize("way", WAYS)
def test_every_command_refuses_a_file_elsewhere_unless_it_is_told_to_trust(
    project: Path, capsys: pytest.CaptureFixture[str], way: str, command: list[str]
) -> None:
    name, *options = command
    path = written(way, "links/file")
    assert xmml_command([name, path, *options]) == 1
    told = capsys.readouterr()
    assert "error[E30]" in told.out + told.err
    xmml_command([name, path, *options, "--allow-outside"])
    told = capsys.readouterr()
    assert "E30" not in told.out + told.err


@pytest.mark.parametrize("options", [[], ["--expand"]])
def test_a_document_is_not_written_again_with_what_lies_elsewhere(
    project: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    path = written("xi:include", "link")
    assert xmml_command(["convert", path, "--to", "xmml", *options]) == 1
    assert "error[E30]" in capsys.readouterr().err
    assert xmml_command(["convert", path, "--to", "xmml", *options, "--allow-outside"]) == 0


def test_names_of_files_elsewhere_are_not_suggested(told: Told, project: Path) -> None:
    (project.parent / "outside/program").touch()
    (project.parent / "outside/module.py").touch()
    for attributes, implementation in (
        ("", '<implementation path="../../outside/progam"/>'),
        ('class="modul:Class"', '<implementation path="../../outside/x"/>'),
        ("", '<implementation path="links/progam"/>'),
    ):
        definition = (
            f'<submodel id="A" {attributes}><timescale delta="1 s" total="1 s"/><ports/>{implementation}</submodel>'
        )
        Path("model/model.xmml").write_text(MODEL.format(definition=definition, instance='<instance submodel="A"/>'))
        (problem,) = check("model/model.xmml").problems
        assert problem.code == "W14"
        assert "program" not in problem.help
        assert "module" not in problem.help


# --- whatever is written


@pytest.mark.parametrize("seed", range(30))
def test_no_path_leads_to_what_lies_elsewhere(project: Path, seed: int) -> None:
    """The oracle compares inodes: nothing that a document reads or stages is the file outside."""
    choose = random.Random(seed)
    secret = project.parent / "outside/file"
    secret.write_text("secret")
    model = project / "model"
    for number in range(6):
        place = choose.choice([model, model / "sub", project / "common"]) / f"l{number}"
        target = choose.choice(
            ["..", ".", "../..", "../../..", "../../outside", "sub", "l0", "l1/..", str(secret), str(model)]
        )
        place.symlink_to(target)
    words = [
        "..",
        ".",
        "",
        "sub",
        "file",
        "outside",
        "common",
        "model",
        "*",
        "**",
        "l?",
        *(f"l{number}" for number in range(6)),
    ]
    for _ in range(40):
        path = "/".join(choose.choice(words) for _ in range(choose.randint(1, 7)))
        reach = reach_of(str(model / "model.xmml"), allow_outside=False)
        try:
            search = Search(reach, 20_000)
            found = search.matches(str(model), path)
            found += [inner for each in found for inner, _ in search.below(each)]
        except OutsideError:
            found = []
        assert not any(os.path.exists(each) and os.path.samefile(each, secret) for each in found), path
        include = f'<description><xi:include parse="text" href="{path}"/></description>'
        text = MODEL.replace("<definitions>", f"{include}<definitions>").format(definition="", instance="")
        (model / "model.xmml").write_text(text)
        document, _ = load(model / "model.xmml")
        assert document is None or "secret" not in "".join(each.text() for each in document.root.walk()), path
