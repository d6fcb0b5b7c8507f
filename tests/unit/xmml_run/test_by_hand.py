"""What `xmml-run` says about options for instances that are started by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from xmml_run.run_command import run_model

MODEL = """<model id="pair" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">
  <definitions>
    <submodel id="A"><timescale delta="1 s" total="1 s"/><ports><out id="o" operator="Oi"/></ports>
      <implementation language="python" path="a.py"/></submodel>
    <submodel id="B"><timescale delta="1 s" total="1 s"/><ports><in id="i" operator="S"/></ports>
      <implementation language="python" path="a.py"/></submodel>
  </definitions>
  <topology>
    <instance id="a" submodel="A"/><instance id="b" submodel="B"/><coupling from="a.o" to="b.i"/>
  </topology>
</model>
"""
RELAY = ("--relay", "localhost:40001/alpha")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("")
    Path("model.xmml").write_text(MODEL)
    Path("secret").touch(mode=0o600)
    Path("secret").write_text("0f" * 16)
    Path("short").touch(mode=0o600)
    Path("short").write_text("0f" * 15)
    Path("open").write_text("0f" * 16)
    Path("open").chmod(0o644)
    Path("empty").touch(mode=0o600)
    return "model.xmml"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--by-hand", "b"), "--relay and --run must be given too"),
        ((*RELAY, "--run", "canal=secret"), "--by-hand must be given too"),
        (("--by-hand", "bb", *RELAY, "--run", "canal=secret"), 'there is no instance "bb"'),
        (("--by-hand", "b", *RELAY, "--run", "canal=none"), "make it: openssl rand -hex 32 > none"),
        (("--by-hand", "b", *RELAY, "--run", "canal=open"), "others can read the secret in open; chmod 600 open"),
        (("--by-hand", "b", *RELAY, "--run", "canal=empty"), "holds no hexadecimal digits"),
        (("--by-hand", "b", *RELAY, "--run", "canal=short"), "has 15 bytes; at least 16 are needed"),
    ],
)
def test_what_is_missing_is_said(
    model: str, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert run_model([model, *options]) == 2
    assert words in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.parametrize("relay", ["localhost", "localhost:40001", "localhost:40001/", "localhost:40001/a b"])
def test_a_relay_is_named_with_its_site(model: str, capsys: pytest.CaptureFixture[str], relay: str) -> None:
    with pytest.raises(SystemExit):
        run_model([model, "--by-hand", "b", "--relay", relay, "--run", "canal=secret"])
    assert "is not HOST:PORT/SITE" in capsys.readouterr().err
