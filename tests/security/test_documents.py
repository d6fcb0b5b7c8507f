"""The author of a document: who checks, draws, analyses or plans it reads no other file, asks nobody, executes nothing
and waits for nothing; who runs it writes and sends nothing from, or to, elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from commands import XMML, do
from faulty_models import RECEIVE, SEND, Models
from measured import Record
from several_sites import Sites
from somebody import Somebody
from terminals import Terminal
from waiting import LIMIT_S

SECRET = "the-secret-of-somebody"
#: What only looks at a document.
LOOKING = (
    ("xmml", "check"),
    ("xmml", "graph", "-o", "-"),
    ("xmml", "analyse"),
    ("xmml", "plan"),
    ("xmml", "convert", "--to", "xmml", "--expand"),
    ("xmml-run", "--dry-run"),
)
DOCUMENT = """{prolog}<model id="m" xmml_version="0.4" {root} xmlns="http://www.mapper-project.eu/xmml"
    xmlns:run="urn:xmml:run:1" xmlns:xi="http://www.w3.org/2001/XInclude">
<description>{description}</description>
<definitions>
<submodel id="A" {of_a}><timescale delta="1 s" total="1 s"/><ports/>{implementation}</submodel>{definition}
</definitions>
<topology><instance id="a" submodel="A"/>{instance}</topology></model>
"""
PROGRAM = '<implementation language="python" path="program.py"/>'
JOINS = (
    "import xmml\nwith xmml.Instance() as me:\n    while me.reuse():\n        for t in me.steps():\n            pass\n"
)
INCLUDE = '<xi:include parse="text" href="{}"/>'
STAGED = '<implementation language="python" path="program.py" run:stage-in="{}"/>'
SOURCE = (
    '<terminal id="S" type="source" class="csv"><param id="file" value="{}"/><ports><out id="o"/></ports></terminal>'
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the model, in which one works; a secret lies beside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_text(SECRET)
    (folder / "link").symlink_to("../secret")
    (folder / "folder").symlink_to("..")
    (folder / "program.py").write_text(JOINS)
    monkeypatch.chdir(folder)
    return folder


def written(folder: Path, **parts: str) -> Path:
    """Write a document with these parts."""
    given = dict.fromkeys(("prolog", "root", "description", "of_a", "definition", "instance"), "")
    (folder / "model.xmml").write_text(DOCUMENT.format(**{**given, "implementation": PROGRAM, **parts}))
    return folder / "model.xmml"


WAYS = {
    "xi:include": lambda path: {"description": INCLUDE.format(path)},
    "run:stage-in": lambda path: {"implementation": STAGED.format(path)},
    "source": lambda path: {"definition": SOURCE.format(path), "instance": '<instance id="s" terminal="S"/>'},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_elsewhere_is_refused_before_anything_runs(folder: Path, way: str, record_property: Record) -> None:
    paths = ("../secret", "link", "folder/secret", str(folder.parent / "secret"))
    for path in paths:
        ended = do("xmml-run", "-o", folder / "run", written(folder, **WAYS[way](path)))
        assert ended.returncode == 1, ended
        assert re.search(r"error\[E(30|01)\]", ended.stderr), ended
        assert SECRET not in ended.stdout + ended.stderr
        assert not (folder / "run").exists()
    record_property("attempts", len(paths))
    record_property("refused", len(paths))


def test_who_trusts_the_model_has_it_copied(folder: Path) -> None:
    """So the attack is a real one."""
    model = written(folder, implementation=STAGED.format("../secret"))
    assert do("xmml-run", "--allow-outside", "-o", folder / "run", model).returncode == 0
    assert (folder / "run/instances/a/work/secret").read_text() == SECRET


def test_an_external_entity_is_refused(folder: Path) -> None:
    model = written(folder, prolog='<!DOCTYPE model [<!ENTITY e SYSTEM "../secret">]>', description="&e;")
    ended = do("xmml", "check", model)
    assert ended.returncode == 1
    assert "external entity" in ended.stdout + ended.stderr
    assert SECRET not in ended.stdout + ended.stderr


def test_results_elsewhere_are_refused(folder: Path) -> None:
    for path in (str(folder.parent / "x"), "../../../plan.json", "a/../../x"):
        text = f'<implementation language="python" path="program.py" run:stage-out="{path}"/>'
        ended = do("xmml-run", "-o", folder / "run", written(folder, implementation=text))
        assert ended.returncode == 1
        assert "run:stage-out" in ended.stderr
        assert not (folder / "run").exists()


def test_a_plan_that_leads_out_of_the_folder_of_its_run_is_refused(folder: Path) -> None:
    do("xmml", "plan", "-o", folder / "plan.json", written(folder))
    plan = json.loads((folder / "plan.json").read_text())
    (instance,) = plan["instances"]
    for lie in ({"folder": "../../owned"}, {"name": "../../owned"}, {"stage_out": ["../../../../secret"]}):
        (folder / "lie.json").write_text(json.dumps({**plan, "instances": [{**instance, **lie}]}))
        ended = do("xmml-run", "-o", folder / "runs/run", folder / "lie.json")
        assert ended.returncode != 0
        assert "which leads out of the folder of a run" in ended.stderr
        assert not (folder / "runs").exists()


def test_a_link_in_the_folder_of_the_model_sends_no_file_from_elsewhere_to_a_site(sites: Sites) -> None:
    model = sites.write_model()
    (sites.folder / "secret").write_text(SECRET)
    (model.parent / "key.py").symlink_to("../secret")
    words = sites.options(model, {"asks": "alpha", "answers": "beta"})
    ended = do("xmml-run", *words, env=sites.environment, cwd=model.parent)
    assert ended.returncode == 1
    assert 'error[E30]: site alpha would get "key.py", which leads to' in ended.stderr
    assert [server.opened() for server in sites.servers.values()] == [0, 0]


#: Parts of a document that name something at somebody's server; a document with those of the first is right.
NETWORK = {
    "a document type, a style sheet, a schema": {
        "prolog": '<!DOCTYPE model SYSTEM "{0}/dtd"><?xml-stylesheet type="text/xsl" href="{0}/xsl"?>',
        "root": 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xsi:schemaLocation="http://www.mapper-project.eu/xmml {0}/xsd"',
    },
    "an included file": {"description": INCLUDE.format("{0}/part.xml")},
    "an entity": {"prolog": '<!DOCTYPE model [<!ENTITY e SYSTEM "{0}/entity">]>', "description": "&e;"},
}


@pytest.mark.parametrize("what", NETWORK)
def test_nobody_is_asked_over_the_network(folder: Path, somebody: Somebody, what: str) -> None:
    model = written(folder, **{name: text.format(somebody.address) for name, text in NETWORK[what].items()})
    for words in LOOKING:
        do(*words, model)
    assert somebody.asked == []


#: A submodel for each way to have something executed.
EXECUTED = """
<submodel id="Program"><timescale delta="1 s" total="1 s"/><ports/><implementation path="program"/></submodel>
<submodel id="Built"><timescale delta="1 s" total="1 s"/><ports/>
  <implementation path="built" run:build="make built"/></submodel>
