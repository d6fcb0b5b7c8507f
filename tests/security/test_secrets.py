"""The secret of a run stands in files that only their owner can read, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from disclosed import Secret, mode_of, started_by
from gates import awaits
from several_sites import Sites
from xmml_native.mto import relay_key

HERE = ("xmml-run", "mto")
AT_SITES = {"alpha": ("mto site", "asks.py"), "beta": ("mto site", "answers.py")}


def test_the_secret_of_a_run_is_in_no_list_of_processes_and_in_no_log(sites: Sites) -> None:
    sites.method = "relay"
    go_on = sites.folder / "go-on"
    running = sites.launch(sites.write_model(asks=awaits(go_on)))
    sites.await_event("joined", 2)
    written = sites.run_folder / ".secret"
    secret = Secret(bytes.fromhex(written.read_text()))
    assert secret.shown_by_processes() == []
    check_that_others_see_no_environment(started_by(running.pid), HERE)
    for name, programs in AT_SITES.items():
        check_that_others_see_no_environment(sites.servers[name].processes(), programs)
    assert secret.files_below(sites.run_folder) == [written]
    assert mode_of(written) == 0o600
    for server in sites.servers.values():
        [held] = secret.files_below(server.folder)
        assert held.parent.parent == server.home / "xmml" / "runs", held
        assert (mode_of(held), mode_of(held.parent)) == (0o600, 0o700), held
    go_on.touch()
    ended = sites.end(running).check(0)
    assert not secret.is_in((ended.out + ended.err).encode())
    assert secret.files_below(sites.folder) == []


def test_no_relay_of_a_run_holds_its_secret(sites: Sites) -> None:
    sites.method = "relay"
    sites.give_queue("alpha", "openpbs")
    go_on = sites.folder / "go-on"
    running = sites.launch(sites.write_model(asks=awaits(go_on)))
    sites.await_event("joined", 2)
    secret = bytes.fromhex((sites.run_folder / ".secret").read_text())
    key = Secret(bytes.fromhex(relay_key(secret).removeprefix("relay-key:")))
    here = [process for process, line in started_by(running.pid).items() if "mto --site " in line]
    there = [process for process, line in sites.servers["alpha"].processes().items() if " talk " in f"{line} "]
    assert (len(here), len(there)) == (1, 1)
    assert Secret(secret).is_in_memory_of(running.pid)
    for relay in (*here, *there):
        assert key.is_in_memory_of(relay)
        assert not Secret(secret).is_in_memory_of(relay)
    go_on.touch()
    sites.end(running).check(0)


def check_that_others_see_no_environment(lines: dict[int, str], programs: tuple[str, ...]) -> None:
    """Check it of each of these programs, which are among the processes with these command lines."""
    for program in programs:
        found = [process for process, line in lines.items() if f"/{program} " in f"{line} "]
        assert found, f"{program} is not among {lines}"
        assert {mode_of(Path(f"/proc/{process}/environ")) for process in found} == {0o400}, program
