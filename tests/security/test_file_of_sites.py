"""The author of a file of sites: who plans with it executes nothing of it, and contacts nobody."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from commands import do
from faulty_models import RECEIVE, SEND, Models

SITES = """
[site.here]
cores = 4
setup = ["touch {folder}/executed"]

[site.there]
ssh = "somebody@127.0.0.1:{port}"
cores = 4
setup = ["touch {folder}/executed"]
"""


@pytest.mark.parametrize("words", [("xmml", "plan"), ("xmml-run", "--dry-run")], ids=" ".join)
def test_who_plans_with_it_executes_nothing_and_contacts_nobody(tmp_path: Path, words: tuple[str, ...]) -> None:
    model = Models(tmp_path).write({"a": SEND, "b": RECEIVE})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        sites = tmp_path / "sites.toml"
        sites.write_text(SITES.format(folder=tmp_path, port=listener.getsockname()[1]))
        planned = do(*words, model, "--sites", sites, "--place", "a=here", "--place", "b=there")
        assert planned.returncode == 0, planned.stderr
        assert "there" in planned.stdout
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not (tmp_path / "executed").exists()
