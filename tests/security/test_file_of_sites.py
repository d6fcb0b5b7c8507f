"""The author of a file of sites: who plans with it executes nothing of it, and contacts nobody."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest
from commands import XMML, do
from faulty_models import RECEIVE, SEND, Models
from waiting import LIMIT_S

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


HOSTILE = {
    "a time": ('[site.a]\nssh = "a"\ncores = 4\nwalltime = "' + ".e" * 100_000 + ' x y"\n', "walltime"),
    "a size": ('[site.a]\nssh = "a"\ncores = 4\nmemory = "1' + " " * 100_000 + 'x y"\n', "memory"),
    "digits": ("[site.a]\ncores = " + "9" * 100_000 + "\n", "more than 64 bits"),
    "a dotted key": (".".join(["a"] * 50_000) + " = 1\n", "more than 64 parts"),
    "a dotted table": ("[" + " . ".join(['"a"'] * 50_000) + "]\n", "more than 64 parts"),
    "tables in tables": ("a = " + "{a = " * 330 + "1" + "}" * 330 + "\n", "S0"),
    "parts of parts": (
        '[site.s0]\nssh = "a"\ncores = 4\n'
        + "".join(f'[site.s{number}]\nlike = "s{number - 1}"\n' for number in range(1, 20_000)),
        "more than 16 deep",
    ),
}
#: What a command may take of the address space [bytes].
MOST_BYTES = 1 << 30


@pytest.mark.parametrize("what", HOSTILE)
def test_a_file_that_is_hard_to_read_is_refused_at_once(tmp_path: Path, what: str) -> None:
    model = Models(tmp_path).write({"a": SEND, "b": RECEIVE})
    text, said = HOSTILE[what]
    (tmp_path / "sites.toml").write_text(text)
    words = ["prlimit", f"--as={MOST_BYTES}", XMML, "plan", str(model), "--sites", str(tmp_path / "sites.toml")]
    planned = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
    assert planned.returncode == 1, planned
    assert said in planned.stderr
    assert "Traceback" not in planned.stderr
