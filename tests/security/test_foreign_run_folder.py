"""The author of a run folder: it is looked at, and nothing that it says is done.

The folder is one of a real run over a site, whose `xmml-run` was killed. Its author has put programs into the plan, and
into the journal a folder of the user at the site. That `xmml cancel` and `--resume` act on the genuine folder is shown
by tests/launch/test_interruptions.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import XMML, do
from gates import awaits
from measured import Record
from needs import missing, needs_root
from several_sites import Sites
from terminals import Terminal
from waiting import LIMIT_S, wait_until
from xmml_executors.run_folder import DOOR
from xmml_executors.run_lock import LOCK
from xmml_executors.run_seal import SEAL

ACTING = (
    ("xmml", "cancel", "RUN"),
    ("xmml", "attach", "RUN"),
    ("xmml", "methods", "RUN", "--set", "tcp"),
    ("xmml-run", "--resume", "RUN"),
)
LOOKING = (
    ("xmml", "status", "RUN"),
    ("xmml", "status", "RUN", "--json"),
    ("xmml", "report", "RUN"),
    ("xmml", "methods", "RUN"),
    ("xmml", "logs", "RUN", "asks"),
)
#: Sets the title of a terminal, and clears it.
ESCAPES = "\033]0;owned\a\033[2J\x9b2J"


@dataclass
class Lost:
    """A run over a site whose `xmml-run` was killed."""

    folder: Path
    sites: Sites

    @property
    def contacts(self) -> int:
        """How often somebody has contacted the site."""
        return self.sites.servers["alpha"].opened()

    @property
    def owned(self) -> Path:
        """What the programs in a foreign plan make."""
        return self.sites.folder / "owned"

    @property
    def precious(self) -> Path:
        """A folder of the user at the site."""
        return self.sites.servers["alpha"].home / "precious"

    def do(self, words: tuple[str, ...], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        named = (str(folder) if word == "RUN" else word for word in words)
        return do(*named, cwd=self.sites.folder, env={**self.sites.environment, **environment}, timeout=LIMIT_S)


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lost]:
    if reason := missing("sshd"):
        pytest.skip(reason)
    with Sites(tmp_path_factory.mktemp("lost")) as sites:
        launched = sites.launch(sites.write_model(asks=awaits(sites.folder / "never")), asks="here")
        sites.await_event("joined", 2)
        sites.kill(launched)
        wait_until(lambda: not (sites.run_folder / DOOR).exists(), "its supervisor has not cleaned up")
        lost = Lost(sites.run_folder, sites)
        lost.precious.mkdir()
        yield lost


@pytest.fixture
def foreign(lost: Lost, tmp_path: Path) -> Path:
    """The folder as its author has made it."""
    folder = Path(shutil.copytree(lost.folder, tmp_path / "foreign"))
    plan = json.loads((folder / "plan.json").read_text())
    for instance in plan["instances"]:
        instance["command"] = ["/usr/bin/touch", str(lost.owned)]
    (folder / "plan.json").write_text(json.dumps(plan))
    prepare = {"time": 2, "what": "prepare", "site": "alpha", "folder": str(lost.precious)}
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write(f"{json.dumps(prepare)}\n")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def nothing_done(lost: Lost, folder: Path) -> Iterator[None]:
    """Check that meanwhile nothing is executed, removed, changed or contacted."""
    before, contacts = contents(folder), lost.contacts
    yield
    assert contents(folder) == before
    assert lost.contacts == contacts, "nobody asks the site"
    assert lost.precious.is_dir()
    assert not lost.owned.exists()


def check_refused(lost: Lost, folder: Path, why: str, record: Record, **environment: str) -> None:
    """Check that each command that acts refuses a folder in one line, and does nothing."""
    with nothing_done(lost, folder):
        for words in ACTING:
            ended = lost.do(words, folder, **environment)
            assert (ended.returncode, ended.stdout) == (2, ""), ended
            begins = "xmml-run" if words[0] == "xmml-run" else f"xmml {words[1]}"
            assert re.fullmatch(f"{begins}: {folder} {why}; it can only be looked at\n", ended.stderr), ended.stderr
    record("attempts", len(ACTING))
    record("refused", len(ACTING))


NOT_OURS = "is a copy, or was not made by a run of yours: its seal does not fit"


def test_no_command_acts_on_a_copy(lost: Lost, foreign: Path, record_property: Record) -> None:
    check_refused(lost, foreign, NOT_OURS, record_property)


def test_no_command_acts_on_one_out_of_an_archive(
    lost: Lost, foreign: Path, tmp_path: Path, record_property: Record
) -> None:
    archive = shutil.make_archive(str(tmp_path / "run"), "gztar", foreign)
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    (tmp_path / "unpacked").chmod(0o700)
    check_refused(lost, tmp_path / "unpacked", NOT_OURS, record_property)


def test_no_command_acts_on_one_that_another_user_has_sealed(
    lost: Lost, tmp_path: Path, record_property: Record
) -> None:
    check_refused(lost, lost.folder, NOT_OURS, record_property, XDG_STATE_HOME=str(tmp_path / "another"))


def test_no_command_acts_on_one_without_a_seal(lost: Lost, foreign: Path, record_property: Record) -> None:
    (foreign / SEAL).unlink()
    check_refused(lost, foreign, rf"was not made by a run of yours: {foreign}/\{SEAL}: .*", record_property)


def test_no_command_acts_on_the_genuine_folder_when_its_plan_was_changed(
    lost: Lost, foreign: Path, record_property: Record
) -> None:
    plan = lost.folder / "plan.json"
    genuine = plan.read_text()
    plan.write_text((foreign / "plan.json").read_text())
    try:
        check_refused(lost, lost.folder, NOT_OURS, record_property)
    finally:
        plan.write_text(genuine)


def test_no_command_acts_on_the_genuine_folder_when_others_can_write_in_it(lost: Lost, record_property: Record) -> None:
    lost.folder.chmod(0o770)
    try:
        check_refused(lost, lost.folder, "can be written by others; chmod go-w .*", record_property)
    finally:
        lost.folder.chmod(0o700)


@needs_root
def test_no_command_acts_on_one_that_belongs_to_another_user(
    lost: Lost, foreign: Path, record_property: Record
) -> None:
    os.chown(foreign, 54321, -1)
    check_refused(lost, foreign, "belongs to user 54321", record_property)


def test_who_looks_at_it_contacts_nobody_and_is_recommended_nothing(lost: Lost, foreign: Path) -> None:
    name = f"xmml-foreign-{os.urandom(8).hex()}"
    (foreign / DOOR).write_text(name)
    with nothing_done(lost, foreign), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        listener.settimeout(0)
        for words in LOOKING:
            ended = lost.do(words, foreign)
            assert ended.returncode == 0, ended
            assert "xmml cancel" not in ended.stdout
            assert "--resume" not in ended.stdout
            if "status" in words or "report" in words:
                assert NOT_OURS in ended.stdout
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_its_words_are_shown_and_command_no_terminal(lost: Lost, foreign: Path) -> None:
    every = {"time": 1, "site": "alpha", "instance": None}
    conduits = [each["id"] for each in json.loads((foreign / "plan.json").read_text())["conduits"]]
    with (foreign / "events.jsonl").open("a") as events:
        for event in (
            {"what": "site", "about": "alpha", "text": ESCAPES},
            {"what": "conduits", "conduits": conduits, "method": ESCAPES, "refused": {"tcp": ESCAPES}},
        ):
            events.write(f"{json.dumps({**every, **event})}\n")
    (foreign / "instances/asks/stdout").write_text(f"{ESCAPES}\n")
    for words in LOOKING:
        named = (str(foreign) if word == "RUN" else word for word in words[1:])
        terminal = Terminal(XMML, *named, environment=lost.sites.environment)
        try:
            assert terminal.end() == 0, terminal.shown
        finally:
            terminal.close()
        assert "owned" in terminal.shown, "the words are shown"
        assert not re.search("[\033\a\x9b]", terminal.shown), words


@pytest.mark.parametrize("name", ["plan.json", "events.jsonl", LOCK, SEAL, "instances/asks/stdout"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_in_it_keeps_nobody_waiting(lost: Lost, foreign: Path, name: str, kind: str) -> None:
    (foreign / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(foreign / name)
    else:
        (foreign / name).symlink_to("/dev/zero")
    for words in (("xmml", "cancel", "RUN"), ("xmml", "status", "RUN"), ("xmml", "logs", "RUN", "asks")):
        ended = lost.do(words, foreign)
        assert ended.returncode in (0, 2), ended
        assert "Traceback" not in ended.stderr, ended.stderr


@pytest.mark.parametrize("events", ["nonsense\n", "[]\n", '{"what": 1}\n', '{"what": "site", "about": []}\n'])
def test_nonsense_in_it_is_refused_in_one_line(lost: Lost, foreign: Path, events: str) -> None:
    (foreign / "events.jsonl").write_text(events)
    ended = lost.do(("xmml", "status", "RUN"), foreign)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
