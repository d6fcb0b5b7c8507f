"""What is wrong is not the programs: the document, the command line, ports, the disk."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from faulty_models import RECEIVE, SEND, WAIT, Models
from gates import sends_half_until


def test_an_unreadable_model(models: Models) -> None:
    path = models.folder / "model.xmml"
    path.write_bytes(b"\xff\xfe\x00 not xml")
    models.run(path).check(1, "xmml-run:", "model.xmml")


def test_a_model_that_does_not_exist(models: Models) -> None:
    models.run(models.folder / "nothere.xmml").check(1, "nothere.xmml")


def test_a_model_with_an_error_names_the_first_and_counts_the_others(models: Models) -> None:
    path = models.write({"a": SEND, "b": RECEIVE}, couplings=[("a.oo", "b.i"), ("a.o", "b.ii")])
    models.run(path).check(1, "model.xmml:3:", "(and 1 more)")


def test_json_is_one_object_also_when_the_model_has_errors(models: Models) -> None:
    ended = models.run(models.folder / "nothere.xmml", "--json")
    assert json.loads(ended.out)["exit_status"] == ended.status == 1


def test_wrong_usage(models: Models) -> None:
    models.run(models.write({"a": SEND, "b": RECEIVE}), "--nonsense").check(2, "--nonsense")


@pytest.mark.parametrize("limit", ["soon", "-1", "inf"])
def test_a_reconnect_limit_that_is_no_time(models: Models, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setenv("XMML_AWAY_LIMIT_S", limit)
    ended = models.run(models.write({"a": SEND, "b": RECEIVE}))
    ended.check(5, f"xmml-run: XMML_AWAY_LIMIT_S={limit} is not possible: expected a number of seconds, 0 or more")
    assert not (models.folder / "run").exists()


def test_debugging_an_instance_that_does_not_exist(models: Models) -> None:
    models.run(models.write({"a": SEND, "b": RECEIVE}), "--debug", "c").check(2, 'no instance "c"')


def test_a_port_in_use(models: Models) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = models.run(models.write({"a": SEND, "b": RECEIVE}), "--listen", address)
    ended.check(5, address, "use")


def test_a_host_to_listen_at_that_there_is_not(models: Models) -> None:
    ended = models.run(models.write({"a": SEND, "b": RECEIVE}), "--listen", "nowhere.invalid:1")
    ended.check(5, "cannot listen on nowhere.invalid:1: cannot find the address nowhere.invalid:1")


def test_a_free_port_is_listened_on(models: Models) -> None:
    assert models.run(models.write({"a": SEND, "b": RECEIVE}), "--listen", "127.0.0.1:0").status == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> list[str]:
    """A command that gives what it runs a nearly full disk at `disk`, in a mount namespace of its own."""
    (tmp_path / "disk").mkdir()
    script = f'mount -t tmpfs -o size=256k none "{tmp_path}/disk" && exec "$@"'
    wrapper = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mount namespaces are not permitted here")
    return wrapper


def test_a_full_disk(models: Models, small_disk: list[str]) -> None:
    talkative = "while True:\n    print('x' * 1000)\n"
    model = models.write({"a": talkative, "b": WAIT})
    ended = models.start(model, "-q", wrapper=small_disk, folder=models.folder / "disk/run").end()
    ended.check(5, "cannot be written", "No space left on device")


def test_a_disk_that_is_full_from_the_beginning(models: Models, small_disk: list[str]) -> None:
    script = f'head -c 1M /dev/zero > "{models.folder}/disk/filler" 2>/dev/null; exec "$@"'
    model = models.write({"a": SEND, "b": RECEIVE})
    wrapper = [*small_disk, "sh", "-c", script, "sh"]
    models.start(model, wrapper=wrapper, folder=models.folder / "disk/run").end().check(5, "No space left on device")


def test_an_instance_that_meets_a_full_disk_itself(models: Models, small_disk: list[str]) -> None:
    program = SEND.replace('me.send("o", t)', 'me.send("o", t); open("/dev/full", "w", buffering=1).write("x\\n")')
    ended = models.run(models.write({"a": program, "b": RECEIVE}))
    ended.check(4, "a failed", "No space left on device", "instances/a/stderr")


def test_a_run_folder_that_cannot_be_made(models: Models) -> None:
    (models.folder / "file").write_text("")
    model = models.write({"a": SEND, "b": RECEIVE})
    models.start(model, folder=models.folder / "file/run").end().check(5, "cannot be written", "file/run")


def test_a_run_folder_that_is_removed_while_the_run_goes_on(models: Models) -> None:
    going = models.start(models.write({"a": WAIT, "b": WAIT}))
    going.wait_for_event("started", 2)
    shutil.rmtree(models.folder / "run")
    ended = going.end()
    ended.check(5, "run/events.jsonl was removed while the run went on")
    assert "see " not in ended.last_line, "nothing is there to look into"


def test_a_run_folder_that_is_exchanged_while_the_run_goes_on(models: Models) -> None:
    going = models.start(models.write({"a": WAIT, "b": WAIT}))
    going.wait_for_event("started", 2)
    moved = (models.folder / "run").rename(models.folder / "moved")
    precious = models.folder / "precious"
    precious.write_text("precious")
    (models.folder / "run").mkdir()
    for name in ("events.jsonl", "report.html", "profile.json", "provenance.json", ".secret"):
        (models.folder / "run" / name).symlink_to(precious)
    planted = sorted((models.folder / "run").iterdir())
    ended = going.end()
    ended.check(5, "/run was exchanged for something else while the run went on")
    assert "see " not in ended.last_line, "what is there is not of the run"
    assert precious.read_text() == "precious"
    assert sorted((models.folder / "run").iterdir()) == planted
    assert {"report.html", "profile.json", "provenance.json"} <= set(os.listdir(moved))
    assert not (moved / ".secret").exists()


def test_a_run_folder_that_is_moved_while_the_run_goes_on(models: Models) -> None:
    gate = models.folder / "gate"
    going = models.start(models.write({"a": sends_half_until(gate, 1), "b": RECEIVE}))
    going.wait_for_event("joined", 2)
    moved = (models.folder / "run").rename(models.folder / "moved")
    gate.touch()
    assert going.end().status == 0
    assert not (models.folder / "run").exists()
    assert (moved / "instances/b/stdout").read_text().count("\n") == 3
    assert (moved / "report.html").exists()


def test_nothing_is_left_outside_the_run_folder(
    models: Models, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    shared_memory = set(os.listdir("/dev/shm"))
    model = models.write({"a": SEND, "b": RECEIVE})
    files = set(models.folder.iterdir())
    assert models.run(model).status == 0
    assert set(models.folder.iterdir()) - files == {models.folder / "run"}
    assert not (models.folder / "run/.secret").exists()
    assert not list(temporary.iterdir())
    assert not {name for name in set(os.listdir("/dev/shm")) - shared_memory if "xmml" in name}


#: A locale in which Python writes ASCII only; without the last two it would help itself.
ASCII_ONLY = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_a_locale_that_lacks_the_characters_of_a_message(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    path = models.write({"a": SEND, "b": RECEIVE}, couplings=[("a.ö", "b.i")])
    for name, value in ASCII_ONLY.items():
        monkeypatch.setenv(name, value)
    models.run(path).check(1, 'no port "\\xf6"')


def test_a_locale_that_lacks_the_characters_of_a_folder(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    models.folder /= "größe"
    models.folder.mkdir()
    path = models.write({"a": SEND, "b": RECEIVE})
    for name, value in ASCII_ONLY.items():
        monkeypatch.setenv(name, value)
    models.run(path).check(5, "LC_ALL=C.UTF-8")
