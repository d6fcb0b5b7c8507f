"""Handles of ports that travel from process to process."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_runs import RunModel
from needs import needs_java

HERE = Path(__file__).parent


@pytest.mark.parametrize("method", ["shm", "unix", "tcp"])
def test_a_handle_passes_a_third_process_and_whoever_gets_it_sends_directly(run_model: RunModel, method: str) -> None:
    run = run_model(HERE / "handles", "-p", f"server.methods={method}")
    said, questions = run.lines("server")
    assert int(said.split()[0]) <= 512
    assert f"by {method} (" in said
    assert questions == "100 questions"
    assert run.lines("client") == ["server questions", f"client.questions -> server.questions {method}"]


def test_without_chosen_methods_a_handle_has_at_most_64_bytes(run_model: RunModel) -> None:
    run = run_model(HERE / "handles", "-p", "server.methods=")
    said, _ = run.lines("server")
    assert int(said.split()[0]) <= 64
    assert "as the coordinator knows" in said
    assert run.lines("client")[1].endswith(" shm")


def test_whoever_waits_for_a_handle_to_be_used_by_somebody_who_waits_for_it_is_in_a_deadlock(
    run_model: RunModel,
) -> None:
    run = run_model(HERE / "handles_deadlock", status=6)
    assert "server waits at an open port for whoever has a handle of it; client sends nothing" in run.stderr
    assert "client waits at answer for the first message of server.answer" in run.stderr


@needs_java
@pytest.mark.parametrize("methods", ["shm", "tcp"])
def test_handles_go_round_in_five_languages(run_model: RunModel, monkeypatch: pytest.MonkeyPatch, methods: str) -> None:
    monkeypatch.setenv("XMML_METHODS", methods)
    run = run_model(HERE / "handle_ring")
    for language in ("python", "c", "cpp", "fortran", "java"):
        assert run.lines(f"in_{language}")[-1] == "45", language
    assert run.lines("in_c")[0] == "handle 0 of in_c.questions ("
