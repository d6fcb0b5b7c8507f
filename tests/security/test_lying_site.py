"""A site that somebody has broken into says what it likes; a run over it ends, with a word, and believes little.

The lies are made from every member of every word that a site gateway or an agent can say, and from what it can call a
result.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import liar
import pytest
from folders import below
from measured import Record
from needs import missing
from several_sites import Sites
from wan.soak import LONG
from xmml_executors.launch.site.gateway_protocol import AgentReported, GatewayMessage, gateway_message
from xmml_executors.protocol import AgentReport, agent_report
from xmml_executors.typed_json import ProtocolError, parsed

#: For a member of each type, one that is right, and in which a lie differs in its contents only.
RIGHT: dict[Any, Any] = {int: 1, float: 1.0, bool: True, str: "answers", object: {"is": "over"}}
#: What may stand in the place of any member.
WRONG = [
    None,
    True,
    -1,
    1 << 62,
    1 << 80,
    1e300,
    "",
    "asks",
    "../../../etc",
    "\033]0;owned\a",
    "x" * 100_000,
    [],
    {},
    [[]],
]
MISSING = "missing"
#: Lines that are no words at all.
NONSENSE = [
    "",
    "}",
    "[" * 100_000,
    '{"is": "told"',
    "NaN",
    '{"is": "told", "next": 1e999}',
    "\0\1\2",
    "7",
    '"told"',
    "\u2028",
]
#: Every lie takes a run of some seconds.
SAMPLE = 8


def right(kind: Any) -> Any:
    """Return a value of a type."""
    if kind in RIGHT:
        return RIGHT[kind]
    arguments = get_args(kind)
    if type(None) in arguments:
        return right(next(each for each in arguments if each is not type(None)))
    return {} if len(arguments) == 2 else []


def words(kind: type) -> dict[str, Any]:
    """Return the right object of a word."""
    hints = get_type_hints(kind)
    members = {each.name: right(hints[each.name]) for each in dataclasses.fields(kind)}
    members |= {name: name for name in ("agent", "next") if name in members}
    return {"is": kind.word, **members}  # type: ignore[attr-defined]


def lies_about(kind: type) -> Iterator[dict[str, Any]]:
    """Yield a word with each of its members replaced by each value, or missing, and with one more."""
    whole = words(kind)
    yield whole
    yield {**whole, "more": 1}
    for member in whole:
        yield {name: value for name, value in whole.items() if name != member}
        for value in WRONG:
            yield {**whole, member: value}


def all_lies() -> list[Any]:
    of_gateway = [lie for kind in get_args(GatewayMessage) for lie in lies_about(kind)]
    of_agent = [{**words(AgentReported), "report": lie} for kind in get_args(AgentReport) for lie in lies_about(kind)]
    return [*NONSENSE, *of_gateway, *of_agent]


def chosen_lies() -> list[Any]:
    """Return all lies for the long form, and for the short one some that differ each time as little as possible."""
    lies = all_lies()
    return lies if LONG else lies[:: len(lies) // SAMPLE]


def test_whatever_a_site_says_is_a_word_or_an_error_that_names_the_site(record_property: Record) -> None:
    refusals = [str(error) for lie in all_lies() if (error := refusal(lie)) is not None]
    assert len(refusals) > len(all_lies()) / 2
    assert all(text.startswith("alpha has reported what xmml-run does not understand: ") for text in refusals)
    assert max(map(len, refusals)) < 500
    record_property("attempts", len(all_lies()))
    record_property("refused", len(refusals))


def refusal(lie: object) -> ProtocolError | None:
    """Return the error by which a lie is refused; `None`: it is a word."""
    try:
        message = gateway_message(parsed(lie, "alpha") if isinstance(lie, str) else lie, "alpha")
        if isinstance(message, AgentReported):
            agent_report(message.report, "alpha")
    except ProtocolError as error:
        return error
    return None


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sites]:
    if reason := missing("sshd"):
        pytest.skip(reason)
    command = f"XMML_LIE={shlex.quote(f'{tmp_path}/lie.json')} {shlex.join([sys.executable, liar.__file__])}"
    with Sites(tmp_path, settings={"alpha": f"ForceCommand {command}"}) as sites:
        yield sites


@pytest.mark.parametrize("lie", chosen_lies(), ids=lambda lie: json.dumps(lie)[:60])
def test_a_run_ends_whatever_its_site_says(site: Sites, tmp_path: Path, lie: Any) -> None:
    del site.environment["XMML_SITE_LEASE_S"]  # a site that does not answer any more is given up as usual
    (tmp_path / "lie.json").write_text(json.dumps({"after": "started", "line": lie}))
    before = contents(tmp_path)
    ended = site.end(site.launch(site.write_model(), asks="here", answers="alpha"))
    said = ended.out + ended.err
    # A program of the model that is just joining has one of its own.
    assert not [line for line in said.splitlines() if line.startswith("Traceback")], said
    assert "\033" not in said, said
    assert ended.status in (0, 4, 5), said
    assert (tmp_path / "lie.told").exists(), said
    if ended.status == 0:
        assert "the last answer is 16.1" in said, said
    else:
        assert "alpha" in said or "answers" in said, said
    assert {path for path in contents(tmp_path) - before if not path.startswith(KNOWN)} == set()


#: What is no result of the site's instance: files of the run here, of another instance, and outside of the run.
NO_RESULTS = (
    "plan.json",
    "journal.jsonl",
    ".seal",
    "instances/asks/stdout",
    "instances/answers/work/../../../../owned",
    "/tmp/owned",
    "instances/answers/work/ow\0ned",
    "instances/answers/work/ow\ud800ned",
    "instances/answers/work/ow\r\033[2Jned/",
)
#: What a result may be in the copy, although the list has named it.
NO_FILES = (
    {"path": "instances/answers/../../../owned"},
    {"kind": 1},
    {"kind": 2, "link": "/etc/passwd"},
    {"mode": 0o104755},
    {"size": 1 << 63},
)


def check_refused(site: Sites, tmp_path: Path, lie: dict[str, Any]) -> str:
    """Have a run end over a site that lies about results; check that nothing else is written, return what is said."""
    (tmp_path / "lie.json").write_text(json.dumps(lie))
    before = contents(tmp_path)
    ended = site.end(site.launch(site.write_model(), asks="here", answers="alpha"))
    said = ended.out + ended.err
    assert (tmp_path / "lie.told").exists(), said
    assert "what the run has made at alpha has not all come back" in said, said
    assert "Traceback" not in said, said
    assert {path for path in contents(tmp_path) - before if not path.startswith(KNOWN)} == set()
    assert (site.run_folder / "instances/asks/stdout").read_text() == "the last answer is 16.1\n"
    assert json.loads((site.run_folder / "plan.json").read_text())["instances"]
    assert not [path for path in site.run_folder.rglob("*") if path.is_symlink()]
    return said


@pytest.mark.parametrize("path", NO_RESULTS)
def test_a_result_that_nobody_has_asked_for_is_refused(site: Sites, tmp_path: Path, path: str) -> None:
    said = check_refused(site, tmp_path, {"listed": path})
    assert f"site alpha: it lists a file that was not requested: {path!r}" in said


@pytest.mark.parametrize("entry", NO_FILES, ids=lambda entry: json.dumps(entry))
def test_a_result_that_is_something_else_in_the_copy_is_refused(
    site: Sites, tmp_path: Path, entry: dict[str, Any]
) -> None:
    assert "the listing " in check_refused(site, tmp_path, {"entry": entry})


def test_links_and_pipes_among_the_results_are_left_out(sites: Sites) -> None:
    makes = (
        "import os; os.path.lexists('link') or (os.symlink('/etc/passwd', 'link'), os.symlink('/dev/zero', 'device'), "
        "os.mkfifo('pipe'), open('.seal', 'w').close())"
    )
    ended = sites.end(sites.launch(sites.write_model(answers=makes), asks="here", answers="alpha"))
    ended.check(0, "the last answer is 16.1", "2 symbolic links among the results")
    work = sites.run_folder / "instances/answers/work"
    assert [path.name for path in work.iterdir()] == [".seal"]


#: Below the folder of the test: the run, its model and the sites, which do as they like in their own homes.
KNOWN = ("run", "model", "sites.toml", "lie.told", "alpha/", "beta/")


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in below(folder)}
