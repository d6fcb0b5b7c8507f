"""`xmml new`: a folder with a model that runs, to begin with."""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import quoteattr

from xmml_run.skeletons import LANGUAGES, makefile
from xmml_run.templates import IN_OPERATORS, TEMPLATES, Sketch, Template

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
#: How the model names each language.
_XMML_LANGUAGE = {"python": "python", "c": "c", "cpp": "c++"}


class NameTaken(Exception):
    """There is such a folder already."""


def write_model(name: str, template_name: str, language: str) -> list[Path]:
    """Write the model into a new folder `name` and return its files, the model document first.

    Raises:
        NameTaken: the folder exists and is not empty.
        ValueError: the name cannot be the id of a model.
        OSError: a file cannot be written.
    """
    folder = Path(name)
    if not _NAME.fullmatch(folder.name):
        raise ValueError(f'"{folder.name}" cannot name a model: a letter, then letters, digits, _ or -')
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NameTaken(f"{folder} exists already; take another name")
    template = TEMPLATES[template_name]
    suffix, skeleton, compiler = LANGUAGES[language]
    files = {"model.xmml": document(folder.name, template, language)}
    files |= {f"{sketch.instance}{suffix}": skeleton(sketch) for sketch in template.sketches}
    if compiler is not None:
        files["Makefile"] = makefile(template.sketches, suffix, compiler)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file in files]


def document(model: str, template: Template, language: str) -> str:
    """Return the model document."""
    lines = [
        f'<model id={quoteattr(model)} xmml_version="0.4"',
        '       xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">',
        f"  <description>{template.about}</description>",
        "  <definitions>",
        *(line for sketch in template.sketches for line in _submodel(sketch, language)),
        "  </definitions>",
        "  <topology>",
        *(_instance(sketch) for sketch in template.sketches),
        *(f'    <coupling from="{sender}" to="{receiver}"/>' for sender, receiver in template.couplings),
        "  </topology>",
        "</model>",
    ]
    return "\n".join(lines) + "\n"


def _instance(sketch: Sketch) -> str:
    """Return the instance; one that receives only while it runs is marked as one that begins."""
    operators = set(sketch.ports.values())
    init = ' init="yes"' if operators & {"S", "B"} and "finit" not in operators else ""
    return f'    <instance id="{sketch.instance}" submodel="{sketch.id}"{init}/>'


def _submodel(sketch: Sketch, language: str) -> list[str]:
    suffix, _, compiler = LANGUAGES[language]
    program = sketch.instance if compiler else f"{sketch.instance}{suffix}"
    build = f' run:build="make {sketch.instance}"' if compiler else ""
    ports = [
        f'        <{"in" if operator in IN_OPERATORS else "out"} id="{port}" operator="{operator}"/>'
        for port, operator in sketch.ports.items()
    ]
    return [
        f'    <submodel id="{sketch.id}">',
        f"      <description>{sketch.about}</description>",
        f'      <timescale delta="{sketch.delta}" total="{sketch.total}"/>',
        '      <param id="initial" value="1.0"/>',
        "      <ports>",
        *ports,
        "      </ports>",
        f'      <implementation language="{_XMML_LANGUAGE[language]}" path="{program}"{build}/>',
        "    </submodel>",
    ]