<submodel id="Class" class="module:Class"><timescale delta="1 s" total="1 s"/><ports/></submodel>
<submodel id="Code"><timescale delta="1 s" total="1 s"/><ports/>
  <implementation><code language="python" part="Oi">open("{owned}", "w")</code></implementation></submodel>
"""


def test_who_looks_at_a_document_executes_nothing_of_it(folder: Path) -> None:
    owned = folder / "owned"
    (folder / "program").write_text(f"#!/bin/sh\ntouch '{owned}'\n")
    (folder / "program").chmod(0o755)
    (folder / "module.py").write_text(f"open({str(owned)!r}, 'w')\nclass Class:\n    pass\n")
    (folder / "Makefile").write_text(f"built:\n\ttouch '{owned}'\n")
    instances = "".join(f'<instance submodel="{name}"/>' for name in ("Program", "Built", "Class", "Code"))
    model = written(folder, definition=EXECUTED.format(owned=owned), instance=instances)
    for words in LOOKING:
        ended = do(*words, model)
        assert ended.returncode == 0, ended
        assert not owned.exists(), words


def test_who_runs_it_executes_its_programs(folder: Path) -> None:
    """So the attack is a real one."""
    owned = folder / "owned"
    (folder / "program.py").write_text(f"open({str(owned)!r}, 'w')\n{JOINS}")
    assert do("xmml-run", "-o", folder / "run", written(folder)).returncode == 0
    assert owned.exists()


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 13))
BOMBS = {
    "entities that multiply": {
        "prolog": f'<!DOCTYPE model [<!ENTITY e0 "aaaaaaaaaa">{BOMB}]>',
        "description": "&e12;",
    },
    "elements without end": {"description": "<a>" * 100_000},
    "files that include each other": {"description": '<xi:include href="again.xml"/>'},
    "copies without end": {"instance": '<instance id="b" submodel="A" multiplicity="999999999"/>'},
    "a name with blanks without end": {"instance": f'<coupling from="a.b{" " * 500_000}x" to="a.c"/>'},
    "a pipe": {"description": INCLUDE.format("pipe")},
}
#: What a command may take of the address space [bytes].
MOST_BYTES = 1 << 30


@pytest.mark.parametrize("what", BOMBS)
def test_a_document_takes_a_bounded_time_and_memory(folder: Path, what: str) -> None:
    (folder / "again.xml").write_text(
        '<a xmlns:xi="http://www.w3.org/2001/XInclude">' + '<xi:include href="model.xmml"/>' * 10 + "</a>"
    )
    os.mkfifo(folder / "pipe")
    model = written(folder, **BOMBS[what])
    checked = subprocess.run(
        ["prlimit", f"--as={MOST_BYTES}", XMML, "check", model], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert "Traceback" not in checked.stderr
    assert checked.returncode == 1, checked


def test_words_of_a_document_and_of_its_programs_command_no_terminal(models: Models) -> None:
    escapes = "\\033]0;owned\\a\\033[2J"
    talking = SEND.replace("import xmml", f'import xmml\nprint("{escapes}", flush=True)')
    model = models.write({"a": talking, "b": RECEIVE})
    for words in ((XMML, "check"), (XMML + "-run", "-o", str(models.folder / "run"))):
        terminal = Terminal(*words, str(model))
        try:
            assert terminal.end() == 0, terminal.shown
        finally:
            terminal.close()
        assert "\033]" not in terminal.shown
        assert "\033[2J" not in terminal.shown
        assert "\a" not in terminal.shown
