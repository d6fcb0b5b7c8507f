"""The run extension: every setting, what it refuses, and its schema."""

from __future__ import annotations

import pytest
from lxml import etree
from xmml_schema import RUN

from xmml.check import CheckResult
from xmml.run_options import SETTINGS, SettingError, problems_of, run_options, settings_of
from xmml.tree import parse

XS = "{http://www.w3.org/2001/XMLSchema}"


def element(name: str, attributes: str):  # type: ignore[no-untyped-def]
    return parse(f'<{name} xmlns:run="urn:xmml:run:1" {attributes}/>', "m.xml")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("args", "", ()),
        ("args", "a 'b c' \"d\" e\\ f", ("a", "b c", "d", "e f")),
        ("env", "A=1 B='2 3' C=", {"A": "1", "B": "2 3", "C": ""}),
        ("mpi", "4", 4),
        ("gpus", "0", 0),
        ("stage-in", "grid.nc data/*.csv", ("grid.nc", "data/*.csv")),
        ("stage-exclude", "*.mp4 raw/", ("*.mp4", "raw/")),
        ("methods", "shm,tcp", ("shm", "tcp")),
        ("stage-out", "log.csv out/*.vtk ..data", ("log.csv", "out/*.vtk", "..data")),
        ("methods", " unix , tcp ", ("unix", "tcp")),
        ("methods", "shm,tcp:buffer=4MiB", ("shm", "tcp:buffer=4MiB")),
        ("capacity", "32", 32),
        ("decomp", "block(x:4,y:2)", (("x", 4), ("y", 2))),
        ("decomp", " block ( 0 : 4 ) ", (("0", 4),)),
        ("steps", "until", "until"),
        ("build", " make it ", "make it"),
        ("compress", "yes", "zstd:3"),
        ("compress", "no", None),
        ("compress", "zstd", "zstd:3"),
        ("compress", " zstd:19 ", "zstd:19"),
        ("compress", "lz4", "lz4"),
        ("bind", " core ", "core"),
        ("bind", "0-3, 8", "0-3,8"),
    ],
)
def test_a_setting_has_its_value(name: str, text: str, value: object) -> None:
    assert SETTINGS[name].read(text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("args", "'open"),
        *(("env", text) for text in ("A", "=1", "1A=2", "A B=1", "XMML_INSTANCE=x")),
        *(
            (name, text)
            for name in ("mpi", "threads", "capacity")
            for text in ("0", "-1", "1.5", "x", "", "9999999999", "١")
        ),
        *(("methods", text) for text in ("", ",", "mpi", "tcp,tcp", "tcp;shm", "shm:buffer=1MiB", "tcp:window=3")),
        *(("bind", text) for text in ("", "cores", "-1", "3-1", "0-", "0,,1", "0-99999", "8192", "0x1", "core,0")),
        *(("class", text) for text in ("", "Bulk", "fast")),
        *(("protect", text) for text in ("", "true", "always")),
        *(("compress", text) for text in ("", "true", "zstd:", "zstd:0", "zstd:23", "zstd:03", "zstd:x", "lz4:1")),
        *(("decomp", text) for text in ("", "x:2", "block", "block()", "block(x)", "block(x:0)", "cyclic(x:2)")),
        *(
            ("decomp", text)
            for text in ("block(x:2)(y:2)", "block(x:2,)", "block(x y:2)", "block(x:-1)", "block(x:2))")
        ),
        ("steps", "10"),
        ("order", "no"),
        ("build", " "),
        ("image", " "),
        ("image", "docker://example.org/flow:1"),
        ("host", ""),
        *(("stage-out", text) for text in ("/etc/passwd", "../x", "a/../../x", "ok.csv ..", "'open")),
    ],
)
def test_an_impossible_value_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingError):
        SETTINGS[name].read(text)


def test_an_unknown_setting_is_an_error_with_a_suggestion() -> None:
    (problem,) = problems_of(element("implementation", 'run:arg="x"'))
    assert (problem.code, problem.help) == ("E02", 'did you mean "run:args"?')


def test_a_setting_on_the_wrong_element_is_an_error() -> None:
    (problem,) = problems_of(element("instance", 'run:args="x"'))
    assert problem.help == "it belongs on <implementation>"


def test_impossible_settings_are_left_out_and_told_elsewhere() -> None:
    implementation = element("implementation", 'run:mpi="none" run:threads="2"')
    assert settings_of(implementation) == {"threads": 2}
    assert run_options(implementation).mpi is None
    assert len(problems_of(implementation)) == 1


def test_the_schema_declares_the_same_settings() -> None:
    declared = {attribute.get("name") for attribute in etree.parse(RUN).getroot().findall(f"{XS}attribute")}
    assert declared == set(SETTINGS)


def checked_with_namespace(check_changed, prefix: str, namespace: str) -> CheckResult:  # type: ignore[no-untyped-def]
    """Check the reaction model with a setting of another namespace on a coupling."""
    old = '<coupling from="macro.state" to="micro.start"'
    declared = f'xmlns:{prefix}="{namespace}" {prefix}:capacity="4"'
    return check_changed((old, f"{old} {declared}"))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("prefix", "namespace"),
    [
        ("run", "urn:xmml:run"),
        ("run", "urn:XMML:run:1"),
        ("run", "http://www.mapper-project.eu/xmml"),
        ("r", "urn:xmml:run:2"),
        ("r", "urn:xml:run:1"),
        ("run", "urn:example"),
    ],
)
def test_a_setting_in_a_namespace_that_resembles_ours_is_an_error(  # type: ignore[no-untyped-def]
    check_changed, prefix: str, namespace: str
) -> None:
    (problem,) = checked_with_namespace(check_changed, prefix, namespace).problems
    assert (problem.code, problem.mark.length) == ("E02", len(f"{prefix}:capacity"))
    assert problem.help == f'write xmlns:{prefix}="urn:xmml:run:1", not xmlns:{prefix}="{namespace}"'


@pytest.mark.parametrize("namespace", ["urn:example:run:1", "http://www.mapper-project.eu/mad"])
def test_attributes_of_foreign_namespaces_are_left_alone(check_changed, namespace: str) -> None:  # type: ignore[no-untyped-def]
    assert checked_with_namespace(check_changed, "other", namespace).problems == ()


def test_an_element_in_a_namespace_that_resembles_ours_says_what_to_write(check_changed) -> None:  # type: ignore[no-untyped-def]
    element = '<run:capacity xmlns:run="urn:xmml:run">4</run:capacity>'
    (problem,) = check_changed(("<topology>", f"<topology>{element}")).problems
    assert problem.code == "E02"
    assert problem.help.endswith('write xmlns:run="urn:xmml:run:1", not xmlns:run="urn:xmml:run"')
